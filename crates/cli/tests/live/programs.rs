//! Programs that many people run: what they say they sent is what was recorded, to the byte.

use serde_json::Value;

use crate::background::{Background, free_port};
use crate::bundle::{Recording, command, run_once, whole, words};
use crate::report::{bytes, count, programs, text};
use crate::servers::{Nginx, Postgres, Redis};
use crate::turn;

/// The least size of an answer of PostgreSQL.
const ANSWER_BYTES: u64 = 100_000;

#[test]
fn root_iperf3_sends() {
    let Some(_turn) = turn::take() else { return };
    check_iperf3("127.0.0.1", "client", &["--bytes", "400M"]);
}

#[test]
fn root_iperf3_receives() {
    let Some(_turn) = turn::take() else { return };
    check_iperf3("127.0.0.1", "server", &["--bytes", "400M", "--reverse"]);
}

#[test]
fn root_iperf3_sends_on_four_connections() {
    let Some(_turn) = turn::take() else { return };
    check_iperf3("127.0.0.1", "client", &["--bytes", "200M", "--parallel", "4"]);
}

#[test]
fn root_iperf3_sends_over_ipv6() {
    let Some(_turn) = turn::take() else { return };
    check_iperf3("::1", "client", &["--bytes", "200M"]);
}

#[test]
fn root_redis_counts_the_same_bytes() {
    let Some(_turn) = turn::take() else { return };
    let mut said = (0, 0);
    let recording = whole(|| {
        let redis = Redis::start();
        let port = redis.port.to_string();
        let load = ["-p", &port, "-n", "2000", "-c", "10", "-t", "set,get", "-q"];
        let recording = run_once(&[], &words(&[&["redis-benchmark"], &load[..]].concat()));
        said = redis.network_bytes();
        recording
    });
    let report = &recording.report;
    assert_eq!((report.bytes_from("client"), report.bytes_from("server")), said);
    for connection in report.connections() {
        assert_eq!(programs(connection, "server"), ["redis-server"].into());
        assert_eq!(programs(connection, "client"), ["redis-benchmark"].into());
    }
}

#[test]
fn root_curl_fetches_100_mb_from_nginx() {
    let Some(_turn) = turn::take() else { return };
    let nginx = Nginx::start();
    let recording = whole(|| fetch(&nginx, "large", 1, &[]));
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 1, "{}", recording.report.summary());
    assert_eq!(curl_bytes(&recording), both(&recording));
    assert!(bytes(&connections[0], "server") > Nginx::LARGE_BYTES);
    assert_eq!(programs(&connections[0], "server"), ["nginx"].into());
}

#[test]
fn root_curl_fetches_many_small_answers_on_one_connection() {
    let Some(_turn) = turn::take() else { return };
    let nginx = Nginx::start();
    let recording = whole(|| fetch(&nginx, "small", 300, &[]));
    assert_eq!(recording.report.connections().len(), 1, "{}", recording.report.summary());
    assert_eq!(curl_bytes(&recording), both(&recording));
}

#[test]
fn root_curl_fetches_many_small_answers_on_as_many_connections() {
    let Some(_turn) = turn::take() else { return };
    let nginx = Nginx::start();
    let recording = whole(|| fetch(&nginx, "small", 150, &["--header", "Connection: close"]));
    assert_eq!(recording.report.connections().len(), 150);
    assert_eq!(curl_bytes(&recording), both(&recording));
}

#[test]
fn root_psql_asks_postgresql() {
    let Some(_turn) = turn::take() else { return };
    let postgres = Postgres::start();
    let recording = whole(|| run_once(&[], &questions(&postgres)));
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 1, "{}", recording.report.summary());
    assert!(recording.said.contains("500500"), "{}", recording.said);
    assert!(bytes(&connections[0], "server") > ANSWER_BYTES);
    assert_eq!(programs(&connections[0], "client"), ["psql"].into());
    assert_eq!(programs(&connections[0], "server"), ["postgres"].into());
}

/// Each stream's connection carries what iperf3 says its sender sent, and the client's cookie.
fn check_iperf3(host: &str, sender: &str, how: &[&str]) {
    // The client opens each connection, control aside, with the test's name (iperf3's iperf_api.h).
    const COOKIE_BYTES: u64 = 37;
    let recording = whole(|| {
        let port = free_port();
        let place = ["--port", &port.to_string(), "--json"].map(str::to_owned);
        let serve = [&words(&["iperf3", "--server", "--one-off"]), &place[..]].concat();
        let _server = Background::start(&mut command(&serve), "-TERM").listening(port);
        run_once(&[], &[&words(&["iperf3", "--client", host]), &place[..], &words(how)].concat())
    });
    let said: Value = serde_json::from_str(&recording.said).expect("iperf3 speaks JSON");
    let connected = said["start"]["connected"].as_array().expect("sockets").iter();
    let streams = said["end"]["streams"].as_array().expect("streams");
    assert_eq!(connected.len(), streams.len());
    for (socket, stream) in connected.zip(streams) {
        let port = u16::try_from(count(&socket["local_port"])).expect("a port");
        let found = recording.report.at_port("client", port);
        assert_eq!(found.len(), 1, "{}", recording.report.summary());
        let sent = count(&stream["sender"]["bytes"]);
        let greeting = if sender == "client" { COOKIE_BYTES } else { 0 };
        assert_eq!(bytes(found[0], sender), sent + greeting, "{}", text(&found[0]["client"]));
    }
    assert_eq!(recording.report.connections().len(), streams.len() + 1);
}

/// Bytes of both directions as recorded: from the clients, from the servers.
fn both(recording: &Recording) -> (u64, u64) {
    (recording.report.bytes_from("client"), recording.report.bytes_from("server"))
}

/// Bytes that curl sent and got, as it said for each transfer: request, header, body.
fn curl_bytes(recording: &Recording) -> (u64, u64) {
    let transfers = recording.said.lines().map(|line| {
        let sizes: Vec<u64> = line.split(' ').map(|size| size.parse().expect("a size")).collect();
        (sizes[0], sizes[1] + sizes[2])
    });
    transfers.fold((0, 0), |sum, transfer| (sum.0 + transfer.0, sum.1 + transfer.1))
}

/// Records curl while it fetches the file `times` times, telling the sizes of each transfer.
fn fetch(nginx: &Nginx, file: &str, times: usize, options: &[&str]) -> Recording {
    let sizes = "%{size_request} %{size_header} %{size_download}\\n";
    let mut curl = words(&[&["curl", "--silent", "--write-out", sizes], options].concat());
    for _ in 0..times {
        curl.extend(words(&["--output", "/dev/null"]));
        curl.push(format!("http://127.0.0.1:{}/{file}", nginx.port));
    }
    run_once(&[], &curl)
}

/// psql with questions small and large.
fn questions(postgres: &Postgres) -> Vec<String> {
    let port = postgres.port.to_string();
    let place = ["psql", "--host", "127.0.0.1", "--port", &port, "--username", "postgres"];
    let questions = [
        "--command",
        "select sum(n) from generate_series(1, 1000) n",
        "--command",
        "select repeat('x', 1000) from generate_series(1, 100)",
    ];
    words(&[&place[..], &questions].concat())
}
