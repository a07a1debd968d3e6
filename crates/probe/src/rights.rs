//! What the process may do.

use std::fs;

/// A right that recording needs, and whether this process has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// As `CAP_BPF`.
    pub name: &'static str,
    /// What for.
    pub needed_for: &'static str,
    /// Whether this process has it.
    pub held: bool,
}

const RIGHTS: [(&str, u32, &str); 4] = [
    ("CAP_BPF", 39, "loading programs and maps"),
    ("CAP_PERFMON", 38, "typed tracepoints"),
    ("CAP_NET_ADMIN", 12, "socket programs (SO_LOG, --in-band)"),
    ("CAP_SYS_ADMIN", 21, "control groups, and all of the above before Linux 5.8"),
];

/// The rights that recording needs; each CAP also counts as held with `CAP_SYS_ADMIN`.
#[must_use]
pub fn rights() -> Vec<Right> {
    let effective = effective();
    let has = |bit: u32| effective >> bit & 1 == 1;
    RIGHTS
        .iter()
        .map(|&(name, bit, needed_for)| Right {
            name,
            needed_for,
            held: has(bit) || has(21) && bit != 12,
        })
        .collect()
}

/// The first right that is missing.
#[must_use]
pub fn missing() -> Option<&'static str> {
    rights().into_iter().find(|right| !right.held).map(|right| right.name)
}

fn effective() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}
