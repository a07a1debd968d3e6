//! `sockscope-convert convert` on captures of tcpdump, against what `sockscope record` saw of the same traffic.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn convert(file: &Path, more: &[&str], dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-convert"));
    command.arg("convert").arg(file).args(more).arg("-o").arg(dir).output().expect("it starts")
}

/// A program of the same build.
fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_sockscope-convert")).with_file_name(name)
}

/// Whether the programs and rights for a live test are there; if not, the test counts as skipped.
fn may_run(test: &str) -> bool {
    let missing = |reason: String| {
        let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
        assert!(!required, "{reason}");
        // Of a test that passes libtest shows what is written past its capture.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
        false
    };
    for name in ["sockscope", "sockscope-lab"] {
        if !program(name).exists() {
            return missing(format!("{name} is not built: cargo build --workspace"));
        }
    }
    if Command::new("tcpdump").arg("--version").output().is_err() {
        return missing("tcpdump is not installed: make setup".to_owned());
    }
    let doctor = Command::new(program("sockscope")).arg("doctor").output().expect("it starts");
    if !doctor.status.success() {
        return missing("this process may not record (sockscope doctor)".to_owned());
    }
    true
}

/// Connections of a bundle's report.
fn connections(bundle: &Path) -> Vec<Value> {
    let mut command = Command::new(program("sockscope"));
    let output = command.arg("report").arg(bundle).args(["--format", "json"]).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    report["connections"].as_array().expect("the schema has connections").clone()
}

/// The octets of the two flows of the one connection, and those sent again.
fn octets(connections: &[Value]) -> Vec<(u64, u64)> {
    let [one] = connections else { panic!("{} connections", connections.len()) };
    let flows = one["flows"].as_array().expect("the schema has flows");
    let number = |flow: &Value, name: &str| flow[name].as_u64().expect("it is a count");
    flows.iter().map(|it| (number(it, "bytes"), number(it, "retransmitted_bytes"))).collect()
}

/// The count of a finding about the data of an end.
fn count(connections: &[Value], finding: &str, from: &str) -> u64 {
    let findings = connections.iter().flat_map(|it| it["findings"].as_array().expect("a list"));
    let these = findings.filter(|it| it["id"] == finding && it["side"] == from);
    these.map(|it| it["count"].as_u64().expect("it is a count")).sum()
}

/// Writes a bundle as a capture file of the client's host.
fn export(bundle: &Path, file: &Path) -> PathBuf {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-convert"));
    command.arg("export").arg(bundle).args(["--to", "pcapng", "-o"]).arg(file);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    file.to_owned()
}

/// Lines of tshark for the packets that a filter admits.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-Y", filter, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark is installed by make setup");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

/// Sequence numbers that an analyser takes for sent again, in order.
fn sent_again(file: &Path) -> Vec<String> {
    let filter = "tcp.analysis.retransmission or tcp.analysis.fast_retransmission or \
                  tcp.analysis.out_of_order or tcp.analysis.spurious_retransmission";
    tshark(file, &format!("tcp.srcport != 5997 and ({filter})"), &["tcp.seq"])
}

/// Whether two counts of the same differ by a tenth at most, or by two.
fn are_near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= (one.max(other) / 10).max(2)
}

/// Sends 300 small requests and then a million octets, and reads the answers.
const CLIENT: &str = r#"
import socket, sys
server = socket.create_connection((sys.argv[1], 5997))
for _ in range(300):
    server.sendall(b"q" * 100)
    answer = b""
    while len(answer) < 200:
        answer += server.recv(4096)
server.sendall(b"x" * 1_000_000)
server.shutdown(socket.SHUT_WR)
while server.recv(4096):
    pass
"#;

const SERVER: &str = r#"
import socket
listener = socket.create_server(("0.0.0.0", 5997))
peer, _ = listener.accept()
received = 0
while True:
    octets = peer.recv(65536)
    if not octets:
        break
    received += len(octets)
    if received <= 30_000:
        peer.sendall(b"a" * (2 * len(octets)))
"#;

/// A folder with the two programs.
fn with_programs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    for (name, text) in [("client.py", CLIENT), ("server.py", SERVER)] {
        std::fs::write(folder.path().join(name), text).expect("the folder is ours");
    }
    folder
}

