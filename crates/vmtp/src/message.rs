//! A message in transit: the sending and the receiving side of a segment.
//!
//! A segment of up to 16 KiB is one packet group; a longer one is a run of groups with consecutive
//! transaction numbers (RFC 1045 §2.14). Blocks that were acknowledged stay so.

use std::collections::{BTreeMap, VecDeque};

use crate::wire::{GROUP_BYTES, Group, HEADER_BYTES, Header, TRAILER_BYTES, groups_of, take};

/// A segment being sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    segment: Vec<u8>,
    /// By group: blocks that the other side has.
    acknowledged: Vec<u32>,
    /// By group: known to be whole, from a notice or a later packet.
    done: Vec<bool>,
    /// The first group not sent yet.
    unsent: usize,
    queue: VecDeque<Part>,
}

/// Blocks to put into packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    group: usize,
    blocks: u32,
    /// Ask for an acknowledgment with the last packet.
    asks: bool,
}

/// The next packet of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub group: usize,
    pub delivery: u32,
    pub asks: bool,
}

impl Outgoing {
    pub(crate) fn new(segment: Vec<u8>) -> Self {
        let groups = groups_of(segment.len());
        Self {
            segment,
            acknowledged: vec![0; groups],
            done: vec![false; groups],
            unsent: 0,
            queue: VecDeque::new(),
        }
    }

    pub(crate) fn groups(&self) -> usize {
        self.done.len()
    }

    /// The invariant between two calls: each queued part belongs to a group that was sent once before
    /// and is not acknowledged.
    fn check(&self) {
        debug_assert!(self.unsent <= self.groups(), "{} of {}", self.unsent, self.groups());
        debug_assert_eq!(self.acknowledged.len(), self.done.len(), "a mask for each group");
        for (at, part) in self.queue.iter().enumerate() {
            let Part { group, blocks, .. } = *part;
            debug_assert!(group < self.unsent, "group {group} was not sent before");
            debug_assert_eq!(blocks & !self.group(group).full(), 0, "blocks beyond group {group}");
            let others = self.queue.iter().skip(at + 1);
            debug_assert!(
                !others.clone().any(|it| it.group == group),
                "group {group} is queued twice"
            );
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.segment.len()
    }

    /// Octets of memory that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.segment.capacity() + self.done.len() * (size_of::<u32>() + size_of::<bool>())
    }

    /// Octets of all its packets, with headers, where a packet has at most `blocks` blocks.
    pub(crate) fn wire_bytes(bytes: usize, blocks: usize) -> usize {
        let packets =
            |number| (Group::of(bytes, number).full().count_ones() as usize).div_ceil(blocks);
        let packets = (0..groups_of(bytes)).map(|number| packets(number).max(1)).sum::<usize>();
        bytes.next_multiple_of(8) + packets * (HEADER_BYTES + TRAILER_BYTES)
    }

    /// Octets of a packet.
    pub(crate) fn packet_bytes(&self, piece: Piece) -> usize {
        HEADER_BYTES + self.group(piece.group).data_bytes(piece.delivery) + TRAILER_BYTES
    }

    /// Drops the groups that wait to be put into packets; the other end can ask for them again.
    pub(crate) fn hold_back(&mut self) {
        self.queue.clear();
    }

