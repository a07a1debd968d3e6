//! What TCP sent again, and what made it.

use crate::bundle::{run_once, sockscope_says, whole, words};
use crate::turn;

/// Two short segments are in flight while the receiver delays its acknowledgment: TCP soon sends the
/// last one again, to probe for a loss of both.
const PROGRAM: &str = "
import socket, time
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
server, _ = listener.accept()
for _ in range(10):
    for _ in range(10):
        client.sendall(b'ask')
        server.recv(100)
        server.sendall(b'answer')
        client.recv(100)
    client.sendall(b'one')
    client.sendall(b'two')
    time.sleep(0.1)
    server.recv(100)
";

#[test]
fn root_a_probe_of_the_tail_is_told_from_other_retransmissions() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| run_once(&[], &words(&["python3", "-c", PROGRAM])));
    let shown = sockscope_says(&["show".into(), recording.dir().into_os_string()]);
    // A report of the peer that it had the range before has no length.
    let again =
        shown.lines().filter(|line| line.contains("Retransmit") && !line.ends_with("spurious"));
    // A stall of the machine may make a timeout of some; nothing is lost that could be sent again fast.
    let (probes, others): (Vec<&str>, Vec<&str>) =
        again.into_iter().partition(|line| line.ends_with("tail-probe"));
    assert!(!probes.is_empty(), "{shown}");
    assert!(others.iter().all(|line| line.ends_with("timeout")), "{others:?}");
}
