//! The differences between versions of the system, as plain data.
//!
//! A personality is a value: clone one, change a field, and a new variant is there. Rules that need
//! code are small enums, matched where they apply; no code asks for a personality by name.

use crate::interface::InterfaceRules;
use crate::ip::IpRules;
use crate::mbuf::{Geometry, Pullup};
use crate::pcb::LocalAddress;
use crate::sockbuf::{BufferRules, hiwat_limit};
use crate::tcp::{TcpRules, UrgentPointer};
use crate::udp::{UdpHeader, UdpRules};

/// One version of the system.
#[derive(Debug, Clone, PartialEq)]
pub struct Personality {
    /// As in `4.3bsd`, without the options that were added to it.
    pub name: &'static str,
    /// Layout of mbufs.
    pub geometry: Geometry,
    /// The socket layer.
    pub socket: SocketRules,
    /// UDP.
    pub udp: UdpRules,
    /// IP.
    pub ip: IpRules,
    /// Interfaces.
    pub interface: InterfaceRules,
    /// TCP.
    pub tcp: TcpRules,
}

/// Rules of the socket layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketRules {
    /// When `sosend` waits for space.
    pub wait: SendWait,
    /// The space rule of `sosend` while it fills mbufs.
    pub fill: SendFill,
    /// A message of at least so many bytes is put into a cluster (`MINCLSIZE`).
    pub cluster_min_bytes: usize,
    /// A stream is handed to the protocol mbuf by mbuf (4.3BSD-Reno) rather than in one chain.
    pub sends_each_mbuf: bool,
    /// A write to a socket that does not block sends all or nothing (4.2BSD).
    pub nonblocking_is_atomic: bool,
    /// An accepted socket takes both buffer limits from the listener's *send* limit
    /// (4.3BSD-Tahoe).
    pub accepted_takes_send_limit: bool,
    /// Socket buffers.
    pub buffers: BufferRules,
    /// Data limits of a new TCP socket, sending and receiving, in bytes.
    pub tcp_bytes: (u32, u32),
    /// Data limits of a new UDP socket, sending and receiving, in bytes.
    pub udp_bytes: (u32, u32),
}

/// When `sosend` puts the writer to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendWait {
    /// 4.2BSD: while there is no space at all.
    NoSpace,
    /// 4.3BSD: also while the rest of a write is at least a cluster, the space is smaller than one,
    /// and at least one is queued. So writes stay aligned to clusters.
    Aligned,
    /// 4.3BSD-Reno: while the rest does not fit and there is less space than the low-water mark.
    LowWater,
}

/// The amount that `sosend` takes from the writer in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendFill {
    /// 4.2BSD as released: everything, since staged data do not lessen the space.
    Whole,
    /// 4.2BSD in 1984: until the space is used; the last mbuf may go beyond it.
    Staged,
    /// Since 4.3BSD: as before, and no mbuf exceeds the space.
    Clipped,
}

const OLD_MBUFS: Geometry = Geometry { plain_bytes: 112, header_bytes: 112, pullup: Pullup::Exact };

const RELEASED_42: Personality = Personality {
    name: "4.2bsd",
    geometry: OLD_MBUFS,
    socket: SocketRules {
        wait: SendWait::NoSpace,
        fill: SendFill::Whole,
        cluster_min_bytes: 1024,
        sends_each_mbuf: false,
        nonblocking_is_atomic: true,
        accepted_takes_send_limit: false,
        buffers: BufferRules {
            // Counters are signed 16-bit numbers.
            storage_bytes_max: 32_767,
            hiwat_max: None,
            calls_compress: false,
            compact_spare_bytes: 0,
            rights_mbuf: true,
            send_lowat: 0,
        },
        tcp_bytes: (2048, 2048),
        udp_bytes: (2048, 2048),
    },
    udp: UdpRules {
        caches_route: false,
        header: UdpHeader::Function,
        sums_output: true,
        checks_input: false,
        reports_unreachable: false,
    },
    ip: IpRules {
        fragment_ttl: 15,
        pulls_up_clusters: true,
        local_address: LocalAddress::NetworkOf,
        log_tos: 0,
    },
    interface: InterfaceRules {
        uses_trailers: true,
        input_cluster_min_bytes: 1024,
        lends_input: false,
        masks_devices: false,
    },
    tcp: TcpRules::RELEASED_42,
};

