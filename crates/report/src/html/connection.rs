//! One connection: its ends, the path of each direction, its ledger, its figures and its findings.

use std::io;

use maud::{Markup, html};
use sockscope_analysis::{ConnectionAnalysis, Stores};
use sockscope_render::style::printable;

use super::figures::{self, Detailed, FlowFigures, Prepared, Subject, is_udp};
use super::{bars, findings, hops, path, words};
use crate::Report;
use crate::text::lines;

/// A connection's part of the page.
pub(super) struct Section {
    pub(super) markup: Markup,
    /// The figures' columns, by flow.
    pub(super) data: Vec<(String, serde_json::Value)>,
}

/// A connection with the curves of its flows.
pub(super) struct Subsection<'r, 'a> {
    report: &'r Report<'a>,
    connection: &'a ConnectionAnalysis,
    flows: Vec<Prepared<'r, 'a>>,
}

impl<'r, 'a> Subsection<'r, 'a> {
    pub(super) fn new(
        report: &'r Report<'a>,
        stores: &'r Stores,
        connection: &'a ConnectionAnalysis,
    ) -> Self {
        let id = connection.connection.id;
        let store = stores.connections.iter().find(|store| store.connection.id == id);
        let flows = report.flows(connection).filter(|flow| figures::is_drawn(flow));
        let prepared = flows.filter_map(|flow| {
            Some(Prepared::new(Subject { report, stores, store: store?, connection, flow }))
        });
        Self { report, connection, flows: prepared.collect() }
    }

    /// The section with figures so detailed, or without.
    pub(super) fn section(&self, detailed: Option<Detailed>) -> io::Result<Section> {
        let (report, connection) = (self.report, self.connection);
        let id = connection.connection.id.0;
        let is_udp = is_udp(connection);
        let mut data = Vec::new();
        let mut flows = Vec::new();
        for prepared in &self.flows {
            let flow = prepared.flow();
            let figures = detailed.map(|detailed| {
                let FlowFigures { markup, data: columns } = prepared.figures(detailed);
                data.push((flow.id.to_string(), columns));
                markup
            });
            flows.push(html! {
                section class="flow" id={ "flow-" (flow.id) } {
                    @for line in lines::traffic(report, connection, flow)? {
                        h3 { (line.label) ": " (line.text) }
                    }
                    (path::picture(flow, connection.connection.protocol))
                    (hops::table(flow))
                    h4 { "Ledger: the place of the oldest unread byte, shares of time" }
                    (bars::sum(&flow.ledger, is_udp, bars::WIDE))
                    (bars::legend(&flow.ledger, is_udp))
                    @if let Some(figures) = figures { (figures) }
                    (words::list(&lines::flow(report, connection, flow)?, "small"))
                }
            });
        }
        let markup = html! {
            section class="connection" id={ "connection-" (id) } {
                h2 { "Connection " (id) ": " (headline(connection)) }
                (words::list(&lines::ends(report, connection)?, "small"))
                (words::list(&lines::calls(report, connection)?, "small"))
                (findings::section(report, connection, detailed.is_some()))
                @for flow in flows { (flow) }
            }
        };
        Ok(Section { markup, data })
    }
}

/// As `tcp 127.0.0.1:40000 → 127.0.0.1:5000`.
pub(super) fn headline(analysis: &ConnectionAnalysis) -> String {
    let connection = &analysis.connection;
    let text = format!(
        "{} {} → {}",
        connection.protocol.name(),
        connection.end(sockscope_record::Side::Client),
        connection.end(sockscope_record::Side::Server)
    );
    printable(&text)
}
