//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use sockscope_program::pick::PickArgs;
use sockscope_program::times::some_time;
use sockscope_watch::Condition;

/// A recorder that is already running when a problem appears: the command `sockscope watch`.
#[derive(Debug, Parser)]
#[command(name = "sockscope-watch", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record all the time, and keep the last seconds as a trace when a condition holds.
    #[command(after_help = EXAMPLES)]
    Watch(Watch),
}

const EXAMPLES: &str = "\
Examples:
  sockscope watch --port 6379 --when 'lost > 1s in 10s' -o redis.watch
  sockscope watch --all --when finding=nagle-delayed-ack --listen 127.0.0.1:9464
  sockscope watch --comm nginx --exec 'mail-report' --per-hour 2

SIGUSR1 keeps the last seconds too, and so does POST /keep with --listen.";

/// `sockscope watch`.
#[derive(Debug, Args)]
pub struct Watch {
    #[command(flatten)]
    pub pick: PickArgs,
    /// All connections of this host
    #[arg(long)]
    pub all: bool,
    /// Folder of the recording, and of the traces that are kept
    #[arg(short, long, value_name = "DIR", default_value = "sockscope.watch")]
    pub output: PathBuf,
    /// Time of the recording that is on the disk
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "10m")]
    pub keep: Duration,
    /// Bytes of the recording on the disk at most, kept traces not counted (suffix K, M or G)
    #[arg(long, value_name = "SIZE", value_parser = disk, default_value = "2G")]
    pub max_disk: u64,
    /// Keep a trace when this holds: `lost > TIME in TIME`, `finding=NAME`, `finding=NAME > TIME in TIME` (several:
    /// repeat). Without it: lost > 1s in 10s
    #[arg(long, value_name = "CONDITION")]
    pub when: Vec<Condition>,
    /// Time of a kept trace before the condition held
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "30s")]
    pub before: Duration,
    /// Time of a kept trace after it
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "10s")]
    pub after: Duration,
    /// Traces that are kept in an hour at most
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub per_hour: usize,
    /// Program and arguments to start when a trace was kept; its folder is added as the last argument. The recorder
    /// then keeps all its rights
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    pub exec: Option<Words>,
    /// Write each finding as a line of JSON to this file, which may be rotated; - is standard output
    #[arg(long, value_name = "FILE")]
    pub findings: Option<PathBuf>,
    /// Write each sealed segment as Parquet into this folder too, for `python -m sockscope.fleet`
    #[arg(long, value_name = "DIR")]
    pub spool: Option<PathBuf>,
    /// Serve /metrics (OpenMetrics) and /keep there, as 127.0.0.1:9464
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,
    /// Send metrics and findings by OTLP over HTTP (JSON) to this collector, as http://127.0.0.1:4318
    #[arg(long, value_name = "URL", value_parser = crate::otlp::address)]
    pub otlp: Option<String>,
    /// Time between two messages of metrics to the collector
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "10s", requires = "otlp")]
    pub otlp_interval: Duration,
    /// Record calls too: their sizes, and the time that programs spent between them
    #[arg(long)]
    pub calls: bool,
    /// Also record Unix sockets of the picked processes: streams, datagrams, seqpacket
    #[arg(long)]
    pub unix: bool,
    /// Cost of probes and recorder at most, in percent of a CPU. Above it only a part of the connections is recorded, each
    /// whole
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub budget: Option<f64>,
    /// Measure the probes' own run time, for /metrics (costs some 40 ns a hit itself)
    #[arg(long)]
    pub cost: bool,
    /// Time between two analyses
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "1s")]
    pub interval: Duration,
    /// End after this time; without it SIGINT or SIGTERM ends it
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub duration: Option<Duration>,
}

/// A command as words.
pub type Words = Vec<String>;

fn words(text: &str) -> Result<Words, String> {
    let words = shlex::split(text).filter(|words| !words.is_empty());
    words.ok_or_else(|| "give a program with its arguments, quoted as in a shell".to_owned())
}

/// A part of a CPU, as 3%.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    let number = number.ok().filter(|percent| (0.01..=10_000.0).contains(percent));
    number.map(|percent| percent / 100.0).ok_or_else(|| {
        format!("{text} is no part of a CPU: give percent from 0.01 on, as 3% (100% is one CPU)")
    })
}

/// A size, as 512M.
fn disk(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text} is not a size: give bytes, or a number with K, M or G, as 512M");
    let (digits, shift) = match text.as_bytes().last().map(u8::to_ascii_uppercase) {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    match number.checked_mul(1 << shift).ok_or_else(wrong)? {
        bytes if bytes < 16 << 20 => {
            Err(format!("{text} is less than 16M, which some seconds of a recording need"))
        }
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_budget_is_a_part_of_a_cpu() {
        assert_eq!(
            (percent("3%"), percent("0.5"), percent("150%")),
            (Ok(0.03), Ok(0.005), Ok(1.5))
        );
        for wrong in ["", "%", "0", "-3%", "3 %", "NaN", "inf", "0.001"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_and_commands_are_read() {
        assert_eq!((disk("16M"), disk("2g")), (Ok(16 << 20), Ok(2 << 30)));
        for wrong in ["", "G", "-1M", "1.5G", "99999999999G", "15M"] {
            assert!(disk(wrong).is_err(), "{wrong}");
        }
        assert_eq!(words("a 'b c'"), Ok(vec!["a".to_owned(), "b c".to_owned()]));
        assert!(words("'a").is_err() && words(" ").is_err());
    }
}
