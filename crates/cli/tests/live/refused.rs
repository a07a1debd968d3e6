//! Connections that nobody takes.

use crate::background::free_port;
use crate::bundle::{run_once, words};
use crate::hosts::Hosts;
use crate::report::{flow, programs};
use crate::turn;

#[test]
fn root_a_datagram_for_nobody_came_to_this_host() {
    let Some(_turn) = turn::take() else { return };
    let port = free_port();
    let ask = format!(
        "import socket\nasks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         asks.connect(('127.0.0.1', {port}))\nasks.send(b'hello')"
    );
    let recording = run_once(&[], &words(&["python3", "-c", &ask]));
    let sent = flow(recording.report.connection(port), "client");
    assert_eq!((&sent["bytes"], &sent["datagrams_refused"]), (&5.into(), &1.into()), "{sent}");
    assert_eq!(sent["ledger"]["unknown"], 0.0, "{sent}");
}

#[test]
fn root_a_refused_connection_has_the_name_of_who_asked() {
    let Some(_turn) = turn::take() else { return };
    let port = free_port();
    let ask = format!(
        "import socket\ntry:\n socket.create_connection(('127.0.0.1', {port}))\n\
         except ConnectionRefusedError:\n print('refused')"
    );
    let recording = run_once(&[], &words(&["python3", "-c", &ask]));
    assert_eq!(recording.said, "refused\n");
    let connection = recording.report.connection(port);
    assert!(programs(connection, "client").contains("python3"), "{connection}");
    assert!(programs(connection, "server").is_empty(), "{connection}");
    assert_eq!(connection["refused"], true, "{connection}");
}

/// Connects to a neighbour that does not answer, then says where it would be: the SYN leaves while
/// `ip` runs.
const HELPED: &str = "
import socket, subprocess
asks = socket.socket()
asks.setblocking(False)
asks.connect_ex(('10.83.0.9', 80))
subprocess.run('ip neigh replace 10.83.0.9 lladdr 02:00:00:00:00:09 dev veth0'.split(), check=True)
";

#[test]
fn root_who_finds_the_neighbour_did_not_connect() {
    let Some(_turn) = turn::take() else { return };
    let hosts = Hosts::up(&[]);
    let recording = run_once(&[], &hosts.on_a(&words(&["python3", "-c", HELPED])));
    let connection = recording.report.connection(80);
    assert!(!programs(connection, "client").contains("ip"), "{connection}");
}
