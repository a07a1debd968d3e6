//! One connection: its flows, its exchanges, its buffers and its findings.

use sockscope_record::Direction;

use crate::{
    AckSummary, BurstSummary, ConnectionAnalysis, ConnectionStore, FlowAnalysis, Ledger,
    LossInterval,
};

pub(crate) fn analyze_connection(
    store: &ConnectionStore,
    _losses: &[LossInterval],
) -> ConnectionAnalysis {
    let flow = |direction| FlowAnalysis {
        id: store.connection.id.flow(direction),
        bytes: 0,
        segments: 0,
        retransmitted_bytes: 0,
        throughput_bytes_per_s: None,
        stages: Vec::new(),
        ledger: Ledger::default(),
        acks: AckSummary::default(),
        bursts: BurstSummary::default(),
        write_bytes: None,
        read_bytes: None,
    };
    ConnectionAnalysis {
        connection: store.connection.clone(),
        flows: [flow(Direction::FromClient), flow(Direction::FromServer)],
        exchanges: None,
        buffers: Vec::new(),
        findings: Vec::new(),
    }
}
