//! An error of the command line in one line: the cause, and the usage or the option that prints it.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Failure;

/// The failure for an error of the parser. Help and version are no errors: the parser prints them and
/// ends the program.
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
    Failure::new(line(error))
}

/// The cause, the accepted values, suggestions, then the usage.
fn line(error: &clap::Error) -> String {
    let usage = usage(error);
    let has_commands = usage.as_ref().is_some_and(|usage| usage.ends_with("<COMMAND>"));
    let mut line = cause(error);
    let accepted = values(error, ContextKind::ValidValue);
    if !accepted.is_empty() {
        line += &format!("; give one of {}", accepted.join(", "));
    }
    let similar = [
        (ContextKind::SuggestedSubcommand, "subcommand"),
        (ContextKind::SuggestedArg, "argument"),
        (ContextKind::SuggestedValue, "value"),
    ];
    line.extend(similar.map(|(kind, noun)| similar_names(&values(error, kind), noun)));
    // Without commands the suggestion is to write `--` before the argument: this would make it a part
    // of the command to record.
    if has_commands
        && let Some(ContextValue::StyledStrs(others)) = error.get(ContextKind::Suggested)
    {
        line.extend(others.iter().map(|other| format!("; {other}")));
    }
    let argument = values(error, ContextKind::InvalidArg).join(" ");
    let is_word = error.kind() == ErrorKind::UnknownArgument && !argument.starts_with('-');
    if is_word && usage.as_deref().is_some_and(|usage| usage.contains("-- <CMD>")) {
        line += &format!("; put -- before the command, as in: -- {argument}");
    }
    line + &match usage {
        Some(_) if has_commands => "; --help lists them".to_owned(),
        Some(usage) => format!("; usage: {usage}"),
        None => "; --help says more".to_owned(),
    }
}

/// The cause of the error, with the names and values that the user gave.
fn cause(error: &clap::Error) -> String {
    let argument = values(error, ContextKind::InvalidArg).join(" ");
    let value = values(error, ContextKind::InvalidValue).join(" ");
    let prior = values(error, ContextKind::PriorArg);
    match (error.kind(), prior.as_slice()) {
        (ErrorKind::InvalidValue, _) if value.is_empty() => {
            format!("a value is required for '{argument}' but none was supplied")
        }
        (ErrorKind::InvalidValue, _) => format!("invalid value '{value}' for '{argument}'"),
        (ErrorKind::ValueValidation, _) => {
            let reason = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            format!("invalid value '{value}' for '{argument}'{reason}")
        }
        (ErrorKind::TooManyValues, _) => {
            format!("unexpected value '{value}' for '{argument}' found; no more were expected")
        }
        (ErrorKind::UnknownArgument, _) => format!("unexpected argument '{argument}' found"),
        (ErrorKind::InvalidSubcommand, _) => {
            let command = values(error, ContextKind::InvalidSubcommand).join(" ");
            format!("unrecognized subcommand '{command}'")
        }
        (ErrorKind::MissingRequiredArgument, _) => {
            format!("the following required arguments were not provided: {argument}")
        }
        (ErrorKind::ArgumentConflict, [prior]) if *prior == argument => {
            format!("the argument '{argument}' cannot be used multiple times")
        }
        (ErrorKind::ArgumentConflict, [prior]) => {
            format!("the argument '{argument}' cannot be used with '{prior}'")
        }
        (kind, _) => kind.to_string(),
    }
}

/// The suggestion of names like the one that the user gave; empty without any.
fn similar_names(names: &[&str], noun: &str) -> String {
    let quoted = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    match names {
        [] => String::new(),
        [_] => format!("; a similar {noun} exists: {quoted}"),
        _ => format!("; some similar {noun}s exist: {quoted}"),
    }
}

/// The usage of the command that the error belongs to, without its title.
fn usage(error: &clap::Error) -> Option<String> {
    let ContextValue::StyledStr(usage) = error.get(ContextKind::Usage)? else { return None };
    let usage = usage.to_string();
    Some(usage.split_once(": ")?.1.lines().next()?.to_owned())
}

/// The strings of one kind in the error's context.
fn values(error: &clap::Error, kind: ContextKind) -> Vec<&str> {
    match error.get(kind) {
        Some(ContextValue::String(value)) => vec![value],
        Some(ContextValue::Strings(values)) => values.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}
