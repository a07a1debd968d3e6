//! Channels between real processes: every pattern, kills, and hostile peers.
//!
//! The other processes are `channel-peer`. Nothing here asserts a duration; timeouts only end a test
//! that would otherwise hang.

#![allow(unsafe_code)]

mod deaths;
mod groups;
mod hostility;
mod parts;
mod patterns;
#[allow(dead_code)] // Its own `main` is not used here.
#[path = "../../examples/talk.rs"]
mod talk;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use sockscope_channel::{Address, Wait};

/// Longer than anything takes here.
pub const LONG: Duration = Duration::from_secs(120);

/// Sleeping on the signal word, and the other ways to wait.
pub const SLEEP: Wait = Wait::FUTEX.within(LONG);
/// Sleeping at the socket.
pub const SLEEP_AT_SOCKET: Wait = Wait::SOCKET.within(LONG);
/// Not sleeping.
pub const SPIN: Wait = Wait::SPIN.within(LONG);

/// Another process, killed at the latest when this is dropped.
pub struct Peer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it with these arguments.
    pub fn start(words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_channel-peer"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the peer's program");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, output }
    }

    /// Starts it and waits until it says that it is ready.
    pub fn ready(words: &[&str]) -> Self {
        let mut peer = Self::start(words);
        assert_eq!(peer.line(), "ready", "{words:?}");
        peer
    }

    /// Its next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and its end awaited.
    pub fn kill(&mut self) {
        self.child.kill().expect("a process of ours");
        self.child.wait().expect("a process of ours");
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a process of ours").is_none()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of this test alone.
pub fn address(test: &str) -> Address {
    Address::new(&format!("test-{}-{test}", std::process::id())).expect("a short name")
}
