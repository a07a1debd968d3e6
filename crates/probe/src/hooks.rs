//! The table of hooks: which kernel hook each program uses, for which point, and when.
//!
//! A new kernel that renames or lacks a hook changes a line here, not the code.

use libbpf_rs::btf::{Btf, types};
use sockscope_record::Point;

use crate::object::Reads;

/// When a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// In every recording.
    Always,
    /// While datagrams are logged.
    Datagrams,
    /// While packets may take another device than loopback, whose transmit function itself puts
    /// them into the input queue.
    Devices,
    /// When `--calls` asks for returns of calls.
    Calls,
    /// On the root control group, while recording: sockets that ask themselves.
    Control,
    /// When `--unix` asks for Unix sockets.
    Unix,
    /// When `--in-band` asks for marks in the SYN.
    InBand,
    /// Not attached: run by the recorder itself.
    Run,
    /// Only while costs are measured.
    Measure,
    /// Not attached: run by the benchmarks, and loaded for them alone.
    Benchmark,
}

/// One program and its hook.
#[derive(Debug, Clone, Copy)]
pub struct HookEntry {
    /// The program's name in the BPF object.
    pub program: &'static str,
    /// Kind of hook and its name, as `tp_btf/tcp_sendmsg_locked`.
    pub hook: &'static str,
    /// Points that it observes; empty for other events.
    pub points: &'static [Point],
    /// The observation, in the words of the trace.
    pub observes: &'static str,
    /// When it is attached.
    pub when: When,
    /// First kernel that has it.
    pub since: &'static str,
    /// The data that is missing without it.
    pub without: &'static str,
    /// The program that it replaces, where the kernel lacks that one's hook.
    pub instead_of: Option<&'static str>,
}

/// A program of the table; its methods add the observation.
const fn hook(
    program: &'static str,
    hook: &'static str,
    since: &'static str,
    when: When,
) -> HookEntry {
    let (points, observes, without, instead_of) = (&[], "", "", None);
    HookEntry { program, hook, points, observes, when, since, without, instead_of }
}

impl HookEntry {
    const fn at(self, points: &'static [Point]) -> Self {
        Self { points, ..self }
    }

    const fn observes(self, observes: &'static str) -> Self {
        Self { observes, ..self }
    }

    const fn without(self, without: &'static str) -> Self {
        Self { without, ..self }
    }

    const fn instead_of(self, program: &'static str) -> Self {
        Self { instead_of: Some(program), ..self }
    }

    /// Whether its program is at a tracepoint or function, which may fire while the program is under way.
    pub(crate) fn is_traced(&self) -> bool {
        matches!(self.when, Always | Datagrams | Devices | Calls | Unix)
    }
}

use Point::{
    InputDequeue, InputEnqueue, InterfaceDequeue, InterfaceEnqueue, ReceiveDequeue, ReceiveEnqueue,
    SendDequeue, SendEnqueue,
};
use When::{Always, Benchmark, Calls, Control, Datagrams, Devices, InBand, Measure, Run, Unix};

