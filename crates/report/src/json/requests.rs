//! The requests of one connection: a summary, and the slowest ones with all their times.

use std::cmp::Reverse;

use serde::Serialize;
use sockscope_analysis::{Distribution, Request, RequestEnd, Requests};

use super::flow::TimesView;

/// Requests that are listed, the slowest ones; CSV has all.
const LISTED_MAX: usize = 10;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RequestsView {
    conversation: &'static str,
    asked_by: Option<&'static str>,
    count: u64,
    left_out: u64,
    total_ns: Option<TimesView>,
    service_ns: Option<TimesView>,
    #[cfg_attr(test, schemars(schema_with = "super::schema::request_ends"))]
    ends: EndsView,
    slowest: Vec<RequestView>,
}

impl RequestsView {
    pub(super) fn new(requests: &Requests) -> Self {
        let times = |of: fn(&Request) -> Option<u64>| {
            let mut times: Vec<u64> = requests.list.iter().filter_map(of).collect();
            Distribution::of(&mut times).as_ref().map(TimesView::new)
        };
        let mut slowest: Vec<&Request> = requests.list.iter().collect();
        let order = |request: &&Request| {
            let known_ns = request.total_ns().or(request.service_ns());
            (Reverse(known_ns), request.asked_ns)
        };
        if slowest.len() > LISTED_MAX {
            slowest.select_nth_unstable_by_key(LISTED_MAX, order);
            slowest.truncate(LISTED_MAX);
        }
        slowest.sort_by_key(order);
        Self {
            conversation: requests.conversation.name(),
            asked_by: requests.asked_by.map(|side| side.name()),
            count: requests.list.len() as u64,
            left_out: requests.left_out,
            total_ns: times(Request::total_ns),
            service_ns: times(Request::service_ns),
            ends: EndsView(RequestEnd::ALL.map(|end| {
                requests.list.iter().filter(|request| request.end == end).count() as u64
            })),
            slowest: slowest.into_iter().map(RequestView::new).collect(),
        }
    }
}

/// Number of requests with each end, in the order of [`RequestEnd::ALL`].
struct EndsView([u64; RequestEnd::ALL.len()]);

impl Serialize for EndsView {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(RequestEnd::ALL.iter().map(|end| end.name()).zip(self.0))
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RequestView {
    asked_ns: u64,
    heard_ns: Option<u64>,
    answered_ns: Option<u64>,
    ended_ns: u64,
    end: &'static str,
    total_ns: Option<u64>,
    request_ns: Option<u64>,
    service_ns: Option<u64>,
    response_ns: Option<u64>,
    pause_ns: u64,
    request_bytes: u64,
    response_bytes: u64,
    request_writes: u32,
    request_reads: u32,
    response_writes: u32,
    response_reads: u32,
    asker_thread: u32,
    answerer_thread: u32,
    overlapped: bool,
}

impl RequestView {
    fn new(request: &Request) -> Self {
        let parts = request.parts();
        Self {
            asked_ns: request.asked_ns,
            heard_ns: request.heard.ns(),
            answered_ns: request.answered.ns(),
            ended_ns: request.ended_ns,
            end: request.end.name(),
            total_ns: request.total_ns(),
            request_ns: parts.map(|parts| parts.request_ns),
            service_ns: request.service_ns(),
            response_ns: parts.map(|parts| parts.response_ns),
            pause_ns: request.pause_ns,
            request_bytes: request.request_bytes,
            response_bytes: request.response_bytes,
            request_writes: request.request_writes,
            request_reads: request.request_reads,
            response_writes: request.response_writes,
            response_reads: request.response_reads,
            asker_thread: request.asker_thread,
            answerer_thread: request.answerer_thread,
            overlapped: request.is_overlapped,
        }
    }
}
