//! A bundle read into memory, with notes on damaged and missing parts.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;

use sockscope_analysis::{Analysis, Analyzer, HostClocks, Stores, TraceFacts};
use sockscope_record::{ConnectionId, Kind, Record};
use sockscope_report::{Filter, Origin, Recorded, Shown, WallClock};
use sockscope_trace::{Bundle, Checker, ClockBand, Meta, Part, Problem, Source};

use crate::cut::Cut;
use crate::failure::Failure;
use crate::memory::Needs;
use crate::progress::Progress;

/// A bundle with its records in memory.
pub struct Loaded {
    /// Has the records.
    pub analyzer: Analyzer,
    /// The bundle's own facts and the parts that are not whole in it.
    pub facts: TraceFacts,
    /// The origin of the trace.
    pub origin: Origin,
    /// The part of the trace; `None` for all of it.
    pub part: Option<TracePart>,
    /// Number of threads with the memory for an analysis.
    threads: NonZeroUsize,
}

/// Why a part of a trace is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To analyse it: connections begin with the state that they have at the begin of an interval.
    Analysis,
    /// To list its records, and no others.
    Listing,
}

/// A part of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracePart {
    /// Time of the trace's first record, from which times count.
    pub start_ns: u64,
    /// From the begin of the interval to its end, as far as the trace was recorded then.
    pub duration_ns: u64,
    /// For the head of a report.
    pub shown: Shown,
}

/// The clocks of a trace's hosts. `merge` moves the times of each host but one.
fn host_clocks(meta: &Meta) -> HostClocks {
    let hosts = meta.hosts() as usize;
    if hosts == 1 {
        return HostClocks::One;
    }
    if meta.clock_bands.len() != hosts - 1 {
        return HostClocks::Unknown;
    }
    let edges = |band: &ClockBand| {
        band.edges.iter().map(|it| [it.at_ns, it.early_ns, it.late_ns]).collect()
    };
    HostClocks::Bounded(meta.clock_bands.iter().map(edges).collect())
}

impl Loaded {
    /// Reads everything that is whole; the notes list the rest.
    pub fn read(dir: &Path) -> Result<Self, Failure> {
        Self::read_part(dir, &Filter::default(), Purpose::Analysis)
    }

    /// Reads the part that the filter admits before an analysis, as far as it is whole.
    ///
    /// # Errors
    ///
    /// When nothing is admitted, or it does not fit into memory, or the bundle cannot be read.
    pub fn read_part(dir: &Path, filter: &Filter, purpose: Purpose) -> Result<Self, Failure> {
        let bundle = Bundle::open(dir)?;
        let chosen = match filter.words() {
            None => None,
            Some(words) => Some(Chosen::find(&bundle, filter, words, purpose)?),
        };
        let (rows, connections) = match &chosen {
            None => (bundle.record_rows(), bundle.connections().len() as u64),
            Some(chosen) => (chosen.rows, chosen.connections),
        };
        let mut needs = Needs::check(dir, rows, connections)?;
        let progress = Progress::begin("reading records", bundle.record_rows());
        let (part, mut cut) = chosen.map(|chosen| (chosen.part, chosen.cut)).unzip();
        let mut analyzer = Analyzer::new();
        let mut taken = 0;
        let mut records = bundle.records()?;
        let mut checker = Checker::new(&bundle);
        while let Some(batch) = records.next_batch()? {
            checker.add(batch);
            progress.add(batch.len() as u64);
            match &mut cut {
                None => {
                    analyzer.push(batch);
                    taken += batch.len() as u64;
                }
                Some(cut) => {
                    let kept = cut.kept(batch);
                    analyzer.push(&kept);
                    taken += kept.len() as u64;
                }
            }
            needs.check_batch(taken)?;
        }
        match cut {
            None => bundle.connections().iter().cloned().for_each(|it| analyzer.connection(it)),
            Some(cut) => {
                let (state, connections) = cut.end(bundle.connections());
                analyzer.push(&state);
                connections.into_iter().for_each(|it| analyzer.connection(it));
            }
        }
        let threads = needs.threads(|count| analyzer.largest(count))?;
        let problems = checker.problems(&bundle, &records);
        let mut notes: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let meta = bundle.meta();
        notes.extend(meta.notes.iter().cloned());
        let steal_share = meta.steal_share();
        notes.extend(steal_share.and_then(steal_note));
        let facts = TraceFacts {
            source: meta.source.name().to_owned(),
            missed: checker.missed(&bundle, &records),
            unfinished: problems.iter().any(lacks_end),
            costs: meta.cost,
            notes,
            drop_reasons: meta.drop_reasons.clone(),
            network_namespaces: meta.network_namespaces.clone(),
            ended_ns: meta.ended_ns,
            steal_share,
            clocks: host_clocks(meta),
        };
        Ok(Self { analyzer, facts, origin: origin(meta), part, threads })
    }

