//! A transfer over loopback that keeps its own account: which bytes were written and read by when.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use sockscope_probe::monotonic_ns;

/// Octets of one write, and of the reader's buffer.
const WRITE_BYTES: usize = 128 << 10;
const READ_BYTES: usize = 1 << 20;

/// Octets that had passed by a time (`CLOCK_MONOTONIC`), in order of time.
type Account = Vec<(u64, u64)>;

/// A transfer under way.
pub struct Transfer {
    pub port: u16,
    is_over: Arc<AtomicBool>,
    writer: JoinHandle<Account>,
    reader: JoinHandle<Account>,
}

/// The account of a transfer that ended.
pub struct Truth {
    /// Before each write.
    written: Account,
    /// After each read.
    read: Account,
}

impl Transfer {
    /// A listener that waits for its only connection: the recorder learns the port before it opens.
    pub fn listen() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let port = listener.local_addr().expect("it is bound").port();
        (listener, port)
    }

    /// Begins to send as fast as the machine can.
    pub fn start((listener, port): (TcpListener, u16)) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let writes_until = Arc::clone(&is_over);
        let writer = thread::spawn(move || write(port, &writes_until));
        let reader = thread::spawn(move || read(&listener));
        Self { port, is_over, writer, reader }
    }

    /// Ends the stream, and waits until all of it was read.
    pub fn end(self) -> Truth {
        self.is_over.store(true, Ordering::Relaxed);
        let written = self.writer.join().expect("the writer ends");
        let read = self.reader.join().expect("the reader ends");
        let truth = Truth { written, read };
        assert_eq!(truth.read.last().map(|last| last.1), Some(truth.bytes()));
        truth
    }
}

impl Truth {
    /// Octets of the whole stream.
    pub fn bytes(&self) -> u64 {
        self.written.last().map_or(0, |last| last.1)
    }

    /// Calls of read() that returned data.
    pub fn reads(&self) -> u64 {
        self.read.len() as u64
    }

    /// Octets a second between the first write and the last read.
    pub fn rate(&self) -> f64 {
        let (first, last) = (self.written[0].0, self.read[self.read.len() - 1].0);
        self.bytes() as f64 / ((last - first) as f64 / 1e9)
    }

    /// No more than this was handed to write() by a time.
    pub fn written_most(&self, at_ns: u64) -> u64 {
        let after = self.written.partition_point(|(ns, _)| *ns <= at_ns);
        self.written.get(after).map_or(self.bytes(), |next| next.1)
    }

    /// At least this was returned by read() by a time.
    pub fn read_least(&self, at_ns: u64) -> u64 {
        let after = self.read.partition_point(|(ns, _)| *ns <= at_ns);
        after.checked_sub(1).map_or(0, |last| self.read[last].1)
    }

    /// No more than this was returned by read() by a time.
    pub fn read_most(&self, at_ns: u64) -> u64 {
        let after = self.read.partition_point(|(ns, _)| *ns <= at_ns);
        self.read.get(after).map_or(self.bytes(), |next| next.1)
    }

    /// The most that was between write() and read() at any time.
    pub fn under_way_most(&self) -> u64 {
        let under_way = |(at_ns, _): &(u64, u64)| {
            self.written_most(*at_ns).saturating_sub(self.read_least(*at_ns))
        };
        self.written.iter().map(under_way).max().unwrap_or(0)
    }
}

fn write(port: u16, is_over: &AtomicBool) -> Account {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the reader listens");
    let block = vec![0x55; WRITE_BYTES];
    let mut account = Account::new();
    let mut bytes = 0;
    while !is_over.load(Ordering::Relaxed) {
        account.push((monotonic_ns(), bytes));
        bytes += socket.write(&block).expect("the reader reads") as u64;
    }
    account.push((monotonic_ns(), bytes));
    account
}

fn read(listener: &TcpListener) -> Account {
    let (mut socket, _) = listener.accept().expect("the writer connects");
    let mut room = vec![0; READ_BYTES];
    let mut account = Account::new();
    let mut bytes = 0;
    loop {
        match socket.read(&mut room).expect("the writer ends in order") {
            0 => return account,
            count => bytes += count as u64,
        }
        account.push((monotonic_ns(), bytes));
    }
}
