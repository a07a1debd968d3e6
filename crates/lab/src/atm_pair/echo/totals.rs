//! Times and counts of calls, and the layers of a kernel that they are divided into.

use std::ops::AddAssign;

use sockscope_stack::Routine;

/// A layer of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    SystemCall,
    Socket,
    Copy,
    Udp,
    Checksum,
    Ip,
    Mbufs,
    Interface,
    Switch,
}

impl Layer {
    pub const ALL: [Self; 9] = [
        Self::SystemCall,
        Self::Socket,
        Self::Copy,
        Self::Udp,
        Self::Checksum,
        Self::Ip,
        Self::Mbufs,
        Self::Interface,
        Self::Switch,
    ];

    /// The name of its CPU time among the results.
    pub fn measure(self) -> &'static str {
        match self {
            Self::SystemCall => "cpu_system_call_us",
            Self::Socket => "cpu_socket_us",
            Self::Copy => "cpu_copy_us",
            Self::Udp => "cpu_udp_us",
            Self::Checksum => "cpu_checksum_us",
            Self::Ip => "cpu_ip_us",
            Self::Mbufs => "cpu_mbufs_us",
            Self::Interface => "cpu_interface_us",
            Self::Switch => "cpu_switch_us",
        }
    }

    /// The layer of a routine. Routines are listed in the order of the layers.
    pub fn of(routine: Routine) -> Self {
        use Routine::{Copyin, Copyout, InCksum, IpOutput, Looutput, MCopy, MCopydata, MGet};
        use Routine::{Sosend, TcpCksum, TcpUsrreq, UdpCksum, Uiomove};
        match routine {
            Uiomove | Copyin | Copyout | MCopy | MCopydata => Self::Copy,
            TcpCksum | UdpCksum | InCksum => Self::Checksum,
            routine if routine < Sosend => Self::SystemCall,
            routine if routine < TcpUsrreq => Self::Socket,
            routine if routine < IpOutput => Self::Udp,
            routine if routine < MGet => Self::Ip,
            routine if routine < Looutput => Self::Mbufs,
            _ => Self::Interface,
        }
    }
}

/// Times of one call, in picoseconds, in the order of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stages {
    /// From the call until the driver has the packet, both ways.
    pub kernel_out_ps: u64,
    /// The driver writes cells.
    pub driver_out_ps: u64,
    /// From the last word of the driver until the last cell is at the other card.
    pub fibre_ps: u64,
    /// From there until the driver has read the cells.
    pub driver_in_ps: u64,
    /// From there until the program has the data.
    pub kernel_in_ps: u64,
}

impl Stages {
    /// Of all stages.
    pub fn sum_ps(&self) -> u64 {
        self.kernel_out_ps
            + self.driver_out_ps
            + self.fibre_ps
            + self.driver_in_ps
            + self.kernel_in_ps
    }
}

impl AddAssign for Stages {
    fn add_assign(&mut self, other: Self) {
        self.kernel_out_ps += other.kernel_out_ps;
        self.driver_out_ps += other.driver_out_ps;
        self.fibre_ps += other.fibre_ps;
        self.driver_in_ps += other.driver_in_ps;
        self.kernel_in_ps += other.kernel_in_ps;
    }
}

/// Sums over all calls and both machines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Totals {
    /// From the beginning of each call to its end.
    pub elapsed_ps: u64,
    pub stages: Stages,
    /// CPU time of the two drivers.
    pub driver_ps: u64,
    /// CPU time of the two kernels by layer.
    pub layers_ps: [u64; Layer::ALL.len()],
    /// CPU time in which either machine was at work.
    pub busy_ps: u64,
    /// Octets of data that the kernels moved between program and kernel.
    pub moved_by_kernel: u64,
    /// Octets of data that the drivers moved between memory and card.
    pub moved_by_driver: u64,
    pub mbufs: u64,
    pub cells: u64,
    pub packets: u64,
}
