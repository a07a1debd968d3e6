//! Turns of a stream: all that one side writes before the other side writes.

use sockscope_record::{Direction, Side};

use crate::Passage;

/// A greeting follows the opening of the connection within this time; later words of the server are questions.
const GREETING_NS_MAX: u64 = 1_000_000_000;

/// All that one side writes before the other side does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub direction: Direction,
    pub start_ns: u64,
    /// Its last write.
    pub last_ns: u64,
    /// Position of its first byte, and after its last one.
    pub start: u64,
    pub end: u64,
    pub writes: u32,
    /// The thread of the first write.
    pub thread: u32,
}

/// Writes of both sides with data, in order of time; of two at one instant the client's is first.
pub(super) fn in_order(
    [client, server]: [&[Passage]; 2],
) -> impl Iterator<Item = (Direction, &Passage)> {
    let mut ahead = [client, server];
    let next = move || {
        let direction = match (ahead[0].first(), ahead[1].first()) {
            (None, None) => return None,
            (Some(client), Some(server)) if server.at_ns < client.at_ns => Direction::FromServer,
            (None, Some(_)) => Direction::FromServer,
            (Some(_), _) => Direction::FromClient,
        };
        let (pass, rest) = ahead[direction as usize].split_first()?;
        ahead[direction as usize] = rest;
        Some((direction, pass))
    };
    std::iter::from_fn(next).filter(|(_, pass)| pass.len > 0)
}

/// Turns in order of time.
pub(super) fn turns(written: [&[Passage]; 2]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for (direction, pass) in in_order(written) {
        match turns.last_mut() {
            Some(turn) if turn.direction == direction => {
                debug_assert!(turn.start_ns <= pass.at_ns);
                turn.last_ns = pass.at_ns;
                turn.end = turn.end.max(pass.end());
                turn.writes = turn.writes.saturating_add(1);
            }
            _ => turns.push(Turn {
                direction,
                start_ns: pass.at_ns,
                last_ns: pass.at_ns,
                start: pass.offset,
                end: pass.end(),
                writes: 1,
                thread: pass.thread,
            }),
        }
    }
    turns
}

/// The direction of the requests. The client asks, also where the server greets it first. The server asks where it
/// has the first word, later than a greeting, and the client has the last one.
///
/// `opened_ns` is `None` where the beginning was not seen.
pub(super) fn asker(turns: &[Turn], opened_ns: Option<u64>) -> Option<Direction> {
    let (first, last) = (turns.first()?, turns.last()?);
    let is_of = |turn: &Turn, side| turn.direction.sender() == side;
    let is_late = opened_ns.is_some_and(|ns| first.start_ns > ns.saturating_add(GREETING_NS_MAX));
    let server_asks = is_of(first, Side::Server) && is_of(last, Side::Client) && is_late;
    Some(if server_asks { Direction::FromServer } else { Direction::FromClient })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use sockscope_record::Point;

    fn asker_of(text: &str, opened_ns: Option<u64>) -> &'static str {
        let store = testing::store(text);
        let turns = turns([0, 1].map(|flow: usize| store.flows[flow].at(Point::SendEnqueue)));
        asker(&turns, opened_ns).expect("somebody writes").sender().name()
    }

    #[test]
    fn a_server_that_speaks_first_greets_unless_it_speaks_late_and_is_answered() {
        let greeted = "1ms <1 +20 | 2ms 1 +5 | 3ms <1 +5";
        assert_eq!(asker_of(greeted, Some(0)), "client");
        let hangs = "1ms <1 +20 | 2ms 1 +5 | 3ms <1 +5 | 4ms 1 +5";
        assert_eq!(asker_of(hangs, Some(0)), "client", "its last query is not answered");
        let polled = "1200ms <1 +20 | 1210ms 1 +5 | 3000ms <1 +5 | 3001ms 1 +5";
        assert_eq!(asker_of(polled, Some(0)), "server");
        assert_eq!(asker_of(polled, None), "client", "what was before is not known");
    }

    #[test]
    fn a_turn_has_all_writes_until_the_other_side_writes() {
        let store = testing::store("1 1 +10 thread=7 | 2 1 +20 thread=8 | 3 <1 +5 | 4 1 +1");
        let turns = turns([0, 1].map(|flow: usize| store.flows[flow].at(Point::SendEnqueue)));
        let first = turns[0];
        assert_eq!((turns.len(), first.writes, first.start, first.end), (3, 2, 0, 30));
        assert_eq!((first.start_ns, first.last_ns, first.thread), (1, 2, 7));
    }
}
