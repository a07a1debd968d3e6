//! Checks of calls, message times and later changes: Tables 3 and 4 and sections 5 and 6 of the
//! study of buffers in 4.2BSD.

use sockscope_experiment::papers::{Claim, table};
use sockscope_experiment::result::RunResult;

use super::profile::{SIZES, case};
use super::sunos_runs::observe;
use super::variation::vary;
use super::{Check, Comparison, Outcome, Runs, least, most};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "bsd-buffers/3.1-a", needs: &["bb-2"], compare: buffers_per_message },
    Check { id: "bsd-buffers/3.1-c", needs: &["bb-1"], compare: shared_copies },
    Check { id: "bsd-buffers/3.1-d", needs: &["bb-1"], compare: trailers },
    Check { id: "bsd-buffers/3-a", needs: &["bb-3"], compare: profiling_overhead },
    Check { id: "bsd-buffers/3.1-e", needs: &[], compare: spread_of_times },
    Check { id: "bsd-buffers/4.3-a", needs: &["bb-1", "bb-2"], compare: sosend_once },
    Check { id: "bsd-buffers/T3-a", needs: &["bb-1"], compare: tcp_uiomove },
    Check { id: "bsd-buffers/4.3-b", needs: &["bb-1", "bb-4"], compare: waiting_for_clusters },
    Check { id: "bsd-buffers/T3-b", needs: &["bb-1"], compare: ip_output },
    Check { id: "bsd-buffers/T3-c", needs: &["bb-1"], compare: tcp_input },
    Check { id: "bsd-buffers/T3-d", needs: &["bb-1"], compare: xoutput_is_input },
    Check { id: "bsd-buffers/T3-e", needs: &["bb-1"], compare: checksums_counted },
    Check { id: "bsd-buffers/T4-a", needs: &["bb-2"], compare: udp_uiomove },
    Check { id: "bsd-buffers/4.3-c", needs: &["bb-1", "bb-2"], compare: spread_of_calls },
    Check { id: "bsd-buffers/5-a", needs: &["bb-3"], compare: message_times },
    Check { id: "bsd-buffers/5-b", needs: &["bb-3"], compare: which_is_faster },
    Check { id: "bsd-buffers/5-c", needs: &["bb-3"], compare: round_trips },
    Check { id: "bsd-buffers/6-a", needs: &[], compare: larger_buffers },
];

/// Messages in the runs of Tables 1 to 4.
const MESSAGES: f64 = 10_000.0;

/// Calls of a routine at the six sizes.
fn calls(run: &RunResult, routine: &str) -> [f64; 6] {
    SIZES.map(|size| case(run, size).measured.calls_of(routine) as f64)
}

fn buffers_per_message(claim: &Claim, runs: &Runs) -> Outcome {
    let per_message = calls(runs.of("bb-2"), "uiomove").map(|calls| calls / MESSAGES);
    Ok(Comparison::numbers(claim, &per_message)
        .with_note("uiomove calls a datagram: one for each buffer"))
}

/// Octets that `m_copy` has to move of messages of 1,025 that were placed by so many calls of `uiomove`:
/// one of a message in a cluster and an mbuf, two calls, and all of one in ten small mbufs.
fn moved_at_1025(placed: f64) -> f64 {
    let in_small = (placed - 2.0 * MESSAGES) / 8.0;
    (MESSAGES - in_small) + 1025.0 * in_small
}

/// Octets that `m_copy` moved, by message: all of small mbufs, none of clusters.
fn shared_copies(_: &Claim, runs: &Runs) -> Outcome {
    let run = runs.of("bb-1");
    let moved = SIZES.map(|size| case(run, size).measured.copied_bytes as f64);
    let wanted_1025 = moved_at_1025(calls(run, "uiomove")[5]);
    let wanted = [1.0, 112.0, 113.0, 1023.0, 0.0].map(|octets| octets * MESSAGES);
    let per_message = moved.map(|octets| octets / MESSAGES);
    Ok(Comparison::holds(
        moved[..5] == wanted && moved[5] == wanted_1025,
        format!(
            "moves 1, 112, 113, 1023 and 0 octets a message; at 1025 one of each that took a cluster, else all: {:.1}",
            wanted_1025 / MESSAGES
        ),
        format!("octets moved a message by size: {per_message:.1?}"),
    ))
}

