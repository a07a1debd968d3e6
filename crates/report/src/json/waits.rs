//! The waits of callers for all requests together, and the shares of that time.

use serde::Serialize;

use crate::Report;
use crate::waits::{WaitParts, Waits};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct WaitsView {
    union_ns: u64,
    sum_ns: u64,
    answerers_ns: u64,
    network_and_kernel_ns: u64,
    callers_ns: u64,
    opening_ns: u64,
    unknown_ns: u64,
}

impl WaitsView {
    pub(super) fn new(report: &Report<'_>) -> Self {
        let waits = Waits::of(report);
        let WaitParts { answerers_ns, way_ns, callers_ns, opening_ns, unknown_ns } = waits.parts();
        Self {
            union_ns: waits.union_ns,
            sum_ns: waits.sum_ns,
            answerers_ns,
            network_and_kernel_ns: way_ns,
            callers_ns,
            opening_ns,
            unknown_ns,
        }
    }
}
