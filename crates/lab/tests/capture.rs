//! A third host on the cable: its capture file against the records of the same run.

use std::fs::File;
use std::path::Path;

use sockscope_convert::capture_file::{Part, Summary, Told, Unreadable, read};
use sockscope_experiment::{Experiment, builtin_by_id};
use sockscope_lab::capture::write_captures;
use sockscope_lab::model;
use sockscope_record::{Direction, FlowId, Kind, Record};
use sockscope_sim::Everything;

const TICK_NS: u64 = 10_000_000;

fn experiment(changes: &[&str]) -> Experiment {
    let mut experiment = builtin_by_id("si-2a").unwrap();
    experiment.set_all(&[&["capture_clock_us=10000"], changes].concat()).unwrap();
    experiment
}

/// Records of the capture file of the only case, and what its reader says of the file.
fn captured(experiment: &Experiment) -> (Vec<Record>, Summary) {
    let folder = tempfile::tempdir().unwrap();
    let written = write_captures(experiment, folder.path()).unwrap();
    assert_eq!(written.len(), 1);
    let mut records = Vec::new();
    let take = |part: &Part| {
        records.extend_from_slice(&part.records);
        Ok::<(), Unreadable>(())
    };
    let summary = read(File::open(&written[0].path).unwrap(), &Told::default(), take).unwrap();
    assert_eq!(summary.packets, written[0].frames as u64);
    assert_eq!(summary.interfaces[0].missed, written[0].missed);
    (records, summary)
}

fn recorded(experiment: &Experiment) -> Vec<Record> {
    let case = experiment.cases().unwrap().remove(0);
    model::record(experiment, &case, Everything::default()).unwrap().1.records
}

/// Positions, lengths and flags of the segments of one flow at a point, in order, with their times.
fn segments(records: &[Record], flow: FlowId, kind: Kind) -> Vec<(u64, u32, u8, u64)> {
    let passes = records.iter().filter(|record| record.flow == flow && record.kind == kind);
    passes.map(|record| (record.offset, record.len, record.tcp_flags, record.at_ns)).collect()
}

#[test]
fn a_capture_has_the_segments_of_the_records_in_their_order_on_the_ticks_of_its_clock() {
    let experiment = experiment(&[]);
    let (records, (captured, summary)) = (recorded(&experiment), captured(&experiment));
    assert!(summary.not_read.is_empty() && summary.damage.is_none(), "{summary:?}");
    for direction in [Direction::FromClient, Direction::FromServer] {
        let flow = sockscope_record::ConnectionId(1).flow(direction);
        let on_cable = segments(&captured, flow, Kind::InterfaceDequeue);
        let left = segments(&records, flow, Kind::InterfaceDequeue);
        let arrived = segments(&records, flow, Kind::InputEnqueue);
        assert!(on_cable.len() > 40, "{direction:?}: {}", on_cable.len());
        assert_eq!((left.len(), arrived.len()), (on_cable.len(), on_cable.len()));
        for ((seen, left), arrived) in on_cable.iter().zip(&left).zip(&arrived) {
            assert_eq!((seen.0, seen.1, seen.2), (left.0, left.1, left.2));
            assert_eq!(seen.3 % TICK_NS, 0);
            let ticks = left.3 / TICK_NS * TICK_NS..=arrived.3;
            assert!(ticks.contains(&seen.3), "{seen:?} between {left:?} and {arrived:?}");
        }
    }
    // Both directions in the order of the cable.
    assert!(captured.is_sorted_by_key(|record| record.at_ns));
}

#[test]
fn a_clock_of_10_ms_hides_most_gaps_between_packets() {
    let experiment = experiment(&[]);
    let flow = sockscope_record::ConnectionId(1).flow(Direction::FromClient);
    let gaps = |records: &[Record]| -> Vec<u64> {
        let times = segments(records, flow, Kind::InterfaceDequeue);
        times.windows(2).map(|pair| pair[1].3 - pair[0].3).collect()
    };
    let (seen, true_gaps) = (gaps(&captured(&experiment).0), gaps(&recorded(&experiment)));
    assert!(true_gaps.iter().all(|gap_ns| *gap_ns > 0));
    let hidden = seen.iter().filter(|gap_ns| **gap_ns == 0).count();
    assert!(hidden * 10 > seen.len() * 7, "{hidden} of {}", seen.len());
}

#[test]
fn a_host_that_is_too_slow_misses_frames_and_counts_them() {
    let all = captured(&experiment(&[])).1.packets;
    let slow = ["capture_frame_us=3000", "capture_buffer_frames=4"];
    let (records, summary) = captured(&experiment(&slow));
    let missed = summary.interfaces[0].missed;
    assert!(missed > 0, "{summary:?}");
    assert_eq!(summary.packets + missed, all);
    let losses = records.iter().filter_map(Record::loss).map(|loss| loss.count);
    assert_eq!(losses.sum::<u64>(), missed);
}

#[test]
fn the_capturing_host_changes_nothing_on_the_cable() {
    let without = builtin_by_id("si-2a").unwrap();
    assert_eq!(recorded(&without), recorded(&experiment(&["other_frames_per_s=0"])));
}

#[test]
fn a_capture_without_its_cable_is_refused_in_one_line() {
    for (id, changes, words) in [
        ("si-2a", &["capture_clock_us=10000", "link=ethernet-3"][..], "`link = \"ethernet-10\"`"),
        ("si-2a", &["capture_clock_us=10000", "topology=loopback"], "needs two hosts"),
        ("si-2a", &["capture_frame_us=1"], "`capture_frame_us` goes with `capture_clock_us`"),
        ("si-2a", &["capture_clock_us=0"], "expected `capture_clock_us` from 1"),
    ] {
        let error = builtin_by_id(id).unwrap().set_all(changes).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
    let written = write_captures(&builtin_by_id("si-2a").unwrap(), Path::new("none"));
    assert_eq!(written.unwrap(), []);
}
