//! Where a message of a sender spends its time: today's form of the tables that kgmon and gprof gave to the study of
//! buffers in 4.2BSD.
//!
//! The wire has no rate, so that the sender's CPU is the limit, as it was on the VAX. Runs with samples and runs without
//! alternate, which shows the cost of the samples. A recorded run with one message at a time shows the stages.

use std::iter;
use std::path::Path;

use sockscope_experiment::measurement::{LayerSamples, SendProfile};
use sockscope_experiment::result::CaseResult;
use sockscope_experiment::{Experiment, Keep, Protocol, Workload};

use super::children::{Starter, problem};
use super::error::KernelError;
use super::network::with_hosts;
use super::packet_thread::PacketThread;
use super::programs::{CLIENT_CPU, Network, Programs};
use super::run::{record, reports};
use crate::profile::{Layer, Profile, ProfileError, Reading, Samples, Sampling, Symbols};

/// Samples of a second of CPU time. It shares no factor with the ticks of the kernel.
const FREQUENCY_HZ: u64 = 3_989;
/// CPU time of a run, of both ends. A turn has two runs with samples and two without.
const RUN_NS: f64 = 400e6;
/// Turns of a round. A connection keeps its rhythm, as whether the reader sleeps when a segment arrives: many short runs
/// have the mean of the rhythms.
const TURNS: u32 = 3;
/// Messages of a run that shows about how long one takes, and CPU time of the runs that show it better.
const FIRST_MESSAGES: u64 = 2_000;
const FIRST_RUN_NS: f64 = 100e6;
/// Messages of a run at least and at most.
const MESSAGES: (f64, f64) = (1_000.0, 5_000_000.0);
/// Functions that carry packets, whichever process has the CPU: the softirqs of the network, the queue of a socket that
/// a process held when a segment arrived, and sends that a full device put off.
const CARRIERS: [&str; 5] =
    ["net_rx_action", "net_tx_action", "__release_sock", "tcp_tsq_workfn", "tcp_tasklet_func"];
/// So much of the time of BPF programs is no accident of a few samples.
const OF_OTHERS_PERCENT: f64 = 1.0;
/// The recorded run: each message has left all queues when the next one is sent.
const MESSAGES_ALONE: u64 = 300;
const PAUSE: &str = "1ms";

/// Whether the file asks for the time in each routine of a sender.
pub(super) fn are_profiled(experiment: &Experiment) -> bool {
    experiment.workload == Workload::Send && experiment.keeps(Keep::Seconds)
}

/// The experiment with today's sizes, on a wire without a rate, and each message sent at once.
pub(super) fn prepared(experiment: &Experiment) -> Result<Experiment, KernelError> {
    let mut rest = experiment.without(&["link"], &[])?;
    rest.add_values_of_kernel();
    let cases = rest.cases()?;
    let first = cases.first().map(|case| &case.parameters);
    let messages = first.and_then(|it| it.messages).unwrap_or(1);
    // A run without a slow line is short enough as it is.
    let mut changes = vec![format!("messages={messages}")];
    if first.is_some_and(|it| it.protocol == Protocol::Tcp) {
        changes.push("nagle=false".to_owned());
    }
    rest.set_all(&changes)?;
    Ok(rest)
}

/// What a reader must know of the profile.
pub(super) fn notes(experiment: &Experiment) -> Vec<String> {
    let mut notes = vec![
        "the wire has no rate, so that the sender's CPU is the limit, as on the VAX".to_owned(),
        "sender and reader share a CPU, so that no send has to wake another CPU".to_owned(),
        "CPU time is of the sender's process, and of packets and acknowledgments also where the kernel carries them on \
         the time of the reader or of its own thread (ksoftirqd)"
            .to_owned(),
        format!(
            "stages are of a recorded run of {MESSAGES_ALONE} messages with {PAUSE} between two; the time before point 1 \
             is unknown"
        ),
    ];
    if experiment.parameter_names().contains("nagle") {
        notes.push(
            "TCP_NODELAY is set, as 4.2BSD had no Nagle's rule, and Reno's congestion control, which does not pace"
                .to_owned(),
        );
    }
    notes
}

/// A warning where programs that others attached to the kernel had much of the time of a message.
pub(super) fn watched_by_others(cases: &[CaseResult]) -> Option<String> {
    let share = |case: &CaseResult| {
        let sends = case.measured.sends.as_ref()?;
        let of_others = sends.of_layer(Layer::Bpf.name());
        Some(100.0 * of_others as f64 / sends.samples().max(1) as f64)
    };
    let most = cases.iter().filter_map(share).reduce(f64::max)?;
    (most >= OF_OTHERS_PERCENT).then(|| {
        format!(
            "BPF programs of others had up to {most:.0} % of the time of a message: other recorders were at work, and \
             slow the rest too"
        )
    })
}

