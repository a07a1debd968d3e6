/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unix sockets that keep messages apart: datagram and seqpacket. A datagram socket has any number of peers: each pair
 * of sockets that exchange messages is a connection. The kernel keeps the sender's socket in a message until it is
 * freed. Only the caller knows the receiver of a read, so that it takes two hits of one thread to see both.
 *
 * Of each pair, messages leave the receive queue in the order in which they entered it. Records are those of a stream.
 */
#ifndef SOCKSCOPE_UNIX_MESSAGES_H
#define SOCKSCOPE_UNIX_MESSAGES_H

/* Pairs in all: no hook shows the end of a datagram socket. A further one counts as refused. */
#define UNIX_PAIRS_MAX 65536
/* Sockets that are known by their addresses. Messages of a further one are recorded when their calls return. */
#define UNIX_SOCKETS_MAX 65536
/* Messages of a queue that are looked at, when it is first seen. */
#define UNIX_WAITING_MAX 64

/* Numbers of two sockets. */
struct unix_pair_key {
	__u32 low;
	__u32 high;
};
/* Each array has the flow of the client, then that of the server. */
struct unix_pair {
	__u64 taken[2]; /* bytes that entered the receive queue */
	__u64 read[2];	/* bytes that left it */
	__u32 writer[2];
	__u32 reader[2];
	__u32 connection;
	__u32 client; /* number of its socket */
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, UNIX_PAIRS_MAX);
	__type(key, struct unix_pair_key);
	__type(value, struct unix_pair);
} unix_pairs SEC(".maps");

/*
 * Numbers of sockets, which also are in their storage: a message in a queue shows its sender by its address alone. The
 * inode number tells later sockets at that address apart.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, UNIX_SOCKETS_MAX);
	__type(key, struct listener);
	__type(value, __u32);
} unix_numbers SEC(".maps");

/* In such a number: the socket is older than the recording. */
#define UNIX_OLD 0x80000000u

__u32 last_unix_socket = 0;

/* A message between two sockets. */
struct unix_message {
	__u64 sender; /* addresses */
	__u64 receiver;
	__u64 sender_inode;
	__u64 before; /* bytes of the sender that were in the queue before its first recorded one */
	__u32 from;   /* numbers */
	__u32 to;
	__u32 type;
	__u32 pad;
};

static __always_inline bool has_unix_messages(const struct sock *sk)
{
	return sk->__sk_common.skc_family == AF_UNIX && sk->__sk_common.skc_state != TCP_LISTEN &&
	       (sk->sk_type == SOCK_DGRAM || sk->sk_type == SOCK_SEQPACKET);
}

/* The number of the socket at an address, or 0. */
static __noinline __u32 known_number(__u64 socket)
{
	struct listener key = listener_at(socket);
	__u32 *known = bpf_map_lookup_elem(&unix_numbers, &key);

	return known ? *known : 0;
}

/* The number of the socket at an address. It gets one if it has none; 0 if that finds no room and `must_list`. */
static __noinline __u32 number_at(__u64 socket, __u32 old, bool must_list)
{
	struct listener key = listener_at(socket);
	__u32 *known = bpf_map_lookup_elem(&unix_numbers, &key);
	__u32 number;

	if (known)
		return *known;
	number = ((__sync_fetch_and_add(&last_unix_socket, 1) + 1) & ~UNIX_OLD) | old;
	if (!bpf_map_update_elem(&unix_numbers, &key, &number, BPF_NOEXIST))
		return number;
	known = bpf_map_lookup_elem(&unix_numbers, &key);
	if (known)
		return *known;
	return must_list ? 0 : number;
}

