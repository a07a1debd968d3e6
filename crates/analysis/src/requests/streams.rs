//! Requests of a stream: a turn of the side that asks, and the turn that follows.
//!
//! A request that is written before the last response was read overlaps it. As many writes of the answerer as of the
//! asker, each after its request was read, count as the answers in order. Other requests that overlap are one
//! request here: without the payload their answers are not known. Also unknown are the end of the first answer of
//! several, a lone message that wanted no answer, and whether a server that speaks first asks.

use sockscope_record::Direction;

use super::closing::Closing;
use super::request::{Conversation, Request, RequestEnd, Requests, SeenEnds};
use super::turns::{Turn, asker, in_order, turns};
use crate::Passage;
use crate::curve::{Cursor, Curve};
use crate::ranges::Range;

/// An asker that closes within this time of its last word waits for no answer: QUIT of many protocols, the Terminate
/// message of PostgreSQL, the close_notify of TLS.
const FAREWELL_NS: u64 = 10_000_000;

/// Traffic alternates while at most one request in this many overlaps another.
const OVERLAPPED_DIVISOR: usize = 10;

/// Recorded passages of a stream, by direction.
#[derive(Clone, Copy)]
pub(super) struct Stream<'a> {
    /// Writes; where only the other end was seen, reads.
    pub written: [&'a [Passage]; 2],
    /// First passages at point 8.
    pub reads: [&'a Curve; 2],
    /// First passages at the point nearest to the writer that was seen; empty where both ends were seen.
    pub arrived: [&'a Curve; 2],
    /// Whether the client's and the server's end were seen.
    pub ends: [bool; 2],
    /// Times at which something may have been written or read unseen, in order and apart.
    pub unknown_ns: &'a [Range],
    /// When the connection was opened; `None` where that was before the recording.
    pub opened_ns: Option<u64>,
    pub closing: Closing<'a>,
}

/// All requests of a stream.
pub(super) fn find(stream: &Stream<'_>) -> Requests {
    let turns = turns(stream.written);
    let Some(asker) = asker(&turns, stream.opened_ns) else {
        return Requests::none(if stream.unknown_ns.is_empty() {
            Conversation::Silent
        } else {
            Conversation::Missed
        });
    };
    let mut finder = Finder::new(stream, asker);
    let first = turns.iter().position(|turn| turn.direction == asker).unwrap_or(turns.len());
    let mut rest = &turns[first..];
    finder.skip(rest.first().map_or(u64::MAX, |turn| turn.start_ns));
    while !rest.is_empty() {
        let count = finder.group(rest);
        let (group, next) = rest.split_at(count);
        finder.add(group, next.first());
        rest = next;
    }
    finder.finish()
}

/// Walks through the turns of a stream. The cursors only move on.
struct Finder<'a> {
    stream: &'a Stream<'a>,
    asker: Direction,
    seen: SeenEnds,
    /// First arrivals of requests, where only the answerer was seen.
    arrivals: Cursor<'a>,
    requests_read: Cursor<'a>,
    responses_read: Cursor<'a>,
    /// Of the same reads, for the search of overlaps and for pauses.
    overlaps: Cursor<'a>,
    pauses: [Cursor<'a>; 2],
    /// Writes not yet looked at for pauses, by direction.
    ahead: [&'a [Passage]; 2],
    /// The last write before the group.
    since_ns: u64,
    list: Vec<Request>,
    left_out: u64,
    /// Requests of `list` that were distinguished by order, and groups that were not.
    in_order: usize,
    mixed: usize,
}

impl<'a> Finder<'a> {
    fn new(stream: &'a Stream<'a>, asker: Direction) -> Self {
        let answerer = asker.reverse();
        let seen = SeenEnds::of(stream.ends, asker);
        let read = |direction: Direction| Cursor::new(stream.reads[direction as usize]);
        Self {
            stream,
            asker,
            seen,
            arrivals: Cursor::new(stream.arrived[asker as usize]),
            requests_read: read(asker),
            responses_read: read(answerer),
            overlaps: read(answerer),
            pauses: stream.reads.map(Cursor::new),
            ahead: stream.written,
            since_ns: 0,
            list: Vec::new(),
            left_out: 0,
            in_order: 0,
            mixed: 0,
        }
    }

    /// Number of `turns`, from the asker's first on, that belong together: a request, its response, and all requests
    /// before that was read.
    fn group(&mut self, turns: &[Turn]) -> usize {
        let mut count = turns.len().min(2);
        while self.seen == SeenEnds::Both
            && let [response, next, ..] = turns[count - 1..]
            && !self.is_read_by(response, next.start_ns)
        {
            count = turns.len().min(count + 2);
        }
        count
    }

    fn is_read_by(&mut self, response: Turn, at_ns: u64) -> bool {
        let last = response.end.saturating_sub(1);
        self.overlaps.seek(last).is_some_and(|run| run.at_ns <= at_ns)
    }

    fn add(&mut self, group: &[Turn], next: Option<&Turn>) {
        let whole = self.whole(group);
        let last_ns = group.last().map_or(0, |turn| turn.last_ns);
        let until_ns = next.map_or(u64::MAX, |next| next.start_ns);
        let since_ns = std::mem::replace(&mut self.since_ns, last_ns);
        let Some(whole) = whole else { return self.skip(until_ns) };
        // Bytes written unseen before it may be its beginning.
        if self.is_touched(since_ns, until_ns.max(whole.ended_ns)) {
            self.left_out += 1;
            return self.skip(until_ns);
        }
        let parts = if whole.is_overlapped { self.told_apart(until_ns) } else { None };
        match parts {
            Some(parts) => {
                self.in_order += parts.len();
                self.list.extend(parts);
            }
            None => {
                let pause_ns = self.pause_ns(&whole, until_ns);
                self.mixed += usize::from(whole.is_overlapped);
                self.list.push(Request { pause_ns, ..whole });
            }
        }
    }

    /// The group as one request, without its pauses; `None` where nothing shows that its asker waited.
    fn whole(&mut self, group: &[Turn]) -> Option<Request> {
        let (asked, answers) = (group.iter().step_by(2), group.iter().skip(1).step_by(2));
        let (first, last) = (group.first()?, group.get((group.len() - 1) / 2 * 2)?);
        let answer = group.get(1);
        let last_answer = answer.and_then(|_| group.get(group.len() / 2 * 2 - 1));
        let asked_ns = match self.seen {
            SeenEnds::Answerer => {
                let arrived = self.arrivals.seek(first.start).map(|run| run.at_ns);
                arrived.unwrap_or(first.start_ns).min(first.start_ns)
            }
            _ => first.start_ns,
        };
        // Of several that overlap, the first: the first answer may be its own.
        let mut of_first = self.requests_read;
        let (heard_ns, _) = reads(&mut of_first, first.start, first.end);
        let heard_ns = heard_ns.filter(|_| is_whole(&of_first, first));
        let (_, request_reads) = reads(&mut self.requests_read, first.start, last.end);
        let (read_ns, response_reads) = match (answer, last_answer) {
            (Some(first), Some(last)) => reads(&mut self.responses_read, first.start, last.end),
            _ => (None, 0),
        };
        let answered = answer.map(|turn| turn.start_ns);
        let written_ns = last_answer.map(|turn| turn.last_ns);
        let ended = match self.seen {
            SeenEnds::Answerer => written_ns,
            // A response that was read in part was an answer.
            _ => read_ns,
        };
        let (ended_ns, end) = match ended {
            Some(ended_ns) => (ended_ns.max(asked_ns), RequestEnd::Answered),
            None => self.unanswered(asked_ns, last)?,
        };
        let (heard_ns, answered_ns) = match self.seen {
            SeenEnds::Asker => (None, None),
            SeenEnds::Answerer => (Some(last.last_ns), answered),
            SeenEnds::Both => (heard_ns, answered),
        };
        let bytes = |turn: &Turn| turn.end.saturating_sub(turn.start);
        let writes = |turn: &Turn| u64::from(turn.writes);
        let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let is_early = heard_ns.is_none_or(|heard| answered_ns.is_some_and(|ns| ns < heard));
        Some(Request {
            request_bytes: asked.clone().map(bytes).sum(),
            response_bytes: answers.clone().map(bytes).sum(),
            request_writes: count(asked.map(writes).sum()),
            request_reads,
            response_writes: count(answers.map(writes).sum()),
            response_reads,
            asker_thread: first.thread,
            answerer_thread: answer.map_or(0, |turn| turn.thread),
            seen: self.seen,
            is_overlapped: self.seen == SeenEnds::Both
                && (group.len() > 2 || answered_ns.is_some() && is_early),
            ..Request::asked(asked_ns, ended_ns, end).with_answer(heard_ns, answered_ns)
        })
    }

    /// End of the wait of an asker without an answer, with its cause; `None` where it did not wait: it closed with
    /// its last write, or was writing most of the time.
    fn unanswered(&self, asked_ns: u64, last: &Turn) -> Option<(u64, RequestEnd)> {
        let (ended_ns, end) = self.stream.closing.of_wait(self.asker, last.last_ns);
        let waited_ns = ended_ns.saturating_sub(last.last_ns);
        let is_farewell = end == RequestEnd::GivenUp && waited_ns < FAREWELL_NS;
        let is_one_way = waited_ns < last.last_ns - asked_ns;
        (!is_farewell && !is_one_way).then_some((ended_ns, end))
    }

    /// The requests of the group whose writes are next, if their answers are in order.
    fn told_apart(&mut self, until_ns: u64) -> Option<Vec<Request>> {
        let [asked, answers] = [self.asker, self.asker.reverse()].map(|direction| {
            let ahead = self.ahead[direction as usize];
            let is_of_group = |pass: &&Passage| pass.at_ns < until_ns;
            ahead.iter().take_while(is_of_group).filter(|pass| pass.len > 0).collect::<Vec<_>>()
        });
        // Writes of earlier groups were passed over by `skip` and `pause_ns`.
        if asked.len() != answers.len() || asked.len() < 2 {
            return None;
        }
        let mut cursors = self.pauses;
        let (own, others) = (self.asker as usize, self.asker.reverse() as usize);
        let pairs = asked.into_iter().zip(answers).map(|(request, answer)| {
            let (heard_ns, request_reads) = reads(&mut cursors[own], request.offset, request.end());
            let (read_ns, response_reads) =
                reads(&mut cursors[others], answer.offset, answer.end());
            let times = [request.at_ns, heard_ns?, answer.at_ns, read_ns?];
            times.is_sorted().then(|| Request {
                request_bytes: request.len.into(),
                response_bytes: answer.len.into(),
                request_writes: 1,
                request_reads,
                response_writes: 1,
                response_reads,
                asker_thread: request.thread,
                answerer_thread: answer.thread,
                is_overlapped: true,
                ..Request::asked(times[0], times[3], RequestEnd::Answered)
                    .with_answer(Some(times[1]), Some(times[2]))
            })
        });
        let parts = pairs.collect::<Option<Vec<_>>>()?;
        self.pauses = cursors;
        self.skip(until_ns);
        Some(parts)
    }

    /// Passes over the writes before a time.
    fn skip(&mut self, until_ns: u64) {
        for ahead in &mut self.ahead {
            let count = ahead.iter().take_while(|pass| pass.at_ns < until_ns).count();
            *ahead = &ahead[count..];
        }
    }

    /// Time from the first byte of the response to its end in which all bytes were read and the answerer wrote none.
    fn pause_ns(&mut self, request: &Request, until_ns: u64) -> u64 {
        let Some(answered_ns) = request.answered.ns().filter(|_| self.seen == SeenEnds::Both)
        else {
            self.skip(until_ns);
            return 0;
        };
        let of_group = self.ahead.map(|ahead| {
            let count = ahead.iter().take_while(|pass| pass.at_ns < until_ns).count();
            &ahead[..count]
        });
        self.ahead = [0, 1].map(|flow: usize| &self.ahead[flow][of_group[flow].len()..]);
        if request.response_writes < 2 {
            return 0;
        }
        let mut pause_ns = 0;
        // Since when all is read that was written in a direction so far; not yet, for `None`.
        let mut ends = [0, 0];
        for (direction, pass) in in_order(of_group) {
            if pass.at_ns > answered_ns && direction != self.asker {
                let read = |flow: usize, pauses: &mut [Cursor<'_>; 2]| match ends[flow] {
                    0 => Some(0),
                    end => pauses[flow].seek(end - 1).map(|run| run.at_ns),
                };
                let quiet_ns = [0, 1].map(|flow| read(flow, &mut self.pauses));
                if let [Some(one), Some(other)] = quiet_ns {
                    pause_ns += pass.at_ns.saturating_sub(one.max(other).max(answered_ns));
                }
            }
            ends[direction as usize] = pass.end();
        }
        pause_ns
    }

    fn is_touched(&self, from_ns: u64, until_ns: u64) -> bool {
        let next = self.stream.unknown_ns.partition_point(|times| times.1 < from_ns);
        self.stream.unknown_ns.get(next).is_some_and(|times| times.0 <= until_ns)
    }

    fn finish(self) -> Requests {
        let Self { asker, list, left_out, in_order, mixed, .. } = self;
        let overlapped = list.iter().filter(|request| request.is_overlapped).count();
        let conversation = if list.is_empty() {
            if left_out > 0 { Conversation::Missed } else { Conversation::OneWay }
        } else if overlapped * OVERLAPPED_DIVISOR > list.len() {
            if mixed > in_order { Conversation::Multiplexed } else { Conversation::Pipelined }
        } else if is_streamed(&list) {
            Conversation::Streamed
        } else {
            Conversation::Alternating
        };
        let asked_by = (!list.is_empty()).then_some(asker.sender());
        Requests { asked_by, conversation, list, left_out }
    }
}

/// Whether pauses within the responses are most of the time.
fn is_streamed(list: &[Request]) -> bool {
    let pause_ns: u128 = list.iter().map(|request| u128::from(request.pause_ns)).sum();
    let total_ns: u128 = list.iter().filter_map(Request::total_ns).map(u128::from).sum();
    pause_ns > 0 && pause_ns * 2 > total_ns
}

/// Time of the last read of bytes from `start` to `end`, as far as they were read, and the number of reads.
fn reads(cursor: &mut Cursor<'_>, start: u64, end: u64) -> (Option<u64>, u32) {
    let first = cursor.skip_to(start);
    let mut last_ns = None;
    let mut count = 0;
    for run in first.iter().take_while(|run| run.offset < end) {
        last_ns = last_ns.max(Some(run.at_ns));
        count += 1;
    }
    (last_ns, count)
}

/// Whether the last byte of a turn was read.
fn is_whole(cursor: &Cursor<'_>, turn: &Turn) -> bool {
    let mut cursor = *cursor;
    turn.end.checked_sub(1).is_some_and(|last| cursor.seek(last).is_some())
}
