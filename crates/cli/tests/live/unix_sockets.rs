//! Unix sockets, with `--unix`.

use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::background::Background;
use crate::bundle::{Recorder, Recording, run_once, sockscope_says, whole};
use crate::report::count;
use crate::turn;

/// Records a Python program of these lines.
fn python(lines: &[&str]) -> Recording {
    let command = ["python3", "-B", "-c", &lines.join("\n")].map(str::to_owned);
    let recording = whole(|| run_once(&["--unix"], &command));
    assert_speaks_of_no_network(&recording);
    recording
}

/// A recording of Unix sockets alone has no segment, window or acknowledgment to speak of.
fn assert_speaks_of_no_network(recording: &Recording) {
    let dir = recording.dir().display().to_string();
    let texts = [&["report", &dir, "--full"][..], &["show", &dir]].map(sockscope_says);
    let finds = recording.report.all_findings().map(ToString::to_string);
    for text in texts.into_iter().chain(finds) {
        // The third line of the report has the command.
        let lines = text.lines().filter(|line| !line.starts_with("command"));
        let words = lines.flat_map(|line| line.split(|letter: char| !letter.is_alphanumeric()));
        for word in words.map(str::to_lowercase) {
            let is_of_tcp = NETWORK_WORDS.contains(&word.as_str());
            assert!(!is_of_tcp, "{word} in {text}");
        }
    }
}

const NETWORK_WORDS: [&str; 16] = [
    "segment",
    "segments",
    "window",
    "tcp",
    "ack",
    "acks",
    "mss",
    "nagle",
    "packet",
    "packets",
    "wire",
    "network",
    "acknowledgment",
    "acknowledgments",
    "retransmitted",
    "retransmission",
];

/// Bytes of both flows of the connection whose server has this name.
fn bytes(recording: &Recording, server: &str) -> [u64; 2] {
    let all = recording.report.connections();
    let found: Vec<&Value> = all.iter().filter(|one| one["server"] == server).collect();
    let [one] = found[..] else { panic!("{server}: {}", recording.report.summary()) };
    assert!(one["protocol"].as_str().is_some_and(|it| it.starts_with("unix")), "{one}");
    [0, 1].map(|flow| count(&one["flows"][flow]["bytes"]))
}

#[test]
fn root_every_byte_of_a_unix_socket_passes_its_three_points() {
    let Some(_turn) = turn::take() else { return };
    let recording = python(&[
        "import os, socket",
        "listener = socket.socket(socket.AF_UNIX); listener.bind('\\0sockscope'); listener.listen(1)",
        "client = socket.socket(socket.AF_UNIX); client.connect('\\0sockscope')",
        "client.send(b'early'); server, _ = listener.accept()",
        "assert server.recv(100, socket.MSG_PEEK) == b'early'",
        "assert server.recv(2) + server.recv(100) == b'early'",
        "socket.send_fds(client, [b'f'], [0]); socket.recv_fds(server, 10, 4)",
        "client.setblocking(False); sent = 0",
        "try:",
        "    while True: sent += client.send(b'z' * 50000)",
        "except BlockingIOError: pass",
        "got = 0",
        "while got < sent: got += len(server.recv(7777))",
        "client.shutdown(socket.SHUT_WR); assert server.recv(1) == b''",
        "server.sendmsg([b'abc', b'defg']); client.setblocking(True); assert client.recv(9) == b'abcdefg'",
        "print(sent + 6)",
    ]);
    let sent: u64 = recording.said.trim().parse().expect("the number of its bytes");
    assert_eq!(bytes(&recording, "@sockscope"), [sent, 7]);
    let one = &recording.report.connections()[0];
    for stage in ["receive_queue", "total"] {
        let residue = &one["flows"][0]["stages"][stage]["residue_bytes"];
        assert_eq!(residue, 0, "{stage} of {one}");
    }
}

/// A stream of 2 MB over a pair of sockets, whose reader does `after` each read.
fn stream(after: &str) -> Recording {
    let read = format!("while pair[1].recv(65536): {after}");
    let recording = python(&[
        "import os, socket, time",
        "pair = socket.socketpair(); child = os.fork()",
        "if not child: pair[1].close(); pair[0].sendall(b'x' * 2000000); os._exit(0)",
        "pair[0].close()",
        &read,
        "os.waitpid(child, 0)",
    ]);
    let [one] = recording.report.connections() else { panic!("{}", recording.report.summary()) };
    assert_eq!(count(&one["flows"][0]["bytes"]), 2_000_000, "{one}");
    recording
}

