//! `sockscope watch`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::SIGUSR1;
use sockscope_analysis::{FreshCosts, TraceFacts, Window};
use sockscope_probe::{Cgroup, Options, Pick, monotonic_ns};
use sockscope_program::failure::Failure;
use sockscope_program::pick::{PickArgs, describe};
use sockscope_program::recorder_thread::{Message, Recording};
use sockscope_program::signals::StopSignals;
use sockscope_program::{machine, recorded};
use sockscope_record::counted;
use sockscope_trace::Meta;
use sockscope_watch::{Condition, Counted, Quota, Recent, Subject, Watched};

use crate::args;
use crate::collector::Collector;
use crate::findings::Lines;
use crate::keep;
use crate::sampling::{Sampling, Spent};
use crate::sandbox::{Sandbox, restrict};
use crate::segments::{Held, Segments, prepare};
use crate::serve::{Server, Shared};
use crate::spool::Spool;

/// The recorder hands a record over at most so long after its time: analyses end so long ago.
const RECORDS_TAKE: Duration = Duration::from_millis(250);
/// Between two looks of the recorder at lists that do not fill. A look takes 0.1 ms of CPU time.
const PAUSE_MAX: Duration = Duration::from_millis(40);
/// Between two looks at the signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Without `--when`.
const USUAL: Condition = Condition {
    subject: Subject::Lost,
    more_than: Duration::from_secs(1),
    within: Duration::from_secs(10),
};

/// Of each segment: what a kill leaves has no count.
const MAY_BE_SAMPLED: &str =
    "recorded with --budget: a part of the connections may be left out, by a stable hash";

/// Whether the kernel measures the run time of the probes.
fn measures_cost(arguments: &args::Watch) -> bool {
    arguments.cost || arguments.budget.is_some()
}

/// CPU time of all threads of this process since its start.
fn process_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let number = |part: i64| u64::try_from(part).unwrap_or_default();
    number(time.tv_sec) * 1_000_000_000 + number(time.tv_nsec)
}

/// Records until it is ended, and keeps what the conditions ask for.
pub fn watch(arguments: &args::Watch) -> Result<(), Failure> {
    arguments.pick.check(false)?;
    if arguments.all && arguments.pick.is_any() {
        return Err(Failure::new("--all is every connection: give it, or those to pick"));
    }
    if !arguments.all && !arguments.pick.is_any() {
        return Err(Failure::new(
            "say which connections: --all, or --port, --addr, --pid, --comm or --cgroup",
        ));
    }
    if let Some(right) = sockscope_probe::missing_right() {
        return Err(sockscope_probe::Error::NoRight { right }.into());
    }
    let signals = StopSignals::register()?;
    let asked = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, Arc::clone(&asked))
        .map_err(|error| Failure::new(format!("cannot handle signals: {error}")))?;
    Cgroup::remove_stale()?;
    let pick = picked(arguments)?;
    let mut watch = Watch::start(arguments, &pick, asked)?;
    watch.run(&signals)
}

fn picked(arguments: &args::Watch) -> Result<Pick, Failure> {
    if arguments.all {
        let all = PickArgs { cgroup: Some(Cgroup::hierarchy()?), ..PickArgs::default() };
        return all.find(None);
    }
    arguments.pick.find(None)
}

struct Watch<'a> {
    arguments: &'a args::Watch,
    conditions: Vec<Watched>,
    recording: Recording,
    segments: Segments,
    spool: Option<Spool>,
    window: Window,
    facts: TraceFacts,
    namespaces: machine::LiveNamespaces,
    refreshed_ns: Option<u64>,
    records: u64,
    /// Those of an open wait that earlier refreshes counted.
    costs: FreshCosts,
    recent: Recent,
    quota: Quota,
    sampling: Option<Sampling>,
    kept: u64,
    lines: Option<Lines>,
    collector: Option<Collector>,
    shared: Arc<Shared>,
    server: Option<Server>,
    /// By SIGUSR1.
    asked: Arc<AtomicBool>,
    due: Option<Due>,
    making: Vec<Making>,
    /// A trace was being made since the last refresh.
    made: bool,
    started: Vec<Child>,
}

