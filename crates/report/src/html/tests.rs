//! Pages of small traces: their parts, their safety and their size.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use sockscope_analysis::{Analysis, Analyzer, LedgerPart, Stores, TraceFacts, Uncertainty};
use sockscope_record::{
    Connection, ConnectionId, Direction, Kind, Point, Process, Protocol, Record, Side, Stage,
};

use super::*;
use crate::{Options, assets, fixture};

/// Of a report without records.
fn no_stores() -> Stores {
    Stores {
        start_ns: 0,
        connections: Vec::new(),
        losses: Vec::new(),
        of_others: sockscope_analysis::OfOthers::default(),
        drop_reasons: sockscope_analysis::DropReasons::new(),
        network_namespaces: sockscope_analysis::NamespaceNames::new(),
    }
}

fn page(analysis: &Analysis, stores: &Stores) -> String {
    fixture::written(&Html { stores }, analysis, &Options::default())
}

const SECOND: u64 = 1_000_000_000;

/// Connections that ask for 300 bytes every so many seconds. The second write of a request waits 40 ms for the ACK of the
/// first one, as Nagle's algorithm has it.
fn calls(connections: u32, seconds: u64, every_s: u64) -> (Analysis, Stores) {
    calls_up_to(Point::ReceiveDequeue, connections, (seconds, every_s))
}

/// The same, of which no byte passes a point behind `last`.
fn calls_up_to(
    last: Point,
    connections: u32,
    (seconds, every_s): (u64, u64),
) -> (Analysis, Stores) {
    let mut analyzer = Analyzer::new();
    let mut records = Vec::new();
    for id in 1..=connections {
        let (mut asked, mut answered) = (0, 0);
        for call in 0..seconds / every_s {
            let at_ns = SECOND + call * every_s * SECOND + u64::from(id) * 1_000_000;
            let ask = ConnectionId(id).flow(Direction::FromClient);
            let answer = ConnectionId(id).flow(Direction::FromServer);
            for (len, wait_ns) in [(100, 0), (200, 40_000_000)] {
                pass(&mut records, (ask, asked, len), (at_ns, wait_ns));
                asked += u64::from(len);
            }
            pass(&mut records, (answer, answered, 50), (at_ns + 41_000_000, 0));
            answered += 50;
        }
        let end = |port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let process = |side, comm: &str| Process::new(7, comm, side);
        analyzer.connection(Connection {
            id: ConnectionId(id),
            protocol: Protocol::Tcp,
            client: end(40_000 + id as u16),
            server: end(80),
            opened_ns: 0,
            closed_ns: None,
            preexisting: false,
            both_ends_here: true,
            processes: vec![process(Side::Client, "client"), process(Side::Server, "server")],
            names: None,
            mark: None,
            elsewhere: None,
        });
    }
    let is_before = |point: Point| point.index() <= last.index();
    records.retain(|record: &Record| record.kind.point().is_some_and(is_before));
    records.sort_by_key(|record: &Record| record.at_ns);
    analyzer.push(&records);
    analyzer.finish_keeping(TraceFacts::default(), NonZeroUsize::MIN)
}

/// The way of some bytes through all points, which begin at a time and wait before point 2.
fn pass(
    records: &mut Vec<Record>,
    (flow, offset, len): (sockscope_record::FlowId, u64, u32),
    (at_ns, wait_ns): (u64, u64),
) {
    for (index, point) in Point::ALL.into_iter().enumerate() {
        let waited_ns = if index > 0 { wait_ns } else { 0 };
        let at_ns = at_ns + waited_ns + 2_000 * index as u64;
        records.push(Record {
            at_ns,
            flow,
            offset,
            len,
            kind: Kind::from(point),
            ..Record::default()
        });
    }
}

/// The content of the elements of this name, with their attributes.
fn elements<'p>(page: &'p str, name: &str) -> Vec<(&'p str, &'p str)> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let parts = page.split(&open).skip(1);
    let inner = parts.filter_map(|part| {
        let (attributes, rest) = part.split_once('>')?;
        Some((attributes.trim(), rest.split_once(&close)?.0))
    });
    inner.collect()
}

/// The page without its scripts and style, which are no texts of the trace.
fn markup(page: &str) -> String {
    let mut rest = page.to_owned();
    for name in ["script", "style"] {
        for (_, content) in elements(page, name) {
            rest = rest.replace(content, "");
        }
    }
    rest
}

#[test]
fn positions_show_bytes_that_nothing_took_yet() {
    for (last, next) in [(Point::SendEnqueue, "point2"), (Point::ReceiveEnqueue, "point8")] {
        let (analysis, stores) = calls_up_to(last, 1, (2, 1));
        let page = page(&analysis, &stores);
        let positions = page.split("\"positions\":").nth(1).and_then(|it| it.split('}').next());
        assert!(positions.is_some_and(|it| it.contains(next)), "{next}: {positions:?}");
    }
}

