//! One direction of a wire: packets and times in, packets and times out.
//!
//! A packet waits in the queue, is sent by the line, and travels for the delay. All times follow from the times at
//! which packets enter, never from when somebody asks: asking late changes nothing but the lateness.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::codel::CoDel;
use crate::group::Load;
use crate::line::Line;
use crate::loss::Loss;
use crate::quantity::Share;
use crate::random::{Choice, Random};
use crate::settings::{Capacity, Discipline, Settings};

/// An IP packet. With offload: a group of them, behind its head.
pub type Packet = Vec<u8>;

/// The packets of one direction by their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets that entered.
    pub entered: u64,
    /// Of those and of the duplicates, packets that left.
    pub left: u64,
    /// Second copies.
    pub duplicated: u64,
    /// Packets that the loss model dropped.
    pub dropped_by_loss: u64,
    /// Packets that found the queue full.
    pub dropped_by_queue: u64,
    /// Packets that CoDel dropped.
    pub dropped_by_codel: u64,
    /// Packets with an inverted bit.
    pub damaged: u64,
    /// Packets that were delayed, so that others could overtake them.
    pub held_back: u64,
}

impl Counts {
    /// All drops.
    pub fn dropped(&self) -> u64 {
        self.dropped_by_loss + self.dropped_by_queue + self.dropped_by_codel
    }
}

/// One direction of a wire. Times are nanoseconds of one clock that never runs backwards.
#[derive(Debug)]
pub struct Wire {
    settings: Settings,
    choices: Choices,
    line: Line,
    queue: VecDeque<Waiting>,
    queue_packets: u64,
    queue_bytes: u64,
    codel: CoDel,
    travelling: BinaryHeap<Reverse<Travelling>>,
    /// Arrival of the packet that no other may overtake.
    last_due_ns: u64,
    sent: u64,
    counts: Counts,
}

/// The random choices, a generator for each.
#[derive(Debug)]
struct Choices {
    loss: Loss,
    duplicate: Random,
    damage: Random,
    damaged_bit: Random,
    reorder: Random,
    jitter: Random,
}

/// The choices for a packet, made when it entered.
#[derive(Debug, Clone, Copy)]
struct Chosen {
    is_lost: bool,
    is_duplicated: bool,
    is_held_back: bool,
    delay_ns: u64,
}

#[derive(Debug)]
struct Waiting {
    packet: Packet,
    load: Load,
    entered_ns: u64,
    chosen: Chosen,
}

/// Ordered by time, and by number where times are equal.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Travelling {
    due_ns: u64,
    number: u64,
    packet: Packet,
    packets: u64,
}

impl Wire {
    /// A wire that has carried nothing yet.
    pub fn new(settings: Settings, seed: u64) -> Self {
        let random = |choice| Random::new(seed, choice);
        let choices = Choices {
            loss: Loss::new(settings.loss, seed),
            duplicate: random(Choice::Duplicate),
            damage: random(Choice::Damage),
            damaged_bit: random(Choice::DamagedBit),
            reorder: random(Choice::Reorder),
            jitter: random(Choice::Jitter),
        };
        Self {
            line: Line::of(&settings),
            settings,
            choices,
            queue: VecDeque::new(),
            queue_packets: 0,
            queue_bytes: 0,
            codel: CoDel::default(),
            travelling: BinaryHeap::new(),
            last_due_ns: 0,
            sent: 0,
            counts: Counts::default(),
        }
    }

    /// Takes a packet that entered at `now_ns`, which is not before the time of an earlier call.
    pub fn enter(&mut self, now_ns: u64, mut packet: Packet) {
        self.send_until(now_ns);
        let load = match self.settings.offload {
            true => Load::of_group(&packet),
            false => Load::of_packet(&packet),
        };
        self.counts.entered += load.packets;
        let chosen = self.choose(&mut packet);
        let is_sent_at_once = self.queue.is_empty() && self.line.free_ns() <= now_ns;
        let is_full = match self.settings.capacity {
            Capacity::Packets(packets) => self.queue_packets + load.packets > packets,
            Capacity::Bytes(capacity) => self.queue_bytes + load.bytes > capacity,
        };
        if is_full && !is_sent_at_once {
            self.counts.dropped_by_queue += load.packets;
            return;
        }
        self.queue_packets += load.packets;
        self.queue_bytes += load.bytes;
        self.queue.push_back(Waiting { packet, load, entered_ns: now_ns, chosen });
        self.send_until(now_ns);
    }

