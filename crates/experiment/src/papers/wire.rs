//! Packets of a printed wire trace, and of the model's, in one form.
//!
//! Sequence numbers are relative as the papers print them: the SYN is 1, the first octet of data is
//! 1 too, and `sequence_end` is the number after the last octet.

use std::fmt;
use std::str::FromStr;

use super::Table;
use crate::error::Result;

/// A packet as a line of a trace shows it. `None` is what the line does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireRow {
    /// When, in nanoseconds from the trace's own start of time.
    pub at_ns: u64,
    /// Sending host and port, as `camus.1043`.
    pub source: String,
    /// Receiving host and port.
    pub destination: String,
    /// What kind of packet.
    pub flags: WireFlags,
    /// First and one after last sequence number.
    pub sequence: Option<(u64, u64)>,
    /// Octets of data.
    pub bytes: u64,
    /// Number acknowledged.
    pub ack: Option<u64>,
    /// Window offered.
    pub window: Option<u64>,
    /// Largest segment announced.
    pub mss: Option<u64>,
}

/// TCP flags that a trace prints, or none of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireFlags {
    /// A UDP datagram.
    Udp,
    /// A TCP segment.
    Tcp {
        /// Connection request or its answer.
        syn: bool,
        /// No more data.
        fin: bool,
        /// Push.
        push: bool,
    },
}

impl FromStr for WireFlags {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        if text == "udp" {
            return Ok(Self::Udp);
        }
        if text.is_empty() || !text.chars().all(|char| "SFP.".contains(char)) {
            return Err(());
        }
        let has = |char| text.contains(char);
        Ok(Self::Tcp { syn: has('S'), fin: has('F'), push: has('P') })
    }
}

impl fmt::Display for WireFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp => f.write_str("udp"),
            Self::Tcp { syn: false, fin: false, push: false } => f.write_str("."),
            Self::Tcp { syn, fin, push } => {
                let letters = [(*syn, 'S'), (*fin, 'F'), (*push, 'P')];
                f.write_str(
                    &letters.iter().filter(|(is, _)| *is).map(|(_, it)| it).collect::<String>(),
                )
            }
        }
    }
}

impl WireRow {
    /// Whether it is a TCP segment with data.
    pub fn is_data(&self) -> bool {
        self.bytes > 0 && self.flags != WireFlags::Udp
    }

    /// The rows of a table.
    pub(super) fn rows(table: &Table) -> Result<Vec<Self>> {
        (0..table.rows().len()).map(|row| Self::row(table, row)).collect()
    }

    fn row(table: &Table, row: usize) -> Result<Self> {
        let number = |column| table.optional::<u64>(row, column);
        let text = |column| table.optional::<String>(row, column).map(Option::unwrap_or_default);
        let time_s: Option<f64> = table.optional(row, "time_s")?;
        let no_flags = WireFlags::Tcp { syn: false, fin: false, push: false };
        Ok(Self {
            at_ns: (time_s.unwrap_or(0.0) * 1e9).round() as u64,
            source: text("source")?,
            destination: text("destination")?,
            flags: table.optional(row, "flags")?.unwrap_or(no_flags),
            sequence: number("sequence_first")?.zip(number("sequence_end")?),
            bytes: number("bytes")?.unwrap_or(0),
            ack: number("ack")?,
            window: number("window")?,
            mss: number("mss")?,
        })
    }
}

/// A line as tcpdump printed it when the papers were written.
impl fmt::Display for WireRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_us = self.at_ns / 1000;
        write!(f, "{}.{:06} ", at_us / 1_000_000, at_us % 1_000_000)?;
        write!(f, "{} > {}: {}", self.source, self.destination, self.flags)?;
        if self.flags == WireFlags::Udp {
            return write!(f, " {}", self.bytes);
        }
        if let Some((first, end)) = self.sequence {
            write!(f, " {first}:{end}({})", self.bytes)?;
        }
        let fields = [("ack", self.ack), ("win", self.window)];
        for (name, value) in fields {
            if let Some(value) = value {
                write!(f, " {name} {value}")?;
            }
        }
        if let Some(mss) = self.mss {
            write!(f, " <mss {mss}>")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::papers::wire_trace;

    #[test]
    fn printed_traces_are_printed_again() {
        let trace = wire_trace("layering/rpc-4800").unwrap();
        let lines: Vec<_> = trace.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 24);
        assert_eq!(lines[0], "0.140000 camus.1096 > sartre.sunrpc: udp 56");
        assert_eq!(lines[2], "0.150001 camus.1043 > sartre.1055: S 1:1(0) win 4096 <mss 1460>");
        assert_eq!(lines[4], "0.150003 camus.1043 > sartre.1055: . ack 1 win 4096");
        assert_eq!(lines[9], "0.160004 camus.1043 > sartre.1055: P 4001:4097(96) ack 1 win 4096");
        assert_eq!(
            lines[20],
            "0.490000 camus.1043 > sartre.1055: F 4853:4853(0) ack 4837 win 4096"
        );
    }

    #[test]
    fn lengths_agree_with_sequence_numbers_in_every_trace() {
        for name in [
            "rpc-4800",
            "discard-5118",
            "discard-5120",
            "discard-nodelay-5118",
            "discard-nodelay-5120",
        ] {
            for row in wire_trace(&format!("layering/{name}")).unwrap() {
                if let Some((first, end)) = row.sequence {
                    assert_eq!(end - first, row.bytes, "{name}: {row}");
                }
            }
        }
    }
}