/// Runs a recording into `live` that also captures: connections of both, and the messages.
fn recorded(command: &mut Command, folder: &Path, file: &str) -> (Vec<Value>, Vec<Value>, String) {
    let said = text(&command.output().expect("it starts").stderr);
    let [live, capture] = ["live", "capture"].map(|name| folder.join(name));
    assert!(live.exists(), "{said}");
    let output = convert(&folder.join(file), &[], &capture);
    assert!(output.status.success(), "{}{said}", text(&output.stderr));
    (connections(&live), connections(&capture), said)
}

/// A capture at the client's host of a connection over a wire that loses packets, and the recording of both ends.
#[test]
fn root_a_capture_has_the_octets_and_retransmissions_of_the_recording() {
    if !may_run("root_a_capture_has_the_octets_and_retransmissions_of_the_recording") {
        return;
    }
    let folder = with_programs();
    let path = |name: &str| folder.path().join(name);
    let at = folder.path().display();
    // tcpdump says that it listens; its packets are in the file when it has ended.
    let client = format!(
        "tcpdump -U -B 16384 -i any -s 128 -w {at}/client.pcap tcp port 5997 2>{at}/said & \
         until grep -q listening {at}/said; do sleep 0.1; done; \
         python3 {at}/client.py 198.18.0.2; sleep 1; kill $!; wait $!"
    );
    let mut command = Command::new(program("sockscope"));
    command.arg("record").arg("-o").arg(path("live")).arg("--").arg(program("sockscope-lab"));
    command.args(["lab", "link", "--delay", "2ms", "--rate", "50mbit", "--loss", "3%"]);
    command.args(["--server", &format!("python3 {at}/server.py"), "--", "sh", "-c", &client]);
    let (live, capture, said) = recorded(&mut command, folder.path(), "client.pcap");
    let ([here, there], [live_here, live_there]) =
        (octets(&capture)[..].try_into().unwrap(), octets(&live)[..].try_into().unwrap());
    assert_eq!((here.0, there.0), (1_030_000, live_there.0), "{said}");
    assert_eq!(here.0, live_here.0, "{said}");
    // The kernel may join two short segments when it sends them again, and a busy machine misses records.
    assert!(are_near(here.1, live_here.1), "{here:?} {live_here:?} {said}");
    // The first copy of such a segment of the server was lost before the capture, and often left no gap.
    assert!(there.1 <= live_there.1, "{there:?} {live_there:?} {said}");
    let [exported, captured] = [export(&path("live"), &path("live.pcapng")), path("client.pcap")]
        .map(|file| sent_again(&file).len() as u64);
    assert!(are_near(exported, captured), "{exported} {captured} {said}");
    let [captured, recorded] = [&capture, &live].map(|it| count(it, "retransmission", "client"));
    assert!(are_near(captured, recorded) && captured > 0, "{captured} of {recorded} {said}");
}

