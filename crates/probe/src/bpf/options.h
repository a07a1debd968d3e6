/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Socket options: kept in the socket until a connection of it is logged, and then reported.
 *
 * The recorder never has to match an option with a socket: by then the probes know the flow that the socket
 * sends. Sockets that are never logged cost the recorder nothing.
 */
#ifndef SOCKSCOPE_OPTIONS_H
#define SOCKSCOPE_OPTIONS_H

#define SOL_SOCKET 1
#define SOL_TCP 6
#define SO_SNDBUF 7
#define SO_RCVBUF 8
#define SO_RCVLOWAT 18
#define SO_SNDBUFFORCE 32
#define SO_RCVBUFFORCE 33

/*
 * A place for an option. Where none is free, the place of the last option of the same name: the newest
 * value is the one that counts, and the one before it is counted as missed.
 */
static __always_inline struct kept_option *place_for(struct kept_options *kept, __u16 level,
						     __u16 option)
{
	__u32 count = kept->count;

	if (count < OPTIONS_KEPT) {
		kept->count = count + 1;
		return &kept->kept[count];
	}
	kept->missed++;
	for (int i = OPTIONS_KEPT - 1; i >= 0; i--)
		if (kept->kept[i].level == level && kept->kept[i].option == option)
			return &kept->kept[i];
	return NULL;
}

/* Reports the options of a socket that sends `flow`, each once. */
static __noinline int tell_options(struct kept_options *kept, __u32 flow, __u64 now, __u32 sndbuf,
				   __u32 rcvbuf)
{
	__u32 count, missed;

	if (!kept)
		return 0;
	count = kept->count;
	missed = kept->missed;
	kept->count = kept->missed = 0;
	for (__u32 i = 0; i < OPTIONS_KEPT; i++) {
		const struct kept_option *option = &kept->kept[i];
		struct option_event *e;

		if (i >= count)
			break;
		e = bpf_ringbuf_reserve(&option_events, sizeof(*e), 0);
		if (!e) {
			missed += count - i;
			break;
		}
		e->at_ns = now;
		e->flow = flow;
		e->thread = option->thread;
		e->level = option->level;
		e->option = option->option;
		e->value = option->value;
		e->most = option->most;
		e->sndbuf = sndbuf;
		e->rcvbuf = rcvbuf;
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	}
	if (missed)
		__sync_fetch_and_add(&options_missed, missed);
	return 0;
}

/* The same for a socket with its buffers as they are. */
static __always_inline void tell_options_of(const struct sock *sk, __u32 flow, __u64 now)
{
	struct kept_options *kept = bpf_sk_storage_get(&kept_options, (void *)sk, 0, 0);

	if (kept)
		tell_options(kept, flow, now, FIELD(sk, sk_sndbuf), FIELD(sk, sk_rcvbuf));
}

#endif
