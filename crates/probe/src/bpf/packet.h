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
	__u8 aggregated;
	__u16 pad;
};

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
		struct iphdr *ip = KERNEL_CAST(iphdr, network);

		protocol = ip->protocol;
		if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
			return false;
		if (ip->frag_off & bpf_htons(0x1fff))
			return false;
		header_len = (ip->version_ihl & 0xf) * 4;
		ip_len = bpf_ntohs(ip->tot_len);
		if (!ip_len)
			ip_len = wire_len;
		p->tuple.saddr = ip->saddr;
		p->tuple.daddr = ip->daddr;
		loopback = is_loopback4(p->tuple.daddr);
		p->family = AF_INET;
	} else if (ethertype == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = KERNEL_CAST(ipv6hdr, network);
		__u32 a[4];

		protocol = ip->nexthdr;
		if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
			return false;
		header_len = 40;
		ip_len = bpf_ntohs(ip->payload_len);
		ip_len = ip_len ? ip_len + 40 : wire_len;
		a[0] = ip->saddr[0];
		a[1] = ip->saddr[1];
		a[2] = ip->saddr[2];
		a[3] = ip->saddr[3];
		p->tuple.saddr = fold6(a);
		a[0] = ip->daddr[0];
		a[1] = ip->daddr[1];
		a[2] = ip->daddr[2];
		a[3] = ip->daddr[3];
		p->tuple.daddr = fold6(a);
		loopback = is_loopback6(a);
		p->family = AF_INET6;
	} else {
		return false;
	}
	/* Keeps clang 14 from reading a register that it left unset on a path it thinks dead. */
	asm volatile("" : "+r"(loopback));
	transport = network + header_len;
	p->protocol = protocol;
	p->tuple.scope = scope_of(netns, protocol, loopback);
	p->header = transport - skb->head;
	if (protocol == IPPROTO_TCP) {
		struct tcphdr *tcp = KERNEL_CAST(tcphdr, transport);
		__u16 word = tcp->offset_flags;
		__u32 data_offset = (word & 0xf0) >> 2;

		p->tuple.sport = bpf_ntohs(tcp->source);
		p->tuple.dport = bpf_ntohs(tcp->dest);
		p->seq = bpf_ntohl(tcp->seq);
		p->ack = bpf_ntohl(tcp->ack_seq);
		p->window = bpf_ntohs(tcp->window);
		p->flags = word >> 8;
		p->len = ip_len - header_len - data_offset;
	} else {
		struct udphdr *udp = KERNEL_CAST(udphdr, transport);

		p->tuple.sport = bpf_ntohs(udp->source);
		p->tuple.dport = bpf_ntohs(udp->dest);
		p->len = bpf_ntohs(udp->len);
		p->len = (p->len ? p->len : ip_len - header_len) - 8;
		p->seq = p->ack = 0;
		p->window = 0;
		p->flags = 0;
	}
	return true;
}

#endif
