/* SPDX-License-Identifier: GPL-2.0 */
/* Maps and settings shared by all programs. */
#ifndef SOCKSCOPE_STATE_H
#define SOCKSCOPE_STATE_H

#define MAX_CPUS 8192 /* as many as a kernel can have: CONFIG_NR_CPUS */
#define MAX_PORTS 16
#define MAX_ADDRESSES 8
#define MAX_PIDS 64

/* The sockets to log. Kinds of picks that are set must all match; values of one kind are alternatives. */
struct pick {
	__u64 cgroup_id;
	__u64 mark_key; /* of the numbers in marks: no other recording has it */
	__u32 cgroup_level;
	__u32 has_cgroup;
	__u32 ports;
	__u32 addresses;
	__u32 pids;
	__u32 has_comm;
	__u32 in_band;
	__u32 any; /* no pick at all but marked sockets: 0 */
	__u32 so_log; /* users whose sockets may ask: see may_ask() */
	__u32 owner; /* the recording user */
	__u16 port[MAX_PORTS];
	__u32 address[MAX_ADDRESSES]; /* folded */
	__u32 pid[MAX_PIDS];
	char comm[16];
};

/* Settings: read-only once loaded. */
const volatile struct pick pick = {};
/* Records of each CPU's list, a power of two, less one; and the number that may wait in it. */
const volatile __u64 list_mask = 0;
const volatile __u64 list_room = 0;
/*
 * The verifier knows these two and removes dead branches: the table of lists where each CPU has the list of its
 * own number, and the shares of other users where they may not ask.
 */
const volatile __u32 list_is_cpu = 0;
const volatile __u32 others_may_ask = 0;
/* By number of CPU, the index of its list; an index that no list has where the CPU has none. */
const volatile __u16 list_of_cpu[MAX_CPUS] = {};
/* Never written: they bring these layouts into the generated types. */
const volatile struct event event_layout = {};
const volatile struct record_list list_layout = {};
const volatile struct option_event option_layout = {};

/* Connections. Four slots a bucket; a slot is free while `connection` is 0. */
#define FLOW_BUCKETS (1 << 14)
#define BUCKET_SLOTS 4
#define FLOW_SLOTS (FLOW_BUCKETS * BUCKET_SLOTS)
/* A connection whose bucket is full has its slot in one of the next buckets. */
#define BUCKETS_SEARCHED 8
#define SLOT_BUSY 0xffffffffU
/* Numbers of connections leave a bit for the direction. */
#define CONNECTION_MAX 0x7fffffffU
/* Instead of a number, of a socket without a slot. */
#define NOT_LOGGED 0xfffffffeU
/* In the place of its direction: this was found at two hits. */
#define ASKED_TWICE 2

/* The end of the lower address is the client. */
#define SLOT_LOW_IS_CLIENT 1
/* Another user than root and the recording one asked for it, in addition to a pick of the operator's. */
#define SLOT_OF_OTHERS 2
/* Slots that such connections may have. */
#define OTHERS_SLOTS_MAX (FLOW_SLOTS / 4)

/* A cache line. */
struct flow_slot {
	__u64 key1;
	__u64 key2;
	__u32 connection;
	__u32 endpoints;
	__u32 isn; /* of the SYN that opened it */
	__u8 role; /* SLOT_LOW_IS_CLIENT, SLOT_OF_OTHERS */
	__u8 ca_state[2];
	__u8 missed; /* see anchor.h */
	__u32 writer[2]; /* last thread seen, by direction */
	__u32 reader[2];
	__u32 congestion[2]; /* of the last report: see note_congestion() */
	union {
		__u32 call_end[2]; /* TCP: where the send call under way ends, if all of it finds room */
		__u32 queued[2];   /* UDP: datagrams in a queueing discipline */
	};
};
struct flow_slot flows[FLOW_SLOTS] SEC(".bss.flows") __attribute__((aligned(64)));
_Static_assert(sizeof(struct flow_slot) == 64, "a slot is a cache line");