/* The socket's storage, with a number, or NULL. */
static __noinline struct unix_end *number_unix(struct sock *sk)
{
	struct unix_end *end = bpf_sk_storage_get(&unix_ends, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (end && !end->number)
		end->number = number_at((__u64)sk, 0, false);
	return end && end->number ? end : NULL;
}

/* The socket that is open under this number in the current process, by its address, or 0. */
static __noinline __u64 socket_of_file(__u32 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct files_struct *files = KERNEL_CAST(files_struct, FIELD(KERNEL_CAST(task_struct, task), files));
	struct fdtable *table = KERNEL_CAST(fdtable, FIELD(files, fdt));
	struct file **open = FIELD(table, fd);
	struct file *file = NULL;
	void *socket;

	if (fd >= FIELD(table, max_fds))
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), open + fd);
	if (!file)
		return 0;
	socket = FIELD(KERNEL_CAST(file, file), private_data);
	return socket ? (__u64)FIELD(KERNEL_CAST(socket, socket), sk) : 0;
}

/* Bytes of the first messages of the queue that this sender sent. */
static __noinline __u64 waiting_from(const struct sock *receiver, __u64 sender, __u32 messages)
{
	const void *head = (const void *)receiver + bpf_core_field_offset(struct sock, sk_receive_queue);
	const void *next = FIELD(KERNEL_CAST(sock, receiver), sk_receive_queue.next);
	__u64 bytes = 0;
	__u32 i;

	for (i = 0; i < UNIX_WAITING_MAX; i++) {
		struct sk_buff *skb;

		if (i >= messages || !next || next == head)
			break;
		skb = KERNEL_CAST(sk_buff, next);
		if ((__u64)FIELD(skb, sk) == sender)
			bytes += FIELD(skb, len);
		next = FIELD(skb, next);
	}
	return bytes;
}

/*
 * The connection gets its number at its first recorded message. The receiver is the server, unless the sender alone
 * has a name.
 */
static __noinline struct unix_pair *open_pair(const struct unix_message *m)
{
	struct unix_pair_key key = { .low = m->from, .high = m->to };
	struct sock *sender = KERNEL_CAST(sock, m->sender);
	struct sock *receiver = KERNEL_CAST(sock, m->receiver);
	struct unix_pair pair = {};
	struct unix_pair *opened;
	bool from_server, is_there;
	struct event *e;

	if (key.low > key.high) {
		key.low = m->to;
		key.high = m->from;
	}
	e = reserve_event(EVENT_OPEN, false);
	if (!e)
		return NULL;
	/* The sender of a message that is read may be gone. */
	is_there = inode_of(sender) == m->sender_inode;
	from_server = is_there && !FIELD(KERNEL_CAST(unix_sock, receiver), addr) &&
		      FIELD(KERNEL_CAST(unix_sock, sender), addr);
	pair.connection = (__sync_fetch_and_add(&last_connection, 1) + 1) & CONNECTION_MAX;
	pair.client = from_server ? m->to : m->from;
	pair.taken[from_server] = m->before;
	if (bpf_map_update_elem(&unix_pairs, &key, &pair, BPF_NOEXIST)) {
		bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);
		opened = bpf_map_lookup_elem(&unix_pairs, &key);
		if (!opened)
			__sync_fetch_and_add(&connections_refused, 1);
		return opened;
	}
	__sync_fetch_and_add(&connections_opened, 1);
	e->connection = pair.connection;
	e->family = AF_UNIX;
	e->protocol = m->type;
	e->old_state = !!(m->from & m->to & UNIX_OLD);
	e->flow = pair.connection * 2 + from_server;
	e->snd_offset = m->before;
	e->netns = netns_of(receiver);
	e->inode[from_server] = m->sender_inode;
	e->inode[!from_server] = inode_of(receiver);
	name_unix(e, from_server ? sender : receiver);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	note_unix_buffer(receiver, pair.connection * 2 + !from_server);
	if (is_there)
		note_unix_buffer(sender, pair.connection * 2 + from_server);
	note_unix_peer(receiver, pair.connection * 2 + from_server);
	if (is_there)
		note_unix_peer(sender, pair.connection * 2 + !from_server);
	return bpf_map_lookup_elem(&unix_pairs, &key);
}

