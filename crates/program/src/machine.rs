//! Facts about this host that a reader of results needs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use sockscope_probe::monotonic_ns;
use sockscope_trace::{ClockSnapshot, Interface, Machine};

/// Settings that change what a connection can do.
const SYSCTLS: [&str; 16] = [
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];

/// First line of a small file, trimmed; empty when it cannot be read.
fn line(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Host name.
pub fn host() -> String {
    line("/proc/sys/kernel/hostname")
}

/// Kernel release.
pub fn kernel() -> String {
    line("/proc/sys/kernel/osrelease")
}

/// Processors.
pub fn machine() -> Machine {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned());
    let cpus = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    Machine { cpus: u32::try_from(cpus).unwrap_or(0), model: model.unwrap_or_default() }
}

/// Both clocks now.
pub fn clock() -> ClockSnapshot {
    let realtime = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let realtime_ns = u64::try_from(realtime.as_nanos()).unwrap_or(u64::MAX);
    ClockSnapshot::new(monotonic_ns(), realtime_ns)
}

/// Both clocks now, with the time that the host of a virtual machine gave to others. To read it takes longer than to read the clocks.
pub fn reading() -> ClockSnapshot {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    ClockSnapshot { steal_ns: steal_ns(&stat), ..clock() }
}

/// Of `/proc/stat`, whose ticks are 10 ms on all machines that are supported.
fn steal_ns(stat: &str) -> Option<u64> {
    let ticks: u64 = stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(ticks * 10_000_000)
}

/// Kernel settings by name; those that this kernel lacks are left out.
pub fn sysctls() -> BTreeMap<String, String> {
    SYSCTLS
        .iter()
        .map(|name| ((*name).to_owned(), line(format!("/proc/sys/{}", name.replace('.', "/")))))
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name, value.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect()
}

/// Interfaces of this network namespace; queueing disciplines and offloads as far as `ip` and
/// `ethtool` are installed.
pub fn interfaces() -> Vec<Interface> {
    let Ok(entries) = fs::read_dir("/sys/class/net") else { return Vec::new() };
    let qdiscs = qdiscs();
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
        .into_iter()
        .map(|name| Interface {
            mtu: line(format!("/sys/class/net/{name}/mtu")).parse().unwrap_or(0),
            qdisc: qdiscs.get(&name).cloned().unwrap_or_default(),
            offloads: offloads(&name),
            name,
        })
        .collect()
}

/// Names of `ip netns` for network namespaces, by inode number: their files in `/run/netns`. Of several names for one
/// namespace the first in alphabetical order.
pub fn network_namespaces() -> BTreeMap<u32, String> {
    names_of_namespaces(Path::new("/run/netns"))
}

/// Keeps the names that the namespaces still have: the kernel uses the number of a namespace again.
pub fn keep_present_names(names: &mut BTreeMap<u32, String>) {
    keep_common(names, &network_namespaces());
}

fn keep_common(names: &mut BTreeMap<u32, String>, now: &BTreeMap<u32, String>) {
    names.retain(|number, name| now.get(number) == Some(name));
}

/// Names of network namespaces for a recorder that runs on.
#[derive(Debug, Default)]
pub struct LiveNamespaces {
    before: BTreeMap<u32, String>,
}

impl LiveNamespaces {
    /// The names as of now and of the last call: the kernel uses the number of a namespace again.
    pub fn names(&mut self) -> BTreeMap<u32, String> {
        self.lasting(network_namespaces())
    }

    fn lasting(&mut self, now: BTreeMap<u32, String>) -> BTreeMap<u32, String> {
        let mut lasting = std::mem::replace(&mut self.before, now);
        keep_common(&mut lasting, &self.before);
        lasting
    }
}

fn names_of_namespaces(folder: &Path) -> BTreeMap<u32, String> {
    // A file on another file system is no namespace: one whose mount was removed, or any other.
    let Ok(own) = fs::metadata("/proc/self/ns/net") else { return BTreeMap::new() };
    let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
    let mut names: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let file = fs::metadata(entry.path()).ok()?;
            let number = u32::try_from(file.ino()).ok().filter(|_| file.dev() == own.dev())?;
            Some((number, entry.file_name().to_string_lossy().into_owned()))
        })
        .collect();
    names.sort_unstable_by(|one, other| other.cmp(one));
    names.into_iter().collect()
}

fn qdiscs() -> BTreeMap<String, String> {
    let output = Command::new("ip").args(["-json", "link", "show"]).output();
    let Ok(output) = output else { return BTreeMap::new() };
    let links: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let links = links.as_array().map(Vec::as_slice).unwrap_or_default();
    links
        .iter()
        .filter_map(|link| {
            let text = |field: &str| Some(link.get(field)?.as_str()?.to_owned());
            Some((text("ifname")?, text("qdisc")?))
        })
        .collect()
}

fn offloads(name: &str) -> Vec<String> {
    const WATCHED: [&str; 5] = [
        "tcp-segmentation-offload",
        "generic-segmentation-offload",
        "generic-receive-offload",
        "large-receive-offload",
        "tx-checksumming",
    ];
    let Ok(output) = Command::new("ethtool").args(["-k", name]).output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    WATCHED
        .iter()
        .filter(|offload| {
            text.lines().any(|line| line.trim().starts_with(&format!("{offload}: on")))
        })
        .map(|offload| (*offload).to_owned())
        .collect()
}
/// Whether a process or one of its threads has this name now, as `/proc/PID/task/TID/comm` gives it.
pub fn has_process(name: &str) -> bool {
    // The kernel keeps 15 octets of a name.
    let name = name.get(..15).unwrap_or(name);
    let folders = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let tasks =
        folders(Path::new("/proc")).flat_map(|process| folders(&process.path().join("task")));
    tasks.into_iter().any(|task| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_others_is_the_eighth_of_all_cpus() {
        let stat = "cpu  10 20 30 40 50 60 70 80 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(steal_ns(stat), Some(800_000_000));
        assert_eq!([steal_ns(""), steal_ns("cpu  1 2 3 4 5 6 7\n")], [None, None]);
        // Any Linux since 2.6.11 has it.
        assert!(reading().steal_ns.is_some());
    }

    #[test]
    fn a_name_lasts_from_one_look_to_the_next() {
        let names = |list: &[(u32, &str)]| {
            list.iter()
                .map(|(number, name)| (*number, (*name).to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let mut live = LiveNamespaces::default();
        assert_eq!(live.lasting(names(&[(7, "shop")])), names(&[]));
        assert_eq!(live.lasting(names(&[(7, "shop"), (8, "new")])), names(&[(7, "shop")]));
        // The number has another namespace now.
        assert_eq!(live.lasting(names(&[(7, "other"), (8, "new")])), names(&[(8, "new")]));
    }

    #[test]
    fn a_file_that_is_no_namespace_has_no_number() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("gone"), "").unwrap();
        std::os::unix::fs::symlink("/proc/self/ns/net", folder.path().join("b")).unwrap();
        std::os::unix::fs::symlink("/proc/self/ns/net", folder.path().join("a")).unwrap();
        let number = fs::metadata("/proc/self/ns/net").unwrap().ino() as u32;
        let names = names_of_namespaces(folder.path());
        assert_eq!(names, [(number, "a".to_owned())].into());
        assert!(names_of_namespaces(&folder.path().join("absent")).is_empty());
    }
}
