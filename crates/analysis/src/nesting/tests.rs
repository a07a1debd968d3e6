//! Nested requests of small traces, as `analyze_all` takes them. Requests are named `CONNECTION.NUMBER`, both from 1
//! on. Times are microseconds.

use super::*;
use crate::testing::{analyze_all, call};
use insta::assert_snapshot;

/// The links, then the division of each service that is not all its answerer's own.
fn nested(connections: &[(&str, &str)]) -> String {
    let analysis = analyze_all(connections);
    let name = |id: RequestId| format!("{}.{}", id.connection.0, id.index + 1);
    let links = analysis.nesting.links().iter().map(|link| {
        assert_eq!(analysis.nesting.parent_of(link.child), Some(link));
        assert!(analysis.nesting.children_of(link.parent).contains(link));
        format!("{} in {} by {}", name(link.child), name(link.parent), link.certainty.name())
    });
    let mut lines: Vec<String> = links.collect();
    for connection in &analysis.connections {
        for (index, request) in connection.requests.list.iter().enumerate() {
            let id = RequestId { connection: connection.connection.id, index: index as u32 };
            let time = analysis.nesting.time_of(id);
            if time == NestedTime::default() {
                continue;
            }
            let service_ns = request.service_ns().expect("it was served");
            let parts = [time.own_ns(service_ns), time.nested_ns, time.shared_ns];
            assert_eq!(parts.iter().sum::<u64>(), service_ns);
            let [own, nested, shared] = parts.map(|ns| ns / 1_000);
            lines.push(format!("{}: own {own}, nested {nested}, unknown {shared}", name(id)));
        }
    }
    lines.join("\n")
}

