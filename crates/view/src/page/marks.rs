//! Marks over time in the figures of one flow: calls, acknowledgments, retransmissions, drops, losses, findings.
//!
//! Retransmissions, drops, losses and findings are never left out: those that fall into one column are joined, with
//! their number. Calls and acknowledgments, which every connection has, are listed where there are few.

use serde::Serialize;
use sockscope_analysis::{FindingId, Passage};
use sockscope_record::{Kind, Point, marks as record_marks, tcp_flags};

use super::asked::{Part, since};
use super::{Answer, PartAsked, Refused, Trace};

/// Calls, or acknowledgments, that are listed at most.
const LISTED_MAX: usize = 150;

#[derive(Serialize, Default)]
struct MarksView {
    retransmitted: Vec<Mark>,
    dropped: Vec<Mark>,
    lost: Vec<Interval>,
    findings: Vec<FoundTimes>,
    writes: Listed,
    reads: Listed,
    acks: Listed,
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
    let (store, one) = (trace.store(part.id())?, trace.one(part.id())?);
    let (flow, reverse) = (store.flow(part.direction()), store.reverse(part.direction()));
    let again = |pass: &&Passage| pass.marks & record_marks::RETRANSMITTED != 0 && pass.len > 0;
    let sent = [Point::SendDequeue, Point::InterfaceEnqueue, Point::InterfaceDequeue];
    let sent = sent.map(|point| within(flow.at(point), &part));
    let sent = sent.into_iter().find(|passes| !passes.is_empty()).unwrap_or(&[]);
    let drops = flow.events_of(Kind::Drop);
    let drops = drops.filter(|event| (part.from_ns..part.to_ns).contains(&event.at_ns));
    let acks = within(reverse.at(Point::InterfaceDequeue), &part).iter();
    let acks = acks.filter(|pass| pass.tcp_flags & tcp_flags::ACK != 0 && pass.acknowledged() > 0);
    let acks = acks.map(|pass| (pass.at_ns, pass.acknowledged(), pass.acknowledged()));
    let bytes = |pass: &Passage| (pass.at_ns, pass.offset, pass.end());
    let losses = trace.losses_of(part.id());
    let touching = losses.iter().filter(|loss| loss.may_touch(store.connection.protocol));
    let lost = touching.map(|loss| (loss.start_ns, loss.end_ns, loss.count));
    let findings = one.findings.iter().enumerate();
    let found =
        findings.filter(|(_, finding)| finding.flow == part.flow).map(|(index, finding)| {
            let times = finding.times.iter().map(|(from_ns, to_ns)| (*from_ns, *to_ns, 1));
            FoundTimes {
                index,
                id: FindingId::name(finding.id),
                times: intervals(times, &part, start_ns),
            }
        });
    Ok(Answer::json(&MarksView {
        retransmitted: joined(sent.iter().filter(again).map(bytes), &part, start_ns),
        dropped: joined(drops.map(|drop| (drop.at_ns, drop.offset, drop.end())), &part, start_ns),
        lost: intervals(lost, &part, start_ns),
        findings: found.filter(|found| !found.times.is_empty()).collect(),
        writes: listed(within(flow.at(Point::SendEnqueue), &part).iter().map(bytes), start_ns),
        reads: listed(within(flow.at(Point::ReceiveDequeue), &part).iter().map(bytes), start_ns),
        acks: listed(acks, start_ns),
    }))
}

fn within<'a>(passes: &'a [Passage], part: &Part) -> &'a [Passage] {
    let from = passes.partition_point(|pass| pass.at_ns < part.from_ns);
    let to = passes.partition_point(|pass| pass.at_ns < part.to_ns);
    passes.get(from..to).unwrap_or(&[])
}

/// Time, first position and end of each, in time order; those of one column as one.
fn joined(all: impl Iterator<Item = (u64, u64, u64)>, part: &Part, start_ns: u64) -> Vec<Mark> {
    let column = |at_ns: u64| (at_ns - part.from_ns) / part.column_ns();
    let mut marks: Vec<Mark> = Vec::new();
    let mut last = None;
    for (at_ns, offset, end) in all {
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

fn listed(all: impl Iterator<Item = (u64, u64, u64)> + Clone, start_ns: u64) -> Listed {
    let count = all.clone().count();
    let mark = |(at_ns, offset, end)| Mark { at: since(start_ns, at_ns), offset, end, count: 1 };
    let list = if count <= LISTED_MAX { all.map(mark).collect() } else { Vec::new() };
    Listed { count, list }
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
        let marks = joined(all.into_iter(), &part(10), 0);
        let expected = [
            Mark { at: 10.0, offset: 0, end: 9, count: 2 },
            Mark { at: 150.0, offset: 20, end: 30, count: 1 },
        ];
        assert_eq!(marks, expected);
        assert_eq!(joined(all.into_iter(), &part(1_000), 0).len(), 3);
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
}
