//! The ledger of a case: the same calls once more, recorded.

use std::io;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use sockscope_analysis::{Analysis, Analyzer, Ledger, LedgerPart, TraceFacts};
use sockscope_probe::{Options, Pick, Priority, Recorder, monotonic_ns};
use sockscope_record::{Connection, Record};

use crate::collector::Collector;

/// For taking what is left at the end.
const DRAIN_DEADLINE: Duration = Duration::from_secs(5);

/// Records of the sockets that this process opens.
pub(super) struct Recording {
    analysis: Analysis,
    /// Records that were missed.
    pub missed: u64,
}

/// What the ends of a case reported: connections and their records, in no order.
pub(super) type Told = Arc<Mutex<(Vec<Connection>, Vec<Record>)>>;

/// A part of a recording: one case.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub from_ns: u64,
    pub until_ns: u64,
    /// Ports of the case's clients.
    pub ports: Vec<u16>,
}

/// Where the oldest byte under way was, request and response, summed over the clients.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CaseLedger {
    /// Client to server.
    pub request: Ledger,
    /// Server to client.
    pub response: Ledger,
    /// Connections that it is of.
    pub connections: usize,
}

impl Recording {
    /// Does `work` on another thread while recording.
    ///
    /// # Errors
    ///
    /// What the recorder says, when it cannot record.
    pub(super) fn of<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<(Self, T)> {
        let pick = Pick { pids: vec![std::process::id()], ..Pick::default() };
        let mut recorder = Recorder::start(&pick, Options::default()).map_err(io::Error::other)?;
        let mut sink = Collector(Analyzer::new());
        let (done, is_done) = mpsc::channel();
        let done_work = thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let result = work();
                // The receiver outlives this thread.
                let _ = done.send(());
                result
            });
            // Not before: the worker would inherit it.
            let _priority = Priority::raise();
            while is_done.try_recv() == Err(mpsc::TryRecvError::Empty) {
                recorder.step(&mut sink).map_err(io::Error::other)?;
            }
            worker.join().map_err(|_| io::Error::other("the recorded calls panicked"))
        })?;
        let summary = recorder.finish(&mut sink, DRAIN_DEADLINE).map_err(io::Error::other)?;
        let facts =
            TraceFacts { source: "live".into(), missed: summary.missed, ..TraceFacts::default() };
        let recording = Self { analysis: sink.0.finish(facts), missed: summary.missed.total() };
        Ok((recording, done_work))
    }

    /// The ledger of one case; `None` when no connection of it was recorded.
    pub(super) fn ledger(&self, window: &Window) -> Option<CaseLedger> {
        let mut ledger = CaseLedger::default();
        for connection in &self.analysis.connections {
            let Connection { client, server, opened_ns, .. } = &connection.connection;
            let is_in_time = (window.from_ns..=window.until_ns).contains(opened_ns);
            let client_first = window.ports.contains(&client.port());
            if !is_in_time || !(client_first || window.ports.contains(&server.port())) {
                continue;
            }
            let [from_client, from_server] = &connection.flows;
            let (request, response) =
                if client_first { (from_client, from_server) } else { (from_server, from_client) };
            add(&mut ledger.request, &request.ledger);
            add(&mut ledger.response, &response.ledger);
            ledger.connections += 1;
        }
        (ledger.connections > 0).then_some(ledger)
    }
}

/// The ledger of connections whose ends reported their own records; `None` without any. A
/// receiver whose messages are signalled learns of them at once.
pub(super) fn ledger_of(
    connections: Vec<Connection>,
    mut records: Vec<Record>,
    is_signalled: bool,
) -> Option<CaseLedger> {
    records.sort_by_key(|record| record.at_ns);
    let mut analyzer = Analyzer::new();
    connections.into_iter().for_each(|connection| analyzer.connection(connection));
    analyzer.push(&records);
    let mut ledger = CaseLedger::default();
    let known = |ledger: &Ledger| {
        if is_signalled { signalled(ledger.clone()) } else { ledger.clone() }
    };
    for connection in analyzer.finish(TraceFacts::default()).connections {
        let [from_client, from_server] = &connection.flows;
        add(&mut ledger.request, &known(&from_client.ledger));
        add(&mut ledger.response, &known(&from_server.ledger));
        ledger.connections += 1;
    }
    (ledger.connections > 0).then_some(ledger)
}

/// Of a message that no network carries: what the analysis does not know, between the signal and the
/// receiver's look, is the time until its thread runs.
fn signalled(mut ledger: Ledger) -> Ledger {
    let unknown_ns = std::mem::take(&mut ledger.ns[LedgerPart::Unknown as usize]);
    ledger.ns[LedgerPart::ReceiveWakeup as usize] += unknown_ns;
    ledger
}

fn add(sum: &mut Ledger, other: &Ledger) {
    sum.ns.iter_mut().zip(other.ns).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
}

/// A window that begins now.
pub(super) fn window() -> Window {
    Window { from_ns: monotonic_ns(), until_ns: u64::MAX, ports: Vec::new() }
}

impl Window {
    /// Ends it now.
    pub(super) fn close(self, ports: Vec<u16>) -> Self {
        Self { until_ns: monotonic_ns(), ports, ..self }
    }
}
