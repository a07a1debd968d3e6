//! Whether live tests can run here, and whose turn it is.

use std::fs;
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

static TURN: Mutex<()> = Mutex::new(());

/// Bits of the capabilities that live recording needs (linux/capability.h).
const NEEDED: [(&str, u32); 3] = [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21), ("CAP_BPF", 39)];

/// Held by the one test that records.
pub struct Turn {
    _in_this_process: MutexGuard<'static, ()>,
    _on_this_machine: UnixListener,
}

/// Waits for the caller's turn; `None` where live tests cannot run. Then a line `SKIPPED` stands on standard
/// error, which `cargo xtask ci` counts.
///
/// With `SOCKSCOPE_LIVE=1` that is a failure instead.
pub fn take() -> Option<Turn> {
    take_unless(missing())
}

/// The same for a test that also needs something of the kernel; `lack` says what where it is missing.
pub fn take_with(lack: Option<&str>) -> Option<Turn> {
    take_unless(missing().or_else(|| lack.map(str::to_owned)))
}

fn take_unless(missing: Option<String>) -> Option<Turn> {
    let Some(missing) = missing else {
        // A test that failed in its turn has left nothing half done: its guards cleaned up.
        let in_this_process = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        return Some(Turn { _in_this_process: in_this_process, _on_this_machine: only_one() });
    };
    assert!(!wishes("1"), "{missing}, and SOCKSCOPE_LIVE=1 demands the live tests");
    skip(&missing);
    None
}

/// Writes the line of a test that does not run.
pub fn skip(reason: &str) {
    let this = thread::current();
    let test = this.name().unwrap_or("a live test");
    // Not `eprintln!`: libtest keeps its output when the test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
}

/// Waits until no other process tests: the holder of this name, which the kernel takes back from
/// whoever ends.
fn only_one() -> UnixListener {
    let name = SocketAddr::from_abstract_name("sockscope-live-tests").expect("a short name");
    loop {
        match UnixListener::bind_addr(&name) {
            Ok(listener) => return listener,
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// What this process lacks.
fn missing() -> Option<String> {
    if wishes("0") {
        return Some("SOCKSCOPE_LIVE=0".to_owned());
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some("this kernel does not show its types".to_owned());
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let lacking = NEEDED.iter().find(|(_, bit)| mask >> bit & 1 == 0);
    lacking.map(|(name, _)| format!("no {name}"))
}

fn wishes(value: &str) -> bool {
    std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == value)
}
