//! What stands at the end of a line: the fields that the kind of the event gives a meaning to.

use std::fmt::{Result, Write};

use sockscope_analysis::DropReasons;
use sockscope_record::{Hold, Kind, Point, Record, RetransmitClass, counted, marks, tcp_flags};

use super::names::{congestion_state_name, errno_name, option_name, tcp_state_name};

/// Appends the details of `event` to `text`.
pub(super) fn write_details(event: &Record, reasons: &DropReasons, text: &mut String) -> Result {
    match event.kind {
        Kind::SendEnqueue | Kind::SendDequeue => write_hold(event, text)?,
        Kind::InterfaceEnqueue
        | Kind::InterfaceDequeue
        | Kind::InputEnqueue
        | Kind::InputDequeue => write_segment(event, text)?,
        Kind::ReceiveEnqueue => write_thread("wakes thread", event, text)?,
        Kind::ReceiveDequeue => write_reader(event, text)?,
        Kind::WriteCall => write_thread("thread", event, text)?,
        Kind::WriteReturn | Kind::ReadReturn => write_return(event, text)?,
        Kind::Transaction => write_transaction(event, text)?,
        Kind::BlocksAgain => {
            write!(text, "{} of 512 octets ", counted(event.extra.into(), "block"))?;
        }
        Kind::Wakeup | Kind::Run => write_thread("thread", event, text)?,
        Kind::SynOptions => write!(text, "largest segment {} ", event.extra)?,
        Kind::TcpState => write_tcp_state(event, text)?,
        Kind::SendWindow => write_window(event, text)?,
        Kind::Retransmit => write!(text, "{}", RetransmitClass::from_code(event.code).name())?,
        Kind::Drop => write_drop(event, reasons, text)?,
        Kind::SocketBuffers => write_buffers(event, text)?,
        Kind::SocketOption => write_option(event, text)?,
        Kind::StateChange => write_state_change(event, text)?,
        Kind::Loss => write_loss(event, text)?,
        Kind::Conversion => write_conversion(event, text)?,
    }
    write_marks(event.marks, text)
}

fn write_hold(event: &Record, text: &mut String) -> Result {
    write_thread("thread", event, text)?;
    match Hold::from_code(event.code) {
        Hold::None => Ok(()),
        hold if event.kind == Kind::SendEnqueue => write!(text, "held: {} ", hold.name()),
        hold => write!(text, "next held: {} ", hold.name()),
    }
}

/// Flags as tcpdump(8) prints them, acknowledgment and window; a datagram has its number.
fn write_segment(event: &Record, text: &mut String) -> Result {
    if event.tcp_flags == 0 {
        return write!(text, "datagram {} ", event.detail);
    }
    const LETTERS: [(u8, char); 8] = [
        (tcp_flags::SYN, 'S'),
        (tcp_flags::FIN, 'F'),
        (tcp_flags::RST, 'R'),
        (tcp_flags::PSH, 'P'),
        (tcp_flags::URG, 'U'),
        (tcp_flags::ECE, 'E'),
        (tcp_flags::CWR, 'W'),
        (tcp_flags::ACK, '.'),
    ];
    text.push('[');
    text.extend(LETTERS.iter().filter(|(bit, _)| event.tcp_flags & bit != 0).map(|(_, it)| it));
    text.push_str("] ");
    if event.tcp_flags & tcp_flags::ACK != 0 {
        write!(text, "ack {} ", event.detail)?;
    }
    write!(text, "win {} ", event.extra)
}

fn write_reader(event: &Record, text: &mut String) -> Result {
    if event.is_marked(marks::DERIVED) {
        text.push_str("gone by now, unseen ");
    }
    write_thread("thread", event, text)?;
    if event.detail > 0 {
        let ns = event.at_ns.saturating_sub(event.detail);
        write!(text, "on CPU for {} ", Micros(ns))?;
    }
    // 1 is a wait that is known to be none.
    if event.extra > 1 {
        write!(text, "waited {} for it ", Micros(event.extra.into()))?;
    }
    Ok(())
}

fn write_return(event: &Record, text: &mut String) -> Result {
    write_thread("thread", event, text)?;
    match event.code {
        0 => Ok(()),
        errno => write!(text, "failed: {} ", errno_name(errno)),
    }
}