/*
 * For each bucket: slots of the connections that hash to it, and the number of those in later
 * buckets. A look-up ends at 0 without a look at any slot. HOME_LOCKED is set while one CPU opens a
 * connection that hashes there: see lock_home().
 */
#define HOME_ONE 1
#define DISPLACED_ONE (1 << 16)
#define HOME_LOCKED (1U << 31)
__u32 homes[FLOW_BUCKETS] SEC(".bss.flows");

/*
 * Data of a slot that few hits need. The times when it was taken and, without a socket of this host, last used,
 * in units of 2^20 ns (see worth_of()). The network namespaces of the two ends, the lower address first:
 * see is_between().
 */
struct flow_use {
	__u32 opened;
	__u32 used;
	__u32 netns[2];
};
struct flow_use uses[FLOW_SLOTS] SEC(".bss.flows") __attribute__((aligned(64)));
_Static_assert(BUCKET_SLOTS * sizeof(struct flow_use) == 64, "those of a bucket are a cache line");

/*
 * The interface by which each flow was last reported to leave: the connection, and a hash of device and queueing
 * discipline, whose low bits count the reports.
 */
struct reported_interface {
	__u32 connection;
	__u32 interface;
};
#define INTERFACE_REPORTS_MAX 7
struct reported_interface reported_interfaces[2 * FLOW_SLOTS] SEC(".bss.flows");

/*
 * The last refusals, by hash: several hooks refuse the same connection or listener, and it counts
 * once.
 */
#define REFUSED_RECENTLY (1 << 16)
__u32 refused[REFUSED_RECENTLY] SEC(".bss.flows");

/* The TCP connections that had not opened and gave way last, by hash of their keys. */
__u32 gave_way[REFUSED_RECENTLY] SEC(".bss.flows");

/*
 * The last connections that sampling left out: the mark in the upper half, and the time of the last packet in units of
 * 2^30 ns. So each is counted once, and stays left out. The hash chooses a set of as many places as a cache line has,
 * and a new connection takes the oldest of them.
 */
#define LEFT_OUT_WAYS 8
#define LEFT_OUT_RECENTLY (1 << 16)
/* As long as a recorded pair of datagram endpoints stays without a packet. */
#define LEFT_OUT_IDLE 150
__u64 left_out[LEFT_OUT_RECENTLY] __attribute__((aligned(64))) SEC(".bss.flows");

/* A connection is logged if its hash is below. The recorder may change it at any time: all are below 2^32. */
__u64 sample_limit SEC(".data.sample") = 1ULL << 32;

/* Counters and the connection number. */
__u32 last_connection = 0;
__u32 connections_opened = 0; /* moved once a connection's slot can be found */
__u32 others_open = 0; /* slots with SLOT_OF_OTHERS */
__u32 others_listening = 0; /* entries of `listeners` that are LISTENER_OF_OTHERS */
__u64 connections_left_out = 0; /* by the limit of the hash: see leave_out() */
__u64 connections_left_out_later = 0; /* of those that had a slot: see leave_out_slot() */
__u64 connections_refused = 0; /* without a slot: see refuse() */
__u64 openings_missed = 0; /* packets that would have opened a connection: see lock_home() */
__u64 ambiguous = 0; /* packets that may be of several connections: see find_among() */
__u64 half_open_replaced = 0; /* TCP connections that had not opened and gave way */
__u64 half_open_missed = 0; /* of these, opened later, without a slot */
__u64 listeners_refused = 0;
__u64 others_connections_refused = 0; /* these three: beyond the share that others have */
__u64 others_listeners_refused = 0;
__u64 others_events_refused = 0;
__u64 sockets_refused = 0; /* datagram sockets without storage: their reads are not recorded */
__u64 events_lost = 0;
__u64 unlisted = 0; /* hits on CPUs that have no list, counted in the first CPU's */
__u64 options_missed = 0; /* of sockets of logged connections */
__u64 udp_seen = 0;
/* A logged packet left by another device than loopback: point 5 needs its own hook. */
__u64 devices_seen = 0;
/* Open sockets that were passed over at the end. */
__u64 open_untold = 0;
__u32 last_udp_socket = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* one list a CPU that is online: set by the loader, as the value's size */
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct record_list));
} lists SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 12); /* bytes: set by the loader */
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 12); /* bytes: set by the loader */
} option_events SEC(".maps");

