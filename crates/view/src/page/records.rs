//! The records themselves, where few are in view.

use serde::Serialize;
use sockscope_report::{Charset, ShowOptions, ShownEvent, show_part};

use super::asked::since;
use super::{Answer, PartAsked, Refused, Trace};

/// Records that are listed at most.
pub const RECORDS_MAX: usize = 1_000;

#[derive(Serialize)]
struct RecordsView {
    count: usize,
    /// Empty where there are too many.
    records: Vec<RecordView>,
}

#[derive(Serialize)]
struct RecordView {
    at: f64,
    /// Flow of its bytes.
    flow: u32,
    /// Number of its point; null for an event of no point.
    point: Option<u8>,
    kind: &'static str,
    offset: u64,
    bytes: u32,
    thread: u32,
    /// As `sockscope show` prints it.
    line: String,
}

/// The records of a connection within a time, both flows.
///
/// # Errors
///
/// When there is no such flow or time.
pub fn records(trace: &Trace, asked: &PartAsked) -> Result<Answer, Refused> {
    let start_ns = trace.start_ns();
    let part = asked.part(start_ns)?;
    let options = ShowOptions {
        charset: Charset::Unicode,
        start_ns: Some(start_ns),
        drop_reasons: trace.drop_reasons().clone(),
        ..ShowOptions::default()
    };
    let store = trace.store(part.id())?;
    let view = match show_part(store, &options, (part.from_ns, part.to_ns), RECORDS_MAX) {
        Err(count) => RecordsView { count, records: Vec::new() },
        Ok(shown) => {
            let records: Vec<_> =
                shown.into_iter().map(|one| RecordView::new(one, start_ns)).collect();
            RecordsView { count: records.len(), records }
        }
    };
    Ok(Answer::json(&view))
}

impl RecordView {
    fn new(ShownEvent { record, line }: ShownEvent, start_ns: u64) -> Self {
        Self {
            at: since(start_ns, record.at_ns),
            flow: record.flow.0,
            point: record.point().map(|point| point.number()),
            kind: record.kind.name(),
            offset: record.offset,
            bytes: record.len,
            thread: record.thread,
            line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::testing::{json, stalled};

    fn found(from: f64, to: f64) -> serde_json::Value {
        json(&records(&stalled(), &PartAsked { flow: 2, from, to, columns: 1 }).unwrap())
    }

    #[test]
    fn the_records_of_a_part_are_listed_in_order_of_time() {
        let all = found(0.0, 50_000.0);
        assert_eq!(all["count"], 16);
        let times: Vec<f64> = all["records"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["at"].as_f64().unwrap())
            .collect();
        assert!(times.is_sorted() && times[15] == 45_000.0, "{times:?}");
        let one = found(900.0, 1_100.0);
        assert_eq!(one["count"], 1);
        assert_eq!(
            (&one["records"][0]["point"], &one["records"][0]["offset"]),
            (&1.into(), &100.into())
        );
        assert!(one["records"][0]["line"].as_str().unwrap().contains("SendEnqueue"));
        assert_eq!(found(60_000.0, 70_000.0)["count"], 0);
    }
}
