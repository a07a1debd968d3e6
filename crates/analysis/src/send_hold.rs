//! Holds of the send queue over time: the reasons why its first byte was not sent.
//!
//! Each record at points 1 and 2 has the hold of the next byte from then on; the latest one up to an
//! instant counts there, and of two at one instant that of point 2. A window that was full then may
//! open and release nothing, as the rest is short and Nagle's rule takes over. No byte moves, so that
//! no record shows it: the evidence is the acknowledgment that opened it, and the one that releases
//! the rest.

use std::slice::Iter;

use sockscope_record::{Direction, Hold, Kind, Point, Record, tcp_flags};

use crate::send_queue::{self, SegmentSizes, SendQueueStep};
use crate::{ConnectionStore, FlowStore, LedgerPart, Passage};

/// Bytes that an acknowledgment or a call releases leave right after it, an acknowledgment's in the
/// same softirq; bytes that stay for longer have another hold.
pub(crate) const RELEASE_NS_MAX: u64 = 1_000_000;

/// A sender that paces sends by itself within this time, on a path worth pacing in far less.
const PACED_NS_MAX: u64 = 10_000_000;

/// Level and number of the options `TCP_NODELAY` and `TCP_CORK`, as in a record.
pub(crate) const NODELAY: (u16, u16) = (6, 1);
pub(crate) const CORK: (u16, u16) = (6, 3);

/// From `at_ns` on, `hold` keeps the first unsent byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HoldStep {
    pub at_ns: u64,
    pub hold: Hold,
    /// Number of bytes that wait in the send queue.
    pub unsent_bytes: u64,
}

/// Holds of one flow's unsent bytes, in time order.
pub(crate) fn steps(
    store: &ConnectionStore,
    direction: Direction,
) -> impl Iterator<Item = HoldStep> {
    let flow = store.flow(direction);
    let mut steps = send_queue::steps(flow).peekable();
    let received = acks_received(store.reverse(direction));
    let mut acks = received.iter().peekable();
    let mut sender = Sender::new(flow, received);
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

/// Segments of the reverse flow that arrive, with their acknowledgments.
pub(crate) fn acks_received(reverse: &FlowStore) -> &[Passage] {
    match reverse.at(Point::InputDequeue) {
        [] => reverse.at(Point::InputEnqueue),
        passes => passes,
    }
}

/// State of the end that sends.
struct Sender<'a> {
    taken: &'a [Passage],
    acks: &'a [Passage],
    /// Some record of the flow shows pacing.
    is_paced: bool,
    /// A record up to now reported Nagle's rule.
    was_nagle_told: bool,
    /// Later events of the flow.
    events: Iter<'a, Record>,
    settings: Settings,
    segment_sizes: SegmentSizes,
    hold: Hold,
    sent_end: u64,
    unsent_bytes: u64,
    /// First byte not acknowledged, and the right edge of the receive window.
    acknowledged: u64,
    edge: u64,
    /// Bytes in flight when the hold was recorded, and the time of that record.
    told_flight_bytes: u64,
    told_ns: u64,
}

/// Settings of the sending end, by events.
#[derive(Default)]
struct Settings {
    segment_bytes: Option<u32>,
    /// When that last became less.
    shrunk_ns: u64,
    sends_at_once: bool,
    is_corked: bool,
    is_repairing: bool,
    resent_ns: Option<u64>,
}