/* SO_LOG: the mark lives in the socket. */
struct mark {
	__u16 logged;
	__u16 of_others; /* see asks_for_others() */
};
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct mark);
} marked SEC(".maps");

/*
 * Options that a program set on a socket, from its first one on until a connection of the socket is logged:
 * then the recorder gets them. They lie in the socket's own storage: they
 * end with it, and a later socket at the same address in memory has none of them. An accepted socket
 * begins with a copy of its listener's, as it begins with the options themselves.
 */
struct kept_option {
	__u32 thread;
	__u32 value;
	__u32 most;
	__u16 level;
	__u16 option;
};
#define OPTIONS_KEPT 16
struct kept_options {
	__u32 count;
	__u32 missed; /* that found no place here */
	struct kept_option kept[OPTIONS_KEPT];
};
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct kept_options);
} kept_options SEC(".maps");

/*
 * The connection that a socket was last assigned to as an end. A datagram socket may have no peer of its
 * own, so that no address pair leads from it to a slot. A TCP socket counts once in its slot, and leaves
 * it when it is destroyed: by then close() may have taken its addresses, and others may have its ports.
 */
struct told_of {
	__u32 slot;
	__u32 flow; /* 0: none */
	__u32 is_accepted; /* TCP: that a program has it was reported */
	__u32 layers; /* TCP: bits of enum socket_layer that tell_layers() reported */
};
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct told_of);
} told_of SEC(".maps");

/*
 * Listening sockets that SO_LOG or a pick by process chose. A SYN-ACK shows its listener as a bare
 * pointer out of a union, which no helper takes as a way to the socket's storage. The address alone is
 * no identity: the next socket inherits it. The number of its file's inode stays with the listener as
 * long as it listens, and the kernel gives the same one again only after 2^32 others.
 */
struct listener {
	__u64 socket;
	__u64 inode;
};
#define LISTENERS_MAX 16384
/* Of these, those that other users asked for: see asks_for_others(). */
#define OTHERS_LISTENERS_MAX (LISTENERS_MAX / 4)
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LISTENERS_MAX);
	__type(key, struct listener);
	__type(value, __u8);
} listeners SEC(".maps");

/*
 * Send calls that may have to wait for room, in the storage of their threads: only where functions stand in for
 * point 1.
 */
struct send_call {
	__u64 socket; /* 0: none under way */
	__u64 message; /* its msghdr, which counts the bytes left */
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct send_call);
} send_calls SEC(".maps");

/*
 * Devices that the recorder knows, with their names: the number of a device or a namespace may be used again. Where
 * there are more, those are reported each time that a CPU meets them anew.
 */
struct device {
	__u32 index;
	__u32 netns;
};
struct device_name {
	__u64 words[2]; /* IFNAMSIZ octets */
};
#define DEVICES_MAX 4096
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, DEVICES_MAX);
	__type(key, struct device);
	__type(value, struct device_name);
} announced_devices SEC(".maps");

/* Datagram sockets that got logged data. */
struct udp_socket {
	__u32 flow; /* of the last datagram */
	__u32 reader;
	__u32 number;
	__u32 is_resized; /* a size of its buffers was set since their last report */
	__u32 slot; /* of the last datagram's connection */
};
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct udp_socket);
} udp_sockets SEC(".maps");

#endif
