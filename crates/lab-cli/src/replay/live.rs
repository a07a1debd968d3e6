//! `sockscope replay --on live`.

use std::fs;
use std::path::{Path, PathBuf};

use sockscope_lab::pattern_change::PatternChange;
use sockscope_lab::pattern_file::PatternFile;
use sockscope_lab::replay::check_names;
use sockscope_link::Interval;
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::signals::StopSignals;
use sockscope_program::temporary;
use sockscope_record::Protocol;

use super::args::{Replay, ReplayChange, ReplayFormat};
use super::figures::Figures;
use super::own_time::{OwnTime, poll_at_first};
use super::result::{Replayed, Runs};
use super::runner::{Runner, Way};
use super::{document, page};
use crate::choice::Choice;
use crate::pattern;
use crate::work::pattern::cpus::{Cpus, allowed};

/// Without the option.
const ROUNDS: u32 = 6;

/// First runs, which show the time of a run itself.
const FIRST_RUNS: usize = 2;

/// One changed run on the other CPUs for so many runs.
const ROUNDS_OF_OTHER: u32 = 4;

/// The changes, by their place: the calls or the path.
#[derive(Default)]
struct Changes {
    calls: Vec<PatternChange>,
    delay: Option<Interval>,
    /// In words.
    named: Vec<String>,
}

/// Records the calls unchanged and changed, in turns.
pub fn replay(arguments: &Replay) -> Result<Outcome, Failure> {
    if arguments.seed.is_some() {
        return Err(Failure::new("replay --seed: only the model has one: add --on model"));
    }
    let changes = Changes::of(&arguments.set)?;
    if let Some(right) = sockscope_probe::missing_right() {
        return Err(Failure::new(format!(
            "replay --on live records its runs and needs {right}: run it as root, or use --on model"
        )));
    }
    let recorded = pattern::read(&arguments.dir, arguments.connection.as_ref())?;
    let original_same_cpu = recorded.same_cpu;
    let original = Figures::of(&recorded.analysis, original_same_cpu);
    let mut file = recorded.file;
    if let Some(dir) = &arguments.warm {
        let warm = pattern::read(dir, None)?.file;
        take_warm_times(&mut file, &warm)
            .map_err(|why| Failure::new(format!("replay --warm {}: {why}", dir.display())))?;
    }
    changes.check(&file)?;
    let signals = StopSignals::register()?;
    let (folder, _temporary) = match &arguments.output {
        Some(folder) => (folder.clone(), None),
        None => {
            let temporary = temporary::folder()?;
            (temporary.path().to_owned(), Some(temporary))
        }
    };
    fs::create_dir_all(&folder).map_err(|error| Failure::file("cannot create", &folder, &error))?;
    write_pattern(&folder, "pattern", &file)?;
    let changed = changes.apply(&file);
    let runner = Runner::new(original.steal)?;
    let cpus = cpus(original_same_cpu, &file)?;
    let loopback = Way::Loopback(cpus);
    let own_time = own_time(&runner, &folder, loopback, &file)?;
    let steps = || file.pattern.sides.iter().flat_map(|side| &side.sequences).flatten();
    let mut replayed = Replayed {
        changes: changes.named.join(", "),
        path: match changes.delay {
            None => "over loopback".to_owned(),
            Some(delay) => format!("unchanged over loopback, changed over a wire of {delay}"),
        },
        original,
        unchanged: Runs::default(),
        changed: Runs::default(),
        as_recorded: None,
        cpus,
        other_cpus: Runs::default(),
        after_wait: (steps().filter(|step| step.after_wait).count() as u64, steps().count() as u64),
        own_ns: [0, 1].map(|side| own_time.largest_ns(side)),
        file: file.clone(),
    };
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    let rounds = if changes.named.is_empty() { rounds.div_ceil(2) } else { rounds };
    let changed_file = match changes.named.is_empty() {
        true => None,
        false => {
            write_pattern(&folder, "changed", &changed)?;
            Some(write_played(&folder, "changed", &changed, &own_time)?)
        }
    };
    let unchanged_file = write_played(&folder, "unchanged", &file, &own_time)?;
    let changed_way = changes.delay.map_or(loopback, Way::Wire);
    for round in 0..rounds as usize {
        if signals.stop_requested() {
            return Err(Failure::new(format!("interrupted after run {round}")));
        }
        let of_change = changed_file.as_ref().filter(|_| is_changed(round));
        let kind = if of_change.is_some() { "changed" } else { "unchanged" };
        let dir = folder.join(format!("{}-{kind}.sockscope", round + 1));
        stderr!("sockscope: run {} of {rounds}, {kind}", round + 1);
        match of_change {
            Some(path) => replayed.changed.push(runner.run(path, &dir, changed_way)?),
            None => replayed.unchanged.push(runner.run(&unchanged_file, &dir, loopback)?),
        }
    }
    if let (Some(path), Some(cpus), None) = (&changed_file, replayed.cpus, changes.delay) {
        let other = cpus.other();
        let runs = (rounds / ROUNDS_OF_OTHER).max(1);
        for run in 1..=runs {
            stderr!("sockscope: run {run} of {runs}, changed, on {other} of the CPUs");
            let dir = folder.join(format!("{run}-cpus-{other}.sockscope"));
            replayed.other_cpus.push(runner.run(path, &dir, Way::Loopback(Some(other)))?);
        }
    }
    if changed_file.is_some() && has_warm_times(&changed) {
        let mut slow = changed;
        for side in &mut slow.pattern.sides {
            (side.warm_think_ns, side.refill_ns) = (None, None);
            side.sequences.iter_mut().flatten().for_each(|step| step.warm_ns = None);
        }
        let path = write_played(&folder, "think-as-recorded", &slow, &own_time)?;
        stderr!("sockscope: a last run, changed, with every think time as it was recorded");
        let run = runner.run(&path, &folder.join("think-as-recorded.sockscope"), changed_way)?;
        replayed.as_recorded = Some(run.1);
    }
    match arguments.format {
        ReplayFormat::Text => page::write(&replayed)?,
        ReplayFormat::Json => document::write(&replayed)?,
    }
    Ok(Outcome::Done)
}

