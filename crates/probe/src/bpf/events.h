/* SPDX-License-Identifier: GPL-2.0 */
/* Observations that belong to no point: retransmissions, drops, socket states, returns of calls. */
#ifndef SOCKSCOPE_EVENTS_H
#define SOCKSCOPE_EVENTS_H

/* Classes of the trace. */
#define CLASS_TIMEOUT 1
#define CLASS_FAST 2
#define CLASS_TAIL_PROBE 3

static __always_inline struct flow_slot *slot_of_sock(const struct sock *sk, __u32 protocol,
						      struct key *k)
{
	struct tuple t;

	if (!tuple_of_sock(sk, protocol, &t))
		return NULL;
	key_of_sock(sk, &t, k);
	return find(k, sk);
}

/* A record of the connection; `sk` is the socket that sends in `direction`, where the hit has it. */
static __always_inline union raw_record *begin(struct flow_slot *slot, __u32 flow, __u8 kind,
						const struct sock *sk, __u32 direction, __u64 *stamp)
{
	struct record_list *list = this_list();
	union raw_record *r;
	__u8 position;
	__u64 now;

	if (!list) {
		miss(slot, kind);
		return NULL;
	}
	position = sk ? anchored_marks(list, slot, direction, sk) : position_marks(slot);
	now = bpf_ktime_get_ns();
	r = reserve(list, slot, kind, stamp);
	if (!r)
		return NULL;
	r->any.at_ns = now;
	r->any.flow = flow;
	r->any.words[0] = r->any.words[1] = r->any.words[2] = r->any.words[3] = 0;
	r->any.thread = r->any.word = 0;
	r->any.kind = kind;
	r->any.code = r->any.tcp_flags = 0;
	r->any.marks = position;
	r->any.longs[0] = r->any.longs[1] = 0;
	list->last_ns = now;
	return r;
}

/*
 * Outside recovery: tcp_write_timer_handler() leaves the timer that ran out pending while its probe
 * is sent. tlp_high_seq is set only after that, and stays into the recovery that a probe starts.
 */
