//! What kept the head of the send queue from being sent, over time.
//!
//! Each record at points 1 and 2 says what holds the next byte from then on; the latest one up to an
//! instant counts there, and of two at one instant that of point 2. A window that was full then may
//! open and release nothing, as the rest is short and Nagle's rule takes over. No byte moves, so no
//! record says so: that is told from the acknowledgment that opened it.

use std::slice::Iter;

use sockscope_record::{Direction, Hold, Kind, Point, Record, tcp_flags};

use crate::send_queue::{self, SendQueueStep};
use crate::{ConnectionStore, LedgerPart, Pass};

/// What an acknowledgment releases leaves right behind it; what stays for longer is held by something
/// else.
const RELEASE_NS_MAX: u64 = 1_000_000;

/// Level and number of the options `TCP_NODELAY` and `TCP_CORK`, as in a record.
const NODELAY: u32 = 6 << 16 | 1;
const CORK: u32 = 6 << 16 | 3;

/// From `at_ns` on, `hold` keeps the first unsent byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HoldStep {
    pub at_ns: u64,
    pub hold: Hold,
    /// How much waits in the send queue.
    pub unsent_bytes: u64,
}

/// What holds one flow's unsent bytes, in time order.
pub(crate) fn steps(
    store: &ConnectionStore,
    direction: Direction,
) -> impl Iterator<Item = HoldStep> {
    let flow = store.flow(direction);
    let mut steps = send_queue::steps(flow).peekable();
    let mut acks = acks_received(&store.flows[1 - direction as usize]).iter().peekable();
    let mut sender = Sender::new(flow.at(Point::SendDequeue), &flow.events);
    std::iter::from_fn(move || {
        let until_ns = steps.peek().map_or(u64::MAX, |step| step.pass.at_ns);
        while let Some(ack) = acks.next_if(|ack| ack.at_ns <= until_ns) {
            if sender.takes(ack)
                && let Some(step) = sender.opened_at(ack.at_ns)
            {
                return Some(step);
            }
        }
        steps.next().map(|step| sender.moves(&step))
    })
}

/// Segments of the reverse flow that come in, with their acknowledgments.
pub(crate) fn acks_received(reverse: &crate::FlowStore) -> &[Pass] {
    match reverse.at(Point::InputDequeue) {
        [] => reverse.at(Point::InputEnqueue),
        passes => passes,
    }
}

/// What is known of the end that sends.
struct Sender<'a> {
    taken: &'a [Pass],
    /// What is still to come of the flow's events.
    events: Iter<'a, Record>,
    settings: Settings,
    hold: Hold,
    sent_end: u64,
    unsent_bytes: u64,
    /// First byte not acknowledged, and the right edge of the receive window.
    acknowledged: u64,
    edge: u64,
    /// What was in flight when the hold was told, and when that was.
    told_flight_bytes: u64,
    told_ns: u64,
}

/// What events say of the sending end.
#[derive(Default)]
struct Settings {
    segment_bytes: Option<u32>,
    sends_at_once: bool,
    is_corked: bool,
    is_repairing: bool,
    resent_ns: Option<u64>,
}

impl<'a> Sender<'a> {
    fn new(taken: &'a [Pass], events: &'a [Record]) -> Self {
        Self {
            taken,
            events: events.iter(),
            settings: Settings::default(),
            hold: Hold::None,
            sent_end: 0,
            unsent_bytes: 0,
            acknowledged: 0,
            edge: 0,
            told_flight_bytes: 0,
            told_ns: 0,
        }
    }

    fn moves(&mut self, step: &SendQueueStep<'_>) -> HoldStep {
        let SendQueueStep { pass, sent_end, unsent_bytes, .. } = *step;
        let hold = Hold::from_code(pass.code);
        (self.hold, self.sent_end, self.unsent_bytes) = (hold, sent_end, unsent_bytes);
        (self.told_ns, self.told_flight_bytes) = (pass.at_ns, self.flight_bytes());
        HoldStep { at_ns: pass.at_ns, hold, unsent_bytes }
    }

    /// Whether this acknowledgment is none older than those before (RFC 9293 §3.10.7.4, SND.WL2).
    fn takes(&mut self, ack: &Pass) -> bool {
        let says = ack.tcp_flags & (tcp_flags::ACK | tcp_flags::SYN | tcp_flags::RST);
        let is_taken = says == tcp_flags::ACK && ack.detail >= self.acknowledged;
        if is_taken {
            self.acknowledged = ack.detail;
            self.edge = ack.detail.saturating_add(u64::from(ack.extra));
        }
        is_taken
    }

