//! AAL5 cells back into messages, one at a time on each channel.

use std::collections::{BTreeMap, BTreeSet};

use super::frame::{FRAME_BYTES_MAX, Frame, decode};
use crate::{Channel, Error, Header, PAYLOAD_BYTES};

/// The limits of memory and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Channels with a message in transit at once; a cell that begins one more is not used.
    pub channels_max: usize,
    /// Octets of one frame, trailer and padding included; one that grows longer is given up.
    pub frame_bytes_max: usize,
    /// From the first cell of a message, in nanoseconds.
    pub timeout_ns: u64,
}

impl Default for Limits {
    /// 256 channels, frames of any length that AAL5 allows, 10 ms each.
    fn default() -> Self {
        Self { channels_max: 256, frame_bytes_max: FRAME_BYTES_MAX, timeout_ns: 10_000_000 }
    }
}

/// Why a message is not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The last cell arrived, and the frame is refused: cells were lost, damaged, or run together.
    Frame(Error),
    /// No cell marked as the last arrived within the longest frame; cells until the next such are
    /// passed over.
    TooLong,
    /// The last cell did not arrive in time.
    Timeout,
}

/// A message given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// Its channel.
    pub channel: Channel,
    /// Why.
    pub reason: Reason,
    /// Octets that had arrived, padding and trailer included.
    pub octets: usize,
}

/// Counts of arrivals and their results, in cells unless a name says messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// All that arrived.
    pub cells: u64,
    /// Not user data: operation, maintenance and resource cells.
    pub not_data: u64,
    /// Not used, for as many channels had a message open as may have.
    pub no_room: u64,
    /// Passed over, being the rest of a message that was too long.
    pub passed_over: u64,
    /// Whole messages.
    pub messages: u64,
    /// Messages given up.
    pub messages_dropped: u64,
}

/// The result of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Nothing yet.
    Pending,
    /// A whole message. Its octets stay until the next cell is received.
    Message(Channel, Frame<'a>),
    /// A message given up.
    Dropped(Dropped),
}

/// The receiving end of one line.
#[derive(Debug)]
pub struct Reassembler {
    limits: Limits,
    open: BTreeMap<Channel, Open>,
    deadlines: BTreeSet<(u64, Channel)>,
    /// The message of the channel of the latest cell, taken out of `open`.
    latest: Option<(Channel, Open)>,
    /// The frame delivered last, and the memory that the next one takes.
    done: Vec<u8>,
    counters: Counters,
}

#[derive(Debug)]
struct Open {
    octets: Vec<u8>,
    deadline_ns: u64,
    /// Too long: the rest is passed over until its last cell.
    is_over: bool,
}

impl Reassembler {
    /// An end at which nothing has arrived yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            latest: None,
            done: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Takes the next cell.
    pub fn receive(
        &mut self,
        now_ns: u64,
        header: &Header,
        payload: &[u8; PAYLOAD_BYTES],
    ) -> Outcome<'_> {
        self.counters.cells += 1;
        let Header { channel, payload_type, .. } = *header;
        if !payload_type.is_user_data() {
            self.counters.not_data += 1;
            return Outcome::Pending;
        }
        if !self.turn_to(channel, now_ns) {
            self.counters.no_room += 1;
            return Outcome::Pending;
        }
        let Some((_, open)) = &mut self.latest else { return Outcome::Pending };
        if open.is_over {
            self.counters.passed_over += 1;
        } else if open.octets.len() + PAYLOAD_BYTES > self.limits.frame_bytes_max {
            open.is_over = true;
            let octets = open.octets.len();
            self.counters.messages_dropped += 1;
            let reason = Reason::TooLong;
            if payload_type.is_last() {
                self.close_latest();
            }
            return Outcome::Dropped(Dropped { channel, reason, octets });
        } else {
            open.octets.extend_from_slice(payload);
        }
        if payload_type.is_last() { self.end(channel) } else { Outcome::Pending }
    }

    /// When [`Reassembler::expire`] has something to do next.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.deadlines.first().map(|&(deadline_ns, _)| deadline_ns)
    }

    /// A message whose time is over at `now_ns`; to be called until none is left.
    pub fn expire(&mut self, now_ns: u64) -> Option<Dropped> {
        loop {
            let &(deadline_ns, channel) = self.deadlines.first()?;
            if deadline_ns > now_ns {
                return None;
            }
            self.deadlines.pop_first();
            let open = match self.latest.take_if(|(latest, _)| *latest == channel) {
                Some((_, open)) => Some(open),
                None => self.open.remove(&channel),
            };
            // One that was too long has been reported already.
            if let Some(open) = open.filter(|open| !open.is_over) {
                self.counters.messages_dropped += 1;
                let octets = open.octets.len();
                return Some(Dropped { channel, reason: Reason::Timeout, octets });
            }
        }
    }

    /// The counts up to now.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Channels with a message in transit.
    pub fn open_messages(&self) -> usize {
        self.deadlines.len()
    }

    /// Makes the message of `channel` the latest; `false` when it has none and there is no room.
    fn turn_to(&mut self, channel: Channel, now_ns: u64) -> bool {
        if self.latest.as_ref().is_some_and(|(latest, _)| *latest == channel) {
            return true;
        }
        if let Some((before, open)) = self.latest.take() {
            self.open.insert(before, open);
        }
        let open = match self.open.remove(&channel) {
            Some(open) => open,
            None if self.deadlines.len() >= self.limits.channels_max => return false,
            None => {
                let deadline_ns = now_ns.saturating_add(self.limits.timeout_ns);
                self.deadlines.insert((deadline_ns, channel));
                let octets = std::mem::take(&mut self.done);
                Open { octets: emptied(octets), deadline_ns, is_over: false }
            }
        };
        self.latest = Some((channel, open));
        true
    }

    /// Ends the latest message, which is that of `channel`.
    fn end(&mut self, channel: Channel) -> Outcome<'_> {
        if self.close_latest() {
            return Outcome::Pending;
        }
        match decode(&self.done) {
            Ok(frame) => {
                self.counters.messages += 1;
                Outcome::Message(channel, frame)
            }
            Err(error) => {
                self.counters.messages_dropped += 1;
                let (reason, octets) = (Reason::Frame(error), self.done.len());
                Outcome::Dropped(Dropped { channel, reason, octets })
            }
        }
    }

    /// Moves the latest message to `done`; returns whether it had been given up before.
    fn close_latest(&mut self) -> bool {
        let Some((channel, open)) = self.latest.take() else { return true };
        self.deadlines.remove(&(open.deadline_ns, channel));
        self.done = open.octets;
        open.is_over
    }
}

