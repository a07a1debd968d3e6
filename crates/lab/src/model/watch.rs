//! The part of a run's records that is kept.

use sockscope_record::{Kind, Record, marks, tcp_flags};
use sockscope_sim::{Activity, Everything, RecordSink};

/// Counts packets and keeps those that a wire trace shows.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Whether anything is.
    pub is_wanted: bool,
    /// Whether `records` is kept.
    pub keeps_rows: bool,
    /// Segments with data.
    pub segments: u64,
    /// Segments without data, SYN, FIN and RST aside.
    pub acks: u64,
    /// Segments sent again.
    pub again: u64,
    /// Bytes of data that entered an IP input queue.
    pub arrived_bytes: u64,
    /// When the last of them did.
    pub last_arrival_ns: u64,
    /// The records of a wire trace.
    pub records: Vec<Record>,
    /// Every record, where it is wanted.
    pub all: Option<Everything>,
}

impl RecordSink for Watch {
    fn record(&mut self, record: &Record) {
        if record.kind == Kind::InterfaceEnqueue {
            const NUMBERED: u8 = tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST;
            let is_ack = record.len == 0 && record.tcp_flags & NUMBERED == 0;
            self.segments += u64::from(record.len > 0);
            self.acks += u64::from(is_ack);
            self.again += u64::from(record.is_marked(marks::RETRANSMITTED));
        }
        if record.kind == Kind::InputEnqueue && record.len > 0 {
            self.arrived_bytes += u64::from(record.len);
            self.last_arrival_ns = record.at_ns;
        }
        // A packet is a line; the announcement of its SYN precedes it, in a record of its own.
        if self.keeps_rows && matches!(record.kind, Kind::InputEnqueue | Kind::SynOptions) {
            self.records.push(*record);
        }
        if let Some(all) = &mut self.all {
            all.record(record);
        }
    }

    fn activity(&mut self, activity: Activity) {
        if let Some(all) = &mut self.all {
            all.activity(activity);
        }
    }

    fn is_wanted(&self) -> bool {
        self.is_wanted
    }
}