const MEASURED_42: Personality = Personality {
    name: "4.2bsd-cabrera",
    socket: SocketRules { fill: SendFill::Staged, ..RELEASED_42.socket },
    tcp: TcpRules::MEASURED_42,
    ..RELEASED_42
};

const BSD_43: Personality = Personality {
    name: "4.3bsd",
    geometry: Geometry { pullup: Pullup::Extra, ..OLD_MBUFS },
    socket: SocketRules {
        wait: SendWait::Aligned,
        fill: SendFill::Clipped,
        cluster_min_bytes: 512,
        nonblocking_is_atomic: false,
        buffers: BufferRules {
            storage_bytes_max: 65_535,
            hiwat_max: Some(hiwat_limit(65_535, 2)),
            calls_compress: true,
            rights_mbuf: false,
            ..RELEASED_42.socket.buffers
        },
        tcp_bytes: (4096, 4096),
        udp_bytes: (2048, 4160),
        ..RELEASED_42.socket
    },
    udp: UdpRules {
        caches_route: true,
        header: UdpHeader::Macro,
        checks_input: true,
        reports_unreachable: true,
        ..RELEASED_42.udp
    },
    ip: IpRules { fragment_ttl: 60, local_address: LocalAddress::Scan, ..RELEASED_42.ip },
    interface: InterfaceRules { input_cluster_min_bytes: 512, ..RELEASED_42.interface },
    tcp: TcpRules::BSD_43,
};

const TAHOE: Personality = Personality {
    name: "tahoe",
    socket: SocketRules {
        accepted_takes_send_limit: true,
        buffers: BufferRules {
            storage_bytes_max: 65_536,
            hiwat_max: Some(hiwat_limit(65_536, 2)),
            ..BSD_43.socket.buffers
        },
        ..BSD_43.socket
    },
    ip: IpRules { local_address: LocalAddress::OfRoute, ..BSD_43.ip },
    tcp: TcpRules::TAHOE,
    ..BSD_43
};

const RENO: Personality = Personality {
    name: "reno",
    geometry: Geometry { plain_bytes: 108, header_bytes: 100, pullup: Pullup::Protocol },
    socket: SocketRules {
        wait: SendWait::LowWater,
        cluster_min_bytes: 208,
        sends_each_mbuf: true,
        accepted_takes_send_limit: false,
        buffers: BufferRules {
            hiwat_max: Some(hiwat_limit(65_536, 1)),
            compact_spare_bytes: 1,
            send_lowat: 1024,
            ..TAHOE.socket.buffers
        },
        udp_bytes: (9216, 41_600),
        ..TAHOE.socket
    },
    udp: UdpRules { header: UdpHeader::InPlace, ..TAHOE.udp },
    ip: IpRules { pulls_up_clusters: false, ..TAHOE.ip },
    interface: TAHOE.interface,
    tcp: TcpRules::RENO,
};

/// 4.3BSD's `sosend` over Tahoe's TCP; trailers are not mentioned anywhere, so they
/// are off.
const SUNOS_403: Personality = Personality {
    name: "sunos-4.0.3",
    socket: SocketRules { accepted_takes_send_limit: false, ..TAHOE.socket },
    ip: IpRules { log_tos: 0x01, ..TAHOE.ip },
    interface: InterfaceRules {
        uses_trailers: false,
        lends_input: true,
        masks_devices: true,
        ..TAHOE.interface
    },
    tcp: TcpRules::SUNOS_403,
    ..TAHOE
};

