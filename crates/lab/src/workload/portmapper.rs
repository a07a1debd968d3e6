//! A portmapper that knows one program.

use sockscope_oncrpc::{
    AcceptStatus, Body, Decoder, Encoder, Mapping, Message, OpaqueAuth, PORT, PROGRAM, Reply,
    procedure,
};
use sockscope_record::Protocol;
use sockscope_sim::{Action, Answer, Data, Program, ProgramContext};
use sockscope_stack::SocketId;

use super::{SharedLog, fail, socket_of};

/// Largest datagram that it reads: the classic library's UDPMSGSIZE.
const DATAGRAM_OCTETS_MAX: usize = 8800;

enum State {
    Begin,
    Made,
    Bound,
    Reading,
    Answered,
}

/// Answers GETPORT over UDP, for ever.
pub(crate) struct Portmapper {
    known: Mapping,
    log: SharedLog,
    state: State,
    socket: SocketId,
}

impl Portmapper {
    pub(crate) fn new(known: Mapping, log: SharedLog) -> Self {
        Self { known, log, state: State::Begin, socket: SocketId(0) }
    }

    fn step(&mut self, context: &ProgramContext<'_>) -> Result<Action, String> {
        if let Answer::Failed(error) = context.answer {
            return Err(format!("portmapper: {error}"));
        }
        Ok(match self.state {
            State::Begin => {
                self.state = State::Made;
                Action::Socket(Protocol::Udp)
            }
            State::Made => {
                self.socket = socket_of(context.answer)?;
                self.state = State::Bound;
                Action::Bind(self.socket, PORT)
            }
            State::Bound | State::Answered => {
                self.state = State::Reading;
                Action::ReceiveFrom(self.socket, DATAGRAM_OCTETS_MAX)
            }
            State::Reading => {
                // What is no call is for nobody here: a link may have turned a bit of it.
                let Ok(reply) = self.answer(context.data()) else {
                    return Ok(Action::ReceiveFrom(self.socket, DATAGRAM_OCTETS_MAX));
                };
                self.state = State::Answered;
                Action::SendTo(self.socket, context.from, Data::Bytes(reply))
            }
        })
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
