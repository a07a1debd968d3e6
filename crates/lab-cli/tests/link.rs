//! `sockscope-lab lab link`: its messages, its exit status, and what remains of it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

fn link(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-lab"));
    command.args(["lab", "link"]).args(arguments);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The output of a link; `None` where this process may not make one, which counts the test as skipped.
fn made(test: &str, arguments: &[&str]) -> Option<Output> {
    let output = link(arguments).output().unwrap();
    let is_refused = said(&output).contains("cannot make a PID namespace");
    if is_refused {
        let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
        assert!(!required, "{}", said(&output));
        // Of a test that passes libtest shows what is written past its capture.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {}", said(&output).trim_end());
    }
    (!is_refused).then_some(output)
}

#[test]
fn settings_that_are_not_understood_are_one_line() {
    let cases = [
        (["--delay", "20"], "\"20\" is no time; write it as 20ms"),
        (["--loss", "half"], "\"half\" is no loss; write it as 1%, every:100 or gilbert:1%,25%"),
        (["--jitter", "1ms"], "the jitter must not be longer than the delay"),
        (["--discipline", "codel"], "CoDel needs a queue"),
        (["--gso", "--loss=1%"], "with --gso a link has a delay, a rate and a queue only"),
        (
            ["--to-server", "speed=1"],
            "--to-server: \"speed\" is no setting; there are delay, jitter",
        ),
        (["--trace", "/no/such/file"], "/no/such/file: No such file"),
    ];
    for (arguments, expected) in cases {
        let output = link(&arguments).args(["--", "true"]).output().unwrap();
        let said = said(&output);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!((said.lines().count(), output.status.code()), (1, Some(2)), "{said}");
    }
}

#[test]
fn a_topology_without_a_wire_refuses_its_settings() {
    let cases = [
        (["pair", "--delay", "1ms"], "the topology pair has a rate and a queue only"),
        (["router", "--to-server", "loss=1%"], "the topology router has a rate and a queue only"),
        (["loopback", "--rate", "1mbit"], "the topology loopback has no rate and no queue"),
        (["crowd:2", "--json", "/tmp/x"], "the topology crowd:2 counts no packets for --json"),
        (
            ["star", "--seed", "1"],
            "\"star\" is no topology; there are loopback, pair, link, router",
        ),
    ];
    for (arguments, expected) in cases {
        let output = link(&["--topology"]).args(arguments).args(["--", "true"]).output().unwrap();
        let said = said(&output);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!((said.lines().count(), output.status.code()), (1, Some(2)), "{said}");
    }
}

#[test]
fn root_the_commands_of_a_crowd_have_numbers() {
    let test = "root_the_commands_of_a_crowd_have_numbers";
    let server = "python3 -c \"import socket; l = socket.create_server(('198.18.0.2', 7000)); \
                  print(*sorted(l.accept()[0].recv(9).decode() for _ in range(3)))\"";
    let client = "import os, socket; s = socket.create_connection(('198.18.0.2', 7000)); \
                  n = os.environ['SOCKSCOPE_CLIENT']; s.sendall(n.encode()); exit(int(n) // 3 * 9)";
    let options = ["--topology", "crowd:3", "--rate", "1mbit", "--server", server];
    let arguments = [options.as_slice(), &["--", "python3", "-c", client]].concat();
    let Some(output) = made(test, &arguments) else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1 2 3\n", "{}", said(&output));
    assert_eq!(output.status.code(), Some(9), "that of the one that failed");
    assert_eq!(said(&output), "crowd:3     rate=1mbit queue=1000p\n");
}

#[test]
fn root_a_command_and_its_server_meet_over_the_link() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("link.json");
    let server = "python3 -c \"import socket; c = socket.create_server(('198.18.0.2', 7000)).accept()[0]; \
                  c.sendall(c.recv(9) * 2)\"";
    let client = "import socket, sys; s = socket.create_connection(('198.18.0.2', 7000)); s.sendall(b'ab'); \
                  print(s.recv(9).decode()); sys.exit(7)";
    let json_path = json.to_string_lossy();
    let options = ["--delay", "3ms", "--seed", "5", "--json", &json_path, "--server", server];
    let arguments = [options.as_slice(), &["--", "python3", "-c", client]].concat();
    let test = "root_a_command_and_its_server_meet_over_the_link";
    let Some(output) = made(test, &arguments) else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "abab\n", "{}", said(&output));
    assert_eq!(output.status.code(), Some(7), "the command's");
    assert!(said(&output).contains("link        seed 5; delay=3ms\n"), "{}", said(&output));
    let result: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    for direction in ["to_server", "to_command"] {
        let entered = result[direction]["entered"].as_u64().unwrap();
        assert!(entered >= 4, "{result}");
        assert_eq!(result[direction]["left"].as_u64(), Some(entered), "{result}");
    }
}