/// Makes the pattern twice, to see the time of its own.
fn own_time(
    runner: &Runner,
    folder: &Path,
    way: Way,
    file: &PatternFile,
) -> Result<OwnTime, Failure> {
    let mut first = file.clone();
    poll_at_first(&mut first.pattern);
    let path = write_pattern(folder, "own-time", &first)?;
    let mut least: Option<OwnTime> = None;
    for run in 1..=FIRST_RUNS {
        stderr!(
            "sockscope: first run {run} of {FIRST_RUNS}, for the time that a run itself spends between two calls"
        );
        let dir = folder.join(format!("own-time-{run}.sockscope"));
        runner.run(&path, &dir, way)?;
        match pattern::read(&dir, Some(&Choice::All)) {
            Ok(run) => {
                let own = OwnTime::of(&first.pattern, &run.file.pattern);
                least = Some(least.map_or(own.clone(), |least| least.least(&own)));
            }
            Err(why) => {
                stderr!(
                    "sockscope: the time of a run itself is not known, and is not taken off: {why}"
                );
                return Ok(OwnTime::default());
            }
        }
    }
    Ok(least.unwrap_or_default())
}

/// Takes the think times without a wait from another recording of the same programs.
fn take_warm_times(file: &mut PatternFile, warm: &PatternFile) -> Result<(), String> {
    if file.processes != warm.processes {
        let [own, other] = [&file.processes, &warm.processes].map(|names| names.join(" and "));
        return Err(format!("its programs are {other}, not {own}"));
    }
    let mut is_known = false;
    for (side, warm) in file.pattern.sides.iter_mut().zip(&warm.pattern.sides) {
        let refill_ns = side.refill_by(warm);
        side.refill_ns = refill_ns.or(side.refill_ns);
        is_known |= side.take_warm_times(&warm.warm_times()) > 0;
    }
    match is_known {
        true => Ok(()),
        false => {
            Err("no three writes of a kind follow a read that waited for less than 1 ms".to_owned())
        }
    }
}

/// The CPUs on which most reads of the recording were: a short exchange on one CPU takes another time than on two. Threads
/// of one side may need several, and then the kernel chooses.
fn cpus(same_cpu: Option<f64>, file: &PatternFile) -> Result<Option<Cpus>, Failure> {
    let is_alone = file.pattern.sides.iter().all(|side| side.sequences.len() == 1);
    let can_choose = is_alone && allowed()?.len() > 1;
    let most = |share| if share >= 0.5 { Cpus::One } else { Cpus::Two };
    Ok(same_cpu.filter(|_| can_choose).map(most))
}

/// Unchanged, changed, changed, unchanged: a steady change of the machine is the same for both.
fn is_changed(round: usize) -> bool {
    matches!(round % 4, 1 | 2)
}

/// Whether some step thinks for less without a wait before it.
fn has_warm_times(file: &PatternFile) -> bool {
    file.pattern.sides.iter().any(|side| {
        let mut steps = side.sequences.iter().flatten();
        steps.any(|step| step.warm_ns.unwrap_or_else(|| side.warm_think_ns(step)) != step.think_ns)
    })
}

