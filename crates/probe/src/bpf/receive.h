/* SPDX-License-Identifier: GPL-2.0 */
/* Points 5 to 8: from the driver to the read call. */
#ifndef SOCKSCOPE_RECEIVE_H
#define SOCKSCOPE_RECEIVE_H

/* A SYN or first datagram that arrives: picked by port or address, or asking for it itself? */
static __noinline struct flow_slot *open_incoming(struct sk_buff *skb, struct packet *p,
						  unsigned char *network, __u32 netns,
						  struct key *k)
{
	bool picked = pick.any && !pick.has_cgroup && !pick.pids && !pick.has_comm &&
		      tuple_is_picked(&p->tuple);
	bool source_is_client = p->protocol == IPPROTO_UDP || (p->flags & 0x12) == 0x02;
	struct opening o = {
		.isn = source_is_client ? p->seq : p->ack - 1,
		.source_is_client = source_is_client,
	};
	__u64 mark = mark_of(skb, p);
	struct flow_slot *slot;

	if (!picked && !mark)
		return NULL;
	slot = open_slot(k, &o);
	if (!slot || o.is_open)
		return slot;
	if (p->protocol == IPPROTO_UDP)
		udp_seen = 1;
	announce_packet(slot, p, network, source_is_client, netns, false, o.replaced, mark);
	return slot;
}

/* The slot of an incoming packet, which may open the connection. */
static __always_inline struct flow_slot *slot_of_incoming(struct sk_buff *skb,
							  const struct net_device *dev, __u32 netns,
							  struct packet *p, struct key *k)
{
	struct sock *sk = skb->sk;
	struct flow_slot *slot;

	add_ends_of_packet(p, sk, netns, dev->flags & IFF_LOOPBACK, true, k);
	slot = find(k, sk);
	if (!slot && k->ambiguous) {
		note_ambiguous(k);
		return NULL;
	}
	/* Any host may send a SYN: one for a connection that a socket of this host has changes nothing. */
	if (slot && (slot->endpoints || !ends_former(slot, p)))
		return slot;
	if (p->protocol == IPPROTO_TCP && !(p->flags & 0x02))
		return NULL;
	return open_incoming(skb, p, skb->data, netns, k);
}

/*
 * Loopback delivers the socket buffer that point 4 recorded, usually on the same CPU. Point 6 then takes the
 * connection from the note of point 4 and needs no look-up. The address of the buffer is no identity: another
 * packet may have the buffer by now. So the header must be the same, in the same memory, and the connection must
 * still have its slot.
 */
static __always_inline struct flow_slot *passing_segment(struct record_list *list,
							 const struct sk_buff *skb, __u8 kind,
							 struct packet *p, __u32 *flow)
{
	struct passing_segment *passing = place_of_segment(list, skb);
	const unsigned char *transport = (const unsigned char *)passing->transport;
	struct flow_slot *slot = &flows[passing->slot & (FLOW_SLOTS - 1)];
	__u64 first, second;

	if (passing->skb != (__u64)skb)
		return NULL;
	barrier();
	first = word64(transport);
	second = word64(transport + 8);
	if (first != passing->words[0] || second != passing->words[1] ||
	    slot->connection != passing->connection)
		return NULL;
	parse_tcp(first, second, skb->len - (__u32)(passing->transport - (__u64)skb->data), p);
	*flow = passing->connection * 2 + passing->direction;
	barrier();
	/* Another hit may have interrupted this one and taken the place. */
	if (*(volatile __u64 *)&passing->skb != (__u64)skb)
		return NULL;
	if (kind == RAW_RECEIVE)
		passing->skb = 0;
	return slot;
}

static __always_inline int incoming_segment(struct record_list *list, struct flow_slot *slot,
					    const struct net_device *dev, __u8 kind,
					    const struct packet *p, __u32 flow)
{
	__u8 position = position_marks(slot);
	__u64 now = bpf_ktime_get_ns(), stamp;
	union raw_record *r = reserve(list, slot, kind, &stamp);

	if (!r)
		return 0;
	describe_packet(&r->tcp_packet, p, dev, kind, flow, position, now);
	r->any.word = 0;
	r->any.longs[0] = r->any.longs[1] = 0;
	list->last_ns = now;
	commit(r, stamp);
	return 0;
}

