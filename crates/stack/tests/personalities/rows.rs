//! Each rule of a personality in words, TCP's apart. Every structure is taken apart in full: a rule
//! without a row does not compile.

use sockscope_stack::Personality;
use sockscope_stack::interface::InterfaceRules;
use sockscope_stack::ip::{IpRules, LocalAddress};
use sockscope_stack::mbuf::{Geometry, Pullup};
use sockscope_stack::personality::{SendFill, SendWait, SocketRules};
use sockscope_stack::sockbuf::BufferRules;
use sockscope_stack::udp::{UdpHeader, UdpRules};

/// One rule of one personality.
pub struct Row {
    pub part: &'static str,
    pub rule: &'static str,
    pub value: String,
}

/// All rules of a personality, in the order of the tables.
pub fn rows(personality: &Personality) -> Vec<Row> {
    let Personality { name: _, geometry, socket, udp, ip, interface, tcp } = personality;
    let mut rows = part("Mbufs", mbufs(geometry));
    rows.extend(part("Sockets", sockets(socket)));
    rows.extend(part("Socket buffers", buffers(&socket.buffers)));
    rows.extend(super::tcp_rows::tcp(tcp));
    rows.extend(part("UDP", datagrams(udp)));
    rows.extend(part("IP and interfaces", packets(ip, interface)));
    rows
}

pub fn part(part: &'static str, rows: Vec<(&'static str, String)>) -> Vec<Row> {
    rows.into_iter().map(|(rule, value)| Row { part, rule, value }).collect()
}

pub fn yes(does: bool) -> String {
    if does { "yes" } else { "no" }.to_owned()
}

/// A number as a reader writes it: 65,536.
pub fn number(value: impl TryInto<u64>) -> String {
    let digits = value.try_into().ok().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn mbufs(geometry: &Geometry) -> Vec<(&'static str, String)> {
    let Geometry { plain_bytes, header_bytes, pullup } = geometry;
    let pullup = match pullup {
        Pullup::Exact => "always into a new mbuf, exactly what is asked",
        Pullup::Extra => "in place where it fits, else up to 32 bytes more",
        Pullup::Protocol => "as before, at least 40 bytes",
    };
    vec![
        ("Data bytes of a plain mbuf", number(*plain_bytes)),
        ("Data bytes of the first one of a packet", number(*header_bytes)),
        ("`m_pullup`", pullup.to_owned()),
    ]
}

fn sockets(rules: &SocketRules) -> Vec<(&'static str, String)> {
    let SocketRules {
        wait,
        fill,
        cluster_min_bytes,
        sends_each_mbuf,
        nonblocking_is_atomic,
        accepted_takes_send_limit,
        buffers: _,
        tcp_bytes,
        udp_bytes,
    } = rules;
    let wait = match wait {
        SendWait::NoSpace => "without any space",
        SendWait::Aligned => "also while less than a whole cluster fits",
        SendWait::LowWater => "below the low-water mark",
    };
    let fill = match fill {
        SendFill::Whole => "all that is written",
        SendFill::Staged => "until the space is used; the last mbuf may go beyond",
        SendFill::Clipped => "until the space is used",
    };
    let both = |(send, receive): &(u32, u32)| format!("{} and {}", number(*send), number(*receive));
    vec![
        ("A writer waits", wait.to_owned()),
        ("`sosend` takes in one pass", fill.to_owned()),
        ("What is written goes into a cluster from, bytes", number(*cluster_min_bytes)),
        (
            "The protocol is called for",
            if *sends_each_mbuf { "each mbuf" } else { "each pass" }.to_owned(),
        ),
        ("A write that may not block is all or nothing", yes(*nonblocking_is_atomic)),
        (
            "An accepted socket has the listener's send limit for both",
            yes(*accepted_takes_send_limit),
        ),
        ("Limits of TCP's buffers, sending and receiving", both(tcp_bytes)),
        ("Limits of UDP's buffers", both(udp_bytes)),
    ]
}

fn buffers(rules: &BufferRules) -> Vec<(&'static str, String)> {
    let BufferRules {
        storage_bytes_max,
        hiwat_max,
        calls_compress,
        compact_spare_bytes,
        rights_mbuf,
        send_lowat,
    } = rules;
    vec![
        ("Storage is twice the limit, at most", number(*storage_bytes_max)),
        ("A program may ask for", hiwat_max.map_or("no other limit".to_owned(), number)),
        (
            "Small mbufs are joined by",
            if *calls_compress { "`sbcompress`" } else { "`sbappend`" }.to_owned(),
        ),
        ("Bytes left free behind joined data", number(*compact_spare_bytes)),
        ("A datagram brings an empty mbuf for access rights", yes(*rights_mbuf)),
        (
            "Low-water mark for sending",
            if *send_lowat == 0 { "none".to_owned() } else { number(*send_lowat) },
        ),
    ]
}

fn datagrams(rules: &UdpRules) -> Vec<(&'static str, String)> {
    let UdpRules { caches_route, header, sums_output, checks_input, reports_unreachable } = rules;
    let header = match header {
        UdpHeader::Function => "a new mbuf, by function",
        UdpHeader::Macro => "a new mbuf, by macro",
        UdpHeader::InPlace => "before the data where there is room",
    };
    vec![
        ("The route is kept from one datagram to the next", yes(*caches_route)),
        ("The headers go into", header.to_owned()),
        ("Checksums are made", yes(*sums_output)),
        ("Checksums are verified", yes(*checks_input)),
        ("A connected socket hears of an unreachable port", yes(*reports_unreachable)),
    ]
}

fn packets(ip: &IpRules, interface: &InterfaceRules) -> Vec<(&'static str, String)> {
    let IpRules { fragment_ttl, pulls_up_clusters, local_address, log_tos } = ip;
    let InterfaceRules { uses_trailers, input_cluster_min_bytes, lends_input, masks_devices } =
        interface;
    let local = match local_address {
        LocalAddress::NetworkOf => "of the interface on the peer's network",
        LocalAddress::Scan => "as before, lines searched first",
        LocalAddress::OfRoute => "of the route's interface",
    };
    vec![
        ("An incomplete packet is kept for, ticks of 0.5 s", number(*fragment_ttl)),
        ("Headers in a cluster are pulled up", yes(*pulls_up_clusters)),
        ("Local address", local.to_owned()),
        (
            "Mark of logged packets (type of service)",
            if *log_tos == 0 { "none".to_owned() } else { log_tos.to_string() },
        ),
        ("Trailers", yes(*uses_trailers)),
        ("What is received goes into a cluster from, bytes", number(*input_cluster_min_bytes)),
        ("The driver lends its buffers", yes(*lends_input)),
        ("The protocol runs with the interrupts of devices masked", yes(*masks_devices)),
    ]
}
