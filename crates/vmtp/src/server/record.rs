//! The server's record of one client.

use super::transaction::{Incoming as Request, Outcome, Token};
use crate::address::{Address, Host};
use crate::asks::Asks;
use crate::config::Config;
use crate::message::{Added, Incoming, Malformed, Outgoing, Piece, RUN_GROUPS_MAX, group_number};
use crate::rate::{Gap, Pace};
use crate::rtt::RoundTrip;
use crate::wire::{Checksum, Code, Control, Entity, GROUP_BYTES, Header, Kind, code, emit};

/// The client's last transaction.
#[derive(Debug)]
pub(super) struct Record<A> {
    /// Number of its first group.
    pub base: u32,
    groups: usize,
    pub from: A,
    pub state: State,
    /// Header of the first packet that arrived.
    head: Header,
    /// Header of the Response.
    answer: Header,
    pub retransmit_count: u8,
    /// Gap that the client asked for; longer after losses.
    pub gap: Gap,
    /// The last probe of the client: its number, and when it left.
    pub probe: Option<(u32, u64)>,
    /// Probes that were answered.
    pub found: u32,
    /// Timeouts since something was heard.
    pub count: u32,
    pub deadline_ns: u64,
    /// When the current data was handed down or asked for.
    pub queued_ns: u64,
    pub pace: Pace,
    pub trip: RoundTrip,
    pub asks: Asks,
    /// When the application answered.
    pub answered_ns: u64,
    /// When its client was heard last.
    pub heard_ns: u64,
    /// The Request is whole, and the application has not taken it; its octets.
    pub queued_bytes: Option<usize>,
    /// It was for a waiting server, and this one did not wait: a repetition is new.
    pub is_refused: bool,
    /// The client has proved that it receives packets at its address.
    pub is_proved: bool,
    /// Octets of packets from this host and to it.
    received_bytes: u64,
    sent_bytes: u64,
    pub charge: Charge,
}

/// The counts that [`Memory`](super::memory::Memory) has of a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Charge {
    pub host: Option<Host>,
    pub bytes: usize,
    pub over_ns: Option<u64>,
    pub answered_ns: Option<u64>,
    pub receiving_ns: Option<u64>,
}

/// Its progress (RFC 1045 §5.1).
#[derive(Debug)]
pub(super) enum State {
    /// Packets of the Request are being received.
    Receiving(Incoming),
    /// The application has it.
    Processing,
    /// The Response was sent and is kept.
    Responded(Outgoing),
    /// The Response is not kept any more.
    Over,
}

/// The relation of a transaction number to the record's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Older,
    /// The same, and which group of its run.
    Same(usize),
    /// The same, answered idempotently or refused, and asked again.
    Again,
    Newer,
}

/// The reaction to a packet of a Request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Nothing,
    /// For the next packet.
    Wait,
    /// Tell the client.
    Notice(u32),
    /// Give it to the application; the client may have asked for a notice, too.
    Whole {
        asked: bool,
    },
    /// Send the Response again.
    Again,
}

impl<A: Address> Record<A> {
    pub(super) fn open(
        now_ns: u64,
        from: A,
        head: &Header,
        config: &Config,
    ) -> Result<Self, Malformed> {
        let incoming = Incoming::new(head, config.segment_bytes_max)?;
        Ok(Self {
            base: head.transaction,
            groups: incoming.groups(),
            from,
            state: State::Receiving(incoming),
            head: *head,
            answer: *head,
            retransmit_count: 0,
            gap: Gap::new(head.control.gap_or_groups),
            probe: None,
            found: 0,
            count: 0,
            deadline_ns: now_ns,
            queued_ns: now_ns,
            pace: Pace::default(),
            trip: RoundTrip::default(),
            asks: Asks::default(),
            answered_ns: now_ns,
            heard_ns: now_ns,
            queued_bytes: None,
            is_refused: false,
            is_proved: false,
            received_bytes: 0,
            sent_bytes: 0,
            charge: Charge::default(),
        })
    }

    /// A packet of `octets` was received.
    pub(super) fn note_received(&mut self, now_ns: u64, from: A, octets: usize) {
        if from.host() != self.from.host() {
            // Octets and proofs of another address do not count for this one.
            (self.received_bytes, self.sent_bytes, self.is_proved) = (0, 0, false);
        }
        self.from = from;
        self.heard_ns = now_ns;
        self.received_bytes += octets as u64;
    }

    /// Octets that may be sent to the client now.
    pub(super) fn allowance(&self, config: &Config) -> u64 {
        if self.is_proved || config.stranger_factor == 0 {
            return u64::MAX;
        }
        let most = self.received_bytes.saturating_mul(u64::from(config.stranger_factor));
        most.saturating_sub(self.sent_bytes)
    }