impl<'a> Sender<'a> {
    fn new(flow: &'a FlowStore, acks: &'a [Passage]) -> Self {
        let [entered, taken] = [Point::SendEnqueue, Point::SendDequeue].map(|point| flow.at(point));
        let mut passes = entered.iter().chain(taken);
        Self {
            taken,
            acks,
            is_paced: passes.any(|pass| pass.hold() == Hold::Pacing),
            was_nagle_told: false,
            events: flow.events.iter(),
            settings: Settings::default(),
            segment_sizes: SegmentSizes::of(flow),
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
        debug_assert!(self.told_ns <= pass.at_ns && self.sent_end <= sent_end);
        let hold = pass.hold();
        (self.hold, self.sent_end, self.unsent_bytes) = (hold, sent_end, unsent_bytes);
        self.was_nagle_told |= hold == Hold::Nagle;
        (self.told_ns, self.told_flight_bytes) = (pass.at_ns, self.flight_bytes());
        if hold == Hold::Pacing {
            self.take_events(pass.at_ns);
            if self.is_kept_for_ack(pass.at_ns.saturating_add(1)) {
                self.hold = Hold::Other;
            }
        }
        HoldStep { at_ns: pass.at_ns, hold: self.hold, unsent_bytes }
    }

    /// Whether a rest that is recorded as paced stays from `at_ns` on for long and leaves with the
    /// acknowledgment of all in flight: no timer sends so. `MSG_MORE` keeps the end of a long call so,
    /// and no record shows the flag.
    fn is_kept_for_ack(&self, at_ns: u64) -> bool {
        let is_long = self.next_taken(at_ns).is_some_and(|next| next.at_ns - at_ns > PACED_NS_MAX);
        is_long && self.is_short() && self.ends_by_last_ack(at_ns)
    }

    fn is_short(&self) -> bool {
        self.segment_bytes().is_some_and(|bytes| self.unsent_bytes < bytes.into())
    }

    fn segment_bytes(&self) -> Option<u32> {
        let seen_bytes = self.segment_sizes.seen_at(self.settings.shrunk_ns);
        self.settings.segment_bytes.map(|bytes| bytes.max(seen_bytes))
    }

    /// Whether this acknowledgment is not older than those before (RFC 9293 §3.10.7.4, SND.WL2).
    fn takes(&mut self, ack: &Passage) -> bool {
        let is_taken = is_plain_ack(ack) && ack.acknowledged() >= self.acknowledged;
        if is_taken {
            self.acknowledged = ack.acknowledged();
            self.edge = ack.window_edge();
        }
        is_taken
    }

    fn flight_bytes(&self) -> u64 {
        self.sent_end.saturating_sub(self.acknowledged)
    }

    /// The step that an acknowledgment at `at_ns` makes: the window was full and has now room for all
    /// waiting bytes, which still do not leave.
    fn opened_at(&mut self, at_ns: u64) -> Option<HoldStep> {
        let fits_window = self.sent_end.saturating_add(self.unsent_bytes) <= self.edge;
        let was_full = matches!(self.hold, Hold::Rwnd | Hold::Cwnd);
        if !was_full || self.unsent_bytes == 0 || !fits_window || self.is_released_at(at_ns) {
            return None;
        }
        debug_assert!(self.told_ns <= at_ns);
        self.take_events(at_ns);
        if self.hold == Hold::Cwnd && !self.congestion_window_has_room() {
            return None;
        }
        self.hold = self.hold_of_rest(at_ns)?;
        Some(HoldStep { at_ns, hold: self.hold, unsent_bytes: self.unsent_bytes })
    }

    fn take_events(&mut self, until_ns: u64) {
        while let Some(event) =
            self.events.as_slice().first().filter(|event| event.at_ns <= until_ns)
        {
            self.settings.take(event);
            self.events.next();
        }
    }

    fn is_released_at(&self, at_ns: u64) -> bool {
        let next = self.next_taken(at_ns);
        next.is_some_and(|pass| pass.at_ns - at_ns <= RELEASE_NS_MAX)
    }

    fn next_taken(&self, at_ns: u64) -> Option<&'a Passage> {
        self.taken.get(self.taken.partition_point(|pass| pass.at_ns < at_ns))
    }

    /// The bytes in flight when the window was full fit it, and acknowledgments make it no smaller
    /// except where losses are repaired (RFC 5681 §3).
    fn congestion_window_has_room(&self) -> bool {
        let flight_bytes = self.flight_bytes().saturating_add(self.unsent_bytes);
        !self.is_repairing() && flight_bytes <= self.told_flight_bytes
    }

    fn is_repairing(&self) -> bool {
        let has_resent = self.settings.resent_ns.is_some_and(|at_ns| at_ns >= self.told_ns);
        has_resent || self.settings.is_repairing
    }

    /// Hold from `at_ns` on of a rest for which both windows have room. That is certain of the
    /// receive window, so that another hold is `other`; `None` where it may still be the congestion
    /// window.
    fn hold_of_rest(&self, at_ns: u64) -> Option<Hold> {
        let is_short = self.is_short();
        if is_short && self.settings.is_corked {
            Some(Hold::Cork)
        } else if is_short && self.is_nagles(at_ns) {
            Some(Hold::Nagle)
        } else {
            (self.hold == Hold::Rwnd).then_some(Hold::Other)
        }
    }

    /// Whether Nagle's rule (RFC 9293 §3.7.4) holds the short rest for certain. The rule held bytes
    /// of this flow before, as an option that was set before the recording or inherited from a
    /// listener has no other evidence; a short segment is in flight, as senders with Minshall's
    /// variant require; and the acknowledgment of all bytes in flight releases the rest, which no
    /// timer does.
    fn is_nagles(&self, at_ns: u64) -> bool {
        let may_be = self.was_nagle_told && !self.settings.sends_at_once;
        let has_other_cause = self.is_paced || self.is_repairing();
        may_be && !has_other_cause && self.is_short_in_flight(at_ns) && self.ends_by_last_ack(at_ns)
    }