/* The connection of two sockets, by their numbers, or NULL. */
static __always_inline struct unix_pair *pair_of(__u32 from, __u32 to)
{
	struct unix_pair_key key = { .low = from < to ? from : to, .high = from < to ? to : from };

	return bpf_map_lookup_elem(&unix_pairs, &key);
}

static __always_inline void forget_pair(__u32 from, __u32 to)
{
	struct unix_pair_key key = { .low = from < to ? from : to, .high = from < to ? to : from };

	bpf_map_delete_elem(&unix_pairs, &key);
}

static __always_inline void record_unix_sent(struct record_list *list, struct unix_pair *pair, __u32 from,
					     __u32 len, __u64 began_ns, bool is_waited_for, __u64 now)
{
	__u32 side = pair->client != from;
	__u32 flow = pair->connection * 2 + side;
	__u64 start = __sync_fetch_and_add(&pair->taken[side & 1], len);

	record_unix_write(list, flow, &pair->writer[side & 1], start, len, began_ns, now);
	record_unix_ready(list, flow, start + len, is_waited_for, now);
	list->last_ns = now;
}

/*
 * A message is in the receive queue, in the call that sends it. It is the last one there, unless a reader or another
 * sender was faster: then the return of the call records it.
 */
static __noinline int unix_message_is_ready(struct sock *sk)
{
	struct unix_message m = {};
	struct record_list *list;
	struct unix_call *call;
	struct unix_pair *pair;
	struct unix_end *own;
	struct sk_buff *last;
	struct sock *sender;
	__u32 waiting, from;

	call = bpf_task_storage_get(&unix_calls, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call)
		return count_unlisted(RAW_READY);
	call->socket = (__u64)sk;
	call->is_recorded = 0;
	call->to = 0;
	own = bpf_sk_storage_get(&unix_ends, sk, 0, 0);
	if (own)
		call->to = own->number;
	last = sk->sk_receive_queue.prev;
	if ((void *)last == (void *)&sk->sk_receive_queue)
		return 0;
	sender = last->sk;
	if (!sender || (call->fd_plus_one && socket_of_file(call->fd_plus_one - 1) != (__u64)sender))
		return 0;
	from = own && own->number ? known_number((__u64)sender) : 0;
	pair = from ? pair_of(from, own->number) : NULL;
	if (!pair) {
		if (!is_unix_picked(sk, sender))
			return 0;
		own = number_unix(sk);
		from = number_at((__u64)sender, 0, true);
		if (!own)
			return 0;
		call->to = own->number;
		if (!from)
			return 0;
		if (!own->is_used) {
			waiting = FIELD(KERNEL_CAST(sock, sk), sk_receive_queue.qlen);
			own->is_used = 1;
			own->waiting = own->number & UNIX_OLD && waiting ? waiting - 1 : 0;
		}
		m.sender = (__u64)sender;
		m.receiver = (__u64)sk;
		m.sender_inode = inode_of(sender);
		m.before = own->waiting ? waiting_from(sk, (__u64)sender, own->waiting) : 0;
		m.from = from;
		m.to = own->number;
		m.type = sk->sk_type;
		pair = open_pair(&m);
		if (!pair)
			return 0;
	}
	list = this_list();
	if (!list)
		return count_unlisted(RAW_READY);
	call->is_recorded = 1;
	if (last->len)
		record_unix_sent(list, pair, from, last->len, call->began_ns, is_waited_for(sk),
				 bpf_ktime_get_ns());
	return 0;
}

static __always_inline void note_receiver(struct unix_end *end, __u32 receiver)
{
	end->has_several |= end->receiver && end->receiver != receiver;
	end->receiver = receiver;
}

