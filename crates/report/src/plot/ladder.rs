//! The content of a time-sequence drawing: segments that left one end and arrived at the other, and
//! the program's writes and reads.
//!
//! A segment leaves at point 4 and arrives at point 5, or at the nearest points with records. One that the
//! kernel dropped behind it did not arrive. Times are nanoseconds of the trace's clock.

use std::collections::BTreeSet;
use std::slice::Iter;

use sockscope_analysis::{
    ConnectionStore, DroppedPacket, FlowStore, Passage, dropped_packets, packets_are_alone,
};
use sockscope_record::{Connection, Direction, Kind, Point, Protocol, Side, marks, tcp_flags};
use sockscope_render::number::count;
use sockscope_render::units::grouped;

use super::scene::{Scene, end_of};

/// Segments shown when the figure picks the part to show.
const PICKED_ARROWS: usize = 14;
/// Segments shown at most when the reader picked it.
const ARROWS_MAX: usize = 80;
/// Arrivals looked at to find that of one segment.
const SCAN_MAX: usize = 4096;
/// The longest gap is worth picking when it is so many times the mean one.
const LONG_GAP_RATIO: f64 = 4.0;

/// A segment in transit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arrow {
    pub(super) from: Side,
    /// `None`: only its arrival was recorded.
    pub(super) departed_ns: Option<u64>,
    /// `None`: it was dropped, or the other end has no records.
    pub(super) arrived_ns: Option<u64>,
    /// The time of its arrival at the host that dropped it, where only that was recorded.
    pub(super) dropped_ns: Option<u64>,
    pub(super) carries: Carries,
    pub(super) label: String,
    /// It is next to the longest wait: the last data before it, the segment that ended it, or the next one.
    pub(super) is_bold: bool,
}

/// The kind of the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carries {
    Data,
    DataAgain,
    Nothing,
}

/// The bytes that a write put into the send queue at once, or a read by the program at one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Act {
    pub(super) at_ns: u64,
    pub(super) side: Side,
    pub(super) is_write: bool,
    pub(super) bytes: u32,
}

/// The part of a connection that is drawn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ladder {
    pub(super) arrows: Vec<Arrow>,
    pub(super) acts: Vec<Act>,
    /// False where no end saw any segment arrive, as in a capture on the wire.
    pub(super) sees_arrivals: bool,
    /// False where none of the segments without data was seen to arrive: their points had no records.
    pub(super) sees_bare_arrivals: bool,
    /// The reason for this part, and the parts left out.
    pub(super) notes: Vec<String>,
}

/// A segment as it leaves, or as it is first seen.
#[derive(Clone, Copy)]
struct Departure<'a> {
    /// Of all connections that are drawn.
    connection: usize,
    store: &'a ConnectionStore,
    direction: Direction,
    pass: &'a Passage,
}

/// The longest time in which no segment left while data was under way.
#[derive(Debug, Clone, Copy)]
struct Gap {
    /// Its place among all departures: the number of those before it.
    index: usize,
    ns: u64,
}

