//! The commands at the ends of a wire.

use std::ffi::OsString;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sockscope_link::{Hosts, Side};
use sockscope_program::failure::Failure;
use sockscope_program::signals::StopSignals;

/// Time that a server has until it takes connections or datagrams.
const SERVER_START: Duration = Duration::from_secs(10);
/// Time that a server has to end by itself after SIGTERM.
const SERVER_END: Duration = Duration::from_secs(2);
/// Between two looks whether a command has ended.
pub const LOOK_EVERY: Duration = Duration::from_millis(5);
/// In the environment of a client's command: its number, from 1 on.
const CLIENT_NUMBER: &str = "SOCKSCOPE_CLIENT";

/// What ends a command, with the name of the laboratory's command.
pub fn of_link(error: &sockscope_link::Error) -> Failure {
    Failure::new(format!("lab link: {error}"))
}

/// Starts a server by its line for sh, and waits until it can be asked.
pub fn start_server(hosts: &Hosts, line: &str, stop: &StopSignals) -> Result<Child, Failure> {
    let mut command = Command::new("sh");
    // Without a shell between, signals are the server's.
    command.arg("-c").arg(format!("exec {line}"));
    let mut server = hosts.start(Side::Server, command).map_err(|error| of_link(&error))?;
    wait_for(hosts, &mut server, stop)?;
    Ok(server)
}

/// Runs the command of each client; the status of the first one that failed.
pub fn run_clients(
    hosts: &Hosts,
    clients: usize,
    words: &[OsString],
    stop: &StopSignals,
) -> Result<ExitStatus, Failure> {
    let mut commands = Vec::new();
    for index in 0..clients {
        let started = hosts.start_client(index, client_command(words, index));
        commands.push(started.map_err(|error| of_link(&error))?);
    }
    let mut statuses = vec![None; commands.len()];
    while statuses.iter().any(Option::is_none) {
        for (command, status) in commands.iter_mut().zip(&mut statuses) {
            if status.is_none() {
                *status = ended(command)?;
            }
            if status.is_none() && stop.stop_requested() {
                end(command)?;
            }
        }
        thread::sleep(LOOK_EVERY);
    }
    let mut statuses = statuses.into_iter().flatten();
    let first = statuses.next().unwrap_or_default();
    Ok(if first.success() {
        statuses.find(|status| !status.success()).unwrap_or(first)
    } else {
        first
    })
}

/// The command of a client, from 0 on; people count from 1.
fn client_command(words: &[OsString], index: usize) -> Command {
    let (program, rest) = words.split_first().unwrap_or_else(|| unreachable!("clap"));
    let mut command = Command::new(program);
    command.args(rest).env(CLIENT_NUMBER, (index + 1).to_string());
    command
}

/// Waits until the server can be asked.
fn wait_for(hosts: &Hosts, server: &mut Child, stop: &StopSignals) -> Result<(), Failure> {
    let until = Instant::now() + SERVER_START;
    while !hosts.is_served(Side::Server).map_err(|error| of_link(&error))? {
        if let Some(status) = ended(server)? {
            return Err(Failure::new(format!("lab link: the server ended with {status}")));
        }
        if Instant::now() >= until || stop.stop_requested() {
            stderr!("sockscope: no socket of the server listens; the command starts all the same");
            return Ok(());
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn ended(child: &mut Child) -> Result<Option<ExitStatus>, Failure> {
    child.try_wait().map_err(|error| Failure::new(format!("cannot wait for a command: {error}")))
}

/// Ends a command by SIGTERM, and by SIGKILL where that does nothing.
pub fn end(child: &mut Child) -> Result<(), Failure> {
    if ended(child)?.is_some() {
        return Ok(());
    }
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // It ended just now where there is no such process.
        let _ = kill_process(pid, Signal::TERM);
    }
    let until = Instant::now() + SERVER_END;
    while ended(child)?.is_none() {
        if Instant::now() >= until {
            child.kill().map_err(|error| Failure::new(format!("cannot end a command: {error}")))?;
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// The status with which a shell would end.
pub fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
