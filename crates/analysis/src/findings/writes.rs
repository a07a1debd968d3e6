//! The program's writes, and the messages that they make up.

use std::collections::HashMap;

use sockscope_record::{Hold, Kind, Point, Record};

use crate::{FlowStore, FlowView, Passage};

/// One write call that the kernel took bytes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Write {
    pub start_ns: u64,
    /// When it returned; `None` when that was not recorded.
    pub end_ns: Option<u64>,
    pub offset: u64,
    /// Bytes taken (asked for, while it has not returned).
    pub len: u32,
    /// The writer; 0 when unknown.
    pub thread: u32,
    /// When the last of its recorded bytes entered the send queue; `None` without any.
    pub taken_ns: Option<u64>,
}

impl Write {
    /// Position after its last byte.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    /// Until when it is known to have gone on: until it returned or, where that was not recorded, until
    /// it put its last byte into the send queue.
    pub(super) fn busy_until_ns(&self) -> Option<u64> {
        self.end_ns.or(self.taken_ns)
    }
}

/// The writes of a flow, by start: its `WriteCall` records, or without those its point 1.
/// Calls that took nothing are left out.
pub(super) fn writes(flow: &FlowStore) -> Vec<Write> {
    let mut writes = Vec::new();
    let mut open_by_thread = OpenWrites::default();
    for event in &flow.events {
        match event.kind {
            Kind::WriteCall => {
                let open = open_by_thread.of(event.thread);
                // A call that waited for room may be announced again with the rest of it.
                let before: Option<&Write> = open.map(|index| &writes[index]);
                if before.is_none_or(|write| write.end() != event.end()) {
                    *open = Some(writes.len());
                    writes.push(started(event));
                }
            }
            Kind::WriteReturn => {
                if let Some(index) = open_by_thread.of(event.thread).take() {
                    let write: &mut Write = &mut writes[index];
                    (write.end_ns, write.len) = (Some(event.at_ns), event.len);
                }
            }
            _ => {}
        }
    }
    if writes.is_empty() {
        let entries = flow.at(Point::SendEnqueue).iter();
        writes.extend(entries.map(|pass| Write {
            start_ns: pass.at_ns,
            end_ns: None,
            offset: pass.offset,
            len: pass.len,
            thread: pass.thread,
            taken_ns: Some(pass.at_ns),
        }));
    }
    writes.retain(|write| write.len > 0);
    note_taken(&mut writes, flow.at(Point::SendEnqueue));
    writes
}

/// Calls that have not returned, as places in a list. Most flows have one writer.
#[derive(Default)]
struct OpenWrites {
    /// That of the thread looked up last.
    last: (u32, Option<usize>),
    others: HashMap<u32, usize>,
}

impl OpenWrites {
    /// That of a thread.
    fn of(&mut self, thread: u32) -> &mut Option<usize> {
        if thread != self.last.0 {
            let (before, open) = (self.last.0, self.last.1.take());
            self.others.extend(open.map(|index| (before, index)));
            self.last = (thread, self.others.remove(&thread));
        }
        &mut self.last.1
    }
}

/// Fills in when each call put its last byte into the send queue; later bytes are another call's.
fn note_taken(writes: &mut [Write], entries: &[Passage]) {
    let mut entries = entries.iter().peekable();
    for index in 0..writes.len() {
        let next = writes.get(index + 1).map_or(u64::MAX, |write| write.offset);
        let end = writes[index].end().min(next);
        while let Some(entry) = entries.next_if(|entry| entry.offset < end) {
            if entry.end() > writes[index].offset && entry.at_ns >= writes[index].start_ns {
                writes[index].taken_ns = Some(entry.at_ns);
            }
        }
    }
}

fn started(call: &Record) -> Write {
    let Record { at_ns: start_ns, offset, len, thread, .. } = *call;
    Write { start_ns, end_ns: None, offset, len, thread, taken_ns: None }
}

/// Splits `writes` where the writing program read something from the other side in between: each
/// group is one turn. The last group is marked as not answered.
pub(super) fn turns<'w>(view: &FlowView<'_>, writes: &'w [Write]) -> Vec<Turn<'w>> {
    let reads = view.reverse().at(Point::ReceiveDequeue);
    let mut turns = Vec::new();
    let mut rest = writes;
    let mut next_read = 0;
    while let Some(first) = rest.first() {
        next_read += reads[next_read..].partition_point(|read| read.at_ns < first.start_ns);
        let read_ns = reads.get(next_read).map(|read| read.at_ns);
        let count = read_ns.map_or(rest.len(), |at_ns| count_before(rest, at_ns));
        let (writes, after) = rest.split_at(count.max(1));
        turns.push(Turn { writes, is_answered: read_ns.is_some() });
        rest = after;
    }
    turns
}

/// Writes are short lists between reads: a scan from the front beats a search over the whole.
fn count_before(writes: &[Write], at_ns: u64) -> usize {
    writes.iter().take_while(|write| write.start_ns < at_ns).count()
}

/// Writes of one side between two reads of the other direction.
pub(super) struct Turn<'w> {
    pub writes: &'w [Write],
    /// The other side's data was read after it.
    pub is_answered: bool,
}

impl Turn<'_> {
    pub(super) fn offset(&self) -> u64 {
        self.writes.first().map_or(0, |write| write.offset)
    }

    pub(super) fn end(&self) -> u64 {
        self.writes.last().map_or(0, Write::end)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.end().saturating_sub(self.offset())
    }
}

/// Positions of bytes that the program itself asked TCP to hold (`TCP_CORK`, `MSG_MORE`).
pub(super) fn corked_offsets(flow: &FlowStore) -> Vec<u64> {
    let entries = flow.at(Point::SendEnqueue).iter();
    entries.filter(|pass| pass.hold() == Hold::Cork).map(|pass| pass.offset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::Fixture;

    fn sizes(text: &str) -> Vec<Vec<u32>> {
        let fixture = Fixture::new(text, "");
        fixture.with_flow(|view| {
            let writes = writes(view.flow());
            let turns = turns(view, &writes);
            turns.iter().map(|turn| turn.writes.iter().map(|write| write.len).collect()).collect()
        })
    }

    #[test]
    fn a_read_of_the_other_direction_ends_a_turn() {
        let text = "1 1 +10 | 2 1 +20 | 5 <8 +1 | 6 1 +30 | 9 <8 +1";
        assert_eq!(sizes(text), [vec![10, 20], vec![30]]);
    }

    #[test]
    fn calls_count_before_point_1_and_a_refused_one_does_not_count() {
        let text = "1 write +10 thread=7 | 2 1 +4 | 3 1 +6 | 4 write-return len=10 thread=7
                    5 write at=10 len=9 thread=7 | 6 write-return len=0 code=11 thread=7";
        assert_eq!(sizes(text), [vec![10]]);
    }

    #[test]
    fn a_call_announced_again_with_what_is_left_is_one_call() {
        let text = "1 write +100 thread=7 | 2 write 60..100 thread=7 | 3 write-return at=0 len=100 thread=7";
        assert_eq!(sizes(text), [vec![100]]);
    }

    #[test]
    fn the_return_is_matched_by_thread() {
        let text = "1 write at=0 len=10 thread=7 | 2 write at=10 len=20 thread=8
                    3 write-return len=20 thread=8 | 9 write-return len=10 thread=7";
        let fixture = Fixture::new(text, "");
        let ends: Vec<_> =
            fixture.with_flow(|view| writes(view.flow())).iter().map(|w| w.end_ns).collect();
        assert_eq!(ends, [Some(9), Some(3)]);
    }
}
