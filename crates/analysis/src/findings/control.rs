//! Segments without data that were sent again: a SYN, a SYN-ACK or a FIN.

use sockscope_record::{Point, Record, RetransmitClass, tcp_flags, tcp_states};

use super::resent_segment::{Content, Resent, TOLD_NS_MAX};
use crate::transmission::ON_THE_WAY;
use crate::{FlowStore, FlowView, Passage};

/// The content of the retransmission `event`. Traces of earlier versions class the FIN of a side that
/// sent no data as a handshake.
pub(super) fn sent_again(view: &FlowView<'_>, event: &Record, class: RetransmitClass) -> Resent {
    // The retransmission itself passes shortly before TCP reports it.
    let until_ns = event.at_ns.saturating_sub(TOLD_NS_MAX);
    if class == RetransmitClass::Handshake && !was_open(view, until_ns) {
        return syn(view, event, until_ns);
    }
    let class = if class == RetransmitClass::Handshake { RetransmitClass::Unknown } else { class };
    fin(view, event, class, until_ns)
}

/// Whether this side's handshake was done by then: a SYN is not sent again after any other segment.
fn was_open(view: &FlowView<'_>, until_ns: u64) -> bool {
    let flow = view.flow();
    let mut packets = ON_THE_WAY.into_iter().flat_map(|point| before(flow.at(point), until_ns));
    let mut states = flow.events.iter().take_while(|event| event.at_ns <= until_ns);
    view.store.connection.preexisting
        || packets.any(|pass| pass.tcp_flags & (tcp_flags::SYN | tcp_flags::RST) == 0)
        || states.any(|event| {
            event.state_change().is_some_and(|change| change.new == tcp_states::ESTABLISHED)
        })
}

fn syn(view: &FlowView<'_>, event: &Record, until_ns: u64) -> Resent {
    let last = Last::of(view.flow(), until_ns, |flags| flags & tcp_flags::SYN != 0);
    let from_ns = last.before_ns.unwrap_or(0);
    // A SYN-ACK answers a SYN, and any other segment answers a SYN-ACK.
    let is_answer = |flags: u8| match view.direction.sender() {
        sockscope_record::Side::Client => flags & tcp_flags::SYN != 0,
        sockscope_record::Side::Server => flags & (tcp_flags::SYN | tcp_flags::RST) == 0,
    };
    let answer = furthest(view.reverse(), from_ns, until_ns, is_answer);
    Resent {
        content: Content::Syn { answer },
        class: RetransmitClass::Handshake,
        was_needed: true,
        ..last.resent(event)
    }
}

fn fin(view: &FlowView<'_>, event: &Record, class: RetransmitClass, until_ns: u64) -> Resent {
    let last = Last::of(view.flow(), until_ns, |flags| flags & tcp_flags::FIN != 0);
    // A probe is sent on a suspicion: only a receiver that is seen can confirm it.
    let receiver_is_seen = !view.flow().at(Point::InputDequeue).is_empty();
    let has_arrived = last.last_seen == Some(Point::InputDequeue);
    let is_proven = receiver_is_seen && !has_arrived;
    let was_needed = match class {
        RetransmitClass::TailProbe => is_proven,
        class => class != RetransmitClass::Spurious,
    };
    Resent { content: Content::Fin, class, was_needed, ..last.resent(event) }
}

/// The transmission before a retransmission.
struct Last {
    before_ns: Option<u64>,
    last_seen: Option<Point>,
}

impl Last {
    /// The segments whose flags match.
    fn of(flow: &FlowStore, until_ns: u64, is_such: impl Fn(u8) -> bool) -> Self {
        let queued = before(flow.at(Point::InterfaceEnqueue), until_ns);
        let queued = queued.filter(|pass| is_such(pass.tcp_flags));
        let before_ns = queued.last().map(|pass| pass.at_ns);
        let last_seen = furthest(flow, before_ns.unwrap_or(0), until_ns, is_such);
        Self { before_ns, last_seen }
    }

    fn resent(&self, event: &Record) -> Resent {
        Resent {
            at_ns: event.at_ns,
            offset: event.offset,
            len: 0,
            content: Content::Fin,
            class: RetransmitClass::Unknown,
            before_ns: self.before_ns,
            last_seen: self.last_seen,
            was_needed: false,
            was_dropped_by_interface: false,
            acknowledgment_dropped: None,
        }
    }
}

/// The point nearest to the receiver that a segment with such flags passed between these times.
fn furthest(
    flow: &FlowStore,
    from_ns: u64,
    until_ns: u64,
    is_such: impl Fn(u8) -> bool,
) -> Option<Point> {
    let is_seen = |point: &Point| {
        let passes = flow.at(*point);
        let passes = &passes[passes.partition_point(|pass| pass.at_ns < from_ns)..];
        before(passes, until_ns).any(|pass| is_such(pass.tcp_flags))
    };
    ON_THE_WAY.into_iter().find(is_seen)
}

fn before(passes: &[Passage], until_ns: u64) -> impl Iterator<Item = &Passage> {
    passes.iter().take_while(move |pass| pass.at_ns <= until_ns)
}
