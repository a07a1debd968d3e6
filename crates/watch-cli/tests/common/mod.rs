//! Programs that the tests start, and end with them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Calls in one write; after two seconds for a second in two writes, which Nagle's rule and the delayed acknowledgment
/// make slow.
pub const CALLS: &str = "
import socket, sys, threading, time
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
sys.stdin.readline()
def serve():
    peer = listener.accept()[0]
    while True:
        got = 0
        while got < 400:
            part = len(peer.recv(400 - got))
            if not part: return
            got += part
        peer.sendall(b'a' * 100)
threading.Thread(target=serve, daemon=True).start()
sock = socket.create_connection(listener.getsockname())
began = time.monotonic()
while time.monotonic() - began < 60:
    if 2 < time.monotonic() - began < 3:
        sock.sendall(b'h' * 100)
        sock.sendall(b'b' * 300)
    else:
        sock.sendall(b'h' * 400)
        time.sleep(0.002)
    sock.recv(100)
";

/// A program that waits for a line before it begins; it is ended with the test.
pub struct Program(Child);

impl Program {
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.spawn().expect("the program is there"))
    }

    pub fn port(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    pub fn begin(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running recorder with its messages.
pub struct Watch {
    pub child: Child,
    messages: std::sync::mpsc::Receiver<String>,
    said: String,
}

impl Watch {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, messages) = std::sync::mpsc::channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, messages, said: String::new() }
    }

    /// Waits for a message with this in it.
    pub fn wait_for(&mut self, word: &str) -> String {
        let line = self.wait_at_most(Duration::from_secs(60), word);
        line.unwrap_or_else(|| panic!("no {word:?} in\n{}", self.said))
    }

    /// Waits for it so long; `None` where it is not said.
    pub fn wait_at_most(&mut self, time: Duration, word: &str) -> Option<String> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.messages.recv_timeout(left).ok()?;
            self.said += &line;
            self.said.push('\n');
            if line.contains(word) {
                return Some(line);
            }
        }
    }

    /// Ends it in order; the rest of its messages.
    pub fn end(mut self) -> String {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        self.said.extend(self.messages.iter().map(|line| line + "\n"));
        assert!(status.success(), "{status}: {}", self.said);
        std::mem::take(&mut self.said)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn watch(port: &str, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-watch"));
    command.args(["watch", "--port", port, "-o"]).arg(folder).args(arguments);
    command
}

/// Whether this process may record; if not, the test counts as skipped.
pub fn may_record(test: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let output = watch("1", folder.path(), &["--duration", "100ms"]).output().unwrap();
    if output.status.success() {
        return true;
    }
    let reason = String::from_utf8_lossy(&output.stderr).into_owned();
    let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
    assert!(!required, "{reason}");
    // Of a test that passes libtest shows what is written past its capture.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {}", reason.trim_end());
    false
}
