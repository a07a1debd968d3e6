/* SPDX-License-Identifier: GPL-2.0 */
/* A connection gets its number, and the recorder learns its addresses. */
#ifndef SOCKSCOPE_OPEN_H
#define SOCKSCOPE_OPEN_H

/* NULL where the ring buffer has no room. */
static __always_inline struct event *try_event(__u32 kind)
{
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e)
		return NULL;
	__builtin_memset(e, 0, sizeof(*e));
	e->at_ns = bpf_ktime_get_ns();
	e->kind = kind;
	return e;
}

static __always_inline bool is_half_full(void)
{
	return bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >=
	       bpf_ringbuf_query(&events, BPF_RB_RING_SIZE) / 2;
}

/*
 * The same, of an event without which something would not be known: it counts as lost. Connections that other
 * users asked for fill half of the ring.
 */
static __always_inline struct event *reserve_event(__u32 kind, bool of_others)
{
	bool is_refused = of_others && is_half_full();
	struct event *e = is_refused ? NULL : try_event(kind);

	if (is_refused)
		__sync_fetch_and_add(&others_events_refused, 1);
	else if (!e)
		__sync_fetch_and_add(&events_lost, 1);
	return e;
}

static __always_inline bool is_of_others(const struct flow_slot *slot)
{
	return slot->role & SLOT_OF_OTHERS;
}

static __always_inline void address4(__u8 to[16], __u32 addr)
{
	__builtin_memcpy(to, &addr, 4);
}

/* The process and its name, as in /proc/PID/comm: a thread of a pool may have a name of its own. */
static __always_inline void name_task(struct event *e)
{
	struct task_struct *task = KERNEL_CAST(task_struct, bpf_get_current_task_btf());
	__u64 id = bpf_get_current_pid_tgid();

	e->pid = id >> 32;
	e->thread = (__u32)id;
	e->cgroup = kernfs_id(task->cgroups->dfl_cgrp);
	bpf_probe_read_kernel(e->comm, sizeof(e->comm), task->group_leader->comm);
}

/* A connection that is to be opened. */
struct opening {
	__u32 isn; /* the client's sequence number, where that is known */
	__u32 replaced; /* the connection whose slot it was, if that had to give way */
	__u8 source_is_client;
	__u8 of_others;
	__u8 is_open; /* another CPU opened it meanwhile */
	__u8 is_joined; /* each end may have its initial sequence number with an error of one */
};

/* Takes a slot for the tuple. Of connections that other users asked for only so many have slots at once. */
static __always_inline struct flow_slot *take_new_slot(const struct key *k, struct opening *o)
{
	bool has_share = !o->of_others || *(volatile __u32 *)&others_open < OTHERS_SLOTS_MAX;
	bool low_is_client = o->source_is_client ? k->source_is_low : !k->source_is_low;
	struct flow_slot *slot = has_share ? take_slot(k, &o->replaced) : NULL;
	__u32 number;

	if (!slot) {
		refuse(k, o->isn, o->of_others);
		return NULL;
	}
	slot->key1 = k->key1;
	slot->key2 = k->key2;
	slot->role = (low_is_client ? SLOT_LOW_IS_CLIENT : 0) | (o->of_others ? SLOT_OF_OTHERS : 0);
	if (o->of_others)
		__sync_fetch_and_add(&others_open, 1);
	slot->endpoints = 0;
	slot->missed = 0;
	slot->isn = o->isn;
	slot->writer[0] = slot->writer[1] = 0;
	slot->reader[0] = slot->reader[1] = 0;
	slot->congestion[0] = slot->congestion[1] = 0;
	slot->ca_state[0] = slot->ca_state[1] = 0;
	slot->call_end[0] = slot->call_end[1] = 0;
	number = (__sync_fetch_and_add(&last_connection, 1) + 1) & CONNECTION_MAX;
	publish(&slot->connection, number ? number : 1);
	__sync_fetch_and_add(&connections_opened, 1);
	return slot;
}

/*
 * The slot of the tuple's connection, which it takes unless another CPU has just done so: one more than its
 * number, or 0. A global function, as find_slot().
 */
