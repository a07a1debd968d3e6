//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use sockscope_program::filter_args::{FilterArgs, flow};
use sockscope_program::pick::PickArgs;
use sockscope_program::times::some_time;

/// Views of connections: the commands `sockscope plot`, `top`, `view` and `report --format html`.
#[derive(Debug, Parser)]
#[command(name = "sockscope-view", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Draw a figure of one flow, or of all connections, as SVG.
    Plot(Plot),
    /// Show which connections wait now, the one that waited longest first. Without a pick: all connections of this host.
    #[command(after_help = TOP_EXAMPLES)]
    Top(Top),
    /// Show a trace, or what is recorded now, as a page in a browser of this machine. Without DIR: the last trace.
    #[command(after_help = VIEW_EXAMPLES)]
    View(View),
    /// Write the report of a trace as a page for a browser, in one file that loads nothing.
    #[command(after_help = REPORT_EXAMPLES)]
    Report(Report),
}

const TOP_EXAMPLES: &str = "\
Examples:
  sockscope top --port 6379
  sockscope top --comm nginx --once
  sockscope top --port 443 --json --duration 1m > waits.jsonl";

const VIEW_EXAMPLES: &str = "\
Examples:
  sockscope view
  sockscope view redis.sockscope --open
  sockscope view before.sockscope after.sockscope
  sockscope view --live --port 443

The page is for this user on this machine: the address has a secret, and nothing answers without it. From another
machine: ssh -L 8750:127.0.0.1:8750 HOST, and there `sockscope view --listen 8750`.";

/// `sockscope plot`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
    \x20 sockscope plot --figure requests -o requests.svg\n\
    \x20 sockscope plot redis.sockscope --figure time-sequence --from 1.4 --to 1.5 -o F.svg\n\
    \x20 sockscope plot redis.sockscope --figure all -o figures")]
pub struct Plot {
    /// Folder of the trace bundle; without it, that of the last trace that was recorded
    pub dir: Option<PathBuf>,
    /// Which picture: requests (of all connections), packet-trace, queue-length, queue-delay, protocol-delay,
    /// acks, time-sequence, sequence, layers, ledger, clocks (of several hosts), or all of them in the folder of -o
    #[arg(long, value_name = "NAME")]
    pub figure: String,
    /// The flow to draw; without it, the one of those to show that carried most bytes
    #[arg(long, value_name = "N", value_parser = flow, allow_negative_numbers = true)]
    pub flow: Option<u32>,
    /// Width in pixels
    #[arg(long, value_name = "PX", default_value_t = 800)]
    pub width: u32,
    /// Height in pixels
    #[arg(long, value_name = "PX", default_value_t = 600)]
    pub height: u32,
    /// Write to this file, as SVG, or as PNG where its name ends in .png (which sockscope-lab draws); - is standard
    /// output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// Which part of the trace.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// `sockscope view`.
#[derive(Debug, Args)]
pub struct View {
    /// Folders of traces; of several the page has a comparison
    #[arg(value_name = "DIR", conflicts_with = "live")]
    pub dirs: Vec<PathBuf>,
    /// Record now, and follow the recording. Without a pick: all connections of this host
    #[arg(long)]
    pub live: bool,
    #[command(flatten)]
    pub pick: PickArgs,
    /// Have the desktop open the page in its browser
    #[arg(long)]
    pub open: bool,
    /// Port of 127.0.0.1 to listen on; 0 is any free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub listen: u16,
    /// With --live, time between two refreshes: seconds, or 200ms, 5s, 2m
    #[arg(long, value_name = "TIME", value_parser = refresh, default_value = "1s")]
    pub interval: Duration,
    /// With --live, time that is kept, up to now; less where this is more than a million records
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "60s")]
    pub span: Duration,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  sockscope report --format html -o report.html
  sockscope report redis.sockscope --format html --port 6379 --slowest 3 -o slow.html";

/// `sockscope report --format html`. The options are those of the other formats.
#[derive(Debug, Args)]
pub struct Report {
    /// Folder of the trace bundle
    pub dir: PathBuf,
    /// Form of the report: sockscope writes the others
    #[arg(long, value_enum, default_value_t)]
    pub format: FormatArg,
    /// A page has everything
    #[arg(long)]
    pub full: bool,
    /// Exit with status 1 when there are findings
    #[arg(long)]
    pub check: bool,
    /// A page has colours for light and for dark screens
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub color: ColorArg,
    /// The time of day (UTC) stands next to each time
    #[arg(long)]
    pub wall_clock: bool,
    /// Only this flow
    #[arg(long, value_name = "N", value_parser = flow, allow_negative_numbers = true)]
    pub flow: Option<u32>,
    /// Write to this file; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// Which part of the trace.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// Form of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// A page in one file
    #[default]
    Html,
}

/// `sockscope top`.
#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    pub pick: PickArgs,
    /// Print the list once, as text, after the time of --span
    #[arg(long, conflicts_with = "json")]
    pub once: bool,
    /// With --once: write the screen as a picture to this file, as SVG
    #[arg(long, value_name = "FILE", requires = "once")]
    pub picture: Option<PathBuf>,
    /// Print one line of JSON at each refresh
    #[arg(long)]
    pub json: bool,
    /// Time between two refreshes: seconds, or 200ms, 5s, 2m
    #[arg(long, value_name = "TIME", value_parser = refresh, default_value = "1s")]
    pub interval: Duration,
    /// Time that the figures are of, up to now: a multiple of the interval
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "5s")]
    pub span: Duration,
    /// End after this time
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub duration: Option<Duration>,
    /// When text has colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub color: ColorArg,
}

/// When text has colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

fn refresh(text: &str) -> Result<Duration, String> {
    let time = some_time(text)?;
    match time < SHORTEST {
        true => Err(format!("{text} is too short: a refresh takes 100ms or more")),
        false => Ok(time),
    }
}

const SHORTEST: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn top(words: &[&str]) -> Result<Top, String> {
        let all = [&["sockscope-view", "top"], words].concat();
        let parsed = Arguments::try_parse_from(all).map_err(|error| error.to_string())?;
        let Command::Top(top) = parsed.command else { panic!("not top") };
        Ok(top)
    }

    #[test]
    fn times_are_of_seconds_and_refreshes_not_too_short() {
        let given = top(&["--interval", "0.5", "--span", "2s"]).unwrap();
        assert_eq!((given.interval.as_millis(), given.span.as_millis()), (500, 2_000));
        assert!(top(&["--interval", "50ms"]).unwrap_err().contains("takes 100ms or more"));
    }

    #[test]
    fn one_form_of_output_at_a_time() {
        assert!(top(&["--once", "--json"]).is_err());
    }

    #[test]
    fn a_figure_may_begin_at_0_and_has_the_filters_of_a_report() {
        let parsed = |options: &[&str]| {
            let all = [&["sockscope", "plot", "x", "--figure", "acks"], options].concat();
            match Arguments::try_parse_from(all).unwrap().command {
                Command::Plot(plot) => plot.filter.filter(),
                other => panic!("{other:?}"),
            }
        };
        let filter = parsed(&["--from", "0", "--to", "1", "--port", "80", "--slowest", "3"]);
        assert_eq!((filter.from_ns, filter.to_ns), (Some(0), Some(1_000_000_000)));
        assert_eq!((filter.ports, filter.slowest), (vec![80..=80], Some(3)));
    }
}
