//! Requests of a flow of datagrams: one answer for one query, in order.
//!
//! If all queries are answered, an answer belongs to the oldest query without one. Else it belongs to the latest one,
//! and the asker had given up the others: one missing answer must not shift all that follow. The answerer had read the
//! query by then, if its reads are known. An answer without such a query continues the response before it. A query of
//! the same length as the one that waits, and much later, repeats it. Without the payload, the query of an answer is
//! not certain, nor whether a lone datagram wanted one.

use std::collections::VecDeque;

use sockscope_record::Direction;

use super::request::{Conversation, Request, RequestEnd, Requests, SeenEnds};
use super::turns::in_order;
use crate::Passage;
use crate::curve::{Cursor, Curve};
use crate::ranges::Range;

/// From this number of queries on, a flow with few answered ones only sends.
const HABIT_MIN: usize = 8;

/// Resolvers and calls over UDP repeat a query after so long or longer.
const REPEAT_NS_MIN: u64 = 500_000_000;

/// Most are not answered if at most one in this number is.
const ANSWERED_DIVISOR: usize = 10;

/// Recorded passages of a flow of datagrams, by direction.
#[derive(Clone, Copy)]
pub(super) struct Datagrams<'a> {
    /// Writes; where only the other end was seen, reads.
    pub written: [&'a [Passage]; 2],
    /// First passages at point 8.
    pub reads: [&'a Curve; 2],
    /// Whether the client's and the server's end were seen.
    pub ends: [bool; 2],
    /// Times at which something may have been written or read unseen, in order and apart.
    pub unknown_ns: &'a [Range],
    /// Times at which no socket took datagrams, and their positions, in order of time.
    pub refused: &'a [(u64, u64)],
    /// When the flow was closed, or the trace ended.
    pub closed_ns: Option<u64>,
    pub trace_end_ns: u64,
}

/// All requests of the flow.
pub(super) fn find(flow: &Datagrams<'_>) -> Requests {
    let Some((asker, _)) = in_order(flow.written).next() else {
        let is_known = flow.unknown_ns.is_empty();
        return Requests::none(if is_known { Conversation::Silent } else { Conversation::Missed });
    };
    let [queries, answers] = [asker, asker.reverse()].map(|direction| {
        let list = flow.written[direction as usize].iter();
        list.filter(|pass| pass.len > 0).count()
    });
    let mut matcher = Matcher::new(flow, asker);
    matcher.is_all_answered = answers >= queries;
    for (direction, pass) in in_order(flow.written) {
        match direction == asker {
            true => matcher.query(pass),
            false => matcher.answer(pass),
        }
    }
    if matcher.was_ahead && !flow.unknown_ns.is_empty() {
        // A missed record shifts the order of all that follow.
        let left_out = matcher.list.len() as u64;
        return Requests { left_out, ..Requests::none(Conversation::Missed) };
    }
    matcher.finish(queries)
}

/// A query without an answer so far.
#[derive(Debug, Clone, Copy)]
struct Query {
    /// Its place among the requests.
    index: usize,
    heard_ns: Option<u64>,
    /// When it was written last.
    last_ns: u64,
}

struct Matcher<'a> {
    flow: &'a Datagrams<'a>,
    asker: Direction,
    seen: SeenEnds,
    queries_read: Cursor<'a>,
    answers_read: Cursor<'a>,
    waiting: VecDeque<Query>,
    is_all_answered: bool,
    /// Several queries were waiting at once.
    was_ahead: bool,
    list: Vec<Request>,
    /// The request that was answered last.
    answered: Option<usize>,
}

impl<'a> Matcher<'a> {
    fn new(flow: &'a Datagrams<'a>, asker: Direction) -> Self {
        let answerer = asker.reverse();
        let seen = SeenEnds::of(flow.ends, asker);
        Self {
            flow,
            asker,
            seen,
            queries_read: Cursor::new(flow.reads[asker as usize]),
            answers_read: Cursor::new(flow.reads[answerer as usize]),
            waiting: VecDeque::new(),
            is_all_answered: false,
            was_ahead: false,
            list: Vec::new(),
            answered: None,
        }
    }

    fn query(&mut self, pass: &Passage) {
        let heard_ns = self.queries_read.seek(pass.offset).map(|run| run.at_ns);
        if self.is_repeat(pass) {
            let Some(query) = self.waiting.back_mut() else { return };
            let request = &mut self.list[query.index];
            query.heard_ns = query.heard_ns.or(heard_ns);
            query.last_ns = pass.at_ns;
            request.request_bytes += u64::from(pass.len);
            request.request_writes += 1;
            request.request_reads += u32::from(heard_ns.is_some());
            if self.seen != SeenEnds::Asker {
                *request = request.with_answer(query.heard_ns, None);
            }
            return;
        }
        self.was_ahead |= !self.waiting.is_empty();
        let last_ns = pass.at_ns;
        let index = self.list.len();
        self.waiting.push_back(Query { index, heard_ns, last_ns });
        let request = Request::asked(pass.at_ns, pass.at_ns, RequestEnd::Open);
        self.list.push(Request {
            request_bytes: pass.len.into(),
            request_writes: 1,
            request_reads: heard_ns.is_some().into(),
            asker_thread: pass.thread,
            seen: self.seen,
            ..request.with_answer(heard_ns.filter(|_| self.seen != SeenEnds::Asker), None)
        });
    }

