//! Ranges of the parameters of a case, which keep a run short in time and small in memory.
//!
//! Each number has a range of its own; what a run carries in all has one too, in octets and in
//! portions, because two numbers in range may make a transfer without end together.

use super::parameters::{Parameters, Protocol};
use super::workload::Workload;
use sockscope_record::counted;

/// Largest number of octets that one buffer or transfer may have.
pub(super) const OCTETS_MAX: u64 = 1 << 30;

/// Largest number of octets of a message, a string of a remote call or a piece of work: programs
/// and the library hold some copies of each.
pub(super) const MESSAGE_MAX: u64 = 1 << 24;

/// Messages, calls or pieces in one run at most.
pub(super) const COUNT_MAX: u64 = 10_000_000;

/// Portions of a transfer in one run at most: each takes a system call, a packet or a round trip.
const PORTIONS_MAX: u64 = 2_000_000;

/// Data of a packet without `segment_bytes`, and hardly less than what one holds of a longer segment,
/// which goes in fragments. Default buffers, reads and record streams hold more, so that they never
/// make more portions.
const SEGMENT_BYTES: u64 = 1024;

/// Smallest segment that the stacks take, whatever is announced.
const SEGMENT_MIN: u64 = 32;

/// Octets that all of a run's messages, calls, pieces or connections carry at most.
const CARRIED_MAX: u64 = 1 << 34;

/// Buffers of record streams of remote calls, in octets: Sun's library takes its default in place of
/// less than 100.
const RPC_BUFFER: (u64, u64) = (100, 1 << 20);

/// What a program does or sleeps at most: an hour.
const PAUSE_MAX_MS: u64 = 3_600_000;

/// The same in microseconds.
pub(super) const PAUSE_MAX_US: u64 = PAUSE_MAX_MS * 1000;

/// How long load runs before a transfer at most: then the load average is what it will be.
const LOAD_BEFORE_MAX_S: u64 = 600;

/// Delay of a line at most: a minute.
const DELAY_MAX_US: u64 = 60_000_000;