    fn is_short_in_flight(&self, at_ns: u64) -> bool {
        let Some(segment_bytes) = self.segment_bytes() else { return false };
        let taken = &self.taken[..self.taken.partition_point(|pass| pass.at_ns < at_ns)];
        send_queue::has_short(taken, self.acknowledged, segment_bytes)
    }

    /// Whether the next that leaves after `at_ns` is the rest, right behind the first acknowledgment of
    /// all that is in flight.
    fn ends_by_last_ack(&self, at_ns: u64) -> bool {
        let Some(rest) = self.next_taken(at_ns).filter(|pass| pass.end() > self.sent_end) else {
            return false;
        };
        let later = &self.acks[self.acks.partition_point(|ack| ack.at_ns <= at_ns)..];
        let mut acks = later.iter().take_while(|ack| ack.at_ns <= rest.at_ns);
        let of_all = acks.find(|ack| is_plain_ack(ack) && ack.acknowledged() >= self.sent_end);
        of_all.is_some_and(|ack| rest.at_ns - ack.at_ns <= RELEASE_NS_MAX)
    }
}

/// Whether its acknowledgment and window count as they do of an open connection.
pub(crate) fn is_plain_ack(pass: &Passage) -> bool {
    let says = pass.tcp_flags & (tcp_flags::ACK | tcp_flags::SYN | tcp_flags::RST);
    says == tcp_flags::ACK
}

/// Whether the program asked for the option, and not to be without it.
pub(crate) fn is_option_on(event: &Record) -> bool {
    event.socket_option().is_some_and(|option| option.asked != 0)
}

/// Whether the event sets or clears the option of this level and number.
pub(crate) fn is_of_option(event: &Record, name: (u16, u16)) -> bool {
    event.socket_option().is_some_and(|option| option.name == name)
}

impl Settings {
    fn take(&mut self, event: &Record) {
        if let Some(window) = event.send_window() {
            self.take_segment_size(window.segment_bytes, event.at_ns);
        } else if is_of_option(event, NODELAY) {
            self.sends_at_once = is_option_on(event);
        } else if is_of_option(event, CORK) {
            self.is_corked = is_option_on(event);
        } else if let Some(congestion) = event.congestion() {
            self.is_repairing = congestion.state != 0;
        } else if event.kind == Kind::Retransmit {
            self.resent_ns = Some(event.at_ns);
        }
    }

