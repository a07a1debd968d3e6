//! Pairs of the same connection on two hosts, and the id of each in the merged bundle.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

use sockscope_record::{Connection, ConnectionId, Process, Protocol, Side};

use crate::by_mark::ByMark;
use crate::clock_band::HostClock;
use crate::merge_counts::{Counts, agree};
use crate::openings::Openings;

/// Place of an input's connection in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its new number.
    pub(crate) id: ConnectionId,
    /// This input had client and server the other way round.
    pub(crate) is_swapped: bool,
}

/// The connections of the result, and the places of those of each input.
#[derive(Debug)]
pub(crate) struct Plan {
    /// In order of opening, numbered from 1 on, with times of the common clock.
    pub(crate) connections: Vec<Connection>,
    /// For each input, by its own numbers.
    pub(crate) places: [HashMap<ConnectionId, Place>; 2],
    /// Number of connections made of one of each.
    pub(crate) matched: u64,
    /// Of these, those whose addresses differ: by the numbers in the marks of their SYNs.
    pub(crate) translated: u64,
    /// Numbers that two connections of one host have, so that they match none.
    pub(crate) ambiguous: u64,
    /// Number of pairs that stay separate, because the octets sent at one end differ from those that arrived
    /// at the other.
    pub(crate) unequal: u64,
    /// The clocks of the inputs.
    pub(crate) clocks: [Clock; 2],
}

/// How the times of an input become those of the result.
#[derive(Debug, Clone)]
pub(crate) enum Clock {
    /// Later by so many nanoseconds.
    Later(u64),
    /// By a band that segments bound.
    Bounded(HostClock),
}

impl Clock {
    /// A time of the input on the clock of the result.
    pub(crate) fn moved(&self, at_ns: u64) -> u64 {
        match self {
            Self::Later(ns) => at_ns.saturating_add(*ns),
            Self::Bounded(clock) => clock.moved(at_ns),
        }
    }
}

impl Plan {
    /// Matches the connections of two hosts, or of the two ends of loopback, with the engines'
    /// `counts`.
    pub(crate) fn new(
        [first, second]: [&[Connection]; 2],
        clocks: [Clock; 2],
        counts: Option<&[Counts; 2]>,
    ) -> Self {
        let first: Vec<_> = first.iter().map(|row| on_clock(row, &clocks[0])).collect();
        let second: Vec<_> = second.iter().map(|row| on_clock(row, &clocks[1])).collect();
        let may_match =
            |row: &Connection| !row.both_ends_here && (counts.is_some() || may_span_hosts(row));
        let marked = ByMark::new(&first, &second, may_match);
        let mut partners = partners(&first, &second, may_match, &marked);
        let pairs = partners.len();
        partners.retain(|&at, &mut partner| {
            counts.is_none_or(|counts| agree(counts, &first[partner], &second[at]))
        });
        let unequal = (pairs - partners.len()) as u64;
        let mut joined: Vec<Joined> = Vec::new();
        for (index, row) in second.iter().enumerate() {
            match partners.remove(&index) {
                Some(partner) => joined.push(Joined::both(&first[partner], row)),
                None => joined.push(Joined::of_second(row)),
            }
        }
        let translated =
            joined.iter().filter(|joined| joined.connection.translated().is_some()).count() as u64;
        let matched = joined.iter().filter(|connection| connection.first.is_some()).count() as u64;
        let taken: BTreeSet<_> = joined.iter().filter_map(|joined| Some(joined.first?.0)).collect();
        let alone = first.iter().filter(|row| !taken.contains(&row.id));
        joined.extend(alone.map(Joined::of_first));
        debug_assert!(joined.len() <= first.len() + second.len());
        joined.sort_unstable_by_key(|joined| {
            (joined.connection.opened_ns, joined.first, joined.second)
        });
        let ambiguous = marked.ambiguous.len() as u64;
        Self { unequal, translated, ambiguous, ..Self::numbered(joined, matched, clocks) }
    }

    fn numbered(joined: Vec<Joined>, matched: u64, clocks: [Clock; 2]) -> Self {
        let mut plan = Self {
            connections: Vec::new(),
            places: [HashMap::new(), HashMap::new()],
            matched,
            translated: 0,
            ambiguous: 0,
            unequal: 0,
            clocks,
        };
        for (number, joined) in (1..).zip(joined) {
            let id = ConnectionId(number);
            for (places, source) in plan.places.iter_mut().zip([joined.first, joined.second]) {
                places.extend(source.map(|(old, is_swapped)| (old, Place { id, is_swapped })));
            }
            plan.connections.push(Connection { id, ..joined.connection });
        }
        debug_assert!(plan.connections.is_sorted_by_key(|connection| connection.opened_ns));
        debug_assert!(plan.matched <= plan.connections.len() as u64);
        plan
    }
}

