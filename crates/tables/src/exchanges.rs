//! The table `exchanges`: one row for each request, with its response if one was seen.

use sockscope_analysis::RequestId;
use sockscope_record::Side;

use crate::column::columns;
use crate::trace::Trace;

/// A request, by the place of its connection and its place there.
pub(crate) type ExchangeRow = (usize, usize);

/// The requests of a connection.
pub(crate) fn rows(trace: &Trace, connection: usize) -> Option<Vec<ExchangeRow>> {
    let count = trace.analysis.connections.get(connection)?.requests.list.len();
    Some((0..count).map(|index| (connection, index)).collect())
}

columns! {
    ExchangeColumns "exchanges", |trace, row: ExchangeRow| {
        let one = &trace.analysis.connections[row.0];
        let request = &one.requests.list[row.1];
        let (connection, parts) = (one.connection.id, request.parts());
        // A connection has fewer requests than records, which have 40 bytes each in memory.
        let id = RequestId { connection, index: row.1 as u32 };
        let parent = trace.analysis.nesting.parent_of(id);
        let nested = request.service_ns().map(|_| trace.analysis.nesting.time_of(id));
        let asker = one.requests.asked_by;
    }
    connection: Whole "" "Number of the connection" = connection.0.into();
    request: Whole "" "Place among the requests of the connection, from 0 on" = row.1 as u64;
    flow: MaybeWhole "" "Flow in which it was asked" = asker.map(|side| connection.flow(side.sends()).0.into());
    asked_by: MaybeWord "" "The end that asks: `client` or `server`" = asker.map(Side::name);
    conversation: Word "" "Pattern of talk between the two ends" = one.requests.conversation.name();
    outcome: Word "" "`answered`, `open`, `given-up`, `reset-by-asker`, `reset-by-answerer`, `refused` or `closed`" = request.end.name();
    asked_ns: Whole "ns" "Its first byte was written, on the clock of the trace; it arrived, where only the answerer was seen" = request.asked_ns;
    asked: Time "ns" "The same time since 1970 (UTC)" = trace.clock.at(request.asked_ns);
    heard_ns: MaybeWhole "ns" "A read took its last byte" = request.heard.ns();
    answered_ns: MaybeWhole "ns" "The first byte of the response was written" = request.answered.ns();
    ended_ns: Whole "ns" "The last byte of the response was read, or the wait for it ended" = request.ended_ns;
    ended: Time "ns" "The same time since 1970 (UTC)" = trace.clock.at(request.ended_ns);
    total_ns: MaybeWhole "ns" "From asked to ended; null where the asker was not seen" = request.total_ns();
    request_ns: MaybeWhole "ns" "Way of the request; null where one end was not seen" = parts.map(|it| it.request_ns);
    service_ns: MaybeWhole "ns" "Time of the answering program" = request.service_ns();
    response_ns: MaybeWhole "ns" "Way of the response; the three add up to `total_ns`" = parts.map(|it| it.response_ns);
    nested_ns: MaybeWhole "ns" "Part of `service_ns` in which a request of its own was open; an upper bound within pauses" = nested.map(|it| it.nested_ns);
    pause_ns: Whole "ns" "Time within the response in which the answerer had not written more" = request.pause_ns;
    request_bytes: Whole "bytes" "Bytes asked" = request.request_bytes;
    response_bytes: Whole "bytes" "Bytes answered; 0 without an answer" = request.response_bytes;
    request_writes: Whole "" "Writes that made the request" = request.request_writes.into();
    request_reads: Whole "" "Reads that took it" = request.request_reads.into();
    response_writes: Whole "" "Writes that made the response" = request.response_writes.into();
    response_reads: Whole "" "Reads that took it" = request.response_reads.into();
    asker_thread: Whole "" "Thread that wrote the request; 0 if unknown" = request.asker_thread.into();
    answerer_thread: Whole "" "Thread that wrote the response; 0 if unknown" = request.answerer_thread.into();
    is_overlapped: Flag "" "It overlaps other requests" = request.is_overlapped;
    parent_connection: MaybeWhole "" "Connection of the request in whose service it was asked" = parent.map(|it| it.parent.connection.0.into());
    parent_request: MaybeWhole "" "Place of that request in its connection" = parent.map(|it| it.parent.index.into());
}