/// A bundle that is due when its time after the condition is over.
struct Due {
    from_ns: u64,
    until_ns: u64,
    reason: String,
}

/// A bundle that is being made.
struct Making {
    held: Held,
    folder: PathBuf,
    reason: String,
    thread: JoinHandle<Result<Option<u64>, Failure>>,
}

/// Starts the recorder, and gives up rights, unless a command of the user needs them.
fn start_in_sandbox(
    arguments: &args::Watch,
    pick: &Pick,
    options: Options,
) -> Result<Recording, Failure> {
    if arguments.exec.is_some() {
        return Recording::start(pick.clone(), options);
    }
    let folder_of = |file: &Path| match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    // A file that is rotated is begun again in its folder.
    let findings = arguments.findings.as_deref().filter(|file| *file != Path::new("-"));
    let findings = findings.map(folder_of);
    let folders =
        [Some(arguments.output.as_path()), arguments.spool.as_deref(), findings.as_deref()];
    let folders: Vec<&Path> = folders.into_iter().flatten().collect();
    let sandbox = Sandbox::new(&folders, arguments.otlp.is_some())?;
    let (files, (sender, is_restricted)) = (sandbox.files()?, sync_channel(1));
    let recording = Recording::start_then(pick.clone(), options, move || {
        let _ = sender.send(restrict(files));
    })?;
    if let Ok(restricted) = is_restricted.recv() {
        restricted?;
    }
    if !sandbox.enter()? {
        stderr!("sockscope: this kernel has no Landlock: the recorder may open files elsewhere");
    }
    Ok(recording)
}

impl<'a> Watch<'a> {
    fn start(
        arguments: &'a args::Watch,
        pick: &Pick,
        asked: Arc<AtomicBool>,
    ) -> Result<Self, Failure> {
        let folder = &arguments.output;
        for folder in [Some(folder), arguments.spool.as_ref()].into_iter().flatten() {
            if !folder.is_dir() {
                fs::create_dir(folder)
                    .map_err(|error| Failure::file("cannot make", folder, &error))?;
            }
        }
        let earlier = prepare(&folder.join("segments"))?;
        let lines = arguments.findings.as_deref().map(Lines::open).transpose()?;
        let options = Options {
            calls: arguments.calls,
            unix: arguments.unix,
            statistics: measures_cost(arguments),
            pause_max: Some(PAUSE_MAX),
            ..Options::default()
        };
        let recording = start_in_sandbox(arguments, pick, options)?;
        // Their threads have the limits of this one.
        let shared = Arc::new(Shared::default());
        let serve = |address| Server::start(address, Arc::clone(&shared));
        let server = arguments.listen.map(serve).transpose()?;
        let collector = arguments.otlp.as_deref().map(Collector::start).transpose()?;
        let spool = arguments.spool.clone().map(Spool::start).transpose()?;
        let meta = Meta {
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            host: machine::host(),
            kernel: machine::kernel(),
            machine: machine::machine(),
            command: std::env::args().collect(),
            pick: describe(pick, false),
            hooks: recording.hooks().iter().map(recorded::hook).collect(),
            sysctls: machine::sysctls(),
            interfaces: machine::interfaces(),
            drop_reasons: sockscope_probe::drop_reasons().into_iter().collect(),
            notes: arguments.budget.map(|_| MAY_BE_SAMPLED.to_owned()).into_iter().collect(),
            ..Meta::default()
        };
        let facts = TraceFacts {
            source: "live".to_owned(),
            drop_reasons: meta.drop_reasons.clone(),
            ..TraceFacts::default()
        };
        let conditions = match &arguments.when[..] {
            [] => vec![USUAL],
            when => when.to_vec(),
        };
        let longest = conditions.iter().map(|condition| condition.within).max().unwrap_or_default();
        let mut segments =
            Segments::new(folder.join("segments"), meta, arguments.keep, arguments.max_disk);
        if spool.is_some() {
            segments.hand_over();
        }
        let mut watch = Self {
            arguments,
            recording,
            segments,
            spool,
            window: Window::of_active(),
            facts,
            namespaces: machine::LiveNamespaces::default(),
            refreshed_ns: None,
            records: 0,
            costs: FreshCosts::default(),
            recent: Recent::new(longest),
            conditions: conditions.into_iter().map(Watched::new).collect(),
            quota: Quota::new(arguments.per_hour),
            sampling: arguments.budget.map(|limit| {
                Sampling::new(limit, arguments.before.saturating_add(arguments.after))
            }),
            kept: 0,
            lines,
            collector,
            shared,
            server,
            asked,
            due: None,
            making: Vec::new(),
            made: false,
            started: Vec::new(),
        };
        watch.keep_earlier(&earlier)?;
        watch.say_start();
        Ok(watch)
    }

