//! Totals by server: its callers, the number of calls, their time and its shares.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use sockscope_analysis::{ConnectionAnalysis, Request, RequestEnd};
use sockscope_record::statistics::percentile_index;
use sockscope_record::{Protocol, Side};
use sockscope_render::number::{apportion, count, since};
use sockscope_render::style::Tone;

use super::page::{Page, columns, shown};
use crate::{Options, Report};

/// Connections from which on there are totals: one or two are shown in full.
const CONNECTIONS_MIN: usize = 3;

/// Servers that have a row in a full report, those for which callers waited longest.
pub(super) const SERVERS_MAX: usize = 8;

/// Columns of a row without the names of server and clients: see [`row`].
const FIGURES_WIDTH: usize = 55;

/// Columns for the clients on the narrowest page; a wider one gives half of its width more.
const CLIENTS_WIDTH_MIN: usize = 10;

/// All connections to one address.
#[derive(Default)]
struct Server<'a> {
    programs: Vec<&'a str>,
    clients: Vec<&'a str>,
    connections: u64,
    requests: u64,
    totals_ns: Vec<u64>,
    waited_ns: u64,
    /// Of requests with records of both ends.
    parts_ns: [u64; 3],
    /// Of Unix sockets.
    name: Option<String>,
}

impl<'a> Server<'a> {
    fn add(&mut self, analysis: &'a ConnectionAnalysis) {
        self.connections += 1;
        let connection = &analysis.connection;
        let name = || connection.end(Side::Server).to_string();
        self.name = self.name.take().or_else(|| connection.protocol.is_unix().then(name));
        for process in &analysis.connection.processes {
            let names =
                if process.side == Side::Server { &mut self.programs } else { &mut self.clients };
            if !names.contains(&process.comm.as_str()) {
                names.push(&process.comm);
            }
        }
        self.requests += analysis.requests.list.len() as u64;
        for request in &analysis.requests.list {
            if let Some(total_ns) = request.total_ns() {
                self.totals_ns.push(total_ns);
                self.waited_ns = self.waited_ns.saturating_add(total_ns);
            }
            if let Some(parts) = request.parts() {
                let parts = [parts.request_ns, parts.service_ns, parts.response_ns];
                for (sum, ns) in self.parts_ns.iter_mut().zip(parts) {
                    *sum = sum.saturating_add(ns);
                }
            }
        }
    }
}

/// Writes the totals, with so many servers, where there are several connections and any request.
pub(super) fn write<'a>(
    report: &Report<'a>,
    servers_max: usize,
    page: &mut Page<'_>,
) -> io::Result<()> {
    let connections = report.connections();
    let has_requests = connections.clone().any(|one| !one.requests.list.is_empty());
    if connections.clone().count() < CONNECTIONS_MIN || !has_requests {
        return Ok(());
    }
    let mut servers: BTreeMap<(Protocol, SocketAddr), Server<'a>> = BTreeMap::new();
    for analysis in connections.filter(|one| !one.requests.list.is_empty()) {
        let connection = &analysis.connection;
        servers.entry((connection.protocol, connection.server)).or_default().add(analysis);
    }
    let mut servers: Vec<_> = servers.into_iter().collect();
    servers.sort_unstable_by_key(|(key, server)| (std::cmp::Reverse(server.waited_ns), *key));
    page.blank()?;
    let clients_width = CLIENTS_WIDTH_MIN + (page.width - Options::WIDTH_MIN) / 2;
    let width = page.width - FIGURES_WIDTH - clients_width;
    let head = format!(
        "{:<width$} {:<clients_width$} {:>5} {:>8} {:>7} {:>7} {:>7} {:>4} {:>4} {:>4}",
        "server", "clients", "conns", "requests", "p50", "p99", "max", "req", "serv", "resp"
    );
    let head = page.style.paint(&head, Tone::Faint);
    page.line(&head)?;
    let rows = shown(servers.len(), servers_max);
    let more = servers.len() - rows;
    for ((_, address), server) in servers.iter_mut().take(rows) {
        let line = row(*address, server, [width, clients_width], page);
        page.line(&line)?;
    }
    if more > 0 {
        page.line(&format!("{} more servers (in CSV and JSON)", count(more as u64)))?;
    }
    write_slowest(report, page)?;
    write_ends(report, page)
}

/// The share of request, service and response is of the requests with records of both ends.
fn row(
    address: SocketAddr,
    server: &mut Server<'_>,
    [width, clients_width]: [usize; 2],
    page: &Page<'_>,
) -> String {
    server.totals_ns.sort_unstable();
    let time = |percent| {
        let index = percentile_index(server.totals_ns.len(), percent);
        index.map_or("?".to_owned(), |index| page.time(server.totals_ns[index]))
    };
    let [p50, p99, max] = [50, 99, 100].map(time);
    let shares = match server.parts_ns.iter().any(|ns| *ns > 0) {
        true => apportion(&server.parts_ns, 100).iter().map(|share| format!("{share}%")).collect(),
        false => vec!["?".to_owned(); 3],
    };
    let name = page.clean(&server.programs.join(", "));
    let long = server.name.clone().unwrap_or_else(|| address.to_string());
    let long = format!("{name} {long}").trim_start().to_owned();
    let short = match server.name {
        Some(_) => long.clone(),
        None => format!("{name} :{}", address.port()),
    };
    let name = if columns(&long) <= width { long } else { cut(&short, width) };
    let clients = page.clean(&server.clients.join(", "));
    let clients = if columns(&clients) <= clients_width {
        clients
    } else {
        clients.chars().take(clients_width - 2).chain("..".chars()).collect()
    };
    format!(
        "{name:<width$} {clients:<clients_width$} {:>5} {:>8} {p50:>7} {p99:>7} {max:>7} {:>4} {:>4} {:>4}",
        count(server.connections),
        count(server.requests),
        shares[0],
        shares[1],
        shares[2],
    )
}

