/* SPDX-License-Identifier: GPL-2.0 */
/* --in-band: the SYN of a logged connection carries the experimental option (RFC 6994). */
#ifndef SOCKSCOPE_IN_BAND_H
#define SOCKSCOPE_IN_BAND_H

#define SOCK_OPS_TCP_CONNECT 3
#define SOCK_OPS_HDR_OPT_LEN 14
#define SOCK_OPS_WRITE_HDR_OPT 15
#define SOCK_OPS_ACTIVE_ESTABLISHED 4
#define WRITE_HDR_OPT_FLAG (1 << 6)
#define TCP_FLAG_SYN 0x02

struct bpf_sock_ops {
	__u32 op;
	__u32 args[4];
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 is_fullsock;
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 bpf_sock_ops_cb_flags;
	__u32 state;
	__u32 rtt_min;
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
};

/* The pick as in send.h, here within connect(): the current task is the socket's user. */
static __always_inline bool connect_is_picked(struct bpf_sock_ops *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct tuple t = {};

	t.sport = ctx->local_port;
	t.dport = bpf_ntohl(ctx->remote_port);
	if (ctx->family == AF_INET) {
		t.saddr = ctx->local_ip4;
		t.daddr = ctx->remote_ip4;
	} else {
		__u32 a[4] = { ctx->remote_ip6[0], ctx->remote_ip6[1], ctx->remote_ip6[2],
			       ctx->remote_ip6[3] };

		t.daddr = is_mapped6(a) ? a[3] : fold6(a);
	}
	return is_picked(task->cgroups->dfl_cgrp, &t, true);
}

/* Each bit of the result depends on all bits of the number. No two numbers have the same result (splitmix64). */
static __always_inline __u64 mixed(__u64 number)
{
	number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9ULL;
	number = (number ^ number >> 27) * 0x94d049bb133111ebULL;
	return number ^ number >> 31;
}

/* The same in each SYN of a connection, and no other connection's: a socket that connects again has another ISN. */
static __always_inline __u64 number_of(struct bpf_sock_ops *ctx)
{
	__u64 socket = mixed(pick.mark_key + bpf_get_socket_cookie(ctx));

	return mixed(socket ^ ctx->snd_una) | MARK_WITHOUT_NUMBER << 1;
}

static __always_inline void write_mark(struct bpf_sock_ops *ctx)
{
	__u8 option[NUMBERED_MARK_LEN] = { IN_BAND_KIND, NUMBERED_MARK_LEN, IN_BAND_EXID >> 8,
					   IN_BAND_EXID & 0xff };
	__u64 number = number_of(ctx);

	for (__u32 i = 0; i < NUMBER_OCTETS; i++)
		option[MARK_LEN + i] = number >> 8 * (NUMBER_OCTETS - 1 - i);
	if (!bpf_store_hdr_opt(ctx, option, NUMBERED_MARK_LEN, 0))
		return;
	option[1] = MARK_LEN;
	bpf_store_hdr_opt(ctx, option, MARK_LEN, 0);
}

SEC("sockops")
int in_band(struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case SOCK_OPS_TCP_CONNECT:
		if (connect_is_picked(ctx))
			bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | WRITE_HDR_OPT_FLAG);
		break;
	case SOCK_OPS_HDR_OPT_LEN:
		/* A cookie of TCP Fast Open, or a signature, leaves no room for a number. */
		if (bpf_reserve_hdr_opt(ctx, NUMBERED_MARK_LEN, 0))
			bpf_reserve_hdr_opt(ctx, MARK_LEN, 0);
		break;
	case SOCK_OPS_WRITE_HDR_OPT:
		write_mark(ctx);
		break;
	case SOCK_OPS_ACTIVE_ESTABLISHED:
		/* Only the SYN carries it. */
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags & ~WRITE_HDR_OPT_FLAG);
		break;
	}
	return 1;
}

#endif
