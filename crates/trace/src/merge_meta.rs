//! Clocks and descriptions of two hosts' bundles as those of one.

use std::collections::BTreeMap;

use sockscope_record::PointCost;

use crate::bundle::Bundle;
use crate::check::Checked;
use crate::clock_band::{ClockBand, HostClock, NoBand};
use crate::error::Error;
use crate::merge_plan::Clock;
use crate::meta::{ClockSnapshot, Hook, Interface, Machine, Meta, Source};

/// Shift of the clocks of two bundles to one: that of the host that booted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shift {
    /// Nanoseconds to add to the times of each bundle; at least one is 0.
    pub(crate) by_ns: [u64; 2],
    /// Drift of real time against monotonic time within the recordings, both together.
    pub(crate) moved_ns: u64,
}

impl Shift {
    /// The input whose times are moved: that of the host that booted later.
    pub(crate) fn moved(&self) -> usize {
        usize::from(self.by_ns[0] == 0)
    }

    pub(crate) fn between(first: &Bundle, second: &Bundle) -> Result<Self, Error> {
        if are_engines_of_one_host(first, second) {
            return Ok(Self { by_ns: [0, 0], moved_ns: 0 });
        }
        let offsets = |bundle: &Bundle| {
            let no_clock = || Error::NoClock(bundle.dir().to_owned());
            offsets(&bundle.meta().clock).ok_or_else(no_clock)
        };
        Ok(Self::of(offsets(first)?, offsets(second)?))
    }

    fn of(first: Offsets, second: Offsets) -> Self {
        let later_boot_ns = second.middle_ns - first.middle_ns;
        let at_least_zero = |ns: i128| u64::try_from(ns.max(0)).unwrap_or(u64::MAX);
        Self {
            by_ns: [at_least_zero(-later_boot_ns), at_least_zero(later_boot_ns)],
            moved_ns: at_least_zero(first.moved_ns + second.moved_ns),
        }
    }
}

/// Whether two engines of one host recorded: both ends of loopback, on one clock.
pub(crate) fn are_engines_of_one_host(first: &Bundle, second: &Bundle) -> bool {
    let (a, b) = (first.meta(), second.meta());
    a.source.is_engine() && b.source.is_engine() && !a.host.is_empty() && a.host == b.host
}

/// Real minus monotonic time of one host, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Offsets {
    middle_ns: i128,
    moved_ns: i128,
}

/// `None` without a snapshot.
fn offsets(clock: &[ClockSnapshot]) -> Option<Offsets> {
    let offsets = || clock.iter().map(|snapshot| snapshot.offset_ns());
    let (least, most) = (offsets().min()?, offsets().max()?);
    Some(Offsets { middle_ns: least + (most - least) / 2, moved_ns: most - least })
}

/// The description of the merged bundle.
pub(crate) fn merged_meta(
    [first, second]: [&Bundle; 2],
    checked: &[Checked; 2],
    shift: &Shift,
    bounded: Option<&Result<HostClock, NoBand>>,
    clocks: &[Clock; 2],
) -> Meta {
    let names = names(first, second);
    let (a, b) = (first.meta(), second.meta());
    let base = 1 - shift.moved();
    let mut meta = Meta {
        tool_version: a.tool_version.clone(),
        source: if a.source == b.source { a.source } else { Source::Merged },
        host: names.join(" + "),
        kernel: both(&a.kernel, &b.kernel),
        machine: Machine {
            cpus: a.machine.cpus.saturating_add(b.machine.cpus),
            model: both(&a.machine.model, &b.machine.model),
        },
        clock: [a, b][base].clock.clone(),
        command: a.command.clone(),
        pick: both(&a.pick, &b.pick),
        ring: a.ring,
        drop_reasons: of_both(&a.drop_reasons, &b.drop_reasons),
        network_namespaces: of_both(&a.network_namespaces, &b.network_namespaces),
        loss: checked[0].missed,
        cost: std::array::from_fn(|point| PointCost {
            hits: a.cost[point].hits.saturating_add(b.cost[point].hits),
            run_ns: a.cost[point].run_ns.saturating_add(b.cost[point].run_ns),
        }),
        ..Meta::default()
    };
    meta.loss.add_all(&checked[1].missed);
    for ((name, bundle), checked) in names.iter().zip([first, second]).zip(checked) {
        add_host(&mut meta, &prefix(name, &names), bundle);
        add_problems(&mut meta, name, checked);
    }
    if are_engines_of_one_host(first, second) {
        meta.host.clone_from(&a.host);
        meta.machine = a.machine.clone();
        meta.notes
            .push("two engines of one host, on one clock: the network between is unknown".into());
    }
    for (of, clock) in [a, b].into_iter().zip(clocks) {
        meta.clock_bands
            .extend(of.clock_bands.iter().map(|band| band.on_clock(|ns| clock.moved(ns))));
    }
    match bounded {
        Some(Ok(clock)) => {
            let band = clock.band(&names[1 - base], &names[base]);
            meta.notes.push(band_note(&band));
            meta.clock_bands.push(band);
        }
        Some(Err(reason)) => meta.notes.push(clock_note(&names, base, shift, *reason)),
        None => {}
    }
    meta
}

