//! Two hosts on one machine: network namespaces that a veth pair joins.

use std::process::Command;

use crate::bundle::checkout;

/// Address of host `b`.
pub const B_V4: &str = "10.83.0.2";
/// The same, IPv6.
pub const B_V6: &str = "fd83::2";

const NAME: &str = "sockscope-live";

/// Hosts `a` and `b`; dropping them ends what runs there and removes them.
pub struct Hosts(());

impl Hosts {
    /// Makes them; `options` as `scripts/netns-pair` takes them.
    pub fn up(options: &[&str]) -> Self {
        let hosts = Self(());
        let status = netns_pair("up").args(options).status().expect("the script is there");
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
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = netns_pair("down").status();
    }
}

fn inside(host: &str, command: &[String]) -> Vec<String> {
    let start = ["ip", "netns", "exec"].map(str::to_owned).into_iter();
    start.chain([format!("{NAME}-{host}")]).chain(command.iter().cloned()).collect()
}

fn netns_pair(task: &str) -> Command {
    let mut command = Command::new(checkout().join("scripts/netns-pair"));
    command.args([task, NAME]);
    command
}
