//! ONC RPC version 2 and XDR, with record marking as the classic C library buffers it.
//!
//! Sans-IO: encoders fill buffers, decoders take octets, nothing reads a clock or a socket. RFC 4506
//! (XDR), RFC 5531 (RPC) and RFC 1833 (portmapper) give the formats; the sizes of the writes that
//! [`RecordWriter`] makes are those of the library behind rpcgen, whose two buffers of
//! [`BUFFER_OCTETS`] the remote calls of "Is Layering Harmful?" went through.

mod message;
mod portmap;
mod record;
mod xdr;

pub use message::{AcceptStatus, AuthStatus, Body, Call, Denial, Message, OpaqueAuth, Reply};
pub use portmap::{Mapping, PORT, PROGRAM, VERSION, getport_call, procedure, protocol};
pub use record::{BUFFER_OCTETS, FRAGMENT_OCTETS_MAX, RecordReader, RecordWriter};
pub use xdr::{Decoder, Encoder, Sink, padded};

/// Octets that do not follow the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("octet {offset}: expected {expected}")]
pub struct RpcError {
    /// The offset of the error, from the start of the decoded octets.
    pub offset: usize,
    /// The expected item.
    pub expected: &'static str,
}

/// Result of decoding.
pub type Result<T> = std::result::Result<T, RpcError>;

#[cfg(test)]
pub(crate) mod tests {
    //! Octets as words of hexadecimal digits.

    /// The octets that `text` writes.
    pub fn hex(text: &str) -> Vec<u8> {
        let digits: String = text.split_whitespace().collect();
        let pairs = (0..digits.len()).step_by(2);
        let octet = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
        pairs.map(octet).collect()
    }

    /// `octets` in groups of four.
    pub fn words(octets: &[u8]) -> String {
        let word = |octets: &[u8]| octets.iter().map(|it| format!("{it:02x}")).collect::<String>();
        octets.chunks(4).map(word).collect::<Vec<_>>().join(" ")
    }
}
