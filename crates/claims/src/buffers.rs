//! Checks of calls, message times and later changes: Tables 3 and 4 and sections 5 and 6 of the
//! study of buffers in 4.2BSD.

use sockscope_experiment::papers::{Claim, table};
use sockscope_experiment::result::RunResult;

use super::profile::{SIZES, case};
use super::{Check, Comparison, Outcome, Runs};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "bsd-buffers/3.1-a", needs: &["bb-2"], compare: buffers_per_message },
    Check { id: "bsd-buffers/3.1-c", needs: &["bb-1"], compare: shared_copies },
    Check { id: "bsd-buffers/3.1-d", needs: &["bb-1"], compare: trailers },
    Check { id: "bsd-buffers/3-a", needs: &["bb-3"], compare: profiling_overhead },
    Check { id: "bsd-buffers/3.1-e", needs: &["bb-1"], compare: repetitions },
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
    Check { id: "bsd-buffers/6-a", needs: &["bb-4"], compare: larger_buffers },
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

fn trailers(_: &Claim, runs: &Runs) -> Outcome {
    let per_message = calls(runs.of("bb-1"), "m_get").map(|calls| (calls / MESSAGES).round());
    Ok(Comparison::holds(
        per_message == [0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        "one more mbuf for the link header at 1024 bytes (the packet goes as a trailer), none at any other size",
        format!("m_get calls a message by size: {per_message:?}"),
    ))
}

fn repetitions(claim: &Claim, runs: &Runs) -> Outcome {
    let sent = case(runs.of("bb-1"), "1").case.parameters.messages.unwrap_or(0);
    Ok(Comparison::numbers(claim, &[sent as f64])
        .with_note("the model's clock is exact, so nothing is gained by the number; the runs use it as the paper did"))
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

fn tcp_input(claim: &Claim, runs: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &calls(runs.of("bb-1"), "tcp_input")))
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
        (measured - 9.7).abs() < 0.5 && (waiting - 2.0).abs() < 0.05,
        "about 9.7 calls a message, about 2 when a write waits for 1024 free bytes",
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

/// Throughput with buffers of 8 KB against the personality's own, on the later system; the paper does
/// not say from what size.
fn larger_buffers(claim: &Claim, runs: &Runs) -> Outcome {
    let rate = |personality: &str, buffer: Option<&str>, message_bytes: &str| {
        let wanted =
            [("personality", personality), ("message_bytes", message_bytes), ("protocol", "tcp")];
        let switches = ["send_rule", "nagle", "ack_rule"];
        let mut cases = runs.of("bb-4").cases_with(&wanted).filter(|case| {
            let is_plain = switches.iter().all(|name| case.case.value(name).is_none());
            let own = case.case.value("socket_buffer_bytes").map(sockscope_experiment::word);
            is_plain && own.as_deref() == buffer
        });
        cases.next().and_then(|case| case.measured.throughput_bits_per_s()).unwrap_or(f64::NAN)
    };
    let gain = |personality, from, message_bytes| {
        let (to, from) = (
            rate(personality, Some("8192"), message_bytes),
            rate(personality, from, message_bytes),
        );
        100.0 * (to / from - 1.0)
    };
    let [from_2, from_4] = [None, Some("4096")].map(|from| gain("4.2bsd-cabrera", from, "1024"));
    let [below, at, above] = ["1023", "1024", "1025"].map(|bytes| gain("4.3bsd", None, bytes));
    Ok(Comparison::numbers(claim, &[at]).with_note(format!(
        "4.3BSD, 8 KB against its own 4 KB, messages of 1,024 bytes; {below:.0} % with 1,023, {above:.0} % with 1,025; on the measured system \
         {from_2:.0} % from 2 KB, {from_4:.0} % from 4 KB: the paper says neither from what size nor with which messages"
    )))
}
