//! Two hosts on one machine: network namespaces that a veth pair joins.

use std::process::Command;

use crate::bundle::checkout;

/// Address of host `b`.
pub const B_V4: &str = "10.83.0.2";
/// The same, IPv6.
pub const B_V6: &str = "fd83::2";

/// Address of host `b` behind a router (`--nat`), and that of the router.
pub const B_BEHIND: &str = "10.84.0.2";
pub const ROUTER: &str = "10.83.0.254";

/// Names of our pairs: this and the id of the process that tests.
const PREFIX: &str = "sockscope-live-";

/// Hosts `a` and `b`; dropping them ends what runs there and removes them.
pub struct Hosts {
    name: String,
}

impl Hosts {
    /// Makes them; `options` as `scripts/netns-pair` takes them.
    pub fn up(options: &[&str]) -> Self {
        remove_stale();
        Self::up_as(format!("{PREFIX}{}", std::process::id()), options)
    }

    /// The two with a router, a bridge or a tunnel between them; `path` as `scripts/netns-path` takes it.
    pub fn up_by_path(path: &[&str]) -> Self {
        remove_stale();
        let hosts = Self { name: format!("{PREFIX}{}", std::process::id()) };
        let up = script("netns-path", "up", &hosts.name).args(path).status();
        let status = up.expect("the script is there");
        assert!(status.success(), "netns-path up: {status}");
        hosts
    }

    /// Another pair, with the same addresses.
    pub fn up_beside(&self) -> Self {
        Self::up_as(format!("{}-2", self.name), &[])
    }

    fn up_as(name: String, options: &[&str]) -> Self {
        let hosts = Self { name };
        let up = script("netns-pair", "up", &hosts.name).args(options).status();
        let status = up.expect("the script is there");
        assert!(status.success(), "netns-pair up: {status}");
        hosts
    }

    /// Names of the namespaces of `a` and `b`.
    pub fn namespaces(&self) -> [String; 2] {
        ["a", "b"].map(|host| format!("{}-{host}", self.name))
    }

    /// `command`, as run on host `a`.
    pub fn on_a(&self, command: &[String]) -> Vec<String> {
        self.inside(0, command)
    }

    /// `command`, as run on host `b`.
    pub fn on_b(&self, command: &[String]) -> Vec<String> {
        self.inside(1, command)
    }

    fn inside(&self, host: usize, command: &[String]) -> Vec<String> {
        let start = ["ip", "netns", "exec"].map(str::to_owned).into_iter();
        let namespace = self.namespaces()[host].clone();
        start.chain([namespace]).chain(command.iter().cloned()).collect()
    }

    /// The namespace of host `b`, as `ip netns` names it.
    pub fn name_b(&self) -> String {
        self.namespaces()[1].clone()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = script("netns-path", "down", &self.name).status();
    }
}

/// Removes pairs of test processes that were killed.
fn remove_stale() {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    for entry in entries {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(pair) = file.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix("-a")) else {
            continue;
        };
        let pid = pair.split('-').next().unwrap_or(pair);
        if !std::path::Path::new("/proc").join(pid).exists() {
            let _ = script("netns-path", "down", &format!("{PREFIX}{pair}")).status();
        }
    }
}

/// `netns-path down` removes what either of the two scripts made.
fn script(file: &str, task: &str, name: &str) -> Command {
    let mut command = Command::new(checkout().join("scripts").join(file));
    command.args([task, name]);
    command
}
