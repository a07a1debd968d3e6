/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Data that the probes hand to the recorder. These layouts are defined only here: the
 * loader's Rust types are generated from the BTF of the compiled programs.
 */
#ifndef SOCKSCOPE_LAYOUT_H
#define SOCKSCOPE_LAYOUT_H

/* Kinds of union raw_record. */
enum raw_kind {
	RAW_WRITE = 1,	/* a chunk of a write call is about to be copied in */
	RAW_QUEUED,	/* a queueing discipline took the packet */
	RAW_TRANSMIT,	/* the driver is handed the packet */
	RAW_INPUT,	/* the packet enters the IP input queue */
	RAW_RECEIVE,	/* IP takes the packet */
	RAW_READY,	/* data is in the receive queue */
	RAW_COPY,	/* data was copied to the reader */
	RAW_RETRANSMIT, /* TCP decided to send a segment again */
	RAW_DROP,	/* the kernel dropped the packet */
	RAW_WRITE_RETURN, /* a send call returned */
	RAW_READ_RETURN,  /* a receive call returned */
	RAW_CONGESTION,	  /* slow-start threshold or congestion state changed */
	RAW_ANCHOR,	  /* after a miss: positions of both flows, by the socket's own counters */
	RAW_HOP,	  /* a segment passes a device between the two ends: see hop.h */
	RAW_KINDS,
};

/* Marks of union raw_record. */
#define RAW_MARK_UDP 1
#define RAW_MARK_WAITED_FOR 2
#define RAW_MARK_AGGREGATED 4
#define RAW_MARK_LOOPBACK 8
#define RAW_MARK_RETRANSMITTED 16
#define RAW_MARK_ROOM 32
/* Records of the connection were missed, and no anchor has been written since. TCP alone. */
#define RAW_MARK_ADRIFT 64
/* An odd number of anchors of the connection was written by then, this one included. TCP alone. */
#define RAW_MARK_ODD 128

/*
 * One probe event: a cache line, and a struct for each kind. UDP has structs of its own
 * (RAW_MARK_UDP). All structs have stamp, at_ns, flow, kind and marks at the same offset. A probe
 * writes every word of a record, 0 where the kind has no field: an earlier record leaves nothing.
 */
#define RAW_BEGIN                                                                           \
	__u64 stamp; /* number of the record in its list plus one: written last, publishes it */ \
	__u64 at_ns; /* CLOCK_MONOTONIC */                                                   \
	__u32 flow   /* 2 * connection + direction */

/* The fields of all kinds, and the other words without their meaning. */
struct raw_any {
	RAW_BEGIN;
	__u32 words[4];
	__u32 thread;	/* task id; 0 in interrupt context and where the kind has no thread */
	__u8 kind;	/* enum raw_kind */
	__u8 code;
	__u8 tcp_flags;
	__u8 marks;	/* RAW_MARK_* */
	__u32 word;
	__u64 longs[2];
};

/* RAW_WRITE: the send call copies its next bytes into the socket. */
struct raw_write {
	RAW_BEGIN;
	__u32 start_seq; /* sequence number of the first byte: write_seq */
	__u32 left_len;	 /* bytes that the call has still to copy, this chunk included */
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 thread;
	__u8 kind;
	__u8 hold;	 /* why TCP would hold the bytes: see hold.h */
	__u8 no_flags;
	__u8 marks;
	__u32 no_word;
	__u64 run_delay_ns; /* time that the thread was runnable without a CPU, in all its life */
	__u64 began_ns;	 /* of a Unix socket: when the call began, if that is known; else 0 */
};

