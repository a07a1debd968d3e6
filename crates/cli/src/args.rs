//! The command line.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use sockscope_analysis::FindingId;
use sockscope_probe::{Fix, Force, RunAs, Share, Sides};
use sockscope_program::failure::Failure;
use sockscope_program::filter_args::{FilterArgs, finding, flow};
use sockscope_program::pick::{PickArgs, Ports, address, ports, process};
use sockscope_program::times::some_time;

use crate::user;

/// See where every byte waits between the write() that sent it and the read() that got it.
#[derive(Debug, Parser)]
#[command(name = "sockscope", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record a command's sockets, then print the report on standard error; exit with the command's status.
    Run(Run),
    /// Record into a trace bundle.
    Record(Record),
    /// Print what a trace bundle says.
    Report(Report),
    /// Print the traffic as text, one event a line, every layer.
    Show(Show),
    /// Draw a figure of one flow, or of all connections, as SVG.
    #[command(disable_help_flag = true)]
    Plot(HandedOver),
    /// Print the page of a finding: its symptom, evidence, cause, fix and test.
    Explain(Explain),
    /// Say what works on this machine, what is missing and what a probe hit costs; exit with status 1 where
    /// recording does not work.
    Doctor(Doctor),
    /// Make a trace bundle of what another tool printed.
    Convert(Convert),
    /// Put what two hosts recorded of the same traffic on one clock, as one bundle.
    Merge(Merge),
    /// Show bundles side by side: exchanges, throughput, ledgers and findings, connections matched by role
    Compare(Compare),
    /// See a stalled call: recorded, explained, fixed, recorded again.
    Demo(Demo),
    /// Set a socket option on an unchanged command from outside, and show what that changes.
    Try(Try),
    /// Show which connections wait now, the one that waited longest first.
    #[command(disable_help_flag = true)]
    Top(HandedOver),
    /// Record all the time, and keep the last seconds as a trace when a condition holds.
    #[command(disable_help_flag = true)]
    Watch(HandedOver),
    /// Write a trace bundle in a form that another tool opens.
    #[command(disable_help_flag = true)]
    Export(HandedOver),
    /// Show a trace, or what is recorded now, as a page in a browser of this machine.
    #[command(disable_help_flag = true)]
    View(HandedOver),
    /// Run the experiments of classic papers on the model and check their claims.
    #[command(disable_help_flag = true)]
    Lab(HandedOver),
    /// Make the calls of a recorded connection again, unchanged and with a change, and show the difference.
    #[command(disable_help_flag = true)]
    Replay(HandedOver),
    /// Serve, call, find names and store files over VMTP (RFC 1045).
    #[command(disable_help_flag = true)]
    Vmtp(HandedOver),
}

/// How to record.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "How to record")]
pub struct HowArgs {
    /// Also record when each send and receive call returned, and what
    #[arg(long)]
    pub calls: bool,
    /// Also record Unix sockets of the picked processes: streams, datagrams, seqpacket (not with a port or an
    /// address)
    #[arg(long)]
    pub unix: bool,
    /// Measure the probes' own run time (costs some 40 ns a hit itself)
    #[arg(long)]
    pub cost: bool,
    /// Record such a part of the connections, each whole, chosen by a stable hash: other hosts keep the same ones
    #[arg(long, value_name = "PERCENT", value_parser = sample)]
    pub sample: Option<Share>,
    /// Memory for each CPU's records until the recorder takes them, 64K to 256M, rounded up to a power
    /// of two (suffix K, M or G; 4M without): a longer one misses less where the recorder has to wait
    #[arg(long, value_name = "SIZE", value_parser = buffer)]
    pub buffer: Option<u64>,
    /// Stop before the files of the trace have more bytes than this together, 512K or more (suffix K, M
    /// or G)
    #[arg(long, value_name = "SIZE", value_parser = trace_size)]
    pub max_size: Option<u64>,
    /// Leave the arguments of the command out of the trace; its name stays
    #[arg(long)]
    pub no_arguments: bool,
}

