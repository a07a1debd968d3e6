//! What is said beside the results, on standard error.
//!
//! Nobody may listen any more, as when a pipe's reader has seen enough or a terminal is gone: what is
//! said then is lost, and nothing else is. A line may hold names that programs, hosts and files give
//! themselves, so that it is made printable as a whole.

use std::io::Write;

/// Prints one line.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", sockscope_render::style::printable(line));
}

/// As `eprintln!`, and goes on where that would panic.
#[macro_export]
macro_rules! talk {
    () => {
        $crate::talk::say("")
    };
    ($($what:tt)*) => {
        $crate::talk::say(&format!($($what)*))
    };
}

/// The same without an end of line.
#[macro_export]
macro_rules! talk_on {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($what)*);
    }};
}
