//! Two hosts' bundles of the same traffic as one.
//!
//! Each host's records carry that host's monotonic clock. The clock snapshots of `meta.json` relate
//! it to real time. So the times of the host that booted later are shifted by the difference of the
//! boot times, and never become negative. The difference of the two hosts' real-time clocks is in
//! no bundle. Segments that both hosts recorded bound it where they went in both directions: no segment
//! arrives before it left. The times are then moved by the middle of these bounds. Without them the notes
//! of the result say that the difference is not known.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use sockscope_record::{Connection, ConnectionId, FlowId, Kind, Record, counted};

use crate::bundle::Bundle;
use crate::check::Checked;
use crate::clock_band::{HostClock, NoBand};
use crate::crossings::{Crossings, crossings};
use crate::error::Error;
use crate::join::{join, kernel_and_engine};
use crate::merge_counts::Counts;
use crate::merge_meta::{Shift, are_engines_of_one_host, merged_meta};
use crate::merge_plan::{Clock, Place, Plan};
use crate::merged::Merged;
use crate::meta::Meta;
use crate::records::RecordReader;
use crate::writer::BundleWriter;

/// Records handed to the writer at a time.
const OUTPUT_RECORDS: usize = 4096;

/// Writes to folder `out` one bundle with the content of `first` and `second`.
///
/// Connections of both are matched by the number in the mark of their SYN, else by protocol and addresses, those
/// that opened closest together first; a connection within one host has no counterpart. Ids are new. CPU, thread and process numbers stay those
/// of their own host. Records are in time order as far as each bundle has them so.
///
/// When one of the two is a protocol engine's ([`Meta::source`](crate::Meta)), both are of one host: the
/// engine's points 1, 2, 7 and 8 take the place of the kernel's, datagram by datagram. Two engines of one
/// host give their records of loopback, one from each end: one connection where both counted the same
/// octets, else two.
///
/// # Errors
///
/// [`Error::NoClock`] when a bundle has no clock snapshot, and as [`BundleWriter`] and [`RecordReader`].
pub fn merge(first: &Bundle, second: &Bundle, out: impl AsRef<Path>) -> Result<Merged, Error> {
    merge_into(first, second, |meta| BundleWriter::create(out, meta))
}

/// As [`merge`], into the bundle that `create` makes: it is called once, when the two are known to fit.
///
/// # Errors
///
/// As [`merge`], and those of `create`.
pub fn merge_into<E: From<Error>>(
    first: &Bundle,
    second: &Bundle,
    create: impl FnOnce(Meta) -> Result<BundleWriter, E>,
) -> Result<Merged, E> {
    let checked = [Checked::of(first)?, Checked::of(second)?];
    if let Some((kernel, engine)) = kernel_and_engine(first, second) {
        return join([kernel, engine], checked, std::ptr::eq(engine, first), create);
    }
    let shift = Shift::between(first, second)?;
    let is_one_host = are_engines_of_one_host(first, second);
    let rows = match is_one_host {
        true => [first, second].map(|bundle| bundle.connections().to_vec()),
        false => with_hosts([first, second]),
    };
    let ends = [&rows[0][..], &rows[1][..]];
    let counts = match is_one_host {
        true => Some([Counts::of(first)?, Counts::of(second)?]),
        false => None,
    };
    let shifted = Plan::new(ends, shift.by_ns.map(Clock::Later), counts.as_ref());
    let bounded = match is_one_host {
        true => None,
        false => Some(host_clock([first, second], &checked, &shifted, &shift)?),
    };
    let plan = match &bounded {
        Some(Ok(clock)) => {
            let mut clocks = shifted.clocks;
            clocks[shift.moved()] = Clock::Bounded(clock.clone());
            Plan::new(ends, clocks, counts.as_ref())
        }
        _ => shifted,
    };
    let mut meta = merged_meta([first, second], &checked, &shift, bounded.as_ref(), &plan.clocks);
    let both = if is_one_host { "both engines" } else { "both hosts" };
    let places = if is_one_host { "the two" } else { "the hosts" };
    meta.notes.push(format!(
        "{} of {} seen by {both}; positions of those that were established before recording began \
         may differ between {places}",
        plan.matched,
        counted(plan.connections.len() as u64, "connection"),
    ));
    meta.notes.extend((plan.unequal > 0).then(|| unequal_note(plan.unequal)));
    meta.notes.extend((plan.translated > 0).then(|| translated_note(plan.translated)));
    meta.notes.extend((plan.ambiguous > 0).then(|| ambiguous_note(plan.ambiguous)));
    let mut writer = create(meta.clone())?;
    for connection in &plan.connections {
        writer.connection(connection)?;
    }
    let connections = plan.connections.len() as u64;
    let (matched, translated) = (plan.matched, plan.translated);
    interleave(first, second, plan, &mut writer)?;
    let records = writer.records();
    let band = meta.clock_bands.last().cloned().filter(|_| matches!(bounded, Some(Ok(_))));
    writer.finish(meta)?;
    let Shift { by_ns: shift_ns, moved_ns: clock_moved_ns } = shift;
    let problems = checked.map(|checked| checked.problems);
    Ok(Merged {
        matched,
        translated,
        connections,
        records,
        shift_ns,
        clock_moved_ns,
        band,
        problems,
    })
}

