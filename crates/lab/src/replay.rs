//! The calls of a pattern made again on modelled hosts, and their records.
//!
//! docs/reference/pattern.md describes it.

mod conditions;

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::path::Path;
use std::rc::Rc;

use sockscope_analysis::{Action, Activity, Analysis, Analyzer, Step, TraceFacts};
use sockscope_record::{Connection, counted};
use sockscope_sim::programs::{Opening, Setup};
use sockscope_sim::{BundleSink, Everything, Outcome, RecordSink, Simulation};
use sockscope_stack::DropReason;
use sockscope_trace::{Meta, Source};

use self::conditions::is_of_datagrams;
pub use self::conditions::{Conditions, check_names, names};
use crate::model::{CLIENT_START_NS, SERVER_START_NS, scenario_with, server_address};
use crate::pattern_file::PatternFile;
use crate::workload::{PlayTask, PlayedSide, Player, SharedLog};

/// Bytes of a step at most.
const STEP_BYTES_MAX: u64 = 1 << 26;

/// Bytes of both sides at most.
const BYTES_MAX: u64 = 1 << 30;

/// A read takes so many bytes at most, and more is no use: the buffers of these stacks are smaller.
const READ_MAX: u64 = 1 << 20;

/// Programs that make no call for so long, think times aside, wait for each other. The longest pause
/// between retransmissions is 64 s.
const PATIENCE_NS: u64 = 600_000_000_000;

/// The port of the server where the pattern names none.
const PORT: u16 = 4321;

/// Names of the processes where the pattern has none.
const NAMES: [&str; 2] = ["client", "server"];

/// Makes the calls of a pattern with every record to `sink`; gives the connection.
///
/// # Errors
///
/// A sentence, where the pattern cannot be run, the machine is not known, or the programs do not end.
pub fn record<S: RecordSink>(
    file: &PatternFile,
    conditions: &Conditions,
    sink: S,
) -> Result<(Vec<Connection>, S), String> {
    let sides = &file.pattern.sides;
    if file.pattern.connections > 1 {
        return Err("the model makes the calls of one connection: give --connection N".to_owned());
    }
    check(sides)?;
    let parameters = &conditions.parameters;
    let scenario = scenario_with(parameters, conditions.line, conditions.seed)?;
    let mut sim = Simulation::new(scenario, sink).map_err(|error| error.to_string())?;
    let log = SharedLog::default();
    let calls = Rc::new(Cell::new(0));
    let mut processes = Vec::new();
    for (side, activity) in sides.iter().enumerate() {
        for (player, steps, start_ns) in players(file, conditions, (side, activity), &calls, &log) {
            processes.push(Progress { side, steps, made: player.progress() });
            sim.spawn(host(conditions, side), Box::new(player), start_ns);
        }
    }
    let outcome = run(&mut sim, longest_think_ns(sides), &calls, &log);
    let hint = parameters.faults().hint();
    if let Some(failure) = &log.borrow().failure {
        return Err(format!("{failure}{hint}"));
    }
    if log.borrow().ended < processes.len() as u32 {
        let waits = processes.iter().filter_map(Progress::in_words).collect::<Vec<_>>().join(", ");
        let why = match outcome {
            Outcome::TimeIsUp | Outcome::Deadlock => "the programs wait for each other".to_owned(),
            other => format!("no end: {other:?}"),
        };
        return Err(format!("{why}: {waits}; larger buffers may help (--set buffers=N){hint}"));
    }
    Ok((sim.connections().to_vec(), sim.into_sink()))
}

/// Makes the calls of a pattern and analyses their records.
///
/// # Errors
///
/// As [`record`].
pub fn analyze(file: &PatternFile, conditions: &Conditions) -> Result<Analysis, String> {
    let (connections, all) = record(file, conditions, Everything::default())?;
    let mut analyzer = Analyzer::new();
    connections.into_iter().for_each(|connection| analyzer.connection(connection));
    analyzer.push(&all.records);
    let reasons = DropReason::ALL.into_iter();
    let drop_reasons = reasons.map(|reason| (reason as u32, reason.name().to_owned())).collect();
    let facts = TraceFacts { drop_reasons, ..TraceFacts::default() };
    Ok(analyzer.finish_keeping(facts, NonZeroUsize::MIN).0)
}

/// Makes the calls of a pattern and writes their records as a bundle. The bundle names `command` as its
/// command line; nothing else in it depends on the machine that runs the model.
///
/// # Errors
///
/// As [`record`], or when the bundle cannot be written.
pub fn write_bundle(
    file: &PatternFile,
    conditions: &Conditions,
    command: Vec<String>,
    path: &Path,
) -> Result<(), String> {
    let refuse =
        |error: sockscope_trace::Error| format!("trace bundle {}: {error}", path.display());
    let meta = Meta {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        source: Source::Model,
        pick: format!("the calls of {}", file.connection),
        host: conditions.machine()?,
        kernel: conditions.parameters.personality.clone(),
        command,
        ..Meta::default()
    };
    let sink = BundleSink::create(path, &meta).map_err(refuse)?;
    let (connections, sink) = record(file, conditions, sink)?;
    sink.finish(&connections, meta).map_err(refuse)
}

