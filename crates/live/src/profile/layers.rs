//! Layers of the kernel, by the names of its functions: a table that is easy to extend.
//!
//! A sample is of the layer of its innermost function that the table has. A lock, a copy of registers or a helper is not
//! in it, and counts as its caller's.

use std::sync::LazyLock;

use sockscope_record::named;

/// Part of the work of a program and of the kernel for it, from the program down to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// The program itself, in user space.
    Program,
    /// Entry to the kernel, and the file layer.
    SystemCall,
    /// Sockets, common to all protocols.
    Socket,
    /// Copies between program and kernel, and checksums made with them.
    Copy,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// IP, routes and neighbours.
    Ip,
    /// Filters of packets.
    Filter,
    /// Queueing disciplines, devices and the input of packets.
    Device,
    /// Buffers: packets and memory.
    Buffer,
    /// The program's own memory: page faults.
    Memory,
    /// Wake-ups, the scheduler, waiting for events.
    Scheduler,
    /// Interrupts, timers and clocks.
    Interrupt,
    /// BPF programs, and the functions of the kernel that start them.
    Bpf,
    /// Anything else in the kernel.
    Other,
}

named! {
    Layer {
        Program => "program",
        SystemCall => "system call",
        Socket => "socket",
        Copy => "copy",
        Tcp => "TCP",
        Udp => "UDP",
        Ip => "IP",
        Filter => "filter",
        Device => "device",
        Buffer => "buffers",
        Memory => "page faults",
        Scheduler => "scheduler",
        Interrupt => "interrupts",
        Bpf => "BPF",
        Other => "other",
    }
}

/// The table: layers with beginnings of names.
const TABLE: &str = include_str!("layers.txt");
/// Functions that say nothing: their callers do.
const HELPERS: &str = "helpers";

/// Beginnings of names with their layer, `None` for those of helpers.
static BEGINNINGS: LazyLock<Vec<(&str, Option<Layer>)>> = LazyLock::new(|| parse(TABLE));

fn parse(table: &'static str) -> Vec<(&'static str, Option<Layer>)> {
    let (mut beginnings, mut layer) = (Vec::new(), None);
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let names = match line.split_once(':') {
            Some((name, names)) => {
                let found = Layer::ALL.into_iter().find(|layer| layer.name() == name);
                assert!(found.is_some() || name == HELPERS, "layers.txt: no layer `{name}`");
                layer = found;
                names
            }
            None => line,
        };
        beginnings.extend(names.split_whitespace().map(|name| (name, layer)));
    }
    beginnings
}

impl Layer {
    /// Of a function; `None` where the table does not have it, and its caller counts.
    pub(super) fn of_function(name: &str) -> Option<Self> {
        let bare = name.trim_start_matches('_');
        let fits = |beginning: &str| match beginning.strip_suffix('$') {
            Some(whole) => bare == whole,
            None => bare.starts_with(beginning),
        };
        let fitting = BEGINNINGS.iter().filter(|(beginning, _)| fits(beginning));
        fitting.max_by_key(|(beginning, _)| beginning.len()).and_then(|(_, layer)| *layer)
    }

    /// Of a sample in the kernel, with its functions from the innermost one out, and the function that says so.
    pub(super) fn of_stack<'a>(functions: &[&'a str]) -> (Self, &'a str) {
        let known = |name: &&'a str| Self::of_function(name).map(|layer| (layer, *name));
        let innermost = functions.first().unwrap_or(&"unknown");
        functions.iter().find_map(known).unwrap_or((Self::Other, innermost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_send_are_of_their_layers() {
        for (name, layer) in [
            ("entry_SYSCALL_64_after_hwframe", Layer::SystemCall),
            ("__x64_sys_sendto", Layer::SystemCall),
            ("__sys_sendto", Layer::Socket),
            ("sock_sendmsg", Layer::Socket),
            ("_copy_from_iter", Layer::Copy),
            ("tcp_sendmsg_locked", Layer::Tcp),
            ("__tcp_transmit_skb", Layer::Tcp),
            ("udp_queue_rcv_one_skb", Layer::Udp),
            ("__ip_queue_xmit", Layer::Ip),
            ("nf_hook_slow", Layer::Filter),
            ("__dev_queue_xmit", Layer::Device),
            ("loopback_xmit", Layer::Device),
            ("__alloc_skb", Layer::Buffer),
            ("kmem_cache_alloc_node_noprof", Layer::Buffer),
            ("try_to_wake_up", Layer::Scheduler),
            ("sock_def_readable", Layer::Scheduler),
            ("sysvec_apic_timer_interrupt", Layer::Interrupt),
            ("bpf_prog_3f2a_point3", Layer::Bpf),
        ] {
            assert_eq!(Layer::of_function(name), Some(layer), "{name}");
        }
        assert_eq!(Layer::of_function("_raw_spin_lock_bh"), None);
        assert_eq!(Layer::of_function("crypto_shash_update"), None);
    }

    #[test]
    fn lookups_that_protocols_share_are_not_tcp() {
        assert_eq!(Layer::of_function("inet_lookup_ifaddr_rcu"), Some(Layer::Ip));
        let stack = ["inet_lookup_reuseport", "__udp4_lib_lookup", "__udp4_lib_rcv"];
        assert_eq!(Layer::of_stack(&stack).0, Layer::Udp);
        assert_eq!(Layer::of_function("__inet_lookup_established"), Some(Layer::Tcp));
    }

    #[test]
    fn a_lock_counts_as_its_callers() {
        let stack = ["_raw_spin_lock_bh", "lock_sock_nested", "tcp_sendmsg", "do_syscall_64"];
        assert_eq!(Layer::of_stack(&stack), (Layer::Socket, "lock_sock_nested"));
        assert_eq!(Layer::of_stack(&["crypto_x"]), (Layer::Other, "crypto_x"));
        assert_eq!(Layer::of_stack(&[]), (Layer::Other, "unknown"));
    }

    #[test]
    fn no_beginning_stands_in_two_layers() {
        let mut all: Vec<&str> = BEGINNINGS.iter().map(|(name, _)| *name).collect();
        all.sort_unstable();
        assert_eq!(all.windows(2).find(|pair| pair[0] == pair[1]), None);
        assert!(all.len() > 200, "{}", all.len());
    }
}
