/* SPDX-License-Identifier: GPL-2.0 */
/* Header fields of a packet. Only headers are read, never payload. */
#ifndef SOCKSCOPE_PACKET_H
#define SOCKSCOPE_PACKET_H

struct packet {
	struct tuple tuple;
	__u32 seq;
	__u32 ack;
	__u32 len;
	__u32 header; /* offset of the transport header from skb->head */
	__u16 window;
	__u8 flags;
	__u8 protocol;
	__u8 family;
	__u8 opens; /* a connection got its slot */
	__u8 loopback; /* its source or destination is such an address */
};

/* Big-endian words of any header. Each load of memory that the verifier does not
 * trust costs ten instructions, so that headers are read in as few loads as will do. */
static __always_inline __u64 word64(const void *at)
{
	return bpf_be64_to_cpu((__u64)FIELD(KERNEL_CAST(timespec64, at), tv_sec));
}

static __always_inline void read_address6(const void *at, __u32 a[4])
{
	__u64 high = word64(at), low = word64(at + 8);

	a[0] = bpf_htonl((__u32)(high >> 32));
	a[1] = bpf_htonl((__u32)high);
	a[2] = bpf_htonl((__u32)(low >> 32));
	a[3] = bpf_htonl((__u32)low);
}

/* From the first two words of TCP's header, which with its payload has `transport_len` octets. */
static __always_inline void parse_tcp(__u64 first, __u64 second, __u32 transport_len, struct packet *p)
{
	p->seq = first;
	p->ack = second >> 32;
	p->window = second;
	p->flags = second >> 16;
	p->len = transport_len - (__u32)(second >> 28 & 0xf) * 4;
}

static __always_inline void parse_transport(unsigned char *transport, __u32 transport_len,
					    struct packet *p)
{
	__u64 first = word64(transport);

	p->tuple.sport = first >> 48;
	p->tuple.dport = first >> 32;
	if (p->protocol == IPPROTO_TCP) {
		parse_tcp(first, word64(transport + 8), transport_len, p);
	} else {
		__u32 udp_len = first >> 16 & 0xffff;

		p->len = (udp_len ? udp_len : transport_len) - 8;
		p->seq = p->ack = 0;
		p->window = 0;
		p->flags = 0;
	}
}

/*
 * Fills `p` from the headers that begin at `network` (IP). `wire_len` is the length from there on
 * that the skb itself claims, for packets too long for their own length field. False: neither
 * TCP nor UDP, or a fragment after the first.
 */
static __always_inline bool parse(const struct sk_buff *skb, unsigned char *network,
				  __u32 wire_len, __u32 netns, struct packet *p)
{
	__u32 header_len, ip_len, protocol;
	unsigned char *transport;
	__u32 loopback;
	__u16 ethertype = skb->protocol;

	if (ethertype == bpf_htons(ETH_P_IP)) {
		/* Total length, identification, fragment, time to live, protocol. */
		__u64 middle = word64(network + 2);
		__u64 addresses = word64(network + 12);

		protocol = middle & 0xff;
		if (middle >> 16 & 0x1fff)
			return false;
		header_len = (FIELD(KERNEL_CAST(iphdr, network), version_ihl) & 0xf) * 4;
		ip_len = middle >> 48;
		if (!ip_len)
			ip_len = wire_len;
		p->tuple.saddr = bpf_htonl((__u32)(addresses >> 32));
		p->tuple.daddr = bpf_htonl((__u32)addresses);
		loopback = is_loopback4(p->tuple.daddr) || is_loopback4(p->tuple.saddr);
		p->family = AF_INET;
	} else if (ethertype == bpf_htons(ETH_P_IPV6)) {
		/* Version and flow label, payload length, next header, hop limit. */
		__u64 start = word64(network);
		__u32 a[4];

		protocol = start >> 8 & 0xff;
		header_len = 40;
		ip_len = start >> 16 & 0xffff;
		ip_len = ip_len ? ip_len + 40 : wire_len;
		read_address6(network + 8, a);
		p->tuple.saddr = fold6(a);
		loopback = is_loopback6(a);
		read_address6(network + 24, a);
		p->tuple.daddr = fold6(a);
		loopback |= is_loopback6(a);
		p->family = AF_INET6;
	} else {
		return false;
	}
	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return false;
	/* Keeps clang 14 from reading a register that it left unset on a path it thinks dead. */
	asm volatile("" : "+r"(loopback));
	transport = network + header_len;
	p->protocol = protocol;
	p->loopback = loopback;
	p->tuple.scope = scope_of(netns, protocol, loopback);
	p->header = transport - skb->head;
	parse_transport(transport, ip_len - header_len, p);
	return true;
}

