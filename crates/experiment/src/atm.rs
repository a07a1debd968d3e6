//! The parameters of a case that runs the ATM driver on a DECstation, with no stack of its own.

use serde::Deserialize;

use super::workload::Workload;

/// Octets of data that fit into one message after the header of a VMTP packet, at most.
const DATA_BYTES_MAX: u64 = 1408 - VMTP_HEADER_BYTES;

/// Packets, messages or accesses in one run at most.
const COUNT_MAX: u64 = 1_000_000;

/// CPU cycles that a step may be given.
const CYCLES_MAX: u64 = 1_000_000;

/// Octets of data that one call sends and its answer returns, at most: a datagram of them fits the socket buffers of
/// the modelled kernel.
const CALL_BYTES_MAX: u64 = 8192;

/// The least and the greatest IP packet of the driver with a socket. The card's receive queue holds the cells of the
/// greatest.
const MTU_BYTES: (u64, u64) = (576, 9180);

/// The cost of the kernel's calls in per cent of the machine that they were fitted on, at most.
const KERNEL_PERCENT_MAX: u64 = 1000;

/// Octets of a VMTP packet's header, which every message begins with (RFC 1045).
pub const VMTP_HEADER_BYTES: u64 = 68;

/// Everything that makes one case of [`Workload::AtmSend`], [`Workload::AtmEcho`], [`Workload::AtmLoss`] or
/// [`Workload::BusAccess`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtmParameters {
    /// The machine, as `decstation-5000-240`; of a pair, both.
    pub machine: String,
    /// How much of the driver runs.
    #[serde(default)]
    pub driver: DriverPart,
    /// Where the words to send stand.
    #[serde(default)]
    pub data_from: DataFrom,
    /// Where cells go on a kernel, which has no card; without it, into memory. The model has a card.
    pub cells_to: Option<CellsTo>,
    /// Data of a packet after its VMTP header, in octets.
    pub data_bytes: Option<u64>,
    /// Packets to send.
    pub packets: Option<u64>,
    /// The way of a call's data between the program and the card.
    pub path: Option<AtmPath>,
    /// Calls, each answered with as much data.
    pub calls: Option<u64>,
    /// The greatest IP packet of the driver with a socket; without it, 9,180 octets.
    pub mtu_bytes: Option<u64>,
    /// The cost of the kernel's calls, in per cent of the cycles that a SPARCstation 1 takes for them; without it, 100.
    pub kernel_percent: Option<u64>,
    /// CPU cycles of a message's setup on the general path; without it, the machine's.
    pub message_setup_cycles: Option<u64>,
    /// CPU cycles that each received cell costs more when missing cells are asked for; without it,
    /// the machine's.
    pub repair_check_cycles: Option<u64>,
    /// Accesses to the card.
    pub accesses: Option<u64>,
    /// CPU cycles of work between two accesses.
    pub work_cycles: Option<u64>,
    /// Messages of 16 KB to carry.
    pub messages: Option<u64>,
    /// Cells that the fibre loses of a million.
    pub cells_lost_per_million: Option<u32>,
    /// What becomes of a packet that lacks a cell.
    pub loss_policy: Option<LossPolicy>,
}

/// How much of the driver runs: it was built from the bottom up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverPart {
    /// Fixed words of registers, as cells.
    Words,
    /// Preformatted cells.
    Cells,
    /// Packets cut into cells: all of it.
    #[default]
    Packets,
}

/// Where the words of a message stand that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataFrom {
    /// In the cache.
    Cache,
    /// In memory: each cache line is filled once. The header of a packet, which the processor wrote, is in
    /// the cache.
    #[default]
    Memory,
    /// In memory, past the cache.
    Uncached,
}

/// Where the cells of a packet go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellsTo {
    /// Memory of the sender.
    Memory,
    /// A pipe to a thread that drops them.
    Pipe,
    /// A Unix stream socket to a thread that drops them.
    Socket,
}

