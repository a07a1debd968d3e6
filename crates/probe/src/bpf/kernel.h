/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kernel types, only the fields that the probes read. Offsets are relocated to the running
 * kernel when the programs load (CO-RE), so the order and the gaps here mean nothing.
 */
#ifndef SOCKSCOPE_KERNEL_H
#define SOCKSCOPE_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
enum { false = 0, true = 1 };

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOCK_SEQPACKET 5
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86DD
#define IFF_LOOPBACK 0x8
#define EAGAIN 11
#define MSG_PEEK 2
#define MSG_ERRQUEUE 0x2000
#define MSG_MORE 0x8000

/* include/net/tcp_states.h */
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_FIN_WAIT1 4
#define TCP_FIN_WAIT2 5
#define TCP_TIME_WAIT 6
#define TCP_CLOSE 7
#define TCP_CLOSE_WAIT 8
#define TCP_LAST_ACK 9
#define TCP_LISTEN 10
#define TCP_CLOSING 11
#define TCP_NEW_SYN_RECV 12

/* include/net/inet_connection_sock.h */
#define ICSK_TIME_LOSS_PROBE 5

/* include/net/sock.h */
#define SK_USER_DATA_PSOCK 4
#define SEND_SHUTDOWN 2
#define SHUTDOWN_MASK 3

/* include/linux/skbuff.h */
#define SKB_GSO_UDP_TUNNEL (1 << 10)
#define SKB_GSO_UDP_TUNNEL_CSUM (1 << 11)
#define SKB_GSO_UDP_L4 (1 << 17)

/* include/linux/udp.h: the number of a bit */
#define UDP_FLAGS_ACCEPT_L4 5

/* include/linux/tcp.h, include/net/tcp.h */
#define TCP_NAGLE_OFF 1
#define TCP_NAGLE_CORK 2
#define TCP_CA_RECOVERY 3
#define TCP_CA_LOSS 4
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1

/* include/uapi/linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_CLONE = 1U << 9,
	BPF_F_MMAPABLE = 1U << 10,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1U << 0,
	BPF_SK_STORAGE_GET_F_CREATE = 1U << 0,
	BPF_RB_NO_WAKEUP = 1U << 0,
	BPF_RB_AVAIL_DATA = 0,
	BPF_RB_RING_SIZE = 1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next;
};
struct wait_queue_head {
	struct list_head head;
};
struct wait_queue_entry {
	void *private;
	struct list_head entry;
};
struct socket_wq {
	struct wait_queue_head wait;
};
struct eventpoll {
	struct wait_queue_head wq;
};
struct epitem {
	struct eventpoll *ep;
};
struct eppoll_entry {
	struct epitem *base;
	struct wait_queue_entry wait;
	struct wait_queue_head *whead;
};

struct ns_common {
	unsigned int inum;
};
struct netns_ipv4 {
	u8 sysctl_tcp_window_scaling;
	int sysctl_tcp_limit_output_bytes;
	int sysctl_tcp_rmem[3];
};
struct net {
	struct ns_common ns;
	struct netns_ipv4 ipv4;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct nsproxy {
	struct net *net_ns;
};

struct kernfs_node {
	u64 id;
};
struct cgroup {
	struct kernfs_node *kn;
	int level;
	struct cgroup *ancestors[0];
};
struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

typedef struct refcount_struct {
	struct {
		int counter;
	} refs;
} refcount_t;

typedef struct {
	s64 counter;
} atomic64_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__u32 skc_portpair;
	__be16 skc_dport;
	__u16 skc_num;
	__u32 skc_hash;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	atomic64_t skc_cookie;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	struct sock *skc_listener;
};

typedef struct {
	int owned;
} socket_lock_t;

struct sk_buff;
struct sk_buff_head {
	struct sk_buff *next;
	struct sk_buff *prev;
	__u32 qlen;
};

struct socket;
struct sock {
	struct sock_common __sk_common;
	socket_lock_t sk_lock;
	struct sk_buff_head sk_receive_queue;
	struct socket *sk_socket;
	void *sk_user_data;
	u8 sk_userlocks;
	int sk_rcvbuf;
	int sk_rcvlowat;
	struct socket_wq *sk_wq;
	int sk_wmem_queued;
	refcount_t sk_wmem_alloc;
	u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	u16 sk_protocol;
	u16 sk_type;
	int sk_sndbuf;
	u8 sk_pacing_shift;
	int sk_err;
	u8 sk_shutdown;
	struct sock_cgroup_data sk_cgrp_data;
	struct pid *sk_peer_pid;
};
/* The local port stays here when a closed socket gives up its number. */
struct inet_sock {
	__be16 inet_sport;
};
struct udp_sock {
	struct sk_buff_head reader_queue;
	unsigned long udp_flags;
};
/* Before Linux 6.7. */
struct udp_sock___bits {
	unsigned char accept_udp_l4 : 1;
};
struct sockaddr_un {
	char sun_path[108];
};
struct unix_address {
	int len;
	struct sockaddr_un name[0];
};
struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
	int inq_len;
};
struct request_sock {
	struct sock_common __req_common;
};
struct socket {
	struct sock *sk;
};
struct inode {
	unsigned long i_ino;
};
struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};

