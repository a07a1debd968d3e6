//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use sockscope_link::{
    Bandwidth, Bytes, Capacity, Discipline, Interval, LossModel, Reordering, Share, Topology,
};
use sockscope_live::host::Service;
use sockscope_live::levels::{Level, redundancy};

use crate::choice::Choice;

/// The laboratory: the commands `sockscope lab`, `sockscope replay` and `sockscope vmtp`.
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
    Lab(Box<Lab>),
    /// Make the calls of a recorded connection again, unchanged and with a change, and show the difference.
    #[command(after_help = crate::replay::args::EXAMPLES)]
    Replay(crate::replay::args::Replay),
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
    /// Check the claims of the papers against the model, or against this machine.
    Check(LabCheck),
    /// Run a command, and a server for it, at the two ends of a wire with delay, rate and loss, or of another topology.
    Link(LabLink),
    /// Send messages at each service level of the network library, and show what each level costs.
    #[command(after_help = LEVELS_EXAMPLES)]
    Levels(LabLevels),
    /// Run one experiment on the model and on this kernel, and show both results next to each other.
    Compare(LabCompare),
    /// Show which functions and layers of the kernel have the CPU time of a command.
    #[command(after_help = PROFILE_EXAMPLES)]
    Profile(LabProfile),
    /// Run a network stack of the 1980s as a host that this machine's kernel exchanges packets with.
    #[command(after_help = HOST_EXAMPLES)]
    Host(LabHost),
    /// Draw a figure (SVG) as a picture of pixels (PNG).
    Png(LabPng),
    /// Write what the two programs of a recorded connection did with their sockets, as a file to read and edit.
    #[command(after_help = PATTERN_EXAMPLES)]
    Pattern(LabPattern),
    /// Send, receive or compute: the programs of experiments, each with one line of JSON when it ends.
    Work(crate::work::args::LabWork),
}

const PROFILE_EXAMPLES: &str = "\
Examples:
  sockscope lab profile -- iperf3 -c 127.0.0.1 -t 5
  sockscope lab profile -o send.svg --json send.json -- python3 send.py";

const LEVELS_EXAMPLES: &str = "\
Examples:
  sockscope lab levels
  sockscope lab levels --loss 5% --delay 5ms
  sockscope lab levels --level corrected --level reliable --block 16+4 --loss gilbert:1%,25% --format json";

/// `sockscope lab levels`.
#[derive(Debug, Args)]
pub struct LabLevels {
    /// Only this level: datagram, sequenced, corrected, reliable, vmtp, published or one-of-many (several: repeat)
    #[arg(long, value_name = "NAME")]
    pub level: Vec<Level>,
    /// Messages at each level
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub messages: u64,
    /// Size of a message, as 200b; 16 bytes are its number and time
    #[arg(long, value_name = "SIZE", default_value = "200b")]
    pub message_bytes: Bytes,
    /// Time between two messages, as 500us
    #[arg(long, value_name = "TIME", default_value = "500us")]
    pub every: Interval,
    /// Receivers of the levels published and one-of-many
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub members: u8,
    /// Blocks of the level corrected: messages and parity packets
    #[arg(long, value_name = "K+M", default_value = "8+2", value_parser = redundancy)]
    pub block: (usize, usize),
    /// Messages for which the level sequenced waits before it gives up a missing one, and messages without an answer of
    /// the levels reliable and one-of-many
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub window: u32,
    /// A level that waits for answers fails when it delivers nothing for so long
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub give_up: Interval,
    /// Form of the result
    #[arg(long, value_enum, default_value_t)]
    pub format: LevelsFormat,
    /// The wire; without its settings, messages pass the loopback device
    #[command(flatten)]
    pub wire: WireOptions,
}

/// Form of a measurement of levels.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum LevelsFormat {
    /// For people.
    #[default]
    Text,
    /// Schema sockscope.levels/1.
    Json,
}

const PATTERN_EXAMPLES: &str = "\
Examples:
  sockscope record --calls -o calls.sockscope -- ./client
  sockscope lab pattern calls.sockscope -o pattern.toml";

