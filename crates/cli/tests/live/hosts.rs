//! Two hosts on one machine: network namespaces that a veth pair joins.

use std::process::Command;

use crate::bundle::checkout;

/// Address of host `b`.
pub const B_V4: &str = "10.83.0.2";
/// The same, IPv6.
pub const B_V6: &str = "fd83::2";

/// Names of our pairs: this and the id of the process that tests.
const PREFIX: &str = "sockscope-live-";

fn name() -> String {
    format!("{PREFIX}{}", std::process::id())
}

/// Hosts `a` and `b`; dropping them ends what runs there and removes them.
pub struct Hosts(());

impl Hosts {
    /// Makes them; `options` as `scripts/netns-pair` takes them.
    pub fn up(options: &[&str]) -> Self {
        remove_stale();
        let hosts = Self(());
        let status = netns_pair("up", &name()).args(options).status().expect("the script is there");
        assert!(status.success(), "netns-pair up: {status}");
        hosts
    }

    /// `command`, as run on host `a`.
    pub fn on_a(&self, command: &[String]) -> Vec<String> {
        inside("a", command)
    }

    /// `command`, as run on host `b`.
    pub fn on_b(&self, command: &[String]) -> Vec<String> {
        inside("b", command)
    }

    /// The namespace of host `b`, as `ip netns` names it.
    pub fn name_b(&self) -> String {
        format!("{}-b", name())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = netns_pair("down", &name()).status();
    }
}

fn inside(host: &str, command: &[String]) -> Vec<String> {
    let start = ["ip", "netns", "exec"].map(str::to_owned).into_iter();
    start.chain([format!("{}-{host}", name())]).chain(command.iter().cloned()).collect()
}

/// Removes pairs of test processes that were killed.
fn remove_stale() {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for entry in entries {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = file.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix("-a")) else {
            continue;
        };
        if !std::path::Path::new("/proc").join(pid).exists() {
            let _ = netns_pair("down", &format!("{PREFIX}{pid}")).status();
        }
    }
}

fn netns_pair(task: &str, name: &str) -> Command {
    let mut command = Command::new(checkout().join("scripts/netns-pair"));
    command.args([task, name]);
    command
}
