//! Which parameters a workload needs, and which mean nothing to it.

use super::bounds::{self, COUNT_MAX, MESSAGE_MAX, OCTETS_MAX, PAUSE_MAX_US};
use super::parameters::{LinkKind, Parameters, SendRule, Topology};
use super::workload::Workload;

/// Refuses parameters that lack what the workload needs, are out of range, or do not go together.
pub(super) fn check(parameters: &Parameters, workload: Workload) -> Result<(), String> {
    let needed = match workload {
        Workload::Send => vec![
            ("message_bytes", parameters.message_bytes, MESSAGE_MAX),
            ("messages", parameters.messages, COUNT_MAX),
        ],
        Workload::RpcEcho => vec![("calls", parameters.calls, COUNT_MAX)],
        Workload::Discard => vec![
            ("total_bytes", parameters.total_bytes, OCTETS_MAX),
            ("write_bytes", parameters.write_bytes, OCTETS_MAX),
        ],
        Workload::Pipeline => vec![
            ("pieces", parameters.pieces, COUNT_MAX),
            ("piece_bytes", parameters.piece_bytes, MESSAGE_MAX),
            ("compute_us", parameters.compute_us, PAUSE_MAX_US),
        ],
        // These have parameters of another kind, or a command line.
        Workload::Program
        | Workload::AtmSend
        | Workload::AtmEcho
        | Workload::AtmLoss
        | Workload::BusAccess
        | Workload::CacheInterface
        | Workload::VmtpCalls => Vec::new(),
    };
    for (name, value, max) in needed {
        if !value.is_some_and(|value| (1..=max).contains(&value)) {
            return Err(format!("expected `{name}` from 1 to {max}"));
        }
    }
    let data_is_whole = workload == Workload::RpcEcho;
    if data_is_whole && parameters.data_bytes.is_none_or(|bytes| bytes > MESSAGE_MAX) {
        return Err(format!("expected `data_bytes` from 0 to {MESSAGE_MAX}"));
    }
    check_hosts(parameters)?;
    bounds::check_carried(parameters, workload)?;
    if workload == Workload::Pipeline && parameters.topology != Topology::Pair {
        return Err("`pipeline` needs a stage before and one after it: a pair".to_owned());
    }
    check_no_stranger(parameters, workload)
}

/// Refuses numbers out of their range, and hosts and links whose parameters do not go together.
pub(super) fn check_hosts(parameters: &Parameters) -> Result<(), String> {
    bounds::check(parameters)?;
    if (parameters.send_rule == SendRule::LowWater) != parameters.low_water_bytes.is_some() {
        return Err("`low_water_bytes` goes with `send_rule = \"low-water\"`".to_owned());
    }
    if parameters.profiling_cost_percent.is_some() && !parameters.profiling {
        return Err("`profiling_cost_percent` goes with `profiling = true`".to_owned());
    }
    let has_gateway = parameters.topology == Topology::Gateway;
    if parameters.gateway_kbit_per_s.is_some() && !has_gateway {
        return Err("`gateway_kbit_per_s` goes with `topology = \"gateway\"`".to_owned());
    }
    let has_line = parameters.link == LinkKind::Line3 || parameters.gateway_kbit_per_s.is_some();
    if parameters.link_delay_us > 0 && !has_line {
        return Err(
            "`link_delay_us` goes with `link = \"line-3\"` or `gateway_kbit_per_s`".to_owned()
        );
    }
    check_probes(parameters)?;
    check_capture(parameters)?;
    check_other_traffic(parameters)?;
    let faults = parameters.faults();
    faults.validate()?;
    if let Some(name) = faults.first().filter(|_| parameters.topology == Topology::Loopback) {
        return Err(format!(
            "`{name}` needs a link, and `topology = \"loopback\"` has none: set topology=pair too"
        ));
    }
    Ok(())
}

