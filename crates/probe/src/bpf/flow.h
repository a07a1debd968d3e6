/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The logged connection, if any, of a packet or a socket.
 *
 * Both directions and both ends of a connection on this host share one slot: its key is the
 * address pair in a fixed order. IPv6 addresses are folded to 32 bits each; ports, protocol and
 * the other address must agree too. Packets from or to a loopback address stay in their network
 * namespace, which is part of the key. Elsewhere the two ends may live in different namespaces, and
 * other pairs of namespaces may have the same addresses: the slot has those of both ends.
 *
 *   socket          its own namespace, and that of the device if that is loopback, are certain
 *   packet          that of the socket which sends it is certain, as long as the packet has that socket:
 *                   until IP takes it, which a veth device and a bridge do not change
 *   SYN, SYN-ACK    the client's initial sequence number identifies the connection at any device
 *   other packets   the namespace of the device is that of an end, or one in between
 */
#ifndef SOCKSCOPE_FLOW_H
#define SOCKSCOPE_FLOW_H

struct tuple {
	__u32 saddr; /* folded, as on the wire */
	__u32 daddr;
	__u16 sport; /* host order */
	__u16 dport;
	__u32 scope; /* netns inode for loopback addresses and the protocol in the top byte */
};

/* In the place of a namespace: inode number, its top bit, which all have, for one that is certain. */
#define NETNS_CERTAIN (1U << 31)
#define SCOPE_MASK 0xffffff

/* Reasons why a packet belongs to none of several connections with its key. */
#define AMBIGUOUS 1
#define PASSES 2

struct key {
	__u64 key1;
	__u64 key2;
	__u32 source_is_low;
	__u32 sender;	/* namespaces of the two ends as this hit has them, or 0 */
	__u32 receiver;
	/* The client's initial sequence number, if the source is the client, and if it is the server. */
	__u32 isn[2];
	__u8 has_isn; /* those that are known, as bits */
	__u8 has_socket; /* a TCP socket with a peer, which sends it, is at hand */
	__u8 needs_isn; /* find_slot() lacks it: see read_isn() */
	__u8 ambiguous; /* AMBIGUOUS or PASSES, see find_among() */
};

/* Of a little-endian word. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LITTLE32(word) (word)
#else
#define LITTLE32(word) __builtin_bswap32(word)
#endif

/* The same on hosts of both byte orders, in memory: see sample.h. */
static __always_inline __u32 fold6(const __u32 a[4])
{
	__u32 h = LITTLE32(a[0]) * 0x9e3779b1U;

	h = (h ^ LITTLE32(a[1])) * 0x85ebca6bU;
	h = (h ^ LITTLE32(a[2])) * 0xc2b2ae35U;
	return LITTLE32(h ^ (h >> 15)) ^ a[3];
}

