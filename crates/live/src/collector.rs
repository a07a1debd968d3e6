//! Takes the records of a recorder straight into an analysis.

use sockscope_analysis::Analyzer;
use sockscope_probe::Sink;
use sockscope_record::{Connection, Record};

/// An analysis that a recorder fills.
pub(crate) struct Collector(pub(crate) Analyzer);

impl Sink for Collector {
    fn records(&mut self, records: &[Record]) -> Result<(), String> {
        self.0.push(records);
        Ok(())
    }

    fn connection(&mut self, connection: &Connection) -> Result<(), String> {
        self.0.connection(connection.clone());
        Ok(())
    }
}
