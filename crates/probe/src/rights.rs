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
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    rights_of(effective(&status))
}

fn rights_of(effective: u64) -> Vec<Right> {
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

fn effective(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of the rights held with this line of `/proc/self/status`.
    fn held(line: &str) -> Vec<&'static str> {
        let status = format!("Name:\tx\nCapPrm:\t000001ffffffffff\n{line}\nSeccomp:\t0\n");
        let rights = rights_of(effective(&status)).into_iter();
        rights.filter(|right| right.held).map(|right| right.name).collect()
    }

    #[test]
    fn rights_are_those_in_effect() {
        assert_eq!(held("CapEff:\t0000000000000000"), [""; 0]);
        assert_eq!(held("CapEff:\t000000c000001000"), ["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"]);
    }

    #[test]
    fn cap_sys_admin_stands_for_those_split_off_from_it_and_not_for_the_network() {
        assert_eq!(held("CapEff:\t0000000000200000"), ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"]);
    }

    #[test]
    fn an_unreadable_status_gives_no_right() {
        assert_eq!(held(""), [""; 0]);
        assert_eq!(held("CapEff:\tnothing"), [""; 0]);
    }
}
