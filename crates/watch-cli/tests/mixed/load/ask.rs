//! The end that asks.

use std::collections::HashMap;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::EXCHANGE;

/// Connections that open in a second before the load begins.
const OPENED_S: u64 = 1000;
/// Bytes of a write of a bulk transfer.
const BULK_BYTES: usize = 64 << 10;
/// An event of the schedule waits at most so long for others, so that one wake-up serves several.
const TOGETHER: Duration = Duration::from_millis(4);

/// The load.
pub struct Plan {
    pub open: u64,
    /// Exchanges of the open connections, all together.
    pub exchanges_s: u64,
    pub churn_s: u64,
    pub bulk: u64,
    pub bulk_bytes_s: u64,
}

/// A loop that took so long was stopped, as by a pause of the machine. Its events are not made up for.
const STOPPED: Duration = Duration::from_secs(2);

/// Events at a rate; those that are late are made up for.
struct Rate {
    a_second: u64,
    since: Instant,
    done: u64,
}

impl Rate {
    fn new(a_second: u64) -> Self {
        Self { a_second, since: Instant::now(), done: 0 }
    }

    /// Those that are due now.
    fn take_due(&mut self) -> u64 {
        let due = (self.since.elapsed().as_secs_f64() * self.a_second as f64) as u64;
        let now = due.saturating_sub(self.done);
        self.done += now;
        now
    }

    /// From now on, without those that were not made.
    fn restart(&mut self) {
        *self = Self::new(self.a_second);
    }
}

struct Line {
    stream: TcpStream,
    is_churn: bool,
    /// Bytes of the answer under way.
    part: usize,
    waits: bool,
}

struct Asker {
    port: u16,
    set: OwnedFd,
    lines: HashMap<u64, Line>,
    next: u64,
    /// Numbers of the open connections, which are the first ones.
    open: u64,
    opened: u64,
    churned: u64,
    /// Those that the kernel refused.
    failed: u64,
    exchanges: u64,
    /// Exchanges that were due while the one before had no answer.
    skipped: u64,
    bulk: Vec<TcpStream>,
    bulk_bytes: u64,
    /// Time in which the load was stopped.
    stopped: Duration,
}

impl Asker {
    fn open(&mut self, is_churn: bool) -> io::Result<u64> {
        let stream = TcpStream::connect((crate::SERVERS, self.port))?;
        self.opened += 1;
        stream.set_nonblocking(true)?;
        let number = self.next;
        epoll::add(&self.set, &stream, EventData::new_u64(number), EventFlags::IN)?;
        self.next += 1;
        self.lines.insert(number, Line { stream, is_churn, part: 0, waits: false });
        Ok(number)
    }

    fn request(&mut self, number: u64) -> io::Result<()> {
        let Some(line) = self.lines.get_mut(&number) else { return Ok(()) };
        if line.waits {
            self.skipped += 1;
            return Ok(());
        }
        line.waits = true;
        line.stream.write_all(&[b'q'; EXCHANGE])
    }