/// Octets a message that the receiving driver copies of so large messages, headers among them.
pub(super) fn received_copy(message_bytes: u32, personality: &str) -> Result<f64, String> {
    const MESSAGES: u32 = 100;
    let changes = [
        format!("personality={personality}"),
        format!("message_bytes={message_bytes}"),
        format!("messages={MESSAGES}"),
    ];
    let seen = observe("bb-1", &changes.each_ref().map(String::as_str))?;
    Ok(seen.copied_in_bytes as f64 / f64::from(MESSAGES))
}

/// Octets of TCP and IP headers, link header and trailer: no data.
pub(super) const HEADERS: f64 = 64.0;

/// Whether the receiver copies headers alone of a trailer packet, and the data of one without.
fn spares_a_copy(without: f64, with_trailer: f64) -> bool {
    with_trailer < HEADERS && without > 1000.0
}

fn trailers(_: &Claim, runs: &Runs) -> Outcome {
    let per_message = calls(runs.of("bb-1"), "m_get").map(|calls| (calls / MESSAGES).round());
    let [without, with_trailer] = [1023, 1024].map(|bytes| received_copy(bytes, "4.2bsd-cabrera"));
    let (without, with_trailer) = (without?, with_trailer?);
    Ok(Comparison::holds(
        per_message == [0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        "one more mbuf for the link header at 1024 bytes (the packet goes as a trailer), none at any other size",
        format!("m_get calls a message by size: {per_message:?}"),
    )
    .and(Comparison::holds(
        spares_a_copy(without, with_trailer),
        "the receiver copies the data of a message of 1,023 octets, and headers alone of one of 1,024",
        format!("octets that the receiver copies of a message: {without:.0} and {with_trailer:.0}"),
    )))
}

/// Numbers of messages whose spread the register asks for.
const COUNTS: [u32; 3] = [100, 1000, 10_000];

/// Milliseconds between the longest and the shortest mean time of a message, over phases of both
/// hosts' timers: what another run would have.
fn spread_ms(messages: u32, changes: &[&str]) -> Result<f64, String> {
    let mean_ms = |phase_ms: u32| {
        let own = [
            "message_bytes=1024".to_owned(),
            format!("messages={messages}"),
            format!("client_timer_ms={phase_ms}"),
            format!("server_timer_ms={}", (phase_ms + 70) % 200),
        ];
        let own: Vec<_> = own.iter().map(String::as_str).chain(changes.iter().copied()).collect();
        let run = vary("bb-1", &own)?;
        Ok(run.cases[0].measured.transfer_ns as f64 / 1e6 / f64::from(messages))
    };
    let means = (0..200).step_by(40).map(mean_ms).collect::<Result<Vec<_>, String>>()?;
    Ok(most(means.iter().copied()) - least(means))
}

/// Whether the spread falls with the number of messages, to less than a millisecond.
fn is_accurate(spreads_ms: &[f64; 3]) -> bool {
    spreads_ms.windows(2).all(|pair| pair[1] < pair[0]) && spreads_ms[2] < 1.0
}

fn spread_of_times(_: &Claim, _: &Runs) -> Outcome {
    let [few, more, all] = COUNTS.map(|messages| spread_ms(messages, &[]));
    let spreads = [few?, more?, all?];
    Ok(Comparison::holds(
        is_accurate(&spreads),
        "the time of a message spreads less with more messages, and by less than a millisecond with 10,000",
        format!("spread of {spreads:.4?} ms over phases of the timers with {COUNTS:?} messages"),
    )
    .with_note("the clock of the model is exact: the timers alone make a run differ from the next"))
}

fn sosend_once(claim: &Claim, runs: &Runs) -> Outcome {
    let [tcp, udp] = ["bb-1", "bb-2"].map(|run| calls(runs.of(run), "sosend"));
    Ok(Comparison::against(claim, &[claim.values[0]; 12], &[tcp, udp].concat()))
}

fn tcp_uiomove(claim: &Claim, runs: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &calls(runs.of("bb-1"), "uiomove")))
}

fn udp_uiomove(claim: &Claim, runs: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &calls(runs.of("bb-2"), "uiomove")))
}

fn ip_output(claim: &Claim, runs: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &calls(runs.of("bb-1"), "ip_output")))
}

