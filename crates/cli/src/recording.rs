//! `sockscope run` and `sockscope record`: probes into a bundle.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use sockscope_probe::{
    Cgroup, Fix, Force, ForcedPeer, HookReport, Options, Outcome as FixOutcome, Pick, Priority,
    Recorder, RunAs, Scope, spawn,
};
use sockscope_program::failure::Failure;
use sockscope_program::last_trace::LastTraces;
use sockscope_program::machine;
use sockscope_program::outcome::Outcome;
use sockscope_program::output::output;
use sockscope_program::output_dir::{OutputDir, empty, open_output};
use sockscope_program::pick::{self, PickArgs, own_user, sudo_caller};
use sockscope_program::recorded;
use sockscope_program::shell::quoted;
use sockscope_program::signals::StopSignals;
use sockscope_program::temporary;
use sockscope_record::{LossCounts, counted};
use sockscope_trace::{Bundle, Meta, SizeLimit};
use tempfile::TempDir;

use crate::args::{self, FormatArg, HowArgs};
use crate::bundle::What;
use crate::meta_thread::MetaThread;
use crate::other_host::OtherHost;
use crate::progress::{Progress, Totals, Traffic};
use crate::sink::BundleSink;
use crate::terminal::{self, Target};
use crate::with_hosts::{WithHosts, local_pick};
use crate::{bundle, command};

/// What a kill may cost: records are in transit to the file at most this long.
const FLUSH_EVERY: Duration = Duration::from_millis(200);
/// `meta.json` is brought up to date this often.
const META_EVERY: Duration = Duration::from_secs(1);
/// Last packets and reads of peers after the command ended.
const LINGER: Duration = Duration::from_millis(150);
/// For taking what is left at the end.
const DRAIN_DEADLINE: Duration = Duration::from_secs(5);
/// What to do where nothing but `SO_LOG` makes a socket recorded.
const NOTHING_PICKED: &str = "nothing is picked: only sockets that set SO_LOG are recorded; pick others \
     with --port, --addr, --pid, --comm or --cgroup, or give a command after --";
/// A command that was interrupted may take this long to end.
const COMMAND_PATIENCE: Duration = Duration::from_secs(3);

/// Records the command, prints the report.
pub fn run(run: &args::Run) -> Result<Outcome, Failure> {
    let run_as = run.user.find(sudo_caller().as_deref())?;
    let place = ReportPlace::of(run)?;
    let trace = TracePlace::of(run)?;
    let with = WithHosts::start(&run.with, &run.pick, run.how, run.output.as_deref())?;
    let local = with.as_ref().map(WithHosts::local);
    let job = Job {
        pick: &local_pick(&run.pick, &run.with),
        how: run.how,
        command: &run.command,
        run_as: run_as.as_ref(),
        stdout: place.of_command(),
        dir: local.as_deref().unwrap_or(&trace.dir),
        duration: None,
        max_records: None,
        other: None,
    };
    let mut recorded = job.record()?;
    recorded.merge(with, &trace.dir);
    let Recorded { records, status, failure, limit, .. } = recorded;
    let argument = Some(run.output.as_deref().map(quoted).unwrap_or_default());
    let what = What { print: run.print, argument, ..What::default() };
    // The records from before a failure have a report as well.
    let outcome = match (&failure, records) {
        (Some(_), _) if !trace.dir.exists() => Ok(Outcome::Done),
        (Some(_), 0) => Ok(Outcome::Done),
        _ => bundle::print(&trace.dir, &what, place.target, || place.open()),
    };
    let outcome = match outcome {
        // Its reader has gone, as in `run … 2>&1 | head`: the status of the command still counts.
        Err(error) if error.is_broken_pipe() => Ok(Outcome::Done),
        outcome => outcome,
    };
    if failure.is_none() && outcome.is_ok() {
        trace.keep(records, limit);
    }
    // Below the report, however long that is.
    tell_failure(status);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let outcome = outcome?;
    let code = status.map_or(0, command::exit_code);
    Ok(if code > 0 { Outcome::OfCommand(code) } else { outcome })
}

/// Where the trace of `run` is.
struct TracePlace {
    dir: PathBuf,
    /// The folder around it, which is removed in the end; none where `-o` names a folder.
    begun: Option<TempDir>,
    /// The last traces of the user; the reason where there is no place for them.
    last: Result<LastTraces, String>,
}

