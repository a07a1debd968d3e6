//! Records that a window no longer needs.

use sockscope_record::{Direction, Kind, Point, Protocol, Record, tcp_flags};

use super::kept::Kept;
use crate::assembly::Tally;
use crate::record_buffer::is_gone;
use crate::socket_layers;
use crate::{ConnectionStore, FlowStore, Passage};

impl Kept {
    /// Drops the records before `at_ns` of bytes that were read by then, and takes them from the tally; whether the
    /// connection stays.
    ///
    /// The last segment at each point stays too: it has the hold of the bytes behind it and the last acknowledgment. So
    /// do the last write of a request that was not answered, and its read.
    pub fn forget_before(&mut self, at_ns: u64, tally: &mut Tally) -> bool {
        self.sort();
        let ended_ns = self.store.connection.closed_ns.or(self.store.left_out_ns());
        let is_over = ended_ns.is_some_and(|ended_ns| ended_ns < at_ns);
        let is_old = self.store.last_ns().is_none_or(|last_ns| last_ns < at_ns);
        if is_old && (is_over || !self.is_described) {
            self.store.flows.iter().for_each(|flow| take_from(tally, flow));
            return false;
        }
        for direction in [Direction::FromClient, Direction::FromServer] {
            let index = direction as usize;
            let watched = &mut self.watched[index];
            for (watched, passes) in watched.iter_mut().zip(&self.store.flows[index].passages) {
                *watched |= before(passes, at_ns).iter().any(|pass| pass.len > 0);
            }
            let reads = watched[Point::ReceiveDequeue.index()];
            self.floors[index] =
                floor(&self.store, direction, at_ns, reads).max(self.floors[index]);
        }
        let unanswered = self.unanswered(at_ns);
        let mut dropped = 0;
        for (flow, floor) in self.store.flows.iter_mut().zip(self.floors) {
            for (point, (passes, count)) in
                Point::ALL.into_iter().zip(flow.passages.iter_mut().zip(&mut tally.points))
            {
                let is_of_request = matches!(point, Point::SendEnqueue | Point::ReceiveDequeue)
                    && unanswered.is_some_and(|asker| flow.id.direction() == asker);
                let is_of_segment = (1..6).contains(&point.index());
                let read = forget_passages(passes, at_ns, floor, is_of_request || is_of_segment);
                *count = count.saturating_sub(read);
                dropped += read;
            }
            dropped += forget_events(flow, at_ns, floor);
        }
        tally.records = tally.records.saturating_sub(dropped);
        if dropped > 0 {
            (self.is_cut, self.is_changed) = (true, true);
            self.store.connection.preexisting = true;
        }
        true
    }
}

fn take_from(tally: &mut Tally, flow: &FlowStore) {
    let mut records = flow.events.len() as u64;
    for (passes, count) in flow.passages.iter().zip(&mut tally.points) {
        *count = count.saturating_sub(passes.len() as u64);
        records += passes.len() as u64;
    }
    tally.records = tally.records.saturating_sub(records);
}

/// Position before which every byte of the flow was read before `at_ns`; where reads are not recorded, or are those of a
/// layer of the kernel, the position that was acknowledged, and of datagrams to another host the end of all.
fn floor(store: &ConnectionStore, direction: Direction, at_ns: u64, was_read: bool) -> u64 {
    let flow = store.flow(direction);
    let reads = flow.at(Point::ReceiveDequeue);
    let read = before(reads, at_ns).iter().map(Passage::end).max();
    let gone = flow.events.iter().filter(|event| is_gone(event) && event.at_ns < at_ns);
    let gone = gone.map(|event| event.offset.saturating_add(event.len.into())).max();
    let is_watched = !socket_layers::hides(store, direction, Point::ReceiveDequeue)
        && (was_read
            || !reads.is_empty()
            || gone.is_some()
            || store.connection.both_ends_here
            || !flow.at(Point::ReceiveEnqueue).is_empty());
    if is_watched {
        return read.max(gone).unwrap_or(0);
    }
    if store.connection.protocol == Protocol::Udp {
        let passes = flow.passages.iter().flat_map(|passes| before(passes, at_ns));
        return passes.map(Passage::end).max().unwrap_or(0);
    }
    let acks = crate::send_hold::acks_received(store.reverse(direction));
    let acks = before(acks, at_ns).iter().filter(|ack| ack.tcp_flags & tcp_flags::ACK != 0);
    acks.map(Passage::acknowledged).max().unwrap_or(0)
}

/// Those of a list in time order that were before `at_ns`.
fn before(passes: &[Passage], at_ns: u64) -> &[Passage] {
    &passes[..passes.partition_point(|pass| pass.at_ns < at_ns)]
}

/// Drops passages before `at_ns` that end by `floor`, all or all but the last one; their number.
fn forget_passages(passes: &mut Vec<Passage>, at_ns: u64, floor: u64, keeps_last: bool) -> u64 {
    let old = before(passes, at_ns).len();
    let mut kept = 0;
    for index in 0..old {
        let pass = passes[index];
        if (keeps_last && index + 1 == old) || (pass.end() > floor && pass.len > 0) {
            passes[kept] = pass;
            kept += 1;
        }
    }
    passes.drain(kept..old);
    (old - kept) as u64
}

/// The same of events: those that set a state stay until another one sets it.
fn forget_events(flow: &mut FlowStore, at_ns: u64, floor: u64) -> u64 {
    let old = flow.events.partition_point(|event| event.at_ns < at_ns);
    let mut states = Vec::new();
    let mut is_kept = vec![false; old];
    for (event, is_kept) in flow.events[..old].iter().zip(&mut is_kept).rev() {
        *is_kept = match state(event) {
            Some(state) if states.contains(&state) => false,
            Some(state) => {
                states.push(state);
                true
            }
            None => is_of_bytes(event) && event.offset.saturating_add(event.len.into()) > floor,
        };
    }
    let dropped = is_kept.iter().filter(|is_kept| !**is_kept).count();
    if dropped > 0 {
        let mut is_kept = is_kept.into_iter();
        flow.events.retain(|_| is_kept.next().unwrap_or(true));
    }
    dropped as u64
}

/// The state of an end that an event sets; `None` of one that sets none.
fn state(event: &Record) -> Option<(Kind, u32)> {
    let of = match event.kind {
        Kind::Interface => event.code.into(),
        Kind::HopDevice => event.offset as u32 ^ (event.offset >> 32) as u32,
        Kind::WriteCall | Kind::WriteReturn | Kind::ReadReturn => event.thread,
        Kind::SynOptions | Kind::StateChange | Kind::Accept | Kind::WindowScale | Kind::LeftOut => {
            0
        }
        Kind::SocketLayer => event.code.into(),
        _ => event.state_option()?,
    };
    Some((event.kind, of))
}

/// Whether an event says something of the bytes at its position.
fn is_of_bytes(event: &Record) -> bool {
    matches!(event.kind, Kind::Drop | Kind::Retransmit | Kind::Hop)
}
