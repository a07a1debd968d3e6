//! The two halves of a connection, which its two hosts recorded.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockscope_record::{Connection, ConnectionId, Process, Protocol};

use crate::plan::Run;
use crate::recorded::{Half, Recorded};

/// Halves whose openings are farther apart are two connections: a port was used again.
const APART_NS_MAX: u64 = 60_000_000_000;

/// A connection of a recording, by the recording's place and its own number.
pub(crate) type Place = (usize, ConnectionId);

/// Finds the halves of the same connection; the first of each pair is the one of the earlier recording.
///
/// Ends that are not certain are not paired: datagrams, whose positions each host counts by itself, and connections
/// that were open before a recording, whose positions have no common begin.
pub(crate) fn pairs(all: &[Recorded], runs: &[Run]) -> Vec<[Place; 2]> {
    let mut by_ends: BTreeMap<[SocketAddr; 2], Vec<(i64, Place)>> = BTreeMap::new();
    for (run, recorded) in all.iter().enumerate() {
        for (id, half) in recorded.halves.iter().filter(|(_, half)| may_be_paired(half)) {
            let opened_ns =
                (half.connection.opened_ns.cast_signed()).saturating_add(runs[run].offset_ns);
            let ends = by_ends.entry(ends(&half.connection)).or_default();
            ends.push((opened_ns, (run, *id)));
        }
    }
    let half = |place: &Place| &all[place.0].halves[&place.1];
    let mut pairs = Vec::new();
    for mut same in by_ends.into_values() {
        same.sort_unstable();
        let mut is_taken = vec![false; same.len()];
        for (at, (opened_ns, place)) in same.iter().enumerate() {
            if is_taken[at] {
                continue;
            }
            let fits = |other: &Place| {
                runs[other.0].host != runs[place.0].host
                    && half(other).here != half(place).here
                    && half(other).connection.client == half(place).connection.client
            };
            let later = same.iter().enumerate().skip(at + 1);
            // The list is in order of opening: the first that fits is the nearest.
            let partner = later
                .take_while(|(_, (other_ns, _))| other_ns.abs_diff(*opened_ns) <= APART_NS_MAX)
                .find(|(index, (_, other))| !is_taken[*index] && fits(other));
            if let Some((index, (_, other))) = partner {
                is_taken[index] = true;
                let mut pair = [*place, *other];
                pair.sort_unstable();
                pairs.push(pair);
            }
        }
    }
    pairs.sort_unstable();
    pairs
}

fn may_be_paired(half: &Half) -> bool {
    let Connection { protocol, preexisting, both_ends_here, .. } = half.connection;
    protocol == Protocol::Tcp && !preexisting && !both_ends_here && half.here.is_some()
}

fn ends(connection: &Connection) -> [SocketAddr; 2] {
    let mut ends = [connection.client, connection.server]
        .map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
    ends.sort_unstable();
    ends
}

/// One connection of two halves, whose times are on one clock.
pub(crate) fn joined(first: &Connection, second: &Connection) -> Connection {
    let mut processes: Vec<Process> = Vec::new();
    for process in first.processes.iter().chain(&second.processes) {
        if !processes.contains(process) {
            processes.push(process.clone());
        }
    }
    Connection {
        opened_ns: first.opened_ns.min(second.opened_ns),
        closed_ns: first.closed_ns.zip(second.closed_ns).map(|(a, b)| a.max(b)),
        both_ends_here: true,
        processes,
        ..first.clone()
    }
}