/* A call that sends a message returned. */
static __noinline void unix_message_was_sent(struct sock *sk, struct unix_call *call, int ret)
{
	struct unix_end *own = bpf_sk_storage_get(&unix_ends, sk, 0, 0);
	struct record_list *list = this_list();
	struct unix_message m = {};
	struct unix_pair *pair;
	__u64 now;

	if (call->is_recorded) {
		own = number_unix(sk);
		if (own)
			note_receiver(own, call->to);
		return;
	}
	if (!list)
		return;
	if (ret > 0 && call->socket && call->to) {
		pair = own && own->number ? pair_of(own->number, call->to) : NULL;
		if (!pair) {
			if (!is_unix_picked(sk, KERNEL_CAST(sock, call->socket)))
				return;
			own = number_unix(sk);
			if (!own)
				return;
			m.sender = (__u64)sk;
			m.receiver = call->socket;
			m.sender_inode = inode_of(sk);
			m.from = own->number;
			m.to = call->to;
			m.type = sk->sk_type;
			pair = open_pair(&m);
			if (!pair)
				return;
		}
		note_receiver(own, call->to);
		record_unix_sent(list, pair, own->number, ret, call->began_ns, false, bpf_ktime_get_ns());
	} else if (ret == -EAGAIN && call->len && own && own->receiver) {
		__u32 side;

		pair = pair_of(own->number, own->receiver);
		if (!pair)
			return;
		now = bpf_ktime_get_ns();
		side = pair->client != own->number;
		record_unix_write(list, pair->connection * 2 + side, &pair->writer[side & 1],
				  pair->taken[side & 1], call->len, call->began_ns, now);
		list->last_ns = now;
	}
}

/* A message is copied to its reader, whose socket the return of the call shows. */
SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(unix_copy, const struct sk_buff *skb, int len)
{
	struct sock *sender = skb->sk;
	struct unix_call *call;
	struct unix_end *end;

	if (!sender || !has_unix_messages(sender))
		return 0;
	end = bpf_sk_storage_get(&unix_ends, sender, 0, 0);
	if (!end || !end->number) {
		struct task_struct *task = bpf_get_current_task_btf();

		if (pick.has_cgroup && in_picked_cgroup(task->cgroups->dfl_cgrp)) {
			if ((pick.pids || pick.has_comm) && !current_is_picked())
				return 0;
		} else if (!is_unix_picked(sender, sender)) {
			return 0;
		}
		end = number_unix(sender);
		if (!end)
			return 0;
	}
	call = bpf_task_storage_get(&unix_calls, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call)
		return count_unlisted(RAW_COPY);
	call->sender = (__u64)sender;
	call->sender_inode = inode_of(sender);
	call->from = end->number;
	call->message_len = skb->len;
	return 0;
}

/* A receive call returned a message: all of it has left the queue, however much the reader took. */
static __noinline void unix_message_was_read(struct sock *sk, struct unix_call *call)
{
	struct unix_message m = {};
	struct record_list *list;
	struct unix_pair *pair;
	struct unix_end *own;
	__u32 side, flow;
	bool was_waiting;

	if (!call->message_len)
		return;
	own = bpf_sk_storage_get(&unix_ends, sk, 0, 0);
	pair = own && own->number ? pair_of(call->from, own->number) : NULL;
	if (!pair && !is_unix_picked(sk, KERNEL_CAST(sock, call->sender)))
		return;
	own = number_unix(sk);
	if (!own)
		return;
	if (!own->is_used) {
		own->is_used = 1;
		if (own->number & UNIX_OLD)
			own->waiting = FIELD(KERNEL_CAST(sock, sk), sk_receive_queue.qlen) + 1;
	}
	was_waiting = own->waiting > 0;
	if (was_waiting)
		own->waiting--;
	if (!pair) {
		m.sender = call->sender;
		m.receiver = (__u64)sk;
		m.sender_inode = call->sender_inode;
		if (was_waiting)
			m.before = call->message_len + waiting_from(sk, call->sender, own->waiting);
		m.from = call->from;
		m.to = own->number;
		m.type = sk->sk_type;
		pair = open_pair(&m);
		if (!pair)
			return;
	}
	side = pair->client != call->from;
	flow = pair->connection * 2 + side;
	list = this_list();
	if (!list) {
		count_unlisted(RAW_COPY);
		return;
	}
	record_unix_read(list, flow, &pair->reader[side & 1],
			 __sync_fetch_and_add(&pair->read[side & 1], call->message_len) + call->message_len);
}

