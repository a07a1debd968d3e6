//! Correction by redundancy: lost messages are computed from others, without a wait for a repetition.
//!
//! Messages go out at once, in blocks. Behind each block go parity packets of a Reed-Solomon code.
//! A block with `messages` messages and `parity` parity packets survives any `parity` losses.
//! Packets are lost whole or arrive intact: [`Checked`](super::Checked) drops the damaged ones.
//! One [`Protector`] sends to any number of [`Corrector`]s. It repeats nothing and hears nothing.

use std::collections::BTreeMap;

use super::word_at;
use crate::error::Error;

/// Octets of the header: number of the block's first message (8), place in the block (2), messages of
/// the block (2, in parity packets only), 0 (4); little-endian.
const HEADER_BYTES: usize = 16;
/// Octets of a message's length, which the code protects with the message.
const LENGTH_BYTES: usize = 4;
/// Most packets of a block, so that a receiver's memory has a bound.
const BLOCK_PACKETS_MAX: usize = 256;

/// The sizes of a block, which both ends share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redundancy {
    messages: usize,
    parity: usize,
}

impl Redundancy {
    /// Blocks of `messages` messages with `parity` parity packets.
    ///
    /// # Errors
    /// `BadSetting` when either is 0 or both together are more than 256.
    pub fn new(messages: usize, parity: usize) -> Result<Self, Error> {
        let total = messages.saturating_add(parity);
        if messages == 0 || parity == 0 || total > BLOCK_PACKETS_MAX {
            return Err(Error::setting("1 or more messages and parity packets, 256 together"));
        }
        Ok(Self { messages, parity })
    }

    /// Losses in one block, of messages or parity packets, that are all corrected.
    pub fn losses_survived(self) -> usize {
        self.parity
    }
}

/// The sending end.
#[derive(Debug)]
pub struct Protector {
    redundancy: Redundancy,
    first: u64,
    block: Vec<Vec<u8>>,
}

impl Protector {
    /// Starts with message 0.
    pub fn new(redundancy: Redundancy) -> Self {
        Self { redundancy, first: 0, block: Vec::new() }
    }

    /// Sends a message, and the parity packets when it completes a block.
    ///
    /// # Errors
    /// `TooLong` for a message of 2^32 bytes or more.
    pub fn send(&mut self, message: &[u8], packet: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let too_long = |_| Error::TooLong { bytes: message.len(), slot_bytes: u32::MAX as usize };
        let len = u32::try_from(message.len()).map_err(too_long)?;
        packet(&[&self.header(self.block.len(), 0)[..], message].concat());
        self.block.push([&len.to_le_bytes()[..], message].concat());
        if self.block.len() == self.redundancy.messages { self.finish(packet) } else { Ok(()) }
    }

    /// Sends the parity packets of a block that is not full, when no more messages follow soon.
    ///
    /// # Errors
    /// `BadSetting` when the code refuses the block; no block of this type is refused.
    pub fn finish(&mut self, packet: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let count = self.block.len();
        if count == 0 {
            return Ok(());
        }
        // The code works on words of two octets.
        let longest = self.block.iter().map(Vec::len).max().unwrap_or(0).next_multiple_of(2);
        for shard in &mut self.block {
            shard.resize(longest, 0);
        }
        let parity = reed_solomon_simd::encode(count, self.redundancy.parity, &self.block)
            .map_err(|_| Error::setting("a block that the code takes"))?;
        for (at, shard) in parity.iter().enumerate() {
            packet(&[&self.header(self.redundancy.messages + at, count)[..], shard].concat());
        }
        self.first += count as u64;
        self.block.clear();
        Ok(())
    }

    /// Messages that were sent.
    pub fn sent(&self) -> u64 {
        self.first + self.block.len() as u64
    }

    fn header(&self, place: usize, count: usize) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&self.first.to_le_bytes());
        // Both are 256 at most.
        header[8..10].copy_from_slice(&(place as u16).to_le_bytes());
        header[10..12].copy_from_slice(&(count as u16).to_le_bytes());
        header
    }
}

