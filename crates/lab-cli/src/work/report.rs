//! What a program of `lab work` did, as one line of JSON.

use std::path::Path;

use serde_json::{Value, json};
use sockscope_link::{Interval, Lateness, now_ns};
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::output::write_to;

use super::schedule::Schedule;
use super::socket::Buffers;

/// Messages and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages; calls that read, where there are no messages.
    pub messages: u64,
    /// Bytes of data.
    pub bytes: u64,
}

impl Traffic {
    /// Adds a message.
    pub fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self { messages: self.messages + other.messages, bytes: self.bytes + other.bytes }
    }

    /// As an object.
    pub fn json(self) -> Value {
        json!({ "messages": self.messages, "bytes": self.bytes })
    }
}

/// The result of a program.
#[derive(Debug)]
pub struct Report {
    workload: &'static str,
    end: &'static str,
    start_ns: u64,
    /// Sent by this program.
    pub sent: Traffic,
    /// Received by this program.
    pub received: Traffic,
    /// From a message's planned time, or the call that sent it, to the end that the program knows.
    pub latency: Lateness,
    /// Messages without an answer.
    pub unanswered: u64,
    buffers: Option<Buffers>,
    schedule: Option<(Interval, Lateness)>,
    more: Vec<(&'static str, Value)>,
}

impl Report {
    /// Of a program that starts now.
    pub fn new(workload: &'static str, end: &'static str) -> Self {
        Self {
            workload,
            end,
            start_ns: now_ns(),
            sent: Traffic::default(),
            received: Traffic::default(),
            latency: Lateness::default(),
            unanswered: 0,
            buffers: None,
            schedule: None,
            more: Vec::new(),
        }
    }

    /// Over such a socket.
    pub fn over(mut self, buffers: Buffers) -> Self {
        self.buffers = Some(buffers);
        self
    }

    /// By such a schedule.
    pub fn by(mut self, schedule: &Schedule) -> Self {
        self.schedule = schedule.kept().map(|(every, lateness)| (every, lateness.clone()));
        self
    }

    /// With a value of this program alone.
    pub fn with(mut self, name: &'static str, value: Value) -> Self {
        self.more.push((name, value));
        self
    }

    /// With a list of times, where it is asked for.
    pub fn with_times(self, is_asked: bool, times_ns: &[u64]) -> Self {
        if is_asked { self.with("times_ns", times_ns.into()) } else { self }
    }

    /// Prints it: one line.
    pub fn print(self) -> Result<Outcome, Failure> {
        let line = self.json(now_ns());
        write_to(Path::new("-"), |out| writeln!(out, "{line}"))?;
        Ok(Outcome::Done)
    }

    fn json(&self, end_ns: u64) -> Value {
        let schedule = self.schedule.as_ref();
        let mut value = json!({
            "schema": "sockscope.work/1",
            "workload": self.workload,
            "end": self.end,
            "process": std::process::id(),
            "start_ns": self.start_ns,
            "end_ns": end_ns,
            "sent": self.sent.json(),
            "received": self.received.json(),
            "unanswered": self.unanswered,
            "latency_ns": times(&self.latency),
            "schedule": schedule.map(|(every, lateness)| json!({ "every_ns": every.0, "late_ns": times(lateness) })),
            "socket": self.buffers.as_ref().map(Buffers::json),
        });
        for (name, more) in &self.more {
            value[*name] = more.clone();
        }
        value
    }
}

/// `null` without any.
fn times(times: &Lateness) -> Value {
    if times.packets() == 0 {
        return Value::Null;
    }
    json!({
        "count": times.packets(),
        "p50": times.percentile_ns(50),
        "p90": times.percentile_ns(90),
        "p99": times.percentile_ns(99),
        "max": times.max_ns(),
    })
}
