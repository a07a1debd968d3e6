//! The short report: head and verdict, the totals by server, and the connection that the verdict names.
//!
//! A part is left out if the report would not fit a screen with it. The last line has the command that
//! prints everything.

use std::io;

use sockscope_analysis::ConnectionAnalysis;
use sockscope_record::Protocol;
use sockscope_render::number::counted;

use super::header::Lead;
use super::page::Page;
use super::{bar, calls, closing, connection, header, request_tree, totals};
use crate::{Report, order};

/// Lines of a report, as far as the words of the verdict leave room.
const LINES_MAX: usize = 25;

/// Servers that have a row in the totals.
const SERVERS_MAX: usize = 3;

/// Lines that are written when there is room for them.
#[derive(Default)]
struct Piece {
    text: Vec<u8>,
    lines: usize,
}

impl Piece {
    fn of(
        report: &Report<'_>,
        write: impl FnOnce(&mut Page<'_>) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut text = Vec::new();
        let mut page = Page::new(&mut text, report.options);
        write(&mut page)?;
        let lines = page.lines();
        Ok(Self { text, lines })
    }
}

pub(super) fn write(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let lead = header::write(report, page)?;
    let ranked = order::by_importance(report, lead.map(|lead| lead.connection));
    let shown = ranked.first().copied();
    let end = Piece::of(report, |page| write_end(report, ranked.len(), page))?;
    let nested = Piece::of(report, |page| request_tree::write(report, page))?;
    let room = LINES_MAX.saturating_sub(page.lines() + end.lines);
    let totals = totals(report, [room.saturating_sub(nested.lines), room])?;
    page.append(&totals.text, totals.lines)?;
    let conservation = Piece::of(report, |page| closing::write_conservation(report, page))?;
    let connection = connection_pieces(report, shown, lead)?;
    for piece in [nested].into_iter().chain(connection).chain([conservation]) {
        if page.lines() + piece.lines + end.lines <= LINES_MAX {
            page.append(&piece.text, piece.lines)?;
        }
    }
    page.append(&end.text, end.lines)
}

/// The totals, of as many servers as there is room for: together with the pieces that follow, or else without
/// them; of one in any case.
fn totals(report: &Report<'_>, rooms: [usize; 2]) -> io::Result<Piece> {
    let piece = |servers| Piece::of(report, |page| totals::write(report, servers, page));
    let all = piece(SERVERS_MAX)?;
    if all.lines <= rooms[0] {
        return Ok(all);
    }
    let fewer = [all, piece(SERVERS_MAX - 1)?, piece(1)?];
    let fits = |room: usize| fewer.iter().position(|piece| piece.lines <= room);
    let chosen = rooms.into_iter().find_map(fits).unwrap_or(fewer.len() - 1);
    Ok(fewer.into_iter().nth(chosen).unwrap_or_default())
}

/// The connection in pieces, in the order of the page: its heading, its requests, and the ledger of one direction.
fn connection_pieces<'a>(
    report: &Report<'a>,
    shown: Option<&'a ConnectionAnalysis>,
    lead: Option<Lead>,
) -> io::Result<Vec<Piece>> {
    let Some(shown) = shown else { return Ok(Vec::new()) };
    let is_udp = shown.connection.protocol == Protocol::Udp;
    let head = Piece::of(report, |page| connection::write_head(report, shown, page))?;
    let requests = Piece::of(report, |page| match &shown.exchanges {
        Some(exchanges) => calls::write_exchanges(exchanges, is_udp, report.times(), page),
        None => Ok(()),
    })?;
    let named = lead.and_then(|lead| lead.flow);
    let flow = report
        .flows(shown)
        .filter(|flow| connection::has_data(flow))
        .max_by_key(|flow| (Some(flow.id) == named, flow.bytes, std::cmp::Reverse(flow.id)));
    let ledger = Piece::of(report, |page| {
        let Some(flow) = flow else { return Ok(()) };
        connection::write_traffic(shown, flow, page)?;
        bar::write_ledger(flow, is_udp, page)
    })?;
    // Where the time is a direction's, its ledger explains more than the requests do.
    Ok(match named {
        Some(_) => vec![head, ledger, requests],
        None => vec![head, requests, ledger],
    })
}

/// The command that prints the full report, with its contents where the line has room.
fn write_end(report: &Report<'_>, connections: usize, page: &mut Page<'_>) -> io::Result<()> {
    let others = match connections.saturating_sub(1) {
        0 => String::new(),
        more => format!("{}, ", counted(more as u64, "more connection")),
    };
    let Some(command) = report.command("report") else { return Ok(()) };
    let command = format!("{command} --full");
    let long = format!("{command}: {others}paths, evidence");
    page.command("more", if page.fits(&long) { &long } else { &command })
}

