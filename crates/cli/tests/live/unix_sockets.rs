//! Streams between Unix sockets, with `--unix`.

use std::process::Command;

use serde_json::Value;

use crate::background::Background;
use crate::bundle::{Recording, run_once, whole};
use crate::report::count;
use crate::turn;

/// Records a Python program of these lines.
fn python(lines: &[&str]) -> Recording {
    let command = ["python3", "-B", "-c", &lines.join("\n")].map(str::to_owned);
    whole(|| run_once(&["--unix"], &command))
}

/// Bytes of both flows of the connection whose server has this name.
fn bytes(recording: &Recording, server: &str) -> [u64; 2] {
    let all = recording.report.connections();
    let found: Vec<&Value> = all.iter().filter(|one| one["server"] == server).collect();
    let [one] = found[..] else { panic!("{server}: {}", recording.report.summary()) };
    assert_eq!(one["protocol"], "unix", "{one}");
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
    let recording = stream("time.sleep(0.01)");
    let found = recording.report.findings("slow-reader");
    assert_eq!(found.len(), 1, "{}", recording.report.summary());
    assert_eq!(found[0]["side"], "server", "{}", found[0]);
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
