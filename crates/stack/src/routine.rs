//! The routines that are counted and costed, under the names they have in the C sources.
//!
//! One variant is one row of the papers' tables of calls and seconds. Macros of the C sources
//! (`MGET`, `MFREE`, `MCLGET`) are counted too: a profiler did not see them, but they are the
//! number of operations, where the function of the same purpose is the number of calls.

macro_rules! routines {
    ($($variant:ident $name:literal,)*) => {
        /// One routine of the kernel.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Routine {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Routine {
            /// Every routine, in the order in which a packet meets them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in the C sources and in every table.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

routines! {
    // System calls and the way to the socket.
    Syscall "syscall",
    Write "write",
    Read "read",
    Rwuio "rwuio",
    SooRw "soo_rw",
    Sendto "sendto",
    Sendit "sendit",
    Recvfrom "recvfrom",
    Recvit "recvit",
    Sockargs "sockargs",
    Getsock "getsock",
    Getf "getf",
    Useracc "useracc",
    // The socket layer.
    Sosend "sosend",
    Soreceive "soreceive",
    Uiomove "uiomove",
    Copyin "Copyin",
    Copyout "Copyout",
    Socreate "socreate",
    Sobind "sobind",
    Solisten "solisten",
    Soaccept "soaccept",
    Soconnect "soconnect",
    Soshutdown "soshutdown",
    Soclose "soclose",
    Sonewconn "sonewconn",
    Sorwakeup "sorwakeup",
    Sowwakeup "sowwakeup",
    Sbappend "sbappend",
    Sbappendaddr "sbappendaddr",
    Sbcompress "sbcompress",
    Sbdrop "sbdrop",
    // TCP.
    TcpUsrreq "tcp_usrreq",
    TcpOutput "tcp_output",
    TcpXoutput "tcp_xoutput",
    TcpInput "tcp_input",
    TcpCksum "tcp_cksum",
    TcpReass "tcp_reass",
    TcpRespond "tcp_respond",
    TcpFasttimo "tcp_fasttimo",
    TcpSlowtimo "tcp_slowtimo",
    TcpTimers "tcp_timers",
    TcpQuench "tcp_quench",
    // UDP.
    UdpUsrreq "udp_usrreq",
    UdpOutput "udp_output",
    UdpInput "udp_input",
    UdpCksum "udp_cksum",
    // Protocol control blocks, addresses and routes.
    InPcbconnect "in_pcbconnect",
    InPcbdisconnect "in_pcbdisconnect",
    InPcblookup "in_pcblookup",
    InPcbnotify "in_pcbnotify",
    InNetof "in_netof",
    InLnaof "in_lnaof",
    IfIfonnetof "if_ifonnetof",
    IfaIfwithdstaddr "ifa_ifwithdstaddr",
    InIaonnetof "in_iaonnetof",
    Rtalloc "rtalloc",
    // IP and ICMP.
    IpOutput "ip_output",
    Ipintr "ipintr",
    IpReass "ip_reass",
    IpSlowtimo "ip_slowtimo",
    InCksum "in_cksum",
    IcmpError "icmp_error",
    IcmpInput "icmp_input",
    // Mbufs.
    MGet "m_get",
    MFree "m_free",
    MFreem "m_freem",
    MCopy "m_copy",
    MCopydata "m_copydata",
    MPullup "m_pullup",
    MAdj "m_adj",
    MgetMacro "MGET",
    MfreeMacro "MFREE",
    MclgetMacro "MCLGET",
    // Interfaces.
    Looutput "looutput",
    Enoutput "enoutput",
    Enstart "enstart",
    Enxint "enxint",
    Enrint "enrint",
    IfWubaput "if_wubaput",
    IfRubaget "if_rubaget",
}

impl Routine {
    /// The number of routines.
    pub const COUNT: usize = Self::ALL.len();

    /// Position in [`Routine::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether a profiler counts its calls: not those of macros and assembler code.
    pub fn is_profiled(self) -> bool {
        use Routine::{Copyin, Copyout, MclgetMacro, MfreeMacro, MgetMacro};
        !matches!(self, Copyin | Copyout | MgetMacro | MfreeMacro | MclgetMacro)
    }

    /// The routine of this name, if one is counted.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|routine| routine.name() == name)
    }
}

/// The work of one call in addition to the call itself; a cost table is linear in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Bytes moved or summed.
    pub bytes: u32,
    /// Mbufs made, freed or otherwise handled.
    pub mbufs: u32,
    /// Mbufs or list entries walked past.
    pub walked: u32,
}

impl Work {
    /// A call with a constant cost.
    pub const NONE: Self = Self { bytes: 0, mbufs: 0, walked: 0 };

    /// Work on this many bytes.
    pub fn bytes(bytes: usize) -> Self {
        Self { bytes: bytes as u32, ..Self::NONE }
    }

    /// Work on this many mbufs.
    pub fn mbufs(mbufs: u32) -> Self {
        Self { mbufs, ..Self::NONE }
    }

    /// Walking past this many entries of a list.
    pub fn walked(walked: u32) -> Self {
        Self { walked, ..Self::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_routine_is_found_by_its_name_and_stands_at_its_index() {
        for (index, routine) in Routine::ALL.iter().enumerate() {
            assert_eq!(routine.index(), index);
            assert_eq!(Routine::by_name(routine.name()), Some(*routine));
        }
        assert_eq!(Routine::by_name("tcp_sendmsg"), None);
    }
}
