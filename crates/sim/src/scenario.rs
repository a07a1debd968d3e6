//! The scenario of a simulation: hosts, their interfaces, and the links between them.

use std::net::Ipv4Addr;

use sockscope_stack::interface::InterfaceConfig;
use sockscope_stack::{Personality, StackConfig};

use crate::link::{LinkConfig, LinkId};
use crate::machine::Machine;

/// A whole simulation before it begins.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// The hosts; their numbers are their places here.
    pub hosts: Vec<HostConfig>,
    /// The links; their numbers are their places here.
    pub links: Vec<LinkConfig>,
    /// Which sockets are logged.
    pub log: LogPolicy,
}

/// Which sockets are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogPolicy {
    /// Every socket that connects, or sends a datagram.
    #[default]
    All,
    /// Those for which a program asks (`SO_LOG`).
    OnRequest,
}

/// The probes of the SunOS study in a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbeConfig {
    /// Records in the kernel's list, of which one stays empty; `None` for a list without end. With a list,
    /// records have the times of a clock of microseconds, and a probe's has one of its own.
    pub list_records: Option<u32>,
    /// No packet is logged: each probe tests, and the records are the laboratory's own.
    pub is_idle: bool,
}

/// One host.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// Its name.
    pub name: String,
    /// The rules of its kernel.
    pub personality: Personality,
    /// Its hardware.
    pub machine: Machine,
    /// Other options of its kernel; the interfaces here are those of `links`, in order.
    pub stack: StackConfig,
    /// The link of each interface; `None` for loopback.
    pub links: Vec<Option<LinkId>>,
    /// A time at which both protocol timers tick, as they do once a second, and the clock with them; `None`
    /// leaves it to the seed. Nanoseconds.
    pub timer_phase_ns: Option<u64>,
    /// Its kernel runs under a profiler, which costs time for each call.
    pub is_profiled: bool,
    /// Its kernel has the probes of the SunOS study, which cost time for each packet.
    pub probes: Option<ProbeConfig>,
    /// Its processes take turns, instead of the scheduler of 4.3BSD.
    pub is_round_robin: bool,
}

impl HostConfig {
    /// A host without interfaces.
    pub fn new(name: &str, personality: Personality, machine: Machine) -> Self {
        Self {
            name: name.to_owned(),
            personality,
            machine,
            stack: StackConfig::default(),
            links: Vec::new(),
            timer_phase_ns: None,
            is_profiled: false,
            probes: None,
            is_round_robin: false,
        }
    }

    /// The host with one more interface.
    #[must_use]
    pub fn with_interface(mut self, interface: InterfaceConfig, link: Option<LinkId>) -> Self {
        self.stack.interfaces.push(interface);
        self.links.push(link);
        self
    }

    /// The host with a 10 Mbit/s Ethernet interface `le0`.
    #[must_use]
    pub fn with_ethernet10(self, address: Ipv4Addr, link: LinkId) -> Self {
        self.with_interface(InterfaceConfig::ethernet10("le0", address), Some(link))
    }

    /// The host with a 3 Mbit/s Ethernet interface `en0`.
    #[must_use]
    pub fn with_ethernet3(self, address: Ipv4Addr, link: LinkId) -> Self {
        self.with_interface(InterfaceConfig::ethernet3("en0", address), Some(link))
    }

    /// The host with one end of a line, `sl0`.
    #[must_use]
    pub fn with_line(self, address: Ipv4Addr, mtu: u32, link: LinkId) -> Self {
        self.with_interface(InterfaceConfig::point_to_point("sl0", address, mtu), Some(link))
    }

    /// The host with a loopback interface at 127.0.0.1.
    #[must_use]
    pub fn with_loopback(self) -> Self {
        self.with_interface(InterfaceConfig::loopback(Ipv4Addr::LOCALHOST), None)
    }

    /// Address of the interface with this number; unspecified without one.
    pub fn address(&self, interface: usize) -> Ipv4Addr {
        let interface = self.stack.interfaces.get(interface);
        interface.map_or(Ipv4Addr::UNSPECIFIED, |interface| interface.address)
    }
}