/// Refuses a list or a reader where no probe fills it.
fn check_probes(parameters: &Parameters) -> Result<(), String> {
    let has_list = parameters.probe_list_records.is_some();
    if (parameters.probe_idle || has_list) && !parameters.probing {
        let name = if has_list { "probe_list_records" } else { "probe_idle" };
        return Err(format!("`{name}` goes with `probing = true`"));
    }
    if parameters.probe_read_ms.is_some() && !has_list {
        return Err("`probe_read_ms` goes with `probe_list_records`".to_owned());
    }
    if parameters.probe_idle && has_list {
        return Err("`probe_list_records` needs probes that log: leave `probe_idle` out".to_owned());
    }
    Ok(())
}

/// Refuses a capturing host where there is no cable of which a capture file has frames.
fn check_capture(parameters: &Parameters) -> Result<(), String> {
    let others = [
        ("capture_buffer_frames", parameters.capture_buffer_frames.is_some()),
        ("capture_frame_us", parameters.capture_frame_us.is_some()),
    ];
    let is_given = parameters.capture_clock_us.is_some();
    if let Some((name, _)) = others.iter().find(|(_, is_set)| *is_set && !is_given) {
        return Err(format!("`{name}` goes with `capture_clock_us`"));
    }
    let has_cable =
        parameters.topology == Topology::Pair && parameters.link == LinkKind::Ethernet10;
    if is_given && !has_cable {
        return Err("`capture_clock_us` needs two hosts on `link = \"ethernet-10\"`".to_owned());
    }
    Ok(())
}

/// Refuses frames of other stations where there is no cable for them.
fn check_other_traffic(parameters: &Parameters) -> Result<(), String> {
    let is_given = parameters.other_frames_per_s > 0;
    if parameters.other_frame_bytes.is_some() && !is_given {
        return Err("`other_frame_bytes` goes with `other_frames_per_s`".to_owned());
    }
    let has_cable = parameters.topology == Topology::Pair && parameters.link != LinkKind::Line3;
    if is_given && !has_cable {
        return Err("`other_frames_per_s` needs an Ethernet between two hosts".to_owned());
    }
    Ok(())
}

/// Refuses what another workload would need: it would change nothing, silently.
fn check_no_stranger(parameters: &Parameters, workload: Workload) -> Result<(), String> {
    use Workload::{Discard, Pipeline, RpcEcho, Send};
    let defaults = Parameters::of_machine(&parameters.machine);
    let owned = [
        ("message_bytes", parameters.message_bytes.is_some(), Send),
        ("messages", parameters.messages.is_some(), Send),
        ("udp_answers", parameters.udp_answers.is_some(), Send),
        ("data_bytes", parameters.data_bytes.is_some(), RpcEcho),
        ("calls", parameters.calls.is_some(), RpcEcho),
        ("portmap", parameters.portmap, RpcEcho),
        ("read_delay_us", parameters.read_delay_us > 0, RpcEcho),
        ("rpc_buffer_bytes", parameters.rpc_buffer_bytes > 0, RpcEcho),
        ("total_bytes", parameters.total_bytes.is_some(), Discard),
        ("write_bytes", parameters.write_bytes.is_some(), Discard),
        ("write_pause_ms", parameters.write_pause_ms > 0, Discard),
        ("urgent_every", parameters.urgent_every.is_some(), Discard),
        ("read_pause_ms", parameters.read_pause_ms > 0, Discard),
        ("connections", parameters.connections != defaults.connections, Discard),
        ("so_log", parameters.so_log, Discard),
        ("load_before_s", parameters.load_before_s.is_some(), Discard),
        ("receiver_buffer_bytes", parameters.receiver_buffer_bytes.is_some(), Discard),
        ("pieces", parameters.pieces.is_some(), Pipeline),
        ("piece_bytes", parameters.piece_bytes.is_some(), Pipeline),
        ("compute_us", parameters.compute_us.is_some(), Pipeline),
        ("depth", parameters.depth != defaults.depth, Pipeline),
    ];
    let stranger = owned.iter().find(|(_, given, owner)| *given && *owner != workload);
    match stranger {
        Some((name, ..)) => Err(format!("`{name}` means nothing to `{}`", workload.name())),
        None => Ok(()),
    }
}
