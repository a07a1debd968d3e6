//! Socket options that a program set on the socket that sends a flow, or that it has from its listener.
//!
//! The probes name the flow, as the socket itself keeps its options until its connection is
//! logged. Options have a ring buffer of their own, so that they may be read a moment before the event that
//! opens their connection.

use sockscope_record::{FlowId, Protocol, Record, SocketOption};

use super::decoder::Decoder;
use super::hit::connection_id;
use crate::layout::{RawEvent, RawOption};

const SOL_SOCKET: u32 = 1;
/// Level and number of `SO_RCVLOWAT` (asm-generic/socket.h).
const RECEIVE_LOW_MARK: (u32, u32) = (SOL_SOCKET, 18);
/// Level and number of `TCP_NODELAY` and `TCP_CORK` (uapi/linux/tcp.h), and the bit of `nonagle` that each
/// sets (`TCP_NAGLE_OFF`, `TCP_NAGLE_CORK`).
const SEND_RULES: [(u32, u32, u32); 2] = [(6, 1, 1), (6, 3, 2)];
impl Decoder {
    /// A socket of a logged connection was asked to have an option.
    pub(crate) fn option(&mut self, option: &RawOption) {
        if self.missed.is_over(option.at_ns) {
            return;
        }
        if self.state(connection_id(option.flow).0).is_some() {
            self.push_option(option);
        } else {
            self.early.push(*option);
        }
    }

    /// Options of connections without announcement, the recording being over.
    pub(crate) fn options_missed(&self) -> u64 {
        self.early.missed()
    }

    /// A connection is announced.
    pub(super) fn take_early_options(&mut self, connection: u32) {
        for option in self.early.take(connection) {
            self.push_option(&option);
        }
    }

    /// The socket may have these from its listener, or since before the recording.
    pub(super) fn note_inherited(&mut self, event: &RawEvent) {
        self.note_low_mark(event);
        self.note_send_rules(event);
    }

    fn note_send_rules(&mut self, event: &RawEvent) {
        for (level, option, rule) in SEND_RULES {
            let Some(sends) = self.sent_by(event.flow) else { return };
            if u32::from(event.nonagle) & rule & !sends.sender.send_rules != 0 {
                self.push_option(&had(event, (level, option), 1));
            }
        }
    }

    fn note_low_mark(&mut self, event: &RawEvent) {
        let Some(receives) = self.received_by(event.flow) else { return };
        if event.rcvlowat.max(1) != receives.receiver.low_mark.max(1) {
            self.push_option(&had(event, RECEIVE_LOW_MARK, event.rcvlowat));
        }
    }

    fn push_option(&mut self, option: &RawOption) {
        let granted = granted(option);
        let name = (option.level, option.option);
        if name == RECEIVE_LOW_MARK {
            let connection = self.state(connection_id(option.flow).0);
            if connection.is_some_and(|state| state.info.protocol == Protocol::Udp) {
                return; // Datagrams are announced one by one, with any low mark.
            }
            let Some(receives) = self.received_by(option.flow) else { return };
            receives.receiver.low_mark = granted;
        }
        let rule = SEND_RULES.into_iter().find(|rule| (rule.0, rule.1) == name);
        if let (Some((_, _, rule)), Some(sends)) = (rule, self.sent_by(option.flow)) {
            let others = sends.sender.send_rules & !rule;
            sends.sender.send_rules = if option.value == 0 { others } else { others | rule };
        }
        let record = Record {
            at_ns: option.at_ns,
            flow: FlowId(option.flow),
            thread: option.thread,
            ..Record::default()
        };
        self.report_in_time(record.with_socket_option(SocketOption {
            name: (option.level as u16, option.option as u16),
            asked: option.value,
            granted,
        }));
    }
}

/// An option that a socket turned out to have; its setter is unknown.
fn had(event: &RawEvent, (level, option): (u32, u32), value: u32) -> RawOption {
    let RawEvent { at_ns, flow, sndbuf, rcvbuf, .. } = *event;
    RawOption { at_ns, flow, level, option, value, sndbuf, rcvbuf, ..RawOption::default() }
}

/// The kernel's value for a buffer size or a low mark; 0 of a buffer whose size is not known since. Other
/// options are granted as asked.
fn granted(option: &RawOption) -> u32 {
    match (option.level, option.option) {
        RECEIVE_LOW_MARK => granted_low_mark(option),
        (SOL_SOCKET, 7 | 32) => option.sndbuf,
        (SOL_SOCKET, 8 | 33) => option.rcvbuf,
        _ => option.value,
    }
}

/// As sk_setsockopt() and tcp_set_rcvlowat() have it: a negative value asks for all, 0 for one.
fn granted_low_mark(option: &RawOption) -> u32 {
    let most = if option.most > 0 { option.most } else { i32::MAX as u32 };
    let asked = if option.value > i32::MAX as u32 { most } else { option.value };
    asked.min(most).max(1)
}
