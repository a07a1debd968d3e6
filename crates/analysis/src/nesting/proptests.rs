//! Random calls through a program with several threads: each of its services is divided without a rest, and each link
//! is one that the program made.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sockscope_record::{Connection, ConnectionId, Process, Side};

use super::*;
use crate::testing;
use crate::{Conversation, Request, RequestEnd};

const PROXY: u32 = 20;

/// One request of the proxy: its thread, the time of its read, its service time, and the upstream requests: for
/// each its delay, its duration, and whether another thread asked it.
#[derive(Debug, Clone)]
struct Call {
    thread: u32,
    at_ns: u64,
    service_ns: u64,
    upstream: Vec<(u64, u64, bool)>,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let upstream = prop::collection::vec((1..300u64, 0..500u64, any::<bool>()), 0..4);
    let call = (0..4u32, 1..2_000u64, 1..400u64, upstream).prop_map(
        |(thread, at_ns, service_ns, upstream)| {
            let upstream = upstream.into_iter().filter(|(after_ns, ..)| *after_ns < service_ns);
            Call { thread: 21 + thread, at_ns, service_ns, upstream: upstream.collect() }
        },
    );
    prop::collection::vec(call, 1..12)
}

fn one(id: u32, [client, server]: [u32; 2], request: Request) -> (Connection, Requests) {
    let process = |pid, side| Process::new(pid, "", side);
    let processes = vec![process(client, Side::Client), process(server, Side::Server)];
    let connection = Connection { id: ConnectionId(id), processes, ..testing::connection(id) };
    let list = vec![request];
    let conversation = Conversation::Alternating;
    (connection, Requests { asked_by: Some(Side::Client), conversation, list, left_out: 0 })
}

/// Each request on a connection of its own, and the connection of the request in which each is nested.
fn trace(calls: &[Call]) -> (Vec<(Connection, Requests)>, BTreeMap<u32, u32>) {
    let (mut trace, mut parents) = (Vec::new(), BTreeMap::new());
    for call in calls {
        let parent = trace.len() as u32 + 1;
        let answered_ns = call.at_ns + call.service_ns;
        let served = Request {
            answerer_thread: call.thread,
            reader_thread: call.thread,
            ..Request::asked(call.at_ns - 1, answered_ns + 1, RequestEnd::Answered)
                .with_answer(Some(call.at_ns), Some(answered_ns))
        };
        trace.push(one(parent, [10, PROXY], served));
        for &(after_ns, lasted_ns, is_workers) in &call.upstream {
            let asked_ns = call.at_ns + after_ns;
            let asker_thread = if is_workers { 99 } else { call.thread };
            let asked = Request {
                asker_thread,
                ..Request::asked(asked_ns, asked_ns + lasted_ns, RequestEnd::Answered)
            };
            let id = trace.len() as u32 + 1;
            trace.push(one(id, [PROXY, 30], asked));
            parents.insert(id, parent);
        }
    }
    (trace, parents)
}

fn nesting(trace: &[(Connection, Requests)]) -> Nesting {
    nest_requests(trace.iter().map(|(connection, requests)| (connection, requests)))
}

proptest! {
    #[test]
    fn own_and_nested_time_are_the_service(calls in calls()) {
        let (trace, _) = trace(&calls);
        let nesting = nesting(&trace);
        for (connection, requests) in &trace {
            let id = RequestId { connection: connection.id, index: 0 };
            let service_ns = requests.list[0].service_ns().unwrap();
            let time = nesting.time_of(id);
            prop_assert!(time.nested_ns + time.shared_ns <= service_ns);
            let own_ns = time.own_ns(service_ns);
            prop_assert_eq!(own_ns + time.nested_ns + time.shared_ns, service_ns);
            // By instants, without sets of times.
            let served = requests.list[0].limits();
            let children: Vec<Request> = nesting.children_of(id).iter().map(|link| {
                trace[link.child.connection.0 as usize - 1].1.list[0]
            }).collect();
            let is_open = |at_ns: &u64| {
                children.iter().any(|child| (child.asked_ns..child.ended_ns).contains(at_ns))
            };
            prop_assert_eq!((served[0]..served[1]).filter(is_open).count() as u64, time.nested_ns);
        }
    }

    #[test]
    fn each_link_is_one_that_the_program_made(calls in calls()) {
        let (trace, parents) = trace(&calls);
        for link in nesting(&trace).links() {
            let child = trace[link.child.connection.0 as usize - 1].1.list[0];
            // A worker's request may be of another call that begins and ends at the same times.
            let made = parents[&link.child.connection.0];
            prop_assert_eq!(link.parent.connection.0, made);
            let parent = trace[made as usize - 1].1.list[0];
            let served = parent.limits();
            prop_assert!(served[0] < child.asked_ns && child.asked_ns < served[1]);
        }
    }

    #[test]
    fn any_requests_are_survived(
        requests in prop::collection::vec((any::<[u64; 5]>(), any::<[u32; 3]>(), any::<[u8; 4]>()), 0..20),
    ) {
        let made = requests.iter().zip(1u32..).map(|((times, threads, bytes), id)| {
            let [asked, heard, answered, ended, pause] = times.map(|ns| ns % 500);
            let request = Request {
                asker_thread: threads[0] % 4,
                answerer_thread: threads[1] % 4,
                reader_thread: threads[2] % 4,
                pause_ns: pause,
                is_overlapped: bytes[0] == 0,
                ..Request::asked(asked, asked + ended, RequestEnd::ALL[bytes[1] as usize % 7])
                    .with_answer(Some(heard), Some(answered))
            };
            one(id, [u32::from(bytes[2] % 3), u32::from(bytes[3] % 3)], request)
        });
        let trace: Vec<_> = made.collect();
        let nesting = nesting(&trace);
        for (connection, requests) in &trace {
            let id = RequestId { connection: connection.id, index: 0 };
            let time = nesting.time_of(id);
            let service_ns = requests.list[0].service_ns().unwrap();
            prop_assert!(time.nested_ns + time.shared_ns <= service_ns);
            // No circle: going up ends.
            let mut up = id;
            for _ in 0..trace.len() {
                let Some(link) = nesting.parent_of(up) else { break };
                up = link.parent;
            }
            prop_assert!(nesting.parent_of(up).is_none());
        }
    }
}
