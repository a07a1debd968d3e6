// SPDX-License-Identifier: GPL-2.0
/*
 * Socket options that are set from outside, for `sockscope try`. This object is loaded apart from the
 * recorder's: it changes sockets, and the recorder never does.
 *
 * One program on the root control group sees each connection open. It changes the sockets of one control
 * group, the command's, and the other ends of their connections. The loader may also name listening sockets.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#define MAX_FIXES 16
#define MAX_FORCED_PORTS 16
#define MAX_FORCED_ADDRESSES 8
#define MAX_FORCED_PIDS 16
#define PEERS_KEPT 8

/* Ends of a connection: which to change, and whose socket it was. */
#define SIDE_CLIENT 1
#define SIDE_SERVER 2

/* Whose an entry is: of the command, or of what --pid names. */
#define OF_COMMAND 1
#define OF_PROCESS 2

/* include/uapi/linux/bpf.h */
#define CALLED_BY_CONNECT 3
#define CALLED_BY_ACTIVE_ESTABLISHED 4
#define CALLED_BY_PASSIVE_ESTABLISHED 5
#define CALLED_BY_LISTEN 11

/* The kernel's layout of a program's context, up to the socket (include/uapi/linux/bpf.h). */
struct bpf_sock_ops {
	__u32 op;
	__u32 args[4];
	__u32 family;
	__u32 addresses[10];
	__u32 remote_port;
	__u32 local_port;
	__u32 is_fullsock;
	__u32 figures[23];
	__u64 bytes[2];
	union {
		void *sk;
		__u64 sk_word;
	};
};
_Static_assert(__builtin_offsetof(struct bpf_sock_ops, sk) == 184, "as in the kernel");

struct fix {
	__u32 level;
	__u32 option;
	__u32 value;
	__u32 is_early; /* acts on the handshake: also set before it */
	__u32 has_name; /* the value is the name */
	char name[16];
};

/* Read-only once loaded. */
struct settings {
	__u64 group_id;
	__u32 group_level;
	__u32 has_group;
	__u32 sides;
	__u32 fix_count;
	struct fix fixes[MAX_FIXES];
	/* Connections that the pick leaves out are not changed: ports at either end, addresses at either end. */
	__u32 ports;
	__u32 addresses;
	__u32 pids;
	__u16 port[MAX_FORCED_PORTS];
	__u32 address[MAX_FORCED_ADDRESSES][4];
	__u32 pid[MAX_FORCED_PIDS];
};
const volatile struct settings settings = {};

/* How often each fix was accepted and refused: one attempt an established socket. */
struct outcome {
	__u64 attempts;
	__u64 accepted;
	__u64 refused;
	__u32 last_errno;
	__u32 granted; /* as getsockopt() says afterwards; 0 where it does not */
};
struct outcome outcomes[MAX_FIXES] = {};

/* A changed socket outside the command's group. */
struct peer {
	__u16 client_port;
	__u16 server_port;
	__u32 side;
};
struct peer peers[PEERS_KEPT] = {};
__u32 peer_count = 0;
__u32 of_command = 0; /* changed sockets of the command */
__u32 of_process = 0; /* changed sockets of what --pid names */
__u32 unlisted_peers = 0; /* connections without a place in `connections` */

/* IPv4 addresses are in the form of IPv6 (RFC 4291 §2.5.5.2), so that both kinds of sockets agree. */
struct end {
	__u32 address[4];
	__u32 port;
};
struct between {
	__u32 netns; /* 0: the connection leaves the namespace of its client */
	struct end client;
	struct end server;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__type(key, struct between);
	__type(value, __u8);
} connections SEC(".maps");

struct listening {
	__u32 netns;
	struct end at;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 12);
	__type(key, struct listening);
	__type(value, __u8);
} listeners SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct dst_entry {
	struct net_device *dev;
};
struct sock___route {
	struct dst_entry *sk_dst_cache;
};
#pragma clang attribute pop

/* Whether the socket belongs to the command's group or to a group below it. */
static __always_inline bool in_group(const struct sock *sk)
{
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup, *ancestor;
	__u32 level = settings.group_level & 63;

	if (!settings.has_group || !cgroup || BPF_CORE_READ(cgroup, level) < (int)level)
		return false;
	bpf_probe_read_kernel(&ancestor, sizeof(ancestor),
			      (const void *)cgroup + bpf_core_field_offset(struct cgroup, ancestors) +
				      level * sizeof(void *));
	if (BPF_CORE_READ(cgroup, level) == (int)level)
		ancestor = cgroup;
	return BPF_CORE_READ(ancestor, kn, id) == settings.group_id;
}

