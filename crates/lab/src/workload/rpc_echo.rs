//! Remote calls over TCP: a client that sends a string and waits for it, a server that sends it back.
//!
//! Both have the record streams of the classic library, so their writes and reads have its sizes.
//! Converting a string costs as much as copying it, in user mode.

use std::collections::VecDeque;

use sockscope_oncrpc::{
    AcceptStatus, BUFFER_OCTETS, Body, Call, Decoder, Encoder, Mapping, Message, OpaqueAuth,
    RecordReader, RecordWriter, Reply, getport_call, protocol,
};
use sockscope_record::counted;
use sockscope_sim::programs::{Opened, Opening, Setup};
use sockscope_sim::{Action, Answer, Conversion, Data, Program, ProgramContext, Way};
use sockscope_stack::{Endpoint, SocketError, SocketId};

use super::{SharedLog, end, fail, moved, socket_of};

/// The echo program: a number for local use (RFC 5531 §8.3), its only version and procedure.
pub(crate) const ECHO: Mapping =
    Mapping { program: 0x2000_0099, version: 1, protocol: protocol::TCP, port: 1055 };
const ECHO_PROCEDURE: u32 = 1;

/// Longest record that either end takes.
const RECORD_OCTETS_MAX: usize = 1 << 31;

/// Number of the first call; the library counts down from a random one.
const XID: u32 = 0x1a2b_3c4d;

/// The library's wait for the portmapper's answer before it asks again, and the number of questions
/// (`pmap_getport`: 5 s and a minute in all).
const ANSWER_NS: u64 = 5_000_000_000;
const QUESTIONS_MAX: u32 = 12;

/// The task of the client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EchoTask {
    /// Where the server is.
    pub server: Endpoint,
    /// Where to ask for its port first.
    pub portmapper: Option<Endpoint>,
    /// Calls to make on one connection.
    pub calls: u64,
    /// Octets of the string.
    pub data: usize,
    /// Buffer of the record streams; 0 for the default.
    pub buffer: usize,
    /// User time of converting one octet, in picoseconds.
    pub convert_ps: u64,
    /// User time between learning of data and reading them, at both ends.
    pub read_delay_ns: u64,
    /// The socket.
    pub setup: Setup,
    /// Time in user mode between the last reply and the close.
    pub after_ns: u64,
}

impl EchoTask {
    fn stream(&self) -> Opening {
        Opening::to(self.server).set_up(self.setup)
    }
}

/// The state of either end: a connection, its streams, and writes still to be made.
struct Ends {
    socket: SocketId,
    buffer: usize,
    convert_ps: u64,
    read_delay_ns: u64,
    writes: VecDeque<Vec<u8>>,
    /// The conversion for these writes, until it is reported.
    converted: Option<Conversion>,
    reader: RecordReader,
    /// Octets read of the record that is coming.
    octets_read: u32,
}

impl Ends {
    fn new(task: &EchoTask) -> Self {
        Self {
            socket: SocketId(0),
            buffer: task.buffer,
            convert_ps: task.convert_ps,
            read_delay_ns: task.read_delay_ns,
            writes: VecDeque::new(),
            converted: None,
            reader: RecordReader::new(RECORD_OCTETS_MAX),
            octets_read: 0,
        }
    }