#[test]
fn a_chain_of_three_has_its_time_at_its_end() {
    let proxied = call([100, 120, 2_000, 2_010], [7, 8]);
    let served = call([150, 170, 1_900, 1_910], [8, 9]);
    let queried = call([200, 210, 1_800, 1_820], [9, 10]);
    assert_snapshot!(nested(&[("7 > 8", &proxied), ("8 > 9", &served), ("9 > 10", &queried)]), @r"
    2.1 in 1.1 by thread
    3.1 in 2.1 by thread
    1.1: own 120, nested 1760, unknown 0
    2.1: own 110, nested 1620, unknown 0
    ");
}

#[test]
fn a_proxy_between_two_other_hosts_has_its_own_time() {
    let asked = "100us 5-7 +50 | 120us 8 +50 thread=8 | 2000us <1-4 +90 thread=8";
    let upstream = "150us 1-4 +50 thread=8 | 1900us <5-7 +90 | 1910us <8 +90 thread=8";
    assert_snapshot!(nested(&[("? > 8", asked), ("8 > ?", upstream)]), @r"
    2.1 in 1.1 by thread
    1.1: own 120, nested 1760, unknown 0
    ");
}

#[test]
fn processes_of_two_hosts_with_one_number_are_two() {
    let asked = call([100, 120, 2_000, 2_010], [7, 8]);
    let upstream = call([150, 170, 1_900, 1_910], [8, 9]);
    let of = |client: &str| nested(&[("1/7 > 2/8", &asked), (client, &upstream)]);
    assert_eq!(of("1/8 > 3/9"), "");
    assert!(of("2/8 > 3/9").starts_with("2.1 in 1.1 by thread"));
}

#[test]
fn requests_at_the_same_time_count_once() {
    let asked = call([100, 120, 1_000, 1_010], [7, 8]);
    let [first, second] = [[200, 210, 500, 510], [300, 310, 700, 710]];
    let upstream = [call(first, [8, 9]), call(second, [8, 9])];
    assert_snapshot!(nested(&[("7 > 8", &asked), ("8 > 9", &upstream[0]), ("8 > 9", &upstream[1])]), @r"
    2.1 in 1.1 by thread
    3.1 in 1.1 by thread
    1.1: own 370, nested 510, unknown 0
    ");
}

#[test]
fn threads_of_one_process_have_their_own_requests() {
    let first = call([100, 120, 1_000, 1_010], [7, 21]);
    let second = call([110, 130, 2_000, 2_010], [7, 22]);
    let of_second = call([200, 210, 1_900, 1_910], [22, 9]);
    assert_snapshot!(nested(&[("7 > 8", &first), ("7 > 8", &second), ("8 > 9", &of_second)]), @r"
    3.1 in 2.1 by thread
    2.1: own 160, nested 1710, unknown 0
    ");
}

#[test]
fn an_event_loop_that_serves_two_at_once_tells_nothing() {
    let first = call([100, 120, 1_000, 1_010], [7, 8]);
    let second = call([110, 130, 2_000, 2_010], [7, 8]);
    let asked = call([200, 210, 900, 910], [8, 9]);
    assert_snapshot!(nested(&[("7 > 8", &first), ("7 > 8", &second), ("8 > 9", &asked)]), @r"
    1.1: own 170, nested 0, unknown 710
    2.1: own 1160, nested 0, unknown 710
    ");
}

#[test]
fn a_worker_that_serves_nothing_itself_works_for_the_one_request() {
    let one = call([100, 120, 1_000, 1_010], [7, 8]);
    let asked = call([200, 210, 900, 910], [30, 9]);
    assert_snapshot!(nested(&[("7 > 8", &one), ("8 > 9", &asked)]), @r"
    2.1 in 1.1 by process
    1.1: own 170, nested 710, unknown 0
    ");
    let other = call([110, 130, 1_000, 1_010], [7, 22]);
    assert_snapshot!(nested(&[("7 > 8", &one), ("8 > 9", &asked), ("7 > 8", &other)]), @r"
    1.1: own 170, nested 0, unknown 710
    3.1: own 160, nested 0, unknown 710
    ");
}

#[test]
fn a_thread_that_asks_while_nothing_is_served_works_for_itself() {
    let one = call([100, 120, 1_000, 1_010], [7, 8]);
    let beats =
        format!("{} | {}", call([10, 20, 30, 40], [30, 9]), call([200, 210, 900, 910], [30, 9]));
    assert_snapshot!(nested(&[("7 > 8", &one), ("8 > 9", &beats)]), @"");
}

#[test]
fn a_thread_that_has_answered_its_own_request_is_not_in_another_one() {
    let first = call([100, 120, 150, 160], [7, 21]);
    let second = call([110, 130, 2_000, 2_010], [7, 22]);
    let after = call([200, 210, 900, 910], [21, 9]);
    assert_snapshot!(nested(&[("7 > 8", &first), ("7 > 8", &second), ("8 > 9", &after)]), @"");
}

#[test]
fn where_requests_move_between_threads_only_the_process_tells() {
    // Thread 21 reads the requests that 22 answers, and 22 reads those that 21 answers.
    let moved = |at: u64, reader: u32, answerer: u32| {
        let text = call([at, at + 10, at + 900, at + 910], [7, answerer]);
        text.replacen(&format!("thread={answerer}"), &format!("thread={reader}"), 1)
    };
    let (first, second) = (moved(100, 21, 22), moved(2_000, 22, 21));
    let asked = call([2_100, 2_110, 2_500, 2_510], [22, 9]);
    assert_snapshot!(nested(&[("7 > 8", &first), ("7 > 8", &second), ("8 > 9", &asked)]), @r"
    3.1 in 2.1 by process
    2.1: own 480, nested 410, unknown 0
    ");
    let second = moved(110, 22, 21);
    let asked = call([200, 210, 500, 510], [22, 9]);
    assert_snapshot!(nested(&[("7 > 8", &first), ("7 > 8", &second), ("8 > 9", &asked)]), @r"
    1.1: own 580, nested 0, unknown 310
    2.1: own 580, nested 0, unknown 310
    ");
}

#[test]
fn of_several_processes_at_one_end_each_has_what_its_thread_did() {
    let served = call([100, 120, 1_000, 1_010], [7, 81]);
    let asked = call([200, 210, 900, 910], [81, 9]);
    assert_snapshot!(nested(&[("7 > 80, 81", &served), ("80, 81 > 9", &asked)]), @r"
    2.1 in 1.1 by thread
    1.1: own 170, nested 710, unknown 0
    ");
    let of_other = call([200, 210, 900, 910], [80, 9]);
    assert_snapshot!(nested(&[("7 > 80, 81", &served), ("80, 81 > 9", &of_other)]), @"");
}

#[test]
fn callers_in_the_process_of_their_server_are_not_nested_in_its_requests() {
    let first = call([100, 120, 1_000, 1_010], [70, 71]);
    let second = call([110, 130, 1_100, 1_110], [72, 73]);
    assert_snapshot!(nested(&[("7 > 7", &first), ("7 > 7", &second)]), @"");
}

#[test]
fn a_request_that_is_asked_of_the_same_process_by_the_serving_thread_is_nested() {
    let first = call([100, 120, 1_000, 1_010], [6, 71]);
    let itself = call([200, 210, 800, 810], [71, 72]);
    assert_snapshot!(nested(&[("6 > 7", &first), ("7 > 7", &itself)]), @r"
    2.1 in 1.1 by thread
    1.1: own 270, nested 610, unknown 0
    ");
}

#[test]
fn a_hang_behind_a_proxy_that_its_caller_gives_up_is_nested() {
    let asked = "100us 1-7 +50 thread=7 | 120us 8 +50 thread=8 | 2000ms 3-6 fin";
    let upstream = "200us 1-7 +50 thread=8 | 210us 8 +50 thread=9 | 2001ms 3-6 fin";
    assert_snapshot!(nested(&[("7 > 8", asked), ("8 > 9", upstream)]), @r"
    2.1 in 1.1 by thread
    1.1: own 80, nested 1999800, unknown 0
    ");
}

#[test]
fn nobody_waits_for_what_is_open_at_the_end_of_the_trace_after_the_answer() {
    let asked = call([100, 120, 1_000, 1_010], [7, 8]);
    let left = "200us 1-7 +50 thread=8 | 210us 8 +50 thread=9 | 9ms <3-6";
    assert_snapshot!(nested(&[("7 > 8", &asked), ("8 > 9", left)]), @"");
}

#[test]
fn a_response_that_is_passed_on_as_it_comes_has_the_pauses_of_the_upstream() {
    let chunk = |at: u64, [writer, reader]: [u32; 2]| {
        format!("{at}us <1-7 +10 thread={writer} | {}us <8 +10 thread={reader}", at + 5)
    };
    let asked = "100us 1-7 +50 thread=7 | 120us 8 +50 thread=8";
    let proxied = format!("{asked} | {} | {}", chunk(420, [8, 7]), chunk(920, [8, 7]));
    let asked = "200us 1-7 +50 thread=8 | 210us 8 +50 thread=9";
    let upstream = format!("{asked} | {} | {}", chunk(400, [9, 8]), chunk(900, [9, 8]));
    // Own are 120 to 200, and 905 to 920. Of the pauses only the sum is known: 5 of it count as nested.
    assert_snapshot!(nested(&[("7 > 8", &proxied), ("8 > 9", &upstream)]), @r"
    2.1 in 1.1 by thread
    1.1: own 90, nested 705, unknown 0
    ");
}