    fn say_start(&self) {
        let conditions = self.conditions.iter().map(|watched| watched.condition().to_string());
        let conditions: Vec<String> = conditions.collect();
        stderr!(
            "sockscope: recording into {}; a trace is kept when {}",
            self.arguments.output.display(),
            conditions.join(", or when ")
        );
        if self.sampling.is_some() && self.recording.run_ns().is_none() {
            stderr!(
                "sockscope: the kernel does not measure the run time of the probes: the budget is for this program alone"
            );
        }
        if let Some(server) = &self.server {
            stderr!("sockscope: metrics are at http://{}/metrics", server.address);
        }
    }

    /// Of a recorder that was killed: its segments become a trace, and make room.
    fn keep_earlier(&mut self, earlier: &[PathBuf]) -> Result<(), Failure> {
        if earlier.is_empty() {
            return Ok(());
        }
        let folder = self.folder_of_bundle("before");
        let reason = "the recorder before this one was killed";
        match keep::keep(earlier, &folder, reason, None) {
            Ok(Some(records)) => {
                stderr!(
                    "sockscope: {reason}: its {} are in {}",
                    counted(records, "record"),
                    folder.display()
                );
            }
            Ok(None) => {}
            Err(error) => stderr!("sockscope: {reason}, and its recording cannot be kept: {error}"),
        }
        for segment in earlier {
            fs::remove_dir_all(segment)
                .map_err(|error| Failure::file("cannot remove", segment, &error))?;
        }
        Ok(())
    }

    fn folder_of_bundle(&self, word: &str) -> PathBuf {
        let at_s = machine::clock().realtime_ns / 1_000_000_000;
        let name = |n: u32| match n {
            0 => format!("{word}-{at_s}.sockscope"),
            n => format!("{word}-{at_s}-{n}.sockscope"),
        };
        let folders = (0..).map(|n| self.arguments.output.join(name(n)));
        folders.into_iter().find(|folder| !folder.exists()).unwrap_or_default()
    }

    fn run(&mut self, signals: &StopSignals) -> Result<(), Failure> {
        self.recording.give_way();
        let started = Instant::now();
        let mut refreshed = started;
        let is_late = |duration| started.elapsed() >= duration;
        while !signals.stop_requested() && !self.arguments.duration.is_some_and(is_late) {
            self.take()?;
            let now_ns = monotonic_ns();
            self.segments.look(now_ns);
            if refreshed.elapsed() >= self.arguments.interval {
                refreshed = Instant::now();
                self.refresh(now_ns);
            }
            let is_asked = self.asked.swap(false, Ordering::Relaxed);
            if is_asked || self.shared.keep.swap(false, Ordering::Relaxed) {
                self.ask(now_ns, "it was asked for".to_owned());
            }
            self.make_due(now_ns);
            self.finish_made();
            self.spool();
        }
        self.end()
    }

    /// Hands sealed segments over to the spool.
    fn spool(&mut self) {
        let Some(spool) = &mut self.spool else { return };
        for segment in self.segments.take_sealed() {
            if let Err(number) = spool.add(segment) {
                self.segments.release_one(number);
            }
        }
        spool.take_done().into_iter().for_each(|number| self.segments.release_one(number));
    }

    /// Takes records for a moment.
    fn take(&mut self) -> Result<(), Failure> {
        let Self { window, segments, records, recording, .. } = self;
        recording.take(LOOK_EVERY, |message| match message {
            Message::Records(batch) => {
                *records += batch.len() as u64;
                window.push(&batch);
                segments.push(&batch, monotonic_ns());
            }
            Message::Connection(connection) => {
                window.connection(connection.clone());
                segments.connection(connection);
            }
        })
    }