    /// Puts a record into the send buffer of the stream; gives the time that converting takes.
    fn put(&mut self, now_ns: u64, encode: impl FnOnce(&mut Encoder<'_>)) -> Action {
        let mut stream = RecordWriter::new(self.buffer);
        encode(&mut Encoder::new(&mut stream));
        stream.end_record(true);
        self.writes = stream.take_writes().into();
        let octets: usize = self.writes.iter().map(Vec::len).sum();
        self.converted =
            Some(Conversion { way: Way::Out, octets: octets as u32, since_ns: now_ns });
        Action::Compute(octets as u64 * self.convert_ps / 1000)
    }

    /// The next write, or the wait for data when all is written: the library reads only data that
    /// select has announced. A conversion is reported before its write.
    fn go_on(&mut self) -> Action {
        if let Some(converted) = self.converted.take() {
            return Action::Converted(self.socket, converted);
        }
        match self.writes.pop_front() {
            Some(octets) => Action::Write(self.socket, Data::Bytes(octets)),
            None => Action::Select(self.socket),
        }
    }

    fn read(&self) -> Action {
        let asked = if self.buffer == 0 { BUFFER_OCTETS } else { self.buffer };
        Action::Read(self.socket, asked)
    }

    /// The record that the octets just read complete.
    fn take(&mut self, octets: &[u8]) -> Result<Option<Vec<u8>>, String> {
        self.octets_read += octets.len() as u32;
        let mut records = self.reader.push(octets).map_err(|error| error.to_string())?;
        match records.len() {
            0 => Ok(None),
            1 => Ok(records.pop()),
            more => Err(format!("{more} records at once, where each waits for its answer")),
        }
    }

    /// A record has been read and is converted: no time is charged for it.
    fn taken(&mut self, now_ns: u64) -> Action {
        let octets = std::mem::take(&mut self.octets_read);
        Action::Converted(self.socket, Conversion { way: Way::In, octets, since_ns: now_ns })
    }
}

#[derive(Clone, Copy)]
enum Client {
    /// It makes a socket to ask this portmapper.
    Finding(Endpoint),
    Asked(Endpoint),
    Told(Endpoint),
    Opening,
    Writing,
    Selecting,
    Ready,
    Reading,
    Returned,
    Closing,
    Closed,
}

/// Asks for the port if it is to, connects, makes the calls, closes.
pub(crate) struct EchoClient {
    task: EchoTask,
    log: SharedLog,
    ends: Ends,
    opening: Opening,
    state: Client,
    text: String,
    made: u64,
    /// The number of questions to the portmapper, and the end of the wait for the last answer.
    asked: u32,
    answer_until_ns: u64,
    started_ns: u64,
}

impl EchoClient {
    pub(crate) fn new(task: EchoTask, log: SharedLog) -> Self {
        let ends = Ends::new(&task);
        let text = "abcdefghijklmnopqrstuvwxyz".chars().cycle().take(task.data).collect();
        let (state, opening) = match task.portmapper {
            Some(portmapper) => (Client::Finding(portmapper), Opening::of_datagrams(None)),
            None => (Client::Opening, task.stream()),
        };
        Self {
            task,
            log,
            ends,
            opening,
            state,
            text,
            made: 0,
            asked: 0,
            answer_until_ns: 0,
            started_ns: 0,
        }
    }

    fn step(&mut self, context: &ProgramContext<'_>) -> Result<Action, String> {
        let is_unanswered = matches!(self.state, Client::Told(_))
            && context.answer == Answer::Failed(SocketError::TimedOut);
        if let Answer::Failed(error) = context.answer
            && !is_unanswered
        {
            return Err(format!("client after {}: {error}", counted(self.made, "call")));
        }
        match self.state {
            Client::Finding(portmapper) | Client::Asked(portmapper) | Client::Told(portmapper) => {
                self.find(portmapper, context)
            }
            Client::Opening => Ok(match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(id) => {
                    self.ends.socket = id;
                    self.call(context.now_ns)
                }
            }),
            Client::Returned => Ok(self.call(context.now_ns)),
            Client::Writing => Ok(self.write()),
            Client::Selecting => {
                self.state = Client::Ready;
                Ok(Action::Compute(self.ends.read_delay_ns))
            }
            Client::Ready => {
                self.state = Client::Reading;
                Ok(self.ends.read())
            }
            Client::Reading => self.read(context),
            Client::Closing => {
                self.state = Client::Closed;
                Ok(Action::Close(self.ends.socket))
            }
            Client::Closed => Ok(end(&self.log)),
        }
    }

