//! Compares the records of a recording with the truth.
//!
//! A record of a point claims that some bytes passed it at a time. It is right where these bytes passed then,
//! by a hit that has a record. Where the kernel ran no program for a hit, the next one may cover its
//! bytes: a `Loss` record has the time of that. No record covers bytes whose hit found its list full.
//! Where the kernel did not count such a hit, the position of the receiver proves it (`Index::needs_loss`).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sockscope_record::{Connection, ConnectionId, Kind, Point, Record, marks, tcp_flags};

use super::super::sink::Sink;
use super::super::summary::Summary;
use super::hits;
use super::truth::{Fate, Hit, Truth};
use crate::decode::point_of_raw;
use crate::layout::constants as raw;

/// The first difference, in words.
type Checked = Result<(), String>;

/// All that a recording handed over.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) records: Vec<Record>,
    pub(super) connections: BTreeMap<u32, Connection>,
    complete: BTreeSet<u32>,
    /// A record of a connection after the announcement that all were handed over.
    late: Option<Record>,
}

impl Sink for Collected {
    fn records(&mut self, records: &[Record]) -> Result<(), String> {
        let is_late = |record: &&Record| {
            record.kind != Kind::Loss && self.complete.contains(&record.flow.connection().0)
        };
        self.late = self.late.or_else(|| records.iter().find(is_late).copied());
        self.records.extend(records);
        Ok(())
    }

    fn connection(&mut self, connection: &Connection) -> Result<(), String> {
        self.connections.insert(connection.id.0, connection.clone());
        Ok(())
    }

    fn complete(&mut self, connection: ConnectionId) {
        self.complete.insert(connection.0);
    }
}

/// The truth, to look things up.
struct Index<'a> {
    truth: &'a Truth,
    ended_ns: u64,
    by_time: HashMap<u64, &'a Hit>,
    /// When each thread had calls, and whether the recorder knows their connection.
    calls: HashMap<u32, Vec<(u64, bool)>>,
    /// Segments that have a record at points 3 or 4, by flow, the time at which TCP took them, and bytes.
    taken: BTreeSet<(u32, u64, u64, u64)>,
    /// Hits of streams by flow and kind, in the order of their bytes.
    passes: HashMap<(u32, u8), Vec<&'a Hit>>,
    /// Flows that were opened anew while a datagram was in transit, which was sent in another one.
    reopened: BTreeSet<u32>,
    /// Where streams ended by a FIN that was received.
    fins: HashMap<u32, u64>,
    /// When the first hit of each flow was missed.
    first_missed: HashMap<u32, u64>,
    /// When each connection had its first hit.
    first_hits: HashMap<u32, u64>,
    /// Bytes of flows that passed again by the records.
    repeated: BTreeSet<(u32, u64, u64)>,
}

impl<'a> Index<'a> {
    fn of(truth: &'a Truth, collected: &Collected) -> Self {
        let repeated =
            collected.records.iter().filter(|record| record.is_marked(marks::RETRANSMITTED));
        let mut index = Self {
            truth,
            ended_ns: truth.ended_ns.unwrap_or(u64::MAX),
            by_time: HashMap::new(),
            calls: HashMap::new(),
            taken: BTreeSet::new(),
            passes: HashMap::new(),
            reopened: BTreeSet::new(),
            fins: HashMap::new(),
            first_missed: HashMap::new(),
            first_hits: HashMap::new(),
            repeated: repeated.map(|one| (one.flow.0, one.offset, one.end())).collect(),
        };
        for (thread, at_ns, connection) in &truth.calls {
            let is_known = collected.connections.contains_key(connection);
            index.calls.entry(*thread).or_default().push((*at_ns, is_known));
        }
        let mut first_flows = HashMap::new();
        for hit in &truth.hits {
            index.first_hits.entry(hit.flow / 2).or_insert(hit.at_ns);
            let first_flow = *first_flows.entry(hit.datagram).or_insert(hit.flow);
            if hit.datagram > 0 && first_flow != hit.flow {
                index.reopened.insert(hit.flow);
            }
            if hit.acknowledges_fin && hit.kind == raw::RAW_READY {
                index.fins.insert(hit.flow, hit.to);
            }
            if hit.fate == Fate::Delivered {
                index.by_time.insert(hit.at_ns, hit);
                index.taken.insert((hit.flow, hit.since_ns, hit.from, hit.to));
            } else {
                // A read has the flow of the datagram that its socket got last, not always that of its own.
                let own_flow = if hit.datagram > 0 { first_flow } else { hit.flow };
                for flow in [hit.flow, own_flow] {
                    let first = index.first_missed.entry(flow).or_insert(hit.at_ns);
                    *first = (*first).min(hit.at_ns);
                }
            }
            if hit.datagram == 0 && hit.to > hit.from {
                index.passes.entry((hit.flow, hit.kind)).or_default().push(hit);
            }
        }
        index
    }

