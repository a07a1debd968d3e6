/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unix sockets, here those of streams. The kernel appends the bytes of a send call to the receive queue of the peer's socket: point 1
 * and point 7 of a chunk are one instant, and points 2 to 6 do not exist. The bytes count in the send buffer until
 * they are read. A write call sleeps before it allocates a chunk; only the entry of its system call shows since when.
 *
 * Records are those of TCP, with the low half of a position in place of a sequence number. Attached with --unix alone.
 */
#ifndef SOCKSCOPE_UNIX_H
#define SOCKSCOPE_UNIX_H

/* Numbers of the system calls that send (arch/x86/entry/syscalls/syscall_64.tbl, asm-generic/unistd.h). */
#if defined(__TARGET_ARCH_x86)
#define NR_WRITE 1
#define NR_WRITEV 20
#define NR_SENDTO 44
#define NR_SENDMSG 46
#define NR_SENDMMSG 307
#define NR_SENDFILE 40
#define NR_SPLICE 275
#define FIRST_ARGUMENT(registers) FIELD(KERNEL_CAST(pt_regs, registers), di)
#define THIRD_ARGUMENT(registers) FIELD(KERNEL_CAST(pt_regs, registers), dx)
#else
#define NR_WRITE 64
#define NR_WRITEV 66
#define NR_SENDTO 206
#define NR_SENDMSG 211
#define NR_SENDMMSG 269
#define NR_SENDFILE 71
#define NR_SPLICE 76
#define FIRST_ARGUMENT(registers) FIELD(KERNEL_CAST(user_pt_regs, registers), regs[0])
#define THIRD_ARGUMENT(registers) FIELD(KERNEL_CAST(user_pt_regs, registers), regs[2])
#endif
/* The same on each architecture. */
#define NR_IO_URING_ENTER 426

/*
 * In the storage of a socket: one end of a recorded stream; of a socket with messages its number, as it may be an end
 * of several connections.
 */
struct unix_end {
	__u64 taken; /* bytes that its send calls put into the peer's receive queue */
	__u64 read;  /* bytes that its receive calls returned */
	__u32 flow;  /* that it sends */
	__u32 writer;
	__u32 reader;
	__u8 is_over; /* its end was reported */
	__u8 is_old;  /* it is older than the recording */
	__u8 is_used; /* its messages from before the recording are counted: */
	__u8 has_several; /* its messages went to several sockets */
	__u32 waiting; /* those not yet read */
	__u32 number;
	__u32 receiver; /* number of the socket that received its last message */
	__u32 pad2;
};
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct unix_end);
} unix_ends SEC(".maps");

/* The send call of a thread, and the message that its receive call takes. */
struct unix_call {
	__u64 began_ns; /* 0: no system call of these is under way */
	__u64 socket;	/* the one that its first chunk left, or 0 */
	__u64 end;	/* the position at which it ends, if it is taken whole; 0: unknown */
	__u32 len;	/* bytes that it has, or 0: unknown */
	__u32 seen;	/* bytes of its chunks */
	__u32 fd_plus_one; /* of its socket, or 0: unknown */
	__u32 to;	/* of a message: number of the socket that received it, or 0 */
	__u32 is_recorded; /* the message is */
	__u32 message_len; /* of the message taken, and its sender: */
	__u64 sender;
	__u64 sender_inode;
	__u32 from;
	__u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct unix_call);
} unix_calls SEC(".maps");

static __always_inline bool is_unix_stream(const struct sock *sk)
{
	return sk->__sk_common.skc_family == AF_UNIX && sk->sk_type == SOCK_STREAM &&
	       sk->__sk_common.skc_state != TCP_LISTEN;
}

static __always_inline bool is_unix_picked(const struct sock *sk, const struct sock *peer)
{
	if (!pick.any || pick.ports || pick.addresses)
		return false;
	if (pick.has_cgroup && !in_picked_cgroup(FIELD(sk, sk_cgrp_data.cgroup)) &&
	    !in_picked_cgroup(FIELD(peer, sk_cgrp_data.cgroup)))
		return false;
	return !(pick.pids || pick.has_comm) || current_is_picked();
}