    /// Analyses what was recorded since the last time, and looks at the conditions.
    fn refresh(&mut self, now_ns: u64) {
        let lag_ns = u64::try_from(RECORDS_TAKE.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = now_ns.saturating_sub(lag_ns);
        let since_ns = self.refreshed_ns.map_or(0, |at_ns| at_ns + 1);
        if let Some(refreshed_ns) = self.refreshed_ns {
            self.window.forget_before(refreshed_ns);
        }
        self.refreshed_ns = Some(until_ns);
        self.facts.network_namespaces = self.namespaces.names();
        self.window.refresh(self.facts.clone(), Some(until_ns));
        let Some(analysis) = self.window.analysis() else { return };
        let costs = self.costs.take(analysis);
        self.recent.push(analysis, &costs, until_ns);
        if let Some(lines) = &mut self.lines
            && let Err(error) = lines.write(analysis, until_ns, machine::clock())
        {
            stderr!("sockscope: the findings of this second are not written: {error}");
        }
        if let Some(collector) = &mut self.collector {
            collector.send_findings(analysis, until_ns);
        }
        let records = std::mem::take(&mut self.records);
        let mut metrics = self.shared.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        metrics.add(analysis, &costs, records);
        let stores = analysis.connections.iter().filter_map(|one| {
            let id = one.connection.id;
            Some((self.window.store(id)?, self.window.losses_of(id)))
        });
        for (store, losses) in stores {
            metrics.add_flows(store, &losses, &self.facts.drop_reasons, since_ns..=until_ns);
        }
        let openings = self.recording.openings();
        let (_, removed_early) = self.segments.given_up();
        metrics.recorder(&Counted {
            missed: self.recording.missed(),
            costs: measures_cost(self.arguments).then(|| self.recording.costs()),
            cpu_s: process_ns() as f64 * 1e-9,
            share: self.sampling.as_ref().map_or(1.0, Sampling::share),
            left_out: openings.left_out,
            left_out_later: openings.left_out_later,
            segment_bytes: self.segments.bytes(),
            kept: self.kept,
            refused: self.quota.refused(),
            removed_early,
            otlp: self.collector.as_ref().map(|collector| collector.counts()),
        });
        if let Some(collector) = &mut self.collector {
            collector.send_metrics_after(self.arguments.otlp_interval, &metrics);
        }
        drop(metrics);
        self.keep_budget(now_ns);
        let mut reason = None;
        for watched in &mut self.conditions {
            if let Some(worst) = watched.begins(&self.recent, now_ns) {
                let (condition, connection) = (watched.condition(), worst.connection.0);
                let words = || format!("{condition}; connection {connection}: {}", worst.summary);
                reason = reason.or_else(|| Some(words()));
            }
        }
        if let Some(reason) = reason {
            self.ask(now_ns, reason);
        }
    }

    /// Has fewer connections recorded where they cost too much.
    fn keep_budget(&mut self, now_ns: u64) {
        let Some(sampling) = &mut self.sampling else { return };
        let makes_trace = std::mem::replace(&mut self.made, !self.making.is_empty());
        let probes_ns = self.recording.run_ns();
        let spent = Spent { at_ns: now_ns, probes_ns, process_ns: process_ns() };
        if let Some((share, words)) = sampling.look(spent, self.recording.openings(), makes_trace) {
            self.recording.set_share(share);
            stderr!("sockscope: {words}");
        }
    }

    /// Has a bundle made, unless one is due that has this time, or the hour has enough.
    fn ask(&mut self, now_ns: u64, reason: String) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if self.due.is_some() || !self.quota.allows(now_ns) {
            return;
        }
        stderr!("sockscope: keeping a trace: {reason}");
        self.due = Some(Due {
            from_ns: now_ns.saturating_sub(ns(self.arguments.before)),
            until_ns: now_ns.saturating_add(ns(self.arguments.after)),
            reason,
        });
    }

