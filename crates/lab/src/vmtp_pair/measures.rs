//! The results of a run of VMTP: times of transactions, rates, and the use of time.

use sockscope_experiment::VmtpParameters;
use sockscope_experiment::measurement::{Distribution, Measure, Measurement};
use sockscope_record::counted;
use sockscope_sim::{EthernetConfig, LinkCounts};

use super::frame::FRAMING_BYTES;
use super::network::Counts;
use super::process::Call;

/// The measures between two counts, `span_ns` apart.
///
/// Rates are of the time from the first transaction that ended to the last one, so that they do not
/// depend on unfinished transactions.
///
/// # Errors
///
/// When fewer than two transactions ended.
pub(super) fn measured(
    parameters: &VmtpParameters,
    before: &Counts,
    after: &Counts,
    span_ns: u64,
) -> Result<Measurement, String> {
    let calls = &after.tally.calls[before.tally.calls.len()..];
    let [first, .., last] = calls else {
        let ended = counted(calls.len() as u64, "transaction");
        return Err(match after.tally.failed - before.tally.failed {
            0 => format!("{ended} ended: the run is too short"),
            failed => format!("{ended} ended, and {} failed", counted(failed, "call")),
        });
    };
    let transfer_ns = last.ended_ns - first.ended_ns;
    let mut call_ns = Distribution::default();
    call_ns.extend(calls.iter().map(|call| call.ended_ns - call.began_ns));
    let mut measures = of_calls(parameters, calls, transfer_ns);
    measures.extend(of_hosts(before, after, span_ns));
    Ok(Measurement {
        call_ns,
        bytes: (calls.len() - 1) as u64 * user_bytes(parameters),
        transfer_ns,
        measures,
        ..Measurement::default()
    })
}

fn user_bytes(parameters: &VmtpParameters) -> u64 {
    (parameters.request_bytes + parameters.response_bytes) as u64
}

/// Rates, and the mean load of a transaction on the cable.
fn of_calls(parameters: &VmtpParameters, calls: &[Call], transfer_ns: u64) -> Vec<Measure> {
    let per_s = (calls.len() - 1) as f64 * 1e9 / transfer_ns as f64;
    let mean = |of: fn(&Call) -> u64| calls.iter().map(of).sum::<u64>() as f64 / calls.len() as f64;
    let packets_out = mean(|call| call.packets_out);
    let octets = mean(|call| call.octets_out + call.octets_in);
    let packets = packets_out + mean(|call| call.packets_in);
    let framed = octets + packets * FRAMING_BYTES as f64;
    [
        ("transactions_per_s", per_s),
        ("client_packets_per_s", per_s * packets_out / f64::from(parameters.clients)),
        ("host_packets_per_s", per_s * packets_out / f64::from(parameters.client_hosts())),
        ("packets_out", packets_out),
        ("packets_in", packets - packets_out),
        ("wire_ns", octets * 8e9 / EthernetConfig::TEN.bits_per_s as f64),
        ("user_share_percent", 100.0 * user_bytes(parameters) as f64 / framed),
    ]
    .map(|(name, value)| Measure::new(name, value))
    .into()
}

/// Cable and hosts between the counts.
fn of_hosts(before: &Counts, after: &Counts, span_ns: u64) -> Vec<Measure> {
    let calls = (after.tally.calls.len() - before.tally.calls.len()) as f64;
    let percent = |after: u64, before: u64| 100.0 * (after - before) as f64 / span_ns as f64;
    let count = |after: u64, before: u64| (after - before) as f64;
    // The silence that follows each frame carries no data.
    let taken_ns = |link: &LinkCounts| link.busy_ns + link.frames * EthernetConfig::TEN.gap_ns;
    let (link, earlier) = (&after.link, &before.link);
    [
        ("network_busy_percent", percent(taken_ns(link), taken_ns(earlier))),
        ("client_cpu_percent", percent(after.client.cpu_ns, before.client.cpu_ns)),
        ("server_cpu_percent", percent(after.server.cpu_ns, before.server.cpu_ns)),
        ("collisions", count(link.collisions, earlier.collisions) / calls),
        ("heard_in_vain", count(after.in_vain, before.in_vain) / calls),
        ("dropped_frames", count(after.dropped, before.dropped)),
        ("blocks_again", count(after.tally.blocks_again, before.tally.blocks_again)),
        ("timeouts", count(after.tally.timeouts, before.tally.timeouts)),
        ("failed_calls", count(after.tally.failed, before.tally.failed)),
    ]
    .map(|(name, value)| Measure::new(name, value))
    .into()
}
