//! TCP header flags in [`Record::tcp_flags`](crate::Record::tcp_flags) (RFC 9293 §3.1).

/// No more data from the sender.
pub const FIN: u8 = 0x01;
/// Synchronize sequence numbers.
pub const SYN: u8 = 0x02;
/// Reset the connection.
pub const RST: u8 = 0x04;
/// Push function.
pub const PSH: u8 = 0x08;
/// The acknowledgment field is significant.
pub const ACK: u8 = 0x10;
/// The urgent pointer is significant.
pub const URG: u8 = 0x20;
/// ECN echo (RFC 3168).
pub const ECE: u8 = 0x40;
/// Congestion window reduced (RFC 3168).
pub const CWR: u8 = 0x80;
