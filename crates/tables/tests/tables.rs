//! The tables against the analysis that they are made of.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, RecordBatch, RecordBatchReader};
use sockscope_analysis::{
    Analysis, Analyzer, Evidence, Finding, FindingId, Stores, TraceFacts, Uncertainty,
};
use sockscope_record::{
    Connection, ConnectionId, Container, ControlGroup, FlowId, Kind, Pod, Point, Process, Protocol,
    Record, Side, Stage, UnixName,
};
use sockscope_tables::{BATCH_ROWS, Table, Tables, WallClock, read_connections};
use sockscope_trace::{ClockSnapshot, Meta};

const CLIENT: FlowId = FlowId(2);
const SERVER: FlowId = FlowId(3);
/// Wall clock of the trace's time 0.
const EPOCH_NS: i64 = 1_700_000_000_000_000_000;

/// Three calls of 100 bytes, each answered by 300 bytes. A byte needs 1 us from point to point.
fn records() -> Vec<Record> {
    let mut records = Vec::new();
    for call in 0..3 {
        let asked_ns = 1_000_000 * (call + 1);
        message(&mut records, CLIENT, asked_ns, (100 * call, 100));
        message(&mut records, SERVER, asked_ns + 50_000, (300 * call, 300));
    }
    records
}

/// A write call with its bytes at all points, and the read.
fn message(records: &mut Vec<Record>, flow: FlowId, at_ns: u64, (offset, len): (u64, u32)) {
    let (writer, reader) = if flow == CLIENT { (11, 12) } else { (12, 11) };
    let one = Record { at_ns, flow, offset, len, ..Record::default() };
    records.push(Record { kind: Kind::WriteCall, thread: writer, ..one });
    for point in Point::ALL {
        let at_ns = at_ns + 1_000 * u64::from(point.number());
        let thread = match point {
            Point::SendEnqueue => writer,
            Point::ReceiveDequeue => reader,
            _ => 0,
        };
        records.push(Record { kind: point.into(), at_ns, thread, ..one });
    }
    records.push(Record { kind: Kind::WriteReturn, at_ns: at_ns + 8_500, thread: writer, ..one });
    records.push(Record { kind: Kind::ReadReturn, at_ns: at_ns + 9_000, thread: reader, ..one });
    records.sort_by_key(|record| record.at_ns);
}

fn analysed() -> (Analysis, Stores) {
    let mut analyzer = Analyzer::new();
    analyzer.push(&records());
    let process = |pid, comm: &str, side| Process::new(pid, comm, side);
    let container = Container { id: "c".repeat(64), name: Some("app".to_owned()) };
    let (namespace, name) = (Some("shop".to_owned()), None);
    let group = ControlGroup {
        path: "/kubepods/pod1/c".to_owned(),
        unit: None,
        container: Some(container),
        pod: Some(Pod { uid: "1".to_owned(), namespace, name }),
    };
    let group = Some(Arc::new(group));
    let teller = Process { group, ..process(8, "teller", Side::Server) };
    analyzer.connection(Connection {
        both_ends_here: true,
        processes: vec![process(7, "asker", Side::Client), teller],
        ..Connection::new(
            ConnectionId(1),
            Protocol::Tcp,
            [([127, 0, 0, 1], 40_000).into(), ([127, 0, 0, 1], 80).into()],
            500_000,
        )
    });
    analyzer.finish_keeping(TraceFacts::default(), NonZeroUsize::MIN)
}

fn clock() -> WallClock {
    let clock = vec![ClockSnapshot::new(0, EPOCH_NS.cast_unsigned())];
    WallClock::of(&Meta { clock, ..Meta::default() })
}

fn tables() -> Tables {
    let (analysis, stores) = analysed();
    Tables::new(analysis, stores, clock())
}

/// The only batch.
fn whole(table: Table) -> RecordBatch {
    let batches: Vec<RecordBatch> = table.map(|batch| batch.expect("rows of one schema")).collect();
    let [batch] = <[RecordBatch; 1]>::try_from(batches).expect("one batch");
    batch
}

fn wholes(batch: &RecordBatch, column: &str) -> Vec<i64> {
    options(batch, column).into_iter().map(|value| value.expect("a known value")).collect()
}

fn options(batch: &RecordBatch, column: &str) -> Vec<Option<i64>> {
    let column = batch.column_by_name(column).expect("the column is there");
    column.as_primitive::<Int64Type>().iter().collect()
}

