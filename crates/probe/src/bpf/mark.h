/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The mark of --in-band: an option in the SYN, kind 253 with ExID 0x5350 (RFC 6994), which asks the receiver to log.
 * Behind that it has a number of the connection, unless the SYN's options leave no room for one. A translator of
 * addresses leaves the option as it is, so that the number is the same at both hosts.
 */
#ifndef SOCKSCOPE_MARK_H
#define SOCKSCOPE_MARK_H

#define IN_BAND_KIND 253
#define IN_BAND_EXID 0x5350
/* The option without a number, as earlier releases send it, and with one, in network order. */
#define MARK_LEN 4
#define NUMBERED_MARK_LEN 12
#define NUMBER_OCTETS (NUMBERED_MARK_LEN - MARK_LEN)
/* What mark_in() returns of a mark without a number; numbers are greater. */
#define MARK_WITHOUT_NUMBER 1
#define OPTIONS_MAX 40
/* A power of two above that: a mask gives the verifier a bound for the place of an option. */
#define OPTION_PLACES 64

struct options {
	__u8 octets[OPTION_PLACES + NUMBERED_MARK_LEN];
	__u32 size;
	__u32 at;
	__u64 mark;
};

static long look_at_option(__u32 number, struct options *options)
{
	__u32 at = options->at & (OPTION_PLACES - 1);
	__u8 kind = options->octets[at], len = options->octets[at + 1];

	if (at >= options->size || !kind)
		return 1;
	if (kind == 1) {
		options->at = at + 1;
		return 0;
	}
	if (kind == IN_BAND_KIND && (len == MARK_LEN || len == NUMBERED_MARK_LEN) &&
	    options->octets[at + 2] == IN_BAND_EXID >> 8 &&
	    options->octets[at + 3] == (IN_BAND_EXID & 0xff)) {
		__u64 mark = 0;

		if (len == NUMBERED_MARK_LEN && at + len <= options->size)
			for (__u32 i = 0; i < NUMBER_OCTETS; i++)
				mark = mark << 8 | options->octets[at + MARK_LEN + i];
		options->mark = mark > MARK_WITHOUT_NUMBER ? mark : MARK_WITHOUT_NUMBER;
		return 1;
	}
	options->at = at + len;
	return len < 2 || options->at >= OPTIONS_MAX;
}

/*
 * The mark in the options at this address: its number, MARK_WITHOUT_NUMBER, or 0 without a mark. Global, as the
 * picks of pick.h: many paths, checked once. Not a plain loop: the verifier checks each turn of one for each
 * place that the turn before may have led to.
 */
__noinline __u64 mark_in(__u64 address, __u64 size)
{
	struct options options = { .size = size };

	if (size > OPTIONS_MAX || bpf_probe_read_kernel(options.octets, size, (const void *)address))
		return 0;
	bpf_loop(OPTIONS_MAX, look_at_option, &options, 0);
	return options.mark;
}

/* The same of a packet, where marks are of interest: of a SYN, and not of its answer. */
static __always_inline __u64 mark_of(const struct sk_buff *skb, const struct packet *p)
{
	const unsigned char *tcp = skb->head + p->header;
	__u64 options = 0;
	__u32 size;

	if (!pick.in_band || p->protocol != IPPROTO_TCP || (p->flags & 0x12) != 0x02)
		return 0;
	size = ((FIELD(KERNEL_CAST(tcphdr, tcp), offset_flags) & 0xf0) >> 2) - 20;
	/* A global function takes numbers alone: a helper's copy is one. */
	bpf_probe_read_kernel(&options, sizeof(options), &tcp);
	return mark_in(options + 20, size);
}

#endif
