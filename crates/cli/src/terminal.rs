//! What the terminal can show.

use std::env;
use std::io::IsTerminal;

use sockscope_report::{Charset, Options};

/// Columns where nothing says how many there are.
const WIDTH: usize = 80;

/// Report options for standard output as it is now.
pub fn options() -> Options {
    let is_terminal = std::io::stdout().is_terminal();
    let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Options {
        color: is_terminal && !no_color,
        charset: if is_utf8() { Charset::Unicode } else { Charset::Ascii },
        width: asked_width().or_else(own_width).unwrap_or(WIDTH),
        ..Options::default()
    }
}

/// What `COLUMNS` says, where somebody exported it.
fn asked_width() -> Option<usize> {
    env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0)
}

/// What the terminal says of itself.
fn own_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

fn is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_none_or(|name| name.to_ascii_lowercase().replace('-', "").contains("utf8"))
}
