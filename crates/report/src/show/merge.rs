//! All lists of all flows as one sequence in time order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sockscope_analysis::{ConnectionStore, LossInterval, Passage};
use sockscope_record::{FlowId, Kind, Loss, Point, Record, marks};

/// Lists of a flow: one for each point, one for the events of no point.
const CURSORS: usize = Point::ALL.len() + 1;

/// One list and the rest that is not read yet.
enum Cursor<'a> {
    Passes { flow: FlowId, point: Point, rest: &'a [Passage] },
    Events { rest: &'a [Record] },
}

impl Cursor<'_> {
    /// Time and kind of the next event.
    fn next(&self) -> Option<(u64, Kind)> {
        match self {
            Self::Passes { rest, point, .. } => {
                rest.first().map(|pass| (pass.at_ns, Kind::from(*point)))
            }
            Self::Events { rest } => rest.first().map(|record| (record.at_ns, record.kind)),
        }
    }

    fn take(&mut self) -> Option<Record> {
        match self {
            Self::Passes { flow, rest, .. } => {
                let (pass, after) = rest.split_first()?;
                *rest = after;
                Some(pass.record(*flow))
            }
            Self::Events { rest } => {
                let (record, after) = rest.split_first()?;
                *rest = after;
                Some(*record)
            }
        }
    }
}

/// Place among the events of a flow at the same time: the order in which they follow from each
/// other. A write call enqueues, a thread is woken and runs before it reads; events without a point
/// are last.
fn rank(kind: Kind) -> u8 {
    const BEFORE_READ: u8 = Kind::ReceiveDequeue as u8;
    match (kind, kind.point()) {
        (_, Some(Point::ReceiveDequeue)) => BEFORE_READ + 2,
        (_, Some(point)) => point.number(),
        (Kind::WriteCall, _) => 0,
        (Kind::Wakeup, _) => BEFORE_READ,
        (Kind::Run, _) => BEFORE_READ + 1,
        _ => BEFORE_READ + 3,
    }
}

/// Every event of `stores`, or of `flow` alone, and `losses`, by time; equal times by flow, then by
/// [`rank`], losses last.
pub(super) fn merged<'a>(
    stores: &[&'a ConnectionStore],
    losses: &'a [Record],
    flow: Option<FlowId>,
) -> impl Iterator<Item = Record> + use<'a> {
    let flows = stores.iter().flat_map(|store| &store.flows);
    let picked = flows.filter(move |it| flow.is_none_or(|flow| it.id == flow));
    let mut cursors: Vec<Cursor<'a>> = picked
        .flat_map(|flow| {
            let passes = Point::ALL.into_iter().zip(&flow.passages);
            let passes = passes.map(|(point, rest)| Cursor::Passes { flow: flow.id, point, rest });
            passes.chain([Cursor::Events { rest: &flow.events }])
        })
        .chain([Cursor::Events { rest: losses }])
        .collect();
    let due = |index: usize, cursor: &Cursor<'_>| {
        let (at_ns, kind) = cursor.next()?;
        Some(Reverse((at_ns, index / CURSORS, rank(kind), index)))
    };
    let mut heap: BinaryHeap<_> =
        cursors.iter().enumerate().filter_map(|(index, cursor)| due(index, cursor)).collect();
    std::iter::from_fn(move || {
        let Reverse((.., index)) = heap.pop()?;
        let record = cursors[index].take();
        heap.extend(due(index, &cursors[index]));
        record
    })
}

/// Losses as records in time order, each at the end of its interval. They are few: a source counts
/// many missed records in one.
pub(super) fn as_records(losses: &[LossInterval]) -> Vec<Record> {
    let mut records: Vec<_> = losses
        .iter()
        .map(|loss| {
            let marks = if loss.of_datagrams { marks::DERIVED } else { 0 };
            let of = loss.point.map(Kind::from);
            let missed = Loss { since_ns: loss.start_ns, count: loss.count, of };
            Record { at_ns: loss.end_ns, marks, ..Record::default() }.with_loss(missed)
        })
        .collect();
    records.sort_by_key(|record| (record.at_ns, record.loss().and_then(|loss| loss.of)));
    records
}

/// The furthest position in any flow, as the last passes say: good enough for a column's width.
pub(super) fn furthest(stores: &[&ConnectionStore]) -> u64 {
    let lists = stores.iter().flat_map(|store| &store.flows).flat_map(|flow| &flow.passages);
    let ends = lists.filter_map(|passes| passes.last());
    ends.map(Passage::end).max().unwrap_or(0)
}

/// When the first event of all happened.
pub(super) fn first_at(stores: &[ConnectionStore]) -> Option<u64> {
    let flows = stores.iter().flat_map(|store| &store.flows);
    let firsts = flows.flat_map(|flow| {
        let passes =
            flow.passages.iter().filter_map(|passes| passes.first()).map(|pass| pass.at_ns);
        passes.chain(flow.events.first().map(|record| record.at_ns))
    });
    firsts.min()
}
