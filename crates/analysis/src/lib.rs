//! Curves, queue lengths, delays, the ledger and the findings: pure functions of records.
//!
//! The input is every [`Record`](sockscope_record::Record) of a trace, in any order that is nearly that of
//! time, and the descriptions of its connections. The output is one [`Analysis`]. Nothing here reads a
//! clock, a file or a socket, or depends on the source of the records: a kernel, the model or a capture.

mod ack_bounds;
mod acks;
mod analyzer;
mod assembly;
mod buffers;
mod clock_errors;
mod clocks;
mod connection;
mod curve;
mod detail;
mod distribution;
mod drop_gap;
mod dropped_packets;
mod drops;
mod exchanges;
mod findings;
mod flow_curves;
mod flow_detail;
mod fresh_costs;
mod hops;
mod interface;
mod kernel_socket;
mod ledger;
mod ledger_detail;
#[cfg(test)]
mod left_out_tests;
mod nesting;
mod opening;
mod openings;
mod outcome;
mod packets;
mod parallel;
mod pattern;
mod pattern_calls;
mod pattern_cpus;
mod pattern_find;
mod pattern_fold;
mod queue;
mod ranges;
mod receive_wait;
mod record_buffer;
mod record_loss;
#[cfg(test)]
mod record_loss_proptests;
mod record_loss_times;
mod requests;
mod result;
mod send_buffer_wait;
mod send_hold;
mod send_queue;
mod socket_layers;
mod stages;
mod store;
#[cfg(test)]
mod testing;
mod timeline;
#[cfg(test)]
mod trace_proptests;
#[cfg(test)]
mod trace_tests;
mod traffic;
mod transactions;
mod transmission;
mod unseen;
mod window;

pub use acks::{AckNews, acknowledgments};
pub use analyzer::{Analyzer, Stores};
pub use clocks::{HostClocks, Uncertainty};
pub use connection::FlowParts;
pub use detail::{Columns, Detail, edges};
pub use dropped_packets::{DroppedPacket, dropped_packets};
pub use flow_curves::FlowCurves;
pub use flow_detail::FlowCurve;
pub use fresh_costs::{FreshCost, FreshCosts};
pub use hops::{HopPath, paths as hop_paths, residence_lengths};
pub use interface::device_name;
pub use ledger::ledger_spans;
pub use ledger_detail::LedgerDetail;
pub use nesting::{Certainty, NestedTime, Nesting, RequestId, RequestLink, nest_requests};
pub use packets::are_alone as packets_are_alone;
pub use pattern::{
    Action, Activity, LONG_WAIT_NS, NoPattern, Pattern, REFILL_MAX_NS, Step, WarmTimes,
    reads_in_sequence,
};
pub use pattern_cpus::CallCpus;
pub use pattern_find::pattern;
pub use pattern_fold::{Loop, LoopStep, fold, unfold};
pub use queue::{QueueStep, Residence, queue_delays, queue_lengths};
pub use requests::{
    Conversation, Moment, Request, RequestEnd, RequestParts, Requests, SeenEnds, UnreadRequest,
};
pub use store::{ConnectionStore, Events, FlowStore, Passage, StoreWindow};
pub use timeline::{ConnectionView, FlowView, LedgerSpan, LossInterval, OfOthers};

pub use window::Window;

pub use result::{
    AckDelayCause, AckSummary, Analysis, AtLeast, BufferGrant, BurstSummary, ConnectionAnalysis,
    Device, Distribution, DropCount, DropReasons, Evidence, ExchangeSummary, Finding, FindingId,
    FlowAnalysis, HopAnalysis, Interface, Ledger, LedgerPart, LengthSummary, NamespaceNames,
    PointSummary, StageAnalysis, TraceFacts, TransactionSummary, Unopened,
};
