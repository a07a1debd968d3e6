//! A recorder that does not run for a while: records are missed, and no position is wrong.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use sockscope_probe::monotonic_ns;
use sockscope_record::{Direction, Point, Record, counted};
use sockscope_trace::Bundle;

use crate::background::free_port;
use crate::bundle::{Recorder, command, facts, stdout_of, workload};
use crate::turn;

const WRITE_BYTES: usize = 1 << 20;
/// More than sequence numbers can distinguish, and no multiple of 4 GiB.
const GAPS: [u64; 3] = [3 << 30, 5 << 30, 300 << 20];
/// Bytes that are written while the recorder runs, before and after each gap.
const KEPT_BYTES: u64 = 64 << 20;
/// More than all buffers between the writer and the reader hold.
const UNDER_WAY_MAX: u64 = 128 << 20;

/// How much the program had written at a time.
type Sample = (u64, u64);

#[test]
fn root_no_position_is_wrong_after_the_recorder_stood_still() {
    let Some(_turn) = turn::take() else { return };
    let port = free_port();
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let recorder = Recorder::start(&["--port", &port.to_string()], None);
    let reading = thread::spawn(move || read_all(&listener));
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let mut samples = vec![(monotonic_ns(), 0)];
    write(&mut socket, KEPT_BYTES, &mut samples);
    for gap in GAPS {
        recorder.signal("-STOP");
        write(&mut socket, gap, &mut samples);
        // The lists are full: until the recorder has made room, each write is missed.
        recorder.go_on();
        write(&mut socket, KEPT_BYTES, &mut samples);
    }
    drop(socket);
    let sent = reading.join().expect("it read to the end");
    let recording = recorder.stop();
    assert_eq!(samples.last().expect("it wrote").1, sent);
    assert!(recording.report.gaps().iter().any(|gap| gap.contains("missed")), "nothing was missed");
    let last = check_positions(&recording.dir(), &samples);
    assert_eq!(last, [sent; 8], "where the stream ends, by point");
}

/// Events have a ring of their own: what they say does not stand before the hits of that time.
#[test]
fn root_rows_are_in_order_after_the_recorder_stood_still() {
    let Some(_turn) = turn::take() else { return };
    let port = free_port();
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let recorder = Recorder::start(&["--port", &port.to_string()], None);
    recorder.signal("-STOP");
    for _ in 0..4 {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        socket.write_all(b"bytes").expect("there is room");
        drop(listener.accept().expect("it connects"));
        thread::sleep(Duration::from_millis(60));
    }
    recorder.go_on();
    let recording = recorder.stop();
    let checked = sockscope_trace::check(recording.dir()).expect("it was recorded");
    assert!(checked.is_sound(), "{:?}", checked.problems);
    assert_eq!(checked.connections, 4);
}

/// Data is announced in the midst of other announcements on its CPU: for these the kernel runs no probe, and says
/// how often. Each of them is missed at point 7, and nowhere else.
#[test]
fn root_hits_of_probes_that_interrupted_themselves_are_missed_where_they_were() {
    let Some(_turn) = turn::take() else { return };
    let port = free_port().to_string();
    let recorder = Recorder::start(&["--port", &port], None);
    let said = command(&workload("paced.py", &["--port", &port])).output();
    let said = facts(&stdout_of(&said.expect("it can be run")));
    assert_eq!(said["written_bytes"], said["read_bytes"]);
    let misses = recursion_misses(&recorder);
    assert!(misses > 0, "the workload interrupted no probe");
    let recording = recorder.stop();
    let bundle = Bundle::open(recording.dir()).expect("it was recorded");
    let meta = bundle.meta();
    let note = format!("{} of a probe that was running on the same CPU", counted(misses, "hit"));
    assert!(meta.notes.iter().any(|text| text.contains(&note)), "{note}: {:?}", meta.notes);
    assert_eq!(meta.loss.points[Point::ReceiveEnqueue.index()], misses, "{:?}", meta.loss);
    assert!(recording.report.missed() >= misses);
    let mut told = 0;
    let mut reader = bundle.records().expect("it has records");
    while let Some(batch) = reader.next_batch().expect("they can be read") {
        let losses = batch.iter().filter_map(Record::loss);
        let here = losses.filter(|loss| loss.point() == Some(Point::ReceiveEnqueue));
        told += here.map(|loss| loss.count).sum::<u64>();
    }
    assert_eq!(told, misses, "what the analysis reads");
}

/// How often the kernel did not run programs of the recorder, as they were under way on that CPU.
fn recursion_misses(recorder: &Recorder) -> u64 {
    let fds = std::fs::read_dir(format!("/proc/{}/fdinfo", recorder.pid())).expect("it runs");
    let texts = fds.filter_map(|fd| std::fs::read_to_string(fd.ok()?.path()).ok());
    let misses = texts.filter_map(|text| {
        let count = text.lines().find_map(|line| line.strip_prefix("recursion_misses:"));
        count?.trim().parse::<u64>().ok()
    });
    misses.sum()
}

/// Checks each position against what was written by then; returns the last one at each point.
fn check_positions(dir: &std::path::Path, samples: &[Sample]) -> [u64; 8] {
    let bundle = Bundle::open(dir).expect("it was recorded");
    let mut reader = bundle.records().expect("it has records");
    let mut last = [0; 8];
    while let Some(batch) = reader.next_batch().expect("they can be read") {
        for record in batch {
            let Some(point) = record.point().filter(|_| record.len > 0) else { continue };
            if record.flow.direction() != Direction::FromClient {
                continue;
            }
            let next = samples.partition_point(|sample| sample.0 <= record.at_ns);
            let before = samples[next.saturating_sub(1)].1;
            let most = samples[next.min(samples.len() - 1)].1 + WRITE_BYTES as u64;
            let end = record.end();
            assert!(
                end <= most && end + UNDER_WAY_MAX >= before,
                "between {before} and {most} bytes were written by {record:?}"
            );
            last[point.index()] = end.max(last[point.index()]);
        }
    }
    assert_eq!(last.len(), Point::ALL.len());
    last
}

fn write(socket: &mut TcpStream, bytes: u64, samples: &mut Vec<Sample>) {
    let chunk = vec![0; WRITE_BYTES];
    let (_, start) = *samples.last().expect("it begins with one");
    let mut written = start;
    while written < start + bytes {
        written += socket.write(&chunk).expect("the reader reads") as u64;
        samples.push((monotonic_ns(), written));
    }
}

fn read_all(listener: &TcpListener) -> u64 {
    let (mut socket, _) = listener.accept().expect("it connects");
    let (mut chunk, mut total) = (vec![0; WRITE_BYTES], 0);
    loop {
        match socket.read(&mut chunk).expect("the writer ends it") {
            0 => return total,
            read => total += read as u64,
        }
    }
}
