//! Socket options set from outside, for `sockscope try`.
//!
//! [`Force`] loads the program of `bpf/force.bpf.c` and attaches it to the root control group. The program changes
//! the sockets of the command and, where asked, the other ends of their connections on this host. Its link belongs
//! to this process: the kernel detaches it when the process ends, however it ends. A changed socket keeps its
//! options until it is closed.

mod fix;
mod sockets_of;

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use libbpf_rs::{Link, MapCore, MapFlags, Object};

use crate::cgroup::Cgroup;
use crate::error::Error;
use crate::layout::force_skeleton::types;
use crate::layout::plain;
use crate::object::{is_section, map, one_line, open_force, program};

pub use fix::{Fix, FixKind};
use sockets_of::{Listening, words};

/// Which ends of a connection a fix changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sides {
    /// The end that connects.
    Client,
    /// The end that accepts.
    Server,
    /// Both ends.
    #[default]
    Both,
}

/// Whose sockets a fix changes.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The command's control group: its inode number and depth.
    pub group: Option<(u64, u32)>,
    /// Only connections with one of these ports at either end; all where empty.
    pub ports: Vec<u16>,
    /// Only connections with one of these addresses at either end; all where empty.
    pub addresses: Vec<IpAddr>,
    /// Also connections that these processes open, or that their listening sockets accept.
    pub pids: Vec<u32>,
    /// Which ends.
    pub sides: Sides,
}

/// How often a fix was accepted and refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Sockets on which it was tried.
    pub attempts: u64,
    /// Sockets that have it.
    pub accepted: u64,
    /// Sockets on which the kernel refused it.
    pub refused: u64,
    /// The kernel's reason for the last refusal (errno(3)); 0 where none was refused.
    pub errno: u32,
    /// The value that the last changed socket has, where the kernel says it.
    pub granted: Option<u32>,
}

impl Outcome {
    /// The errors of several runs together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            attempts: self.attempts + other.attempts,
            accepted: self.accepted + other.accepted,
            refused: self.refused + other.refused,
            errno: if other.errno == 0 { self.errno } else { other.errno },
            granted: other.granted.or(self.granted),
        }
    }

    /// The kernel's reason for the last refusal, as `EINVAL: Invalid argument`.
    pub fn reason(&self) -> String {
        let error = io::Error::from_raw_os_error(self.errno.cast_signed()).to_string();
        let words = error.split(" (os error").next().unwrap_or_default();
        match self.errno.cast_signed() {
            libc::EINVAL => format!("EINVAL: {words}"),
            libc::EPERM => format!("EPERM: {words}"),
            libc::ENOENT => format!("ENOENT: {words}"),
            libc::ENOPROTOOPT => format!("ENOPROTOOPT: {words}"),
            libc::EBUSY => format!("EBUSY: {words}"),
            errno => format!("errno {errno}: {words}"),
        }
    }
}

/// A changed socket that is not the command's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForcedPeer {
    /// Port of the connection's client.
    pub client_port: u16,
    /// Port of its server.
    pub server_port: u16,
    /// Whether the changed end is the server.
    pub is_server: bool,
}

/// Fixes in effect for new connections. Dropping it ends that.
#[derive(Debug)]
pub struct Force {
    object: Object,
    _link: Link,
    fixes: usize,
}

impl Force {
    /// Most fixes at once.
    pub const FIXES_MAX: usize = length(|all| &all.fixes);

    /// From its return on, connections in `scope` open with `fixes`.
    ///
    /// # Errors
    /// When the kernel refuses the program, or more is asked for than it has places.
    pub fn attach(fixes: &[Fix], scope: &Scope) -> Result<Self, Error> {
        let listening: Vec<Listening> =
            scope.pids.iter().flat_map(|pid| sockets_of::listening(*pid)).collect();
        Self::attach_to(fixes, scope, &listening)
    }

