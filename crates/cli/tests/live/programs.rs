//! Programs that many people run: what they say they sent is what was recorded, to the byte.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::background::{Background, free_port};
use crate::bundle::{Recording, command, run_once, stdout_of, whole, words};
use crate::report::{bytes, count, programs, text};
use crate::turn;

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
    let recording = whole(|| nginx.fetch("large", 1, &[]));
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
    let recording = whole(|| nginx.fetch("small", 300, &[]));
    assert_eq!(recording.report.connections().len(), 1, "{}", recording.report.summary());
    assert_eq!(curl_bytes(&recording), both(&recording));
}

#[test]
fn root_curl_fetches_many_small_answers_on_as_many_connections() {
    let Some(_turn) = turn::take() else { return };
    let nginx = Nginx::start();
    let recording = whole(|| nginx.fetch("small", 150, &["--header", "Connection: close"]));
    assert_eq!(recording.report.connections().len(), 150);
    assert_eq!(curl_bytes(&recording), both(&recording));
}

#[test]
fn root_psql_asks_postgresql() {
    let Some(_turn) = turn::take() else { return };
    let postgres = Postgres::start();
    let recording = whole(|| run_once(&[], &postgres.ask()));
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 1, "{}", recording.report.summary());
    assert!(recording.said.contains("500500"), "{}", recording.said);
    assert!(bytes(&connections[0], "server") > Postgres::ANSWER_BYTES);
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

/// A server of its own, without files.
struct Redis {
    port: u16,
    _folder: TempDir,
    _server: Background,
}

impl Redis {
    fn start() -> Self {
        let port = free_port();
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let mut redis = Command::new("redis-server");
        redis.args(["--port", &port.to_string(), "--save", "", "--appendonly", "no", "--dir"]);
        redis.arg(folder.path());
        let server = Background::start(&mut redis, "-TERM").listening(port);
        Self { port, _folder: folder, _server: server }
    }

    /// What it has got from clients and sent to them, this question aside.
    fn network_bytes(&self) -> (u64, u64) {
        const QUESTION: &[u8] = b"INFO stats\r\n";
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        socket.write_all(QUESTION).expect("it reads");
        socket.shutdown(std::net::Shutdown::Write).expect("connected");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("it answers in text");
        let total = |name: &str| -> u64 {
            let line = answer.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok()).expect("redis counts its bytes")
        };
        let got = total("total_net_input_bytes:") - QUESTION.len() as u64;
        (got, total("total_net_output_bytes:"))
    }
}

/// A server of its own, with a large and a small file.
struct Nginx {
    port: u16,
    _folder: TempDir,
    _server: Background,
}

impl Nginx {
    const LARGE_BYTES: u64 = 100_000_000;

    fn start() -> Self {
        let port = free_port();
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {path}/{what};"))
            .concat();
        let configuration = format!(
            "user root; daemon off; worker_processes 1; pid {path}/pid; error_log {path}/errors;
             events {{ worker_connections 256; }}
             http {{ access_log off; sendfile on; keepalive_requests 10000; {temporary}
                     server {{ listen 127.0.0.1:{port}; root {path}; }} }}"
        );
        let file = |name: &str| folder.path().join(name);
        fs::write(file("nginx.conf"), configuration).expect("the folder is ours");
        fs::write(file("small"), [b's'; 1000]).expect("the folder is ours");
        let large = fs::File::create(file("large")).expect("the folder is ours");
        large.set_len(Self::LARGE_BYTES).expect("a sparse file");
        let mut nginx = Command::new("/usr/sbin/nginx");
        nginx.arg("-c").arg(file("nginx.conf")).arg("-e").arg(file("errors"));
        let server = Background::start(&mut nginx, "-TERM").listening(port);
        Self { port, _folder: folder, _server: server }
    }

    /// Records curl while it fetches the file `times` times, telling the sizes of each transfer.
    fn fetch(&self, file: &str, times: usize, options: &[&str]) -> Recording {
        let sizes = "%{size_request} %{size_header} %{size_download}\\n";
        let mut curl = words(&[&["curl", "--silent", "--write-out", sizes], options].concat());
        for _ in 0..times {
            curl.extend(words(&["--output", "/dev/null"]));
            curl.push(format!("http://127.0.0.1:{}/{file}", self.port));
        }
        run_once(&[], &curl)
    }
}

/// A cluster of its own, run by the user `postgres` as it refuses root.
struct Postgres {
    port: u16,
    folder: TempDir,
    _server: Background,
}

impl Postgres {
    /// What the answer has at least.
    const ANSWER_BYTES: u64 = 100_000;

    fn start() -> Self {
        let port = free_port();
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let open_to_all = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.path(), open_to_all).expect("the folder is ours");
        let data = folder.path().join("data").display().to_string();
        let mut initdb = as_postgres("initdb");
        initdb.args(["--auth=trust", "--username=postgres", "--no-sync", "--pgdata", &data]);
        stdout_of(&initdb.output().expect("PostgreSQL is installed"));
        let mut postgres = as_postgres("postgres");
        postgres.args(["-D", &data, "-p", &port.to_string(), "-k"]).arg(folder.path());
        postgres.args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]);
        let server = Background::start(&mut postgres, "-INT").listening(port);
        let cluster = Self { port, folder, _server: server };
        cluster.wait_until_ready();
        cluster
    }

    /// It listens some time before it answers.
    fn wait_until_ready(&self) {
        let port = self.port.to_string();
        let mut ready = Command::new("pg_isready");
        ready.args(["--quiet", "--timeout=20", "--port", &port, "--host"]).arg(self.folder.path());
        let is_ready = (0..100).any(|_| {
            let status = ready.status().expect("PostgreSQL is installed");
            std::thread::sleep(std::time::Duration::from_millis(50));
            status.success()
        });
        assert!(is_ready, "PostgreSQL never got ready");
    }

    /// psql with questions small and large.
    fn ask(&self) -> Vec<String> {
        let port = self.port.to_string();
        let place = ["psql", "--host", "127.0.0.1", "--port", &port, "--username", "postgres"];
        let questions = [
            "--command",
            "select sum(n) from generate_series(1, 1000) n",
            "--command",
            "select repeat('x', 1000) from generate_series(1, 100)",
        ];
        words(&[&place[..], &questions].concat())
    }
}

/// A program of the newest PostgreSQL here, run by its user; it takes the place of the command, so
/// that a signal reaches it.
fn as_postgres(program: &str) -> Command {
    let mut folders: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .expect("PostgreSQL is installed")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    let newest = folders.last().expect("a version").join("bin").join(program);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(newest);
    command.current_dir("/");
    command
}
