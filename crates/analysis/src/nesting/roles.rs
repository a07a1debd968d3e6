//! Services and asks: the requests of one process in both of its roles.
//!
//! A side of a connection that several processes use, as after fork(), has the requests of each whose thread has the
//! number of the process: its only thread, or its first one. Other requests of such a side belong to no process.

use std::ops::Range;

use sockscope_record::{Connection, ProcessKey, Side};

use super::links::RequestId;
use crate::{Request, RequestEnd, Requests, SeenEnds};

/// A request that a process serves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Service {
    pub id: RequestId,
    /// The service, from the read of the request on. Later than `from_ns`.
    pub from_ns: u64,
    /// The first byte of the response; without one, the end of the request.
    pub answered_ns: u64,
    /// The end of the service: of a response with pauses its end, else `answered_ns`.
    pub until_ns: u64,
    /// Of the response.
    pub pause_ns: u64,
    /// Threads that read the request and wrote its response; 0 if unknown.
    pub reader: u32,
    pub answerer: u32,
    pub is_answered: bool,
    /// It may be several requests that overlap.
    pub is_group: bool,
}

/// A request that a process makes of another one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub id: RequestId,
    pub at_ns: u64,
    pub until_ns: u64,
    /// 0 if unknown.
    pub thread: u32,
    /// The trace ended before it did.
    pub is_open: bool,
    /// The process asks itself.
    pub is_to_itself: bool,
}

/// A process at an end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Party {
    process: ProcessKey,
    /// Place of the connection.
    at: u32,
    /// Whether it answers there; else it asks.
    answers: bool,
    /// Whether it shares its side with other processes.
    is_shared: bool,
}

/// All processes at the ends of connections with requests.
pub(super) struct Parties<'a> {
    connections: Vec<(&'a Connection, &'a Requests)>,
    /// By process.
    parties: Vec<Party>,
}

impl<'a> Parties<'a> {
    pub(super) fn new(connections: Vec<(&'a Connection, &'a Requests)>) -> Self {
        let mut parties = Vec::new();
        for (at, (connection, requests)) in connections.iter().enumerate() {
            let Some(asker) = requests.asked_by else { continue };
            for side in [Side::Client, Side::Server] {
                let of_side = || connection.processes.iter().filter(|one| one.side == side);
                let is_shared = of_side().count() > 1;
                // Connections have 32-bit numbers.
                parties.extend(of_side().map(|process| Party {
                    process: process.key(),
                    at: at as u32,
                    answers: side != asker,
                    is_shared,
                }));
            }
        }
        parties.sort_unstable();
        parties.dedup();
        Self { connections, parties }
    }

    /// The places in `parties` of each process that both answers and asks. Of any other one nothing can be nested.
    pub(super) fn of_both_roles(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut start = 0;
        let processes =
            self.parties.chunk_by(|one, next| one.process == next.process).map(move |parties| {
                let process = start..start + parties.len();
                start = process.end;
                process
            });
        processes.filter(|process| {
            let parties = &self.parties[process.clone()];
            parties.iter().any(|party| party.answers) && parties.iter().any(|party| !party.answers)
        })
    }

    /// The services and the asks of the process, by connection and place.
    pub(super) fn requests_of(&self, process: Range<usize>) -> (Vec<Service>, Vec<Ask>) {
        let (mut services, mut asks) = (Vec::new(), Vec::new());
        for party in &self.parties[process] {
            let (connection, requests) = self.connections[party.at as usize];
            let is_its_own = |thread: u32| !party.is_shared || thread == party.process.1;
            for (index, request) in requests.list.iter().enumerate() {
                let id = RequestId { connection: connection.id, index: index as u32 };
                if party.answers {
                    let is_its_own =
                        is_its_own(request.answerer_thread) || is_its_own(request.reader_thread);
                    services.extend(service(id, request).filter(|_| is_its_own));
                } else if is_its_own(request.asker_thread) && is_awaited(request) {
                    let asker = requests.asked_by;
                    let is_other = |side: Side| Some(side) != asker;
                    let mut answerers =
                        connection.processes.iter().filter(|one| is_other(one.side));
                    let is_to_itself = answerers.any(|one| one.key() == party.process);
                    asks.push(ask(id, request, is_to_itself));
                }
            }
        }
        (services, asks)
    }
}

/// Whether its asker may wait for its end. No program waits for the end of a subscription.
fn is_awaited(request: &Request) -> bool {
    request.total_ns().is_some() && !request.is_subscription()
}

fn service(id: RequestId, request: &Request) -> Option<Service> {
    if request.seen == SeenEnds::Asker {
        return None;
    }
    request.heard.ns()?;
    let [from_ns, answered_ns] = request.limits();
    let until_ns = if request.pause_ns > 0 { request.ended_ns } else { answered_ns };
    (from_ns < until_ns).then_some(Service {
        id,
        from_ns,
        answered_ns,
        until_ns,
        pause_ns: request.pause_ns,
        reader: request.reader_thread,
        answerer: request.answerer_thread,
        is_answered: request.end == RequestEnd::Answered,
        is_group: request.is_overlapped,
    })
}

fn ask(id: RequestId, request: &Request, is_to_itself: bool) -> Ask {
    Ask {
        id,
        at_ns: request.asked_ns,
        until_ns: request.ended_ns,
        thread: request.asker_thread,
        is_open: request.end == RequestEnd::Open,
        is_to_itself,
    }
}