#[test]
fn positions_of_two_hosts_have_the_error_of_their_clocks() {
    let (mut analysis, stores) = calls(1, 2, 1);
    let mut error = |uncertainty: Option<Uncertainty>| {
        for flow in &mut analysis.connections[0].flows {
            flow.stages[Stage::Wire as usize].uncertainty = uncertainty;
        }
        let page = page(&analysis, &stores);
        let errors = page.split("\"error\":").skip(1);
        errors.map(|it| it.split([',', '}']).next().unwrap_or_default().to_owned()).collect()
    };
    let none: Vec<String> = error(None);
    assert_eq!(none, [""; 0]);
    assert_eq!(error(Some(Uncertainty::AtMost(410_000))), ["0.00041", "0.00041"]);
    assert_eq!(error(Some(Uncertainty::Unknown)), ["null", "null"]);
}

#[test]
fn the_page_has_its_parts_in_this_order() {
    let (analysis, stores) = calls(2, 20, 10);
    let page = page(&analysis, &stores);
    let markup = markup(&page);
    let tags = markup.split('<').filter(|tag| {
        tag.contains(" id=\"")
            || ["h2>", "h3>", "h4>", "figcaption>"].iter().any(|h| tag.starts_with(h))
    });
    let outline: Vec<String> =
        tags.map(|tag| tag.split(" class=").next().unwrap_or(tag).to_owned()).collect();
    insta::assert_snapshot!(outline.join("\n"));
}

/// The cells of a table's rows, without their markup.
fn cells(table: &str) -> Vec<String> {
    let row = |row: &str| {
        let cells = row.split("<td").flat_map(|part| part.split("<th")).skip(1);
        let words = cells.filter_map(|cell| cell.split_once('>')?.1.split('<').next());
        words.collect::<Vec<_>>().join(" | ")
    };
    elements(table, "tr").into_iter().map(|(_, inside)| row(inside)).collect()
}

#[test]
fn the_ledger_of_a_connection_is_that_of_the_direction_that_waited() {
    let (mut analysis, stores) = calls(1, 20, 10);
    let [asks, answers] = &mut analysis.connections[0].flows;
    for (flow, bytes, place) in
        [(asks, 100, LedgerPart::ReceiveApp), (answers, 1_000_000, LedgerPart::AppIdle)]
    {
        flow.bytes = bytes;
        flow.ledger.ns = Default::default();
        flow.ledger.ns[place as usize] = SECOND;
    }
    let page = page(&analysis, &stores);
    let table = page.split("class=\"connections\"").nth(1).expect("it has the table");
    let bar = table.split("aria-label=\"").nth(1).and_then(|it| it.split('"').next());
    assert_eq!(bar, Some("receive_queue.app 100.0 %"));
}

#[test]
fn hops_are_a_table_with_the_numbers_of_the_text() {
    let (mut analysis, stores) = calls(1, 20, 10);
    let without = page(&analysis, &stores);
    assert!(!without.contains("class=\"hops\""), "a flow without a hop has no table");
    let mut named = fixture::hop();
    named.device.namespace_name = Some("<b>shop".to_owned());
    named.queue_ns = None;
    named.queue_bytes = None;
    named.arrived_by = None;
    named.transit_ns = None;
    named.residue_bytes = None;
    analysis.connections[0].flows[0].hops = vec![fixture::hop(), named];
    analysis.connections[0].flows[0].ledger.ns = [0; LedgerPart::ALL.len()];
    analysis.connections[0].flows[0].ledger.ns[LedgerPart::Wire as usize] = 938_000_000;
    let page = page(&analysis, &stores);
    let tables = elements(&page, "table");
    let tables: Vec<_> = tables.iter().filter(|it| it.0.contains("\"hops\"")).collect();
    assert_eq!(tables.len(), 1);
    insta::assert_snapshot!(cells(tables[0].1).join("\n"));
}

#[test]
fn every_link_into_the_page_has_its_place() {
    let (analysis, stores) = calls(3, 60, 10);
    let page = page(&analysis, &stores);
    let links: Vec<&str> =
        page.split("href=\"#").skip(1).filter_map(|it| it.split('"').next()).collect();
    assert!(links.contains(&"connection-1"));
    for link in links {
        assert_eq!(page.matches(&format!(" id=\"{link}\"")).count(), 1, "{link}");
    }
}