/* RAW_QUEUED, RAW_TRANSMIT, RAW_INPUT, RAW_RECEIVE of TCP. The sender's state: RAW_QUEUED and RAW_TRANSMIT. */
struct raw_tcp_packet {
	RAW_BEGIN;
	__u32 seq;	/* header */
	__u32 len;	/* bytes of payload */
	__u32 ack;	/* header */
	__u32 window;	/* header, not scaled */
	__u32 device;	/* its number, in the namespace of the end that sends or receives; 0 on loopback */
	__u8 kind;
	__u8 hold;	/* why TCP held the bytes until now: see hold.h */
	__u8 tcp_flags;
	__u8 marks;
	__u32 since_taken_ns; /* time since TCP took the segment from the send queue */
	__u32 snd_cwnd;	 /* packets; 0 as well as in_flight where the packet has no socket of this host */
	__u32 in_flight; /* packets */
	__u32 snd_wnd;	 /* bytes */
	__u32 srtt_us;
};

/* RAW_QUEUED, RAW_TRANSMIT, RAW_INPUT, RAW_RECEIVE of UDP. */
struct raw_udp_packet {
	RAW_BEGIN;
	__u32 each_len;	/* bytes of each datagram of a packet that holds several (the last may be shorter), else 0 */
	__u32 len;	/* bytes of payload of all datagrams */
	__u32 buffer;	/* see buffer_of() */
	__u32 no_window;
	__u32 thread;	/* RAW_QUEUED, RAW_TRANSMIT with a socket: the thread that runs */
	__u8 kind;
	__u8 no_code;
	__u8 no_flags;
	__u8 marks;
	__u32 no_word;
	__u64 no_longs[2];
};

/* RAW_READY of TCP. */
struct raw_tcp_ready {
	RAW_BEGIN;
	__u32 rcv_nxt;	/* the receive queue has all bytes before this sequence number */
	__u32 no_words[3];
	__u32 no_thread;
	__u8 kind;
	__u8 no_code;
	__u8 no_flags;
	__u8 marks;
	__u32 no_word;
	__u64 no_longs[2];
};

/* RAW_READY of UDP: one datagram, or one packet of several that the socket takes whole (UDP_GRO). */
struct raw_udp_ready {
	RAW_BEGIN;
	__u32 each_len;	/* as in raw_udp_packet */
	__u32 len;
	__u32 socket;	/* number of the socket, which RAW_COPY has too */
	__u32 buffer;	/* of the packet: see buffer_of() */
	__u32 no_thread;
	__u8 kind;
	__u8 no_code;
	__u8 no_flags;
	__u8 marks;
	__u32 no_word;
	__u64 no_longs[2];
};

/* RAW_COPY of TCP. */
struct raw_tcp_copy {
	RAW_BEGIN;
	__u32 copied_seq; /* the reader has all bytes before this sequence number */
	__u32 no_words[3];
	__u32 thread;
	__u8 kind;
	__u8 no_code;
	__u8 no_flags;
	__u8 marks;
	__u32 no_word;
	__u64 run_delay_ns;	/* as in raw_write */
	__u64 last_arrival_ns;	/* when the thread last got its CPU, by the scheduler's clock */
};

/* RAW_COPY of UDP: a receive call returned a datagram. */
struct raw_udp_copy {
	RAW_BEGIN;
	__u32 no_each;
	__u32 len;	/* bytes that the call returned */
	__u32 socket;	/* number of the socket */
	__u32 left_plus_one; /* datagrams left in the queue plus one; 0: their number changed meanwhile */
	__u32 thread;
	__u8 kind;
	__u8 no_code;
	__u8 no_flags;
	__u8 marks;
	__u32 no_word;
	__u64 run_delay_ns;	/* as in raw_write */
	__u64 last_arrival_ns;
};

/* RAW_RETRANSMIT. */
struct raw_retransmit {
	RAW_BEGIN;
	__u32 seq;
	__u32 len;
	__u32 no_words[2];
	__u32 no_thread;
	__u8 kind;
	__u8 class;	/* CLASS_*, or 0 */
	__u8 no_flags;
	__u8 marks;
	__u32 no_word;
	__u64 no_longs[2];
};