impl Ladder {
    /// The part around the longest gap, or the part that the options ask for.
    pub(super) fn of(scene: &Scene<'_>) -> Self {
        let is_asked = scene.options.from_ns.is_some() || scene.options.to_ns.is_some();
        let total = departures(scene).count();
        let mut notes = Vec::new();
        let is_picked = !is_asked && total > PICKED_ARROWS;
        let gap = if is_picked { longest_gap(scene, departures(scene)) } else { None };
        let (first, limit) = if is_asked {
            let before = departures(scene).take_while(|it| it.pass.at_ns < scene.from_ns);
            (before.count(), ARROWS_MAX)
        } else {
            (gap.map_or(0, |gap| gap.index.saturating_sub(PICKED_ARROWS / 2)), PICKED_ARROWS)
        };
        let picked: Vec<Departure<'_>> = departures(scene)
            .skip(first)
            .take_while(|it| it.pass.at_ns <= scene.to_ns)
            .take(limit)
            .collect();
        if picked.len() < total {
            let (shown, all) = (picked.len(), count(total as u64));
            let why = if gap.is_some() { ", around the longest wait" } else { "" };
            notes.push(format!("{shown} of {all} {}s shown{why}", scene.unit()));
        }
        let before = first
            .checked_sub(1)
            .and_then(|last| departures(scene).nth(last))
            .map(|it| it.pass.at_ns);
        let after = departures(scene).nth(first + picked.len()).map(|it| it.pass.at_ns);
        let mut arrows = arrows(scene, &picked);
        if let Some(Gap { index: ended, .. }) = longest_gap(scene, picked.iter().copied()) {
            let has_data = |arrow: &Arrow| arrow.carries != Carries::Nothing;
            let held = arrows[..ended].iter().rposition(has_data).unwrap_or(ended);
            for index in [held, ended, ended + 1] {
                arrows.get_mut(index).into_iter().for_each(|arrow| arrow.is_bold = true);
            }
            notes.push(format!("bold: the {}s at the longest wait", scene.unit()));
        }
        let acts = acts(scene, before, after, limit * 2);
        let sees_arrivals =
            arrows.iter().any(|arrow| arrow.arrived_ns.or(arrow.dropped_ns).is_some());
        if !sees_arrivals && !arrows.is_empty() {
            notes.push("arrivals were not recorded".to_owned());
        }
        let mut bare = arrows.iter().filter(|arrow| arrow.carries == Carries::Nothing).peekable();
        let has_bare = bare.peek().is_some();
        let sees_bare_arrivals = bare.any(|arrow| arrow.arrived_ns.or(arrow.dropped_ns).is_some());
        if sees_arrivals && has_bare && !sees_bare_arrivals {
            notes.push("arrivals of segments without data were not recorded".to_owned());
        }
        Self { arrows, acts, sees_arrivals, sees_bare_arrivals, notes }
    }
}

/// Where segments of a flow are seen to leave, or failing that, to arrive.
fn leaving(flow: &FlowStore) -> &[Passage] {
    first_seen(
        flow,
        &[
            Point::InterfaceDequeue,
            Point::InterfaceEnqueue,
            Point::SendDequeue,
            Point::InputEnqueue,
            Point::InputDequeue,
            Point::ReceiveEnqueue,
        ],
    )
}

/// Where segments of a flow are seen to arrive; empty when only their departure is.
fn arriving(flow: &FlowStore) -> &[Passage] {
    first_seen(flow, &[Point::InputEnqueue, Point::InputDequeue, Point::ReceiveEnqueue])
}

/// Whether the departures of [`leaving`] have records of the sending end.
fn is_departure_seen(flow: &FlowStore) -> bool {
    let points = [Point::InterfaceDequeue, Point::InterfaceEnqueue, Point::SendDequeue];
    points.into_iter().any(|point| !flow.at(point).is_empty())
}

fn first_seen<'a>(flow: &'a FlowStore, points: &[Point]) -> &'a [Passage] {
    points.iter().map(|point| flow.at(*point)).find(|seen| !seen.is_empty()).unwrap_or(&[])
}

/// Segments of all flows in the order in which they left.
fn departures<'a>(scene: &Scene<'a>) -> impl Iterator<Item = Departure<'a>> {
    let mut flows = Vec::new();
    for (connection, store) in scene.stores().enumerate() {
        for direction in [Direction::FromClient, Direction::FromServer] {
            flows.push((connection, store, direction, leaving(store.flow(direction)).iter()));
        }
    }
    std::iter::from_fn(move || {
        let next_ns = |left: &Iter<'_, Passage>| left.as_slice().first().map(|pass| pass.at_ns);
        let waiting = flows.iter_mut().filter(|(.., left)| next_ns(left).is_some());
        let (connection, store, direction, left) =
            waiting.min_by_key(|(.., left)| next_ns(left))?;
        let (connection, store, direction) = (*connection, *store, *direction);
        left.next().map(|pass| Departure { connection, store, direction, pass })
    })
}