    /// Whether a packet of `octets` may be sent; it then counts as sent.
    pub(super) fn may_send(&mut self, octets: usize, config: &Config) -> bool {
        let may = octets as u64 <= self.allowance(config);
        self.sent_bytes += if may { octets as u64 } else { 0 };
        debug_assert!(may || !self.is_proved, "a proved address has no limit");
        may
    }

    /// Octets of memory that it takes besides itself.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.state {
            State::Receiving(incoming) => incoming.held_bytes(),
            State::Processing => self.queued_bytes.unwrap_or(0),
            State::Responded(outgoing) => outgoing.held_bytes(),
            State::Over => 0,
        }
    }

    pub(super) fn place_of(&self, transaction: u32) -> Place {
        // Numbers wrap: numbers up to 2^31 ahead are newer.
        let is_repeatable = self.answer.code.datagram || self.is_refused;
        match group_number(self.base, transaction, self.groups) {
            Some(_) if is_repeatable && matches!(self.state, State::Over) => Place::Again,
            Some(group) => Place::Same(group),
            None if transaction.wrapping_sub(self.base) as i32 > 0 => Place::Newer,
            None => Place::Older,
        }
    }

    /// Blocks of a group that are here; all, once the Request was whole.
    pub(super) fn received(&self, group: usize) -> u32 {
        match &self.state {
            State::Receiving(incoming) => incoming.received(group),
            _ => u32::MAX,
        }
    }

    /// Takes a packet of the Request.
    pub(super) fn take(&mut self, header: &Header, data: &[u8], group: usize) -> Answer {
        let asks = header.control.acknowledge;
        let is_repeated = !self.head.control.no_retransmission;
        match &mut self.state {
            State::Receiving(incoming) => {
                let Ok(added) = incoming.add(group, header, data) else {
                    return Answer::Notice(code::VMTP_ERROR);
                };
                self.count = 0;
                let is_whole = incoming.is_whole(group);
                match (incoming.is_complete(), asks, is_whole, added) {
                    (true, ..) => Answer::Whole { asked: asks },
                    (_, true, true, _) => Answer::Notice(code::OK),
                    (_, true, false, _) if is_repeated => Answer::Notice(code::RETRY),
                    (.., Added::Nothing) => Answer::Nothing,
                    _ => Answer::Wait,
                }
            }
            State::Processing if asks => Answer::Notice(code::OK),
            State::Processing => Answer::Nothing,
            // The client sent again for lack of a Response; late packets of a group ask nothing.
            State::Responded(_) if asks || header.control.retransmit_count > 0 => Answer::Again,
            State::Responded(_) => Answer::Nothing,
            State::Over if asks => Answer::Notice(code::RESPONSE_DISCARDED),
            State::Over => Answer::Nothing,
        }
    }

    /// The Request, once.
    pub(super) fn deliver(&mut self) -> Option<Request<A>> {
        if !matches!(self.state, State::Receiving(_)) {
            return None;
        }
        let State::Receiving(incoming) = std::mem::replace(&mut self.state, State::Processing)
        else {
            return None;
        };
        let delivery = self.head.code.message_mask.then(|| incoming.received(0));
        let segment = incoming.into_segment();
        self.queued_bytes = Some(segment.len());
        Some(Request {
            token: Token { client: self.head.client, transaction: self.base },
            from: self.from,
            server: self.head.server,
            code: self.head.code.value,
            user: std::array::from_fn(|at| self.head.parameters[8 + at]),
            segment,
            delivery,
            is_from_member: self.head.control.member_of_group,
        })
    }

    /// The flags that its client set.
    pub(super) fn flags(&self) -> (Control, Code) {
        (self.head.control, self.head.code)
    }

    /// Whether a Response with data was sent that is not known to have arrived.
    pub(super) fn keeps_answer(&self) -> bool {
        matches!(&self.state, State::Responded(outgoing) if outgoing.bytes() > 0)
    }

    /// Whether a Response without data was sent, which is kept in case the client asks again.
    pub(super) fn has_short_answer(&self) -> bool {
        matches!(&self.state, State::Responded(outgoing) if outgoing.bytes() == 0)
    }

    /// Whether packets of the Request still wait for others.
    pub(super) fn is_receiving(&self) -> bool {
        matches!(self.state, State::Receiving(_))
    }

    pub(super) fn awaits_answer(&self, transaction: u32) -> bool {
        matches!(self.state, State::Processing) && self.base == transaction
    }

    /// The longest segment that the client takes.
    pub(super) fn segment_bytes_max(&self, config: &Config) -> usize {
        let takes_runs = self.head.control.skip_transactions;
        if takes_runs {
            config.segment_bytes_max
        } else {
            GROUP_BYTES.min(config.segment_bytes_max)
        }
    }

    pub(super) fn answer(&mut self, server: Entity, outcome: Outcome, window_groups: usize) {
        let mut answer = Header {
            control: Control {
                kind: Kind::Response,
                skip_transactions: self.head.control.skip_transactions,
                forward_count: self.head.control.forward_count,
                priority: self.head.control.priority,
                ..Control::default()
            },
            multicast: false,
            transaction: self.base,
            delivery: 0,
            server,
            code: Code { datagram: outcome.idempotent, ..Code::new(outcome.code) },
            parameters: [0; 28],
            ..self.head
        };
        assert!(matches!(self.state, State::Processing), "an answer to no Request");
        answer.put(0, &outcome.user);
        answer.set_segment_size(outcome.segment.len() as u32);
        let mut outgoing = Outgoing::new(outcome.segment);
        outgoing.advance(window_groups);
        // A run of Responses takes the numbers that STI left free.
        self.groups = self.groups.max(outgoing.groups()).min(RUN_GROUPS_MAX);
        self.answer = answer;
        self.count = 0;
        self.state = State::Responded(outgoing);
    }

    /// TS3: the limit for the client's notice, longer with each that did not arrive.
    pub(super) fn acknowledgment_ns(&self, config: &Config) -> u64 {
        let trip_ns = self.trip.limit_ns(config.round_trip_ns_min, config.round_trip_ns);
        (trip_ns << self.count.min(16)).min(config.service_ns.max(trip_ns))
    }

    /// TS2: the silence of the client after which it is sought, longer each time that it was found.
    pub(super) fn orphan_ns(&self, config: &Config) -> u64 {
        let trip_ns = self.trip.limit_ns(config.round_trip_ns_min, config.round_trip_ns);
        // TC1 and three times TC2 (RFC 1045 §5.8).
        let silent_ns = config.service_ns.saturating_add(trip_ns.saturating_mul(4));
        (silent_ns << self.found.min(16)).min(config.backoff_ns_max.max(silent_ns))
    }

    /// Whether `transaction` is one of its groups' numbers.
    pub(super) fn has(&self, transaction: u32) -> bool {
        group_number(self.base, transaction, self.groups).is_some()
    }

    /// TS5: TS3, and three times the time that the Response takes on the link.
    pub(super) fn response_ns(&self, config: &Config) -> u64 {
        let bytes = match &self.state {
            State::Responded(outgoing) => outgoing.bytes(),
            _ => 0,
        };
        let sending_ns = config.sending_ns(bytes, self.gap.of_32());
        self.acknowledgment_ns(config).saturating_add(sending_ns.saturating_mul(3))
    }

    pub(super) fn outgoing(&mut self) -> Option<&mut Outgoing> {
        match &mut self.state {
            State::Responded(outgoing) => Some(outgoing),
            _ => None,
        }
    }

    /// The request for missing blocks: address, header of the group, its received blocks.
    pub(super) fn missing(&self) -> (A, Header, u32) {
        let group = match &self.state {
            State::Receiving(incoming) => incoming.first_missing(),
            _ => 0,
        };
        let transaction = self.base.wrapping_add(group as u32);
        let mut header = Header { transaction, multicast: false, ..self.head };
        header.control.retransmit_count = self.retransmit_count;
        (self.from, header, self.received(group))
    }

    /// Writes a packet of the Response; true when more wait.
    pub(super) fn emit(
        &mut self,
        now_ns: u64,
        piece: Piece,
        protect: Checksum,
        to: &mut Vec<u8>,
    ) -> bool {
        let (count, again) = (self.retransmit_count, self.count > 0);
        let mut header = self.answer;
        let State::Responded(outgoing) = &self.state else { return false };
        assert!(piece.group < outgoing.groups(), "group {} of {}", piece.group, outgoing.groups());
        let is_last = piece.group + 1 == outgoing.groups();
        header.transaction = self.base.wrapping_add(piece.group as u32);
        header.delivery = piece.delivery;
        header.control.retransmit_count = count;
        header.control.acknowledge = piece.asks || again;
        header.control.not_start_of_run = piece.group > 0;
        header.control.not_end_of_run = !is_last;
        header.control.message_continues = !is_last;
        // The client's notices have no number of a sending.
        self.asks.sent(now_ns, &header, 0);
        emit(&header, outgoing.data(piece), protect, to);
        let is_kept = !header.code.datagram;
        let waits = outgoing.has_queued();
        if !waits && !is_kept {
            self.state = State::Over;
        }
        waits
    }
}
