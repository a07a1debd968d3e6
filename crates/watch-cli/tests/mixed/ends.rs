//! The load and the stalls, in a network namespace of their own, and a small disk in a mount namespace. Both end with the
//! program that holds them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use sockscope_probe::sample_hash;

use super::Load;

/// Ports: two of the load, and one for each stall.
const PORTS: u16 = 6;
/// The kernel chooses no client port here.
const STALL_CLIENTS: std::ops::Range<u16> = 8_000..20_000;
const TCP: u8 = 6;

const STALLS: &str = include_str!("stalls.py");
/// A disk of the size in the folder, and the addresses and ports that the load needs.
const HOLDER: &str = "
mount -t tmpfs -o size=$1 none \"$2\" && ip link set lo up &&
echo 20000 65000 >/proc/sys/net/ipv4/ip_local_port_range && echo ready && read -r end";

/// A stall that is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The server reads nothing for two seconds.
    SlowReader,
    /// The server is stopped by SIGSTOP for two seconds.
    StoppedServer,
    /// Two writes for each request, for two seconds.
    DelayedAcknowledgment,
    /// The client writes more than both buffers take while the server reads nothing.
    FullSendBuffer,
}

impl Kind {
    pub const ALL: [Self; 4] =
        [Self::SlowReader, Self::StoppedServer, Self::DelayedAcknowledgment, Self::FullSendBuffer];

    pub fn name(self) -> &'static str {
        ["slow-reader", "stopped-server", "delayed-acknowledgment", "full-send-buffer"]
            [self as usize]
    }
}

/// A stall with its time on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Stall {
    pub kind: Kind,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub client: SocketAddr,
}

/// A program with its input and output, which ends with the test.
pub struct Talk {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Talk {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "a program of the load ended: {:?}", self.child.wait());
        line.trim().to_owned()
    }

    fn say(&mut self, word: &str) {
        writeln!(self.input, "{word}").unwrap();
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Counts of the load.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    /// Connections since the start, those of the stalls included.
    pub opened: u64,
    /// Of these, connections of the churn that had their answer.
    pub churned: u64,
    pub open: u64,
    pub failed: u64,
    /// Those that had their answer.
    pub exchanges: u64,
    pub bulk_bytes: u64,
    /// Time in which the load itself was stopped, as by a pause of the machine.
    pub stopped_s: f64,
}

pub struct Ends {
    stalling: Talk,
    stalled: Talk,
    asking: Talk,
    _answering: Talk,
    holder: Talk,
    clients: [SocketAddr; 4],
}

/// Of the servers, for `--addr`. Forged packets of other tests have all ports, and no such address. `watch-load` has it too.
pub const SERVERS: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 1);

/// The first port. `--port` picks connections of all network namespaces: another run at the same time has other ports.
fn first_port() -> u16 {
    let number = u16::try_from(std::process::id() % 900).unwrap();
    2_000 + number * PORTS
}

/// For `--port`.
pub fn ports() -> String {
    format!("{}-{}", first_port(), first_port() + PORTS - 1)
}

/// The client port of each stall: that with the smallest hash, so that each share of the connections has it.
fn clients(servers: u16) -> [SocketAddr; 4] {
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    [0, 1, 2, 3].map(|number| {
        let server = SocketAddr::from((SERVERS, servers + number));
        let hash = |client: &SocketAddr| sample_hash(TCP, *client, server);
        STALL_CLIENTS.map(local).min_by_key(hash).unwrap()
    })
}

/// The signal stops each thread when it runs the next time, which a busy machine delays.
fn wait_until_stopped(pid: &str) {
    let is_stopped = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    let folder = format!("/proc/{pid}/task");
    while !fs::read_dir(&folder).unwrap().all(|task| is_stopped(task.unwrap())) {
        thread::sleep(Duration::from_millis(1));
    }
}

impl Ends {
    /// All connections of the load are open when it returns. The disk is at `folder`.
    pub fn start(load: &Load, disk: &str, folder: &Path) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "sh", "-c", HOLDER, "sh", disk]).arg(folder);
        let mut holder = Talk::start(&mut command);
        assert_eq!(holder.line(), "ready");
        let inside = |program: &str, words: &[String]| {
            let mut command = Command::new("nsenter");
            command.args(["--net", "--target", &holder.pid(), program]).args(words);
            Talk::start(&mut command)
        };
        let begins = |mut talk: Talk, word: &str| {
            assert_eq!(talk.line(), word);
            talk
        };
        let python = |words: &[String]| {
            inside("python3", &[&["-c".to_owned(), STALLS.to_owned()], words].concat())
        };
        let port = first_port();
        let servers = port + 2;
        let clients = clients(servers);
        let stalled = python(&["serve".to_owned(), SERVERS.to_string(), servers.to_string()]);
        let stalled = begins(stalled, "ready");
        let places = clients.iter().map(|client| client.port().to_string());
        let words = ["ask".to_owned(), SERVERS.to_string(), servers.to_string()];
        let words = words.into_iter().chain(places);
        let stalling = begins(python(&words.collect::<Vec<_>>()), "ready");
        let program = env!("CARGO_BIN_EXE_watch-load");
        let answering = inside(program, &["serve".to_owned(), port.to_string()]);
        let answering = begins(answering, "ready");
        let words = [port.into(), load.open, load.every_s, load.churn_s, load.bulk, load.bulk_s];
        let words = std::iter::once("ask".to_owned()).chain(words.map(|it: u64| it.to_string()));
        let asking = begins(inside(program, &words.collect::<Vec<_>>()), "open");
        Self { stalling, stalled, asking, _answering: answering, holder, clients }
    }

    /// To start a program that has the disk.
    pub fn with_disk(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &self.holder.pid()]);
        command
    }

    /// A path on the disk for this process, which does not have it.
    pub fn on_disk(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.pid()));
        root.join(path.strip_prefix("/").unwrap())
    }

    pub fn plant(&mut self, kind: Kind) -> Stall {
        let signal = |name: &str| {
            let server = self.stalled.pid();
            assert!(Command::new("kill").args([name, &server]).status().unwrap().success());
        };
        self.stalling.say(kind.name());
        assert_eq!(self.stalling.line(), "now");
        // No other exchange is under way.
        if kind == Kind::StoppedServer {
            signal("-STOP");
            wait_until_stopped(&self.stalled.pid());
        }
        self.stalling.say("go");
        if kind == Kind::StoppedServer {
            thread::sleep(Duration::from_secs(2));
            signal("-CONT");
        }
        let line = self.stalling.line();
        let mut times = line.split(' ').map(|ns| ns.parse().unwrap());
        let (begin_ns, end_ns) = (times.next().unwrap(), times.next().unwrap());
        Stall { kind, begin_ns, end_ns, client: self.clients[kind as usize] }
    }

    pub fn pause_churn(&mut self) {
        self.asking.say("pause");
        // Those that are open have their answers and are closed at both ends.
        thread::sleep(Duration::from_millis(500));
    }

    pub fn resume_churn(&mut self) {
        self.asking.say("go");
    }

    pub fn counts(&mut self) -> Counts {
        self.asking.say("count");
        let counts: serde_json::Value = serde_json::from_str(&self.asking.line()).unwrap();
        let count = |name: &str| counts[name].as_u64().unwrap();
        let of_stalls = self.clients.len() as u64;
        Counts {
            opened: count("opened") + of_stalls,
            churned: count("churned"),
            open: count("open") + of_stalls,
            failed: count("failed"),
            exchanges: count("exchanges"),
            bulk_bytes: count("bulk_bytes"),
            stopped_s: count("stopped_ms") as f64 / 1e3,
        }
    }
}
