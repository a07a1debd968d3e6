//! A recording that the page follows.

use std::time::{Duration, Instant};

use sockscope_analysis::TraceFacts;
use sockscope_probe::{Cgroup, Options, monotonic_ns};
use sockscope_program::failure::Failure;
use sockscope_program::machine;
use sockscope_program::pick::describe;
use sockscope_program::recorder_thread::{Message, Recording};
use sockscope_report::{Origin, Recorded, WallClock};
use sockscope_view::page::Trace;

use super::server::Server;
use crate::args;
use crate::top::picked;

/// The recorder hands a record over at most so long after its time: figures end so long ago.
const RECORDS_TAKE: Duration = Duration::from_millis(100);
/// Between two looks at the signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Records that are kept at most: with more, earlier ones are dropped. To analyse so many takes some tenths of a second.
const RECORDS_MAX: usize = 1_000_000;

/// The recorder, and its use for the page.
pub struct Running {
    recording: Recording,
    facts: TraceFacts,
    namespaces: machine::LiveNamespaces,
    interval: Duration,
    span: Duration,
}

impl Running {
    /// Starts the recorder; the trace of it is still empty.
    pub fn start(arguments: &args::View) -> Result<(Trace, Self), Failure> {
        arguments.pick.check(false)?;
        if let Some(right) = sockscope_probe::missing_right() {
            return Err(sockscope_probe::Error::NoRight { right }.into());
        }
        Cgroup::remove_stale()?;
        let pick = picked(&arguments.pick)?;
        let facts = TraceFacts {
            source: "live".to_owned(),
            drop_reasons: sockscope_probe::drop_reasons().into_iter().collect(),
            ..TraceFacts::default()
        };
        let clock = machine::clock();
        let origin = Origin {
            tool_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            host: Some(machine::host()),
            kernel: Some(machine::kernel()),
            clock: Some("monotonic".to_owned()),
            recorded: Some(Recorded {
                began: WallClock { trace_ns: clock.monotonic_ns, realtime_ns: clock.realtime_ns },
                duration_ns: None,
                pick: Some(describe(&pick, false)),
            }),
            ..Origin::default()
        };
        let recording = Recording::start(pick, Options::default())?;
        let trace = Trace::running("now".to_owned(), origin, facts.clone(), clock.monotonic_ns);
        let running = Self {
            recording,
            facts,
            namespaces: machine::LiveNamespaces::default(),
            interval: arguments.interval,
            span: arguments.span,
        };
        Ok((trace, running))
    }

    /// Hands records over until `is_over`.
    pub fn follow(&mut self, server: &Server, is_over: impl Fn() -> bool) -> Result<(), Failure> {
        let mut refreshed = Instant::now();
        let mut span = self.span;
        let mut messages = Vec::new();
        while !is_over() {
            self.recording.take(LOOK_EVERY, |message| messages.push(message))?;
            if refreshed.elapsed() < self.interval {
                continue;
            }
            refreshed = Instant::now();
            let lag_ns = nanoseconds(RECORDS_TAKE);
            let until_ns = monotonic_ns().saturating_sub(lag_ns);
            let since_ns = until_ns.saturating_sub(nanoseconds(span));
            let missed = self.recording.missed().total();
            self.facts.network_namespaces = self.namespaces.names();
            let facts = self.facts.clone();
            server.refresh(|trace| {
                for message in messages.drain(..) {
                    match message {
                        Message::Records(records) => trace.push(&records),
                        Message::Connection(connection) => trace.describe(connection),
                    }
                }
                trace.refresh(facts, since_ns, until_ns, missed);
            });
            // The next refresh drops more, or keeps more again.
            span = match server.records() {
                many if many > RECORDS_MAX => (span / 2).max(self.interval),
                few if few < RECORDS_MAX / 4 => (span * 2).min(self.span),
                _ => span,
            };
        }
        Ok(())
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
