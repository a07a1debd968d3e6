//! The calls by which a program makes its socket ready.

use sockscope_record::Protocol;
use sockscope_stack::{Endpoint, SocketId};

use super::Setup;
use crate::program::{Action, Answer};

/// Connections that wait at a listening socket.
const BACKLOG: u32 = 5;

/// Makes a socket, binds it where it has a port, does its [`Setup`], and connects or listens, one call
/// after the other.
#[derive(Debug)]
pub struct Opening {
    protocol: Protocol,
    port: Option<u16>,
    setup: Setup,
    last: Last,
    step: Step,
}

/// The last call.
#[derive(Debug, Clone, Copy)]
enum Last {
    None,
    Connect(Endpoint),
    Listen,
}

#[derive(Debug)]
enum Step {
    Begin,
    Made,
    /// These calls are left, the next one last.
    Left(SocketId, Vec<Action>),
}

/// The progress of an opening.
#[derive(Debug)]
pub enum Opened {
    /// This is the next call.
    Not(Action),
    /// The last call has been answered.
    Ready(SocketId),
}

impl Opening {
    /// A stream to this server.
    pub fn to(server: Endpoint) -> Self {
        Self::new(Protocol::Tcp, None, Last::Connect(server))
    }

    /// A socket at which connections to this port are accepted.
    pub fn at(port: u16) -> Self {
        Self::new(Protocol::Tcp, Some(port), Last::Listen)
    }

    /// A socket for datagrams, at a port of the kernel's choice when `port` is `None`.
    pub fn of_datagrams(port: Option<u16>) -> Self {
        Self::new(Protocol::Udp, port, Last::None)
    }

    fn new(protocol: Protocol, port: Option<u16>, last: Last) -> Self {
        Self { protocol, port, setup: Setup::default(), last, step: Step::Begin }
    }

    /// The same with this done to the socket before the last call.
    pub fn set_up(self, setup: Setup) -> Self {
        Self { setup, ..self }
    }

    /// Goes on after `answer`, which is not a failure. A program calls this until it is ready.
    pub fn go_on(&mut self, answer: Answer) -> Opened {
        match &mut self.step {
            Step::Begin => {
                self.step = Step::Made;
                Opened::Not(Action::Socket(self.protocol))
            }
            Step::Made => {
                let Some(id) = answer.socket() else { return Opened::Not(Action::Exit) };
                self.step = Step::Left(id, self.calls(id));
                self.go_on(answer)
            }
            Step::Left(id, left) => left.pop().map_or(Opened::Ready(*id), Opened::Not),
        }
    }

    /// The calls on the socket once it is made, the first call last.
    fn calls(&self, id: SocketId) -> Vec<Action> {
        let last = match self.last {
            Last::None => None,
            Last::Connect(to) => Some(Action::Connect(id, to)),
            Last::Listen => Some(Action::Listen(id, BACKLOG)),
        };
        let bind = self.port.map(|port| Action::Bind(id, port));
        last.into_iter().chain(self.setup.actions(id)).chain(bind).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// The calls in order, as the program makes them.
    fn calls(mut opening: Opening) -> Vec<String> {
        let id = SocketId(3);
        let mut calls = Vec::new();
        let mut answer = Answer::Done(0);
        while let Opened::Not(action) = opening.go_on(answer) {
            answer = match action {
                Action::Socket(_) => Answer::Socket(id),
                _ => Answer::Done(0),
            };
            let text = format!("{action:?}");
            calls.push(text.split('(').next().unwrap_or_default().to_owned());
        }
        calls
    }

    #[test]
    fn options_come_after_the_address_and_before_connections() {
        let setup = Setup { no_delay: true, log: true, ..Setup::default() };
        let server = Opening::at(9).set_up(setup);
        assert_eq!(calls(server), ["Socket", "Bind", "Log", "SetOption", "Listen"]);
        let client = Opening::to((Ipv4Addr::LOCALHOST, 9)).set_up(setup);
        assert_eq!(calls(client), ["Socket", "Log", "SetOption", "Connect"]);
        assert_eq!(calls(Opening::of_datagrams(Some(7))), ["Socket", "Bind"]);
        assert_eq!(calls(Opening::of_datagrams(None)), ["Socket"]);
    }

    #[test]
    fn a_kernel_without_sockets_ends_the_program() {
        let mut opening = Opening::at(9);
        assert!(matches!(opening.go_on(Answer::Done(0)), Opened::Not(Action::Socket(_))));
        assert!(matches!(opening.go_on(Answer::Done(0)), Opened::Not(Action::Exit)));
    }
}