/// The end of a long name is more useful than its beginning: it has the port.
fn cut(text: &str, width: usize) -> String {
    match columns(text) <= width {
        true => text.to_owned(),
        false => {
            let keep = width.saturating_sub(2);
            let tail: String = text.chars().skip(columns(text) - keep).collect();
            format!("..{tail}")
        }
    }
}

fn write_slowest<'a>(report: &Report<'a>, page: &mut Page<'_>) -> io::Result<()> {
    let of = |analysis: &'a ConnectionAnalysis| {
        analysis.requests.list.iter().map(move |request| (analysis, request))
    };
    let known = report.connections().flat_map(of);
    let known = known.filter(|(_, request)| request.total_ns().is_some());
    let order = |(analysis, request): &(&ConnectionAnalysis, &Request)| {
        let first = std::cmp::Reverse((request.asked_ns, analysis.connection.id));
        (request.total_ns(), first)
    };
    let Some((analysis, request)) = known.max_by_key(order) else { return Ok(()) };
    let id = analysis.connection.id.0;
    let text = format!(
        "{} at {} on connection {id}, {}",
        page.time(request.total_ns().unwrap_or(0)),
        since(report.analysis.start_ns, request.asked_ns),
        request.end.name(),
    );
    page.labelled("slowest", &text, Tone::Plain)?;
    let window = report.times().window(request.asked_ns, request.ended_ns);
    match report.command("show") {
        Some(command) => page.command("show", &format!("{command} --connection {id} {window}")),
        None => Ok(()),
    }
}

/// Counts by end, where not all were answered; those that missed records touch are in none of the figures.
fn write_ends(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let mut ends = [0u64; RequestEnd::ALL.len()];
    for request in report.connections().flat_map(|one| &one.requests.list) {
        ends[request.end as usize] += 1;
    }
    let found = RequestEnd::ALL.into_iter().zip(ends).filter(|(_, found)| *found > 0);
    let mut parts: Vec<String> =
        found.map(|(end, found)| format!("{} {}", count(found), end.name())).collect();
    let left_out = report.connections().map(|one| one.requests.left_out).sum::<u64>();
    if left_out > 0 {
        parts.push(format!("at least {} left out for missed records", count(left_out)));
    }
    let answered = ends[RequestEnd::Answered as usize];
    if answered == ends.iter().sum::<u64>() && left_out == 0 {
        return Ok(());
    }
    page.labelled("requests", &parts.join(", "), Tone::Plain)
}

#[cfg(test)]
mod tests {
    use crate::fixture::{slow_calls, written};
    use crate::text::page::Page;
    use crate::{Options, Origin, Report, Text};

    #[test]
    fn three_connections_have_totals_by_server() {
        let text = written(&Text, &slow_calls(), &Options { width: 96, ..Options::default() });
        let lines: Vec<_> = text.lines().skip_while(|line| !line.starts_with("server  ")).collect();
        insta::assert_snapshot!(lines[..5].join("\n"), @"
        server                  clients            conns requests     p50     p99     max  req serv resp
        python3 127.0.0.1:5000  python3                3        5 5.00 ms  3.00 s  3.00 s   0% 100%   0%
        slowest  3.00 s at +3.000000 s on connection 1, given-up
        show     sockscope show --connection 1 --from 3.000000 --to 6.000000
        requests 4 answered, 1 given-up
        ");
        let mut two = slow_calls();
        two.connections.truncate(2);
        assert!(!written(&Text, &two, &Options::default()).contains("\nslowest "));
    }

    #[test]
    fn a_line_is_a_server_rather_than_the_number_of_one_more() {
        let rows = |servers: u16| {
            let mut analysis = slow_calls();
            for (connection, port) in analysis.connections.iter_mut().zip(1..) {
                connection.connection.server.set_port(port.min(servers));
            }
            let options = Options::default();
            let report =
                Report { origin: &Origin::default(), analysis: &analysis, options: &options };
            let mut text = Vec::new();
            super::write(&report, 1, &mut Page::new(&mut text, &options)).expect("it is memory");
            let text = String::from_utf8(text).expect("it is UTF-8");
            let rows = text.lines().skip_while(|line| !line.starts_with("server "));
            let rows = rows.skip(1).take_while(|line| !line.starts_with("slowest "));
            rows.map(|line| line.split("  ").next().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(rows(1), ["python3 :1"]);
        assert_eq!(rows(2), ["python3 :1", "python3 :2"]);
        assert_eq!(rows(3), ["python3 :1", "2 more servers (in CSV and JSON)"]);
    }

    #[test]
    fn a_narrow_page_cuts_names_and_a_server_that_was_not_seen_has_only_its_address() {
        let mut analysis = slow_calls();
        for connection in &mut analysis.connections {
            connection.connection.processes.retain(|process| process.pid == 4711);
            connection.connection.processes[0].comm = "a-long-client-name".to_owned();
        }
        let text = written(&Text, &analysis, &Options::default());
        let line = text.lines().find(|line| line.contains("a-long")).expect("a row");
        assert!(line.contains(" a-long-c.. "), "{line}");
        assert!(line.starts_with("127.0.0.1:5000 "), "{line}");
        assert!(line.chars().count() <= 80, "{line}");
    }
}