#[test]
fn root_a_slow_reader_of_a_unix_socket_is_found() {
    let Some(_turn) = turn::take() else { return };
    for sleep in ["time.sleep(0.01)", "time.sleep(0.004)"] {
        let recording = stream(sleep);
        let found = recording.report.findings("slow-reader");
        assert_eq!(found.len(), 1, "{}", recording.report.summary());
        assert_eq!(found[0]["side"], "server", "{}", found[0]);
        let summary = found[0]["summary"].as_str().unwrap_or_default();
        assert!(summary.ends_with(", which stopped the sender."), "{summary}");
    }
}

#[test]
fn root_a_prompt_reader_of_a_unix_socket_is_not() {
    let Some(_turn) = turn::take() else { return };
    let recording = stream("pass");
    assert!(recording.report.findings("slow-reader").is_empty(), "{}", recording.report.summary());
}

#[test]
fn root_the_bytes_of_redis_over_a_unix_socket_are_those_that_it_counts() {
    let Some(_turn) = turn::take() else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("redis").display().to_string();
    let mut server = Command::new("redis-server");
    server.args([
        "--port",
        "0",
        "--unixsocket",
        &path,
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
    ]);
    server.arg(folder.path());
    let _server = Background::start(&mut server, "-TERM");
    let lines = [
        "import socket, time",
        &format!("path = '{path}'"),
        "def ask(text):",
        "    for _ in range(200):",
        "        asked = socket.socket(socket.AF_UNIX)",
        "        try: asked.connect(path); break",
        "        except OSError: time.sleep(0.05)",
        "    asked.sendall(text); asked.shutdown(socket.SHUT_WR); got = b''",
        "    while True:",
        "        part = asked.recv(65536)",
        "        if not part: return got",
        "        got += part",
        "print(len(ask(b'PING\\r\\n' * 500 + b'SET key ' + b'v' * 9000 + b'\\r\\nGET key\\r\\n')))",
    ];
    let recording = python(&lines);
    let got: u64 = recording.said.trim().parse().expect("the number of its bytes");
    assert_eq!(bytes(&recording, &path), [500 * 6 + 8 + 9000 + 2 + 9, got]);
}

#[test]
fn root_without_the_option_no_unix_socket_is_recorded() {
    let Some(_turn) = turn::take() else { return };
    let lines = "import socket; a, b = socket.socketpair(); a.send(b'x'); b.recv(1)";
    let recording = run_once(&[], &["python3", "-c", lines].map(str::to_owned));
    assert!(recording.report.connections().is_empty(), "{}", recording.report.summary());
}

#[test]
fn root_each_message_of_a_seqpacket_socket_is_one_record() {
    let Some(_turn) = turn::take() else { return };
    let recording = python(&[
        "import socket",
        "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)",
        "a.send(b'x' * 100); a.sendmsg([b'y' * 150, b'y' * 50]); a.send(b'z')",
        "assert b.recv(50) == b'x' * 50 and len(b.recv(500, socket.MSG_PEEK)) == 200",
        "assert len(b.recv(500)) == 200 and b.recv(9) == b'z'",
        "b.send(b'answer'); a.recv(9); a.close(); assert b.recv(9) == b''",
    ]);
    let [one] = recording.report.connections() else { panic!("{}", recording.report.summary()) };
    assert_eq!(one["protocol"], "unix-seqpacket", "{one}");
    let flows = [0, 1]
        .map(|flow| (count(&one["flows"][flow]["bytes"]), count(&one["flows"][flow]["segments"])));
    assert_eq!(flows, [(301, 3), (6, 1)], "{one}");
    for flow in &one["flows"].as_array().expect("two flows")[..] {
        assert_eq!(flow["stages"]["total"]["residue_bytes"], 0, "{one}");
    }
    assert!(!one["closed_ns"].is_null(), "{one}");
}

