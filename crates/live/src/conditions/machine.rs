//! What a machine is, as far as the kernel says it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Serialize;
use sockscope_link::offloads;

/// Settings of the kernel's network stack on which the figures of transports depend.
const SETTINGS: [&str; 22] = [
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tso_win_divisor",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "kernel.sched_autogroup_enabled",
];

/// This machine, when it was read. What the kernel does not say is `None`, or not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Release of the kernel.
    pub kernel: String,
    /// As `x86_64`.
    pub architecture: String,
    /// Model of the first CPU.
    pub cpu: Option<String>,
    /// CPUs on which this process may run.
    pub cpus: usize,
    /// Whether the CPUs are those of a virtual machine.
    pub is_virtual: bool,
    /// What sets the speed of the CPUs; several where they differ.
    pub governors: BTreeSet<String>,
    /// Where the kernel's clocks come from.
    pub clock_source: Option<String>,
    /// Memory in octets.
    pub memory_bytes: Option<u64>,
    /// Settings of the kernel, by their names in sysctl: those of this program's network namespace.
    pub settings: BTreeMap<&'static str, String>,
    /// Network devices of this namespace, by name.
    pub devices: BTreeMap<String, Device>,
}

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Octets of its largest packet, without the link's header.
    pub mtu: Option<u64>,
    /// Whether each offload is on, by its short name of `ethtool -K`.
    pub offloads: BTreeMap<&'static str, bool>,
}

impl Machine {
    /// Asks the kernel.
    pub fn read() -> Self {
        let system = rustix::system::uname();
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            kernel: system.release().to_string_lossy().into_owned(),
            architecture: system.machine().to_string_lossy().into_owned(),
            cpu: field(&cpus, "model name"),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            is_virtual: field(&cpus, "flags").is_some_and(|flags| has_word(&flags, "hypervisor")),
            governors: governors(),
            clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            memory_bytes: memory_bytes(),
            settings: settings(),
            devices: devices(),
        }
    }

    /// In a few words: kernel, CPUs and their governor.
    pub fn words(&self) -> String {
        let cpu = self.cpu.as_deref().unwrap_or("of an unknown model");
        let cpus = sockscope_record::counted(self.cpus as u64, "CPU");
        let kind = if self.is_virtual { ", virtual" } else { "" };
        let governors: Vec<&str> = self.governors.iter().map(String::as_str).collect();
        let speed = match governors[..] {
            [] => String::new(),
            _ => format!(", governor {}", governors.join(" and ")),
        };
        format!("Linux {}, {cpus} ({cpu}{kind}){speed}", self.kernel)
    }
}

/// Settings of the kernel for this thread's network namespace, by their names in sysctl. Those that only the first
/// namespace has are missing in others.
pub(crate) fn settings() -> BTreeMap<&'static str, String> {
    SETTINGS.into_iter().filter_map(setting).collect()
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|one| one == word)
}

/// A file's text without its line end; `None` where it cannot be read or is empty.
fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn setting(name: &'static str) -> Option<(&'static str, String)> {
    let value = line(Path::new("/proc/sys").join(name.replace('.', "/")))?;
    // Several numbers stand with tabs between them.
    Some((name, value.split_whitespace().collect::<Vec<_>>().join(" ")))
}

fn governors() -> BTreeSet<String> {
    let cpus = names_in("/sys/devices/system/cpu");
    let of = |cpu: String| line(format!("/sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor"));
    cpus.filter_map(of).collect()
}

fn memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = field(&text, "MemTotal")?.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

fn devices() -> BTreeMap<String, Device> {
    let device = |name: String| {
        let mtu = line(format!("/sys/class/net/{name}/mtu")).and_then(|text| text.parse().ok());
        let offloads = offloads(&name).unwrap_or_default().into_iter().collect();
        (name, Device { mtu, offloads })
    };
    names_in("/sys/class/net").map(device).collect()
}

/// Names in a folder; none where it cannot be read.
fn names_in(folder: &str) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_settings_and_loopback() {
        let machine = Machine::read();
        assert!(machine.kernel.contains('.'), "{machine:?}");
        assert!(machine.cpus >= 1);
        assert!(machine.settings.contains_key("net.ipv4.tcp_congestion_control"), "{machine:?}");
        let loopback = &machine.devices["lo"];
        assert!(loopback.mtu.is_some_and(|mtu| mtu > 1000), "{loopback:?}");
        assert!(loopback.offloads.contains_key("tso"), "{loopback:?}");
        assert!(machine.words().starts_with(&format!("Linux {}, ", machine.kernel)));
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 1\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor\n";
        assert_eq!(field(text, "model name").as_deref(), Some("AMD EPYC"));
        assert!(has_word(&field(text, "flags").unwrap(), "hypervisor"));
        assert!(!has_word("hypervisors", "hypervisor"));
        assert_eq!(field(text, "name"), None);
    }
}