    /// Asks the portmapper for the port, and then opens the connection.
    fn find(
        &mut self,
        portmapper: Endpoint,
        context: &ProgramContext<'_>,
    ) -> Result<Action, String> {
        let socket = self.ends.socket;
        match self.state {
            Client::Finding(_) => match self.opening.go_on(context.answer) {
                Opened::Not(action) => Ok(action),
                Opened::Ready(id) => {
                    self.ends.socket = id;
                    self.ask(portmapper)
                }
            },
            Client::Asked(_) => {
                self.state = Client::Told(portmapper);
                self.answer_until_ns = context.now_ns + ANSWER_NS;
                Ok(Action::ReceiveWithin(socket, 8800, ANSWER_NS))
            }
            _ if context.answer == Answer::Failed(SocketError::TimedOut) => self.ask(portmapper),
            _ => {
                let Some(told) = port_told(context.data()) else {
                    // A datagram that answers no question has no receiver here: a link may have turned
                    // a bit of it, or it answers an earlier run of the client.
                    let left_ns = self.answer_until_ns.saturating_sub(context.now_ns);
                    return Ok(Action::ReceiveWithin(socket, 8800, left_ns));
                };
                self.task.server.1 = told?;
                (self.opening, self.state) = (self.task.stream(), Client::Opening);
                Ok(Action::Close(socket))
            }
        }
    }

    /// Asks the portmapper, once more if nothing arrived.
    fn ask(&mut self, portmapper: Endpoint) -> Result<Action, String> {
        if self.asked == QUESTIONS_MAX {
            let asked_s = u64::from(QUESTIONS_MAX) * ANSWER_NS / 1_000_000_000;
            return Err(format!("the portmapper did not answer for {asked_s} s"));
        }
        self.asked += 1;
        self.state = Client::Asked(portmapper);
        let call = getport_call(XID, Mapping { port: 0, ..ECHO });
        Ok(Action::SendTo(self.ends.socket, portmapper, Data::Bytes(call)))
    }

    fn call(&mut self, now_ns: u64) -> Action {
        if self.made == self.task.calls {
            self.state = Client::Closing;
            return Action::Compute(self.task.after_ns);
        }
        self.state = Client::Writing;
        self.started_ns = now_ns;
        self.log.borrow_mut().first_write_ns.get_or_insert(now_ns);
        let call = Call {
            program: ECHO.program,
            version: ECHO.version,
            procedure: ECHO_PROCEDURE,
            ..Call::default()
        };
        let (xid, text) = (XID.wrapping_sub(self.made as u32), &self.text);
        self.ends.put(now_ns, |to| {
            call.encode_head(xid, to);
            to.string(text);
        })
    }

    fn write(&mut self) -> Action {
        let action = self.ends.go_on();
        if matches!(action, Action::Select(_)) {
            self.state = Client::Selecting;
        }
        action
    }

    fn read(&mut self, context: &ProgramContext<'_>) -> Result<Action, String> {
        if moved(context.answer)? == 0 {
            return Err(format!("the server closed after {}", counted(self.made, "call")));
        }
        let Some(record) = self.ends.take(context.data())? else { return Ok(self.write()) };
        let results = results_of(&record)?;
        let echoed = Decoder::new(results).string(self.text.len());
        if echoed.as_ref() != Ok(&self.text.as_str()) {
            return Err(format!("call {}: another string came back", self.made));
        }
        self.made += 1;
        let mut log = self.log.borrow_mut();
        log.call_ns.push(context.now_ns - self.started_ns);
        log.last_read_ns = context.now_ns;
        log.bytes += self.text.len() as u64;
        drop(log);
        self.state = Client::Returned;
        Ok(self.ends.taken(context.now_ns))
    }
}

