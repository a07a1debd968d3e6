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
};

static long (*sock_ops_cb_flags_set)(struct bpf_sock_ops *, int) = (void *)59;
static long (*store_hdr_opt)(struct bpf_sock_ops *, const void *, __u32, __u64) = (void *)142;
static long (*reserve_hdr_opt)(struct bpf_sock_ops *, __u32, __u64) = (void *)144;

SEC("sockops")
int in_band(struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case SOCK_OPS_TCP_CONNECT: {
		struct tuple t = {};

		t.sport = ctx->local_port;
		t.dport = bpf_ntohl(ctx->remote_port);
		if (pick.any && (!pick.ports || tuple_is_picked(&t)) &&
		    (!(pick.pids || pick.has_comm) || current_is_picked()))
			sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | WRITE_HDR_OPT_FLAG);
		break;
	}
	case SOCK_OPS_HDR_OPT_LEN:
		reserve_hdr_opt(ctx, 4, 0);
		break;
	case SOCK_OPS_WRITE_HDR_OPT: {
		__u8 option[4] = { IN_BAND_KIND, 4, IN_BAND_EXID >> 8, IN_BAND_EXID & 0xff };

		store_hdr_opt(ctx, option, sizeof(option), 0);
		break;
	}
	case SOCK_OPS_ACTIVE_ESTABLISHED:
		/* Only the SYN carries it. */
		sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags & ~WRITE_HDR_OPT_FLAG);
		break;
	}
	return 1;
}

#endif