/// Every program, in path order.
pub const HOOKS: &[HookEntry] = &[
    hook("point1_tcp", "tp_btf/tcp_sendmsg_locked", "6.16", Always)
        .at(&[SendEnqueue])
        .observes("TCP bytes enter the send queue; write calls; why TCP would hold them")
        .without("point 1 of TCP, and with it the send queue"),
    hook("point1_call", "fentry/tcp_sendmsg_locked", "5.5", Always)
        .at(&[SendEnqueue])
        .instead_of("point1_tcp")
        .observes("where the tracepoint is missing: write calls; why TCP would hold them")
        .without("point 1 of TCP, and with it the send queue"),
    hook("point1_room", "fexit/sk_stream_wait_memory", "5.5", Always)
        .at(&[SendEnqueue])
        .instead_of("point1_tcp")
        .observes("where the tracepoint is missing: write calls that go on after a wait for room")
        .without("the moment at which bytes that waited for room enter the send queue"),
    hook("point3", "tp_btf/qdisc_enqueue", "5.15", Always)
        .at(&[SendDequeue, InterfaceEnqueue])
        .observes("packets enter a queueing discipline")
        .without("queues at interfaces: points 3 and 4 would always coincide"),
    hook("point4", "tp_btf/net_dev_start_xmit", "5.5", Always)
        .at(&[SendDequeue, InterfaceEnqueue, InterfaceDequeue])
        .observes("packets handed to the driver; the sender's TCP state; datagrams sent")
        .without("points 2, 3 and 4"),
    hook("point5_rx", "tp_btf/netif_rx", "5.5", Devices)
        .at(&[InputEnqueue])
        .observes("packets enter the input queue (veth, tun; on loopback that is point 4)")
        .without("point 5 on veth and tun: taken from point 6"),
    hook("point5_gro", "tp_btf/napi_gro_receive_entry", "5.5", Always)
        .at(&[InputEnqueue])
        .observes("packets enter the input queue (network cards)")
        .without("point 5 on network cards"),
    hook("point6", "tp_btf/netif_receive_skb", "5.5", Always)
        .at(&[InputDequeue])
        .observes("IP takes packets; acknowledgments received")
        .without("point 6"),
    hook("point7", "tp_btf/sk_data_ready", "6.3", Always)
        .at(&[ReceiveEnqueue])
        .observes("data is in the receive queue; whether a thread waits for it")
        .without("point 7: taken from the acknowledgment that follows"),
    hook("point7_call", "fentry/sock_def_readable", "5.5", Always)
        .at(&[ReceiveEnqueue])
        .instead_of("point7")
        .observes("where the tracepoint is missing: data is in the receive queue; whether a thread waits for it")
        .without("point 7: taken from the acknowledgment that follows"),
    hook("point8_tcp", "tp_btf/tcp_rcv_space_adjust", "5.5", Always)
        .at(&[ReceiveDequeue])
        .observes("TCP data was copied to the reader; when the reader got its CPU")
        .without("point 8 of TCP"),
    hook("point8_udp", "tp_btf/sock_recv_length", "6.3", Datagrams)
        .at(&[ReceiveDequeue])
        .observes("datagrams were copied to the reader")
        .without("point 8 of UDP"),
    hook("point8_consume", "fentry/skb_consume_udp", "5.5", Datagrams)
        .at(&[ReceiveDequeue])
        .instead_of("point8_udp")
        .observes("where the tracepoint is missing: datagrams were copied to the reader")
        .without("point 8 of UDP"),
    hook("retransmit", "tp_btf/tcp_retransmit_skb", "5.5", Always)
        .observes("retransmissions and their class")
        .without("the class of retransmissions"),
    hook("drop", "tp_btf/kfree_skb", "5.17", Always)
        .observes("drops and their reason")
        .without("drops"),
    hook("state", "tp_btf/inet_sock_set_state", "5.5", Always)
        .observes("TCP states, socket buffers, window scales")
        .without("ends of connections, buffer sizes"),
    hook("destroy", "tp_btf/tcp_destroy_sock", "5.5", Always)
        .observes("sockets destroyed: the end of what can be seen of a connection")
        .without("room for new connections in very long recordings"),
    hook("write_return", "tp_btf/sock_send_length", "6.3", Calls)
        .observes("returns of send calls")
        .without("returns of send calls"),
    hook("write_inet", "fexit/inet_sendmsg", "5.5", Calls)
        .instead_of("write_return")
        .observes("where the tracepoint is missing: returns of send calls")
        .without("returns of send calls"),
    hook("write_inet6", "fexit/inet6_sendmsg", "5.5", Calls)
        .instead_of("write_return")
        .observes("where the tracepoint is missing: the same on IPv6 sockets")
        .without("returns of send calls on IPv6 sockets"),
    hook("read_return", "tp_btf/sock_recv_length", "6.3", Calls)
        .observes("returns of receive calls")
        .without("returns of receive calls"),
    hook("read_inet", "fexit/inet_recvmsg", "5.5", Calls)
        .instead_of("read_return")
        .observes("where the tracepoint is missing: returns of receive calls")
        .without("returns of receive calls"),
    hook("read_inet6", "fexit/inet6_recvmsg", "5.5", Calls)
        .instead_of("read_return")
        .observes("where the tracepoint is missing: the same on IPv6 sockets")
        .without("returns of receive calls on IPv6 sockets"),
    hook("unix_call", "tp_btf/sys_enter", "5.5", Unix)
        .observes("when a call that sends on a Unix socket begins")
        .without("how long a send call on a Unix socket waited before its first bytes were taken"),
    hook("unix_ready", "tp_btf/sk_data_ready", "6.3", Unix)
        .at(&[SendEnqueue, ReceiveEnqueue])
        .observes("bytes or a message of a Unix socket are in the receive queue of its peer")
        .without("points 1 and 7 of Unix sockets"),
    hook("unix_return", "tp_btf/sock_send_length", "6.3", Unix)
        .observes("bytes of a Unix socket that were read before they were announced")
        .without("some bytes of Unix sockets until they are read"),
    hook("unix_copy", "tp_btf/skb_copy_datagram_iovec", "5.5", Unix)
        .observes("a message of a Unix socket is copied to its reader")
        .without("point 8 of datagram and seqpacket sockets"),
    hook("unix_read", "tp_btf/sock_recv_length", "6.3", Unix)
        .at(&[ReceiveDequeue])
        .observes("bytes of a Unix socket were copied to the reader")
        .without("point 8 of Unix sockets"),
    hook("unix_unread", "tp_btf/kfree_skb", "5.17", Unix)
        .observes("a message of a Unix socket was not read")
        .without("drops of messages that a closed Unix socket had not read"),
    hook("unix_existing", "iter/unix", "5.15", Run)
        .observes("Unix sockets that are open already, with --unix")
        .without("which Unix sockets were open before recording, and the positions of their messages"),
    hook("so_log", "cgroup/setsockopt", "5.5", Control)
        .observes("SO_LOG, and socket options asked for")
        .without("SO_LOG and socket options asked for"),
    hook("accept4", "cgroup/getpeername4", "5.8", Control)
        .observes("a program has accepted a connection, and asks for its peer's address")
        .without("slow-accept over IPv4: when a program accepts a connection"),
    hook("accept6", "cgroup/getpeername6", "5.8", Control)
        .observes("the same on IPv6 sockets")
        .without("slow-accept over IPv6: when a program accepts a connection"),
    hook("release", "cgroup/sock_release", "5.9", Control)
        .observes("a program closes a socket, which may be in a sockmap or have kTLS")
        .without("sockmaps and kTLS of sockets that receive no data and close first"),
    hook("in_band", "sockops", "5.10", InBand)
        .observes("puts the mark into the SYN")
        .without("--in-band on the sending side"),
    hook("existing", "iter/task_file", "5.11", Run)
        .observes("connections that are open already")
        .without("connections that were open before recording"),
    hook("remaining", "iter/task_file", "5.11", Run)
        .observes("connections that are open at the end, and their buffers")
        .without("how long bytes waited after a connection's last packet"),
    hook("calibrate", "syscall", "5.14", Run)
        .observes("the scheduler's clock")
        .without("the moment at which a reader got its CPU"),
    hook("expire", "syscall", "5.17", Run)
        .observes("connections without a socket here that are silent for long")
        .without("room for new connections while many never end"),
    hook("produce", "syscall", "5.17", Benchmark)
        .observes("load for the benchmarks")
        .without("the benchmark of the recorder"),
    hook("empty", "tp_btf/net_dev_start_xmit", "5.5", Measure)
        .observes("nothing: what a hit costs before a probe does anything")
        .without("the net cost of a hit"),
];

