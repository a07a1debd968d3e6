//! A conversion shows its progress on a terminal, and writes no line of it into a pipe.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// The line appears within this time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The header of a capture, and its packets so often that the reader hands over records.
fn capture() -> [Vec<u8>; 2] {
    let seed = "../../fuzz/seeds/convert_capture/ethernet.pcap";
    let file = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(seed)).expect("a seed");
    let (header, packets) = file.split_at(24);
    [header.to_vec(), packets.repeat(4_000)]
}

/// A conversion of its standard input.
fn started(folder: &Path, messages: Stdio) -> (Child, ChildStdin) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-convert"));
    command.args(["convert", "-", "-o"]).arg(folder.join("bundle"));
    let mut child = command.stdin(Stdio::piped()).stderr(messages).spawn().expect("it starts");
    let input = child.stdin.take().expect("it is piped");
    (child, input)
}

/// What is there to read, after a short wait.
fn shown(terminal: &mut File) -> String {
    let wait = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    let mut ready = [PollFd::new(&*terminal, PollFlags::IN)];
    let is_ready = poll(&mut ready, Some(&wait)).is_ok_and(|count| count > 0);
    let mut octets = [0; 4_096];
    // The last user of a terminal that is gone is an error here.
    let len = if is_ready { terminal.read(&mut octets).unwrap_or(0) } else { 0 };
    String::from_utf8_lossy(&octets[..len]).into_owned()
}

#[test]
fn a_terminal_shows_the_octets_that_are_read_until_the_end() {
    let controller =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let user = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (mut child, mut input) = started(folder.path(), user.into());
    let mut terminal = File::from(controller);
    let [header, packets] = capture();
    input.write_all(&header).unwrap();
    let (since, mut said) = (Instant::now(), String::new());
    while !said.contains("sockscope: reading octets: ") {
        assert!(since.elapsed() < PATIENCE, "{said}");
        input.write_all(&packets).unwrap();
        said += &shown(&mut terminal);
    }
    drop(input);
    assert!(child.wait().unwrap().success(), "{said}");
    while !said.contains("see it: ") {
        assert!(since.elapsed() < PATIENCE, "{said}");
        said += &shown(&mut terminal);
    }
    let (line, after) = said.rsplit_once("reading octets").expect("it was there before");
    assert!(line.contains("\r\x1b[K"), "{said:?}");
    assert!(after.contains("\r\x1b[K"), "the line is erased before the result: {said:?}");
}

#[test]
fn a_pipe_has_the_result_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (child, mut input) = started(folder.path(), Stdio::piped());
    let [header, packets] = capture();
    input.write_all(&header).unwrap();
    input.write_all(&packets).unwrap();
    // Longer than the time before a line on a terminal.
    std::thread::sleep(Duration::from_millis(400));
    input.write_all(&packets).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("see it: "), "{said}");
    assert!(!said.contains("reading octets") && !said.contains('\r'), "{said:?}");
}