    fn flight_bytes(&self) -> u64 {
        self.sent_end.saturating_sub(self.acknowledged)
    }

    /// The step that an acknowledgment at `at_ns` makes: the window was full and has now room for all
    /// that waits, which does not leave all the same.
    fn opened_at(&mut self, at_ns: u64) -> Option<HoldStep> {
        let fits_window = self.sent_end.saturating_add(self.unsent_bytes) <= self.edge;
        let was_full = matches!(self.hold, Hold::Rwnd | Hold::Cwnd);
        if !was_full || self.unsent_bytes == 0 || !fits_window || self.is_released_at(at_ns) {
            return None;
        }
        while let Some(event) = self.events.as_slice().first().filter(|event| event.at_ns <= at_ns)
        {
            self.settings.take(event);
            self.events.next();
        }
        if self.hold == Hold::Cwnd && !self.congestion_window_has_room() {
            return None;
        }
        self.hold = self.hold_of_rest()?;
        Some(HoldStep { at_ns, hold: self.hold, unsent_bytes: self.unsent_bytes })
    }

    fn is_released_at(&self, at_ns: u64) -> bool {
        let next = self.taken.partition_point(|pass| pass.at_ns < at_ns);
        self.taken.get(next).is_some_and(|pass| pass.at_ns - at_ns <= RELEASE_NS_MAX)
    }

    /// What was in flight when the window was full fits it, and acknowledgments make it no smaller
    /// but where losses are repaired (RFC 5681 §3).
    fn congestion_window_has_room(&self) -> bool {
        let has_resent = self.settings.resent_ns.is_some_and(|at_ns| at_ns >= self.told_ns);
        let flight_bytes = self.flight_bytes().saturating_add(self.unsent_bytes);
        !has_resent && !self.settings.is_repairing && flight_bytes <= self.told_flight_bytes
    }

    /// What holds a rest for which both windows have room: it must be short. Nagle's rule
    /// (RFC 9293 §3.7.4) holds it behind unacknowledged data. `None` where neither can be.
    fn hold_of_rest(&self) -> Option<Hold> {
        let Settings { segment_bytes, sends_at_once, is_corked, .. } = self.settings;
        let is_short = self.unsent_bytes < u64::from(segment_bytes?);
        if !is_short {
            None
        } else if is_corked {
            Some(Hold::Cork)
        } else {
            (!sends_at_once && self.flight_bytes() > 0).then_some(Hold::Nagle)
        }
    }
}

impl Settings {
    fn take(&mut self, event: &Record) {
        let is_on = event.detail & u64::from(u32::MAX) != 0;
        match (event.kind, event.extra) {
            (Kind::SendWindow, bytes) if bytes > 0 => self.segment_bytes = Some(bytes),
            (Kind::SocketOption, NODELAY) => self.sends_at_once = is_on,
            (Kind::SocketOption, CORK) => self.is_corked = is_on,
            (Kind::TcpState, _) => self.is_repairing = event.code != 0,
            (Kind::Retransmit, _) => self.resent_ns = Some(event.at_ns),
            _ => {}
        }
    }
}

/// Walks through the steps at growing times.
pub(crate) struct Holds<'a> {
    /// The first step not past yet, and those after it.
    next: Option<HoldStep>,
    rest: Box<dyn Iterator<Item = HoldStep> + 'a>,
    part: LedgerPart,
}

impl<'a> Holds<'a> {
    pub(crate) fn new(store: &'a ConnectionStore, direction: Direction) -> Self {
        let mut rest = Box::new(steps(store, direction));
        Self { next: rest.next(), rest, part: LedgerPart::SendOther }
    }

    /// Calls `each` with start, end and part of every stretch of `[start_ns, end_ns)`, in order;
    /// `start_ns` is not before the `end_ns` of the call before.
    pub(crate) fn between(
        &mut self,
        start_ns: u64,
        end_ns: u64,
        mut each: impl FnMut(u64, u64, LedgerPart),
    ) {
        let mut at_ns = start_ns;
        while let Some(step) = self.next.filter(|step| step.at_ns < end_ns) {
            if step.at_ns > at_ns {
                each(at_ns, step.at_ns, self.part);
                at_ns = step.at_ns;
            }
            self.part = part_of(step.hold);
            self.next = self.rest.next();
        }
        if at_ns < end_ns {
            each(at_ns, end_ns, self.part);
        }
    }
}