    /// The records sorted, and the names of the reasons in them.
    pub fn into_stores(self) -> Stores {
        let stores = self.analyzer.into_stores();
        let start_ns = self.part.map_or(stores.start_ns, |part| part.start_ns);
        let TraceFacts { drop_reasons, network_namespaces, .. } = self.facts;
        Stores { start_ns, drop_reasons, network_namespaces, ..stores }
    }

    /// As [`Loaded::finish`], and keeps the sorted records.
    pub fn finish_keeping(self) -> (Analysis, Stores) {
        let _progress = Progress::begin("analysing", 0);
        let (analysis, stores) = self.analyzer.finish_keeping(self.facts, self.threads);
        let start_ns = self.part.map_or(stores.start_ns, |part| part.start_ns);
        (analysis, Stores { start_ns, ..stores })
    }

    /// As [`Loaded::finish`], with the sorted records.
    pub fn finish_with_stores(mut self) -> (Analysis, Stores, Origin, Option<Shown>) {
        let (part, origin) = (self.part.clone(), std::mem::take(&mut self.origin));
        let (mut analysis, stores) = self.finish_keeping();
        if let Some(part) = &part {
            analysis.start_ns = part.start_ns;
            analysis.duration_ns = part.duration_ns;
        }
        (analysis, stores, origin, part.map(|part| part.shown))
    }

    /// Analyses it. Times and shares are those of the whole trace, or of the interval.
    pub fn finish(self) -> (Analysis, Origin, Option<Shown>) {
        let progress = Progress::begin("analysing", 0);
        let mut analysis = self.analyzer.finish_on(self.facts, self.threads);
        drop(progress);
        if let Some(part) = &self.part {
            analysis.start_ns = part.start_ns;
            analysis.duration_ns = part.duration_ns;
        }
        (analysis, self.origin, self.part.map(|part| part.shown))
    }
}

/// The part of a bundle that a filter leaves, found by reading the bundle once.
struct Chosen {
    cut: Cut,
    part: TracePart,
    /// Records that stay, at most.
    rows: u64,
    /// Connections that stay, at most.
    connections: u64,
}

impl Chosen {
    fn find(
        bundle: &Bundle,
        filter: &Filter,
        words: String,
        purpose: Purpose,
    ) -> Result<Self, Failure> {
        let all = bundle.connections();
        let admitted = filter.admitted(all)?;
        let mut times = Times::default();
        let progress = Progress::begin("choosing records", bundle.record_rows());
        let mut records = bundle.records()?;
        while let Some(batch) = records.next_batch()? {
            progress.add(batch.len() as u64);
            batch.iter().for_each(|record| times.add(record, &admitted));
        }
        drop(progress);
        let (start_ns, last_ns) = times.whole_ns.unwrap_or_default();
        let end_ns = bundle.meta().ended_ns.unwrap_or_default().max(last_ns);
        let interval_ns = filter.interval_ns(start_ns)?;
        let rows =
            times.chosen_ns.iter().filter(|at_ns| interval_ns.contains(at_ns)).count() as u64;
        if rows == 0 && !times.chosen_ns.is_empty() {
            let (first_ns, last_ns) = times.extent_of_chosen_ns().unwrap_or_default();
            return Err(filter.nothing_then((first_ns - start_ns, last_ns - start_ns)).into());
        }
        let from_ns = start_ns.max(*interval_ns.start());
        let to_ns = end_ns.min(*interval_ns.end());
        let shown = Shown { words, of_connections: all.len() as u64, is_cut: from_ns > start_ns };
        let part = TracePart { start_ns, duration_ns: to_ns.saturating_sub(from_ns), shown };
        let (connections, rows) = (admitted.len() as u64, rows + times.losses);
        let interval = filter.has_interval().then_some(interval_ns);
        let cut = Cut::new(admitted, interval, purpose == Purpose::Analysis);
        Ok(Self { cut, part, rows, connections })
    }
}

/// When records were made.
#[derive(Default)]
struct Times {
    /// The first and the last of the trace.
    whole_ns: Option<(u64, u64)>,
    /// Those of chosen connections.
    chosen_ns: Vec<u64>,
    losses: u64,
}

impl Times {
    fn add(&mut self, record: &Record, chosen: &BTreeSet<ConnectionId>) {
        let at_ns = record.at_ns;
        let (first, last) = self.whole_ns.unwrap_or((at_ns, at_ns));
        self.whole_ns = Some((first.min(at_ns), last.max(at_ns)));
        if record.kind == Kind::Loss {
            self.losses += 1;
        } else if chosen.contains(&record.flow.connection()) {
            self.chosen_ns.push(at_ns);
        }
    }

    fn extent_of_chosen_ns(&self) -> Option<(u64, u64)> {
        Some((*self.chosen_ns.iter().min()?, *self.chosen_ns.iter().max()?))
    }
}

