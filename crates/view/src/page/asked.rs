//! The questions of the page, as they are in the query of an address.

use serde::Deserialize;
use sockscope_analysis::edges;
use sockscope_record::{ConnectionId, Direction, FlowId};

use super::Refused;

/// Columns of a picture at most.
const COLUMNS_MAX: u32 = 8_192;
/// Connections in a list where the question has no number.
const LIMIT: usize = 200;

/// Which connections to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ListAsked {
    /// Words that all must be part of a connection's addresses, processes or findings.
    #[serde(default)]
    pub words: String,
    /// How many at most.
    pub limit: Option<usize>,
}

/// A part of the time of one flow.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PartAsked {
    /// Number of the flow.
    pub flow: u32,
    /// Start, nanoseconds since the start of the trace.
    pub from: f64,
    /// End.
    pub to: f64,
    /// Width of the picture, in columns.
    #[serde(default = "columns")]
    pub columns: u32,
}

/// Curves, or places of the ledger, in a part of the time.
///
/// The fields of [`PartAsked`] are repeated, as a query has no nested ones.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FigureAsked {
    /// Number of the flow.
    pub flow: u32,
    /// Start, nanoseconds since the start of the trace.
    pub from: f64,
    /// End.
    pub to: f64,
    /// Width of the picture, in columns.
    #[serde(default = "columns")]
    pub columns: u32,
    /// Names with commas between them.
    pub names: String,
}

/// One byte of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct ByteAsked {
    /// Number of the flow.
    pub flow: u32,
    /// Position in the stream.
    pub position: u64,
}

fn columns() -> u32 {
    1_000
}

impl ListAsked {
    pub(super) fn limit(&self) -> usize {
        self.limit.unwrap_or(LIMIT)
    }
}

/// An interval on the clock of the trace, in columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub flow: FlowId,
    pub from_ns: u64,
    pub to_ns: u64,
    pub columns: usize,
}

impl Part {
    pub(super) fn id(&self) -> ConnectionId {
        self.flow.connection()
    }

    pub(super) fn direction(&self) -> Direction {
        self.flow.direction()
    }

    pub(super) fn edges(&self) -> Vec<u64> {
        edges(self.from_ns, self.to_ns, self.columns)
    }

    /// Length of a column, at least a nanosecond.
    pub(super) fn column_ns(&self) -> u64 {
        ((self.to_ns - self.from_ns) / self.columns as u64).max(1)
    }
}

impl PartAsked {
    pub(super) fn part(&self, start_ns: u64) -> Result<Part, Refused> {
        let Self { flow, from, to, columns } = *self;
        if !(from.is_finite() && to.is_finite() && from < to) {
            return Err(Refused::Wrong(format!(
                "from {from} to {to} is no time: give a later end"
            )));
        }
        if !(1..=COLUMNS_MAX).contains(&columns) {
            return Err(Refused::Wrong(format!("{columns} columns: give 1 to {COLUMNS_MAX}")));
        }
        let from_ns = absolute(start_ns, from);
        let to_ns = absolute(start_ns, to).max(from_ns.saturating_add(1));
        Ok(Part { flow: FlowId(flow), from_ns, to_ns, columns: columns as usize })
    }
}

impl FigureAsked {
    pub(super) fn part(&self, start_ns: u64) -> Result<Part, Refused> {
        let Self { flow, from, to, columns, .. } = *self;
        PartAsked { flow, from, to, columns }.part(start_ns)
    }
}

/// A time on the clock of the trace.
fn absolute(start_ns: u64, since_ns: f64) -> u64 {
    // Of floats the cast saturates.
    let at_ns = i128::from(start_ns).saturating_add(since_ns.round() as i128);
    u64::try_from(at_ns).unwrap_or(if at_ns < 0 { 0 } else { u64::MAX })
}

/// Nanoseconds since the start of the trace; negative before it.
pub(super) fn since(start_ns: u64, at_ns: u64) -> f64 {
    (i128::from(at_ns) - i128::from(start_ns)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(from: f64, to: f64, columns: u32) -> Result<(u64, u64), String> {
        let asked = PartAsked { flow: 2, from, to, columns };
        let part = asked.part(1_000).map_err(|refused| refused.to_string())?;
        Ok((part.from_ns, part.to_ns))
    }

    #[test]
    fn times_are_since_the_start_and_may_be_before_it() {
        assert_eq!(part(0.0, 500.0, 10), Ok((1_000, 1_500)));
        assert_eq!(part(-5_000.0, 1e30, 10), Ok((0, u64::MAX)));
        assert_eq!(part(10.1, 10.2, 10), Ok((1_010, 1_011)));
        assert_eq!(since(1_000, 400), -600.0);
    }

    #[test]
    fn what_is_no_interval_is_refused_with_a_way_out() {
        assert!(part(5.0, 5.0, 10).unwrap_err().contains("give a later end"));
        assert!(part(f64::NAN, 5.0, 10).unwrap_err().contains("give a later end"));
        assert!(part(0.0, 5.0, 0).unwrap_err().contains("give 1 to 8192"));
        assert!(part(0.0, 5.0, 100_000).unwrap_err().contains("give 1 to 8192"));
    }
}