fn part_of(hold: Hold) -> LedgerPart {
    match hold {
        Hold::Nagle => LedgerPart::SendNagle,
        Hold::Cork => LedgerPart::SendCork,
        Hold::Cwnd => LedgerPart::SendCwnd,
        Hold::Rwnd => LedgerPart::SendRwnd,
        Hold::Pacing | Hold::SmallQueue => LedgerPart::SendPacing,
        Hold::None | Hold::Other => LedgerPart::SendOther,
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use sockscope_record::{Direction, Hold};

    use crate::testing;

    /// What holds the client's bytes, from when on.
    fn holds(text: &str) -> String {
        let store = testing::store(text);
        let steps = super::steps(&store, Direction::FromClient);
        let said = steps
            .filter(|step| step.hold != Hold::None)
            .map(|step| format!("{}us {}", step.at_ns / 1000, step.hold.name()));
        said.collect::<Vec<_>>().join(" | ")
    }

    /// A full window of 1000 bytes, of which all are in flight, and 300 more that wait.
    fn full(hold: &str, then: &str) -> String {
        format!(
            "0us send-window detail=1000 extra=1460 | 1us 1-2 +1000
             2us 1 +300 {hold} | {then} | 200ms 2 +300"
        )
    }

    #[test]
    fn a_short_rest_that_an_opened_window_does_not_release_is_nagles() {
        let opens = "9us <6 ack=900 win=4096";
        assert_snapshot!(holds(&full("rwnd", opens)), @"2us rwnd | 9us nagle");
    }

    #[test]
    fn a_window_that_opens_too_little_still_holds() {
        assert_snapshot!(holds(&full("rwnd", "9us <6 ack=900 win=399")), @"2us rwnd");
        let by_and_by = "9us <6 ack=900 win=100 | 12us <6 ack=900 win=400";
        assert_snapshot!(holds(&full("rwnd", by_and_by)), @"2us rwnd | 12us nagle");
    }

    #[test]
    fn an_older_acknowledgment_does_not_open_the_window() {
        let overtaken = "8us <6 ack=900 win=0 | 9us <6 ack=800 win=4096";
        assert_snapshot!(holds(&full("rwnd", overtaken)), @"2us rwnd");
    }

    #[test]
    fn what_leaves_right_behind_the_acknowledgment_was_released_by_it() {
        let text = full("rwnd", "9us <6 ack=900 win=4096 | 400us 2 +300");
        assert_snapshot!(holds(&text), @"2us rwnd");
    }

    #[test]
    fn nagles_rule_holds_neither_a_whole_segment_nor_behind_nothing_in_flight() {
        let one_segment =
            full("rwnd", "9us <6 ack=900 win=4096").replace("extra=1460", "extra=300");
        assert_snapshot!(holds(&one_segment), @"2us rwnd");
        assert_snapshot!(holds(&full("rwnd", "9us <6 ack=1000 win=4096")), @"2us rwnd");
    }

    #[test]
    fn with_nodelay_it_is_not_nagle_and_with_cork_the_cork() {
        let opens = "9us <6 ack=900 win=4096";
        let option = |number: u32, value| {
            let extra = 6 << 16 | number;
            full("rwnd", &format!("3us option extra={extra} detail={value} | {opens}"))
        };
        assert_snapshot!(holds(&option(1, 1)), @"2us rwnd");
        assert_snapshot!(holds(&option(1, 0)), @"2us rwnd | 9us nagle");
        assert_snapshot!(holds(&option(3, 1)), @"2us rwnd | 9us cork");
    }

    #[test]
    fn without_a_segment_size_nothing_is_short() {
        let text = full("rwnd", "9us <6 ack=900 win=4096").replace("extra=1460", "");
        assert_snapshot!(holds(&text), @"2us rwnd");
    }

    #[test]
    fn a_congestion_window_has_room_once_as_much_as_waits_was_acknowledged() {
        assert_snapshot!(holds(&full("cwnd", "9us <6 ack=299 win=4096")), @"2us cwnd");
        assert_snapshot!(holds(&full("cwnd", "9us <6 ack=300 win=4096")), @"2us cwnd | 9us nagle");
    }

    #[test]
    fn a_congestion_window_that_a_loss_cut_is_not_known_to_have_room() {
        let opens = "9us <6 ack=900 win=4096";
        let repaired = full("cwnd", &format!("3us retransmit 0..100 | {opens}"));
        assert_snapshot!(holds(&repaired), @"2us cwnd");
        assert_snapshot!(holds(&full("cwnd", &format!("3us tcp-state code=3 | {opens}"))), @"2us cwnd");
    }
}