/// The receiving end. Delivers each message once, when it arrives or is corrected, in any order.
#[derive(Debug)]
pub struct Corrector {
    redundancy: Redundancy,
    blocks_max: usize,
    blocks: BTreeMap<u64, Block>,
    /// All messages before this one are delivered or lost.
    closed: u64,
    counts: CorrectorCounts,
}

/// Results of a [`Corrector`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CorrectorCounts {
    /// Messages delivered as they arrived.
    pub arrived: u64,
    /// Messages computed from others.
    pub corrected: u64,
    /// Messages that neither arrived nor could be corrected, as far as that is known.
    pub lost: u64,
    /// Packets that were repeated, too late, or of another form.
    pub dropped: u64,
}

/// One block that arrives.
#[derive(Debug, Default)]
struct Block {
    /// Messages with their length, by place.
    messages: BTreeMap<usize, Vec<u8>>,
    parity: BTreeMap<usize, Vec<u8>>,
    /// Messages of the block, once a parity packet shows it.
    count: Option<usize>,
}

impl Corrector {
    /// Keeps at most `blocks_max` blocks, 1 at least. The oldest one is closed for the next.
    pub fn new(redundancy: Redundancy, blocks_max: usize) -> Self {
        Self {
            redundancy,
            blocks_max: blocks_max.max(1),
            blocks: BTreeMap::new(),
            closed: 0,
            counts: CorrectorCounts::default(),
        }
    }

    /// The counts up to now.
    pub fn counts(&self) -> CorrectorCounts {
        self.counts
    }

    /// Takes a packet. `deliver` gets the number and the octets of each message that it completes.
    pub fn arrive(&mut self, packet: &[u8], deliver: &mut dyn FnMut(u64, &[u8])) {
        if !self.keep(packet, deliver) {
            self.counts.dropped += 1;
            return;
        }
        let first = word_at(packet, 0);
        if let Some(block) = self.blocks.get_mut(&first) {
            for (place, message) in block.correct(self.redundancy.parity) {
                self.counts.corrected += 1;
                deliver(first + place as u64, &message);
            }
        }
        while self.blocks.len() > self.blocks_max {
            self.close_oldest();
        }
    }

    /// Closes all blocks at the end of `sent` messages; what is missing then counts as lost.
    pub fn finish(&mut self, sent: u64) {
        while !self.blocks.is_empty() {
            self.close_oldest();
        }
        self.counts.lost = self.counts.lost.saturating_add(sent.saturating_sub(self.closed));
        self.closed = self.closed.max(sent);
    }

    /// Packets that are kept, at most 256 for each block.
    pub fn kept(&self) -> usize {
        self.blocks.values().map(|block| block.messages.len() + block.parity.len()).sum()
    }

    /// Stores a packet; false when it is of no use.
    fn keep(&mut self, packet: &[u8], deliver: &mut dyn FnMut(u64, &[u8])) -> bool {
        let Some((header, payload)) = packet.split_at_checked(HEADER_BYTES) else { return false };
        let half = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let (first, place, count) = (word_at(header, 0), half(8), half(10));
        let Redundancy { messages, parity } = self.redundancy;
        // Numbers so large that counting on from them would overflow are no sender's.
        if first >= u64::MAX >> 1 || first < self.closed {
            return false;
        }
        let known = self.blocks.get(&first);
        let end = known.and_then(|block| block.count);
        if place < messages {
            let is_new = known.is_none_or(|block| !block.messages.contains_key(&place));
            let fits = is_new && end.is_none_or(|end| place < end);
            let Some(len) = u32::try_from(payload.len()).ok().filter(|_| fits) else {
                return false;
            };
            let shard = [&len.to_le_bytes()[..], payload].concat();
            self.blocks.entry(first).or_default().messages.insert(place, shard);
            self.counts.arrived += 1;
            deliver(first + place as u64, payload);
            return true;
        }
        let place = place - messages;
        let highest = known.map_or(0, Block::highest);
        let is_new = known.is_none_or(|block| !block.parity.contains_key(&place));
        let is_count =
            (highest.max(1)..=messages).contains(&count) && end.is_none_or(|end| end == count);
        if place >= parity || !is_new || !is_count {
            return false;
        }
        let block = self.blocks.entry(first).or_default();
        block.count = Some(count);
        block.parity.insert(place, payload.to_vec());
        true
    }

