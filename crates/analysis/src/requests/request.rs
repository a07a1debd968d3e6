//! One request, and all requests of a connection.
//!
//! Times are nanoseconds of the trace's clock. Where both ends were seen, the parts of a request add up to the time
//! that its caller measures, exactly.

use sockscope_record::{Direction, Side, named};

/// A time that may be unknown, in the room of one that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(u64);

impl Moment {
    /// No time is known.
    pub const UNKNOWN: Self = Self(u64::MAX);

    /// The time in nanoseconds; `None` where it is unknown.
    pub fn ns(self) -> Option<u64> {
        (self != Self::UNKNOWN).then_some(self.0)
    }
}

impl From<Option<u64>> for Moment {
    fn from(ns: Option<u64>) -> Self {
        ns.map_or(Self::UNKNOWN, Self)
    }
}

/// Which ends of a connection were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenEnds {
    /// Both: all times are known.
    Both,
    /// Only the asking one: the total is known, its parts are not.
    Asker,
    /// Only the answering one: the time from request to answer is known, not when it was asked.
    Answerer,
}

impl SeenEnds {
    /// From whether the client's and the server's end were seen, and the direction of the requests.
    pub(super) fn of(ends: [bool; 2], asker: Direction) -> Self {
        match [ends[asker as usize], ends[asker.reverse() as usize]] {
            [true, false] => Self::Asker,
            [false, true] => Self::Answerer,
            _ => Self::Both,
        }
    }
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestEnd {
    /// Its response was read.
    Answered,
    /// The trace ended before.
    Open,
    /// The asker closed or shut down without an answer, timed out, or asked again.
    GivenUp,
    /// The asker reset the connection without an answer.
    ResetByAsker,
    /// The answerer reset the connection instead of an answer.
    ResetByAnswerer,
    /// No socket took it: the connection was refused, or the datagram.
    Refused,
    /// The answerer closed without an answer.
    Closed,
}

named! {
    RequestEnd {
        Answered => "answered",
        Open => "open",
        GivenUp => "given-up",
        ResetByAsker => "reset-by-asker",
        ResetByAnswerer => "reset-by-answerer",
        Refused => "refused",
        Closed => "closed",
    }
}

/// Pattern of talk between the two sides of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Conversation {
    /// One request at a time, each answered before the next.
    Alternating,
    /// One request at a time; most of the time the answerer pauses within its responses.
    Streamed,
    /// Requests are sent ahead; as many writes answer as ask, in order.
    Pipelined,
    /// Requests overlap; without the payload, the answer to each is unknown.
    Multiplexed,
    /// One side writes, and nothing shows that it waits for an answer.
    OneWay,
    /// No data and no attempt to connect were seen.
    Silent,
    /// Missed records hide every request.
    Missed,
    /// No program was seen to write or read: a capture, or the kernel's own sockets.
    Unseen,
}

named! {
    Conversation {
        Alternating => "alternating",
        Streamed => "streamed",
        Pipelined => "pipelined",
        Multiplexed => "multiplexed",
        OneWay => "one-way",
        Silent => "silent",
        Missed => "unknown: records were missed",
        Unseen => "unknown: no end was seen",
    }
}