/// The names of the kernel's functions, where the kernel gives them and samples.
pub(super) fn symbols() -> Result<Symbols, ProfileError> {
    Sampling::of_this_thread(1)?;
    Symbols::read()
}

/// Programs without the limit of a rate, both ends on one CPU. On another CPU a reader sleeps in some runs and is still
/// awake in others, and its wake-up, an interrupt between CPUs, takes a tenth of a send.
pub(super) fn on_fast_wire(programs: &mut Programs) {
    if matches!(programs.network, Network::Pair(..)) {
        programs.network = Network::Fast;
    }
    programs.share_cpu();
}

/// The profile of a case, of so many rounds.
pub(super) fn profile(
    programs: &Programs,
    laboratory: &Path,
    rounds: u32,
    symbols: &Symbols,
) -> Result<SendProfile, KernelError> {
    let first = send(&with_messages(programs, FIRST_MESSAGES), laboratory, None)?;
    let mut message_ns = first.message_ns();
    let (mut plain, mut sampled) = (Sent::default(), Sent::default());
    let mut cost_percent = Vec::new();
    // The first round is short: it shows how many messages fill a run.
    for run_ns in [FIRST_RUN_NS].into_iter().chain(iter::repeat_n(RUN_NS, rounds as usize)) {
        let messages = (run_ns / message_ns).clamp(MESSAGES.0, MESSAGES.1) as u64;
        let programs = with_messages(programs, messages);
        let mut round = [Sent::default(), Sent::default()];
        let turns = if run_ns < RUN_NS { 1 } else { TURNS };
        // A drift of the machine is in both alike.
        let order = [false, true, true, false].repeat(turns as usize);
        for is_sampled in order {
            let symbols = is_sampled.then_some(symbols);
            round[usize::from(is_sampled)].add(send(&programs, laboratory, symbols)?);
        }
        let [without, with] = round;
        message_ns = without.message_ns();
        if run_ns < RUN_NS {
            continue;
        }
        cost_percent.push(100.0 * (with.message_ns() / message_ns - 1.0));
        plain.add(without);
        sampled.add(with);
    }
    let found = Profile::of(&sampled.samples, symbols, FREQUENCY_HZ);
    let alone = with_pause(with_messages(programs, MESSAGES_ALONE));
    let (seen, _) = record(&alone, laboratory, None)?;
    let of_message =
        |(point, passages): (&'static str, usize)| (point, passages as f64 / MESSAGES_ALONE as f64);
    let layers = found.layers().into_iter().map(|one| LayerSamples {
        rank: one.layer as usize,
        layer: one.layer.name(),
        functions: one.functions.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
    });
    Ok(SendProfile {
        messages: sampled.messages,
        segments_per_message: sampled.segments as f64 / sampled.messages.max(1) as f64,
        frequency_hz: FREQUENCY_HZ,
        missed: found.missed,
        cpu_ns: plain.message_ns() * sampled.share_of_sends(),
        cost_percent,
        points_by_chance: found.points_by_chance(),
        layers: layers.collect(),
        stages: seen.stage_times(),
        passages: seen.passages().into_iter().map(of_message).collect(),
    })
}

/// What a sender did, in one run or several.
#[derive(Default)]
struct Sent {
    messages: u64,
    segments: u64,
    /// Of the sender, the reader and the kernel's thread for packets.
    cpu_ns: u64,
    /// Samples of these three, and those of them that belong to the sends.
    all_samples: u64,
    samples: Samples,
}

impl Sent {
    fn message_ns(&self) -> f64 {
        self.cpu_ns as f64 / self.messages.max(1) as f64
    }

    fn share_of_sends(&self) -> f64 {
        self.samples.count() as f64 / self.all_samples.max(1) as f64
    }

    fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.segments += other.segments;
        self.cpu_ns += other.cpu_ns;
        self.all_samples += other.all_samples;
        self.samples.add(other.samples);
    }
}

/// One run of the sender and its reader, with samples where there are names of functions for them.
fn send(
    programs: &Programs,
    laboratory: &Path,
    symbols: Option<&Symbols>,
) -> Result<Sent, KernelError> {
    let thread = PacketThread::of_cpu(CLIENT_CPU);
    let thread_ns = || thread.and_then(PacketThread::cpu_ns).unwrap_or(0);
    let (sent, _) = with_hosts(&programs.network, |hosts| {
        let begin = || Ok((symbols.map(|_| reading()).transpose()?, thread_ns()));
        let (reports, (reading, thread_before_ns)) =
            reports(Starter { hosts, group: None }, programs, laboratory, begin)?;
        let thread_ns = thread_ns().saturating_sub(thread_before_ns);
        let (client, server) = (&reports.clients[0], &reports.servers[0]);
        let number = |of: &serde_json::Value| of.as_u64().unwrap_or(0);
        // A datagram that ICMP refused took its call too.
        let messages = number(&client["sent"]["messages"]) + number(&client["refused"]);
        let cpu_ns = number(&client["cpu_ns"]) + number(&server["cpu_ns"]) + thread_ns;
        let sender = reports.client_pids[0];
        let pids: Vec<u32> = [sender, reports.server_pids[0]]
            .into_iter()
            .chain(thread.map(|thread| thread.pid))
            .collect();
        let samples = reading.map_or_else(Samples::default, Reading::end).of_processes(&pids);
        let all_samples = samples.count();
        let samples = match symbols {
            Some(symbols) => samples.of_process_or_in(sender, &CARRIERS, symbols),
            None => samples,
        };
        Ok(Sent { messages, segments: reports.segments(), cpu_ns, all_samples, samples })
    })?;
    sent
}

