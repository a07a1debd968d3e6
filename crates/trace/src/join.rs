//! Recordings of the same sockets by a kernel's probes and by a protocol's own engine, as one
//! bundle.
//!
//! A protocol above UDP has queues that no kernel sees. Its engine records points 1, 2, 7 and 8; the
//! kernel's probes record the datagrams. Here the engine's points take the place of those that the
//! kernel derived from the system calls, and 3 to 6 stay. Both count octets of datagrams from 0 on,
//! each by its own records: so datagrams are paired by time. The engine's point 2 lies before the
//! send call in which the kernel saw the datagram, and the point 2 after it behind; its point 7 lies
//! behind the receive call, and the point 7 before it before. Both read `CLOCK_MONOTONIC`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use sockscope_record::{
    Connection, ConnectionId, Direction, FlowId, Kind, Protocol, Record, marks,
};

use crate::bundle::Bundle;
use crate::check::Checked;
use crate::error::Error;
use crate::merge_meta::add_problems;
use crate::merged::Merged;
use crate::meta::{Hook, HookState, Meta};
use crate::openings::Openings;
use crate::writer::BundleWriter;

/// Records handed to the writer at a time.
const OUTPUT_RECORDS: usize = 4096;

/// End of a datagram's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum End {
    Send,
    Receive,
}

/// One datagram as one of the two saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Datagram {
    at_ns: u64,
    offset: u64,
    len: u32,
}

type Datagrams = BTreeMap<(FlowId, End), Vec<Datagram>>;

/// Writes the kernel's bundle with the points of an `engine` on the same host to the bundle that `create`
/// makes.
///
/// # Errors
///
/// [`Error::OtherHost`] when the two are not of one host, and as [`BundleWriter`] and [`crate::RecordReader`].
///
/// `checked` has the results of both checks, the engine's first if `engine_is_first`.
pub(crate) fn join<E: From<Error>>(
    [kernel, engine]: [&Bundle; 2],
    checked: [Checked; 2],
    engine_is_first: bool,
    create: impl FnOnce(Meta) -> Result<BundleWriter, E>,
) -> Result<Merged, E> {
    let [host, other] = [kernel, engine].map(|bundle| bundle.meta().host.clone());
    if host != other {
        return Err(Error::OtherHost { path: engine.dir().to_owned(), host, other }.into());
    }
    let flows = flows(kernel.connections(), engine.connections());
    let engine_records = engine_records(engine, &flows)?;
    let wanted: HashSet<FlowId> = flows.values().copied().collect();
    let theirs = kernel_datagrams(kernel, &wanted)?;
    let pairs = Pairs::new(&engine_datagrams(&engine_records), &theirs);
    debug_assert!(flows.len().is_multiple_of(2), "a connection has two flows");
    let mut meta = meta(kernel, engine, flows.len() as u64 / 2, &pairs);
    let [of_kernel, of_engine] = match (engine_is_first, &checked) {
        (true, [engine, kernel]) | (false, [kernel, engine]) => [kernel, engine],
    };
    add_problems(&mut meta, "kernel", of_kernel);
    add_problems(&mut meta, "engine", of_engine);
    meta.loss = of_kernel.missed;
    meta.loss.events = meta.loss.events.saturating_add(of_engine.missed.total());
    let mut writer = create(meta.clone())?;
    for connection in kernel.connections() {
        writer.connection(connection)?;
    }
    let added: Vec<Record> =
        engine_records.iter().filter_map(|record| pairs.placed(record)).collect();
    interleave(kernel, &pairs, &added, &mut writer)?;
    let records = writer.records();
    writer.finish(meta)?;
    Ok(Merged {
        matched: flows.len() as u64 / 2,
        translated: 0,
        connections: kernel.connections().len() as u64,
        records,
        shift_ns: [0, 0],
        clock_moved_ns: 0,
        band: None,
        problems: checked.map(|checked| checked.problems),
    })
}

/// The kernel's flow for each of the engine's.
fn flows(kernel: &[Connection], engine: &[Connection]) -> HashMap<FlowId, FlowId> {
    let kernel = KernelRows::new(kernel, engine);
    let mut flows = HashMap::new();
    for own in engine {
        let Some((seen, is_swapped)) = kernel.nearest(own) else { continue };
        for direction in [Direction::FromClient, Direction::FromServer] {
            let flow = seen.flow(direction);
            let flow = if is_swapped { flow.reverse() } else { flow };
            flows.insert(own.id.flow(direction), flow);
        }
    }
    flows
}

/// An end of a connection. A socket at all addresses has the port only.
type Place = (Option<IpAddr>, u16);

fn place(address: SocketAddr) -> Place {
    let ip = address.ip();
    ((!ip.is_unspecified()).then_some(ip), address.port())
}

