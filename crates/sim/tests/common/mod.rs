//! Scenes that several tests need.

pub mod buffers;
pub mod datagrams;
pub mod echo;

use std::net::Ipv4Addr;

use sockscope_sim::{Faults, HostConfig, LinkConfig, LogPolicy, Machine, Scenario};
use sockscope_stack::{Endpoint, Personality};

pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub const PORT: u16 = 9;
pub const TO: Endpoint = (SERVER, PORT);
pub const SECOND_NS: u64 = 1_000_000_000;

pub fn personality(name: &str) -> Personality {
    Personality::by_name(name).expect("a known personality")
}

pub fn machine(name: &str) -> Machine {
    Machine::by_name(name).expect("a known machine")
}

/// Client 0 and server 1 on a 3 Mbit/s Ethernet.
pub fn ethernet3(personality_name: &str, machine_name: &str, seed: u64) -> Scenario {
    let host = |name, address| {
        HostConfig::new(name, personality(personality_name), machine(machine_name))
            .with_ethernet3(address, 0)
    };
    Scenario {
        seed,
        hosts: vec![host("client", CLIENT), host("server", SERVER)],
        links: vec![LinkConfig::ethernet3()],
        log: LogPolicy::All,
    }
}

/// Client 0 and server 1 on a 10 Mbit/s Ethernet.
pub fn ethernet10(personality_name: &str, machine_name: &str, seed: u64) -> Scenario {
    let host = |name, address| {
        HostConfig::new(name, personality(personality_name), machine(machine_name))
            .with_ethernet10(address, 0)
    };
    Scenario {
        seed,
        hosts: vec![host("client", CLIENT), host("server", SERVER)],
        links: vec![LinkConfig::ethernet10()],
        log: LogPolicy::All,
    }
}

/// Client 0 and server 1 at the ends of a line of 10 Mbit/s.
pub fn line(personality_name: &str, machine_name: &str, faults: Faults, seed: u64) -> Scenario {
    let host = |name, address| {
        HostConfig::new(name, personality(personality_name), machine(machine_name))
            .with_line(address, 1500, 0)
    };
    Scenario {
        seed,
        hosts: vec![host("client", CLIENT), host("server", SERVER)],
        links: vec![LinkConfig::point_to_point(10_000_000, 1_000_000).with_faults(faults)],
        log: LogPolicy::All,
    }
}