/* RAW_DROP of TCP. */
struct raw_tcp_drop {
	RAW_BEGIN;
	__u32 seq;	/* header */
	__u32 len;
	__u32 no_words[2];
	__u32 no_thread;
	__u8 kind;
	__u8 no_code;
	__u8 tcp_flags;
	__u8 marks;
	__u32 reason;	/* enum skb_drop_reason of the running kernel */
	__u64 no_longs[2];
};

/* RAW_DROP of UDP. */
struct raw_udp_drop {
	RAW_BEGIN;
	__u32 each_len;	/* as in raw_udp_packet */
	__u32 len;
	__u32 buffer;
	__u32 no_window;
	__u32 thread;	/* the thread that runs, where the packet has its sender's socket; else 0 */
	__u8 kind;
	__u8 no_code;
	__u8 no_flags;
	__u8 marks;
	__u32 reason;	/* enum skb_drop_reason of the running kernel */
	__u64 no_longs[2];
};

/* RAW_WRITE_RETURN, RAW_READ_RETURN. */
struct raw_call_return {
	RAW_BEGIN;
	__u32 end_seq;	/* write_seq or copied_seq as the call returns */
	__u32 len;	/* bytes that the call returned */
	__u32 no_words[2];
	__u32 thread;
	__u8 kind;
	__u8 error;	/* errno, or 0 */
	__u8 no_flags;
	__u8 marks;
	__u32 no_word;
	__u64 run_delay_ns;	/* as in raw_write */
	__u64 no_long;
};

/* RAW_CONGESTION. */
struct raw_congestion {
	RAW_BEGIN;
	__u32 snd_una;
	__u32 ssthresh;	/* packets */
	__u32 mss;	/* bytes */
	__u32 dsack_dups; /* duplicate segments that the peer reported (RFC 2883), in all */
	__u32 no_thread;
	__u8 kind;
	__u8 ca_state;	/* enum tcp_ca_state */
	__u8 no_flags;
	__u8 marks;
	__u32 sndbuf;	/* bytes */
	__u64 rcvbuf;	/* bytes */
	__u64 userlocks; /* SOCK_SNDBUF_LOCK 1, SOCK_RCVBUF_LOCK 2: the program set this buffer */
};

/* RAW_ANCHOR: positions of both flows of the socket that sends `flow`. */
struct raw_anchor {
	RAW_BEGIN;
	__u32 snd_una;
	__u32 no_len;
	__u32 rcv_nxt;
	__u32 copied_seq;
	__u32 no_thread;
	__u8 kind;
	__u8 no_code;
	__u8 no_flags;
	__u8 marks;
	__u32 no_word;
	__u64 bytes_acked;	/* bytes that the peer acknowledged, at snd_una */
	__u64 bytes_received;	/* bytes received, at rcv_nxt */
};

/* RAW_HOP: data of TCP at a device in another network namespace than that of its end. */
struct raw_hop {
	RAW_BEGIN;
	__u32 seq;	/* header */
	__u32 len;	/* bytes of payload */
	__u32 ack;	/* header */
	__u32 netns;	/* inode number of the device's namespace */
	__u32 device;	/* its number there */
	__u8 kind;
	__u8 at;	/* RAW_QUEUED, RAW_TRANSMIT, RAW_INPUT or RAW_RECEIVE */
	__u8 tcp_flags;
	__u8 marks;
	__u32 window;	/* header, not scaled */
	__u64 no_longs[2];
};

union raw_record {
	struct raw_any any;
	struct raw_write write;
	struct raw_tcp_packet tcp_packet;
	struct raw_udp_packet udp_packet;
	struct raw_tcp_ready tcp_ready;
	struct raw_udp_ready udp_ready;
	struct raw_tcp_copy tcp_copy;
	struct raw_udp_copy udp_copy;
	struct raw_retransmit retransmit;
	struct raw_tcp_drop tcp_drop;
	struct raw_udp_drop udp_drop;
	struct raw_call_return call_return;
	struct raw_congestion congestion;
	struct raw_anchor anchor;
	struct raw_hop hop;
};