fn write_tcp_state(event: &Record, text: &mut String) -> Result {
    let (cwnd, ssthresh) = halves(event.detail);
    write!(text, "una {} in flight {} cwnd {cwnd} ", event.offset, event.len)?;
    // The kernel's TCP_INFINITE_SSTHRESH, include/net/tcp.h: no threshold yet. It is never below 2:
    // 0 was not seen yet.
    match ssthresh {
        0 => text.push_str("ssthresh ? "),
        0x7fff_ffff => text.push_str("ssthresh none "),
        ssthresh => write!(text, "ssthresh {ssthresh} ")?,
    }
    match event.extra {
        0 => text.push_str("srtt ? "),
        srtt_us => write!(text, "srtt {srtt_us}us ")?,
    }
    write!(text, "{} ", congestion_state_name(event.code))
}

fn write_window(event: &Record, text: &mut String) -> Result {
    write!(text, "una {} window {} mss {} ", event.offset, event.detail, event.extra)
}

fn write_transaction(event: &Record, text: &mut String) -> Result {
    let end = if event.code == 0 { "answered" } else { "failed" };
    let took_ns = event.at_ns.saturating_sub(event.detail);
    write!(text, "{} of {} octets {end} after {} ", event.extra, event.len, Micros(took_ns))
}

fn write_conversion(event: &Record, text: &mut String) -> Result {
    write_thread("thread", event, text)?;
    let way = if event.code == 0 { "out" } else { "in" };
    let took_ns = event.at_ns.saturating_sub(event.detail);
    write!(text, "{way}, took {} ", Micros(took_ns))
}

fn write_drop(event: &Record, reasons: &DropReasons, text: &mut String) -> Result {
    match u32::try_from(event.detail).ok().and_then(|number| reasons.get(&number)) {
        Some(name) => write!(text, "reason {name} ")?,
        None => write!(text, "kernel reason {} ", event.detail)?,
    }
    match Point::ALL.into_iter().find(|point| point.number() == event.code) {
        Some(point) => write!(text, "after {} ", point.name()),
        None => Ok(()),
    }
}

fn write_buffers(event: &Record, text: &mut String) -> Result {
    let (send, receive) = halves(event.detail);
    let by = |bit: u8| if event.code & bit != 0 { "program" } else { "kernel" };
    write!(text, "send {send} ({}) receive {receive} ({}) ", by(1), by(2))
}

fn write_option(event: &Record, text: &mut String) -> Result {
    let (asked, granted) = halves(event.detail);
    let (level, option) = (event.extra >> 16, event.extra & 0xffff);
    write!(text, "{} = {asked}", option_name(level, option))?;
    if granted != asked && (granted > 0 || !sets_buffer(level, option)) {
        write!(text, ", granted {granted}")?;
    }
    text.push(' ');
    Ok(())
}

/// `SO_SNDBUF`, `SO_RCVBUF` and their forced forms: 0 is granted to none.
fn sets_buffer(level: u32, option: u32) -> bool {
    level == 1 && [7, 8, 32, 33].contains(&option)
}

fn write_state_change(event: &Record, text: &mut String) -> Result {
    let old = u8::try_from(event.extra).unwrap_or(u8::MAX);
    write!(text, "{} -> {} ", tcp_state_name(old), tcp_state_name(event.code))
}

/// Code 0 stands for records beside the points.
fn write_loss(event: &Record, text: &mut String) -> Result {
    let over = Micros(event.at_ns.saturating_sub(event.offset));
    write!(text, "{} ", counted(event.detail, "record"))?;
    match Kind::from_code(event.code) {
        Some(kind) => write!(text, "of {} ", kind.name())?,
        None => text.push_str("beside the points "),
    }
    write!(text, "lost within {over} ")
}

fn write_marks(bits: u8, text: &mut String) -> Result {
    const NAMES: [(u8, &str); 4] = [
        (marks::RETRANSMITTED, "again"),
        (marks::DERIVED, "derived"),
        (marks::NO_QUEUE, "no-queue"),
        (marks::AGGREGATED, "aggregated"),
    ];
    let names = NAMES.iter().filter(|(bit, _)| bits & bit != 0);
    names.into_iter().try_for_each(|(_, name)| write!(text, "{name} "))
}

fn write_thread(before: &str, event: &Record, text: &mut String) -> Result {
    match event.thread {
        0 => Ok(()),
        thread => write!(text, "{before} {thread} "),
    }
}

fn halves(detail: u64) -> (u32, u32) {
    (detail as u32, (detail >> 32) as u32)
}

/// Nanoseconds as microseconds with three decimals.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> Result {
        write!(f, "{}.{:03}us", self.0 / 1000, self.0 % 1000)
    }
}