/// Samples of the sender's CPU from now on.
fn reading() -> Result<Reading, KernelError> {
    let reading = Sampling::of_cpu(CLIENT_CPU, FREQUENCY_HZ).and_then(Reading::begin);
    reading.map_err(|error| problem(error.to_string()))
}

fn with_messages(programs: &Programs, messages: u64) -> Programs {
    let mut programs = programs.clone();
    for client in &mut programs.clients {
        client.retain(|argument| argument != "--list-times");
        if let Some(at) = client.iter().position(|argument| argument == "--messages") {
            client[at + 1] = messages.to_string();
        }
    }
    programs
}

fn with_pause(mut programs: Programs) -> Programs {
    for client in &mut programs.clients {
        client.extend(["--pause", PAUSE].map(str::to_owned));
    }
    programs
}

#[cfg(test)]
mod tests {
    use sockscope_experiment::builtin_by_id;
    use sockscope_experiment::measurement::Measurement;

    use super::super::of_kernel;
    use super::*;

    fn programs(id: &str, set: &[&str]) -> (Experiment, Vec<Programs>) {
        let mut experiment = builtin_by_id(id).unwrap();
        experiment.set_all(set).unwrap();
        assert!(are_profiled(&experiment));
        let experiment = of_kernel(&prepared(&experiment).unwrap()).unwrap();
        let cases = experiment.cases().unwrap();
        let programs = cases.iter().map(|case| {
            let mut programs = Programs::of(&experiment, case).unwrap();
            on_fast_wire(&mut programs);
            programs
        });
        let programs = programs.collect();
        (experiment, programs)
    }

    #[test]
    fn each_message_is_sent_at_once_on_a_wire_without_a_rate() {
        let (experiment, all) = programs("bb-1", &[]);
        assert_eq!(all.len(), 9, "six sizes of the paper and three of today");
        assert!(all.iter().all(|it| it.network == Network::Fast), "{all:?}");
        for programs in &all {
            let servers = programs.servers.iter().map(|server| &server.arguments);
            for arguments in servers.chain(&programs.clients) {
                assert_eq!(arguments[..2], ["--cpu", "0"], "{programs:?}");
            }
        }
        let client = with_pause(with_messages(&all[8], 300)).clients[0].join(" ");
        assert!(
            client.contains("--message-bytes 32768b --messages 300 --nodelay --pause 1ms"),
            "{client}"
        );
        assert!(notes(&experiment).iter().any(|note| note.contains("TCP_NODELAY")));
        assert!(!notes(&programs("bb-2", &[]).0).iter().any(|note| note.contains("TCP_NODELAY")));
    }

    #[test]
    fn what_is_set_stays() {
        let set = ["topology=loopback", "message_bytes=7", "messages=9"];
        let (_, all) = programs("bb-2", &set);
        assert_eq!((all.len(), &all[0].network), (1, &Network::Loopback));
        assert!(
            all[0].clients[0].join(" ").contains("--message-bytes 7b --messages 9 "),
            "{all:?}"
        );
    }

    #[test]
    fn recorders_of_others_are_named_from_one_percent_on() {
        let case = |samples| {
            let layer = |layer, n| {
                let functions = vec![("f".to_owned(), n)];
                LayerSamples { layer, functions, ..LayerSamples::default() }
            };
            let layers = vec![layer("TCP", 1000 - samples), layer("BPF", samples)];
            let sends = Some(SendProfile { layers, ..SendProfile::default() });
            let case = builtin_by_id("bb-1").unwrap().cases().unwrap().remove(0);
            CaseResult { case, measured: Measurement { sends, ..Measurement::default() } }
        };
        let words = watched_by_others(&[case(5), case(230)]).unwrap();
        assert!(words.starts_with("BPF programs of others had up to 23 %"), "{words}");
        assert_eq!(watched_by_others(&[case(9)]), None);
        assert_eq!(watched_by_others(&[]), None);
    }

    #[test]
    fn only_senders_whose_routines_are_timed_have_a_profile() {
        for (id, is) in [("bb-1", true), ("bb-2", true), ("bb-3", false), ("lh-1", false)] {
            assert_eq!(are_profiled(&builtin_by_id(id).unwrap()), is, "{id}");
        }
    }
}
