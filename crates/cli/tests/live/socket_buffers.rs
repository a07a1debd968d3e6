//! Buffers of datagram sockets.

use std::fs;

use serde_json::{Value, json};

use crate::bundle::{run_once, whole, words};
use crate::turn;

/// A reader with a small buffer and two senders, each of which comes after a socket that asked for a
/// buffer, sent nothing, and most likely had the address in memory that the sender then has.
const PROGRAM: &str = "
import socket
def datagram_socket():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
reader = datagram_socket()
reader.bind(('127.0.0.1', 0))
reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
for _ in range(2):
    other = datagram_socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 5000)
    other.close()
    sender = datagram_socket()
    sender.connect(reader.getsockname())
    sender.send(b'x' * 100)
    reader.recv(1000)
    sender.close()
";

fn default_of(buffer: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/sys/net/core/{buffer}_default"));
    text.expect("Linux has it").trim().parse().expect("a number")
}

fn buffer(side: &str, buffer: &str, asked: Option<u64>, is_set: bool, granted: u64) -> Value {
    json!({
        "side": side, "buffer": buffer, "asked_bytes": asked, "set_by_program": is_set,
        "granted_bytes": granted,
    })
}

#[test]
fn root_datagram_sockets_have_buffers_and_what_was_asked_for_is_told_of_the_first_peer() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| run_once(&[], &words(&["python3", "-c", PROGRAM])));
    let expected = |asked| {
        [
            buffer("client", "send", None, false, default_of("wmem")),
            buffer("client", "receive", None, false, default_of("rmem")),
            buffer("server", "send", None, false, default_of("wmem")),
            buffer("server", "receive", asked, true, 16_384),
        ]
    };
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 2, "{}", recording.report.summary());
    for (connection, asked) in connections.iter().zip([Some(8_192), None]) {
        assert_eq!(connection["buffers"], json!(expected(asked)));
    }
}

/// What a socket without ports sends to one with.
const RAW: &str = "
import socket, struct
reader = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
reader.bind(('127.0.0.1', 0))
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
header = struct.pack('!HHHH', 9, reader.getsockname()[1], 108, 0)
raw.sendto(header + b'x' * 100, ('127.0.0.1', 0))
reader.recv(1000)
";

#[test]
fn root_a_raw_socket_has_no_buffers_of_the_datagrams_that_it_makes() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| run_once(&[], &words(&["python3", "-c", RAW])));
    let expected = [
        buffer("server", "send", None, false, default_of("wmem")),
        buffer("server", "receive", None, false, default_of("rmem")),
    ];
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 1, "{}", recording.report.summary());
    assert_eq!(connections[0]["buffers"], json!(expected));
}