/// The results of a successful reply.
fn results_of(reply: &[u8]) -> Result<&[u8], String> {
    match Message::decode(reply).map_err(|error| error.to_string())?.body {
        Body::Reply(reply) => results_in(reply).map_err(|why| format!("the server refused: {why}")),
        Body::Call(_) => Err("the server sent a call".to_owned()),
    }
}

/// The results, or why they are missing.
fn results_in(reply: Reply<'_>) -> Result<&[u8], String> {
    let Reply::Accepted { status, .. } = reply else {
        return Err("it denied the call".to_owned());
    };
    let why = match status {
        AcceptStatus::Success(results) => return Ok(results),
        AcceptStatus::ProgramUnavailable => "it has no such program",
        AcceptStatus::ProgramMismatch { .. } => "it has other versions of the program",
        AcceptStatus::ProcedureUnavailable => "the program has no such procedure",
        AcceptStatus::GarbageArguments => "it could not read the arguments",
        AcceptStatus::SystemError => "its system failed",
    };
    Err(why.to_owned())
}

/// The portmapper's answer about the port: `None` of a datagram that does not answer the question.
fn port_told(datagram: &[u8]) -> Option<Result<u16, String>> {
    let Ok(Message { xid: XID, body: Body::Reply(reply) }) = Message::decode(datagram) else {
        return None;
    };
    let results = match results_in(reply) {
        Ok(results) => results,
        Err(why) => return Some(Err(format!("the portmapper refused: {why}"))),
    };
    let port = Decoder::new(results).uint().ok()?;
    let known = u16::try_from(port).ok().filter(|port| *port > 0);
    Some(known.ok_or_else(|| format!("the portmapper says port {port}, which no server has")))
}

impl Program for EchoClient {
    fn name(&self) -> &str {
        "client"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        self.step(context).unwrap_or_else(|problem| fail(&self.log, problem))
    }
}

enum Server {
    Opening,
    Accepting,
    Going,
    Selecting,
    Ready,
    Reading,
    Called(Vec<u8>),
    Closing,
}

/// Serves one connection: sends each string back, until the client closes.
pub(crate) struct EchoServer {
    log: SharedLog,
    ends: Ends,
    opening: Opening,
    state: Server,
}

impl EchoServer {
    pub(crate) fn new(task: &EchoTask, log: SharedLog) -> Self {
        let ends = Ends::new(task);
        // The option is the client's alone: only the sender sets it in the paper.
        let setup = Setup { no_delay: false, ..task.setup };
        let opening = Opening::at(ECHO.port as u16).set_up(setup);
        Self { log, ends, opening, state: Server::Opening }
    }

    fn step(&mut self, context: &ProgramContext<'_>) -> Result<Action, String> {
        if let Answer::Failed(error) = context.answer {
            return Err(format!("server: {error}"));
        }
        match &mut self.state {
            Server::Opening => Ok(match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(listener) => {
                    self.state = Server::Accepting;
                    Action::Accept(listener)
                }
            }),
            Server::Accepting => {
                self.ends.socket = socket_of(context.answer)?;
                Ok(self.go_on())
            }
            Server::Going => Ok(self.go_on()),
            Server::Selecting => {
                self.state = Server::Ready;
                Ok(Action::Compute(self.ends.read_delay_ns))
            }
            Server::Ready => {
                self.state = Server::Reading;
                Ok(self.ends.read())
            }
            Server::Reading => self.take(context),
            Server::Called(record) => {
                let record = std::mem::take(record);
                self.serve(&record, context.now_ns)
            }
            Server::Closing => Ok(end(&self.log)),
        }
    }

    fn go_on(&mut self) -> Action {
        let action = self.ends.go_on();
        let selects = matches!(action, Action::Select(_));
        self.state = if selects { Server::Selecting } else { Server::Going };
        action
    }

    fn take(&mut self, context: &ProgramContext<'_>) -> Result<Action, String> {
        if moved(context.answer)? == 0 {
            self.state = Server::Closing;
            return Ok(Action::Close(self.ends.socket));
        }
        let Some(record) = self.ends.take(context.data())? else { return Ok(self.go_on()) };
        self.state = Server::Called(record);
        Ok(self.ends.taken(context.now_ns))
    }

    /// Answers the call in this record.
    fn serve(&mut self, record: &[u8], now_ns: u64) -> Result<Action, String> {
        let Message { xid, body } = Message::decode(record).map_err(|error| error.to_string())?;
        let Body::Call(call) = body else { return Err("the client sent a reply".to_owned()) };
        let text = Decoder::new(call.arguments).string(RECORD_OCTETS_MAX);
        let text = text.map_err(|error| error.to_string())?;
        let status = AcceptStatus::Success(&[]);
        let reply = Reply::Accepted { verifier: OpaqueAuth::default(), status };
        self.state = Server::Going;
        Ok(self.ends.put(now_ns, |to| {
            reply.encode_head(xid, to);
            to.string(text);
        }))
    }
}

