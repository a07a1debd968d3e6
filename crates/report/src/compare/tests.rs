//! The comparison of runs made by hand, in every format.

use proptest::prelude::*;
use sockscope_analysis::{
    Analysis, Analyzer, Conversation, Finding, Request, RequestEnd, Requests, TraceFacts,
};
use sockscope_record::{Point, Side};

use super::change::Change;
use super::comparison::{Presence, findings, has_exchanges};
use super::json::CompareView;
use super::*;
use crate::fixture::{absurd, empty, fixed, hostile, many, stall, unknown_everything};
use crate::json::check_schema_file;
use crate::{Charset, Options};

/// The analysis with 200 exchanges that took around this time.
fn with_exchanges(mut analysis: Analysis, ns: u64) -> Analysis {
    let list = (0..200).map(|index| {
        let asked_ns = 5_000_000_000 + index * 50_000_000;
        Request::asked(asked_ns, asked_ns + ns + index * ns / 1000, RequestEnd::Answered)
    });
    analysis.connections[0].requests = Requests {
        asked_by: Some(Side::Client),
        conversation: Conversation::Alternating,
        list: list.collect(),
        left_out: 0,
    };
    analysis
}

fn before() -> Analysis {
    with_exchanges(stall(), 40_000_000)
}

fn after() -> Analysis {
    with_exchanges(fixed(), 110_000)
}

fn comparison(runs: &[&Analysis]) -> Comparison {
    let names = ["before.sockscope", "after.sockscope", "later", "d", "e", "f"];
    let rounds: Vec<[&Analysis; 1]> = runs.iter().map(|run| [*run]).collect();
    let runs = rounds.iter().zip(names).map(|(rounds, name)| Compared { name, rounds });
    Comparison::of(&runs.collect::<Vec<_>>())
}

