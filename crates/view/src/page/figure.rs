//! Arrays for the figures of one flow.

use serde::Serialize;
use sockscope_analysis::{FlowCurve, LedgerPart};
use sockscope_record::FlowId;

use super::asked::since;
use super::{Answer, ByteAsked, FigureAsked, Refused, Trace};

/// Starts of the columns, then for each curve the smallest value, the largest one and the last one of each column. NaN is
/// unknown.
///
/// # Errors
///
/// When there is no such flow, curve or time.
pub fn curves(trace: &Trace, asked: &FigureAsked) -> Result<Answer, Refused> {
    let part = asked.part(trace.start_ns())?;
    let wanted = asked.names.split(',').map(|name| {
        FlowCurve::named(name).ok_or_else(|| {
            let names: Vec<_> = FlowCurve::all().map(FlowCurve::name).collect();
            Refused::Wrong(format!("no curve {name}: there are {}", names.join(", ")))
        })
    });
    let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
    let (slot, store) = (trace.flow(part.flow)?, trace.store(part.id())?);
    let Some(flow) = slot.get() else { return Err(gone(part.flow)) };
    if wanted.len() > 1 {
        flow.prepare_curves(store);
    }
    let edges = part.edges();
    let columns: Vec<_> =
        wanted.into_iter().map(|curve| flow.detail(store, curve).columns(&edges)).collect();
    let starts = starts(trace, &edges);
    let mut arrays = vec![starts.as_slice()];
    for one in &columns {
        arrays.extend([one.min.as_slice(), &one.max, &one.last]);
    }
    Ok(Answer::floats(&arrays))
}

/// Starts of the columns, then for each place the nanoseconds in it within each column.
///
/// # Errors
///
/// When there is no such flow, place or time.
pub fn ledger(trace: &Trace, asked: &FigureAsked) -> Result<Answer, Refused> {
    let part = asked.part(trace.start_ns())?;
    let wanted = asked.names.split(',').map(|name| {
        let found = LedgerPart::ALL.into_iter().find(|part| part.name() == name);
        found.ok_or_else(|| Refused::Wrong(format!("no place {name}: a report names them")))
    });
    let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
    let (slot, store) = (trace.flow(part.flow)?, trace.store(part.id())?);
    let Some(flow) = slot.get() else { return Err(gone(part.flow)) };
    let edges = part.edges();
    let columns = flow.ledger(store).columns(&edges);
    let mut values = starts(trace, &edges);
    for place in wanted {
        values.extend(columns.iter().map(|column| column[place as usize] as f64));
    }
    Ok(Answer::floats(&[&values]))
}

#[derive(Serialize)]
struct ByteView {
    position: u64,
    /// When it first passed each point; null where that was not seen.
    at: [Option<f64>; 8],
}

/// When one byte passed each point.
///
/// # Errors
///
/// When there is no such flow.
pub fn byte(trace: &Trace, asked: ByteAsked) -> Result<Answer, Refused> {
    let flow = FlowId(asked.flow);
    let slot = trace.flow(flow)?;
    let found = slot.get().ok_or_else(|| gone(flow))?;
    let times = found.curves.times_of_byte(asked.position);
    let at = times.map(|at_ns| at_ns.map(|at_ns| since(trace.start_ns(), at_ns)));
    Ok(Answer::json(&ByteView { position: asked.position, at }))
}

fn starts(trace: &Trace, edges: &[u64]) -> Vec<f64> {
    let starts = &edges[..edges.len().saturating_sub(1)];
    starts.iter().map(|edge| since(trace.start_ns(), *edge)).collect()
}

fn gone(flow: FlowId) -> Refused {
    Refused::Absent(format!("no flow {flow} in this trace"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::testing::{START_NS, floats, json, passed, stalled, trace};

    fn asked(from: f64, to: f64, columns: u32, names: &str) -> FigureAsked {
        FigureAsked { flow: 2, from, to, columns, names: names.to_owned() }
    }

    #[test]
    fn a_stall_is_the_room_between_two_curves() {
        let answer = curves(&stalled(), &asked(0.0, 50_000.0, 5, "point1,point2")).unwrap();
        let found = floats(&answer);
        let arrays: Vec<&[f64]> = found.chunks(5).collect();
        let [starts, _, _, written, _, _, taken] = arrays[..] else {
            panic!("{} arrays", arrays.len())
        };
        assert_eq!(starts, [0.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0]);
        assert_eq!(written, [400.0; 5]);
        assert_eq!(taken, [100.0, 100.0, 100.0, 100.0, 400.0]);
    }

    #[test]
    fn bytes_that_nothing_took_yet_are_a_queue() {
        let waits = trace([passed(1, 0, 100, START_NS, START_NS + 45_000)]);
        let found = floats(&curves(&waits, &asked(0.0, 50_000.0, 5, "point2")).unwrap());
        assert_eq!(found[15..], [0.0, 0.0, 0.0, 0.0, 100.0]);
    }

    #[test]
    fn the_ledger_has_each_nanosecond_once() {
        let names: Vec<_> = LedgerPart::ALL.iter().map(|part| part.name()).collect();
        let answer = ledger(&stalled(), &asked(0.0, 45_000.0, 9, &names.join(","))).unwrap();
        let found = floats(&answer);
        let places: Vec<&[f64]> = found.chunks(9).skip(1).collect();
        for column in 0..9 {
            let sum: f64 = places.iter().map(|place| place[column]).sum();
            assert_eq!(sum, 5_000.0, "column {column}");
        }
    }

    #[test]
    fn a_byte_has_its_times_since_the_start() {
        let found = json(&byte(&stalled(), ByteAsked { flow: 2, position: 250 }).unwrap());
        assert_eq!(found["at"][0], 1_000.0);
        assert_eq!(found["at"][1], 45_000.0);
        let never = json(&byte(&stalled(), ByteAsked { flow: 2, position: 400 }).unwrap());
        assert!(never["at"].as_array().unwrap().iter().all(serde_json::Value::is_null));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let said = |asked| curves(&stalled(), &asked).unwrap_err().to_string();
        assert!(said(asked(0.0, 1.0, 1, "point9")).contains("no curve point9: there are point1, "));
        let absent = FigureAsked { flow: 8, ..asked(0.0, 1.0, 1, "point1") };
        assert!(said(absent).contains("no connection 4 in this trace"));
        let refused = ledger(&stalled(), &asked(0.0, 1.0, 1, "moon")).unwrap_err();
        assert!(refused.to_string().contains("no place moon"));
    }
}