static __always_inline bool is_loopback4(__u32 addr)
{
	return (addr & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
}

static __always_inline bool is_loopback6(const __u32 a[4])
{
	return !a[0] && !a[1] && !a[2] && a[3] == bpf_htonl(1);
}

static __always_inline bool is_mapped6(const __u32 a[4])
{
	return !a[0] && !a[1] && a[2] == bpf_htonl(0xffff);
}

static __always_inline __u32 scope_of(__u32 netns, __u32 protocol, bool loopback)
{
	return (loopback ? netns & 0xffffff : 0) | protocol << 24;
}

/* `sender` is the namespace of the socket that the tuple was taken from, or 0. */
static __always_inline void make_key(const struct tuple *t, __u32 sender, struct key *k)
{
	__u64 source = (__u64)t->saddr << 16 | t->sport;
	__u64 dest = (__u64)t->daddr << 16 | t->dport;
	__u64 low = source < dest ? source : dest;
	__u64 high = source < dest ? dest : source;

	k->source_is_low = source < dest;
	k->key1 = low << 16 | (high & 0xffff);
	k->key2 = (high >> 16) << 32 | t->scope;
	k->sender = sender;
	k->receiver = k->isn[0] = k->isn[1] = 0;
	k->has_isn = k->needs_isn = k->ambiguous = 0;
	k->has_socket = sender && t->scope >> 24 == IPPROTO_TCP;
}

static __always_inline __u32 bucket_of(const struct key *k)
{
	__u64 h = (k->key1 ^ (k->key2 << 7 | k->key2 >> 57)) * 0x9e3779b97f4a7c15ULL;

	return (__u32)(h >> 40) & (FLOW_BUCKETS - 1);
}

/* 0 when the tuple's source is the client, else 1. */
static __always_inline __u32 direction_of(const struct flow_slot *slot, const struct key *k)
{
	return slot->role & SLOT_LOW_IS_CLIENT ? !k->source_is_low : k->source_is_low;
}

static __always_inline __u32 flow_of(const struct flow_slot *slot, const struct key *k)
{
	return slot->connection * 2 + direction_of(slot, k);
}

static __always_inline __u32 index_of(const struct flow_slot *slot)
{
	return (__u32)(slot - flows) & (FLOW_SLOTS - 1);
}

static __always_inline __u32 ticks_of(__u64 now_ns)
{
	return now_ns >> 20;
}

/* Whether the namespace is part of the key. */
static __always_inline bool is_in_one_namespace(const struct key *k)
{
	return k->key2 & SCOPE_MASK;
}

static __always_inline bool is_same_netns(__u32 a, __u32 b)
{
	return a && !((a ^ b) & ~NETNS_CERTAIN);
}

/*
 * Whether a slot with the key is that of the connection, by the namespaces of its ends: the sender's is
 * the same, or the receiver's, where the sender's is not known to be another. A slot has that of the device
 * where the last datagram arrived until the receiving socket is seen: that one is certain.
 */
static __always_inline bool is_between(__u32 index, const struct key *k)
{
	const struct flow_use *use = &uses[index & (FLOW_SLOTS - 1)];
	__u32 from = k->source_is_low ? use->netns[0] : use->netns[1];
	__u32 to = k->source_is_low ? use->netns[1] : use->netns[0];

	if (is_in_one_namespace(k) || is_same_netns(from, k->sender))
		return true;
	return is_same_netns(to, k->receiver) && !(from & k->sender & NETNS_CERTAIN);
}

static __always_inline void set_netns(__u32 *known, __u32 netns)
{
	__u32 seen = *(volatile __u32 *)known;

	/* Another CPU may become certain meanwhile. */
	if (!(seen & NETNS_CERTAIN) && seen != netns)
		__sync_val_compare_and_swap(known, seen, netns);
}

/* Notes the ends of a connection that the hit shows. */
static __always_inline void note_ends(__u32 index, const struct key *k)
{
	struct flow_use *use = &uses[index & (FLOW_SLOTS - 1)];

	if (is_in_one_namespace(k))
		return;
	if (k->sender & NETNS_CERTAIN)
		set_netns(k->source_is_low ? &use->netns[0] : &use->netns[1], k->sender);
	if (k->receiver & NETNS_CERTAIN || (k->receiver && (__u32)k->key2 >> 24 == IPPROTO_UDP))
		set_netns(k->source_is_low ? &use->netns[1] : &use->netns[0], k->receiver);
}

/* A slot used this recently may have a datagram between two points. */
#define YOUNG_TICKS 128

/* All slots with a key. */
struct candidates {
	const struct key *k;
	__u32 first;
	__u32 count;
	__u32 uncertain; /* of them, those with an uncertain namespace at the packet's end */
	__u32 found;
	__u32 is_found;
};

/*
 * A socket gives its own sequence number with an error of one: whether its SYN counts as one of the octets
 * acknowledged depends on the sender of the first SYN (tcp_rcv_synsent_state_process()).
 */
static __always_inline bool is_isn_of(const struct flow_slot *slot, const struct key *k)
{
	__u32 direction = direction_of(slot, k) & 1;
	__u32 isn = direction ? k->isn[1] : k->isn[0];

	return k->has_isn >> direction & 1 && slot->isn - isn + 1 <= 2;
}

/* Both numbers, of the socket that sends. */
static __noinline int read_isn(struct key *k, const struct sock *sk)
{
	const struct tcp_sock *tp = KERNEL_CAST(tcp_sock, sk);

	k->isn[0] = FIELD(tp, snd_una) - (__u32)FIELD(tp, bytes_acked);
	k->isn[1] = FIELD(tp, rcv_nxt) - (__u32)FIELD(tp, bytes_received) - 1;
	k->has_isn = 3;
	return 0;
}

static long look_at_candidate(__u32 number, struct candidates *c)
{
	__u32 index = (c->first + number) & (FLOW_SLOTS - 1);
	struct flow_slot *slot = &flows[index];
	const struct key *k = c->k;
	__u32 connection, end;

	if (slot->key1 != k->key1 || slot->key2 != k->key2)
		return 0;
	connection = acquire(&slot->connection);
	if (!connection || connection == SLOT_BUSY)
		return 0;
	c->found = index;
	if (is_between(index, k) || is_isn_of(slot, k)) {
		c->is_found = 1;
		return 1;
	}
	c->count++;
	/* An incoming packet is for the receiver. */
	end = k->receiver ? !k->source_is_low : k->source_is_low;
	if (!((end ? uses[index].netns[0] : uses[index].netns[1]) & NETNS_CERTAIN))
		c->uncertain++;
	return 0;
}

/*
 * The slot of a hit that its namespaces alone do not identify, or that lies behind its bucket:
 * - that with the client's initial sequence number;
 * - for a datagram of a socket, the only one that has just opened and has no datagram yet: both
 *   ends begin at once;
 * - for a packet without a socket, the only one there is: the packet passes another namespace.
 * Where a packet in transit may be of several it is of none. It is missed, unless each of them has the
 * packet's end in a namespace known to be another: there the packet has passed, or will pass.
 */
static __always_inline __u32 find_among(struct key *k, __u32 home)
{
	bool is_udp = (__u32)k->key2 >> 24 == IPPROTO_UDP;
	struct candidates c = { .k = k, .first = home * BUCKET_SLOTS };
	const struct flow_use *use;

	bpf_loop(BUCKETS_SEARCHED * BUCKET_SLOTS, look_at_candidate, &c, 0);
	if (c.is_found)
		return c.found + 1;
	if (!c.count)
		return 0;
	if (k->has_socket && !k->has_isn) {
		k->needs_isn = 1;
		return 0;
	}
	if (k->sender & NETNS_CERTAIN) {
		use = &uses[c.found & (FLOW_SLOTS - 1)];
		if (!is_udp || c.count > 1 || (k->source_is_low ? use->netns[0] : use->netns[1]) ||
		    ticks_of(bpf_ktime_get_ns()) - use->opened >= YOUNG_TICKS)
			return 0;
		return c.found + 1;
	}
	if (c.count == 1)
		return c.found + 1;
	/* A SYN that belongs to none of them opens one more. */
	if (k->has_isn != 1)
		k->ambiguous = c.uncertain ? AMBIGUOUS : PASSES;
	return 0;
}

/*
 * One more than the number of the connection's slot, or 0. A global function, as the picks of pick.h: the
 * verifier checks it once, for any key.
 */
__noinline int find_slot(struct key *k)
{
	bool are_several = false;
	__u32 home, count;
	__u32 other = 0; /* as the result */

	if (!k)
		return 0;
	home = bucket_of(k);
	count = *(volatile __u32 *)&homes[home] & ~HOME_LOCKED;
	if (!count)
		return 0;
	/* Linux 6.1 takes no loop that is entered elsewhere than at its head, as compilers lay out this one. */
#pragma unroll
	for (__u32 i = 0; i < BUCKET_SLOTS; i++) {
		__u32 index = (home * BUCKET_SLOTS + i) & (FLOW_SLOTS - 1);
		struct flow_slot *slot = &flows[index];
		__u32 connection;

		if (slot->key1 != k->key1 || slot->key2 != k->key2)
			continue;
		/* Pairs with publish() in take_new_slot(). */
		connection = acquire(&slot->connection);
		if (!connection || connection == SLOT_BUSY)
			continue;
		if (is_between(index, k))
			return index + 1;
		are_several = other;
		other = index + 1;
	}
	if (count < DISPLACED_ONE && !are_several && !(other && k->sender & NETNS_CERTAIN))
		return other;
	return find_among(k, home);
}

static __always_inline struct flow_slot *slot_at(__u32 found)
{
	return found ? &flows[(found - 1) & (FLOW_SLOTS - 1)] : NULL;
}

/* The slot of the socket's sends, where that is known; without it, that of the packet's own evidence. */
static __always_inline struct flow_slot *find(struct key *k, const struct sock *sk)
{
	__u32 found = find_slot(k);

	if (!found && k->needs_isn && sk) {
		read_isn(k, sk);
		found = find_slot(k);
	}
	if (found)
		note_ends(found - 1, k);
	return slot_at(found);
}

/* A packet is missed that may be of a logged connection. */
static __always_inline int note_ambiguous(const struct key *k)
{
	if (k->ambiguous == AMBIGUOUS)
		__sync_fetch_and_add(&ambiguous, 1);
	return 0;
}

static __always_inline __u32 home_of(const struct flow_slot *slot)
{
	struct key k = { .key1 = slot->key1, .key2 = slot->key2 };

	return bucket_of(&k);
}

/* The share of a slot in `homes`. */
static __always_inline __u32 share_of(__u32 index, __u32 home)
{
	return index / BUCKET_SLOTS == home ? HOME_ONE : HOME_ONE + DISPLACED_ONE;
}

/* The slot is the caller's, its connection being SLOT_BUSY: its old key leaves the table. */
static __always_inline void forget_key(const struct flow_slot *slot)
{
	__u32 home = home_of(slot);

	__sync_fetch_and_add(&homes[home], -share_of(index_of(slot), home));
	if (slot->role & SLOT_OF_OTHERS)
		__sync_fetch_and_add(&others_open, -1);
}

/* Makes the slot free, if it is this connection's still. */
static __always_inline bool free_slot(struct flow_slot *slot, __u32 connection)
{
	if (!connection || connection == SLOT_BUSY ||
	    __sync_val_compare_and_swap(&slot->connection, connection, SLOT_BUSY) != connection)
		return false;
	forget_key(slot);
	/* The next owner of the slot overwrites the key that forget_key() reads. */
	publish(&slot->connection, 0);
	return true;
}

/* A packet of a connection that no socket of this host is known to end. */
static __always_inline void use_slot(const struct flow_slot *slot, __u64 now_ns)
{
	struct flow_use *use = &uses[index_of(slot)];
	__u32 now = ticks_of(now_ns);

	if (use->used != now)
		use->used = now;
}

static __always_inline bool is_udp(const struct flow_slot *slot)
{
	return (__u32)slot->key2 >> 24 == IPPROTO_UDP;
}

/* Whether the end of the slot's connection is never seen: so it ends by its age. */
static __always_inline bool has_no_end(const struct flow_slot *slot)
{
	return is_udp(slot) || !slot->endpoints;
}

/* Of a slot that must stay. */
#define STAYS 0xffffffffU
/* Before the age of a connection that was used again after it opened. */
#define IN_USE (1U << 30)

/*
 * The worth of a slot: the one worth least gives way. Worth less are connections that never got
 * further than their first packets, then those without a packet for longest. One with a TCP
 * socket of this host stays. One that is young stays too, unless a TCP connection needs its slot and
 * it never got further.
 */
static __always_inline __u32 worth_of(const struct flow_slot *slot, __u32 now, bool for_tcp)
{
	const struct flow_use *use = &uses[index_of(slot)];
	bool in_use = use->used - use->opened > 1;
	__u32 idle = now - use->used;

	if (slot->connection == SLOT_BUSY || !has_no_end(slot))
		return STAYS;
	if (idle >= IN_USE) /* used by another CPU meanwhile */
		idle = 0;
	if (idle < YOUNG_TICKS && (in_use || !for_tcp))
		return STAYS;
	return (in_use ? IN_USE : 0) + IN_USE - 1 - idle;
}

/* Places in which it may be noted that the connection of a key gave way, and the mark of its own there. */
#define GONE_PLACES 4
struct gone {
	__u32 first;
	__u32 mark;
};

static __always_inline struct gone gone_of(__u64 key1, __u64 key2)
{
	__u64 h = (key1 ^ (key2 << 9 | key2 >> 55)) * 0x9e3779b97f4a7c15ULL;

	return (struct gone){
		.first = (__u32)(h >> 48) & (REFUSED_RECENTLY - GONE_PLACES),
		.mark = (__u32)(h >> 16) | 1,
	};
}

/* A TCP connection that has not opened loses its slot. Where all places are taken, one is forgotten. */
static __always_inline void note_gave_way(const struct flow_slot *slot)
{
	struct gone gone = gone_of(slot->key1, slot->key2);
	__u32 index = gone.first + (gone.mark >> 1 & (GONE_PLACES - 1));
	__u32 *place;

	/* The compiler joins the two by an OR, from which the verifier of Linux 6.1 learns no bound. */
	asm volatile("%0 &= %1" : "+r"(index) : "i"(REFUSED_RECENTLY - 1));
	place = &gave_way[index];
#pragma unroll
	for (__u32 i = 0; i < GONE_PLACES; i++)
		if (!gave_way[gone.first + i] || gave_way[gone.first + i] == gone.mark)
			place = &gave_way[gone.first + i];
	*place = gone.mark;
	__sync_fetch_and_add(&half_open_replaced, 1);
}

/* Whether the connection of this key had a slot once and gave way; it is asked once. */
static __always_inline bool take_gone(const struct key *k)
{
	struct gone gone = gone_of(k->key1, k->key2);

#pragma unroll
	for (__u32 i = 0; i < GONE_PLACES; i++) {
		__u32 *place = &gave_way[gone.first + i];

		if (*place == gone.mark &&
		    __sync_val_compare_and_swap(place, gone.mark, 0) == gone.mark)
			return true;
	}
	return false;
}

/* A search through the slots near a key, by bpf_loop(): the verifier takes no loop so branched. */
struct search {
	__u32 first;
	__u32 now;
	__u32 least; /* worth of the best slot so far */
	__u32 best;
	__u32 for_tcp;
	__u32 is_found;
};

static long search_free(__u32 number, struct search *search)
{
	__u32 index = (search->first + number) & (FLOW_SLOTS - 1);

	if (flows[index].connection ||
	    __sync_val_compare_and_swap(&flows[index].connection, 0, SLOT_BUSY))
		return 0;
	search->best = index;
	search->is_found = 1;
	return 1;
}

static long search_least(__u32 number, struct search *search)
{
	__u32 index = (search->first + number) & (FLOW_SLOTS - 1);
	__u32 worth = worth_of(&flows[index], search->now, search->for_tcp);

	if (worth < search->least) {
		search->least = worth;
		search->best = index;
	}
	return 0;
}

/* The slot that gives way becomes the caller's; `replaced` gets its connection. */
static __always_inline bool replace_slot(struct search *search, __u32 *replaced)
{
	struct flow_slot *slot;
	__u32 connection;

	search->least = STAYS;
	bpf_loop(BUCKETS_SEARCHED * BUCKET_SLOTS, search_least, search, 0);
	if (search->least == STAYS)
		return false;
	slot = &flows[search->best & (FLOW_SLOTS - 1)];
	connection = slot->connection;
	if (!connection || connection == SLOT_BUSY || !has_no_end(slot) ||
	    __sync_val_compare_and_swap(&slot->connection, connection, SLOT_BUSY) != connection)
		return false;
	if (!is_udp(slot))
		note_gave_way(slot);
	forget_key(slot);
	*replaced = connection;
	return true;
}

/* A slot for the key, in its bucket or behind it; its connection is SLOT_BUSY. */
static __noinline struct flow_slot *take_slot(const struct key *k, __u32 *replaced)
{
	__u32 home = bucket_of(k) & (FLOW_BUCKETS - 1);
	struct search search = {
		.first = home * BUCKET_SLOTS,
		.now = ticks_of(bpf_ktime_get_ns()),
		.for_tcp = (__u32)k->key2 >> 24 == IPPROTO_TCP,
	};
	struct flow_use *use;
	__u32 index;

	bpf_loop(BUCKETS_SEARCHED * BUCKET_SLOTS, search_free, &search, 0);
	if (!search.is_found && !replace_slot(&search, replaced))
		return NULL;
	index = search.best & (FLOW_SLOTS - 1);
	__sync_fetch_and_add(&homes[home], share_of(index, home));
	use = &uses[index];
	use->opened = use->used = search.now;
	use->netns[0] = k->source_is_low ? k->sender : k->receiver;
	use->netns[1] = k->source_is_low ? k->receiver : k->sender;
	return &flows[index];
}

/* Tries to lock, some 10 us of them: that is several times as long as a lock is held. */
#define LOCK_TRIES 2048
struct lock {
	__u32 home;
	__u32 is_held;
};

static long try_lock(__u32 number, struct lock *lock)
{
	__u32 *home = &homes[lock->home & (FLOW_BUCKETS - 1)];

	if (*(volatile __u32 *)home & HOME_LOCKED || __sync_fetch_and_or(home, HOME_LOCKED) & HOME_LOCKED)
		return 0;
	lock->is_held = 1;
	return 1;
}

/*
 * One CPU at a time, of those that open a connection with this key, looks whether there is one and takes a
 * slot: both together, or two would open it twice. Look-ups do not wait. The holder may be the task that
 * this hit has interrupted, or have lost its CPU: so the tries have an end. False where that is first.
 * Global, as the picks of pick.h.
 */
__noinline int lock_home(__u32 home)
{
	struct lock lock = { .home = home };

	bpf_loop(LOCK_TRIES, try_lock, &lock, 0);
	return lock.is_held;
}

static __always_inline void unlock_home(__u32 home)
{
	__sync_fetch_and_and(&homes[home & (FLOW_BUCKETS - 1)], ~HOME_LOCKED);
}

/* Whether this was not refused a short time ago. */
static __always_inline bool is_newly_refused(__u64 what, __u32 which)
{
	__u64 h = (what ^ which) * 0x9e3779b97f4a7c15ULL;
	__u32 *place = &refused[h >> 48 & (REFUSED_RECENTLY - 1)];
	__u32 mark = (__u32)(h >> 16) | 1;

	if (*place == mark)
		return false;
	*place = mark;
	return true;
}

/*
 * A connection finds no slot. Its first packets pass several hooks: `isn`, its client's, distinguishes it
 * from an earlier one between the same ports.
 */
static __always_inline void refuse(const struct key *k, __u32 isn, bool of_others)
{
	if (is_newly_refused(k->key1 ^ (k->key2 << 9 | k->key2 >> 55), isn))
		__sync_fetch_and_add(of_others ? &others_connections_refused : &connections_refused, 1);
	take_gone(k); /* it is counted already, should it open later */
}

static __always_inline __u32 netns_of(const struct sock *sk)
{
	const struct net *net = FIELD(KERNEL_CAST(sock, sk), __sk_common.skc_net.net);

	return FIELD(net, ns.inum);
}

static __always_inline __u32 netns_of_device(const struct net_device *dev)
{
	return KERNEL_CAST(net_device, dev)->nd_net.net->ns.inum;
}

/* The tuple of the socket's sends. False for a socket that is not a connected inet socket. */
static __always_inline bool tuple_of_sock(const struct sock *sk, __u32 protocol, struct tuple *t)
{
	__u16 family = FIELD(sk, __sk_common.skc_family);
	__u32 netns = netns_of(sk);
	bool loopback;

	t->sport = bpf_ntohs(FIELD(KERNEL_CAST(inet_sock, sk), inet_sport));
	t->dport = bpf_ntohs(FIELD(sk, __sk_common.skc_dport));
	if (family == AF_INET6) {
		__u32 daddr[4], saddr[4];

		daddr[0] = FIELD(sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32[0]);
		daddr[1] = FIELD(sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32[1]);
		daddr[2] = FIELD(sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32[2]);
		daddr[3] = FIELD(sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32[3]);
		if (!is_mapped6(daddr)) {
			saddr[0] = FIELD(sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[0]);
			saddr[1] = FIELD(sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[1]);
			saddr[2] = FIELD(sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[2]);
			saddr[3] = FIELD(sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[3]);
			t->saddr = fold6(saddr);
			t->daddr = fold6(daddr);
			loopback = is_loopback6(daddr) || is_loopback6(saddr);
			t->scope = scope_of(netns, protocol, loopback);
			return true;
		}
	} else if (family != AF_INET) {
		return false;
	}
	t->saddr = FIELD(sk, __sk_common.skc_rcv_saddr);
	t->daddr = FIELD(sk, __sk_common.skc_daddr);
	loopback = is_loopback4(t->daddr) || is_loopback4(t->saddr);
	t->scope = scope_of(netns, protocol, loopback);
	return true;
}

/* The key of the socket's sends, which have this tuple. */
static __always_inline void key_of_sock(const struct sock *sk, const struct tuple *t, struct key *k)
{
	make_key(t, netns_of(sk) | NETNS_CERTAIN, k);
}

/* As miss(), where the hit is of a logged connection. */
static __noinline int miss_of_socket(const struct sock *sk, __u32 kind)
{
	struct flow_slot *slot;
	struct tuple t;
	struct key k;

	if (!tuple_of_sock(sk, IPPROTO_TCP, &t))
		return 0;
	key_of_sock(sk, &t, &k);
	slot = find(&k, sk);
	return slot ? miss(slot, kind) : 0;
}

/*
 * Whether the look-up of a socket without a slot may take this place: one that a logged connection
 * uses stays its.
 */
static __always_inline bool is_free(const struct known_socket *known)
{
	const struct flow_slot *slot = &flows[known->slot & (FLOW_SLOTS - 1)];

	return !known->socket || known->connection == NOT_LOGGED ||
	       known->connection != slot->connection;
}

/* See slot_of_socket(): the look-up itself. The probes of a known socket do not need its stack. */
static __noinline struct flow_slot *look_up_socket(struct record_list *list, const struct sock *sk,
						   __u32 *direction)
{
	__u32 ports = sk->__sk_common.skc_portpair;
	__u32 hash = sk->__sk_common.skc_hash;
	struct known_socket *known = &list->known[hash & (KNOWN_SOCKETS - 1)];
	bool was_none = known->socket == (__u64)sk && known->ports == ports &&
			known->hash == hash && known->connection == NOT_LOGGED;
	struct flow_slot *slot;
	struct tuple t;
	struct key k;
	__u32 opened;

	/* Before the look-up: a connection that opens during it is looked up again. */
	opened = acquire(&connections_opened);
	if (!tuple_of_sock(sk, IPPROTO_TCP, &t))
		return NULL;
	key_of_sock(sk, &t, &k);
	slot = find(&k, sk);
	if (slot)
		*direction = direction_of(slot, &k);
	if (list->is_noting || (!slot && !is_free(known)))
		return slot;
	list->is_noting = 1;
	barrier();
	known->socket = 0; /* a hit that interrupts this one sees no half of it */
	barrier();
	if (slot)
		known->direction = *direction;
	else
		known->direction = was_none && known->slot == opened ? ASKED_TWICE : 0;
	known->ports = ports;
	known->hash = hash;
	known->slot = slot ? slot - flows : opened;
	known->connection = slot ? slot->connection : NOT_LOGGED;
	barrier();
	known->socket = (__u64)sk;
	barrier();
	list->is_noting = 0;
	return slot;
}

/*
 * The slot of a connected TCP socket, and the direction of its sends. Sockets looked up before
 * are known by their address, for as long as ports and hash of the addresses stay the same; one with a
 * slot as long as the connection does too, one without until the next connection opens. The lack of a
 * slot is checked at two hits: a CPU may see the count of connections move before the slot.
 */
static __always_inline struct flow_slot *slot_of_socket(struct record_list *list,
							const struct sock *sk, __u32 *direction)
{
	__u32 ports = sk->__sk_common.skc_portpair;
	__u32 hash = sk->__sk_common.skc_hash;
	const struct known_socket *known = &list->known[hash & (KNOWN_SOCKETS - 1)];
	struct flow_slot *slot;
	__u32 found = 0;

	/* Kept: the compiler makes the address anew for each field otherwise. */
	asm volatile("" : "+r"(known));
	if (known->socket == (__u64)sk && known->ports == ports && known->hash == hash) {
		slot = &flows[known->slot & (FLOW_SLOTS - 1)];
		if (slot->connection == known->connection) {
			*direction = known->direction & 1;
			return slot;
		}
		if (known->connection == NOT_LOGGED && known->direction == ASKED_TWICE &&
		    known->slot == connections_opened)
			return NULL;
	}
	/* A copy: the verifier forgets the bounds of a variable if a function has its address. */
	slot = look_up_socket(list, sk, &found);
	*direction = found & 1;
	return slot;
}

#endif