    /// Whether a query repeats the last one, which waits and was not refused.
    fn is_repeat(&self, pass: &Passage) -> bool {
        let Some(query) = self.waiting.back() else { return false };
        let request = &self.list[query.index];
        let is_late = pass.at_ns.saturating_sub(query.last_ns) >= REPEAT_NS_MIN;
        let is_like =
            request.request_bytes == u64::from(pass.len) * u64::from(request.request_writes);
        let since = |&(at_ns, _): &(u64, u64)| at_ns >= request.asked_ns && at_ns <= pass.at_ns;
        is_late && is_like && !self.flow.refused.iter().any(since)
    }

    fn answer(&mut self, pass: &Passage) {
        let read_ns = self.answers_read.seek(pass.offset).map(|run| run.at_ns);
        let ended_ns = match self.seen {
            SeenEnds::Answerer => Some(pass.at_ns),
            _ => read_ns,
        };
        let is_heard = |query: &Query| match self.seen {
            SeenEnds::Both => query.heard_ns.is_some_and(|ns| ns <= pass.at_ns),
            _ => true,
        };
        let query = match self.is_all_answered {
            true => self.waiting.iter().position(is_heard),
            false => self.waiting.iter().rposition(is_heard),
        };
        // Those before it were dropped, or given up.
        let index = query.and_then(|at| self.waiting.drain(..=at).next_back());
        let index = index.map(|query| query.index).or(self.answered);
        let Some(request) = index.and_then(|index| self.list.get_mut(index)) else { return };
        request.response_bytes += u64::from(pass.len);
        request.response_writes += 1;
        request.response_reads += u32::from(read_ns.is_some());
        if let Some(ended_ns) = ended_ns {
            let before_ns = request.ended_ns.max(request.answered.ns().unwrap_or(u64::MAX));
            if query.is_none() && request.end == RequestEnd::Answered {
                request.pause_ns += pass.at_ns.saturating_sub(before_ns);
            }
            request.ended_ns = request.ended_ns.max(ended_ns);
            request.end = RequestEnd::Answered;
        }
        if query.is_some() {
            let heard_ns = request.heard.ns();
            let answered_ns = Some(pass.at_ns).filter(|_| self.seen != SeenEnds::Asker);
            *request = request.with_answer(heard_ns, answered_ns);
            request.answerer_thread = pass.thread;
        }
        self.answered = index;
    }

    fn finish(mut self, queries: usize) -> Requests {
        let answered = self.list.iter().filter(|one| one.end == RequestEnd::Answered).count();
        let is_one_way = queries >= HABIT_MIN && answered * ANSWERED_DIVISOR < queries;
        if is_one_way {
            return Requests::none(Conversation::OneWay);
        }
        self.end_unanswered();
        let count = self.list.len();
        let mut until_ns = u64::MAX;
        for request in self.list.iter_mut().rev() {
            request.is_overlapped = until_ns < request.ended_ns;
            until_ns = request.asked_ns;
        }
        let unknown_ns = self.flow.unknown_ns;
        self.list.retain(|request| {
            let next = unknown_ns.partition_point(|times| times.1 < request.asked_ns);
            unknown_ns.get(next).is_none_or(|times| times.0 > request.ended_ns)
        });
        let left_out = (count - self.list.len()) as u64;
        let overlapped = self.list.iter().filter(|request| request.is_overlapped).count();
        let conversation = match self.list.len() {
            0 => Conversation::Missed,
            count if overlapped * ANSWERED_DIVISOR > count => Conversation::Pipelined,
            _ => Conversation::Alternating,
        };
        let asked_by = (!self.list.is_empty()).then_some(self.asker.sender());
        Requests { asked_by, conversation, list: self.list, left_out }
    }

    /// An unanswered asker waited until it asked again, closed its socket, or was refused.
    fn end_unanswered(&mut self) {
        let flow = self.flow;
        let end_ns = flow.closed_ns.unwrap_or(flow.trace_end_ns);
        let mut next_ns = None;
        let first = flow.written[self.asker as usize].iter().find(|pass| pass.len > 0);
        let sizes = self.list.iter().map(|request| request.request_bytes);
        let mut offset = sizes.fold(first.map_or(0, |pass| pass.offset), u64::wrapping_add);
        for request in self.list.iter_mut().rev() {
            offset = offset.wrapping_sub(request.request_bytes);
            if request.end != RequestEnd::Answered {
                let refused = flow
                    .refused
                    .iter()
                    .find(|(at_ns, position)| *position == offset && *at_ns >= request.asked_ns);
                let (ended_ns, end) = match (refused, next_ns, flow.closed_ns) {
                    (Some((at_ns, _)), ..) => (*at_ns, RequestEnd::Refused),
                    (None, Some(next_ns), _) => (next_ns, RequestEnd::GivenUp),
                    (None, None, Some(_)) => (end_ns, RequestEnd::GivenUp),
                    (None, None, None) => (end_ns, RequestEnd::Open),
                };
                request.end = end;
                request.ended_ns = ended_ns.max(request.asked_ns);
            }
            next_ns = Some(request.asked_ns);
        }
    }
}