#[test]
fn root_a_capture_of_loopback_has_the_octets_of_the_recording() {
    if !may_run("root_a_capture_of_loopback_has_the_octets_of_the_recording") {
        return;
    }
    let folder = with_programs();
    let path = |name: &str| folder.path().join(name);
    let at = folder.path().display();
    let script = format!(
        "tcpdump -U -B 16384 -i lo -s 128 -w {at}/lo.pcap tcp port 5997 2>{at}/said & tcpdump=$!; \
         until grep -q listening {at}/said; do sleep 0.1; done; \
         python3 {at}/server.py & server=$!; \
         until ss -ltn | grep -q :5997; do sleep 0.1; done; \
         python3 {at}/client.py 127.0.0.1; wait $server; sleep 1; kill $tcpdump; wait $tcpdump"
    );
    let mut command = Command::new(program("sockscope-lab"));
    // A namespace of its own: another program may use the port.
    command.args(["lab", "link", "--topology", "loopback", "--"]).arg(program("sockscope"));
    command.arg("record").arg("-o").arg(path("live")).args(["--", "sh", "-c", &script]);
    let (live, capture, said) = recorded(&mut command, folder.path(), "lo.pcap");
    let bytes = |of: &[Value]| octets(of).into_iter().map(|(all, _)| all).collect::<Vec<_>>();
    assert_eq!(bytes(&capture), bytes(&live), "{said}");
    assert_eq!(octets(&capture)[0], (1_030_000, 0), "{said}");
    // What analysers see in the export of either end: the same packets as in the capture, none sent twice.
    export(&path("live"), &path("live.pcapng"));
    for name in ["live.pcapng", "live-server.pcapng"] {
        let file = path(name);
        assert_eq!(sent_again(&file), Vec::<String>::new(), "{name}");
        let octets = |file: &Path| -> u64 {
            let lens = tshark(file, "tcp", &["tcp.len"]);
            lens.iter().map(|len| len.parse::<u64>().expect("it is a number")).sum()
        };
        assert_eq!(octets(&file), octets(&path("lo.pcap")), "{name}");
        let comments = tshark(&file, "frame.comment contains \"pid\"", &["frame.number"]);
        assert_eq!(comments, ["1"], "{name}");
        for tool in [["capinfos", "-c"], ["tcpdump", "-nr"]] {
            let output = Command::new(tool[0]).arg(tool[1]).arg(&file).output().expect("it starts");
            assert!(output.status.success(), "{tool:?}: {}", text(&output.stderr));
        }
        let mut editcap = Command::new("editcap");
        let output = editcap.args(["-F", "pcap"]).arg(&file).arg(path("plain.pcap")).output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

#[test]
fn a_file_that_is_no_capture_is_one_line_and_leaves_an_older_bundle() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let (file, dir) = (folder.path().join("x.pcap"), folder.path().join("x"));
    std::fs::write(&file, "no capture\n").expect("the folder is ours");
    let seed = "../../fuzz/seeds/convert_capture/ng.pcapng";
    assert!(convert(&Path::new(env!("CARGO_MANIFEST_DIR")).join(seed), &[], &dir).status.success());
    let before = std::fs::read(dir.join("records.arrows")).expect("it is there");
    let output = convert(&file, &[], &dir);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("x.pcap: expected a pcap or pcapng file"), "{said}");
    assert_eq!(std::fs::read(dir.join("records.arrows")).expect("it is there"), before);
    let output = convert(&folder.path().join("none"), &[], &dir);
    assert!(text(&output.stderr).contains("cannot read "), "{}", text(&output.stderr));
}

/// The seeds of the fuzz target are captures of each form: they have the same first six packets.
#[test]
fn the_same_packets_are_read_from_every_form_of_file_also_by_gzip() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/convert_capture");
    let compressed = folder.path().join("ng.pcapng.gz");
    let file = std::fs::File::create(&compressed).expect("the folder is ours");
    let gzip = Command::new("gzip").arg("-c").arg(seeds.join("ng.pcapng")).stdout(file).status();
    assert!(gzip.expect("gzip").success());
    let files = ["ethernet.pcap", "cooked.pcap", "ng.pcapng"].map(|name| seeds.join(name));
    for file in files.iter().chain([&compressed]) {
        let dir = folder.path().join("bundle");
        let output = convert(file, &[], &dir);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        let is_seen = said.contains("6 packets without a direction")
            || said.contains("sent 0 packets (point 4) and received 6 packets (point 5)");
        assert!(is_seen, "{}: {said}", file.display());
    }
}

/// Clients and servers of the corpus, by port: requests in two writes, a reader that is late, calls that wait for each
/// answer, a paced stream, and datagrams with an echo.
const CORPUS: &str = r#"
import socket, sys, threading, time
HOST = "198.18.0.2"

def all_of(sock, octets):
    while octets > 0:
        octets -= len(sock.recv(octets))

def calls(port, parts, answer, count):
    def client():
        with socket.create_connection((HOST, port)) as sock:
            for _ in range(count):
                for part in parts:
                    sock.send(b"q" * part)
                all_of(sock, answer)
    def server(listener):
        sock, _ = listener.accept()
        for _ in range(count):
            all_of(sock, sum(parts))
            sock.sendall(b"a" * answer)
    return client, server

def stream(port, octets, rate, late_s):
    def client():
        with socket.create_connection((HOST, port)) as sock:
            if rate:
                sock.setsockopt(socket.SOL_SOCKET, 47, rate)
            sock.sendall(b"s" * octets)
            sock.shutdown(socket.SHUT_WR)
            sock.recv(1)
    def server(listener):
        sock, _ = listener.accept()
        time.sleep(late_s)
        while sock.recv(8192):
            time.sleep(late_s / 10)
    return client, server

