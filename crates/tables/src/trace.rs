//! An analysed trace, which the tables have in common.

use sockscope_analysis::{Analysis, ConnectionAnalysis, ConnectionStore, FlowCurves, Stores};
use sockscope_record::{ConnectionId, Direction, FlowId, Point, Side};

use crate::{Error, WallClock};

/// The analysis of a trace, with its records.
#[derive(Debug)]
pub(crate) struct Trace {
    pub analysis: Analysis,
    pub stores: Stores,
    pub clock: WallClock,
}

/// One flow of a trace.
#[derive(Clone, Copy)]
pub(crate) struct Flow<'a> {
    pub id: FlowId,
    pub store: &'a ConnectionStore,
}

impl Trace {
    /// The connections with their places, and each flow of them: first that from the client.
    pub fn flow_at(&self, part: usize) -> Option<(&ConnectionAnalysis, Direction)> {
        let direction =
            if part.is_multiple_of(2) { Direction::FromClient } else { Direction::FromServer };
        Some((self.analysis.connections.get(part / 2)?, direction))
    }

    /// The records of a connection; `None` where it has none.
    pub fn store(&self, id: ConnectionId) -> Option<&ConnectionStore> {
        let all = &self.stores.connections;
        Some(&all[all.binary_search_by_key(&id, |store| store.connection.id).ok()?])
    }

    /// The flow with this number.
    pub fn flow(&self, id: FlowId) -> Result<Flow<'_>, Error> {
        let known = self.analysis.connection(id.connection()).and(self.store(id.connection()));
        let store = known.ok_or_else(|| self.no_flow(id))?;
        Ok(Flow { id, store })
    }

    /// Number of the host of one end; `None` in a trace of one host, and where no process shows it.
    pub fn host_of(&self, id: ConnectionId, side: Side) -> Option<u64> {
        self.analysis.connection(id)?.connection.host(side).map(u64::from)
    }

    /// The same of a point of a flow: the first four are of the sender's host.
    pub fn host(&self, flow: FlowId, point: Point) -> Option<u64> {
        let sender = flow.direction().sender();
        let side = if point <= Point::InterfaceDequeue { sender } else { sender.other() };
        self.host_of(flow.connection(), side)
    }

    fn no_flow(&self, flow: FlowId) -> Error {
        let all = &self.analysis.connections;
        let first = all.first().map(|one| one.connection.id.flow(Direction::FromClient));
        let last = all.last().map(|one| one.connection.id.flow(Direction::FromServer));
        Error::NoFlow { flow, flows: first.zip(last) }
    }
}

impl Flow<'_> {
    pub fn direction(&self) -> Direction {
        self.id.direction()
    }

    /// When its bytes passed each point.
    pub fn curves(&self, trace: &Trace) -> FlowCurves {
        let losses = trace.stores.losses_of(self.id.connection());
        FlowCurves::new(self.store, self.direction(), &losses, &trace.stores.drop_reasons)
    }
}
