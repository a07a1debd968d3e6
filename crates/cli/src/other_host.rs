//! The host for which this one records: its signs of life on standard input, and answers to it.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sockscope_program::failure::Failure;

/// The answer of a recorder that is attached, of one that ended well, and of one that failed, before the reason.
pub const ATTACHED: &str = "attached";
pub const BUNDLE: &str = "bundle";
pub const FAILED: &str = "failed: ";
/// Many heartbeats: the connection is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// The state of the other host.
#[derive(Debug)]
pub struct OtherHost {
    heard: Arc<Mutex<Instant>>,
    has_ended: Arc<AtomicBool>,
}

impl OtherHost {
    /// Listens on standard input.
    pub fn listen() -> io::Result<Self> {
        let heard = Arc::new(Mutex::new(Instant::now()));
        let has_ended = Arc::new(AtomicBool::new(false));
        let (hears, ends) = (Arc::clone(&heard), Arc::clone(&has_ended));
        thread::Builder::new().name("heartbeat".to_owned()).spawn(move || {
            let mut beats = [0; 64];
            while io::stdin().read(&mut beats).is_ok_and(|length| length > 0) {
                *hears.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            }
            ends.store(true, Ordering::Relaxed);
        })?;
        Ok(Self { heard, has_ended })
    }

    /// Says that it can begin.
    pub fn attached(&self) -> Result<(), Failure> {
        say(ATTACHED)
    }

    /// Whether it wants no more, or is gone.
    pub fn is_over(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed) || self.is_silent()
    }

    /// Whether nothing was received for long.
    pub fn is_silent(&self) -> bool {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > PATIENCE
    }
}

/// Answers the other host.
pub fn say(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
}