/// The kernel's UDP connections, by the ends that an engine may have of them.
struct KernelRows<'k> {
    kernel: &'k [Connection],
    by_ends: HashMap<(Place, Place), Openings>,
}

impl<'k> KernelRows<'k> {
    /// For the ends that the rows of `engine` have.
    fn new(kernel: &'k [Connection], engine: &[Connection]) -> Self {
        // Whether they know the addresses: mostly all of them know the same.
        let known = |row: &Connection| [row.client, row.server].map(|end| place(end).0.is_some());
        let known: HashSet<[bool; 2]> = engine.iter().map(known).collect();
        let mut by_ends: HashMap<_, Openings> = HashMap::new();
        let rows = kernel.iter().enumerate().filter(|(_, row)| row.protocol == Protocol::Udp);
        for (index, row) in rows {
            for ends in [[row.client, row.server], [row.server, row.client]] {
                for &[client_is_known, server_is_known] in &known {
                    let client = (client_is_known.then_some(ends[0].ip()), ends[0].port());
                    let server = (server_is_known.then_some(ends[1].ip()), ends[1].port());
                    by_ends.entry((client, server)).or_default().insert(row.opened_ns, index);
                }
            }
        }
        Self { kernel, by_ends }
    }

    /// The row with the ends of `own` that opened nearest to it, as ports are used again, and whether it
    /// has them swapped.
    fn nearest(&self, own: &Connection) -> Option<(ConnectionId, bool)> {
        let found = self.by_ends.get(&(place(own.client), place(own.server)))?;
        let (_, index) = found.nearest(own.opened_ns)?;
        let seen = &self.kernel[index];
        let is = |own: SocketAddr, seen: SocketAddr| {
            let (ip, port) = place(own);
            port == seen.port() && ip.is_none_or(|ip| ip == seen.ip())
        };
        Some((seen.id, !(is(own.client, seen.client) && is(own.server, seen.server))))
    }
}

/// The engine's records of flows that the kernel has, under the kernel's numbers, in order of time.
fn engine_records(engine: &Bundle, flows: &HashMap<FlowId, FlowId>) -> Result<Vec<Record>, Error> {
    let mut reader = engine.records()?;
    let mut records = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        records.extend(
            batch.iter().filter_map(|record| {
                flows.get(&record.flow).map(|&flow| Record { flow, ..*record })
            }),
        );
    }
    records.sort_by_key(|record| record.at_ns);
    Ok(records)
}

fn engine_datagrams(records: &[Record]) -> Datagrams {
    let mut datagrams = Datagrams::new();
    for record in records {
        let end = match record.kind {
            Kind::SendDequeue => End::Send,
            Kind::ReceiveEnqueue => End::Receive,
            _ => continue,
        };
        datagrams.entry((record.flow, end)).or_default().push(Datagram::of(record));
    }
    datagrams
}

/// Datagrams of the wanted flows as the kernel saw them sent and received.
fn kernel_datagrams(kernel: &Bundle, wanted: &HashSet<FlowId>) -> Result<Datagrams, Error> {
    let mut reader = kernel.records()?;
    let mut datagrams = Datagrams::new();
    while let Some(batch) = reader.next_batch()? {
        for record in batch.iter().filter(|record| wanted.contains(&record.flow)) {
            let end = match record.kind {
                Kind::SendEnqueue => End::Send,
                Kind::ReceiveDequeue if !is_gone(record) => End::Receive,
                _ => continue,
            };
            datagrams.entry((record.flow, end)).or_default().push(Datagram::of(record));
        }
    }
    datagrams.values_mut().for_each(|list| list.sort_by_key(|datagram| datagram.at_ns));
    Ok(datagrams)
}

impl Datagram {
    fn of(record: &Record) -> Self {
        Self { at_ns: record.at_ns, offset: record.offset, len: record.len }
    }
}

/// Datagrams of the engine with their counterparts of the kernel.
#[derive(Debug, Default)]
struct Pairs {
    /// The kernel's position of each of the engine's.
    places: HashMap<(FlowId, End, u64), u64>,
    /// The kernel's datagrams that are replaced.
    replaced: HashSet<(FlowId, End, u64)>,
    /// Datagrams of the engine that the kernel's bundle lacks.
    alone: u64,
}

impl Pairs {
    fn new(engine: &Datagrams, kernel: &Datagrams) -> Self {
        let mut pairs = Self::default();
        for (&(flow, end), own) in engine {
            let seen = kernel.get(&(flow, end)).map_or(&[][..], Vec::as_slice);
            for (own, seen) in paired(own, seen, end) {
                match seen {
                    Some(seen) => {
                        pairs.places.insert((flow, end, own.offset), seen.offset);
                        pairs.replaced.insert((flow, end, seen.offset));
                    }
                    None => pairs.alone += 1,
                }
            }
        }
        pairs
    }

