//! The capabilities of this process (capabilities(7)).

use rustix::thread::{CapabilitySet, capabilities};

/// Whether the process may write against the mode of a file or folder (`CAP_DAC_OVERRIDE`).
pub(crate) fn may_override() -> bool {
    effective().contains(CapabilitySet::DAC_OVERRIDE)
}

/// The capabilities in effect.
pub(crate) fn effective() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capabilities_in_effect_are_those_of_the_thread_s_status() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        assert_eq!(effective().bits(), u64::from_str_radix(line.trim(), 16).unwrap());
    }
}
