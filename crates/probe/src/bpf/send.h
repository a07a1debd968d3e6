/* SPDX-License-Identifier: GPL-2.0 */
/* Points 1 to 4: from the write call to the driver. */
#ifndef SOCKSCOPE_SEND_H
#define SOCKSCOPE_SEND_H

static __always_inline void note_thread(const struct flow_slot *slot, __u32 *seen, __u32 flow,
					__u32 thread)
{
	struct event *e;

	if (*seen == thread)
		return;
	*seen = thread;
	e = reserve_event(EVENT_THREAD, is_of_others(slot));
	if (!e)
		return;
	e->flow = flow;
	name_task(e);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

/*
 * A send call is about to copy its next bytes into the socket, from `start` on, with `left` bytes
 * remaining. Returns whether all of them find room, so that the record covers the whole rest of the
 * call; otherwise the record of the next chunk shows the end of this one.
 */
static __always_inline bool record_write(struct record_list *list, struct flow_slot *slot,
					 __u32 direction, const struct sock *sk, __u32 start,
					 __u32 left, bool more)
{
	const struct tcp_sock *tp = TCP_SOCK(sk);
	union raw_record *r;
	__u32 next, unsent, mss;
	__u64 now, stamp;
	__u8 position, hold;
	__s32 room;
	bool whole;

	if (IS_NO_TCP_SOCK(tp))
		return false;
	position = anchored_marks(list, slot, direction, sk);
	now = bpf_ktime_get_ns();
	r = reserve(list, slot, RAW_WRITE, &stamp);
	if (!r)
		return false;
	room = sk->sk_sndbuf - sk->sk_wmem_queued;
	whole = room > 0 && left <= (__u32)room / 2;
	next = tp->snd_nxt;
	unsent = start + left - next;
	mss = tp->mss_cache;
	r->write.at_ns = now;
	r->write.flow = slot->connection * 2 + direction;
	r->write.start_seq = start;
	r->write.left_len = left;
	r->write.snd_una = tp->snd_una;
	r->write.snd_nxt = next;
	describe_thread(r);
	store_kind(r, RAW_WRITE, position | (whole ? RAW_MARK_ROOM : 0));
	hold = hold_reason(sk, tp, next, unsent, mss, 0, in_flight(tp), false, 0, now);
	r->write.hold = more && unsent < mss ? hold_of_more(hold) : hold;
	r->write.began_ns = 0;
	list->last_ns = now;
	if (slot->writer[direction & 1] != r->write.thread)
		note_thread(slot, &slot->writer[direction & 1], r->write.flow, r->write.thread);
	commit(r, stamp);
	return whole;
}

/*
 * Fires before each chunk of a send call is copied into the socket, the chunk's position being
 * write_seq. Chunks that have to wait for room return here, so that a position that did not
 * move means that nothing was taken.
 */
SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(point1_tcp, const struct sock *sk, const struct msghdr *msg)
{
	__u32 start = FIELD(KERNEL_CAST(tcp_sock, sk), write_seq);
	__u32 left = msg->msg_iter.count;
	struct record_list *list = this_list();
	struct flow_slot *slot;
	__u32 direction = 0;

	if (!list)
		return miss_of_socket(sk, RAW_WRITE);
	/* A later chunk of a call that was recorded whole adds nothing. */
	if (list->call_socket == (__u64)sk && list->call_end == start + left)
		return 0;
	slot = slot_of_socket(list, sk, &direction);
	if (!slot)
		return 0;
	direction &= 1;
	/* The same, after the thread moved to another CPU. */
	if (slot->call_end[direction] == start + left)
		return 0;
	if (record_write(list, slot, direction, sk, start, left, msg->msg_flags & MSG_MORE)) {
		slot->call_end[direction] = list->call_end = start + left;
		list->call_socket = (__u64)sk;
	} else {
		slot->call_end[direction] = start; /* no call ends where it begins */
		list->call_socket = 0;
	}
	return 0;
}

/* Whether a send call on this socket gets as far as to take bytes, as tcp_sendmsg_locked() asks. */
static __always_inline bool takes_bytes(const struct sock *sk)
{
	__u8 state = sk->__sk_common.skc_state;

	return (state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT) && !sk->sk_err &&
	       !(sk->sk_shutdown & SEND_SHUTDOWN);
}

/*
 * In the place of point1_tcp on kernels without its tracepoint: the beginning of a send call, and
 * each end of a wait for room. Chunks between two waits follow one another without a stop. Threads
 * that send on one socket at once wait in turns, so that each has its own call.
 */
SEC("fentry/tcp_sendmsg_locked")
int BPF_PROG(point1_call, struct sock *sk, struct msghdr *msg)
{
	__u32 start = FIELD(KERNEL_CAST(tcp_sock, sk), write_seq);
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 left = msg->msg_iter.count;
	struct record_list *list = this_list();
	struct flow_slot *slot;
	struct send_call *call;
	__u32 direction = 0;
	bool whole;

	if (!list)
		return miss_of_socket(sk, RAW_WRITE);
	if (!left || !takes_bytes(sk))
		return 0;
	slot = slot_of_socket(list, sk, &direction);
	if (!slot)
		return 0;
	whole = record_write(list, slot, direction & 1, sk, start, left, msg->msg_flags & MSG_MORE);
	call = bpf_task_storage_get(&send_calls, task, 0,
				    whole ? 0 : BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (call) {
		call->socket = whole ? 0 : (__u64)sk;
		call->message = (__u64)msg;
	} else if (!whole) {
		/* No memory: the writes of the call after its next wait are not recorded. */
		count_lost(list, slot, RAW_WRITE);
	}
	return 0;
}

SEC("fexit/sk_stream_wait_memory")
int BPF_PROG(point1_room, struct sock *sk, long *timeout, int error)
{
	struct record_list *list = this_list();
	__u32 start, left, direction = 0;
	const struct msghdr *msg;
	struct flow_slot *slot;
	struct send_call *call;

	if (!list || error)
		return 0;
	call = bpf_task_storage_get(&send_calls, bpf_get_current_task_btf(), 0, 0);
	if (!call || call->socket != (__u64)sk)
		return 0;
	slot = slot_of_socket(list, sk, &direction);
	if (!slot)
		return 0;
	start = FIELD(KERNEL_CAST(tcp_sock, sk), write_seq);
	/* The call is this thread's own, and under way. */
	msg = KERNEL_CAST(msghdr, call->message);
	left = FIELD(msg, msg_iter.count);
	if (left)
		record_write(list, slot, direction & 1, sk, start, left,
			     FIELD(msg, msg_flags) & MSG_MORE);
	return 0;
}

static __always_inline bool is_socket_of_tcp(const struct sock *sk)
{
	__u8 state = sk->__sk_common.skc_state;

	return state == TCP_NEW_SYN_RECV || state == TCP_TIME_WAIT || sk->sk_protocol == IPPROTO_TCP;
}

/* An outgoing SYN, SYN-ACK or first datagram of a connection without a slot: is it picked? */
static __noinline struct flow_slot *open_outgoing(struct sk_buff *skb, struct sock *sk,
						  struct packet *p, const struct net_device *dev,
						  struct key *k)
{
	struct opening o = { .source_is_client = true };
	struct cgroup *cgroup;
	bool picked = false;
	bool is_own = false;
	const struct mark *mark;
	struct flow_slot *slot;

	/* The datagram of a tunnel has the socket of the segment inside. */
	if (!sk || (p->protocol == IPPROTO_UDP && is_socket_of_tcp(sk)))
		return NULL;
	if (sk->__sk_common.skc_state == TCP_NEW_SYN_RECV) {
		struct sock *listener = sk->__sk_common.skc_listener;

		o.source_is_client = false;
		if (listener) {
			listener = KERNEL_CAST(sock, listener);
			picked = is_picked(FIELD(listener, sk_cgrp_data.cgroup), &p->tuple, false);
			if (!picked) {
				__u8 whose = listener_mark(listener);

				picked = whose;
				o.of_others = whose == LISTENER_OF_OTHERS;
			}
		}
	} else if (sk->__sk_common.skc_state != TCP_TIME_WAIT) {
		struct sock *full = KERNEL_CAST(sock, sk);

		cgroup = FIELD(full, sk_cgrp_data.cgroup);
		picked = is_picked(cgroup, &p->tuple, true);
		mark = picked ? NULL : bpf_sk_storage_get(&marked, sk, 0, 0);
		if (mark) {
			picked = true;
			o.of_others = mark->of_others;
		}
		/*
		 * connect() holds the socket while it sends. A SYN that waited for the address of its
		 * neighbour leaves in anybody's time, and so does a repeated one.
		 */
		is_own = sk->__sk_common.skc_state == TCP_SYN_SENT &&
			 p->protocol == IPPROTO_TCP && FIELD(full, sk_lock.owned) &&
			 !FIELD(KERNEL_CAST(tcp_sock, sk), inet_conn.icsk_retransmits);
	}
	if (!picked)
		return NULL;
	o.isn = o.source_is_client ? p->seq : p->ack - 1;
	slot = open_slot(k, &o);
	if (!slot || o.is_open)
		return slot;
	p->opens = 1;
	announce_packet(slot, p, skb->head + skb->network_header, o.source_is_client,
			netns_of_device(dev), is_own, o.replaced, mark_of(skb, p));
	if (p->protocol == IPPROTO_UDP)
		udp_seen = 1;
	return slot;
}

/* A SYN for a slot that a former connection left behind begins a new one. */
static __always_inline bool begins_anew(const struct flow_slot *slot, const struct packet *p)
{
	return p->protocol == IPPROTO_TCP && (p->flags & 0x12) == 0x02 && slot->isn != p->seq;
}

/* The same, and the former connection is over: not the one that another CPU may open there by now. */
static __always_inline bool ends_former(struct flow_slot *slot, const struct packet *p)
{
	__u32 former = acquire(&slot->connection);

	if (!begins_anew(slot, p))
		return false;
	end_slot(slot, former);
	return true;
}

/*
 * A packet of a connection that ends by its age. For a TCP connection that has not opened neither a
 * SYN nor an answer to it, repeated, makes it younger.
 */
static __always_inline void note_use(const struct flow_slot *slot, const struct packet *p, __u64 now_ns)
{
	if (p->protocol == IPPROTO_UDP || (!slot->endpoints && !(p->flags & 0x06)))
		use_slot(slot, now_ns);
}

/* A datagram may be from a raw or packet socket, or be around a segment, whose socket it has. */
static __always_inline bool is_datagram_socket(const struct sock *sk)
{
	__u8 state = sk->__sk_common.skc_state;

	return state != TCP_NEW_SYN_RECV && state != TCP_TIME_WAIT &&
	       sk->sk_protocol == IPPROTO_UDP && sk->sk_type == SOCK_DGRAM;
}

/* A SYN-ACK of a listener that the operator picked: not only the other user asked for the connection. */
static __noinline bool is_picked_answer(struct sock *sk, struct packet *p)
{
	struct sock *listener;

	if (!sk || p->protocol != IPPROTO_TCP || (p->flags & 0x12) != 0x12 ||
	    sk->__sk_common.skc_state != TCP_NEW_SYN_RECV)
		return false;
	listener = sk->__sk_common.skc_listener;
	if (!listener)
		return false;
	listener = KERNEL_CAST(sock, listener);
	return listener_mark(listener) == LISTENER_PICKED ||
	       is_picked(FIELD(listener, sk_cgrp_data.cgroup), &p->tuple, false);
}

static __always_inline struct flow_slot *slot_of_outgoing(struct sk_buff *skb, struct sock *sk,
							  struct packet *p, struct key *k,
							  const struct net_device *dev)
{
	struct flow_slot *slot;

	slot = find(k, sk);
	if (!slot && k->ambiguous) {
		note_ambiguous(k);
		return NULL;
	}
	if (slot && ends_former(slot, p)) {
		slot = NULL;
	} else if (slot && slot->role & SLOT_OF_OTHERS && is_picked_answer(sk, p)) {
		end_slot(slot, slot->connection);
		slot = NULL;
	}
	if (!slot && (p->protocol == IPPROTO_UDP || (p->flags & 0x02))) {
		slot = open_outgoing(skb, sk, p, dev, k);
		/* Not within that: the frames of all calls under way share 512 bytes. */
		if (slot && p->opens && sk && p->protocol == IPPROTO_UDP && is_datagram_socket(sk))
			announce_socket(sk, flow_of(slot, k), 0, slot - flows);
	}
	return slot;
}

/*
 * Congestion state that changes rarely, and the segment size, have a record of their own. The slot has a
 * digest of the last report, which distinguishes thresholds and sizes but for one in 2^32.
 */
static __noinline int write_congestion(struct record_list *list, struct flow_slot *slot,
				       __u32 direction, const struct sock *sk, __u64 now)
{
	const struct tcp_sock *tp = TCP_SOCK(sk);
	union raw_record *r;
	__u64 stamp;

	if (IS_NO_TCP_SOCK(tp))
		return 0;
	r = reserve(list, slot, RAW_CONGESTION, &stamp);
	if (!r)
		return 0;
	r->congestion.at_ns = now;
	r->congestion.flow = slot->connection * 2 + (direction & 1);
	r->congestion.snd_una = tp->snd_una;
	r->congestion.ssthresh = tp->snd_ssthresh;
	r->congestion.mss = tp->mss_cache;
	r->congestion.dsack_dups = tp->dsack_dups;
	r->congestion.no_thread = 0;
	r->congestion.kind = RAW_CONGESTION;
	r->congestion.ca_state = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);
	r->congestion.no_flags = 0;
	r->congestion.marks = position_marks(slot);
	r->congestion.sndbuf = sk->sk_sndbuf;
	r->congestion.rcvbuf = sk->sk_rcvbuf;
	r->congestion.userlocks = BPF_CORE_READ_BITFIELD(sk, sk_userlocks);
	commit(r, stamp);
	return 0;
}

static __always_inline void note_congestion(struct record_list *list, struct flow_slot *slot,
					    __u32 direction, const struct sock *sk,
					    const struct tcp_sock *tp, __u64 now)
{
	__u32 digest;
	__u8 ca_state;

	if (IS_NO_TCP_SOCK(tp))
		return;
	ca_state = BPF_CORE_READ_BITFIELD(tp, inet_conn.icsk_ca_state);
	digest = tp->snd_ssthresh + tp->mss_cache * 0x9e3779b1U;
	direction &= 1;
	if (slot->congestion[direction] == digest && slot->ca_state[direction] == ca_state)
		return;
	slot->congestion[direction] = digest;
	slot->ca_state[direction] = ca_state;
	write_congestion(list, slot, direction, sk, now);
}

/* Octets that the options of a TCP header take at most (RFC 9293, section 3.1). */
#define TCP_OPTIONS_MAX 40

/* Number of TCP segments in the packet. A packet that fits one segment with all options has one. */
static __always_inline __u32 segments_of(const struct sk_buff *skb, __u32 len, __u32 mss)
{
	struct skb_shared_info *shared;
	__u32 segments;

	if (len + TCP_OPTIONS_MAX <= mss)
		return 1;
	shared = KERNEL_CAST(skb_shared_info, skb->head + skb->end);
	segments = FIELD(shared, gso_segs);
	return segments ? segments : 1;
}

/*
 * The state of the sending socket at this segment. The moment at which TCP took the segment from
 * the send queue lies between the start of this run of tcp_write_xmit(), which the kernel itself
 * stamps (tcp_clock_cache), or the last hit on this CPU if that was later, and now.
 */
static __always_inline void describe_tcp(struct raw_tcp_packet *r, struct sk_buff *skb,
					 const struct sock *sk, const struct tcp_sock *tp,
					 const struct packet *p, __u64 now, __u64 last_ns)
{
	__u64 taken = tp->tcp_clock_cache;
	__u32 flying = in_flight(tp);

	if (taken < last_ns)
		taken = last_ns;
	r->since_taken_ns = taken < now && now - taken < 1000000000ULL ? now - taken : 0;
	if (p->len) {
		__u32 mss = tp->mss_cache;
		__u32 segments = segments_of(skb, p->len, mss);
		__u32 next = tp->snd_nxt;
		bool is_new = !after(next, p->seq);
		bool small = p->len < mss || p->len % mss;

		if (segments > 1)
			r->marks |= RAW_MARK_AGGREGATED;
		if (is_new) {
			next = p->seq + p->len;
			flying += segments;
		} else {
			r->marks |= RAW_MARK_RETRANSMITTED;
			segments = 0;
		}
		r->hold = hold_reason(sk, tp, next, tp->write_seq - next, mss, segments, flying,
				      is_new && small, skb->truesize, now);
	}
	store_pair(&r->snd_cwnd, tp->snd_cwnd, flying);
	store_pair(&r->snd_wnd, tp->snd_wnd, tp->srtt_us >> 3);
}

static __always_inline void describe_sender(struct raw_tcp_packet *r, struct sk_buff *skb,
					    const struct sock *sk, const struct packet *p,
					    __u64 now, __u64 last_ns)
{
	const struct tcp_sock *tp = TCP_SOCK(sk);

	if (IS_NO_TCP_SOCK(tp)) {
		r->since_taken_ns = 0;
		store_pair(&r->snd_cwnd, 0, 0);
		store_pair(&r->snd_wnd, 0, 0);
		return;
	}
	describe_tcp(r, skb, sk, tp, p, now, last_ns);
}

/* The headers of a packet that goes out or arrives. UDP gets its own fields after that. */
static __always_inline void describe_packet(struct raw_tcp_packet *r, const struct packet *p,
					    const struct net_device *dev, __u8 kind, __u32 flow,
					    __u8 position, __u64 now)
{
	r->at_ns = now;
	r->flow = flow;
	r->seq = p->seq;
	r->len = p->len;
	r->ack = p->ack;
	r->window = p->window;
	r->device = p->protocol == IPPROTO_UDP || dev->flags & IFF_LOOPBACK ? 0 : dev->ifindex;
	r->kind = kind;
	r->hold = 0;
	r->tcp_flags = p->flags;
	r->marks = (p->protocol == IPPROTO_UDP ? RAW_MARK_UDP : position) |
		   (dev->flags & IFF_LOOPBACK ? RAW_MARK_LOOPBACK : 0);
}

/* States in which a TCP socket has one peer and both know it. */
#define CONNECTED_STATES                                                                      \
	(1 << TCP_ESTABLISHED | 1 << TCP_FIN_WAIT1 | 1 << TCP_FIN_WAIT2 | 1 << TCP_CLOSE_WAIT | \
	 1 << TCP_LAST_ACK | 1 << TCP_CLOSING)

static __always_inline bool is_connected(const struct sock *sk)
{
	return sk->sk_protocol == IPPROTO_TCP &&
	       CONNECTED_STATES >> (sk->__sk_common.skc_state & 15) & 1;
}

/* The entry of a segment that loopback delivers, by the address of its buffer. */
static __always_inline struct passing_segment *place_of_segment(struct record_list *list,
								const struct sk_buff *skb)
{
	__u32 buffer = buffer_of(skb);

	return &list->passing[(buffer ^ buffer >> 4) & (PASSING_SEGMENTS - 1)];
}

/* Notes the connection of a segment for point 6: see passing_segment(). */
static __always_inline void note_passing(struct record_list *list, const struct flow_slot *slot,
					 __u32 direction, const struct sk_buff *skb,
					 const unsigned char *transport, const __u64 words[2])
{
	struct passing_segment *passing = place_of_segment(list, skb);

	if (list->is_noting)
		return;
	list->is_noting = 1;
	barrier();
	passing->skb = 0; /* a hit that interrupts this one sees no half of it */
	barrier();
	passing->transport = (__u64)transport;
	passing->words[0] = words[0];
	passing->words[1] = words[1];
	passing->slot = index_of(slot);
	passing->connection = slot->connection;
	passing->direction = direction & 1;
	barrier();
	passing->skb = (__u64)skb;
	barrier();
	list->is_noting = 0;
}

/* One more than twice the number of a slot, and the direction. */
static __always_inline __u32 use_of(const struct flow_slot *slot, __u32 direction)
{
	return (index_of(slot) << 1 | (direction & 1)) + 1;
}

/*
 * A segment of an established connection: the socket identifies it. A function of its own: inlined, its stack
 * would lie below that of outgoing_packet() and all functions which that calls. Returns use_of(), or 0.
 */
static __noinline int outgoing_segment(struct sk_buff *skb, __u8 kind, const struct net_device *dev,
				       const struct sock *sk, struct record_list *list)
{
	struct packet p = { .protocol = IPPROTO_TCP };
	unsigned char *transport;
	__u32 direction = 0;
	__u64 words[2];
	__u64 now, stamp, last_ns;
	struct flow_slot *slot;
	union raw_record *r;
	__u8 position;

	slot = slot_of_socket(list, sk, &direction);
	if (!slot)
		return 0;
	if (!(dev->flags & IFF_LOOPBACK)) {
		announce_device(list, slot, dev);
		if (is_behind_own_device(skb, dev, sk))
			return pass_hop(skb, dev, slot, direction << 8 | kind);
	}
	position = anchored_marks(list, slot, direction, sk);
	now = bpf_ktime_get_ns();
	last_ns = list->last_ns;
	r = reserve(list, slot, kind, &stamp);
	if (!r)
		return 0;
	/* After the calls: they keep four registers, and the fields of the header need five. */
	transport = skb->head + skb->transport_header;
	words[0] = word64(transport);
	words[1] = word64(transport + 8);
	parse_tcp(words[0], words[1], skb->len - (__u32)(transport - skb->data), &p);
	if (kind == RAW_TRANSMIT && dev->flags & IFF_LOOPBACK)
		note_passing(list, slot, direction, skb, transport, words);
	describe_packet(&r->tcp_packet, &p, dev, kind, slot->connection * 2 + direction, position,
			now);
	list->last_ns = now;
	if (!(r->any.marks & RAW_MARK_LOOPBACK) && !devices_seen)
		devices_seen = 1;
	describe_sender(&r->tcp_packet, skb, sk, &p, now, last_ns);
	commit(r, stamp);
	note_congestion(list, slot, direction, sk, TCP_SOCK(sk), now);
	return use_of(slot, direction);
}

/* Takes `taken` off a count that other CPUs move too, at most all; false when it was nothing. */
static __always_inline bool take_off(__u32 *count, __u32 taken)
{
	for (int i = 0; i < 8; i++) {
		__u32 seen = *(volatile __u32 *)count;

		if (!seen)
			return false;
		if (__sync_val_compare_and_swap(count, seen, seen < taken ? 0 : seen - taken) == seen)
			return true;
	}
	return true;
}

/*
 * The thread that sends a datagram is the one that hands it to the first point. A softirq or another
 * sender may take it out of a queueing discipline. A datagram that the
 * discipline dropped later stays counted: then the sender of one that goes past it is not named.
 */
static __always_inline void note_sender(struct flow_slot *slot, __u32 direction,
					const struct raw_udp_packet *r)
{
	__u32 *queued = &slot->queued[direction & 1];
	/* Datagrams queued as one packet may leave as several. */
	__u32 datagrams = r->each_len ? (r->len + r->each_len - 1) / r->each_len : 1;

	if (r->kind == RAW_QUEUED)
		__sync_fetch_and_add(queued, datagrams);
	else if (take_off(queued, datagrams))
		return;
	note_thread(slot, &slot->writer[direction & 1], r->flow, r->thread);
}

/* The sender of a segment that opens or ends a connection. A function of its own for its stack. */
static __noinline int describe_setup(struct raw_tcp_packet *r, struct sk_buff *skb,
				     const struct sock *sk, const struct packet *p, __u64 last_ns)
{
	if (sk)
		describe_sender(r, skb, sk, p, r->at_ns, last_ns);
	return 0;
}

/* Anything else: set-up, datagrams, and packets sent without a socket of its own. Returns use_of(), or 0. */
static __noinline int outgoing_packet(struct sk_buff *skb, struct sock *sk, __u32 kind,
				      struct net_device *dev)
{
	unsigned char *network = skb->head + skb->network_header;
	__u32 netns = netns_of_device(dev);
	struct record_list *list;
	struct flow_slot *slot;
	union raw_record *r;
	struct packet p = {};
	struct key k;
	__u64 now, stamp, last_ns;
	__u32 direction;
	__u8 state, position;

	if (!parse(skb, network, skb->len - (__u32)(network - skb->data), netns, &p))
		return 0;
	key_of_packet(&p, sk, netns, dev->flags & IFF_LOOPBACK, false, &k);
	slot = slot_of_outgoing(skb, sk, &p, &k, dev);
	if (!slot)
		return 0;
	list = this_list();
	if (!list)
		return miss(slot, kind);
	if (may_be_at_hop(&p, dev) &&
	    passes_hop(list, slot, dev, &p, (__u64)flow_of(slot, &k) << 8 | kind))
		return 0;
	position = position_marks(slot);
	now = bpf_ktime_get_ns();
	last_ns = list->last_ns;
	r = reserve(list, slot, kind, &stamp);
	if (!r)
		return 0;
	describe_packet(&r->tcp_packet, &p, dev, kind, flow_of(slot, &k), position, now);
	direction = r->any.flow & 1;
	r->any.word = 0;
	r->any.longs[0] = r->any.longs[1] = 0;
	list->last_ns = now;
	note_use(slot, &p, now);
	if (!(r->any.marks & RAW_MARK_LOOPBACK) && !devices_seen)
		devices_seen = 1;
	if (p.protocol == IPPROTO_UDP) {
		r->udp_packet.each_len = size_of_each(skb);
		r->udp_packet.buffer = buffer_of(skb);
	}
	if (sk) {
		state = sk->__sk_common.skc_state;
		if (p.protocol == IPPROTO_UDP) {
			r->udp_packet.thread = (__u32)bpf_get_current_pid_tgid();
			note_sender(slot, direction, &r->udp_packet);
		} else if (state != TCP_NEW_SYN_RECV && state != TCP_TIME_WAIT &&
			   state != TCP_LISTEN) {
			describe_setup(&r->tcp_packet, skb, sk, &p, last_ns);
			commit(r, stamp);
			note_congestion(list, slot, direction, sk, TCP_SOCK(sk), now);
			return use_of(slot, direction);
		}
	}
	commit(r, stamp);
	return use_of(slot, direction);
}

static __always_inline int outgoing(struct sk_buff *skb, __u8 kind, struct net_device *dev)
{
	struct sock *sk = skb->sk;
	struct record_list *list = this_list();

	if (list && sk && is_connected(sk))
		return outgoing_segment(skb, kind, dev, sk, list);
	return outgoing_packet(skb, sk, kind, dev);
}

/* The queueing discipline by which a flow leaves, and its device. */
static __noinline int report_interface(struct Qdisc *qdisc, struct net_device *dev, __u32 use)
{
	const struct flow_slot *slot = &flows[use >> 1 & (FLOW_SLOTS - 1)];
	struct event *e = reserve_event(EVENT_INTERFACE, is_of_others(slot));
	const struct Qdisc_ops *ops = qdisc->ops;

	if (!e)
		return 0;
	e->connection = slot->connection;
	e->flow = slot->connection * 2 + (use & 1);
	e->number = dev->ifindex;
	e->netns = netns_of_device(dev);
	bpf_probe_read_kernel(e->comm, sizeof(e->comm),
			      (const void *)dev + bpf_core_field_offset(struct net_device, name));
	bpf_probe_read_kernel(e->client_addr, sizeof(e->client_addr),
			      (const void *)ops + bpf_core_field_offset(struct Qdisc_ops, id));
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/* A flow may leave by several devices in turn: the first few times that it takes another one are reported. */
static __always_inline void note_interface(struct Qdisc *qdisc, struct net_device *dev, __u32 use)
{
	struct reported_interface *last = &reported_interfaces[use & (2 * FLOW_SLOTS - 1)];
	__u32 connection = flows[use >> 1 & (FLOW_SLOTS - 1)].connection;
	/* The first octets of its name. */
	__u64 discipline = word64((const void *)qdisc->ops + bpf_core_field_offset(struct Qdisc_ops, id));
	__u32 hash = (__u32)dev->ifindex * 0x9e3779b1 ^ (__u32)(discipline >> 32) ^ (__u32)discipline;
	__u32 interface = hash & ~INTERFACE_REPORTS_MAX;
	__u32 reports = last->connection == connection ? last->interface & INTERFACE_REPORTS_MAX : 0;

	if (reports && (last->interface & ~INTERFACE_REPORTS_MAX) == interface)
		return;
	if (reports == INTERFACE_REPORTS_MAX)
		return;
	last->connection = connection;
	last->interface = interface | (reports + 1);
	report_interface(qdisc, dev, use);
}

SEC("tp_btf/qdisc_enqueue")
int BPF_PROG(point3, struct Qdisc *qdisc, const struct netdev_queue *txq, struct sk_buff *skb)
{
	__u32 sent = outgoing(skb, RAW_QUEUED, skb->dev);

	/* A forwarded packet has no socket. */
	if (sent && skb->sk)
		note_interface(qdisc, skb->dev, sent - 1);
	return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(point4, struct sk_buff *skb, struct net_device *dev)
{
	outgoing(skb, RAW_TRANSMIT, dev);
	return 0;
}

#endif
