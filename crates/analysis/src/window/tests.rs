//! Windows over small traces, and over random streams.

use proptest::prelude::*;
use sockscope_record::{Connection, ConnectionId, Direction, FlowId, Loss, Point, Record, marks};

use super::Window;
use crate::testing::{call, connection, records};
use crate::trace_proptests::{plans, send};
use crate::{Analysis, Analyzer, ConnectionAnalysis, Ledger, LedgerPart, RequestEnd, TraceFacts};

const MS: u64 = 1_000_000;

fn window(text: &str) -> Window {
    window_of(connection(1), text)
}

fn window_of(connection: Connection, text: &str) -> Window {
    let mut window = Window::new();
    window.connection(connection);
    window.push(&records(text));
    window
}

/// The analysis of connection 1 from `since_ns` on, until `now_ns`.
fn slice(window: &mut Window, since_ns: u64, now_ns: u64) -> ConnectionAnalysis {
    window.forget_before(since_ns);
    let analysis = window.refresh(TraceFacts::default(), Some(now_ns));
    analysis.connections[0].clone()
}

/// Places of the client's flow with their milliseconds.
fn places(one: &ConnectionAnalysis) -> Vec<(LedgerPart, u64)> {
    let ledger = &one.flows[0].ledger;
    let parts = LedgerPart::ALL.into_iter().map(|part| (part, ledger.ns[part as usize] / MS));
    parts.filter(|(_, ms)| *ms > 0).collect()
}

fn whole(connections: &[Connection], records: &[Record]) -> Analysis {
    let mut analyzer = Analyzer::new();
    connections.iter().for_each(|one| analyzer.connection(one.clone()));
    analyzer.push(records);
    analyzer.finish(TraceFacts::default())
}

#[test]
fn a_byte_that_stays_unread_has_its_place_in_each_slice() {
    let mut window = window("10ms 1-7 +100");
    assert_eq!(places(&slice(&mut window, 0, 50 * MS)), [(LedgerPart::ReceiveApp, 40)]);
    assert_eq!(places(&slice(&mut window, 50 * MS, 80 * MS)), [(LedgerPart::ReceiveApp, 30)]);
    window.push(&records("90ms 8 +100"));
    let read = slice(&mut window, 80 * MS, 130 * MS);
    assert_eq!(places(&read), [(LedgerPart::AppIdle, 40), (LedgerPart::ReceiveApp, 10)]);
    assert_eq!(places(&slice(&mut window, 130 * MS, 200 * MS)), [(LedgerPart::AppIdle, 70)]);
    assert_eq!(places(&slice(&mut window, 200 * MS, 210 * MS)), [(LedgerPart::AppIdle, 10)]);
}

#[test]
fn the_reason_of_the_send_queue_stays_known() {
    let mut window = window("1ms 1-8 +100 nagle | 5ms 1 +50 nagle");
    assert_eq!(
        slice(&mut window, 4 * MS, 20 * MS).flows[0].ledger.ns[LedgerPart::SendNagle as usize],
        15 * MS
    );
    assert_eq!(places(&slice(&mut window, 20 * MS, 60 * MS)), [(LedgerPart::SendNagle, 40)]);
}

#[test]
fn records_of_read_bytes_are_dropped_and_those_of_unread_ones_stay() {
    let mut window = window("1ms 1-8 +100 | 2ms 1-8 +100 | 3ms 1-8 +100 | 4ms 1-7 +100");
    assert_eq!(window.records(), 31);
    window.forget_before(10 * MS);
    // The fourth write at points 1 to 7.
    assert_eq!(window.records(), 7);
    let analysis = window.refresh(TraceFacts::default(), None);
    assert_eq!(analysis.records, 7);
}

