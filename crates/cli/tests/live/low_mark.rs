//! A socket that says of its data only when there is enough of it.

use crate::bundle::{run_once, whole, words};
use crate::report::{flow, longest_wait_but_for_cpu};
use crate::turn;

/// Ten bytes at a time, while the reader wants to hear of 100; those that make it enough are read at
/// once.
const PROGRAM: &str = "
import select, socket, time
listener = socket.create_server(('127.0.0.1', 0))
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 100)
client = socket.create_connection(listener.getsockname())
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
server, _ = listener.accept()
for _ in range(5):
    for _ in range(9):
        client.sendall(b'x' * 10)
        time.sleep(0.002)
    client.sendall(b'x' * 10)
    select.select([server], [], [])
    server.recv(1000)
";

#[test]
fn root_data_below_the_low_mark_is_in_the_receive_queue() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| run_once(&[], &words(&["python3", "-c", PROGRAM])));
    let connection = &recording.report.connections()[0];
    let sent = flow(connection, "client");
    assert_eq!(sent["bytes"], 500);
    assert_eq!(longest_wait_but_for_cpu(sent), "receive_queue.app", "{sent}");
    // Its reader waits as it wished to.
    assert!(recording.report.findings("slow-reader").is_empty(), "{}", recording.report.summary());
}
