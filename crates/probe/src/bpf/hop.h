/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Devices between the two ends of a TCP connection on this host: of a router, a bridge, or below a tunnel. Points 3 to 6
 * are those of the ends' own devices, so that a byte passes each of them once. A pass of another device is a hop.
 *
 * A device in another network namespace than the end is never the end's own. Within the end's namespace the recorder
 * distinguishes them: the own device is the first that a byte passes.
 */
#ifndef SOCKSCOPE_HOP_H
#define SOCKSCOPE_HOP_H

static __noinline int report_device(const struct net_device *dev, const struct flow_slot *slot)
{
	struct device place = { .index = dev->ifindex, .netns = netns_of_device(dev) };
	struct device_name name = {};
	const struct device_name *known;
	struct event *e;

	bpf_probe_read_kernel(&name, sizeof(name),
			      (const void *)dev + bpf_core_field_offset(struct net_device, name));
	known = bpf_map_lookup_elem(&announced_devices, &place);
	if (known && known->words[0] == name.words[0] && known->words[1] == name.words[1])
		return 0;
	e = reserve_event(EVENT_DEVICE, is_of_others(slot));
	if (!e)
		return 0;
	e->number = place.index;
	e->netns = place.netns;
	__builtin_memcpy(e->comm, &name, sizeof(name));
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	bpf_map_update_elem(&announced_devices, &place, &name, BPF_ANY);
	return 0;
}

/* Reports the device's name, unless the recorder has it. */
static __always_inline void announce_device(struct record_list *list, const struct flow_slot *slot,
					    const struct net_device *dev)
{
	__u64 place = (__u64)netns_of_device(dev) << 32 | (__u32)dev->ifindex;

	if (list->device == place)
		return;
	list->device = place;
	report_device(dev, slot);
}

/* `flow_and_kind` has the kind of the record that it would be at an end, in its low octet. */
static __noinline int write_hop(struct record_list *list, struct flow_slot *slot,
				const struct net_device *dev, const struct packet *p,
				__u64 flow_and_kind)
{
	__u8 position = position_marks(slot);
	union raw_record *r;
	__u64 now, stamp;

	/* Acknowledgments alone wait for no byte. */
	if (!p->len)
		return 0;
	now = bpf_ktime_get_ns();
	r = reserve(list, slot, RAW_HOP, &stamp);
	if (!r)
		return 0;
	r->hop.at_ns = now;
	r->hop.flow = flow_and_kind >> 8;
	r->hop.seq = p->seq;
	r->hop.len = p->len;
	r->hop.ack = p->ack;
	r->hop.netns = netns_of_device(dev);
	r->hop.device = dev->ifindex;
	r->hop.kind = RAW_HOP;
	r->hop.at = flow_and_kind;
	r->hop.tcp_flags = p->flags;
	r->hop.marks = position;
	r->hop.window = p->window;
	r->hop.no_longs[0] = r->hop.no_longs[1] = 0;
	list->last_ns = now;
	commit(r, stamp);
	return 0;
}

/*
 * Whether the packet is handled here, as its device is of neither end: in another namespace than the packet's end there,
 * or than any end known. A SYN passes before the ends are known, and a reset may be of a host without a socket for it.
 */
static __noinline int passes_hop(struct record_list *list, struct flow_slot *slot,
				 const struct net_device *dev, const struct packet *p,
				 __u64 flow_and_kind)
{
	const struct flow_use *use = &uses[index_of(slot)];
	__u8 kind = flow_and_kind;
	bool is_of_source = kind == RAW_QUEUED || kind == RAW_TRANSMIT;
	bool is_of_client = (flow_and_kind >> 8 & 1) != is_of_source;
	bool is_low = slot->role & SLOT_LOW_IS_CLIENT ? is_of_client : !is_of_client;
	__u32 own = is_low ? use->netns[0] : use->netns[1];
	__u32 other = is_low ? use->netns[1] : use->netns[0];

	if (slot->key2 & SCOPE_MASK)
		return 0;
	announce_device(list, slot, dev);
	if (p->flags & 0x06)
		return 0;
	if (own & NETNS_CERTAIN ? is_same_netns(own, netns_of_device(dev)) :
				  !(other & NETNS_CERTAIN))
		return 0;
	write_hop(list, slot, dev, p, flow_and_kind);
	return 1;
}

/* Whether a packet may be at a hop at all. */
static __always_inline bool may_be_at_hop(const struct packet *p, const struct net_device *dev)
{
	return p->protocol == IPPROTO_TCP && !(dev->flags & IFF_LOOPBACK);
}

/* Whether these are the ports of the socket's sends. */
static __always_inline bool has_ports_of(__u64 first_word, const struct sock *sk)
{
	__u32 ports = first_word >> 32;

	return ports >> 16 == sk->__sk_common.skc_num &&
	       (ports & 0xffff) == bpf_ntohs(sk->__sk_common.skc_dport);
}

/*
 * Whether a packet that still has the socket which sent it is in another namespace by now, or within a tunnel's packet.
 */
static __always_inline bool is_behind_own_device(const struct sk_buff *skb,
						 const struct net_device *dev,
						 const struct sock *sk)
{
	return netns_of_device(dev) != netns_of(sk) ||
	       !has_ports_of(word64(skb->head + skb->transport_header), sk);
}

/* Such a packet. A tunnel leaves the place of the header within its own; without that the bytes are not known. */
static __noinline int pass_hop(struct sk_buff *skb, const struct net_device *dev, struct flow_slot *slot,
			       __u32 direction_and_kind)
{
	struct packet p = { .protocol = IPPROTO_TCP };
	struct record_list *list = this_list();
	unsigned char *transport = skb->head + skb->transport_header;
	__u64 flow = slot->connection * 2 + (direction_and_kind >> 8 & 1);
	__u64 first = word64(transport);
	struct sock *sk = skb->sk;

	if (!list || !sk)
		return 0;
	if (!has_ports_of(first, sk)) {
		transport = skb->head + skb->inner_transport_header;
		first = word64(transport);
		if (!has_ports_of(first, sk))
			return 0;
	}
	parse_tcp(first, word64(transport + 8), skb->len - (__u32)(transport - skb->data), &p);
	if (p.flags & 0x06)
		return 0;
	return write_hop(list, slot, dev, &p, flow << 8 | (direction_and_kind & 0xff));
}

#endif
