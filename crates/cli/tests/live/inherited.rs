//! Options that an accepted socket has from its listener.

use crate::bundle::{run_once, sockscope_says, whole, words};
use crate::report::text;
use crate::turn;

/// A server whose listener has a cork answers in one short write each, and the client waits for TCP's
/// timer.
const CORKED: &str = "
import socket
listener = socket.create_server(('127.0.0.1', 0))
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
for _ in range(4):
    client.sendall(b'x' * 100)
    server.recv(100)
    server.sendall(b'y' * 300)
    client.recv(300)
";

#[test]
fn root_a_cork_of_the_listener_is_named() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| run_once(&[], &words(&["python3", "-c", CORKED])));
    let found = recording.report.findings("corked");
    assert_eq!(found.len(), 1, "{}", recording.report.summary());
    assert_eq!(found[0]["side"], "server");
    let summary = text(&found[0]["summary"]);
    assert!(summary.contains(": TCP_CORK held them until"), "{summary}");
    // It asked for it on the listener, while it was recorded.
    assert_eq!(found[0]["evidence"][0]["text"], "the program sets TCP_CORK");
    let dir = recording.dir().display().to_string();
    let options = sockscope_says(&["show", &dir]);
    assert_eq!(options.matches("TCP_CORK = 1").count(), 1, "{options}");
}
