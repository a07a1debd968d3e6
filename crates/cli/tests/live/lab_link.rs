//! A link in user space: its delay is time on the wire, between point 4 of one host and point 5 of the other.

use crate::bundle::{run_once, whole};
use crate::report::{bytes, count, flow, longest_wait_but_for_cpu};
use crate::turn;

const PORT: u16 = 7000;
const CALLS: u64 = 20;
const BYTES: u64 = 200;
const DELAY_NS: u64 = 20_000_000;

const SERVER: &str = "python3 -c \"
import socket
c, _ = socket.create_server(('198.18.0.2', 7000)).accept()
while data := c.recv(4000):
    c.sendall(data)
\"";
const CLIENT: &str = "
import socket
s = socket.create_connection(('198.18.0.2', 7000))
for _ in range(20):
    s.sendall(b'x' * 200)
    s.recv(4000)
";

#[test]
fn root_the_delay_of_a_link_is_time_on_the_wire() {
    let Some(_turn) = turn::take() else { return };
    let sockscope = env!("CARGO_BIN_EXE_sockscope");
    let link =
        ["lab", "link", "--delay", "20ms", "--server", SERVER, "--", "python3", "-c", CLIENT];
    let command: Vec<String> =
        [sockscope].iter().chain(&link).map(|word| (*word).to_owned()).collect();
    let recording = whole(|| run_once(&[], &command));
    let report = &recording.report;
    let connection = report.connection(PORT);
    for end in ["client", "server"] {
        let flow = flow(connection, end);
        assert_eq!(longest_wait_but_for_cpu(flow), "wire", "{flow}");
        let share = flow["ledger"]["wire"].as_f64().expect("a number");
        let on_wire_ns = share * count(&flow["ledger_total_ns"]) as f64;
        assert!(on_wire_ns >= (CALLS * DELAY_NS) as f64, "{end}: {on_wire_ns} ns on the wire");
        assert_eq!(bytes(connection, end), CALLS * BYTES, "{flow}");
    }
    assert!(report.found().contains("stop-and-wait"), "{:?}", report.found());
}