/// The names on which both agree: records of either kernel carry the numbers, and are ambiguous
/// where the names differ.
fn of_both(a: &BTreeMap<u32, String>, b: &BTreeMap<u32, String>) -> BTreeMap<u32, String> {
    let agree = |(number, name): &(&u32, &String)| b.get(number) == Some(name);
    a.iter().filter(agree).map(|(number, name)| (*number, name.clone())).collect()
}

/// The name before each entry of a bundle's lists. Entries of a merged one have the names of their hosts already.
fn prefix(name: &str, names: &[String; 2]) -> String {
    let hosts = || name.split(" + ");
    let is_clear = hosts().all(|host| names.iter().all(|other| other != host));
    if hosts().count() > 1 && is_clear { String::new() } else { format!("{name}:") }
}

/// Lists of one host, each entry with the host's name and a colon.
fn add_host(meta: &mut Meta, name: &str, bundle: &Bundle) {
    let sentence = |text: &str| match name {
        "" => text.to_owned(),
        _ => format!("{name} {text}").trim_end_matches([':', ' ']).to_owned(),
    };
    let of = bundle.meta();
    meta.hooks
        .extend(of.hooks.iter().map(|hook| Hook { note: sentence(&hook.note), ..hook.clone() }));
    meta.interfaces.extend(of.interfaces.iter().map(|interface| Interface {
        name: format!("{name}{}", interface.name),
        ..interface.clone()
    }));
    let sysctls = of.sysctls.iter().map(|(key, value)| (format!("{name}{key}"), value.clone()));
    meta.sysctls.extend(sysctls);
    meta.notes.extend(of.notes.iter().map(|note| sentence(note)));
}

/// Adds the problems of one bundle to the notes, with a name for it.
pub(crate) fn add_problems(meta: &mut Meta, name: &str, checked: &Checked) {
    meta.notes.extend(checked.problems.iter().map(|problem| format!("{name}: {problem}")));
}

fn band_note(band: &ClockBand) -> String {
    let [early, late] = <[u64; 2]>::from(band.widest_ns()).map(microseconds);
    let adds = band.with_merged().map_or_else(String::new, |trace| {
        format!(". In the trace of {trace} the times of one host were moved before: its own bounds add to these")
    });
    format!(
        "times are on the monotonic clock of {}; those of {} are known by {} segments from it and {} to it. Each may \
         have been up to {early} us earlier or {late} us later, and a time between the hosts (wire) longer or shorter \
         by as much. Its clock is slower by {} to {} ppm{adds}",
        band.base,
        band.host,
        band.segments[0],
        band.segments[1],
        parts_per_million(band.slower_ppb[0]),
        parts_per_million(band.slower_ppb[1]),
    )
}