    /// The hit at a record's time.
    fn hit(&self, record: &Record) -> Result<&'a Hit, String> {
        let hit = self.by_time.get(&record.at_ns).copied();
        hit.ok_or_else(|| format!("no hit was then: {record:?}"))
    }

    fn of_kind(&self, flow: u32, kind: u8) -> &[&'a Hit] {
        self.passes.get(&(flow, kind)).map_or(&[], Vec::as_slice)
    }

    /// Whether the probes or the kernel counted the hit as missed, and the recording had begun.
    fn is_counted(&self, hit: &Hit) -> bool {
        matches!(hit.fate, Fate::Refused | Fate::NotRun) && hit.at_ns > self.truth.counted_since_ns
    }

    /// Whether the kernel skipped this hit, and a `Loss` record must have its time: bytes passed point 4 or 6 between
    /// two ends on this host, and a read shows that they did. The hits of points 3 and 5 are not asked for, as those
    /// of 4 and 6 make up for them. Connections that were open before all probes were attached are not judged.
    fn needs_loss(&self, hit: &Hit) -> bool {
        let is_judged = matches!(hit.kind, raw::RAW_TRANSMIT | raw::RAW_RECEIVE);
        let is_new = self.first_hits[&(hit.flow / 2)] >= self.truth.attached_ns;
        if hit.fate != Fate::Skipped || !is_judged || !is_new || hit.from == hit.to {
            return false;
        }
        let is_proof = |read: &&Hit| {
            read.to >= hit.to && read.fate == Fate::Delivered && read.at_ns <= self.ended_ns
        };
        let sender_is_here = !self.of_kind(hit.flow, raw::RAW_TRANSMIT).is_empty();
        sender_is_here
            && self.of_kind(hit.flow, raw::RAW_COPY).iter().copied().any(|read| is_proof(&read))
    }

    /// When the last bytes before those of a hit passed by a hit of its kind that has a record; 0 for never. A hit
    /// that looks like a repetition does not show when the bytes behind its own first passed.
    fn passed_before_ns(&self, hit: &Hit) -> u64 {
        let before =
            self.of_kind(hit.flow, hit.kind).iter().take_while(|other| other.to <= hit.from);
        let is_first = |other: &&&Hit| !self.repeated.contains(&(other.flow, other.from, other.to));
        let recorded = before.filter(|other| other.fate == Fate::Delivered).filter(is_first);
        recorded.last().map_or(0, |last| last.at_ns)
    }

    /// The hits of a kind by which the bytes of a record passed.
    fn passes(&self, record: &Record, kind: u8) -> Result<Vec<&'a Hit>, String> {
        let all = self.of_kind(record.flow.0, kind);
        let first = all.partition_point(|hit| hit.to <= record.offset);
        let some: Vec<&Hit> =
            all[first..].iter().copied().take_while(|hit| hit.from < record.end()).collect();
        let is_whole = some.first().is_some_and(|first| first.from <= record.offset)
            && some.last().is_some_and(|last| last.to >= record.end());
        if is_whole { Ok(some) } else { Err(format!("these bytes never passed: {record:?}")) }
    }
}