/// The profiler's cost in percent of the machine's, which adds 16 % to a write of one byte: the paper says
/// 15 to 20.
const PROFILER_PERCENT: [u32; 6] = [94, 100, 106, 112, 118, 125];
/// Where the receiver's timer may stand, in milliseconds.
const TIMER_MS: [u32; 2] = [0, 100];
/// Octets of a message for which groups of acknowledgments and the timer nearly keep step.
const IN_STEP: usize = 1;

/// Packets that return of messages of 112 octets, over costs of the profiler and phases of the timer.
fn returns_in_step(rule: &str) -> Result<Vec<f64>, String> {
    let returns = |percent: u32, phase_ms: u32| {
        let changes = [
            rule.to_owned(),
            format!("message_bytes={}", SIZES[IN_STEP]),
            format!("profiling_cost_percent={percent}"),
            format!("server_timer_ms={phase_ms}"),
        ];
        let run = vary("bb-1", &changes.each_ref().map(String::as_str))?;
        Ok(run.cases[0].measured.calls_of("tcp_input") as f64)
    };
    let costs = PROFILER_PERCENT.into_iter();
    costs.flat_map(|percent| TIMER_MS.map(|phase_ms| returns(percent, phase_ms))).collect()
}

/// At 112 bytes a tenth of a percent of a message's time decides whether the timer keeps step with the
/// acknowledgments: the median over what the paper leaves open is compared.
fn tcp_input(claim: &Claim, runs: &Runs) -> Outcome {
    let mut got = calls(runs.of("bb-1"), "tcp_input");
    let (own, all) = (got[IN_STEP], returns_in_step("ack_rule=share")?);
    got[IN_STEP] = median(&all);
    Ok(Comparison::numbers(claim, &got).with_note(format!(
        "at 112 bytes the median over a profiler of 15 to 20 % and phases of the timer: from {:.0} to {:.0}, {own:.0} in the experiment's own run",
        least(all.iter().copied()),
        most(all.iter().copied())
    )))
}

fn xoutput_is_input(claim: &Claim, runs: &Runs) -> Outcome {
    let [input, output] = ["tcp_input", "tcp_xoutput"].map(|name| calls(runs.of("bb-1"), name));
    let differences: [f64; 6] = std::array::from_fn(|size| input[size] - output[size]);
    Ok(Comparison::against(claim, &[0.0; 6], &differences))
}

fn checksums_counted(claim: &Claim, runs: &Runs) -> Outcome {
    let [sums, copies, input] =
        ["tcp_cksum", "m_copy", "tcp_input"].map(|name| calls(runs.of("bb-1"), name));
    let differences: [f64; 6] = std::array::from_fn(|size| sums[size] - copies[size] - input[size]);
    Ok(Comparison::against(claim, &[claim.values[0]; 6], &differences))
}

/// `uiomove` calls a message at 1025 bytes in Table 3, and how far a run may be off: that of T3-a.
pub(super) const CALLS_AT_1025: f64 = 9.7158;
pub(super) const CALLS_TOLERANCE: f64 = 0.02;

/// Whether writes at 1025 bytes are fragmented as in Table 3, and not where they wait for a cluster.
fn fragments_unless_it_waits(measured: f64, waiting: f64) -> bool {
    (measured / CALLS_AT_1025 - 1.0).abs() <= CALLS_TOLERANCE && (waiting - 2.0).abs() < 0.05
}

/// `uiomove` calls a message at 1025 bytes with the measured rule, and with one that waits for a
/// whole cluster.
fn waiting_for_clusters(_: &Claim, runs: &Runs) -> Outcome {
    let measured = calls(runs.of("bb-1"), "uiomove")[5] / MESSAGES;
    let wanted = [("send_rule", "old"), ("message_bytes", "1025"), ("protocol", "tcp")];
    let Some(waiting) = runs.of("bb-4").cases_with(&wanted).next() else {
        return Err("bb-4 has no case with the waiting rule".into());
    };
    let sent = waiting.case.parameters.messages.unwrap_or(1) as f64;
    let waiting = waiting.measured.calls_of("uiomove") as f64 / sent;
    Ok(Comparison::holds(
        fragments_unless_it_waits(measured, waiting),
        "about 9.7 calls a message (within 2 %, as T3-a), about 2 when a write waits for 1024 free bytes",
        format!("{measured:.2} calls a message, {waiting:.2} when it waits"),
    ))
}