/// Two clients and a server that answers each, all unconnected; and a message that the server leaves unread.
#[test]
fn root_datagrams_are_of_the_pair_of_sockets_that_exchanged_them() {
    let Some(_turn) = turn::take() else { return };
    let recording = python(&[
        "import socket",
        "def bound(name):",
        "    one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); one.bind('\\0sockscope-' + name); return one",
        "server, clients = bound('server'), [bound('a'), bound('b')]",
        "for round in range(20):",
        "    for number, one in enumerate(clients): one.sendto(b'q' * (number + 2), '\\0sockscope-server')",
        "    for one in clients: got, who = server.recvfrom(100); server.sendto(got * 3, who)",
        "    for one in clients: one.recv(100)",
        "last = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); last.connect('\\0sockscope-server')",
        "last.send(b'read'); last.send(b'unread'); server.recv(100); server.close()",
    ]);
    let mut seen: Vec<_> = recording
        .report
        .connections()
        .iter()
        .map(|one| {
            assert_eq!(
                (&one["protocol"], &one["server"]),
                (&"unix-datagram".into(), &"@sockscope-server".into())
            );
            let [asked, answered] = [0, 1].map(|flow| count(&one["flows"][flow]["bytes"]));
            let dropped = one["flows"][0]["drops"]
                .as_array()
                .map_or(0, |drops| drops.iter().map(|it| count(&it["bytes"])).sum());
            (asked, answered, dropped)
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [(10, 0, 6), (40, 120, 0), (60, 180, 0)], "{}", recording.report.summary());
}

/// Sockets of this process from before the recording, one with a message in its queue: its bytes are read and were
/// not sent.
#[test]
fn root_unix_sockets_from_before_the_recording_are_known_as_such() {
    let Some(_turn) = turn::take() else { return };
    let mut bytes = [0; 100];
    let messages = UnixDatagram::pair().expect("a pair of sockets");
    messages.0.send(b"early").expect("room");
    let mut stream = UnixStream::pair().expect("a pair of sockets");
    let pid = std::process::id().to_string();
    let recorder = Recorder::start(&["--unix", "--pid", &pid], None);
    messages.1.recv(&mut bytes).expect("a message");
    messages.0.send(b"late").expect("room");
    messages.1.recv(&mut bytes).expect("a message");
    stream.0.write_all(b"stream").expect("room");
    stream.1.read_exact(&mut bytes[..6]).expect("bytes");
    let mut new = UnixStream::pair().expect("a pair of sockets");
    new.0.write_all(b"new").expect("room");
    new.1.read_exact(&mut bytes[..3]).expect("bytes");
    let report = recorder.stop().report;
    let mut seen: Vec<_> = report
        .connections()
        .iter()
        .map(|one| {
            let protocol = one["protocol"].as_str().unwrap_or_default();
            assert_eq!(one["flows"][0]["stages"]["receive_queue"]["residue_bytes"], 0, "{one}");
            (protocol, count(&one["flows"][0]["bytes"]), one["preexisting"] == true)
        })
        .collect();
    seen.sort_unstable();
    let expected = [("unix", 3, false), ("unix", 6, true), ("unix-datagram", 4, true)];
    assert_eq!(seen, expected, "{}", report.summary());
}

/// Records a client and a server at the two ends of a pair of sockets, each a process of its own.
fn between(client: &[&str], server: &[&str]) -> Recording {
    let indented =
        |lines: &[&str]| lines.iter().map(|line| format!("    {line}")).collect::<Vec<_>>();
    let mut lines: Vec<String> = [
        "import os, socket, time",
        "a, b = socket.socketpair()",
        "def exactly(one, size):",
        "    while size:",
        "        part = one.recv(size)",
        "        if not part: os._exit(0)",
        "        size -= len(part)",
        "child = os.fork()",
        "if child:",
        "    b.close()",
    ]
    .map(str::to_owned)
    .to_vec();
    lines.extend(indented(client));
    lines.extend(
        ["    a.close(); os.waitpid(child, 0)", "else:", "    a.close()"].map(str::to_owned),
    );
    lines.extend(indented(server));
    python(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

fn has(recording: &Recording, finding: &str) -> bool {
    !recording.report.findings(finding).is_empty()
}

/// The same calls one by one, and 50 ahead of the answers.
#[test]
fn root_one_request_at_a_time_on_a_unix_socket_is_found() {
    let Some(_turn) = turn::take() else { return };
    let server = ["while True: exactly(b, 10); b.send(b'answer')"];
    let waits = between(&["for _ in range(3000): a.send(b'q' * 10); exactly(a, 6)"], &server);
    assert!(has(&waits, "stop-and-wait"), "{}", waits.report.summary());
    let ahead = between(&["for _ in range(60): a.send(b'q' * 500); exactly(a, 300)"], &server);
    assert!(!has(&ahead, "stop-and-wait"), "{}", ahead.report.summary());
}

/// The same message in four writes, and in one.
#[test]
fn root_a_message_of_a_unix_socket_in_several_writes_is_found() {
    let Some(_turn) = turn::take() else { return };
    let of = |write: &str| {
        let ask = format!("for _ in range(100): {write}; exactly(a, 6)");
        between(&[&ask], &["while True: exactly(b, 36); b.send(b'answer')"])
    };
    let split = of("[a.send(b'x' * 9) for _ in range(4)]");
    assert!(has(&split, "split-message"), "{}", split.report.summary());
    let whole = of("a.send(b'x' * 36)");
    assert!(!has(&whole, "split-message"), "{}", whole.report.summary());
}

/// A reader shares its CPU with three processes that never sleep, and yields to them; and one goes before all others.
#[test]
fn root_a_reader_of_a_unix_socket_without_a_cpu_is_found() {
    let Some(_turn) = turn::take() else { return };
    let client = [
        "os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})",
        "for _ in range(60): a.send(b'm' * 100); time.sleep(0.01)",
    ];
    let late_ns = |priority: &str| {
        let server = [
            "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
            "own = os.getpid()",
            "for _ in range(3):",
            "    if os.fork() == 0:",
            "        b.close()",
            "        while os.getppid() == own: sum(range(10000))",
            "        os._exit(0)",
            priority,
            "while b.recv(100): pass",
            "os._exit(0)",
        ];
        let recording = between(&client, &server);
        let found = recording.report.findings("late-wakeup");
        found.iter().map(|one| count(&one["cost_ns"])).sum::<u64>()
    };
    let after_ns = late_ns("os.nice(19)");
    let before_ns = late_ns("os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))");
    // Other load of the machine may make the second one late too.
    assert!(
        after_ns > 2 * before_ns,
        "late after others {after_ns} ns, before them {before_ns} ns"
    );
}

/// This process, which is not picked, sends over sockets of each type all the while.
#[test]
fn root_unix_sockets_that_are_not_picked_stay_out() {
    let Some(_turn) = turn::take() else { return };
    let (rounds, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let others = || {
        let mut bytes = [0; 100];
        let mut stream = UnixStream::pair().expect("a pair of sockets");
        let messages = UnixDatagram::pair().expect("a pair of sockets");
        // The bound ends it where the recording fails.
        while !is_over.load(Ordering::Relaxed) && rounds.load(Ordering::Relaxed) < 200_000 {
            stream.0.write_all(&bytes).expect("room");
            stream.1.read_exact(&mut bytes).expect("bytes");
            messages.0.send(&bytes).expect("room");
            messages.1.recv(&mut bytes).expect("a message");
            rounds.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_micros(100));
        }
    };
    let recording = thread::scope(|scope| {
        scope.spawn(others);
        let recording = python(&[
            "import socket, time",
            "a, b = socket.socketpair(); a.send(b'picked'); time.sleep(0.3); b.recv(6)",
        ]);
        is_over.store(true, Ordering::Relaxed);
        recording
    });
    assert!(rounds.into_inner() > 100, "the other sockets were in use");
    let [one] = recording.report.connections() else { panic!("{}", recording.report.summary()) };
    assert_eq!([0, 1].map(|flow| count(&one["flows"][flow]["bytes"])), [6, 0], "{one}");
}

/// A buffer for two chunks of a call, and one that is larger than the usual size.
#[test]
fn root_a_send_buffer_that_is_too_small_for_a_unix_socket_is_found() {
    let Some(_turn) = turn::take() else { return };
    let of = |bytes: u32| {
        let set = format!("a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, {bytes})");
        between(&[&set, "a.sendall(b'x' * 4000000)"], &["while b.recv(65536): pass"])
    };
    let small = of(4096);
    assert!(has(&small, "send-buffer-limited"), "{}", small.report.summary());
    let large = of(200_000);
    assert!(!has(&large, "send-buffer-limited"), "{}", large.report.summary());
}
