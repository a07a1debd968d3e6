//! `mtu-blackhole`: full-size segments are dropped again and again, while smaller ones arrive.
//!
//! A link in the network takes no packets that large, and its message (ICMP, RFC 1191 and RFC 8201) does not arrive.
//! Loss of other kinds does not choose by size: it counts only where no segment of that size ever arrived, the same
//! one was sent several times, and a smaller one arrived meanwhile.

use std::collections::BTreeMap;

use sockscope_record::{Point, marks};

use super::facts::FlowFacts;
use super::intervals::{Interval, Intervals};
use super::phrasing;
use super::resent_segment::{Content, Resent};
use super::tally::Tally;
use crate::{Finding, FindingId, FlowStore, Passage};

/// As often the same segment was sent again, and dropped each time: by chance one in ten thousand does so on a path
/// that drops a tenth of all packets.
const AGAIN_MIN: usize = 3;

/// Each host takes packets of 576 octets (RFC 1122 §3.3.3) with 536 of data.
const SMALL_BYTES_MAX: u32 = 536;

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let flow = facts.view.flow();
    let arrived = Arrived::of(flow)?;
    let mut again: BTreeMap<u64, Vec<Resent>> = BTreeMap::new();
    for one in facts.resent.iter().filter(|one| one.content == Content::Data) {
        again.entry(one.offset).or_default().push(*one);
    }
    let mut tally = Tally::default();
    let mut waits = Vec::new();
    let (mut least, mut largest) = (u32::MAX, 0);
    for (offset, times) in &again {
        let Some(hole) = hole(facts, &arrived, *offset, times) else { continue };
        tally.count += hole.transmissions as u64;
        waits.push(hole.wait);
        least = least.min(hole.bytes);
        largest = largest.max(arrived.largest_in(hole.wait));
        note(&mut tally, &hole, *offset, times);
    }
    let waits = Intervals::union_of(waits);
    // A segment that was not seen to arrive may have been missed.
    let always = Interval::new(0, u64::MAX);
    let is_in_doubt =
        [facts.doubt.of_network(), facts.doubt.of_reads()].iter().any(|it| it.touches(always));
    if tally.count == 0 || is_in_doubt {
        return None;
    }
    tally.cost_ns = waits.total_ns();
    tally.times = waits.iter().collect();
    let sender = facts.who(facts.sender());
    let summary = format!(
        "Segments of {least} bytes of the {sender} never arrive: {} were dropped in the network, and meanwhile one of \
         {} arrived.",
        phrasing::counted(tally.count, "transmission"),
        phrasing::counted(largest.into(), "byte"),
    );
    let fix = format!(
        "In the network between both hosts: let ICMP pass (\"fragmentation needed\", \"packet too big\"), or set the \
         right MTU on the tunnel's device. On the host of the {sender} net.ipv4.tcp_mtu_probing=1 finds the size \
         without; `ip route` with mtu or advmss sets it by hand (ping -M do -s SIZE shows which size passes)."
    );
    Some(tally.into_finding(FindingId::MtuBlackhole, facts, facts.sender(), summary, fix))
}

/// A segment that was dropped each time.
struct Hole {
    bytes: u32,
    transmissions: usize,
    /// From its first transmission to its arrival in smaller pieces, or to the end.
    wait: Interval,
}

fn hole(facts: &FlowFacts<'_>, arrived: &Arrived, offset: u64, times: &[Resent]) -> Option<Hole> {
    let first = times.first()?;
    // A range that was retransmitted as several segments has the size of one.
    let bytes = times.iter().map(|one| one.len).min()?.min(facts.segment_bytes_at(first.at_ns));
    let last_ns = times.last()?.at_ns;
    let start_ns = first.before_ns?;
    let is_large = bytes > SMALL_BYTES_MAX && bytes > arrived.largest();
    let until_ns = arrived.first_of(offset).unwrap_or(facts.view.end_ns);
    let of_size = times.iter().filter(|one| one.at_ns < until_ns).count();
    let wait = Interval::new(start_ns, until_ns.max(start_ns));
    let meanwhile = arrived.largest_in(Interval::new(start_ns, last_ns));
    let is_hole = is_large && of_size >= AGAIN_MIN && meanwhile > 0;
    is_hole.then_some(Hole { bytes, transmissions: of_size + 1, wait })
}

/// Data segments at the receiver's host.
struct Arrived<'a>(Vec<&'a Passage>);

impl<'a> Arrived<'a> {
    /// `None` where that host was not watched.
    fn of(flow: &'a FlowStore) -> Option<Self> {
        let points = [Point::InputDequeue, Point::InputEnqueue];
        let seen =
            points.into_iter().map(|point| flow.at(point)).find(|passes| !passes.is_empty())?;
        Some(Self(seen.iter().filter(|pass| pass.len > 0).collect()))
    }

    /// Bytes of the largest one; of several in one packet it is not known, and may be any.
    fn largest(&self) -> u32 {
        let is_of_several = |pass: &&&Passage| pass.marks & marks::AGGREGATED != 0;
        match self.0.iter().find(is_of_several) {
            Some(_) => u32::MAX,
            None => self.0.iter().map(|pass| pass.len).max().unwrap_or(0),
        }
    }

