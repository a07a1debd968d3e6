//! Time at which a program accepted a connection that the kernel had opened for it.

use sockscope_record::{Point, Record};

use crate::FlowStore;

/// The record of it; `None` where it is not known. `received` and `sent` are the flows of the accepting end.
///
/// A program that wants no address from `accept()` has that record when it first asks for one. It had the connection
/// before if it has read or written by then.
pub(super) fn accepted<'a>(received: &FlowStore, sent: &'a FlowStore) -> Option<&'a Record> {
    let uses = [received.at(Point::ReceiveDequeue), sent.at(Point::SendEnqueue)];
    let first_use_ns = uses.iter().filter_map(|passes| Some(passes.first()?.at_ns)).min();
    let is_before = |event: &&Record| first_use_ns.is_none_or(|use_ns| event.at_ns <= use_ns);
    let mut before = sent.events.iter().take_while(is_before);
    before.find(|event| event.acceptor().is_some())
}
