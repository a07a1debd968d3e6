//! A portmapper that knows one program.

use sockscope_oncrpc::{
    AcceptStatus, Body, Decoder, Encoder, Mapping, Message, OpaqueAuth, PORT, PROGRAM, Reply,
    procedure,
};
use sockscope_sim::programs::{Opened, Opening};
use sockscope_sim::{Action, Answer, Data, Program, ProgramContext};
use sockscope_stack::SocketId;

use super::{SharedLog, fail};

/// Largest datagram that it reads: the classic library's UDPMSGSIZE.
const DATAGRAM_OCTETS_MAX: usize = 8800;

enum State {
    Opening,
    Reading,
    Answered,
}

/// Answers GETPORT over UDP, for ever.
pub(crate) struct Portmapper {
    known: Mapping,
    log: SharedLog,
    opening: Opening,
    state: State,
    socket: SocketId,
}

impl Portmapper {
    pub(crate) fn new(known: Mapping, log: SharedLog) -> Self {
        let opening = Opening::of_datagrams(Some(PORT));
        Self { known, log, opening, state: State::Opening, socket: SocketId(0) }
    }

    fn step(&mut self, context: &ProgramContext<'_>) -> Result<Action, String> {
        if let Answer::Failed(error) = context.answer {
            return Err(format!("portmapper: {error}"));
        }
        Ok(match self.state {
            State::Opening => match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(id) => {
                    self.socket = id;
                    self.receive()
                }
            },
            State::Answered => self.receive(),
            State::Reading => {
                // Octets that are no call have no receiver here: a link may have turned a bit.
                let Ok(reply) = self.answer(context.data()) else {
                    return Ok(self.receive());
                };
                self.state = State::Answered;
                Action::SendTo(self.socket, context.from, Data::Bytes(reply))
            }
        })
    }

    fn receive(&mut self) -> Action {
        self.state = State::Reading;
        Action::ReceiveFrom(self.socket, DATAGRAM_OCTETS_MAX)
    }

    /// The reply to one call.
    fn answer(&self, call: &[u8]) -> sockscope_oncrpc::Result<Vec<u8>> {
        let Message { xid, body } = Message::decode(call)?;
        let mut port = Vec::new();
        let status = match body {
            Body::Call(call) if call.program != PROGRAM => AcceptStatus::ProgramUnavailable,
            Body::Call(call) if call.procedure == procedure::GETPORT => {
                let mut wanted = Mapping::decode(&mut Decoder::new(call.arguments))?;
                wanted.port = self.known.port;
                Encoder::new(&mut port).uint(if wanted == self.known { wanted.port } else { 0 });
                AcceptStatus::Success(&port)
            }
            _ => AcceptStatus::ProcedureUnavailable,
        };
        let reply = Reply::Accepted { verifier: OpaqueAuth::default(), status };
        Ok(Message { xid, body: Body::Reply(reply) }.encode())
    }
}

impl Program for Portmapper {
    fn name(&self) -> &str {
        "portmap"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        self.step(context).unwrap_or_else(|problem| fail(&self.log, problem))
    }
}
