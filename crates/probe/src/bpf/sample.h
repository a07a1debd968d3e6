/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which part of the picked connections is logged: those whose hash is below a limit. The hash depends on the
 * protocol and both endpoints alone, so that all hosts and both directions agree (docs/reference/sampling.md).
 * `sample.rs` has the same function.
 */
#ifndef SOCKSCOPE_SAMPLE_H
#define SOCKSCOPE_SAMPLE_H

/* The 64-bit finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). */
static __always_inline __u64 mix(__u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* The namespace of a loopback connection is no part of it: its number differs from host to host. */
static __always_inline __u32 sample_hash(const struct key *k)
{
	__u64 one = (__u64)LITTLE32((__u32)(k->key1 >> 32)) << 16 | (k->key1 >> 16 & 0xffff);
	__u64 other = (__u64)LITTLE32((__u32)(k->key2 >> 32)) << 16 | (k->key1 & 0xffff);
	__u64 low = one < other ? one : other;
	__u64 high = one < other ? other : one;

	return mix(mix((k->key2 >> 24 & 0xff) << 48 | low) ^ high) >> 32;
}

/* Units of 2^30 ns. */
static __always_inline __u32 coarse_now(void)
{
	return bpf_ktime_get_ns() >> 30;
}

/* Where the decision on a connection is kept: a set of places, and the connection's mark there. */
struct left_out_home {
	__u32 set;
	__u32 mark;
};

/* TCP's initial sequence number distinguishes a connection from a later one with the same endpoints. */
static __always_inline struct left_out_home left_out_home(const struct key *k, __u32 isn)
{
	__u64 h = mix(mix(k->key2 ^ (__u64)isn << 32) ^ k->key1);

	return (struct left_out_home){
		.set = (h >> 48) * LEFT_OUT_WAYS,
		.mark = (__u32)h | 1,
	};
}

static __always_inline __u64 *left_out_place(__u32 set, __u32 way)
{
	return &left_out[(set + way) & (LEFT_OUT_RECENTLY - 1)];
}

/* The connection's own place, or NULL. */
static __always_inline __u64 *left_out_own(const struct left_out_home *home)
{
	__u64 *place;
	__u32 way;

#pragma unroll
	for (way = 0; way < LEFT_OUT_WAYS; way++) {
		place = left_out_place(home->set, way);
		if (*(volatile __u64 *)place >> 32 == home->mark)
			return place;
	}
	return NULL;
}

/*
 * Whether the connection was left out before. A limit that rises later does not change that, or a part of the
 * connection would be recorded. A pair of datagram endpoints is another connection after a time without a packet.
 */
static __noinline int was_left_out(const struct key *k, __u32 isn)
{
	struct left_out_home home;
	__u64 *place, entry;
	__u32 now;

	if (!k)
		return 0;
	home = left_out_home(k, isn);
	place = left_out_own(&home);
	if (!place)
		return 0;
	if ((__u32)k->key2 >> 24 == IPPROTO_TCP)
		return 1;
	entry = *(volatile __u64 *)place;
	now = coarse_now();
	if (entry >> 32 != home.mark || now - (__u32)entry > LEFT_OUT_IDLE)
		return 0;
	if ((__u32)entry != now)
		__sync_val_compare_and_swap(place, entry, (__u64)home.mark << 32 | now);
	return 1;
}

/* From now on was_left_out() holds: the connection takes its own place, or the one of its set that is oldest. */
static __noinline int note_left_out(const struct key *k, __u32 isn)
{
	struct left_out_home home;
	__u32 way, now, age, oldest = 0;
	__u64 *place, *free;

	if (!k)
		return 0;
	home = left_out_home(k, isn);
	now = coarse_now();
	free = left_out_place(home.set, 0);
#pragma unroll
	for (way = 0; way < LEFT_OUT_WAYS; way++) {
		place = left_out_place(home.set, way);
		if (*(volatile __u64 *)place >> 32 == home.mark) {
			free = place;
			break;
		}
		age = now - *(volatile __u32 *)place;
		if (age > oldest) {
			oldest = age;
			free = place;
		}
	}
	*(volatile __u64 *)free = (__u64)home.mark << 32 | now;
	return 0;
}

static __always_inline bool is_beyond_share(const struct key *k)
{
	return sample_hash(k) >= *(volatile __u64 *)&sample_limit;
}

/* Decides on a connection that was not left out before, under the lock of its bucket. */
static __always_inline bool leave_out(const struct key *k, __u32 isn)
{
	if (!is_beyond_share(k))
		return false;
	note_left_out(k, isn);
	__sync_fetch_and_add(&connections_left_out, 1);
	return true;
}

#endif