/* The last result of the look-up of a connected socket: see slot_of_socket(). */
#define KNOWN_SOCKETS 64
struct known_socket {
	__u64 socket;
	__u32 ports;
	__u32 hash;
	__u32 slot;	  /* without one: connections opened by then */
	__u32 connection; /* or NOT_LOGGED */
	__u32 direction;  /* or ASKED_TWICE */
	__u32 pad;
};

/* A segment that this CPU gave to the loopback device and IP has not received: see passing_segment(). */
#define PASSING_SEGMENTS 16
struct passing_segment {
	__u64 skb; /* its address, or 0 */
	__u64 transport; /* address of its header, and the first words of that */
	__u64 words[2];
	__u32 slot;
	__u32 connection;
	__u32 direction;
	__u32 pad[5];
};

/*
 * Records of one CPU. The probes move `head`, the recorder moves `tail`. The number of records is the
 * loader's choice, see `list_mask`.
 */
struct record_list {
	__u64 head;
	__u64 last_ns;
	__u32 udp_flow;	/* of the packet in transit to a datagram socket, or 0 */
	__u32 udp_len;	/* its octets that have not arrived there yet */
	__u32 udp_port;
	__u32 udp_each;	/* octets of each of its datagrams, where it holds several, else 0 */
	__u32 udp_slot; /* of its connection */
	__u32 call_end;	/* of the send call last recorded whole on this CPU: where it ends */
	__u64 call_socket; /* and the socket's address */
	__u64 is_noting; /* a hit writes to `known` or `passing`: one that interrupts it does not */
	__u32 udp_buffer; /* see buffer_of() */
	__u32 udp_netns; /* namespace of the device that received it */
	__u64 lost[RAW_KINDS]; /* except those of connections that other users asked for */
	__u64 others_lost[RAW_KINDS];
	__u64 device; /* the last one that was looked up: see announce_device() */
	__u64 pad3[64 - 9 - 2 * RAW_KINDS];
	struct known_socket known[KNOWN_SOCKETS];
	struct passing_segment passing[PASSING_SEGMENTS];
	__u64 tail;
	__u64 pad4[63];
	union raw_record records[];
};

/*
 * One cache line for the fields of every hit, others for the counters, which the recorder reads, for
 * `tail`, which it writes, and for each record. The lists stand one after another in the map.
 */
#define CACHE_LINE 64
#define BEGINS_LINE(field) (__builtin_offsetof(struct record_list, field) % CACHE_LINE == 0)
_Static_assert(sizeof(union raw_record) == CACHE_LINE, "a record is a cache line");
_Static_assert(CACHE_LINE % sizeof(struct known_socket) == 0, "no known socket straddles a line");
_Static_assert(__builtin_offsetof(struct record_list, lost) == CACHE_LINE, "one line for every hit");
_Static_assert(BEGINS_LINE(known), "the known sockets begin a cache line");
_Static_assert(sizeof(struct passing_segment) == CACHE_LINE, "a passing segment is a cache line");
_Static_assert(BEGINS_LINE(passing), "the passing segments begin a cache line");
_Static_assert(BEGINS_LINE(tail), "the recorder's line has no field of the probes before `tail`");
_Static_assert(BEGINS_LINE(records), "a record is one cache line, not parts of two");
_Static_assert(sizeof(struct record_list) % CACHE_LINE == 0, "so on every CPU");

/* Each kind fills the cache line, with the fields of all kinds where struct raw_any has them. */
#define IS_AS_IN_ANY(type, field) \
	(__builtin_offsetof(struct type, field) == __builtin_offsetof(struct raw_any, field))
