//! The costs of VMTP on a machine: numbers of its file, and times made of them.

use serde::Deserialize;
use sockscope_experiment::VMTP_HEADER_BYTES;

const FILES: [(&str, &str); 3] = [
    ("decstation-3100", include_str!("../../../../machines/decstation-3100.toml")),
    ("decstation-5000-200", include_str!("../../../../machines/ultrix-vmtp-5000-200.toml")),
    ("decstation-5000-240", include_str!("../../../../machines/ultrix-vmtp-5000-240.toml")),
];

/// A machine whose kernel has VMTP.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Machine {
    /// As in `decstation-5000-240`.
    pub name: String,
    /// Its full name.
    title: String,
    cpu: Clock,
    system: System,
    octets: Octets,
    /// Its network interface.
    pub interface: Interface,
}

/// The processor's clock.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Clock {
    cycle_ps: u64,
    source: String,
}

/// CPU cycles of the kernel's steps.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct System {
    crossing: u64,
    source_crossing: String,
    packet_out: u64,
    packet_in: u64,
    source_packets: String,
}

/// Picoseconds of each octet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Octets {
    copy: u64,
    source_copy: String,
    checksum: u64,
    source_checksum: String,
    to_interface: u64,
    from_interface: u64,
    source_interface: String,
}

/// A network interface and its driver.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Interface {
    /// Frames that wait to be sent, at most.
    pub send_queue: usize,
    /// Frames that arrived and wait for the CPU, at most.
    pub receive_ring: usize,
    /// Microseconds from the end of a frame until it can begin the next one.
    pub turn_us: u64,
    source: String,
}

impl Machine {
    /// The machine of this name that is included in the program.
    pub fn by_name(name: &str) -> Result<Self, String> {
        let found = FILES.iter().find(|(known, _)| *known == name);
        let (_, text) = found.ok_or_else(|| {
            let known = FILES.map(|(known, _)| known).join(", ");
            format!("no machine `{name}` with VMTP: expected one of {known}")
        })?;
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// A system call, or a wake-up and the way back to the program.
    pub fn crossing_ns(&self) -> u64 {
        self.system.crossing * self.cpu.cycle_ps / 1000
    }

    /// `octets` of a segment copied between the user and the kernel.
    pub fn copy_ns(&self, octets: usize) -> u64 {
        octets as u64 * self.octets.copy / 1000
    }

    /// Picoseconds to copy an octet between user and kernel, and to sum one.
    pub fn octet_ps(&self) -> [u64; 2] {
        [self.octets.copy, self.octets.checksum]
    }

    /// A packet of `octets` from the user's memory to the interface.
    pub fn packet_out_ns(&self, octets: usize) -> u64 {
        let Octets { copy, checksum, to_interface, .. } = self.octets;
        let octets = octets as u64;
        let data = octets.saturating_sub(VMTP_HEADER_BYTES);
        let moved_ps = data * copy + octets * (checksum + to_interface);
        (self.system.packet_out * self.cpu.cycle_ps + moved_ps) / 1000
    }

    /// A packet of `octets` from the interface to the kernel's memory.
    pub fn packet_in_ns(&self, octets: usize) -> u64 {
        let moved_ps = octets as u64 * (self.octets.checksum + self.octets.from_interface);
        (self.system.packet_in * self.cpu.cycle_ps + moved_ps) / 1000
    }
}

#[cfg(test)]
impl Machine {
    /// The same with our estimates scaled to so many per cent, and the fitted number changed by so
    /// many nanoseconds.
    pub fn altered(&self, packets: u64, octets: u64, turn: u64, crossing_ns: i64) -> Self {
        let mut it = self.clone();
        it.system.packet_out = it.system.packet_out * packets / 100;
        it.system.packet_in = it.system.packet_in * packets / 100;
        let moved = &mut it.octets;
        for cost in [&mut moved.copy, &mut moved.checksum, &mut moved.to_interface] {
            *cost = *cost * octets / 100;
        }
        moved.from_interface = moved.from_interface * octets / 100;
        it.interface.turn_us = it.interface.turn_us * turn / 100;
        let cycles = crossing_ns * 1000 / it.cpu.cycle_ps as i64;
        it.system.crossing = it.system.crossing.saturating_add_signed(cycles);
        it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines() -> [Machine; 3] {
        FILES.map(|(name, _)| Machine::by_name(name).unwrap())
    }

    #[test]
    fn files_bear_the_names_of_their_machines() {
        assert_eq!(machines().map(|machine| machine.name), FILES.map(|(name, _)| name));
        let error = Machine::by_name("vax-11-750").unwrap_err();
        assert!(error.starts_with("no machine `vax-11-750` with VMTP"), "{error}");
    }

    /// A number that is fitted on one machine and carried to the others must be the same in cycles.
    #[test]
    fn the_kernel_takes_the_same_cycles_on_each() {
        let [old, slow, fast] = machines();
        assert_eq!((&old.system.crossing, &fast.system.crossing), {
            let crossing = &slow.system.crossing;
            (crossing, crossing)
        });
        let packets = |machine: &Machine| (machine.system.packet_out, machine.system.packet_in);
        assert_eq!((packets(&old), packets(&fast)), (packets(&slow), packets(&slow)));
    }

    /// Microseconds: a crossing; the smallest and the largest packet out and in. The wire takes 920
    /// for the largest.
    #[test]
    fn costs_of_a_packet() {
        let table = machines().map(|machine| {
            let out = [68, 1092].map(|octets| machine.packet_out_ns(octets) / 1000);
            let input = [68, 1092].map(|octets| machine.packet_in_ns(octets) / 1000);
            (machine.crossing_ns() / 1000, out, input)
        });
        assert_eq!(
            table,
            [
                (5150, [489, 708], [615, 845]),
                (3433, [325, 461], [410, 563]),
                (2601, [247, 375], [312, 458]),
            ]
        );
    }
}