    fn close_oldest(&mut self) {
        let Some((first, block)) = self.blocks.pop_first() else { return };
        // Without a parity packet the first message of the next block shows the end.
        let count = block.count.unwrap_or_else(|| block.highest()) as u64;
        let missing = count - block.messages.len() as u64;
        let gap = first.saturating_sub(self.closed);
        self.counts.lost = self.counts.lost.saturating_add(gap + missing);
        self.closed = self.closed.max(first + count);
    }
}

impl Block {
    /// Place behind the last message that is there.
    fn highest(&self) -> usize {
        self.messages.last_key_value().map_or(0, |(place, _)| place + 1)
    }

    /// The missing messages, once as many packets are there as the block has messages.
    fn correct(&mut self, parity: usize) -> Vec<(usize, Vec<u8>)> {
        let Some(count) = self.count else { return Vec::new() };
        let missing = count.saturating_sub(self.messages.len());
        if missing == 0 || self.parity.len() < missing {
            return Vec::new();
        }
        let bytes = self.parity.first_key_value().map_or(0, |(_, shard)| shard.len());
        let there = self.messages.iter().map(|(place, shard)| {
            let mut shard = shard.clone();
            // A longer one is of no sender; the code refuses its length.
            shard.resize(bytes.max(shard.len()), 0);
            (*place, shard)
        });
        let parity_there = self.parity.iter().map(|(at, shard)| (*at, shard));
        let Ok(found) = reed_solomon_simd::decode(count, parity, there, parity_there) else {
            return Vec::new();
        };
        let mut corrected = Vec::new();
        for (place, shard) in found {
            let Some((len, rest)) = shard.split_first_chunk::<LENGTH_BYTES>() else { continue };
            let Some(message) = rest.get(..u32::from_le_bytes(*len) as usize) else { continue };
            corrected.push((place, message.to_vec()));
            self.messages.insert(place, shard);
        }
        corrected
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packets(redundancy: Redundancy, messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (mut sender, mut packets) = (Protector::new(redundancy), Vec::new());
        for message in messages {
            sender.send(message, &mut |packet| packets.push(packet.to_vec())).unwrap();
        }
        sender.finish(&mut |packet| packets.push(packet.to_vec())).unwrap();
        assert_eq!(sender.sent(), messages.len() as u64);
        packets
    }

    fn deliver(
        redundancy: Redundancy,
        packets: &[Vec<u8>],
        sent: u64,
    ) -> (Vec<(u64, Vec<u8>)>, CorrectorCounts) {
        let (mut receiver, mut delivered) = (Corrector::new(redundancy, 4), Vec::new());
        for packet in packets {
            receiver.arrive(packet, &mut |number, message| {
                delivered.push((number, message.to_vec()));
            });
        }
        receiver.finish(sent);
        delivered.sort();
        (delivered, receiver.counts())
    }

    #[test]
    fn a_lost_message_is_computed_and_one_more_is_reported_lost() {
        let redundancy = Redundancy::new(3, 1).unwrap();
        let messages = [b"one".to_vec(), b"".to_vec(), b"three".to_vec()];
        let sent = packets(redundancy, &messages);
        let (delivered, counts) = deliver(redundancy, &sent[1..], 3);
        assert_eq!(delivered[0], (0, b"one".to_vec()));
        assert_eq!((delivered.len(), counts.corrected, counts.lost), (3, 1, 0));
        let (delivered, counts) = deliver(redundancy, &sent[2..], 3);
        assert_eq!((delivered, counts.lost), (vec![(2, b"three".to_vec())], 2));
    }

    #[test]
    fn blocks_that_are_gone_whole_count_as_lost() {
        let redundancy = Redundancy::new(2, 1).unwrap();
        let messages = vec![b"m".to_vec(); 8];
        let sent = packets(redundancy, &messages);
        let (_, counts) = deliver(redundancy, &[&sent[..3], &sent[6..9]].concat(), 8);
        assert_eq!((counts.arrived, counts.lost), (4, 4));
    }

    #[test]
    fn repeated_late_and_foreign_packets_are_dropped() {
        let redundancy = Redundancy::new(1, 1).unwrap();
        let sent = packets(redundancy, &vec![b"m".to_vec(); 6]);
        let late = [&sent[..], &sent[..1], &sent[11..], &[vec![0; 15]]].concat();
        assert_eq!(deliver(redundancy, &late, 6).1.dropped, 3);
    }

    #[test]
    fn a_packet_that_is_rejected_leaves_no_block() {
        let mut receiver = Corrector::new(Redundancy::new(3, 2).unwrap(), 1);
        let mut arrive = |first: u64, place: u8, count: u8| {
            let packet = [&first.to_le_bytes()[..], &[place, 0, count, 0, 0, 0, 0, 0]].concat();
            receiver.arrive(&packet, &mut |_, _| {});
            (receiver.kept(), receiver.counts().dropped)
        };
        assert_eq!(arrive(0, 0, 0), (1, 0));
        assert_eq!(arrive(9, 3, 0), (1, 1), "a count of 0");
        assert_eq!(arrive(9, 3, 4), (1, 2), "a count above that of a block");
        assert_eq!(arrive(9, 5, 3), (1, 3), "a place behind the last parity packet");
        assert_eq!(arrive(0, 3, 2), (2, 3));
        assert_eq!(arrive(0, 2, 0), (2, 4), "a message behind the end that a parity packet states");
        assert_eq!(arrive(0, 4, 3), (2, 5), "two ends of one block");
    }

    #[test]
    fn sizes_out_of_range_are_errors() {
        for (messages, parity) in [(0, 1), (1, 0), (200, 57), (usize::MAX, 1)] {
            assert!(Redundancy::new(messages, parity).is_err(), "{messages} and {parity}");
        }
        assert_eq!(Redundancy::new(200, 56).unwrap().losses_survived(), 56);
    }

    proptest! {
        #[test]
        fn any_losses_up_to_the_parity_are_corrected_and_more_are_reported(
            (messages, parity) in (1_usize..12, 1_usize..6),
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..12),
            order in prop::collection::vec(any::<u64>(), 17),
            losses in 0_usize..17,
        ) {
            let redundancy = Redundancy::new(messages, parity).unwrap();
            let contents = &contents[..contents.len().min(messages)];
            let mut sent: Vec<_> = packets(redundancy, contents).into_iter().zip(order).collect();
            sent.sort_by_key(|(_, key)| *key);
            let arrived: Vec<_> = sent.into_iter().skip(losses).map(|(packet, _)| packet).collect();
            let (delivered, counts) = deliver(redundancy, &arrived, contents.len() as u64);
            for (number, message) in &delivered {
                prop_assert_eq!(message, &contents[*number as usize]);
            }
            prop_assert!(delivered.is_sorted_by(|a, b| a.0 < b.0), "a message twice");
            prop_assert_eq!(counts.arrived + counts.corrected, delivered.len() as u64);
            prop_assert_eq!(counts.lost, (contents.len() - delivered.len()) as u64);
            if losses <= redundancy.losses_survived() {
                prop_assert_eq!(counts.lost, 0);
            }
        }

        #[test]
        fn packets_of_no_sender_end_no_receiver(
            foreign in prop::collection::vec(
                (0_u64..3, 0_u8..6, 0_u8..5, prop::collection::vec(any::<u8>(), 0..9)), 0..40),
        ) {
            let mut receiver = Corrector::new(Redundancy::new(3, 2).unwrap(), 2);
            for (first, place, count, payload) in foreign {
                let mut packet = first.to_le_bytes().to_vec();
                packet.extend([place, 0, count, 0, 0, 0, 0, 0]);
                packet.extend(payload);
                receiver.arrive(&packet, &mut |_, _| {});
                prop_assert!(receiver.blocks.len() <= 2 && receiver.kept() <= 2 * 5);
            }
            receiver.finish(u64::MAX);
            prop_assert_eq!(receiver.kept(), 0);
        }
    }
}
