//! A bundle held against itself.

mod common;

use common::{Folder, connection, meta, records};
use sockscope_record::{FlowId, Kind, LossCounts, Point, Record, marks};
use sockscope_trace::{BundleWriter, CheckReport, Meta, check};

fn checked(records: &[Record], missed: LossCounts) -> CheckReport {
    let folder = Folder::new();
    let mut writer = BundleWriter::create(folder.bundle(), meta()).unwrap();
    writer.connection(&connection(1)).unwrap();
    writer.append(records).unwrap();
    writer.finish(Meta { loss: missed, ..meta() }).unwrap();
    check(folder.bundle()).unwrap()
}

fn problems(records: &[Record], missed: LossCounts) -> Vec<String> {
    checked(records, missed).problems.iter().map(ToString::to_string).collect()
}

fn at(at_ns: u64, marks: u8) -> Record {
    Record { at_ns, flow: FlowId(2), kind: Kind::InterfaceDequeue, marks, ..Record::default() }
}

fn loss(point: Point, count: u64) -> Record {
    Record { at_ns: 9, kind: Kind::Loss, code: point.number(), detail: count, ..Record::default() }
}

fn missed(point: Point, count: u64) -> LossCounts {
    let mut missed = LossCounts::default();
    missed.add(Some(point), count);
    missed
}

#[test]
fn a_sound_bundle_is_counted() {
    let report = checked(&records(41), LossCounts::default());
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!((report.records, report.batches, report.connections), (41, 3, 1));
    assert_eq!(report.kinds[..3], [3, 2, 2]);
}

#[test]
fn small_steps_back_are_counted_and_large_ones_are_a_problem() {
    let report = checked(&[at(500, 0), at(400, 0), at(450, 0)], LossCounts::default());
    assert_eq!((report.time_steps_back, report.time_step_back_ns_max), (2, 100));
    assert!(report.is_sound());
    let large = problems(&[at(200_000_000, 0), at(5, 0), at(7, 0)], LossCounts::default());
    assert_eq!(
        large,
        ["records.arrows: time steps back 2 times, by up to 199999995 ns, \
          where 100000000 ns are expected"]
    );
}

#[test]
fn what_is_learnt_later_may_lie_anywhere_and_is_no_loss() {
    let folder = Folder::new();
    let late = [Kind::SendEnqueue, Kind::Wakeup, Kind::Run].map(|kind| Record { kind, ..at(5, 0) });
    let first = [at(200_000_000, 0)];
    common::write(&folder.bundle(), &[&first, &late], &[connection(1)]);
    assert_eq!(common::read(&folder.bundle()), ([&first[..], &late].concat(), vec![]));
    assert!(check(folder.bundle()).unwrap().is_sound());
}

/// As recorders before 2026-11-24 wrote them: what their ring had, before the hits of the same time.
#[test]
fn an_event_before_the_hits_of_its_time_makes_those_no_loss() {
    let folder = Folder::new();
    let event = Record { kind: Kind::StateChange, ..at(300_000_000, 0) };
    let rows = [event, at(5, 0), at(200_000_000, 0)];
    common::write(&folder.bundle(), &[&rows], &[connection(1)]);
    assert_eq!(common::read(&folder.bundle()), (rows.to_vec(), vec![]));
}

#[test]
fn a_derived_time_may_lie_anywhere() {
    let records = [at(200_000_000, 0), at(5, marks::DERIVED)];
    assert_eq!(problems(&records, LossCounts::default()), [""; 0]);
}

#[test]
fn records_of_connections_that_nobody_listed_are_named() {
    let flows = [2, 9, 8, 10, 3].map(|flow| Record { flow: FlowId(flow), ..Record::default() });
    assert_eq!(
        problems(&flows, LossCounts::default()),
        ["records.arrows: 3 records of 2 connections that flows.arrows does not have"]
    );
}

#[test]
fn loss_is_compared_point_by_point() {
    let records = [loss(Point::SendDequeue, 3), loss(Point::SendDequeue, 4)];
    assert_eq!(
        checked(&records, missed(Point::SendDequeue, 7)).missed,
        missed(Point::SendDequeue, 7)
    );
    assert_eq!(problems(&records, missed(Point::SendDequeue, 7)), [""; 0]);
    assert_eq!(
        problems(&records, missed(Point::SendEnqueue, 7)),
        ["loss differs: 7 missed by the loss records, 7 by meta.json, compared point by point: \
          of some it is unknown when they were missed"]
    );
}

#[test]
fn a_complete_bundle_has_as_many_records_as_it_says() {
    let folder = Folder::new();
    common::write(&folder.bundle(), &[&records(5), &records(5)], &[connection(1)]);
    let whole = common::bytes(&folder.bundle(), sockscope_trace::Part::Records);
    common::put(&folder.bundle(), sockscope_trace::Part::Records, &whole[..whole.len() - 1_500]);
    let problems = check(folder.bundle()).unwrap().problems;
    let last = problems.last().map(ToString::to_string).unwrap();
    assert_eq!(last, "records.arrows: 5 records found, 10 written by meta.json");
}

#[test]
fn times_that_run_backwards_leave_a_loss_of_unknown_size_at_every_point() {
    const MS: u64 = 1_000_000;
    let folder = Folder::new();
    let times = [0, 900, 400, 500, 1_000, 1_050].map(|ms| at(ms * MS, 0));
    common::write(&folder.bundle(), &[&times[..3], &times[3..]], &[connection(1)]);
    let (records, _) = common::read(&folder.bundle());
    let losses = records.iter().filter(|record| record.kind == Kind::Loss);
    let losses: Vec<_> =
        losses.map(|loss| (loss.code, loss.offset / MS, loss.at_ns / MS, loss.detail)).collect();
    let of = |since| Point::ALL.map(|point| (point.number(), since, 900, 0));
    assert_eq!(losses, [of(400), of(500)].concat());
    let report = check(folder.bundle()).unwrap();
    assert_eq!((report.time_steps_back, report.problems.len()), (2, 1), "{:?}", report.problems);
}
