//! The portmapper, version 2 (RFC 1833 §3): from a program's number to its port.

use super::{Body, Call, Decoder, Encoder, Message, Result};

/// Program number of the portmapper.
pub const PROGRAM: u32 = 100_000;
/// Its version that knows ports.
pub const VERSION: u32 = 2;
/// Its own port, UDP and TCP.
pub const PORT: u16 = 111;

/// Procedures.
pub mod procedure {
    /// Gives the port of a mapping, 0 for none.
    pub const GETPORT: u32 = 3;
}

/// Protocol numbers in a mapping.
pub mod protocol {
    /// TCP.
    pub const TCP: u32 = 6;
    /// UDP.
    pub const UDP: u32 = 17;
}

/// One registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mapping {
    /// Program number.
    pub program: u32,
    /// Program version.
    pub version: u32,
    /// One of [`protocol`].
    pub protocol: u32,
    /// Port; 0 in a question.
    pub port: u32,
}

impl Mapping {
    /// Encodes the four words.
    pub fn encode(&self, to: &mut Encoder<'_>) {
        to.uint(self.program).uint(self.version).uint(self.protocol).uint(self.port);
    }

    /// Decodes the four words.
    ///
    /// # Errors
    ///
    /// When they are cut short.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(Self {
            program: from.uint()?,
            version: from.uint()?,
            protocol: from.uint()?,
            port: from.uint()?,
        })
    }
}

/// The message that asks for the port of `wanted`.
pub fn getport_call(xid: u32, wanted: Mapping) -> Vec<u8> {
    let mut arguments = Vec::new();
    wanted.encode(&mut Encoder::new(&mut arguments));
    let call = Call {
        program: PROGRAM,
        version: VERSION,
        procedure: procedure::GETPORT,
        arguments: &arguments,
        ..Call::default()
    };
    Message { xid, body: Body::Call(call) }.encode()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{hex, words};
    use crate::{AcceptStatus, OpaqueAuth, Reply};

    #[test]
    fn asking_for_a_port_takes_the_printed_numbers_of_octets() {
        let wanted = Mapping { program: 0x2000_0099, version: 1, protocol: protocol::TCP, port: 0 };
        let call = getport_call(7, wanted);
        assert_eq!(
            words(&call),
            "00000007 00000000 00000002 000186a0 00000002 00000003 00000000 00000000 00000000 \
             00000000 20000099 00000001 00000006 00000000"
        );
        let port = hex("0000041f");
        let status = AcceptStatus::Success(&port);
        let reply = Reply::Accepted { verifier: OpaqueAuth::default(), status };
        let reply = Message { xid: 7, body: Body::Reply(reply) }.encode();
        assert_eq!(words(&reply), "00000007 00000001 00000000 00000000 00000000 00000000 0000041f");
        assert_eq!((call.len(), reply.len()), (56, 28));
    }
}
