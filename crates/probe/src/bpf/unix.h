/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unix stream sockets. The kernel appends the bytes of a send call to the receive queue of the peer's socket: point 1
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
#define THIRD_ARGUMENT(registers) FIELD(KERNEL_CAST(pt_regs, registers), dx)
#else
#define NR_WRITE 64
#define NR_WRITEV 66
#define NR_SENDTO 206
#define NR_SENDMSG 211
#define NR_SENDMMSG 269
#define NR_SENDFILE 71
#define NR_SPLICE 76
#define THIRD_ARGUMENT(registers) FIELD(KERNEL_CAST(user_pt_regs, registers), regs[2])
#endif
/* The same on each architecture. */
#define NR_IO_URING_ENTER 426

/* One end of a recorded connection, in the storage of its socket. */
struct unix_end {
	__u64 taken; /* bytes that its send calls put into the peer's receive queue */
	__u64 read;  /* bytes that its receive calls returned */
	__u32 flow;  /* that it sends */
	__u32 writer;
	__u32 reader;
	__u32 is_over; /* its end was reported */
};
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct unix_end);
} unix_ends SEC(".maps");

/* The send call of a thread. */
struct unix_call {
	__u64 began_ns; /* 0: no system call of these is under way */
	__u64 socket;	/* the one that its first chunk left, or 0 */
	__u64 end;	/* the position at which it ends, if it is taken whole; 0: unknown */
	__u32 len;	/* bytes that it has, or 0: unknown */
	__u32 seen;	/* bytes of its chunks */
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
	e->flow = number * 2 + is_server;
	e->snd_offset = from_own;
	e->rcv_offset = to_own;
	e->netns = netns_of(own);
	e->inode[is_server] = inode_of(own);
	e->inode[!is_server] = inode_of(peer);
	name_unix(e, is_server ? own : peer);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
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
static __always_inline void record_unix_write(struct record_list *list, struct unix_end *end, __u64 start,
					      __u32 left, __u64 began_ns, __u64 now)
{
	__u32 thread = bpf_get_current_task_btf()->pid;
	union raw_record *r;
	__u64 stamp;

	r = reserve(list, NULL, RAW_WRITE, &stamp);
	if (!r)
		return;
	r->write.at_ns = now;
	r->write.flow = end->flow;
	r->write.start_seq = start;
	r->write.left_len = left;
	r->write.snd_una = r->write.snd_nxt = 0;
	r->write.thread = thread;
	store_kind(r, RAW_WRITE, 0);
	r->write.began_ns = began_ns;
	r->write.no_long = 0;
	commit(r, stamp);
	note_unix_thread(&end->writer, end->flow, thread);
}

static __always_inline void record_unix_ready(struct record_list *list, const struct unix_end *end, __u64 position,
					      bool is_waited_for, __u64 now)
{
	union raw_record *r;
	__u64 stamp;

	r = reserve(list, NULL, RAW_READY, &stamp);
	if (!r)
		return;
	r->tcp_ready.at_ns = now;
	r->tcp_ready.flow = end->flow;
	r->tcp_ready.rcv_nxt = position;
	store_pair(&r->tcp_ready.no_words[0], 0, 0);
	store_pair(&r->tcp_ready.no_words[2], 0, 0);
	store_kind(r, RAW_READY, is_waited_for ? RAW_MARK_WAITED_FOR : 0);
	r->tcp_ready.no_longs[0] = r->tcp_ready.no_longs[1] = 0;
	commit(r, stamp);
}

/* Whether the system call may send on a socket, once or several times. */
static __always_inline bool may_send(long number)
{
	switch (number) {
	case NR_WRITE:
	case NR_WRITEV:
	case NR_SENDTO:
	case NR_SENDMSG:
	case NR_SENDMMSG:
	case NR_SENDFILE:
	case NR_SPLICE:
	case NR_IO_URING_ENTER:
		return true;
	}
	return false;
}

/* Of a thread that has a call noted already, each system call that may send on a Unix socket replaces it. */
SEC("tp_btf/sys_enter")
int BPF_PROG(unix_call, struct pt_regs *regs, long number)
{
	struct unix_call *call;
	struct task_struct *task;

	if (!may_send(number))
		return 0;
	task = bpf_get_current_task_btf();
	if (pick.has_cgroup && !in_picked_cgroup(task->cgroups->dfl_cgrp))
		return 0;
	if ((pick.pids || pick.has_comm) && !current_is_picked())
		return 0;
	call = bpf_task_storage_get(&unix_calls, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call)
		return 0;
	call->began_ns = bpf_ktime_get_ns();
	call->socket = 0;
	call->end = 0;
	call->seen = 0;
	call->len = number == NR_WRITE || number == NR_SENDTO ? THIRD_ARGUMENT(regs) : 0;
	return 0;
}

/*
 * A chunk is in the receive queue, in the call that sends it. It is the last one there, unless a reader on another CPU
 * was faster: then the return of the call shows its bytes.
 */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(unix_ready, struct sock *sk)
{
	struct record_list *list;
	struct unix_sock *receiver;
	struct unix_call *call;
	struct unix_end *end;
	struct sk_buff *last;
	struct sock *sender;
	__u64 start, now, began_ns;
	__u32 len;

	if (!is_unix_stream(sk))
		return 0;
	receiver = bpf_skc_to_unix_sock(sk);
	if (!receiver)
		return 0;
	sender = receiver->peer;
	if (!sender)
		return 0;
	last = sk->sk_receive_queue.prev;
	len = (void *)last == (void *)&sk->sk_receive_queue ? 0 : FIELD(KERNEL_CAST(sk_buff, last), len);
	end = bpf_sk_storage_get(&unix_ends, sender, 0, 0);
	if (!end || !end->flow) {
		__u64 unread = unread_of(sk);

		if (!is_unix_picked(sk, sender))
			return 0;
		end = open_unix(sender, sk, unread > len ? unread - len : 0, unread_of(sender));
		if (!end)
			return 0;
	}
	list = this_list();
	call = bpf_task_storage_get(&unix_calls, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!list || !call)
		return count_unlisted(RAW_READY);
	if (call->socket != (__u64)sk) {
		call->socket = (__u64)sk;
		call->seen = 0;
		call->end = call->len ? end->taken + call->len : 0;
	}
	if (!len)
		return 0;
	start = __sync_fetch_and_add(&end->taken, len);
	call->seen += len;
	began_ns = call->began_ns;
	now = bpf_ktime_get_ns();
	record_unix_write(list, end, start, call->end > start ? call->end - start : len, began_ns, now);
	record_unix_ready(list, end, start + len, is_waited_for(sk), now);
	list->last_ns = now;
	return 0;
}

/* A send call returned: chunks that a reader was faster to take, and calls that found no room. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(unix_return, struct sock *sk, int ret, int flags)
{
	struct record_list *list;
	struct unix_call *call;
	struct unix_end *end;
	__u64 start, now;
	__u32 seen;

	if (!is_unix_stream(sk))
		return 0;
	call = bpf_task_storage_get(&unix_calls, bpf_get_current_task_btf(), 0, 0);
	if (!call)
		return 0;
	end = bpf_sk_storage_get(&unix_ends, sk, 0, 0);
	list = this_list();
	seen = call->seen;
	if (end && end->flow && list) {
		now = bpf_ktime_get_ns();
		if (ret > 0 && (__u32)ret > seen && call->socket) {
			start = __sync_fetch_and_add(&end->taken, ret - seen);
			record_unix_write(list, end, start, ret - seen, call->began_ns, now);
			record_unix_ready(list, end, start + ret - seen, false, now);
			list->last_ns = now;
		} else if (ret == -EAGAIN && call->len) {
			record_unix_write(list, end, end->taken, call->len, call->began_ns, now);
			list->last_ns = now;
		}
	}
	call->began_ns = 0;
	call->socket = 0;
	call->end = 0;
	call->len = 0;
	call->seen = 0;
	return 0;
}

/* A receive call returned. One that returns nothing on a socket whose peer is closed ends the connection. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(unix_read, struct sock *sk, int ret, int flags)
{
	struct record_list *list;
	struct unix_end *end;
	union raw_record *r;
	__u64 now, stamp, position;
	__u32 flow;

	if (!is_unix_stream(sk) || ret < 0 || (flags & (MSG_PEEK | MSG_ERRQUEUE)))
		return 0;
	end = bpf_sk_storage_get(&unix_ends, sk, 0, 0);
	if (!end || !end->flow) {
		struct unix_sock *own = bpf_skc_to_unix_sock(sk);
		struct sock *peer;

		if (!own || !ret)
			return 0;
		peer = own->peer;
		if (!peer || !is_unix_picked(sk, peer))
			return 0;
		end = open_unix(sk, peer, unread_of(peer), unread_of(sk) + ret);
		if (!end)
			return 0;
	}
	flow = end->flow ^ 1;
	if (!ret) {
		struct event *e;

		if (sk->sk_shutdown != SHUTDOWN_MASK || end->is_over)
			return 0;
		end->is_over = 1;
		e = reserve_event(EVENT_GONE, false);
		if (e) {
			e->connection = flow / 2;
			bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
		}
		return 0;
	}
	position = __sync_fetch_and_add(&end->read, ret) + ret;
	list = this_list();
	if (!list)
		return count_unlisted(RAW_COPY);
	now = bpf_ktime_get_ns();
	r = reserve(list, NULL, RAW_COPY, &stamp);
	if (!r)
		return 0;
	r->tcp_copy.at_ns = now;
	r->tcp_copy.flow = flow;
	r->tcp_copy.copied_seq = position;
	r->tcp_copy.no_words[0] = r->tcp_copy.no_words[1] = r->tcp_copy.no_words[2] = 0;
	store_kind(r, RAW_COPY, 0);
	describe_reader(r);
	list->last_ns = now;
	note_unix_thread(&end->reader, end->flow, r->tcp_copy.thread);
	commit(r, stamp);
	return 0;
}

#endif
