//! `sockscope view`: a trace, or a running recording, as a page in a browser of this machine.
//!
//! The page ends with the terminal: by a signal, or where the terminal hangs up and the signal is ignored.

mod guard;
mod laboratory;
mod routes;
mod running;
mod server;
mod shared;
mod token;

use std::io::{self, IsTerminal};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sockscope_program::failure::Failure;
use sockscope_program::last_trace::or_last;
use sockscope_program::loaded::{Loaded, say_notes};
use sockscope_program::signals::StopSignals;
use sockscope_report::Origin;
use sockscope_view::page::Trace;

use crate::args;
use running::Running;
use server::Server;

/// Between two looks at the signals and the terminal.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Shows the page until the user ends it.
pub fn view(arguments: &args::View) -> Result<(), Failure> {
    if !arguments.live && arguments.pick.is_any() {
        return Err(Failure::new("a pick is for a recording: add --live"));
    }
    let signals = StopSignals::register()?;
    // Before the work: a port that is taken is known at once.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.listen)).map_err(|error| {
        Failure::new(format!("cannot listen on 127.0.0.1:{}: {error}", arguments.listen))
    })?;
    let mut running = None;
    let traces = if arguments.live {
        let (trace, started) = Running::start(arguments)?;
        running = Some(started);
        vec![trace]
    } else {
        load(&arguments.dirs)?
    };
    let server = Server::start(listener, traces)?;
    let address = server.address();
    stderr!("sockscope: the page is at {address}");
    stderr!("sockscope: it is of this user and this machine, and ends with this command (Ctrl-C)");
    if arguments.open {
        open(&address);
    }
    match running {
        Some(mut running) => running.follow(&server, || is_over(&signals))?,
        None => {
            server.prepare();
            while !is_over(&signals) {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
    server.end();
    Ok(())
}

/// The traces of these folders, or the last one.
fn load(dirs: &[PathBuf]) -> Result<Vec<Trace>, Failure> {
    let dirs: Vec<PathBuf> = match dirs {
        [] => vec![or_last(None)?],
        dirs => dirs.to_vec(),
    };
    dirs.iter().map(|dir| read(dir)).collect()
}

fn read(dir: &Path) -> Result<Trace, Failure> {
    let loaded = Loaded::read(dir)?;
    say_notes(&loaded.facts.notes);
    let origin = Origin { argument: None, ..loaded.origin.clone() };
    let (analysis, stores) = loaded.finish_keeping();
    Ok(Trace::whole(name(dir), origin, analysis, stores))
}

/// The last part of a path, without its ending.
fn name(dir: &Path) -> String {
    let last = dir.file_name().map(|name| name.to_string_lossy().into_owned());
    let last = last.unwrap_or_else(|| dir.display().to_string());
    last.strip_suffix(".sockscope").map_or(last.clone(), str::to_owned)
}

fn is_over(signals: &StopSignals) -> bool {
    signals.stop_requested() || has_hung_up()
}

/// Whether standard input is a terminal that has gone.
fn has_hung_up() -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::HUP)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_hung_up = poll(&mut polled, Some(&at_once)).is_ok()
        && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
    // A pipe whose writer ended, as below a service, hangs up too and means nothing.
    is_hung_up && (stdin.is_terminal() || is_terminal_device(&stdin))
}

/// Whether it is a device of characters: a terminal that has gone answers no question about terminals.
fn is_terminal_device(stdin: &io::Stdin) -> bool {
    let found = rustix::fs::fstat(stdin);
    found.is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_char_device())
}

/// Has the desktop open the address in its browser.
fn open(address: &str) {
    let mut command = Command::new("xdg-open");
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        stderr!("sockscope: cannot start xdg-open ({error}): open the address in a browser");
    }
}
