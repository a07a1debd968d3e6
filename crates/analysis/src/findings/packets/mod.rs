//! Findings of connections whose only records are packets, as a capture has them.
//!
//! The other rules rest on queues and calls, and stay silent there.

mod awaited_ack;
mod turns;
mod zero_window;

pub(super) use turns::stop_and_wait;

use super::facts::FlowFacts;
use crate::{Finding, packets};

/// Those of one flow.
pub(super) fn of_flow(facts: &FlowFacts<'_>) -> Vec<Finding> {
    if !packets::are_alone(facts.view.store) {
        return Vec::new();
    }
    let mut found = awaited_ack::find(facts);
    found.extend(zero_window::find(facts));
    found
}
