//! Which connections to record: the options of all programs that record, and the [`Pick`] that they describe.

use std::fs;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use sockscope_probe::{Cgroup, ControlGroups, Pick, SoLog};

use crate::failure::Failure;
use crate::machine;
use crate::pick_name::{PickName, pick_name};

/// Which connections to log. Options of different kinds must all match; values of one kind are
/// alternatives. Sockets that set SO_LOG are logged too: see --so-log.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which connections")]
pub struct PickArgs {
    /// Port at either end, or several: 80,443 or 8000-8003 (or repeat)
    #[arg(long, value_name = "N", value_parser = ports, value_delimiter = ',', allow_negative_numbers = true)]
    pub port: Vec<Ports>,
    /// Address at either end (several: repeat, or 10.0.0.1,10.0.0.2)
    #[arg(long, value_name = "IP", value_parser = address, value_delimiter = ',')]
    pub addr: Vec<IpAddr>,
    /// Process that connects or listens (several: repeat, or 12,34)
    #[arg(long, value_name = "PID", value_parser = process, value_delimiter = ',', allow_negative_numbers = true)]
    pub pid: Vec<u32>,
    /// Name of processes that connect or listen, as in /proc/PID/comm
    #[arg(long, value_name = "NAME")]
    pub comm: Option<String>,
    /// Control group whose sockets to log: its folder in the cgroup2 file system
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<PathBuf>,
    /// Pod, unit or container whose sockets to log: pod=NAME, pod=NAMESPACE/NAME, unit=NAME,
    /// container=NAME or the first digits of its number
    #[arg(long = "pick", value_name = "KIND=NAME", value_parser = pick_name, conflicts_with = "cgroup")]
    pub named: Option<PickName>,
    /// Mark the SYN of logged connections (TCP option 253, RFC 6994), and log connections whose SYN
    /// is marked
    #[arg(long)]
    pub in_band: bool,
    /// Whose sockets are logged because they set SO_LOG; without this option none next to a command,
    /// those of own users next to another pick, and else those of all
    #[arg(long, value_enum, value_name = "WHOSE")]
    pub so_log: Option<SoLogArg>,
}

/// Whose sockets may ask to be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SoLogArg {
    /// No sockets
    Off,
    /// Root's and those of the user who records, or who called sudo
    Own,
    /// Every user's
    All,
}

/// Ports from the first to the last, both of them included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports(RangeInclusive<u16>);

impl Ports {
    /// The first and the last one.
    pub fn range(&self) -> RangeInclusive<u16> {
        self.0.clone()
    }

    /// Each of them.
    pub fn each(&self) -> impl Iterator<Item = u16> {
        self.0.clone()
    }
}

/// Reads `--port`.
///
/// # Errors
///
/// The form of a port.
pub fn ports(text: &str) -> Result<Ports, String> {
    let number = |text: &str| text.parse().ok().filter(|port: &u16| *port > 0);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let wrong = || "a port is a number from 1 to 65535, or several: 80,443 or 8000-8003".to_owned();
    let (first, last) = number(first).zip(number(last)).ok_or_else(wrong)?;
    if first <= last { Ok(Ports(first..=last)) } else { Err(format!("{first} is after {last}")) }
}

/// Reads `--addr`.
///
/// # Errors
///
/// What to give instead.
pub fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| match text.split_once('/') {
        Some((address, _)) if address.parse::<IpAddr>().is_ok() => {
            "a network cannot be picked: give its addresses, as 10.0.0.1,10.0.0.2, or --port".to_owned()
        }
        _ if text.chars().any(|it| it.is_ascii_alphabetic()) && !text.contains(':') => format!(
            "a name cannot be picked: give the addresses that `getent ahosts {text}` prints, as 127.0.0.1 or ::1"
        ),
        _ => "give an IPv4 or IPv6 address, as 127.0.0.1 or ::1".to_owned(),
    })
}

/// Reads `--pid`.
///
/// # Errors
///
/// What to give instead.
pub fn process(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "a process has a number, as in /proc; --comm takes a name".to_owned())
}

impl PickArgs {
    /// Whether one of them is given.
    pub fn is_any(&self) -> bool {
        let Self { port, addr, pid, comm, cgroup, named, in_band, so_log } = self;
        !(port.is_empty() && addr.is_empty() && pid.is_empty())
            || comm.is_some()
            || cgroup.is_some()
            || named.is_some()
            || *in_band
            || so_log.is_some()
    }

    /// Refuses a process that is not there, before anything else is done.
    ///
    /// # Errors
    ///
    /// With its number.
    pub fn check(&self, has_command: bool) -> Result<(), Failure> {
        let is_there = |pid: &u32| Path::new("/proc").join(pid.to_string()).exists();
        if let Some(pid) = self.pid.iter().find(|pid| !is_there(pid)) {
            return Err(Failure::new(format!("--pid {pid}: no such process")));
        }
        if let Some(comm) = &self.comm
            && !has_command
            && !machine::has_process(comm)
        {
            stderr!(
                "sockscope: no process is called {comm} now; one that starts later is recorded"
            );
        }
        Ok(())
    }

