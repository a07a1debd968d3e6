//! Order of arrival, for those that need it.
//!
//! A channel between two processes keeps order by itself. Behind a proxy, on links that lose, repeat
//! and mix packets, or between several paths, it is this part that restores it, end to end.

use std::collections::BTreeMap;

use super::word_at;

/// Puts messages in order, or not. Each message carries the header that the part writes.
pub trait Ordering {
    /// Bytes of the header, a multiple of 8.
    fn header_bytes(&self) -> usize;

    /// Writes the header of the next message that is sent.
    fn stamp(&mut self, header: &mut [u8]);

    /// Decides about a message that arrived. For [`Arrival::Later`] the part keeps the result of
    /// `message`.
    fn arrive(&mut self, header: &[u8], message: &mut dyn FnMut() -> Vec<u8>) -> Arrival;

    /// A kept message whose turn has arrived.
    fn release(&mut self) -> Option<Vec<u8>>;
}

/// The fate of a message that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is delivered at once.
    Now,
    /// It is kept until its turn.
    Later,
    /// It was there before, or its turn is over.
    Never,
}

/// Takes messages as they arrive.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unordered;

impl Ordering for Unordered {
    fn header_bytes(&self) -> usize {
        0
    }

    fn stamp(&mut self, _: &mut [u8]) {}

    fn arrive(&mut self, _: &[u8], _: &mut dyn FnMut() -> Vec<u8>) -> Arrival {
        Arrival::Now
    }

    fn release(&mut self) -> Option<Vec<u8>> {
        None
    }
}

/// Delivers the messages of each stream in order and once. A missing message is given up and
/// counted when one arrives that is a whole window ahead of it.
#[derive(Debug)]
pub struct InOrder {
    stream: u64,
    next: u64,
    window: u64,
    streams_max: usize,
    arriving: BTreeMap<u64, Stream>,
    /// Streams with kept messages that may be next in turn.
    ripe: Vec<u64>,
    given_up: u64,
    repeated: u64,
}

/// One stream that arrives.
#[derive(Debug, Default)]
struct Stream {
    next: u64,
    kept: BTreeMap<u64, Vec<u8>>,
}

impl InOrder {
    /// Sends as stream `stream`, which no other sender to the same receivers may use, not even one
    /// that arrived before. Keeps at most `window` messages, 1 at least, for each of `streams_max`
    /// streams; messages of more streams are dropped and count as given up.
    pub fn new(stream: u64, window: u64, streams_max: usize) -> Self {
        Self {
            stream,
            next: 0,
            window: window.max(1),
            streams_max,
            arriving: BTreeMap::new(),
            ripe: Vec::new(),
            given_up: 0,
            repeated: 0,
        }
    }

    /// Messages that were given up, and those that arrived after they were.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Messages that arrived once more, or after they were given up.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Messages that are kept.
    pub fn kept(&self) -> usize {
        self.arriving.values().map(|stream| stream.kept.len()).sum()
    }

    fn stream(&mut self, id: u64) -> Option<&mut Stream> {
        if !self.arriving.contains_key(&id) && self.arriving.len() >= self.streams_max {
            return None;
        }
        Some(self.arriving.entry(id).or_default())
    }
}

impl Stream {
    /// Gives up the missing messages before `until`; returns their number. Kept messages among them
    /// are delivered all the same.
    fn give_up(&mut self, until: u64) -> u64 {
        if until <= self.next {
            return 0;
        }
        let kept = self.kept.range(self.next..until).count() as u64;
        let missing = until - self.next - kept;
        self.next = until;
        missing
    }

    /// The oldest kept message, if nothing before it is awaited any more.
    fn release(&mut self) -> Option<Vec<u8>> {
        let first = self.kept.first_entry()?;
        if *first.key() > self.next {
            return None;
        }
        self.next = self.next.max(first.key() + 1);
        Some(first.remove())
    }
}

impl Ordering for InOrder {
    fn header_bytes(&self) -> usize {
        16
    }

    fn stamp(&mut self, header: &mut [u8]) {
        header[..8].copy_from_slice(&self.stream.to_le_bytes());
        header[8..16].copy_from_slice(&self.next.to_le_bytes());
        self.next += 1;
    }

    fn arrive(&mut self, header: &[u8], message: &mut dyn FnMut() -> Vec<u8>) -> Arrival {
        let (id, number) = (word_at(header, 0), word_at(header, 8));
        let window = self.window;
        // Numbers so large that counting on from them would overflow are no sender's.
        let Some(stream) = self.stream(id).filter(|_| number < u64::MAX >> 1) else {
            self.given_up = self.given_up.saturating_add(1);
            return Arrival::Never;
        };
        if number < stream.next || stream.kept.contains_key(&number) {
            self.repeated += 1;
            return Arrival::Never;
        }
        let missing = stream.give_up((number + 1).saturating_sub(window));
        let is_next = number == stream.next && stream.kept.range(..number).next().is_none();
        if is_next {
            stream.next += 1;
        } else {
            stream.kept.insert(number, message());
        }
        // A hostile sender may jump far more than once.
        self.given_up = self.given_up.saturating_add(missing);
        self.ripe.push(id);
        if is_next { Arrival::Now } else { Arrival::Later }
    }