fn text(runs: &[&Analysis], options: &Options) -> String {
    let mut out = Vec::new();
    write_compare(&comparison(runs), options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The text without its breaks of lines.
fn said(runs: &[&Analysis]) -> String {
    text(runs, &Options::default()).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn csv(runs: &[&Analysis]) -> String {
    let mut out = Vec::new();
    write_compare_csv(&comparison(runs), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn json(runs: &[&Analysis]) -> serde_json::Value {
    let mut out = Vec::new();
    write_compare_json(&comparison(runs), &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn the_stall_and_its_cure_stand_side_by_side() {
    insta::assert_snapshot!(text(&[&before(), &after()], &Options::default()));
}

#[test]
fn more_than_two_runs_have_a_column_each() {
    insta::assert_snapshot!(text(&[&before(), &after(), &after()], &Options::default()));
}

/// The wait of a split message may be another finding's: 0 ns would say that it cost nothing.
#[test]
fn a_finding_without_time_of_its_own_has_no_time() {
    let mut split = before();
    split.connections[0].findings[0].cost_ns = 0;
    split.connections[0].findings[0].times = Vec::new();
    let text = text(&[&split, &after()], &Options::default());
    assert!(text.contains("×, no cost") && !text.contains("0 ns,"), "{text}");
}

#[test]
fn ascii_stays_ascii_and_within_80_columns() {
    let options = Options { charset: Charset::Ascii, ..Options::default() };
    for runs in [&[&before(), &after()][..], &[&before(), &after(), &before(), &after()]] {
        let text = text(runs, &options);
        assert!(text.is_ascii());
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}

#[test]
fn every_run_has_a_column_when_they_do_not_fit_side_by_side() {
    let runs = [&before(), &after(), &before(), &after(), &before(), &after()];
    let text = text(&runs, &Options::default());
    for name in ["before.sockscope", "after.sockscope", "later", "d", "e", "f"] {
        let is_head = |line: &str| line.split_whitespace().any(|word| word == name);
        assert!(
            text.lines().filter(|line| line.starts_with("    ")).any(is_head),
            "{name}: {text}"
        );
    }
}

#[test]
fn a_run_without_connections_has_no_role_in_common() {
    let text = text(&[&empty(), &before()], &Options::default());
    assert!(
        text.contains("only     python3 → python3:5000, tcp, 1 connection: in after"),
        "{text}"
    );
    assert!(!text.contains("no difference"), "{text}");
}

#[test]
fn hostile_names_and_absurd_figures_are_harmless() {
    let analyses = [absurd(), hostile(), fixed()];
    let runs: Vec<&Analysis> = analyses.iter().collect();
    for text in [text(&runs, &Options::default()), csv(&runs)] {
        assert!(!text.contains("NaN") && !text.contains("inf\n"), "{text}");
        assert!(text.chars().all(|it| it == '\n' || !it.is_control()), "{text}");
    }
    json(&runs);
}

#[test]
fn the_bytes_of_a_run_without_records_are_unknown() {
    let mut lost = after();
    let one = &mut lost.connections[0];
    one.requests = Requests::none(Conversation::Silent);
    one.exchanges = None;
    one.findings.clear();
    for flow in &mut one.flows {
        (flow.bytes, flow.ledger) = (0, Default::default());
        flow.throughput_bytes_per_s = None;
    }
    let place = |lost: &Analysis| {
        let shown = text(&[&before(), lost], &Options::default());
        let row = shown.lines().find(|line| line.contains("send_queue.nagle")).unwrap();
        row.split_whitespace().skip(5).collect::<Vec<_>>().join(" ")
    };
    // No byte was sent where no record was missed.
    assert!(place(&lost).starts_with("0.0 %"), "{}", place(&lost));
    lost.facts.missed.add(Some(Point::ReceiveEnqueue), 1933);
    assert_eq!(place(&lost), "? ?");
    let runs = [&before(), &lost];
    let comparison = comparison(&runs);
    let mut json = Vec::new();
    write_compare_json(&comparison, &mut json).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let flow = &json["roles"][0]["groups"][1]["figures"]["flows"][0];
    assert_eq!((&flow["bytes"], &flow["bytes_is_lower_bound"]), (&0.into(), &true.into()));
}

#[test]
fn the_sentence_on_the_difference_can_be_left_out() {
    let whole = comparison(&[&before(), &after()]);
    let shown = |comparison: &Comparison| {
        let mut out = Vec::new();
        write_compare(comparison, &Options::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let with = shown(&whole);
    let (head, rest) = with.split_once("\nchange   exchange p50").unwrap();
    let (_, behind) = rest.split_once("\n\n").unwrap();
    assert_eq!(shown(&whole.without_changes()), format!("{head}\n\n{behind}"));
}

#[test]
fn a_figure_says_that_a_run_has_no_end() {
    let drawn = |runs: &[&Analysis]| draw_compare(&comparison(runs), 900, 500).unwrap();
    assert!(drawn(&[&before(), &after()]).contains("sockscope: no records missed"));
    let mut unfinished = after();
    unfinished.facts.unfinished = true;
    let figure = drawn(&[&before(), &unfinished]);
    let words = "sockscope: no end mark in 1 run: how many records were missed is unknown";
    assert!(figure.contains(words), "{figure}");
    unfinished.facts.missed.add(None, 7);
    let figure = drawn(&[&before(), &unfinished]);
    let words = "sockscope: 7 records missed at least: no end mark in 1 run";
    assert!(figure.contains(words), "{figure}");
}

#[test]
fn a_figure_of_throughputs_has_no_sentence_on_times() {
    let without_exchanges = |mut analysis: Analysis| {
        analysis.connections[0].requests = Requests::none(Conversation::Silent);
        analysis.connections[0].exchanges = None;
        analysis
    };
    let figure = |runs: [&Analysis; 2]| draw_compare(&comparison(&runs), 900, 500).unwrap();
    let times = figure([&before(), &after()]);
    assert!(times.contains("so many took that time or less"), "{times}");
    assert!(!times.contains("had that throughput"), "{times}");
    let rates = figure([&without_exchanges(before()), &without_exchanges(after())]);
    assert!(rates.contains("so many had that throughput or less"), "{rates}");
    assert!(!rates.contains("took that time"), "{rates}");
}

#[test]
fn a_small_ratio_has_two_figures() {
    let shown = text(&[&before(), &with_exchanges(fixed(), 48_000_000_000)], &Options::default());
    let row = shown.lines().find(|line| line.starts_with("exchange p50")).unwrap();
    assert!(row.ends_with(" 0.00083×"), "{row}");
}

/// Missed records may have had the absent finding.
#[test]
fn missed_records_make_a_missing_difference_unknown() {
    let (whole, mut damaged) = (after(), after());
    damaged.facts.missed.add(Some(Point::ReceiveEnqueue), 7);
    let words = said(&[&whole, &damaged]);
    assert!(
        words.contains("exchange p50: whether it differs is unknown, as records were missed"),
        "{words}"
    );
    assert!(words.contains("none seen") && !words.contains("no difference"), "{words}");
    let comparison = comparison(&[&before(), &damaged]);
    let row = &comparison.rows[0];
    let nagle = before().connections[0].findings[0].id;
    assert_eq!(comparison.presence(row, 1, nagle), Presence::Unknown);
    assert_eq!(comparison.exchange_change(row, 1).name(), "lower");
}

#[test]
fn runs_that_overlap_show_no_difference_and_few_exchanges_show_nothing() {
    let words = said(&[&after(), &with_exchanges(fixed(), 111_000)]);
    assert!(
        words.contains("exchange p50: no difference that these runs can show (95 %: "),
        "{words}"
    );
    let mut few = with_exchanges(fixed(), 900_000);
    few.connections[0].requests.list.truncate(6);
    let words = said(&[&after(), &few]);
    assert!(words.contains("in 6 exchanges, which may be chance: an interval needs 7"), "{words}");
}

#[test]
fn a_transfer_is_compared_by_its_throughput() {
    let mut runs = [many(1), many(1)];
    runs[1].connections[0].flows[0].throughput_bytes_per_s = Some(5e6);
    let [first, later] = &runs;
    let words = said(&[first, later]);
    assert!(words.contains("throughput is 4.77 MiB/s higher in 1 connection"), "{words}");
    assert!(!words.contains("exchange"), "{words}");
}

#[test]
fn rounds_of_a_run_count_together() {
    let (first, later) = (before(), after());
    let runs = [
        Compared { name: "without", rounds: &[&first, &first] },
        Compared { name: "with", rounds: &[&later, &later, &later] },
    ];
    let comparison = Comparison::of(&runs);
    let [without, with] = [0, 1].map(|run| &comparison.rows[0].groups[run].as_ref().unwrap().1);
    assert_eq!((without.times_ns.len(), with.times_ns.len()), (400, 600));
    let nagle = first.connections[0].findings[0].clone();
    let sum = without.findings[&nagle.id];
    assert_eq!((sum.count, sum.cost_ns), (2 * nagle.count, 2 * nagle.cost_ns));
    assert_eq!(comparison.presence(&comparison.rows[0], 1, nagle.id), Presence::Disappeared);
    assert_eq!(comparison.runs[1].rounds, 3);
}

#[test]
fn csv_has_a_row_for_each_measure() {
    let csv = csv(&[&before(), &after()]);
    let has = |line: &str| assert!(csv.lines().any(|it| it == line), "{line}: {csv}");
    has("0,tcp,python3,python3,5000,before.sockscope,exchanges,200");
    has("0,tcp,python3,python3,5000,before.sockscope,exchange_ns_p50,43960000");
    has("0,tcp,python3,python3,5000,before.sockscope,ledger_ns.client.send_queue.nagle,8170000000");
    has("0,tcp,python3,python3,5000,before.sockscope,finding_count.nagle-delayed-ack,199");
    has("0,tcp,python3,python3,5000,after.sockscope,ledger_ns.client.send_queue.nagle,0");
    assert!(csv.lines().all(|line| line.split(',').count() == 8), "{csv}");
}

#[test]
fn json_says_what_changed() {
    let json = json(&[&before(), &after()]);
    assert_eq!(json["schema"], "sockscope.compare/1");
    let role = &json["roles"][0];
    assert_eq!(role["changes"][0]["exchange_ns_p50"]["verdict"], "lower");
    assert_eq!(role["findings"][0]["changes"][0], "disappeared");
    assert_eq!(role["groups"][0]["figures"]["exchange_ns"]["count"], 200);
    assert_eq!(
        role["groups"][0]["figures"]["flows"][0]["ledger_ns"]["send_queue.nagle"],
        8_170_000_000_u64
    );
}

#[test]
fn the_schema_file_is_that_of_the_types() {
    check_schema_file::<CompareView<'_>>("compare");
}

#[test]
fn a_figure_has_a_curve_for_each_run() {
    let svg = draw_compare(&comparison(&[&before(), &after()]), 800, 600).unwrap();
    for name in ["before.sockscope", "after.sockscope"] {
        assert!(svg.contains(&format!(r#"<g id="{name}">"#)), "{svg}");
    }
    assert!(svg.contains("python3 to python3:5000, tcp: 200 and 200 exchanges"), "{svg}");
    let svg = draw_compare(&comparison(&[&empty(), &unknown_everything()]), 800, 600).unwrap();
    assert!(svg.contains("no value was measured"), "{svg}");
    assert!(draw_compare(&comparison(&[&before(), &after()]), 8, 600).is_err());
}

/// Exchanges over one connection, with two writes a request where `is_split`.
fn recorded(calls: &[(u64, u64)], is_split: bool) -> Analysis {
    use sockscope_record::{Connection, ConnectionId, Direction, FlowId, Protocol, Record};
    let mut analyzer = Analyzer::new();
    let ends = [([127, 0, 0, 1], 40_000).into(), ([127, 0, 0, 1], 80).into()];
    analyzer.connection(Connection::new(ConnectionId(1), Protocol::Tcp, ends, 0));
    let flows = [Direction::FromClient, Direction::FromServer].map(|it| ConnectionId(1).flow(it));
    let mut at_ns = 1_000;
    let mut offsets = [0u64; 2];
    let mut records = Vec::new();
    let mut send = |flow: usize, len: u64, step_ns: u64, at_ns: &mut u64| {
        for point in Point::ALL {
            *at_ns += step_ns;
            let flow_id: FlowId = flows[flow];
            records.push(Record {
                at_ns: *at_ns,
                flow: flow_id,
                kind: point.into(),
                offset: offsets[flow],
                len: len as u32,
                ..Record::default()
            });
        }
        offsets[flow] += len;
    };
    for &(bytes, service_ns) in calls {
        send(0, bytes, 100, &mut at_ns);
        if is_split {
            send(0, bytes, 100, &mut at_ns);
        }
        at_ns += service_ns;
        send(1, 50, 100, &mut at_ns);
    }
    analyzer.push(&records);
    analyzer.finish(TraceFacts::default())
}

proptest! {
    #[test]
    fn a_run_has_no_difference_from_itself(
        calls in prop::collection::vec((1u64..5_000, 0u64..60_000_000), 1..40),
        is_split in any::<bool>(),
        nagles in 0usize..3,
        missed in any::<bool>(),
    ) {
        let mut analysis = recorded(&calls, is_split);
        prop_assert!(analysis.connections[0].exchanges.is_some() || calls.len() < 3);
        let nagle: Finding = stall().connections[0].findings[0].clone();
        analysis.connections[0].findings.extend(std::iter::repeat_n(nagle, nagles));
        if missed {
            analysis.facts.missed.add(None, 1);
        }
        let comparison = comparison(&[&analysis, &analysis]);
        prop_assert_eq!(comparison.rows.len(), 1);
        for row in &comparison.rows {
            let change = comparison.exchange_change(row, 1);
            let expected = if missed { Change::Unknown } else { Change::Same };
            if has_exchanges(row) {
                prop_assert_eq!(change, expected);
            }
            for id in findings(row) {
                prop_assert_eq!(comparison.presence(row, 1, id), Presence::Stayed);
            }
            let both = row.groups.iter().flatten().map(|(_, group)| format!("{group:?}"));
            let both: Vec<_> = both.collect();
            prop_assert_eq!(&both[0], &both[1]);
        }
        let said = text(&[&analysis, &analysis], &Options::default());
        prop_assert_eq!(said.contains("no difference"), !missed, "{}", said);
        for row in said.lines().filter(|line| line.starts_with("exchange ")) {
            prop_assert!(row.ends_with("1.00×"), "{}", row);
        }
    }
}
