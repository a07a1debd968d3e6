//! Processes that compete for a CPU and that work together.

use crate::common::*;
use sockscope_record::Protocol;
use sockscope_sim::programs::{
    BulkWriter, Computer, Opening, Pace, PrimeLoad, Setup, Sink, StageReceiver, StageSender,
};
use sockscope_sim::{
    Action, ActivityState, Answer, Everything, LogPolicy, Outcome, Program, ProgramContext,
    Simulation,
};
use sockscope_stack::{Personality, SocketError, SocketId};

/// The time of 5 MB, begun right after so many processes that compute on a host, in nanoseconds.
fn transfer_ns(loaded: usize, level: usize) -> u64 {
    let scenario = ethernet10("sunos-4.0.3", "sparcstation-1", 1);
    let mut sim = Simulation::new(scenario, Everything::default()).unwrap();
    let setup = Setup { buffer_bytes: Some(52_428), ..Setup::default() };
    sim.spawn(1, Box::new(Sink::new(PORT, 8192, 1).set_up(setup)), 0);
    for _ in 0..level {
        sim.spawn_daemon(loaded, Box::new(PrimeLoad::new(SECOND_NS)), 10_000_000);
    }
    let writer = BulkWriter::new(TO, 8192, 640).set_up(setup);
    sim.spawn(0, Box::new(writer), 20_000_000);
    // The primes go on for ever; without them there is an end.
    let expected = if level > 0 { Outcome::TimeIsUp } else { Outcome::Ended };
    assert_eq!(sim.run_until(600 * SECOND_NS), expected);
    let note = |name| sim.notes().iter().find(|note| note.name == name).map(|note| note.value);
    assert_eq!(note("received_bytes"), Some(640 * 8192));
    note("end_ns").unwrap() - note("connected_ns").unwrap()
}

#[test]
fn a_transfer_suffers_from_processes_that_compute_beside_it() {
    for loaded in [0, 1] {
        let times = [0, 4, 8].map(|level| transfer_ns(loaded, level));
        // Few of them are held back by their use of the CPU; many together have their turns.
        assert!(times[1] > times[0] && times[2] > times[1], "{times:?}");
        assert!(times[2] > 2 * times[0], "{times:?}");
    }
}

#[test]
fn a_stage_receives_computes_and_sends_each_piece() {
    let mut scenario = ethernet10("sunos-4.0.3", "sparcstation-1", 1);
    let third = std::net::Ipv4Addr::new(10, 0, 0, 3);
    let mut next = scenario.hosts[1].clone();
    "next".clone_into(&mut next.name);
    next.stack.interfaces[0].address = third;
    scenario.hosts.push(next);
    let mut sim = Simulation::new(scenario, Everything::default()).unwrap();
    let (bytes, pieces) = (10_000, 10);
    sim.spawn(1, Box::new(StageReceiver::new(Opening::at(PORT), bytes, pieces, 2)), 0);
    let computer = sim.spawn(1, Box::new(Computer::new(pieces, 300_000_000)), 0);
    sim.spawn(
        1,
        Box::new(StageSender::new(Opening::to((third, PORT)), bytes, pieces)),
        100_000_000,
    );
    sim.spawn(2, Box::new(Sink::new(PORT, 4096, 1)), 0);
    sim.spawn(0, Box::new(BulkWriter::new(TO, bytes, pieces)), 200_000_000);
    assert_eq!(sim.run_to_end(600 * SECOND_NS), Outcome::Ended);
    assert_eq!(sim.damage(), []);
    let received = sim.notes().iter().find(|note| note.name == "received_bytes").unwrap();
    assert_eq!(received.value, bytes as u64 * pieces);
    assert_eq!(computer.host, 1);
    assert_eq!(sim.process_name(2), "stage-compute");
    // It sleeps between pieces and is woken for each.
    let computes = sim.sink().activities.iter().filter(|activity| activity.process == 2);
    let ready = computes.filter(|activity| activity.state == ActivityState::Ready).count();
    assert!(ready as u64 >= pieces, "{ready}");
}

