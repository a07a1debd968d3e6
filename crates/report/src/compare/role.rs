//! The role of a connection: its properties that stay the same from run to run.

use std::collections::BTreeSet;

use sockscope_record::{Connection, Protocol, Side};

/// Ports that Linux gives to sockets that ask for none (`ip_local_port_range`, ip(7)): another one in each run.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;

/// Who talks with whom. Roles are in the order of this type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Role {
    pub(crate) protocol: Protocol,
    /// Names of the client's processes, joined by `+`; empty where none was seen.
    pub(crate) client: String,
    /// Those of the server's.
    pub(crate) server: String,
    /// `None` for a port of the ephemeral range, and for a Unix socket.
    pub(crate) server_port: Option<u16>,
}

impl Role {
    pub(crate) fn of(connection: &Connection) -> Self {
        let (port, has_port) = (connection.server.port(), !connection.protocol.is_unix());
        Self {
            protocol: connection.protocol,
            client: names(connection, Side::Client),
            server: names(connection, Side::Server),
            server_port: (has_port && !EPHEMERAL.contains(&port)).then_some(port),
        }
    }
}

fn names(connection: &Connection, side: Side) -> String {
    let here = connection.processes.iter().filter(|process| process.side == side);
    let names: BTreeSet<String> = here.map(|process| without_number(&process.comm)).collect();
    names.into_iter().collect::<Vec<_>>().join("+")
}

/// The name of a thread without its number in a pool: `worker-3` and `worker-12` are both `worker-*`.
fn without_number(name: &str) -> String {
    let stem = name.trim_end_matches(|it: char| it.is_ascii_digit());
    let is_numbered = stem.len() < name.len() && stem.ends_with(['-', '_', '/', ':', '#', ' ']);
    if is_numbered { format!("{stem}*") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use sockscope_record::{ConnectionId, Process, UnixName};

    use super::*;

    fn role(port: u16, processes: &[(Side, &str)]) -> Role {
        let ends = [([127, 0, 0, 1], 40_000).into(), ([127, 0, 0, 1], port).into()];
        let mut connection = Connection::new(ConnectionId(1), Protocol::Tcp, ends, 0);
        let process = |&(side, comm): &(Side, &str)| Process::new(1, comm, side);
        connection.processes = processes.iter().map(process).collect();
        Role::of(&connection)
    }

    #[test]
    fn a_port_that_the_kernel_chose_is_no_part_of_a_role() {
        assert_eq!(
            [80, 32_767, 61_000].map(|it| role(it, &[]).server_port),
            [80, 32_767, 61_000].map(Some)
        );
        assert_eq!([32_768, 60_999].map(|it| role(it, &[]).server_port), [None, None]);
    }

    #[test]
    fn a_unix_socket_has_no_port() {
        let ends = ["unix:7", "/run/a.sock"].map(UnixName::new);
        let connection = Connection::of_unix(ConnectionId(1), Protocol::Unix, ends, 0);
        assert_eq!(Role::of(&connection).server_port, None);
    }

    #[test]
    fn threads_of_a_pool_have_one_role() {
        let served_by = |comm| role(80, &[(Side::Client, "curl"), (Side::Server, comm)]);
        assert_eq!(served_by("worker-3"), served_by("worker-12"));
        assert_eq!(served_by("worker-3").server, "worker-*");
        assert_ne!(served_by("python3"), served_by("python2"));
    }

    #[test]
    fn the_order_in_which_processes_were_seen_does_not_matter() {
        let (parent, child) = ((Side::Server, "nginx"), (Side::Server, "cgi"));
        assert_eq!(role(80, &[parent, child]), role(80, &[child, parent]));
        assert_eq!(role(80, &[parent, child, parent]).server, "cgi+nginx");
    }
}
