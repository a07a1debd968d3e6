//! The kernel's reasons for drops: the part of the system that dropped the packet, and the remedy.
//!
//! The names are those of `enum skb_drop_reason` (include/net/dropreason-core.h), Linux 6.18. A table: one more reason
//! is one more line.

/// One reason, or all whose names begin with it.
struct Meaning {
    names: &'static [&'static str],
    /// The part of the system that dropped the packet.
    by: &'static str,
    fix: &'static str,
}

const TABLE: &[Meaning] = &[
    Meaning {
        names: &["NETFILTER_DROP"],
        by: "the packet filter",
        fix: "let the packet filter accept these packets (nft list ruleset, iptables-save)",
    },
    Meaning {
        names: &["SOCKET_FILTER"],
        by: "a filter that the program attached to its socket",
        fix: "change the filter that the program attaches by SO_ATTACH_FILTER or SO_ATTACH_BPF (ss -b shows it)",
    },
    Meaning {
        names: &["XDP"],
        by: "an XDP program",
        fix: "change the XDP program of the interface (bpftool net)",
    },
    Meaning {
        names: &["TC_INGRESS", "TC_EGRESS"],
        by: "a filter of tc",
        fix: "change the filter (tc filter show dev DEVICE ingress, or egress; bpftool net)",
    },
    Meaning {
        names: &["BPF_CGROUP_EGRESS"],
        by: "a BPF program of the cgroup",
        fix: "change the program of the sender's cgroup (bpftool cgroup tree), as systemd sets one for IPAddressDeny=",
    },
    Meaning {
        names: &["IP_RPFILTER"],
        by: "the reverse path filter",
        fix: "correct the route back to the sender (ip route get ADDRESS), or loosen net.ipv4.conf.DEVICE.rp_filter",
    },
    Meaning {
        names: &["SECURITY_HOOK"],
        by: "a security module",
        fix: "see the log of the security module (ausearch -m avc, for SELinux)",
    },
    Meaning {
        names: &["XFRM_POLICY"],
        by: "the IPsec policy",
        fix: "compare policies and states (ip xfrm policy, ip xfrm state)",
    },
    Meaning {
        names: &["IP_OUTNOROUTES", "IP_INNOROUTES", "IP_INADDRERRORS"],
        by: "the routing table",
        fix: "correct the route (ip route get ADDRESS)",
    },
    Meaning {
        names: &["NEIGH_"],
        by: "the neighbour table: the next host does not answer ARP or neighbour discovery",
        fix: "see ip neigh show: the next host is down, or the address is not its own",
    },
    Meaning {
        names: &["QDISC_", "FQ_", "CAKE_", "DUALPI2_"],
        by: "the interface's queue",
        fix: "see tc -s qdisc show, and raise the limit or the rate",
    },
    Meaning {
        names: &["CPU_BACKLOG"],
        by: "a CPU's input queue, which was full",
        fix: "raise net.core.netdev_max_backlog, or divide the load between CPUs (RPS)",
    },
    Meaning {
        names: &["FULL_RING"],
        by: "the device's ring, which was full",
        fix: "enlarge the ring (ethtool -g, ethtool -G)",
    },
    Meaning {
        names: &["TCP_CSUM", "UDP_CSUM", "IP_CSUM", "SKB_CSUM"],
        by: "the check of its checksum",
        fix: "find what damages packets or leaves the checksum out: ethtool -k at both ends, tunnels, virtual devices",
    },
    Meaning {
        names: &["TCP_MD5", "TCP_AO"],
        by: "the check of its signature",
        fix: "compare the keys at both ends (TCP_MD5SIG, TCP-AO)",
    },
    Meaning {
        names: &["SOCKET_BACKLOG"],
        by: "the socket's backlog, full while its process held the socket",
        fix: "enlarge SO_RCVBUF",
    },
    Meaning {
        names: &["NOMEM", "PROTO_MEM"],
        by: "the limit of memory",
        fix: "raise net.ipv4.tcp_mem or udp_mem, or find what uses the memory",
    },
    Meaning {
        names: &["PKT_TOO_BIG"],
        by: "the limit on a packet's size",
        fix: "compare the MTUs on the path (ip link, tracepath ADDRESS)",
    },
];

/// The part of the system that drops packets for the reason of that name.
pub(super) fn dropped_by(name: &str) -> &'static str {
    meaning(name).map_or("the kernel", |meaning| meaning.by)
}

/// The remedy on the host that dropped it.
pub(super) fn fix(name: &str) -> &'static str {
    let unknown = "find what drops it: perf trace -e skb:kfree_skb shows the place in the kernel";
    meaning(name).map_or(unknown, |meaning| meaning.fix)
}

fn meaning(name: &str) -> Option<&'static Meaning> {
    TABLE.iter().find(|meaning| {
        let is_it = |known: &&str| name == *known || is_group(known) && name.starts_with(known);
        meaning.names.iter().any(is_it)
    })
}

/// Whether the entry stands for all names that begin so.
fn is_group(known: &str) -> bool {
    known.ends_with('_') || matches!(known, "TCP_MD5" | "TCP_AO")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_who_dropped_and_what_to_change() {
        assert_eq!(dropped_by("NETFILTER_DROP"), "the packet filter");
        assert_eq!(dropped_by("NEIGH_FAILED"), dropped_by("NEIGH_QUEUEFULL"));
        assert_eq!(fix("TCP_AOFAILURE"), fix("TCP_MD5NOTFOUND"));
        assert!(fix("QDISC_DROP").contains("tc -s qdisc"));
    }

    #[test]
    fn a_reason_that_is_not_known_is_no_other_one() {
        assert_eq!(dropped_by("XDP_OF_TOMORROW"), "the kernel");
        assert!(
            fix("TCP_AOF").contains("TCP-AO") && fix("TCP_ABORT_ON_DATA").contains("kfree_skb")
        );
    }
}
