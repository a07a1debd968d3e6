//! A summary of the requests of a connection whose sides alternate, with their time by the parts of the
//! ledger.
//!
//! Only answered requests count whose two ends were seen, and that overlap no other one.

use crate::{
    Conversation, Distribution, ExchangeSummary, Ledger, LedgerPart, LedgerSpan, Request, Requests,
    SeenEnds,
};

/// The summary of `requests`; `timelines` are the ledgers of the two flows. `None` when the traffic does not
/// alternate.
pub(crate) fn summarize(
    requests: &Requests,
    timelines: [&[LedgerSpan]; 2],
) -> Option<ExchangeSummary> {
    let alternates =
        matches!(requests.conversation, Conversation::Alternating | Conversation::Streamed);
    let asked_by = requests.asked_by.filter(|_| alternates)?;
    let plain = || requests.list.iter().filter(|request| request.is_exchange());
    let own = asked_by as usize;
    let mut walks = [Walk::new(timelines[own]), Walk::new(timelines[1 - own])];
    let (mut count, mut pause_ns) = (0, 0u64);
    for request in plain() {
        if request.heard.ns().is_none() || request.answered.ns().is_none() {
            continue;
        }
        let [heard_ns, answered_ns] = request.limits();
        walks[0].add(request.asked_ns, heard_ns);
        walks[1].add(answered_ns, request.ended_ns);
        pause_ns = pause_ns.saturating_add(request.pause_ns);
        count += 1;
    }
    // All bytes were read then: the answerer's time, which `service_ns` has.
    let idle_ns = &mut walks[1].sum.ns[LedgerPart::AppIdle as usize];
    *idle_ns = idle_ns.saturating_sub(pause_ns);
    let [request_ns, response_ns] = walks.map(|walk| walk.mean(count));
    let total_ns = |request: &Request| request.ended_ns - request.asked_ns;
    let slowest = plain().max_by_key(|request| total_ns(request))?;
    let mut times: Vec<u64> = plain().map(total_ns).collect();
    let total = Distribution::of(&mut times)?;
    times.clear();
    times.extend(plain().filter_map(Request::service_ns));
    Some(ExchangeSummary {
        asked_by,
        total_ns: total,
        request_ns,
        service_ns: Distribution::of(&mut times)?,
        response_ns,
        slowest: (slowest.asked_ns, total_ns(slowest)),
    })
}

/// Nanoseconds in which requests lay unread while their reader did something else, and those of responses. Only requests
/// with both ends seen count. Where there is a summary it has the exchanges, and these do not count.
pub(crate) fn unread_ns(
    requests: &Requests,
    timelines: [&[LedgerSpan]; 2],
    has_summary: bool,
) -> [u64; 2] {
    let Some(asked_by) = requests.asked_by else { return [0; 2] };
    let counts = |request: &&Request| {
        request.seen == SeenEnds::Both && !(has_summary && request.is_exchange())
    };
    let mut requests = requests.list.iter().filter(counts).peekable();
    // Most connections have exchanges alone.
    if requests.peek().is_none() {
        return [0; 2];
    }
    let own = asked_by as usize;
    // Requests overlap, so the intervals are not in order.
    let unread = [own, 1 - own].map(|flow| Unread::new(timelines[flow]));
    let mut sums = [0u64; 2];
    for request in requests {
        let [heard_ns, answered_ns] = request.limits();
        let ways = [(request.asked_ns, heard_ns), (answered_ns, request.ended_ns)];
        for ((sum, unread), (from_ns, until_ns)) in sums.iter_mut().zip(&unread).zip(ways) {
            *sum = sum.saturating_add(unread.until(until_ns) - unread.until(from_ns));
        }
    }
    sums
}

/// Intervals of a timeline in which the reader did something else: start, end, and their sum before the start.
struct Unread(Vec<(u64, u64, u64)>);

impl Unread {
    fn new(timeline: &[LedgerSpan]) -> Self {
        let mut sum_ns = 0;
        let spans = timeline.iter().filter(|span| span.part == LedgerPart::ReceiveApp);
        let with_sum = spans.map(|span| {
            let before_ns = sum_ns;
            sum_ns += span.duration_ns();
            (span.start_ns, span.end_ns, before_ns)
        });
        Self(with_sum.collect())
    }

    /// Their sum until this time.
    fn until(&self, at_ns: u64) -> u64 {
        let begun = self.0.partition_point(|&(start_ns, ..)| start_ns < at_ns);
        let last = self.0[..begun].last();
        last.map_or(0, |&(start_ns, end_ns, sum_ns)| sum_ns + at_ns.min(end_ns) - start_ns)
    }
}

/// Sums parts of one timeline over intervals in order that do not overlap.
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
    fn requests_that_overlap_have_their_time_unread() {
        let pipelined = testing::analyze(
            "10us 1-7 +100 | 20us 8 +100 | 21us 1-7 +100 | 22us <1-8 +50 | 30us 8 +100 | 31us 1-7 +100
             32us <1-8 +50 | 40us 8 +100 | 41us 1-7 +9 | 42us <1-7 +50 | 49us <8 +50 | 60us 8 +9 | 61us <1-8 +50",
        );
        assert_eq!((pipelined.exchanges, pipelined.requests.list.len()), (None, 3));
        // Requests: 10 to 20 and 21 to 22, 31 to 32, 41 to 42 microseconds. Then each is answered. Response: 42 to 49.
        assert_eq!(pipelined.unread_ns, [13_000, 7_000]);
    }

    #[test]
    fn a_request_that_was_never_read_has_its_time_unread() {
        let closed = testing::analyze("10us 1-7 +100 | 100us <1-8 fin");
        assert_eq!(closed.requests.list.len(), 1);
        assert_eq!(closed.unread_ns, [90_000, 0]);
    }

    #[test]
    fn the_time_of_exchanges_is_in_their_summary_alone() {
        let calls = testing::analyze(
            "10us 1-7 +100 | 15us 8 +100 | 25us <1-7 +50 | 28us <8 +50
             110us 1-7 +100 | 115us 8 +100 | 125us <1-7 +50 | 128us <8 +50",
        );
        assert!(calls.exchanges.is_some());
        assert_eq!(calls.unread_ns, [0, 0]);
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