fn reals(batch: &RecordBatch, column: &str) -> Vec<f64> {
    let column = batch.column_by_name(column).expect("the column is there");
    column.as_primitive::<Float64Type>().iter().flatten().collect()
}

fn words(batch: &RecordBatch, column: &str) -> Vec<String> {
    use arrow_array::types::Int16Type;
    let column =
        batch.column_by_name(column).expect("the column is there").as_dictionary::<Int16Type>();
    let words = column.values().as_string::<i32>();
    column.keys().iter().flatten().map(|key| words.value(key as usize).to_owned()).collect()
}

#[test]
fn a_table_may_go_to_another_thread_and_outlive_the_trace() {
    fn takes(reader: Box<dyn RecordBatchReader + Send>) -> usize {
        std::thread::spawn(move || reader.map(|batch| batch.expect("rows").num_rows()).sum())
            .join()
            .expect("it ends")
    }
    assert_eq!(takes(Box::new(tables().flows())), 2);
}

#[test]
fn a_connection_has_two_flows_with_their_bytes() {
    let batch = whole(tables().flows());
    assert_eq!(wholes(&batch, "flow"), [2, 3]);
    assert_eq!(wholes(&batch, "bytes"), [300, 900]);
    assert_eq!(words(&batch, "sender"), ["client", "server"]);
    assert_eq!(options(&batch, "client_pid"), [Some(7); 2]);
    assert_eq!(options(&batch, "closed_ns"), [None; 2]);
    let opened = batch.column_by_name("opened").expect("a wall clock");
    let opened = opened.as_primitive::<TimestampNanosecondType>();
    assert_eq!(opened.value(0), EPOCH_NS + 500_000);
}

#[test]
fn stages_have_the_distributions_of_the_analysis() {
    let tables = tables();
    let batch = whole(tables.stages());
    let stages = tables.analysis().connections[0].flows.iter().flat_map(|flow| &flow.stages);
    let p99: Vec<_> =
        stages.map(|stage| stage.delay_ns.map(|delay| delay.p99.cast_signed())).collect();
    assert_eq!(options(&batch, "delay_ns_p99"), p99);
    assert_eq!(p99[..2], [Some(1_000); 2]);
    assert_eq!(words(&batch, "stage")[7..9], ["total", "send_queue"]);
}

#[test]
fn the_ledger_of_a_flow_has_the_times_of_the_analysis_and_shares_that_add_up_to_1() {
    let tables = tables();
    let batch = whole(tables.ledger(None, None).expect("all flows"));
    let (flows, times) = (wholes(&batch, "flow"), wholes(&batch, "time_ns"));
    for flow in &tables.analysis().connections[0].flows {
        let ledger: Vec<_> = flow.ledger.ns.into_iter().filter(|ns| *ns > 0).collect();
        let own = flows.iter().zip(&times).filter(|(of, _)| **of == i64::from(flow.id.0));
        assert_eq!(own.map(|(_, ns)| ns.cast_unsigned()).collect::<Vec<_>>(), ledger);
    }
    let shares: f64 = reals(&batch, "share").iter().sum();
    assert!((shares - 2.0).abs() < 1e-12, "{shares}");
}

#[test]
fn the_intervals_of_a_ledger_add_up_to_it() {
    let tables = tables();
    let sums = |bins| {
        let batch = whole(tables.ledger(Some(CLIENT), bins).expect("a flow"));
        let mut sums = std::collections::BTreeMap::new();
        for (place, ns) in words(&batch, "place").into_iter().zip(wholes(&batch, "time_ns")) {
            *sums.entry(place).or_insert(0) += ns;
        }
        (sums, wholes(&batch, "interval").into_iter().max())
    };
    let (whole, divided) = (sums(None), sums(NonZeroU32::new(7)));
    assert_eq!((whole.1, divided.1), (Some(0), Some(6)));
    assert_eq!(whole.0, divided.0);
    assert!(whole.0.len() > 5, "{:?}", whole.0);
}