/// Other hosts that record the same traffic.
#[derive(Debug, Clone, Args)]
pub struct WithArgs {
    /// Record on this host as well, by ssh, and merge the traces (several hosts on the way: repeat): with --port
    /// the traffic of these ports between the hosts, else the TCP connections whose SYN is marked here, as by
    /// --in-band
    #[arg(long, help_heading = "Other hosts", value_name = "ssh://[USER@]HOST[:PORT]", value_parser = host)]
    pub with: Vec<String>,
    /// How to call ssh for --with: 'ssh -i key'
    #[arg(
        long,
        help_heading = "Other hosts",
        value_name = "CMD",
        default_value = "ssh",
        requires = "with"
    )]
    pub ssh: String,
    /// How the other host's shell calls sockscope: 'sudo -n sockscope'
    #[arg(long, help_heading = "Other hosts", value_name = "CMD", default_value = "sockscope", requires = "with",
        value_parser = unquoted)]
    pub with_program: String,
}

/// As whom the command runs.
#[derive(Debug, Clone, Default, Args)]
pub struct UserArgs {
    /// Run the command as this user, with that user's groups and HOME; without a name, as the user who called
    /// sudo. Without this option the command runs as the recorder does: under sudo as root
    #[arg(long, value_name = "NAME|UID", num_args = 0..=1)]
    user: Option<Option<String>>,
}

impl UserArgs {
    /// The user, where the option was given; `caller` is the number of the user who called sudo.
    ///
    /// # Errors
    ///
    /// When there is no such user, or this process may not become another.
    pub fn find(&self, caller: Option<&str>) -> Result<Option<RunAs>, Failure> {
        self.user.as_ref().map(|asked| user::find(asked.as_deref(), caller)).transpose()
    }
}

/// `sockscope run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
    \x20 sockscope run -- curl http://127.0.0.1:8080/\n\
    \x20 sockscope run --user --report out.txt -- make check\n\
    \x20 sockscope run --format json -o trace.sockscope -- ./client")]