struct inet_bind_bucket {
	signed char fastreuse;
};
struct tcp_ulp_ops {
	char name[16];
};
struct inet_connection_sock {
	const struct tcp_ulp_ops *icsk_ulp_ops;
	struct inet_bind_bucket *icsk_bind_hash;
	u8 icsk_ca_state : 5;
	u8 icsk_retransmits;
	u8 icsk_pending;
	struct {
		__u32 lrcvtime;
	} icsk_ack;
};

struct tcp_options_received {
	u16 wscale_ok : 1;
	u16 snd_wscale : 4;
	u16 rcv_wscale : 4;
};
struct tcp_sock {
	struct tcp_options_received rx_opt;
	struct inet_connection_sock inet_conn;
	u32 snd_wnd;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 lost_out;
	u32 sacked_out;
	u32 copied_seq;
	u32 retrans_out;
	u32 snd_ssthresh;
	u32 snd_sml;
	u32 write_seq;
	u64 tcp_wstamp_ns;
	u8 nonagle : 4;
	u64 tcp_clock_cache;
	u32 rcv_nxt;
	u32 snd_nxt;
	u32 snd_una;
	u32 srtt_us;
	u32 packets_out;
	u64 bytes_received;
	u64 bytes_acked;
	u32 dsack_dups;
};

struct iov_iter {
	unsigned long count;
};
struct msghdr {
	struct iov_iter msg_iter;
	unsigned int msg_flags;
};

struct Qdisc_ops {
	char id[16];
};
struct Qdisc {
	const struct Qdisc_ops *ops;
};
struct netdev_queue;
struct net_device {
	unsigned int flags;
	int ifindex;
	char name[16];
	possible_net_t nd_net;
};
struct sk_buff {
	struct sk_buff *next;
	struct net_device *dev;
	struct sock *sk;
	unsigned int len;
	unsigned int truesize;
	__be16 protocol;
	__u16 inner_transport_header;
	__u16 transport_header;
	__u16 network_header;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
	char cb[48];
};
struct skb_shared_info {
	unsigned short gso_size;
	unsigned short gso_segs;
	unsigned int gso_type;
};

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_arrival;
};
struct file {
	void *private_data;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
struct hlist_node;
struct hlist_head {
	struct hlist_node *first;
};
struct hlist_node {
	struct hlist_node *next, **pprev;
};
struct pid {
	struct hlist_head tasks[4];
};
struct css_set {
	struct cgroup *dfl_cgrp;
};
struct task_struct {
	struct css_set *cgroups;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	char comm[16];
	struct sched_info sched_info;
	struct nsproxy *nsproxy;
	struct files_struct *files;
	struct hlist_node pid_links[4];
};

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
};
struct bpf_iter__unix {
	struct bpf_iter_meta *meta;
	struct unix_sock *unix_sk;
};

/* Of any two words of eight bytes: see word64(). */
struct timespec64 {
	long long tv_sec;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long dx;
	unsigned long di;
};
#else
struct pt_regs;
struct user_pt_regs {
	__u64 regs[31];
};
#endif
enum skb_drop_reason { SOCKSCOPE_DROP_REASON_PLACEHOLDER };

#pragma clang attribute pop

/* Not relocated: the wire format, and UAPI contexts that never move. */
struct iphdr {
	__u8 version_ihl;
	__u8 tos;
	__be16 tot_len;
	__be16 id;
	__be16 frag_off;
	__u8 ttl;
	__u8 protocol;
	__u16 check;
	__be32 saddr;
	__be32 daddr;
};
struct tcphdr {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack_seq;
	__u16 offset_flags; /* data offset in the low byte's high half, flags in the high byte */
	__be16 window;
};

struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;
	__u32 src_ip6[4];
	__u32 src_port;
	__be16 dst_port;
	__u16 : 16;
	__u32 dst_ip4;
	__u32 dst_ip6[4];
	__u32 state;
	__s32 rx_queue_mapping;
};
struct bpf_sock_addr {
	__u32 user_family;
	__u32 user_ip4;
	__u32 user_ip6[4];
	__u32 user_port;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 msg_src_ip4;
	__u32 msg_src_ip6[4];
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
};
struct bpf_sockopt {
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
	union {
		void *optval;
		__u64 : 64;
	} __attribute__((aligned(8)));
	union {
		void *optval_end;
		__u64 : 64;
	} __attribute__((aligned(8)));
	__s32 level;
	__s32 optname;
	__s32 optlen;
	__s32 retval;
};

#endif