/// Whether the records and counts are true.
pub(super) fn check(truth: &Truth, collected: &Collected, summary: &Summary) -> Checked {
    let index = Index::of(truth, collected);
    if let Some(late) = collected.late {
        return Err(format!("a record of a connection that is complete: {late:?}"));
    }
    counts(&index, collected, summary)?;
    losses(&index, &collected.records)?;
    found(&index, &collected.records)?;
    vanished(&index, &collected.records)?;
    connections(truth, collected)?;
    left_out(truth, collected)?;
    let mut identities = HashMap::new();
    for record in &collected.records {
        let connection = collected.connections.get(&record.flow.connection().0);
        if record.kind == Kind::Loss || connection.is_none() {
            continue;
        }
        match connection.map(|one| one.protocol) {
            Some(sockscope_record::Protocol::Udp) => datagram(&index, &mut identities, record)?,
            _ => stream(&index, record)?,
        }
    }
    Ok(())
}

/// Counted is generated less delivered, for each kind.
fn counts(index: &Index<'_>, collected: &Collected, summary: &Summary) -> Checked {
    let delivered = index.truth.hits.iter().filter(|hit| hit.fate == Fate::Delivered).count();
    let in_lists = delivered as u64 + index.truth.anchors;
    if summary.hits != in_lists {
        return Err(format!("{in_lists} records were in the lists, {} came out", summary.hits));
    }
    let seen: BTreeSet<(Option<Point>, u64)> =
        collected.records.iter().map(|record| (record.point(), record.at_ns)).collect();
    // A datagram with an unknown time of reading counts, in addition to the missed hit.
    let is_announced = |hit: &&Hit| hit.datagram > 0 && hit.kind == raw::RAW_RECEIVE;
    let unread = index.truth.hits.iter().filter(is_announced).count() as u64;
    for point in Point::ALL.into_iter().filter(|point| *point != Point::SendDequeue) {
        let of_point = |hit: &&Hit| point_of_raw(hit.kind) == Some(point);
        let hits = || index.truth.hits.iter().filter(of_point);
        let is_missed = |hit: &&Hit| index.is_counted(hit);
        let in_time = |hit: &&Hit| hit.at_ns <= index.ended_ns;
        let missed = hits().filter(is_missed).filter(in_time).count() as u64;
        let missed_late = hits().filter(is_missed).filter(|hit| !in_time(hit)).count() as u64;
        let unseen = hits().filter(|hit| hit.fate == Fate::Delivered).filter(in_time);
        let unseen = unseen.filter(|hit| !seen.contains(&(Some(point), hit.at_ns))).count() as u64;
        let is_of_packets = (3..=6).contains(&point.number());
        let least = missed + if is_of_packets { unseen } else { 0 };
        let skipped =
            index.truth.hits.iter().filter(|hit| is_skipped_at(hit, point)).count() as u64;
        let most = missed + unseen + missed_late + skipped;
        let most = most + if point == Point::ReceiveDequeue { unread } else { 0 };
        let counted = summary.missed.points[point.index()];
        if !(least..=most).contains(&counted) {
            return Err(format!(
                "{missed} hits of {point:?} were missed (and {missed_late} after the end), {unseen} \
                 have no record: {counted} counted"
            ));
        }
    }
    let written: u64 =
        collected.records.iter().filter(|one| one.kind == Kind::Loss).map(|one| one.detail).sum();
    if written > summary.missed.total() {
        return Err(format!("{written} losses written, {} counted", summary.missed.total()));
    }
    Ok(())
}

/// Whether the kernel skipped a hit that shows this point.
fn is_skipped_at(hit: &Hit, point: Point) -> bool {
    let shown = point_of_raw(hit.kind).map_or(&[][..], Point::of_hit);
    hit.fate == Fate::Skipped && shown.contains(&point)
}

