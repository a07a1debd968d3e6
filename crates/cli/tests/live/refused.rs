//! Connections that no program accepts.

use std::ffi::OsStr;

use crate::background::free_port;
use crate::bundle::{run_once, sockscope_says, words};
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
    let text = sockscope_says(&[OsStr::new("report"), recording.dir().as_os_str()]);
    assert!(text.contains("no socket took it"), "{text}");
    assert!(!text.contains("nothing wrong found") && !text.contains("tcp_"), "{text}");
}

#[test]
fn root_a_trace_lasts_until_its_command_ends() {
    let Some(_turn) = turn::take() else { return };
    let port = free_port();
    let ask = format!(
        "import socket, time\nasks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         asks.sendto(b'hello', ('127.0.0.1', {port}))\ntime.sleep(1.5)\n\
         print(time.monotonic_ns())"
    );
    let recording = run_once(&[], &words(&["python3", "-c", &ask]));
    let of_trace = |key: &str| recording.report.trace()[key].as_u64().expect("a time");
    let ended_ns = of_trace("start_ns") + of_trace("duration_ns");
    let last_word_ns: u64 = recording.said.trim().parse().expect("a time");
    assert!(ended_ns >= last_word_ns, "{ended_ns} before {last_word_ns}");
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