static __always_inline void local_end(const struct sock *sk, struct end *end)
{
	const struct sock_common *common = &sk->__sk_common;

	end->port = common->skc_num;
	if (common->skc_family == AF_INET6) {
		for (int i = 0; i < 4; i++)
			end->address[i] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
		return;
	}
	end->address[0] = end->address[1] = 0;
	end->address[2] = bpf_htonl(0xffff);
	end->address[3] = common->skc_rcv_saddr;
}

static __always_inline void remote_end(const struct sock *sk, struct end *end)
{
	const struct sock_common *common = &sk->__sk_common;

	end->port = bpf_ntohs(common->skc_dport);
	if (common->skc_family == AF_INET6) {
		for (int i = 0; i < 4; i++)
			end->address[i] = common->skc_v6_daddr.in6_u.u6_addr32[i];
		return;
	}
	end->address[0] = end->address[1] = 0;
	end->address[2] = bpf_htonl(0xffff);
	end->address[3] = common->skc_daddr;
}

/* Whether packets of the socket stay in its network namespace. */
static __always_inline bool is_local(const struct sock *sk)
{
	struct dst_entry *route = BPF_CORE_READ((struct sock___route *)sk, sk_dst_cache);

	return route && BPF_CORE_READ(route, dev, flags) & IFF_LOOPBACK;
}

static __always_inline bool same(const volatile __u32 *a, const __u32 *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

static __always_inline bool is_picked(const struct between *key)
{
	bool found = !settings.ports;

	for (int i = 0; i < MAX_FORCED_PORTS; i++)
		found |= i < settings.ports && (settings.port[i] == key->client.port ||
					    settings.port[i] == key->server.port);
	if (!found || !settings.addresses)
		return found;
	found = false;
	for (int i = 0; i < MAX_FORCED_ADDRESSES; i++)
		found |= i < settings.addresses && (same(settings.address[i], key->client.address) ||
					   same(settings.address[i], key->server.address));
	return found;
}

/* Whose listening socket accepts connections at this end of them; 0 where that is unknown. */
static __always_inline __u8 listener_of(__u32 netns, const struct end *at)
{
	struct listening key = { .netns = netns, .at = *at };
	const __u8 *whose = bpf_map_lookup_elem(&listeners, &key);

	if (whose)
		return *whose;
	/* Any address of IPv4, then any address. */
	key.at.address[0] = key.at.address[1] = key.at.address[3] = 0;
	key.at.address[2] = bpf_htonl(0xffff);
	whose = bpf_map_lookup_elem(&listeners, &key);
	if (whose)
		return *whose;
	key.at.address[2] = 0;
	whose = bpf_map_lookup_elem(&listeners, &key);
	return whose ? *whose : 0;
}

static __always_inline bool is_of_picked_process(void)
{
	struct task_struct *task;
	__u32 tgid;

	if (!settings.pids)
		return false;
	task = bpf_get_current_task_btf();
	tgid = task->tgid;
	for (int i = 0; i < MAX_FORCED_PIDS; i++)
		if (i < settings.pids && settings.pid[i] == tgid)
			return true;
	return false;
}

/*
 * Sets the options. Only an established socket counts. Returns whether the kernel accepted one of them: a
 * socket on which it refused all is not a changed one.
 */
static __always_inline bool set_all(struct bpf_sock_ops *ctx, bool is_early)
{
	bool is_changed = false;

	for (int i = 0; i < MAX_FIXES; i++) {
		const volatile struct fix *fix = &settings.fixes[i];
		char name[16] = {};
		__u32 value, granted = 0;
		long failed;

		if (i >= settings.fix_count)
			break;
		if (is_early && !fix->is_early)
			continue;
		value = fix->value;
		if (fix->has_name) {
			for (int at = 0; at < 16; at++)
				name[at] = fix->name[at];
			failed = bpf_setsockopt(ctx, fix->level, fix->option, name, sizeof(name));
		} else {
			failed = bpf_setsockopt(ctx, fix->level, fix->option, &value, sizeof(value));
		}
		if (is_early)
			continue;
		__sync_fetch_and_add(&outcomes[i].attempts, 1);
		if (failed) {
			__sync_fetch_and_add(&outcomes[i].refused, 1);
			outcomes[i].last_errno = -failed;
			continue;
		}
		is_changed = true;
		__sync_fetch_and_add(&outcomes[i].accepted, 1);
		if (!fix->has_name &&
		    !bpf_getsockopt(ctx, fix->level, fix->option, &granted, sizeof(granted)))
			outcomes[i].granted = granted;
	}
	return is_changed;
}

static __always_inline void note_peer(const struct between *key, __u32 side)
{
	__u32 at = __sync_fetch_and_add(&peer_count, 1);

	if (at >= PEERS_KEPT)
		return;
	peers[at].client_port = key->client.port;
	peers[at].server_port = key->server.port;
	peers[at].side = side;
}

static __always_inline void listens(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	struct listening key = { .netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum) };
	__u8 whose = OF_COMMAND;

	local_end(sk, &key.at);
	if (!in_group(sk)) {
		if (!is_of_picked_process()) {
			/* The address has another owner now. */
			bpf_map_delete_elem(&listeners, &key);
			return;
		}
		whose = OF_PROCESS;
	}
	bpf_map_update_elem(&listeners, &key, &whose, BPF_ANY);
	if (settings.sides & SIDE_SERVER)
		set_all(ctx, true);
}