    fn attach_to(fixes: &[Fix], scope: &Scope, listening: &[Listening]) -> Result<Self, Error> {
        let mut open = open_force()?;
        for mut map in open.maps_mut() {
            if is_section(map.name(), ".rodata") {
                write_settings(map.initial_value_mut().unwrap_or_default(), fixes, scope)?;
            }
        }
        let object = open.load().map_err(|error| refused(&error))?;
        let listeners = map(&object, "listeners")?;
        for one in listening {
            let added = listeners.update(&one.key(), &[OF_PROCESS], MapFlags::ANY);
            added.map_err(|error| refused(&error))?;
        }
        let root = Cgroup::hierarchy()?;
        let folder = File::open(&root).map_err(|source| Error::File {
            what: "cannot open",
            path: root,
            source,
        })?;
        let link = {
            let program = program(&object, "force")
                .ok_or_else(|| Error::Load("the object has no program".to_owned()))?;
            program.attach_cgroup(folder.as_raw_fd()).map_err(|error| Error::Attach {
                hook: "sockops on the root control group",
                reason: one_line(&error),
            })?
        };
        Ok(Self { object, _link: link, fixes: fixes.len() })
    }

    /// The outcome of each fix so far, in the order of [`Force::attach`].
    ///
    /// # Errors
    /// When the kernel does not show the counters.
    pub fn outcomes(&self) -> Result<Vec<Outcome>, Error> {
        let all = self.counters()?;
        let outcome = |raw: &types::outcome| Outcome {
            attempts: raw.attempts,
            accepted: raw.accepted,
            refused: raw.refused,
            errno: raw.last_errno,
            granted: (raw.granted != 0).then_some(raw.granted),
        };
        Ok(all.outcomes.iter().take(self.fixes).map(outcome).collect())
    }

    /// Changed sockets: the command's, those of its peers, and those of [`Scope::pids`].
    ///
    /// # Errors
    /// When the kernel does not show the counters.
    pub fn sockets(&self) -> Result<[u32; 3], Error> {
        let all = self.counters()?;
        Ok([all.of_command, all.peer_count, all.of_process])
    }

    /// Connections of the command whose other end was not looked for, for lack of a place in the table.
    ///
    /// # Errors
    /// When the kernel does not show the counters.
    pub fn unlisted(&self) -> Result<u32, Error> {
        Ok(self.counters()?.unlisted_peers)
    }

    /// The first changed sockets of peers.
    ///
    /// # Errors
    /// When the kernel does not show the counters.
    pub fn peers(&self) -> Result<Vec<ForcedPeer>, Error> {
        let all = self.counters()?;
        let peer = |raw: &types::peer| ForcedPeer {
            client_port: raw.client_port,
            server_port: raw.server_port,
            is_server: raw.side == SIDE_SERVER,
        };
        Ok(all.peers.iter().take(all.peer_count as usize).map(peer).collect())
    }

    fn counters(&self) -> Result<types::bss, Error> {
        let unread = |reason: &str| Error::Uncounted { reason: reason.to_owned() };
        let found = self.object.maps().find(|map| is_section(map.name(), ".bss"));
        let found = found.ok_or_else(|| unread("the object has none"))?;
        let section = found.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let section = section.map_err(|error| unread(&one_line(&error)))?;
        let mut section = section.ok_or_else(|| unread("the map is empty"))?;
        section.resize(section.len().max(size_of::<types::bss>()), 0);
        plain(&section).ok_or_else(|| unread("the map is too short"))
    }
}

/// As in `bpf/force.bpf.c`.
const SIDE_CLIENT: u32 = 1;
const SIDE_SERVER: u32 = 2;
const OF_PROCESS: u8 = 2;

/// Entries of an array of the settings.
const fn length<T, const N: usize>(_: fn(&types::settings) -> &[T; N]) -> usize {
    N
}