fn write_pattern(folder: &Path, name: &str, file: &PatternFile) -> Result<PathBuf, Failure> {
    let path = folder.join(format!("{name}.toml"));
    fs::write(&path, file.to_toml())
        .map_err(|error| Failure::file("cannot write", &path, &error))?;
    Ok(path)
}

/// Writes the pattern of a run, whose think times are shorter by its own time.
fn write_played(
    folder: &Path,
    name: &str,
    file: &PatternFile,
    own_time: &OwnTime,
) -> Result<PathBuf, Failure> {
    let mut played = file.clone();
    own_time.take_off(&mut played.pattern);
    write_pattern(folder, &format!("{name}-played"), &played)
}

impl Changes {
    fn of(set: &[ReplayChange]) -> Result<Self, Failure> {
        let named: Vec<String> = set.iter().map(ToString::to_string).collect();
        check_names(&named).map_err(Failure::new)?;
        let mut changes = Self { named, ..Self::default() };
        for change in set {
            match change {
                ReplayChange::Calls(change) => changes.calls.push(*change),
                ReplayChange::Delay(delay) => changes.delay = Some(*delay),
                ReplayChange::Personality(_)
                | ReplayChange::Machine(_)
                | ReplayChange::Rate(_)
                | ReplayChange::Model(_) => {
                    return Err(Failure::new(format!(
                        "replay --set {change} is a change of the model: add --on model"
                    )));
                }
            }
        }
        Ok(changes)
    }

    /// Refuses changes that this connection cannot have.
    fn check(&self, file: &PatternFile) -> Result<(), Failure> {
        let is_of_streams = |change: &&PatternChange| {
            matches!(change, PatternChange::NoDelay | PatternChange::ReadBytes(_))
        };
        let wrong = self.calls.iter().find(is_of_streams);
        match wrong.filter(|_| file.pattern.protocol == Protocol::Udp) {
            Some(change) => Err(Failure::new(format!(
                "replay --set {change}: {} is no stream, and has no such change",
                file.connection
            ))),
            None => Ok(()),
        }
    }

    fn apply(&self, file: &PatternFile) -> PatternFile {
        let mut changed = file.clone();
        self.calls.iter().for_each(|change| change.apply(&mut changed.pattern));
        changed
    }
}

#[cfg(test)]
mod tests {
    use sockscope_analysis::{Action, Activity, Pattern, Step};

    use super::*;

    /// A server that answers three requests after these times.
    fn server(think_ns: u64, after_wait: bool) -> PatternFile {
        let step = |action, think_ns, after_wait| Step {
            action,
            connection: 0,
            bytes: 9,
            think_ns,
            after_wait,
            warm_ns: None,
            woken: false,
        };
        let call = [step(Action::Read, 0, false), step(Action::Write, think_ns, after_wait)];
        let side = Activity { sequences: vec![call.repeat(3)], ..Activity::default() };
        let pattern =
            Pattern { protocol: Protocol::Tcp, connections: 1, sides: [Activity::default(), side] };
        let processes = ["client", "server"].map(str::to_owned);
        PatternFile { connection: "tcp".to_owned(), processes, pattern }
    }

    #[test]
    fn times_without_a_wait_are_those_of_another_recording() {
        let mut file = server(200_000, true);
        take_warm_times(&mut file, &server(60_000, false)).unwrap();
        assert_eq!(file.pattern.sides.each_ref().map(|side| side.refill_ns), [None, Some(140_000)]);
        let waited = take_warm_times(&mut file, &server(60_000, true)).unwrap_err();
        assert_eq!(
            waited,
            "no three writes of a kind follow a read that waited for less than 1 ms"
        );
        let mut other = server(60_000, false);
        other.processes[1] = "other".to_owned();
        let refused = take_warm_times(&mut file, &other).unwrap_err();
        assert_eq!(refused, "its programs are client and other, not client and server");
    }

    #[test]
    fn changes_of_the_model_need_the_model() {
        let set = |texts: &[&str]| -> Vec<ReplayChange> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let changes = Changes::of(&set(&["one-write", "delay=10ms", "buffers=4096"])).unwrap();
        assert_eq!(changes.named, ["one-write", "delay=10ms", "buffers=4096"]);
        assert_eq!((changes.calls.len(), changes.delay), (2, Some(Interval(10_000_000))));
        let twice = Changes::of(&set(&["delay=1ms", "nodelay", "delay=5ms"])).err().unwrap();
        assert_eq!(twice.to_string(), "--set: two values for delay; give one");
        let error = Changes::of(&set(&["personality=4.3bsd"])).err().unwrap().to_string();
        assert_eq!(
            error,
            "replay --set personality=4.3bsd is a change of the model: add --on model"
        );
    }
}
