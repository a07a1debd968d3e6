//! Marks over time in the figures of one flow: calls, retransmissions, drops, losses, findings.
//!
//! Retransmissions, drops, losses and findings are never left out: those that fall into one column are joined, with
//! their number. Calls, which every connection has, are listed where there are few.

use serde::Serialize;
use sockscope_analysis::{FindingId, Passage};
use sockscope_record::Point;

use super::asked::{Part, since};
use super::flow::ByteTime;
use super::{Answer, PartAsked, Refused, Trace};

/// Calls that are listed at most.
const LISTED_MAX: usize = 150;

#[derive(Serialize, Default)]
struct MarksView {
    retransmitted: Vec<Mark>,
    dropped: Vec<Mark>,
    lost: Vec<Interval>,
    findings: Vec<FoundTimes>,
    writes: Listed,
    reads: Listed,
}

/// Bytes at a time, or several of one column.
#[derive(Serialize, Debug, PartialEq)]
struct Mark {
    at: f64,
    offset: u64,
    end: u64,
    count: u64,
}

/// Times in which records were missed, or a finding cost time.
#[derive(Serialize, Debug, PartialEq)]
struct Interval {
    from: f64,
    to: f64,
    count: u64,
}

/// Times of the finding that has this place in the connection's list.
#[derive(Serialize)]
struct FoundTimes {
    index: usize,
    id: &'static str,
    times: Vec<Interval>,
}

#[derive(Serialize, Default)]
struct Listed {
    count: usize,
    /// Empty where there are too many.
    list: Vec<Mark>,
}

/// The marks of one flow within a time.
///
/// # Errors
///
/// When there is no such flow or time.
pub fn marks(trace: &Trace, asked: &PartAsked) -> Result<Answer, Refused> {
    let start_ns = trace.start_ns();
    let part = asked.part(start_ns)?;
    let (slot, store, one) =
        (trace.flow(part.flow)?, trace.store(part.id())?, trace.one(part.id())?);
    let flow = store.flow(part.direction());
    let rare = slot.get().map(|found| found.rare_marks(store));
    let (retransmitted, dropped) = rare.map_or((&[][..], &[][..]), |rare| {
        (rare.retransmitted.as_slice(), rare.dropped.as_slice())
    });
    let losses = trace.losses_of(part.id());
    let touching = losses.iter().filter(|loss| loss.may_touch(store.connection.protocol));
    let lost = touching.map(|loss| (loss.start_ns, loss.end_ns, loss.count));
    let findings = one.findings.iter().enumerate();
    let found =
        findings.filter(|(_, finding)| finding.flow == part.flow).map(|(index, finding)| {
            let times = apart(&finding.times, &part, start_ns);
            FoundTimes { index, id: FindingId::name(finding.id), times }
        });
    Ok(Answer::json(&MarksView {
        retransmitted: joined(retransmitted, &part, start_ns),
        dropped: joined(dropped, &part, start_ns),
        lost: intervals(lost, &part, start_ns),
        findings: found.filter(|found| !found.times.is_empty()).collect(),
        writes: listed(flow.at(Point::SendEnqueue), &part, start_ns),
        reads: listed(flow.at(Point::ReceiveDequeue), &part, start_ns),
    }))
}

/// The part of a list in time order.
fn within<'a, T>(list: &'a [T], at_ns: impl Fn(&T) -> u64, part: &Part) -> &'a [T] {
    let from = list.partition_point(|one| at_ns(one) < part.from_ns);
    let to = list.partition_point(|one| at_ns(one) < part.to_ns);
    list.get(from..to).unwrap_or(&[])
}

/// Time, first position and end of each, in time order; those of one column as one.
fn joined(all: &[ByteTime], part: &Part, start_ns: u64) -> Vec<Mark> {
    let column = |at_ns: u64| (at_ns - part.from_ns) / part.column_ns();
    let mut marks: Vec<Mark> = Vec::new();
    let mut last = None;
    for &(at_ns, offset, end) in within(all, |one| one.0, part) {
        match marks.last_mut().filter(|_| last == Some(column(at_ns))) {
            Some(mark) => {
                mark.offset = mark.offset.min(offset);
                mark.end = mark.end.max(end);
                mark.count += 1;
            }
            None => marks.push(Mark { at: since(start_ns, at_ns), offset, end, count: 1 }),
        }
        last = Some(column(at_ns));
    }
    marks
}