/* Any other incoming packet: set-up, datagrams, packets of other devices and from other CPUs. */
static __always_inline int incoming_packet(struct record_list *list, struct sk_buff *skb,
					   const struct net_device *dev, __u8 kind,
					   struct packet *p, struct key *k)
{
	__u32 netns = netns_of_device(dev);
	struct flow_slot *slot;
	union raw_record *r;
	__u64 now, stamp;
	__u8 position;

	slot = slot_of_incoming(skb, dev, netns, p, k);
	if (!slot)
		return 0;
	if (!list)
		return miss(slot, kind);
	if (may_be_at_hop(p, dev) &&
	    passes_hop(list, slot, dev, p, (__u64)flow_of(slot, k) << 8 | kind))
		return 0;
	position = position_marks(slot);
	now = bpf_ktime_get_ns();
	r = reserve(list, slot, kind, &stamp);
	if (!r)
		return 0;
	describe_packet(&r->tcp_packet, p, dev, kind, flow_of(slot, k), position, now);
	r->any.word = 0;
	r->any.longs[0] = r->any.longs[1] = 0;
	list->last_ns = now;
	note_use(slot, p, now);
	if (p->protocol == IPPROTO_UDP) {
		r->udp_packet.each_len = size_of_each(skb);
		r->udp_packet.buffer = buffer_of(skb);
		if (kind == RAW_RECEIVE) {
			list->udp_buffer = r->udp_packet.buffer;
			list->udp_flow = r->udp_packet.flow;
			list->udp_slot = slot - flows;
			list->udp_netns = netns;
			list->udp_len = p->len;
			list->udp_each = r->udp_packet.each_len;
			list->udp_port = p->tuple.dport;
		}
	}
	commit(r, stamp);
	return 0;
}

static __always_inline int incoming(struct sk_buff *skb, __u8 kind)
{
	struct packet passing = { .protocol = IPPROTO_TCP }, p = {};
	struct net_device *dev = skb->dev;
	struct record_list *list = this_list();
	struct flow_slot *slot;
	__u32 flow = 0;
	struct key k;

	if (list && dev->flags & IFF_LOOPBACK) {
		slot = passing_segment(list, skb, kind, &passing, &flow);
		if (slot)
			return incoming_segment(list, slot, dev, kind, &passing, flow);
	}
	if (!parse(skb, skb->data, skb->len, netns_of_device(dev), &p))
		return 0;
	make_key(&p.tuple, 0, &k);
	return incoming_packet(list, skb, dev, kind, &p, &k);
}

SEC("tp_btf/netif_rx")
int BPF_PROG(point5_rx, struct sk_buff *skb)
{
	return incoming(skb, RAW_INPUT);
}