/// A connection of the result: its number in each input that has it, and whether that input had
/// it the other way round.
#[derive(Debug)]
struct Joined {
    connection: Connection,
    first: Option<(ConnectionId, bool)>,
    second: Option<(ConnectionId, bool)>,
}

impl Joined {
    fn of_first(row: &Connection) -> Self {
        Self { connection: row.clone(), first: Some((row.id, false)), second: None }
    }

    fn of_second(row: &Connection) -> Self {
        Self { connection: row.clone(), first: None, second: Some((row.id, false)) }
    }

    /// A host that saw the handshake knows the client; else the first host's view is kept.
    fn both(first: &Connection, second: &Connection) -> Self {
        let is_translated = key(first) != key(second);
        // Where addresses differ, both saw the SYN, and know the client.
        let is_swapped = first.client != second.client && !is_translated;
        let second_knows = first.preexisting && !second.preexisting;
        let (base, other) = if second_knows { (second, first) } else { (first, second) };
        let of_other = other.processes.iter().map(|process| Process {
            side: if is_swapped { process.side.other() } else { process.side },
            ..process.clone()
        });
        let connection = Connection {
            opened_ns: first.opened_ns.min(second.opened_ns),
            closed_ns: first.closed_ns.zip(second.closed_ns).map(|(a, b)| a.max(b)),
            preexisting: first.preexisting || second.preexisting,
            both_ends_here: true,
            processes: base.processes.iter().cloned().chain(of_other).collect(),
            mark: base.mark.or(other.mark),
            elsewhere: Some(if is_swapped {
                [other.server, other.client]
            } else {
                [other.client, other.server]
            }),
            ..base.clone()
        };
        debug_assert!(!is_translated || first.mark == second.mark, "they have something in common");
        Self {
            connection,
            first: Some((first.id, is_swapped && second_knows)),
            second: Some((second.id, is_swapped && !second_knows)),
        }
    }
}

/// The part on which both hosts agree: the addresses, without the sides.
type Key = (Protocol, SocketAddr, SocketAddr);

/// For connections of `second`, by index, the index of the same one in `first`.
fn partners(
    first: &[Connection],
    second: &[Connection],
    may_match: impl Fn(&Connection) -> bool,
    marked: &ByMark,
) -> BTreeMap<usize, usize> {
    let mut partners = marked.partners.clone();
    let taken: BTreeSet<usize> = partners.values().copied().collect();
    // A port is used again after a while: of the free rows with these addresses the nearest opening is the
    // same connection. Rows with numbers that differ are not.
    let mut free: BTreeMap<(Key, bool), [Openings; ENDS_WITH_PROCESSES]> = BTreeMap::new();
    for (index, row) in first.iter().enumerate() {
        if may_match(row) && !taken.contains(&index) {
            let free = free.entry((key(row), marked.number(row).is_some())).or_default();
            free[ends_with_processes(row)].insert(row.opened_ns, index);
        }
    }
    for (index, row) in second.iter().enumerate().filter(|(_, row)| may_match(row)) {
        if partners.contains_key(&index) {
            continue;
        }
        let own = ends_with_processes(row);
        let may_have_number = marked.number(row).is_none();
        let mut nearest = None;
        for has_number in [false, true].into_iter().filter(|it| !it || may_have_number) {
            let Some(free) = free.get(&(key(row), has_number)) else { continue };
            let may_be_theirs = (0..ENDS_WITH_PROCESSES).filter(|theirs| theirs & own == 0);
            let found = may_be_theirs.filter_map(|theirs| {
                Some((free[theirs].nearest(row.opened_ns)?, theirs, has_number))
            });
            nearest = nearest.into_iter().chain(found).min();
        }
        let Some(((_, partner), theirs, has_number)) = nearest else { continue };
        if let Some(free) = free.get_mut(&(key(row), has_number)) {
            free[theirs].remove(first[partner].opened_ns, partner);
        }
        partners.insert(index, partner);
    }
    partners
}

/// Number of values of [`ends_with_processes`].
const ENDS_WITH_PROCESSES: usize = 4;

/// The ends of a connection at which the row has processes: bit 0 is the end with the lower address. Rows of
/// one connection have no end in common: two clients between the same addresses are two connections.
fn ends_with_processes(row: &Connection) -> usize {
    let low = if row.client <= row.server { Side::Client } else { Side::Server };
    let bits = row.processes.iter().map(|process| if process.side == low { 1 } else { 2 });
    bits.fold(0, |ends, bit| ends | bit)
}