/* Nothing is left to read: a seqpacket socket's peer is closed. */
static __noinline int unix_messages_ended(struct sock *sk)
{
	struct unix_end *own = bpf_sk_storage_get(&unix_ends, sk, 0, 0);
	struct unix_sock *u = bpf_skc_to_unix_sock(sk);
	struct unix_end *other = NULL;
	struct unix_pair *pair;
	struct sock *peer;
	struct event *e;
	__u32 connection;

	if (!own || !u || sk->sk_type != SOCK_SEQPACKET || sk->sk_shutdown != SHUTDOWN_MASK)
		return 0;
	peer = u->peer;
	if (peer)
		other = bpf_sk_storage_get(&unix_ends, peer, 0, 0);
	pair = other ? pair_of(own->number, other->number) : NULL;
	if (!pair)
		return 0;
	connection = pair->connection;
	forget_pair(own->number, other->number);
	e = reserve_event(EVENT_GONE, false);
	if (e) {
		e->connection = connection;
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	}
	return 0;
}

/* A message that its receiver did not read: it closed, or connected to another peer. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(unix_unread, struct sk_buff *skb, void *location, enum skb_drop_reason reason)
{
	struct sock *sender = skb->sk;
	struct record_list *list;
	struct unix_pair *pair;
	struct unix_end *own;
	union raw_record *r;
	__u64 stamp, start;
	__u32 side;

	if (!sender || !has_unix_messages(sender) || !skb->len)
		return 0;
	own = bpf_sk_storage_get(&unix_ends, sender, 0, 0);
	/* A message does not show its receiver: it is known of a sender that has one alone. */
	if (!own || !own->number || !own->receiver || own->has_several)
		return 0;
	pair = pair_of(own->number, own->receiver);
	list = this_list();
	if (!pair || !list)
		return 0;
	side = (pair->client != own->number) & 1;
	/* A socket filter drops a message that never entered the queue. */
	if (pair->read[side] + skb->len > pair->taken[side])
		return 0;
	start = __sync_fetch_and_add(&pair->read[side], skb->len);
	r = reserve(list, NULL, RAW_DROP, &stamp);
	if (!r)
		return 0;
	r->tcp_drop.at_ns = bpf_ktime_get_ns();
	r->tcp_drop.flow = pair->connection * 2 + side;
	r->tcp_drop.seq = start;
	r->tcp_drop.len = skb->len;
	store_pair(&r->tcp_drop.no_words[0], 0, 0);
	r->tcp_drop.no_thread = 0;
	store_kind(r, RAW_DROP, 0);
	r->tcp_drop.reason = reason;
	r->tcp_drop.no_longs[0] = r->tcp_drop.no_longs[1] = 0;
	list->last_ns = r->tcp_drop.at_ns;
	commit(r, stamp);
	return 0;
}

/* Sockets that are older than the recording. It looks before the other programs are attached. */
SEC("iter/unix")
int unix_existing(struct bpf_iter__unix *ctx)
{
	struct unix_sock *u = ctx->unix_sk;
	struct unix_end *end;

	if (!u)
		return 0;
	end = bpf_sk_storage_get(&unix_ends, (struct sock *)u, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!end)
		return 0;
	end->is_old = 1;
	if (has_unix_messages((struct sock *)u))
		end->number = number_at((__u64)u, UNIX_OLD, false);
	return 0;
}

#endif