def datagrams(port, count):
    def client():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((HOST, port))
            for _ in range(count):
                sock.send(b"d" * 300)
                sock.recv(300)
    def server(sock):
        for _ in range(count):
            octets, peer = sock.recvfrom(300)
            sock.sendto(octets, peer)
    return client, server

WORKLOADS = {
    5991: calls(5991, [10, 10], 50, 20),
    5992: stream(5992, 150_000, 0, 0.3),
    5993: calls(5993, [60], 300, 60),
    5994: stream(5994, 100_000, 200_000, 0),
    5995: datagrams(5995, 40),
}
if sys.argv[1] == "client":
    for client, _ in WORKLOADS.values():
        client()
else:
    servers = []
    for port, (_, server) in WORKLOADS.items():
        kind = socket.SOCK_DGRAM if port == 5995 else socket.SOCK_STREAM
        sock = socket.socket(socket.AF_INET, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if port == 5992:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        sock.bind((HOST, port))
        if kind == socket.SOCK_STREAM:
            sock.listen()
        servers.append(threading.Thread(target=server, args=(sock,)))
    for server in servers:
        server.start()
    for server in servers:
        server.join()
"#;

/// The connections of a corpus by the server's port.
fn by_port(bundle: &Path) -> std::collections::BTreeMap<u16, Value> {
    let of = |connection: Value| {
        let server = connection["server"].as_str().expect("an address").to_owned();
        let port = server.rsplit(':').next().expect("a port").parse().expect("a number");
        (port, connection)
    };
    connections(bundle).into_iter().map(of).collect()
}

/// A time of a stage of the client's data, nanoseconds.
fn stage_ns(connection: &Value, stage: &str, name: &str, statistic: &str) -> Option<u64> {
    connection["flows"][0]["stages"][stage][name][statistic].as_u64()
}

/// The share of a place in the ledger of the client's data.
fn share(connection: &Value, place: &str) -> f64 {
    connection["flows"][0]["ledger"][place].as_f64().expect("a share")
}

/// The least smoothed round-trip time that TCP reported of the client's data, nanoseconds.
fn least_rtt_ns(bundle: &Path, connection: &Value) -> u64 {
    let flow = connection["flows"][0]["id"].to_string();
    let mut command = Command::new(program("sockscope"));
    let output = command.arg("show").arg(bundle).args(["--flow", &flow]).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let times =
        said.split("srtt ").skip(1).filter_map(|rest| rest.split("us").next()?.parse().ok());
    let times: Vec<u64> = times.filter(|us| *us > 0).collect();
    1_000 * times.into_iter().min().expect("TCP reports its round-trip time")
}

/// Captures at both hosts of a wire of 5 ms each way, against the recording: each row of the table of
/// docs/reference/captures.md.
#[test]
fn root_captures_agree_with_the_recording_within_the_limits_of_a_capture() {
    if !may_run("root_captures_agree_with_the_recording_within_the_limits_of_a_capture") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = |name: &str| folder.path().join(name);
    let at = folder.path().display();
    std::fs::write(path("corpus.py"), CORPUS).expect("the folder is ours");
    let captured = |side: &str| {
        format!(
            "tcpdump -U -B 16384 -i any -s 128 -w {at}/{side}.pcap 2>{at}/{side}.said & \
             until grep -q listening {at}/{side}.said; do sleep 0.1; done; \
             python3 {at}/corpus.py {side}"
        )
    };
    let client = format!("{}; sleep 1; kill $!; wait $!", captured("client"));
    std::fs::write(path("server.sh"), captured("server")).expect("the folder is ours");
    let mut command = Command::new(program("sockscope"));
    command.arg("record").arg("-o").arg(path("live")).arg("--").arg(program("sockscope-lab"));
    command.args(["lab", "link", "--delay", "5ms", "--rate", "100mbit", "--server"]);
    command.arg(format!("sh {at}/server.sh")).args(["--", "sh", "-c", &client]);
    let said = text(&command.output().expect("it starts").stderr);
    for side in ["client", "server"] {
        let output = convert(&path(&format!("{side}.pcap")), &[], &path(side));
        assert!(output.status.success(), "{}{said}", text(&output.stderr));
    }
    let mut merge = Command::new(program("sockscope"));
    merge.arg("merge").arg(path("client")).arg(path("server")).arg("-o").arg(path("both"));
    let output = merge.output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let [live, at_client, at_server, both] =
        ["live", "client", "server", "both"].map(|name| by_port(&path(name)));
    let ports: Vec<u16> = live.keys().copied().collect();
    assert_eq!(ports, [5991, 5992, 5993, 5994, 5995], "{said}");
    for capture in [&at_client, &at_server, &both] {
        assert_eq!(capture.keys().copied().collect::<Vec<_>>(), ports, "{said}");
        for (port, connection) in capture {
            let of = |connection: &Value| octets(std::slice::from_ref(connection));
            let (captured, recorded) = (of(connection), of(&live[port]));
            // Exact: octets, and what was sent again where the sender's host was captured.
            for (captured, recorded) in captured.iter().zip(&recorded) {
                assert_eq!(captured.0, recorded.0, "{port}");
                assert!(are_near(captured.1, recorded.1), "{port}: {captured:?} {recorded:?}");
            }
            // Unknown: queues of sockets.
            for place in ["send_queue.nagle", "send_queue.rwnd", "receive_queue.app"] {
                assert_eq!(share(connection, place), 0.0, "{port} {place}");
            }
            let found = |finding: &str, of: &Value, side: &str| {
                count(std::slice::from_ref(of), finding, side)
            };
            let here = |finding: &str, side: &str| found(finding, connection, side);
            let there = |finding: &str, side: &str| found(finding, &live[port], side);
            let findings = connection["findings"].as_array().expect("a list").len();
            match port {
                5991 => {
                    let stalls = there("nagle-delayed-ack", "client");
                    let waits = here("delayed-ack-wait", "client");
                    assert!(stalls > 10 && are_near(waits, stalls), "{waits} of {stalls}");
                    assert!(here("split-message", "client") > 10 && findings == 2, "{connection}");
                }
                5992 => {
                    assert!(there("slow-reader", "server") > 0, "{said}");
                    assert!(here("slow-reader", "server") > 0 && findings == 1, "{connection}");
                }
                5993 => {
                    let calls = there("stop-and-wait", "client");
                    let captured = here("stop-and-wait", "client");
                    assert!(
                        calls > 50 && are_near(captured, calls),
                        "{captured} of {calls}: {connection}"
                    );
                    assert_eq!(findings, 1, "{connection}");
                }
                // What holds a paced stream is in no packet; datagrams have nothing to find.
                _ => assert_eq!(findings, 0, "{connection}"),
            }
        }
    }
    for port in [5991, 5992, 5993, 5994] {
        let wire = |of: &Value, name, statistic| stage_ns(of, "wire", name, statistic);
        // A bound: the time to the acknowledgment at the sender's host. Its least is a round trip.
        let recorded = wire(&live[&port], "delay_ns", "max").expect("both ends were recorded");
        let bound =
            wire(&at_client[&port], "delay_at_most_ns", "min").expect("data was acknowledged");
        assert!(bound >= recorded.min(5_000_000), "{port}: {bound} {recorded}");
        let rtt_ns = least_rtt_ns(&path("live"), &live[&port]);
        assert!(bound <= 2 * rtt_ns && rtt_ns <= 2 * bound, "{port}: {bound} {rtt_ns}");
        // One capture does not see both ends of the wire, two do.
        assert_eq!(wire(&at_server[&port], "delay_ns", "p50"), None);
        let [captured, recorded] = [&both, &live]
            .map(|of| wire(&of[&port], "delay_ns", "p50").expect("both ends are there"));
        assert!(captured <= 2 * recorded && recorded <= 2 * captured, "{captured} {recorded}");
        assert!(share(&both[&port], "wire") > 0.0 && share(&at_client[&port], "wire") > 0.0);
        let arrived = stage_ns(&both[&port], "tcp_input", "delay_at_most_ns", "p50");
        // The server of calls answers at once: its own host bounds the time in it closer than the other one.
        assert!(arrived.is_some_and(|ns| port != 5993 || ns < bound), "{port}: {arrived:?}");
    }
}
