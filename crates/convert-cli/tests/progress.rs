//! A conversion and an export show their progress on a terminal, and write no line of it into a pipe.

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

/// A terminal: its own end, and the one of a program.
fn terminal() -> (File, File) {
    let controller =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let user = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (File::from(controller), user)
}

/// A bundle in the folder, of the capture's packets so many times.
fn converted(folder: &Path, times: usize) {
    let (mut child, mut input) = started(folder, Stdio::null());
    let [header, packets] = capture();
    input.write_all(&header).unwrap();
    (0..times).for_each(|_| input.write_all(&packets).unwrap());
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// An export of the bundle in the folder.
fn export(folder: &Path, form: &str, messages: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-convert"));
    command.arg("export").arg(folder.join("bundle")).args(["--to", form, "-o"]);
    command.arg(folder.join(form)).stdout(Stdio::null()).stderr(messages);
    command.spawn().expect("it starts")
}

/// An export on a terminal: all that it wrote there.
fn exported(folder: &Path, form: &str) -> String {
    let (mut terminal, user) = terminal();
    let mut child = export(folder, form, user.into());
    let (since, mut said) = (Instant::now(), String::new());
    while child.try_wait().unwrap().is_none() {
        assert!(since.elapsed() < PATIENCE, "{said}");
        said += &shown(&mut terminal);
    }
    assert!(child.wait().unwrap().success(), "{said}");
    said + &shown(&mut terminal)
}

#[test]
fn an_export_shows_its_records_on_a_terminal_and_not_in_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    for form in ["csv", "pcapng"] {
        // Work that is done at once has no line: a fast machine has more of it.
        let said = (1..=8).find_map(|times| {
            let folder = folder.path().join(times.to_string());
            if !folder.exists() {
                std::fs::create_dir(&folder).unwrap();
                converted(&folder, times);
            }
            Some((exported(&folder, form), folder))
                .filter(|(said, _)| said.contains("writing records"))
        });
        let (said, longest) = said.unwrap_or_else(|| panic!("{form}: no line of progress"));
        let (_, after) = said.rsplit_once("writing records").expect("it was found");
        assert!(after.contains("\r\x1b[K"), "{form}: the line is erased at the end: {said:?}");
        let output = export(&longest, form, Stdio::piped()).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(!said.contains("writing records") && !said.contains('\r'), "{said:?}");
    }
}

#[test]
fn a_terminal_shows_the_octets_that_are_read_until_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (mut terminal, user) = terminal();
    let (mut child, mut input) = started(folder.path(), user.into());
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
