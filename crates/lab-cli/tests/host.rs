//! `sockscope-lab lab host`: this kernel and stacks of the 1980s exchange segments.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use sockscope_record::Kind;
use sockscope_trace::Bundle;

/// Exchanges on each connection in each direction, and connections; every soak run has 100,000 of a personality.
fn amount() -> (u32, u32) {
    if std::env::var("SOCKSCOPE_SOAK").is_ok_and(|form| form == "full") {
        (1_000, 50)
    } else {
        (4, 5)
    }
}

const PERSONALITIES: [&str; 9] = [
    "4.2bsd",
    "4.2bsd-cabrera",
    "4.3bsd",
    "tahoe",
    "reno",
    "sunos-4.0.3",
    "sunos-4.1",
    "4.2bsd+window_scaling+timestamps+sack",
    "reno+window_scaling+timestamps+sack",
];

fn host(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-lab"));
    command.args(["lab", "host"]).args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this process may make a host; if not, the test counts as skipped.
fn may_make(test: &str) -> bool {
    let output = host(&["--", "true"]).output().unwrap();
    let is_refused = text(&output.stderr).contains("cannot make a PID namespace");
    if is_refused {
        let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
        assert!(!required, "{}", text(&output.stderr));
        // Of a test that passes libtest shows what is written past its capture.
        let reason = text(&output.stderr);
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {}", reason.trim_end());
    }
    !is_refused
}

#[test]
fn what_is_not_understood_is_one_line() {
    let cases: [(&[&str], &str); 5] = [
        (&["--personality", "5bsd", "--", "true"], "no personality `5bsd`: expected one of 4.2bsd"),
        (&["--machine", "cray", "--", "true"], "no machine `cray`: expected one of instant, vax"),
        (&["--serve", "page", "--", "true"], "expected page:PORT or echo:PORT, found `page`"),
        (&["--exchange", "7", "--", "true"], "expected PORT:N or PORT:NxCONNECTIONS, found `7`"),
        (&[], "required"),
    ];
    for (arguments, expected) in cases {
        let output = host(arguments).output().unwrap();
        let said = text(&output.stderr);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!((said.lines().count(), output.status.code()), (1, Some(2)), "{said}");
    }
}

#[test]
fn root_curl_fetches_from_the_host_and_the_host_from_a_server() {
    if !may_make("root_curl_fetches_from_the_host_and_the_host_from_a_server") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let page = "0123456789".repeat(5_000);
    std::fs::write(folder.path().join("page"), &page).unwrap();
    let server = format!("python3 -m http.server 80 -d {}", folder.path().display());
    let bundle = folder.path().join("host.sockscope");
    let output = host(&["--personality", "tahoe", "--serve", "page:80", "--delay", "1ms"])
        .args(["--server", &server, "--fetch", "80/page", "-o"])
        .arg(&bundle)
        .args(["--", "curl", "-s", "-m", "20", "http://198.18.0.2/30000"])
        .output()
        .unwrap();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{complained}");
    assert!(said.contains(&page), "the host fetched {} bytes: {complained}", said.len());
    assert!(said.contains("This page is from a network stack of the 1980s"), "{complained}");
    assert!(complained.contains("host        tahoe on the machine instant"), "{complained}");
    assert_points(&bundle, 30_000, page.len() as u64);
}

/// The host's half of the points has at least these bytes: of what it sent, and of what it read.
fn assert_points(bundle: &std::path::Path, sent: u64, read: u64) {
    let bundle = Bundle::open(bundle).unwrap();
    assert!(bundle.problems().is_empty(), "{:?}", bundle.problems());
    let mut reader = bundle.records().unwrap();
    let mut bytes = std::collections::BTreeMap::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        for record in batch {
            *bytes.entry(record.kind).or_insert(0) += u64::from(record.len);
        }
    }
    let of = |kind| bytes.get(&kind).copied().unwrap_or(0);
    for kind in
        [Kind::SendEnqueue, Kind::SendDequeue, Kind::InterfaceEnqueue, Kind::InterfaceDequeue]
    {
        assert!(of(kind) > sent, "{kind:?}: {bytes:?}");
    }
    for kind in [Kind::InputEnqueue, Kind::InputDequeue, Kind::ReceiveEnqueue, Kind::ReceiveDequeue]
    {
        assert!(of(kind) > read, "{kind:?}: {bytes:?}");
    }
}