/// The connections of both bundles, with the number of the host of each process. The hosts of the first have the lower
/// numbers. In a bundle of several hosts that an earlier release merged they stay unknown.
fn with_hosts(bundles: [&Bundle; 2]) -> [Vec<Connection>; 2] {
    let mut before = 0;
    bundles.map(|bundle| {
        let hosts = bundle.meta().hosts();
        let mut rows = bundle.connections().to_vec();
        for process in rows.iter_mut().flat_map(|row| &mut row.processes) {
            process.host = match process.host {
                0 if hosts > 1 => 0,
                number => number.max(1).saturating_add(before),
            };
        }
        before += hosts;
        rows
    })
}

/// The clock of the host whose times are moved, by the segments that both hosts recorded.
fn host_clock(
    bundles: [&Bundle; 2],
    checked: &[Checked; 2],
    plan: &Plan,
    shift: &Shift,
) -> Result<Result<HostClock, NoBand>, Error> {
    // A segment that left unseen and left again would bound a wrong time.
    if checked.iter().any(|checked| checked.missed.total() > 0 || !checked.problems.is_empty()) {
        return Ok(Err(NoBand::Missed));
    }
    let Crossings { from_moved, to_moved, range_ns } =
        crossings(bundles, &plan.places, &plan.connections, shift.moved())?;
    let range_ns = range_ns.unwrap_or_default();
    Ok(HostClock::of(from_moved, to_moved, range_ns))
}

fn unequal_note(count: u64) -> String {
    format!(
        "connections that stay two, one for each engine: {count}. What one end sent is not what came \
         to the other, as when a packet is dropped or sent before the other records: their positions do \
         not relate"
    )
}

fn translated_note(count: u64) -> String {
    format!(
        "connections that each host has with other addresses (NAT), matched by the number in the mark of the SYN: \
         {count}"
    )
}

fn ambiguous_note(count: u64) -> String {
    format!(
        "numbers in marks that several connections of one host have, so that they match none: {count}"
    )
}

/// Copies the records of both, numbered anew, on one clock and in order of time.
fn interleave(
    first: &Bundle,
    second: &Bundle,
    plan: Plan,
    writer: &mut BundleWriter,
) -> Result<(), Error> {
    let mut next_id = plan.connections.len() as u32 + 1;
    let [places_first, places_second] = plan.places;
    let [clock_first, clock_second] = plan.clocks;
    let mut first = Input::new(first, places_first, clock_first)?;
    let mut second = Input::new(second, places_second, clock_second)?;
    let mut output = Vec::with_capacity(OUTPUT_RECORDS);
    loop {
        let earlier = match (first.head(&mut next_id)?, second.head(&mut next_id)?) {
            (Some(a), Some(b)) if a.at_ns <= b.at_ns => first.take(),
            (Some(_), None) => first.take(),
            (_, Some(_)) => second.take(),
            (None, None) => return writer.append(&output),
        };
        output.extend(earlier);
        if output.len() == OUTPUT_RECORDS {
            writer.append(&output)?;
            output.clear();
        }
    }
}

/// One of the two bundles, read batch by batch.
struct Input {
    /// `None` after its last batch: it is not read again for each record of the other.
    reader: Option<RecordReader<File>>,
    places: HashMap<ConnectionId, Place>,
    clock: Clock,
    /// The batch being copied, numbered anew and on the common clock.
    batch: Vec<Record>,
    taken: usize,
}

impl Input {
    fn new(
        bundle: &Bundle,
        places: HashMap<ConnectionId, Place>,
        clock: Clock,
    ) -> Result<Self, Error> {
        Ok(Self { reader: Some(bundle.records()?), places, clock, batch: Vec::new(), taken: 0 })
    }

    /// The next record; `next_id` numbers connections that no `flows.arrows` has.
    fn head(&mut self, next_id: &mut u32) -> Result<Option<Record>, Error> {
        while self.taken == self.batch.len() {
            let Some(reader) = &mut self.reader else { return Ok(None) };
            let Some(batch) = reader.next_batch()? else {
                self.reader = None;
                return Ok(None);
            };
            let (places, clock) = (&mut self.places, &self.clock);
            self.taken = 0;
            self.batch.clear();
            self.batch.extend(batch.iter().map(|record| {
                let flow = match record.kind {
                    // Of no flow.
                    Kind::Loss if record.flow == FlowId::default() => record.flow,
                    _ => placed(record.flow, places, next_id),
                };
                Record { flow, ..*record }.on_clock(|ns| clock.moved(ns))
            }));
        }
        Ok(self.batch.get(self.taken).copied())
    }

    fn take(&mut self) -> Option<Record> {
        debug_assert!(self.taken < self.batch.len(), "its head was looked at before");
        self.taken += 1;
        self.batch.get(self.taken - 1).copied()
    }
}

/// The flow's new number.
fn placed(flow: FlowId, places: &mut HashMap<ConnectionId, Place>, next_id: &mut u32) -> FlowId {
    let place = places.entry(flow.connection()).or_insert_with(|| {
        let id = ConnectionId(*next_id);
        // Stays in the range that a flow number can name; only a hostile bundle gets there.
        *next_id = (*next_id + 1).min(u32::MAX / 2);
        Place { id, is_swapped: false }
    });
    let placed = place.id.flow(flow.direction());
    if place.is_swapped { placed.reverse() } else { placed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_of_connections_that_nobody_listed_get_free_numbers() {
        let (mut places, mut next_id) = (HashMap::new(), 5);
        let flows = [8, 9, 2, 8].map(|flow| placed(FlowId(flow), &mut places, &mut next_id).0);
        assert_eq!(flows, [10, 11, 12, 10]);
    }
}
