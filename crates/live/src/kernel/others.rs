//! Programs of other people at both ends of a network.

use std::env;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use sockscope_experiment::Parser;
use sockscope_experiment::measurement::{Measure, Measurement};
use sockscope_link::Side;

use super::children::{END, LOOK_EVERY, RUN, START, Starter, ended, errors, problem, terminate};
use super::error::KernelError;
use super::programs::Programs;
use crate::parse::{Parsed, parse};

/// Runs the server, if there is one, and the client; numbers are those that the client wrote.
pub(super) fn run(
    starter: Starter<'_>,
    programs: &Programs,
    parser: Parser,
) -> Result<Measurement, KernelError> {
    let servers = programs.servers.iter().map(|server| server.arguments[0].as_str());
    let client = programs.clients[0][0].as_str();
    for line in servers.chain([client]) {
        if let Some(name) = missing(line, &env::var("PATH").unwrap_or_default()) {
            return Err(problem(format!("the program `{name}` is not on this machine")));
        }
    }
    let hosts = starter.hosts;
    let before = hosts.traffic()?;
    let mut started = Vec::new();
    for server in &programs.servers {
        let mut child = starter.start(server.side, shell(&server.arguments[0], Stdio::null()))?;
        let until = Instant::now() + START;
        while !hosts.is_served_at(server.side, server.port)? {
            if ended(&mut child)? || Instant::now() >= until {
                return Err(problem(format!("the server did not start: {}", errors(&mut child))));
            }
            thread::sleep(LOOK_EVERY);
        }
        started.push(child);
    }
    let mut child = starter.start(Side::Client, shell(client, Stdio::piped()))?;
    let text = output(&mut child)?;
    let parsed = parse(parser, &text);
    let traffic = hosts.traffic()? - before;
    started.iter_mut().try_for_each(end)?;
    let Some(Parsed { bytes, transfer_ns, measures }) = parsed else {
        return Err(problem(format!(
            "the output of `{client}` is not understood; it began with {:?}",
            text.lines().next().unwrap_or_default()
        )));
    };
    let measures = measures.into_iter().map(|(name, value)| Measure::new(name, value));
    Ok(Measurement {
        bytes,
        transfer_ns,
        call_ns: [transfer_ns].into_iter().collect(),
        segments: traffic.data_segments + traffic.retransmitted + traffic.datagrams,
        acks: traffic.pure_acks,
        retransmitted: traffic.retransmitted,
        measures: measures.collect(),
        ..Measurement::default()
    })
}

/// Its process is that of the program, which a signal reaches.
fn shell(line: &str, stdout: Stdio) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec {line}")]);
    command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    command
}

/// The program of a command line, where no folder of the path has it.
fn missing<'a>(line: &'a str, path: &str) -> Option<&'a str> {
    let name = line.split_whitespace().next()?;
    let is_there = match name.contains('/') {
        true => Path::new(name).is_file(),
        false => path.split(':').any(|folder| Path::new(folder).join(name).is_file()),
    };
    (!is_there).then_some(name)
}

/// All of its standard output, once it has ended with success.
fn output(child: &mut Child) -> Result<String, KernelError> {
    let stdout = child.stdout.take();
    let reading = thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.map(|mut stdout| stdout.read_to_string(&mut text));
        read.transpose().map(|_| text)
    });
    let until = Instant::now() + RUN;
    while !ended(child)? {
        if Instant::now() >= until {
            let _ = child.kill();
            let _ = child.wait();
            return Err(problem(format!("the client did not end in {} s", RUN.as_secs())));
        }
        thread::sleep(LOOK_EVERY);
    }
    let text = reading.join().map_err(|_| problem("its reader panicked".to_owned()))?;
    let text = text.map_err(|error| problem(error.to_string()))?;
    let status = child.wait().map_err(|error| problem(error.to_string()))?;
    match status.success() {
        true => Ok(text),
        false => Err(problem(format!("the client ended with {status}: {}", errors(child)))),
    }
}

/// Ends a server that has not ended by itself.
fn end(child: &mut Child) -> Result<(), KernelError> {
    if ended(child)? {
        return Ok(());
    }
    terminate(child)?;
    let until = Instant::now() + END;
    while !ended(child)? {
        if Instant::now() >= until {
            child.kill().map_err(|error| problem(error.to_string()))?;
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_no_folder_has_is_named() {
        assert_eq!(missing("sh -c true", "/nowhere:/bin"), None);
        assert_eq!(missing("sh -c true", "/nowhere"), Some("sh"));
        assert_eq!(missing("/nowhere/sh", "/bin"), Some("/nowhere/sh"));
        assert_eq!(missing("/bin/sh -c true", ""), None);
    }
}
