//! Servers: one of pages, and one that echoes.

use sockscope_sim::{Action, Answer, Data, Program, ProgramContext};
use sockscope_stack::SocketId;

use super::acceptor::{Accepted, Acceptor, Listener};

/// Bytes that a server asks for in a read.
const READ_BYTES: usize = 4_096;
/// Bytes of the largest request; a longer one has no answer.
const REQUEST_BYTES_MAX: usize = 8_192;
/// Bytes of the largest page.
const PAGE_BYTES_MAX: usize = 10_000_000;
/// Bytes that a server writes in one call, so that no copy of a page lies in its memory.
const WRITE_BYTES: usize = 8_192;

/// Sends each byte back that it receives, until the client ends; an urgent octet as an urgent one.
pub(crate) struct EchoServer {
    acceptor: Acceptor,
    state: Echo,
}

#[derive(Clone, Copy)]
enum Echo {
    Accepting,
    /// It waits for data or an urgent octet.
    Waiting(SocketId),
    Reading(SocketId),
    Taking(SocketId),
    Writing(SocketId),
}

impl EchoServer {
    pub(crate) fn new(port: u16, listener: Listener) -> Self {
        Self { acceptor: Acceptor::new(port, listener), state: Echo::Accepting }
    }

    fn goes_on(&mut self, state: Echo, action: Action) -> Action {
        self.state = state;
        action
    }

    fn wait(&mut self, id: SocketId) -> Action {
        self.goes_on(Echo::Waiting(id), Action::SelectUrgent(id))
    }
}

impl Program for EchoServer {
    fn name(&self) -> &str {
        "echo"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        match (self.state, context.answer) {
            (Echo::Accepting, answer) => match self.acceptor.go_on(answer) {
                Accepted::Not(action) => action,
                Accepted::Connection(id) => self.wait(id),
            },
            (Echo::Waiting(id), Answer::Done(2)) => {
                self.goes_on(Echo::Taking(id), Action::ReadUrgent(id))
            }
            (Echo::Waiting(id), Answer::Done(_)) => {
                self.goes_on(Echo::Reading(id), Action::Read(id, READ_BYTES))
            }
            (Echo::Reading(id), Answer::Done(bytes)) if bytes > 0 => {
                let data = Data::Bytes(context.data().to_vec());
                self.goes_on(Echo::Writing(id), Action::Write(id, data))
            }
            (Echo::Taking(id), Answer::Done(octet)) => {
                let data = Data::Bytes(vec![octet as u8]);
                self.goes_on(Echo::Writing(id), Action::WriteUrgent(id, data))
            }
            (Echo::Writing(id), Answer::Done(_)) => self.wait(id),
            (Echo::Waiting(id) | Echo::Reading(id) | Echo::Taking(id) | Echo::Writing(id), _) => {
                self.goes_on(Echo::Accepting, Action::Close(id))
            }
        }
    }
}

/// Answers requests of HTTP/1.0 (RFC 1945), one a connection.
pub(crate) struct PageServer {
    acceptor: Acceptor,
    state: Page,
    request: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Page {
    Accepting,
    Reading(SocketId),
    /// The head and the first bytes of the page are being written, of a page of so many bytes, from this one on.
    Writing(SocketId, usize, usize),
}

impl PageServer {
    pub(crate) fn new(port: u16, listener: Listener) -> Self {
        let acceptor = Acceptor::new(port, listener);
        Self { acceptor, state: Page::Accepting, request: Vec::new() }
    }

    fn read(&mut self, id: SocketId) -> Action {
        self.state = Page::Reading(id);
        Action::Read(id, READ_BYTES)
    }

    fn close(&mut self, id: SocketId) -> Action {
        self.request.clear();
        self.state = Page::Accepting;
        Action::Close(id)
    }

    fn answer(&mut self, id: SocketId) -> Action {
        let path = path_of(&self.request);
        let Some(bytes) = path.and_then(page_bytes) else {
            self.state = Page::Writing(id, 0, 0);
            let head = "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n";
            return Action::Write(id, Data::Bytes(head.into()));
        };
        let mut answer = format!(
            "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {bytes}\r\n\r\n"
        )
        .into_bytes();
        let first = bytes.min(WRITE_BYTES);
        answer.extend(page(0, first));
        self.state = Page::Writing(id, bytes, first);
        Action::Write(id, Data::Bytes(answer))
    }

    fn have_read(&mut self, id: SocketId, data: &[u8]) -> Action {
        self.request.extend_from_slice(data);
        match self.request.windows(4).any(|end| end == b"\r\n\r\n") {
            true => self.answer(id),
            false if self.request.len() > REQUEST_BYTES_MAX => self.close(id),
            false => self.read(id),
        }
    }
}

impl Program for PageServer {
    fn name(&self) -> &str {
        "httpd"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        match (self.state, context.answer) {
            (Page::Accepting, answer) => match self.acceptor.go_on(answer) {
                Accepted::Not(action) => action,
                Accepted::Connection(id) => self.read(id),
            },
            (Page::Reading(id), Answer::Done(bytes)) if bytes > 0 => {
                self.have_read(id, context.data())
            }
            (Page::Writing(id, bytes, from), Answer::Done(_)) if from < bytes => {
                let to = bytes.min(from + WRITE_BYTES);
                self.state = Page::Writing(id, bytes, to);
                Action::Write(id, Data::Bytes(page(from, to).collect()))
            }
            (Page::Reading(id) | Page::Writing(id, ..), _) => self.close(id),
        }
    }
}

/// The path of a request; `None` where it is not one of HTTP.
fn path_of(request: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(request).ok()?.lines().next()?;
    let mut words = line.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    (method == "GET" && version.starts_with("HTTP/")).then_some(path)
}

/// Bytes of the page at this path.
fn page_bytes(path: &str) -> Option<usize> {
    match path.strip_prefix('/')? {
        "" => Some(LINE.len()),
        number => number.parse().ok().filter(|bytes| *bytes <= PAGE_BYTES_MAX),
    }
}

/// What pages consist of.
const LINE: &[u8] = b"This page is from a network stack of the 1980s, which this program runs.\n";

/// Bytes `from` to `to` of any page.
fn page(from: usize, to: usize) -> impl Iterator<Item = u8> {
    (from..to).map(|place| LINE[place % LINE.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_a_page_by_its_bytes() {
        let bytes = |request: &str| path_of(request.as_bytes()).and_then(page_bytes);
        assert_eq!(bytes("GET / HTTP/1.0\r\n\r\n"), Some(LINE.len()));
        assert_eq!(bytes("GET /100000 HTTP/1.1\r\nHost: a\r\n\r\n"), Some(100_000));
        for other in ["POST / HTTP/1.0", "GET /a HTTP/1.0", "GET /10000001 HTTP/1.0", "GET /", ""] {
            assert_eq!(bytes(other), None, "{other}");
        }
    }
}
