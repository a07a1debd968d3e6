//! `buffer-mismatch`: writes that are a little larger than their segments leave a small one each.
//!
//! A write of 1500 bytes takes a full segment of 1448 and one of 52, which costs the network and both hosts nearly as
//! much. That cost is not known, so that the finding has a count and no time.

use std::collections::BTreeMap;

use sockscope_record::{Point, marks};

use super::facts::FlowFacts;
use super::phrasing;
use super::tally::Tally;
use super::writes::Write;
use crate::{Finding, FindingId, Passage};

/// A habit, not an accident.
const WRITES_MIN: usize = 100;

/// At least this share of the writes that are larger than a segment.
const SHARE_DIVISOR: usize = 2;

/// A remainder is at most this part of a full segment.
const REMAINDER_DIVISOR: u32 = 8;

/// Larger ones are those of loopback and of offload, whose packets cost little (jumbo frames have 9000 octets).
const SEGMENT_BYTES_MAX: u32 = 9000;

/// A write, and the bytes of its last segment.
struct Remainder<'a> {
    write: &'a Write,
    bytes: u32,
}

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let segment_bytes = facts.segment_bytes();
    if segment_bytes > SEGMENT_BYTES_MAX {
        return None;
    }
    let is_large = |write: &&Write| write.len > segment_bytes;
    let large: Vec<&Write> = facts.writes.iter().filter(is_large).collect();
    if large.len() < WRITES_MIN {
        return None;
    }
    let taken: Vec<&Passage> = facts
        .view
        .flow()
        .at(Point::SendDequeue)
        .iter()
        .filter(|pass| pass.len > 0 && pass.marks & marks::RETRANSMITTED == 0)
        .collect();
    let remainders: Vec<Remainder<'_>> = large
        .iter()
        .filter_map(|write| {
            let bytes = remainder(&taken, write, segment_bytes)?;
            Some(Remainder { write, bytes })
        })
        .collect();
    if remainders.len() < WRITES_MIN || remainders.len() * SHARE_DIVISOR < large.len() {
        return None;
    }
    let mut tally = Tally { count: remainders.len() as u64, ..Tally::default() };
    for one in &remainders {
        tally.notes.add(one.write.start_ns, || {
            format!("a write of {} bytes ends with a segment of {}", one.write.len, one.bytes)
        });
    }
    let (len, bytes) = most_frequent(&remainders)?;
    let sender = facts.who(facts.sender());
    let summary = format!(
        "{} of the {sender}, mostly of {len} bytes, end with a small segment, mostly of {bytes} bytes, behind full ones \
         of {segment_bytes}: a packet more each.",
        phrasing::counted(tally.count, "write"),
    );
    let fix = format!(
        "In the {sender}: make messages that fit {} bytes, or gather several of them into larger writes. The segment \
         size is the path's.",
        u64::from(len / segment_bytes) * u64::from(segment_bytes),
    );
    Some(tally.into_finding(FindingId::BufferMismatch, facts, facts.sender(), summary, fix))
}

/// Bytes of the small segment with which the write ends, behind full ones of it.
fn remainder(taken: &[&Passage], write: &Write, segment_bytes: u32) -> Option<u32> {
    let index = taken.partition_point(|pass| pass.end() < write.end());
    let last = taken.get(index).filter(|last| last.end() == write.end())?;
    let bytes = last.len % segment_bytes;
    let is_small = bytes > 0 && bytes <= segment_bytes / REMAINDER_DIVISOR;
    // The bytes before it are a full segment of the same write.
    let start = last.end() - u64::from(bytes);
    let is_behind = start >= write.offset.saturating_add(u64::from(segment_bytes));
    let is_whole = last.len > segment_bytes
        || taken[..index].last().is_some_and(|before| {
            before.end() == start && before.len.is_multiple_of(segment_bytes)
        });
    (is_small && is_behind && is_whole).then_some(bytes)
}

/// The size of a write, and of its last segment, that are there most often; of equals the smallest.
fn most_frequent(remainders: &[Remainder<'_>]) -> Option<(u32, u32)> {
    let mut counts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for one in remainders {
        *counts.entry((one.write.len, one.bytes)).or_default() += 1;
    }
    let most = counts.iter().rev().max_by_key(|(_, count)| **count);
    most.map(|(sizes, _)| *sizes)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::{evidence, found, repeat};

    const IDLE: &str = "0ms app_idle | 1s end";

    /// Requests of one write, in segments of these sizes, each answered.
    fn requests(count: u64, segments: &[u32]) -> String {
        let bytes: u32 = segments.iter().sum();
        let calls = repeat(count, "1ms", |at| {
            let sent = segments.iter().map(|bytes| format!("{at} 2-8 +{bytes}"));
            let sent = sent.collect::<Vec<_>>().join(" | ");
            format!("{at} 1 +{bytes} | {sent} | {at} <1-8 +50")
        });
        format!("0ms send-window extra=1448 | {calls}")
    }

    #[test]
    fn a_write_a_little_larger_than_a_segment_leaves_a_small_one() {
        assert_snapshot!(found(&requests(200, &[1448, 52]), IDLE), @"buffer-mismatch @client 200x 0 ns: 200 writes of the client, mostly of 1500 bytes, end with a small segment, mostly of 52 bytes, behind full ones of 1448: a packet more each.");
        assert_snapshot!(evidence(&requests(200, &[1448, 52]), IDLE).lines().next().unwrap(), @"a write of 1500 bytes ends with a segment of 52");
    }

    #[test]
    fn one_packet_of_several_segments_ends_with_the_small_one() {
        let text = requests(200, &[2948]).replace("2-8 +2948", "2-8 +2948 aggregated");
        assert_snapshot!(found(&text, IDLE), @"buffer-mismatch @client 200x 0 ns: 200 writes of the client, mostly of 2948 bytes, end with a small segment, mostly of 52 bytes, behind full ones of 1448: a packet more each.");
    }

    #[test]
    fn writes_that_fit_and_larger_remainders_are_silent() {
        for segments in [&[1448][..], &[1448, 1448], &[1448, 500], &[100], &[52, 1448]] {
            assert_eq!(found(&requests(200, segments), IDLE), "", "{segments:?}");
        }
    }

    #[test]
    fn a_few_are_an_accident() {
        assert_eq!(found(&requests(99, &[1448, 52]), IDLE), "");
        let mixed = format!("{} | {}", requests(150, &[1448, 52]), requests(0, &[1448]));
        let others = (0..200).map(|i| {
            format!("{}ms 1 +2896 | {0}ms 2-8 +2896 aggregated | {0}ms <1-8 +50", 200 + i)
        });
        let mixed = format!("{mixed} | {}", others.collect::<Vec<_>>().join(" | "));
        assert_eq!(found(&mixed, IDLE), "");
    }

    #[test]
    fn on_loopback_a_packet_costs_little() {
        let text = requests(200, &[65_483, 53]).replace("extra=1448", "extra=65483");
        assert_eq!(found(&text, IDLE), "");
    }
}
