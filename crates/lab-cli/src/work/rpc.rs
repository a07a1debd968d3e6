//! `rpc-echo`: remote calls (ONC RPC) that return their string, over record streams on TCP.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use sockscope_link::{Bytes, now_ns};
use sockscope_oncrpc::{
    AcceptStatus, Body, Call, Decoder, Encoder, Message, OpaqueAuth, RecordReader, RecordWriter,
    Reply,
};
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::signals::StopSignals;

use super::args::RpcEcho;
use super::message::MESSAGE_BYTES_MAX;
use super::report::{Report, Traffic};
use super::schedule::Schedule;
use super::socket::{Server, cannot, resets, stream_to, unless_stopped};

/// A program number for local use (RFC 5531, section 8.3), that of the model's echo program.
const PROGRAM: u32 = 0x2000_0099;
const VERSION: u32 = 1;
/// Returns its string.
const ECHO: u32 = 1;
/// Longest record: the longest string, with the heads.
const RECORD_OCTETS_MAX: usize = MESSAGE_BYTES_MAX as usize + 1_024;

/// `lab work rpc-echo`.
pub fn rpc_echo(arguments: &RpcEcho) -> Result<Outcome, Failure> {
    let stop = StopSignals::register()?;
    match (arguments.end.listen, arguments.end.to) {
        (Some(at), _) => serve(arguments, at, &stop),
        (None, Some(to)) => call(arguments, to, &stop),
        (None, None) => unreachable!("clap asks for one of both"),
    }
}

/// One end of a record stream. Traffic counts records, and the bytes of the stream.
struct Records {
    stream: TcpStream,
    octets: Vec<u8>,
    reader: RecordReader,
    writer: RecordWriter,
    received: Traffic,
    sent: Traffic,
    reads: u64,
    writes: u64,
    resets: u64,
}

impl Records {
    fn of(stream: TcpStream, buffer: Bytes) -> Self {
        let size = buffer.0 as usize;
        Self {
            stream,
            octets: vec![0; size],
            reader: RecordReader::new(RECORD_OCTETS_MAX),
            writer: RecordWriter::new(size),
            received: Traffic::default(),
            sent: Traffic::default(),
            reads: 0,
            writes: 0,
            resets: 0,
        }
    }

    /// Reads once; the records that end there. `None` at the end of the stream, or when the program is to stop.
    fn read(&mut self, stop: &StopSignals) -> io::Result<Option<Vec<Vec<u8>>>> {
        let Self { stream, octets, .. } = self;
        let bytes = unless_stopped(stop, || stream.read(octets))?.unwrap_or(0);
        if bytes == 0 {
            return Ok(None);
        }
        self.reads += 1;
        self.received.bytes += bytes as u64;
        let records = self.reader.push(&self.octets[..bytes]).map_err(io::Error::other)?;
        self.received.messages += records.len() as u64;
        Ok(Some(records))
    }

    /// Ends a record and writes it, with one call for each full buffer.
    fn write(&mut self) -> io::Result<()> {
        self.writer.end_record(true);
        for octets in self.writer.take_writes() {
            self.stream.write_all(&octets)?;
            self.writes += 1;
            self.sent.bytes += octets.len() as u64;
        }
        self.sent.messages += 1;
        Ok(())
    }
}

fn serve(arguments: &RpcEcho, at: SocketAddr, stop: &StopSignals) -> Result<Outcome, Failure> {
    let report = Report::new("rpc-echo", "answering");
    let server = Server::at(at, arguments.socket)?;
    let work = |stream| answer_calls(Records::of(stream, arguments.buffer), stop);
    let all = server.serve(arguments.connections, stop, work)?;
    let mut report = report.over(server.buffers).with("connections", all.len().into());
    for records in &all {
        report.received = report.received.plus(records.received);
        report.sent = report.sent.plus(records.sent);
    }
    let reads: u64 = all.iter().map(|records| records.reads).sum();
    let writes: u64 = all.iter().map(|records| records.writes).sum();
    let resets: u64 = all.iter().map(|records| records.resets).sum();
    let report = report.with("resets", resets.into());
    report.with("reads", reads.into()).with("writes", writes.into()).print()
}

fn answer_calls(mut records: Records, stop: &StopSignals) -> io::Result<Records> {
    records.resets = resets(answer_all(&mut records, stop))?;
    Ok(records)
}

fn answer_all(records: &mut Records, stop: &StopSignals) -> io::Result<()> {
    while let Some(calls) = records.read(stop)? {
        for call in calls {
            answer(&call, &mut records.writer).map_err(io::Error::other)?;
            records.write()?;
        }
    }
    Ok(())
}

/// Encodes the reply to a call.
fn answer(record: &[u8], to: &mut RecordWriter) -> Result<(), sockscope_oncrpc::RpcError> {
    let Message { xid, body } = Message::decode(record)?;
    let Body::Call(call) = body else {
        return Err(Decoder::new(record).expected("a call"));
    };
    let mut text = None;
    let status = match (call.program, call.version, call.procedure) {
        (PROGRAM, VERSION, 0) => AcceptStatus::Success(&[]),
        (PROGRAM, VERSION, ECHO) => match Decoder::new(call.arguments).opaque(RECORD_OCTETS_MAX) {
            Ok(string) => AcceptStatus::Success(text.insert(string)),
            Err(_) => AcceptStatus::GarbageArguments,
        },
        (PROGRAM, VERSION, _) => AcceptStatus::ProcedureUnavailable,
        (PROGRAM, ..) => AcceptStatus::ProgramMismatch { low: VERSION, high: VERSION },
        _ => AcceptStatus::ProgramUnavailable,
    };
    let mut to = Encoder::new(to);
    Reply::Accepted { verifier: OpaqueAuth::default(), status }.encode_head(xid, &mut to);
    if let Some(text) = text {
        to.opaque(text);
    }
    Ok(())
}

