//! Programs that run next to a test: servers and recorders. All end with the test, failed or not.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// For a program to be ready, or to end; only how long a failure takes depends on it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running program; dropping it ends it.
pub struct Background {
    child: Child,
    /// What asks it to end with all that it started, as `-TERM`.
    signal: &'static str,
}

impl Background {
    /// Starts `command`; what it prints is not kept.
    pub fn start(command: &mut Command, signal: &'static str) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self::spawn(command, signal)
    }

    /// Starts `command`, and keeps what it prints.
    pub fn kept(command: &mut Command, signal: &'static str) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self::spawn(command, signal)
    }

    /// Starts `command` and waits until a line of its standard error contains `ready`.
    pub fn start_until(command: &mut Command, signal: &'static str, ready: &str) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut started = Self::spawn(command, signal);
        let mut stderr = BufReader::new(started.child.stderr.take().expect("piped above"));
        let mut said = String::new();
        while !said.contains(ready) {
            let read = stderr.read_line(&mut said).expect("standard error is text");
            assert!(read > 0, "{command:?} ended before {ready:?}: {said}");
        }
        // Goes on being read, or the program would stop when the pipe is full.
        thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        started
    }

    /// Waits until it listens on `port`, without connecting.
    pub fn listening(self, port: u16) -> Self {
        let since = Instant::now();
        while !["tcp", "tcp6"].iter().any(|table| listens(self.child.id(), table, port)) {
            assert!(since.elapsed() < PATIENCE, "nothing listens on port {port}");
            thread::sleep(Duration::from_millis(20));
        }
        self
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("procps is installed").success(), "{signal} to {pid}");
    }

    /// Number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as its user would, and returns its standard output if that was kept.
    pub fn stop(mut self) -> String {
        self.end();
        let mut said = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            std::io::Read::read_to_string(&mut out, &mut said).expect("standard output is text");
        }
        said
    }

    /// Waits until it ends by itself, and returns its standard output.
    pub fn ended(mut self) -> String {
        let out = self.child.stdout.take().expect("its output is kept");
        let said = std::io::read_to_string(out).expect("standard output is text");
        assert!(self.child.wait().expect("it was started").success(), "it failed: {said}");
        said
    }

    fn spawn(command: &mut Command, signal: &'static str) -> Self {
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, signal }
    }

    fn end(&mut self) {
        let since = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if since.elapsed() > PATIENCE {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            let pid = self.child.id().to_string();
            let _ = Command::new("kill").args([self.signal, &pid]).status();
            // Long enough that a recorder does not take the next signal for impatience.
            for _ in 0..100 {
                thread::sleep(Duration::from_millis(50));
                if !matches!(self.child.try_wait(), Ok(None)) {
                    return;
                }
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}

/// A port that nothing uses now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    listener.local_addr().expect("it is bound").port()
}

/// Whether `/proc/PID/net/TABLE` (proc(5)) has a listener on `port`.
fn listens(pid: u32, table: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let sockets = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
    sockets.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let local = words.next().unwrap_or_default();
        local.ends_with(&format!(":{port:04X}")) && words.nth(1) == Some(LISTEN)
    })
}
