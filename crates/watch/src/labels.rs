//! Labels of the series.

use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};

/// Connections of one program and server port. Never of a client's port or an address: each connection has another one.
#[derive(Debug, Clone, Default, Hash, PartialEq, Eq)]
pub(crate) struct Group {
    pub process: String,
    /// Of the server; empty for a Unix socket.
    pub port: String,
    pub protocol: &'static str,
    /// Of the program's control group; empty where a name is not known.
    pub unit: String,
    pub container: String,
    pub namespace: String,
    pub pod: String,
}

impl EncodeLabelSet for Group {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Self { process, port, protocol, unit, container, namespace, pod } = self;
        let labels = [
            ("process", process.as_str()),
            ("port", port),
            ("protocol", protocol),
            ("unit", unit),
            ("container", container),
            ("namespace", namespace),
            ("pod", pod),
        ];
        // To Prometheus an empty label and an absent one are the same.
        for label in labels.into_iter().filter(|(_, value)| !value.is_empty()) {
            label.encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfPlace {
    pub place: &'static str,
    pub direction: &'static str,
    #[prometheus(flatten)]
    pub group: Group,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfFinding {
    pub finding: &'static str,
    #[prometheus(flatten)]
    pub group: Group,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfRetransmission {
    pub class: &'static str,
    pub direction: &'static str,
    #[prometheus(flatten)]
    pub group: Group,
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