pub struct Run {
    /// Which connections of the command to log.
    #[command(flatten)]
    pub pick: PickArgs,
    /// How to record.
    #[command(flatten)]
    pub how: HowArgs,
    /// As whom.
    #[command(flatten)]
    pub user: UserArgs,
    /// With which other hosts.
    #[command(flatten)]
    pub with: WithArgs,
    /// Keep the trace bundle in this folder; one that is there is kept as DIR.old. Without this option the
    /// trace is kept until the next run, for `sockscope report`, `show` and `plot`
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// How to print.
    #[command(flatten)]
    pub print: PrintArgs,
    /// Write the report to this file; - is standard output, where what the command prints then goes to
    /// standard error. Without this option text goes to standard error, and json and csv to -
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// `sockscope record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
    \x20 sockscope record --port 6379 -o redis.sockscope\n\
    \x20 sockscope record --comm nginx --duration 10 --max-size 1G\n\
    \x20 sockscope record -- ./client --calls 1000\n\
    \x20 sockscope record --with ssh://root@server -- ./client")]
pub struct Record {
    /// Which connections to log.
    #[command(flatten)]
    pub pick: PickArgs,
    /// How to record.
    #[command(flatten)]
    pub how: HowArgs,
    /// As whom.
    #[command(flatten)]
    pub user: UserArgs,
    /// With which other hosts.
    #[command(flatten)]
    pub with: WithArgs,
    /// Folder of the trace bundle; one that is there is kept as DIR.old
    #[arg(short, long, value_name = "DIR", default_value = "trace.sockscope")]
    pub output: PathBuf,
    /// Stop after this many seconds
    #[arg(long, value_name = "S", value_parser = some_time, allow_negative_numbers = true)]
    pub duration: Option<Duration>,
    /// Stop after this many records
    #[arg(long, value_name = "N", value_parser = some_records, allow_negative_numbers = true)]
    pub max_records: Option<u64>,
    /// Internal: another host started it by `--with`.
    #[arg(long, hide = true)]
    pub for_host: bool,
    /// Run this command and log its sockets; stop when it ends
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// How to print a report.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct PrintArgs {
    /// Form of the report
    #[arg(long, value_enum, default_value_t)]
    pub format: FormatArg,
    /// Text has everything: all connections, the way of the bytes in each direction, the evidence of findings
    #[arg(long)]
    pub full: bool,
    /// Exit with status 1 when there are findings; of `run`, where the command did not fail
    #[arg(long)]
    pub check: bool,
    /// When text has colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub color: ColorArg,
    /// Text has the time of day (UTC) next to each time
    #[arg(long)]
    pub wall_clock: bool,
}

/// Form of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// For people
    #[default]
    Text,
    /// Schema sockscope.report/2, one document
    Json,
    /// A page for a browser, in one file that loads nothing: report -o F.html, written by sockscope-view
    Html,
    /// One row for each flow and stage, base units
    Csv,
    /// One row for each request, base units
    CsvRequests,
    /// The same table as an Arrow IPC file
    ArrowRequests,
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

/// `sockscope report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
    \x20 sockscope report\n\
    \x20 sockscope report redis.sockscope --full\n\
    \x20 sockscope report redis.sockscope --port 6379 --slowest 3\n\
    \x20 sockscope report redis.sockscope --format json | jq .connections[0].findings")]
pub struct Report {
    /// Folder of the trace bundle; without it, that of the last trace that was recorded
    pub dir: Option<PathBuf>,
    /// How to print.
    #[command(flatten)]
    pub print: PrintArgs,
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

/// `sockscope show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
    \x20 sockscope show redis.sockscope --connection 52 --from 1.4 --to 1.5\n\
    \x20 sockscope show redis.sockscope --format tcpdump | head")]
pub struct Show {
    /// Folder of the trace bundle; without it, that of the last trace that was recorded
    pub dir: Option<PathBuf>,
    /// Only this flow
    #[arg(long, value_name = "N", value_parser = flow, allow_negative_numbers = true)]
    pub flow: Option<u32>,
    /// What a line is
    #[arg(long, value_enum, default_value_t)]
    pub format: ShowFormat,
    /// When lines have colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub color: ColorArg,
    /// Lines of text begin with the time of day (UTC)
    #[arg(long)]
    pub wall_clock: bool,
    /// Which part of the trace.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// What a line of `show` is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ShowFormat {
    /// Every event at every point
    #[default]
    Text,
    /// Every packet, as tcpdump printed them around 1990; with --flow, its whole connection
    Tcpdump,
}

/// `sockscope explain`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
    \x20 sockscope explain nagle-delayed-ack")]
pub struct Explain {
    /// Name of the finding, as the report has it; without it, the names of all
    #[arg(value_parser = finding)]
    pub finding: Option<FindingId>,
}

/// `sockscope doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    pub format: DoctorFormat,
}

/// Form of the doctor's answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum DoctorFormat {
    /// For people
    #[default]
    Text,
    /// One document
    Json,
}

/// `sockscope convert`.
#[derive(Debug, Args)]
pub struct Convert {
    /// Text, or capture file (pcap, pcapng, also by gzip); - is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Of a capture file: an address of the host that captured; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub host: Vec<IpAddr>,
    /// What printed the text
    #[arg(long, value_enum, value_name = "TOOL", default_value_t = ToolArg::Tcpdump)]
    pub from: ToolArg,
    /// Folder for the bundle; one that is there is kept as DIR.old
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}

/// A tool whose text can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ToolArg {
    /// tcpdump, as it printed in 1990 and as it prints today
    Tcpdump,
    /// NETMON (iptrace), the kernel monitor
    Netmon,
}

/// `sockscope merge`.
#[derive(Debug, Args)]
pub struct Merge {
    /// Folder of one host's trace bundle
    #[arg(value_name = "A")]
    pub first: PathBuf,
    /// Folder of the other host's
    #[arg(value_name = "B")]
    pub second: PathBuf,
    /// Folder of the bundle to write; one that is there is kept as DIR.old
    #[arg(short, long, value_name = "DIR", default_value = "merged.sockscope")]
    pub output: PathBuf,
}

/// `sockscope compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
    \x20 sockscope compare before.sockscope after.sockscope\n\
    \x20 sockscope compare before.sockscope after.sockscope --format svg -o difference.svg")]
