//! Responses in reception, one for each server that answers.

use crate::config::Config;
use crate::message::{Added, Incoming, group_number};
use crate::wire::{Entity, Header, code};

/// Responses to one Request.
#[derive(Debug)]
pub(super) struct Replies<A> {
    of: Vec<Reply<A>>,
}

#[derive(Debug)]
struct Reply<A> {
    from: A,
    server: Entity,
    groups: usize,
    /// `None` once it was delivered, or given up.
    incoming: Option<Incoming>,
    is_given_up: bool,
    /// The first packet's code and parameters.
    head: Header,
}

/// The effect of a packet.
#[derive(Debug)]
pub(super) struct Heard<A> {
    pub whole: Option<Response<A>>,
    /// The code of the notice to the server, if any, and the received blocks.
    pub notice: Option<u32>,
    pub delivery: u32,
    /// The group lacks packets.
    pub waits: bool,
}

impl<A> Default for Replies<A> {
    fn default() -> Self {
        Self { of: Vec::new() }
    }
}

impl<A> Heard<A> {
    fn nothing() -> Self {
        Self { whole: None, notice: None, delivery: 0, waits: false }
    }

    fn notice(code: u32) -> Self {
        Self { notice: Some(code), delivery: u32::MAX, ..Self::nothing() }
    }
}

impl<A: Copy> Replies<A> {
    pub(super) fn has_any(&self) -> bool {
        !self.of.is_empty()
    }

    /// The number of whole Responses.
    pub(super) fn whole(&self) -> usize {
        self.of.iter().filter(|reply| reply.incoming.is_none() && !reply.is_given_up).count()
    }

    pub(super) fn groups_max(&self) -> usize {
        self.of.iter().map(|reply| reply.groups).max().unwrap_or(1)
    }

    /// Takes a packet of a Response to the Request that begins at `base`.
    pub(super) fn add(
        &mut self,
        from: A,
        header: &Header,
        data: &[u8],
        base: u32,
        config: &Config,
    ) -> Heard<A> {
        let at = match self.of.iter().position(|reply| reply.server == header.server) {
            Some(at) => at,
            None => match self.open(from, header, config) {
                Ok(at) => at,
                Err(code) => return Heard::notice(code),
            },
        };
        let reply = &mut self.of[at];
        let Some(incoming) = &mut reply.incoming else {
            // Here whole already: the acknowledgment was lost.
            let asks = header.control.acknowledge;
            return if asks { Heard::notice(code::RESPONSE_DISCARDED) } else { Heard::nothing() };
        };
        let Some(number) = group_number(base, header.transaction, reply.groups) else {
            return Heard::nothing();
        };
        let Ok(added) = incoming.add(number, header, data) else { return Heard::nothing() };
        let is_whole = incoming.is_whole(number);
        // A packet without data asks for the received blocks.
        let asks = header.control.acknowledge && (is_whole || header.delivery == 0);
        let notice = asks.then_some(if is_whole { code::OK } else { code::RETRY });
        let delivery = incoming.received(number);
        let is_complete = incoming.is_complete();
        let waits = !is_complete && added != Added::Nothing;
        let whole = if is_complete { reply.take() } else { None };
        Heard { whole, notice, delivery, waits }
    }

    fn open(&mut self, from: A, header: &Header, config: &Config) -> Result<usize, u32> {
        if self.of.len() >= config.responders_max {
            return Err(code::BUSY);
        }
        let incoming =
            Incoming::new(header, config.segment_bytes_max).map_err(|_| code::VMTP_ERROR)?;
        let (server, groups) = (header.server, incoming.groups());
        debug_assert!(self.of.iter().all(|reply| reply.server != server), "a second Response");
        let incoming = Some(incoming);
        self.of.push(Reply { from, server, groups, incoming, is_given_up: false, head: *header });
        Ok(self.of.len() - 1)
    }

    /// Whether a Response lacks packets.
    pub(super) fn is_waiting(&self) -> bool {
        self.of.iter().any(|reply| reply.incoming.is_some())
    }

    /// Gives up the Responses that lack packets and are not sent again (NRT), or all; returns those that may be
    /// delivered in part (MDM).
    pub(super) fn give_up(&mut self, all: bool) -> Vec<Response<A>> {
        let half = self.of.iter_mut().filter(|reply| {
            reply.incoming.is_some() && (all || reply.head.control.no_retransmission)
        });
        let partial = half.filter_map(|reply| {
            let takes_part = reply.head.code.message_mask;
            let response = reply.take();
            reply.is_given_up = !takes_part;
            response.filter(|_| takes_part)
        });
        partial.collect()
    }

    /// By Response that has begun: address, server, first incomplete group, its received blocks.
    pub(super) fn missing(&self, base: u32) -> impl Iterator<Item = (A, Entity, u32, u32)> {
        self.of.iter().filter_map(move |reply| {
            let incoming = reply.incoming.as_ref()?;
            let number = incoming.first_missing();
            let transaction = base.wrapping_add(number as u32);
            Some((reply.from, reply.server, transaction, incoming.received(number)))
        })
    }
}

impl<A: Copy> Reply<A> {
    /// The whole Response, once.
    fn take(&mut self) -> Option<Response<A>> {
        let incoming = self.incoming.take()?;
        let delivery = self.head.code.message_mask.then(|| incoming.received(0));
        let segment = incoming.into_segment();
        Some(Response {
            delivery,
            server: self.server,
            from: self.from,
            code: self.head.code.value,
            user: std::array::from_fn(|at| self.head.parameters[at]),
            segment,
        })
    }
}

/// A Response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<A> {
    /// The server that answered.
    pub server: Entity,
    /// From where.
    pub from: A,
    /// Its result: a code of [`code`] or the application's.
    pub code: u32,
    /// Octets that travelled in the header.
    pub user: [u8; 20],
    /// The segment; zeros where blocks are missing.
    pub segment: Vec<u8>,
    /// The blocks that arrived, where the server said which ones it sends (MDM).
    pub delivery: Option<u32>,
}
