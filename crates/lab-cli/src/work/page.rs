//! `page-client`: fetches a page over HTTP/1.0, with a new connection each time.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;

use sockscope_link::now_ns;
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::signals::StopSignals;

use super::args::PageClient;
use super::report::Report;
use super::schedule::Schedule;
use super::socket::{cannot, stream_to, unless_stopped};

const READ_BYTES: usize = 64 * 1_024;
/// A response with a longer head is not one of HTTP.
const HEAD_BYTES_MAX: usize = 64 * 1_024;

/// `lab work page-client`.
pub fn page_client(arguments: &PageClient) -> Result<Outcome, Failure> {
    let stop = StopSignals::register()?;
    let mut report = Report::new("page-client", "asking");
    let mut schedule = Schedule::new(arguments.every);
    let mut statuses = BTreeMap::<String, u64>::new();
    let mut truncated = 0_u64;
    let request = request(arguments);
    for _ in 0..arguments.pages {
        let planned_ns = schedule.wait();
        if stop.stop_requested() {
            break;
        }
        let (stream, buffers) = stream_to(arguments.to, arguments.socket)?;
        report = report.over(buffers);
        let page = fetch(stream, &request, &stop);
        let page = page.map_err(cannot("fetch a page from", arguments.to))?;
        report.sent.add(request.len());
        let Some(status) = page.head.status() else {
            report.unanswered += 1;
            continue;
        };
        report.received.add(page.bytes);
        report.latency.add(now_ns().saturating_sub(planned_ns));
        *statuses.entry(status).or_default() += 1;
        truncated += u64::from(page.is_truncated());
    }
    let statuses = serde_json::json!(statuses);
    report.by(&schedule).with("statuses", statuses).with("truncated", truncated.into()).print()
}

fn request(arguments: &PageClient) -> Vec<u8> {
    let (path, host) = (&arguments.path, arguments.to);
    format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").into_bytes()
}

/// A response.
#[derive(Default)]
struct Page {
    head: Head,
    /// Bytes of the response, with its head.
    bytes: usize,
}

impl Page {
    /// Whether the body is shorter than the head says.
    fn is_truncated(&self) -> bool {
        let expected = self.head.body_bytes();
        expected.is_some_and(|expected| self.bytes < self.head.bytes.len() + expected)
    }
}

/// The head of a response, up to the empty line.
#[derive(Default)]
struct Head {
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Head {
    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.is_whole || self.bytes.len() == HEAD_BYTES_MAX {
                return;
            }
            self.bytes.push(*byte);
            self.is_whole = self.bytes.ends_with(b"\r\n\r\n");
        }
    }

    /// Three digits; `None` of bytes that are no head of HTTP.
    fn status(&self) -> Option<String> {
        let text = str::from_utf8(&self.bytes).ok().filter(|_| self.is_whole)?;
        let status = text.strip_prefix("HTTP/1.")?.get(2..5)?;
        status.bytes().all(|byte| byte.is_ascii_digit()).then(|| status.to_owned())
    }

    fn body_bytes(&self) -> Option<usize> {
        let text = str::from_utf8(&self.bytes).ok()?;
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
        value.trim().parse().ok()
    }
}

fn fetch(mut stream: TcpStream, request: &[u8], stop: &StopSignals) -> io::Result<Page> {
    stream.write_all(request)?;
    let mut page = Page::default();
    let mut buffer = vec![0; READ_BYTES];
    while let Some(bytes) = unless_stopped(stop, || stream.read(&mut buffer))? {
        if bytes == 0 {
            break;
        }
        page.bytes += bytes;
        page.head.push(&buffer[..bytes]);
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(pieces: &[&str]) -> Page {
        let mut page = Page::default();
        for piece in pieces {
            page.bytes += piece.len();
            page.head.push(piece.as_bytes());
        }
        page
    }

    #[test]
    fn a_response_has_a_status_and_a_length() {
        let whole = page(&["HTTP/1.1 20", "0 OK\r\ncontent-length: 3\r", "\n\r\nab", "c"]);
        assert_eq!((whole.head.status().as_deref(), whole.is_truncated()), (Some("200"), false));
        let short = page(&["HTTP/1.0 404 Not Found\r\nContent-Length: 3\r\n\r\nab"]);
        assert_eq!((short.head.status().as_deref(), short.is_truncated()), (Some("404"), true));
        let unknown = page(&["HTTP/1.1 200 OK\r\n\r\nab"]);
        assert!(!unknown.is_truncated(), "its end is that of the connection");
    }

    #[test]
    fn other_bytes_are_no_response() {
        for bytes in ["", "HTTP/1.1 200 OK\r\n", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n"] {
            assert_eq!(page(&[bytes]).head.status(), None, "{bytes}");
        }
    }
}