pub struct Compare {
    /// Folder of the trace bundle that the others are compared with
    #[arg(value_name = "A")]
    pub first: PathBuf,
    /// Folder of another bundle, or of several
    #[arg(value_name = "B", required = true)]
    pub others: Vec<PathBuf>,
    /// Form of the comparison
    #[arg(long, value_enum, default_value_t)]
    pub format: CompareFormat,
    /// Write to this file; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// When text has colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub color: ColorArg,
}

/// Form of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// For people
    #[default]
    Text,
    /// Schema sockscope.compare/1, one document
    Json,
    /// One row for each role, run and measure, base units
    Csv,
    /// The distributions of the runs as a figure
    Svg,
}

/// `sockscope demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Show the recorded bundles that come with the project instead of recording
    #[arg(long)]
    pub recorded: bool,
    /// Calls to make
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub calls: u32,
    /// When text has colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub color: ColorArg,
    /// Internal: the client and server of the demonstration.
    #[arg(long, hide = true)]
    pub traffic: Option<String>,
}

/// `sockscope try`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n\
    \x20 sockscope try nodelay -- ./client\n\
    \x20 sockscope try delack=8ms --side server -- ./client --calls 1000\n\
    \x20 sockscope try -- ./client")]
pub struct Try {
    /// Socket option to set: nodelay, delack=MS, sndbuf=BYTES, rcvbuf=BYTES, notsent=BYTES, cc=NAME, pacing=RATE,
    /// rto-min=MS, iw=SEGMENTS or window-clamp=BYTES; several with commas. Without it, the fix of the finding that
    /// costs most
    #[arg(value_name = "FIX[,FIX...]", value_parser = fixes)]
    pub fixes: Option<Fixes>,
    /// End of the connections to change; without this option the one that the finding names, else both
    #[arg(long, value_enum, value_name = "SIDE")]
    pub side: Option<SideArg>,
    /// Only connections with this port at either end, or several: 80,443 or 8000-8003 (or repeat)
    #[arg(long, value_name = "N", value_parser = ports, value_delimiter = ',', allow_negative_numbers = true)]
    pub port: Vec<Ports>,
    /// Only connections with this address at either end (several: repeat, or 10.0.0.1,10.0.0.2)
    #[arg(long, value_name = "IP", value_parser = address, value_delimiter = ',')]
    pub addr: Vec<IpAddr>,
    /// Also change new connections of this process, whoever their peer is (several: repeat, or 12,34)
    #[arg(long, value_name = "PID", value_parser = process, value_delimiter = ',', allow_negative_numbers = true)]
    pub pid: Vec<u32>,
    /// Runs of the command, half of them with the fix: 4 to 64, an even number. With fewer than 8 no difference
    /// can be shown
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = rounds)]
    pub rounds: usize,
    /// As whom.
    #[command(flatten)]
    pub user: UserArgs,
    /// Keep the trace bundle of each round in this folder
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Form of the result
    #[arg(long, value_enum, default_value_t)]
    pub format: TryFormat,
    /// When text has colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub color: ColorArg,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Form of the result of `try`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum TryFormat {
    /// For people
    #[default]
    Text,
    /// Schema sockscope.try/1, one document
    Json,
}

/// Which end of a connection to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SideArg {
    /// The end that connects
    Client,
    /// The end that accepts
    Server,
    /// Both ends
    Both,
}

impl SideArg {
    /// As the kernel's side takes it.
    pub fn sides(self) -> Sides {
        match self {
            Self::Client => Sides::Client,
            Self::Server => Sides::Server,
            Self::Both => Sides::Both,
        }
    }
}

/// Fixes to set together.
#[derive(Debug, Clone)]
pub struct Fixes(pub Vec<Fix>);

/// Arguments of a command that another program has, as they were given.
#[derive(Debug, Args)]
pub struct HandedOver {
    /// Read by that program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<OsString>,
}

