/* SPDX-License-Identifier: GPL-2.0 */
/* The system calls on Unix sockets, and the bytes of streams: see unix.h. */
#ifndef SOCKSCOPE_UNIX_CALLS_H
#define SOCKSCOPE_UNIX_CALLS_H

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
	call->fd_plus_one = number == NR_IO_URING_ENTER || number == NR_SENDFILE || number == NR_SPLICE
				    ? 0
				    : (__u32)FIRST_ARGUMENT(regs) + 1;
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

	if (has_unix_messages(sk))
		return unix_message_is_ready((struct sock *)sk);
	if (!is_unix_stream(sk))
		return 0;
	receiver = bpf_skc_to_unix_sock(sk);
	if (!receiver)
		return 0;
	sender = receiver->peer;
	if (!sender)
		return 0;
	last = KERNEL_CAST(sock, sk)->sk_receive_queue.prev;
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
	record_unix_write(list, end->flow, &end->writer, start, call->end > start ? call->end - start : len, began_ns, now);
	record_unix_ready(list, end->flow, start + len, is_waited_for(sk), now);
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

	if (!is_unix_stream(sk) && !has_unix_messages(sk))
		return 0;
	call = bpf_task_storage_get(&unix_calls, bpf_get_current_task_btf(), 0, 0);
	if (!call)
		return 0;
	if (!is_unix_stream(sk)) {
		unix_message_was_sent(sk, call, ret);
		goto over;
	}
	end = bpf_sk_storage_get(&unix_ends, sk, 0, 0);
	list = this_list();
	seen = call->seen;
	if (end && end->flow && list) {
		now = bpf_ktime_get_ns();
		if (ret > 0 && (__u32)ret > seen && call->socket) {
			start = __sync_fetch_and_add(&end->taken, ret - seen);
			record_unix_write(list, end->flow, &end->writer, start, ret - seen, call->began_ns, now);
			record_unix_ready(list, end->flow, start + ret - seen, false, now);
			list->last_ns = now;
		} else if (ret == -EAGAIN && call->len) {
			record_unix_write(list, end->flow, &end->writer, end->taken, call->len, call->began_ns, now);
			list->last_ns = now;
		}
	}
over:
	call->began_ns = 0;
	call->socket = 0;
	call->end = 0;
	call->fd_plus_one = 0;
	call->to = 0;
	call->is_recorded = 0;
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
	struct unix_call *call;
	__u32 flow;

	if (has_unix_messages(sk)) {
		call = bpf_task_storage_get(&unix_calls, bpf_get_current_task_btf(), 0, 0);
		if (!call || !call->from)
			return ret ? 0 : unix_messages_ended(sk);
		if (ret >= 0 && !(flags & (MSG_PEEK | MSG_ERRQUEUE)))
			unix_message_was_read(sk, call);
		call->from = 0;
		return 0;
	}
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
	list = this_list();
	if (!list)
		return count_unlisted(RAW_COPY);
	record_unix_read(list, flow, &end->reader, __sync_fetch_and_add(&end->read, ret) + ret);
	return 0;
}

#endif
