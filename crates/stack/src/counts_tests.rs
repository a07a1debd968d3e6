//! Calls per write of a TCP sender as measured in 1984, routine by routine.
//!
//! The receiver reads each message as soon as it is there, and acknowledges it once: at the read if
//! it is long enough (35 percent of the buffer), else with the next turn of the fast timer.

use Routine::*;

use crate::calls::Step;
use crate::personality::Personality;
use crate::routine::Routine;
use crate::socket::SocketId;
use crate::testing::{Pair, pattern};

const SIZES: [usize; 6] = [1, 112, 113, 1023, 1024, 1025];

const WRITES: u64 = 20;

struct Scene {
    pair: Pair,
    client: SocketId,
    server: SocketId,
}

impl Scene {
    fn new(personality: &str) -> Self {
        let mut pair = Pair::new(&Personality::by_name(personality).unwrap());
        let (client, server) = pair.connection(1, 9);
        Self { pair, client, server }
    }

    fn write(&mut self, len: usize) {
        let (_, step) = self.pair.write(0, self.client, &pattern(len));
        assert_eq!(step, Step::Done(Ok(len as u32)));
    }

    fn read(&mut self, len: usize) {
        let got = self.pair.read(1, self.server, len);
        assert_eq!(got, Some(pattern(len)));
    }

    fn calls(&self) -> Vec<u64> {
        Routine::ALL.iter().map(|routine| self.pair.calls(0, *routine)).collect()
    }
}

/// The sender's calls for each of some writes of `len` bytes, each acknowledged before the next.
fn calls_per_write(personality: &str, len: usize) -> impl Fn(Routine) -> u64 + use<> {
    let mut scene = Scene::new(personality);
    let turn = |scene: &mut Scene| {
        scene.write(len);
        scene.read(len);
        scene.pair.fasttimo();
    };
    turn(&mut scene);
    let before = scene.calls();
    for _ in 0..WRITES {
        turn(&mut scene);
    }
    let after = scene.calls();
    move |routine| {
        let calls = after[routine.index()] - before[routine.index()];
        assert_eq!(calls % WRITES, 0, "{}", routine.name());
        calls / WRITES
    }
}

#[test]
fn a_write_calls_each_routine_of_the_sender_as_often_as_was_measured() {
    let uiomoves = [1, 1, 2, 10, 1, 2];
    let segments = [1, 1, 1, 1, 1, 2];
    // Trailer packets: one mbuf for the link header, one page to free after it has gone.
    let trailers = [0, 0, 0, 0, 1, 1];
    // Mbufs of sosend, headers and m_copy.
    let mbufs = [3, 3, 5, 21, 3, 6];
    for (at, len) in SIZES.into_iter().enumerate() {
        let calls = calls_per_write("4.2bsd-cabrera", len);
        let check = |routine: Routine, expected: u64| {
            assert_eq!(calls(routine), expected, "{} at {len}", routine.name());
        };
        for routine in [Syscall, Write, Rwuio, SooRw, Sosend, TcpUsrreq, Sbappend, TcpOutput] {
            check(routine, 1);
        }
        // Each write is acknowledged once.
        for routine in [TcpInput, TcpXoutput, InPcblookup, Sbdrop, Enrint, IfRubaget, Ipintr] {
            check(routine, 1);
        }
        check(Uiomove, uiomoves[at]);
        for routine in [MCopy, IpOutput, Enoutput, Enstart, IfWubaput, Enxint] {
            check(routine, segments[at]);
        }
        check(TcpCksum, segments[at] + 1);
        check(InCksum, segments[at] + 1);
        check(InLnaof, 3 * segments[at]);
        check(InNetof, 0);
        check(Rtalloc, 0);
        check(MGet, trailers[at]);
        check(MFreem, 1 + trailers[at]);
        check(MFree, 0);
        // In addition the acknowledgment takes one when it is received.
        check(MgetMacro, mbufs[at] + 1 + trailers[at]);
    }
}

#[test]
fn each_segment_received_calls_the_private_output_once_in_every_4_2() {
    for personality in ["4.2bsd", "4.2bsd-cabrera"] {
        let mut scene = Scene::new(personality);
        for len in SIZES {
            scene.write(len);
            scene.read(len);
            scene.pair.fasttimo();
        }
        for host in 0..2 {
            let (input, output) =
                (scene.pair.calls(host, TcpInput), scene.pair.calls(host, TcpXoutput));
            assert_eq!(input, output, "{personality}, host {host}");
        }
    }
}

/// 1025 bytes behind an unacknowledged message of 1025: small mbufs, and two segments. The second
/// waits for the acknowledgment.
#[test]
fn a_write_of_1025_behind_another_goes_out_as_1023_and_2() {
    let mut scene = Scene::new("4.2bsd-cabrera");
    scene.pair.is_held = true;
    scene.write(1025);
    let before = (scene.pair.calls(0, Uiomove), scene.pair.sent.len());
    scene.write(1025);
    assert_eq!(scene.pair.calls(0, Uiomove) - before.0, 10);
    assert_eq!(scene.pair.sent.len() - before.1, 1);
    let copies = scene.pair.calls(0, MCopy);
    scene.pair.is_held = false;
    scene.pair.settle();
    scene.read(1025);
    assert_eq!(scene.pair.calls(0, MCopy) - copies, 1, "the last two bytes, when the ACK is there");
    let last = scene.pair.sent.iter().rfind(|(host, _)| *host == 0).unwrap();
    assert_eq!(last.1.len(), 4 + 40 + 2);
    scene.read(1025);
}
