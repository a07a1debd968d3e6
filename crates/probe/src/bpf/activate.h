/* SPDX-License-Identifier: GPL-2.0 */
/* SO_LOG by the program itself, the mark in the SYN, and connections that are already open. */
#ifndef SOCKSCOPE_ACTIVATE_H
#define SOCKSCOPE_ACTIVATE_H

#define SOL_SOCKSCOPE 0x5350
#define SO_LOG 1
#define ENOMEM 12
#define SOCK_RCVBUF_LOCK 2

/* The most that tcp_set_rcvlowat() gives to a socket. */
static __always_inline __u32 low_mark_max(__u64 address)
{
	struct sock *sk = KERNEL_CAST(sock, address);
	const struct net *net;

	if (FIELD_BITS(sk, sk_userlocks) & SOCK_RCVBUF_LOCK)
		return FIELD(sk, sk_rcvbuf) >> 1;
	net = FIELD(sk, __sk_common.skc_net.net);
	return FIELD(net, ipv4.sysctl_tcp_rmem[2]) >> 1;
}

/* The size granted to a datagram socket shows when its next datagram arrives. */
static __always_inline void note_resize(struct bpf_sock *sk)
{
	struct udp_socket *known = bpf_sk_storage_get(&udp_sockets, sk, 0, 0);

	if (known)
		known->is_resized = 1;
}

static __always_inline bool is_size(__s32 option)
{
	return option == SO_SNDBUF || option == SO_RCVBUF || option == SO_SNDBUFFORCE ||
	       option == SO_RCVBUFFORCE;
}

/* Whether the recorder logs anything of such sockets at all. */
static __always_inline bool can_be_logged(const struct bpf_sock *sk)
{
	return (sk->family == AF_INET || sk->family == AF_INET6) &&
	       (sk->protocol == IPPROTO_TCP || sk->protocol == IPPROTO_UDP);
}

/* Whether a socket in this state has, or had, a peer that answered. */
static __always_inline bool has_peer(__u8 state)
{
	return state != TCP_CLOSE && state != TCP_SYN_SENT && state != TCP_NEW_SYN_RECV &&
	       state != TCP_LISTEN;
}

/*
 * The flow that a socket sends now, if its connection is logged, else 0. The options of one in SYN_SENT are
 * reported when that ends. A closed one sends nothing more.
 */
static __always_inline __u32 logged_flow_of(struct bpf_sock *sk)
{
	const struct told_of *last = bpf_sk_storage_get(&told_of, sk, 0, 0);
	const struct flow_slot *slot;
	struct sock *full;

	if (!last || !last->flow)
		return 0;
	full = KERNEL_CAST(sock, ADDRESS_OF(sk));
	if (sk->protocol == IPPROTO_TCP && !has_peer(FIELD(full, __sk_common.skc_state)))
		return 0;
	slot = &flows[last->slot & (FLOW_SLOTS - 1)];
	return slot->connection == last->flow / 2 ? last->flow : 0;
}

#define SO_LOG_OF_ALL 0
#define SO_LOG_OF_OWN 1

/* Whether sockets of the caller's user may ask to be logged. */
static __always_inline bool may_ask(void)
{
	__u32 user = (__u32)bpf_get_current_uid_gid();

	if (pick.so_log == SO_LOG_OF_ALL)
		return true;
	return pick.so_log == SO_LOG_OF_OWN && (!user || user == pick.owner);
}

/*
 * Whether nothing makes the socket logged any more, whose connection is not logged now: that was decided when
 * the connection opened, and the caller may not ask for it. Before that it is unknown: an address and a port
 * are picked of the peer as well, and a socket that no pick chooses may connect to one that is chosen. So is a
 * datagram socket's next peer. Another program that has the socket may still ask, and a socket that disconnects
 * can connect again: then its options from here on are as those from before the recording.
 */
static __always_inline bool is_out_of_reach(const struct bpf_sock *sk)
{
	struct sock *full = KERNEL_CAST(sock, ADDRESS_OF(sk));

	return sk->protocol == IPPROTO_TCP && has_peer(FIELD(full, __sk_common.skc_state)) && !may_ask();
}

