//! Signals that ask the program to stop: SIGINT, SIGTERM and SIGHUP.
//!
//! The first of them ends a recording or a server in order. A second SIGINT or SIGTERM ends the process
//! at once with status 130. When a terminal closes, the kernel sends SIGHUP and the shell sends another:
//! further ones change nothing. Where SIGHUP is ignored, as below `nohup`, it stays ignored.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// Exit status of a process that the second SIGINT or SIGTERM ends: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

/// The handlers of the signals, and whether one of the signals was received.
#[derive(Debug)]
pub struct StopSignals {
    stop: Arc<AtomicBool>,
}

impl StopSignals {
    /// Installs the handlers. They stay until the process ends.
    ///
    /// # Errors
    ///
    /// When the kernel refuses a handler.
    pub fn register() -> Result<Self, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let interrupted = Arc::new(AtomicBool::new(false));
        let register = || {
            for signal in [SIGINT, SIGTERM] {
                // Handlers run in the order of registration: the first signal finds the flag unset.
                flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&interrupted))?;
                flag::register(signal, Arc::clone(&interrupted))?;
                flag::register(signal, Arc::clone(&stop))?;
            }
            if !is_ignored(SIGHUP) {
                flag::register(SIGHUP, Arc::clone(&stop))?;
            }
            Ok(())
        };
        register().map_err(|error: std::io::Error| {
            Failure::new(format!("cannot handle signals: {error}"))
        })?;
        Ok(Self { stop })
    }

    /// Whether one of the signals was received.
    pub fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Whether this process ignores `signal`: the bit of the signal in `SigIgn` (proc_pid_status(5)).
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    ignored.is_some_and(|ignored| ignored >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use signal_hook::low_level::raise;

    use super::*;

    /// Signals that the process of `a_process_receives_signals` raises, and the answer that it expects.
    const RAISED: &str = "SOCKSCOPE_TEST_RAISED";

    /// Does nothing unless the tests below start it in a process of its own.
    #[test]
    fn a_process_receives_signals() {
        let Ok(raised) = std::env::var(RAISED) else { return };
        let signals = StopSignals::register().unwrap();
        assert!(!signals.stop_requested());
        let (names, expected) = raised.split_once(':').unwrap();
        for name in names.split(' ') {
            let signal = match name {
                "INT" => SIGINT,
                "TERM" => SIGTERM,
                _ => SIGHUP,
            };
            raise(signal).unwrap();
        }
        assert_eq!(signals.stop_requested().to_string(), expected);
    }

    /// The exit status of a process that receives signals, started by `shell`.
    fn status(shell: &str, raised: &str) -> Option<i32> {
        let mut process = Command::new("sh");
        process.args(["-c", shell, "sh"]).arg(std::env::current_exe().unwrap());
        process.args(["--exact", "signals::tests::a_process_receives_signals"]);
        process.env(RAISED, raised).output().unwrap().status.code()
    }

    #[test]
    fn the_first_signal_asks_to_stop_and_a_second_interrupt_ends_the_process() {
        for first in ["INT", "TERM", "HUP", "HUP HUP", "INT HUP", "HUP TERM"] {
            assert_eq!(status("exec \"$@\"", &format!("{first}:true")), Some(0), "{first}");
        }
        for second in ["INT INT", "TERM TERM", "INT TERM", "TERM HUP INT"] {
            assert_eq!(status("exec \"$@\"", &format!("{second}:true")), Some(130), "{second}");
        }
    }

    #[test]
    fn an_ignored_hang_up_stays_ignored() {
        assert_eq!(status("trap '' HUP; exec \"$@\"", "HUP:false"), Some(0));
        assert_eq!(status("trap '' HUP; exec \"$@\"", "HUP INT:true"), Some(0));
    }
}
