//! Connections of a file, as JSON in its metadata.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sockscope_record::{
    Connection, ConnectionId, Container, ControlGroup, Pod, Process, Protocol, Side, UnixName,
    unix_ends,
};

/// Key of the connections in the metadata of a file.
pub(crate) const CONNECTIONS: &str = "sockscope.connections";

/// A connection of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Described {
    id: u32,
    protocol: String,
    client: SocketAddr,
    server: SocketAddr,
    opened_ns: u64,
    closed_ns: Option<u64>,
    preexisting: bool,
    both_ends_here: bool,
    /// The end on the host; `None` where no record shows it, or both are there.
    here: Option<String>,
    processes: Vec<(String, u32, String)>,
    /// The control groups of the processes, in their order; empty where none is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<Option<Group>>,
    /// Names of Unix sockets, the client's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    names: Option<[String; 2]>,
}

/// A control group, with the names of the columns of tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    cgroup: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    container_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    container: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod_uid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
}

impl Group {
    fn of(group: &ControlGroup) -> Self {
        let ControlGroup { path, unit, container, pod } = group;
        Self {
            cgroup: path.clone(),
            unit: unit.clone(),
            container_id: container.as_ref().map(|it| it.id.clone()),
            container: container.as_ref().and_then(|it| it.name.clone()),
            pod_uid: pod.as_ref().map(|it| it.uid.clone()),
            namespace: pod.as_ref().and_then(|it| it.namespace.clone()),
            pod: pod.as_ref().and_then(|it| it.name.clone()),
        }
    }

    fn control_group(self) -> ControlGroup {
        let Self { cgroup, unit, container_id, container, pod_uid, namespace, pod } = self;
        ControlGroup {
            path: cgroup,
            unit,
            container: container_id.map(|id| Container { id, name: container }),
            pod: pod_uid.map(|uid| Pod { uid, namespace, name: pod }),
        }
    }
}

impl Described {
    pub(crate) fn of(connection: &Connection, here: Option<Side>) -> Self {
        let process = |it: &Process| (it.side.name().to_owned(), it.pid, it.comm.clone());
        let groups = connection.processes.iter().map(|it| it.group.as_deref().map(Group::of));
        let groups: Vec<_> = groups.collect();
        let has_groups = groups.iter().any(Option::is_some);
        Self {
            id: connection.id.0,
            protocol: connection.protocol.name().to_owned(),
            client: connection.client,
            server: connection.server,
            opened_ns: connection.opened_ns,
            closed_ns: connection.closed_ns,
            preexisting: connection.preexisting,
            both_ends_here: connection.both_ends_here,
            here: here.map(|side| side.name().to_owned()),
            processes: connection.processes.iter().map(process).collect(),
            groups: if has_groups { groups } else { Vec::new() },
            names: connection
                .names
                .as_ref()
                .map(|_| [Side::Client, Side::Server].map(|side| connection.end(side).to_string())),
        }
    }

    pub(crate) fn connection(self) -> (Connection, Option<Side>) {
        let mut known = Protocol::ALL.into_iter();
        let protocol = known.find(|it| it.name() == self.protocol).unwrap_or_default();
        let ([client, server], names) = match self.names {
            Some(names) => unix_ends(names.map(|name| UnixName::new(&name))),
            None => ([self.client, self.server], None),
        };
        let groups = self.groups.into_iter().map(|it| it.map(Group::control_group).map(Arc::new));
        let groups = groups.chain(std::iter::repeat(None));
        let process = |((at, pid, comm), group): ((String, u32, String), _)| {
            let side = side(&at).unwrap_or(Side::Client);
            Process { group, ..Process::new(pid, comm, side) }
        };
        let connection = Connection {
            id: ConnectionId(self.id),
            protocol,
            client,
            server,
            opened_ns: self.opened_ns,
            closed_ns: self.closed_ns,
            preexisting: self.preexisting,
            both_ends_here: self.both_ends_here,
            processes: self.processes.into_iter().zip(groups).map(process).collect(),
            names,
            mark: None,
            elsewhere: None,
        };
        (connection, self.here.as_deref().and_then(side))
    }
}

fn side(word: &str) -> Option<Side> {
    [Side::Client, Side::Server].into_iter().find(|side| side.name() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_the_same_after_its_description_and_an_earlier_one_has_no_groups() {
        let ends = ["10.0.0.1:40000", "10.0.0.2:80"].map(|end| end.parse().unwrap());
        let mut connection = Connection::new(ConnectionId(3), Protocol::Tcp, ends, 7);
        let container = Container { id: "4f".repeat(32), name: Some("nginx".to_owned()) };
        let uid = "0d6d1a2c-97ab-4b0d-b2f6-6f1c8a8d9e10".to_owned();
        let pod = Pod { uid, namespace: Some("shop".to_owned()), name: Some("web-0".to_owned()) };
        let in_pod = ControlGroup {
            path: "/kubepods/web".to_owned(),
            unit: None,
            container: Some(container),
            pod: Some(pod),
        };
        let unit = ControlGroup::of_path("/system.slice/postgresql.service");
        connection.processes =
            [(Side::Client, None), (Side::Client, Some(in_pod)), (Side::Server, Some(unit))]
                .into_iter()
                .map(|(side, group)| Process {
                    group: group.map(Arc::new),
                    ..Process::new(1, "x", side)
                })
                .collect();
        let text = serde_json::to_string(&Described::of(&connection, None)).unwrap();
        let read: Described = serde_json::from_str(&text).unwrap();
        assert_eq!(read.connection(), (connection.clone(), None));
        let begin = text.find(",\"groups\"").expect("the last field");
        let read: Described = serde_json::from_str(&format!("{}}}", &text[..begin])).unwrap();
        connection.processes.iter_mut().for_each(|process| process.group = None);
        assert_eq!(read.connection(), (connection, None));
    }

    #[test]
    fn a_connection_of_unix_sockets_keeps_its_protocol_and_names() {
        let ends = ["unix:7", "/run/a.sock"].map(UnixName::new);
        let connection = Connection::of_unix(ConnectionId(3), Protocol::Unix, ends, 7);
        let text = serde_json::to_string(&Described::of(&connection, None)).unwrap();
        let read: Described = serde_json::from_str(&text).unwrap();
        assert_eq!(read.connection(), (connection, None));
    }
}