#[test]
fn root_a_server_that_does_not_start_is_an_error() {
    let test = "root_a_server_that_does_not_start_is_an_error";
    let Some(output) = made(test, &["--server", "sh -c 'exit 3'", "--", "true"]) else { return };
    let said = said(&output);
    assert!(said.contains("lab link: the server ended with exit status: 3"), "{said}");
    assert_eq!((said.lines().count(), output.status.code()), (1, Some(2)), "{said}");
}

/// A command that starts others in sessions of their own, which no signal but SIGKILL ends. Their shells have ended.
const DAEMONS: &str = "trap '' HUP INT TERM; \
     setsid sh -c 'setsid sh -c \"sleep 100; sleep 100\" & sleep 100 & exit' & wait; \
     readlink /proc/self/ns/net; ";

/// Waits until no process is in this network namespace, as /proc/PID/ns/net names it.
fn wait_until_empty(namespace: &str) {
    let until = Instant::now() + Duration::from_secs(10);
    let remains = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes.into_iter().any(|process| {
            std::fs::read_link(process.path().join("ns/net"))
                .is_ok_and(|its| its.as_os_str() == namespace)
        })
    };
    while remains() {
        assert!(Instant::now() < until, "a process is still in the link's namespace");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Milliseconds of traffic: ten minutes in `scripts/soak link`.
fn soak_ms() -> u64 {
    match std::env::var("SOCKSCOPE_SOAK").is_ok_and(|form| form == "full") {
        true => 600_000,
        false => 500,
    }
}

/// Times at which the line can send 1,500 bytes: within 100 ms twice a millisecond, then every second one. Datagrams of
/// 1,028 bytes every millisecond fill the queue in the second half.
fn rate_trace() -> String {
    let fast = (1..=50).flat_map(|ms| [ms, ms]);
    fast.chain((52..=100).step_by(2)).map(|ms: u64| format!("{ms}\n")).collect()
}

#[test]
fn root_each_packet_under_mixed_faults_leaves_or_is_counted() {
    let test = "root_each_packet_under_mixed_faults_leaves_or_is_counted";
    let folder = tempfile::tempdir().unwrap();
    let [trace, json] = ["trace", "json"].map(|name| folder.path().join(name));
    std::fs::write(&trace, rate_trace()).unwrap();
    let work = format!("{} lab work", env!("CARGO_BIN_EXE_sockscope-lab"));
    let server = format!(
        "{work} discard --protocol udp --listen 198.18.0.2:7101 & {work} discard --listen 198.18.0.2:7100"
    );
    let ms = soak_ms();
    // Over bursts of loss a stream may fall behind its schedule by any time.
    let client = format!(
        "sleep 0.2; {work} send --protocol udp --to 198.18.0.2:7101 --message-bytes 1000b --every 1ms --messages {ms} & \
         timeout {} {work} send --to 198.18.0.2:7100 --message-bytes 2000b --every 20ms --messages {}; wait; sleep 0.3; \
         grep link0 /proc/net/dev",
        ms / 1000 + 2,
        ms / 20
    );
    let faults = "--delay 5ms --jitter 2ms --queue 10p --loss gilbert:1%,30% --reorder 1%:3ms --duplicate 1% --damage 1%";
    let [trace, json_path] = [&trace, &json].map(|path| path.to_str().unwrap());
    let mut arguments: Vec<&str> = faults.split(' ').collect();
    arguments.extend(["--trace", trace, "--json", json_path, "--server", &server, "--"]);
    arguments.extend(["sh", "-c", &client]);
    let Some(output) = made(test, &arguments) else { return };
    assert!(output.status.success(), "{}", said(&output));
    let text = std::fs::read_to_string(&json).unwrap();
    println!("{}{text}", said(&output));
    let counts: serde_json::Value = serde_json::from_str(&text).unwrap();
    for direction in ["to_server", "to_command"] {
        let of =
            |path: &str| counts.pointer(&format!("/{direction}/{path}")).unwrap().as_u64().unwrap();
        let dropped: u64 =
            ["loss", "queue", "codel"].map(|why| of(&format!("dropped/{why}"))).iter().sum();
        let ended = of("left") + dropped + of("inside");
        assert_eq!(of("entered") + of("duplicated"), ended, "{direction}: {text}");
    }
    let of = |path: &str| counts.pointer(&format!("/to_server/{path}")).unwrap().as_u64().unwrap();
    for fault in ["dropped/loss", "dropped/queue", "duplicated", "damaged", "held_back"] {
        assert!(of(fault) > 0, "no {fault}: {text}");
    }
    // What the kernel sent into the device entered the wire, or was dropped before it.
    let device = String::from_utf8_lossy(&output.stdout).into_owned();
    let device = device.lines().find(|line| line.contains("link0:")).expect("it has the device");
    let packets: u64 = device.split_whitespace().nth(10).unwrap().parse().unwrap();
    let taken = of("entered") + of("dropped/device");
    assert!((packets..=packets + 50).contains(&taken), "{packets} sent: {text}");
    assert!(packets > ms, "a datagram every millisecond: {packets}");
}

#[test]
fn root_nothing_remains_of_a_link_that_is_killed() {
    let test = "root_nothing_remains_of_a_link_that_is_killed";
    if made(test, &["--", "true"]).is_none() {
        return;
    }
    for (topology, clients) in [("link", 1), ("router", 1), ("crowd:2", 2)] {
        let mut command = link(&["--topology", topology, "--", "sh", "-c"]);
        command.arg(format!("{DAEMONS} exec sleep 100")).stdout(Stdio::piped());
        let mut link = command.stderr(Stdio::null()).spawn().unwrap();
        let said = BufReader::new(link.stdout.take().unwrap()).lines().take(clients);
        let namespaces: Vec<String> = said.map(Result::unwrap).collect();
        assert_eq!(namespaces.len(), clients, "{topology}");
        link.kill().unwrap();
        link.wait().unwrap();
        for namespace in namespaces {
            assert!(namespace.starts_with("net:["), "{topology}: {namespace}");
            wait_until_empty(&namespace);
        }
    }
}

#[test]
fn root_nothing_remains_of_a_link_that_ends() {
    let test = "root_nothing_remains_of_a_link_that_ends";
    let command = format!("{DAEMONS} exit");
    let mut link = link(&["--", "sh", "-c", &command]);
    // The daemons hold standard output: a file does not wait for them, as a pipe would.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("said");
    let file = std::fs::File::create(&path).unwrap();
    let status = link.stdout(file).stderr(Stdio::null()).status().unwrap();
    if status.code() == Some(2) && made(test, &["--", "true"]).is_none() {
        return;
    }
    assert_eq!(status.code(), Some(0));
    let namespace = std::fs::read_to_string(&path).unwrap();
    assert!(namespace.starts_with("net:["), "{namespace}");
    wait_until_empty(namespace.trim_end());
}