    /// Time of the next event: the time at which to call [`Wire::leave`].
    pub fn next_ns(&self) -> Option<u64> {
        let due = self.travelling.peek().map(|Reverse(next)| next.due_ns);
        let sends = self.queue.front().map(|head| head.entered_ns.max(self.line.free_ns()));
        [due, sends].into_iter().flatten().min()
    }

    /// The next packet that has arrived by `now_ns`, with the time at which it was due.
    pub fn leave(&mut self, now_ns: u64) -> Option<(u64, Packet)> {
        self.send_until(now_ns);
        if self.travelling.peek().is_none_or(|Reverse(next)| next.due_ns > now_ns) {
            return None;
        }
        let Reverse(Travelling { due_ns, packet, packets, .. }) = self.travelling.pop()?;
        self.counts.left += packets;
        Some((due_ns, packet))
    }

    /// So far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Packets in the queue and on the line: entered and duplicated, and neither left nor dropped.
    pub fn inside(&self) -> u64 {
        let travelling = self.travelling.iter().map(|Reverse(it)| it.packets);
        self.queue_packets + travelling.sum::<u64>()
    }

    /// Asks each generator once, for any settings: the choices for one packet do not depend on those for others.
    fn choose(&mut self, packet: &mut Packet) -> Chosen {
        let Self { choices, settings, counts, .. } = self;
        let is_lost = choices.loss.drops_next();
        let is_duplicated = choices.duplicate.is(settings.duplicates);
        let is_damaged = choices.damage.is(settings.damage);
        let damaged_bit = choices.damaged_bit.below(u64::from(u32::MAX));
        let reordering = settings.reordering;
        let share = reordering.map_or(Share::ZERO, |it| it.share);
        let is_held_back = choices.reorder.is(share);
        let jitter_ns = settings.jitter.0;
        let offset_ns = choices.jitter.below(2 * jitter_ns + 1);
        let held_ns = reordering.filter(|_| is_held_back).map_or(0, |it| it.by.0);
        if is_damaged && invert_bit(packet, damaged_bit) {
            counts.damaged += 1;
        }
        counts.held_back += u64::from(is_held_back);
        let delay_ns = (settings.delay.0 + offset_ns).saturating_sub(jitter_ns) + held_ns;
        Chosen { is_lost, is_duplicated, is_held_back, delay_ns }
    }

    /// Sends packets of the queue as long as the line takes them by `now_ns`.
    fn send_until(&mut self, now_ns: u64) {
        while let Some(head) = self.queue.front() {
            let start_ns = head.entered_ns.max(self.line.free_ns());
            if start_ns > now_ns {
                return;
            }
            let Some(head) = self.queue.pop_front() else { return };
            self.queue_packets -= head.load.packets;
            self.queue_bytes -= head.load.bytes;
            let waited_ns = start_ns - head.entered_ns;
            if self.settings.discipline == Discipline::CoDel
                && self.codel.drops(start_ns, waited_ns, self.queue_bytes)
            {
                self.counts.dropped_by_codel += 1;
                continue;
            }
            let end_ns = self.line.send(start_ns, head.load.bytes);
            self.travel(end_ns, head);
        }
    }

    fn travel(&mut self, end_ns: u64, Waiting { packet, load, chosen, .. }: Waiting) {
        if chosen.is_lost {
            self.counts.dropped_by_loss += 1;
            return;
        }
        let mut due_ns = end_ns.saturating_add(chosen.delay_ns);
        if !chosen.is_held_back {
            due_ns = due_ns.max(self.last_due_ns);
            self.last_due_ns = due_ns;
        }
        let copy = chosen.is_duplicated.then(|| packet.clone());
        self.counts.duplicated += u64::from(chosen.is_duplicated);
        for packet in [Some(packet), copy].into_iter().flatten() {
            self.sent += 1;
            let number = self.sent;
            self.travelling.push(Reverse(Travelling {
                due_ns,
                number,
                packet,
                packets: load.packets,
            }));
        }
    }
}

/// Inverts a bit behind the IP header, so that the packet finds its host and a checksum finds the damage; `false` where
/// nothing is behind the header.
fn invert_bit(packet: &mut [u8], choice: u64) -> bool {
    let header = match packet.first() {
        Some(first) if first >> 4 == 4 => usize::from(first & 0xf) * 4,
        Some(first) if first >> 4 == 6 => 40,
        _ => return false,
    };
    let Some(data) = packet.get_mut(header..).filter(|data| !data.is_empty()) else { return false };
    let bit = choice % (data.len() as u64 * 8);
    data[(bit / 8) as usize] ^= 1 << (bit % 8);
    true
}

#[cfg(test)]
mod tests;