#[test]
fn an_option_stays_until_another_value_is_set() {
    let option = |at: &str, value| format!("{at} option extra=393217 detail={value}");
    let text = format!("{} | {} | 3ms 1-8 +100", option("1ms", 0), option("2ms", 1));
    let mut window = window(&text);
    window.forget_before(10 * MS);
    let events = &window.store(ConnectionId(1)).unwrap().flows[0].events;
    assert_eq!(events.iter().map(|event| event.detail).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_connection_that_closed_before_the_window_is_dropped() {
    let closed = Connection { closed_ns: Some(5 * MS), ..connection(1) };
    let mut window = window_of(closed, "1ms 1-8 +100");
    window.forget_before(4 * MS);
    assert_eq!(window.refresh(TraceFacts::default(), None).connections.len(), 1);
    window.forget_before(6 * MS);
    assert_eq!(window.refresh(TraceFacts::default(), None).connections.len(), 0);
    assert_eq!(window.records(), 0);
}

#[test]
fn an_idle_connection_is_set_aside_until_its_next_record() {
    let mut all =
        records("10ms 1-8 +100 | 12ms <1-8 +90 | 90ms 1-7 +100 | 210ms 8 +100 | 211ms <1-8 +90");
    let mut window = Window::of_active();
    window.connection(connection(1));
    let mut busy = |window: &mut Window, since_ms: u64, now_ms: u64| {
        let later = all.split_off(all.partition_point(|record| record.at_ns <= now_ms * MS));
        window.push(&std::mem::replace(&mut all, later));
        window.forget_before(since_ms * MS);
        let analysis = window.refresh(TraceFacts::default(), Some(now_ms * MS));
        analysis.connections.first().map(places)
    };
    assert_eq!(busy(&mut window, 0, 50), Some(vec![(LedgerPart::AppIdle, 40)]));
    assert_eq!(busy(&mut window, 50, 80), None);
    assert!(window.store(ConnectionId(1)).is_some(), "it is still known");
    let unread = vec![(LedgerPart::AppIdle, 10), (LedgerPart::ReceiveApp, 40)];
    assert_eq!(busy(&mut window, 80, 130), Some(unread));
    assert_eq!(busy(&mut window, 130, 200), Some(vec![(LedgerPart::ReceiveApp, 70)]));
    busy(&mut window, 200, 220);
    assert_eq!(busy(&mut window, 220, 230), None);
    // Its end is the last that is heard of it.
    window.connection(Connection { closed_ns: Some(240 * MS), ..connection(1) });
    busy(&mut window, 230, 250);
    assert_eq!(busy(&mut window, 250, 260), None);
    assert_eq!((window.records(), window.store(ConnectionId(1)).is_none()), (0, true));
}

#[test]
fn an_open_request_is_as_old_as_its_trace() {
    let mut window = window("1ms 1-8 +100 thread=7");
    window.connection(connection(2));
    let open_ns = |window: &mut Window| {
        let analysis = window.refresh(TraceFacts::default(), None);
        let request = &analysis.connections[0].requests.list[0];
        assert_eq!(request.end, RequestEnd::Open);
        request.ended_ns - request.asked_ns
    };
    assert_eq!(open_ns(&mut window), 0);
    let later = records("9ms 1-8 +10").into_iter();
    let later: Vec<_> =
        later.map(|it| Record { flow: ConnectionId(2).flow(it.flow.direction()), ..it }).collect();
    window.push(&later);
    assert_eq!(open_ns(&mut window), 8 * MS);
}

#[test]
fn a_trace_that_goes_on_has_not_ended() {
    let text = "10ms 1-7 +50 thread=7 | 11ms 8 +50 thread=8";
    let one = slice(&mut window(text), 0, 1_010 * MS);
    let finding = &one.findings[0];
    insta::assert_snapshot!(finding.summary, @"The server read the request (50 bytes) and had not answered yet, 1.00 s after it was asked.");
    assert_eq!(finding.evidence.last().expect("it has evidence").text, "no answer until then");
    let unread = slice(&mut window("10ms 1-7 +50 thread=7"), 0, 1_010 * MS);
    insta::assert_snapshot!(unread.findings[0].summary, @"The server had not read the request (50 bytes) yet, 1.00 s after it was asked.");
    let ended = TraceFacts { ended_ns: Some(1_010 * MS), ..TraceFacts::default() };
    let mut whole = window(text);
    let summary = &whole.refresh(ended, None).connections[0].findings[0].summary;
    insta::assert_snapshot!(summary, @"The server read the request (50 bytes) and had not answered when the trace ended, 1.00 s after it was asked.");
}

#[test]
fn a_request_waits_for_its_answer_in_each_slice() {
    let mut window = window("10ms 1-7 +50 thread=7 | 11ms 8 +50 thread=8");
    let mut waited_ms = |since_ms: u64, now_ms: u64| {
        let one = slice(&mut window, since_ms * MS, now_ms * MS);
        let request = one.requests.list.first().expect("it is asked");
        (request.end, (request.ended_ns - request.asked_ns) / MS)
    };
    assert_eq!(waited_ms(0, 1_010), (RequestEnd::Open, 1_000));
    assert_eq!(waited_ms(1_010, 2_010), (RequestEnd::Open, 2_000));
    assert_eq!(waited_ms(2_010, 3_010), (RequestEnd::Open, 3_000));
    window.push(&records("3300ms <1-7 +90 thread=8 | 3301ms <8 +90 thread=7"));
    let one = slice(&mut window, 3_010 * MS, 4_000 * MS);
    let request = &one.requests.list[0];
    assert_eq!((request.end, request.ended_ns / MS), (RequestEnd::Answered, 3_301));
    assert_eq!(slice(&mut window, 4_000 * MS, 5_000 * MS).requests.list.len(), 0);
}

#[test]
fn records_that_arrive_late_stand_in_time_order_in_each_list() {
    let mut window = window("10ms 1-8 +100 | 30ms 1-8 +100 | 31ms wakeup");
    window.refresh(TraceFacts::default(), Some(40 * MS));
    let late = records("35ms 1-8 200..300 | 20ms 1-8 300..400 | 21ms wakeup");
    window.push(&late);
    window.refresh(TraceFacts::default(), Some(40 * MS));
    let flow = window.store(ConnectionId(1)).unwrap().flow(Direction::FromClient);
    let sent: Vec<u64> = flow.at(Point::SendEnqueue).iter().map(|pass| pass.at_ns / MS).collect();
    assert_eq!(sent, [10, 20, 30, 35]);
    assert!(flow.passages.iter().all(|list| list.is_sorted_by_key(|pass| pass.at_ns)));
    assert!(flow.events.len() > 1 && flow.events.is_sorted_by_key(|event| event.at_ns));
}

#[test]
fn the_memory_is_that_of_the_window() {
    let mut window = Window::new();
    window.connection(connection(1));
    let mut most = 0;
    for second in 0..50 {
        for number in 0..100 {
            let at_us = second * 1_000_000 + number * 10_000;
            let call = call([at_us + 1, at_us + 20, at_us + 40, at_us + 90], [7, 8]);
            window.push(&on_from(&call, second * 100 + number));
        }
        window.forget_before(second * 1_000 * MS);
        let analysis = window.refresh(TraceFacts::default(), Some((second + 1) * 1_000 * MS));
        assert_eq!(analysis.connections[0].requests.list.len(), 100);
        most = most.max(window.records());
    }
    assert!(most <= 100 * 16 + 16, "{most} records");
}

#[test]
fn data_that_a_layer_takes_away_does_not_stay_in_memory() {
    let mut window = window("1ms <layer code=2 | 10ms 1-7 +100 | 11ms <2-6 ack=100");
    window.forget_before(50 * MS);
    // The last segment at each of the points 2 to 6 stays, and the layer.
    assert_eq!(window.records(), 11);
    let seen = slice(&mut window, 50 * MS, 80 * MS);
    assert_eq!(seen.layers.len(), 1);
    assert_eq!(places(&seen), [(LedgerPart::Unknown, 30)]);
}

/// The first lines of two analyses that differ; `None` where they are equal.
fn first_difference(one: &Analysis, other: &Analysis) -> Option<(String, String)> {
    if one == other {
        return None;
    }
    let [one, other] = [one, other].map(|analysis| format!("{analysis:#?}"));
    let mut lines = one.lines().zip(other.lines());
    let differ = lines.find(|(one, other)| one != other).unwrap_or((&one, &other));
    Some((differ.0.to_owned(), differ.1.to_owned()))
}

/// The records of a call at the positions of the `number`th one.
fn on_from(call: &str, number: u64) -> Vec<Record> {
    let moved = |record: Record| {
        let bytes = if record.flow.direction() as usize == 0 { 50 } else { 90 };
        Record { offset: record.offset + number * bytes, ..record }
    };
    records(call).into_iter().map(moved).collect()
}

proptest! {
    #[test]
    fn any_batches_give_the_analysis_of_the_whole_trace(
        plans in prop::collection::vec(plans(), 1..4),
        sizes in prop::collection::vec(1usize..60, 1..20),
    ) {
        let connections: Vec<_> = (1..=plans.len() as u32).map(connection).collect();
        let mut all: Vec<Record> = connections.iter().zip(&plans).flat_map(|(one, plan)| {
            let direction = |record: &Record| record.flow.direction();
            let own = move |it: Record| Record { flow: one.id.flow(direction(&it)), ..it };
            send(plan).records.into_iter().map(own)
        }).collect();
        all.sort_by_key(|record| record.at_ns);
        let mut window = Window::new();
        let mut sizes = sizes.into_iter().cycle();
        let mut at = 0;
        for one in &connections {
            window.connection(one.clone());
        }
        while at < all.len() {
            let end = (at + sizes.next().unwrap()).min(all.len());
            window.push(&all[at..end]);
            at = end;
            let analysis = window.refresh(TraceFacts::default(), None);
            prop_assert_eq!(first_difference(analysis, &whole(&connections, &all[..end])), None);
        }
    }

    #[test]
    fn a_window_of_active_connections_leaves_out_those_in_which_nothing_happens(
        plans in prop::collection::vec(plans(), 1..4),
        starts in prop::collection::vec(0u64..20_000_000, 3),
        cuts in prop::collection::vec(1u64..5_000_000, 1..12),
    ) {
        let connections: Vec<_> = (1..=plans.len() as u32).map(connection).collect();
        let streams = connections.iter().zip(&plans).zip(starts);
        let mut stream: Vec<Record> = streams.flat_map(|((one, plan), start_ns)| {
            let id = one.id;
            let own = move |it: Record| {
                Record { flow: id.flow(it.flow.direction()), at_ns: it.at_ns + start_ns, ..it }
            };
            send(plan).records.into_iter().map(own)
        }).collect();
        stream.sort_by_key(|record| record.at_ns);
        let (mut all, mut active) = (Window::new(), Window::of_active());
        for one in &connections {
            all.connection(one.clone());
            active.connection(one.clone());
        }
        let mut since_ns = stream[0].at_ns;
        let mut taken = 0;
        for cut in cuts.into_iter().chain([60_000_000, 1_000_000]) {
            let now_ns = since_ns + cut;
            let until = stream.partition_point(|record| record.at_ns <= now_ns);
            let [all, active] = [&mut all, &mut active].map(|window| {
                window.push(&stream[taken..until]);
                window.forget_before(since_ns);
                window.refresh(TraceFacts::default(), Some(now_ns)).connections.clone()
            });
            (taken, since_ns) = (until, now_ns);
            for mut one in all {
                let id = one.connection.id;
                match active.iter().find(|it| it.connection.id == id) {
                    Some(same) => {
                        // Records are dropped later, and with them its beginning.
                        one.connection.preexisting = same.connection.preexisting;
                        prop_assert_eq!(&one, same);
                    }
                    None => {
                        prop_assert!(one.findings.is_empty());
                        let is_still = |ledger: &Ledger| ledger.ns.iter().filter(|ns| **ns > 0).count() <= 1;
                        prop_assert!(one.flows.iter().all(|flow| is_still(&flow.ledger)));
                    }
                }
            }
        }
    }

    #[test]
    fn slices_add_up_to_the_whole_ledger(plan in plans(), cuts in prop::collection::vec(1u64..3_000_000, 1..6)) {
        let stream = send(&plan);
        let connections = [connection(1)];
        let expected = whole(&connections, &stream.records);
        let end_ns = expected.end_ns();
        let mut window = Window::new();
        window.connection(connection(1));
        let mut sum = Ledger::default();
        let (mut since_ns, mut taken) = (expected.start_ns, 0);
        // Before every point was seen once, its place is unknown to a slice.
        let seen_ns = Point::ALL.map(|point| {
            let mut records = stream.records.iter();
            records.find(|record| record.point() == Some(point)).map_or(0, |it| it.at_ns)
        });
        let warm_ns = seen_ns.into_iter().max().unwrap_or(0) - since_ns;
        let cuts = std::iter::once(warm_ns).chain(cuts);
        for now_ns in cuts.scan(since_ns, |at, cut| { *at += cut; Some(*at) }).chain([end_ns]) {
            let now_ns = now_ns.min(end_ns);
            let until = stream.records.partition_point(|record| record.at_ns <= now_ns);
            window.push(&stream.records[taken..until]);
            taken = until;
            window.forget_before(since_ns);
            let analysis = window.refresh(TraceFacts::default(), Some(now_ns));
            for (sum, ns) in sum.ns.iter_mut().zip(analysis.connections[0].flows[0].ledger.ns) {
                *sum += ns;
            }
            since_ns = now_ns;
        }
        let slices = &sum;
        prop_assert_eq!(slices, &expected.connections[0].flows[0].ledger);
    }
}

#[test]
fn a_loss_of_others_touches_their_connections_alone() {
    let [theirs, own] = [1, 2].map(ConnectionId);
    let loss = |at_ns, marks, flow| {
        let record = Record { at_ns, flow, marks, ..Record::default() };
        record.with_loss(Loss::new(Some(Point::InputDequeue), 1, 0))
    };
    let mut window = Window::new();
    window.push(&[
        loss(30, marks::OF_OTHERS, FlowId::default()),
        loss(20, 0, FlowId::default()),
        loss(10, marks::OF_OTHERS, theirs.flow(Direction::FromClient)),
    ]);
    window.refresh(TraceFacts::default(), None);
    let ends = |id| window.losses_of(id).iter().map(|loss| loss.end_ns).collect::<Vec<_>>();
    assert_eq!((ends(own), ends(theirs)), (vec![20], vec![20, 30]));
}
