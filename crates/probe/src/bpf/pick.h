/* SPDX-License-Identifier: GPL-2.0 */
/* Which connections are logged, decided once: when a connection opens or its mark is set. */
#ifndef SOCKSCOPE_PICK_H
#define SOCKSCOPE_PICK_H

static __always_inline __u64 kernfs_id(const struct cgroup *cgroup)
{
	const struct kernfs_node *node = FIELD(cgroup, kn);

	return FIELD(node, id);
}

static __always_inline bool in_picked_cgroup(struct cgroup *cgroup)
{
	struct cgroup *ancestor;
	__u32 level = pick.cgroup_level & 63;

	if (!cgroup || FIELD(cgroup, level) < (int)level)
		return false;
	if (FIELD(cgroup, level) == (int)level)
		return kernfs_id(cgroup) == pick.cgroup_id;
	/* A program of its own may sit below: look at the ancestor on the picked level. */
	bpf_probe_read_kernel(&ancestor, sizeof(ancestor),
			      (const void *)cgroup + bpf_core_field_offset(struct cgroup, ancestors) +
				      level * sizeof(void *));
	cgroup = KERNEL_CAST(cgroup, ancestor);
	return kernfs_id(cgroup) == pick.cgroup_id;
}

/*
 * A check with as many outcomes as there are picks is a global function: the verifier checks it once, for
 * any arguments, and not again on each path of each program that asks.
 */
__noinline int ports_are_picked(__u16 sport, __u16 dport)
{
	for (__u32 i = 0; i < MAX_PORTS; i++)
		if (i < pick.ports && (pick.port[i] == sport || pick.port[i] == dport))
			return 1;
	return 0;
}

__noinline int addresses_are_picked(__u32 saddr, __u32 daddr)
{
	for (__u32 i = 0; i < MAX_ADDRESSES; i++)
		if (i < pick.addresses && (pick.address[i] == saddr || pick.address[i] == daddr))
			return 1;
	return 0;
}

__noinline int pid_is_picked(__u32 tgid)
{
	for (__u32 i = 0; i < MAX_PIDS; i++)
		if (i < pick.pids && pick.pid[i] == tgid)
			return 1;
	return 0;
}

/* Of the 16 bytes of a task's name those up to the first zero count. */
__noinline int comm_is_picked(__u64 first, __u64 second)
{
	__u64 words[2] = { first, second };
	const char *comm = (const char *)words;

	for (__u32 i = 0; i < 16; i++) {
		if (pick.comm[i] != comm[i])
			return 0;
		if (!comm[i])
			break;
	}
	return 1;
}

static __always_inline bool process_is_picked(__u32 tgid, const __u64 comm[2])
{
	if (pick.pids && !pid_is_picked(tgid))
		return false;
	return !pick.has_comm || comm_is_picked(comm[0], comm[1]);
}

/* By the task itself: helpers for its name and number are not there for `sockops` in every kernel. */
static __always_inline bool current_is_picked(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 comm[2] = {};

	if (pick.has_comm)
		bpf_probe_read_kernel(comm, sizeof(comm), task->group_leader->comm);
	return process_is_picked(task->tgid, comm);
}

static __always_inline bool tuple_is_picked(const struct tuple *t)
{
	if (pick.ports && !ports_are_picked(t->sport, t->dport))
		return false;
	if (pick.addresses && !addresses_are_picked(t->saddr, t->daddr))
		return false;
	return true;
}

/* A socket whose own user is the current task, or anything that the pick decides without one. */
static __always_inline bool is_picked(struct cgroup *cgroup, const struct tuple *t, bool in_process)
{
	if (!pick.any || !tuple_is_picked(t))
		return false;
	if (pick.has_cgroup && !in_picked_cgroup(cgroup))
		return false;
	if (pick.pids || pick.has_comm)
		return in_process && current_is_picked();
	return true;
}

#define LISTENER_PICKED 1
#define LISTENER_OF_OTHERS 2

/* Distinguishes the listening socket at an address from others: see `listeners`. */
static __always_inline struct listener listener_at(__u64 address)
{
	struct sock *sk = KERNEL_CAST(sock, address);
	struct listener listener = { .socket = address };
	const void *socket = FIELD(sk, sk_socket);

	if (socket) {
		socket += bpf_core_field_offset(struct socket_alloc, vfs_inode);
		listener.inode = FIELD(KERNEL_CAST(inode, socket), i_ino);
	}
	return listener;
}

/* Connections that the listener accepts are logged; where too many are, it counts as refused. */
static __always_inline void add_listener(__u64 address, bool of_others)
{
	__u8 whose = of_others ? LISTENER_OF_OTHERS : LISTENER_PICKED;
	struct listener listener = listener_at(address);
	const __u8 *known = bpf_map_lookup_elem(&listeners, &listener);
	int was_others = known && *known == LISTENER_OF_OTHERS;

	/* No other user takes it from the operator, who picked it. */
	if (of_others && known)
		return;
	if ((!of_others || *(volatile __u32 *)&others_listening < OTHERS_LISTENERS_MAX) &&
	    !bpf_map_update_elem(&listeners, &listener, &whose, BPF_ANY)) {
		__sync_fetch_and_add(&others_listening, of_others - was_others);
		return;
	}
	if (is_newly_refused(listener.inode, 0))
		__sync_fetch_and_add(of_others ? &others_listeners_refused : &listeners_refused, 1);
}

/* The socket at this address listens no more. */
static __always_inline void remove_listener(__u64 address)
{
	struct listener listener = listener_at(address);
	const __u8 *known = bpf_map_lookup_elem(&listeners, &listener);
	int was_others = known && *known == LISTENER_OF_OTHERS;

	if (!bpf_map_delete_elem(&listeners, &listener))
		__sync_fetch_and_add(&others_listening, -was_others);
}

/* Why connections of the listener are logged, or 0. */
static __always_inline __u8 listener_mark(const void *listener)
{
	struct listener key = listener_at((__u64)listener);
	const __u8 *whose = bpf_map_lookup_elem(&listeners, &key);

	return whose ? *whose : 0;
}

#endif
