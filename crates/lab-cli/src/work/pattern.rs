//! `lab work pattern`: the calls of a pattern once more, by two processes over loopback.

pub mod cpus;
mod found;
mod player;
mod steps;
mod think;

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use sockscope_analysis::{Action, Activity};
use sockscope_lab::pattern_file::PatternFile;
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_record::Protocol;

use self::player::Player;
use self::steps::{BUFFER_MAX, DATAGRAM_MAX, Moved};
use super::args::WorkPattern;
use super::report::Report;

/// `lab work pattern`: the client, and the server as a process of its own; or one of them.
pub fn pattern(arguments: &WorkPattern) -> Result<Outcome, Failure> {
    let file = &arguments.file;
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::file("cannot read", file, &error))?;
    let cannot = |reason: String| Failure::new(format!("{}: {reason}", file.display()));
    let mut read = PatternFile::parse(&text).map_err(cannot)?;
    arguments.set.iter().for_each(|change| change.apply(&mut read.pattern));
    let (protocol, sides) = (read.pattern.protocol, &read.pattern.sides);
    check(protocol, sides).map_err(|reason| cannot(reason.to_owned()))?;
    if protocol == Protocol::Udp && read.pattern.connections > 1 {
        return Err(cannot("several connections of datagrams are not made together".to_owned()));
    }
    let connections = read.pattern.connections;
    let [client, server] = sides.each_ref().map(|side| Player { protocol, connections, side });
    if let Some(at) = arguments.listen {
        server.serve(at)?;
        return Ok(Outcome::Done);
    }
    let mut report = Report::new("pattern", "asking");
    (report.sent, report.received) = match arguments.to {
        Some(to) => client.ask(to)?,
        None => both(arguments, &client)?,
    };
    report.print()
}

/// Refuses a pattern that would wait for ever, or for bytes that no side writes.
fn check(protocol: Protocol, sides: &[Activity; 2]) -> Result<(), &'static str> {
    let bytes = |side: &Activity, action| -> HashMap<u32, u64> {
        let mut bytes: HashMap<u32, u64> = HashMap::new();
        for step in side.sequences.iter().flatten().filter(|step| step.action == action) {
            let of_connection = bytes.entry(step.connection).or_default();
            *of_connection = of_connection.saturating_add(step.bytes);
        }
        bytes
    };
    for (reader, writer) in [(0, 1), (1, 0)] {
        let written = bytes(&sides[writer], Action::Write);
        let mut read = bytes(&sides[reader], Action::Read).into_iter();
        if read.any(|(connection, read)| read > written.get(&connection).copied().unwrap_or(0)) {
            return Err("a side reads more bytes than the other one writes");
        }
    }
    let steps = sides.iter().flat_map(|side| &side.sequences).flatten();
    let largest = steps.map(|step| step.bytes).max().unwrap_or(0);
    match protocol {
        Protocol::Udp if largest > DATAGRAM_MAX => Err("a datagram has more than 65,507 bytes"),
        _ if largest > BUFFER_MAX => Err("a step has more than 64 MiB"),
        _ => Ok(()),
    }
}

/// Starts the server and asks it over loopback.
fn both(arguments: &WorkPattern, client: &Player<'_>) -> Result<Moved, Failure> {
    let mut server = Command::new(std::env::current_exe()?)
        .args(["lab", "work", "pattern", "--listen", "127.0.0.1:0"])
        .args(arguments.set.iter().map(|change| format!("--set={change}")))
        .arg(&arguments.file)
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(cpus) = arguments.cpus {
        cpus.bind(server.id())?;
    }
    let mut line = String::new();
    if let Some(out) = server.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    let moved = match line.trim().parse::<u16>() {
        Ok(port) => client.ask((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => return Err(Failure::new("lab work pattern: the server did not start")),
    };
    let moved = moved.inspect_err(|_| drop(server.kill()))?;
    match server.wait()?.success() {
        true => Ok(moved),
        false => Err(Failure::new("lab work pattern: the server failed")),
    }
}

#[cfg(test)]
mod tests {
    use sockscope_analysis::Step;

    use super::*;

    /// One message of so many bytes, which the other side reads.
    fn message(bytes: u64) -> [Activity; 2] {
        [Action::Write, Action::Read].map(|action| {
            let step = Step {
                action,
                connection: 0,
                bytes,
                think_ns: 0,
                after_wait: false,
                warm_ns: None,
                woken: false,
            };
            Activity { sequences: vec![vec![step]], ..Activity::default() }
        })
    }

    #[test]
    fn the_largest_datagram_and_the_largest_step_are_made() {
        let checked = |protocol, bytes| check(protocol, &message(bytes));
        assert_eq!(checked(Protocol::Udp, 65_507), Ok(()));
        assert_eq!(checked(Protocol::Udp, 65_508), Err("a datagram has more than 65,507 bytes"));
        assert_eq!(checked(Protocol::Tcp, 64 << 20), Ok(()));
        assert_eq!(checked(Protocol::Tcp, (64 << 20) + 1), Err("a step has more than 64 MiB"));
    }
}