SEC("tp_btf/napi_gro_receive_entry")
int BPF_PROG(point5_gro, struct sk_buff *skb)
{
	return incoming(skb, RAW_INPUT);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(point6, struct sk_buff *skb)
{
	return incoming(skb, RAW_RECEIVE);
}

/*
 * Whether a thread is blocked on this socket now: one sleeps in a receive call or in poll() (its
 * wait entry has a private pointer), or the entry is epoll's and one sleeps in epoll_wait().
 */
static __always_inline bool is_waited_for(const struct sock *sk)
{
	struct socket_wq *wq = sk->sk_wq;
	struct wait_queue_entry *entry;
	struct eppoll_entry *poll;
	struct eventpoll *ep;
	void *head, *first;

	if (!wq)
		return false;
	head = (void *)wq + bpf_core_field_offset(struct socket_wq, wait.head);
	first = FIELD(KERNEL_CAST(socket_wq, wq), wait.head.next);
	if (!first || first == head)
		return false;
	first -= bpf_core_field_offset(struct wait_queue_entry, entry);
	entry = KERNEL_CAST(wait_queue_entry, first);
	if (FIELD(entry, private))
		return true;
	first -= bpf_core_field_offset(struct eppoll_entry, wait);
	poll = KERNEL_CAST(eppoll_entry, first);
	if ((void *)FIELD(poll, whead) !=
	    (void *)wq + bpf_core_field_offset(struct socket_wq, wait))
		return false;
	ep = FIELD(KERNEL_CAST(epitem, FIELD(poll, base)), ep);
	head = (void *)ep + bpf_core_field_offset(struct eventpoll, wq.head);
	return (void *)FIELD(KERNEL_CAST(eventpoll, ep), wq.head.next) != head;
}

/* A socket in this namespace is an end: the one that a flow's datagrams go to. */
static __always_inline void note_reader(const struct flow_slot *slot, __u32 flow, __u32 netns)
{
	bool client_is_low = slot->role & SLOT_LOW_IS_CLIENT;
	struct flow_use *use = &uses[index_of(slot)];
	bool is_low = flow & 1 ? client_is_low : !client_is_low;

	set_netns(is_low ? &use->netns[0] : &use->netns[1], netns | NETNS_CERTAIN);
}

/* The number of a datagram socket that gets logged data, for the reads that follow. */
static __always_inline __u32 number_udp_socket(const struct sock *sk, __u32 flow, __u32 slot,
					       __u32 netns)
{
	struct udp_socket *known;
	__u32 number;

	known = bpf_sk_storage_get(&udp_sockets, (void *)sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!known) {
		__sync_fetch_and_add(&sockets_refused, 1);
		return 0;
	}
	if (known->flow != flow)
		note_reader(&flows[slot & (FLOW_SLOTS - 1)], flow, netns);
	known->flow = flow;
	known->slot = slot;
	number = known->number;
	if (!number) {
		number = __sync_fetch_and_add(&last_udp_socket, 1) + 1;
		known->number = number;
	} else if (!known->is_resized) {
		return number;
	}
	known->is_resized = 0;
	announce_socket(sk, flow ^ 1, number, slot);
	return number;
}

/* Whether packets that hold several datagrams enter this socket's queue whole (UDP_GRO). */
static __always_inline bool takes_several(const struct sock *sk)
{
	struct udp_sock *up = KERNEL_CAST(udp_sock, sk);

	if (bpf_core_field_exists(up->udp_flags))
		return FIELD(up, udp_flags) >> UDP_FLAGS_ACCEPT_L4 & 1;
	return FIELD_BITS((struct udp_sock___bits *)up, accept_udp_l4);
}

/*
 * The time when TCP took the segment with the data which it announces: as it begins with a segment it reads
 * the clock itself, some 0.1 us before. The clock is read again where no data arrived within this tick, so
 * that the announcement has another cause, and where a hit on this CPU is in between.
 */
static __always_inline __u64 taken_by_tcp(const struct sock *sk, const struct record_list *list)
{
#ifndef SOCKSCOPE_COPIES
	const struct tcp_sock *tp = KERNEL_CAST(tcp_sock, sk);
	__u64 at_ns = tp->tcp_clock_cache;

	if (bpf_core_field_exists(tp->inet_conn.icsk_ack.lrcvtime) && at_ns >= list->last_ns &&
	    tp->inet_conn.icsk_ack.lrcvtime == (__u32)bpf_jiffies64())
		return at_ns;
#endif
	return bpf_ktime_get_ns();
}

static __always_inline int bytes_are_ready(const struct sock *sk)
{
	struct record_list *list = this_list();
	struct flow_slot *slot;
	union raw_record *r;
	__u64 now, stamp;
	__u32 direction = 0;
	__u8 position;

	if (!list)
		return miss_of_socket(sk, RAW_READY);
	slot = slot_of_socket(list, sk, &direction);
	if (!slot)
		return 0;
	position = anchored_marks(list, slot, direction, sk);
	now = taken_by_tcp(sk, list);
	r = reserve(list, slot, RAW_READY, &stamp);
	if (!r)
		return 0;
	r->tcp_ready.at_ns = now;
	r->tcp_ready.flow = slot->connection * 2 + !direction;
	r->tcp_ready.rcv_nxt = FIELD(KERNEL_CAST(tcp_sock, sk), rcv_nxt);
	store_pair(&r->tcp_ready.no_words[0], 0, 0);
	store_pair(&r->tcp_ready.no_words[2], 0, 0);
	store_kind(r, RAW_READY, position | (is_waited_for(sk) ? RAW_MARK_WAITED_FOR : 0));
	r->tcp_ready.no_longs[0] = r->tcp_ready.no_longs[1] = 0;
	list->last_ns = now;
	commit(r, stamp);
	if (may_have_layer(sk))
		tell_layers(bpf_sk_storage_get(&told_of, (void *)sk, 0, 0), layers_of(sk));
	return 0;
}

static __always_inline int datagram_is_ready(const struct sock *sk)
{
	struct record_list *list = this_list();
	__u32 flow, len, socket, each = 0, rest = 0;
	struct flow_slot *slot;
	union raw_record *r;
	__u64 now, stamp;

	if (!list || !list->udp_flow || list->udp_port != sk->__sk_common.skc_num ||
	    list->udp_netns != netns_of(sk))
		return 0;
	flow = list->udp_flow;
	len = list->udp_len;
	if (list->udp_each && list->udp_each < len) {
		if (takes_several(sk)) {
			each = list->udp_each;
		} else {
			rest = len - list->udp_each;
			len = list->udp_each;
		}
	}
	list->udp_len = rest;
	if (!rest)
		list->udp_flow = 0;
	slot = &flows[list->udp_slot & (FLOW_SLOTS - 1)];
	socket = number_udp_socket(sk, flow, list->udp_slot, list->udp_netns);
	now = bpf_ktime_get_ns();
	r = reserve(list, slot, RAW_READY, &stamp);
	if (!r)
		return 0;
	r->udp_ready.at_ns = now;
	r->udp_ready.flow = flow;
	r->udp_ready.each_len = each;
	r->udp_ready.len = len;
	r->udp_ready.socket = socket;
	r->udp_ready.buffer = list->udp_buffer;
	r->udp_ready.no_thread = 0;
	store_kind(r, RAW_READY, RAW_MARK_UDP | (is_waited_for(sk) ? RAW_MARK_WAITED_FOR : 0));
	r->udp_ready.no_longs[0] = r->udp_ready.no_longs[1] = 0;
	list->last_ns = now;
	commit(r, stamp);
	return 0;
}

static __always_inline int data_is_ready(const struct sock *sk)
{
	if (sk->sk_protocol == IPPROTO_TCP)
		return bytes_are_ready(sk);
	if (sk->sk_protocol == IPPROTO_UDP)
		return datagram_is_ready(sk);
	return 0;
}

/* Data is in the receive queue, up to rcv_nxt; the reader is woken right after this. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(point7, const struct sock *sk)
{
	return data_is_ready(sk);
}

/* Replaces point7 on kernels without its tracepoint: the function whose beginning it is in. */
SEC("fentry/sock_def_readable")
int BPF_PROG(point7_call, struct sock *sk)
{
	return data_is_ready(sk);
}

/* In a record of TCP or of UDP: both have these fields at the same offset. */
static __always_inline void describe_reader(union raw_record *r)
{
	r->tcp_copy.last_arrival_ns = describe_thread(r)->sched_info.last_arrival;
}

/* Fires after each piece that a receive call copied, copied_seq already moved. */
SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(point8_tcp, struct sock *sk)
{
	struct record_list *list;
	struct flow_slot *slot;
	union raw_record *r;
	__u64 now, stamp;
	__u32 direction = 0;
	__u8 position;

	list = this_list();
	if (!list)
		return miss_of_socket(sk, RAW_COPY);
	slot = slot_of_socket(list, sk, &direction);
	if (!slot)
		return 0;
	position = anchored_marks(list, slot, direction, sk);
	now = bpf_ktime_get_ns();
	direction = !direction;
	r = reserve(list, slot, RAW_COPY, &stamp);
	if (!r)
		return 0;
	r->tcp_copy.at_ns = now;
	r->tcp_copy.flow = slot->connection * 2 + direction;
	r->tcp_copy.copied_seq = FIELD(KERNEL_CAST(tcp_sock, sk), copied_seq);
	r->tcp_copy.no_words[0] = r->tcp_copy.no_words[1] = r->tcp_copy.no_words[2] = 0;
	store_kind(r, RAW_COPY, position);
	describe_reader(r);
	list->last_ns = now;
	if (slot->reader[direction & 1] != r->tcp_copy.thread)
		note_thread(slot, &slot->reader[direction & 1], r->tcp_copy.flow ^ 1, r->tcp_copy.thread);
	commit(r, stamp);
	return 0;
}

/* Datagrams in the two queues of a socket: the one that senders fill and the one that reads empty. */
static __always_inline __u32 datagrams_left(const struct sock *sk)
{
	struct udp_sock *up = KERNEL_CAST(udp_sock, sk);

	return sk->sk_receive_queue.qlen + FIELD(up, reader_queue.qlen);
}

/* The slot of the connection that the socket got its last datagram of, or NULL if that is over. */
static __noinline struct flow_slot *slot_of_last(const struct udp_socket *known)
{
	struct flow_slot *slot = &flows[known->slot & (FLOW_SLOTS - 1)];

	return slot->connection == known->flow / 2 ? slot : NULL;
}

/*
 * A receive call on a datagram socket returned. Of the sender it shows nothing: the recorder
 * follows the socket's queue, first in, first out. Attached only while datagrams are logged.
 */
static __always_inline int datagram_was_read(const struct sock *sk, int ret, int flags)
{
	struct udp_socket *known;
	struct record_list *list;
	struct flow_slot *slot;
	union raw_record *r;
	__u64 now, stamp;
	__u32 left;

	if (sk->sk_protocol != IPPROTO_UDP || ret < 0 || (flags & (MSG_PEEK | MSG_ERRQUEUE)))
		return 0;
	known = bpf_sk_storage_get(&udp_sockets, (void *)sk, 0, 0);
	if (!known || !known->number)
		return 0;
	left = datagrams_left(sk);
	now = bpf_ktime_get_ns();
	/* Only the reader takes any out: the same number before and after is that of the time between. */
	left = datagrams_left(sk) == left ? left + 1 : 0;
	slot = slot_of_last(known);
	list = this_list();
	if (!list)
		return miss(slot, RAW_COPY);
	r = reserve(list, slot, RAW_COPY, &stamp);
	if (!r)
		return 0;
	r->udp_copy.at_ns = now;
	r->udp_copy.flow = known->flow;
	r->udp_copy.no_each = 0;
	r->udp_copy.len = ret;
	r->udp_copy.socket = known->number;
	r->udp_copy.left_plus_one = left;
	store_kind(r, RAW_COPY, RAW_MARK_UDP);
	describe_reader(r);
	list->last_ns = now;
	if (slot && known->reader != r->udp_copy.thread)
		note_thread(slot, &known->reader, r->udp_copy.flow ^ 1, r->udp_copy.thread);
	commit(r, stamp);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(point8_udp, struct sock *sk, int ret, int flags)
{
	return datagram_was_read(sk, ret, flags);
}

/*
 * Replaces point8_udp on kernels without its tracepoint: a receive call gives the datagram
 * back, copied; a peek has a negative length. At a beginning, as a program at the end of the
 * call would not run in one that has waited since before it was attached.
 */
SEC("fentry/skb_consume_udp")
int BPF_PROG(point8_consume, struct sock *sk, struct sk_buff *skb, int len)
{
	return datagram_was_read(sk, len, 0);
}

#endif
