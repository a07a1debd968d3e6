//! `buffer-below-bdp`: a buffer that the program set is below the bandwidth-delay product, and the
//! flow waited for it.
//!
//! The buffer bounds the flow's own average rate, so that it proves nothing; the rate within trains
//! of segments shows the capacity of the path (packet-train dispersion: Dovrolis, Ramanathan and
//! Moore, INFOCOM 2001). The cost is that of the finding that this one explains.

use sockscope_record::{Point, Side};

use super::buffers::BufferSetting;
use super::facts::FlowFacts;
use super::phrasing;
use super::tally::Tally;
use crate::{Finding, FindingId, Passage};

/// Shorter or smaller trains measure the receiver's interrupts, not the path.
const TRAIN_PASSES_MIN: usize = 4;
const TRAIN_BYTES_MIN: u64 = 16_384;

/// A pause of a quarter round trip ends a train: the sender waited.
const TRAIN_PAUSE_DIVISOR: u64 = 4;

pub(super) fn find(
    facts: &FlowFacts<'_>,
    is_send_limited: bool,
    is_receive_limited: bool,
) -> Option<Finding> {
    let rtt_ns = facts.base_rtt_ns?;
    let (buffer, option, side) = match (is_send_limited, is_receive_limited) {
        (true, _) => (facts.send_buffer, "SO_SNDBUF", facts.sender()),
        (_, true) => (facts.receive_buffer, "SO_RCVBUF", facts.receiver()),
        _ => return None,
    };
    let data_bytes = buffer.data_bytes().filter(|_| buffer.is_set_by_program)?;
    let train = fastest_train(facts, rtt_ns)?;
    let product_bytes = train.bytes_in(rtt_ns);
    (data_bytes < product_bytes).then(|| {
        finding(facts, &Case { buffer, data_bytes, option, side, train, rtt_ns, product_bytes })
    })
}

/// Values of the finding.
struct Case {
    buffer: BufferSetting,
    data_bytes: u64,
    option: &'static str,
    side: Side,
    train: Train,
    rtt_ns: u64,
    product_bytes: u64,
}

fn finding(facts: &FlowFacts<'_>, case: &Case) -> Finding {
    let Case { buffer, data_bytes, option, side, train, rtt_ns, product_bytes } = case;
    let who = facts.who(*side);
    let mut tally = Tally { count: 1, ..Tally::default() };
    tally.notes.add(train.start_ns, || {
        format!(
            "a train of {} bytes arrives within {}",
            train.bytes,
            phrasing::time(train.duration_ns)
        )
    });
    let summary = format!(
        "The {who} set a buffer that holds {data_bytes} bytes of data ({} with overhead); the path takes \
         about {product_bytes} bytes in its round trip of {}.",
        buffer.granted_bytes.unwrap_or_default(),
        phrasing::time(*rtt_ns),
    );
    let fix =
        format!("In the {who}: do not set {option}, or ask for {product_bytes} bytes or more.");
    tally.into_finding(FindingId::BufferBelowBdp, facts, *side, summary, fix)
}

/// Arrivals without a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Train {
    start_ns: u64,
    /// Bytes that arrived after the first segment, the one that only starts the clock.
    bytes: u64,
    duration_ns: u64,
}

impl Train {
    fn of(passes: &[&Passage]) -> Option<Self> {
        let (first, rest) = passes.split_first()?;
        let duration_ns = rest.last()?.at_ns.checked_sub(first.at_ns).filter(|&ns| ns > 0)?;
        let bytes = rest.iter().map(|pass| u64::from(pass.len)).sum();
        let is_long = passes.len() >= TRAIN_PASSES_MIN && bytes >= TRAIN_BYTES_MIN;
        is_long.then_some(Self { start_ns: first.at_ns, bytes, duration_ns })
    }

    /// Bytes that arrive at this rate in `ns`.
    fn bytes_in(&self, ns: u64) -> u64 {
        let bytes = u128::from(self.bytes) * u128::from(ns) / u128::from(self.duration_ns);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

fn fastest_train(facts: &FlowFacts<'_>, rtt_ns: u64) -> Option<Train> {
    let arrivals = facts.view.flow().at(Point::InputDequeue).iter();
    let arrivals: Vec<_> = arrivals.filter(|pass| pass.len > 0).collect();
    let pause_ns = rtt_ns / TRAIN_PAUSE_DIVISOR;
    let trains = arrivals.chunk_by(|a, b| b.at_ns.saturating_sub(a.at_ns) < pause_ns);
    let longest = trains.filter_map(Train::of);
    longest.max_by_key(|train| train.bytes_in(rtt_ns))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::Fixture;
    use insta::assert_snapshot;

    /// Twelve rounds of 20 ms: trains of 8 x 4000 bytes at `segment_us` a segment, then the writer is
    /// blocked until the buffer frees.
    fn rounds(event: &str, segment_us: u64) -> String {
        let segment = |round: u64, i: u64| {
            let at_us = round * 20_000 + i * segment_us;
            format!("{at_us}us 1-4 +4000 | {}us 5-8 +4000 |", at_us + 10_000)
        };
        let rounds = (0..12).flat_map(|round| (0..8).map(move |i| segment(round, i)));
        let rounds: String = rounds.collect();
        format!(
            "0ms tcp-state extra=20000 | {event} 0ms write +384000 | {rounds} 240ms write-return len=384000"
        )
    }

    fn found(text: &str) -> String {
        let said = Fixture::new(text, "0ms wire | 240ms end").found();
        said.lines().filter(|line| line.starts_with("buffer-below-bdp")).collect()
    }

    #[test]
    fn a_buffer_below_what_the_trains_show_is_named() {
        assert_snapshot!(found(&rounds("0ms buffers detail=64000 code=1 |", 10)), @"buffer-below-bdp @client 1x 0 ns: The client set a buffer that holds 32000 bytes of data (64000 with overhead); the path takes about 8000000 bytes in its round trip of 20.0 ms.");
    }

    #[test]
    fn one_that_the_kernel_sized_is_not_the_programs() {
        assert_snapshot!(found(&rounds("0ms buffers detail=64000 |", 10)), @"");
    }

    #[test]
    fn one_above_what_the_trains_show_is_enough() {
        assert_snapshot!(found(&rounds("0ms buffers detail=99000000 code=1 |", 10)), @"");
    }

    #[test]
    fn a_small_buffer_that_nothing_waits_for_is_not_a_problem() {
        let text = "0ms tcp-state extra=20000 | 0ms buffers detail=4608 code=1 | 1ms 1-8 +100";
        assert_snapshot!(Fixture::new(text, "0ms app_idle | 9ms end").found(), @"");
    }
}