/// The longest gap between `departures` while bytes were pending; `None` when no gap is prominent.
fn longest_gap<'a>(
    scene: &Scene<'_>,
    departures: impl Iterator<Item = Departure<'a>>,
) -> Option<Gap> {
    let directions = [Direction::FromClient, Direction::FromServer];
    let of_store = |store| directions.map(|direction| Pending::new(store, direction));
    let mut pending: Vec<_> = scene.stores().flat_map(of_store).collect();
    let mut longest: Option<Gap> = None;
    let (mut first_ns, mut before_ns, mut count) = (None, None, 0);
    for Departure { pass, .. } in departures {
        if let Some(before_ns) = before_ns {
            let ns = pass.at_ns.saturating_sub(before_ns);
            if longest.is_none_or(|gap| ns > gap.ns) {
                let middle_ns = before_ns + ns / 2;
                if pending.iter_mut().any(|flow| flow.is_pending(middle_ns)) {
                    longest = Some(Gap { index: count, ns });
                }
            }
        }
        first_ns = first_ns.or(Some(pass.at_ns));
        before_ns = Some(pass.at_ns);
        count += 1;
    }
    let mean_ns = before_ns?.saturating_sub(first_ns?) as f64 / count as f64;
    longest.filter(|gap| gap.ns as f64 > LONG_GAP_RATIO * mean_ns)
}

/// Whether a flow has bytes written and not yet read, at times that rise. Of a capture: sent and not yet acknowledged.
struct Pending<'a> {
    written: std::iter::Peekable<Iter<'a, Passage>>,
    read: std::iter::Peekable<Iter<'a, Passage>>,
    /// The position that is reached with a passage of `read`.
    read_until: fn(&Passage) -> u64,
    written_end: u64,
    read_end: u64,
}

impl<'a> Pending<'a> {
    fn new(store: &'a ConnectionStore, direction: Direction) -> Self {
        let flow = store.flow(direction);
        let (written, read, read_until): (_, _, fn(&Passage) -> u64) =
            match packets_are_alone(store) {
                true => (leaving(flow), leaving(store.reverse(direction)), Passage::acknowledged),
                false => (flow.at(Point::SendEnqueue), flow.at(Point::ReceiveDequeue), end_of),
            };
        Self {
            written: written.iter().peekable(),
            read: read.iter().peekable(),
            read_until,
            written_end: 0,
            read_end: 0,
        }
    }

    fn is_pending(&mut self, at_ns: u64) -> bool {
        while let Some(pass) = self.written.next_if(|pass| pass.at_ns <= at_ns) {
            self.written_end = self.written_end.max(end_of(pass));
        }
        while let Some(pass) = self.read.next_if(|pass| pass.at_ns <= at_ns) {
            self.read_end = self.read_end.max((self.read_until)(pass));
        }
        self.written_end > self.read_end
    }
}

fn arrows(scene: &Scene<'_>, picked: &[Departure<'_>]) -> Vec<Arrow> {
    let mut flows: Vec<_> = Vec::new();
    for store in scene.stores() {
        for direction in [Direction::FromClient, Direction::FromServer] {
            let dropped = dropped_packets(store, direction, scene.options.drop_reasons);
            flows.push((dropped, BTreeSet::new()));
        }
    }
    let arrow = |departure: &Departure<'_>| {
        let Departure { connection, store, direction, pass } = *departure;
        let flow = store.flow(direction);
        let (dropped, used) = &mut flows[2 * connection + direction as usize];
        // Bytes of a Unix socket are in the queue of its peer when they leave.
        let is_seen = store.connection.protocol.is_unix() || is_departure_seen(flow);
        let came_ns = if is_seen { arrival(flow, pass, used) } else { Some(pass.at_ns) };
        let arrived_ns = came_ns.filter(|at_ns| !is_dropped(flow, dropped, pass, *at_ns));
        let label = label(store.connection.protocol, pass);
        Arrow {
            from: direction.sender(),
            departed_ns: is_seen.then_some(pass.at_ns),
            arrived_ns,
            dropped_ns: came_ns.filter(|_| !is_seen && arrived_ns.is_none()),
            carries: carries(pass),
            label: if connection > 0 { of_other(&store.connection, &label) } else { label },
            is_bold: false,
        }
    };
    picked.iter().map(arrow).collect()
}

