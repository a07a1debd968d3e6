/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Why TCP does not send the next byte of the send queue: the conditions of tcp_write_xmit()
 * (net/ipv4/tcp_output.c), evaluated on the same fields. Codes are those of the trace.
 */
#ifndef SOCKSCOPE_HOLD_H
#define SOCKSCOPE_HOLD_H

enum hold {
	HOLD_NONE = 0,
	HOLD_NAGLE = 1,
	HOLD_CORK = 2,
	HOLD_CWND = 3,
	HOLD_RWND = 4,
	HOLD_PACING = 5,
	HOLD_SMALL_QUEUE = 6,
	HOLD_OTHER = 7,
};

static __always_inline bool after(__u32 a, __u32 b)
{
	return (__s32)(b - a) < 0;
}

/* tcp_packets_in_flight() */
static __always_inline __u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/* tcp_small_queue_check() */
static __always_inline bool small_queue_is_full(const struct sock *sk, __u32 truesize)
{
	__u64 limit = (__u64)sk->sk_pacing_rate >> (sk->sk_pacing_shift & 63);
	__s32 queued = sk->sk_wmem_alloc.refs.counter;

	if (limit < 2 * (__u64)truesize)
		limit = 2 * (__u64)truesize;
	if (sk->sk_pacing_status == SK_PACING_NONE) {
		__u64 most = sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_limit_output_bytes;

		if (limit > most)
			limit = most;
	}
	return queued > 0 && (__u64)queued > limit;
}

/*
 * The reason that holds back the byte at `next` while `unsent` bytes wait from there on. `segments` are
 * being sent right now and not yet counted by TCP, `flying` are those and all in flight; `small` means that
 * the last one is below `mss`. `truesize` is that of the packet being sent, 0 at a write call.
 */
static __always_inline __u8 hold_reason(const struct sock *sk, const struct tcp_sock *tp,
					__u32 next, __s32 unsent, __u32 mss, __u32 segments,
					__u32 flying, bool small, __u32 truesize, __u64 now)
{
	__u32 chunk;
	__u8 nagle;

	if (unsent <= 0)
		return HOLD_NONE;
	chunk = (__u32)unsent < mss ? (__u32)unsent : mss;
	if (flying >= tp->snd_cwnd)
		return HOLD_CWND;
	if (after(next + chunk, tp->snd_una + tp->snd_wnd))
		return HOLD_RWND;
	if ((__u32)unsent < mss) {
		nagle = BPF_CORE_READ_BITFIELD(tp, nonagle);
		if (nagle & TCP_NAGLE_CORK)
			return HOLD_CORK;
		/* tcp_nagle_check() with Minshall's rule: only behind a small segment in flight. */
		if (!(nagle & TCP_NAGLE_OFF) && tp->packets_out + segments > 0 &&
		    (small || (after(tp->snd_sml, tp->snd_una) && !after(tp->snd_sml, next))))
			return HOLD_NAGLE;
	}
	/* tcp_pacing_check(); a packet that is being sent right now moves the stamp on. */
	if (sk->sk_pacing_status == SK_PACING_NEEDED && (segments || tp->tcp_wstamp_ns > now))
		return HOLD_PACING;
	if (truesize && small_queue_is_full(sk, truesize))
		return HOLD_SMALL_QUEUE;
	return HOLD_NONE;
}

/*
 * The same for a call with MSG_MORE: for this call tcp_push() takes a short segment as corked,
 * with any setting of the socket; only the windows are looked at before.
 */
static __always_inline __u8 hold_of_more(__u8 hold)
{
	return hold == HOLD_CWND || hold == HOLD_RWND ? hold : HOLD_CORK;
}

#endif