    /// Everything was sent and, in a run, acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.done.iter().all(|&done| done)
    }

    pub(crate) fn oldest(&self) -> usize {
        self.done.iter().position(|&done| !done).unwrap_or(self.groups() - 1)
    }

    /// Queues groups, so that at most `window` are under way; in a run each asks for its
    /// acknowledgment.
    pub(crate) fn advance(&mut self, window: usize) {
        let asks = self.groups() > 1;
        let limit = (self.oldest() + window.max(1)).min(self.groups());
        while self.unsent < limit {
            let blocks = self.group(self.unsent).full();
            self.queue.push_back(Part { group: self.unsent, blocks, asks });
            self.unsent += 1;
        }
        self.check();
    }

    /// The other side has these blocks of a group.
    pub(crate) fn acknowledge(&mut self, group: usize, blocks: u32) {
        let full = self.group(group).full();
        if let Some(acknowledged) = self.acknowledged.get_mut(group) {
            *acknowledged |= blocks & full;
            self.done[group] |= *acknowledged == full;
            let have = *acknowledged;
            self.queue.iter_mut().filter(|part| part.group == group).for_each(|part| {
                part.blocks &= !have;
            });
        }
    }

    /// The other side has these blocks of a group and no others, despite earlier notices: it was started
    /// again, or the notice is an old one, which costs only packets.
    pub(crate) fn correct(&mut self, group: usize, blocks: u32) {
        let full = self.group(group).full();
        if let Some(acknowledged) = self.acknowledged.get_mut(group) {
            *acknowledged = blocks & full;
            self.done[group] = false;
        }
    }

    /// The other side has lost the whole message: it is sent from its beginning.
    pub(crate) fn restart(&mut self, window: usize) {
        self.acknowledged.fill(0);
        self.done.fill(false);
        self.queue.clear();
        self.unsent = 0;
        self.advance(window);
    }

    /// Whether the other side had a group whole.
    pub(crate) fn is_finished(&self, group: usize) -> bool {
        self.done.get(group).copied().unwrap_or(false)
    }

    /// The other side needs no more of a group, or of a message without data.
    pub(crate) fn finish(&mut self, group: usize) {
        if let Some(done) = self.done.get_mut(group) {
            *done = true;
            self.queue.retain(|part| part.group != group);
        }
    }

    /// Queues the unacknowledged blocks of a group that was sent before; returns their number.
    pub(crate) fn resend(&mut self, group: usize, asks: bool) -> u32 {
        if group >= self.unsent {
            return 0;
        }
        let blocks = self.group(group).full() & !self.acknowledged[group];
        self.queue.retain(|part| part.group != group);
        self.queue.push_front(Part { group, blocks, asks });
        self.check();
        blocks.count_ones()
    }

    /// Queues a packet without data, to ask for the received blocks of a group.
    pub(crate) fn ask(&mut self, group: usize) {
        if group < self.unsent && !self.queue.iter().any(|part| part.group == group) {
            self.queue.push_front(Part { group, blocks: 0, asks: true });
            self.check();
        }
    }

    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The next packet, with at most so many blocks.
    pub(crate) fn next(&mut self, blocks: usize) -> Option<Piece> {
        let part = self.queue.front_mut()?;
        let delivery = take(part.blocks, blocks);
        assert!(delivery.count_ones() as usize <= blocks, "more blocks than fit into a packet");
        part.blocks &= !delivery;
        let (group, is_last) = (part.group, part.blocks == 0);
        let asks = part.asks && is_last;
        if is_last {
            self.queue.pop_front();
        }
        Some(Piece { group, delivery, asks })
    }

    pub(crate) fn group(&self, number: usize) -> Group {
        Group::of(self.segment.len(), number)
    }

    /// The data of a packet.
    pub(crate) fn data(&self, piece: Piece) -> impl Iterator<Item = &[u8]> {
        self.group(piece.group).blocks(piece.delivery).map(|block| &self.segment[block])
    }
}

/// A segment being received.
///
/// Memory is taken for data that has arrived, never for the length that a packet announces: any sender
/// can announce 4 MiB in one packet.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Octets of the whole segment, as announced.
    bytes: usize,
    /// Blocks that a message of one group has (MDM); all, without a mask.
    sent: u32,
    /// The octets that have arrived from the beginning on without a gap.
    front: Vec<u8>,
    /// Blocks behind a gap, by where they begin.
    behind: BTreeMap<usize, Box<[u8]>>,
    behind_bytes: usize,
    /// By group, as far as one has arrived: its blocks that are here.
    received: Vec<u32>,
    groups_whole: usize,
}

/// The effect of a packet on its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    /// Its group is whole now, by this packet.
    Whole,
    /// Its group misses blocks.
    Part,
    /// All of it was there before.
    Nothing,
}

/// A packet that does not fit its message: its group is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Octets of the allocator and the map for a block behind a gap, without its data; measured, rounded up.
const BLOCK_OVERHEAD_BYTES: usize = 64;

impl Incoming {
    /// For the message that `header` is of; the length is bounded by `bytes_max`.
    pub(crate) fn new(header: &Header, bytes_max: usize) -> Result<Self, Malformed> {
        let bytes = header.segment_size() as usize;
        if bytes > bytes_max {
            return Err(Malformed);
        }
        let is_one_group = groups_of(bytes) == 1;
        let sent = header.message_mask().filter(|_| is_one_group).unwrap_or(u32::MAX);
        Ok(Self {
            bytes,
            sent,
            front: Vec::new(),
            behind: BTreeMap::new(),
            behind_bytes: 0,
            received: Vec::new(),
            groups_whole: 0,
        })
    }