    /// An engine's record at the kernel's position; `None` for a datagram that the kernel's bundle lacks.
    fn placed(&self, record: &Record) -> Option<Record> {
        let Some(end) = end_of(record) else { return Some(*record) };
        let offset = *self.places.get(&(record.flow, end, record.offset))?;
        Some(Record { offset, ..*record })
    }

    fn replaces(&self, record: &Record) -> bool {
        let end = end_of(record);
        end.is_some_and(|end| self.replaced.contains(&(record.flow, end, record.offset)))
    }
}

/// Whether the record shows that a datagram has left the receive queue by then, without its time and
/// its cause.
fn is_gone(record: &Record) -> bool {
    record.kind == Kind::ReceiveDequeue && record.is_marked(marks::DERIVED)
}

/// The end at which an engine records the event of this record.
fn end_of(record: &Record) -> Option<End> {
    match record.kind {
        _ if is_gone(record) => None,
        Kind::SendEnqueue | Kind::SendDequeue => Some(End::Send),
        Kind::ReceiveEnqueue | Kind::ReceiveDequeue => Some(End::Receive),
        _ => None,
    }
}

/// Each datagram of the engine with the kernel's, both in order of time.
fn paired(own: &[Datagram], seen: &[Datagram], end: End) -> Vec<(Datagram, Option<Datagram>)> {
    let mut rest = seen.iter().copied().peekable();
    let mut pairs = Vec::with_capacity(own.len());
    for (at, &datagram) in own.iter().enumerate() {
        let (from_ns, to_ns) = match end {
            // Until the next one is made.
            End::Send => (datagram.at_ns, own.get(at + 1).map_or(u64::MAX, |next| next.at_ns)),
            End::Receive => {
                (at.checked_sub(1).map_or(0, |before| own[before].at_ns), datagram.at_ns)
            }
        };
        while rest.next_if(|seen| seen.at_ns < from_ns).is_some() {}
        let partner = rest.next_if(|seen| seen.at_ns <= to_ns && seen.len == datagram.len);
        pairs.push((datagram, partner));
    }
    pairs
}

/// Writes the kernel's records but those replaced, and the engine's, in order of time.
fn interleave(
    kernel: &Bundle,
    pairs: &Pairs,
    added: &[Record],
    writer: &mut BundleWriter,
) -> Result<(), Error> {
    let mut reader = kernel.records()?;
    let mut added = added.iter().copied().peekable();
    let mut output = Vec::with_capacity(OUTPUT_RECORDS);
    while let Some(batch) = reader.next_batch()? {
        for record in batch.iter() {
            while let Some(earlier) = added.next_if(|added| added.at_ns <= record.at_ns) {
                output.push(earlier);
            }
            if !pairs.replaces(record) {
                output.push(*record);
            }
            if output.len() >= OUTPUT_RECORDS {
                writer.append(&output)?;
                output.clear();
            }
        }
    }
    output.extend(added);
    writer.append(&output)
}

fn meta(kernel: &Bundle, engine: &Bundle, connections: u64, pairs: &Pairs) -> Meta {
    let own = engine.meta();
    let mut meta = kernel.meta().clone();
    let hooks = own.hooks.iter().map(|hook| Hook { state: HookState::Used, ..hook.clone() });
    meta.hooks.extend(hooks);
    meta.notes.extend(own.notes.iter().cloned());
    meta.notes.push(format!(
        "points 1, 2, 7 and 8 come from the {} in `{}`, connections: {connections}; bytes pass 7 when \
         the program has received them, 8 when their message is whole",
        own.pick,
        own.command.join(" "),
    ));
    if pairs.alone > 0 {
        meta.notes.push(format!(
            "datagrams of that engine that are not in the kernel's records, and left out: {}",
            pairs.alone
        ));
    }
    meta
}