/// The way of data between a program and the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtmPath {
    /// The thesis's driver, in the program itself.
    Direct,
    /// The driver that was supplied with the card: IP over AAL3/4 in the kernel, behind a socket.
    Vendor,
}

/// What becomes of a packet that lacks a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossPolicy {
    /// It is dropped, and sent again whole.
    Discard,
    /// What has arrived is kept, and the missing cells are sent again.
    Repair,
}

impl AtmParameters {
    pub(super) fn validate(&self, workload: Workload) -> Result<(), String> {
        use Workload::{AtmEcho, AtmLoss, AtmSend, BusAccess};
        let lost = self.cells_lost_per_million.map(u64::from);
        let policy = self.loss_policy.map(|_| 0);
        if self.cells_to.is_some() && workload != AtmSend {
            return Err(format!("`cells_to` means nothing to `{}`", workload.name()));
        }
        let data_bytes_max = if workload == AtmEcho { CALL_BYTES_MAX } else { DATA_BYTES_MAX };
        // Name, value, least and most, who needs it.
        let needed: [(_, _, _, _, &[Workload]); 9] = [
            ("data_bytes", self.data_bytes, 0, data_bytes_max, &[AtmSend, AtmEcho]),
            ("packets", self.packets, 1, COUNT_MAX, &[AtmSend]),
            ("path", self.path.map(|_| 0), 0, 0, &[AtmEcho]),
            ("calls", self.calls, 1, COUNT_MAX, &[AtmEcho]),
            ("accesses", self.accesses, 1, COUNT_MAX, &[BusAccess]),
            ("work_cycles", self.work_cycles, 0, CYCLES_MAX, &[BusAccess]),
            ("messages", self.messages, 1, COUNT_MAX, &[AtmLoss]),
            ("cells_lost_per_million", lost, 0, 500_000, &[AtmLoss]),
            ("loss_policy", policy, 0, 0, &[AtmLoss]),
        ];
        for (name, value, least, most, owners) in needed {
            let is_good = value.is_some_and(|value| (least..=most).contains(&value));
            match (owners.contains(&workload), value) {
                (true, _) if !is_good => {
                    return Err(format!("expected `{name}` from {least} to {most}"));
                }
                (false, Some(_)) => {
                    return Err(format!("`{name}` means nothing to `{}`", workload.name()));
                }
                _ => {}
            }
        }
        self.check_vendor(workload)?;
        self.check_cycles(workload)
    }

    /// Refuses what only the driver with a socket has where that one does not run.
    fn check_vendor(&self, workload: Workload) -> Result<(), String> {
        let has_kernel = workload == Workload::AtmEcho;
        let (mtu_min, mtu_max) = MTU_BYTES;
        let given = [
            ("mtu_bytes", self.mtu_bytes, mtu_min, mtu_max),
            ("kernel_percent", self.kernel_percent, 0, KERNEL_PERCENT_MAX),
        ];
        for (name, value, least, most) in given {
            if value.is_some() && !has_kernel {
                return Err(format!("`{name}` means nothing to `{}`", workload.name()));
            }
            if value.is_some_and(|value| !(least..=most).contains(&value)) {
                return Err(format!("expected `{name}` from {least} to {most}"));
            }
        }
        Ok(())
    }

    fn check_cycles(&self, workload: Workload) -> Result<(), String> {
        use Workload::{AtmLoss, BusAccess};
        let cycles = [
            ("message_setup_cycles", self.message_setup_cycles, workload != BusAccess),
            ("repair_check_cycles", self.repair_check_cycles, workload == AtmLoss),
        ];
        for (name, value, has_meaning) in cycles {
            if value.is_some() && !has_meaning {
                return Err(format!("`{name}` means nothing to `{}`", workload.name()));
            }
            if value.is_some_and(|cycles| cycles > CYCLES_MAX) {
                return Err(format!("expected `{name}` from 0 to {CYCLES_MAX}"));
            }
        }
        Ok(())
    }
}