    /// The pick that the options describe; `group` is that of a command to start.
    ///
    /// # Errors
    ///
    /// When the control group is not there, or nothing would be recorded.
    pub fn find(&self, group: Option<&Cgroup>) -> Result<Pick, Failure> {
        let cgroup = match (group, &self.cgroup, &self.named) {
            (Some(_), Some(_), _) => {
                return Err(Failure::new("--cgroup and a command exclude each other; give one"));
            }
            (Some(_), _, Some(_)) => {
                return Err(Failure::new("--pick and a command exclude each other; give one"));
            }
            (Some(group), None, None) => Some(group.id()),
            (None, Some(path), _) => Some(existing_group(path)?),
            (None, None, Some(named)) => Some(named.find(&ControlGroups::of_machine().folders())?),
            (None, None, None) => None,
        };
        let mut pick = Pick {
            cgroup,
            ports: self.port.iter().flat_map(Ports::each).collect(),
            addresses: self.addr.clone(),
            pids: self.pid.clone(),
            comm: self.comm.clone(),
            in_band: self.in_band,
            so_log: SoLog::All,
            owner: own_user(),
        };
        pick.so_log = so_log(self.so_log, &pick, group.is_some());
        if pick.so_log == SoLog::Off && !pick.picks_any() && !pick.in_band {
            return Err(Failure::new(
                "--so-log off with nothing picked records nothing: pick a port",
            ));
        }
        Ok(pick)
    }
}

/// The picked sockets in words, for the trace.
pub fn describe(pick: &Pick, has_command: bool) -> String {
    let list = |name: &str, values: Vec<String>| {
        (!values.is_empty()).then(|| format!("{name} {}", values.join(" or ")))
    };
    let parts: Vec<String> = [
        has_command.then(|| "the command and its peers".to_owned()),
        (pick.cgroup.is_some() && !has_command).then(|| "sockets of a control group".to_owned()),
        list("port", pick.ports.iter().map(u16::to_string).collect()),
        list("address", pick.addresses.iter().map(ToString::to_string).collect()),
        list("process", pick.pids.iter().map(u32::to_string).collect()),
        pick.comm.as_ref().map(|comm| format!("processes named {comm}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let marked = if pick.in_band { "; connections whose SYN is marked" } else { "" };
    let asking = match pick.so_log {
        SoLog::All => Some("sockets that set SO_LOG"),
        SoLog::Own(_) => Some("own sockets that set SO_LOG"),
        SoLog::Off => None,
    };
    let picked = (!parts.is_empty()).then(|| parts.join(" and "));
    let ways: Vec<&str> = picked.as_deref().into_iter().chain(asking).collect();
    format!("{}{marked}", ways.join("; ")).trim_start_matches("; ").to_owned()
}

/// Whose sockets may ask to be logged: with nothing else to log, everybody's. A command's are all logged, and
/// a recording of it is of nothing else.
fn so_log(asked: Option<SoLogArg>, pick: &Pick, has_command: bool) -> SoLog {
    let is_only_filter = !pick.picks_any() && !pick.in_band;
    match asked {
        Some(SoLogArg::Off) => SoLog::Off,
        Some(SoLogArg::All) => SoLog::All,
        None if has_command => SoLog::Off,
        None if is_only_filter => SoLog::All,
        Some(SoLogArg::Own) | None => SoLog::Own(own_user()),
    }
}

/// The user who records, or who called sudo.
pub fn own_user() -> u32 {
    let user = rustix::process::getuid();
    let caller = sudo_caller().and_then(|user| user.parse().ok());
    if user.is_root() { caller.unwrap_or(0) } else { user.as_raw() }
}

/// The number of the user who called sudo.
pub fn sudo_caller() -> Option<String> {
    std::env::var("SUDO_UID").ok()
}

/// Inode number and depth of a control group that somebody else made.
fn existing_group(path: &PathBuf) -> Result<(u64, u32), Failure> {
    let root = Cgroup::hierarchy()?;
    let full = fs::canonicalize(path)
        .map_err(|error| Failure::file("cannot use --cgroup", path, &error))?;
    let Ok(below) = full.strip_prefix(&root) else {
        return Err(Failure::new(format!(
            "--cgroup {}: not below the cgroup2 file system at {}",
            path.display(),
            root.display()
        )));
    };
    let inode =
        fs::metadata(&full).map_err(|error| Failure::file("cannot read", &full, &error))?.ino();
    Ok((inode, u32::try_from(below.components().count()).unwrap_or(u32::MAX)))
}