    fn largest_in(&self, times: Interval) -> u32 {
        let within =
            self.0.iter().filter(|pass| (times.start_ns..times.end_ns).contains(&pass.at_ns));
        within.map(|pass| pass.len).max().unwrap_or(0)
    }

    fn first_of(&self, offset: u64) -> Option<u64> {
        let mut of_it = self.0.iter().filter(|pass| pass.offset <= offset && offset < pass.end());
        of_it.next().map(|pass| pass.at_ns)
    }
}

fn note(tally: &mut Tally, hole: &Hole, offset: u64, times: &[Resent]) {
    let Hole { bytes, wait, .. } = *hole;
    tally.notes.add(wait.start_ns, || format!("{bytes} bytes from {offset} on are sent"));
    for one in times.iter().take(AGAIN_MIN) {
        tally.notes.add(one.at_ns, || "they are sent again, and do not arrive".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::{Fixture, evidence, found};

    /// A segment of 1400 bytes that leaves and never arrives, sent again by the timer; meanwhile one of 300 does.
    const HOLE: &str = "0ms 1-8 +100 | 10ms 1 +1700 | 10ms 2-4 +1400 | 10ms 2-8 1500..1800
        210ms 2-4 100..1500 retransmitted | 210ms retransmit 100..1500 code=1
        620ms 2-4 100..1500 retransmitted | 620ms retransmit 100..1500 code=1
        1450ms 2-4 100..1500 retransmitted | 1450ms retransmit 100..1500 code=1 | 3s <1-8 +1";

    const DROPPED: &str = "0ms app_idle | 10ms wire | 3s end";

    #[test]
    fn a_size_that_never_arrives_is_a_black_hole_and_no_other_loss() {
        assert_snapshot!(found(HOLE, DROPPED), @"mtu-blackhole @client 4x 2.99 s: Segments of 1400 bytes of the client never arrive: 4 transmissions were dropped in the network, and meanwhile one of 300 bytes arrived.");
        assert_snapshot!(evidence(HOLE, DROPPED), @r"
        1400 bytes from 100 on are sent
        they are sent again, and do not arrive
        they are sent again, and do not arrive
        they are sent again, and do not arrive
        ");
    }

    #[test]
    fn until_smaller_pieces_arrive_it_costs_time() {
        let probed = HOLE.replace(
            "| 3s <1-8",
            "| 2s 2-8 100..600 retransmitted | 2s 2-8 600..1500 retransmitted | 3s <1-8",
        );
        assert_snapshot!(found(&probed, DROPPED), @"mtu-blackhole @client 4x 1.99 s: Segments of 1400 bytes of the client never arrive: 4 transmissions were dropped in the network, and meanwhile one of 300 bytes arrived.");
    }

    #[test]
    fn where_one_of_that_size_arrives_the_loss_has_another_cause() {
        let before = HOLE
            .replace("0ms 1-8 +100", "0ms 1-8 +100 | 1ms 1-8 +1400")
            .replace("100..1500", "1500..2900");
        let before = before.replace("1500..1800", "2900..3200");
        assert!(!found(&before, DROPPED).contains("mtu-blackhole"), "{}", found(&before, DROPPED));
        let after = HOLE.replace("| 3s <1-8", "| 2s 2-8 100..1500 retransmitted | 3s <1-8");
        assert!(!found(&after, DROPPED).contains("mtu-blackhole"), "{}", found(&after, DROPPED));
    }

    #[test]
    fn where_nothing_arrives_the_path_is_gone() {
        let gone = HOLE.replace("2-8 1500..1800", "2-4 1500..1800");
        assert!(!found(&gone, DROPPED).contains("mtu-blackhole"), "{}", found(&gone, DROPPED));
    }

    #[test]
    fn small_segments_and_few_transmissions_are_loss() {
        let small = HOLE
            .replace("+1400", "+400")
            .replace("100..1500", "100..500")
            .replace("1500..1800", "500..800");
        assert!(!found(&small, DROPPED).contains("mtu-blackhole"), "{}", found(&small, DROPPED));
        let few = HOLE.replace("1450ms retransmit 100..1500 code=1 |", "");
        assert!(!found(&few, DROPPED).contains("mtu-blackhole"), "{}", found(&few, DROPPED));
    }

    #[test]
    fn packets_of_several_segments_that_arrive_have_their_size() {
        let several = HOLE.replace("0ms 1-8 +100", "0ms 1-8 +100 aggregated");
        assert!(
            !found(&several, DROPPED).contains("mtu-blackhole"),
            "{}",
            found(&several, DROPPED)
        );
    }

    #[test]
    fn where_the_receivers_host_is_not_seen_it_is_silent() {
        let elsewhere = HOLE.replace("1-8 +100", "1-4 +100").replace("2-8 1500", "2-4 1500");
        let found = Fixture::new(&elsewhere, DROPPED).peer_elsewhere().found();
        assert!(!found.contains("mtu-blackhole"), "{found}");
    }
}