    /// Begins to make the bundle whose time is over.
    fn make_due(&mut self, now_ns: u64) {
        let Some(due) = self.due.take_if(|due| now_ns >= due.until_ns) else { return };
        self.segments.seal(now_ns);
        let held = self.segments.hold(due.from_ns, now_ns);
        let folder = self.folder_of_bundle("kept");
        let (folders, into, reason) = (held.folders.clone(), folder.clone(), due.reason.clone());
        let sampled = self.sampling.as_ref().and_then(|it| it.note(due.from_ns, now_ns));
        let thread = std::thread::Builder::new().name("keep".to_owned());
        match thread.spawn(move || keep::keep(&folders, &into, &reason, sampled)) {
            Ok(thread) => {
                self.made = true;
                self.making.push(Making { held, folder, reason: due.reason, thread });
            }
            Err(error) => {
                stderr!("sockscope: a trace is not kept, as there is no thread: {error}");
                self.segments.release(&held);
            }
        }
    }

    fn finish_made(&mut self) {
        let (made, making) = std::mem::take(&mut self.making)
            .into_iter()
            .partition::<Vec<_>, _>(|making| making.thread.is_finished());
        self.making = making;
        for Making { held, folder, thread, reason } in made {
            self.segments.release(&held);
            match thread.join() {
                Ok(Ok(Some(records))) => {
                    self.kept += 1;
                    let shown = folder.display();
                    stderr!(
                        "sockscope: {} in {shown}; see it: sockscope report {shown}",
                        counted(records, "record")
                    );
                    self.start_command(&folder, &reason);
                }
                Ok(Ok(None)) => {
                    stderr!("sockscope: no trace is kept, as nothing was recorded in that time");
                }
                Ok(Err(error)) => stderr!("sockscope: a trace is not kept: {error}"),
                Err(_) => stderr!("sockscope: a trace is not kept: its thread failed"),
            }
        }
        self.started.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    fn start_command(&mut self, folder: &Path, reason: &str) {
        let Some([program, arguments @ ..]) = self.arguments.exec.as_deref() else { return };
        let mut command = Command::new(program);
        command.args(arguments).arg(folder).env("SOCKSCOPE_REASON", reason).stdin(Stdio::null());
        match command.spawn() {
            Ok(child) => self.started.push(child),
            Err(error) => stderr!("sockscope: cannot start {program}: {error}"),
        }
    }

    /// Makes the bundle that is due, and removes the segments.
    fn end(&mut self) -> Result<(), Failure> {
        let now_ns = monotonic_ns();
        if let Some(due) = &mut self.due {
            due.until_ns = now_ns;
        }
        self.make_due(now_ns);
        while !self.making.is_empty() {
            std::thread::sleep(LOOK_EVERY);
            self.finish_made();
        }
        self.spool();
        self.segments.seal_last(now_ns);
        self.end_spool();
        let folder = self.segments.folder();
        fs::remove_dir_all(folder)
            .map_err(|error| Failure::file("cannot remove", folder, &error))?;
        self.end_collector();
        let (not_written, removed_early) = self.segments.given_up();
        let missed = self.recording.missed().total();
        stderr!("sockscope: {} kept, {missed} records missed", counted(self.kept, "trace"));
        let openings = self.recording.openings();
        if let Some(summary) = self.sampling.as_ref().and_then(|it| it.summary(openings)) {
            stderr!("sockscope: {summary}");
        }
        if not_written > 0 || removed_early > 0 {
            stderr!(
                "sockscope: the disk had no room for {}; {} made room before the time of --keep",
                counted(not_written, "record"),
                counted(removed_early, "segment")
            );
        }
        Ok(())
    }

    /// Waits for the last segment in the spool.
    fn end_spool(&mut self) {
        let Some(spool) = self.spool.take() else { return };
        let [written, left_out] = spool.end(self.segments.take_sealed().pop());
        let folder = self.arguments.spool.as_deref().unwrap_or(Path::new("."));
        let written = counted(written, "segment");
        stderr!("sockscope: {written} in the spool {}, {left_out} left out", folder.display());
    }

    /// Sends the metrics as of now, and the messages that wait.
    fn end_collector(&mut self) {
        let Some(mut collector) = self.collector.take() else { return };
        let metrics = self.shared.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        collector.send_metrics_after(Duration::ZERO, &metrics);
        drop(metrics);
        let [sent, dropped] = collector.end();
        stderr!(
            "sockscope: the collector took {}, {dropped} were dropped",
            counted(sent, "message")
        );
    }
}
