//! A recorder that has no CPU for a while: positions, sums and maxima that it prints as known are true.

use std::thread;
use std::time::Duration;

use serde_json::Value;
use sockscope_record::{Kind, Point, Record};
use sockscope_trace::Bundle;

use super::sized;
use super::truth::{Transfer, Truth};
use crate::background::Background;
use crate::bundle::{Recorder, Recording, command, words};
use crate::report::{count, flow};
use crate::turn;

/// A record's time is read before or after the bytes move, and the account is kept between calls.
const SLACK_BYTES: u64 = 16 << 20;

#[test]
fn root_soak_a_recorder_that_was_stopped_states_nothing_untrue() {
    let Some(_turn) = turn::take() else { return };
    check_all(&[], sized(&[0.5, 2.5][..], &[0.5, 2.5, 10.0]));
}

#[test]
fn root_soak_a_recorder_beside_hogs_states_nothing_untrue() {
    let Some(_turn) = turn::take() else { return };
    let _hogs = [hog(), hog()];
    check_all(&["nice", "-n", "19"], sized(&[0.0, 2.5][..], &[0.0, 0.5, 2.5, 10.0]));
}

/// A program that takes all of a CPU.
fn hog() -> Background {
    let words = words(&["timeout", "3600", "sh", "-c", "while :; do :; done"]);
    Background::start(&mut command(&words), "-TERM")
}

fn check_all(by: &[&str], stops_s: &[f64]) {
    for stop_s in stops_s {
        for round in 0..sized(1, 20) {
            check(by, *stop_s, &format!("stopped for {stop_s} s, round {round}"));
        }
    }
}

/// Stops the recorder in the middle of a transfer and compares all figures with the transfer's account.
fn check(by: &[&str], stop_s: f64, what: &str) {
    let waiting = Transfer::listen();
    let recorder = Recorder::start_by(by, &["--port", &waiting.1.to_string()]);
    let transfer = Transfer::start(waiting);
    let port = transfer.port;
    thread::sleep(Duration::from_secs_f64(0.7));
    if stop_s > 0.0 {
        recorder.signal("-STOP");
        thread::sleep(Duration::from_secs_f64(stop_s));
        recorder.signal("-CONT");
    }
    thread::sleep(Duration::from_secs_f64(0.8));
    let truth = transfer.end();
    let recording = recorder.stop();
    let missed = recording.report.missed();
    println!(
        "{what}: {} bytes, {:.2} GB/s, {missed} records missed",
        truth.bytes(),
        truth.rate() / 1e9
    );
    let connection = recording.report.connection(port);
    let sent = flow(connection, "client");
    let number = sent["id"].as_u64().expect("a flow has a number");
    let known = Positions::of(&recording, number);
    known.check(&truth, what);
    check_figures(sent, &truth, what);
}

/// Records of one flow with bytes.
struct Positions {
    records: Vec<(Point, Record)>,
    /// Positions of what its sender sent again: of that the network may bring a copy late.
    resent: Vec<(u64, u64)>,
}

impl Positions {
    fn of(recording: &Recording, flow: u64) -> Self {
        let bundle = Bundle::open(recording.dir()).expect("the bundle opens");
        let mut records = bundle.records().expect("it has records");
        let mut positions = Self { records: Vec::new(), resent: Vec::new() };
        while let Some(batch) = records.next_batch().expect("whole batches") {
            let of_flow = batch.iter().filter(|record| u64::from(record.flow.0) == flow);
            for record in of_flow.filter(|record| record.len > 0) {
                if record.kind == Kind::Retransmit {
                    positions.resent.push((record.offset, record.end()));
                }
                positions.records.extend(record.kind.point().map(|point| (point, *record)));
            }
        }
        positions
    }

    /// Each position lies between the bytes read and the bytes written at its time.
    fn check(&self, truth: &Truth, what: &str) {
        assert!(!self.records.is_empty(), "{what}: nothing was recorded");
        let mut wrong = 0;
        let is_resent = |record: &Record| {
            let mut resent = self.resent.iter();
            resent.any(|range| range.0 <= record.offset && record.end() <= range.1)
        };
        for (point, record) in &self.records {
            let end = record.offset + u64::from(record.len);
            let most = match point {
                Point::ReceiveDequeue => truth.read_most(record.at_ns),
                _ => truth.written_most(record.at_ns),
            };
            let least = truth.read_least(record.at_ns);
            if end > most + SLACK_BYTES || end + SLACK_BYTES < least && !is_resent(record) {
                wrong += 1;
                if wrong < 5 {
                    println!("{what}: {point:?} ends at {end}, not {least} to {most}: {record:?}");
                }
            }
        }
        assert_eq!(wrong, 0, "{what}: wrong positions of {}", self.records.len());
    }
}

/// What the report gives as known of the flow is true, and each lower bound is one.
fn check_figures(sent: &Value, truth: &Truth, what: &str) {
    let bytes = count(&sent["bytes"]);
    let is_right = if sent["bytes_is_lower_bound"] == true {
        bytes <= truth.bytes()
    } else {
        bytes == truth.bytes()
    };
    assert!(is_right, "{what}: {bytes} of {} bytes: {sent}", truth.bytes());
    let reads = count(&sent["read_bytes"]["count"]);
    let is_guess = sent["reads_are_guessed"] == true || sent["read_count_is_lower_bound"] == true;
    assert!(is_guess || reads == truth.reads(), "{what}: {reads} of {} reads", truth.reads());
    if let Some(rate) = sent["throughput_bytes_per_s"].as_f64() {
        let share = rate / truth.rate();
        let least = if sent["throughput_is_lower_bound"] == true { 0.0 } else { 0.98 };
        assert!(share > least && share < 1.02, "{what}: rate {share} of the true one: {sent}");
    }
    let most = truth.under_way_most() + SLACK_BYTES;
    for (stage, values) in sent["stages"].as_object().expect("stages") {
        let longest = values["length_bytes"]["max"].as_u64().unwrap_or(0);
        assert!(longest <= most, "{what}: {stage}: {longest} B, of {most} at most: {values}");
        for amount in ["residue_bytes", "resident_bytes"] {
            let amount = values[amount].as_i64();
            assert!(amount.is_none_or(|bytes| bytes == 0), "{what}: {stage}: {values}");
        }
    }
}
