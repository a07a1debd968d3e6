//! A client on a socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::filter::Wanted;
use super::link::{Link, RECEIVE_BYTES};
use super::{now_ns, wait_for};
use crate::client::{ClientCounters, StartError};
use crate::observe::Log;
use crate::wire::{Entity, code};
use crate::{Client, Config, Event, Fixed, Options, Request, Response};

/// A call without a Response.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The socket failed.
    #[error("the network failed: {0}")]
    Network(#[from] io::Error),
    /// The call could not begin.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It ended with a code of VMTP.
    #[error("{}", words(*.0))]
    Failed(u32),
}

fn words(failed: u32) -> String {
    match failed {
        code::RETRANS_TIMEOUT => {
            "no answer: is the server running, and is this its address?".into()
        }
        code::NONEXISTENT_ENTITY => "the host answers, but has no entity of this name".into(),
        code::BAD_REPLY_SEGMENT => "part of the answer never came".into(),
        code::NOT_AWAITING_MSG => "the server does not wait for a request now".into(),
        code::RESPONSE_DISCARDED => "the server does not keep its answer any more".into(),
        other => format!("the server's module answers with code {other}"),
    }
}

/// One client entity and its socket.
#[derive(Debug)]
pub struct Caller {
    link: Link,
    client: Client<SocketAddr>,
    buffer: Vec<u8>,
    packet: Vec<u8>,
}

impl Caller {
    /// A client whose first transaction has this number: take one that the entity has not used.
    pub fn new(link: Link, entity: Entity, first_transaction: u32, config: Config) -> Self {
        // Without a filter the engine checks all packets, and drops those of others.
        let _ = link.want(&Wanted::Client(entity));
        Self {
            link,
            client: Client::new(entity, first_transaction, config),
            buffer: vec![0; RECEIVE_BYTES],
            packet: Vec::new(),
        }
    }

    /// Its socket.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// The counters up to now.
    pub fn counters(&self) -> ClientCounters {
        self.client.counters()
    }

    /// The observations of its engine, from [`Log::begin`] on; for [`super::Trace`].
    pub fn log(&mut self) -> &mut Log<SocketAddr> {
        self.client.log()
    }

    /// Calls one server and waits for its Response.
    ///
    /// # Errors
    ///
    /// When no Response arrives, or the network fails.
    pub fn call(
        &mut self,
        server: Entity,
        to: SocketAddr,
        request: Request,
        options: Options,
    ) -> Result<Response<SocketAddr>, CallError> {
        self.start(server, to, request, options)?;
        match self.wait()? {
            Event::Response(response) => Ok(response),
            Event::Failed(code) => Err(CallError::Failed(code)),
            // Only groups finish without a Response.
            Event::Finished(_) => Err(CallError::Failed(code::RETRANS_TIMEOUT)),
        }
    }

    /// Calls a group at its multicast address and collects Responses for `many` after the first one.
    ///
    /// # Errors
    ///
    /// When no Response arrives, or the network fails.
    pub fn call_group(
        &mut self,
        group: Entity,
        to: SocketAddr,
        request: Request,
        many: Duration,
    ) -> Result<Vec<Response<SocketAddr>>, CallError> {
        let many_ns = u64::try_from(many.as_nanos()).unwrap_or(u64::MAX);
        self.start(group, to, request, Options { many_ns: Some(many_ns), ..Options::default() })?;
        self.collect()
    }

    /// Asks for the owner of a name, at fixed times: the received answers, none for a free name.
    ///
    /// # Errors
    ///
    /// When the network fails or a call is under way.
    pub fn find(
        &mut self,
        entity: Entity,
        to: SocketAddr,
        fixed: Fixed,
    ) -> Result<Vec<Response<SocketAddr>>, CallError> {
        self.client.find(now_ns(), entity, self.link.place(to), fixed)?;
        self.transmit()?;
        self.collect()
    }

    fn collect(&mut self) -> Result<Vec<Response<SocketAddr>>, CallError> {
        let mut responses = Vec::new();
        loop {
            match self.wait()? {
                Event::Response(response) => responses.push(response),
                Event::Finished(_) => return Ok(responses),
                Event::Failed(code) => return Err(CallError::Failed(code)),
            }
        }
    }

    /// Begins a call; [`Caller::advance`] goes on with it.
    ///
    /// # Errors
    ///
    /// When one is under way, the segment is too long, or the network fails.
    pub fn start(
        &mut self,
        server: Entity,
        to: SocketAddr,
        request: Request,
        options: Options,
    ) -> Result<u32, CallError> {
        let (now_ns, to) = (now_ns(), self.link.place(to));
        let transaction = self.client.start(now_ns, server, to, request, options)?;
        self.transmit()?;
        Ok(transaction)
    }

    fn wait(&mut self) -> Result<Event<SocketAddr>, CallError> {
        loop {
            if let Some(event) = self.advance(super::WAIT_MAX)? {
                return Ok(event);
            }
        }
    }

    /// Waits for a packet or a time limit, at most for `most`, and deals with it. For use with other
    /// descriptors, poll this one's for input and give [`Duration::ZERO`].
    ///
    /// # Errors
    ///
    /// When the network fails.
    pub fn advance(&mut self, most: Duration) -> io::Result<Option<Event<SocketAddr>>> {
        if let Some(event) = self.client.poll_event() {
            return Ok(Some(event));
        }
        let wait = wait_for(self.client.poll_timeout(), now_ns()).min(most);
        let came = self.link.receive(&mut self.buffer, wait)?;
        let now_ns = now_ns();
        if let Some((from, octets)) = came {
            self.client.handle(now_ns, from, octets);
        }
        self.client.handle_timeout(now_ns);
        self.transmit()?;
        Ok(self.client.poll_event())
    }

    fn transmit(&mut self) -> io::Result<()> {
        while let Some(to) = self.client.poll_transmit(now_ns(), &mut self.packet) {
            self.link.send(to, &self.packet)?;
        }
        Ok(())
    }
}

impl AsFd for Caller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