/// `sockscope lab pattern`.
#[derive(Debug, Args)]
pub struct LabPattern {
    /// Folder of a trace bundle that was recorded with --calls
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Connection by its number in the report; several as 1,2,3, or all between the two programs; without it, the one with
    /// the flow of most bytes
    #[arg(long, value_name = "N")]
    pub connection: Option<Choice>,
    /// Write to this file; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// `sockscope lab compare`.
#[derive(Debug, Args)]
pub struct LabCompare {
    /// Id of an experiment, as `lab list` names it, or the path of a .toml file
    #[arg(value_name = "ID")]
    pub experiment: String,
    /// Form of the comparison
    #[arg(long, value_enum, default_value_t)]
    pub format: CompareFormat,
    /// Replace a parameter, swept or fixed, by one value, as data_bytes=4800 (several: repeat)
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Runs of each case on this kernel, instead of 3 or 5
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repetitions: Option<u32>,
    /// Keep runs on this machine that other programs disturbed, as the results say; else they are dropped and made again
    #[arg(long)]
    pub keep_disturbed: bool,
    /// Also write the comparison in both forms and its figures (SVG) to this folder
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Form of a comparison.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum CompareFormat {
    /// For people.
    #[default]
    Text,
    /// Schema sockscope.lab-comparison/1.
    Json,
}

/// `sockscope lab profile`.
#[derive(Debug, Args)]
pub struct LabProfile {
    /// Samples of a second of CPU time
    #[arg(long, value_name = "HZ", default_value_t = 997, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    pub frequency: u64,
    /// Write a flame graph (SVG) to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the profile as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a line for each stack, names with semicolons and the samples, to this file
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<OsString>,
}

/// `sockscope lab png`.
#[derive(Debug, Args)]
pub struct LabPng {
    /// Figure to read, as plot or lab wrote it; - is standard input
    #[arg(value_name = "SVG")]
    pub figure: PathBuf,
    /// Pixels of the picture for each pixel of the figure
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub scale: u8,
    /// Write to this file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
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
    /// Keep runs on this machine that other programs disturbed, as the results say; else they are dropped and made again
    #[arg(long)]
    pub keep_disturbed: bool,
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
    /// Against what
    #[arg(long, value_enum, default_value_t)]
    pub on: LabOn,
    /// Keep runs on this machine that other programs disturbed; else their claims are not judged
    #[arg(long)]
    pub keep_disturbed: bool,
    /// Form of the outcome
    #[arg(long, value_enum, default_value_t)]
    pub format: CheckFormat,
    /// Exit with status 1 when a claim differs, or on this machine is otherwise than the register expects
    #[arg(long)]
    pub check: bool,
}

/// The settings of a wire between two ends.
#[derive(Debug, Args)]
pub struct WireOptions {
    /// Time from the end of a packet's transmission to its arrival, as 20ms
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub delay: Interval,
    /// The delay of each packet differs by at most this; packets keep their order
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub jitter: Interval,
    /// Bits of IP packets a second, as 100mbit
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Bandwidth>,
    /// A file with the times in milliseconds at which the line can send 1,500 bytes, in place of a rate
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    pub trace: Option<PathBuf>,
    /// Length of the queue before the line: packets as 100p, or bytes as 64kb
    #[arg(long, value_name = "SIZE", default_value = "1000p")]
    pub queue: Capacity,
    /// Discipline of the queue: drop-tail or codel
    #[arg(long, value_name = "NAME", default_value = "drop-tail")]
    pub discipline: Discipline,
    /// Packets that the line drops: 1%, every:100, or gilbert:P,R,BAD,GOOD (probabilities to enter and to leave the bad
    /// state, and of a drop in the bad and in the good one; the last two may be left out)
    #[arg(long, value_name = "MODEL", default_value = "0%")]
    pub loss: LossModel,
    /// Packets that are held back so that others overtake them, and for how long, as 1%:5ms
    #[arg(long, value_name = "SHARE:TIME")]
    pub reorder: Option<Reordering>,
    /// Packets that arrive twice, as 0.1%
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub duplicate: Share,
    /// Packets with one inverted bit behind the IP header, as 0.1%
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub damage: Share,
    /// The settings of the direction to the server, where they differ: as "rate=1mbit loss=0%"
    #[arg(long, value_name = "SETTINGS")]
    pub to_server: Option<String>,
    /// The settings of the direction to the command, where they differ
    #[arg(long, value_name = "SETTINGS")]
    pub to_command: Option<String>,
    /// Seed of all random choices: the same seed drops the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Bytes of the largest packet
    #[arg(long, value_name = "BYTES", default_value_t = 1_500, value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub mtu: u32,
}

/// `sockscope lab link`.
#[derive(Debug, Args)]
#[command(after_help = LINK_EXAMPLES)]
pub struct LabLink {
    /// How the ends are connected: link, pair (Ethernet devices), router (a third host between), loopback (one host), or
    /// crowd:N (a pair to each of N clients, all of which run the command)
    #[arg(long, value_name = "NAME", default_value = "link")]
    pub topology: Topology,
    /// The settings of its wire
    #[command(flatten)]
    pub wire: WireOptions,
    /// Let packets of a connection pass in groups, for speed: with a delay, a rate and a queue only
    #[arg(long)]
    pub gso: bool,
    /// A command for the other end, run by sh; it has the address 198.18.0.2
    #[arg(long, value_name = "COMMAND")]
    pub server: Option<String>,
    /// Write the counts and times of the wire as JSON into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The command; it has the address 198.18.0.1
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `sockscope lab host`.
#[derive(Debug, Args)]
pub struct LabHost {
    /// The rules of the host's kernel: 4.2bsd, 4.2bsd-cabrera, 4.3bsd, tahoe, reno, sunos-4.0.3 or sunos-4.1, with
    /// options as reno+window_scaling+timestamps+sack
    #[arg(long, value_name = "NAME", default_value = "4.3bsd")]
    pub personality: String,
    /// The host's machine: vax-11-750, sparcstation-1 or sparcstation-2, or instant, on which nothing costs time
    #[arg(long, value_name = "NAME", default_value = "instant")]
    pub machine: String,
    /// What the host serves: page:PORT (HTTP: / and /BYTES) or echo:PORT (several: repeat)
    #[arg(long, value_name = "WHAT:PORT")]
    pub serve: Vec<Service>,
    /// A page that the host fetches from a server at your end and prints, as 80/index.html
    #[arg(long, value_name = "PORT/PATH", value_parser = fetched)]
    pub fetch: Option<(u16, String)>,
    /// Exchanges of random sizes that the host makes with an echo server at your end, and compares byte by byte: port,
    /// number on a connection, and connections, as 7:1000 or 7:1000x20
    #[arg(long, value_name = "PORT:N[xCONNECTIONS]", value_parser = exchanges)]
    pub exchange: Option<(u16, u32, u32)>,
    /// The settings of the wire to it
    #[command(flatten)]
    pub wire: WireOptions,
    /// A server at your end, run by sh before the host begins; it has the address 198.18.0.1
    #[arg(long, value_name = "COMMAND")]
    pub server: Option<String>,
    /// Also write what the host's own eight points saw to this folder, as a trace bundle
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write the counts and times of the wire as JSON into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The command; it has the address 198.18.0.1, and the host 198.18.0.2
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["fetch", "exchange"])]
    pub command: Vec<OsString>,
}

const HOST_EXAMPLES: &str = "\
Examples:
  sockscope lab host --serve page:80 -- curl -s http://198.18.0.2/
  sockscope lab host --personality 4.2bsd --delay 20ms --loss 1% --serve page:80 -- curl -s http://198.18.0.2/100000
  sockscope lab host --server 'python3 -m http.server 80' --fetch 80/
  sockscope run -o kernel -- sockscope lab host -o host --serve page:80 -- curl -s http://198.18.0.2/";

/// A port and a path, as `80/index.html`.
fn fetched(text: &str) -> Result<(u16, String), String> {
    let wrong = || format!("expected a port and a path as 80/index.html, found `{text}`");
    let at = text.find('/').unwrap_or(text.len());
    let port = text[..at].parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
    let path = if at == text.len() { "/" } else { &text[at..] };
    match path.chars().all(|letter| letter.is_ascii_graphic()) {
        true => Ok((port, path.to_owned())),
        false => Err(wrong()),
    }
}

/// A port, exchanges on each connection, and connections, as `7:1000x20`.
fn exchanges(text: &str) -> Result<(u16, u32, u32), String> {
    let read = || {
        let (port, rest) = text.split_once(':')?;
        let (count, connections) = rest.split_once('x').unwrap_or((rest, "1"));
        let of_connections = connections.parse().ok().filter(|number| (1..=1_000).contains(number));
        let port = port.parse().ok().filter(|port| *port > 0);
        Some((port?, count.parse().ok()?, of_connections?))
    };
    read().ok_or_else(|| format!("expected PORT:N or PORT:NxCONNECTIONS, found `{text}`"))
}

const LINK_EXAMPLES: &str = "Examples:
  sockscope lab link --delay 20ms --rate 100mbit --loss 1% --server 'iperf3 -s -1' -- iperf3 -c 198.18.0.2
  sockscope run -o t -- sockscope lab link --delay 20ms --server 'python3 -m http.server 80' -- curl -s 198.18.0.2
  sockscope lab link --topology crowd:8 --rate 10mbit --server 'nginx -g \"daemon off;\"' -- curl -s 198.18.0.2";

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
