/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Appending to this CPU's list. A hit may be interrupted by another on the same CPU (task by
 * softirq by hardirq), so the place is taken with an atomic add, and the stamp is written last.
 */
#ifndef SOCKSCOPE_LIST_H
#define SOCKSCOPE_LIST_H

/* The list of this CPU, or NULL. */
static __always_inline struct record_list *this_list(void)
{
	__u32 number = bpf_get_smp_processor_id();

	if (!list_is_cpu)
		number = number < MAX_CPUS ? list_of_cpu[number] : MAX_CPUS;
	return bpf_map_lookup_elem(&lists, &number);
}

/* In the first CPU's list, of a hit on a CPU that has none. */
static __noinline int count_unlisted(__u32 kind)
{
	__u32 first = 0;
	struct record_list *list = bpf_map_lookup_elem(&lists, &first);

	if (list)
		__sync_fetch_and_add(&list->lost[kind & 15], 1);
	__sync_fetch_and_add(&unlisted, 1);
	return 0;
}

/* Marks the next record of the connection: one before it is missing. */
static __always_inline void set_adrift(struct flow_slot *slot)
{
	if (slot)
		slot->missed = (slot->missed & RAW_MARK_ODD) | RAW_MARK_ADRIFT;
}

/* A hit on a CPU that went online after the lists were made. */
static __always_inline int miss(struct flow_slot *slot, __u8 kind)
{
	set_adrift(slot);
	return count_unlisted(kind);
}

/* Whether the connection has a share alone, because another user asked for it. */
static __always_inline bool has_share(const struct flow_slot *slot)
{
	return others_may_ask && slot && slot->role & SLOT_OF_OTHERS;
}

/* A place for a record, or NULL. Connections that other users asked for fill half of the list. */
static __always_inline union raw_record *take_place(struct record_list *list,
						     const struct flow_slot *slot, __u64 *stamp)
{
	__u64 head = *(volatile __u64 *)&list->head;
	__u64 room = list_room;

	if (has_share(slot))
		room /= 2;
	if (head - *(volatile __u64 *)&list->tail >= room)
		return NULL;
	head = __sync_fetch_and_add(&list->head, 1);
	*stamp = head + 1;
	return &list->records[head & list_mask];
}

/* A record of `kind` is not in the list: it is counted as lost. */
static __always_inline void count_lost(struct record_list *list, struct flow_slot *slot, __u8 kind)
{
	if (has_share(slot))
		__sync_fetch_and_add(&list->others_lost[kind & 15], 1);
	else
		__sync_fetch_and_add(&list->lost[kind & 15], 1);
	set_adrift(slot);
}

/*
 * A place for a record of `kind`, or NULL: then it is counted as lost.
 */
static __always_inline union raw_record *reserve(struct record_list *list, struct flow_slot *slot,
						  __u8 kind, __u64 *stamp)
{
	union raw_record *r = take_place(list, slot, stamp);

	if (r)
		return r;
	count_lost(list, slot, kind);
	return NULL;
}

/* Stores two fields that follow one another with one instruction: the frame of the caller stays smaller too. */
static __always_inline void store_pair(__u32 *first, __u32 value, __u32 next)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	*(__u64 *)first = (__u64)next << 32 | value;
#else
	*(__u64 *)first = (__u64)value << 32 | next;
#endif
}

/* Stores the kind, its marks, and 0 in `code`, `tcp_flags` and `word`. */
static __always_inline void store_kind(union raw_record *r, __u8 kind, __u8 marks)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	store_pair((__u32 *)&r->any.kind, kind | (__u32)marks << 24, 0);
#else
	store_pair((__u32 *)&r->any.kind, (__u32)kind << 24 | marks, 0);
#endif
}

/* The running thread of a send or receive call, in a record of RAW_WRITE, RAW_COPY or a return. */
static __always_inline const struct task_struct *describe_thread(union raw_record *r)
{
	const struct task_struct *task = bpf_get_current_task_btf();

	r->any.thread = task->pid;
	r->any.longs[0] = task->sched_info.run_delay;
	return task;
}

static __always_inline void commit(union raw_record *record, __u64 stamp)
{
	publish(&record->any.stamp, stamp);
}

#endif
