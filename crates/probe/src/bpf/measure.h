/* SPDX-License-Identifier: GPL-2.0 */
/* Programs that the recorder runs itself: clock calibration, and the load of the benchmarks. */
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

/* Appends a burst of records as a bulk transfer would, for `cargo bench`. */
SEC("syscall")
int produce(struct burst *burst)
{
	struct record_list *list = this_list();
	__u64 now = bpf_ktime_get_ns();
	__u32 n = burst->records;

	if (!list)
		return 0;
	for (__u32 i = 0; i < 4096; i++) {
		struct raw_record *r;
		__u64 stamp;

		if (i >= n)
			break;
		r = reserve(list, NULL, RAW_TRANSMIT, &stamp);
		if (!r)
			break;
		r->at_ns = now + i;
		r->flow = burst->flow;
		r->seq = burst->seq + i * 1448;
		r->len = 1448;
		r->ack = 1;
		r->window = 512;
		r->thread = 0;
		r->kind = RAW_TRANSMIT;
		r->code = 0;
		r->tcp_flags = 0x10;
		r->marks = RAW_MARK_LOOPBACK;
		r->a = 100;
		r->b = 10;
		r->c = 65536;
		commit(r, stamp);
		burst->written = i + 1;
	}
	return 0;
}

#endif
