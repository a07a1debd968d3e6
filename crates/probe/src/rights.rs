//! The rights that a recording needs, and whether this process has them.

use std::fs;

use rustix::thread::CapabilitySet;

use crate::capabilities::{effective, may_override};
use crate::cgroup::{Cgroup, is_closed};

/// A right that recording needs, and whether this process has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// As `CAP_BPF`.
    pub name: &'static str,
    /// The purpose.
    pub needed_for: &'static str,
    /// Whether this process has it.
    pub held: bool,
}

/// The missing right in a user namespace of its own: capabilities there are not those of the host.
const OF_HOST: &str = "CAP_BPF of the host (that of a user namespace does not count)";

const RIGHTS: [(&str, CapabilitySet, &str); 4] = [
    ("CAP_BPF", CapabilitySet::BPF, "loading programs and maps"),
    ("CAP_PERFMON", CapabilitySet::PERFMON, "typed tracepoints"),
    ("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN, "socket programs (SO_LOG, --in-band)"),
    (
        "CAP_SYS_ADMIN",
        CapabilitySet::SYS_ADMIN,
        "control groups, and all of the above before Linux 5.8",
    ),
];

/// The user namespace of the host: its number is fixed (`PROC_USER_INIT_INO` in linux/proc_ns.h).
const HOST_NAMESPACE: &str = "user:[4026531837]";

/// The rights that recording needs; each CAP also counts as held with `CAP_SYS_ADMIN`.
pub fn rights() -> Vec<Right> {
    rights_here(effective(), &user_namespace())
}

/// The capabilities in effect. None of them counts in a user namespace of one's own.
fn rights_here(effective: CapabilitySet, namespace: &str) -> Vec<Right> {
    let effective = if is_of_host(namespace) { effective } else { CapabilitySet::empty() };
    // CAP_BPF and CAP_PERFMON were split off from CAP_SYS_ADMIN, which still includes them
    // (`bpf_capable()` and `perfmon_capable()` in linux/capability.h). CAP_NET_ADMIN is a right of its own.
    let includes =
        |one| one != CapabilitySet::NET_ADMIN && effective.contains(CapabilitySet::SYS_ADMIN);
    let right = |&(name, one, needed_for): &(_, CapabilitySet, _)| Right {
        name,
        needed_for,
        held: effective.contains(one) || includes(one),
    };
    RIGHTS.iter().map(right).collect()
}

fn is_of_host(namespace: &str) -> bool {
    namespace.is_empty() || namespace == HOST_NAMESPACE
}

/// Its name; empty where the kernel has none.
fn user_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/user").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

/// All rights that recording lacks, in words for a sentence: `CAP_BPF, CAP_PERFMON`.
pub fn missing() -> Option<String> {
    let group = Cgroup::missing_right();
    let all: Vec<Right> = rights().into_iter().chain(group).collect();
    missing_of(&all, &user_namespace())
}

impl Cgroup {
    /// The right without which no group can be made here; `None` where none is missing, or there is no
    /// version 2 hierarchy.
    pub fn missing_right() -> Option<Right> {
        group_right(is_closed(&Self::hierarchy().ok()?), may_override())
    }
}

/// The right that a command's group needs where this process cannot write its folder: `CAP_DAC_OVERRIDE`.
fn group_right(is_closed: bool, may_override: bool) -> Option<Right> {
    (is_closed && !may_override).then_some(Right {
        name: "CAP_DAC_OVERRIDE",
        needed_for: "a command's control group (run, record -- CMD): its folder is closed to writing",
        held: false,
    })
}

/// A process that lacks only the right to make a group can still record without a command.
fn missing_of(rights: &[Right], namespace: &str) -> Option<String> {
    let is_needed = |right: &Right| RIGHTS.iter().any(|(name, ..)| *name == right.name);
    if !rights.iter().any(|right| !right.held && is_needed(right)) {
        return None;
    }
    if !is_of_host(namespace) {
        return Some(OF_HOST.to_owned());
    }
    // CAP_SYS_ADMIN includes two others. Where it is missing, the text names these narrower ones, too.
    let missing = rights.iter().filter(|right| !right.held);
    Some(missing.map(|right| right.name).collect::<Vec<_>>().join(", "))
}

/// Whether a test that loads programs has the rights; without them it counts as skipped.
#[cfg(test)]
pub fn can_load() -> bool {
    let missing = missing();
    if let Some(missing) = &missing {
        skip(missing);
    }
    missing.is_none()
}

/// Counts the calling test as skipped: `cargo xtask ci` counts these lines.
#[cfg(test)]
pub fn skip(reason: &str) {
    use std::io::Write;
    let this = std::thread::current();
    let test = this.name().unwrap_or("a test of the probes");
    // Not `eprintln!`: libtest keeps its output when the test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Capabilities as `/proc/self/status` has them.
    fn capabilities(bits: u64) -> CapabilitySet {
        CapabilitySet::from_bits_retain(bits)
    }

    fn held(bits: u64) -> Vec<&'static str> {
        let rights = rights_here(capabilities(bits), HOST_NAMESPACE).into_iter();
        rights.filter(|right| right.held).map(|right| right.name).collect()
    }

    #[test]
    fn rights_are_those_in_effect() {
        assert_eq!(held(0), [""; 0]);
        assert_eq!(held(0xc0_0000_1000), ["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"]);
    }

    #[test]
    fn cap_sys_admin_stands_for_those_split_off_from_it_and_not_for_the_network() {
        assert_eq!(held(0x20_0000), ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"]);
    }

    #[test]
    fn a_folder_of_groups_asks_for_a_right_only_where_it_is_closed() {
        let missing = group_right(true, false).expect("it is missing");
        assert_eq!((missing.name, missing.held), ("CAP_DAC_OVERRIDE", false));
        for (is_closed, may_override) in [(true, true), (false, false), (false, true)] {
            assert_eq!(group_right(is_closed, may_override), None);
        }
    }

    #[test]
    fn all_rights_that_are_missing_are_named_at_once() {
        let missing = |bits, group: Option<Right>| {
            let rights = rights_here(capabilities(bits), HOST_NAMESPACE).into_iter();
            missing_of(&rights.chain(group).collect::<Vec<_>>(), HOST_NAMESPACE)
        };
        let group = || group_right(true, false);
        let none = missing(0, group()).expect("all are missing");
        assert_eq!(none, "CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_DAC_OVERRIDE");
        assert_eq!(missing(0x20_0000, None).as_deref(), Some("CAP_NET_ADMIN"));
        assert_eq!(missing(0xc0_0020_1000, group()), None, "without a command it records");
    }

    #[test]
    fn rights_in_a_user_namespace_of_ones_own_are_not_the_hosts() {
        let all = capabilities(0x1ff_ffff_ffff);
        assert!(rights_here(all, "user:[4026532211]").iter().all(|right| !right.held));
        assert!(rights_here(all, "user:[4026531837]").iter().all(|right| right.held));
        assert!(rights_here(all, "").iter().all(|right| right.held), "a kernel without them");
        let first = missing_of(&rights_here(all, "user:[4026532211]"), "user:[4026532211]");
        let expected = "CAP_BPF of the host (that of a user namespace does not count)";
        assert_eq!(first.as_deref(), Some(expected));
        let none = rights_here(capabilities(0), "user:[4026531837]");
        assert_eq!(
            missing_of(&none, "user:[4026531837]"),
            Some("CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, CAP_SYS_ADMIN".to_owned())
        );
    }
}
