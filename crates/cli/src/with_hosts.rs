//! `--with`: recorders on other hosts, by the system's ssh, and their bundles merged with this host's.
//!
//! A shell on the other host prints the version and the addresses of the ssh connection, reads one line of
//! options and becomes the recorder of `for_host.rs`. Its standard input stays open as long as this process
//! lives, and has a byte each second. Its end ends that recorder, which then sends its bundle.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sockscope_probe::Share;
use sockscope_program::failure::Failure;
use sockscope_program::output_dir::OutputDir;
use sockscope_program::pick::PickArgs;
use sockscope_trace::Part;
use tempfile::TempDir;

use crate::args::{HowArgs, WithArgs};
use crate::merge;
use crate::other_host::{ATTACHED, BUNDLE, FAILED};

/// A silence much longer than this is a broken connection.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How `sockscope --version` begins.
const PROGRAM: &str = "sockscope ";
/// Exit status of a shell that finds no such program, and of ssh that has no connection.
const NOT_FOUND: i32 = 127;
const NO_CONNECTION: i32 = 255;

/// The other hosts of a recording, all of which record.
pub struct WithHosts {
    hosts: Vec<Host>,
    /// Folder of the halves until they are merged.
    halves: TempDir,
}

impl WithHosts {
    /// Starts the recorders, and returns when all are attached. `None` without `--with`. The halves are written
    /// next to `output`, if that is given.
    pub fn start(
        with: &WithArgs,
        pick: &PickArgs,
        how: HowArgs,
        output: Option<&Path>,
    ) -> Result<Option<Self>, Failure> {
        if with.with.is_empty() {
            return Ok(None);
        }
        // A name that cannot be written costs no recording.
        output.map(|output| OutputDir::find(output, &[])).transpose()?;
        let started = with.with.iter().map(|url| Host::start(url, with));
        let mut hosts = started.collect::<Result<Vec<_>, _>>()?;
        // Traffic of a host is with any of the others.
        let mut addresses: Vec<IpAddr> = hosts.iter().flat_map(|host| host.addresses).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let options = options(pick, how, &addresses);
        for host in &mut hosts {
            host.begin(&options)?;
        }
        Ok(Some(Self { hosts, halves: folder(output)? }))
    }

    /// The bundle of this host.
    pub fn local(&self) -> PathBuf {
        self.halves.path().join("local.sockscope")
    }

    /// Ends the recorders, takes their bundles and writes all as one to `output`. Where that fails, those that are
    /// here stay.
    pub fn merge(mut self, output: &Path) -> Result<(), Failure> {
        let merged = self.take_and_merge(output);
        merged.map_err(|failure| {
            let dir = self.halves.path().display();
            let line = format!("{failure}; what is recorded is kept in {dir}, not merged");
            self.halves.disable_cleanup(true);
            Failure::new(line)
        })
    }

    fn take_and_merge(&mut self, output: &Path) -> Result<(), Failure> {
        // All end at once; one that fails costs no other host's half.
        self.hosts.iter_mut().for_each(Host::end);
        let mut first_failure = None;
        let mut halves = Vec::new();
        for (number, host) in (1..).zip(&mut self.hosts) {
            let half = self.halves.path().join(format!("host-{number}.sockscope"));
            match host.take(&half) {
                Ok(()) => halves.push(half),
                Err(failure) => first_failure = first_failure.or(Some(failure)),
            }
        }
        first_failure.map_or(Ok(()), Err)?;
        let mut merged = self.local();
        for ((number, half), host) in (1..).zip(&halves).zip(&self.hosts) {
            let is_last = number == halves.len();
            let next = self.halves.path().join(format!("merged-{number}.sockscope"));
            let next = if is_last { output.to_owned() } else { next };
            let summary = merge::merge_two(&merged, half, &next)?;
            stderr!("sockscope: {}: {summary}", host.name);
            merged = next;
        }
        Ok(())
    }
}

/// A folder for the halves: a kill leaves it, and its name shows its origin.
fn folder(output: Option<&Path>) -> Result<TempDir, Failure> {
    // Not one of those that the next recording removes.
    let elsewhere = std::env::temp_dir().join("run.sockscope");
    let output = output.unwrap_or(&elsewhere);
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!("{name}.halves-");
    fs::create_dir_all(parent)
        .and_then(|()| tempfile::Builder::new().prefix(&prefix).tempdir_in(parent))
        .map_err(|error| Failure::file("cannot write into", parent, &error))
}

