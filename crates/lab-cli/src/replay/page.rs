//! The result for people.

use std::io::{self, BufWriter, Write};

use sockscope_analysis::{Activity, REFILL_MAX_NS};
use sockscope_program::failure::Failure;
use sockscope_render::number::{count, percent, percent_of, rate, time};
use sockscope_report::{Charset, Options, write_compare, write_labelled};

use super::closeness::{Figure, SPREAD_MAX, TOLERANCE, Verdict};
use super::figures::Figures;
use super::result::Replayed;
use crate::work::pattern::cpus::Cpus;

/// Writes it.
pub fn write(replayed: &Replayed) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let options = Options { full: false, ..Options::default() };
    for (label, text) in head(replayed) {
        write_labelled(label, &text, &options, &mut out)?;
    }
    writeln!(out, "\n{:<26}{:>14}{:>14}{:>8}", "", "original", "copy", "ratio")?;
    for pair in replayed.pairs() {
        let [original, copy] = [pair.original, pair.copy].map(|value| show(pair.figure, value));
        let name = name(pair.figure);
        let ratio = Some(pair.ratio()).filter(|ratio| ratio.is_finite());
        let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:>8.2}"));
        writeln!(out, "{name:<26}{original:>14}{copy:>14}{ratio}")?;
    }
    writeln!(out)?;
    write_labelled("copy", &copy(replayed), &options, &mut out)?;
    if !replayed.changes.is_empty() {
        writeln!(out, "\nunchanged and with {}\n", replayed.changes)?;
        write_compare(&replayed.comparison(), &options, &mut out)?;
        writeln!(out)?;
        for (label, text) in prediction(replayed) {
            write_labelled(label, &text, &options, &mut out)?;
        }
    }
    out.flush().map_err(|error| Failure::output(&error))
}

/// Labels, each with its text.
type Lines = Vec<(&'static str, String)>;

fn head(replayed: &Replayed) -> Lines {
    let [client, server] = &replayed.file.processes;
    let connection = sockscope_report::printable(&replayed.file.connection);
    let (writes, certain) = replayed.writes();
    let rule = match writes {
        0 => "no side writes".to_owned(),
        _ => format!(
            "it is certain for {} of {} writes ({}) which step they waited for",
            count(certain),
            count(writes),
            percent_of(certain, writes)
        ),
    };
    let (unchanged, changed) = (replayed.unchanged.figures.len(), replayed.changed.figures.len());
    let path = &replayed.path;
    let runs = match changed {
        0 => format!("{unchanged} unchanged, {path}"),
        _ => format!("{unchanged} unchanged and {changed} changed in turns (ABBA), {path}"),
    };
    let processes = sockscope_report::printable(&format!("{client}, {server}"));
    let mut lines =
        vec![("replay", format!("{connection} ({processes})")), ("rule", rule), ("runs", runs)];
    if let (Some(cpus), Some(share)) = (replayed.cpus, replayed.original.same_cpu) {
        lines.push((
            "cpus",
            format!(
                "{}: in the recording {} of the reads were on the CPU of the write that they waited for",
                on(cpus),
                percent((share * 1000.0).round() as u64)
            ),
        ));
    }
    let [client, server] = replayed.own_ns.map(|ns| time(ns, Charset::Unicode));
    if replayed.own_ns.iter().any(|ns| *ns > 0) {
        lines.push((
            "own time",
            format!(
                "a run needs up to {client} (client) and {server} (server) for a call itself: think times are shorter \
                 by that"
            ),
        ));
    }
    lines
}

fn on(cpus: Cpus) -> &'static str {
    match cpus {
        Cpus::One => "both programs on one CPU",
        Cpus::Two => "each program on a CPU of its own",
    }
}

fn name(figure: Figure) -> String {
    match figure {
        Figure::P50 => "exchange p50".to_owned(),
        Figure::P99 => "exchange p99".to_owned(),
        Figure::Throughput => "throughput".to_owned(),
        Figure::SameCpu => "reads on the writer's CPU".to_owned(),
        Figure::Steal => "CPU time of other guests".to_owned(),
        Figure::Place(side, part) => format!("{side} {}", part.name()),
    }
}

fn show(figure: Figure, value: f64) -> String {
    match figure {
        _ if value.is_nan() => "?".to_owned(),
        Figure::P50 | Figure::P99 => time(value as u64, Charset::Unicode),
        Figure::Throughput => rate(value),
        Figure::SameCpu | Figure::Steal | Figure::Place(..) => {
            percent((value * 1000.0).round() as u64)
        }
    }
}

