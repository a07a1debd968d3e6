//! `sockscope-view view`: its errors, its end with the terminal, and the guard of its server.

// The tests of `top` use all of it.
#[allow(dead_code)]
mod terminal;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use terminal::Terminal;

const BUNDLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/demo/two-writes.sockscope");

fn view(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-view"));
    command.arg("view").args(arguments);
    command
}

/// The line of an error, without its end.
fn refused(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!((status.code(), said.matches('\n').count()), (Some(2), 1), "{said}");
    said.trim_end().to_owned()
}

/// A running page; ended by a signal when the test ends.
struct Page {
    child: Child,
    port: u16,
    token: String,
}

impl Page {
    fn start(arguments: &[&str]) -> Self {
        let mut child =
            view(arguments).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (_, rest) = line.split_once("http://127.0.0.1:").expect(&line);
        let (port, token) = rest.trim().split_once("/?token=").expect(&line);
        Self { port: port.parse().unwrap(), token: token.to_owned(), child }
    }

    /// The answer to a request with these fields.
    fn ask(&self, target: &str, fields: &[(&str, &str)]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut request = format!("GET {target} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in fields {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{request}\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_error_is_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = refused(&mut view(&[BUNDLE, "--listen", &port]));
    assert!(said.starts_with(&format!("sockscope: cannot listen on 127.0.0.1:{port}: ")), "{said}");
    let said = refused(&mut view(&[BUNDLE, "--port", "80"]));
    assert_eq!(said, "sockscope: a pick is for a recording: add --live");
    let said = refused(&mut view(&["no-such-folder"]));
    assert!(said.contains("no-such-folder"), "{said}");
    let said = refused(&mut view(&[BUNDLE, "--live"]));
    assert!(said.contains("--live"), "{said}");
}

#[test]
fn each_signal_ends_it_in_order() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut page = Page::start(&[BUNDLE]);
        assert_eq!(page.end(signal), Some(0), "{signal:?}");
        assert!(TcpStream::connect(("127.0.0.1", page.port)).is_err());
    }
}

#[test]
fn it_ends_with_its_terminal_also_where_the_signal_is_ignored() {
    for shell in ["exec \"$@\"", "trap '' HUP; exec \"$@\""] {
        let mut terminal = Terminal::new(100, 24);
        let mut command = Command::new("sh");
        command.args(["-c", shell, "sh", env!("CARGO_BIN_EXE_sockscope-view"), "view", BUNDLE]);
        terminal.start(command);
        terminal
            .wait_for("the address", |screen| screen.contains("the page is at http://127.0.0.1:"));
        let mut child = terminal.close();
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "it goes on without a terminal: {shell}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn nothing_passes_the_guard_but_the_token_and_this_host() {
    let page = Page::start(&[BUNDLE]);
    let host = format!("127.0.0.1:{}", page.port);
    let cookie = format!("other=1; sockscope-{}={}", page.port, page.token);
    let with_token = format!("/api/traces?token={}", page.token);
    let status = |target: &str, fields: &[(&str, &str)]| page.ask(target, fields)[9..12].to_owned();
    assert_eq!(status(&with_token, &[("Host", &host)]), "200");
    assert_eq!(status("/api/traces", &[("Host", &host), ("Cookie", &cookie)]), "200");
    assert_eq!(status(&with_token, &[("Host", &host.replace("127.0.0.1", "localhost"))]), "200");
    let elsewhere = format!("http://evil.example:{}{with_token}", page.port);
    for (target, fields, why) in [
        ("/api/traces", &[("Host", host.as_str())][..], "no token"),
        ("/", &[("Host", &host)], "no token for the page"),
        (&with_token, &[("Host", "evil.example")], "another host"),
        (&with_token, &[("Host", &format!("evil.example:{}", page.port))], "its port"),
        (&with_token, &[("Host", &host), ("Host", "evil.example")], "two hosts"),
        (&elsewhere, &[("Host", &host)], "another host in the target"),
        (&with_token, &[], "no host"),
    ] {
        let answer = page.ask(target, fields);
        assert!(["403", "421", "400"].contains(&&answer[9..12]), "{why}: {answer}");
        assert!(!answer.contains("two-writes"), "{why}");
    }
}