impl TracePlace {
    /// The folder that `-o` names, or one among the last traces; where there is no place for these, one among
    /// the temporary files.
    fn of(run: &args::Run) -> Result<Self, Failure> {
        let last = LastTraces::of_user();
        if let Some(dir) = &run.output {
            return Ok(Self { dir: dir.clone(), begun: None, last });
        }
        let begun = last.and_then(|traces| match traces.begin() {
            Ok(begun) => Ok((begun, traces)),
            Err(error) => Err(error.to_string()),
        });
        let (begun, last) = match begun {
            Ok((begun, traces)) => (begun, Ok(traces)),
            Err(reason) => (temporary::folder()?, Err(reason)),
        };
        Ok(Self { dir: begun.path().join("run.sockscope"), begun: Some(begun), last })
    }

    /// Keeps the trace of so many records, where it has a place, and says how to read it.
    fn keep(self, records: u64, limit: Option<&str>) {
        let (ended, reader) = (ended_by(limit), reader());
        let figures = |dir: &str| match records {
            0 => String::new(),
            _ => format!("; see also: {reader} plot {dir}--figure queue-length"),
        };
        match (&self.begun, &self.last) {
            (None, last) => {
                let dir = self.dir.display();
                stderr!("sockscope: the trace is in {dir}{ended}{}", figures(&format!("{dir} ")));
                name_last(last, &self.dir);
            }
            (Some(_), Ok(last)) => match last.keep(&self.dir) {
                Ok(_) => {
                    let ended = limit.map(|_| format!("{ended},")).unwrap_or_default();
                    stderr!(
                        "sockscope: the trace{ended} is kept until the next run{}",
                        figures("")
                    );
                }
                Err(error) => stderr!("sockscope: the trace{ended} is not kept: {error}"),
            },
            (Some(_), Err(reason)) => {
                stderr!("sockscope: the trace{ended} is not kept ({reason}): -o DIR keeps it");
            }
        }
    }
}

/// Remembers the trace in `dir` as the last one. Without it commands need the name of the folder, as before.
fn name_last(last: &Result<LastTraces, String>, dir: &Path) {
    if let Ok(last) = last {
        let _ = last.name(dir);
    }
}

/// Where the report of `run` goes, and with that what the command prints.
struct ReportPlace {
    target: Target,
    file: Option<File>,
}

impl ReportPlace {
    /// Opens a file before the command starts, so that a name that cannot be written costs no run of it.
    fn of(run: &args::Run) -> Result<Self, Failure> {
        let target = match (&run.report, run.print.format) {
            (Some(path), _) => Target::named(path),
            (None, FormatArg::Text) => Target::Stderr,
            (None, _) => Target::Stdout,
        };
        bundle::check_target(run.print.format, target)?;
        let file = run.report.as_deref().filter(|_| target == Target::File);
        Ok(Self { target, file: file.map(open_output).transpose()? })
    }

    /// Standard output belongs to the command, unless the report goes there, for the program that reads it.
    fn of_command(&self) -> CommandOutput {
        if self.target == Target::Stdout { CommandOutput::Stderr } else { CommandOutput::Stdout }
    }

    fn open(&self) -> Result<Box<dyn Write>, Failure> {
        let Some(file) = &self.file else {
            return match self.target {
                Target::Stderr => Ok(Box::new(BufWriter::new(std::io::stderr()))),
                _ => output(Path::new("-")),
            };
        };
        empty(file)?;
        Ok(Box::new(BufWriter::new(file.try_clone()?)))
    }
}

/// Records into a bundle that is kept.
pub fn record(record: &args::Record) -> Result<(), Failure> {
    let run_as = record.user.find(sudo_caller().as_deref())?;
    if run_as.is_some() && record.command.is_empty() {
        return Err(Failure::new("--user is the user of a command: give one after --"));
    }
    let with = WithHosts::start(&record.with, &record.pick, record.how, Some(&record.output))?;
    let local = with.as_ref().map(WithHosts::local);
    let job = Job {
        pick: &local_pick(&record.pick, &record.with),
        how: record.how,
        command: &record.command,
        run_as: run_as.as_ref(),
        stdout: CommandOutput::Stdout,
        dir: local.as_deref().unwrap_or(&record.output),
        duration: record.duration,
        max_records: record.max_records,
        other: None,
    };
    let mut recorded = job.record()?;
    recorded.merge(with, &record.output);
    let Recorded { records, missed, status, failure, advice, limit, .. } = recorded;
    tell_failure(status);
    if let Some(failure) = failure {
        return Err(failure);
    }
    name_last(&LastTraces::of_user(), &record.output);
    let dir = record.output.display();
    stderr!(
        "sockscope: {}, {missed} missed{}, in {dir}{}; see it: {} report {dir}",
        counted(records, "record"),
        advice.map(|advice| format!(" ({advice})")).unwrap_or_default(),
        ended_by(limit),
        reader()
    );
    if records == 0 {
        stderr!("sockscope: nothing that was picked sent or received over TCP or UDP meanwhile");
    }
    Ok(())
}

