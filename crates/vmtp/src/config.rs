//! The configuration of an engine, and its timers.

use crate::wire::Checksum;

const MS: u64 = 1_000_000;

/// Settings of an engine. Times are nanoseconds of the caller's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Domain of the entity identifiers; 1 is the Internet.
    pub domain: u16,
    /// Octets of the longest packet, VMTP's header and checksum counted. The longest packet without
    /// fragments has 1,480 on Ethernet over IPv4.
    pub packet_bytes: usize,
    /// Whether packets are protected.
    pub checksum: Checksum,
    /// Retransmissions of one thing before it is given up (RFC 1045 suggests 5).
    pub retries: u32,
    /// TC2 before a round trip was measured.
    pub round_trip_ns: u64,
    /// TC2 is never shorter.
    pub round_trip_ns_min: u64,
    /// TC1 is TC2 and this.
    pub service_ns: u64,
    /// TC3 and TS1: wait for the next packet of a group (RFC 1045: ten packet times).
    pub next_packet_ns: u64,
    /// TS4: the time that a server keeps a transaction after its Response. It must exceed the life
    /// of a packet with retransmissions: older duplicates would be taken as new.
    pub keep_ns: u64,
    /// The longest that a server keeps a Request in processing without a sign of its client, which asks within
    /// `backoff_ns_max` if it lives. Then the client is gone.
    pub orphan_ns: u64,
    /// A client gives up only after such a silence of its server, for any number of its requests: a busy
    /// machine may keep a server from its processor for many short round trips.
    pub silence_ns_min: u64,
    /// The silence of its server after which a client sends nothing again. It must be less than
    /// `keep_ns` by twice the life of a packet. Otherwise the server could take a Request for a new
    /// one after it has forgotten the first.
    pub silence_ns_max: u64,
    /// The longest wait after notices that the request is being processed.
    pub backoff_ns_max: u64,
    /// Packet groups of a run under way at once: the bound of a stream's unacknowledged data.
    pub window_groups: usize,
    /// The longest segment that is taken, at most 4 MiB.
    pub segment_bytes_max: usize,
    /// Time that this node takes to send a packet of `packet_bytes`: the unit of the interpacket gap; 0
    /// where the rate of its link is not known, and then there are no gaps. See [`Config::at_rate`].
    pub packet_ns: u64,
    /// Gap asked for at first between packets of Responses, in 1/32 of the other node's packet time. It
    /// becomes longer after losses.
    pub response_gap: u8,
    /// Clients that a server remembers at once.
    pub records_max: usize,
    /// Octets that a server keeps for incomplete Requests, for Requests that the application has not
    /// taken, and for unacknowledged Responses. Requests beyond it are refused with BUSY.
    pub held_bytes_max: usize,
    /// Octets of them for one host: an IPv4 address, or the /64 of an IPv6 address.
    pub held_bytes_per_host_max: usize,
    /// Octets that a server sends to an address that is not proved, at most, for each octet that it
    /// received from there; 0 is no bound, for a network without strangers. See
    /// [`crate::Server::prove_address`].
    pub stranger_factor: u32,
    /// The longest that a server delays its Response to a Request that asks for a delay (DRT), so that not
    /// all members of a group answer at once.
    pub response_delay_ns_max: u64,
    /// Servers of a group whose Responses a client collects at once.
    pub responders_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            domain: 1,
            packet_bytes: 1480,
            checksum: Checksum::Computed,
            retries: 5,
            round_trip_ns: 100 * MS,
            round_trip_ns_min: 10 * MS,
            service_ns: 200 * MS,
            next_packet_ns: 12 * MS,
            keep_ns: 30_000 * MS,
            orphan_ns: 10_000 * MS,
            silence_ns_min: 1_000 * MS,
            silence_ns_max: 19_000 * MS,
            backoff_ns_max: 8_000 * MS,
            window_groups: 8,
            segment_bytes_max: crate::wire::MESSAGE_BYTES_MAX,
            packet_ns: 0,
            response_gap: 0,
            records_max: 16_384,
            held_bytes_max: 128 << 20,
            held_bytes_per_host_max: 64 << 20,
            stranger_factor: 0,
            response_delay_ns_max: 12 * MS,
            responders_max: 256,
        }
    }
}

impl Config {
    /// For a node whose link carries `bits_per_s`, where headers and silence around a packet of VMTP take the
    /// time of `around_bytes`. On a slow link the wait for the next packet of a group is longer, too.
    pub fn at_rate(self, bits_per_s: u64, around_bytes: usize) -> Self {
        let bits = (self.packet_bytes + around_bytes) as u128 * 8;
        let packet_ns = bits * 1_000_000_000 / u128::from(bits_per_s.max(1));
        let packet_ns = u64::try_from(packet_ns).unwrap_or(u64::MAX);
        // Ten packet times (RFC 1045): a packet and its longest gap take nine.
        let next_packet_ns = self.next_packet_ns.max(packet_ns.saturating_mul(10));
        Self { packet_ns, next_packet_ns, ..self }
    }

    /// Time of a message of `bytes` on the link, with its gaps; 0 where the rate is not known.
    pub(crate) fn sending_ns(&self, bytes: usize, gap: u8) -> u64 {
        let blocks = crate::wire::blocks_per_packet(self.packet_bytes);
        let packets = bytes.div_ceil(blocks * crate::wire::BLOCK_BYTES).max(1) as u64;
        self.packet_ns.saturating_mul(32 + u64::from(gap)).saturating_mul(packets) / 32
    }

    /// Time from a packet of `octets` to the next one of its group: its own on the link, and a gap of `gap`
    /// 32nds of the longest packet's (RFC 1045 §2.5.6). Without a gap, a group leaves as fast as the link
    /// takes it.
    pub(crate) fn pause_ns(&self, octets: usize, gap: u8) -> u64 {
        if gap == 0 {
            return 0;
        }
        let of_packet = |part: usize, of: usize| {
            let ns = u128::from(self.packet_ns) * part as u128 / of.max(1) as u128;
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        of_packet(octets, self.packet_bytes).saturating_add(of_packet(gap.into(), 32))
    }
}

/// Every timer of both engines, with its name in RFC 1045 chapter 4 and 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// TC1: a Request was sent, or a notice arrived; now the Response is due.
    Response,
    /// TC2: a Request was sent again, asking for an acknowledgment.
    Acknowledgment,
    /// TC3, TS1: the next packet of a group that has begun.
    NextPacket,
    /// TC4: more Responses to a group's Request.
    MoreResponses,
    /// TS3, TS5: the acknowledgment of a Response.
    ResponseAcknowledgment,
    /// TS4: the transaction is forgotten.
    Forget,
}
