//! `lab work pattern`: the calls of a pattern once more, by two processes over loopback.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_tcp_nodelay;
use sockscope_analysis::{Action, Activity, Step};
use sockscope_lab::pattern_file::PatternFile;
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;

use super::args::{PatternSide, WorkPattern};
use super::report::{Report, Traffic};

/// A program sleeps as long as this before the end of its think time, and then computes: the kernel wakes it late.
const SPIN: Duration = Duration::from_micros(100);

/// A read that lasts longer fails.
const READ_MAX: Duration = Duration::from_secs(60);

/// Largest step.
const BUFFER_MAX: u64 = 1 << 26;

/// `lab work pattern`: the client; the server is a process of its own.
pub fn pattern(arguments: &WorkPattern) -> Result<Outcome, Failure> {
    let text = std::fs::read_to_string(&arguments.file)
        .map_err(|error| Failure::file("cannot read", &arguments.file, &error))?;
    let cannot = |reason: String| Failure::new(format!("{}: {reason}", arguments.file.display()));
    let mut file = PatternFile::parse(&text).map_err(cannot)?;
    if let Some(change) = arguments.set {
        change.apply(&mut file.pattern);
    }
    let sides = &file.pattern.sides;
    check(sides).map_err(|reason| cannot(reason.to_owned()))?;
    match arguments.side {
        Some(PatternSide::Server) => {
            serve(&sides[1])?;
            Ok(Outcome::Done)
        }
        None => {
            let mut report = Report::new("pattern", "asking");
            (report.sent, report.received) = call(arguments, &sides[0])?;
            report.print()
        }
    }
}

/// Refuses a pattern that would wait for ever, or for bytes that no side writes.
fn check(sides: &[Activity; 2]) -> Result<(), &'static str> {
    let bytes = |side: &Activity, action| -> u64 {
        let steps = side.sequences.iter().flatten().filter(|step| step.action == action);
        steps.map(|step| step.bytes).fold(0, u64::saturating_add)
    };
    for (reader, writer) in [(0, 1), (1, 0)] {
        if bytes(&sides[reader], Action::Read) > bytes(&sides[writer], Action::Write) {
            return Err("a side reads more bytes than the other one writes");
        }
    }
    match sides.iter().flat_map(|side| &side.sequences).flatten().any(|it| it.bytes > BUFFER_MAX) {
        true => Err("a step has more than 64 MiB"),
        false => Ok(()),
    }
}

/// Sent and received, a message for each call.
type Moved = (Traffic, Traffic);

fn call(arguments: &WorkPattern, client: &Activity) -> Result<Moved, Failure> {
    let mut server = Command::new(std::env::current_exe()?)
        .args(["lab", "work", "pattern", "--side", "server"])
        .args(arguments.set.map(|change| format!("--set={change}")))
        .arg(&arguments.file)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let Some(out) = server.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    let no_port = || Failure::new("lab work pattern: the server did not start");
    let moved = match line.trim().parse::<u16>() {
        Ok(port) => TcpStream::connect(("127.0.0.1", port)).and_then(|it| play(&it, client)),
        Err(_) => return Err(no_port()),
    };
    let moved = moved.inspect_err(|_| drop(server.kill()))?;
    match server.wait()?.success() {
        true => Ok(moved),
        false => Err(Failure::new("lab work pattern: the server failed")),
    }
}

fn serve(server: &Activity) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;
    let (connection, _) = listener.accept()?;
    play(&connection, server)?;
    Ok(())
}

/// Plays every sequence of a side, and gives what it moved.
fn play(connection: &TcpStream, side: &Activity) -> io::Result<Moved> {
    // The other side may have ended, or wait itself in a pattern that was edited.
    connection.set_read_timeout(Some(READ_MAX))?;
    set_tcp_nodelay(connection, side.no_delay)?;
    let buffer = side.read_buffer_bytes.clamp(1, BUFFER_MAX) as usize;
    let parts: io::Result<Vec<_>> = thread::scope(|scope| {
        let play = |steps: &Vec<Step>| {
            let connection = connection.try_clone();
            let steps = steps.clone();
            scope.spawn(move || play_steps(&mut connection?, &steps, buffer))
        };
        let threads: Vec<_> = side.sequences.iter().map(play).collect();
        let failed = |_| Err(io::Error::other("a thread failed"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).collect()
    });
    let parts = parts?.into_iter();
    Ok(parts.fold(Moved::default(), |sum, part| (sum.0.plus(part.0), sum.1.plus(part.1))))
}

/// Plays steps one after the other. Reads in sequence end where theirs together end, as their pieces may be others.
fn play_steps(connection: &mut TcpStream, steps: &[Step], buffer: usize) -> io::Result<Moved> {
    let largest = steps.iter().map(|step| step.bytes).max().unwrap_or(0) as usize;
    let mut bytes = vec![7; largest.max(buffer)];
    let (mut sent, mut received) = Moved::default();
    let mut wanted = 0;
    for step in steps {
        think(step.think_ns);
        match step.action {
            Action::Write => {
                connection.write_all(&bytes[..step.bytes as usize])?;
                sent.add(step.bytes as usize);
            }
            Action::Read => {
                wanted += step.bytes;
                while received.bytes < wanted {
                    match connection.read(&mut bytes[..buffer])? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        more => received.add(more),
                    }
                }
            }
        }
    }
    Ok((sent, received))
}

fn think(ns: u64) {
    let end = Instant::now() + Duration::from_nanos(ns);
    if let Some(sleep) = Duration::from_nanos(ns).checked_sub(SPIN) {
        thread::sleep(sleep);
    }
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}
