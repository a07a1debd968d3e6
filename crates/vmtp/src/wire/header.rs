//! The header's fields (RFC 1045 §3.2, §3.3).

use super::entity::Entity;

/// Whether a packet asks or answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// Goes to the server.
    #[default]
    Request,
    /// Goes to the client.
    Response,
}

/// The control word (octets 12 to 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Control {
    /// Request or Response.
    pub kind: Kind,
    /// NRS: the next receive sequence is used.
    pub next_receive_sequence: bool,
    /// APG: acknowledge this packet group.
    pub acknowledge: bool,
    /// NSR: not the start of a run.
    pub not_start_of_run: bool,
    /// NER: not the end of a run.
    pub not_end_of_run: bool,
    /// NRT: no retransmission.
    pub no_retransmission: bool,
    /// MDG: the client is a member of the destination group (Request).
    pub member_of_group: bool,
    /// CMG: the message continues in the next group.
    pub message_continues: bool,
    /// STI: 256 transaction identifiers are skipped.
    pub skip_transactions: bool,
    /// DRT: the Response may be delayed (Request).
    pub delay_response: bool,
    /// Earlier transmissions of this group, modulo 8.
    pub retransmit_count: u8,
    /// Times it was forwarded, 0 to 15.
    pub forward_count: u8,
    /// Request: gap wanted between the Response's packets, in 1/32 of a packet's time. Response: the
    /// number of groups before this one that it also stands for.
    pub gap_or_groups: u8,
    /// 0 to 15: the upper two bits are the level (3 urgent, 2 important, 0 normal, 1 background).
    pub priority: u8,
}

/// Flags of the control word, most significant first.
const CONTROL_FLAGS: usize = 9;

impl Control {
    /// From the word.
    pub fn decode(word: u32) -> Self {
        let flag = |number: u32| word & (1 << (31 - number)) != 0;
        Self {
            next_receive_sequence: flag(0),
            acknowledge: flag(1),
            not_start_of_run: flag(2),
            not_end_of_run: flag(3),
            no_retransmission: flag(4),
            member_of_group: flag(5),
            message_continues: flag(6),
            skip_transactions: flag(7),
            delay_response: flag(8),
            // Masked to their widths.
            retransmit_count: (word >> 20) as u8 & 7,
            forward_count: (word >> 16) as u8 & 15,
            gap_or_groups: (word >> 8) as u8,
            priority: (word >> 4) as u8 & 15,
            kind: if word & 1 != 0 { Kind::Response } else { Kind::Request },
        }
    }

    /// To the word; numbers are cut to their widths, reserved bits are 0.
    pub fn encode(self) -> u32 {
        let flags: [bool; CONTROL_FLAGS] = [
            self.next_receive_sequence,
            self.acknowledge,
            self.not_start_of_run,
            self.not_end_of_run,
            self.no_retransmission,
            self.member_of_group,
            self.message_continues,
            self.skip_transactions,
            self.delay_response,
        ];
        let flags =
            flags.iter().enumerate().map(|(number, &flag)| u32::from(flag) << (31 - number));
        flags.sum::<u32>()
            | u32::from(self.retransmit_count & 7) << 20
            | u32::from(self.forward_count & 15) << 16
            | u32::from(self.gap_or_groups) << 8
            | u32::from(self.priority & 15) << 4
            | u32::from(self.kind == Kind::Response)
    }
}

/// The code word (octets 32 to 35): flags, and the operation or its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Code {
    /// CMD: deliver only if the receiver waits.
    pub only_if_waiting: bool,
    /// DGM: a datagram Request; an idempotent Response, which is not kept.
    pub datagram: bool,
    /// MDM: only the blocks of MsgDelivery are sent.
    pub message_mask: bool,
    /// SDA: a segment is appended.
    pub has_segment: bool,
    /// CRE: octets 36 to 43 name an entity on the same host (Request).
    pub co_resident: bool,
    /// MRD: several Responses are wanted (Request).
    pub many_responses: bool,
    /// PIC: the code is a public interface's (Request).
    pub public_interface: bool,
    /// 24 bits.
    pub value: u32,
}

impl Code {
    /// A code without flags; cut to 24 bits.
    pub fn new(value: u32) -> Self {
        Self { value: value & 0x00ff_ffff, ..Self::default() }
    }

    /// From the word.
    pub fn decode(word: u32) -> Self {
        let flag = |number: u32| word & (1 << (31 - number)) != 0;
        Self {
            only_if_waiting: flag(0),
            datagram: flag(1),
            message_mask: flag(2),
            has_segment: flag(3),
            // Bit 4 is reserved.
            co_resident: flag(5),
            many_responses: flag(6),
            public_interface: flag(7),
            value: word & 0x00ff_ffff,
        }
    }

    /// To the word.
    pub fn encode(self) -> u32 {
        let flags = [
            self.only_if_waiting,
            self.datagram,
            self.message_mask,
            self.has_segment,
            false,
            self.co_resident,
            self.many_responses,
            self.public_interface,
        ];
        let flags =
            flags.iter().enumerate().map(|(number, &flag)| u32::from(flag) << (31 - number));
        flags.sum::<u32>() | self.value & 0x00ff_ffff
    }
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The client.
    pub client: Entity,
    /// Domain of the identifiers, 13 bits; 1 is the Internet.
    pub domain: u16,
    /// HCO: the checksum covers the header only.
    pub header_checksum_only: bool,
    /// EPG: octets from 12 on are encrypted.
    pub encrypted: bool,
    /// MPG: sent by multicast.
    pub multicast: bool,
    /// The control word.
    pub control: Control,
    /// The client's number of the transaction.
    pub transaction: u32,
    /// Blocks of the group that this packet carries, block 0 in the lowest bit.
    pub delivery: u32,
    /// The addressed server; in a Response, the server that answers.
    pub server: Entity,
    /// The code word.
    pub code: Code,
    /// Octets 36 to 63. Request: an entity or 8 octets, then 12 octets of the user's. Response: 20 of
    /// the user's. Then MsgDelivery and SegmentSize, or 8 more of the user's.
    pub parameters: [u8; 28],
}