/// Reads and analyses what the filter leaves of a bundle.
///
/// # Errors
///
/// When it cannot be read, or nothing is left.
pub fn analyze_part(
    dir: &Path,
    filter: &Filter,
) -> Result<(Analysis, Origin, Option<Shown>), Failure> {
    // Of connections that only the analysis shows the bundle is read again, so that all counts are theirs.
    let loaded = Loaded::read_part(dir, &chosen(dir, filter)?, Purpose::Analysis)?;
    let (mut analysis, origin, shown) = loaded.finish();
    Filter { findings: filter.findings.clone(), ..Filter::default() }.narrow(&mut analysis)?;
    let shown = shown.map(|shown| Shown { words: filter.words().unwrap_or_default(), ..shown });
    Ok((analysis, origin, shown))
}

/// Analyses what the filter admits of a bundle and keeps its records sorted, for figures; says what is not whole.
///
/// # Errors
///
/// When it cannot be read.
pub fn analyze_keeping(dir: &Path, filter: &Filter) -> Result<(Analysis, Stores), Failure> {
    let loaded = Loaded::read_part(dir, filter, Purpose::Analysis)?;
    say_notes(&loaded.facts.notes);
    Ok(loaded.finish_keeping())
}

/// The filter with the numbers of the connections, where it chooses them by what the analysis finds.
///
/// # Errors
///
/// When no connection is left, or the bundle cannot be read.
pub fn chosen(dir: &Path, filter: &Filter) -> Result<Filter, Failure> {
    if !filter.needs_analysis() {
        return Ok(filter.clone());
    }
    let (mut analysis, _, _) = Loaded::read_part(dir, filter, Purpose::Analysis)?.finish();
    filter.narrow(&mut analysis)?;
    let numbers = analysis.connections.iter().map(|connection| connection.connection.id.0);
    let (from_ns, to_ns) = (filter.from_ns, filter.to_ns);
    Ok(Filter { connections: numbers.collect(), from_ns, to_ns, ..Filter::default() })
}

/// The trace's wall clock, where times are to have it.
///
/// # Errors
///
/// When it is asked for and the trace has none.
pub fn wall_clock(is_asked: bool, origin: &Origin) -> Result<Option<WallClock>, Failure> {
    let clock = origin.recorded.as_ref().map(|recorded| recorded.began);
    match (is_asked, clock) {
        (false, _) => Ok(None),
        (true, Some(clock)) => Ok(Some(clock)),
        (true, None) => {
            Err(Failure::new("--wall-clock: the trace does not say what time of day it was"))
        }
    }
}

/// Prints the notes of a report's head on standard error.
pub fn say_notes(notes: &[String]) {
    for note in notes {
        stderr!("sockscope: {note}");
    }
}

/// The clock of the times in the trace.
fn clock(source: Source) -> Option<&'static str> {
    match source {
        // Only bundles with snapshots of a monotonic clock can be merged.
        Source::Live | Source::Engine | Source::Merged => Some("monotonic"),
        Source::Model => Some("virtual"),
        Source::Pcap => Some("of the capture"),
        Source::Unknown => None,
    }
}

/// A smaller part of the CPU time of others is not mentioned.
pub const STEAL_MIN: f64 = 0.01;

/// A sentence on the CPU time of others on the same host.
fn steal_note(share: f64) -> Option<String> {
    (share >= STEAL_MIN).then(|| {
        format!(
            "the host of this virtual machine gave {:.1} % of the CPU time or more to others (steal): waits for a CPU may be \
             longer for it",
            share * 100.0
        )
    })
}

/// Whether the end of the records was not found: later ones may be missing.
fn lacks_end(problem: &Problem) -> bool {
    match problem {
        Problem::Missing { part }
        | Problem::NotFinished { part, .. }
        | Problem::Truncated { part, .. }
        | Problem::Damaged { part, .. } => *part == Part::Records,
        Problem::CountDiffers { found, meta } => found < meta,
        _ => false,
    }
}

fn origin(meta: &Meta) -> Origin {
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Origin {
        tool_version: known(&meta.tool_version),
        host: known(&meta.host),
        kernel: known(&meta.kernel),
        clock: clock(meta.source).map(str::to_owned),
        command: known(&meta.command.join(" ")),
        recorded: recorded(meta),
        argument: None,
    }
}

/// The time of the recording; `None` without a clock for it, as in the model.
fn recorded(meta: &Meta) -> Option<Recorded> {
    let began = meta.clock.first().filter(|clock| clock.realtime_ns > 0)?;
    let last = meta.clock.last().filter(|_| meta.clock.len() > 1);
    let ended_ns = meta.ended_ns.or(last.map(|clock| clock.monotonic_ns));
    // The default of every recording.
    let pick = meta.pick.trim_end_matches("; own sockets that set SO_LOG");
    Some(Recorded {
        began: WallClock { trace_ns: began.monotonic_ns, realtime_ns: began.realtime_ns },
        duration_ns: ended_ns.and_then(|ended_ns| ended_ns.checked_sub(began.monotonic_ns)),
        pick: (!pick.is_empty()).then(|| pick.to_owned()),
    })
}