/// Each missed hit is in the time of a `Loss` record of its point.
fn losses(index: &Index<'_>, records: &[Record]) -> Checked {
    let mut times: BTreeMap<u8, Vec<(u64, u64)>> = BTreeMap::new();
    let mut counted_ns: BTreeMap<u8, u64> = BTreeMap::new();
    for loss in records.iter().filter(|record| record.kind == Kind::Loss) {
        times.entry(loss.code).or_default().push((loss.offset, loss.at_ns));
        if loss.is_marked(marks::ANCHORED) {
            let until_ns = counted_ns.entry(loss.code).or_default();
            *until_ns = loss.at_ns.max(*until_ns);
        }
    }
    times.values_mut().for_each(|times| times.sort_unstable());
    for hit in &index.truth.hits {
        let is_missed = index.is_counted(hit) || index.needs_loss(hit);
        if !is_missed || hit.at_ns > index.ended_ns {
            continue;
        }
        let code = point_of_raw(hit.kind).map_or(Kind::Loss as u8, Point::number);
        let times = times.get(&code).map_or(&[][..], Vec::as_slice);
        let until = times.partition_point(|(since_ns, _)| *since_ns <= hit.at_ns);
        let is_there = times[..until].iter().any(|(_, until_ns)| *until_ns >= hit.at_ns);
        // That lists were full until after the last bytes explains why the next ones have no record.
        let is_explained = || {
            let counted_ns = counted_ns.get(&code).copied().unwrap_or(0);
            hit.fate == Fate::Skipped && counted_ns >= index.passed_before_ns(hit).max(1)
        };
        if !is_there && !is_explained() {
            return Err(format!("no loss has the time of {hit:?}"));
        }
    }
    Ok(())
}

/// Each loss that no list has counted has as many hits that the kernel did not run, at its point and in its time.
fn found(index: &Index<'_>, records: &[Record]) -> Checked {
    let mut not_run: BTreeMap<Point, Vec<u64>> = BTreeMap::new();
    for hit in &index.truth.hits {
        if matches!(hit.fate, Fate::Skipped | Fate::NotRun) {
            for point in point_of_raw(hit.kind).map_or(&[][..], Point::of_hit) {
                not_run.entry(*point).or_default().push(hit.at_ns);
            }
        }
    }
    not_run.values_mut().for_each(|times| times.sort_unstable());
    // A list has counted it, or a datagram has an unknown time of reading.
    let is_other =
        |record: &&Record| record.is_marked(marks::ANCHORED) || record.is_marked(marks::DERIVED);
    for record in records.iter().filter(|record| !is_other(record)) {
        let Some(loss) = record.loss() else { continue };
        let Some(point) = loss.point() else { continue };
        let times = not_run.get(&point).map_or(&[][..], Vec::as_slice);
        let first = times.partition_point(|at_ns| *at_ns < loss.since_ns);
        let end = times.partition_point(|at_ns| *at_ns <= record.at_ns);
        if loss.count > end.saturating_sub(first) as u64 {
            return Err(format!("more losses than hits for which no program ran: {record:?}"));
        }
    }
    Ok(())
}

/// Checks a datagram that entered a queueing discipline and has no later record. It is in the time of a
/// loss, where a later one of its flow has a record of its receive queue.
fn vanished(index: &Index<'_>, records: &[Record]) -> Checked {
    let losses = records.iter().filter(|record| record.kind == Kind::Loss);
    let losses: Vec<(u64, u64)> = losses.map(|loss| (loss.offset, loss.at_ns)).collect();
    let mut queued: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    let mut arrived: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    let recorded = index.truth.hits.iter().filter(|hit| hit.datagram > 0);
    let recorded =
        recorded.filter(|hit| hit.fate == Fate::Delivered && hit.at_ns <= index.ended_ns);
    for hit in recorded {
        let datagram = (hit.flow, hit.datagram);
        if hit.kind == raw::RAW_QUEUED {
            queued.insert(datagram, hit.at_ns);
        } else if hit.kind != raw::RAW_COPY {
            queued.remove(&datagram);
        }
        if hit.kind == raw::RAW_READY {
            arrived.entry(hit.flow).or_default().push((hit.datagram, hit.at_ns));
        }
    }
    for ((flow, datagram), queued_ns) in queued {
        let mut later = arrived.get(&flow).into_iter().flatten();
        let Some((_, until_ns)) = later.find(|(other, _)| *other > datagram) else { continue };
        let is_within =
            |(since_ns, at_ns): &(u64, u64)| *since_ns <= *until_ns && *at_ns >= queued_ns;
        if !losses.iter().any(is_within) {
            return Err(format!(
                "no loss has the time from {queued_ns} to {until_ns} of datagram {datagram}"
            ));
        }
    }
    Ok(())
}