/// For each routine of a table, how far its calls spread over the sizes; then the mean.
fn mean_spread(run: &RunResult, file: &str) -> f64 {
    let Ok(table) = table(file) else { return f64::NAN };
    let spreads: Vec<f64> = table
        .rows()
        .iter()
        .filter_map(|row| {
            let calls = calls(run, &row[0]);
            let (max, min) = (
                calls.iter().copied().fold(0.0, f64::max),
                calls.iter().copied().fold(f64::MAX, f64::min),
            );
            (max > 0.0).then(|| max / min.max(1.0))
        })
        .collect();
    spreads.iter().sum::<f64>() / spreads.len() as f64
}

fn spread_of_calls(_: &Claim, runs: &Runs) -> Outcome {
    let tcp = mean_spread(runs.of("bb-1"), "bsd-buffers/tcp-calls");
    let udp = mean_spread(runs.of("bb-2"), "bsd-buffers/udp-calls");
    Ok(Comparison::holds(
        udp < tcp,
        "calls at the busiest size over calls at the quietest, mean of all routines: UDP below TCP",
        format!("TCP {tcp:.2}, UDP {udp:.2}"),
    ))
}

/// A variant of bb-3: the Ethernet without and with profiling, lines without and with delay.
const PLAIN: [(&str, &str); 2] = [("link", "ethernet-3"), ("profiling", "false")];
const PROFILED: [(&str, &str); 2] = [("link", "ethernet-3"), ("profiling", "true")];
const SHORT: [(&str, &str); 2] = [("link", "line-3"), ("link_delay_us", "0")];
const LONG: [(&str, &str); 2] = [("link", "line-3"), ("link_delay_us", "5000")];

/// Milliseconds a message of a case of bb-3.
fn message_ms(runs: &Runs, variant: [(&str, &str); 2], protocol: &str, bytes: &str) -> f64 {
    let wanted = [variant[0], variant[1], ("protocol", protocol), ("message_bytes", bytes)];
    let found = runs.of("bb-3").cases_with(&wanted).next();
    found.map_or(f64::NAN, |case| {
        let messages = case.case.parameters.messages.unwrap_or(1) as f64;
        case.measured.transfer_ns as f64 / 1e6 / messages
    })
}

fn message_times(claim: &Claim, runs: &Runs) -> Outcome {
    let time = |protocol, bytes| message_ms(runs, PLAIN, protocol, bytes);
    let got = [time("tcp", "1"), time("udp", "1"), time("tcp", "1024"), time("udp", "1024")];
    Ok(Comparison::numbers(claim, &got))
}

fn which_is_faster(_: &Claim, runs: &Runs) -> Outcome {
    let time = |protocol, bytes| message_ms(runs, PLAIN, protocol, bytes);
    let [tcp_1, udp_1] = ["tcp", "udp"].map(|protocol| time(protocol, "1"));
    let [tcp, udp] = ["tcp", "udp"].map(|protocol| time(protocol, "1024"));
    Ok(Comparison::holds(
        tcp_1 < udp_1 && tcp > udp && tcp / 1024.0 < tcp_1 / 10.0 && udp / 1024.0 < udp_1 / 10.0,
        "TCP faster for 1 byte, slower for 1024; a byte far cheaper in large messages",
        format!("1 byte: TCP {tcp_1:.2} ms, UDP {udp_1:.2}; 1024: TCP {tcp:.2} ms, UDP {udp:.2}"),
    ))
}

fn round_trips(_: &Claim, runs: &Runs) -> Outcome {
    let slowed = |protocol| {
        message_ms(runs, LONG, protocol, "1024") / message_ms(runs, SHORT, protocol, "1024")
    };
    let (tcp, udp) = (slowed("tcp"), slowed("udp"));
    Ok(Comparison::holds(
        tcp > 1.1 && (udp - 1.0).abs() < 0.02,
        "10 ms more of round trip slow the TCP sender, not the UDP sender",
        format!("1024-byte messages take {tcp:.2} times as long by TCP, {udp:.2} times by UDP"),
    ))
}