static __always_inline bool probes_tail(const struct tcp_sock *tp)
{
	return FIELD(tp, inet_conn.icsk_pending) == ICSK_TIME_LOSS_PROBE;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(retransmit, const struct sock *sk, const struct sk_buff *skb)
{
	struct tcp_sock *tp = KERNEL_CAST(tcp_sock, sk);
	struct flow_slot *slot;
	union raw_record *r;
	struct key k;
	__u32 ca_state, direction;
	__u64 stamp;

	slot = slot_of_sock(sk, IPPROTO_TCP, &k);
	if (!slot)
		return 0;
	direction = direction_of(slot, &k);
	r = begin(slot, slot->connection * 2 + direction, RAW_RETRANSMIT, sk, direction, &stamp);
	if (!r)
		return 0;
	ca_state = FIELD_BITS(tp, inet_conn.icsk_ca_state);
	/* struct tcp_skb_cb starts with seq and end_seq. */
	bpf_probe_read_kernel(&r->retransmit.seq, 4,
			      (const void *)skb + bpf_core_field_offset(struct sk_buff, cb));
	r->retransmit.len = skb->len;
	if (ca_state == TCP_CA_LOSS)
		r->retransmit.class = CLASS_TIMEOUT;
	else if (ca_state == TCP_CA_RECOVERY)
		r->retransmit.class = CLASS_FAST;
	else if (probes_tail(tp))
		r->retransmit.class = CLASS_TAIL_PROBE;
	else if (FIELD(tp, inet_conn.icsk_retransmits))
		r->retransmit.class = CLASS_TIMEOUT;
	commit(r, stamp);
	return 0;
}

/* The part of an arriving packet that its socket does not get will not be announced. */
static __always_inline void note_undelivered(__u32 flow, __u32 len)
{
	struct record_list *list = this_list();

	if (!list || list->udp_flow != flow)
		return;
	if (len < list->udp_len)
		list->udp_len -= len;
	else
		list->udp_flow = 0;
}

/* A packet may be dropped in the namespace of either end, or in another. */
static __always_inline struct flow_slot *slot_of_dropped(const struct packet *p, __u32 netns,
							 struct key *k)
{
	make_key(&p->tuple, 0, k);
	k->sender = k->receiver = netns & ~NETNS_CERTAIN;
	return slot_at(find_slot(k));
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(drop, struct sk_buff *skb, void *location, enum skb_drop_reason reason)
{
	unsigned char *network = skb->head + skb->network_header;
	__u16 ethertype = skb->protocol;
	struct net_device *dev = skb->dev;
	struct flow_slot *slot;
	union raw_record *r;
	struct packet p = {};
	struct key k;
	__u64 stamp;
	__u32 netns = 0;

	if (ethertype != bpf_htons(ETH_P_IP) && ethertype != bpf_htons(ETH_P_IPV6))
		return 0;
	if (dev)
		netns = FIELD(FIELD(KERNEL_CAST(net_device, dev), nd_net.net), ns.inum);
	if (!parse(skb, network, 0, netns, &p))
		return 0;
	slot = slot_of_dropped(&p, netns, &k);
	if (!slot || k.ambiguous) {
		/* UDP keeps other things in `dev` once a datagram is queued. */
		struct task_struct *task = bpf_get_current_task_btf();

		netns = KERNEL_CAST(task_struct, task)->nsproxy->net_ns->ns.inum;
		p.tuple.scope = scope_of(netns, p.protocol, p.loopback);
		slot = slot_of_dropped(&p, netns, &k);
		if (!slot) {
			if (k.ambiguous)
				__sync_fetch_and_add(&ambiguous, 1);
			return 0;
		}
	}
	r = begin(slot, flow_of(slot, &k), RAW_DROP, NULL, 0, &stamp);
	if (!r)
		return 0;
	r->tcp_drop.seq = p.seq;
	r->tcp_drop.len = p.len;
	r->tcp_drop.tcp_flags = p.flags;
	r->tcp_drop.reason = reason;
	if (p.protocol == IPPROTO_UDP) {
		const struct sock *sk = skb->sk;

		/* Length and reason stand at the same offsets. */
		r->udp_drop.marks = RAW_MARK_UDP;
		r->udp_drop.each_len = size_of_each(skb);
		r->udp_drop.buffer = buffer_of(skb);
		/* An incoming packet may have the receiver's. */
		if (sk && is_datagram_socket(sk) && sk->__sk_common.skc_num == p.tuple.sport)
			r->udp_drop.thread = (__u32)bpf_get_current_pid_tgid();
		note_undelivered(r->udp_drop.flow, p.len);
	}
	commit(r, stamp);
	return 0;
}

/* Bits of enum window_scaling. */
static __always_inline __u32 window_scaling(const struct sock *sk)
{
	const struct net *net = FIELD(KERNEL_CAST(sock, sk), __sk_common.skc_net.net);
	struct tcp_sock *tp = KERNEL_CAST(tcp_sock, sk);
	__u32 scaling = FIELD_BITS(tp, rx_opt.wscale_ok) ? SCALING_AGREED : 0;

	return FIELD(net, ipv4.sysctl_tcp_window_scaling) ? scaling | SCALING_OFFERED : scaling;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state, const struct sock *sk, const int old_state, const int new_state)
{
	struct flow_slot *slot;
	struct event *e;
	struct key k = {};

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (new_state == TCP_LISTEN) {
		const struct mark *mark;

		if ((pick.pids || pick.has_comm) && current_is_picked()) {
			add_listener((__u64)sk, false);
			return 0;
		}
		mark = bpf_sk_storage_get(&marked, (void *)sk, 0, 0);
		if (mark)
			add_listener((__u64)sk, mark->of_others);
		return 0;
	}
	if (old_state == TCP_LISTEN) {
		remove_listener((__u64)sk);
		return 0;
	}
	slot = slot_of_sock(sk, IPPROTO_TCP, &k);
	if (!slot) {
		if (new_state == TCP_ESTABLISHED && take_gone(&k))
			__sync_fetch_and_add(&half_open_missed, 1);
		return 0;
	}
	if (new_state == TCP_ESTABLISHED)
		enter_slot(bpf_sk_storage_get(&told_of, (void *)sk, 0, BPF_SK_STORAGE_GET_F_CREATE),
			   slot, flow_of(slot, &k));
	tell_options_of(sk, flow_of(slot, &k), bpf_ktime_get_ns());
	e = reserve_event(EVENT_STATE, is_of_others(slot));
	if (e) {
		describe_socket(e, sk);
		name_flow(e, slot, &k);
		e->old_state = old_state;
		e->new_state = new_state;
		if (new_state == TCP_ESTABLISHED)
			e->number = window_scaling(sk);
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	}
	if (new_state == TCP_CLOSE && !slot->endpoints)
		free_slot(slot, slot->connection); /* it never opened */
	return 0;
}

/*
 * A socket is closed long before its reader has had all: only its destruction ends the hits
 * that it can have.
 */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(destroy, struct sock *sk)
{
	struct told_of *told = bpf_sk_storage_get(&told_of, sk, 0, 0);

	if (told)
		leave_slot(told);
	return 0;
}

static __always_inline int call_return(const struct sock *sk, int ret, __u8 kind)
{
	struct flow_slot *slot;
	union raw_record *r;
	__u32 direction;
	struct key k;
	__u64 stamp;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	slot = slot_of_sock(sk, IPPROTO_TCP, &k);
	if (!slot)
		return 0;
	direction = direction_of(slot, &k);
	r = begin(slot, slot->connection * 2 + (direction ^ (kind == RAW_READ_RETURN)), kind, sk,
		  direction, &stamp);
	if (!r)
		return 0;
	r->call_return.end_seq = kind == RAW_WRITE_RETURN ?
					 FIELD(KERNEL_CAST(tcp_sock, sk), write_seq) :
					 FIELD(KERNEL_CAST(tcp_sock, sk), copied_seq);
	r->call_return.len = ret < 0 ? 0 : ret;
	r->call_return.error = ret < 0 ? -ret : 0;
	describe_thread(r);
	commit(r, stamp);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(write_return, struct sock *sk, int ret, int flags)
{
	return call_return(sk, ret, RAW_WRITE_RETURN);
}

/* The bytes of a peek stay, and are read again; those of the error queue are not of the stream. */
static __always_inline int receive_return(const struct sock *sk, int ret, int flags)
{
	return flags & (MSG_PEEK | MSG_ERRQUEUE) ? 0 : call_return(sk, ret, RAW_READ_RETURN);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(read_return, struct sock *sk, int ret, int flags)
{
	return receive_return(sk, ret, flags);
}

/* Replaces both on kernels without their tracepoints: the function that the calls go through. */
SEC("fexit/inet_sendmsg")
int BPF_PROG(write_inet, struct socket *socket, struct msghdr *msg, unsigned long size, int ret)
{
	return call_return(socket->sk, ret, RAW_WRITE_RETURN);
}

SEC("fexit/inet6_sendmsg")
int BPF_PROG(write_inet6, struct socket *socket, struct msghdr *msg, unsigned long size, int ret)
{
	return call_return(socket->sk, ret, RAW_WRITE_RETURN);
}

SEC("fexit/inet_recvmsg")
int BPF_PROG(read_inet, struct socket *socket, struct msghdr *msg, unsigned long size, int flags,
	     int ret)
{
	return receive_return(socket->sk, ret, flags);
}

SEC("fexit/inet6_recvmsg")
int BPF_PROG(read_inet6, struct socket *socket, struct msghdr *msg, unsigned long size, int flags,
	     int ret)
{
	return receive_return(socket->sk, ret, flags);
}

#endif