const SUNOS_41: Personality =
    Personality { name: "sunos-4.1", ip: TAHOE.ip, tcp: TcpRules::SUNOS_41, ..SUNOS_403 };

const WINDOW_SCALING: &str = "window_scaling";
const TIMESTAMPS: &str = "timestamps";
const SACK: &str = "sack";
const URGENT_AT_OCTET: &str = "urgent_at_octet";

/// Largest data limit of a buffer where windows are scaled: the largest window.
const SCALED_BUFFER_BYTES_MAX: u32 = 65_535 << 14;

impl Personality {
    /// Every personality, oldest first.
    pub const ALL: [Self; 7] = [RELEASED_42, MEASURED_42, BSD_43, TAHOE, RENO, SUNOS_403, SUNOS_41];

    /// Options of headers that any personality can have, by the words that name them.
    pub const HEADER_OPTIONS: [&str; 3] = [WINDOW_SCALING, TIMESTAMPS, SACK];

    /// All that a name can add to a personality: [`Self::HEADER_OPTIONS`], and RFC 1122's urgent pointer.
    pub const OPTIONS: [&str; 4] = [WINDOW_SCALING, TIMESTAMPS, SACK, URGENT_AT_OCTET];

    /// The personality of this name. A name as `reno+window_scaling` adds options to one of [`Self::ALL`]; its
    /// [`name`](Self::name) stays.
    pub fn by_name(name: &str) -> Option<Self> {
        let mut words = name.split('+');
        let base = words.next()?;
        let mut personality = Self::ALL.into_iter().find(|personality| personality.name == base)?;
        for option in words {
            personality.add(option)?;
        }
        Some(personality)
    }

    /// Adds one of [`Self::OPTIONS`]; `None` for another word, and for an option that is there.
    fn add(&mut self, option: &str) -> Option<()> {
        let options = &mut self.tcp.options;
        let is_on = match option {
            WINDOW_SCALING => {
                // A window beyond 65,535 bytes needs a buffer of that size.
                let buffers = &mut self.socket.buffers;
                buffers.storage_bytes_max = 2 * SCALED_BUFFER_BYTES_MAX;
                buffers.hiwat_max = buffers.hiwat_max.map(|_| SCALED_BUFFER_BYTES_MAX);
                &mut options.window_scaling
            }
            TIMESTAMPS => &mut options.timestamps,
            SACK => &mut options.sack,
            URGENT_AT_OCTET => {
                let pointer = &mut self.tcp.urgent.pointer;
                let is_new = *pointer != UrgentPointer::AtOctet;
                *pointer = UrgentPointer::AtOctet;
                return is_new.then_some(());
            }
            _ => return None,
        };
        (!std::mem::replace(is_on, true)).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_personality_is_found_by_its_name() {
        for personality in Personality::ALL {
            assert_eq!(Personality::by_name(personality.name), Some(personality));
        }
        assert_eq!(Personality::by_name("4.4bsd"), None);
    }

    #[test]
    fn a_name_with_an_option_is_the_personality_with_it_and_larger_buffers() {
        let scaled = Personality::by_name("reno+window_scaling").unwrap();
        assert!(scaled.tcp.options.window_scaling && !RENO.tcp.options.window_scaling);
        assert_eq!(scaled.socket.buffers.hiwat_max, Some(1_073_725_440));
        let mut plain = scaled;
        plain.tcp.options = RENO.tcp.options;
        plain.socket.buffers = RENO.socket.buffers;
        assert_eq!(plain, RENO, "no other rule changes");
        for wrong in
            ["reno+", "+window_scaling", "reno+sacks", "reno+window_scaling+window_scaling"]
        {
            assert_eq!(Personality::by_name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_largest_buffers_are_those_that_the_papers_found() {
        let limits = Personality::ALL.map(|version| version.socket.buffers.hiwat_max);
        let largest =
            [None, None, Some(52_428), Some(52_428), Some(58_254), Some(52_428), Some(52_428)];
        assert_eq!(limits, largest);
    }
}
