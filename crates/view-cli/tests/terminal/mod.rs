//! A pseudo-terminal with a program on it, and its picture.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

/// A picture appears within this time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal of a size in columns and lines.
pub struct Terminal {
    controller: File,
    user: Option<OwnedFd>,
    parser: Arc<Mutex<vt100::Parser>>,
    child: Option<Child>,
    is_open: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    pub fn new(columns: u16, lines: u16) -> Self {
        let controller =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let user = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let parser = Arc::new(Mutex::new(vt100::Parser::new(lines, columns, 0)));
        let controller = File::from(controller);
        let (mut output, painted) = (controller.try_clone().unwrap(), Arc::clone(&parser));
        let is_open = Arc::new(AtomicBool::new(true));
        let goes_on = Arc::clone(&is_open);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            while goes_on.load(Ordering::Relaxed) {
                let mut ready = [PollFd::new(&output, PollFlags::IN)];
                if poll(&mut ready, Some(&wait)).is_ok_and(|count| count > 0) {
                    let Ok(count @ 1..) = output.read(&mut bytes) else { return };
                    painted.lock().unwrap().process(&bytes[..count]);
                }
            }
        });
        let user = Some(user.into());
        let terminal =
            Self { controller, user, parser, child: None, is_open, reader: Some(reader) };
        terminal.set_size(columns, lines);
        terminal
    }

    fn set_size(&self, columns: u16, lines: u16) {
        let size = Winsize { ws_col: columns, ws_row: lines, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.controller, size).unwrap();
    }

    /// The modes of the line.
    pub fn settings(&self) -> Termios {
        tcgetattr(self.user.as_ref().unwrap()).unwrap()
    }

    /// Starts a program with it as its controlling terminal.
    pub fn start(&mut self, mut command: Command) {
        let stdio = || Stdio::from(self.user.as_ref().unwrap().try_clone().unwrap());
        command.stdin(stdio()).stdout(stdio()).stderr(stdio());
        command.env("TERM", "xterm-256color");
        // By setsid(1): code between fork and exec would be unsafe code here.
        let mut session = Command::new("setsid");
        session.arg("--ctty").arg("--wait").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        session.stdin(stdio()).stdout(stdio()).stderr(stdio()).process_group(0);
        self.child = Some(session.spawn().expect("setsid is part of util-linux"));
    }

    pub fn resize(&mut self, columns: u16, lines: u16) {
        self.parser.lock().unwrap().screen_mut().set_size(lines, columns);
        self.set_size(columns, lines);
    }

    pub fn keys(&mut self, keys: &str) {
        self.controller.write_all(keys.as_bytes()).unwrap();
    }

    fn picture(&self) -> String {
        self.parser.lock().unwrap().screen().contents()
    }

    /// Waits until the picture is as described.
    pub fn wait_for(&mut self, picture: &str, is_there: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !is_there(&self.picture()) {
            assert!(begun.elapsed() < PATIENCE, "no picture of {picture}:\n{}", self.picture());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The status of the program, which ends.
    pub fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("it was started");
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end:\n{}", self.picture());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether the modes are those, and the first screen is shown again.
    pub fn is_restored(&self, before: &Termios) -> bool {
        let now = self.settings();
        let is_line = now.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO);
        let is_first = !self.parser.lock().unwrap().screen().alternate_screen();
        now.local_modes == before.local_modes && is_line && is_first
    }

    /// Hangs up; the program, which is then alone.
    pub fn close(mut self) -> Child {
        self.child.take().expect("it was started")
    }

    fn stop_reading(&mut self) {
        self.is_open.store(false, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.user = None;
        self.stop_reading();
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
