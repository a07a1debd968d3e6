//! The end of a line: the fields that the kind of the event gives a meaning to.

use std::fmt::{Result, Write};
use std::num::NonZeroU32;

use sockscope_analysis::{DropReasons, device_name};
use sockscope_record::{
    BufferSize, DevicePlace, Hold, InterfacePart, Kind, Point, Record, SocketBuffers, SocketLayer,
    SocketOption, WindowScale, counted, marks, tcp_flags,
};

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
        Kind::WriteCall => write_writer(event, text)?,
        Kind::WriteReturn | Kind::ReadReturn => write_return(event, text)?,
        Kind::Transaction => write_transaction(event, text)?,
        Kind::BlocksAgain => write_blocks_again(event, text)?,
        Kind::Wakeup | Kind::Run => write_thread("thread", event, text)?,
        Kind::SynOptions => write_syn_options(event, text)?,
        Kind::TcpState => write_tcp_state(event, text)?,
        Kind::SendWindow => write_window(event, text)?,
        Kind::Retransmit => write_retransmission(event, text)?,
        Kind::Drop => write_drop(event, reasons, text)?,
        Kind::SocketBuffers => write_buffers(event, text)?,
        Kind::SocketOption => write_option(event, text)?,
        Kind::StateChange => write_state_change(event, text)?,
        Kind::Loss => write_loss(event, text)?,
        Kind::Conversion => write_conversion(event, text)?,
        Kind::Interface => write_interface(event, text)?,
        Kind::Accept => write_accept(event, text)?,
        Kind::WindowScale => write_window_scale(event, text)?,
        Kind::LeftOut => text.push_str("nothing later of this connection is recorded "),
        Kind::Hop => write_hop(event, text)?,
        Kind::HopDevice => write_hop_device(event, text)?,
        Kind::SocketLayer => write_socket_layer(event, text)?,
    }
    write_marks(event.marks, text)
}

fn write_hold(event: &Record, text: &mut String) -> Result {
    write_thread("thread", event, text)?;
    match event.hold().unwrap_or_default() {
        Hold::None => Ok(()),
        hold if event.kind == Kind::SendEnqueue => write!(text, "held: {} ", hold.name()),
        hold => write!(text, "next held: {} ", hold.name()),
    }
}

/// Flags as tcpdump(8) prints them, acknowledgment and window; a datagram has its number.
fn write_segment(event: &Record, text: &mut String) -> Result {
    if let Some(value) = event.queue_value() {
        write!(text, "queue {value} ")?;
    }
    if let Some(number) = event.datagram_number() {
        return write!(text, "datagram {number} ");
    }
    let Some(header) = event.segment_header() else { return Ok(()) };
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
    if let Some(acknowledged) = header.acknowledged {
        write!(text, "ack {acknowledged} ")?;
    }
    write!(text, "win {} ", header.window_bytes)
}

fn write_reader(event: &Record, text: &mut String) -> Result {
    if event.is_marked(marks::DERIVED) {
        text.push_str("gone by now, unseen ");
    }
    write_thread("thread", event, text)?;
    let times = event.reader_times().unwrap_or_default();
    if let Some(on_cpu_ns) = times.on_cpu_ns {
        write!(text, "on CPU for {} ", Micros(event.at_ns.saturating_sub(on_cpu_ns)))?;
    }
    write_wait(times.runnable_ns.map_or(0, NonZeroU32::get), "it", text)
}

fn write_writer(event: &Record, text: &mut String) -> Result {
    write_thread("thread", event, text)?;
    write_wait(event.writer_runnable_ns().unwrap_or(0), "a CPU", text)
}

/// 0: the wait is not known; 1: the thread did not wait.
fn write_wait(runnable_ns: u32, for_what: &str, text: &mut String) -> Result {
    if runnable_ns > 1 {
        write!(text, "waited {} for {for_what} ", Micros(runnable_ns.into()))?;
    }
    Ok(())
}

fn write_return(event: &Record, text: &mut String) -> Result {
    write_thread("thread", event, text)?;
    match event.errno().unwrap_or(0) {
        0 => Ok(()),
        errno => write!(text, "failed: {} ", errno_name(errno)),
    }
}

fn write_blocks_again(event: &Record, text: &mut String) -> Result {
    let blocks = event.blocks_again().unwrap_or(0);
    write!(text, "{} of 512 octets ", counted(blocks.into(), "block"))
}

fn write_interface(event: &Record, text: &mut String) -> Result {
    match event.interface() {
        Some(InterfacePart::Device(device)) => write!(text, "leaves by {} ", device_name(device)),
        Some(InterfacePart::Discipline(discipline)) => {
            write!(text, "its queueing discipline is {} ", device_name(discipline))
        }
        Some(InterfacePart::Place { index, namespace }) => {
            write!(text, "interface {index} of network namespace {namespace} ")
        }
        None => Ok(()),
    }
}

fn write_hop(event: &Record, text: &mut String) -> Result {
    let Some(hop) = event.hop() else { return Ok(()) };
    let what = match hop.point {
        Some(Point::InterfaceEnqueue) => "enters the queue of",
        Some(Point::InterfaceDequeue) => "leaves by",
        Some(Point::InputEnqueue) => "arrives by",
        Some(Point::InputDequeue) => "is taken from",
        _ => "passes",
    };
    write!(text, "{what} ")?;
    write_device(hop.device, text)
}

fn write_hop_device(event: &Record, text: &mut String) -> Result {
    let Some((device, octets)) = event.hop_device() else { return Ok(()) };
    write_device(device, text)?;
    write!(text, "is {} ", device_name(octets))
}