/// Whether the unchanged runs are a copy, and why not.
pub fn copy(replayed: &Replayed) -> String {
    let named = |figures: &[Figure]| {
        figures.iter().map(|figure| name(*figure)).collect::<Vec<_>>().join(", ")
    };
    let tolerance = percent((TOLERANCE * 1000.0) as u64);
    match replayed.verdict() {
        Verdict::Copy => format!(
            "the unchanged runs are a copy: {} and each ledger place above 5 % are within {tolerance}",
            name(Figure::main_of(&replayed.original))
        ),
        Verdict::NotACopy(far) => {
            format!(
                "the unchanged runs are not a copy: more than {tolerance} off in {}",
                named(&far)
            )
        }
        Verdict::Unclear(far, spread) => format!(
            "unclear: the unchanged runs differ by {} or more among themselves (limit {}), and are more than \
             {tolerance} off in {}",
            percent((spread * 1000.0) as u64),
            percent((SPREAD_MAX * 1000.0) as u64),
            named(&far)
        ),
    }
}

/// How much less the sides think without a wait, and how that is known.
fn refill(sides: &[Activity; 2]) -> String {
    let sides = ["client", "server"].into_iter().zip(sides);
    let waits = sides.filter(|(_, side)| {
        let mut steps = side.sequences.iter().flatten();
        let is_known = side.refill_ns.or(side.warm_think_ns).is_some();
        steps.any(|step| step.warm_ns.is_some() || (is_known && step.after_wait))
    });
    waits
        .map(|(name, side)| match side.refill_ns {
            _ if side.sequences.iter().flatten().any(|step| step.warm_ns.is_some()) => {
                format!("the {name} as before its writes without a wait")
            }
            Some(ns) => format!("the {name} by {}, as recorded", time(ns, Charset::Unicode)),
            None => format!(
                "the {name} by {} at most, which is an estimate; a recording without the wait shows it (--warm)",
                time(REFILL_MAX_NS, Charset::Unicode)
            ),
        })
        .map(|words| format!(", {words}"))
        .collect()
}

fn prediction(replayed: &Replayed) -> Lines {
    let mut lines = Vec::new();
    let changed = replayed.changed.median();
    let figure = Figure::main_of(&changed);
    let mut values: Vec<f64> = replayed.changed.figures.iter().filter_map(Figures::main).collect();
    values.sort_by(f64::total_cmp);
    if let (Some(main), Some(low), Some(high)) = (changed.main(), values.first(), values.last()) {
        lines.push((
            "predicts",
            format!(
                "{} {} with {} (median of the runs, {} to {})",
                name(figure),
                show(figure, main),
                replayed.changes,
                show(figure, *low),
                show(figure, *high)
            ),
        ));
    }
    if replayed.changed.spread() > SPREAD_MAX {
        lines.push((
            "note",
            format!(
                "the changed runs differ by {}: the prediction is no better than that",
                percent((replayed.changed.spread() * 1000.0) as u64)
            ),
        ));
    }
    let other = replayed.other_cpus.median();
    if let (Some(cpus), Some(value)) = (replayed.cpus, other.main()) {
        lines.push((
            "limit",
            format!(
                "{} {} with {}. The kernel chooses the CPUs, and may choose others with the change",
                name(figure),
                show(figure, value),
                on(cpus.other())
            ),
        ));
    }
    if let Some(value) = replayed.as_recorded.as_ref().and_then(Figures::main) {
        let (after_wait, steps) = replayed.after_wait;
        lines.push((
            "limit",
            format!(
                "{} {} with every think time as it was recorded. {} of {} steps follow a wait of 1 ms or longer, after \
                 which a program is slower until its caches are filled again: without that wait it thinks for less{}",
                name(figure),
                show(figure, value),
                count(after_wait),
                count(steps),
                refill(&replayed.file.pattern.sides)
            ),
        ));
    }
    let (writes, certain) = replayed.writes();
    if certain * 10 < writes * 9 {
        lines.push((
            "note",
            format!(
                "{} of the writes may wait for another connection or thread. Each keeps its recorded think time, also \
                 where the change makes it shorter",
                percent_of(writes - certain, writes)
            ),
        ));
    }
    if !matches!(replayed.verdict(), Verdict::Copy) {
        lines.push(("note", "the unchanged runs do not match the recording: see above".to_owned()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use sockscope_analysis::{Action, Step};

    use super::*;

    #[test]
    fn a_side_whose_reads_follow_waits_is_named() {
        let read = Step {
            action: Action::Read,
            connection: 0,
            bytes: 4096,
            think_ns: 9_000,
            after_wait: true,
            warm_ns: None,
            woken: false,
        };
        let side =
            |refill_ns| Activity { sequences: vec![vec![read]], refill_ns, ..Activity::default() };
        assert_eq!(
            refill(&[side(None), side(Some(4_000))]),
            ", the server by 4.00 µs, as recorded"
        );
        assert_eq!(refill(&[side(None), side(None)]), "");
    }
}
