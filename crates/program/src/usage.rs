//! What is wrong with a command line, in one line: what, where, and what to do.

use clap::error::ErrorKind;

use crate::failure::Failure;

/// What the user is told of an error of the parser; help and version, which are none, are printed.
pub fn failure(error: &clap::Error) -> Failure {
    let is_asked_for = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_asked_for {
        error.exit();
    }
    Failure::new(line(&error.render().to_string()))
}

/// The parser's paragraphs as one line: what is wrong, then how the command is used, or where that
/// stands.
fn line(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_end =
        |line: &&str| line.starts_with("Usage:") || line.starts_with("For more information");
    let what: String = lines().take_while(|line| !is_end(line)).map(part).collect();
    let what = what.trim_start();
    match lines().find_map(|line| line.strip_prefix("Usage: ")) {
        Some(usage) if usage.ends_with("<COMMAND>") => format!("{what}; --help lists them"),
        Some(usage) => format!("{what}; usage: {usage}"),
        None => format!("{what}; --help says more"),
    }
}

/// A line of the parser's as it follows those before it.
fn part(line: &str) -> String {
    let values = line.strip_prefix("[possible values: ").and_then(|line| line.strip_suffix(']'));
    match (values, line.strip_prefix("tip: ")) {
        (Some(values), _) => format!("; give one of {values}"),
        // "use '-- -x'" would make the option a part of the command to record.
        (None, Some(tip)) if tip.starts_with("to pass") => String::new(),
        (None, Some(tip)) => format!("; {tip}"),
        (None, None) => format!(" {}", line.strip_prefix("error: ").unwrap_or(line)),
    }
}
