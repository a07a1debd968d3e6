//! TCP Fast Open: data in the SYN.

use crate::bundle::{run_once, whole, words};
use crate::hosts::Hosts;
use crate::report::bytes;
use crate::turn;

/// The first connection gets the cookie with which the others send 300 bytes in their SYN.
const PROGRAM: &str = "
import socket
listener = socket.socket()
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5)
listener.bind(('127.0.0.1', 0))
listener.listen(5)
for _ in range(4):
    client = socket.socket()
    client.sendto(b'x' * 300, socket.MSG_FASTOPEN, listener.getsockname())
    server, _ = listener.accept()
    server.recv(1000)
    client.close()
    server.close()
";

#[test]
fn root_what_a_syn_carries_was_written_and_taken() {
    let Some(_turn) = turn::take() else { return };
    let hosts = Hosts::up(&[]);
    let ask = format!("sysctl -qw net.ipv4.tcp_fastopen=3 && exec python3 -c \"{PROGRAM}\"");
    // Without gaps: every queue's residue is known.
    let recording = whole(|| run_once(&[], &hosts.on_a(&words(&["sh", "-c", &ask]))));
    let connections = recording.report.connections();
    let sent: Vec<_> = connections.iter().map(|one| bytes(one, "client")).collect();
    assert_eq!(sent, [300; 4]);
    let written = recording.report.records_at("SendEnqueue");
    assert_eq!(written, 4, "one record each, in the SYN or behind it");
}
