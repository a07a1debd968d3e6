//! How results stand in the tables that are printed.

/// One line of a table: name, value, and what was to be reached.
pub fn row(name: &str, value: &str, verdict: Option<String>) {
    let line = format!("  {name:<40} {value:<24} {}", verdict.unwrap_or_default());
    println!("{}", line.trim_end());
}