/* The kernel holds the socket's lock meanwhile, so that its options are noted one after the other. */
static __always_inline void note_option(struct bpf_sockopt *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	__u64 now = bpf_ktime_get_ns();
	__u8 *value = ctx->optval;
	struct kept_options *kept;
	struct kept_option *place;
	__u32 flow;

	if ((ctx->level != SOL_SOCKET && ctx->level != SOL_TCP) || ctx->optlen < 4)
		return;
	if (value + 4 > (__u8 *)ctx->optval_end)
		return;
	if (!sk || !can_be_logged(sk))
		return;
	if (sk->protocol == IPPROTO_UDP && ctx->level == SOL_SOCKET && is_size(ctx->optname))
		note_resize(sk);
	flow = logged_flow_of(sk);
	if (!flow && is_out_of_reach(sk))
		return;
	kept = bpf_sk_storage_get(&kept_options, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!kept) {
		/* No memory: whether the socket will ever be logged cannot be remembered either. */
		__sync_fetch_and_add(&options_missed, 1);
		return;
	}
	place = place_for(kept, ctx->level, ctx->optname);
	if (place) {
		place->thread = (__u32)bpf_get_current_pid_tgid();
		place->value = *(__u32 *)value;
		place->level = ctx->level;
		place->option = ctx->optname;
		place->most = ctx->level == SOL_SOCKET && ctx->optname == SO_RCVLOWAT ?
				      low_mark_max(ADDRESS_OF(sk)) :
				      0;
	}
	if (flow)
		tell_options(kept, flow, now, 0, 0);
}

static __always_inline bool asks_to_log(struct bpf_sockopt *ctx)
{
	__u8 *value = ctx->optval;

	/* -1: the program of another recorder took it before, and the value is still there. */
	return (ctx->optlen >= 4 || ctx->optlen == -1) &&
	       value + 4 <= (__u8 *)ctx->optval_end && *(__u32 *)value;
}

/*
 * Whether a user other than root and the recording one asks while something else is picked. Such requests
 * get a share of the recording. Where nothing else is picked, they are the recording.
 */
static __always_inline bool asks_for_others(void)
{
	__u32 user = (__u32)bpf_get_current_uid_gid();

	return (pick.any || pick.in_band) && user && user != pick.owner;
}

/* A kernel without sockscope answers SO_LOG with ENOPROTOOPT; this program takes it. */
SEC("cgroup/setsockopt")
int so_log(struct bpf_sockopt *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct mark *mark;
	struct sock *full;
	struct tuple t;
	struct key k;
	bool of_others;
	__u64 address;

	if (ctx->level != SOL_SOCKSCOPE) {
		note_option(ctx);
		return 1;
	}
	if (ctx->optname != SO_LOG || !sk || !may_ask())
		return 1;
	if (!asks_to_log(ctx)) {
		bpf_sk_storage_delete(&marked, sk);
		ctx->optlen = -1;
		return 1;
	}
	mark = bpf_sk_storage_get(&marked, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!mark) {
		/* No memory for it: the program learns that its socket is not recorded. */
		bpf_set_retval(-ENOMEM);
		return 0;
	}
	of_others = asks_for_others();
	if (!mark->logged || !of_others)
		mark->of_others = of_others;
	mark->logged = 1;
	address = ADDRESS_OF(sk);
	full = KERNEL_CAST(sock, address);
	if (FIELD(full, sk_protocol) == IPPROTO_TCP) {
		if (FIELD(full, __sk_common.skc_state) == TCP_LISTEN) {
			add_listener(address, of_others);
		} else if (FIELD(full, __sk_common.skc_state) == TCP_ESTABLISHED &&
			   tuple_of_sock(full, IPPROTO_TCP, &t)) {
			key_of_sock(full, &t, &k);
			if (!logged_flow_of(sk))
				join_connection(full, &k, &t,
						bpf_sk_storage_get(&told_of, sk, 0,
								   BPF_SK_STORAGE_GET_F_CREATE),
						bpf_sk_storage_get(&kept_options, sk, 0, 0), of_others);
		}
	}
	ctx->optlen = -1;
	return 1;
}

/*
 * accept() asks for the address of the connection that it returns, unless its caller wants none, as getpeername()
 * does later (inet_getname()). The first time shows that a program has the connection. No program runs here for
 * any other call and for any packet. The kernel holds the socket's lock meanwhile.
 */