fn write_device(device: DevicePlace, text: &mut String) -> Result {
    match device {
        DevicePlace { index, namespace: 0 } => write!(text, "device {index} "),
        DevicePlace { index, namespace } => {
            write!(text, "device {index} of network namespace {namespace} ")
        }
    }
}

fn write_accept(event: &Record, text: &mut String) -> Result {
    write!(text, "accepted by process {} ", event.acceptor().unwrap_or(0))
}

fn write_window_scale(event: &Record, text: &mut String) -> Result {
    let why = match event.window_scale() {
        Some(WindowScale::NotOffered) => "its host does not offer window scaling",
        Some(WindowScale::NotReceived) => "no window scale option arrived from it",
        _ => "its windows have a scale of 0",
    };
    write!(text, "{why} ")
}

fn write_socket_layer(event: &Record, text: &mut String) -> Result {
    let layer = event.socket_layer().map_or("", SocketLayer::name);
    write!(text, "a layer of the kernel ({layer}) reads and writes its socket ")
}

fn write_syn_options(event: &Record, text: &mut String) -> Result {
    write!(text, "largest segment {} ", event.announced_segment_bytes().unwrap_or(0))
}

fn write_retransmission(event: &Record, text: &mut String) -> Result {
    let Some(again) = event.retransmission() else { return Ok(()) };
    text.write_str(again.class.name())
}

fn write_tcp_state(event: &Record, text: &mut String) -> Result {
    let Some(state) = event.congestion() else { return Ok(()) };
    let (in_flight, cwnd) = (state.in_flight_packets, state.window_packets);
    write!(text, "una {} in flight {in_flight} cwnd {cwnd} ", event.offset)?;
    // The kernel's TCP_INFINITE_SSTHRESH, include/net/tcp.h: no threshold yet. It is never below 2:
    // 0 was not seen yet.
    match state.threshold_packets {
        0 => text.push_str("ssthresh ? "),
        0x7fff_ffff => text.push_str("ssthresh none "),
        ssthresh => write!(text, "ssthresh {ssthresh} ")?,
    }
    match state.smoothed_rtt_us {
        0 => text.push_str("srtt ? "),
        srtt_us => write!(text, "srtt {srtt_us}us ")?,
    }
    write!(text, "{} ", congestion_state_name(state.state))
}

fn write_window(event: &Record, text: &mut String) -> Result {
    let Some(window) = event.send_window() else { return Ok(()) };
    let (bytes, mss) = (window.bytes, window.segment_bytes);
    write!(text, "una {} window {bytes} mss {mss} ", event.offset)
}

fn write_transaction(event: &Record, text: &mut String) -> Result {
    let Some(ended) = event.transaction() else { return Ok(()) };
    let end = if ended.is_answered { "answered" } else { "failed" };
    let took = Micros(event.at_ns.saturating_sub(ended.began_ns));
    write!(text, "{} of {} octets {end} after {took} ", ended.number, event.len)
}

fn write_conversion(event: &Record, text: &mut String) -> Result {
    write_thread("thread", event, text)?;
    let Some(conversion) = event.conversion() else { return Ok(()) };
    let way = if conversion.is_incoming { "in" } else { "out" };
    let took_ns = event.at_ns.saturating_sub(conversion.began_ns);
    write!(text, "{way}, took {} ", Micros(took_ns))
}

fn write_drop(event: &Record, reasons: &DropReasons, text: &mut String) -> Result {
    let Some(drop) = event.packet_drop() else { return Ok(()) };
    match u32::try_from(drop.reason).ok().and_then(|number| reasons.get(&number)) {
        Some(name) => write!(text, "reason {name} ")?,
        None => write!(text, "kernel reason {} ", drop.reason)?,
    }
    match drop.last {
        Some(point) => write!(text, "after {} ", point.name()),
        None => Ok(()),
    }
}

fn write_buffers(event: &Record, text: &mut String) -> Result {
    let Some(SocketBuffers { send, receive }) = event.socket_buffers() else { return Ok(()) };
    let by = |buffer: BufferSize| if buffer.is_set_by_program { "program" } else { "kernel" };
    write!(text, "send {} ({}) ", send.bytes, by(send))?;
    write!(text, "receive {} ({}) ", receive.bytes, by(receive))
}

fn write_option(event: &Record, text: &mut String) -> Result {
    let Some(option) = event.socket_option() else { return Ok(()) };
    let SocketOption { name: (level, option), asked, granted } = option;
    write!(text, "{} = {asked}", option_name(level, option))?;
    if granted != asked && (granted > 0 || !sets_buffer(level, option)) {
        write!(text, ", granted {granted}")?;
    }
    text.push(' ');
    Ok(())
}

/// `SO_SNDBUF`, `SO_RCVBUF` and their forced forms: 0 is granted to none.
fn sets_buffer(level: u16, option: u16) -> bool {
    level == 1 && [7, 8, 32, 33].contains(&option)
}

fn write_state_change(event: &Record, text: &mut String) -> Result {
    let Some(change) = event.state_change() else { return Ok(()) };
    write!(text, "{} -> {} ", tcp_state_name(change.old), tcp_state_name(change.new))
}

fn write_loss(event: &Record, text: &mut String) -> Result {
    let Some(loss) = event.loss() else { return Ok(()) };
    let over = Micros(event.at_ns.saturating_sub(loss.since_ns));
    write!(text, "{} ", counted(loss.count, "record"))?;
    match loss.of {
        Some(kind) => write!(text, "of {} ", kind.name())?,
        None => text.push_str("of no point "),
    }
    write!(text, "missed within {over} ")
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

/// Nanoseconds as microseconds with three decimals.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> Result {
        write!(f, "{}.{:03}us", self.0 / 1000, self.0 % 1000)
    }
}
