//! `pipeline`: three processes, which receive, compute and transmit.

use std::fs::File;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use serde_json::{Value, json};
use sockscope_link::{Interval, now_ns};
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::signals::StopSignals;

use super::args::{Pipeline, Stage};
use super::process::{command, result, scheduled_ns, start};
use super::report::{Report, Traffic};
use super::schedule::compute;
use super::socket::{Server, cannot, fill, stream_to};

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// `lab work pipeline`.
pub fn pipeline(arguments: &Pipeline) -> Result<Outcome, Failure> {
    let stop = StopSignals::register()?;
    let server = Server::at(arguments.listen, arguments.socket)?;
    let Some(from) = server.accept(&stop)? else {
        return Err(Failure::new("lab work: the pipeline was stopped before a connection"));
    };
    let (to, buffers) = stream_to(arguments.to, arguments.socket)?;
    let mut report = Report::new("pipeline", "between").over(buffers);
    let copies =
        || Ok::<_, io::Error>((from.try_clone()?, to.try_clone()?, io::pipe()?, io::pipe()?));
    let (input, output, first, second) = copies().map_err(cannot("pipe to", arguments.to))?;
    let none = Interval::default();
    let mut stages = [
        start_stage(arguments, none, input.into(), first.1.into())?,
        start_stage(arguments, arguments.compute, first.0.into(), second.1.into())?,
        start_stage(arguments, none, second.0.into(), output.into())?,
    ];
    while stages.iter_mut().any(|stage| matches!(stage.try_wait(), Ok(None))) {
        if stop.stop_requested() {
            // The first process reads the end then, and all write what they have. It may be closed already.
            let _ = from.shutdown(Shutdown::Read);
        }
        thread::sleep(LOOK_EVERY);
    }
    let [receive, compute, transmit] = stages.map(|stage| result(stage, |output| &output.stderr));
    let processes = json!({ "receive": receive?, "compute": compute?, "transmit": transmit? });
    report.received = traffic(&processes["receive"]["received"]);
    report.sent = traffic(&processes["transmit"]["sent"]);
    report.with("processes", processes).print()
}

fn start_stage(
    arguments: &Pipeline,
    time: Interval,
    input: OwnedFd,
    output: OwnedFd,
) -> Result<Child, Failure> {
    let mut words = vec![
        "stage".to_owned(),
        format!("--message-bytes={}b", arguments.message_bytes.0),
        format!("--compute={}ns", time.0),
        format!("--parent={}", getpid()),
    ];
    words.extend(arguments.list_times.then(|| "--list-times".to_owned()));
    start(command(&words)?.stdin(Stdio::from(input)).stdout(Stdio::from(output)))
}

fn traffic(value: &Value) -> Traffic {
    let number = |name| value[name].as_u64().unwrap_or(0);
    Traffic { messages: number("messages"), bytes: number("bytes") }
}

/// A process of a pipeline. Standard output has the data, so that the result goes to standard error.
pub fn stage(arguments: &Stage) -> Result<Outcome, Failure> {
    let stop = StopSignals::register()?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)?;
    // A parent that ended before this call sends no signal. This process then has another parent.
    if getppid() != Pid::from_raw(arguments.parent) {
        return Err(Failure::new("lab work: the pipeline has ended"));
    }
    let copy = |stream: &dyn AsFd| stream.as_fd().try_clone_to_owned().map(File::from);
    // Of the files themselves: standard output would be written by lines.
    let (mut input, mut output) = (copy(&io::stdin())?, copy(&io::stdout())?);
    let [mut received, mut sent] = [Traffic::default(); 2];
    let mut message = vec![0; arguments.message_bytes.0 as usize];
    let mut times_ns = Vec::new();
    loop {
        let bytes = fill(&mut input, &mut message, &stop)?;
        if bytes == 0 {
            break;
        }
        let had_ns = now_ns();
        received.add(bytes);
        compute(arguments.compute);
        output.write_all(&message[..bytes])?;
        sent.add(bytes);
        if arguments.list_times {
            times_ns.push([had_ns, now_ns()]);
        }
    }
    let [run_ns, ready_ns] = scheduled_ns();
    let line = json!({
        "process": std::process::id(),
        "run_ns": run_ns,
        "ready_ns": ready_ns,
        "received": received.json(),
        "sent": sent.json(),
        "times_ns": times_ns,
    });
    stderr!("{line}");
    Ok(Outcome::Done)
}
