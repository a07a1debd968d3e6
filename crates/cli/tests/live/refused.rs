//! Connections that nobody takes.

use crate::background::free_port;
use crate::bundle::{run_once, words};
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
