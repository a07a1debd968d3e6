//! Datagrams, dropped and not.

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::background::{Background, free_port};
use crate::bundle::{
    Recorder, Recording, command, run_once, stdout_of, whole, words, workload, workload_recorded,
};
use crate::report::{bytes, count, flow, programs};
use crate::turn;

/// Datagrams that a reader of these tests takes, each before the next one comes.
const READS: u64 = 6;

#[test]
fn root_datagrams_that_the_receiver_drops_are_counted() {
    let Some(_turn) = turn::take() else { return };
    let recording = workload_recorded("udp_flood.py", &[]);
    let facts = recording.facts();
    let missing = count(&facts["server"]["missing"]);
    assert!(missing > 0, "nothing was dropped here: {facts}");
    let report = &recording.report;
    let mut found = report.found();
    // True of any program on a machine whose CPUs are all busy.
    found.remove("late-wakeup");
    assert_eq!(found, ["udp-receive-drop"].into(), "{}", report.summary());
    let finding = report.findings("udp-receive-drop")[0];
    assert_eq!(count(&finding["count"]), missing, "{finding}");
    assert_eq!(finding["side"], "server");
    assert_eq!(report.records_at("SendEnqueue"), count(&facts["client"]["datagrams"]));
    assert_eq!(report.records_at("ReceiveDequeue"), count(&facts["server"]["datagrams"]));
}

#[test]
fn root_reads_are_seen_although_the_first_datagram_comes_late() {
    let Some(_turn) = turn::take() else { return };
    let port = free_port().to_string();
    let recorder = Recorder::start(&["--port", &port], None);
    // Longer than the recorder keeps the hook of reads attached for nothing.
    thread::sleep(Duration::from_secs(2));
    let sent = command(&workload("udp_flood.py", &["--port", &port])).output();
    stdout_of(&sent.expect("it can be run"));
    // Not whole: what was read before the hook worked again is not known.
    let recording = recorder.stop();
    assert!(recording.report.records_at("ReceiveDequeue") > 0, "{}", recording.report.summary());
}

#[test]
fn root_a_reader_that_waits_when_recording_begins_is_seen_to_read() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| {
        let reader = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        let address = reader.local_addr().expect("it is bound");
        let reading = thread::spawn(move || {
            for _ in 0..READS {
                reader.recv(&mut [0; 100]).expect("it can be read");
            }
        });
        thread::sleep(Duration::from_millis(500));
        let recorder = Recorder::start(&["--port", &address.port().to_string()], None);
        let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        for _ in 0..READS {
            sender.send_to(&[0; 50], address).expect("it can be sent");
            thread::sleep(Duration::from_millis(100));
        }
        reading.join().expect("it read all");
        recorder.stop()
    });
    assert_eq!(recording.report.records_at("ReceiveDequeue"), READS);
    assert!(!recording.report.found().contains("slow-reader"), "{}", recording.report.summary());
}

#[test]
fn root_datagrams_with_room_to_wait_are_not_dropped() {
    let Some(_turn) = turn::take() else { return };
    let room = ["--datagrams", "50", "--sleep-ms", "0", "--reader-rcvbuf", "200000"];
    for host in ["127.0.0.1", "::1"] {
        let recording = workload_recorded("udp_flood.py", &[&room[..], &["--host", host]].concat());
        assert_eq!(recording.report.findings("udp-receive-drop"), Vec::<&Value>::new());
        let connection = &recording.report.connections()[0];
        assert_eq!(bytes(connection, "client"), 50 * 500);
        assert_eq!(flow(connection, "client")["segments"], 50);
    }
}

#[test]
fn root_datagrams_of_one_call_are_read_one_by_one_or_at_once() {
    let Some(_turn) = turn::take() else { return };
    for offload in [false, true] {
        let words: &[&str] = if offload { &["--receive-offload"] } else { &[] };
        let recording = whole(|| workload_recorded("udp_segments.py", words));
        let (facts, report) = (recording.facts(), &recording.report);
        let connection = &report.connections()[0];
        assert_eq!(bytes(connection, "client"), count(&facts["client"]["written_bytes"]));
        assert_eq!(flow(connection, "client")["segments"], facts["client"]["datagrams"]);
        assert_eq!(flow(connection, "client")["write_bytes"]["count"], facts["client"]["writes"]);
        assert_eq!(report.records_at("ReceiveDequeue"), count(&facts["server"]["reads"]));
    }
}

#[test]
fn root_iperf3_over_udp_says_the_same_bytes() {
    let Some(_turn) = turn::take() else { return };
    // Before its data each end sends one datagram of four bytes.
    const GREETING: u64 = 4;
    let recording = whole(udp_by_iperf3);
    let said: Value = serde_json::from_str(&recording.said).expect("iperf3 speaks JSON");
    let sent = count(&said["end"]["streams"][0]["udp"]["bytes"]);
    let report = &recording.report;
    let udp = report.connections().iter().find(|connection| connection["protocol"] == "udp");
    let udp = udp.unwrap_or_else(|| panic!("no datagrams: {}", report.summary()));
    assert_eq!(bytes(udp, "client"), sent + GREETING);
    assert_eq!(bytes(udp, "server"), GREETING);
    assert_eq!(programs(udp, "server"), ["iperf3"].into());
}

fn udp_by_iperf3() -> Recording {
    let port = free_port().to_string();
    let serve = words(&["iperf3", "--server", "--one-off", "--port", &port]);
    let number = port.parse().expect("a port");
    let _server = Background::start(&mut command(&serve), "-TERM").listening(number);
    let amount = ["--udp", "--bitrate", "50M", "--bytes", "2M", "--json"];
    let client = [&["iperf3", "--client", "127.0.0.1", "--port", &port], &amount[..]].concat();
    run_once(&[], &words(&client))
}
