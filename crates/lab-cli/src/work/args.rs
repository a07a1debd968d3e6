//! The command line of `sockscope lab work`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use sockscope_lab::pattern_change::PatternChange;
use sockscope_link::{Bandwidth, Bytes, Interval};

use super::message::MESSAGE_BYTES_MAX;
use super::pattern::cpus::Cpus;

/// The size of a message or of a buffer of the program.
fn size(text: &str) -> Result<Bytes, String> {
    let size: Bytes =
        text.parse().map_err(|error: sockscope_link::SettingsError| error.to_string())?;
    match size.0 <= MESSAGE_BYTES_MAX {
        true => Ok(size),
        false => Err(format!("sizes end at {} MiB", MESSAGE_BYTES_MAX >> 20)),
    }
}

/// The size of a string, which may be empty.
fn string_size(text: &str) -> Result<Bytes, String> {
    if ["0", "0b"].contains(&text) { Ok(Bytes(0)) } else { size(text) }
}

/// A path of HTTP, which stands between two spaces of a line.
fn path(text: &str) -> Result<String, String> {
    match text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err("a path begins with / and has no spaces".to_owned()),
    }
}

/// `sockscope lab work`.
#[derive(Debug, Args)]
pub struct LabWork {
    /// Run on this CPU alone
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// The program.
    #[command(subcommand)]
    pub program: WorkProgram,
}

/// Programs that send, receive and compute.
#[derive(Debug, Subcommand)]
pub enum WorkProgram {
    /// Read connections or datagrams and drop the data.
    Discard(Discard),
    /// Send messages of one size to a reader.
    Send(Send),
    /// Make remote calls (ONC RPC) that return their string, or answer them.
    RpcEcho(RpcEcho),
    /// Send a request when the one before was answered, or answer requests.
    OneAtATime(OneAtATime),
    /// Send requests by a schedule, whether or not those before were answered, or answer requests.
    RequestResponse(RequestResponse),
    /// Receive messages, compute, and send them on: three processes.
    Pipeline(Pipeline),
    /// Search for prime numbers in some processes.
    Load(Load),
    /// Fetch a page over HTTP, with a connection for each time.
    PageClient(PageClient),
    /// Send one request as text to any server by a schedule, whether or not those before were answered.
    TextClient(TextClient),
    /// Make transactions over VMTP, TCP or QUIC from one or some clients for some time, or answer them.
    Transactions(Transactions),
    /// A process of a pipeline: from standard input to standard output.
    #[command(hide = true)]
    Stage(Stage),
    /// Make the calls of a pattern, as `lab pattern` wrote it, by two processes over loopback.
    Pattern(WorkPattern),
    /// A process of the load: it ends with its standard input.
    #[command(hide = true)]
    Primes(Primes),
}

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Transport {
    /// A byte stream.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

/// Options of a socket.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct SocketOptions {
    /// Send buffer to ask for, as 64kib; the kernel grants twice as much
    #[arg(long, value_name = "SIZE")]
    pub send_buffer: Option<Bytes>,
    /// Receive buffer to ask for
    #[arg(long, value_name = "SIZE")]
    pub receive_buffer: Option<Bytes>,
    /// Set TCP_NODELAY: small segments do not wait for acknowledgments
    #[arg(long)]
    pub nodelay: bool,
    /// Largest segment, in bytes with the options of TCP (TCP_MAXSEG)
    #[arg(long, value_name = "N")]
    pub segment_bytes: Option<u32>,
    /// Bytes that the kernel takes before they are sent: above, a write waits (TCP_NOTSENT_LOWAT)
    #[arg(long, value_name = "N")]
    pub unsent_bytes: Option<u32>,
}

/// Which end of an exchange this is.
#[derive(Debug, Clone, Copy, Args)]
#[group(required = true, multiple = false)]
pub struct End {
    /// Answer at this address, as 198.18.0.2:7000; port 0 lets the kernel choose
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Ask at this address
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<SocketAddr>,
}

/// `sockscope lab work discard`.
#[derive(Debug, Args)]
pub struct Discard {
    /// Where to receive, as 198.18.0.2:7000; port 0 lets the kernel choose
    #[arg(long, value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Transport
    #[arg(long, value_enum, default_value_t)]
    pub protocol: Transport,
    /// Bytes that each read asks for
    #[arg(long, value_name = "SIZE", default_value = "64kib", value_parser = size)]
    pub read_bytes: Bytes,
    /// Sleep between two reads
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub pause: Interval,
    /// End after so many connections; datagrams are received until SIGTERM
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub connections: u32,
    /// Take the latency from the messages' stamps, which `send --every` writes
    #[arg(long)]
    pub stamped: bool,
    /// The socket.
    #[command(flatten)]
    pub socket: SocketOptions,
}

