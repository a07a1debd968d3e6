//! Where decoded records go.

use sockscope_record::{Connection, ConnectionId, Record};

/// Where decoded records go.
pub trait Sink {
    /// Records, nearly in time order.
    ///
    /// # Errors
    /// When they cannot be kept; the recording then ends.
    fn records(&mut self, records: &[Record]) -> Result<(), String>;

    /// A connection with new information.
    ///
    /// # Errors
    /// As for records.
    fn connection(&mut self, connection: &Connection) -> Result<(), String>;

    /// Another user than root and the owner asked for this connection by `SO_LOG`, in addition to another
    /// pick. Called before anything else about it.
    fn of_others(&mut self, _connection: ConnectionId) {}

    /// Everything about this connection was handed over: neither a record nor anything new follows.
    /// Connections that are open when the recording ends do not have it.
    fn complete(&mut self, _connection: ConnectionId) {}
}
