//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Captures of other tools as trace bundles, and bundles in forms of other tools.
#[derive(Debug, Parser)]
#[command(
    name = "sockscope-convert",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a trace bundle of a capture file: pcap or pcapng, also compressed by gzip
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert(Convert),
    /// Write a trace bundle in a form that another tool opens
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(Export),
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  sockscope export t --to pcapng -o t.pcapng
  wireshark t.pcapng
  sockscope export t --to perfetto -o t.pftrace
  sockscope export t --to parquet -o tables
  sockscope export t --to spool -o spool";

const CONVERT_EXAMPLES: &str = "\
Examples:
  sockscope convert server.pcapng -o server
  sockscope convert client.pcap.gz --host 10.0.0.1 -o client
  tcpdump -i any -s 96 -w - | sockscope-convert convert - -o trace";

/// `sockscope convert`.
#[derive(Debug, Args)]
pub struct Convert {
    /// Capture file; - is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// An address of the host that captured, where the file does not say which packets it sent; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub host: Vec<IpAddr>,
    /// Folder for the bundle; one that is there is kept as DIR.old
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}

/// `sockscope export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Folder of a trace bundle
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Form of the output
    #[arg(long, value_enum, value_name = "FORM")]
    pub to: Form,
    /// File to write, or of tables and a spool a folder; pcapng has a second file for servers on this host, as F-server.pcapng
    #[arg(short, long, value_name = "F")]
    pub output: PathBuf,
}

/// A form of other tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Capture file for Wireshark and tcpdump, with headers made anew, and findings as comments
    Pcapng,
    /// Trace for ui.perfetto.dev: ledgers as slices, queues as counters, findings and calls
    Perfetto,
    /// Tables for DuckDB, Polars, pandas and Spark: records, flows, findings, ledger, exchanges, calls
    Parquet,
    /// The same tables as text
    Csv,
    /// A segment of a fleet's spool, which `python -m sockscope.fleet` reads
    Spool,
}