/// Each connection has the addresses that it was opened with.
fn connections(truth: &Truth, collected: &Collected) -> Checked {
    let opened: BTreeMap<u32, u32> = truth.opened.iter().copied().collect();
    for (id, connection) in &collected.connections {
        if opened.get(id) != Some(&u32::from(connection.client.port())) {
            return Err(format!("no such connection: {connection:?}"));
        }
    }
    Ok(())
}

/// A connection that was left out has a record of that at its time, and no later one.
fn left_out(truth: &Truth, collected: &Collected) -> Checked {
    let of = |id: u32| {
        let records = collected.records.iter().filter(|one| one.kind != Kind::Loss);
        records.filter(move |one| one.flow.connection().0 == id)
    };
    let ended_ns = truth.ended_ns.unwrap_or(u64::MAX);
    for (id, at_ns) in &truth.left_out {
        let times = of(*id).filter(|one| one.kind == Kind::LeftOut).map(|one| one.at_ns);
        let times: Vec<u64> = times.collect();
        let is_known = collected.connections.contains_key(id) && *at_ns <= ended_ns;
        if is_known && times != [*at_ns] {
            return Err(format!("connection {id} was left out at {at_ns}, not at {times:?}"));
        }
        if let Some(later) = of(*id).find(|one| one.at_ns > *at_ns) {
            return Err(format!("connection {id} was left out at {at_ns}: {later:?}"));
        }
    }
    let all = collected.records.iter().filter(|one| one.kind == Kind::LeftOut);
    let unknown =
        all.map(|one| one.flow.connection().0).find(|id| !truth.left_out.contains_key(id));
    unknown.map_or(Ok(()), |id| Err(format!("connection {id} was never left out")))
}

fn stream(index: &Index<'_>, record: &Record) -> Checked {
    match record.kind {
        Kind::SendEnqueue => by_one_hit(index, record, raw::RAW_WRITE),
        Kind::SendDequeue => {
            let key = (record.flow.0, record.at_ns, record.offset, record.end());
            let is_true = index.taken.contains(&key);
            is_true
                .then_some(())
                .ok_or_else(|| format!("TCP took no such segment then: {record:?}"))
        }
        Kind::InterfaceEnqueue
        | Kind::InterfaceDequeue
        | Kind::InputEnqueue
        | Kind::InputDequeue => packet(index, record),
        Kind::ReceiveEnqueue => ready(index, record),
        Kind::ReceiveDequeue => {
            by_one_hit(index, record, raw::RAW_COPY)?;
            wait(index, record)
        }
        Kind::WriteCall => {
            at(index, record, |hit| hit.from == record.offset)?;
            wait(index, record)
        }
        Kind::Retransmit | Kind::Drop => {
            at(index, record, |hit| (hit.from, hit.to) == (record.offset, record.end()))
        }
        _ => Ok(()),
    }
}

/// A record that covers no other hits than its own.
fn at(index: &Index<'_>, record: &Record, is_true: impl Fn(&Hit) -> bool) -> Checked {
    let hit = index.hit(record)?;
    let is_true = hit.flow == record.flow.0 && is_true(hit);
    is_true.then_some(()).ok_or_else(|| format!("{record:?} is of {hit:?}"))
}

/// The wait of a thread for a CPU before a call: of a write since its last call, of a read since one before. A call on a
/// connection that the recorder does not know may count or not.
fn wait(index: &Index<'_>, record: &Record) -> Checked {
    let calls = index.calls.get(&record.thread).map_or(&[][..], Vec::as_slice);
    let earlier = &calls[..calls.partition_point(|(at_ns, _)| *at_ns < record.at_ns)];
    let last_known = earlier.iter().rposition(|(_, is_known)| *is_known);
    let first = if record.kind == Kind::WriteCall { last_known.unwrap_or(0) } else { 0 };
    let delay_ns = |at_ns| hits::run_delay_ns(record.thread, at_ns);
    let is_base =
        |since_ns| (delay_ns(record.at_ns) - delay_ns(since_ns)).max(1) == u64::from(record.extra);
    let is_true = match record.extra {
        0 => last_known.is_none(),
        _ => earlier[first..].iter().any(|(at_ns, _)| is_base(*at_ns)),
    };
    is_true.then_some(()).ok_or_else(|| format!("its thread waited for another time: {record:?}"))
}