/// The label of a segment of another connection: `udp with port 111: 0:56 (56 B)`.
fn of_other(connection: &Connection, label: &str) -> String {
    let protocol = connection.protocol;
    match protocol.is_unix() {
        true => format!("{} at {}: {label}", protocol.name(), connection.end(Side::Server)),
        false => format!("{} with port {}: {label}", protocol.name(), connection.server.port()),
    }
}

/// When `pass` arrived at the other end. An arrival may bring the bytes of several segments, but a
/// segment without data only itself. When the same bytes left again before any arrival that
/// is left over for this one, this one was dropped.
fn arrival(flow: &FlowStore, pass: &Passage, used: &mut BTreeSet<usize>) -> Option<u64> {
    let arrivals = arriving(flow);
    let start = arrivals.partition_point(|arrival| arrival.at_ns < pass.at_ns);
    let mut candidates = arrivals
        .iter()
        .enumerate()
        .skip(start)
        .take(SCAN_MAX)
        .filter(|(index, arrival)| !used.contains(index) && brings(arrival, pass));
    let (index, found) = candidates.next()?;
    if pass.len == 0 {
        used.insert(index);
        return Some(found.at_ns);
    }
    let left = leaving(flow);
    let later = left.partition_point(|other| other.at_ns <= pass.at_ns);
    let sent_again = left
        .iter()
        .skip(later)
        .take(SCAN_MAX)
        .take_while(|other| other.at_ns <= found.at_ns)
        .filter(|other| brings(found, other) && end_of(other) == end_of(pass))
        .count();
    if sent_again > candidates.count() {
        return None;
    }
    if sent_again > 0 {
        used.insert(index);
    }
    Some(found.at_ns)
}