/* The client's end: before its SYN, and when the connection is established. */
static __always_inline void client(struct bpf_sock_ops *ctx, const struct sock *sk, bool is_early)
{
	struct between key = {};
	__u32 netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	const __u8 *known;
	__u8 whose = 0;
	bool is_peer = false;

	local_end(sk, &key.client);
	remote_end(sk, &key.server);
	if (!is_picked(&key))
		return;
	key.netns = is_local(sk) ? netns : 0;
	if (in_group(sk))
		whose = OF_COMMAND;
	else if (is_early && is_of_picked_process())
		whose = OF_PROCESS;
	if (is_early && whose && bpf_map_update_elem(&connections, &key, &whose, BPF_ANY))
		__sync_fetch_and_add(&unlisted_peers, 1);
	if (!whose) {
		known = bpf_map_lookup_elem(&connections, &key);
		if (known && *known == OF_PROCESS)
			whose = OF_PROCESS;
	}
	if (!whose && key.netns && listener_of(netns, &key.server) == OF_COMMAND)
		is_peer = true;
	if (!(settings.sides & SIDE_CLIENT) || !(whose || is_peer))
		return;
	if (!set_all(ctx, is_early))
		return;
	if (is_peer)
		note_peer(&key, SIDE_CLIENT);
	else
		__sync_fetch_and_add(whose == OF_COMMAND ? &of_command : &of_process, 1);
}

static __always_inline void server(struct bpf_sock_ops *ctx, const struct sock *sk)
{
	struct between key = {};
	__u32 netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	const __u8 *known;

	local_end(sk, &key.server);
	remote_end(sk, &key.client);
	if (!(settings.sides & SIDE_SERVER) || !is_picked(&key))
		return;
	if (in_group(sk)) {
		if (set_all(ctx, false))
			__sync_fetch_and_add(&of_command, 1);
		return;
	}
	if (listener_of(netns, &key.server) == OF_PROCESS) {
		if (set_all(ctx, false))
			__sync_fetch_and_add(&of_process, 1);
		return;
	}
	key.netns = netns;
	known = bpf_map_lookup_elem(&connections, &key);
	if (!known) {
		key.netns = 0;
		known = bpf_map_lookup_elem(&connections, &key);
	}
	if (known && *known == OF_COMMAND && set_all(ctx, false))
		note_peer(&key, SIDE_SERVER);
}

SEC("sockops")
int force(struct bpf_sock_ops *ctx)
{
	const struct sock *sk;
	void *socket = ctx->sk;

	if (!socket)
		return 1;
	sk = (const struct sock *)bpf_skc_to_tcp_sock(socket);
	if (!sk)
		return 1;
	switch (ctx->op) {
	case CALLED_BY_LISTEN:
		listens(ctx, sk);
		break;
	case CALLED_BY_CONNECT:
		client(ctx, sk, true);
		break;
	case CALLED_BY_ACTIVE_ESTABLISHED:
		client(ctx, sk, false);
		break;
	case CALLED_BY_PASSIVE_ESTABLISHED:
		server(ctx, sk);
		break;
	}
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