/// `sockscope lab work send`.
#[derive(Debug, Args)]
pub struct Send {
    /// Where to send, as 198.18.0.2:7000
    #[arg(long, value_name = "ADDRESS")]
    pub to: SocketAddr,
    /// Transport
    #[arg(long, value_enum, default_value_t)]
    pub protocol: Transport,
    /// Give the address with each datagram (sendto) and leave the socket unconnected
    #[arg(long)]
    pub unconnected: bool,
    /// Bytes of each message, and of each call to send
    #[arg(long, value_name = "SIZE", default_value = "1kib", value_parser = size)]
    pub message_bytes: Bytes,
    /// Messages to send
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub messages: u64,
    /// Bytes to send in all, in place of a number of messages; the last message may be shorter
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "messages")]
    pub bytes: Option<Bytes>,
    /// List the time of each call that sends in the result
    #[arg(long)]
    pub list_times: bool,
    /// Send by a schedule, one message in each such time, and stamp each with its planned time
    #[arg(long, value_name = "TIME")]
    pub every: Option<Interval>,
    /// Sleep between two sends
    #[arg(long, value_name = "TIME", default_value = "0", conflicts_with = "every")]
    pub pause: Interval,
    /// The socket.
    #[command(flatten)]
    pub socket: SocketOptions,
}

/// `sockscope lab work rpc-echo`.
#[derive(Debug, Args)]
pub struct RpcEcho {
    /// Which end this is.
    #[command(flatten)]
    pub end: End,
    /// Bytes of the string
    #[arg(long, value_name = "SIZE", default_value = "1kib", value_parser = string_size)]
    pub bytes: Bytes,
    /// Calls to make
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub calls: u32,
    /// Call by a schedule, one call in each such time, or later while the one before has no answer
    #[arg(long, value_name = "TIME")]
    pub every: Option<Interval>,
    /// List the time of each call in the result
    #[arg(long)]
    pub list_times: bool,
    /// Buffer of the record streams, in octets: each write has this size at most
    #[arg(long, value_name = "SIZE", default_value = "4000b", value_parser = size)]
    pub buffer: Bytes,
    /// End after so many connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub connections: u32,
    /// The socket.
    #[command(flatten)]
    pub socket: SocketOptions,
}

/// What both programs of requests have.
#[derive(Debug, Clone, Copy, Args)]
pub struct Requests {
    /// Which end this is.
    #[command(flatten)]
    pub end: End,
    /// Transport
    #[arg(long, value_enum, default_value_t)]
    pub protocol: Transport,
    /// Bytes of a request; 24 at least
    #[arg(long, value_name = "SIZE", default_value = "100b", value_parser = size)]
    pub request_bytes: Bytes,
    /// Bytes of a response; 24 at least
    #[arg(long, value_name = "SIZE", default_value = "100b", value_parser = size)]
    pub response_bytes: Bytes,
    /// Requests to send
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub requests: u64,
    /// CPU time that the answering end takes for each request
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub service: Interval,
    /// End after so many connections; datagrams are answered until SIGTERM
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub connections: u32,
    /// The socket.
    #[command(flatten)]
    pub socket: SocketOptions,
}

/// `sockscope lab work one-at-a-time`.
#[derive(Debug, Args)]
pub struct OneAtATime {
    /// The requests.
    #[command(flatten)]
    pub requests: Requests,
}

/// `sockscope lab work request-response`.
#[derive(Debug, Args)]
pub struct RequestResponse {
    /// The requests.
    #[command(flatten)]
    pub requests: Requests,
    /// One request in each such time
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub every: Interval,
}

/// `sockscope lab work pipeline`.
#[derive(Debug, Args)]
pub struct Pipeline {
    /// Where to receive, over TCP
    #[arg(long, value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Where to send
    #[arg(long, value_name = "ADDRESS")]
    pub to: SocketAddr,
    /// Bytes of each message
    #[arg(long, value_name = "SIZE", default_value = "8kib", value_parser = size)]
    pub message_bytes: Bytes,
    /// CPU time of each message
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub compute: Interval,
    /// List when each process had each message in the result
    #[arg(long)]
    pub list_times: bool,
    /// The sockets.
    #[command(flatten)]
    pub socket: SocketOptions,
}