fn call(arguments: &RpcEcho, to: SocketAddr, stop: &StopSignals) -> Result<Outcome, Failure> {
    let (stream, buffers) = stream_to(to, arguments.socket)?;
    let mut records = Records::of(stream, arguments.buffer);
    let mut report = Report::new("rpc-echo", "asking").over(buffers);
    let mut schedule = Schedule::new(arguments.every);
    let text = vec![b'x'; arguments.bytes.0 as usize];
    let mut times_ns = Vec::new();
    for xid in 0..arguments.calls {
        let planned_ns = schedule.wait();
        if stop.stop_requested() {
            break;
        }
        let called = call_once(&mut records, xid, &text, stop);
        if !called.map_err(cannot("call", to))? {
            break;
        }
        let took_ns = now_ns().saturating_sub(planned_ns);
        report.latency.add(took_ns);
        times_ns.push(took_ns);
    }
    report.received = records.received;
    report.sent = records.sent;
    report.unanswered = records.sent.messages.saturating_sub(records.received.messages);
    let report = report.by(&schedule).with_times(arguments.list_times, &times_ns);
    report.with("reads", records.reads.into()).with("writes", records.writes.into()).print()
}

/// Whether the call was answered before the program was to stop.
fn call_once(records: &mut Records, xid: u32, text: &[u8], stop: &StopSignals) -> io::Result<bool> {
    let call = Call { program: PROGRAM, version: VERSION, procedure: ECHO, ..Call::default() };
    let mut to = Encoder::new(&mut records.writer);
    call.encode_head(xid, &mut to);
    to.opaque(text);
    records.write()?;
    loop {
        let replies = match records.read(stop)? {
            Some(replies) => replies,
            None if stop.stop_requested() => return Ok(false),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        if let Some(reply) = replies.first() {
            return check_reply(reply, xid, text).map(|()| true).map_err(io::Error::other);
        }
    }
}

fn check_reply(reply: &[u8], xid: u32, text: &[u8]) -> Result<(), String> {
    let message = Message::decode(reply).map_err(|error| error.to_string())?;
    let Body::Reply(Reply::Accepted { status: AcceptStatus::Success(results), .. }) = message.body
    else {
        return Err(format!("call {xid}: the answer is {:?}", message.body));
    };
    let echoed = Decoder::new(results).opaque(text.len());
    match message.xid == xid && echoed == Ok(text) {
        true => Ok(()),
        false => Err(format!("call {xid}: another string was returned")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of the reply to a call of this program, version and procedure.
    fn status_of(program: u32, version: u32, procedure: u32, arguments: &[u8]) -> String {
        let call = Call { program, version, procedure, arguments, ..Call::default() };
        let mut writer = RecordWriter::new(4_000);
        answer(&Message { xid: 7, body: Body::Call(call) }.encode(), &mut writer).unwrap();
        writer.end_record(true);
        let octets = writer.take_writes().concat();
        let reply = RecordReader::new(4_000).push(&octets).unwrap().remove(0);
        match Message::decode(&reply).unwrap() {
            Message { xid: 7, body: Body::Reply(Reply::Accepted { status, .. }) } => {
                format!("{status:?}")
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn calls_are_answered_by_what_they_ask_for() {
        let string = [0, 0, 0, 2, b'a', b'b', 0, 0];
        assert_eq!(status_of(PROGRAM, 1, 1, &string), format!("Success({string:?})"));
        assert_eq!(status_of(PROGRAM, 1, 0, &[]), "Success([])");
        assert_eq!(status_of(PROGRAM, 1, 1, &string[..5]), "GarbageArguments");
        assert_eq!(status_of(PROGRAM, 1, 2, &[]), "ProcedureUnavailable");
        assert_eq!(status_of(PROGRAM, 2, 1, &[]), "ProgramMismatch { low: 1, high: 1 }");
        assert_eq!(status_of(PROGRAM + 1, 1, 1, &[]), "ProgramUnavailable");
    }

    #[test]
    fn an_answer_with_another_string_is_refused() {
        let reply = |results| {
            let status = AcceptStatus::Success(results);
            let verifier = OpaqueAuth::default();
            Message { xid: 3, body: Body::Reply(Reply::Accepted { verifier, status }) }.encode()
        };
        let good = reply(&[0, 0, 0, 1, b'x', 0, 0, 0]);
        assert_eq!(check_reply(&good, 3, b"x"), Ok(()));
        assert!(check_reply(&good, 4, b"x").is_err());
        assert!(check_reply(&good, 3, b"y").is_err());
        assert!(answer(&good, &mut RecordWriter::new(4_000)).is_err(), "it is no call");
    }
}