/*
 * Whether the packet's own socket is this one of the packet: around it may be a tunnel's header. A raw
 * socket may send in anybody's name, and TCP's own one for resets has a namespace only while it sends.
 */
static __always_inline bool is_sent_by(const struct sock *sk, const struct packet *p)
{
	__u8 state = sk->__sk_common.skc_state;

	if (sk->__sk_common.skc_num != p->tuple.sport)
		return false;
	if (state == TCP_NEW_SYN_RECV || state == TCP_TIME_WAIT)
		return p->protocol == IPPROTO_TCP;
	return sk->sk_protocol == p->protocol &&
	       sk->sk_type == (p->protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM);
}

/* Adds the ends that a packet at a device of this namespace shows to its key: see flow.h. */
static __always_inline void add_ends_of_packet(const struct packet *p, const struct sock *sk,
					       __u32 netns, bool is_loopback, bool is_input,
					       struct key *k)
{
	if (is_in_one_namespace(k))
		return;
	if (p->protocol == IPPROTO_TCP && p->flags & 0x06) {
		k->isn[0] = p->seq;
		k->isn[1] = p->ack - 1;
		k->has_isn = (p->flags & 0x12) == 0x02 ? 1 : p->flags & 0x10 ? 2 : 0;
	}
	if (is_loopback) {
		k->sender = k->receiver = netns | NETNS_CERTAIN;
		return;
	}
	netns &= ~NETNS_CERTAIN;
	if (sk && is_sent_by(sk, p)) {
		__u8 state = sk->__sk_common.skc_state;

		k->sender = netns_of(sk) | NETNS_CERTAIN;
		k->has_socket = p->protocol == IPPROTO_TCP && state != TCP_NEW_SYN_RECV &&
				state != TCP_TIME_WAIT && state != TCP_LISTEN;
		/* A reset at any other time has no such number. */
		if (k->has_socket && p->flags & 0x04)
			k->has_isn = 0;
	} else if (!is_input) {
		k->sender = netns;
	}
	if (is_input)
		k->receiver = netns;
}

/* The key of a packet at a device of this namespace. */
static __always_inline void key_of_packet(const struct packet *p, const struct sock *sk,
					  __u32 netns, bool is_loopback, bool is_input, struct key *k)
{
	make_key(&p->tuple, 0, k);
	add_ends_of_packet(p, sk, netns, is_loopback, is_input, k);
}

/*
 * Distinguishes a datagram from others in transit: its buffer, which is its own from the socket to
 * the receive queue on one host, as long as no device copies it. Headers do not: without a connected
 * socket the identification is 0, and a checksum that is left to the device depends on the length alone.
 */
static __always_inline __u32 buffer_of(const struct sk_buff *skb)
{
	/* As a number: the verifier allows no shift of a pointer. */
	const void *at = (const void *)skb + bpf_core_field_offset(struct sk_buff, head);
	__u64 head = FIELD(KERNEL_CAST(timespec64, at), tv_sec);

	return (__u32)(head >> 6) | 1U << 31;
}

/* Octets of each datagram of a packet that holds several, else 0; a tunnel's packet is one. */
static __always_inline __u32 size_of_each(const struct sk_buff *skb)
{
	struct skb_shared_info *shared = KERNEL_CAST(skb_shared_info, skb->head + skb->end);
	__u32 type = FIELD(shared, gso_type);

	if (!(type & SKB_GSO_UDP_L4) || type & (SKB_GSO_UDP_TUNNEL | SKB_GSO_UDP_TUNNEL_CSUM))
		return 0;
	return FIELD(shared, gso_size);
}

#endif
