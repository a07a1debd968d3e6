//! One host's kernel from the system call down to the device.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use crate::interface::{Interface, InterfaceConfig};
use crate::ip::{FragmentQueues, IpCounts};
use crate::mbuf::{Pool, PoolLimits};
use crate::meter::Meter;
use crate::packet::Packet;
use crate::pcb::Pcbs;
use crate::personality::Personality;
use crate::route::{Route, Routes, network_of};
use crate::socket::Sockets;
use crate::tcp::TcpState;

/// The differences between hosts of one personality.
#[derive(Debug, Clone, Default)]
pub struct StackConfig {
    /// Interfaces; their numbers are their positions here, at most 255.
    pub interfaces: Vec<InterfaceConfig>,
    /// Routes other than those to the networks of the interfaces.
    pub routes: Vec<Route>,
    /// Limits of the mbuf pool.
    pub pool: PoolLimits,
    /// Where TCP's initial sequence numbers begin.
    pub initial_sequence: u32,
    /// Largest TCP segment to announce and send, in data bytes, instead of the rules' size.
    pub segment_bytes_max: Option<u32>,
    /// Packets for other hosts are sent on (`ipforwarding`). Such a gateway makes no records.
    pub forwards: bool,
    /// A datagram to a port without a socket is answered with ICMP port unreachable (RFC 1122
    /// §4.1.3.1).
    pub answers_unreachable: bool,
}

/// One host's kernel.
#[derive(Debug)]
pub struct Stack {
    /// The rules in force.
    pub personality: Personality,
    /// The differences between hosts.
    pub config: StackConfig,
    /// All mbufs.
    pub pool: Pool,
    /// All sockets.
    pub sockets: Sockets,
    /// The counts of IP.
    pub ip_counts: IpCounts,
    pub(crate) pcbs: Pcbs,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) routes: Routes,
    pub(crate) ip_queue: VecDeque<(u8, Packet)>,
    pub(crate) ip_queue_pending: usize,
    pub(crate) is_draining: bool,
    pub(crate) ip_id: u16,
    pub(crate) fragments: FragmentQueues,
    pub(crate) tcp: TcpState,
}

impl Stack {
    /// A host that has just started.
    pub fn new(personality: Personality, config: StackConfig) -> Self {
        let attached = config.interfaces.iter().zip(0..=u8::MAX).map(|(interface, number)| Route {
            network: interface.address,
            interface: number,
            gateway: None,
        });
        let routes = Routes::new(attached.chain(config.routes.iter().copied()).collect());
        Self {
            pool: Pool::new(personality.geometry, config.pool),
            sockets: Sockets::default(),
            ip_counts: IpCounts::default(),
            pcbs: Pcbs::default(),
            interfaces: config.interfaces.iter().map(Interface::new).collect(),
            routes,
            ip_queue: VecDeque::new(),
            ip_queue_pending: 0,
            is_draining: false,
            ip_id: 0,
            fragments: FragmentQueues::default(),
            tcp: TcpState::new(config.initial_sequence),
            personality,
            config,
        }
    }

    /// The timer that runs every 200 ms (`pffasttimo`).
    pub fn fasttimo(&mut self, meter: &mut Meter) {
        self.tcp_fasttimo(meter);
    }

    /// The timer that runs every 500 ms (`pfslowtimo`).
    pub fn slowtimo(&mut self, meter: &mut Meter) {
        self.ip_slowtimo(meter);
        self.tcp_slowtimo(meter);
    }

    /// An interface by its number.
    pub fn interface(&self, number: u8) -> Option<&Interface> {
        self.interfaces.get(usize::from(number))
    }

    /// Whether an interface of this host has the address.
    pub fn has_address(&self, address: Ipv4Addr) -> bool {
        self.interfaces.iter().any(|interface| interface.address == address)
    }

    /// Whether the address is on a network that an interface of this host is attached to.
    pub fn is_local(&self, address: Ipv4Addr) -> bool {
        let network = network_of(address);
        self.interfaces.iter().any(|interface| network_of(interface.address) == network)
    }
}