__noinline int open_number(struct key *k, struct opening *o)
{
	const struct flow_slot *slot;
	__u32 home, found, isn;

	if (!k || !o)
		return 0;
	isn = o->is_joined ? 0 : o->isn;
	/* Without the lock: each datagram of a pair that is left out asks. */
	if ((*(volatile __u64 *)&connections_left_out | *(volatile __u64 *)&connections_left_out_later) &&
	    was_left_out(k, isn))
		return 0;
	home = bucket_of(k);
	if (!lock_home(home)) {
		__sync_fetch_and_add(&openings_missed, 1);
		return 0;
	}
	found = find_slot(k);
	if (found) {
		o->is_open = 1;
	} else if (!was_left_out(k, isn) && !leave_out(k, isn)) {
		slot = take_new_slot(k, o);
		found = slot ? index_of(slot) + 1 : 0;
	}
	unlock_home(home);
	return found;
}

static __always_inline struct flow_slot *open_slot(struct key *k, struct opening *o)
{
	return slot_at(open_number(k, o));
}

/* Reports a connection opened by a packet, which the current task sends if `is_own`. */
static __always_inline void announce_packet(const struct flow_slot *slot, const struct packet *p,
					    unsigned char *network, bool source_is_client,
					    __u32 netns, bool is_own, __u32 replaced, __u64 mark)
{
	struct event *e = reserve_event(EVENT_OPEN, is_of_others(slot));
	__u8 *from, *to;

	if (!e)
		return;
	if (is_own)
		name_task(e);
	e->connection = slot->connection;
	e->replaced = replaced;
	e->mark = mark > MARK_WITHOUT_NUMBER ? mark : 0;
	e->of_others = slot->role & SLOT_OF_OTHERS;
	e->netns = netns;
	e->family = p->family;
	e->protocol = p->protocol;
	e->client_port = source_is_client ? p->tuple.sport : p->tuple.dport;
	e->server_port = source_is_client ? p->tuple.dport : p->tuple.sport;
	from = source_is_client ? e->client_addr : e->server_addr;
	to = source_is_client ? e->server_addr : e->client_addr;
	if (p->family == AF_INET) {
		struct iphdr *ip = KERNEL_CAST(iphdr, network);

		address4(from, FIELD(ip, saddr));
		address4(to, FIELD(ip, daddr));
	} else {
		bpf_probe_read_kernel(from, 16, network + 8);
		bpf_probe_read_kernel(to, 16, network + 24);
	}
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

/* The connection is over: the recorder forgets it, and its slot is free. */
static __always_inline void end_slot(struct flow_slot *slot, __u32 connection)
{
	bool of_others = is_of_others(slot);
	struct event *e;

	if (!free_slot(slot, connection))
		return;
	e = reserve_event(EVENT_GONE, of_others);
	if (!e)
		return;
	e->connection = connection;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

/* The TCP socket is no longer an end of the connection in its storage. */
static __noinline int leave_slot(struct told_of *told)
{
	struct flow_slot *slot = &flows[told->slot & (FLOW_SLOTS - 1)];
	__u32 flow = told->flow;

	told->flow = 0;
	if (flow && slot->connection == flow / 2 &&
	    __sync_fetch_and_add(&slot->endpoints, -1) <= 1)
		end_slot(slot, flow / 2);
	return 0;
}

/*
 * A TCP socket is an end of the slot's connection, and counts once. One without storage, which finds no
 * memory, stays counted: its slot is free once the recording ends.
 */
static __always_inline void enter_slot(struct told_of *told, struct flow_slot *slot, __u32 flow)
{
	if (told) {
		if (told->flow == flow)
			return;
		leave_slot(told);
		told->slot = index_of(slot);
		told->flow = flow;
		told->is_accepted = 0;
		told->layers = 0;
	}
	__sync_fetch_and_add(&slot->endpoints, 1);
}

/*
 * A layer of the kernel above TCP: kTLS is the upper protocol (ULP) of its socket, and a socket in a sockmap or a
 * sockhash has a psock as its user data. MPTCP is an upper protocol as well, and no such layer.
 */
static __always_inline bool is_in_sockmap(const struct sock *sk)
{
	const void *field = (const void *)sk + bpf_core_field_offset(struct sock, sk_user_data);

	/* The flags are in the pointer, and the verifier lets no pointer be masked: a word is no pointer. */
	return FIELD(KERNEL_CAST(timespec64, field), tv_sec) & SK_USER_DATA_PSOCK;
}

static __always_inline bool may_have_layer(const struct sock *sk)
{
	return is_in_sockmap(sk) ||
	       FIELD(KERNEL_CAST(tcp_sock, sk), inet_conn.icsk_ulp_ops);
}

/* Bits of enum socket_layer. */
static __always_inline __u32 layers_of(const struct sock *sk)
{
	const struct tcp_ulp_ops *ulp = FIELD(KERNEL_CAST(tcp_sock, sk), inet_conn.icsk_ulp_ops);
	__u32 layers = is_in_sockmap(sk) ? LAYER_SOCKMAP : 0;
	__u32 name = 0;

	if (ulp)
		bpf_probe_read_kernel(&name, sizeof(name), &ulp->name);
	return name == bpf_htonl(0x746c7300) /* "tls" */ ? layers | LAYER_TLS : layers;
}

/* Reports layers of the TCP socket with this storage, each once for a connection. */
static __noinline int tell_layers(struct told_of *told, __u32 layers)
{
	const struct flow_slot *slot;
	struct event *e;
	__u32 flow;

	if (!told || !(layers & ~told->layers))
		return 0;
	flow = told->flow;
	slot = &flows[told->slot & (FLOW_SLOTS - 1)];
	if (!flow || slot->connection != flow / 2)
		return 0;
	e = reserve_event(EVENT_LAYER, is_of_others(slot));
	if (!e)
		return 0;
	told->layers |= layers;
	e->connection = flow / 2;
	e->flow = flow;
	e->layers = layers;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Fills in the socket's own data. */
static __always_inline void describe_socket(struct event *e, const struct sock *sk)
{
	e->protocol = FIELD(sk, sk_protocol);
	e->netns = netns_of(sk);
	e->sndbuf = FIELD(sk, sk_sndbuf);
	e->rcvbuf = FIELD(sk, sk_rcvbuf);
	e->userlocks = FIELD_BITS(sk, sk_userlocks);
	e->rcvlowat = FIELD(sk, sk_rcvlowat);
	if (FIELD(sk, sk_protocol) == IPPROTO_TCP) {
		struct tcp_sock *tp = KERNEL_CAST(tcp_sock, sk);

		e->mss = FIELD(tp, mss_cache);
		e->nonagle = FIELD_BITS(tp, nonagle) & (TCP_NAGLE_OFF | TCP_NAGLE_CORK);
		e->snd_wscale = FIELD_BITS(tp, rx_opt.snd_wscale);
		e->rcv_wscale = FIELD_BITS(tp, rx_opt.rcv_wscale);
		e->layers = layers_of(sk);
		e->snd_seq = FIELD(tp, write_seq);
		e->rcv_seq = FIELD(tp, rcv_nxt);
		e->copied_seq = FIELD(tp, copied_seq);
		e->snd_offset = FIELD(tp, bytes_acked);
		e->rcv_offset = FIELD(tp, bytes_received);
	}
}

/* Reports a datagram socket that sends `flow`, or got its datagrams. */
static __noinline int announce_socket(const struct sock *sk, __u32 flow, __u32 number, __u32 slot)
{
	struct told_of *last = bpf_sk_storage_get(&told_of, (void *)sk, 0,
						     BPF_SK_STORAGE_GET_F_CREATE);
	struct event *e;

	if (last) {
		last->slot = slot;
		last->flow = flow;
	}
	tell_options_of(sk, flow, bpf_ktime_get_ns());
	e = reserve_event(EVENT_SOCKET, is_of_others(&flows[slot & (FLOW_SLOTS - 1)]));
	if (!e)
		return 0;
	describe_socket(e, sk);
	e->connection = flow / 2;
	e->flow = flow;
	e->number = number;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline void name_flow(struct event *e, const struct flow_slot *slot,
				      const struct key *k)
{
	e->connection = slot->connection;
	e->flow = flow_of(slot, k);
}

static __always_inline void socket_addresses(struct event *e, const struct sock *sk,
					     bool local_is_client)
{
	__u8 *local = local_is_client ? e->client_addr : e->server_addr;
	__u8 *peer = local_is_client ? e->server_addr : e->client_addr;
	__u16 sport = FIELD(sk, __sk_common.skc_num);
	__u16 dport = bpf_ntohs(FIELD(sk, __sk_common.skc_dport));

	e->client_port = local_is_client ? sport : dport;
	e->server_port = local_is_client ? dport : sport;
	e->family = FIELD(sk, __sk_common.skc_family);
	if (e->family == AF_INET6) {
		struct in6_addr addr;

		bpf_probe_read_kernel(&addr, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		__builtin_memcpy(local, &addr, 16);
		bpf_probe_read_kernel(&addr, 16, &sk->__sk_common.skc_v6_daddr);
		__builtin_memcpy(peer, &addr, 16);
	} else {
		address4(local, FIELD(sk, __sk_common.skc_rcv_saddr));
		address4(peer, FIELD(sk, __sk_common.skc_daddr));
	}
}

/*
 * Whether this end opened the connection. A port that connect() chose has its bucket marked as not
 * to be shared (net/ipv4/inet_hashtables.c); one that bind() chose has no such mark, and
 * the higher port is taken for the client's.
 */
static __always_inline bool opened_by(const struct tcp_sock *tp, const struct tuple *t)
{
	struct inet_bind_bucket *bucket = FIELD(tp, inet_conn.icsk_bind_hash);

	if (bucket && FIELD(KERNEL_CAST(inet_bind_bucket, bucket), fastreuse) == -1)
		return true;
	return bucket ? t->sport > t->dport && t->dport < 1024 : t->sport >= t->dport;
}

/*
 * Joins a TCP connection that is already open, whose socket has this storage: positions are from the
 * socket's own 64-bit counters (RFC 4898 tcpEStatsAppHCThruOctetsAcked and ...Received).
 */
static __always_inline void join_connection(const struct sock *sk, struct key *k,
					    const struct tuple *t, struct told_of *told,
					    struct kept_options *kept, bool of_others)
{
	struct tcp_sock *tp = KERNEL_CAST(tcp_sock, sk);
	struct flow_slot *slot = find(k, sk);
	bool local_is_client = opened_by(tp, t);
	struct opening o = { .source_is_client = local_is_client, .of_others = of_others, .is_joined = 1 };
	struct event *e;
	__u64 acked = FIELD(tp, bytes_acked);

	/* By this the peer's socket in another namespace finds the slot. */
	read_isn(k, sk);
	o.isn = local_is_client ? k->isn[0] : k->isn[1];

	if (slot) {
		enter_slot(told, slot, flow_of(slot, k));
		return;
	}
	/* The socket's counters first: all later bytes are recorded. */
	e = reserve_event(EVENT_JOIN, of_others);
	if (!e)
		return;
	describe_socket(e, sk);
	socket_addresses(e, sk, local_is_client);
	e->new_state = FIELD(sk, __sk_common.skc_state);
	e->snd_seq = FIELD(tp, snd_una);
	/* The SYN counts as one where this end sent the first one (tcp_rcv_synsent_state_process()). */
	e->snd_offset = acked && local_is_client ? acked - 1 : acked;
	slot = open_slot(k, &o);
	if (!slot || o.is_open) {
		bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);
		if (slot)
			enter_slot(told, slot, flow_of(slot, k));
		return;
	}
	e->replaced = o.replaced;
	e->of_others = slot->role & SLOT_OF_OTHERS;
	name_flow(e, slot, k);
	enter_slot(told, slot, e->flow);
	if (kept)
		tell_options(kept, e->flow, e->at_ns, e->sndbuf, e->rcvbuf);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

#endif
