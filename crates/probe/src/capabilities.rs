//! The capabilities of this process (capabilities(7)).

use std::fs;

/// Whether the process may write where the mode of a file or folder says no (`CAP_DAC_OVERRIDE`).
pub(crate) fn may_override() -> bool {
    effective(&fs::read_to_string("/proc/self/status").unwrap_or_default()) >> 1 & 1 == 1
}

/// Those in effect by `/proc/self/status`, a bit each.
pub(crate) fn effective(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}