#[test]
fn each_id_is_there_once() {
    let (analysis, stores) = calls(3, 60, 10);
    let markup = markup(&page(&analysis, &stores));
    let mut ids: Vec<&str> =
        markup.split(" id=\"").skip(1).filter_map(|it| it.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[test]
fn names_of_processes_are_words_and_no_elements() {
    let mut analysis = fixture::hostile();
    let name = "</script><img src=x onerror=alert(1)>";
    analysis.connections[0].connection.processes[0].comm = name.to_owned();
    analysis.connections[0].findings[0].summary = format!("\u{202e}{name}<!--");
    analysis.connections[0].findings[0].evidence[0].text = format!("\" onclick=\"{name}");
    let page = page(&analysis, &no_stores());
    assert!(!page.contains("<img") && !page.contains("<!--") && !page.contains('\u{202e}'));
    assert!(page.contains("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"));
    assert!(page.contains("&quot; onclick=&quot;"));
    // In JSON the name is whole.
    let json =
        elements(&page, "script").into_iter().find(|it| it.0.contains("id=\"report\"")).unwrap().1;
    assert!(json.contains("\\u003c/script>\\u003cimg"));
    let report: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(report["connections"][0]["processes"][0]["comm"], name);
}

#[test]
fn the_policy_admits_the_style_and_the_scripts_of_the_page_by_their_hashes() {
    let page = page(&fixture::stall(), &no_stores());
    let policy = page
        .split("Content-Security-Policy\" content=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"));
    let is_run = |(attributes, _): &(&str, &str)| !attributes.contains("type=\"application/");
    let mut parts = elements(&page, "style");
    assert_eq!(parts.len(), 1);
    parts.extend(elements(&page, "script").into_iter().filter(is_run));
    assert_eq!(parts.len(), 4);
    for (_, content) in parts {
        let hash = STANDARD.encode(Sha256::digest(content.as_bytes()));
        assert!(policy.contains(&format!("'sha256-{hash}'")), "{hash} not in {policy}");
    }
}

#[test]
fn the_page_asks_for_nothing_and_has_nothing_that_the_policy_refuses() {
    let (analysis, stores) = calls(2, 20, 10);
    // Its author's name for it is a comment, and so is its licence.
    let page = page(&analysis, &stores).replace("https://github.com/leeoniya/uPlot", "");
    for forbidden in ["http:", "https:", " src=", "@import", "<link", "<base", "<iframe", "<object"]
    {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert_eq!(page.matches("url(").count(), page.matches("url(#hatch)").count());
    let markup = markup(&page);
    for refused in [" style=\"", " onclick=", " onload=", "javascript:"] {
        assert!(!markup.contains(refused), "{refused}");
    }
    assert!(page.contains(assets::UPLOT_LICENCE));
}

#[test]
fn the_same_report_has_the_same_bytes() {
    let (analysis, stores) = calls(5, 60, 10);
    assert_eq!(page(&analysis, &stores), page(&analysis, &stores));
}

#[test]
fn ten_minutes_of_200_connections_are_below_two_megabytes() {
    let (analysis, stores) = calls(200, 600, 20);
    let page = page(&analysis, &stores);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    let with_figures = page.matches("class=\"figures\"").count();
    assert!((10..400).contains(&with_figures), "{with_figures} flows with figures");
    // The others are named, with a command that draws their figures.
    assert!(page.contains("no figure in this file"));
    assert!(page.contains("sockscope plot --figure queue-length --flow "));
    assert_eq!(page.matches("<tr><td class=\"number\"").count(), 200);
}

#[test]
fn a_long_report_in_json_is_compressed_and_reads_back() {
    let page = page(&fixture::many(200), &no_stores());
    let (attributes, text) =
        elements(&page, "script").into_iter().find(|it| it.0.contains("id=\"report\"")).unwrap();
    assert!(attributes.contains("data-encoding=\"deflate-raw base64\""), "{attributes}");
    let deflated = STANDARD.decode(text).unwrap();
    let json = miniz_oxide::inflate::decompress_to_vec(&deflated).unwrap();
    assert_eq!(
        String::from_utf8(json).unwrap(),
        fixture::written(&Json, &fixture::many(200), &Options::default())
    );
}

#[test]
fn any_analysis_has_a_page_without_figures_where_no_records_are() {
    for analysis in
        [fixture::empty(), fixture::absurd(), fixture::unknown_everything(), fixture::slow_calls()]
    {
        let page = page(&analysis, &no_stores());
        assert!(page.contains("id=\"verdict\"") && !page.contains("class=\"figures\""));
    }
}

#[test]
fn a_flow_that_is_not_there_is_refused_before_a_byte_is_written() {
    let options = Options { flow: Some(sockscope_record::FlowId(99)), ..Options::default() };
    let (origin, analysis) = (fixture::origin(), fixture::stall());
    let report = Report { origin: &origin, analysis: &analysis, options: &options };
    let mut out = Vec::new();
    let error = Html { stores: &no_stores() }.write(&report, &mut out).unwrap_err();
    assert!(out.is_empty() && error.to_string().starts_with("no flow 99"), "{error}");
}