#[test]
fn a_packet_a_second_waits_for_no_other() {
    let mut scenario = ethernet10("sunos-4.0.3", "sparcstation-1", 1);
    for host in &mut scenario.hosts {
        host.stack.segment_bytes_max = Some(1024);
    }
    let mut sim = Simulation::new(scenario, Everything::default()).unwrap();
    let setup = Setup { buffer_bytes: Some(1024), no_delay: true, ..Setup::default() };
    sim.spawn(1, Box::new(Sink::new(PORT, 1024, 1).set_up(setup)), 0);
    let writer = BulkWriter::new(TO, 1024, 5).set_up(setup).paced(Pace::Sleep(SECOND_NS));
    sim.spawn(0, Box::new(writer), 100_000_000);
    assert_eq!(sim.run_to_end(60 * SECOND_NS), Outcome::Ended);
    assert!((4 * SECOND_NS..6 * SECOND_NS).contains(&sim.now_ns()), "{}", sim.now_ns());
}

#[test]
fn nothing_happens_on_hosts_without_processes() {
    let scenario = ethernet10("tahoe", "sparcstation-1", 1);
    let mut sim = Simulation::new(scenario, Everything::default()).unwrap();
    assert_eq!(sim.run_until(u64::MAX - 1), Outcome::Ended);
    assert_eq!((sim.host(0).cpu_used_ns(), sim.sink().records.len()), ([0; 3], 0));
}

#[test]
fn logging_on_request_begins_with_the_socket_that_asks() {
    for personality in Personality::ALL {
        let mut scenario = ethernet10(personality.name, "instant", 1);
        scenario.log = LogPolicy::OnRequest;
        let run = |log| {
            let mut sim = Simulation::new(scenario.clone(), Everything::default()).unwrap();
            let setup = Setup { log, ..Setup::default() };
            sim.spawn(1, Box::new(Sink::new(PORT, 1024, 1)), 0);
            sim.spawn(0, Box::new(BulkWriter::new(TO, 1024, 50).set_up(setup)), 1000);
            assert_eq!(sim.run_to_end(600 * SECOND_NS), Outcome::Ended);
            (sim.sink().records.is_empty(), sim.connections().len())
        };
        assert_eq!(run(true), (false, 1), "{}", personality.name);
        assert_eq!(run(false), (true, 0), "{}", personality.name);
    }
}

/// Waits for a datagram that is never sent, for so many nanoseconds, and notes the end of the wait.
struct Waiter {
    limit_ns: u64,
    socket: Option<SocketId>,
}

impl Program for Waiter {
    fn name(&self) -> &str {
        "waiter"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        match (context.answer, self.socket) {
            (Answer::Begin, _) => Action::Socket(Protocol::Udp),
            (Answer::Socket(id), _) => {
                self.socket = Some(id);
                Action::Bind(id, PORT)
            }
            (Answer::Done(_), Some(id)) => Action::ReceiveWithin(id, 100, self.limit_ns),
            (answer, _) => {
                assert_eq!(answer, Answer::Failed(SocketError::TimedOut));
                context.note("given_up_ns", context.now_ns);
                Action::Exit
            }
        }
    }
}

/// The clock ticks 3 ms after each 10; going to sleep takes the SPARCstation time, in which the tick may
/// occur.
#[test]
fn whoever_waits_for_a_datagram_gives_up_even_if_the_time_is_up_before_it_sleeps() {
    const MS: u64 = 1_000_000;
    for begins_ns in (20 * MS..30 * MS).step_by(100_000) {
        for limit_ns in [0, 1, MS] {
            let mut scenario = ethernet10("4.3bsd", "sparcstation-1", 1);
            scenario.hosts[0].timer_phase_ns = Some(3 * MS);
            let mut sim = Simulation::new(scenario, Everything::default()).unwrap();
            sim.spawn(0, Box::new(Waiter { limit_ns, socket: None }), begins_ns);
            let outcome = sim.run_to_end(SECOND_NS);
            assert_eq!(outcome, Outcome::Ended, "{limit_ns} ns from {begins_ns} on");
            let up_ns = sim.notes()[0].value;
            assert!(up_ns < begins_ns + 15 * MS, "{limit_ns} ns from {begins_ns} on: {up_ns}");
        }
    }
}