#[test]
fn root_each_personality_makes_exchanges_with_this_kernel_over_a_bad_wire() {
    if !may_make("root_each_personality_makes_exchanges_with_this_kernel_over_a_bad_wire") {
        return;
    }
    // All at once: most of the time each waits for a timer.
    let started = PERSONALITIES
        .map(|name| exchanges(name).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    for (name, child) in PERSONALITIES.into_iter().zip(started) {
        assert_right(name, &child.wait_with_output().unwrap());
    }
}

fn exchanges(personality: &str) -> Command {
    let (count, connections) = amount();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/workloads/exchanges.py");
    let both = format!("python3 -B {program} --connections {connections} --exchanges {count}");
    let server = format!("{both} --role server --host 0.0.0.0 --port 7000");
    let client = format!(
        "{both} --role client --host 198.18.0.2 --port 7 && cat /proc/net/snmp /proc/net/netstat"
    );
    let mut command = host(&["--personality", personality, "--delay", "1ms", "--loss", "1%"]);
    command.args(["--reorder", "1%:3ms", "--duplicate", "0.5%", "--serve", "echo:7"]);
    let of_host = format!("7000:{count}x{connections}");
    command.args(["--server", &server, "--exchange", &of_host, "--", "sh", "-c", &client]);
    command
}

fn assert_right(personality: &str, output: &Output) {
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    let (count, connections) = amount();
    let all = count * connections;
    assert!(output.status.success(), "{personality}: {said}\n{complained}");
    assert!(said.contains(&format!("\"exchanges\": {all}")), "{personality}: {said}");
    let done = complained.lines().find(|line| line.starts_with("exchanges")).unwrap_or_default();
    let done: String = done.chars().filter(char::is_ascii_digit).collect();
    assert_eq!(done, all.to_string(), "{personality}: {complained}");
    // A SYN within the window of an open connection counts as an error too (RFC 5961 §4), as a copy of a SYN-ACK that
    // is late. One that arrives while the connection opens or closes counts as a SYN alone.
    let [errors, sums, syns] = ["Tcp: InErrs", "Tcp: InCsumErrors", "TcpExt: TCPSYNChallenge"]
        .map(|name| counter(&said, name).unwrap_or_else(|| panic!("{name}: {said}")));
    assert!(errors <= syns, "{personality}: {errors} errors, {syns} SYNs");
    assert_eq!(sums, 0, "{personality}");
}

/// Bits of `tcpi_options` in Linux's `tcp_info`: timestamps, SACK, window scaling.
const AGREED: [(&str, u8); 5] = [
    ("reno", 0),
    ("reno+timestamps", 1),
    ("tahoe+sack", 2),
    ("4.2bsd+window_scaling", 4),
    ("sunos-4.1+window_scaling+timestamps+sack", 7),
];

#[test]
fn root_this_kernel_agrees_on_the_options_of_the_name_and_no_others() {
    if !may_make("root_this_kernel_agrees_on_the_options_of_the_name_and_no_others") {
        return;
    }
    // 6 and 11 are the numbers of TCP and of TCP_INFO; its sixth byte has the options.
    let program = "import socket\n\
        peer = socket.create_connection(('198.18.0.2', 7), 20)\n\
        print('agreed', peer.getsockopt(6, 11, 8)[5] & 7)";
    let started = AGREED.map(|(name, _)| {
        let arguments =
            ["--personality", name, "--serve", "echo:7", "--", "python3", "-c", program];
        let mut command = host(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for ((name, bits), child) in AGREED.into_iter().zip(started) {
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stdout);
        let found = said.lines().find(|line| line.starts_with("agreed")).unwrap_or_default();
        assert_eq!(found, format!("agreed {bits}"), "{name}: {said}{}", text(&output.stderr));
    }
}

const URGENT: [&str; 5] = ["4.2bsd", "4.3bsd", "tahoe", "reno+timestamps", "sunos-4.1"];

#[test]
fn root_an_urgent_octet_goes_to_the_host_and_back() {
    if !may_make("root_an_urgent_octet_goes_to_the_host_and_back") {
        return;
    }
    // 0x8905 is SIOCATMARK. The host's echo of an urgent octet is urgent too.
    let program = "import fcntl, select, signal, socket, sys\n\
        peer = socket.create_connection(('198.18.0.2', 7), 20)\n\
        peer.settimeout(None)\n\
        signal.alarm(20)\n\
        at_mark = lambda: int.from_bytes(fcntl.ioctl(peer, 0x8905, bytes(4)), sys.byteorder)\n\
        def exchange(before, octet):\n\
        \x20   peer.sendall(before)\n\
        \x20   came = peer.recv(99)\n\
        \x20   peer.send(octet, socket.MSG_OOB)\n\
        \x20   select.select([], [], [peer], 20)\n\
        \x20   return came, at_mark(), peer.recv(1, socket.MSG_OOB)\n\
        first = exchange(b'abc', b'x')\n\
        second = exchange(b'defg', b'y')\n\
        peer = socket.create_connection(('198.18.0.2', 7), 20)\n\
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)\n\
        peer.send(b'z', socket.MSG_OOB)\n\
        inline = peer.recv(99)\n\
        print('urgent', first, second, inline)";
    let started = URGENT.map(|name| {
        let arguments =
            ["--personality", name, "--serve", "echo:7", "--", "python3", "-c", program];
        let mut command = host(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for (name, child) in URGENT.into_iter().zip(started) {
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stdout);
        let found = said.lines().find(|line| line.starts_with("urgent")).unwrap_or_default();
        let expected = "urgent (b'abc', 1, b'x') (b'defg', 1, b'y') b'z'";
        assert_eq!(found, expected, "{name}: {said}{}", text(&output.stderr));
    }
}

/// In the form of /proc/net/snmp: a line of names, and a line of their values.
fn counter(said: &str, name: &str) -> Option<i64> {
    let (table, name) = name.split_once(' ')?;
    let mut lines = said.lines().filter(|line| line.split(' ').next() == Some(table));
    let at = lines.next()?.split(' ').position(|word| word == name)?;
    lines.next()?.split(' ').nth(at)?.parse().ok()
}
