//! Datagrams that arrived at their host and that no socket took there.

use std::cmp::Reverse;
use std::net::SocketAddr;

use sockscope_analysis::ConnectionAnalysis;
use sockscope_record::{Protocol, Side};
use sockscope_render::number::counted;

use crate::Report;

/// All of them, and the flow that has most.
pub(super) struct Refused<'a> {
    pub(super) connection: &'a ConnectionAnalysis,
    sender: Side,
    here: u64,
    all: u64,
    connections: usize,
}

impl<'a> Refused<'a> {
    pub(super) fn of(report: &Report<'a>) -> Option<Self> {
        let refused = |connection: &'a ConnectionAnalysis| {
            let flows = report.flows(connection);
            flows.map(move |flow| (flow.datagrams_refused, flow.id, connection))
        };
        let is_udp = |it: &&ConnectionAnalysis| it.connection.protocol == Protocol::Udp;
        let connections = || report.connections().filter(is_udp);
        let flows = || connections().flat_map(refused).filter(|(count, ..)| *count > 0);
        let (here, id, connection) = flows().max_by_key(|&(count, id, _)| (count, Reverse(id)))?;
        let has_some = |it: &&ConnectionAnalysis| refused_of(report, it) > 0;
        Some(Self {
            connection,
            sender: id.direction().sender(),
            here,
            all: flows().map(|(count, ..)| count).fold(0, u64::saturating_add),
            connections: connections().filter(has_some).count(),
        })
    }

    /// The address to which they were sent.
    fn address(&self) -> SocketAddr {
        let connection = &self.connection.connection;
        match self.sender {
            Side::Client => connection.server,
            Side::Server => connection.client,
        }
    }

    pub(super) fn words(&self) -> String {
        let (id, address, sender) =
            (self.connection.connection.id.0, self.address(), self.sender.name());
        let datagrams = counted(self.here, "datagram");
        let them = if self.here == 1 { "it" } else { "them" };
        let more = match self.connections {
            1 => String::new(),
            more => format!(
                "; of {} connections together {}",
                sockscope_render::number::count(more as u64),
                counted(self.all, "datagram")
            ),
        };
        format!(
            "{datagrams} of the {sender} came to {address} and no socket took {them}, on connection {id}: nobody \
             listens there, or a filter dropped {them}{more}."
        )
    }

    pub(super) fn fix(&self) -> String {
        let address = self.address();
        format!(
            "On the host of {address}: start the program that listens there (ss -lun), or look for a packet filter \
             (nft list ruleset). Else correct the address at the sender."
        )
    }
}

fn refused_of(report: &Report<'_>, connection: &ConnectionAnalysis) -> u64 {
    let wanted = report.options.flow;
    let flows = connection.flows.iter().filter(|flow| wanted.is_none_or(|id| flow.id == id));
    flows.map(|flow| flow.datagrams_refused).fold(0, u64::saturating_add)
}