/// Place of the segment's size in the parameters.
const SEGMENT_SIZE_AT: usize = 24;
/// Place of MsgDelivery in the parameters.
const MESSAGE_MASK_AT: usize = 20;

impl Header {
    /// A Request from `client` to `server` in the Internet's domain, with no flag, code or data.
    pub fn request(client: Entity, server: Entity, transaction: u32) -> Self {
        Self {
            client,
            domain: 1,
            header_checksum_only: false,
            encrypted: false,
            multicast: false,
            control: Control::default(),
            transaction,
            delivery: 0,
            server,
            code: Code::default(),
            parameters: [0; 28],
        }
    }

    /// A big-endian word of the parameters, at an offset up to 24.
    pub fn word(&self, at: usize) -> u32 {
        let octets: [u8; 4] = std::array::from_fn(|index| self.parameters[at + index]);
        u32::from_be_bytes(octets)
    }

    /// An entity in the parameters, at an offset up to 20.
    pub fn entity(&self, at: usize) -> Entity {
        Entity(u64::from(self.word(at)) << 32 | u64::from(self.word(at + 4)))
    }

    /// Puts octets into the parameters; `at` and their length must stay within the 28.
    pub fn put(&mut self, at: usize, octets: &[u8]) {
        self.parameters[at..at + octets.len()].copy_from_slice(octets);
    }

    /// Size of the whole segment in octets; 0 without one.
    pub fn segment_size(&self) -> u32 {
        if self.code.has_segment { self.word(SEGMENT_SIZE_AT) } else { 0 }
    }

    /// Sets the length of the segment; 0 means no segment.
    pub fn set_segment_size(&mut self, octets: u32) {
        self.code.has_segment = octets > 0;
        if octets > 0 {
            self.put(SEGMENT_SIZE_AT, &octets.to_be_bytes());
        }
    }

    /// Whether it asks where an entity is.
    pub fn is_probe(&self) -> bool {
        self.code.public_interface
            && self.code.co_resident
            && self.code.value == operation::PROBE_ENTITY
    }

    /// The answer to a probe: `entity` is here, at this transaction.
    pub(crate) fn found(&self, entity: Entity, transaction: u32) -> Self {
        let mut answer = Self {
            control: Control {
                kind: Kind::Response,
                retransmit_count: self.control.retransmit_count,
                ..Control::default()
            },
            multicast: false,
            delivery: 0,
            server: entity,
            code: Code { datagram: true, ..Code::new(code::OK) },
            parameters: [0; 28],
            ..*self
        };
        answer.put(0, &transaction.to_be_bytes());
        answer
    }

    /// The blocks that are sent at all, where not all are.
    pub fn message_mask(&self) -> Option<u32> {
        self.code.message_mask.then(|| self.word(MESSAGE_MASK_AT))
    }
}

/// Response codes of VMTP itself (RFC 1045 appendix I); an application's begin at 0x800000.
pub mod code {
    /// Done; in a notice: received and being processed.
    pub const OK: u32 = 0;
    /// Send the blocks that are missing.
    pub const RETRY: u32 = 1;
    /// Send all blocks.
    pub const RETRY_ALL: u32 = 2;
    /// No room now; try again later.
    pub const BUSY: u32 = 3;
    /// No entity of that name here.
    pub const NONEXISTENT_ENTITY: u32 = 4;
    /// The server does not wait for a Request now, and this one was for a waiting server only.
    pub const NOT_AWAITING_MSG: u32 = 7;
    /// The packet breaks the protocol.
    pub const VMTP_ERROR: u32 = 8;
    /// The run's beginning is not known.
    pub const NO_RUN_RECORD: u32 = 12;
    /// No answer.
    pub const RETRANS_TIMEOUT: u32 = 13;
    /// The Response is not kept any more.
    pub const RESPONSE_DISCARDED: u32 = 15;
    /// Part of the Response's segment never arrived.
    pub const BAD_REPLY_SEGMENT: u32 = 17;
    /// The first code of applications.
    pub const APPLICATION: u32 = 0x0080_0000;
}

/// Requests to the management module, without flags (RFC 1045 appendix III).
pub mod operation {
    /// Where is this entity, and which transaction is it at?
    pub const PROBE_ENTITY: u32 = 0x00_0101;
    /// A server to its client.
    pub const NOTIFY_CLIENT: u32 = 0x00_010f;
    /// A client to its server.
    pub const NOTIFY_SERVER: u32 = 0x00_0110;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_of_the_worked_examples() {
        let again = Control { acknowledge: true, retransmit_count: 1, ..Control::default() };
        assert_eq!(again.encode(), 0x4010_0000);
        let answer = Control { kind: Kind::Response, retransmit_count: 2, ..Control::default() };
        assert_eq!(answer.encode(), 0x0020_0001);
        assert_eq!(Code { has_segment: true, ..Code::new(0x42) }.encode(), 0x1000_0042);
    }

    proptest! {
        #[test]
        fn a_control_word_survives_but_for_reserved_bits(word in any::<u32>()) {
            prop_assert_eq!(Control::decode(word).encode(), word & !0xe);
        }

        #[test]
        fn a_code_word_survives_but_for_its_reserved_bit(word in any::<u32>()) {
            prop_assert_eq!(Code::decode(word).encode(), word & !0x0800_0000);
        }
    }
}
