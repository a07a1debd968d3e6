//! RPC version 2 messages (RFC 5531 §9): calls, replies, credentials.

use super::{Decoder, Encoder, Result};

/// The only version of the RPC protocol.
const RPC_VERSION: u32 = 2;

/// Longest body of a credential or verifier (RFC 5531 §8.2).
const AUTH_OCTETS_MAX: usize = 400;

/// A credential or a verifier: a flavour and a body that only the flavour explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpaqueAuth<'a> {
    /// A number of RFC 5531 §8.2; 0 is no authentication.
    pub flavor: u32,
    /// At most 400 octets.
    pub body: &'a [u8],
}

/// A call: a procedure of a program, and its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Call<'a> {
    /// Program number.
    pub program: u32,
    /// Program version.
    pub version: u32,
    /// Procedure number; 0 does nothing.
    pub procedure: u32,
    /// The caller.
    pub credential: OpaqueAuth<'a>,
    /// The proof of the credential.
    pub verifier: OpaqueAuth<'a>,
    /// Encoded arguments.
    pub arguments: &'a [u8],
}

/// A reply: accepted with a status, or denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The call was understood and the caller accepted.
    Accepted {
        /// The proof of the server's identity.
        verifier: OpaqueAuth<'a>,
        /// The status of the call.
        status: AcceptStatus<'a>,
    },
    /// It was not.
    Denied(Denial),
}

/// The status of an accepted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptStatus<'a> {
    /// 0: the encoded results.
    Success(&'a [u8]),
    /// 1: the program is not here.
    ProgramUnavailable,
    /// 2: other versions of the program are here.
    ProgramMismatch {
        /// Lowest version here.
        low: u32,
        /// Highest version here.
        high: u32,
    },
    /// 3: the program has no such procedure.
    ProcedureUnavailable,
    /// 4: the arguments could not be decoded.
    GarbageArguments,
    /// 5: anything else, as no memory.
    SystemError,
}

/// Why a call was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// 0: the RPC version is not 2.
    RpcMismatch {
        /// Lowest version spoken.
        low: u32,
        /// Highest version spoken.
        high: u32,
    },
    /// 1: the caller could not be authenticated.
    Authentication(AuthStatus),
}

/// Why authentication failed (RFC 5531 §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct AuthStatus(pub u32);

impl AuthStatus {
    /// A stronger flavour is wanted.
    pub const TOO_WEAK: Self = Self(5);
}

