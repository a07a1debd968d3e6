/* SPDX-License-Identifier: GPL-2.0 */
/* Programs that the recorder runs itself: clock calibration, age, and the load of the benchmarks. */
#ifndef SOCKSCOPE_MEASURE_H
#define SOCKSCOPE_MEASURE_H

struct calibration {
	__u64 now_ns;	  /* CLOCK_MONOTONIC */
	__u64 arrival_ns; /* when this thread last got its CPU, scheduler clock */
};

SEC("syscall")
int calibrate(struct calibration *c)
{
	struct task_struct *task = bpf_get_current_task_btf();

	c->arrival_ns = task->sched_info.last_arrival;
	c->now_ns = bpf_ktime_get_ns();
	return 0;
}

struct sweep {
	__u32 from;  /* number of the first slot to look at */
	__u32 slots; /* their number */
	__u32 idle;  /* units of 2^20 ns after which one is free */
	__u32 now;
};

/*
 * The share fell: the connection is left out from now on, whatever the share is later. Without a slot, its sockets
 * and packets cost no more than those of a connection that was never logged. The event has a time before any hit
 * that finds no slot. Without room for it the slot stays until the next look.
 */
static __noinline int leave_out_slot(struct flow_slot *slot, __u32 connection)
{
	struct key k = { .key1 = slot->key1, .key2 = slot->key2 };
	__u32 isn = slot->isn;
	struct event *e = try_event(EVENT_LEFT_OUT);

	if (!e)
		return 1;
	/* First: a datagram that finds no slot asks for it. SO_LOG asks without the sequence number. */
	note_left_out(&k, isn);
	note_left_out(&k, 0);
	e->connection = connection;
	if (free_slot(slot, connection)) {
		__sync_fetch_and_add(&connections_left_out_later, 1);
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	} else {
		bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);
	}
	return 0;
}

/* Ends the connection of one slot where no packet used it for as long, or where the share has it no more. */
static long sweep_slot(__u32 number, struct sweep *sweep)
{
	__u32 index = (sweep->from + number) & (FLOW_SLOTS - 1);
	struct flow_slot *slot = &flows[index];
	__u32 connection = slot->connection;
	struct key k = {};
	struct event *e;

	if (!connection || connection == SLOT_BUSY)
		return 0;
	k.key1 = slot->key1;
	k.key2 = slot->key2;
	if (is_beyond_share(&k))
		return leave_out_slot(slot, connection);
	if (!has_no_end(slot) || (__s32)(sweep->now - uses[index].used) < (__s32)sweep->idle)
		return 0;
	/* Without room for the event it stays until the next look. */
	e = try_event(EVENT_GONE);
	if (!e)
		return 1;
	e->connection = connection;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	free_slot(slot, connection);
	return 0;
}

SEC("syscall")
int expire(struct sweep *sweep)
{
	struct sweep own = *sweep;

	own.now = ticks_of(bpf_ktime_get_ns());
	bpf_loop(own.slots & (FLOW_SLOTS - 1), sweep_slot, &own, 0);
	return 0;
}

/* The cost that every hook has before its program does anything. */
SEC("tp_btf/net_dev_start_xmit")
int empty(void *ctx)
{
	return 0;
}

struct burst {
	__u32 records;
	__u32 flow;
	__u32 seq;
	__u32 written;
};

struct production {
	struct burst burst;
	/* Of its first record; each later one is a nanosecond later. */
	__u64 at_ns;
};

/* One record of a burst; as each hit does, it looks up its list. */
static long produce_one(__u32 i, struct production *made)
{
	struct record_list *list = this_list();
	union raw_record *r;
	__u64 stamp;

	if (!list)
		return 1;
	r = reserve(list, NULL, RAW_TRANSMIT, &stamp);
	if (!r)
		return 1;
	r->tcp_packet.at_ns = made->at_ns + i;
	r->tcp_packet.flow = made->burst.flow;
	r->tcp_packet.seq = made->burst.seq + i * 1448;
	r->tcp_packet.len = 1448;
	r->tcp_packet.ack = 1;
	r->tcp_packet.window = 512;
	r->tcp_packet.device = 0;
	r->tcp_packet.kind = RAW_TRANSMIT;
	r->tcp_packet.hold = 0;
	r->tcp_packet.tcp_flags = 0x10;
	r->tcp_packet.marks = RAW_MARK_LOOPBACK;
	r->tcp_packet.since_taken_ns = 100;
	r->tcp_packet.snd_cwnd = 10;
	r->tcp_packet.in_flight = 0;
	r->tcp_packet.snd_wnd = 65536;
	r->tcp_packet.srtt_us = 0;
	commit(r, stamp);
	made->burst.written = i + 1;
	return 0;
}

/* Appends a burst of records as a bulk transfer would, for `cargo bench`. */
SEC("syscall")
int produce(struct burst *burst)
{
	struct production made = { .burst = *burst, .at_ns = bpf_ktime_get_ns() };

	/* The verifier would follow each turn of a loop. */
	bpf_loop(burst->records, produce_one, &made, 0);
	burst->written = made.burst.written;
	return 0;
}

#endif