    fn churn(&mut self) -> io::Result<()> {
        match self.open(true) {
            Ok(number) => self.request(number),
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
                self.failed += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes a part of an answer. A connection of the churn ends with it.
    fn take(&mut self, number: u64, buffer: &mut [u8]) -> io::Result<()> {
        let Some(line) = self.lines.get_mut(&number) else { return Ok(()) };
        match line.stream.read(buffer) {
            Ok(0) => return Err(io::Error::other("the server closed a connection")),
            Ok(bytes) => line.part += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if line.part >= EXCHANGE {
            (line.part, line.waits) = (0, false);
            self.exchanges += 1;
            if line.is_churn {
                self.churned += 1;
                self.lines.remove(&number);
            }
        }
        Ok(())
    }

    /// Writes the next bytes of a transfer, as far as the socket takes them.
    fn send_bulk(&mut self, number: usize) -> io::Result<()> {
        match self.bulk[number].write(&[b'x'; BULK_BYTES]) {
            Ok(bytes) => self.bulk_bytes += bytes as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn print_counts(&self) {
        println!(
            "{{\"opened\":{},\"churned\":{},\"failed\":{},\"open\":{},\"exchanges\":{},\"skipped\":{},\"bulk_bytes\":{},\"stopped_ms\":{}}}",
            self.opened,
            self.churned,
            self.failed,
            self.lines.len() + self.bulk.len(),
            self.exchanges,
            self.skipped,
            self.bulk_bytes,
            self.stopped.as_millis()
        );
    }
}

fn commands() -> Receiver<String> {
    let (sender, commands) = channel();
    std::thread::spawn(move || {
        let lines = io::stdin().lock().lines().map_while(Result::ok);
        lines.into_iter().try_for_each(|line| sender.send(line))
    });
    commands
}

/// Makes the load until the input ends.
pub fn ask(port: u16, plan: &Plan) -> io::Result<()> {
    let commands = commands();
    let set = epoll::create(CreateFlags::CLOEXEC)?;
    let mut asker = Asker {
        port,
        set,
        lines: HashMap::new(),
        next: 0,
        open: plan.open,
        opened: 0,
        churned: 0,
        failed: 0,
        exchanges: 0,
        skipped: 0,
        bulk: Vec::new(),
        bulk_bytes: 0,
        stopped: Duration::ZERO,
    };
    for _ in 0..plan.bulk {
        let stream = TcpStream::connect((crate::SERVERS, port + 1))?;
        stream.set_nonblocking(true)?;
        asker.bulk.push(stream);
        asker.opened += 1;
    }
    let begun = Instant::now();
    for number in 0..plan.open {
        asker.open(false)?;
        if number % 10 == 9 {
            let due = Duration::from_secs_f64(number as f64 / OPENED_S as f64);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
    }
    println!("open");
    run(&mut asker, plan, &commands)
}

fn run(asker: &mut Asker, plan: &Plan, commands: &Receiver<String>) -> io::Result<()> {
    let mut exchanges = Rate::new(plan.exchanges_s);
    let mut churn = Rate::new(plan.churn_s);
    let mut writes = Rate::new(plan.bulk * plan.bulk_bytes_s / BULK_BYTES as u64);
    let (mut next_exchange, mut next_write, mut is_paused) = (0, 0, false);
    let mut events = Vec::with_capacity(256);
    let mut buffer = vec![0; EXCHANGE];
    let mut looked = Instant::now();
    loop {
        let passed = looked.elapsed();
        looked = Instant::now();
        if passed >= STOPPED {
            asker.stopped += passed;
            [&mut exchanges, &mut churn, &mut writes].into_iter().for_each(Rate::restart);
        }
        loop {
            match commands.try_recv().as_deref() {
                Ok("count") => asker.print_counts(),
                Ok("pause") => is_paused = true,
                Ok("go") => {
                    is_paused = false;
                    churn.restart();
                }
                Ok(other) => return Err(io::Error::other(format!("no command: {other}"))),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        for _ in 0..exchanges.take_due() {
            asker.request(next_exchange)?;
            next_exchange = (next_exchange + 1) % asker.open.max(1);
        }
        if !is_paused {
            for _ in 0..churn.take_due() {
                asker.churn()?;
            }
        }
        for _ in 0..writes.take_due() {
            asker.send_bulk(next_write)?;
            next_write = (next_write + 1) % asker.bulk.len().max(1);
        }
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(TOGETHER.subsec_nanos()) };
        let begun = Instant::now();
        // Answers are taken as they arrive, until the schedule is due.
        while begun.elapsed() < TOGETHER {
            events.clear();
            let into = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(asker.set.as_fd(), into, Some(&wait)) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            for event in &events {
                let data = event.data;
                asker.take(data.u64(), &mut buffer)?;
            }
        }
    }
}
