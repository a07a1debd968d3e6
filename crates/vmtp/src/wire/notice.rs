//! Notices between the two modules of a transaction (RFC 1045 appendix III): datagram Requests to the
//! other side's management module.

use super::entity::{Entity, MANAGER_GROUP};
use super::header::{Code, Control, Header, operation};

/// The destination side of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeTo {
    /// From the server's module: of a Request.
    Client,
    /// From the client's module: of a Response.
    Server,
}

/// A notice from one side to the other about a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// To which side.
    pub to: NoticeTo,
    /// The transaction's client.
    pub client: Entity,
    /// The transaction's server.
    pub server: Entity,
    /// The transaction, or the group of its run.
    pub transaction: u32,
    /// Blocks of the group that arrived, ever: a later notice never takes one back.
    pub delivery: u32,
    /// A code of [`super::code`].
    pub code: u32,
    /// The control word that a Response would have; only to a client.
    pub control: Control,
}

impl Notice {
    /// The notice in a header; `None` in any other header.
    pub fn decode(header: &Header) -> Option<Self> {
        if !header.code.datagram || !header.code.public_interface {
            return None;
        }
        match header.code.value {
            operation::NOTIFY_CLIENT => Some(Self {
                to: NoticeTo::Client,
                client: header.entity(0),
                server: header.client,
                control: Control::decode(header.word(8)),
                transaction: header.word(16),
                delivery: header.word(20),
                code: header.word(24),
            }),
            operation::NOTIFY_SERVER => Some(Self {
                to: NoticeTo::Server,
                server: header.entity(0),
                client: header.entity(8),
                control: Control::default(),
                transaction: header.word(16),
                delivery: header.word(20),
                code: header.word(24),
            }),
            _ => None,
        }
    }

    /// The header that carries it, as the module's own transaction `number`.
    pub fn header(&self, number: u32, domain: u16) -> Header {
        let (from, value) = match self.to {
            NoticeTo::Client => (self.server, operation::NOTIFY_CLIENT),
            NoticeTo::Server => (self.client, operation::NOTIFY_SERVER),
        };
        let mut header = Header {
            domain,
            code: Code {
                datagram: true,
                co_resident: true,
                public_interface: true,
                ..Code::new(value)
            },
            ..Header::request(from, MANAGER_GROUP, number)
        };
        match self.to {
            NoticeTo::Client => {
                header.put(0, &self.client.0.to_be_bytes());
                header.put(8, &self.control.encode().to_be_bytes());
            }
            NoticeTo::Server => {
                header.put(0, &self.server.0.to_be_bytes());
                header.put(8, &self.client.0.to_be_bytes());
            }
        }
        for (at, word) in [(16, self.transaction), (20, self.delivery), (24, self.code)] {
            header.put(at, &word.to_be_bytes());
        }
        header
    }
}
