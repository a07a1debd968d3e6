//! The summary of a recording: its counts, and the sentences about missed records.

use sockscope_record::{LossCounts, PointCost, counted};

use super::loss_meter::Totals;
use crate::programs::{Counters, HookReport};
use crate::sample::Openings;

/// A list is suggested this many times as long, up to what is accepted.
const LONGER: u64 = 16;
const LIST_BYTES_MAX: u64 = 256 << 20;

/// The counts of a recording, and the missed records.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Records handed to the sink.
    pub records: u64,
    /// Probe hits from which they were decoded.
    pub hits: u64,
    /// Records missed.
    pub missed: LossCounts,
    /// Connections that were recorded, and those that sampling left out.
    pub openings: Openings,
    /// Run time of the probes of each point; its hits count logged and other traffic.
    pub costs: [PointCost; 8],
    /// The table of hooks as used.
    pub hooks: Vec<HookReport>,
    /// Records that each CPU's list holds.
    pub list_records: u64,
    /// Bytes of all lists.
    pub list_bytes: u64,
    /// The remedy, by the cause, where records were missed.
    pub advice: Option<String>,
    /// Sentences for the reader.
    pub notes: Vec<String>,
}

/// Missed records and events, by cause.
pub(super) struct Missed<'a> {
    pub(super) totals: &'a Totals,
    pub(super) counters: &'a Counters,
    /// Options of connections that were never announced.
    pub(super) early_options: u64,
    /// Hits of connections that are not in the trace.
    pub(super) of_unknown: u64,
}

impl Missed<'_> {
    /// Hits that found the list of a CPU full. Those of others beyond their half are not of these: a longer
    /// list would be for others.
    fn list_full(&self) -> u64 {
        self.totals.list_full.saturating_sub(self.counters.unlisted)
    }

    /// The remedy, by the cause; each list has so many bytes.
    pub(super) fn advice(&self, list_bytes: u64) -> Option<String> {
        advice(self.list_full(), self.counters.events_lost, list_bytes)
    }

    /// One sentence for each cause.
    pub(super) fn notes(&self, advice: Option<&str>) -> Vec<String> {
        let Counters { events_lost, unlisted, options_missed, .. } = *self.counters;
        let others = self.totals.of_others;
        let mut notes = causes(self.list_full(), others, events_lost, unlisted, advice);
        let options_missed = options_missed + self.early_options;
        if options_missed > 0 {
            notes.push(format!(
                "options of sockets that are missing, and counted as missed: {options_missed}"
            ));
        }
        notes.extend(self.counters.notes());
        let Totals { interrupted, skipped, unplaced_reads, unknown_positions, .. } = *self.totals;
        let note = |count, what: &str, text: &str| {
            (count > 0).then(|| text.replace("{}", &counted(count, what)))
        };
        let found = [
            note(
                interrupted,
                "hit",
                "{} of a probe that was running on the same CPU, so that the kernel did not run it: all of \
                 them are counted as missed, also those of connections that are not recorded",
            ),
            note(skipped, "observation", "the kernel skipped {} (no probe ran), counted as missed"),
            note(
                unplaced_reads,
                "datagram",
                "unknown when read, as earlier reads were not recorded, and counted as missed: {}",
            ),
            note(
                unknown_positions,
                "observation",
                "of unknown position, as records before were missed, and counted as missed: {}",
            ),
            note(
                self.of_unknown,
                "observation",
                "{} of connections that are not in the trace, counted as missed",
            ),
        ];
        notes.extend(found.into_iter().flatten());
        notes
    }
}

/// For hits that found a list full, and events that found their ring full.
fn advice(full: u64, events: u64, list_bytes: u64) -> Option<String> {
    let longer = (list_bytes * LONGER).min(LIST_BYTES_MAX);
    match (full, events) {
        (0, 0) => None,
        (0, _) => Some("record fewer connections (--port, --pid)".to_owned()),
        _ if longer > list_bytes => Some(format!(
            "try --buffer {}M, or record fewer connections (--port, --pid)",
            longer >> 20
        )),
        _ => Some("record fewer connections (--port, --pid)".to_owned()),
    }
}

/// One sentence for each cause that leaves a list or a ring without room; `others` are hits of connections
/// that other users asked for.
fn causes(full: u64, others: u64, events: u64, unlisted: u64, advice: Option<&str>) -> Vec<String> {
    let advice = advice.unwrap_or_default();
    let cause = |count, what: &str, why: &str| {
        (count > 0).then(|| format!("{} missed, {why}", counted(count, what)))
    };
    [
        cause(full, "record", &format!("as the list of a CPU was full: {advice}")),
        cause(
            others,
            "record",
            "of connections that other users asked for by SO_LOG, beyond their half of a CPU's list",
        ),
        cause(events, "event", "as the ring of events was full: record fewer connections"),
        cause(unlisted, "record", "on a CPU that came up after the start: record again"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_action_fits_the_cause() {
        assert_eq!(advice(0, 0, 4 << 20), None);
        let longer = advice(7, 0, 4 << 20).unwrap();
        assert!(longer.starts_with("try --buffer 64M, or record fewer"), "{longer}");
        for (full, events, bytes) in [(0, 3, 4 << 20), (7, 0, 256 << 20)] {
            assert_eq!(
                advice(full, events, bytes).unwrap(),
                "record fewer connections (--port, --pid)"
            );
        }
    }

    #[test]
    fn each_cause_is_counted_apart() {
        assert_eq!(causes(0, 0, 0, 0, None), [""; 0]);
        let notes = causes(2, 4, 1, 3, Some("try this"));
        assert_eq!(
            notes,
            [
                "2 records missed, as the list of a CPU was full: try this",
                "4 records missed, of connections that other users asked for by SO_LOG, beyond their half of a \
                 CPU's list",
                "1 event missed, as the ring of events was full: record fewer connections",
                "3 records missed, on a CPU that came up after the start: record again",
            ]
        );
    }

    #[test]
    fn a_recording_that_missed_nothing_has_no_sentence() {
        let (totals, counters) = (Totals::default(), Counters::default());
        let missed =
            Missed { totals: &totals, counters: &counters, early_options: 0, of_unknown: 0 };
        assert_eq!((missed.advice(4 << 20), missed.notes(None)), (None, Vec::new()));
    }

    #[test]
    fn every_count_has_its_sentence() {
        let totals = Totals {
            list_full: 12,
            of_others: 8,
            interrupted: 3,
            skipped: 4,
            unplaced_reads: 5,
            unknown_positions: 6,
            ..Totals::default()
        };
        let counters = Counters { unlisted: 2, options_missed: 7, ..Counters::default() };
        let missed =
            Missed { totals: &totals, counters: &counters, early_options: 1, of_unknown: 9 };
        let notes = missed.notes(missed.advice(4 << 20).as_deref());
        let begins = [
            "10 records",
            "8 records",
            "2 records",
            "options of sockets",
            "3 hits",
            "the kernel skipped 4",
        ];
        let ends = ["5 datagrams", "6 observations"];
        assert_eq!(notes.len(), 9, "{notes:?}");
        assert!(begins.iter().zip(&notes).all(|(text, note)| note.starts_with(text)), "{notes:?}");
        assert!(ends.iter().zip(&notes[6..]).all(|(text, note)| note.ends_with(text)), "{notes:?}");
        assert!(notes[3].ends_with(": 8") && notes[8].starts_with("9 observations"), "{notes:?}");
    }
}