    pub(crate) fn groups(&self) -> usize {
        groups_of(self.bytes)
    }

    /// Octets of memory that this message takes.
    pub(crate) fn held_bytes(&self) -> usize {
        let overhead = self.behind.len() * BLOCK_OVERHEAD_BYTES;
        self.front.capacity() + self.behind_bytes + overhead + self.received.capacity() * 4
    }

    fn expected(&self, number: usize) -> u32 {
        Group::of(self.bytes, number).full() & self.sent
    }

    /// Adds a packet's blocks.
    pub(crate) fn add(
        &mut self,
        number: usize,
        header: &Header,
        data: &[u8],
    ) -> Result<Added, Malformed> {
        let group = Group::of(self.bytes, number);
        let fits = number < self.groups()
            && header.segment_size() as usize == self.bytes
            && header.delivery & !self.expected(number) == 0
            && data.len() == group.data_bytes(header.delivery);
        if !fits {
            return Err(Malformed);
        }
        if self.received.len() <= number {
            self.received.reserve_exact(number + 1 - self.received.len());
            self.received.resize(number + 1, 0);
        }
        let before = self.received[number];
        let was_whole = before == self.expected(number);
        let mut from = 0;
        for block in group.blocks(header.delivery) {
            let len = block.len();
            self.put(block.start, &data[from..from + len]);
            from += len;
        }
        debug_assert!(from <= data.len(), "blocks beyond the packet's data");
        self.received[number] |= header.delivery;
        let is_whole = self.is_whole(number);
        self.groups_whole += usize::from(is_whole && !was_whole);
        self.check();
        Ok(match (is_whole, before == self.received[number]) {
            // A message without data is whole by its first packet.
            (true, true) if self.bytes == 0 => Added::Whole,
            (_, true) => Added::Nothing,
            (true, false) => Added::Whole,
            (false, false) => Added::Part,
        })
    }

    /// The invariant between two packets: the counted octets equal the held ones, none beyond the
    /// segment, and none behind a gap that is filled.
    fn check(&self) {
        let behind: usize = self.behind.values().map(|block| block.len()).sum();
        debug_assert_eq!(self.behind_bytes, behind, "octets behind a gap");
        debug_assert!(self.front.len() + behind <= self.bytes, "{} and {behind}", self.front.len());
        let first = self.behind.first_key_value();
        debug_assert!(
            first.is_none_or(|(&start, _)| start > self.front.len()),
            "the gap is filled"
        );
        debug_assert!(self.groups_whole <= self.groups(), "{} groups whole", self.groups_whole);
        debug_assert!(self.received.len() <= self.groups(), "{} masks", self.received.len());
    }

    /// Takes a block that begins at `start`, unless it is here.
    fn put(&mut self, start: usize, block: &[u8]) {
        if start < self.front.len() || self.behind.contains_key(&start) {
            return;
        }
        if start > self.front.len() {
            self.behind.insert(start, block.into());
            self.behind_bytes += block.len();
            return;
        }
        self.extend(block);
        while let Some(next) = self.behind.remove(&self.front.len()) {
            self.behind_bytes -= next.len();
            self.extend(&next);
        }
    }

    /// Doubles the room where it is too small, but never beyond the segment.
    fn extend(&mut self, block: &[u8]) {
        let needed = self.front.len() + block.len();
        if needed > self.front.capacity() {
            let room = needed.max(2 * self.front.len()).min(self.bytes.max(needed));
            self.front.reserve_exact(room - self.front.len());
        }
        self.front.extend_from_slice(block);
    }

    /// Blocks of a group that are here.
    pub(crate) fn received(&self, number: usize) -> u32 {
        self.received.get(number).copied().unwrap_or(0)
    }

    pub(crate) fn is_whole(&self, number: usize) -> bool {
        number < self.groups() && self.received(number) == self.expected(number)
    }

    pub(crate) fn is_complete(&self) -> bool {
        let has_no_blocks = self.groups() == 1 && self.expected(0) == 0;
        has_no_blocks || self.groups_whole == self.groups()
    }

