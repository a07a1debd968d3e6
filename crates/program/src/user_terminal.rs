//! What the terminal of the user can show.

use std::env;

/// Whether the user and the terminal want colours (<https://no-color.org>, terminfo(5)).
pub fn takes_color() -> bool {
    let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !no_color && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// What `COLUMNS` says, where somebody exported it.
pub fn asked_width() -> Option<usize> {
    env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0)
}

/// Whether the locale has UTF-8; without one it does.
pub fn is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_none_or(|name| name.to_ascii_lowercase().replace('-', "").contains("utf8"))
}