/// The offers of the running kernel, from its own type information.
pub(crate) struct Kernel {
    btf: Btf<'static>,
}

impl Kernel {
    /// `None` when the kernel has no BTF.
    pub(crate) fn running() -> Option<Self> {
        Btf::from_vmlinux().ok().map(|btf| Self { btf })
    }

    /// Whether this kernel has the entry's hook.
    pub(crate) fn has(&self, entry: &HookEntry) -> bool {
        match entry.hook.split_once('/') {
            Some(("tp_btf", name)) => {
                self.btf.type_by_name::<types::Typedef<'_>>(&format!("btf_trace_{name}")).is_some()
            }
            Some(("iter", name)) => self.has_function(&format!("bpf_iter_{name}")),
            Some(("fentry" | "fexit", name)) => self.has_function(name),
            _ => true,
        }
    }

    /// Whether the entry is to be used: it replaces no other, or the kernel lacks that one's
    /// hook.
    pub(crate) fn needs(&self, entry: &HookEntry) -> bool {
        is_needed(entry, |other| self.has(other))
    }

    /// The way in which programs can read here. `None` without a control group's list of ancestors (Linux 6.1),
    /// in which the programs look up groups.
    pub(crate) fn reads(&self) -> Option<Reads> {
        if self.has_function("bpf_rdonly_cast") {
            return Some(Reads::Casts);
        }
        let group = self.btf.type_by_name::<types::Struct<'_>>("cgroup")?;
        let has_list =
            group.iter().any(|member| member.name.is_some_and(|name| name == "ancestors"));
        has_list.then_some(Reads::Copies)
    }