    /// The first group that misses blocks.
    pub(crate) fn first_missing(&self) -> usize {
        (0..self.groups()).find(|&number| !self.is_whole(number)).unwrap_or(0)
    }

    /// The segment; zeros where the message has no blocks.
    pub(crate) fn into_segment(self) -> Vec<u8> {
        let mut segment = self.front;
        for (start, block) in self.behind {
            segment.resize(start, 0);
            segment.extend_from_slice(&block);
        }
        segment.resize(self.bytes, 0);
        segment
    }
}

/// Which group of a run a transaction number is, if the run begins at `base`.
pub(crate) fn group_number(base: u32, transaction: u32, groups: usize) -> Option<usize> {
    let number = transaction.wrapping_sub(base) as usize;
    (number < groups).then_some(number)
}

/// Groups of the longest run.
pub(crate) const RUN_GROUPS_MAX: usize = crate::wire::MESSAGE_BYTES_MAX / GROUP_BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Entity;
    use proptest::prelude::*;

    fn header(bytes: usize, delivery: u32) -> Header {
        let mut header = Header { delivery, ..Header::request(Entity(1), Entity(2), 0) };
        header.set_segment_size(bytes as u32);
        header
    }

    fn masks(outgoing: &mut Outgoing, blocks: usize) -> Vec<(usize, u32, bool)> {
        let pieces = std::iter::from_fn(|| outgoing.next(blocks));
        pieces.map(|piece| (piece.group, piece.delivery, piece.asks)).collect()
    }

    #[test]
    fn a_message_without_data_is_one_packet() {
        let mut outgoing = Outgoing::new(Vec::new());
        outgoing.advance(8);
        assert_eq!(masks(&mut outgoing, 2), [(0, 0, false)]);
        let mut incoming = Incoming::new(&header(0, 0), 0).unwrap();
        assert_eq!(incoming.add(0, &header(0, 0), &[]), Ok(Added::Whole));
    }

    #[test]
    fn a_run_keeps_to_its_window_and_asks_once_a_group() {
        let mut outgoing = Outgoing::new(vec![0; 3 * GROUP_BYTES + 1]);
        outgoing.advance(2);
        assert_eq!(masks(&mut outgoing, 32), [(0, u32::MAX, true), (1, u32::MAX, true)]);
        outgoing.acknowledge(0, u32::MAX);
        outgoing.advance(2);
        assert_eq!(masks(&mut outgoing, 32), [(2, u32::MAX, true)]);
        outgoing.acknowledge(1, 0xffff_0000);
        outgoing.resend(1, true);
        assert_eq!(masks(&mut outgoing, 32), [(1, 0xffff, true)]);
        assert_eq!(outgoing.oldest(), 1);
    }

    #[test]
    fn a_side_that_forgot_gets_again_what_it_had() {
        let mut outgoing = Outgoing::new(vec![0; 1024]);
        outgoing.advance(8);
        assert_eq!(masks(&mut outgoing, 32), [(0, 3, false)]);
        outgoing.acknowledge(0, 3);
        outgoing.finish(0);
        outgoing.correct(0, 1);
        assert_eq!((outgoing.is_done(), outgoing.resend(0, false)), (false, 1));
        assert_eq!(masks(&mut outgoing, 32), [(0, 2, false)]);
        outgoing.restart(8);
        assert_eq!(masks(&mut outgoing, 32), [(0, 3, false)]);
    }

    #[test]
    fn what_does_not_fit_the_message_is_refused() {
        let mut incoming = Incoming::new(&header(600, 1), 1000).unwrap();
        for (delivery, bytes) in [(1, 504), (4, 512), (3, 600 - 8), (0, 8)] {
            assert_eq!(incoming.add(0, &header(600, delivery), &vec![0; bytes]), Err(Malformed));
        }
        assert_eq!(incoming.add(1, &header(600, 0), &[]), Err(Malformed));
        assert_eq!(incoming.add(0, &header(601, 1), &[0; 512]), Err(Malformed));
        assert!(Incoming::new(&header(1001, 1), 1000).is_err());
    }

    /// The packet with these blocks of a group of `segment`.
    fn packet(segment: &[u8], number: usize, delivery: u32) -> (Header, Vec<u8>) {
        let blocks = Group::of(segment.len(), number).blocks(delivery);
        let mut data: Vec<u8> = blocks.flat_map(|block| segment[block].to_vec()).collect();
        data.resize(data.len().next_multiple_of(8), 0);
        (header(segment.len(), delivery), data)
    }

    #[test]
    fn an_announced_length_takes_no_memory() {
        const BYTES: usize = crate::wire::MESSAGE_BYTES_MAX;
        for (number, delivery) in [(0, 1), (0, 1 << 31), (255, 1), (255, 1 << 31)] {
            let mut incoming = Incoming::new(&header(BYTES, delivery), BYTES).unwrap();
            assert_eq!(incoming.held_bytes(), 0);
            incoming.add(number, &header(BYTES, delivery), &[7; 512]).unwrap();
            // A block, and 4 octets for each group up to its own.
            assert!(incoming.held_bytes() <= 512 + 64 + 4 * 256, "{}", incoming.held_bytes());
        }
    }

    #[test]
    fn a_mask_leaves_zeros_between_the_blocks_that_were_sent() {
        let mut first = header(1500, 4);
        first.code.message_mask = true;
        first.put(20, &0b101u32.to_be_bytes());
        assert_eq!(first.message_mask(), Some(0b101));
        let mut incoming = Incoming::new(&first, 1500).unwrap();
        let data = [[3; 476].as_slice(), &[0; 4]].concat();
        assert_eq!(incoming.add(0, &first, &data), Ok(Added::Part));
        first.delivery = 1;
        assert_eq!(incoming.add(0, &first, &[1; 512]), Ok(Added::Whole));
        assert!(incoming.is_complete());
        assert_eq!(incoming.into_segment(), [vec![1; 512], vec![0; 512], vec![3; 476]].concat());
    }

    proptest! {
        #[test]
        fn blocks_in_any_order_make_the_segment_and_memory_follows_them(
            bytes in 1usize..60_000, order in prop::collection::vec(any::<(u8, u32)>(), 0..200),
        ) {
            let segment: Vec<u8> = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
            let groups = groups_of(bytes);
            let mut incoming = Incoming::new(&header(bytes, 0), bytes).unwrap();
            let every = (0..groups).map(|number| (number, u32::MAX));
            let some = order.into_iter().map(|(number, mask)| (usize::from(number) % groups, mask));
            let mut here = std::collections::BTreeSet::new();
            for (number, mask) in some.chain(every) {
                let delivery = mask & Group::of(bytes, number).full();
                here.extend(Group::of(bytes, number).blocks(delivery).map(|block| block.start));
                let (header, data) = packet(&segment, number, delivery);
                incoming.add(number, &header, &data).unwrap();
                let most = here.len() * 2 * (512 + BLOCK_OVERHEAD_BYTES) + 4 * groups;
                prop_assert!(incoming.held_bytes() <= most, "{} of {most}", incoming.held_bytes());
            }
            prop_assert!(incoming.is_complete());
            prop_assert_eq!(incoming.into_segment(), segment);
        }

        #[test]
        fn whatever_is_lost_arrives_in_the_end(
            bytes in 0usize..60_000, blocks in 1usize..33, losses in prop::collection::vec(any::<bool>(), 1..50),
        ) {
            let segment: Vec<u8> = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
            let mut outgoing = Outgoing::new(segment.clone());
            let mut incoming = Incoming::new(&header(bytes, 0), bytes).unwrap();
            let mut losses = losses.into_iter().cycle();
            let mut packets = 0;
            while !outgoing.is_done() {
                outgoing.advance(3);
                while let Some(piece) = outgoing.next(blocks) {
                    packets += 1;
                    if losses.next() == Some(true) && packets < 10_000 {
                        continue;
                    }
                    let data: Vec<u8> = outgoing.data(piece).flatten().copied().collect();
                    let padded = data.len().next_multiple_of(8);
                    let mut data = data;
                    data.resize(padded, 0);
                    incoming.add(piece.group, &header(bytes, piece.delivery), &data).unwrap();
                }
                for group in 0..outgoing.groups() {
                    outgoing.acknowledge(group, incoming.received(group));
                    outgoing.resend(group, true);
                }
                if bytes == 0 {
                    outgoing.finish(0);
                }
            }
            prop_assert!(incoming.is_complete());
            prop_assert_eq!(incoming.into_segment(), segment);
        }
    }
}
