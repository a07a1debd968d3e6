//! The command line of `sockscope replay`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use sockscope_experiment::Parameters;
use sockscope_lab::pattern_change::PatternChange;
use sockscope_link::{Bandwidth, Interval};

use crate::choice::Choice;

pub const EXAMPLES: &str = "\
Examples:
  sockscope record --calls -o calls.sockscope -- ./client
  sockscope replay calls.sockscope --set one-write
  sockscope replay calls.sockscope --set nodelay --set delay=10ms -o replayed
  sockscope replay calls.sockscope --set one-write --warm quick.sockscope
  sockscope replay calls.sockscope --on model --set personality=4.3bsd";

/// `sockscope replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// Folder of a trace bundle that was recorded with --calls
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Connection by its number in the report; several as 1,2,3, or all between the two programs; without it, the one with
    /// the flow of most bytes
    #[arg(long, value_name = "N")]
    pub connection: Option<Choice>,
    /// A change, all of which are made together (several: repeat): one-write, nodelay, write-bytes=N, read-bytes=N,
    /// buffers=N, think=0, think=-TIME, delay=10ms; with --on model also rate=10mbit, and for both runs personality=NAME,
    /// machine=NAME and other parameters of hosts and links
    #[arg(long, value_name = "CHANGE")]
    pub set: Vec<ReplayChange>,
    /// A recording of the same programs in which they did not wait, as with an option set: think times without a wait are
    /// its
    #[arg(long, value_name = "DIR")]
    pub warm: Option<PathBuf>,
    /// Where to make the calls again
    #[arg(long, value_enum, default_value_t)]
    pub on: ReplayOn,
    /// With --on live: runs in all, without the change and with it in turns; 6 without the option
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100))]
    pub rounds: Option<u32>,
    /// Keep the pattern and the bundle of each run in this folder
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// With --on model: seed of the model's chance, as the phase of its timers; 1 without the option
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Form of the result
    #[arg(long, value_enum, default_value_t)]
    pub format: ReplayFormat,
}

/// Where the calls are made again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ReplayOn {
    /// On this machine, by two processes
    #[default]
    Live,
    /// In the executable model of the stacks that the papers measured
    Model,
}

/// Form of the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ReplayFormat {
    /// For people
    #[default]
    Text,
    /// One document: schema sockscope.replay/1, with --on model sockscope.compare/1
    Json,
}

/// One change between the unchanged run and the changed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayChange {
    /// Of the calls.
    Calls(PatternChange),
    /// Of the path: a wire with this delay in each direction.
    Delay(Interval),
    /// Of the model's network stack.
    Personality(String),
    /// Of the model's machine.
    Machine(String),
    /// Of the model's path: a line of this rate.
    Rate(Bandwidth),
    /// Another parameter of the model's hosts or link, as NAME=VALUE.
    Model(String),
}

impl fmt::Display for ReplayChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls(change) => change.fmt(f),
            Self::Delay(delay) => write!(f, "delay={delay}"),
            Self::Rate(rate) => write!(f, "rate={rate}"),
            Self::Personality(name) => write!(f, "personality={name}"),
            Self::Machine(name) => write!(f, "machine={name}"),
            Self::Model(pair) => f.write_str(pair),
        }
    }
}

impl FromStr for ReplayChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("delay", value)) => {
                value.parse().map(Self::Delay).map_err(|error| error.to_string())
            }
            Some(("rate", value)) => {
                value.parse().map(Self::Rate).map_err(|error| error.to_string())
            }
            Some(("personality", value)) => Ok(Self::Personality(value.to_owned())),
            Some(("machine", value)) => Ok(Self::Machine(value.to_owned())),
            Some((name, _)) if Parameters::HOSTS.contains(&name) => Ok(Self::Model(text.to_owned())),
            _ if PatternChange::is_named_in(text) => text.parse().map(Self::Calls),
            _ => text.parse().map(Self::Calls).map_err(|error: String| {
                format!("{error}; delay=TIME; or, with --on model, rate=RATE, personality=NAME or machine=NAME")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_value_lists_no_other_changes() {
        let error = |text: &str| text.parse::<ReplayChange>().unwrap_err();
        assert_eq!(error("read-bytes=64k"), "64k is not a number of bytes");
        let unknown = error("faster");
        assert!(unknown.starts_with("faster is no change: give one-write, "), "{unknown}");
        assert!(unknown.ends_with("or machine=NAME"), "{unknown}");
    }
}
