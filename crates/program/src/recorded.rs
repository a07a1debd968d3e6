//! What a live trace says of its own recording.

use sockscope_probe::{HookReport, Summary, When};
use sockscope_trace::{Hook, HookState, Meta, Ring};

use crate::machine;

/// Adds what is known only at the end.
pub fn complete(meta: &mut Meta, summary: &Summary) {
    meta.clock.push(machine::clock());
    meta.interfaces = machine::interfaces();
    meta.hooks = summary.hooks.iter().map(hook).collect();
    meta.ring = Ring { records: summary.list_records, bytes: summary.list_bytes };
    meta.loss = summary.missed;
    meta.cost = summary.costs;
    meta.notes.clone_from(&summary.notes);
    meta.complete = true;
}

/// An entry of the table of hooks, as a trace has it.
pub fn hook(report: &HookReport) -> Hook {
    let entry = report.entry;
    let names: Vec<&str> = entry.points.iter().map(|point| point.name()).collect();
    Hook {
        point: if names.is_empty() { entry.observes.to_owned() } else { names.join("+") },
        hook: entry.hook.to_owned(),
        state: match (report.used, report.problem.is_empty()) {
            (true, _) => HookState::Used,
            (false, true) => HookState::Unused,
            (false, false) if !report.stand_ins.is_empty() => HookState::Unused,
            (false, false) => HookState::Missing,
        },
        note: match (report.used, entry.when) {
            (false, When::Datagrams) if report.problem.is_empty() => {
                "no datagram was logged".to_owned()
            }
            _ => report.replacement().unwrap_or_else(|| report.problem.clone()),
        },
    }
}
