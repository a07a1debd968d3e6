//! TCP sockets that no program uses itself.

use std::fs;

use crate::bundle::{run_once, sockscope_says, words};
use crate::report::bytes;
use crate::turn;

/// Requests of 500 bytes and answers of 100, over MPTCP (`IPPROTO_MPTCP`) at both ends.
const CALLS: &str = "
import socket
def mptcp():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
listener = mptcp()
listener.bind(('127.0.0.1', 0))
listener.listen()
client = mptcp()
client.connect(listener.getsockname())
server, _ = listener.accept()
for _ in range(20):
    client.sendall(b'x' * 500)
    assert len(server.recv(500, socket.MSG_WAITALL)) == 500
    server.sendall(b'y' * 100)
    assert len(client.recv(100, socket.MSG_WAITALL)) == 100
";

/// What is missing for MPTCP; the switch is that of the network namespace.
fn lack_of_mptcp() -> Option<&'static str> {
    match fs::read_to_string("/proc/sys/net/mptcp/enabled") {
        Ok(enabled) if enabled.trim() != "0" => None,
        Ok(_) => Some("MPTCP is off; turn it on: sysctl -w net.mptcp.enabled=1"),
        Err(_) => Some("this kernel has no MPTCP (CONFIG_MPTCP)"),
    }
}

#[test]
fn root_a_path_of_mptcp_is_told_from_a_programs_socket() {
    let Some(_turn) = turn::take_with(lack_of_mptcp()) else { return };
    // Its queues are unknown at both ends, so that it is never whole.
    let recording = run_once(&[], &words(&["python3", "-c", CALLS]));
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 1, "{}", recording.report.summary());
    assert_eq!(connections[0]["kernels_own"], true, "{}", connections[0]);
    assert_eq!(
        (bytes(&connections[0], "client"), bytes(&connections[0], "server")),
        (10_000, 2_000)
    );
    let dir = recording.dir().display().to_string();
    let said = sockscope_says(&["report", &dir]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("verdict no verdict: "), "{said}");
    assert!(said.contains("belong to the kernel (MPTCP's do)"), "{said}");
}
