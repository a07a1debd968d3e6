//! A message through nodes that forward it: all of it at a time, or as soon as its header is known.

/// A path of nodes on links of one rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    /// Nodes between the ends.
    pub hops: u32,
    /// Octets of the message, its header included.
    pub bytes: u64,
    /// Octets that a node must have before it knows where to.
    pub header_bytes: u64,
    /// Rate of each link.
    pub bits_per_s: u64,
    /// How long the output of each node is still in use when the first octet reaches the node.
    pub busy_ns: u64,
}

/// From the first octet at the sender to the last one at the receiver, in nanoseconds.
pub(super) fn latency_ns(path: &Path, cuts_through: bool) -> u64 {
    let time_ns = |bytes: u64| bytes * 8 * 1_000_000_000 / path.bits_per_s.max(1);
    let known_ns = time_ns(if cuts_through { path.header_bytes } else { path.bytes });
    // When the first octet leaves each place.
    let begins_ns = (0..path.hops)
        .fold(0, |arrives_ns, _| (arrives_ns + known_ns).max(arrives_ns + path.busy_ns));
    begins_ns + time_ns(path.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 octets a microsecond.
    fn path(busy_ns: u64) -> Path {
        Path { hops: 3, bytes: 100, header_bytes: 10, bits_per_s: 80_000_000, busy_ns }
    }

    #[test]
    fn a_node_stores_a_message_or_its_header() {
        assert_eq!(latency_ns(&path(0), false), 40_000);
        assert_eq!(latency_ns(&path(0), true), 13_000);
    }

    #[test]
    fn a_busy_output_makes_both_wait() {
        assert_eq!(latency_ns(&path(10_000), false), latency_ns(&path(10_000), true));
        assert_eq!(latency_ns(&path(4_000), true), 22_000);
    }
}