/// Whether the kernel dropped the segment, which arrived at `arrived_ns`, before it arrived again.
fn is_dropped(
    flow: &FlowStore,
    dropped: &[DroppedPacket<'_>],
    pass: &Passage,
    arrived_ns: u64,
) -> bool {
    let arrivals = arriving(flow);
    let later = arrivals.partition_point(|arrival| arrival.at_ns <= arrived_ns);
    // The record of a drop does not distinguish acknowledgments: it is of the last one before it.
    let is_next = |other: &&Passage| match pass.len {
        0 => other.len == 0 && other.offset == pass.offset && other.tcp_flags == pass.tcp_flags,
        _ => brings(other, pass),
    };
    let mut next = arrivals[later..].iter().take(SCAN_MAX).filter(is_next);
    let until_ns = next.next().map_or(u64::MAX, |next| next.at_ns);
    let first = dropped.partition_point(|packet| packet.drop.at_ns < arrived_ns);
    let mut near = dropped[first..].iter().take_while(|packet| packet.drop.at_ns < until_ns);
    near.any(|DroppedPacket { drop, after }| {
        let is_it = match pass.len {
            0 => {
                let has_flags = [0, pass.tcp_flags].contains(&drop.tcp_flags);
                drop.len == 0 && drop.offset == pass.offset && has_flags
            }
            _ => drop.offset < end_of(pass) && end_of(pass) <= drop.end(),
        };
        is_it && after.is_some_and(|after| after >= Point::InputEnqueue)
    })
}

/// Whether `arrival` has the last byte of `pass`, or is the same segment without data.
fn brings(arrival: &Passage, pass: &Passage) -> bool {
    if pass.len == 0 {
        return arrival.len == 0
            && arrival.offset == pass.offset
            && arrival.acknowledged() == pass.acknowledged()
            && arrival.tcp_flags == pass.tcp_flags;
    }
    arrival.len > 0 && arrival.offset < end_of(pass) && end_of(arrival) >= end_of(pass)
}

fn carries(pass: &Passage) -> Carries {
    match pass.len {
        0 => Carries::Nothing,
        _ if pass.marks & marks::RETRANSMITTED != 0 => Carries::DataAgain,
        _ => Carries::Data,
    }
}

/// As tcpdump would: flags, `first:end (bytes)`, `ack position`.
fn label(protocol: Protocol, pass: &Passage) -> String {
    let mut words = Vec::new();
    let names = [(tcp_flags::SYN, "SYN"), (tcp_flags::FIN, "FIN"), (tcp_flags::RST, "RST")];
    for (flag, name) in names {
        if pass.tcp_flags & flag != 0 {
            words.push(name.to_owned());
        }
    }
    let number = |position: u64| grouped(&position.to_string());
    if pass.len > 0 {
        let (first, end) = (number(pass.offset), number(end_of(pass)));
        words.push(format!("{first}:{end} ({} B)", number(pass.len.into())));
    }
    if protocol == Protocol::Tcp && pass.tcp_flags & tcp_flags::ACK != 0 {
        words.push(format!("ack {}", number(pass.acknowledged())));
    }
    if pass.marks & marks::RETRANSMITTED != 0 {
        words.push("again".to_owned());
    }
    words.join(", ")
}

/// Writes and reads after the departure before the part shown and before the one that follows it.
fn acts(
    scene: &Scene<'_>,
    before_ns: Option<u64>,
    after_ns: Option<u64>,
    limit: usize,
) -> Vec<Act> {
    let from_ns = before_ns.map_or(scene.from_ns, |at_ns| at_ns.saturating_add(1));
    let to_ns = after_ns.unwrap_or(scene.to_ns).min(scene.to_ns);
    let mut acts = Vec::new();
    let directions = [Direction::FromClient, Direction::FromServer];
    let flows = scene.stores().flat_map(|store| directions.map(|it| (store.flow(it), it)));
    for (flow, direction) in flows {
        let written = within(flow.at(Point::SendEnqueue), from_ns, to_ns).map(|pass| Act {
            at_ns: pass.at_ns,
            side: direction.sender(),
            is_write: true,
            bytes: pass.len,
        });
        acts.extend(written.take(limit));
        acts.extend(reads(flow, direction.receiver(), from_ns, to_ns).take(limit));
    }
    acts.sort_by_key(|act| act.at_ns);
    acts.truncate(limit);
    acts
}

fn within(passes: &[Passage], from_ns: u64, to_ns: u64) -> impl Iterator<Item = &Passage> {
    let start = passes.partition_point(|pass| pass.at_ns < from_ns);
    passes[start..].iter().take_while(move |pass| pass.at_ns <= to_ns)
}

/// One read for each call, at its last copy, where returns of calls were recorded: a kernel may record
/// each buffer that it copies out. Else one for each copy.
fn reads(
    flow: &FlowStore,
    side: Side,
    from_ns: u64,
    to_ns: u64,
) -> impl Iterator<Item = Act> + use<'_> {
    let mut returns = flow
        .events
        .iter()
        .filter(|event| event.kind == Kind::ReadReturn && event.errno() == Some(0) && event.len > 0)
        .peekable();
    let mut copies = within(flow.at(Point::ReceiveDequeue), from_ns, to_ns).peekable();
    std::iter::from_fn(move || {
        let first = copies.next()?;
        let mut act = Act { at_ns: first.at_ns, side, is_write: false, bytes: first.len };
        while returns.next_if(|call| call.end() <= first.offset).is_some() {}
        if let Some(call) = returns.peek().filter(|call| call.offset <= first.offset) {
            while let Some(copy) = copies.next_if(|copy| copy.offset < call.end()) {
                (act.at_ns, act.bytes) = (copy.at_ns, act.bytes.saturating_add(copy.len));
            }
        }
        Some(act)
    })
}
