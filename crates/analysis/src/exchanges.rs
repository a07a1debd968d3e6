//! Requests and responses, and where their time went.
//!
//! A *turn* is all that one side writes before the other side writes. A request is a turn of the side
//! that asks, its response the turn that follows. Traffic alternates when nine in ten of these pairs
//! keep order: the request was read to its end before the response began, and the response before
//! the next request began. Both ends must be seen.

use sockscope_record::{Direction, Point, Side};

use crate::curve::{Cursor, Curve};
use crate::{ConnectionStore, Distribution, ExchangeSummary, Ledger, LedgerSpan, Passage};

/// Fewer exchanges than this say nothing about a habit.
const EXCHANGES_MIN: usize = 3;

/// All that one side writes before the other side does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    direction: Direction,
    start_ns: u64,
    /// Position after its last byte.
    end: u64,
}

/// One request and its response.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    /// First byte of the request written.
    asked_ns: u64,
    /// Last byte of the request read.
    heard_ns: u64,
    /// First byte of the response written.
    answered_ns: u64,
    /// Last byte of the response read.
    done_ns: u64,
}

/// The exchanges of a connection; `reads` are the curves at point 8 and `timelines` the ledgers of
/// its two flows. `None` when the traffic does not alternate.
pub(crate) fn summarize(
    store: &ConnectionStore,
    reads: [&Curve; 2],
    timelines: [&[LedgerSpan]; 2],
) -> Option<ExchangeSummary> {
    let written = [0, 1].map(|flow: usize| store.flows[flow].at(Point::SendEnqueue));
    let turns = turns(written);
    let asker = asker(&turns)?;
    let exchanges = exchanges(&turns, asker, reads)?;
    let mut walks =
        [Walk::new(timelines[asker as usize]), Walk::new(timelines[1 - asker as usize])];
    for exchange in &exchanges {
        walks[0].add(exchange.asked_ns, exchange.heard_ns);
        walks[1].add(exchange.answered_ns, exchange.done_ns);
    }
    let [request_ns, response_ns] = walks.map(|walk| walk.mean(exchanges.len() as u64));
    let slowest = exchanges.iter().max_by_key(|exchange| exchange.total_ns())?;
    let distribution = |value: fn(&Exchange) -> u64| {
        Distribution::of(&mut exchanges.iter().map(value).collect::<Vec<_>>())
    };
    Some(ExchangeSummary {
        asked_by: asker.sender(),
        total_ns: distribution(Exchange::total_ns)?,
        request_ns,
        service_ns: distribution(|exchange| exchange.answered_ns - exchange.heard_ns)?,
        response_ns,
        slowest: (slowest.asked_ns, slowest.total_ns()),
    })
}

impl Exchange {
    fn total_ns(&self) -> u64 {
        self.done_ns - self.asked_ns
    }
}

/// Turns in order of time; of two writes at one instant the client's is first.
fn turns([client, server]: [&[Passage]; 2]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut ahead = [client, server];
    loop {
        let direction = match (ahead[0].first(), ahead[1].first()) {
            (None, None) => return turns,
            (Some(client), Some(server)) if server.at_ns < client.at_ns => Direction::FromServer,
            (None, Some(_)) => Direction::FromServer,
            (Some(_), _) => Direction::FromClient,
        };
        let list = &mut ahead[direction as usize];
        let Some((pass, rest)) = list.split_first() else { return turns };
        *list = rest;
        match turns.last_mut() {
            _ if pass.len == 0 => {}
            Some(turn) if turn.direction == direction => {
                debug_assert!(turn.start_ns <= pass.at_ns);
                turn.end = turn.end.max(pass.end());
            }
            _ => turns.push(Turn { direction, start_ns: pass.at_ns, end: pass.end() }),
        }
    }
}

/// The direction of the requests: that of the first turn. A server that has both the first and the
/// last word only greeted.
fn asker(turns: &[Turn]) -> Option<Direction> {
    let (first, last) = (turns.first()?, turns.last()?);
    let server = Side::Server;
    let greeted = first.direction.sender() == server && last.direction.sender() == server;
    Some(if greeted { Direction::FromClient } else { first.direction })
}