fn fixes(text: &str) -> Result<Fixes, String> {
    let fixes: Vec<Fix> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
    for (at, fix) in fixes.iter().enumerate() {
        if fixes.iter().skip(at + 1).any(|other| other.kind == fix.kind) {
            return Err(format!("{} is there twice", fix.kind.name()));
        }
    }
    if fixes.len() > Force::FIXES_MAX {
        return Err(format!("{} fixes, at most {} fit", fixes.len(), Force::FIXES_MAX));
    }
    Ok(Fixes(fixes))
}

fn rounds(text: &str) -> Result<usize, String> {
    let even = text.parse().ok().filter(|rounds: &usize| rounds.is_multiple_of(2));
    even.filter(|rounds| (4..=64).contains(rounds))
        .ok_or_else(|| format!("{text} rounds: give an even number from 4 to 64"))
}

/// Bytes, as 4096, 64K or 1G.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text} is not a size: give bytes, or a number with K, M or G, as 64M");
    let shift = match text.bytes().last().map(|last| last.to_ascii_uppercase()) {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// A part of the connections, as 10%.
fn sample(text: &str) -> Result<Share, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse::<f64>().unwrap_or_default();
    if percent > 0.0 && percent <= 100.0 {
        return Ok(Share::of(percent / 100.0));
    }
    Err(format!("{text} is no part of all: give percent, more than 0 and at most 100, as 10%"))
}

fn host(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("ssh://").filter(|host| !host.is_empty() && !host.contains('/'));
    let wrong =
        || format!("{text} is no host: give ssh://HOST, ssh://USER@HOST or ssh://HOST:PORT");
    host.map(|_| text.to_owned()).ok_or_else(wrong)
}

/// Words for the shell of another host, which are within single quotes there.
fn unquoted(text: &str) -> Result<String, String> {
    let is_one = !text.trim().is_empty() && !text.contains('\'');
    is_one
        .then(|| text.to_owned())
        .ok_or_else(|| "give a command without the character '".to_owned())
}

fn buffer(text: &str) -> Result<u64, String> {
    match size(text)? {
        bytes @ 0x1_0000..=0x1000_0000 => Ok(bytes),
        _ => Err(format!("{text} is not from 64K to 256M")),
    }
}

fn trace_size(text: &str) -> Result<u64, String> {
    match size(text)? {
        0..0x8_0000 => Err(format!("{text} is too small for a trace: give 512K or more")),
        bytes => Ok(bytes),
    }
}

