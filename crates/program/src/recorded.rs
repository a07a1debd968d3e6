//! What a live trace says of its own recording.

use sockscope_probe::{HookReport, Summary, When};
use sockscope_trace::{Hook, HookState, Meta, Ring};

use crate::machine;

/// Adds what is known only at the end.
pub fn complete(meta: &mut Meta, summary: &Summary) {
    meta.clock.push(machine::reading());
    meta.interfaces = machine::interfaces();
    meta.hooks = summary.hooks.iter().map(hook).collect();
    meta.ring = Ring { records: summary.list_records, bytes: summary.list_bytes };
    meta.loss = summary.missed;
    meta.cost = summary.costs;
    meta.notes.clone_from(&summary.notes);
    meta.complete = true;
}

/// The points of Unix sockets that this kernel does not show, where they are to be recorded. `None` if it shows all.
pub fn unseen_of_unix(hooks: &[HookReport]) -> Option<String> {
    let is_unseen = |hook: &&HookReport| {
        let entry = hook.entry;
        entry.when == When::Unix && !entry.points.is_empty() && !hook.problem.is_empty()
    };
    let unseen: Vec<_> = hooks
        .iter()
        .filter(is_unseen)
        .map(|hook| format!("{} ({}: {})", hook.entry.without, hook.entry.hook, hook.problem))
        .collect();
    (!unseen.is_empty()).then(|| format!("--unix: not recorded are {}", unseen.join(" and ")))
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

#[cfg(test)]
mod tests {
    use sockscope_probe::HOOKS;

    use super::*;

    /// The table on a kernel that lacks these hooks.
    fn without(lacking: &[&str]) -> Vec<HookReport> {
        let report = |entry: &sockscope_probe::HookEntry| {
            let is_there = !lacking.contains(&entry.hook);
            HookReport {
                entry: *entry,
                used: is_there,
                problem: if is_there { String::new() } else { "not in this kernel".to_owned() },
                stand_ins: Vec::new(),
            }
        };
        HOOKS.iter().map(report).collect()
    }

    #[test]
    fn a_kernel_without_the_points_of_unix_sockets_is_named() {
        assert_eq!(unseen_of_unix(&without(&[])), None);
        // Points of TCP have a stand-in, and a call has no point.
        assert_eq!(unseen_of_unix(&without(&["tp_btf/sys_enter"])), None);
        let unseen = unseen_of_unix(&without(&["tp_btf/sk_data_ready", "tp_btf/sock_recv_length"]));
        assert_eq!(
            unseen.as_deref(),
            Some(
                "--unix: not recorded are points 1 and 7 of Unix sockets (tp_btf/sk_data_ready: not in this kernel) \
                 and point 8 of Unix sockets (tp_btf/sock_recv_length: not in this kernel)"
            )
        );
    }
}