    /// A size of 0 is not known.
    fn take_segment_size(&mut self, bytes: u32, at_ns: u64) {
        if bytes == 0 {
            return;
        }
        if self.segment_bytes.is_some_and(|before| bytes < before) {
            self.shrunk_ns = at_ns;
        }
        self.segment_bytes = Some(bytes);
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

    /// Holds of the client's bytes from 2 us on, with their start times.
    fn holds(text: &str) -> String {
        let store = testing::store(text);
        let steps = super::steps(&store, Direction::FromClient);
        let said = steps
            .filter(|step| step.hold != Hold::None && step.at_ns >= 2_000)
            .map(|step| format!("{}us {}", step.at_ns / 1000, step.hold.name()));
        said.collect::<Vec<_>>().join(" | ")
    }

    /// Nagle's rule was at work, then a full window of 1000 bytes, all of them in flight, and 300 more
    /// that wait until all is acknowledged.
    fn full(hold: &str, then: &str) -> String {
        format!(
            "0us send-window detail=1000 extra=1460 | 1us 1 +1000 nagle | 1us 2 +1000
             2us 1 +300 {hold} | {then} | 200ms <6 ack=1000 win=4096 | 200300us 2 +300"
        )
    }

    const OPENS: &str = "9us <6 ack=900 win=4096";

    #[test]
    fn a_short_rest_that_an_opened_window_does_not_release_is_nagles() {
        assert_snapshot!(holds(&full("rwnd", OPENS)), @"2us rwnd | 9us nagle");
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
        let text = full("rwnd", &format!("{OPENS} | 400us 2 +300"));
        assert_snapshot!(holds(&text), @"2us rwnd");
    }

    #[test]
    fn nagles_rule_holds_neither_a_whole_segment_nor_behind_nothing_in_flight() {
        let one_segment = full("rwnd", OPENS).replace("extra=1460", "extra=300");
        assert_snapshot!(holds(&one_segment), @"2us rwnd | 9us other");
        assert_snapshot!(holds(&full("rwnd", "9us <6 ack=1000 win=4096")), @"2us rwnd | 9us other");
    }

    #[test]
    fn with_nodelay_it_is_not_nagle_and_with_cork_the_cork() {
        let option = |number: u32, value| {
            let extra = 6 << 16 | number;
            full("rwnd", &format!("3us option extra={extra} detail={value} | {OPENS}"))
        };
        assert_snapshot!(holds(&option(1, 1)), @"2us rwnd | 9us other");
        assert_snapshot!(holds(&option(1, 0)), @"2us rwnd | 9us nagle");
        assert_snapshot!(holds(&option(3, 1)), @"2us rwnd | 9us cork");
    }

    #[test]
    fn where_nagles_rule_never_showed_tcp_nodelay_may_be_inherited() {
        let text = full("rwnd", OPENS).replace("+1000 nagle", "+1000");
        assert_snapshot!(holds(&text), @"2us rwnd | 9us other");
    }

    #[test]
    fn behind_whole_segments_only_minshalls_variant_does_not_hold() {
        let text = full("rwnd", OPENS).replace("extra=1460", "extra=500");
        assert_snapshot!(holds(&text), @"2us rwnd | 9us other");
    }

    #[test]
    fn what_leaves_without_the_acknowledgment_of_all_was_held_by_something_else() {
        let text = full("rwnd", OPENS);
        let early = text.replace("200ms <6 ack=1000", "200ms <6 ack=999");
        assert_snapshot!(holds(&early), @"2us rwnd | 9us other");
        assert_snapshot!(holds(&text.replace("200300us 2", "300ms 2")), @"2us rwnd | 9us other");
        assert_snapshot!(holds(&text.replace("200300us 2 +300", "300ms <6")), @"2us rwnd | 9us other");
    }

    #[test]
    fn a_flow_that_is_paced_may_wait_for_its_timer() {
        let text = format!("{} | 300ms 1 +300 pacing", full("rwnd", OPENS));
        assert_snapshot!(holds(&text), @"2us rwnd | 9us other | 300000us pacing");
    }

    #[test]
    fn what_waits_for_the_acknowledgment_of_all_in_flight_is_not_paced() {
        let text = full("pacing", "");
        assert_snapshot!(holds(&text), @"2us other");
        let by_timer = text.replace("200300us 2", "202ms 2");
        assert_snapshot!(holds(&by_timer), @"2us pacing");
        let early = text.replace("200ms <6 ack=1000", "200ms <6 ack=999");
        assert_snapshot!(holds(&early), @"2us pacing");
        let whole =
            text.replace("extra=1460", "extra=300").replace("2 +1000", "2 +1000 aggregated");
        assert_snapshot!(holds(&whole), @"2us pacing");
        assert_snapshot!(holds(&text.replace("200300us", "9300us").replace("200ms", "9ms")), @"2us pacing");
    }

    #[test]
    fn a_segment_that_was_seen_is_no_larger_than_they_are_made() {
        // A client's kernel reported the size before the peer named its own.
        let stale = full("rwnd", OPENS).replace("extra=1460", "extra=299");
        assert_snapshot!(holds(&stale.replace("| 1us 2 +1000", "| 1us 2 +600 | 1us 2 +400")), @"2us rwnd | 9us nagle");
    }

    #[test]
    fn once_they_are_made_smaller_a_whole_one_is_not_short() {
        let text = full("rwnd", OPENS).replace("| 1us 2 +1000", "| 1us 2 +600 | 1us 2 +400");
        let shrunk =
            |bytes| text.replace("2us 1", &format!("2us send-window extra={bytes} | 2us 1"));
        assert_snapshot!(holds(&shrunk(300)), @"2us rwnd | 9us other");
        assert_snapshot!(holds(&shrunk(301)), @"2us rwnd | 9us nagle");
    }

    #[test]
    fn without_a_segment_size_nothing_is_short() {
        let text = full("rwnd", OPENS).replace("extra=1460", "");
        assert_snapshot!(holds(&text), @"2us rwnd | 9us other");
    }

    #[test]
    fn a_congestion_window_has_room_once_as_much_as_waits_was_acknowledged() {
        assert_snapshot!(holds(&full("cwnd", "9us <6 ack=299 win=4096")), @"2us cwnd");
        assert_snapshot!(holds(&full("cwnd", "9us <6 ack=300 win=4096")), @"2us cwnd | 9us nagle");
    }

    #[test]
    fn a_congestion_window_that_a_loss_cut_is_not_known_to_have_room() {
        let repaired = full("cwnd", &format!("3us retransmit 0..100 | {OPENS}"));
        assert_snapshot!(holds(&repaired), @"2us cwnd");
        assert_snapshot!(holds(&full("cwnd", &format!("3us tcp-state code=3 | {OPENS}"))), @"2us cwnd");
    }
}