/// One request, and its response if one was seen.
///
/// Of multiplexed traffic it is a group of requests that overlap: from the first one asked to the last answer read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its first byte was written; of a connection that did not open, its first SYN was sent. Where only the
    /// answerer was seen, its first byte arrived.
    pub asked_ns: u64,
    /// A read took the last byte of the request; unknown without such a read, or if it was not seen.
    pub heard: Moment,
    /// The first byte of the response was written; unknown without such a write, or if it was not seen.
    pub answered: Moment,
    /// The last byte of the response was read; without one, when the wait ended. Where only the answerer was seen,
    /// the last byte of the response was written.
    pub ended_ns: u64,
    /// Time within the response in which all bytes were read and the answerer had not written more.
    pub pause_ns: u64,
    /// Bytes asked.
    pub request_bytes: u64,
    /// Bytes answered; 0 without an answer.
    pub response_bytes: u64,
    /// Writes, as they entered the send queue, that made the request.
    pub request_writes: u32,
    /// Reads that took it.
    pub request_reads: u32,
    /// Writes that made the response.
    pub response_writes: u32,
    /// Reads that took it.
    pub response_reads: u32,
    /// Thread that wrote the first byte of the request; 0 if unknown.
    pub asker_thread: u32,
    /// Thread that wrote the first byte of the response; 0 if unknown, or without a response.
    pub answerer_thread: u32,
    /// Thread whose read took the last byte of the request; 0 if unknown.
    pub reader_thread: u32,
    /// Outcome of the request.
    pub end: RequestEnd,
    /// Which ends were seen.
    pub seen: SeenEnds,
    /// It overlaps others, or its answer began before it was read to its end.
    pub is_overlapped: bool,
}

/// Parts of the time of one request; they add up to its total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestParts {
    /// From the first byte written to the read that took the last byte; without such a read, all of the time.
    pub request_ns: u64,
    /// The answerer's own time: from that read to the first byte of the response, and the pauses within the response.
    pub service_ns: u64,
    /// The rest: the response was in transit, or waited for its reader.
    pub response_ns: u64,
}

impl Request {
    /// A user perceives a shorter time as immediate (R. B. Miller, 1968), and most requests that a program makes
    /// in sequence are far shorter.
    pub const LONG_NS: u64 = 100_000_000;

    /// A response whose mean pause is as long as this is a subscription: its answerer has no news.
    const SUBSCRIPTION_PAUSE_NS: u64 = 1_000_000_000;

    /// One asked at a time and not yet answered, with both ends seen.
    pub fn asked(asked_ns: u64, ended_ns: u64, end: RequestEnd) -> Self {
        debug_assert!(asked_ns <= ended_ns);
        Self {
            asked_ns,
            heard: Moment::UNKNOWN,
            answered: Moment::UNKNOWN,
            ended_ns,
            pause_ns: 0,
            request_bytes: 0,
            response_bytes: 0,
            request_writes: 0,
            request_reads: 0,
            response_writes: 0,
            response_reads: 0,
            asker_thread: 0,
            answerer_thread: 0,
            reader_thread: 0,
            end,
            seen: SeenEnds::Both,
            is_overlapped: false,
        }
    }

    /// The same, read to its end at `heard_ns` (`None`: not, or not known), its response begun at `answered_ns`.
    #[must_use]
    pub fn with_answer(mut self, heard_ns: Option<u64>, answered_ns: Option<u64>) -> Self {
        self.heard = heard_ns.into();
        self.answered = answered_ns.into();
        self
    }

    /// Whether it is one exchange by itself: answered, both ends seen, and no other request overlaps it.
    pub fn is_exchange(&self) -> bool {
        self.end == RequestEnd::Answered && self.seen == SeenEnds::Both && !self.is_overlapped
    }

    /// Wait of its caller: from asked to ended; `None` where the asker was not seen.
    pub fn total_ns(&self) -> Option<u64> {
        (self.seen != SeenEnds::Answerer).then(|| self.ended_ns - self.asked_ns)
    }

    /// Whether its caller waited so long that a user notices, as far as that is known: see [`Request::LONG_NS`].
    pub fn is_long(&self) -> bool {
        self.total_ns().is_some_and(|total_ns| total_ns >= Self::LONG_NS)
    }

    /// Whether its response has pauses as long as those of a subscription.
    pub fn is_subscription(&self) -> bool {
        let pauses = u64::from(self.response_writes).saturating_sub(1).max(1);
        self.pause_ns / pauses >= Self::SUBSCRIPTION_PAUSE_NS
    }

