//! A link between two namespaces of this kernel: packets of real sockets through TUN devices.
//!
//! Each test runs a program of Python at both ends, and asserts order and cause, never durations of this machine.

use std::collections::BTreeSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sockscope_link::{Ended, Error, Hosts, Line, Settings, Side, Topology, Wire, carry};

/// Datagrams that a test sends in one direction.
const DATAGRAMS: usize = 2_000;

/// Receives until nothing is sent for a second; prints the number in each datagram, then how many were not whole.
const RECEIVER: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
SO_RCVBUFFORCE = 33  # asm-generic/socket.h; not in the module
s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
s.bind((sys.argv[1], 7000))
s.settimeout(10)
try:
    while True:
        data = s.recv(2000)
        s.settimeout(1)
        number = int(data[:8])
        print(number if data == b'%08d' % number * 20 else 'broken')
except TimeoutError:
    pass
";

/// Sends numbered datagrams of 160 bytes.
const SENDER: &str = "
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(int(sys.argv[2])):
    s.sendto(b'%08d' % number * 20, (sys.argv[1], 7000))
    if number % 50 == 49:
        time.sleep(.002)
";

/// Echoes a connection until its peer closes it.
const ECHO_SERVER: &str = "
import socket, sys
l = socket.create_server((sys.argv[1], 7000))
c, _ = l.accept()
while data := c.recv(65536):
    c.sendall(data)
";

/// Sends random bytes, reads them back, and says whether they are the same.
const ECHO_CLIENT: &str = "
import hashlib, os, socket, sys, threading
data = os.urandom(int(sys.argv[2]))
s = socket.create_connection((sys.argv[1], 7000))
def send():
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
back = b''.join(iter(lambda: s.recv(65536), b''))
print('same' if back == data else 'other bytes: %d of %d' % (len(back), len(data)))
";

/// The ends of a link; `None` where this process may not make them, which counts the test as skipped.
fn hosts(test: &str) -> Option<(Hosts, sockscope_link::Ends)> {
    hosts_with(test, Line::default())
}

fn hosts_with(test: &str, line: Line) -> Option<(Hosts, sockscope_link::Ends)> {
    match Topology::Link.build(line) {
        Ok((hosts, ends)) => Some((hosts, ends.expect("a link has ends"))),
        Err(error) => {
            let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
            assert!(!required, "{error}");
            // Of a test that passes libtest shows what is written past its capture.
            let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {error}");
            None
        }
    }
}

/// Settings from words; `gso` is the one that has no value.
fn settings(words: &str) -> Settings {
    let (words, offload) = words.strip_prefix("gso").map_or((words, false), |words| (words, true));
    let mut settings = Settings { offload, ..Settings::default() };
    settings.change(words).unwrap();
    settings
}

fn python(script: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", script]).args(arguments).stdout(Stdio::piped());
    command
}

/// Runs `work` while packets are carried; what it gives, and what both directions did.
fn linked<T>(
    (hosts, ends): &(Hosts, sockscope_link::Ends),
    words: [&str; 2],
    seed: u64,
    work: impl FnOnce(&Hosts) -> T,
) -> (T, [Ended; 2]) {
    let [to_server, to_client] = words.map(settings);
    let wires = [Wire::new(to_server, seed), Wire::new(to_client, seed + 1)];
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let carrying = scope.spawn(|| carry(ends, wires, &is_over));
        // A panic of the work must end the carrying, too, or the scope would wait for it for ever.
        let worked = catch_unwind(AssertUnwindSafe(|| work(hosts)));
        let result = worked.unwrap_or_else(|panic| {
            is_over.store(true, Ordering::Relaxed);
            resume_unwind(panic)
        });
        // The last packets may still be inside.
        thread::sleep(Duration::from_millis(200));
        is_over.store(true, Ordering::Relaxed);
        (result, carrying.join().unwrap().unwrap())
    })
}