    fn release(&mut self) -> Option<Vec<u8>> {
        while let Some(id) = self.ripe.last() {
            if let Some(message) = self.arriving.get_mut(id).and_then(Stream::release) {
                return Some(message);
            }
            self.ripe.pop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The deliveries in order, as messages of one stream arrive in this order.
    fn deliver(window: u64, arrivals: &[u64]) -> (Vec<u64>, InOrder) {
        let mut part = InOrder::new(0, window, 4);
        let mut delivered = Vec::new();
        for number in arrivals {
            let mut header = [0; 16];
            header[8..].copy_from_slice(&number.to_le_bytes());
            if part.arrive(&header, &mut || number.to_le_bytes().to_vec()) == Arrival::Now {
                delivered.push(*number);
            }
            while let Some(message) = part.release() {
                delivered.push(word_at(&message, 0));
            }
            assert!(part.kept() as u64 <= window);
        }
        (delivered, part)
    }

    #[test]
    fn messages_that_were_mixed_up_come_in_order() {
        assert_eq!(deliver(8, &[2, 0, 1, 4, 3]).0, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn repeated_messages_come_once() {
        let (delivered, part) = deliver(8, &[0, 0, 2, 2, 1, 1, 2]);
        assert_eq!((delivered, part.repeated()), (vec![0, 1, 2], 4));
    }

    #[test]
    fn a_missing_message_is_given_up_a_window_later() {
        let (delivered, part) = deliver(3, &[0, 2, 3, 4]);
        assert_eq!((delivered, part.given_up()), (vec![0, 2, 3, 4], 1));
        let (delivered, part) = deliver(3, &[0, 2, 3, 4, 1]);
        assert_eq!((delivered, part.repeated()), (vec![0, 2, 3, 4], 1));
    }

    #[test]
    fn a_jump_gives_up_all_that_lies_between() {
        let (delivered, part) = deliver(4, &[0, 2, 1_000_000]);
        assert_eq!((delivered, part.given_up()), (vec![0, 2], 999_995));
        assert_eq!(part.kept(), 1);
    }

    #[test]
    fn jumps_without_end_are_counted_as_far_as_counting_goes() {
        let mut part = InOrder::new(0, 1, 8);
        for stream in 0..6_u64 {
            let header = [stream.to_le_bytes(), (u64::MAX / 2 - 1).to_le_bytes()].concat();
            assert_eq!(part.arrive(&header, &mut Vec::new), Arrival::Now);
        }
        let header = [0_u64.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
        assert_eq!(part.arrive(&header, &mut Vec::new), Arrival::Never);
        assert_eq!(part.given_up(), u64::MAX);
    }

    #[test]
    fn streams_do_not_wait_for_each_other_and_are_bounded() {
        let mut part = InOrder::new(7, 4, 1);
        let mut header = [0; 16];
        part.stamp(&mut header);
        assert_eq!(part.arrive(&header, &mut Vec::new), Arrival::Now);
        header[0] = 8;
        assert_eq!(part.arrive(&header, &mut Vec::new), Arrival::Never);
        assert_eq!(part.given_up(), 1);
    }

    proptest! {
        #[test]
        fn whatever_arrives_is_delivered_at_most_once_and_in_order(
            window in 1_u64..8,
            arrivals in proptest::collection::vec(0_u64..40, 0..100),
        ) {
            let (delivered, part) = deliver(window, &arrivals);
            prop_assert!(delivered.is_sorted_by(|a, b| a < b), "{:?}", delivered);
            let all = delivered.len() + part.kept() + part.repeated() as usize;
            prop_assert_eq!(all, arrivals.len());
        }

        #[test]
        fn what_is_mixed_within_the_window_is_complete(swaps in proptest::collection::vec(0_usize..29, 0..20)) {
            let mut arrivals: Vec<u64> = (0..30).collect();
            let mut moved = std::collections::BTreeSet::new();
            for at in swaps {
                // Neighbours change places at most once, so no message is more than two places off.
                if moved.insert(at) && moved.insert(at + 1) {
                    arrivals.swap(at, at + 1);
                }
            }
            prop_assert_eq!(deliver(4, &arrivals).0, (0..30).collect::<Vec<u64>>());
        }
    }
}