/// Nanoseconds as microseconds, as `3.14`, no less than they are.
fn microseconds(ns: u64) -> String {
    let hundredths = ns.div_ceil(10);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Parts per billion as parts per million, as `-3.1`.
fn parts_per_million(ppb: i64) -> String {
    let sign = if ppb < 0 { "-" } else { "" };
    format!("{sign}{}.{}", ppb.unsigned_abs() / 1000, ppb.unsigned_abs() % 1000 / 100)
}

fn clock_note(names: &[String; 2], base: usize, shift: &Shift, reason: NoBand) -> String {
    format!(
        "times are on the monotonic clock of {}; those of {} were shifted by {} ns by the real-time \
         clocks of the two hosts. Their difference is not known and adds to every time between the \
         hosts: {reason}. Within the recordings they moved by {} ns",
        names[base],
        names[1 - base],
        shift.by_ns[1 - base],
        shift.moved_ns,
    )
}

/// Names that distinguish the hosts.
fn names(first: &Bundle, second: &Bundle) -> [String; 2] {
    if are_engines_of_one_host(first, second) {
        return [first, second].map(|bundle| bundle.meta().pick.clone());
    }
    let (a, b) = (&first.meta().host, &second.meta().host);
    if a.is_empty() || b.is_empty() || a == b {
        return [format!("first host {a}"), format!("second host {b}")]
            .map(|name| name.trim_end().to_owned());
    }
    [a.clone(), b.clone()]
}

fn both(first: &str, second: &str) -> String {
    if first == second { first.to_owned() } else { format!("{first} + {second}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shifts for hosts whose snapshots are these (monotonic, realtime) pairs.
    fn shift(first: &[(u64, u64)], second: &[(u64, u64)]) -> Shift {
        let offsets = |pairs: &[(u64, u64)]| {
            let pairs = pairs.iter();
            let clock: Vec<_> = pairs
                .map(|&(monotonic_ns, realtime_ns)| ClockSnapshot::new(monotonic_ns, realtime_ns))
                .collect();
            offsets(&clock).unwrap()
        };
        Shift::of(offsets(first), offsets(second))
    }

    #[test]
    fn times_of_the_host_that_booted_later_are_shifted() {
        assert_eq!(
            shift(&[(500, 10_000)], &[(100, 10_000)]),
            Shift { by_ns: [0, 400], moved_ns: 0 }
        );
        assert_eq!(
            shift(&[(100, 10_000)], &[(500, 10_000)]),
            Shift { by_ns: [400, 0], moved_ns: 0 }
        );
    }

    #[test]
    fn a_clock_that_moved_is_taken_at_its_middle() {
        let moved = shift(&[(0, 1_000), (100, 1_104)], &[(0, 1_500)]);
        assert_eq!(moved, Shift { by_ns: [0, 498], moved_ns: 4 });
    }

    #[test]
    fn a_drop_reason_keeps_its_name_where_both_kernels_agree() {
        let kernel = |names: &[(u32, &str)]| {
            names.iter().map(|(number, name)| (*number, (*name).into())).collect()
        };
        let both = of_both(
            &kernel(&[(2, "NOT_SPECIFIED"), (6, "SOCKET_RCVBUFF")]),
            &kernel(&[(2, "NOT_SPECIFIED"), (6, "SOCKET_FILTER"), (7, "TCP_CSUM")]),
        );
        assert_eq!(both, [(2, "NOT_SPECIFIED".to_owned())].into());
    }

    #[test]
    fn figures_of_a_band_are_in_readable_units() {
        assert_eq!([0, 1, 3_141, 2_000_000].map(microseconds), ["0.00", "0.01", "3.15", "2000.00"]);
        assert_eq!([0, -50_000, 3_141].map(parts_per_million), ["0.0", "-50.0", "3.1"]);
    }

    #[test]
    fn absurd_clocks_saturate() {
        let absurd = shift(&[(u64::MAX, 0)], &[(0, u64::MAX)]);
        assert_eq!(absurd.by_ns, [0, u64::MAX]);
    }

    #[test]
    fn without_a_snapshot_there_is_no_clock() {
        assert!(offsets(&[]).is_none());
    }
}