#[test]
fn a_curve_a_queue_and_the_delays_are_those_of_the_flow() {
    let tables = tables();
    let curve = whole(tables.curve(SERVER, Point::ReceiveDequeue).expect("a flow"));
    assert_eq!(wholes(&curve, "position"), [300, 600, 900]);
    assert_eq!(wholes(&curve, "at_ns"), [1_058_000, 2_058_000, 3_058_000]);
    let queue = whole(tables.queue(SERVER, Stage::Wire).expect("a flow"));
    assert_eq!(wholes(&queue, "length_bytes"), [300, 0, 300, 0, 300, 0]);
    let delays = whole(tables.delays(SERVER, Stage::Total).expect("a flow"));
    assert_eq!(wholes(&delays, "delay_ns"), [7_000; 3]);
    assert_eq!(wholes(&delays, "offset"), [0, 300, 600]);
}

#[test]
fn parts_of_an_exchange_add_up_to_its_total() {
    let batch = whole(tables().exchanges());
    assert_eq!(wholes(&batch, "flow"), [2, 2, 2]);
    let parts = ["request_ns", "service_ns", "response_ns"].map(|part| wholes(&batch, part));
    let sums: Vec<i64> = (0..3).map(|row| parts.iter().map(|part| part[row]).sum()).collect();
    assert_eq!(sums, wholes(&batch, "total_ns"));
    assert_eq!(wholes(&batch, "response_bytes"), [300; 3]);
}

#[test]
fn a_write_has_its_begin_and_a_read_only_its_return() {
    let batch = whole(tables().calls());
    assert_eq!(batch.num_rows(), 12);
    assert_eq!(words(&batch, "call")[..2], ["write", "read"]);
    assert_eq!(words(&batch, "side")[..2], ["client", "server"]);
    assert_eq!(options(&batch, "duration_ns")[..2], [Some(8_500), None]);
    assert_eq!(wholes(&batch, "bytes")[..2], [100, 100]);
}

#[test]
fn findings_have_their_times_and_evidence_in_tables_of_their_own() {
    let (mut analysis, stores) = analysed();
    let evidence = |at_ns| Evidence { at_ns, text: "a record".to_owned() };
    let finding = Finding {
        id: FindingId::NagleDelayedAck,
        flow: CLIENT,
        side: Side::Client,
        count: 2,
        connections: 1,
        cost_ns: 30,
        times: vec![(1_000_010, 1_000_020), (2_000_010, 2_000_030)],
        summary: "a summary, with a comma".to_owned(),
        evidence: vec![evidence(1_000_010)],
        fix: "a fix".to_owned(),
    };
    analysis.connections[0].findings = vec![finding.clone(), finding];
    let tables = Tables::new(analysis, stores, clock());
    let batch = whole(tables.findings());
    assert_eq!(wholes(&batch, "finding"), [1, 2]);
    assert_eq!(words(&batch, "name"), ["nagle-delayed-ack"; 2]);
    assert_eq!(wholes(&batch, "last_ns"), [2_000_030; 2]);
    let times = whole(tables.finding_times());
    assert_eq!(wholes(&times, "finding"), [1, 1, 2, 2]);
    assert_eq!(wholes(&times, "end_ns")[..2], [1_000_020, 2_000_030]);
    assert_eq!(wholes(&whole(tables.evidence()), "finding"), [1, 2]);
}

#[test]
fn a_stage_between_two_hosts_has_its_error() {
    let (mut analysis, stores) = analysed();
    let stages = &mut analysis.connections[0].flows[0].stages;
    stages[Stage::Wire as usize].uncertainty = Some(Uncertainty::AtMost(400));
    stages[Stage::Total as usize].uncertainty = Some(Uncertainty::Unknown);
    let batch = whole(Tables::new(analysis, stores, clock()).stages());
    let mut errors = vec![(None, false); 16];
    (errors[Stage::Wire as usize], errors[Stage::Total as usize]) =
        ((Some(400), false), (None, true));
    let is_unknown = batch.column_by_name("uncertainty_is_unknown").expect("the column is there");
    let is_unknown = is_unknown.as_boolean().iter().map(|it| it.expect("a flag"));
    let found: Vec<_> = options(&batch, "uncertainty_ns").into_iter().zip(is_unknown).collect();
    assert_eq!(found, errors);
}

#[test]
fn a_long_table_has_several_batches() {
    let (mut analysis, stores) = analysed();
    let list = &mut analysis.connections[0].requests.list;
    *list = vec![list[0]; BATCH_ROWS + 1];
    let table = Tables::new(analysis, stores, clock()).exchanges();
    let rows: Vec<usize> = table.map(|batch| batch.expect("rows").num_rows()).collect();
    assert_eq!(rows, [BATCH_ROWS, 1]);
}

