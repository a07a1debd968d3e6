//! How results stand in the tables that are printed.

/// The outcome of a result that was to be reached; `None`: the noise does not tell.
pub fn judged(goal: &str, is_reached: Option<bool>) -> String {
    let word = match is_reached {
        Some(true) => "reached",
        Some(false) => "missed",
        None => "not decided, within the interval",
    };
    format!("{goal}: {word}")
}

/// One line of a table: name, value, and what was to be reached.
pub fn row(name: &str, value: &str, verdict: Option<String>) {
    let line = format!("  {name:<40} {value:<24} {}", verdict.unwrap_or_default());
    println!("{}", line.trim_end());
}
