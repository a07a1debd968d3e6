//! Messages on standard error.
//!
//! Write errors are ignored: the reader of a pipe may have closed it, or the terminal may be gone. A line
//! may hold names from programs, hosts and files, so its hidden characters are escaped.

use std::io::Write;

/// Prints one line.
pub fn write_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", sockscope_render::style::printable(line));
}

/// Like `eprintln!`, without its panic on a write error.
#[macro_export]
macro_rules! stderr {
    () => {
        $crate::stderr::write_line("")
    };
    ($($what:tt)*) => {
        $crate::stderr::write_line(&format!($($what)*))
    };
}

/// The same without a line end.
#[macro_export]
macro_rules! stderr_part {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($what)*);
    }};
}