/// For the last line, of a recording that a limit ended.
fn ended_by(limit: Option<&str>) -> String {
    limit.map(|option| format!(", ended by {option}")).unwrap_or_default()
}

/// A command that failed may have sent less than it should: the recording itself is whole.
fn tell_failure(status: Option<ExitStatus>) {
    if let Some(ending) = failed(status) {
        stderr!("sockscope: {ending}");
    }
}

/// What to say of a command that failed.
fn failed(status: Option<ExitStatus>) -> Option<String> {
    let status = status.filter(|status| !status.success())?;
    Some(format!("the command ended with {}", command::ending(status)))
}

/// What a recording has.
pub struct Recorded {
    records: u64,
    missed: u64,
    /// The command's, if there was one and it ended.
    status: Option<ExitStatus>,
    /// What ended the recording early: the bundle has what was recorded until then.
    failure: Option<Failure>,
    /// What to try where records were missed.
    advice: Option<String>,
    /// The option whose limit ended it.
    limit: Option<&'static str>,
    /// Empty where nothing was to be set.
    forced: Forced,
}

/// Socket options to set on the command's sockets, from outside.
pub struct Forcing<'a> {
    pub fixes: &'a [Fix],
    /// Whose sockets; the command's group is added.
    pub scope: Scope,
}

/// What was set so.
#[derive(Debug, Clone, Default)]
pub struct Forced {
    /// In the order of the fixes.
    pub outcomes: Vec<FixOutcome>,
    /// Changed sockets: the command's, those of its peers, and those of other processes that were named.
    pub sockets: [u32; 3],
    /// The first of the peers.
    pub peers: Vec<ForcedPeer>,
    /// Connections whose other end was not looked for.
    pub unlisted: u32,
}

impl Forced {
    fn of(force: &Force) -> Result<Self, sockscope_probe::Error> {
        Ok(Self {
            outcomes: force.outcomes()?,
            sockets: force.sockets()?,
            peers: force.peers()?,
            unlisted: force.unlisted()?,
        })
    }
}

impl Recorded {
    /// What was set on sockets.
    pub fn forced(&self) -> &Forced {
        &self.forced
    }

    /// How the command ended, and what ended the recording early.
    pub fn ended(self) -> (Option<ExitStatus>, Option<Failure>) {
        (self.status, self.failure)
    }

    /// Adds the recordings of other hosts, and writes all to `output`.
    fn merge(&mut self, with: Option<WithHosts>, output: &Path) {
        let Some(with) = with else { return };
        let merged = with.merge(output).and_then(|()| Bundle::open(output).map_err(Failure::from));
        match merged {
            Ok(bundle) => {
                self.records = bundle.meta().records;
                self.missed = bundle.meta().loss.total();
            }
            Err(failure) => self.note(Some(failure)),
        }
    }

    /// What failed first stays.
    fn note(&mut self, failure: Option<Failure>) {
        self.failure = self.failure.take().or(failure);
    }
}

/// Where the command's standard output goes.
#[derive(Debug, Clone, Copy)]
pub enum CommandOutput {
    Stdout,
    Stderr,
}

impl CommandOutput {
    fn stdio(self) -> Stdio {
        match self {
            Self::Stdout => Stdio::inherit(),
            Self::Stderr => Stdio::from(std::io::stderr()),
        }
    }
}

/// One recording.
pub struct Job<'a> {
    pub pick: &'a PickArgs,
    pub how: HowArgs,
    pub command: &'a [OsString],
    /// As whom the command runs; as this process where `None`.
    pub run_as: Option<&'a RunAs>,
    pub stdout: CommandOutput,
    pub dir: &'a Path,
    pub duration: Option<Duration>,
    pub max_records: Option<u64>,
    /// The host for which it is, if that is another one.
    pub other: Option<&'a OtherHost>,
}