#[cfg(test)]
mod tests {
    use sockscope_analysis::Analysis;

    use super::LINES_MAX;
    use crate::fixture::{self, written};
    use crate::{Options, Text};

    fn brief(analysis: &Analysis) -> String {
        written(&Text, analysis, &Options { full: false, ..Options::default() })
    }

    #[test]
    fn a_stall_has_its_verdict_and_the_ledger_of_its_direction() {
        insta::assert_snapshot!(brief(&fixture::stall()), @"
        sockscope 0.1.0 on anvil, kernel 6.18.1, clock monotonic
        command  python3 rpc.py
        trace    live, 8.61 s, 1 connection, 12,345 records, 0 missed

        verdict  nagle-delayed-ack costs most: 8.17 s (94.9 % of the trace), 199 times,
                 on connection 1.
        why      199 of 200 messages waited 41.1 ms (median) in the send queue for an
                 acknowledgment that the receiver delayed
        fix      at the client, write each message with one call (writev, MSG_MORE) or
                 set TCP_NODELAY
        try      sockscope try nodelay -- CMD

        ── connection 1: tcp 127.0.0.1:40000 → 127.0.0.1:5000 ──────────────────────────
        client   python3 (pid 4711); server: python3 (pid 4712)
        flow 2: client → server, 78.1 KiB in 400 segments, 9.07 KiB/s (74.3 kbit/s)
        ledger  ▕...NNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNUU+▏
                 N  94.9 %   8.17 s  send_queue.nagle      held by Nagle's algorithm
                 .   3.1 %   267 ms  app_idle              everything written was read
                 U   1.2 %   103 ms  receive_queue.wakeup  reader waits for a CPU
                 +   0.8 %  70.4 ms  4 parts below 1 % each
                 = 100.0 %   8.61 s  the flow's first record to the connection's last
        conservation: residue 0 in all 14 queues (7 of each of 2 flows with data)
        more     sockscope report --full: paths, evidence
        ");
    }

    #[test]
    fn slow_calls_have_totals_and_the_requests_of_the_slow_connection() {
        insta::assert_snapshot!(brief(&fixture::slow_calls()), @"
        sockscope 0.1.0 on anvil, kernel 6.18.1, clock monotonic
        command  python3 rpc.py
        trace    live, 6.10 s, 3 connections, 12,345 records, 0 missed

        verdict  no known cause; callers waited 5.00 s; the 5.01 s of all requests
                 together went 99.8 % to the server (python3, pid 4712), 0.2 % to
                 network and kernel. The longest request, 3.00 s on connection 1, was
                 given up without an answer.
        next     see what python3 does from request to response: strace -f -r -p 4712,
                 perf trace -p 4712.

        server          clients    conns requests     p50     p99     max  req serv resp
        python3 :5000   python3        3        5 5.00 ms  3.00 s  3.00 s   0% 100%   0%
        slowest  3.00 s at +3.000000 s on connection 1, given-up
        show     sockscope show --connection 1 --from 3.000000 --to 6.000000
        requests 4 answered, 1 given-up

        ── connection 1: tcp 127.0.0.1:40000 → 127.0.0.1:5000 ──────────────────────────
        client   python3 (pid 4711); server: python3 (pid 4712)
        flow 2: client → server, 1000 B in 7 segments, 116 B/s (929 bit/s)
        ledger  ▕..............................................wwwwwwwwwwwwwwww▏
                 .  75.0 %  9.00 µs  app_idle              everything written was read
                 w  25.0 %  3.00 µs  wire                  driver, wire, driver
                 = 100.0 %  12.0 µs  the flow's first record to the connection's last
        more     sockscope report --full: 2 more connections, paths, evidence
        ");
    }

    #[test]
    fn whatever_was_recorded_a_report_has_a_screen_of_lines() {
        let all = [
            fixture::stall(),
            fixture::slow_calls(),
            fixture::many(5_000),
            fixture::empty(),
            fixture::absurd(),
            fixture::hostile(),
            fixture::unknown_everything(),
        ];
        for analysis in &all {
            for width in [Options::WIDTH_MIN, Options::WIDTH_MAX] {
                let options = Options { full: false, width, ..Options::default() };
                let text = written(&Text, analysis, &options);
                assert!(text.lines().count() <= LINES_MAX, "{text}");
                assert!(text.lines().last().is_some_and(|it| it.starts_with("more  ")), "{text}");
            }
        }
    }
}