/// A name, its value where it is given, least and most.
pub(super) type Bound = (&'static str, Option<u64>, u64, u64);

/// Refuses a number out of its range.
pub(super) fn check(parameters: &Parameters) -> Result<(), String> {
    let all = [counts(parameters), octets(parameters), times(parameters)].concat();
    let outside = all.iter().find(|(_, value, least, most)| {
        value.is_some_and(|value| !(*least..=*most).contains(&value))
    });
    match outside {
        Some((name, _, least, most)) => Err(format!("expected `{name}` from {least} to {most}")),
        None => Ok(()),
    }
}

fn counts(parameters: &Parameters) -> Vec<Bound> {
    vec![
        ("connections", Some(parameters.connections.into()), 1, 1000),
        ("urgent_every", parameters.urgent_every, 1, 1_000_000),
        ("load", Some(parameters.load.into()), 0, 100),
        ("depth", Some(parameters.depth.into()), 1, 1000),
        ("gateway_kbit_per_s", parameters.gateway_kbit_per_s, 1, 10_000_000),
        ("interface_queue_packets", parameters.interface_queue_packets.map(u64::from), 1, 100_000),
        ("other_frames_per_s", Some(parameters.other_frames_per_s.into()), 0, 10_000),
        ("capture_buffer_frames", parameters.capture_buffer_frames.map(u64::from), 1, 1_000_000),
        ("probe_list_records", parameters.probe_list_records.map(u64::from), 2, 10_000_000),
        ("profiling_cost_percent", parameters.profiling_cost_percent.map(u64::from), 0, 10_000),
        ("protocol_cost_percent", Some(parameters.protocol_cost_percent.into()), 0, 10_000),
    ]
}

fn octets(parameters: &Parameters) -> Vec<Bound> {
    let rpc_buffer = Some(parameters.rpc_buffer_bytes).filter(|bytes| *bytes > 0);
    vec![
        ("segment_bytes", parameters.segment_bytes.map(u64::from), SEGMENT_MIN, 65_495),
        ("other_frame_bytes", parameters.other_frame_bytes.map(u64::from), 14, 1514),
        ("socket_buffer_bytes", parameters.socket_buffer_bytes, 1, OCTETS_MAX),
        ("receiver_buffer_bytes", parameters.receiver_buffer_bytes, 1, OCTETS_MAX),
        ("read_bytes", parameters.read_bytes, 1, OCTETS_MAX),
        ("rpc_buffer_bytes", rpc_buffer, RPC_BUFFER.0, RPC_BUFFER.1),
        ("low_water_bytes", parameters.low_water_bytes, 0, OCTETS_MAX),
    ]
}

fn times(parameters: &Parameters) -> Vec<Bound> {
    let us = |name, value| (name, Some(value), 0, PAUSE_MAX_US);
    let ms = |name, value| (name, Some(value), 0, PAUSE_MAX_MS);
    vec![
        ("link_delay_us", Some(parameters.link_delay_us), 0, DELAY_MAX_US),
        us("write_after_us", parameters.write_after_us),
        us("read_after_us", parameters.read_after_us),
        us("read_delay_us", parameters.read_delay_us),
        us("reader_close_us", parameters.reader_close_us),
        ms("write_pause_ms", parameters.write_pause_ms),
        ms("read_pause_ms", parameters.read_pause_ms),
        ms("close_after_ms", parameters.close_after_ms),
        ("load_before_s", parameters.load_before_s, 1, LOAD_BEFORE_MAX_S),
        ("capture_clock_us", parameters.capture_clock_us, 1, 1_000_000),
        ("capture_frame_us", parameters.capture_frame_us, 0, 1_000_000),
        ("probe_read_ms", parameters.probe_read_ms, 1, PAUSE_MAX_MS),
        // Where the second begins at whose ends both timers tick.
        ("client_timer_ms", parameters.client_timer_ms, 0, 999),
        ("server_timer_ms", parameters.server_timer_ms, 0, 999),
    ]
}

/// Refuses a run that would carry too much, or in too many portions.
pub(super) fn check_carried(parameters: &Parameters, workload: Workload) -> Result<(), String> {
    let of = |value: Option<u64>| value.unwrap_or(1);
    let (name, count, each) = match workload {
        Workload::Send => ("message_bytes", of(parameters.messages), of(parameters.message_bytes)),
        Workload::RpcEcho => ("data_bytes", of(parameters.calls), of(parameters.data_bytes)),
        Workload::Discard => {
            ("total_bytes", parameters.connections.into(), of(parameters.total_bytes))
        }
        Workload::Pipeline => ("piece_bytes", of(parameters.pieces), of(parameters.piece_bytes)),
        // These have parameters of another kind, or a command line.
        Workload::Program
        | Workload::AtmSend
        | Workload::AtmEcho
        | Workload::AtmLoss
        | Workload::BusAccess
        | Workload::CacheInterface
        | Workload::VmtpCalls => {
            return Ok(());
        }
    };
    let carried = count.saturating_mul(each);
    if carried > CARRIED_MAX {
        return Err(format!(
            "`{name}` of {each} makes {carried} octets in all, over {CARRIED_MAX}"
        ));
    }
    // Datagrams are messages, and no program reads them.
    if workload == Workload::Send && parameters.protocol == Protocol::Udp {
        return Ok(());
    }
    check_reads(parameters, workload)?;
    check_portions(parameters, carried)
}

/// What the readers of all connections hold at once: each has a buffer for its longest read.
fn check_reads(parameters: &Parameters, workload: Workload) -> Result<(), String> {
    if workload != Workload::Discard {
        return Ok(());
    }
    let total = parameters.total_bytes.unwrap_or(0);
    let (connections, len) = (parameters.connections, parameters.discard_read_bytes().min(total));
    if u64::from(connections) * len > OCTETS_MAX {
        return Err(format!(
            "`read_bytes` of {len} for each of {} makes more than {OCTETS_MAX} octets",
            counted(connections.into(), "connection")
        ));
    }
    Ok(())
}

/// Whether no size, given or by default, cuts what a run carries into too many portions.
fn check_portions(parameters: &Parameters, carried: u64) -> Result<(), String> {
    let segment = parameters.segment_bytes.map_or(SEGMENT_BYTES, u64::from);
    let sizes = [
        ("write_bytes", parameters.write_bytes),
        ("read_bytes", parameters.read_bytes),
        ("rpc_buffer_bytes", Some(parameters.rpc_buffer_bytes).filter(|bytes| *bytes > 0)),
        ("socket_buffer_bytes", parameters.socket_buffer_bytes),
        ("receiver_buffer_bytes", parameters.receiver_buffer_bytes),
        ("segment_bytes", Some(segment.min(SEGMENT_BYTES))),
    ];
    let too_small = sizes.into_iter().find_map(|(name, size)| {
        let size = size.filter(|size| carried / size.max(&1) > PORTIONS_MAX)?;
        Some(format!(
            "`{name}` of {size} cuts {carried} octets into more than {PORTIONS_MAX} portions"
        ))
    });
    too_small.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use crate::builtin_by_id;

    /// What an experiment says to some changes of its parameters.
    fn told(id: &str, changes: &[&str]) -> String {
        let told = builtin_by_id(id).unwrap().set_all(changes);
        told.map_or_else(|error| error.to_string(), |()| "taken".to_owned())
    }

    #[test]
    fn a_number_out_of_its_range_is_refused_before_a_run() {
        for (id, change, words) in [
            ("si-1a", "socket_buffer_bytes=0", "from 1 to 1073741824"),
            ("si-1a", "socket_buffer_bytes=4294967296", "from 1 to 1073741824"),
            ("si-1a", "read_bytes=0", "from 1 to 1073741824"),
            ("lh-1", "rpc_buffer_bytes=1", "from 100 to 1048576"),
            ("lh-1", "rpc_buffer_bytes=99999999999", "from 100 to 1048576"),
            ("lh-1", "data_bytes=1000000000", "from 0 to 16777216"),
            ("bb-1", "message_bytes=1000000000", "from 1 to 16777216"),
            ("bb-3", "link_delay_us=9000000000000000000", "from 0 to 60000000"),
            ("si-2b", "write_pause_ms=99999999999", "from 0 to 3600000"),
            ("si-3b", "read_pause_ms=99999999999999", "from 0 to 3600000"),
            ("lh-4", "read_after_us=9000000000000000000", "from 0 to 3600000000"),
            ("si-4c", "compute_us=3600000001", "from 1 to 3600000000"),
            ("lh-2", "client_timer_ms=1000", "from 0 to 999"),
            // The stacks take no smaller segment, whatever is announced.
            ("lh-2", "segment_bytes=31", "from 32 to 65495"),
        ] {
            let name = change.split('=').next().unwrap();
            let refused = told(id, &[change]);
            assert!(refused.contains(&format!("expected `{name}` {words}")), "{refused}");
            assert!(!refused.contains('\n'), "{refused}");
        }
    }

    #[test]
    fn an_hour_of_work_is_in_range_as_an_hour_of_sleep_is() {
        assert_eq!(told("si-4c", &["compute_us=3600000000"]), "taken");
        assert_eq!(told("si-2b", &["write_pause_ms=3600000"]), "taken");
    }

    #[test]
    fn numbers_in_range_that_make_a_run_without_end_are_refused_together() {
        let refused = told("bb-1", &["message_bytes=16000000", "messages=10000"]);
        assert!(refused.contains("160000000000 octets in all"), "{refused}");
        let refused = told("si-1a", &["total_bytes=1000000000", "write_bytes=1"]);
        assert!(refused.contains("`write_bytes` of 1 cuts"), "{refused}");
        let refused = told("si-1a", &["total_bytes=1000000000", "socket_buffer_bytes=64"]);
        assert!(refused.contains("`socket_buffer_bytes` of 64 cuts"), "{refused}");
        let refused = told("si-1a", &["socket_buffer_bytes=1"]);
        assert!(refused.contains("cuts 5242880 octets into more than 2000000"), "{refused}");
        assert_eq!(told("bb-1", &["message_bytes=200", "messages=10000000"]), "taken");
        assert_eq!(told("bb-2", &["message_bytes=1025", "messages=10000000"]), "taken");
        assert_eq!(told("si-1a", &["total_bytes=1073741824", "write_bytes=1024"]), "taken");
    }

    #[test]
    fn buffers_of_record_streams_and_sizes_by_default_cut_too() {
        let strings = ["data_bytes=16777216", "calls=100"];
        let cut = |buffer| told("lh-1", &[strings[0], strings[1], buffer]);
        let refused = cut("rpc_buffer_bytes=100");
        assert!(refused.contains("`rpc_buffer_bytes` of 100 cuts 1677721600 octets"), "{refused}");
        assert_eq!(cut("rpc_buffer_bytes=1000"), "taken");
        let refused = told("lh-1", &["data_bytes=16777216", "calls=1000"]);
        assert!(refused.contains("`segment_bytes` of 1024 cuts 16777216000 octets"), "{refused}");
        let (total, buffer) = ("total_bytes=1073741824", "socket_buffer_bytes=52224");
        let many = ["connections=16", total, buffer];
        for (changes, bytes) in [
            (many.to_vec(), 1024),
            ([&many[1..], &["segment_bytes=500"]].concat(), 500),
            ([&many[..], &["segment_bytes=65495"]].concat(), 1024),
        ] {
            let refused = told("si-1a", &changes);
            assert!(refused.contains(&format!("`segment_bytes` of {bytes} cuts")), "{refused}");
        }
        assert_eq!(told("si-1a", &[total]), "taken");
    }

    #[test]
    fn readers_of_many_connections_hold_no_more_than_one_may() {
        let read = "read_bytes=1073741824";
        // No read is longer than its transfer of 131,072 octets and one more.
        let mut many = builtin_by_id("si-5a").unwrap();
        many.set_all(&["connections=100", read]).unwrap();
        let cases = many.cases().unwrap();
        assert!(cases.iter().all(|case| case.parameters.discard_read_bytes() == 131_073));
        assert_eq!(told("si-5a", &["connections=1", read, "total_bytes=1073741824"]), "taken");
        let refused = told("si-5a", &["connections=16", read, "total_bytes=100000000"]);
        assert!(
            refused.contains("`read_bytes` of 100000000 for each of 16 connections"),
            "{refused}"
        );
    }

    #[test]
    fn parameters_that_go_together_may_be_set_in_any_order() {
        assert_eq!(told("lh-2", &["low_water_bytes=1024", "send_rule=low-water"]), "taken");
        assert_eq!(told("lh-2", &["send_rule=low-water", "low_water_bytes=1024"]), "taken");
        assert_eq!(told("si-2a", &["link_delay_us=10", "link=line-3"]), "taken");
        let alone = told("lh-2", &["low_water_bytes=1024"]);
        assert!(alone.contains("goes with `send_rule"), "{alone}");
    }

    #[test]
    fn a_word_in_place_of_a_number_is_named_and_a_pair_needs_a_name() {
        for change in ["total_bytes=99999999999999999999", "total_bytes=many", "total_bytes=1e9"] {
            let refused = told("si-1a", &[change]);
            assert!(refused.contains("`total_bytes`: expected a whole number, not"), "{refused}");
        }
        let negative = told("si-1a", &["total_bytes=-1"]);
        assert!(
            negative.contains("`total_bytes`: expected a whole number, not `-1`"),
            "{negative}"
        );
        // Words and numbers that another parameter has rightly.
        for (id, change) in [
            ("si-5a", "total_bytes=pair"),
            ("si-5a", "read_bytes=sparcstation-1"),
            ("lh-1", "calls=true"),
            ("lh-2", "calls=-5"),
            ("bb-1", "messages=true"),
            ("pc-2", "data_bytes=memory"),
        ] {
            let (name, refused) = (change.split('=').next().unwrap(), told(id, &[change]));
            assert!(refused.contains(&format!("`{name}`: expected a whole number")), "{refused}");
        }
        let refused = told("si-5a", &["total_bytes=pair", "write_bytes=pair"]);
        assert!(refused.contains("`total_bytes`: expected a whole number"), "{refused}");
        for change in ["=3", "total_bytes"] {
            let refused = told("si-1a", &[change]);
            assert!(refused.contains("expected NAME=VALUE"), "{refused}");
        }
    }
}
