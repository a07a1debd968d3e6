//! What is said beside the results, on standard error.
//!
//! Nobody may listen any more, as when a pipe's reader has seen enough or a terminal is gone: what is
//! said then is lost, and nothing else is.

/// As `eprintln!`, and goes on where that would panic.
macro_rules! talk {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}

/// The same without an end of line.
macro_rules! talk_on {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($what)*);
    }};
}