impl Program for EchoServer {
    fn name(&self) -> &str {
        "server"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        self.step(context).unwrap_or_else(|problem| fail(&self.log, problem))
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Kind, Record};
    use sockscope_sim::Everything;

    use crate::model;
    use sockscope_experiment::builtin_by_id;

    /// The records of these kinds in a call of 4,800 octets, in order of time.
    fn records(kinds: &[Kind]) -> Vec<Record> {
        let experiment = builtin_by_id("lh-8").unwrap();
        let case = experiment.cases().unwrap().remove(0);
        let (_, all) = model::record(&experiment, &case, Everything::default()).unwrap();
        all.records.into_iter().filter(|record| kinds.contains(&record.kind)).collect()
    }

    /// The layers above the socket have the call before it is written and when all of it has been read,
    /// at either end.
    #[test]
    fn a_call_tells_when_the_layers_above_the_socket_had_it() {
        let line = |record: &Record| {
            let Record { kind, flow, offset, len, .. } = *record;
            let is_taken = record.conversion().is_some_and(|conversion| conversion.is_incoming);
            let kind = if is_taken { "taken" } else { kind.name() };
            format!("{:?} {kind} {offset}+{len}", flow.direction())
        };
        let told = records(&[Kind::WriteCall, Kind::Conversion]);
        let expected = [
            "FromClient Conversion 0+4852",
            "FromClient WriteCall 0+4000",
            "FromClient WriteCall 4000+852",
            "FromClient taken 0+4852",
            "FromServer Conversion 0+4836",
            "FromServer WriteCall 0+4000",
            "FromServer WriteCall 4000+836",
            "FromServer taken 0+4836",
        ];
        assert_eq!(told.iter().map(line).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_conversion_stands_between_the_program_and_its_calls() {
        let told = records(&[Kind::WriteCall, Kind::ReceiveDequeue, Kind::Conversion]);
        let converted = |is_incoming| {
            let conversions = told.iter().map(Record::conversion).enumerate();
            let mut found = conversions.filter_map(|(at, conversion)| Some((at, conversion?)));
            found.find(|(_, conversion)| conversion.is_incoming == is_incoming).unwrap()
        };
        let (at, sent) = converted(false);
        let (out, write) = (told[at], told[at + 1]);
        assert_eq!((out.thread, out.flow), (write.thread, write.flow));
        // 4,852 octets at the machine's cost of a copy.
        assert!(out.at_ns - sent.began_ns > 100_000, "{out:?}");
        assert!(out.at_ns <= write.at_ns, "{out:?} {write:?}");
        let (at, received) = converted(true);
        let (read, taken) = (told[at - 1], told[at]);
        assert_eq!((read.thread, read.end()), (taken.thread, taken.end()));
        let began_ns = received.began_ns;
        assert!(read.at_ns < began_ns && began_ns <= taken.at_ns, "{read:?} {taken:?}");
    }
}