fn output(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn wait_for_server(hosts: &Hosts) {
    let until = Instant::now() + Duration::from_secs(20);
    while !hosts.is_served(Side::Server).unwrap() {
        assert!(Instant::now() < until, "the server did not start");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Datagrams from the client to the server: the numbers that the server received, in order.
fn datagrams(hosts: &Hosts) -> Vec<String> {
    let server = Side::Server.address().to_string();
    let receiver = hosts.start(Side::Server, python(RECEIVER, &[&server])).unwrap();
    wait_for_server(hosts);
    let sent = python(SENDER, &[&server, &DATAGRAMS.to_string()]);
    output(hosts.start(Side::Client, sent).unwrap());
    output(receiver).lines().map(str::to_owned).collect()
}

/// A stream to the server and back: whether the client received what it sent.
fn stream(hosts: &Hosts) -> String {
    let server = Side::Server.address().to_string();
    let mut echo = hosts.start(Side::Server, python(ECHO_SERVER, &[&server])).unwrap();
    wait_for_server(hosts);
    let client = python(ECHO_CLIENT, &[&server, "2000000"]);
    let said = output(hosts.start(Side::Client, client).unwrap());
    echo.wait().unwrap();
    said
}

/// What entered left, was dropped or is inside.
fn assert_conserved(ended: &[Ended; 2]) {
    for Ended { counts, inside, refused, .. } in ended {
        assert_eq!(counts.entered + counts.duplicated, counts.left + counts.dropped() + inside);
        assert_eq!(*refused, 0, "{counts:?}");
    }
}

#[test]
fn root_the_same_seed_drops_the_same_datagrams() {
    let Some(link) = hosts("root_the_same_seed_drops_the_same_datagrams") else { return };
    let survivors = |words: &'static str, seed| {
        let (received, ended) = linked(&link, [words, ""], seed, datagrams);
        assert_conserved(&ended);
        assert_eq!(ended[0].counts.entered, DATAGRAMS as u64);
        assert_eq!(received.len() as u64, ended[0].counts.left, "each that left was received");
        received
    };
    let plain = survivors("loss=5%", 7);
    assert!((DATAGRAMS * 93 / 100..DATAGRAMS * 97 / 100).contains(&plain.len()), "{}", plain.len());
    let delayed = survivors("loss=5% delay=3ms jitter=1ms", 7);
    assert_eq!(plain, delayed, "times do not decide which are dropped");
}

#[test]
fn root_datagrams_meet_each_fault_and_are_counted() {
    let Some(link) = hosts("root_datagrams_meet_each_fault_and_are_counted") else { return };
    let words = "loss=gilbert:1%,30% reorder=3%:2ms duplicate=4% damage=2% delay=1ms";
    let (received, ended) = linked(&link, [words, ""], 3, datagrams);
    assert_conserved(&ended);
    let counts = ended[0].counts;
    let of_kind = [counts.dropped_by_loss, counts.duplicated, counts.damaged, counts.held_back];
    assert!(of_kind.iter().all(|count| *count > 5), "{counts:?}");
    let numbers: Vec<usize> = received.iter().map(|number| number.parse().unwrap()).collect();
    assert!(!numbers.is_sorted(), "some overtake others");
    let different: BTreeSet<_> = numbers.iter().collect();
    assert!(different.len() < numbers.len(), "some arrive twice");
    // The receiver's checksum finds the damaged ones, of which some are lost or have a copy.
    let damaged = counts.left - numbers.len() as u64;
    assert!(damaged > 5 && damaged <= 2 * counts.damaged, "{damaged} of {}", counts.damaged);
}

#[test]
fn root_a_stream_through_all_faults_arrives_whole() {
    let Some(link) = hosts("root_a_stream_through_all_faults_arrives_whole") else { return };
    let words = "delay=1ms rate=200mbit queue=100p loss=1% reorder=1%:2ms duplicate=1% damage=0.5%";
    let (said, ended) = linked(&link, [words, words], 11, stream);
    assert_eq!(said, "same\n");
    assert_conserved(&ended);
    for Ended { counts, .. } in &ended {
        assert!(counts.dropped_by_loss > 0 && counts.damaged > 0, "{counts:?}");
    }
}

#[test]
fn root_a_stream_in_groups_of_packets_arrives_whole() {
    let line = Line { has_offload: true, ..Line::default() };
    let test = "root_a_stream_in_groups_of_packets_arrives_whole";
    let Some(link) = hosts_with(test, line) else { return };
    let words = "gso delay=1ms rate=500mbit";
    let (said, ended) = linked(&link, [words, words], 1, stream);
    assert_eq!(said, "same\n");
    assert_conserved(&ended);
    for Ended { counts, lateness, .. } in &ended {
        // 2,000,000 bytes in packets of 1,448 at most, and fewer groups.
        assert!(counts.left >= 1_382 && lateness.packets() * 2 < counts.left, "{counts:?}");
    }
}

#[test]
fn root_no_packet_leaves_before_its_delay() {
    let Some(link) = hosts("root_no_packet_leaves_before_its_delay") else { return };
    let round_trips = "
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
for _ in range(20):
    start = time.monotonic_ns()
    s.sendto(b'x', (sys.argv[1], 7000))
    s.recv(10)
    print(time.monotonic_ns() - start)
";
    let echo = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 7000))
for _ in range(20):
    s.sendto(*s.recvfrom(10))
";
    let (said, ended) = linked(&link, ["delay=20ms", "delay=10ms"], 1, |hosts| {
        let server = Side::Server.address().to_string();
        let mut echo = hosts.start(Side::Server, python(echo, &[&server])).unwrap();
        wait_for_server(hosts);
        let said = output(hosts.start(Side::Client, python(round_trips, &[&server])).unwrap());
        echo.wait().unwrap();
        said
    });
    let times: Vec<u64> = said.lines().map(|ns| ns.parse().unwrap()).collect();
    assert_eq!(times.len(), 20);
    assert!(times.iter().all(|ns| *ns >= 30_000_000), "{times:?}");
    assert_conserved(&ended);
}

#[test]
fn root_a_command_that_is_not_there_is_named() {
    let Some((hosts, _ends)) = hosts("root_a_command_that_is_not_there_is_named") else { return };
    let error = hosts.start(Side::Client, Command::new("no-such-program")).unwrap_err();
    assert!(
        matches!(&error, Error::Start { program, .. } if program == "no-such-program"),
        "{error}"
    );
}