/// Start, end and count of each, by start, as far as it lies in the part; those nearer than a column as one.
fn intervals(
    all: impl Iterator<Item = (u64, u64, u64)>,
    part: &Part,
    start_ns: u64,
) -> Vec<Interval> {
    let mut kept: Vec<Interval> = Vec::new();
    let column = part.column_ns() as f64;
    for (from_ns, to_ns, count) in all {
        if to_ns < part.from_ns || from_ns >= part.to_ns {
            continue;
        }
        let (from, to) = (since(start_ns, from_ns), since(start_ns, to_ns));
        match kept.last_mut().filter(|last| from - last.to < column) {
            Some(last) => {
                last.to = last.to.max(to);
                last.count = last.count.saturating_add(count);
            }
            None => kept.push(Interval { from, to, count }),
        }
    }
    kept
}

/// Intervals in order that are apart, joined where no column lies between two. The cost grows with the columns, not with
/// the intervals.
fn apart(times_ns: &[(u64, u64)], part: &Part, start_ns: u64) -> Vec<Interval> {
    let mut rest = &times_ns[times_ns.partition_point(|times| times.1 < part.from_ns)..];
    let mut kept = Vec::new();
    while let Some(&(from_ns, mut to_ns)) = rest.first().filter(|times| times.0 < part.to_ns) {
        let mut count = 0;
        loop {
            let near =
                rest.partition_point(|times| times.0 < to_ns.saturating_add(part.column_ns()));
            let Some(last) = near.checked_sub(1) else { break };
            to_ns = rest[last].1;
            rest = &rest[near..];
            count += near as u64;
            if to_ns >= part.to_ns {
                break;
            }
        }
        kept.push(Interval { from: since(start_ns, from_ns), to: since(start_ns, to_ns), count });
    }
    kept
}

fn listed(passes: &[Passage], part: &Part, start_ns: u64) -> Listed {
    let shown = within(passes, |pass| pass.at_ns, part);
    let mark = |pass: &Passage| {
        let at = since(start_ns, pass.at_ns);
        Mark { at, offset: pass.offset, end: pass.end(), count: 1 }
    };
    let list =
        if shown.len() <= LISTED_MAX { shown.iter().map(mark).collect() } else { Vec::new() };
    Listed { count: shown.len(), list }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(columns: u32) -> Part {
        PartAsked { flow: 2, from: 0.0, to: 1_000.0, columns }.part(0).unwrap()
    }

    #[test]
    fn what_falls_into_one_column_is_one_mark_with_a_number() {
        let all = [(10, 0, 5), (20, 3, 9), (150, 20, 30)];
        let marks = joined(&all, &part(10), 0);
        let expected = [
            Mark { at: 10.0, offset: 0, end: 9, count: 2 },
            Mark { at: 150.0, offset: 20, end: 30, count: 1 },
        ];
        assert_eq!(marks, expected);
        assert_eq!(joined(&all, &part(1_000), 0).len(), 3);
    }

    #[test]
    fn intervals_keep_their_ends_and_join_where_no_pixel_lies_between() {
        let all = [(0, 10, 1), (50, 60, 2), (400, 500, 1), (2_000, 3_000, 1)];
        let joined = intervals(all.into_iter(), &part(10), 0);
        let expected = [
            Interval { from: 0.0, to: 60.0, count: 3 },
            Interval { from: 400.0, to: 500.0, count: 1 },
        ];
        assert_eq!(joined, expected);
    }

    #[test]
    fn intervals_that_are_apart_are_joined_as_one_by_one() {
        let times: Vec<(u64, u64)> =
            (0..200).map(|at| (at * 7 + at % 5, at * 7 + at % 5 + 1)).collect();
        for columns in [1, 10, 100, 333, 1_000] {
            let part = part(columns);
            let one_by_one = intervals(times.iter().map(|it| (it.0, it.1, 1)), &part, 0);
            let all = apart(&times, &part, 0);
            assert_eq!(all.len(), one_by_one.len(), "{columns}");
            let ends =
                |list: &[Interval]| list.iter().map(|it| (it.from, it.to)).collect::<Vec<_>>();
            // The last one may go on behind the part.
            let known = all.len() - 1;
            assert_eq!(ends(&all[..known]), ends(&one_by_one[..known]), "{columns}");
        }
    }
}
