//! Any requests of any processes: the rules over several connections survive them, and their findings are in
//! order.

use proptest::prelude::*;
use sockscope_record::{ConnectionId, Process, Side};

use super::{Delays, find_across};
use crate::ranges::{are_in_order, total};
use crate::testing::analyze_all;
use crate::{
    Analysis, Conversation, Finding, Request, RequestEnd, Requests, UnreadRequest, nest_requests,
};

/// The processes and threads of a request, its times in milliseconds, and its end.
type Any = ([u32; 2], [u32; 3], [u64; 6], u8);

fn request((_, threads, times, end): &Any) -> Request {
    let [asked, heard, answered, ended, pause, _] = times.map(|ms| ms % 2_000 * 1_000_000);
    Request {
        asker_thread: threads[0] % 4,
        answerer_thread: threads[1] % 4,
        reader_thread: threads[2] % 4,
        pause_ns: pause / 4,
        request_bytes: times[5] % 100,
        is_overlapped: end % 16 == 0,
        ..Request::asked(asked, asked + ended, RequestEnd::ALL[usize::from(*end) % 7])
            .with_answer(Some(asked + heard / 2), Some(asked + answered))
    }
}

/// A connection for each list of requests, between the processes of its first one.
fn trace(lists: &[Vec<Any>]) -> Analysis {
    let mut analysis = analyze_all(&[("1 > 2", "1 1 +1")]);
    let first = analysis.connections.remove(0);
    for (list, id) in lists.iter().zip(1u32..) {
        let mut one = first.clone();
        one.connection.id = ConnectionId(id);
        let process = |pid: u32, side| Process::new(pid % 4, "", side);
        let pids = list[0].0;
        one.connection.processes =
            vec![process(pids[0], Side::Client), process(pids[1], Side::Server)];
        let mut requests: Vec<Request> = list.iter().map(request).collect();
        requests.sort_by_key(|request| request.asked_ns);
        let unread = requests.iter().zip(0u32..).filter_map(|(request, index)| {
            let arrived_ns = request.asked_ns;
            let lain_ns = request.heard.ns()?.saturating_sub(arrived_ns);
            (lain_ns >= UnreadRequest::LAIN_NS_MIN).then_some(UnreadRequest { index, arrived_ns })
        });
        one.unread_requests = unread.collect();
        one.requests = Requests {
            asked_by: Some(Side::Client),
            conversation: Conversation::Alternating,
            list: requests,
            left_out: 0,
        };
        one.findings.clear();
        analysis.connections.push(one);
    }
    let connections = analysis.connections.iter();
    analysis.nesting = nest_requests(connections.map(|one| (&one.connection, &one.requests)));
    analysis
}

proptest! {
    #[test]
    fn any_requests_are_survived(
        lists in prop::collection::vec(prop::collection::vec(any::<Any>(), 1..16), 1..8),
    ) {
        let mut analysis = trace(&lists);
        find_across(&mut analysis, &Delays::default());
        for finding in analysis.connections.iter().flat_map(|one| &one.findings) {
            let Finding { count, cost_ns, times, evidence, .. } = finding;
            prop_assert!(*count > 0);
            prop_assert!(are_in_order(times) && times.iter().all(|range| range.0 < range.1));
            prop_assert!(*cost_ns <= total(times), "{cost_ns} of {times:?}");
            prop_assert!(!evidence.is_empty() && evidence.len() <= Finding::EVIDENCE_MAX);
            prop_assert!(evidence.is_sorted_by_key(|one| one.at_ns));
        }
    }
}