    /// Parts of that time; `None` where one end was not seen.
    pub fn parts(&self) -> Option<RequestParts> {
        if self.seen != SeenEnds::Both {
            return None;
        }
        let total_ns = self.ended_ns - self.asked_ns;
        let [heard_ns, answered_ns] = self.limits();
        let request_ns = heard_ns - self.asked_ns;
        let service_ns = (answered_ns - heard_ns + self.pause_ns).min(total_ns - request_ns);
        let response_ns = total_ns - request_ns - service_ns;
        Some(RequestParts { request_ns, service_ns, response_ns })
    }

    /// Start and end of the service, between the beginning and the end of the request. An unknown time is at the
    /// end. Clocks of two hosts may disagree: a time that lies outside is at the nearer limit.
    pub(crate) fn limits(&self) -> [u64; 2] {
        // Unknown is later than any time.
        let heard_ns = self.heard.0.min(self.answered.0).clamp(self.asked_ns, self.ended_ns);
        [heard_ns, self.answered.0.clamp(heard_ns, self.ended_ns)]
    }

    /// The answerer's own time, as far as it is known: also where only the answerer was seen.
    pub fn service_ns(&self) -> Option<u64> {
        let parts = self.parts().map(|parts| parts.service_ns);
        let alone = || Some(self.answered.ns()?.saturating_sub(self.heard.ns()?));
        parts.or_else(|| if self.seen == SeenEnds::Answerer { alone() } else { None })
    }
}

/// All requests of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requests {
    /// The side that asks; `None` where no side was seen to ask.
    pub asked_by: Option<Side>,
    /// Pattern of talk between the sides.
    pub conversation: Conversation,
    /// By the time asked.
    pub list: Vec<Request>,
    /// Requests that missed records may have touched, which are not in `list`; there may be more.
    pub left_out: u64,
}

impl Requests {
    /// None, because the traffic is of this kind.
    pub fn none(conversation: Conversation) -> Self {
        Self { asked_by: None, conversation, list: Vec::new(), left_out: 0 }
    }
}

/// A request that lay in the receive queue for [`UnreadRequest::LAIN_NS_MIN`] or longer before it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreadRequest {
    /// Its place among the requests of the connection.
    pub index: u32,
    /// When its last byte arrived in the receive queue.
    pub arrived_ns: u64,
}

impl UnreadRequest {
    /// An event loop that is busy with other sockets is back sooner.
    pub const LAIN_NS_MIN: u64 = 10_000_000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_compact() {
        assert!(size_of::<Request>() <= 88, "{}", size_of::<Request>());
    }

    #[test]
    fn the_parts_add_up_whatever_is_missing() {
        let parts = |heard, answered, pause_ns| {
            let request = Request::asked(10, 110, RequestEnd::Answered);
            let request = Request { pause_ns, ..request.with_answer(heard, answered) };
            let parts = request.parts().expect("both ends were seen");
            [parts.request_ns, parts.service_ns, parts.response_ns]
        };
        assert_eq!(parts(Some(30), Some(60), 10), [20, 40, 40]);
        assert_eq!(parts(Some(30), None, 0), [20, 80, 0], "not answered");
        assert_eq!(parts(None, None, 0), [100, 0, 0], "not read");
        assert_eq!(
            parts(Some(60), Some(30), 0),
            [20, 0, 80],
            "answered before it was read to its end"
        );
        assert_eq!(parts(Some(5), Some(60), 0), [0, 50, 50], "read before it was written");
        assert_eq!(
            parts(Some(30), Some(120), 0),
            [20, 80, 0],
            "answered after its response was read"
        );
        assert_eq!(parts(Some(3), Some(5), 0), [0, 0, 100]);
    }

    #[test]
    fn of_one_end_only_its_own_times_are_known() {
        let request = Request::asked(10, 110, RequestEnd::Answered);
        let asker = Request { seen: SeenEnds::Asker, ..request };
        assert_eq!((asker.total_ns(), asker.parts(), asker.service_ns()), (Some(100), None, None));
        let request = request.with_answer(Some(30), Some(60));
        let answerer = Request { seen: SeenEnds::Answerer, ..request };
        assert_eq!((answerer.total_ns(), answerer.service_ns()), (None, Some(30)));
    }
}