/// Refuses a pattern that would wait for ever, is too large, or has two processes of a side that both
/// write or both read: the order of their bytes is not in the pattern.
fn check(sides: &[Activity; 2]) -> Result<(), String> {
    let bytes = |side: &Activity, action| -> u64 {
        let steps = side.sequences.iter().flatten().filter(|step| step.action == action);
        steps.map(|step| step.bytes).fold(0, u64::saturating_add)
    };
    for (reader, writer) in [(0, 1), (1, 0)] {
        let (read, written) =
            (bytes(&sides[reader], Action::Read), bytes(&sides[writer], Action::Write));
        if read > written {
            return Err(format!(
                "the {} reads {read} bytes, of which the {} writes {written}",
                NAMES[reader], NAMES[writer]
            ));
        }
        if written > BYTES_MAX {
            return Err(format!(
                "the {} writes more than {BYTES_MAX} bytes: take a shorter recording",
                NAMES[writer]
            ));
        }
    }
    for (side, name) in sides.iter().zip(NAMES) {
        for action in [Action::Write, Action::Read] {
            let has = |steps: &&Vec<_>| steps.iter().any(|step: &Step| step.action == action);
            if side.sequences.iter().filter(has).count() > 1 {
                return Err(format!(
                    "{name}: two sequences write, or two read; one that reads and one that writes are possible"
                ));
            }
        }
        let all = side.sequences.iter().flatten();
        if all.clone().any(|step| step.bytes > STEP_BYTES_MAX) {
            return Err(format!("{name}: a step has more than {STEP_BYTES_MAX} bytes"));
        }
        if all.clone().any(|step| step.bytes == 0) {
            return Err(format!("{name}: a step has no bytes"));
        }
    }
    Ok(())
}

/// The number of the host of a side.
fn host(conditions: &Conditions, side: usize) -> usize {
    if conditions.is_loopback() { 0 } else { side }
}

/// The processes of a side, each with its number of steps and its start.
fn players(
    file: &PatternFile,
    conditions: &Conditions,
    (side, activity): (usize, &Activity),
    calls: &Rc<Cell<u64>>,
    log: &SharedLog,
) -> Vec<(Player, usize, u64)> {
    let is_server = side == 1;
    let shared = Rc::new(PlayedSide::new(calls));
    let name = Some(&file.processes[side]).filter(|name| !name.is_empty());
    let name = name.map_or(NAMES[side], String::as_str);
    let port = port(&file.connection);
    let datagrams = is_of_datagrams(file);
    let start_ns = if is_server { SERVER_START_NS } else { CLIENT_START_NS };
    // A side without calls has a process too, which ends its direction.
    let mut sequences = activity.sequences.clone();
    sequences.resize(sequences.len().max(1), Vec::new());
    let others = sequences.len() as u32 - 1;
    let reads_up_to = activity.reads_up_to.filter(|_| !datagrams);
    let buffer = reads_up_to.unwrap_or(activity.read_buffer_bytes).clamp(1, READ_MAX) as usize;
    let task = |steps: Vec<Step>| PlayTask {
        name: name.to_owned(),
        reads_after: reads_up_to.map(|_| activity.reads_after(&steps)),
        steps,
        buffer,
        no_delay: activity.no_delay,
        is_server,
        others,
        datagrams_to: datagrams.then_some((server_address(&conditions.parameters), port)),
    };
    let [reserve_bytes, reserve_receive_bytes] = conditions.buffers(activity, datagrams);
    let setup = Setup { reserve_bytes, reserve_receive_bytes, ..Setup::default() };
    let server = (server_address(&conditions.parameters), port);
    let opening = match (datagrams, is_server) {
        (false, true) => Opening::at(port),
        (false, false) => Opening::to(server),
        (true, _) => Opening::of_datagrams(is_server.then_some(port)),
    };
    let mut opening = Some(opening.set_up(setup));
    let sequences = sequences.into_iter();
    let player = |steps: Vec<_>| {
        let count = steps.len();
        let player = match opening.take() {
            Some(opening) => Player::first(task(steps), opening, &shared, log),
            None => Player::other(task(steps), &shared, log),
        };
        (player, count, start_ns)
    };
    sequences.map(player).collect()
}

/// The server's port: `tcp 127.0.0.1:40000 > 127.0.0.1:80` has 80.
fn port(connection: &str) -> u16 {
    let last = connection.rsplit(':').next().and_then(|port| port.parse().ok());
    last.filter(|port| *port > 0).unwrap_or(PORT)
}

fn longest_think_ns(sides: &[Activity; 2]) -> u64 {
    let steps = sides.iter().flat_map(|side| &side.sequences).flatten();
    steps.map(|step| step.think_ns).max().unwrap_or(0)
}

/// Runs to the end of all programs, or until they have made no call for longer than any may take.
fn run<S: RecordSink>(
    sim: &mut Simulation<S>,
    longest_ns: u64,
    calls: &Rc<Cell<u64>>,
    log: &SharedLog,
) -> Outcome {
    loop {
        let before = calls.get();
        let until_ns = sim.now_ns().saturating_add(PATIENCE_NS).saturating_add(longest_ns);
        let outcome = sim.run_to_end(until_ns);
        let is_stuck = calls.get() == before || log.borrow().failure.is_some();
        if outcome != Outcome::TimeIsUp || is_stuck {
            return outcome;
        }
    }
}

/// How far a process is.
struct Progress {
    side: usize,
    steps: usize,
    made: Rc<Cell<usize>>,
}

impl Progress {
    /// As `the client is at step 3 of 10`, unless it has made all.
    fn in_words(&self) -> Option<String> {
        let (made, of) = (self.made.get(), counted(self.steps as u64, "step"));
        let is_under_way = made < self.steps;
        is_under_way.then(|| format!("the {} is at step {} of {of}", NAMES[self.side], made + 1))
    }
}

#[cfg(test)]
mod tests;