#[test]
fn an_absent_flow_is_an_error_with_the_flows_that_are_there() {
    let error = tables().curve(FlowId(99), Point::SendEnqueue).expect_err("no such flow");
    assert_eq!(error.to_string(), "no flow 99 in this trace, which has flows 2 to 3");
}

#[test]
fn a_trace_without_a_wall_clock_has_no_times_since_1970() {
    let (analysis, stores) = analysed();
    let batch = whole(Tables::new(analysis, stores, WallClock::default()).exchanges());
    let asked = batch.column_by_name("asked").expect("the column is there");
    assert_eq!(asked.null_count(), batch.num_rows());
}

#[test]
fn the_connections_of_the_flows_are_those_of_the_trace() {
    let tables = tables();
    let read = read_connections(&whole(tables.flows())).expect("flows");
    assert_eq!(read, [tables.analysis().connections[0].connection.clone()]);
}

#[test]
fn the_names_of_unix_sockets_are_those_of_the_trace() {
    let ends = ["unix:7", "@abstract"].map(UnixName::new);
    let connection = Connection::of_unix(ConnectionId(1), Protocol::Unix, ends, 500_000);
    let mut analyzer = Analyzer::new();
    analyzer.push(&records());
    analyzer.connection(connection.clone());
    let (analysis, stores) = analyzer.finish_keeping(TraceFacts::default(), NonZeroUsize::MIN);
    let tables = Tables::new(analysis, stores, clock());
    assert_eq!(read_connections(&whole(tables.flows())).expect("flows"), [connection]);
}

/// The trace with the numbers of its hosts, as a merged one has them.
fn of_hosts(client: u32, server: u32) -> Tables {
    let (mut analysis, stores) = analysed();
    for process in &mut analysis.connections[0].connection.processes {
        process.host = if process.side == Side::Client { client } else { server };
    }
    Tables::new(analysis, stores, clock())
}

#[test]
fn rows_of_a_merged_trace_have_the_numbers_of_their_hosts() {
    let tables = of_hosts(1, 3);
    let flows = whole(tables.flows());
    assert_eq!(wholes(&flows, "client_host"), [1; 2]);
    assert_eq!(wholes(&flows, "server_host"), [3; 2]);
    let stages = whole(tables.stages());
    let names = words(&stages, "stage");
    let wire = names.iter().position(|it| it == "wire").expect("a stage");
    let total = names.iter().position(|it| it == "total").expect("a stage");
    let (enter, leave) = (wholes(&stages, "enter_host"), wholes(&stages, "leave_host"));
    assert_eq!([(enter[0], leave[0]), (enter[wire], leave[wire])], [(1, 1), (1, 3)]);
    assert_eq!((enter[total], leave[total]), (1, 3));
    let curve = whole(tables.curve(SERVER, Point::ReceiveDequeue).expect("a flow"));
    assert_eq!(wholes(&curve, "host"), [1; 3]);
    let curve = whole(tables.curve(SERVER, Point::InterfaceDequeue).expect("a flow"));
    assert_eq!(wholes(&curve, "host"), [3; 3]);
    let of_wire = [
        whole(tables.queue(SERVER, Stage::Wire).expect("a flow")),
        whole(tables.delays(SERVER, Stage::Wire).expect("a flow")),
    ];
    for rows in &of_wire {
        let hosts: Vec<_> =
            wholes(rows, "enter_host").into_iter().zip(wholes(rows, "leave_host")).collect();
        assert!(!hosts.is_empty() && hosts.iter().all(|hosts| *hosts == (3, 1)), "{hosts:?}");
    }
    let calls = whole(tables.calls());
    let sides = words(&calls, "side");
    let hosts = wholes(&calls, "host");
    assert!(!hosts.is_empty());
    for (side, host) in sides.iter().zip(hosts) {
        assert_eq!(host, if side == "client" { 1 } else { 3 });
    }
    // The number of a host that no process shows is not known.
    let flows = whole(of_hosts(0, 2).flows());
    assert_eq!(options(&flows, "client_host"), [None; 2]);
    assert_eq!(options(&whole(of_hosts(0, 0).stages()), "enter_host")[0], None);
}
