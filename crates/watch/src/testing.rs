//! Analyses for tests.

use sockscope_analysis::{
    Analysis, Analyzer, Finding, FindingId, FreshCost, FreshCosts, TraceFacts,
};
use sockscope_record::{Connection, ConnectionId, Direction, Process, Protocol, Side};

pub const SECOND: u64 = 1_000_000_000;

/// A redis and its client.
pub fn connection(id: u32) -> Connection {
    Connection {
        id: ConnectionId(id),
        protocol: Protocol::Tcp,
        client: ([127, 0, 0, 1], 40_000).into(),
        server: ([127, 0, 0, 1], 6_379).into(),
        opened_ns: 0,
        closed_ns: None,
        preexisting: false,
        both_ends_here: true,
        processes: vec![Process::new(7, "redis", Side::Server)],
        names: None,
        mark: None,
        elsewhere: None,
    }
}

/// An analysis with these findings: connection, which one, its cost in milliseconds.
pub fn analysis(findings: &[(u32, FindingId, u64)]) -> Analysis {
    let mut analyzer = Analyzer::new();
    let mut ids: Vec<u32> = findings.iter().map(|(id, ..)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.iter().for_each(|id| analyzer.connection(connection(*id)));
    let mut analysis = analyzer.finish(TraceFacts::default());
    for one in &mut analysis.connections {
        let of_this = findings.iter().filter(|(id, ..)| *id == one.connection.id.0);
        one.findings = of_this
            .map(|(id, finding, cost_ms)| Finding {
                id: *finding,
                flow: ConnectionId(*id).flow(Direction::FromClient),
                side: Side::Client,
                count: 1,
                connections: 1,
                cost_ns: cost_ms * 1_000_000,
                times: Vec::new(),
                summary: format!("{} cost {cost_ms} ms", finding.name()),
                evidence: Vec::new(),
                fix: String::new(),
            })
            .collect();
    }
    analysis
}

/// The costs of an analysis that is the first of its connections.
pub fn whole_costs(analysis: &Analysis) -> Vec<FreshCost> {
    FreshCosts::default().take(analysis)
}