fn some_records(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("0 records say nothing: give 1 or more".to_owned()),
        Ok(records) => Ok(records),
        Err(_) => Err(format!("{text} is not a number of records")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_fixes_are_set_together_and_each_once() {
        assert_eq!(fixes("nodelay,delack=8ms").unwrap().0.len(), 2);
        assert_eq!(fixes("sndbuf=1k,sndbuf=2k").unwrap_err(), "sndbuf is there twice");
        assert!(fixes("nodelay,").unwrap_err().contains("is no fix"));
    }

    #[test]
    fn half_of_the_rounds_have_the_fix() {
        assert_eq!(rounds("8"), Ok(8));
        for wrong in ["0", "2", "7", "66", "x", "-8"] {
            let error = rounds(wrong).unwrap_err();
            assert_eq!(error, format!("{wrong} rounds: give an even number from 4 to 64"));
        }
    }
    use clap::CommandFactory;
    use sockscope_report::Filter;

    #[test]
    fn a_sample_is_a_part_of_all_connections() {
        for text in ["25%", "25"] {
            assert_eq!(sample(text), Ok(Share::of(0.25)));
        }
        assert_eq!(sample("100%"), Ok(Share::ALL));
        for wrong in ["", "%", "0", "-1%", "100.1", "1 %", "NaN", "all"] {
            assert!(
                sample(wrong).is_err_and(|error| error.contains("is no part of all")),
                "{wrong}"
            );
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_recording_that_would_hold_nothing_is_refused() {
        let record = |option: &str, value: &str| {
            let parsed = Arguments::try_parse_from(["sockscope", "record", option, value]);
            parsed.map(|_| ()).map_err(|error| error.to_string())
        };
        for (option, value, reason) in [
            ("--max-records", "0", "0 records say nothing: give 1 or more"),
            ("--max-records", "many", "not a number of records"),
            ("--max-size", "0", "0 is too small for a trace: give 512K or more"),
            ("--max-size", "511K", "511K is too small for a trace: give 512K or more"),
            ("--max-size", "2 MB", "2 MB is not a size: give bytes, or a number with K, M or G"),
            ("--duration", "0", "in 0 seconds nothing is recorded: give more, as 0.5"),
            ("--duration", "1e-12", "in 1e-12 seconds nothing is recorded"),
            ("--duration", "NaN", "NaN seconds cannot be waited"),
            ("--duration", "-1", "-1 seconds cannot be waited: give a positive number, as 0.5"),
        ] {
            let said = record(option, value).expect_err(value);
            assert!(said.lines().next().is_some_and(|line| line.contains(reason)), "{said}");
        }
        assert_eq!(record("--max-records", "1"), Ok(()));
        assert_eq!(record("--max-size", "512K"), Ok(()));
        assert_eq!(record("--duration", "0.001"), Ok(()));
    }

    #[test]
    fn another_host_is_named_as_ssh_takes_it() {
        for url in ["ssh://h", "ssh://root@10.0.0.1:22", "ssh://[fd00::1]:22"] {
            assert_eq!(host(url), Ok(url.to_owned()));
        }
        for wrong in ["", "h", "root@h", "ssh://", "ssh://h/x", "http://h"] {
            let refused = "is no host: give ssh://HOST, ssh://USER@HOST or ssh://HOST:PORT";
            assert_eq!(host(wrong), Err(format!("{wrong} {refused}")));
        }
        assert_eq!(unquoted("sudo -n sockscope"), Ok("sudo -n sockscope".to_owned()));
        assert!(unquoted("it's").is_err() && unquoted(" ").is_err());
    }

    #[test]
    fn several_ports_and_times_with_units_are_taken() {
        let record = |words: &[&str]| {
            let all = [&["sockscope", "record"], words].concat();
            let Ok(Arguments { command: Command::Record(record) }) = Arguments::try_parse_from(all)
            else {
                panic!("{words:?}");
            };
            record
        };
        let ports = |words: &[&str]| -> Vec<u16> {
            record(words).pick.port.iter().flat_map(Ports::each).collect()
        };
        assert_eq!(ports(&["--port", "80,443", "--port", "22"]), [80, 443, 22]);
        assert_eq!(ports(&["--port", "8000-8003,9"]), [8000, 8001, 8002, 8003, 9]);
        assert_eq!(record(&["--addr", "127.0.0.1,::1"]).pick.addr.len(), 2);
        for (text, ms) in
            [("5", 5000), ("5s", 5000), ("500ms", 500), ("2m", 120_000), ("0.5s", 500)]
        {
            let duration = record(&["--duration", text]).duration;
            assert_eq!(duration, Some(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_picked_is_refused_with_a_way_out() {
        for (option, value, way_out) in [
            ("--port", "0", "a port is a number from 1 to 65535, or several: 80,443"),
            ("--port", "90-80", "90 is after 80"),
            ("--addr", "10.0.0.0/8", "a network cannot be picked: give its addresses"),
            ("--addr", "localhost", "`getent ahosts localhost` prints"),
            ("--duration", "5 days", "5 days is not a time: give seconds, as 5 or 0.5"),
        ] {
            let parsed = Arguments::try_parse_from(["sockscope", "record", option, value]);
            let said = parsed.expect_err(value).to_string();
            assert!(said.lines().next().is_some_and(|line| line.contains(way_out)), "{said}");
        }
    }

    #[test]
    fn a_size_has_a_suffix_or_none() {
        let sizes = ["4096", "64K", "64k", "3M", "1G"].map(size);
        assert_eq!(sizes, [4096, 65_536, 65_536, 3 << 20, 1 << 30].map(Ok));
        for wrong in ["", "K", "-1K", "1.5M", "64KB", "99999999999G", "\u{e9}"] {
            assert!(size(wrong).unwrap_err().contains("is not a size"), "{wrong}");
        }
        assert_eq!(["64K", "256M"].map(buffer), [65_536, 256 << 20].map(Ok));
        assert!(["63K", "257M"].map(buffer).iter().all(Result::is_err));
    }

    #[test]
    fn every_command_that_reads_a_trace_has_the_same_filter() {
        let options = [
            "--connection",
            "3,7",
            "--port",
            "80,8000-8003",
            "--pid",
            "12",
            "--comm",
            "curl",
            "--comm",
            "nginx",
            "--from",
            "1.5",
            "--to",
            "2500ms",
            "--slowest",
            "3",
            "--finding",
            "slow-reader,corked",
        ];
        let expected = Filter {
            connections: vec![3, 7],
            ports: vec![80..=80, 8000..=8003],
            pids: vec![12],
            comms: vec!["curl".to_owned(), "nginx".to_owned()],
            from_ns: Some(1_500_000_000),
            to_ns: Some(2_500_000_000),
            slowest: Some(3),
            findings: vec![FindingId::SlowReader, FindingId::Corked],
        };
        for words in [&["report"][..], &["show"]] {
            let all = [&["sockscope"], words, &options].concat();
            let filter = match Arguments::try_parse_from(all).unwrap().command {
                Command::Report(report) => report.filter,
                Command::Show(show) => show.filter,
                other => panic!("{other:?}"),
            };
            assert_eq!(filter.filter(), expected, "{words:?}");
        }
    }

    #[test]
    fn a_filter_that_cannot_be_meant_is_refused_with_a_way_out() {
        for (option, value, way_out) in [
            ("--slowest", "0", "0 connections show nothing"),
            ("--connection", "redis", "a connection has a number, as in the report"),
            ("--finding", "slow-raeder", "there is no such finding; did you mean slow-reader?"),
            ("--finding", "x", "there is no such finding; there are nagle-delayed-ack, "),
            ("--from", "-1", "-1 seconds cannot be waited: give a positive number"),
        ] {
            let parsed = Arguments::try_parse_from(["sockscope", "report", option, value]);
            let said = parsed.expect_err(value).to_string();
            assert!(said.lines().next().is_some_and(|line| line.contains(way_out)), "{said}");
        }
    }

    #[test]
    fn what_is_handed_over_is_left_as_it_is() {
        for words in [
            &["list"][..],
            &["--help"],
            &["-h"],
            &["run", "lh-1", "--set", "data_bytes=4800", "--help"],
            &["call", "--times", "2", "--", "-x"],
            &["call", ""],
            &[],
        ] {
            for name in ["export", "lab", "plot", "replay", "top", "view", "vmtp", "watch"] {
                let parsed =
                    Arguments::try_parse_from([&["sockscope", name], words].concat()).unwrap();
                let (Command::Export(rest)
                | Command::Lab(rest)
                | Command::Plot(rest)
                | Command::Replay(rest)
                | Command::Top(rest)
                | Command::View(rest)
                | Command::Vmtp(rest)
                | Command::Watch(rest)) = parsed.command
                else {
                    panic!("{name} is not handed over")
                };
                assert_eq!(rest.arguments, words);
            }
        }
    }

    #[test]
    fn a_user_has_a_name_or_is_the_caller_of_sudo() {
        let user = |words: &[&str]| {
            let all = [&["sockscope", "run"], words, &["--", "id", "-u"]].concat();
            let Command::Run(run) = Arguments::parse_from(all).command else { panic!("not run") };
            assert_eq!(run.command, ["id", "-u"]);
            run.user.user
        };
        assert_eq!(user(&[]), None);
        assert_eq!(user(&["--user"]), Some(None));
        assert_eq!(user(&["--user", "nobody"]), Some(Some("nobody".to_owned())));
        assert_eq!(user(&["--user=7", "--calls"]), Some(Some("7".to_owned())));
        assert_eq!(user(&["--user", "--calls"]), Some(None));
    }

    #[test]
    fn what_follows_the_dashes_is_the_command() {
        let parsed =
            Arguments::parse_from(["sockscope", "run", "--port", "80", "--", "curl", "-s", "x"]);
        let Command::Run(run) = parsed.command else { panic!("not run") };
        assert_eq!(run.pick.port, [ports("80").unwrap()]);
        assert_eq!(run.command, ["curl", "-s", "x"]);
    }
}