/// `sockscope lab work load`.
#[derive(Debug, Args)]
pub struct Load {
    /// Processes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub processes: u32,
    /// CPUs to which the processes are bound, in turn, as 0,1; without it they are not bound
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cpus: Vec<u32>,
    /// End after this time; without it, at SIGTERM
    #[arg(long = "for", value_name = "TIME")]
    pub time: Option<Interval>,
}

/// `sockscope lab work text-client`.
#[derive(Debug, Args)]
pub struct TextClient {
    /// The server, as 127.0.0.1:6379
    #[arg(long, value_name = "ADDRESS")]
    pub to: SocketAddr,
    /// Text of the request with its line ends, as 'PING\r\n'. Each answer to it has as many bytes as the first
    #[arg(long, value_name = "TEXT")]
    pub request: String,
    /// Connections, which take the requests in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub connections: u32,
    /// Requests to send
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub requests: u64,
    /// One request in each such time
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub every: Interval,
    /// The sockets.
    #[command(flatten)]
    pub socket: SocketOptions,
}

/// `sockscope lab work page-client`.
#[derive(Debug, Args)]
pub struct PageClient {
    /// The server, as 198.18.0.2:80
    #[arg(long, value_name = "ADDRESS")]
    pub to: SocketAddr,
    /// Path of the page
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = path)]
    pub path: String,
    /// Times to fetch it
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub pages: u64,
    /// Fetch by a schedule, one page in each such time, or later while the one before is not there
    #[arg(long, value_name = "TIME")]
    pub every: Option<Interval>,
    /// The socket.
    #[command(flatten)]
    pub socket: SocketOptions,
}

/// A protocol of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CallProtocol {
    /// VMTP over UDP.
    #[default]
    Vmtp,
    /// TCP, with a connection for each client.
    Tcp,
    /// QUIC, with a connection for each client and a stream for each call.
    Quic,
}

/// `sockscope lab work transactions`.
#[derive(Debug, Clone, Copy, Args)]
pub struct Transactions {
    /// Which end this is.
    #[command(flatten)]
    pub end: End,
    /// The protocol
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    pub protocol: CallProtocol,
    /// Bytes of a request's segment; 0: all of it is in the header
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = string_size)]
    pub request_bytes: Bytes,
    /// Bytes of a response's segment, which the request asks for
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = string_size)]
    pub response_bytes: Bytes,
    /// Clients, each with one transaction under way
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub clients: u32,
    /// How long the clients ask
    #[arg(long = "for", value_name = "TIME", default_value = "1s")]
    pub time: Interval,
    /// Servers that are a group, to which requests go; without it, one server. Over VMTP by multicast, else to each
    /// by itself, at ports in a row
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub members: Option<u32>,
    /// Rate of the link, as 10mbit, for the gaps that VMTP leaves between packets after losses; without it, the speed
    /// of the interface where its driver gives one, else there are no gaps
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Bandwidth>,
}

/// `lab work pattern`.
#[derive(Debug, Args)]
pub struct WorkPattern {
    /// The pattern
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Make the calls with a change (several: repeat): one-write, nodelay, write-bytes=N, read-bytes=N, buffers=N,
    /// think=0 or think=-TIME
    #[arg(long, value_name = "CHANGE")]
    pub set: Vec<PatternChange>,
    /// CPUs of the two processes; without it, the kernel chooses
    #[arg(long, conflicts_with_all = ["listen", "to"])]
    pub cpus: Option<Cpus>,
    /// Be the server alone, at this address; the port is printed
    #[arg(long, value_name = "ADDRESS", conflicts_with = "to")]
    pub listen: Option<SocketAddr>,
    /// Be the client alone, of a server at this address
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<SocketAddr>,
}

/// A process of the load.
#[derive(Debug, Args)]
pub struct Primes {
    /// CPU to which it is bound
    #[arg(long)]
    pub cpu: Option<u32>,
}

/// A process of a pipeline.
#[derive(Debug, Args)]
pub struct Stage {
    /// Bytes of each message
    #[arg(long, value_parser = size)]
    pub message_bytes: Bytes,
    /// CPU time of each message
    #[arg(long)]
    pub compute: Interval,
    /// List when it had each message
    #[arg(long)]
    pub list_times: bool,
    /// The process of the pipeline, with which it ends
    #[arg(long)]
    pub parent: i32,
}
