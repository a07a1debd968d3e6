//! Linux's names for its numbers, as far as traces hold them; an unknown number stays a number.

/// A TCP state, `include/net/tcp_states.h`.
pub(super) fn tcp_state_name(state: u8) -> &'static str {
    const NAMES: [&str; 13] = [
        "?",
        "ESTABLISHED",
        "SYN_SENT",
        "SYN_RECV",
        "FIN_WAIT1",
        "FIN_WAIT2",
        "TIME_WAIT",
        "CLOSE",
        "CLOSE_WAIT",
        "LAST_ACK",
        "LISTEN",
        "CLOSING",
        "NEW_SYN_RECV",
    ];
    NAMES.get(usize::from(state)).unwrap_or(&"?")
}

/// A congestion state, `enum tcp_ca_state` in `include/uapi/linux/tcp.h`.
pub(super) fn congestion_state_name(state: u8) -> &'static str {
    const NAMES: [&str; 5] = ["open", "disorder", "cwr", "recovery", "loss"];
    NAMES.get(usize::from(state)).unwrap_or(&"?")
}

/// An error number of a socket call, `include/uapi/asm-generic/errno.h`.
pub(super) fn errno_name(errno: u8) -> String {
    let name = match errno {
        4 => "EINTR",
        11 => "EAGAIN",
        12 => "ENOMEM",
        14 => "EFAULT",
        22 => "EINVAL",
        32 => "EPIPE",
        90 => "EMSGSIZE",
        101 => "ENETUNREACH",
        104 => "ECONNRESET",
        105 => "ENOBUFS",
        107 => "ENOTCONN",
        110 => "ETIMEDOUT",
        111 => "ECONNREFUSED",
        113 => "EHOSTUNREACH",
        115 => "EINPROGRESS",
        other => return format!("errno {other}"),
    };
    name.to_owned()
}

/// A socket option, `include/uapi/asm-generic/socket.h` and `include/uapi/linux/tcp.h`.
pub(super) fn option_name(level: u16, option: u16) -> String {
    const SOL_SOCKET: u16 = 1;
    const IPPROTO_TCP: u16 = 6;
    const SOL_SOCKSCOPE: u16 = 0x5350;
    let name = match (level, option) {
        (SOL_SOCKET, 2) => "SO_REUSEADDR",
        (SOL_SOCKET, 6) => "SO_BROADCAST",
        (SOL_SOCKET, 7) => "SO_SNDBUF",
        (SOL_SOCKET, 8) => "SO_RCVBUF",
        (SOL_SOCKET, 9) => "SO_KEEPALIVE",
        (SOL_SOCKET, 12) => "SO_PRIORITY",
        (SOL_SOCKET, 13) => "SO_LINGER",
        (SOL_SOCKET, 15) => "SO_REUSEPORT",
        (SOL_SOCKET, 18) => "SO_RCVLOWAT",
        (SOL_SOCKET, 32) => "SO_SNDBUFFORCE",
        (SOL_SOCKET, 33) => "SO_RCVBUFFORCE",
        (SOL_SOCKET, 46) => "SO_BUSY_POLL",
        (SOL_SOCKET, 47) => "SO_MAX_PACING_RATE",
        (SOL_SOCKET, 60) => "SO_ZEROCOPY",
        (IPPROTO_TCP, 1) => "TCP_NODELAY",
        (IPPROTO_TCP, 2) => "TCP_MAXSEG",
        (IPPROTO_TCP, 3) => "TCP_CORK",
        (IPPROTO_TCP, 4) => "TCP_KEEPIDLE",
        (IPPROTO_TCP, 5) => "TCP_KEEPINTVL",
        (IPPROTO_TCP, 6) => "TCP_KEEPCNT",
        (IPPROTO_TCP, 9) => "TCP_DEFER_ACCEPT",
        (IPPROTO_TCP, 10) => "TCP_WINDOW_CLAMP",
        (IPPROTO_TCP, 12) => "TCP_QUICKACK",
        (IPPROTO_TCP, 13) => "TCP_CONGESTION",
        (IPPROTO_TCP, 18) => "TCP_USER_TIMEOUT",
        (IPPROTO_TCP, 23) => "TCP_FASTOPEN",
        (IPPROTO_TCP, 25) => "TCP_NOTSENT_LOWAT",
        (SOL_SOCKSCOPE, 1) => "SO_LOG",
        _ => return format!("option {level}:{option}"),
    };
    name.to_owned()
}