impl Job<'_> {
    /// Runs it to its end.
    ///
    /// # Errors
    ///
    /// When it cannot begin: then there is no bundle.
    pub fn record(&self) -> Result<Recorded, Failure> {
        self.record_with(None)
    }

    /// Runs it to its end, with options that are set on the command's sockets.
    ///
    /// # Errors
    ///
    /// When it cannot begin: then there is no bundle.
    pub fn record_with(&self, forcing: Option<&Forcing<'_>>) -> Result<Recorded, Failure> {
        let output = OutputDir::find(self.dir, &[])?;
        self.pick.check(!self.command.is_empty())?;
        if let Some(right) = sockscope_probe::missing_right() {
            return Err(sockscope_probe::Error::NoRight { right }.into());
        }
        command::check(self.command)?;
        let signals = StopSignals::register()?;
        let group = if self.command.is_empty() { None } else { Some(Cgroup::create()?) };
        if group.is_none() {
            Cgroup::remove_stale()?;
        }
        let pick = self.pick.find(group.as_ref())?;
        let options = Options {
            calls: self.how.calls,
            unix: self.how.unix,
            statistics: self.how.cost,
            starts_command: !self.command.is_empty(),
            share: self.how.sample.unwrap_or_default(),
            buffer_bytes: self.how.buffer,
            pause_max: None,
        };
        // Before the priority, which is the recorder's alone.
        let mut meta_thread = MetaThread::start()?;
        // Before the start: the lists fill from the moment at which the probes are attached.
        let mut priority = Priority::raise();
        let mut recorder = Recorder::start(&pick, options)?;
        let force = forcing.map(|forcing| {
            let group = group.as_ref().map(Cgroup::id);
            Force::attach(forcing.fixes, &Scope { group, ..forcing.scope.clone() })
        });
        let force = force.transpose()?;
        let hooks = recorder.hooks();
        let unseen = self.how.unix.then(|| recorded::unseen_of_unix(&hooks)).flatten();
        unseen.iter().for_each(|unseen| stderr!("sockscope: {unseen}"));
        let mut meta = self.meta(&pick, &hooks);
        let limit = self.how.max_size.map(|bytes| SizeLimit::new(bytes, &meta));
        let limit =
            limit.transpose().map_err(|error| Failure::new(format!("--max-size: {error}")))?;
        let (mut writer, _lock) = output.create(meta.clone())?;
        // With the recorder's priority: on a busy machine the disk would wait for the thread. Without room
        // for a thread this one waits for the disk.
        let _ = writer.write_by_thread();
        let mut sink = BundleSink::new(writer, self.max_records, limit);
        let start = |group| spawn(self.command, group, self.stdout.stdio(), self.run_as);
        let child = group.as_ref().map(|group| priority.lowered(|| start(group)));
        let child = child.transpose();
        if let Some(other) = self.other {
            other.attached()?;
        } else if group.is_none() {
            if !pick.picks_any() && !pick.in_band {
                stderr!("sockscope: {NOTHING_PICKED}");
            }
            stderr!("sockscope: recording; Ctrl-C ends it");
        }
        let command = child.as_ref().ok().and_then(|child| Some(child.as_ref()?.id()));
        let ended = child.map_err(Failure::from).and_then(|mut child| {
            self.watch(
                &signals,
                &mut recorder,
                &mut sink,
                &mut meta,
                &mut meta_thread,
                child.as_mut(),
            )
        });
        // Whatever happened, what was recorded becomes a whole bundle.
        let goes_on = command.filter(|_| !matches!(ended, Ok(Some(_))));
        let members = group.as_ref().map(Cgroup::members).unwrap_or_default();
        let survivors = command::survivors(goes_on, &members);
        let forced = force.as_ref().map(Forced::of).transpose();
        drop(force);
        let finished = recorder.finish(&mut sink, DRAIN_DEADLINE).map_err(Failure::from);
        let updated = meta_thread.end();
        let (status, failure) = match ended {
            Ok(status) => (status, updated.err()),
            Err(failure) => (None, Some(failure)),
        };
        let notes: Vec<String> =
            failed(status).into_iter().chain(survivors.clone()).chain(unseen).collect();
        let mut recorded = Recorded {
            records: sink.writer.records(),
            missed: meta.loss.total(),
            status,
            failure,
            advice: None,
            limit: None,
            forced: Forced::default(),
        };
        match forced {
            Ok(forced) => recorded.forced = forced.unwrap_or_default(),
            Err(error) => recorded.note(Some(error.into())),
        }
        match finished {
            Ok(summary) => {
                recorded::complete(&mut meta, &summary);
                machine::keep_present_names(&mut meta.network_namespaces);
                meta.notes.extend(without_priority(&priority, &summary.missed));
                meta.notes.extend(notes);
                recorded.note(sink.end().err());
                sink.describe(&mut meta);
                recorded.limit = sink.limit();
                recorded.records = sink.writer.records();
                recorded.missed = meta.loss.total();
                recorded.advice = summary.advice;
                recorded.note(sink.writer.finish(meta).err().map(Failure::from));
            }
            // What failed first is what there is to say; the bundle stays one that was not finished.
            Err(error) => {
                recorded.note(Some(error));
                meta.notes.extend(notes);
                meta.notes.extend(recorded.failure.iter().map(|it| format!("ended early: {it}")));
                let _ = sink.writer.update_meta(&meta);
            }
        }
        // Where the bundle may not say it.
        if let (Some(survivors), Some(_)) = (survivors, &recorded.failure) {
            stderr!("sockscope: {survivors}");
        }
        Ok(recorded)
    }

    fn meta(&self, pick: &Pick, hooks: &[HookReport]) -> Meta {
        Meta {
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            host: machine::host(),
            kernel: machine::kernel(),
            machine: machine::machine(),
            clock: vec![machine::reading()],
            command: told(self.command, self.how.no_arguments),
            pick: pick::describe(pick, !self.command.is_empty()),
            hooks: hooks.iter().map(recorded::hook).collect(),
            sysctls: machine::sysctls(),
            interfaces: machine::interfaces(),
            drop_reasons: sockscope_probe::drop_reasons().into_iter().collect(),
            network_namespaces: machine::network_namespaces(),
            ..Meta::default()
        }
    }

    /// Records until there is a reason to stop.
    fn watch(
        &self,
        signals: &StopSignals,
        recorder: &mut Recorder,
        sink: &mut BundleSink,
        meta: &mut Meta,
        meta_thread: &mut MetaThread,
        mut child: Option<&mut Child>,
    ) -> Result<Option<ExitStatus>, Failure> {
        let started = Instant::now();
        let mut flushed = started;
        let mut described = started;
        let mut ends: Option<Instant> = None;
        let mut status = None;
        let shows_progress =
            child.is_none() && self.other.is_none() && std::io::stderr().is_terminal();
        sink.traffic = shows_progress.then(Traffic::default);
        let mut progress = Progress::new(started);
        loop {
            recorder.step(sink)?;
            let now = Instant::now();
            if now - flushed > FLUSH_EVERY {
                sink.flush()?;
                flushed = now;
                if let Some(traffic) = &sink.traffic {
                    let totals = Totals {
                        records: recorder.records(),
                        missed: sink.missed(recorder.missed()).total(),
                        bytes: sink.writer.written(),
                    };
                    // One column less: in the last one some terminals begin a new line.
                    let columns = terminal::width(Target::Stderr) - 1;
                    stderr_part!("{}", progress.line(now, totals, traffic, columns));
                }
            }
            if now - described > META_EVERY {
                sink.look_at_disk();
                meta.loss = sink.missed(recorder.missed());
                meta_thread.offer(sink.writer.meta_update(meta)?)?;
                described = now;
            }
            if status.is_none()
                && let Some(child) = child.as_deref_mut()
                && let Some(ended) = child.try_wait()?
            {
                status = Some(ended);
                meta.ended_ns = Some(machine::clock().monotonic_ns);
                ends = Some(now + LINGER);
            }
            let is_to_stop = signals.stop_requested() || self.other.is_some_and(OtherHost::is_over);
            if is_to_stop && ends.is_none() {
                ends = Some(now + if child.is_some() { COMMAND_PATIENCE } else { Duration::ZERO });
            }
            let is_over = ends.is_some_and(|ends| now >= ends)
                || self.duration.is_some_and(|duration| now - started >= duration)
                || sink.is_full();
            if is_over {
                meta.ended_ns = meta.ended_ns.or(Some(machine::clock().monotonic_ns));
                break;
            }
        }
        if shows_progress {
            stderr!();
        }
        Ok(status)
    }
}

/// What to say where records were missed and the recorder had to wait for a CPU as all others do.
fn without_priority(priority: &Priority, missed: &LossCounts) -> Option<String> {
    (!priority.is_raised() && missed.total() > 0).then(|| {
        "the recorder had no priority over other programs, as CAP_SYS_NICE is missing: with it, it \
         misses fewer records"
            .to_owned()
    })
}

/// The words of the command that the trace has.
fn told(command: &[OsString], no_arguments: bool) -> Vec<String> {
    let words = if no_arguments { 1 } else { command.len() };
    command.iter().take(words).map(|word| word.to_string_lossy().into_owned()).collect()
}

/// How the user calls the program to read what was recorded: under sudo it belongs to root. It is not
/// handed over, since root would then replace files in a folder that another user can change.
fn reader() -> &'static str {
    if own_user() == rustix::process::getuid().as_raw() { "sockscope" } else { "sudo sockscope" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_arguments_the_name_of_the_program_stays() {
        let command = ["psql", "--password=x"].map(OsString::from);
        assert_eq!(told(&command, false), ["psql", "--password=x"]);
        assert_eq!(told(&command, true), ["psql"]);
        assert_eq!(told(&[], true), [""; 0]);
    }
}
