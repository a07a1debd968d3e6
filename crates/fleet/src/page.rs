//! The page of a fleet: one file of HTML without a script, which needs no network.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use sockscope_analysis::LedgerPart;
use sockscope_record::{Stage, counted};
use sockscope_render::number::{apportion, count, percent_of, size, time};
use sockscope_render::style::Charset;
use sockscope_report::palette;

use crate::clock_bounds::{Bounds, bounds};
use crate::histogram;
use crate::plan::Head;
use crate::summary::{Found, Group, Sums};

/// Rows of a table at most; the tables of the folder have all.
const ROWS_MAX: usize = 40;
/// Pixels of a bar across and down.
const BAR_PX: (u64, u64) = (480, 16);
/// A part of this many pixels has room for its letter.
const LETTER_PX: u64 = 12;

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#ccc;--dim:#555}
@media (prefers-color-scheme:dark){:root{--line:#444;--dim:#aaa}}
body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:75rem;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}p,li{max-width:60rem}
table{border-collapse:collapse;width:100%}
th,td{padding:.25rem .8rem .25rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{font-weight:600}td.number,th.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td.pair{white-space:nowrap}.dim{color:var(--dim)}
svg{display:block;width:100%;min-width:16rem;height:auto}
svg text{font:700 11px sans-serif;text-anchor:middle;fill:#1a1a1a;stroke:#fff;stroke-width:3px;paint-order:stroke}
.swatch{display:inline-block;width:1.5em;text-align:center;font-weight:700;margin-right:.4em;border-bottom:.25em solid}
ul.legend{columns:3 16rem;padding:0;list-style:none}
";

/// The page of these sums.
pub(crate) fn page(head: &Head, sums: &Sums) -> String {
    let hosts: BTreeSet<&str> = head.recordings.iter().map(|it| it.host.as_str()).collect();
    let connections: u64 = sums.counts.iter().map(|(_, it)| it.connections).sum();
    let title = format!(
        "Fleet: {} of {}",
        counted(connections, "connection"),
        counted(hosts.len() as u64, "host")
    );
    let pairs = pairs(sums);
    let body = html! {
        h1 { (title) }
        (facts(head, sums))
        (problems(sums))
        (worst(&pairs))
        (ledgers(&pairs))
        (by_kernel(sums))
        (clocks(sums))
    };
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(palette::custom_properties())) (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// Connections between two services.
#[derive(Default)]
struct Pair<'a> {
    connections: u64,
    bytes: u64,
    retransmitted_bytes: u64,
    ledger: [u64; LedgerPart::ALL.len()],
    /// Runs from the first point to the last, by bucket of the histogram.
    total: BTreeMap<i16, u64>,
    findings: Vec<&'a Found>,
}

impl Pair<'_> {
    fn cost_ns(&self) -> u64 {
        self.findings.iter().map(|it| it.cost_ns).sum()
    }

    /// The bound under which 99 of 100 runs are.
    fn p99_ns(&self) -> Option<u64> {
        let runs: u64 = self.total.values().sum();
        let rank = runs - runs / 100;
        let mut sum = 0;
        let bucket = self.total.iter().find(|(_, runs)| {
            sum += **runs;
            sum >= rank
        });
        bucket.map(|(bucket, _)| histogram::bounds(*bucket).1 as u64)
    }

    /// The findings with their number and cost, the most expensive first.
    fn by_finding(&self) -> Vec<(&str, u64, u64)> {
        let mut all: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for found in &self.findings {
            let sum = all.entry(&found.finding).or_default();
            *sum = (sum.0 + 1, sum.1 + found.cost_ns);
        }
        let mut all: Vec<_> =
            all.into_iter().map(|(name, (count, cost))| (name, count, cost)).collect();
        all.sort_by_key(|(_, _, cost)| Reverse(*cost));
        all
    }

    fn busy_ns(&self) -> u64 {
        self.ledger.iter().sum::<u64>() - self.ledger[LedgerPart::AppIdle as usize]
    }
}

type Name<'a> = (&'a str, &'a str);

/// The pairs of services, the one that findings cost most first.
fn pairs(sums: &Sums) -> Vec<(Name<'_>, Pair<'_>)> {
    fn name(group: &Group) -> Name<'_> {
        (&group.client.service, &group.server.service)
    }
    let names: BTreeSet<Name<'_>> = sums.groups.iter().map(name).collect();
    let mut pairs: Vec<(Name<'_>, Pair<'_>)> =
        names.into_iter().map(|name| (name, Pair::default())).collect();
    let place = |pairs: &[(Name<'_>, _)], group| {
        pairs.binary_search_by_key(&name(group), |(name, _)| *name).ok()
    };
    let places: Vec<usize> =
        sums.groups.iter().map(|group| place(&pairs, group).unwrap_or(0)).collect();
    for (group, counts) in &sums.counts {
        let pair = &mut pairs[places[*group]].1;
        pair.connections += counts.connections;
        pair.bytes += counts.bytes;
        pair.retransmitted_bytes += counts.retransmitted_bytes;
    }
    for ((group, _, part), ns) in &sums.ledger {
        pairs[places[*group]].1.ledger[usize::from(*part)] += ns;
    }
    for ((group, _, stage, bucket), delays) in &sums.delays {
        if *stage == Stage::Total as u8 {
            *pairs[places[*group]].1.total.entry(*bucket).or_default() += delays.runs;
        }
    }
    for found in &sums.findings {
        // Its hour may be another one than that of any sum; its services are those of its connection.
        if let Some(place) = place(&pairs, &found.group) {
            pairs[place].1.findings.push(found);
        }
    }
    pairs.sort_by_key(|(_, pair)| (Reverse(pair.cost_ns()), Reverse(pair.busy_ns())));
    pairs
}

fn facts(head: &Head, sums: &Sums) -> Markup {
    let records: u64 = sums.counts.iter().map(|(_, it)| it.records).sum();
    let both: u64 = sums.counts.iter().map(|(_, it)| it.with_both_ends).sum();
    let segments: u64 = head.recordings.iter().map(|it| it.segments).sum();
    html! {
        p {
            (counted(records, "record")) " in " (counted(segments, "segment")) ". "
            "Connections with both ends recorded: " (count(both)) ". "
            "Findings: " (count(sums.findings.len() as u64)) "."
        }
    }
}

fn problems(sums: &Sums) -> Markup {
    html! {
        @if !sums.problems.is_empty() {
            h2 { "Not whole" }
            ul {
                @for problem in sums.problems.iter().take(ROWS_MAX) {
                    li { b { (problem.trouble.name()) } " " (problem.host) ": " (problem.line) }
                }
                (more(sums.problems.len(), "problems.parquet"))
            }
        }
    }
}

fn more(rows: usize, table: &str) -> Markup {
    html! {
        @if rows > ROWS_MAX { li class="dim" { (rows - ROWS_MAX) " more are in " (table) } }
    }
}

fn worst(pairs: &[(Name<'_>, Pair<'_>)]) -> Markup {
    let with_findings = pairs.iter().filter(|(_, pair)| !pair.findings.is_empty()).take(ROWS_MAX);
    html! {
        h2 { "Worst service pairs" }
        p class="dim" { "By the time that findings cost. The delay is from write to read, of 99 in 100 runs of bytes at most." }
        table {
            tr {
                th { "client → server" }
                th class="number" { "connections" }
                th class="number" { "cost" }
                th { "findings, with the number of times and the cost" }
                th class="number" { "delay p99" }
                th class="number" { "sent" }
                th class="number" { "sent again" }
            }
            @for ((client, server), pair) in with_findings {
                tr {
                    td class="pair" { (client) " → " (server) }
                    td class="number" { (count(pair.connections)) }
                    td class="number" { (time(pair.cost_ns(), Charset::Unicode)) }
                    td {
                        @for (name, times, cost) in pair.by_finding() {
                            div { b { (name) } " " span class="dim" { (count(times)) " × · " (time(cost, Charset::Unicode)) } }
                        }
                    }
                    td class="number" { @if let Some(ns) = pair.p99_ns() { (time(ns, Charset::Unicode)) } @else { "–" } }
                    td class="number" { (size(pair.bytes)) }
                    td class="number" { (percent_of(pair.retransmitted_bytes, pair.bytes)) }
                }
            }
        }
    }
}

fn ledgers(pairs: &[(Name<'_>, Pair<'_>)]) -> Markup {
    let mut busy: Vec<_> = pairs.iter().filter(|(_, pair)| pair.busy_ns() > 0).collect();
    busy.sort_by_key(|(_, pair)| Reverse(pair.busy_ns()));
    let mut sums = [0; LedgerPart::ALL.len()];
    for (_, pair) in &busy {
        sums.iter_mut().zip(pair.ledger).for_each(|(sum, ns)| *sum += ns);
    }
    let known = LedgerPart::ALL.into_iter().filter(|part| sums[*part as usize] > 0);
    let known = known.filter(|part| *part != LedgerPart::AppIdle);
    html! {
        h2 { "Ledger by pair" }
        p class="dim" { "Place of the oldest byte not yet read, both directions. Time without such a byte is left out." }
        table {
            tr { th { "client → server" } th class="number" { "time" } th { "share of each place" } }
            @for ((client, server), pair) in busy.into_iter().take(ROWS_MAX) {
                tr {
                    td class="pair" { (client) " → " (server) }
                    td class="number" { (time(pair.busy_ns(), Charset::Unicode)) }
                    td { (bar(&pair.ledger)) }
                }
            }
        }
        ul class="legend" {
            @for part in known {
                @let look = palette::place(part);
                li { span class="swatch" style={ "border-color:var(--" (look.class) ")" } { (look.letter) } (part.name()) }
            }
        }
    }
}

fn bar(ledger: &[u64; LedgerPart::ALL.len()]) -> Markup {
    let places = LedgerPart::ALL.into_iter().zip(*ledger);
    let places: Vec<_> =
        places.filter(|(part, ns)| *ns > 0 && *part != LedgerPart::AppIdle).collect();
    let weights: Vec<u64> = places.iter().map(|(_, ns)| *ns).collect();
    let total: u64 = weights.iter().sum();
    let widths = apportion(&weights, BAR_PX.0);
    let lefts = widths.iter().scan(0, |left, width| Some(std::mem::replace(left, *left + width)));
    let words = places.iter().filter(|(_, ns)| ns.saturating_mul(100) >= total);
    let words = words.map(|(part, ns)| format!("{} {}", part.name(), percent_of(*ns, total)));
    let words = words.collect::<Vec<_>>().join(", ");
    html! {
        svg viewBox={ "0 0 " (BAR_PX.0) " " (BAR_PX.1) } role="img" aria-label=(words) {
            title { (words) }
            @for (((part, _), width), left) in places.iter().zip(&widths).zip(lefts) {
                @let look = palette::place(*part);
                @if *width > 0 {
                    rect x=(left) width=(width) height=(BAR_PX.1) style={ "fill:var(--" (look.class) ")" } {}
                }
                @if *width >= LETTER_PX {
                    text x=(left + width / 2) y=(BAR_PX.1 * 3 / 4) { (look.letter) }
                }
            }
        }
    }
}

/// The kernel of the host that sends the bytes concerned.
fn kernel(found: &Found) -> &str {
    let end = if found.sender == "client" { &found.group.client } else { &found.group.server };
    end.kernel.as_deref().unwrap_or("unknown")
}

fn by_kernel(sums: &Sums) -> Markup {
    let kernels: BTreeSet<&str> = sums.findings.iter().map(kernel).collect();
    let mut cells: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for found in &sums.findings {
        let cell = cells.entry((&found.finding, kernel(found))).or_default();
        *cell = (cell.0 + 1, cell.1 + found.cost_ns);
    }
    let findings: BTreeSet<&str> = cells.keys().map(|(finding, _)| *finding).collect();
    html! {
        h2 { "Findings by kernel" }
        p class="dim" { "Kernel of the host that sends the bytes concerned: number of findings, and their cost." }
        table {
            tr { th { "finding" } @for kernel in &kernels { th class="number" { (kernel) } } }
            @for finding in findings {
                tr {
                    td { b { (finding) } }
                    @for kernel in &kernels {
                        td class="number" {
                            @match cells.get(&(finding, *kernel)) {
                                Some((times, cost)) => { (count(*times)) " · " (time(*cost, Charset::Unicode)) }
                                None => { "–" }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn clocks(sums: &Sums) -> Markup {
    let all = bounds(sums);
    let mut by_width: Vec<&Bounds<'_>> = all.iter().filter(|it| it.clock.is_consistent).collect();
    by_width.sort_by_key(|it| it.clock.highest_ns - it.clock.lowest_ns);
    let width = |it: &&Bounds<'_>| {
        time((it.clock.highest_ns - it.clock.lowest_ns).unsigned_abs(), Charset::Unicode)
    };
    let largest = by_width.iter().map(|it| {
        let clock = &it.clock;
        clock.lowest_ns.unsigned_abs().max(clock.highest_ns.unsigned_abs())
    });
    html! {
        @if let (Some(middle), Some(widest)) = (by_width.get(by_width.len() / 2), by_width.last()) {
            h2 { "Clocks" }
            p {
                "Clocks of " (counted(by_width.len() as u64, "pair")) " of hosts are bounded by the segments between them. "
                "Width of the bounds: median " (width(middle)) ", widest " (width(widest)) ". "
                "Largest difference of two clocks: " (time(largest.max().unwrap_or(0), Charset::Unicode)) " at most. "
                "The delay of " code { "wire" } " may be wrong by half the width."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Recording;
    use crate::summary::{Counts, Delays, End};

    fn group(program: &str) -> Group {
        let end = |service: &str| End {
            service: service.to_owned(),
            host: Some("web".to_owned()),
            kernel: Some("6.1".to_owned()),
        };
        Group { hour: 5, protocol: "tcp".to_owned(), client: end(program), server: end("db:80") }
    }

    fn found(group: &Group, finding: &str, cost_ns: u64) -> Found {
        Found {
            group: group.clone(),
            finding: finding.to_owned(),
            client: "10.0.0.1:1".to_owned(),
            server: "10.0.0.2:80".to_owned(),
            opened_ns: 0,
            sender: "client".to_owned(),
            count: 1,
            cost_ns,
            summary: String::new(),
            fix: String::new(),
        }
    }

    #[test]
    fn the_worst_pair_is_first_and_no_name_is_markup() {
        let mut sums = Sums::default();
        for (place, (program, finding, cost_ns)) in [
            ("<script>x</script>", "nagle-delayed-ack", 40_000_000),
            ("cheap", "slow-reader", 1_000_000),
        ]
        .into_iter()
        .enumerate()
        {
            let group = group(program);
            sums.findings.push(found(&group, finding, cost_ns));
            sums.groups.push(group);
            sums.counts.push((place, Counts { connections: 7, ..Counts::default() }));
            sums.ledger.push(((place, 0, LedgerPart::SendNagle as u8), 3_000_000));
            let delays = Delays { runs: 1, delay_ns: 40 };
            sums.delays.push(((place, 0, Stage::Total as u8, 10), delays));
        }
        let recording = Recording {
            host: "web".to_owned(),
            run: "1".to_owned(),
            kernel: "6.1".to_owned(),
            segments: 1,
            records: 1,
            undescribed_records: 0,
            duration_ns: 1,
        };
        let head = Head { recordings: vec![recording], problems: Vec::new() };
        let page = page(&head, &sums);
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text} in {page}"));
        assert!(
            at("<h1>Fleet: 14 connections of 1 host</h1>")
                < at("&lt;script&gt;x&lt;/script&gt; → db:80")
        );
        assert!(at("<b>nagle-delayed-ack</b>") < at("<b>slow-reader</b>"));
        assert!(at("send_queue.nagle 100.0 %") < at("<h2>Findings by kernel</h2>"));
        assert!(page.contains("45 ns"), "the bound of bucket 10");
        for absent in ["<script", "http:", "https:", "@import", "url("] {
            assert!(!page.contains(absent), "{absent}");
        }
    }
}