static __always_inline int peer_was_asked(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct task_struct *task;
	const struct flow_slot *slot;
	struct told_of *told;
	struct event *e;
	__u32 flow;

	if (!sk || ctx->protocol != IPPROTO_TCP)
		return 1;
	told = bpf_sk_storage_get(&told_of, sk, 0, 0);
	if (!told || told->is_accepted)
		return 1;
	flow = told->flow;
	slot = &flows[told->slot & (FLOW_SLOTS - 1)];
	if (!(flow & 1) || slot->connection != flow / 2)
		return 1;
	told->is_accepted = 1;
	e = reserve_event(EVENT_ACCEPT, is_of_others(slot));
	if (!e)
		return 1;
	task = bpf_get_current_task_btf();
	e->connection = flow / 2;
	e->flow = flow;
	e->pid = task->tgid;
	e->thread = task->pid;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 1;
}

SEC("cgroup/getpeername4")
int accept4(struct bpf_sock_addr *ctx)
{
	return peer_was_asked(ctx);
}

SEC("cgroup/getpeername6")
int accept6(struct bpf_sock_addr *ctx)
{
	return peer_was_asked(ctx);
}

/*
 * close() takes a socket out of its sockmap before TCP changes its state, and data that a sockmap hands over passes no
 * other hook: this one runs before.
 */
SEC("cgroup/sock_release")
int release(struct bpf_sock *ctx)
{
	struct sock *sk;

	if (ctx->protocol != IPPROTO_TCP)
		return 1;
	sk = KERNEL_CAST(sock, ADDRESS_OF(ctx));
	if (may_have_layer(sk))
		tell_layers(bpf_sk_storage_get(&told_of, ctx, 0, 0), layers_of(sk));
	return 1;
}

/* The TCP socket, over IPv4 or IPv6, that an open file is, or NULL. */
static __always_inline struct sock *tcp_socket_of(const struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;
	struct socket *socket;
	struct sock *sk;

	if (!ctx->task || !file)
		return NULL;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return NULL;
	sk = socket->sk;
	if (!sk || FIELD(sk, sk_protocol) != IPPROTO_TCP ||
	    (FIELD(sk, __sk_common.skc_family) != AF_INET && FIELD(sk, __sk_common.skc_family) != AF_INET6))
		return NULL;
	return sk;
}

/* Connections and listeners that were there before: one pass over all open files. */
SEC("iter/task_file")
int existing(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct sock *sk = tcp_socket_of(ctx);
	struct tuple t;
	struct key k;
	__u8 state;

	if (!task || !sk || !pick.any)
		return 0;
	if (pick.has_cgroup && !in_picked_cgroup(FIELD(sk, sk_cgrp_data.cgroup)))
		return 0;
	if (pick.pids || pick.has_comm) {
		__u64 comm[2] = {};

		bpf_probe_read_kernel(comm, sizeof(comm), task->group_leader->comm);
		if (!process_is_picked(task->tgid, comm))
			return 0;
	}
	state = FIELD(sk, __sk_common.skc_state);
	if (state == TCP_LISTEN) {
		if (pick.pids || pick.has_comm)
			add_listener((__u64)sk, false);
		return 0;
	}
	if (!has_peer(state) || !tuple_of_sock(sk, IPPROTO_TCP, &t) || !tuple_is_picked(&t))
		return 0;
	key_of_sock(sk, &t, &k);
	/* Options are kept since just now: the present ones are from before. */
	join_connection(sk, &k, &t,
			bpf_sk_storage_get(&told_of, sk, 0, BPF_SK_STORAGE_GET_F_CREATE), NULL, false);
	return 0;
}

/*
 * Logged connections that are open when the recording ends, with their buffers: one pass over all
 * open files. The ring buffer is not read meanwhile, and the probes are at work: half of it is theirs.
 */
SEC("iter/task_file")
int remaining(struct bpf_iter__task_file *ctx)
{
	struct sock *sk = tcp_socket_of(ctx);
	struct flow_slot *slot;
	struct event *e;
	struct tuple t;
	struct key k;

	if (!sk || !has_peer(FIELD(sk, __sk_common.skc_state)) ||
	    !tuple_of_sock(sk, IPPROTO_TCP, &t))
		return 0;
	key_of_sock(sk, &t, &k);
	slot = find(&k, sk);
	if (!slot)
		return 0;
	e = is_half_full() ? NULL : try_event(EVENT_OPEN_STILL);
	if (!e) {
		__sync_fetch_and_add(&open_untold, 1);
		return 0;
	}
	describe_socket(e, sk);
	name_flow(e, slot, &k);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