#define ASSERT_RAW(type)                                                                     \
	_Static_assert(sizeof(struct type) == CACHE_LINE, #type " is a cache line");             \
	_Static_assert(IS_AS_IN_ANY(type, stamp) && IS_AS_IN_ANY(type, at_ns) &&                 \
			       IS_AS_IN_ANY(type, flow) && IS_AS_IN_ANY(type, kind) &&           \
			       IS_AS_IN_ANY(type, marks),                                        \
		       #type " has the fields of all kinds")
#define ASSERT_AT(type, field, offset)                                     \
	_Static_assert(__builtin_offsetof(struct type, field) == (offset), \
		       #type "." #field " is at " #offset)
ASSERT_RAW(raw_any);
ASSERT_RAW(raw_write);
ASSERT_RAW(raw_tcp_packet);
ASSERT_RAW(raw_udp_packet);
ASSERT_RAW(raw_tcp_ready);
ASSERT_RAW(raw_udp_ready);
ASSERT_RAW(raw_tcp_copy);
ASSERT_RAW(raw_udp_copy);
ASSERT_RAW(raw_retransmit);
ASSERT_RAW(raw_tcp_drop);
ASSERT_RAW(raw_udp_drop);
ASSERT_RAW(raw_call_return);
ASSERT_RAW(raw_congestion);
ASSERT_RAW(raw_anchor);
ASSERT_RAW(raw_hop);
ASSERT_AT(raw_any, stamp, 0);
ASSERT_AT(raw_any, at_ns, 8);
ASSERT_AT(raw_any, flow, 16);
ASSERT_AT(raw_any, words, 20);
ASSERT_AT(raw_any, thread, 36);
ASSERT_AT(raw_any, kind, 40);
ASSERT_AT(raw_any, marks, 43);
ASSERT_AT(raw_any, word, 44);
ASSERT_AT(raw_any, longs, 48);
/* One store fills a field of TCP and of UDP. */
ASSERT_AT(raw_tcp_packet, len, 24);
ASSERT_AT(raw_udp_packet, len, 24);
ASSERT_AT(raw_tcp_drop, len, 24);
ASSERT_AT(raw_udp_drop, len, 24);
ASSERT_AT(raw_tcp_drop, reason, 44);
ASSERT_AT(raw_udp_drop, reason, 44);
ASSERT_AT(raw_tcp_ready, rcv_nxt, 20);
ASSERT_AT(raw_udp_ready, each_len, 20);
/* describe_thread() fills these. */
ASSERT_AT(raw_write, thread, 36);
ASSERT_AT(raw_tcp_copy, thread, 36);
ASSERT_AT(raw_udp_copy, thread, 36);
ASSERT_AT(raw_call_return, thread, 36);
ASSERT_AT(raw_write, run_delay_ns, 48);
ASSERT_AT(raw_tcp_copy, run_delay_ns, 48);
ASSERT_AT(raw_udp_copy, run_delay_ns, 48);
ASSERT_AT(raw_call_return, run_delay_ns, 48);
ASSERT_AT(raw_tcp_copy, last_arrival_ns, 56);
ASSERT_AT(raw_udp_copy, last_arrival_ns, 56);
/* store_pair() fills each pair of these. */
ASSERT_AT(raw_tcp_packet, snd_cwnd, 48);
ASSERT_AT(raw_tcp_packet, in_flight, 52);
ASSERT_AT(raw_tcp_packet, snd_wnd, 56);
ASSERT_AT(raw_tcp_packet, srtt_us, 60);

/* sizeof(sun_path) */
#define UNIX_NAME_MAX 108

/* Rare events, through the ring buffer. */
enum event_kind {
	EVENT_OPEN = 1,	  /* a connection got its number */
	EVENT_STATE = 2,  /* TCP state of a logged socket changed */
	EVENT_THREAD = 4, /* a thread was first seen on a flow */
	EVENT_JOIN = 5,	  /* sequence numbers of a connection joined after its opening */
	EVENT_GONE = 6,	  /* the last local socket of a connection was destroyed */
	EVENT_OPEN_STILL = 7, /* a logged socket is open when the recording ends */
	EVENT_SOCKET = 8, /* a datagram socket got its first one, another size, or a peer to send to */
	EVENT_INTERFACE = 9, /* a flow leaves its host by another queueing discipline than before */
	EVENT_ACCEPT = 10, /* a program has the connection, and asked for its peer */
	EVENT_LEFT_OUT = 11, /* sampling leaves a logged connection out from here on */
	EVENT_DEVICE = 13, /* a recorded segment passes this device */
	EVENT_LAYER = 14, /* a logged socket has layers of the kernel above TCP */
};

/* Layers of the kernel that read and write a TCP socket in the place of a program: see layers_of(). */
enum socket_layer {
	LAYER_TLS = 1,
	LAYER_SOCKMAP = 2,
};

/* Whether the ends of a connection offered to scale their windows (RFC 7323), as one of them knows it. */
enum window_scaling {
	SCALING_AGREED = 1,  /* both SYNs had the option */
	SCALING_OFFERED = 2, /* this end's host offers it now (net.ipv4.tcp_window_scaling) */
};

struct event {
	__u64 at_ns;
	__u32 kind;
	__u32 connection;
	__u32 flow;	/* the flow that the local socket sends, or 0 */
	__u32 netns;	/* inode number */
	__u8 client_addr[16]; /* INTERFACE: name of the queueing discipline */
	__u8 server_addr[16];
	__u16 client_port;
	__u16 server_port;
	__u8 family;
	__u8 protocol;
	__u8 old_state; /* THREAD: 1: by SO_PEERCRED alone */
	__u8 new_state;
	__u32 pid;
	__u32 thread;
	char comm[16];	/* INTERFACE, DEVICE: name of the device */
	__u32 number;	/* SOCKET: its number in reads, 0 if it only sent so far; INTERFACE, DEVICE: its index;
			 * STATE of ESTABLISHED: enum window_scaling */
	__u32 userlocks;
	__u32 sndbuf;
	__u32 rcvbuf;
	__u32 snd_seq;	/* JOIN: sequence number of snd_una; STATE: write_seq */
	__u32 rcv_seq;	/* JOIN: rcv_nxt */
	__u64 snd_offset; /* JOIN: position of snd_seq in its stream; STATE: octets acknowledged */
	__u64 rcv_offset; /* JOIN: position of rcv_seq; STATE: octets received */
	__u32 copied_seq; /* JOIN: end of the bytes that the reader has had */
	__u16 mss;
	__u8 snd_wscale; /* shift of windows that the peer offers */
	__u8 rcv_wscale; /* shift of windows that this socket offers */
	__u32 rcvlowat;	 /* bytes below which it announces no data */
	__u16 nonagle;	 /* those of TCP_NAGLE_OFF and TCP_NAGLE_CORK that are set */
	__u16 layers;	 /* bits of enum socket_layer: JOIN, STATE, OPEN_STILL, LAYER */
	__u32 replaced;	 /* OPEN, JOIN: the connection that gave way for this one, or 0 */
	__u32 of_others; /* OPEN, JOIN: another user asked for it, in addition to the operator's pick */
	__u64 cgroup;	 /* OPEN, THREAD: inode number of the process's group of version 2, or 0 */
	__u64 inode[2];	 /* OPEN of AF_UNIX: of the client's socket and of the server's, or 0. Its `protocol` is
			  * the type of the sockets, `old_state` whether one is older than the recording */
	__u64 mark;	 /* OPEN of TCP: the number in the mark of its SYN, or 0 */
	__u32 name_len;	 /* OPEN of AF_UNIX: bytes of the server's name, or 0 */
	char name[UNIX_NAME_MAX];
};

/*
 * An option that a socket of a logged connection was asked to have. These go through a ring buffer of
 * their own: a program that sets options in a loop takes no room from openings.
 */
struct option_event {
	__u64 at_ns;	/* when it was asked for, or since when the connection is logged, if that was later;
			 * not after the event that first describes the socket */
	__u32 flow;	/* the flow that the socket sends */
	__u32 thread;
	__u32 level;
	__u32 option;
	__u32 value;
	__u32 most;	/* the most that the kernel grants, of an option where that is known; else 0 */
	__u32 sndbuf;	/* buffers that the socket has now; 0 where the call is still under way */
	__u32 rcvbuf;
};

#endif
