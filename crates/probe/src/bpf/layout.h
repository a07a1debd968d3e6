/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the probes hand to the recorder. This is the one place where these layouts stand: the
 * loader's Rust types are generated from the BTF of the compiled programs.
 */
#ifndef SOCKSCOPE_LAYOUT_H
#define SOCKSCOPE_LAYOUT_H

/* Kinds of struct raw_record. */
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
	RAW_KINDS,
};

/* Marks of struct raw_record. */
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
 * One hit of one probe: a cache line. `stamp` is the record's number in its list plus one and is
 * written last, so that the reader knows a finished record.
 */
struct raw_record {
	__u64 stamp;
	__u64 at_ns;	/* CLOCK_MONOTONIC */
	__u32 flow;	/* 2 * connection + direction */
	__u32 seq;	/* TCP sequence number, of the first byte or as the kind says; UDP: octets of
			 * each datagram of a packet that holds several (the last may be shorter), else 0 */
	__u32 len;	/* bytes of payload */
	__u32 ack;	/* acknowledgment number of the header; UDP READY, COPY: number of the socket;
			 * other UDP: buffer of the packet, see buffer_of(); ANCHOR: rcv_nxt */
	__u32 window;	/* window field of the header, not scaled; UDP COPY: one more than the
			 * datagrams left in the queue, 0 where that changed meanwhile; UDP
			 * READY: buffer of the packet; ANCHOR: copied_seq */
	__u32 thread;	/* task id; 0 in interrupt context; UDP DROP: 0 unless its sender's socket has it */
	__u8 kind;
	__u8 code;	/* hold reason, retransmission class, drop point or errno */
	__u8 tcp_flags;
	__u8 marks;
	__u32 a;	/* RAW_TRANSMIT, RAW_QUEUED: nanoseconds since TCP took the segment */
	__u64 b;	/* TRANSMIT: congestion window | packets in flight << 32; COPY: run delay;
			 * ANCHOR: octets acknowledged at `seq`, which is snd_una */
	__u64 c;	/* TRANSMIT: send window | smoothed RTT in us << 32; COPY: last arrival;
			 * ANCHOR: octets received at rcv_nxt */
};

/* What the look-up of a connected socket came to last time: see slot_of_socket(). */
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

/* What the look-up of a packet on loopback came to last time: see slot_of_packet(). */
#define KNOWN_PACKETS 64
struct known_packet {
	__u64 key1;
	__u64 key2;
	__u32 slot;
	__u32 connection; /* 0: none is known */
	__u64 pad;
};

/*
 * Records of one CPU. The probes move `head`, the recorder moves `tail`. How many records follow is the
 * loader's choice, see `list_mask`.
 */
struct record_list {
	__u64 head;
	__u64 last_ns;
	__u32 udp_flow;	/* of the packet that is on its way to a datagram socket, or 0 */
	__u32 udp_len;	/* its octets that have not come there yet */
	__u32 udp_port;
	__u32 udp_each;	/* octets of each of its datagrams, where it holds several, else 0 */
	__u32 udp_slot; /* of its connection */
	__u32 call_end;	/* of the send call last recorded whole on this CPU: where it ends */
	__u64 call_socket; /* and the socket's address */
	__u64 is_noting; /* a hit writes to `known` or `packets`: one that interrupts it does not */
	__u32 udp_buffer; /* see buffer_of() */
	__u32 udp_netns; /* namespace of the device that it came by */
	__u64 lost[RAW_KINDS]; /* but those of connections that other users asked for */
	__u64 others_lost[RAW_KINDS];
	__u64 pad3[64 - 8 - 2 * RAW_KINDS];
	struct known_socket known[KNOWN_SOCKETS];
	struct known_packet packets[KNOWN_PACKETS];
	__u64 tail;
	__u64 pad4[63];
	struct raw_record records[];
};

/*
 * One cache line for the fields of every hit, others for the counters, which the recorder reads, for
 * `tail`, which it writes, and for each record. The lists stand one after another in the map.
 */
#define CACHE_LINE 64
#define BEGINS_LINE(field) (__builtin_offsetof(struct record_list, field) % CACHE_LINE == 0)
_Static_assert(sizeof(struct raw_record) == CACHE_LINE, "a record is a cache line");
_Static_assert(CACHE_LINE % sizeof(struct known_socket) == 0, "no known socket straddles a line");
_Static_assert(__builtin_offsetof(struct record_list, lost) == CACHE_LINE, "one line for every hit");
_Static_assert(BEGINS_LINE(known), "the known sockets begin a cache line");
_Static_assert(CACHE_LINE % sizeof(struct known_packet) == 0, "no known packet straddles a line");
_Static_assert(BEGINS_LINE(packets), "the known packets begin a cache line");
_Static_assert(BEGINS_LINE(tail), "the recorder's line has no field of the probes before `tail`");
_Static_assert(BEGINS_LINE(records), "a record is one cache line, not parts of two");
_Static_assert(sizeof(struct record_list) % CACHE_LINE == 0, "so on every CPU");

/* Rare events, through the ring buffer. */
enum event_kind {
	EVENT_OPEN = 1,	  /* a connection got its number */
	EVENT_STATE = 2,  /* TCP state of a logged socket changed */
	EVENT_THREAD = 4, /* a thread was first seen on a flow */
	EVENT_JOIN = 5,	  /* sequence numbers of a connection joined on its way */
	EVENT_GONE = 6,	  /* the last local socket of a connection was destroyed */
	EVENT_OPEN_STILL = 7, /* a logged socket is open when the recording ends */
	EVENT_SOCKET = 8, /* a datagram socket got its first one, another size, or a peer to send to */
};

struct event {
	__u64 at_ns;
	__u32 kind;
	__u32 connection;
	__u32 flow;	/* the flow that the local socket sends, or 0 */
	__u32 netns;	/* inode number */
	__u8 client_addr[16];
	__u8 server_addr[16];
	__u16 client_port;
	__u16 server_port;
	__u8 family;
	__u8 protocol;
	__u8 old_state;
	__u8 new_state;
	__u32 pid;
	__u32 thread;
	char comm[16];
	__u32 number;	/* SOCKET: its number in reads, 0 if it only sent so far */
	__u32 userlocks;
	__u32 sndbuf;
	__u32 rcvbuf;
	__u32 snd_seq;	/* JOIN: sequence number of snd_una; STATE: write_seq */
	__u32 rcv_seq;	/* JOIN: rcv_nxt */
	__u64 snd_offset; /* JOIN: position of snd_seq in its stream; STATE: octets acknowledged */
	__u64 rcv_offset; /* JOIN: position of rcv_seq; STATE: octets received */
	__u32 copied_seq; /* JOIN: what the reader has had */
	__u16 mss;
	__u8 snd_wscale; /* shift of windows that the peer offers */
	__u8 rcv_wscale; /* shift of windows that this socket offers */
	__u32 rcvlowat;	 /* bytes below which it announces no data */
	__u32 nonagle;	 /* what it has of TCP_NAGLE_OFF and TCP_NAGLE_CORK */
	__u32 replaced;	 /* OPEN, JOIN: the connection that gave way for this one, or 0 */
	__u32 of_others; /* OPEN, JOIN: another user asked for it, beside the operator's pick */
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
