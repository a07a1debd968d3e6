//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// The laboratory: the commands `sockscope lab` and `sockscope vmtp`.
#[derive(Debug, Parser)]
#[command(name = "sockscope-lab", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the experiments of classic papers on the model and check their claims.
    Lab(Lab),
    /// Serve, call, find names and store files over VMTP (RFC 1045).
    Vmtp(crate::vmtp::args::Vmtp),
}

/// `sockscope lab`.
#[derive(Debug, Args)]
pub struct Lab {
    /// What to do.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// What to do in the laboratory.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Name the experiments.
    List,
    /// Run one experiment and print its results.
    Run(LabRun),
    /// Check the claims of the papers against the model.
    Check(LabCheck),
}

/// `sockscope lab run`.
#[derive(Debug, Args)]
pub struct LabRun {
    /// Id of an experiment, as `lab list` names it, or the path of a .toml file
    #[arg(value_name = "ID")]
    pub experiment: String,
    /// Where to run it
    #[arg(long, value_enum, default_value_t)]
    pub on: LabOn,
    /// Form of the results
    #[arg(long, value_enum, default_value_t)]
    pub format: LabFormat,
    /// Replace a parameter, swept or fixed, by one value, as data_bytes=4800 (several: repeat)
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Runs of each case, instead of the file's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repetitions: Option<u32>,
    /// Seed of the first run, instead of the file's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Also keep the results, and the trace bundles of experiments that record them, in this folder
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Where an experiment runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LabOn {
    /// In the executable model of the stacks that the papers measured
    #[default]
    Model,
    /// On this machine, over loopback
    Live,
}

/// Form of an experiment's results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LabFormat {
    /// For people
    #[default]
    Text,
    /// Schema sockscope.lab/1, one document
    Json,
    /// One row for each case and number, base units
    Csv,
}

/// `sockscope lab check`.
#[derive(Debug, Args)]
pub struct LabCheck {
    /// Only the claims of this paper: sunos-ipc, bsd-buffers, protocol-choice or layering
    #[arg(long, value_name = "NAME")]
    pub paper: Option<String>,
    /// Form of the outcome
    #[arg(long, value_enum, default_value_t)]
    pub format: CheckFormat,
    /// Exit with status 1 when a claim differs
    #[arg(long)]
    pub check: bool,
}

/// Form of the outcome of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// For people
    #[default]
    Text,
    /// Schema sockscope.claims/1, one document
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