fn refused(error: &libbpf_rs::Error) -> Error {
    Error::Load(format!("the program that sets socket options: {}", one_line(error)))
}

fn write_settings(bytes: &mut [u8], fixes: &[Fix], scope: &Scope) -> Result<(), Error> {
    if bytes.len() < size_of::<types::settings>() {
        return Err(Error::Load("the object has no room for settings".to_owned()));
    }
    let settings = bytes.as_mut_ptr().cast::<types::settings>();
    // SAFETY: at least as many bytes as the layout has, which is plain integers for which every
    // bit pattern is valid. They are read and written unaligned, and nothing else points to them.
    let mut fresh = unsafe { settings.read_unaligned() };
    let raw = fixes.iter().map(raw_fix);
    fresh.fix_count = filled(&mut fresh.fixes, raw, "fixes")?;
    fresh.ports = filled(&mut fresh.port, scope.ports.iter().copied(), "ports")?;
    let addresses = scope.addresses.iter().map(|address| words(*address));
    fresh.addresses = filled(&mut fresh.address, addresses, "addresses")?;
    fresh.pids = filled(&mut fresh.pid, scope.pids.iter().copied(), "processes")?;
    if let Some((id, level)) = scope.group {
        (fresh.has_group, fresh.group_id, fresh.group_level) = (1, id, level);
    }
    fresh.sides = match scope.sides {
        Sides::Client => SIDE_CLIENT,
        Sides::Server => SIDE_SERVER,
        Sides::Both => SIDE_CLIENT | SIDE_SERVER,
    };
    // SAFETY: as above.
    unsafe { settings.write_unaligned(fresh) };
    Ok(())
}

fn filled<T>(
    room: &mut [T],
    values: impl ExactSizeIterator<Item = T>,
    what: &str,
) -> Result<u32, Error> {
    let count = values.len();
    if count > room.len() {
        return Err(Error::Pick(format!("{count} {what}, at most {} fit", room.len())));
    }
    for (to, from) in room.iter_mut().zip(values) {
        *to = from;
    }
    Ok(count as u32)
}

fn raw_fix(fix: &Fix) -> types::fix {
    let (level, option) = fix.kind.option();
    let mut raw = types::fix {
        level,
        option,
        value: fix.value,
        is_early: u32::from(fix.kind.is_early()),
        has_name: u32::from(!fix.name.is_empty()),
        name: [0; 16],
    };
    for (to, from) in raw.name.iter_mut().zip(fix.name.bytes().take(15)) {
        *to = from.cast_signed();
    }
    raw
}

/// Sets each fix with a usual value on one socket of this process, and returns the answers of the kernel.
///
/// # Errors
/// When the program cannot be loaded, or the connection of its own cannot be made.
pub fn supported_fixes() -> Result<Vec<(Fix, Outcome)>, Error> {
    let parsed = FixKind::ALL.map(|kind| match kind.example() {
        "" => kind.name().parse(),
        example => format!("{}={example}", kind.name()).parse::<Fix>(),
    });
    let fixes: Vec<Fix> = parsed.into_iter().flatten().collect();
    let no_traffic =
        |source| Error::File { what: "cannot make traffic on", path: "loopback".into(), source };
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(no_traffic)?;
    let at = listener.local_addr().map_err(no_traffic)?;
    let own = Listening::here(at);
    let scope = Scope { sides: Sides::Server, ..Scope::default() };
    let force = Force::attach_to(&fixes, &scope, &own.into_iter().collect::<Vec<_>>())?;
    let accepted = connected(&listener, at).map_err(no_traffic);
    let outcomes = force.outcomes()?;
    accepted?;
    Ok(fixes.into_iter().zip(outcomes).collect())
}

fn connected(listener: &TcpListener, at: SocketAddr) -> io::Result<()> {
    let _client = TcpStream::connect(at)?;
    listener.accept()?;
    Ok(())
}

#[cfg(test)]
mod tests;
