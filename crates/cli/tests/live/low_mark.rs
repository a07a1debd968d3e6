//! A socket that says of its data only when there is enough of it.

use crate::bundle::{run_once, whole, words};
use crate::report::{flow, longest_wait, longest_wait_but_for_cpu};
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

/// A thread waits for 100 bytes; what has come is too little, until another one lowers the mark 200 ms
/// later, on another CPU.
const LOWERED: &str = "
import os, select, socket, threading, time
cpus = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cpus[:1])
listener = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(listener.getsockname())
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
server, _ = listener.accept()
def mark(size):
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
def lower():
    os.sched_setaffinity(0, cpus[-1:])
    time.sleep(0.2)
    mark(1)
mark(100)
client.sendall(b'x' * 10)
helper = threading.Thread(target=lower)
helper.start()
select.select([server], [], [])
server.recv(1000)
helper.join()
";

#[test]
fn root_data_that_a_lowered_mark_makes_enough_is_announced_then_and_not_when_it_came() {
    let Some(_turn) = turn::take() else { return };
    let recording = whole(|| run_once(&[], &words(&["python3", "-c", LOWERED])));
    let sent = flow(&recording.report.connections()[0], "client");
    assert_eq!(sent["bytes"], 10);
    assert_eq!(longest_wait(sent), "receive_queue.app", "{sent}");
}
