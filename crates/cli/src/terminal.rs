//! What the terminal can show.

use std::env;
use std::io::IsTerminal;
use std::path::Path;

use rustix::termios::tcgetwinsize;
use sockscope_report::{Charset, Options};

use crate::args::ColorArg;

/// Columns where nothing says how many there are.
const WIDTH: usize = 80;

/// Where text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Stdout,
    Stderr,
    File,
}

impl Target {
    /// The target that a name means: `-` is standard output.
    pub fn named(path: &Path) -> Self {
        if path == Path::new("-") { Self::Stdout } else { Self::File }
    }

    /// Whether a person sees it.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Stdout => std::io::stdout().is_terminal(),
            Self::Stderr => std::io::stderr().is_terminal(),
            Self::File => false,
        }
    }

    /// Columns of the terminal, as it says itself.
    fn width(self) -> Option<usize> {
        let size = match self {
            Self::Stdout | Self::File => tcgetwinsize(std::io::stdout()),
            Self::Stderr => tcgetwinsize(std::io::stderr()),
        };
        Some(usize::from(size.ok()?.ws_col)).filter(|columns| *columns > 0)
    }
}

/// Report options for the target as it is now.
pub fn options(target: Target, color: ColorArg) -> Options {
    Options {
        color: match color {
            ColorArg::Always => true,
            ColorArg::Never => false,
            ColorArg::Auto => target.is_terminal() && takes_color(),
        },
        charset: if is_utf8() { Charset::Unicode } else { Charset::Ascii },
        width: width(target),
        ..Options::default()
    }
}

/// Columns of the target; those of an ordinary terminal where nothing says how many there are.
pub fn width(target: Target) -> usize {
    asked_width().or_else(|| target.width()).unwrap_or(WIDTH)
}

/// Whether the user and the terminal want colours (<https://no-color.org>, terminfo(5)).
fn takes_color() -> bool {
    let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !no_color && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// What `COLUMNS` says, where somebody exported it.
fn asked_width() -> Option<usize> {
    env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0)
}

fn is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_none_or(|name| name.to_ascii_lowercase().replace('-', "").contains("utf8"))
}
