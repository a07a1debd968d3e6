//! Checks of throughput between hosts and on one: §4.1 of "Experimental Evaluation of SunOS IPC
//! and TCP/IP Protocol Implementation".

use sockscope_experiment::papers::Claim;
use sockscope_experiment::result::CaseResult;
use sockscope_lab::model::Observed;
use sockscope_record::{Direction, Point};

use super::sunos::{ETHERNET, LOOPBACK, RATE_NOISE, best, listed, rate, rates};
use super::sunos_runs::observe;
use super::variation::vary;
use super::{Check, Comparison, Outcome, Runs, most};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "sunos-ipc/4.1.1-a", needs: &["si-1a"], compare: rises_with_buffers },
    Check { id: "sunos-ipc/4.1.1-b", needs: &["si-1a"], compare: first_gain_is_largest },
    Check { id: "sunos-ipc/4.1.1-c", needs: &["si-1b"], compare: window_within_buffers },
    Check { id: "sunos-ipc/4.1.1-d", needs: &["si-1b"], compare: four_packets },
    Check { id: "sunos-ipc/4.1.1-e", needs: &["si-1b"], compare: twice_the_acks },
    Check { id: "sunos-ipc/4.1.1-f", needs: &["si-1b"], compare: an_ack_a_window },
    Check { id: "sunos-ipc/4.1.2-a", needs: &["si-1a"], compare: best_ethernet },
    Check { id: "sunos-ipc/4.1.2-b", needs: &["si-1a"], compare: best_loopback },
    Check { id: "sunos-ipc/4.1.2-c", needs: &["si-1a"], compare: best_sparcstation_2 },
    Check { id: "sunos-ipc/4.1.2-d", needs: &["si-1a"], compare: order_of_the_best },
    Check { id: "sunos-ipc/4.1.2-e", needs: &["si-1a"], compare: loopback_rises },
    Check { id: "sunos-ipc/4.1.2-f", needs: &["si-1c"], compare: the_driver_limits },
];