/// The kernel's and the engine's bundle of two, if exactly one is an engine's.
pub(crate) fn kernel_and_engine<'b>(
    first: &'b Bundle,
    second: &'b Bundle,
) -> Option<(&'b Bundle, &'b Bundle)> {
    match (first.meta().source.is_engine(), second.meta().source.is_engine()) {
        (false, true) => Some((first, second)),
        (true, false) => Some((second, first)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times and lengths, as `10 x100 | 20 x50`.
    fn list(text: &str) -> Vec<Datagram> {
        let mut offset = 0;
        let datagram = |word: &str| {
            let (at, len) = word.trim().split_once(" x").expect("time and length");
            let (at_ns, len) = (at.parse().unwrap(), len.parse().unwrap());
            offset += u64::from(len);
            Datagram { at_ns, offset: offset - u64::from(len), len }
        };
        text.split('|').filter(|word| !word.trim().is_empty()).map(datagram).collect()
    }

    fn check(own: &str, seen: &str, end: End, expected: &str) {
        let pairs = paired(&list(own), &list(seen), end);
        let times: Vec<_> = pairs
            .iter()
            .map(|(_, seen)| seen.map_or("-".to_owned(), |seen| seen.at_ns.to_string()))
            .collect();
        assert_eq!(times.join(" "), expected, "{own} with {seen}");
    }

    #[test]
    fn a_datagram_is_sent_between_its_point_2_and_the_next_one() {
        check("10 x9 | 20 x9 | 30 x9", "12 x9 | 22 x9 | 35 x9", End::Send, "12 22 35");
        // The second one left no record, or the system took it not.
        check("10 x9 | 20 x9 | 30 x9", "12 x9 | 35 x9", End::Send, "12 - 35");
        // One before the engine began.
        check("10 x9", "5 x9 | 12 x9", End::Send, "12");
        check("10 x9 | 20 x8", "12 x7 | 22 x8", End::Send, "- 22");
    }

    #[test]
    fn a_datagram_is_received_before_its_point_7_and_after_the_one_before() {
        check("10 x9 | 20 x9 | 30 x9", "8 x9 | 18 x9 | 25 x9", End::Receive, "8 18 25");
        check("10 x9 | 20 x9 | 30 x9", "8 x9 | 25 x9", End::Receive, "8 - 25");
        check("10 x9 | 20 x9", "8 x9 | 9 x9 | 18 x9", End::Receive, "8 18");
        check("10 x9", "", End::Receive, "-");
    }

    /// A datagram connection between these ports of one host, that opened at this time.
    fn row(id: u32, client: &str, server: &str, opened_ns: u64) -> Connection {
        let ends = [client, server].map(|end| end.parse().unwrap());
        let opened = Connection::new(ConnectionId(id), Protocol::Udp, ends, opened_ns);
        Connection { both_ends_here: true, ..opened }
    }

    #[test]
    fn an_engine_s_connection_is_the_kernel_s_between_its_ends_that_opened_nearest() {
        let kernel = [
            row(1, "10.0.0.1:7", "10.0.0.2:9", 100),
            row(2, "10.0.0.1:7", "10.0.0.2:9", 200),
            row(3, "10.0.0.2:9", "10.0.0.3:7", 300),
            Connection { protocol: Protocol::Tcp, ..row(4, "10.0.0.1:7", "10.0.0.2:9", 160) },
        ];
        let matched = |client, server, opened_ns| {
            let own = row(50, client, server, opened_ns);
            let flow = own.id.flow(Direction::FromClient);
            flows(&kernel, &[own]).get(&flow).map(|flow| flow.0)
        };
        let [from_client, from_server] = [0, 1];
        assert_eq!(matched("10.0.0.1:7", "10.0.0.2:9", 140), Some(2 + from_client));
        assert_eq!(matched("10.0.0.1:7", "10.0.0.2:9", 160), Some(2 * 2 + from_client));
        assert_eq!(matched("10.0.0.2:9", "10.0.0.1:7", 120), Some(2 + from_server));
        // A socket at all addresses has the port only, and may be of either connection.
        assert_eq!(matched("0.0.0.0:7", "10.0.0.2:9", 240), Some(2 * 2 + from_client));
        assert_eq!(matched("0.0.0.0:7", "10.0.0.2:9", 260), Some(2 * 3 + from_server));
        assert_eq!(matched("0.0.0.0:7", "0.0.0.0:9", 90), Some(2 + from_client));
        assert_eq!(matched("10.0.0.4:7", "10.0.0.2:9", 100), None);
        assert_eq!(matched("10.0.0.1:7", "10.0.0.2:8", 100), None);
    }

    /// With a look at each pair of rows this takes minutes.
    #[test]
    fn fifty_thousand_connections_between_two_ports_are_matched() {
        const CONNECTIONS: u32 = 50_000;
        let all = |ip: &str| -> Vec<_> {
            let addresses = [format!("{ip}:7"), format!("{ip}:9")];
            let one = |id: u32| row(id, &addresses[0], &addresses[1], u64::from(id) * 100);
            (1..=CONNECTIONS).map(one).collect()
        };
        for engine in ["10.0.0.1", "0.0.0.0"] {
            let flows = flows(&all("10.0.0.1"), &all(engine));
            assert_eq!(flows.len(), 2 * CONNECTIONS as usize);
            assert!(flows.iter().all(|(own, seen)| own == seen));
        }
    }
}
