//! Labels of the series.

use prometheus_client::encoding::EncodeLabelSet;

/// Connections of one program and server port. Never of a client's port or an address: each connection has another one.
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Group {
    pub process: String,
    pub port: String,
    pub protocol: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfPlace {
    pub place: &'static str,
    pub direction: &'static str,
    pub process: String,
    pub port: String,
    pub protocol: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfFinding {
    pub finding: &'static str,
    pub process: String,
    pub port: String,
    pub protocol: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfRetransmission {
    pub class: &'static str,
    pub direction: &'static str,
    pub process: String,
    pub port: String,
    pub protocol: &'static str,
}

/// An exemplar: the connection that was counted last, by its number in the trace. It is no label of a series.
#[derive(Debug, Clone, Copy, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfConnection {
    pub connection: u32,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfSample {
    pub sampled: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfStage {
    pub stage: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfPoint {
    pub point: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfResult {
    pub result: &'static str,
}
