//! The command line of `sockscope vmtp`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use sockscope_link::{Bandwidth, Interval};
use sockscope_vmtp::wire::Entity;

/// `sockscope vmtp`.
#[derive(Debug, Args)]
pub struct Vmtp {
    /// What to do.
    #[command(subcommand)]
    pub command: VmtpCommand,
}

/// What to do over VMTP.
#[derive(Debug, Subcommand)]
pub enum VmtpCommand {
    /// Answer calls with what they carry, until stopped
    Serve(Serve),
    /// Call a server and print its answer
    Call(Call),
    /// Ask the network who has a name
    Find(Find),
    /// Serve the files below a folder by pages of 16 KiB, until stopped
    Store(Store),
    /// List the files of a store
    List(List),
    /// Copy a file into a store, durably, and compare
    Put(Put),
    /// Copy a file out of a store
    Get(Get),
}

/// Where a server is.
#[derive(Debug, Clone, Args)]
pub struct AtArgs {
    /// Address to serve at
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:10450")]
    pub at: SocketAddr,
    /// Name of the server [default: BE-1-IP]; with --raw, servers that were given names share an address
    #[arg(long, value_name = "ENTITY")]
    pub name: Option<Entity>,
    /// Packets of IP protocol 81 instead of UDP (needs CAP_NET_RAW)
    #[arg(long)]
    pub raw: bool,
    /// Rate of the link, as 10mbit, for the gaps between packets after losses; without it, the speed of the
    /// interface with that address where its driver gives one, else there are no gaps
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Bandwidth>,
}

/// Which server to call.
#[derive(Debug, Clone, Args)]
pub struct ToArgs {
    /// Address of the server
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:10450")]
    pub to: SocketAddr,
    /// Name of the server [default: BE-1-IP]
    #[arg(long, value_name = "ENTITY")]
    pub name: Option<Entity>,
    /// Packets of IP protocol 81 instead of UDP (needs CAP_NET_RAW)
    #[arg(long)]
    pub raw: bool,
    /// Rate of the link, as 10mbit, for the gaps between packets after losses; without it, the speed of the
    /// interface to the server where its driver gives one, else there are no gaps
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Bandwidth>,
}

/// `sockscope vmtp serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Where.
    #[command(flatten)]
    pub at: AtArgs,
    /// Also answer calls to this group, as UG-1-127.0.0.1 (several: repeat); by multicast they come
    /// only with `--at 0.0.0.0:PORT`
    #[arg(long, value_name = "ENTITY")]
    pub group: Vec<Entity>,
    /// Take multicast on the interface with this address
    #[arg(long, value_name = "IP", default_value_t = Ipv4Addr::UNSPECIFIED)]
    pub interface: Ipv4Addr,
    /// Record this module's queues into a bundle, until Ctrl-C; one that is there is kept as DIR.old
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
}

/// `sockscope vmtp call`.
#[derive(Debug, Args)]
pub struct Call {
    /// What to call with
    #[arg(value_name = "DATA", conflicts_with = "file")]
    pub data: Option<String>,
    /// Call with the content of this file, up to 4 MiB; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Request code, 24 bits
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..1 << 24))]
    pub code: u32,
    /// Make so many calls, one after the other, and print the last answer
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub times: u32,
    /// Record this module's queues into a bundle; one that is there is kept as DIR.old
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Call all members of this group by multicast, as UG-1-127.0.0.1, and print a line for each answer; the port is
    /// that of --to
    #[arg(long, value_name = "ENTITY", conflicts_with_all = ["name", "times"])]
    pub group: Option<Entity>,
    /// How long to collect answers of a group after the first one
    #[arg(long, value_name = "TIME", default_value = "100ms", requires = "group")]
    pub collect: Interval,
    /// Send multicast by the interface with this address
    #[arg(long, value_name = "IP", requires = "group")]
    pub interface: Option<Ipv4Addr>,
    /// Which server.
    #[command(flatten)]
    pub to: ToArgs,
}

/// `sockscope vmtp find`.
#[derive(Debug, Args)]
pub struct Find {
    /// The name, as BE-1-127.0.0.1
    #[arg(value_name = "ENTITY")]
    pub entity: Entity,
    /// Ask this host instead of all that multicast reaches
    #[arg(long, value_name = "IP:PORT")]
    pub to: Option<SocketAddr>,
    /// Port of the servers asked by multicast
    #[arg(long, value_name = "N", default_value_t = sockscope_vmtp::driver::PORT)]
    pub port: u16,
    /// Send multicast by the interface with this address
    #[arg(long, value_name = "IP")]
    pub interface: Option<Ipv4Addr>,
    /// Packets of IP protocol 81 instead of UDP (needs CAP_NET_RAW)
    #[arg(long)]
    pub raw: bool,
}

/// `sockscope vmtp store`.
#[derive(Debug, Args)]
pub struct Store {
    /// Folder whose files to serve
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Record this module's queues into a bundle, until Ctrl-C; one that is there is kept as DIR.old
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub at: AtArgs,
}

/// `sockscope vmtp list`.
#[derive(Debug, Args)]
pub struct List {
    /// Which store.
    #[command(flatten)]
    pub to: ToArgs,
}

/// `sockscope vmtp put`.
#[derive(Debug, Args)]
pub struct Put {
    /// File of this machine
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Name in the store [default: the file's]
    #[arg(value_name = "NAME")]
    pub as_name: Option<String>,
    /// Record this module's queues into a bundle; one that is there is kept as DIR.old
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Which store.
    #[command(flatten)]
    pub to: ToArgs,
}

/// `sockscope vmtp get`.
#[derive(Debug, Args)]
pub struct Get {
    /// Name in the store
    #[arg(value_name = "NAME")]
    pub of_name: String,
    /// File of this machine; `-` is standard output [default: the last part of the name]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Record this module's queues into a bundle; one that is there is kept as DIR.old
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Which store.
    #[command(flatten)]
    pub to: ToArgs,
}

/// The name of a server that was given none: discriminator 1 on its host. IPv6 hosts have no part in
/// names (RFC 1045 §2.1).
pub fn default_name(at: IpAddr) -> Entity {
    match at {
        IpAddr::V4(at) => Entity::new(1, at),
        IpAddr::V6(_) => Entity::new(1, Ipv4Addr::UNSPECIFIED),
    }
}