/// Sizes of the buffers of an experiment's cases, in bytes.
fn buffers(runs: &Runs, experiment: &str) -> Vec<u64> {
    let size = |case: &CaseResult| case.case.parameters.socket_buffer_bytes.unwrap_or(0);
    let mut sizes: Vec<u64> = runs.of(experiment).cases.iter().map(size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Whether no rate falls below the best one before it by more than noise, and the last is above the first.
pub(super) fn rises(rates: &[f64]) -> bool {
    let mut best = 0.0_f64;
    let mut is_near_best = |rate: &f64| {
        best = best.max(*rate);
        *rate >= best * (1.0 - RATE_NOISE)
    };
    rates.iter().all(&mut is_near_best) && rates.last() > rates.first()
}

fn rises_with_buffers(_: &Claim, runs: &Runs) -> Outcome {
    let rates = rates(runs, "si-1a", &ETHERNET);
    let got = format!("{} Mbit/s at {:?} bytes", listed(&rates, 2), buffers(runs, "si-1a"));
    Ok(Comparison::holds(rises(&rates), "no fall of more than 2 % as buffers grow", got))
}

fn first_gain_is_largest(_: &Claim, runs: &Runs) -> Outcome {
    let rate = |buffer| {
        let wanted = [ETHERNET[0], ETHERNET[1], ("socket_buffer_bytes", buffer)];
        rates(runs, "si-1a", &wanted).first().copied().unwrap_or(f64::NAN)
    };
    let [small, middle, large] = ["4096", "16384", "52224"].map(rate);
    let got = format!(
        "{:.2} Mbit/s from 4 to 16 KB, {:.2} from there to the largest",
        middle - small,
        large - middle
    );
    Ok(Comparison::holds(
        gains_less_and_less(small, middle, large),
        "the larger gain from 4 to 16 KB, and a smaller one from there on",
        got,
    ))
}

/// A gain of less than this part of a rate is noise.
const GAIN: f64 = 0.01;

/// Whether both steps gain, the first one more.
fn gains_less_and_less(small: f64, middle: f64, large: f64) -> bool {
    let (first, rest) = (middle - small, large - middle);
    first > rest && rest > GAIN * middle
}

fn loopback_rises(_: &Claim, runs: &Runs) -> Outcome {
    let rates = rates(runs, "si-1a", &LOOPBACK);
    let got = format!("{} Mbit/s at {:?} bytes", listed(&rates, 2), buffers(runs, "si-1a"));
    Ok(Comparison::holds(
        rises(&rates),
        "rises with the buffer before it levels, and falls by no more than 2 %",
        got,
    ))
}

/// The most data between the oldest byte not acknowledged and the newest one sent, in bytes and in
/// packets.
pub(super) fn in_flight_max(seen: &Observed) -> (u64, usize) {
    let mut acks = seen.passes(Direction::FromServer, Point::InputDequeue).iter().peekable();
    let (mut acknowledged, mut most, mut packets_most) = (0, 0, 0);
    let mut sent_ends = std::collections::VecDeque::new();
    for packet in seen.data(Point::InterfaceEnqueue) {
        while let Some(ack) = acks.next_if(|ack| ack.at_ns <= packet.at_ns) {
            acknowledged = acknowledged.max(ack.acknowledged());
        }
        sent_ends.push_back(packet.end());
        while sent_ends.front().is_some_and(|end| *end <= acknowledged) {
            sent_ends.pop_front();
        }
        most = most.max(packet.end().saturating_sub(acknowledged));
        packets_most = packets_most.max(sent_ends.len());
    }
    (most, packets_most)
}

/// Packets with data that left from one acknowledgment's arrival to the next, where there are some.
pub(super) fn between_acks(seen: &Observed) -> Vec<usize> {
    let mut sent = seen.data(Point::InterfaceEnqueue).into_iter().peekable();
    let mut counts = Vec::new();
    for ack in seen.passes(Direction::FromServer, Point::InputDequeue) {
        let mut packets = 0;
        while sent.next_if(|packet| packet.at_ns <= ack.at_ns).is_some() {
            packets += 1;
        }
        counts.extend((packets > 0).then_some(packets));
    }
    counts
}

fn window_within_buffers(_: &Claim, _: &Runs) -> Outcome {
    let mut got = Vec::new();
    for (sends, receives) in
        [(4096_u64, 4096_u64), (16_384, 4096), (4096, 16_384), (52_224, 52_224)]
    {
        let buffers = [
            "total_bytes=524288",
            &format!("socket_buffer_bytes={sends}"),
            &format!("receiver_buffer_bytes={receives}"),
        ];
        got.push((sends, receives, in_flight_max(&observe("si-1b", &buffers)?).0));
    }
    let holds = got.iter().all(|&(sends, receives, most)| most <= sends.min(receives));
    Ok(Comparison::holds(
        holds,
        "never more in flight than the smaller of both buffers holds",
        format!("(sender's, receiver's, most in flight) {got:?} bytes"),
    ))
}

/// Packets of a stop-and-wait with a window of 4,096 octets.
const STOP_AND_WAIT: usize = 4;

/// Whether most bursts between acknowledgments have a whole window, so that the sender stops after it.
pub(super) fn stops_after_each_window(bursts: &[usize]) -> bool {
    let whole = bursts.iter().filter(|packets| **packets == STOP_AND_WAIT).count();
    whole * 10 >= bursts.len() * 9 && !bursts.is_empty()
}

fn four_packets(claim: &Claim, _: &Runs) -> Outcome {
    let seen = observe("si-1b", &["total_bytes=524288", "socket_buffer_bytes=4096"])?;
    let (_, packets) = in_flight_max(&seen);
    let bursts = between_acks(&seen);
    let of = |count: usize| bursts.iter().filter(|packets| **packets == count).count();
    let counts: Vec<_> =
        (1..=STOP_AND_WAIT).map(|count| format!("{count}: {}", of(count))).collect();
    Ok(Comparison::numbers(claim, &[packets as f64]).and(Comparison::holds(
        stops_after_each_window(&bursts),
        "never over four in flight, and the sender waits for an acknowledgment after each four",
        format!(
            "at most {packets} in flight; bursts from one acknowledgment to the next, by packets: {}",
            counts.join(", ")
        ),
    )))
}

/// Buffers and acknowledgments of each case of si-1b, smallest buffer first.
fn acks(runs: &Runs) -> Vec<(u64, u64)> {
    let of = |case: &CaseResult| {
        (case.case.parameters.socket_buffer_bytes.unwrap_or(0), case.measured.acks)
    };
    runs.of("si-1b").cases.iter().map(of).collect()
}

fn twice_the_acks(claim: &Claim, runs: &Runs) -> Outcome {
    let acks = acks(runs);
    let [(_, small), .., (_, large)] = acks[..] else {
        return Err("fewer than two sizes of buffers".into());
    };
    Ok(Comparison::numbers(claim, &[small as f64 / large as f64])
        .with_note(format!("{small} acknowledgments with 4 KB buffers, {large} with the largest")))
}

fn an_ack_a_window(_: &Claim, runs: &Runs) -> Outcome {
    let bytes = runs.of("si-1b").cases.first().map_or(0, |case| case.measured.bytes);
    let got: Vec<_> = acks(runs)
        .into_iter()
        .map(|(buffer, acks)| (buffer, acks, bytes.div_ceil(buffer)))
        .collect();
    let holds = got.iter().all(|(_, acks, windows)| acks >= windows);
    Ok(Comparison::holds(
        holds,
        "at least one acknowledgment for each window of data",
        format!("(buffer, acknowledgments, windows) {got:?}"),
    ))
}

fn best_ethernet(claim: &Claim, runs: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &[best(runs, &ETHERNET)]))
}