fn packet(index: &Index<'_>, record: &Record) -> Checked {
    let kinds: &[u8] = match record.kind {
        Kind::InterfaceEnqueue if record.is_marked(marks::NO_QUEUE) => &[raw::RAW_TRANSMIT],
        Kind::InterfaceEnqueue => &[raw::RAW_QUEUED],
        Kind::InterfaceDequeue => &[raw::RAW_TRANSMIT],
        Kind::InputEnqueue if record.is_marked(marks::DERIVED) => {
            &[raw::RAW_TRANSMIT, raw::RAW_RECEIVE]
        }
        Kind::InputEnqueue => &[raw::RAW_INPUT],
        _ => &[raw::RAW_RECEIVE],
    };
    at(index, record, |hit| {
        let has_ack =
            record.tcp_flags & tcp_flags::ACK != 0 && record.tcp_flags & tcp_flags::SYN == 0;
        kinds.contains(&hit.kind)
            && (hit.from, hit.to) == (record.offset, record.end())
            && (!has_ack || acknowledged(hit).contains(&record.detail))
    })
}

/// Positions that a record may have for the acknowledgment of a hit: 0 where the other flow's SYN was
/// missed, and one too much for a FIN that was missed.
fn acknowledged(hit: &Hit) -> [u64; 3] {
    [0, hit.acknowledged, hit.acknowledged + u64::from(hit.acknowledges_fin)]
}

/// A record of point 1 or 8: its own hit has brought the bytes, and those for which no program ran.
fn by_one_hit(index: &Index<'_>, record: &Record, kind: u8) -> Checked {
    at(index, record, |hit| hit.kind == kind)?;
    for hit in index.passes(record, kind)? {
        if hit.at_ns != record.at_ns && hit.fate != Fate::NotRun {
            return Err(format!("{record:?} has bytes of {hit:?}"));
        }
    }
    Ok(())
}

/// A record of point 7 may have the time at which TCP got the bytes, or at which it acknowledged them.
///
/// Where each hit and event that shows a FIN was missed, its sequence number counts as a byte.
fn ready(index: &Index<'_>, record: &Record) -> Checked {
    let mut bytes = *record;
    if index.fins.get(&record.flow.0).is_some_and(|end| *end + 1 == record.end()) {
        bytes.len -= 1;
    }
    if bytes.len == 0 {
        return Ok(());
    }
    for hit in index.passes(&bytes, raw::RAW_READY)? {
        let is_bound =
            matches!(hit.fate, Fate::NotRun | Fate::Skipped) || record.is_marked(marks::DERIVED);
        let until_ns = if is_bound { u64::MAX } else { hit.at_ns };
        let is_true =
            hit.fate != Fate::Refused && (hit.since_ns..=until_ns).contains(&record.at_ns);
        if !is_true {
            return Err(format!("{record:?} has bytes of {hit:?}"));
        }
    }
    Ok(())
}

/// Records of one datagram have one position, and no other datagram has it.
fn datagram(
    index: &Index<'_>,
    identities: &mut HashMap<(u32, u64), u64>,
    record: &Record,
) -> Checked {
    if record.point().is_none() || record.is_marked(marks::DERIVED) {
        return Ok(());
    }
    if record.kind == Kind::ReceiveDequeue {
        wait(index, record)?;
    }
    let hit = index.hit(record)?;
    let known = *identities.entry((record.flow.0, record.offset)).or_insert(hit.datagram);
    if known == hit.datagram {
        return Ok(());
    }
    // Where hits of the flow were missed, order and length may fit another one. The record is marked as
    // a guess.
    let first_missed_ns = index.first_missed.get(&record.flow.0).copied().unwrap_or(u64::MAX);
    let is_explained = index.reopened.contains(&record.flow.0) || first_missed_ns <= hit.at_ns;
    if !record.is_marked(marks::RECOGNIZED) && is_explained {
        return Ok(());
    }
    Err(format!("{record:?} is of {hit:?}, not of datagram {known}"))
}
