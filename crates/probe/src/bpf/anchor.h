/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Positions after a miss. Sequence numbers wrap every 4 GiB, so that the recorder cannot know how far a
 * stream advanced while its records were missed. The socket can: it counts octets in 64 bits (RFC 4898
 * tcpEStatsAppHCThruOctetsAcked and ...Received).
 *
 * `missed` of a slot holds the two marks that its records get: RAW_MARK_ADRIFT since a record was missed,
 * RAW_MARK_ODD by the number of anchors. The next hit that has the socket writes an anchor into its
 * list, before its own record. SLOT_ANCHORING shows a miss that happens while one is written: it clears
 * that bit. An anchor that finds no place leaves the slot adrift, for the next hit.
 */
#ifndef SOCKSCOPE_ANCHOR_H
#define SOCKSCOPE_ANCHOR_H

#define SLOT_ANCHORING 1

/* Marks of a record whose hit has no socket. */
static __always_inline __u8 position_marks(const struct flow_slot *slot)
{
	return *(const volatile __u8 *)&slot->missed & (RAW_MARK_ADRIFT | RAW_MARK_ODD);
}

/* `direction` is that of the socket's sends. Other CPUs trust the slot only once all is written. */
static __noinline int write_anchor(struct record_list *list, struct flow_slot *slot, __u32 direction,
				   const struct sock *sk)
{
	const struct tcp_sock *tp = KERNEL_CAST(tcp_sock, sk);
	__u8 odd = slot->missed & RAW_MARK_ODD;
	union raw_record *r;
	__u64 stamp;

	*(volatile __u8 *)&slot->missed = odd | RAW_MARK_ADRIFT | SLOT_ANCHORING;
	barrier();
	r = take_place(list, slot, &stamp);
	if (!r)
		return 0;
	odd ^= RAW_MARK_ODD;
	r->anchor.at_ns = bpf_ktime_get_ns();
	r->anchor.flow = slot->connection * 2 + (direction & 1);
	r->anchor.snd_una = FIELD(tp, snd_una);
	r->anchor.bytes_acked = FIELD(tp, bytes_acked);
	r->anchor.rcv_nxt = FIELD(tp, rcv_nxt);
	r->anchor.bytes_received = FIELD(tp, bytes_received);
	r->anchor.copied_seq = FIELD(tp, copied_seq);
	r->anchor.no_len = r->anchor.no_thread = r->anchor.no_word = 0;
	r->anchor.kind = RAW_ANCHOR;
	r->anchor.no_code = r->anchor.no_flags = 0;
	r->anchor.marks = odd;
	commit(r, stamp);
	barrier();
	if (*(volatile __u8 *)&slot->missed & SLOT_ANCHORING)
		*(volatile __u8 *)&slot->missed = odd;
	return 0;
}

/*
 * The same of a hit that has the socket: to be called before it reads the clock, so that records which
 * rely on an anchor are later than that.
 */
static __always_inline __u8 anchored_marks(struct record_list *list, struct flow_slot *slot,
					   __u32 direction, const struct sock *sk)
{
	__u8 marks = position_marks(slot);

	if (marks & RAW_MARK_ADRIFT) {
		write_anchor(list, slot, direction, sk);
		marks = position_marks(slot);
	}
	return marks;
}

#endif