/// The exchanges that keep order, if nearly all do.
fn exchanges(turns: &[Turn], asker: Direction, reads: [&Curve; 2]) -> Option<Vec<Exchange>> {
    let first = turns.iter().position(|turn| turn.direction == asker)?;
    let turns = &turns[first..];
    debug_assert!(turns.windows(2).all(|pair| pair[0].direction != pair[1].direction));
    let mut exchanges = Vec::with_capacity(turns.len() / 2);
    let mut complete = 0;
    let mut reads = reads.map(Cursor::new);
    for (index, pair) in turns.chunks_exact(2).enumerate() {
        let (request, response) = (pair[0], pair[1]);
        let mut read_ns = |turn: Turn| {
            let last = turn.end.checked_sub(1)?;
            reads[turn.direction as usize].seek(last).map(|run| run.at_ns)
        };
        let (Some(heard_ns), Some(done_ns)) = (read_ns(request), read_ns(response)) else {
            continue;
        };
        complete += 1;
        let next_ns = turns.get(2 * index + 2).map_or(u64::MAX, |turn| turn.start_ns);
        let (asked_ns, answered_ns) = (request.start_ns, response.start_ns);
        let times = [asked_ns, heard_ns, answered_ns, done_ns, next_ns];
        if times.is_sorted() {
            exchanges.push(Exchange { asked_ns, heard_ns, answered_ns, done_ns });
        }
    }
    let alternates = exchanges.len() >= EXCHANGES_MIN && exchanges.len() * 10 >= complete * 9;
    alternates.then_some(exchanges)
}

/// Sums parts of one timeline over intervals that come in order and do not overlap.
struct Walk<'a> {
    spans: &'a [LedgerSpan],
    sum: Ledger,
}

impl<'a> Walk<'a> {
    fn new(spans: &'a [LedgerSpan]) -> Self {
        Self { spans, sum: Ledger::default() }
    }

    fn add(&mut self, start_ns: u64, end_ns: u64) {
        debug_assert!(start_ns <= end_ns);
        while self.spans.first().is_some_and(|span| span.end_ns <= start_ns) {
            self.spans = &self.spans[1..];
        }
        for span in self.spans.iter().take_while(|span| span.start_ns < end_ns) {
            let overlap_ns = span.end_ns.min(end_ns) - span.start_ns.max(start_ns);
            self.sum.ns[span.part as usize] += overlap_ns;
        }
    }

    fn mean(self, count: u64) -> Ledger {
        Ledger { ns: self.sum.ns.map(|ns| ns / count.max(1)) }
    }
}

#[cfg(test)]
mod tests {
    use crate::{ExchangeSummary, LedgerPart, testing};

    fn exchanges(text: &str) -> Option<ExchangeSummary> {
        testing::analyze(text).exchanges
    }

    #[test]
    fn a_call_is_split_into_request_service_and_response() {
        let calls = exchanges(
            "10us 1-4 +100 | 14us 5-7 +100 | 15us 8 +100 | 25us <1-7 +50 | 28us <8 +50
             110us 1-4 +100 | 114us 5-7 +100 | 115us 8 +100 | 125us <1-7 +50 | 128us <8 +50
             210us 1-4 +100 | 214us 5-7 +100 | 215us 8 +100 | 245us <1-7 +50 | 248us <8 +50",
        )
        .unwrap();
        assert_eq!(
            (calls.total_ns.count, calls.total_ns.min, calls.total_ns.max),
            (3, 18_000, 38_000)
        );
        assert_eq!((calls.service_ns.min, calls.service_ns.max), (10_000, 30_000));
        assert_eq!(calls.request_ns.ns[LedgerPart::Wire as usize], 4_000);
        assert_eq!(calls.request_ns.total_ns(), 5_000);
        assert_eq!(calls.response_ns.ns[LedgerPart::ReceiveApp as usize], 3_000);
        assert_eq!(calls.slowest, (210_000, 38_000));
        assert_eq!(calls.asked_by.name(), "client");
    }

    #[test]
    fn requests_sent_ahead_of_their_answers_do_not_alternate() {
        let pipelined = "10us 1-8 +100 | 20us <1-7 +50 | 21us 1-8 +100 | 22us <8 +50
             30us <1-7 +50 | 31us 1-8 +100 | 32us <8 +50 | 40us <1-7 +50 | 41us 1-8 +9 | 42us <8 +50";
        assert_eq!(exchanges(pipelined), None);
    }

    #[test]
    fn one_way_traffic_has_no_exchanges() {
        assert_eq!(exchanges("10us 1-8 +100 | 20us 1-8 +100 | 30us 1-8 +100"), None);
    }

    #[test]
    fn a_greeting_is_no_request() {
        let calls = exchanges(
            "1us <1-8 +20 | 10us 1-8 +5 | 12us <1-8 +5 | 20us 1-8 +5 | 22us <1-8 +5 | 30us 1-8 +5 | 32us <1-8 +5",
        )
        .unwrap();
        assert_eq!((calls.asked_by.name(), calls.total_ns.count), ("client", 3));
    }
}