/* Bytes in the receive queue; 0 before Linux 6.17, which does not count them. */
static __always_inline __u64 unread_of(const struct sock *sk)
{
	struct unix_sock *u = KERNEL_CAST(unix_sock, sk);

	return bpf_core_field_exists(u->inq_len) ? FIELD(u, inq_len) : 0;
}

static __always_inline __u64 inode_of(const struct sock *sk)
{
	return listener_at((__u64)sk).inode;
}

static __always_inline void name_unix(struct event *e, const struct sock *server)
{
	struct unix_address *address = FIELD(KERNEL_CAST(unix_sock, server), addr);
	__u32 len;

	if (!address)
		return;
	address = KERNEL_CAST(unix_address, address);
	/* sockaddr_un begins with the family. */
	len = FIELD(address, len) - 2;
	if (len > UNIX_NAME_MAX)
		return;
	bpf_probe_read_kernel(e->name, len, (const void *)address +
						    bpf_core_field_offset(struct unix_address, name) +
						    bpf_core_field_offset(struct sockaddr_un, sun_path));
	e->name_len = len;
}

/* The process at the other end of the socket, by SO_PEERCRED: counts until an event of that end shows its own. */
static __noinline int note_unix_peer(const struct sock *sk, __u32 flow)
{
	struct pid *pid = FIELD(KERNEL_CAST(sock, sk), sk_peer_pid);
	struct task_struct *task;
	const void *link;
	struct event *e;

	if (!pid)
		return 0;
	/* PIDTYPE_TGID: the leader of the group. */
	link = FIELD(KERNEL_CAST(pid, pid), tasks[1].first);
	if (!link)
		return 0;
	link -= bpf_core_field_offset(struct task_struct, pid_links[1]);
	task = KERNEL_CAST(task_struct, link);
	e = reserve_event(EVENT_THREAD, false);
	if (!e)
		return 0;
	e->flow = flow;
	e->old_state = 1;
	e->pid = FIELD(task, tgid);
	e->thread = e->pid;
	e->cgroup = kernfs_id(FIELD(KERNEL_CAST(css_set, FIELD(task, cgroups)), dfl_cgrp));
	bpf_probe_read_kernel(e->comm, sizeof(e->comm), link + bpf_core_field_offset(struct task_struct, comm));
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The send buffer of the socket that sends the flow, as it is now. Its receive buffer holds nothing back. */
static __noinline int note_unix_buffer(const struct sock *sk, __u32 flow)
{
	struct sock *own = KERNEL_CAST(sock, sk);
	struct event *e = reserve_event(EVENT_SOCKET, false);

	if (!e)
		return 0;
	e->connection = flow / 2;
	e->flow = flow;
	e->sndbuf = FIELD(own, sk_sndbuf);
	e->userlocks = FIELD_BITS(own, sk_userlocks);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * The connection gets its number at its first recorded event. `own` sends or reads now. The end with a name is the
 * server; without any, the end that uses it first is the client. `from_own` and `to_own` are bytes that were in the
 * queues before.
 */
static __noinline struct unix_end *open_unix(struct sock *own, struct sock *peer, __u64 from_own, __u64 to_own)
{
	struct unix_end *end, *other;
	bool is_server;
	struct event *e;
	__u32 number;

	end = bpf_sk_storage_get(&unix_ends, own, 0, BPF_SK_STORAGE_GET_F_CREATE);
	other = bpf_sk_storage_get(&unix_ends, peer, 0, BPF_SK_STORAGE_GET_F_CREATE);
	e = end && other ? reserve_event(EVENT_OPEN, false) : NULL;
	if (!e) {
		if (!end || !other)
			__sync_fetch_and_add(&connections_refused, 1);
		return NULL;
	}
	is_server = !FIELD(KERNEL_CAST(unix_sock, peer), addr) && FIELD(KERNEL_CAST(unix_sock, own), addr);
	number = (__sync_fetch_and_add(&last_connection, 1) + 1) & CONNECTION_MAX;
	__sync_fetch_and_add(&connections_opened, 1);
	e->connection = number;
	e->family = AF_UNIX;
	e->protocol = SOCK_STREAM;
	e->old_state = end->is_old | other->is_old;
	e->flow = number * 2 + is_server;
	e->snd_offset = from_own;
	e->rcv_offset = to_own;
	e->netns = netns_of(own);
	e->inode[is_server] = inode_of(own);
	e->inode[!is_server] = inode_of(peer);
	name_unix(e, is_server ? own : peer);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	note_unix_buffer(own, number * 2 + is_server);
	note_unix_buffer(peer, number * 2 + !is_server);
	note_unix_peer(own, number * 2 + !is_server);
	note_unix_peer(peer, number * 2 + is_server);
	end->taken = other->read = 0;
	end->taken = from_own;
	other->taken = to_own;
	end->read = 0;
	other->flow = number * 2 + !is_server;
	end->flow = number * 2 + is_server;
	return end;
}

/* As note_thread(), of the end that the thread uses. */
static __always_inline void note_unix_thread(__u32 *seen, __u32 flow, __u32 thread)
{
	struct event *e;

	if (*seen == thread)
		return;
	*seen = thread;
	e = reserve_event(EVENT_THREAD, false);
	if (!e)
		return;
	e->flow = flow;
	name_task(e);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

/* A call asks to write from `start` on; `now` is the time at which bytes enter, or at which none did. */
static __always_inline void record_unix_write(struct record_list *list, __u32 flow, __u32 *writer, __u64 start,
					      __u32 left, __u64 began_ns, __u64 now)
{
	union raw_record *r;
	__u64 stamp;

	r = reserve(list, NULL, RAW_WRITE, &stamp);
	if (!r)
		return;
	r->write.at_ns = now;
	r->write.flow = flow;
	r->write.start_seq = start;
	r->write.left_len = left;
	r->write.snd_una = r->write.snd_nxt = 0;
	describe_thread(r);
	store_kind(r, RAW_WRITE, 0);
	r->write.began_ns = began_ns;
	note_unix_thread(writer, flow, r->write.thread);
	commit(r, stamp);
}

static __always_inline void record_unix_ready(struct record_list *list, __u32 flow, __u64 position,
					      bool is_waited_for, __u64 now)
{
	union raw_record *r;
	__u64 stamp;

	r = reserve(list, NULL, RAW_READY, &stamp);
	if (!r)
		return;
	r->tcp_ready.at_ns = now;
	r->tcp_ready.flow = flow;
	r->tcp_ready.rcv_nxt = position;
	store_pair(&r->tcp_ready.no_words[0], 0, 0);
	store_pair(&r->tcp_ready.no_words[2], 0, 0);
	store_kind(r, RAW_READY, is_waited_for ? RAW_MARK_WAITED_FOR : 0);
	r->tcp_ready.no_longs[0] = r->tcp_ready.no_longs[1] = 0;
	commit(r, stamp);
}

/* A receive call took the bytes before this position. */
static __always_inline void record_unix_read(struct record_list *list, __u32 flow, __u32 *reader, __u64 position)
{
	union raw_record *r;
	__u64 now, stamp;

	now = bpf_ktime_get_ns();
	r = reserve(list, NULL, RAW_COPY, &stamp);
	if (!r)
		return;
	r->tcp_copy.at_ns = now;
	r->tcp_copy.flow = flow;
	r->tcp_copy.copied_seq = position;
	r->tcp_copy.no_words[0] = r->tcp_copy.no_words[1] = r->tcp_copy.no_words[2] = 0;
	store_kind(r, RAW_COPY, 0);
	describe_reader(r);
	list->last_ns = now;
	note_unix_thread(reader, flow ^ 1, r->tcp_copy.thread);
	commit(r, stamp);
}

#endif