/// For the recorder of another host, in one line: words of a shell without any quotes.
///
/// Without ports it records connections whose SYN this host marks; with ports those between the hosts.
fn options(pick: &PickArgs, how: HowArgs, addresses: &[IpAddr]) -> String {
    let mut words = Vec::new();
    for ports in &pick.port {
        let range = ports.range();
        words.push(format!("--port {}-{}", range.start(), range.end()));
    }
    if !pick.port.is_empty() {
        words.extend(addresses.iter().map(|address| format!("--addr {address}")));
    }
    if uses_marks(pick) {
        words.push("--in-band".to_owned());
    }
    let flags = [(how.calls, "--calls"), (how.cost, "--cost")];
    words.extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| (*flag).to_owned()));
    let share = how.sample.filter(|share| *share != Share::ALL);
    words.extend(share.map(|share| format!("--sample {}", percent(share))));
    words.extend(how.buffer.map(|bytes| format!("--buffer {bytes}")));
    words.extend(how.max_size.map(|bytes| format!("--max-size {bytes}")));
    words.join(" ")
}

/// A number that the other host reads as the same share: between its limit and the next one.
fn percent(share: Share) -> f64 {
    let limits = Share::ALL.limit() as f64;
    (share.limit() as f64 + 0.5) / limits * 100.0
}

/// Whether SYNs carry a mark, which some firewalls drop: where no port selects the connections of the other hosts.
fn uses_marks(pick: &PickArgs) -> bool {
    pick.in_band || pick.port.is_empty()
}

/// The pick of this host.
pub fn local_pick(pick: &PickArgs, with: &WithArgs) -> PickArgs {
    let in_band = pick.in_band || (!with.with.is_empty() && uses_marks(pick));
    PickArgs { in_band, ..pick.clone() }
}

/// A host with a recorder.
struct Host {
    /// As the user wrote it, without `ssh://`.
    name: String,
    ssh: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    heartbeat: Option<(Sender<()>, JoinHandle<()>)>,
    /// Of the ssh connection: this host's end, and the other host's, as the other host has them.
    addresses: [IpAddr; 2],
}

impl Host {
    /// Connects, and compares the versions.
    fn start(url: &str, with: &WithArgs) -> Result<Self, Failure> {
        let name = url.strip_prefix("ssh://").unwrap_or(url).to_owned();
        let program = &with.with_program;
        // The addresses are unknown where no sshd started the shell.
        let script = format!(
            "{program} --version && echo \"${{SSH_CONNECTION-}}\" && read -r o && exec {program} record --for-host $o"
        );
        // A login shell may know no POSIX: one word for it, in quotes that all shells have.
        let script = format!("exec sh -c '{script}'");
        // An interrupt of the terminal ends the recording in order: ssh has to live until it has the bundle.
        let ignoring = format!("trap '' INT QUIT HUP; exec {} \"$@\"", with.ssh);
        let mut command = Command::new("sh");
        command.args(["-c", &ignoring, "sh", url, &script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut ssh = command.spawn()?;
        let (Some(input), Some(output)) = (ssh.stdin.take(), ssh.stdout.take()) else {
            return Err(Failure::new("cannot talk to ssh"));
        };
        let unspecified = IpAddr::from([0, 0, 0, 0]);
        let mut host = Self {
            name,
            ssh,
            input: Some(input),
            output: BufReader::new(output),
            heartbeat: None,
            addresses: [unspecified; 2],
        };
        // Start-up files of shells may print before.
        let version = loop {
            let line = host.line(program)?;
            if let Some(version) = line.strip_prefix(PROGRAM) {
                break version.to_owned();
            }
        };
        let own = env!("CARGO_PKG_VERSION");
        if version != own {
            return Err(host.failure(&format!(
                "sockscope is of version {version} there and {own} here: install the same one on both"
            )));
        }
        let line = host.line(program)?;
        let words: Vec<&str> = line.split(' ').collect();
        let address = |at: usize| words.get(at).and_then(|word| word.parse().ok());
        let (Some(client), Some(server)) = (address(0), address(2)) else {
            return Err(host.failure("its ssh server names no addresses (SSH_CONNECTION)"));
        };
        host.addresses = [client, server];
        Ok(host)
    }

    /// Starts the recorder, and returns when it is attached.
    fn begin(&mut self, options: &str) -> Result<(), Failure> {
        let Some(mut input) = self.input.take() else { return Ok(()) };
        let written = writeln!(input, "{options}").and_then(|()| input.flush());
        written.map_err(|error| self.failure(&error.to_string()))?;
        let (stop, stopped) = channel();
        let heartbeat = thread::Builder::new().name("heartbeat".to_owned()).spawn(move || {
            while stopped.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
                if input.write_all(b".").is_err() {
                    break;
                }
            }
        })?;
        self.heartbeat = Some((stop, heartbeat));
        self.expect(ATTACHED)
    }

    /// Has the recorder end.
    fn end(&mut self) {
        // The thread closes the recorder's input.
        self.input = None;
        if let Some((stop, heartbeat)) = self.heartbeat.take() {
            drop(stop);
            let _ = heartbeat.join();
        }
    }

    /// Writes the recorder's bundle into the folder `half`.
    fn take(&mut self, half: &Path) -> Result<(), Failure> {
        self.expect(BUNDLE)?;
        fs::create_dir(half).map_err(|error| Failure::file("cannot make", half, &error))?;
        for part in Part::ALL {
            let path = half.join(part.file_name());
            let mut length = [0; 8];
            let received = self.output.read_exact(&mut length).and_then(|()| {
                let length = u64::from_le_bytes(length);
                let mut bytes = Read::take(&mut self.output, length);
                let copied = io::copy(&mut bytes, &mut File::create(&path)?)?;
                if copied == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
            });
            received.map_err(|error| {
                self.failure(&format!("its {part} is not whole: the connection ended ({error})"))
            })?;
        }
        Ok(())
    }

    fn expect(&mut self, answer: &str) -> Result<(), Failure> {
        let line = self.line("sockscope")?;
        if line == answer {
            return Ok(());
        }
        let said = line.strip_prefix(FAILED).unwrap_or(&line).to_owned();
        Err(self.failure(&said))
    }

    /// The next line. At the end of the output an error, with its reason as far as it is known.
    fn line(&mut self, program: &str) -> Result<String, Failure> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        if read.is_ok_and(|length| length > 0) {
            return Ok(line.trim_end().to_owned());
        }
        self.end();
        let status = self.ssh.wait()?;
        Err(self.failure(&self.reason(status, program)))
    }