/// The contents of a message in addition to its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// A request.
    Call(Call<'a>),
    /// An answer.
    Reply(Reply<'a>),
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Matches replies with calls; not related to their order.
    pub xid: u32,
    /// Call or reply.
    pub body: Body<'a>,
}

impl<'a> Call<'a> {
    /// Encodes the call with `xid` up to its arguments, which the caller encodes next.
    pub fn encode_head(&self, xid: u32, to: &mut Encoder<'_>) {
        to.uint(xid).uint(0).uint(RPC_VERSION);
        to.uint(self.program).uint(self.version).uint(self.procedure);
        self.credential.encode(to);
        self.verifier.encode(to);
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self> {
        let place = from.clone();
        if from.uint()? != RPC_VERSION {
            return Err(place.expected("RPC version 2"));
        }
        let (program, version, procedure) = (from.uint()?, from.uint()?, from.uint()?);
        let (credential, verifier) = (OpaqueAuth::decode(from)?, OpaqueAuth::decode(from)?);
        Ok(Self { program, version, procedure, credential, verifier, arguments: from.rest() })
    }
}

impl<'a> Reply<'a> {
    /// Encodes the reply to the call with `xid`; the results of a success follow.
    pub fn encode_head(&self, xid: u32, to: &mut Encoder<'_>) {
        to.uint(xid).uint(1);
        match self {
            Self::Accepted { verifier, status } => {
                to.uint(0);
                verifier.encode(to);
                status.encode_head(to);
            }
            Self::Denied(Denial::RpcMismatch { low, high }) => {
                to.uint(1).uint(0).uint(*low).uint(*high);
            }
            Self::Denied(Denial::Authentication(status)) => {
                to.uint(1).uint(1).uint(status.0);
            }
        }
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self> {
        let place = from.clone();
        match from.uint()? {
            0 => {
                let verifier = OpaqueAuth::decode(from)?;
                Ok(Self::Accepted { verifier, status: AcceptStatus::decode(from)? })
            }
            1 => Denial::decode(from).map(Self::Denied),
            _ => Err(place.expected("accepted 0 or denied 1")),
        }
    }
}

impl<'a> AcceptStatus<'a> {
    fn encode_head(&self, to: &mut Encoder<'_>) {
        match self {
            Self::Success(_) => to.uint(0),
            Self::ProgramUnavailable => to.uint(1),
            Self::ProgramMismatch { low, high } => to.uint(2).uint(*low).uint(*high),
            Self::ProcedureUnavailable => to.uint(3),
            Self::GarbageArguments => to.uint(4),
            Self::SystemError => to.uint(5),
        };
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self> {
        let place = from.clone();
        Ok(match from.uint()? {
            0 => return Ok(Self::Success(from.rest())),
            1 => Self::ProgramUnavailable,
            2 => Self::ProgramMismatch { low: from.uint()?, high: from.uint()? },
            3 => Self::ProcedureUnavailable,
            4 => Self::GarbageArguments,
            5 => Self::SystemError,
            _ => return Err(place.expected("a status of an accepted call, 0 to 5")),
        })
    }
}

impl Denial {
    fn decode(from: &mut Decoder<'_>) -> Result<Self> {
        let place = from.clone();
        match from.uint()? {
            0 => Ok(Self::RpcMismatch { low: from.uint()?, high: from.uint()? }),
            1 => Ok(Self::Authentication(AuthStatus(from.uint()?))),
            _ => Err(place.expected("a reason of a denied call, 0 or 1")),
        }
    }
}

impl<'a> OpaqueAuth<'a> {
    fn encode(&self, to: &mut Encoder<'_>) {
        to.uint(self.flavor).opaque(self.body);
    }

    fn decode(from: &mut Decoder<'a>) -> Result<Self> {
        Ok(Self { flavor: from.uint()?, body: from.opaque(AUTH_OCTETS_MAX)? })
    }
}

impl<'a> Message<'a> {
    /// Decodes a message; arguments and results stay encoded.
    ///
    /// # Errors
    ///
    /// When the octets are no call and no reply. A call of another RPC version is one of these
    /// errors: the server answers it with [`Denial::RpcMismatch`].
    pub fn decode(octets: &'a [u8]) -> Result<Self> {
        let mut from = Decoder::new(octets);
        let xid = from.uint()?;
        let place = from.clone();
        let body = match from.uint()? {
            0 => Body::Call(Call::decode(&mut from)?),
            1 => Body::Reply(Reply::decode(&mut from)?),
            _ => return Err(place.expected("call 0 or reply 1")),
        };
        Ok(Self { xid, body })
    }

    /// Encodes the message with its arguments or results.
    pub fn encode(&self) -> Vec<u8> {
        let mut octets = Vec::new();
        let mut to = Encoder::new(&mut octets);
        match &self.body {
            Body::Call(call) => {
                call.encode_head(self.xid, &mut to);
                octets.extend_from_slice(call.arguments);
            }
            Body::Reply(reply) => {
                reply.encode_head(self.xid, &mut to);
                if let Reply::Accepted { status: AcceptStatus::Success(results), .. } = reply {
                    octets.extend_from_slice(results);
                }
            }
        }
        octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{hex, words};
    use proptest::prelude::*;

    const ECHO: &str = "00000005 61626364 65000000";

    fn check(body: Body<'_>, xid: u32, octets: &str) {
        let message = Message { xid, body };
        assert_eq!(words(&message.encode()), octets);
        assert_eq!(Message::decode(&hex(octets)), Ok(message));
    }

    fn accepted(status: AcceptStatus<'_>) -> Body<'_> {
        Body::Reply(Reply::Accepted { verifier: OpaqueAuth::default(), status })
    }

    #[test]
    fn a_call_takes_forty_octets_and_its_arguments() {
        let arguments = hex(ECHO);
        let call = Call {
            program: 0x2000_0099,
            version: 1,
            procedure: 1,
            arguments: &arguments,
            ..Call::default()
        };
        check(
            Body::Call(call),
            0x1a2b_3c4d,
            "1a2b3c4d 00000000 00000002 20000099 00000001 00000001 00000000 00000000 00000000 \
             00000000 00000005 61626364 65000000",
        );
    }

    #[test]
    fn a_reply_takes_twenty_four_octets_and_its_results() {
        let results = hex(ECHO);
        check(
            accepted(AcceptStatus::Success(&results)),
            0x1a2b_3c4d,
            "1a2b3c4d 00000001 00000000 00000000 00000000 00000000 00000005 61626364 65000000",
        );
    }

    #[test]
    fn refusals_have_their_published_form() {
        let unavailable = "00000009 00000001 00000000 00000000 00000000 00000001";
        check(accepted(AcceptStatus::ProgramUnavailable), 9, unavailable);
        check(
            accepted(AcceptStatus::ProgramMismatch { low: 1, high: 3 }),
            9,
            "00000009 00000001 00000000 00000000 00000000 00000002 00000001 00000003",
        );
        let denied = |denial| Body::Reply(Reply::Denied(denial));
        check(
            denied(Denial::RpcMismatch { low: 2, high: 2 }),
            9,
            "00000009 00000001 00000001 00000000 00000002 00000002",
        );
        check(
            denied(Denial::Authentication(AuthStatus::TOO_WEAK)),
            9,
            "00000009 00000001 00000001 00000001 00000005",
        );
    }

    #[test]
    fn octets_that_are_no_message_are_refused_with_their_place() {
        let fails = |octets: &str| Message::decode(&hex(octets)).unwrap_err().to_string();
        assert_eq!(fails("00000009"), "octet 4: expected four octets");
        assert_eq!(fails("00000009 00000002"), "octet 4: expected call 0 or reply 1");
        assert_eq!(fails("00000009 00000000 00000003"), "octet 8: expected RPC version 2");
        assert_eq!(fails("00000009 00000001 00000002"), "octet 8: expected accepted 0 or denied 1");
        let long = "00000009 00000000 00000002 00000001 00000001 00000001 00000001 00000191";
        assert_eq!(fails(long), "octet 28: expected a shorter length");
    }

    proptest! {
        #[test]
        fn any_octets_decode_to_what_encodes_to_them_or_fail(octets: Vec<u8>) {
            if let Ok(message) = Message::decode(&octets) {
                let again = message.encode();
                prop_assert_eq!(&octets[..again.len()], &again);
            }
        }
    }
}
