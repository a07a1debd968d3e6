//! A server on a socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::filter::Wanted;
use super::link::{Link, LinkError, RECEIVE_BYTES};
use super::{now_ns, wait_for};
use crate::observe::Log;
use crate::server::{Incoming, RespondError, ServerCounters};
use crate::wire::Entity;
use crate::{Config, Outcome, Server, Token};

/// Packets taken before requests are handled: a busy network does not starve the application.
const PACKETS_AT_ONCE: usize = 64;

/// The longest time at the end for packets that are still queued.
const FINISH_NS_MAX: u64 = 500_000_000;

/// One server entity and its socket.
#[derive(Debug)]
pub struct Service {
    link: Link,
    entity: Entity,
    groups: Vec<Entity>,
    is_among_others: bool,
    server: Server<SocketAddr>,
    buffer: Vec<u8>,
    packet: Vec<u8>,
}

impl Service {
    /// A server without a Request yet.
    pub fn new(link: Link, entity: Entity, config: Config) -> Self {
        // Without a filter the engine checks all packets, and drops those of others.
        let _ = link.want(&Wanted::Server(entity));
        Self {
            link,
            entity,
            groups: Vec::new(),
            is_among_others: false,
            server: Server::new(entity, config),
            buffer: vec![0; RECEIVE_BYTES],
            packet: Vec::new(),
        }
    }

    /// Its socket.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Takes requests to a group, whose packets [`Link::join`] lets in.
    ///
    /// # Errors
    ///
    /// When the server is among others and the kernel does not take the group into its filter: then
    /// requests to the group are not received.
    pub fn join(&mut self, group: Entity) -> Result<(), LinkError> {
        self.server.join(group);
        self.groups.push(group);
        if self.is_among_others { self.want_own() } else { Ok(()) }
    }

    /// Declares that other servers share the address, which raw IP cannot distinguish by ports:
    /// this server does not refuse Requests to foreign names, which are for one of them.
    ///
    /// # Errors
    ///
    /// When the kernel refuses the filter that keeps them away: then this server would refuse them.
    pub fn be_among_others(&mut self) -> Result<(), LinkError> {
        self.want_own()?;
        self.is_among_others = true;
        Ok(())
    }

    fn want_own(&self) -> Result<(), LinkError> {
        self.link.want(&Wanted::Member(self.entity, self.groups.clone()))
    }

    /// The counters up to now.
    pub fn counters(&self) -> ServerCounters {
        self.server.counters()
    }

    /// Clients that it remembers now.
    pub fn clients(&self) -> usize {
        self.server.clients()
    }

    /// Octets that it keeps for Requests and Responses.
    pub fn held_bytes(&self) -> usize {
        self.server.held_bytes()
    }

    /// Takes the address of a client as proved: the client receives packets there; see [`Server::prove_address`].
    pub fn prove_address(&mut self, token: Token) {
        self.server.prove_address(token);
    }

    /// The observations of its engine, from [`Log::begin`] on; for [`super::Trace`].
    pub fn log(&mut self) -> &mut Log<SocketAddr> {
        self.server.log()
    }

    /// Sends the queued packets, for instance after a client asked for pauses, and handles the clients'
    /// packets about them, at most for half a second. A client without an answer after that gets none.
    ///
    /// # Errors
    ///
    /// When the network fails.
    pub fn finish(&mut self) -> io::Result<()> {
        let until_ns = now_ns().saturating_add(FINISH_NS_MAX);
        self.transmit()?;
        while self.server.owes() && now_ns() < until_ns {
            self.advance(super::WAIT_MAX)?;
        }
        Ok(())
    }

    /// Answers requests by `answer`, until `ends` returns true. `ends` is called before each turn, and may
    /// take the engine's observations.
    ///
    /// # Errors
    ///
    /// When the network fails.
    pub fn serve(
        &mut self,
        mut ends: impl FnMut(&mut Self) -> bool,
        mut answer: impl FnMut(Incoming<SocketAddr>) -> Outcome,
    ) -> io::Result<()> {
        while !ends(self) {
            self.advance(super::WAIT_MAX)?;
            while let Some(request) = self.server.poll_request() {
                let token = request.token;
                let outcome = answer(request);
                // A client that has gone on needs no answer any more.
                let _ = self.respond(token, outcome)?;
            }
        }
        self.finish()
    }

    /// Waits for packets or a time limit, at most for `most`, and deals with them. For use with other
    /// descriptors, poll this one's for input and give [`Duration::ZERO`].
    ///
    /// # Errors
    ///
    /// When the network fails.
    pub fn advance(&mut self, most: Duration) -> io::Result<()> {
        let mut wait = wait_for(self.server.poll_timeout(), now_ns()).min(most);
        for _ in 0..PACKETS_AT_ONCE {
            let came = self.link.receive(&mut self.buffer, wait)?;
            let now_ns = now_ns();
            let Some((from, octets)) = came else { break };
            self.server.handle(now_ns, from, octets);
            if self.server.has_requests() {
                break;
            }
            wait = Duration::ZERO;
        }
        self.server.handle_timeout(now_ns());
        self.transmit()
    }

    /// The next request that arrived whole.
    pub fn poll_request(&mut self) -> Option<Incoming<SocketAddr>> {
        self.server.poll_request()
    }

    /// The next request whose client was found to be gone while the application had it.
    pub fn poll_abandoned(&mut self) -> Option<Token> {
        self.server.poll_abandoned()
    }

    /// Answers a request; the inner error is a client that has gone on, or an answer that is too long.
    ///
    /// # Errors
    ///
    /// When the network fails.
    pub fn respond(
        &mut self,
        token: Token,
        outcome: Outcome,
    ) -> io::Result<Result<(), RespondError>> {
        let answered = self.server.respond(now_ns(), token, outcome);
        self.transmit()?;
        Ok(answered)
    }

    fn transmit(&mut self) -> io::Result<()> {
        while let Some(to) = self.server.poll_transmit(now_ns(), &mut self.packet) {
            self.link.send(to, &self.packet)?;
        }
        Ok(())
    }
}

impl AsFd for Service {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