fn emptied(mut octets: Vec<u8>) -> Vec<u8> {
    octets.clear();
    octets
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::aal5::Segmentation;
    use crate::{Cell, Interface, PayloadType};

    fn cells(vci: u16, octets: usize) -> Vec<Cell> {
        let payload: Vec<u8> = (0..octets).map(|at| (at + usize::from(vci)) as u8).collect();
        let header = Header::of_channel(Channel::of_path_0(vci));
        Segmentation::new(&Frame::of_payload(&payload), &header).expect("short").to_cells()
    }

    /// One line for the results of the cells, 1,000 ns apart.
    fn run(limits: Limits, cells: &[Cell]) -> String {
        let mut end = Reassembler::new(limits);
        let mut seen = Vec::new();
        for (at, cell) in cells.iter().enumerate() {
            let now_ns = at as u64 * 1_000;
            while let Some(dropped) = end.expire(now_ns) {
                seen.push(format!("{} {:?}", dropped.channel.vci, dropped.reason));
            }
            match end.receive(now_ns, &cell.header(Interface::Uni), cell.payload()) {
                Outcome::Pending => {}
                Outcome::Message(channel, frame) => {
                    seen.push(format!("{} {}", channel.vci, frame.payload.len()));
                }
                Outcome::Dropped(dropped) => {
                    seen.push(format!("{} {:?}", dropped.channel.vci, dropped.reason));
                }
            }
        }
        seen.join(", ")
    }

    #[test]
    fn channels_are_interleaved_cell_by_cell() {
        let (first, second) = (cells(32, 100), cells(33, 100));
        let interleaved: Vec<Cell> =
            first.iter().zip(&second).flat_map(|(first, second)| [*first, *second]).collect();
        assert_eq!(run(Limits::default(), &interleaved), "32 100, 33 100");
    }

    #[test]
    fn a_lost_cell_shows_in_the_crc_and_a_lost_end_in_the_next_message() {
        let mut lost = cells(32, 100);
        lost.remove(1);
        lost.extend(cells(32, 60));
        let seen = run(Limits::default(), &lost);
        assert!(seen.starts_with("32 Frame(Crc {") && seen.ends_with("}), 32 60"), "{seen}");
        let mut lost = cells(32, 100);
        lost.pop();
        lost.extend(cells(32, 60));
        lost.extend(cells(32, 61));
        let seen = run(Limits::default(), &lost);
        assert!(seen.starts_with("32 Frame(Crc {") && seen.ends_with("}), 32 61"), "{seen}");
    }

    #[test]
    fn a_message_that_does_not_end_is_given_up_once_and_passed_over() {
        let limits = Limits { frame_bytes_max: 96, ..Limits::default() };
        let stream = [cells(32, 400), cells(32, 80)].concat();
        assert_eq!(run(limits, &stream), "32 TooLong, 32 80");
    }

    #[test]
    fn the_timer_gives_up_what_has_not_ended() {
        let limits = Limits { timeout_ns: 2_000, ..Limits::default() };
        let mut stream = cells(32, 100);
        stream.truncate(2);
        stream.extend(cells(33, 10));
        stream.extend(cells(32, 20));
        assert_eq!(run(limits, &stream), "32 Timeout, 33 10, 32 20");
    }

    #[test]
    fn as_many_channels_are_open_as_may_be_and_other_cells_are_counted() {
        let limits = Limits { channels_max: 1, ..Limits::default() };
        let (first, second) = (cells(32, 60), cells(33, 10));
        assert_eq!(run(limits, &[first[0], second[0], first[1], second[0]]), "32 60, 33 10");
        let mut end = Reassembler::new(limits);
        let header = Header { payload_type: PayloadType::OAM_SEGMENT, ..Header::default() };
        end.receive(0, &header, &[0; 48]);
        assert_eq!(end.counters(), Counters { cells: 1, not_data: 1, ..Counters::default() });
    }

    proptest! {
        #[test]
        fn what_is_segmented_comes_back(octets in 1usize..3_000, vci in 32u16..) {
            prop_assert_eq!(run(Limits::default(), &cells(vci, octets)), format!("{vci} {octets}"));
        }
    }
}