    fn reason(&self, status: ExitStatus, program: &str) -> String {
        let is_connected = !self.addresses[1].is_unspecified();
        match status.code() {
            // Of ssh as well where a signal ended the recorder.
            _ if is_connected => {
                "the recorder there, or the connection, ended before its bundle was whole"
                    .to_owned()
            }
            Some(NOT_FOUND) => format!(
                "{program} or ssh is not found: install sockscope on both hosts, or name it by --with-program"
            ),
            Some(NO_CONNECTION) => "ssh has no connection".to_owned(),
            _ => format!("no sockscope answers ({status})"),
        }
    }

    fn failure(&self, what: &str) -> Failure {
        Failure::new(format!("{}: {what}", self.name))
    }
}

impl Drop for Host {
    /// Where nothing more is wanted of it: the recorder ends as its input ends.
    fn drop(&mut self) {
        self.end();
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

#[cfg(test)]
mod tests {
    use sockscope_program::pick::ports;

    use super::*;

    #[test]
    fn another_host_records_marked_connections_or_ports_between_the_hosts() {
        let addresses = ["10.0.0.1", "fd00::1"].map(|text| text.parse().unwrap());
        let of = |pick: &PickArgs| options(pick, HowArgs::default(), &addresses);
        assert_eq!(of(&PickArgs::default()), "--in-band");
        let port = vec![ports("80").unwrap(), ports("8000-8003").unwrap()];
        let picked = PickArgs { port, ..PickArgs::default() };
        let between = "--port 80-80 --port 8000-8003 --addr 10.0.0.1 --addr fd00::1";
        assert_eq!(of(&picked), between);
        assert_eq!(of(&PickArgs { in_band: true, ..picked }), format!("{between} --in-band"));
    }

    #[test]
    fn another_host_records_as_this_one_does() {
        let how = HowArgs { calls: true, buffer: Some(65_536), ..HowArgs::default() };
        let said = options(&PickArgs::default(), how, &[]);
        assert_eq!(said, "--in-band --calls --buffer 65536");
    }

    #[test]
    fn all_hosts_keep_the_same_share() {
        for limit in [1, 2, 429_496_729, (1 << 31) + 1, (1 << 32) - 1] {
            let share = Share::below(limit);
            let read: f64 = percent(share).to_string().parse().unwrap();
            assert_eq!(Share::of(read / 100.0), share);
        }
    }

    #[test]
    fn halves_are_next_to_the_bundle() {
        let root = tempfile::tempdir().unwrap();
        let halves = folder(Some(&root.path().join("new/both.sockscope"))).unwrap();
        let name = halves.path().strip_prefix(root.path()).unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with("new/both.sockscope.halves-"), "{name}");
    }
}