fn best_loopback(claim: &Claim, runs: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &[best(runs, &LOOPBACK)]))
}

/// Two SPARCstation 2 as the register has them: their own system, packets of 1 KB, and a driver that
/// sends back to back.
const SPARCSTATION_2: [(&str, &str); 2] = [("machine", "sparcstation-2"), ("topology", "pair")];

/// The same with a driver that does not send back to back.
const SPARCSTATION_2_WITH_GAP: [&str; 5] = [
    "machine=sparcstation-2",
    "topology=pair",
    "personality=sunos-4.1",
    "segment_bytes=1024",
    "driver_gap=true",
];

fn best_sparcstation_2(claim: &Claim, runs: &Runs) -> Outcome {
    let with_gap = most(vary("si-1a", &SPARCSTATION_2_WITH_GAP)?.cases.iter().map(rate));
    Ok(Comparison::numbers(claim, &[best(runs, &SPARCSTATION_2)]).with_note(format!(
        "SunOS 4.1 and a driver that sends back to back; {with_gap:.2} with one that does not"
    )))
}

fn order_of_the_best(_: &Claim, runs: &Runs) -> Outcome {
    let (loopback, two, one) =
        (best(runs, &LOOPBACK), best(runs, &SPARCSTATION_2), best(runs, &ETHERNET));
    Ok(Comparison::holds(
        loopback > two && two > one,
        "loopback, then two SPARCstation 2, then two SPARCstation 1",
        format!("{loopback:.2}, {two:.2}, {one:.2} Mbit/s"),
    ))
}

/// Whether a driver without the gap carries more, and a protocol of half the cost does not.
pub(super) fn driver_limits(as_is: f64, without_gap: f64, faster: f64) -> bool {
    without_gap > as_is * 1.05 && faster < as_is * 1.10
}

fn the_driver_limits(_: &Claim, runs: &Runs) -> Outcome {
    let pairs = runs.of("si-1c").cases_with(&ETHERNET).collect::<Vec<_>>();
    let rate_of = |driver_gap, percent| {
        let is_it = |case: &&&CaseResult| {
            let parameters = &case.case.parameters;
            parameters.driver_gap == driver_gap && parameters.protocol_cost_percent == percent
        };
        pairs.iter().find(is_it).map_or(f64::NAN, |case| rate(case))
    };
    let (as_is, without_gap, faster) =
        (rate_of(None, 100), rate_of(Some(false), 100), rate_of(None, 50));
    Ok(Comparison::holds(
        driver_limits(as_is, without_gap, faster),
        "a driver without the gap carries more, a protocol of half the cost does not",
        format!(
            "{as_is:.2} Mbit/s as it is, {without_gap:.2} without the gap, {faster:.2} with half the protocol's cost"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_fall_is_no_rise() {
        assert!(rises(&[6.0, 7.5, 7.4, 7.5]));
        assert!(!rises(&[6.0, 7.5, 7.4, 7.3, 7.2]), "4 % below the best");
        assert!(!rises(&[6.0, 6.0]));
    }

    #[test]
    fn a_curve_that_levels_at_once_gains_no_second_time() {
        assert!(gains_less_and_less(6.0, 7.0, 7.5));
        assert!(!gains_less_and_less(6.12, 7.35, 7.35), "level");
        assert!(!gains_less_and_less(6.0, 6.5, 7.5), "the second gain is the larger one");
    }

    /// A reader that sleeps between reads has the whole window gather, and the sender stop.
    #[test]
    fn a_sender_that_goes_on_at_every_second_packet_does_not_stop_and_wait() {
        let bursts = |change: &str| {
            between_acks(
                &observe("si-1b", &["total_bytes=262144", "socket_buffer_bytes=4096", change])
                    .unwrap(),
            )
        };
        assert!(stops_after_each_window(&bursts("read_pause_ms=20")));
        assert!(!stops_after_each_window(&bursts("read_pause_ms=0")));
        assert!(!stops_after_each_window(&[]));
    }
}
