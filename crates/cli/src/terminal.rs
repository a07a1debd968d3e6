//! What the terminal can show.

use std::io::IsTerminal;
use std::path::Path;

use rustix::termios::tcgetwinsize;
use sockscope_program::user_terminal::{asked_width, is_utf8, takes_color};
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