    fn has_function(&self, name: &str) -> bool {
        self.btf.type_by_name::<types::Func<'_>>(name).is_some()
    }

    /// The kernel's names of drop reasons, by number.
    pub(crate) fn drop_reasons(&self) -> Vec<(u32, String)> {
        let Some(reasons) = self.btf.type_by_name::<types::Enum<'_>>("skb_drop_reason") else {
            return Vec::new();
        };
        reasons
            .iter()
            .filter_map(|member| {
                let name = member.name?.to_str()?;
                let name = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name);
                Some((member.value as u32, name.to_owned()))
            })
            .collect()
    }
}

/// The same for a kernel that has the hooks for which `has` holds.
fn is_needed(entry: &HookEntry, has: impl Fn(&HookEntry) -> bool) -> bool {
    entry
        .instead_of
        .is_none_or(|program| HOOKS.iter().any(|other| other.program == program && !has(other)))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::object;

    #[test]
    fn every_program_of_both_objects_stands_in_the_table_with_its_hook() {
        let table: BTreeMap<String, String> =
            HOOKS.iter().map(|entry| (entry.program.to_owned(), entry.hook.to_owned())).collect();
        assert_eq!(table.len(), HOOKS.len());
        let text = |name: &std::ffi::OsStr| name.to_string_lossy().into_owned();
        for reads in [Reads::Casts, Reads::Copies] {
            let open = object::open(reads).unwrap();
            let programs = open.progs();
            let compiled: BTreeMap<String, String> =
                programs.map(|program| (text(program.name()), text(program.section()))).collect();
            assert_eq!(compiled, table, "{reads:?}");
        }
    }

    #[test]
    fn every_kernel_observes_the_same_points_and_an_old_one_by_stand_ins() {
        // The programs that Linux 6.`minor` attaches.
        let attached = |minor: u32| {
            let has = move |entry: &HookEntry| match entry.since.split_once('.').unwrap() {
                ("6", since) => since.parse::<u32>().unwrap() <= minor,
                (major, _) => major == "5",
            };
            // Nothing stands in for the hooks of Unix sockets.
            let has_stand_in = |entry: &&HookEntry| entry.when != Unix;
            HOOKS
                .iter()
                .filter(has_stand_in)
                .filter(move |entry| has(entry) && is_needed(entry, has))
        };
        let stand_ins = |minor: u32| -> Vec<_> {
            let stand_ins = attached(minor).filter(|entry| entry.instead_of.is_some());
            stand_ins.map(|entry| entry.program).collect()
        };
        assert_eq!(
            stand_ins(1),
            [
                "point1_call",
                "point1_room",
                "point7_call",
                "point8_consume",
                "write_inet",
                "write_inet6",
                "read_inet",
                "read_inet6"
            ]
        );
        assert_eq!(stand_ins(3), ["point1_call", "point1_room"]);
        assert_eq!(stand_ins(16), [""; 0]);
        // Points and occasions, in the words of the trace.
        let observed = |minor: u32| -> BTreeSet<String> {
            let of = |entry: &'static HookEntry| {
                entry.points.iter().map(|point| format!("{point:?} {:?}", entry.when))
            };
            attached(minor).flat_map(of).collect()
        };
        assert_eq!(observed(1), observed(16));
        assert_eq!(observed(3), observed(16));
    }

    #[test]
    fn every_point_has_a_hook() {
        for point in Point::ALL {
            assert!(HOOKS.iter().any(|entry| entry.points.contains(&point)), "{point:?}");
        }
    }

    /// The line of the table in the reference.
    fn line(entry: &HookEntry) -> String {
        let points: Vec<String> =
            entry.points.iter().map(|point| point.number().to_string()).collect();
        let points = if points.is_empty() { "–".to_owned() } else { points.join(", ") };
        let HookEntry { hook, observes, since, without, .. } = entry;
        format!("| {points} | `{hook}` | {since} | {observes} | {without} |")
    }

    #[test]
    fn the_reference_lists_the_table() {
        let page = include_str!("../../../docs/reference/hooks.md");
        let listed: Vec<&str> = page.lines().filter(|line| line.contains("| `")).collect();
        let table: Vec<String> = HOOKS.iter().map(line).collect();
        assert_eq!(listed, table, "\n{}", table.join("\n"));
    }
}
