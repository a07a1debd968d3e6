//! One run of one case: both programs, and the counts of the programs and their hosts.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sockscope_experiment::measurement::Measurement;
use sockscope_link::{Hosts, Side};

use super::error::KernelError;
use super::network::with_hosts;
use super::programs::Programs;

/// Time that a server has until its socket is there.
const START: Duration = Duration::from_secs(5);
/// Time that a run has, and its server after it.
const RUN: Duration = Duration::from_secs(120);
const END: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What a run gave.
pub(super) struct Run {
    pub(super) measured: Measurement,
    /// The wire was late by more than its share.
    pub(super) is_late: bool,
}

pub(super) fn run(programs: &Programs, laboratory: &Path) -> Result<Run, KernelError> {
    let (measured, is_late) =
        with_hosts(&programs.network, |hosts| on(hosts, programs, laboratory))?;
    Ok(Run { measured: measured?, is_late })
}

fn on(hosts: &Hosts, programs: &Programs, laboratory: &Path) -> Result<Measurement, KernelError> {
    let before = hosts.traffic()?;
    let mut server = hosts.start(Side::Server, command(laboratory, &programs.server))?;
    let until = Instant::now() + START;
    while !hosts.is_served(Side::Server)? {
        if ended(&mut server)? || Instant::now() >= until {
            return Err(problem(format!("the server did not start: {}", errors(&mut server))));
        }
        thread::sleep(LOOK_EVERY);
    }
    let mut client = hosts.start(Side::Client, command(laboratory, &programs.client))?;
    let sent = result("the client", &mut client, RUN)?;
    if programs.is_udp {
        // A socket of datagrams has no end by itself.
        let pid = Pid::from_child(&server);
        kill_process(pid, Signal::TERM).map_err(|error| problem(format!("the server: {error}")))?;
    }
    let received = result("the server", &mut server, END)?;
    let traffic = hosts.traffic()? - before;
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or(0);
    let transfer_ns = number(&received, "end_ns").saturating_sub(number(&sent, "start_ns"));
    let times = sent["times_ns"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    let call_ns =
        if programs.has_calls { times.collect() } else { [transfer_ns].into_iter().collect() };
    Ok(Measurement {
        bytes: number(&received["received"], "bytes"),
        transfer_ns,
        call_ns,
        segments: traffic.data_segments + traffic.retransmitted + traffic.datagrams,
        acks: traffic.pure_acks,
        retransmitted: traffic.retransmitted,
        ..Measurement::default()
    })
}

fn command(laboratory: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(laboratory);
    command.args(["lab", "work"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn problem(problem: String) -> KernelError {
    KernelError::Program { case: String::new(), problem }
}

fn ended(child: &mut Child) -> Result<bool, KernelError> {
    let status = child.try_wait().map_err(|error| problem(error.to_string()))?;
    Ok(status.is_some())
}

/// Waits for a program's line of JSON. Its output fits the pipe but for long lists of times, so it is read by a thread.
fn result(name: &str, child: &mut Child, patience: Duration) -> Result<Value, KernelError> {
    let output = child.stdout.take();
    let reading = thread::spawn(move || {
        let mut text = String::new();
        output.map(|mut output| output.read_to_string(&mut text));
        text
    });
    let until = Instant::now() + patience;
    while !ended(child)? {
        if Instant::now() >= until {
            let _ = child.kill();
            let _ = child.wait();
            return Err(problem(format!("{name} did not end in {} s", patience.as_secs())));
        }
        thread::sleep(LOOK_EVERY);
    }
    let text = reading.join().unwrap_or_default();
    serde_json::from_str(&text).map_err(|_| problem(format!("{name}: {}", errors(child))))
}

/// The last line that a program that ended wrote to standard error.
fn errors(child: &mut Child) -> String {
    let mut text = String::new();
    let _ = child.kill();
    if let Some(errors) = &mut child.stderr {
        let _ = errors.read_to_string(&mut text);
    }
    text.lines().last().unwrap_or("it says nothing").to_owned()
}
