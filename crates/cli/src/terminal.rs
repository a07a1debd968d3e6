//! What the terminal can show.

use std::env;
use std::io::IsTerminal;

use sockscope_report::{Charset, Options};

/// Report options for standard output as it is now.
pub fn options() -> Options {
    let is_terminal = std::io::stdout().is_terminal();
    let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Options {
        color: is_terminal && !no_color,
        charset: if is_utf8() { Charset::Unicode } else { Charset::Ascii },
        width: env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(96),
        ..Options::default()
    }
}

fn is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_none_or(|name| name.to_ascii_lowercase().replace('-', "").contains("utf8"))
}