/// Whether the other end can be on another host.
fn may_span_hosts(row: &Connection) -> bool {
    !row.protocol.is_unix() && !row.client.ip().is_loopback() && !row.server.ip().is_loopback()
}

fn key(row: &Connection) -> Key {
    (row.protocol, row.client.min(row.server), row.client.max(row.server))
}

fn on_clock(row: &Connection, clock: &Clock) -> Connection {
    Connection {
        opened_ns: clock.moved(row.opened_ns),
        closed_ns: row.closed_ns.map(|closed_ns| clock.moved(closed_ns)),
        ..row.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `id client>server opened flags`, flags being `p`reexisting and `h`ere with both ends.
    fn connections(text: &str) -> Vec<Connection> {
        text.split(" | ").filter(|row| !row.is_empty()).map(connection).collect()
    }

    fn connection(text: &str) -> Connection {
        let mut words = text.split(' ');
        let mut next = || words.next().unwrap_or_default();
        let id = ConnectionId(next().parse().unwrap());
        let (client, server) = next().split_once('>').unwrap();
        let address = |name: &str| format!("10.0.0.{name}:80").parse().unwrap();
        let opened_ns = next().parse().unwrap();
        let flags = next();
        Connection {
            id,
            protocol: Protocol::Tcp,
            client: address(client),
            server: address(server),
            opened_ns,
            closed_ns: None,
            preexisting: flags.contains('p'),
            both_ends_here: flags.contains('h'),
            processes: Vec::new(),
            names: None,
            mark: None,
            elsewhere: None,
        }
    }

    /// Each connection of the result as `client>server opened`, with `first-id/second-id` and a
    /// `~` where that input had it the other way round.
    fn plan(first: &str, second: &str, shift_ns: [u64; 2]) -> String {
        let clocks = shift_ns.map(Clock::Later);
        let plan = Plan::new([&connections(first), &connections(second)], clocks, None);
        let of = |input: usize, id: ConnectionId| {
            let found = plan.places[input].iter().find(|(_, place)| place.id == id);
            found.map_or("-".into(), |(old, place)| {
                format!("{}{}", old.0, if place.is_swapped { "~" } else { "" })
            })
        };
        let rows = plan.connections.iter().map(|row| {
            let last = |address: SocketAddr| address.ip().to_string().replace("10.0.0.", "");
            let (client, server) = (last(row.client), last(row.server));
            format!("{client}>{server} {} {}/{}", row.opened_ns, of(0, row.id), of(1, row.id))
        });
        rows.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn the_same_addresses_are_one_connection_and_others_stay_apart() {
        let merged = plan("1 1>2 50 | 2 3>2 60", "7 1>2 55 | 8 4>1 40", [0, 0]);
        assert_eq!(merged, "4>1 40 -/8 | 1>2 50 1/7 | 3>2 60 2/-");
    }

    #[test]
    fn times_are_compared_on_the_common_clock() {
        let merged = plan("1 1>2 1000 | 2 1>2 2000", "7 1>2 0 | 8 1>2 990", [0, 1000]);
        assert_eq!(merged, "1>2 1000 1/7 | 1>2 1990 2/8");
    }

    #[test]
    fn who_saw_the_handshake_says_who_the_client_is() {
        assert_eq!(plan("1 1>2 5", "7 2>1 5 p", [0, 0]), "1>2 5 1/7~");
        assert_eq!(plan("1 1>2 5 p", "7 2>1 5", [0, 0]), "2>1 5 1~/7");
    }

    #[test]
    fn what_stays_within_a_host_has_no_counterpart() {
        assert_eq!(plan("1 1>2 5 h", "7 1>2 6", [0, 0]), "1>2 5 1/- | 1>2 6 -/7");
    }

    #[test]
    fn processes_of_both_hosts_are_joined_on_their_sides() {
        let process = |pid, side| Process::new(pid, "x", side);
        let first =
            Connection { processes: vec![process(1, Side::Client)], ..connection("1 1>2 5") };
        let second =
            Connection { processes: vec![process(2, Side::Client)], ..connection("7 2>1 5 p") };
        let plan = Plan::new([&[first], &[second]], [0, 0].map(Clock::Later), None);
        let joined = [process(1, Side::Client), process(2, Side::Server)];
        assert_eq!(plan.connections[0].processes, joined);
    }

    #[test]
    fn two_clients_between_the_same_addresses_are_two_connections() {
        let of = |row: &str, side| {
            let process = Process::new(1, "x", side);
            Connection { processes: vec![process], ..connection(row) }
        };
        let matched = |first, second| {
            Plan::new([&[first], &[second]], [0, 0].map(Clock::Later), None).matched
        };
        assert_eq!(matched(of("1 1>1 5", Side::Client), of("7 1>1 5", Side::Client)), 0);
        assert_eq!(matched(of("1 1>1 5", Side::Client), of("7 1>1 5", Side::Server)), 1);
        // Each takes itself for the client.
        assert_eq!(matched(of("1 1>2 5", Side::Client), of("7 2>1 5", Side::Client)), 1);
        assert_eq!(matched(of("1 1>2 5", Side::Client), of("7 2>1 5", Side::Server)), 0);
    }

    /// A connection with this number in its SYN, as one host has it, with a process at the side `c` or `s`.
    fn marked(text: &str, mark: u64, side: &str) -> Connection {
        let side = if side == "c" { Side::Client } else { Side::Server };
        let processes = vec![Process::new(1, "x", side)];
        Connection { mark: Some(mark), processes, ..connection(text) }
    }

    fn merged(first: &[Connection], second: &[Connection]) -> Plan {
        Plan::new([first, second], [0, 0].map(Clock::Later), None)
    }

    #[test]
    fn a_connection_through_a_translator_is_matched_by_the_number_in_its_syn() {
        let first = [marked("1 1>2 5", 70, "c"), marked("2 1>2 9", 71, "c")];
        let second = [marked("7 3>4 6", 71, "s"), marked("8 5>4 6", 70, "s")];
        let plan = merged(&first, &second);
        assert_eq!((plan.matched, plan.translated, plan.ambiguous), (2, 2, 0));
        let elsewhere: Vec<_> = plan.connections.iter().map(|row| row.elsewhere).collect();
        let of = |row: &Connection| Some([row.client, row.server]);
        assert_eq!(elsewhere, [of(&second[1]), of(&second[0])]);
        assert_eq!(plan.connections[0].client, first[0].client);
        assert_eq!(plan.places[1][&ConnectionId(8)], plan.places[0][&ConnectionId(1)]);
        let sides = plan.connections[0].processes.iter().map(|process| process.side);
        assert_eq!(sides.collect::<Vec<_>>(), [Side::Client, Side::Server]);
    }

    #[test]
    fn a_number_that_a_host_has_twice_matches_none() {
        let first = [marked("1 1>2 5", 70, "c"), marked("2 1>3 6", 70, "c")];
        let plan = merged(&first, &[marked("7 4>5 6", 70, "s")]);
        assert_eq!((plan.matched, plan.ambiguous, plan.connections.len()), (0, 1, 3));
        // The same addresses match as without a number.
        let plan = merged(&first, &[marked("7 1>3 6", 70, "s")]);
        assert_eq!((plan.matched, plan.translated, plan.ambiguous), (1, 0, 1));
        // Two clients cannot be one connection.
        let plan = merged(&first[..1], &[marked("7 4>5 6", 70, "c")]);
        assert_eq!(plan.matched, 0);
    }

    #[test]
    fn rows_with_other_numbers_are_other_connections() {
        let number = |mark| marked("7 1>2 5", mark, "s");
        let first = [marked("1 1>2 5", 70, "c")];
        assert_eq!(merged(&first, &[number(71)]).matched, 0);
        // The second host does not know the number of its row.
        assert_eq!(merged(&first, &[Connection { mark: None, ..number(71) }]).matched, 1);
        // By the number, though another row opened nearer.
        let late = marked("8 1>2 900", 70, "s");
        let plan = merged(&first, &[number(71), late]);
        assert_eq!((plan.matched, plan.translated), (1, 0));
        assert_eq!(plan.places[1][&ConnectionId(8)], plan.places[0][&ConnectionId(1)]);
    }

    /// With a look at each pair of rows this takes minutes.
    #[test]
    fn fifty_thousand_connections_between_two_addresses_are_matched() {
        const CONNECTIONS: u32 = 50_000;
        let of_all = |first_id: u32, late_ns: u64| {
            let one = connection("1 1>2 0");
            let rows = (0..CONNECTIONS).map(|number| Connection {
                id: ConnectionId(first_id + number),
                opened_ns: u64::from(number) * 100 + late_ns,
                ..one.clone()
            });
            rows.collect::<Vec<_>>()
        };
        let plan = Plan::new([&of_all(1, 0), &of_all(1, 7)], [0, 0].map(Clock::Later), None);
        assert_eq!(plan.matched, u64::from(CONNECTIONS));
        assert_eq!(plan.places[0], plan.places[1]);
    }
}