fn profiling_overhead(claim: &Claim, runs: &Runs) -> Outcome {
    let percent = |protocol| {
        100.0
            * (message_ms(runs, PROFILED, protocol, "1") / message_ms(runs, PLAIN, protocol, "1")
                - 1.0)
    };
    Ok(Comparison::within(claim, &[percent("tcp"), percent("udp")])
        .with_note("the overhead is a number of the machine's cost table"))
}

/// Sizes of messages, up to the buffer of the later system.
const LATER_SIZES: std::ops::RangeInclusive<u32> = 200..=4000;
const LATER_STEP: usize = 200;

/// What buffers of 8 KB gain against 4 KB on a later system with messages of such sizes, in percent.
fn gains(personality: &str, sizes: &[u32]) -> Result<Vec<f64>, String> {
    let rate = |message_bytes: u32, buffer: u32| {
        let changes = [
            format!("personality={personality}"),
            format!("message_bytes={message_bytes}"),
            format!("socket_buffer_bytes={buffer}"),
            "profiling=false".to_owned(),
            "messages=1000".to_owned(),
        ];
        let run = vary("bb-1", &changes.each_ref().map(String::as_str))?;
        run.cases[0].measured.throughput_bits_per_s().ok_or("no throughput".to_owned())
    };
    let gain = |&size: &u32| Ok(100.0 * (rate(size, 8192)? / rate(size, 4096)? - 1.0));
    sizes.iter().map(gain).collect()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    (sorted[last / 2] + sorted[last.div_ceil(2)]) / 2.0
}

/// The paper says neither from what size nor with which messages: the median over messages is compared.
fn larger_buffers(claim: &Claim, _: &Runs) -> Outcome {
    let sizes: Vec<_> = LATER_SIZES.step_by(LATER_STEP).collect();
    let all = gains("4.3bsd", &sizes)?;
    let whole = gains("4.3bsd", &[1024, 2048])?;
    Ok(Comparison::numbers(claim, &[median(&all)]).with_note(format!(
        "median of messages of 200 to 4,000 octets, 4.3BSD, 8 KB against its own 4 KB: from {:.0} to {:.0} %; {:.0} % with 1,024 and {:.0} % with 2,048, which go as trailers",
        least(all.iter().copied()),
        most(all.iter().copied()),
        whole[0],
        whole[1]
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_copies_both_or_none_spares_nothing() {
        assert!(spares_a_copy(1063.0, 41.0));
        assert!(!spares_a_copy(40.0, 41.0), "a page is exchanged wherever its data begin");
        assert!(!spares_a_copy(1063.0, 1064.0), "no trailer");
        // SunOS has no trailers, and its driver lends what it received.
        assert!(received_copy(1024, "sunos-4.0.3").unwrap() < HEADERS);
    }

    #[test]
    fn a_spread_that_does_not_fall_is_not_accurate() {
        assert!(is_accurate(&[0.1, 0.02, 0.007]));
        assert!(!is_accurate(&[0.1, 0.1, 0.1]));
        assert!(!is_accurate(&[30.0, 20.0, 10.0]), "more than a millisecond");
        assert!(!is_accurate(&[f64::NAN; 3]));
    }

    #[test]
    fn calls_of_another_rule_are_not_those_of_table_3() {
        assert!(fragments_unless_it_waits(9.7, 2.0));
        assert!(!fragments_unless_it_waits(10.0, 2.0), "3 % more");
        assert!(!fragments_unless_it_waits(2.0, 2.0), "a write that waits always");
        assert!(!fragments_unless_it_waits(9.7, 9.7), "one that never waits");
    }

    /// A receiver that acknowledges at two segments, or half of its buffer, returns fewer packets.
    #[test]
    fn returns_of_another_rule_are_not_those_of_table_3() {
        let near =
            |rule: &str| (median(&returns_in_step(rule).unwrap()) / 1472.0 - 1.0).abs() <= 0.15;
        assert!(near("ack_rule=share"));
        assert!(!near("ack_rule=two-segments"));
    }

    #[test]
    fn a_gain_over_sizes_is_not_that_of_one_size() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
        let gains = gains("4.3bsd", &[1024, 1800]).unwrap();
        assert!(gains[0] < 0.0 && gains[1] > 12.0, "{gains:?}");
    }
}
