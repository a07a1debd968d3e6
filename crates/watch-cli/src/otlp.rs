//! Messages to a collector of OpenTelemetry, by a thread of their own: the recorder never waits for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use sockscope_program::failure::Failure;
use ureq::Agent;

/// Messages that wait at most; later ones are dropped.
const MESSAGES_MAX: usize = 64;
/// Attempts at one message.
const ATTEMPTS: u32 = 4;
/// From an attempt to the next one; it doubles each time.
const PAUSE: Duration = Duration::from_millis(500);
/// For one attempt.
const TIMEOUT: Duration = Duration::from_secs(5);
/// For all messages that wait at the end.
const END: Duration = Duration::from_secs(2);

/// Where a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Metrics,
    Logs,
}

impl Signal {
    fn path(self) -> &'static str {
        match self {
            Self::Metrics => "/v1/metrics",
            Self::Logs => "/v1/logs",
        }
    }
}

struct Message {
    signal: Signal,
    body: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    sent: AtomicU64,
    dropped: AtomicU64,
    /// No pauses any more.
    is_ending: AtomicBool,
    /// Of the last message that was dropped.
    error: Mutex<Option<String>>,
}

/// The thread that sends.
pub struct Otlp {
    messages: Option<SyncSender<Message>>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Otlp {
    /// Sends to this address, as `http://127.0.0.1:4318`, from now on.
    pub fn start(address: &str) -> Result<Self, Failure> {
        Self::start_with(address, TIMEOUT)
    }

    fn start_with(address: &str, timeout: Duration) -> Result<Self, Failure> {
        let (messages, waiting) = sync_channel(MESSAGES_MAX);
        let state = Arc::new(State::default());
        let (address, of_thread) = (address.to_owned(), Arc::clone(&state));
        let thread = std::thread::Builder::new().name("otlp".to_owned());
        let thread = thread.spawn(move || send_all(&address, timeout, &waiting, &of_thread))?;
        Ok(Self { messages: Some(messages), state, thread: Some(thread) })
    }

    /// Hands a message over. It is dropped, and counted, while as many wait as may.
    pub fn send(&self, signal: Signal, body: &Value) {
        let Some(messages) = &self.messages else { return };
        let message = Message { signal, body: body.to_string().into_bytes() };
        match messages.try_send(message) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.state.drop_one("too many messages wait"),
            Err(TrySendError::Disconnected(_)) => self.state.drop_one("its thread ended"),
        }
    }

    /// Messages that the collector took, and those that were dropped.
    pub fn counts(&self) -> [u64; 2] {
        [&self.state.sent, &self.state.dropped].map(|count| count.load(Ordering::Relaxed))
    }

    /// Why a message was dropped, once for each reading.
    pub fn take_error(&self) -> Option<String> {
        self.state.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sends those that wait, as far as time allows.
    pub fn end(&mut self) {
        self.state.is_ending.store(true, Ordering::Relaxed);
        self.messages = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        self.end();
    }
}

impl State {
    fn drop_one(&self, error: &str) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_owned());
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Waits so long, or to the end.
    fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.is_ending() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn send_all(address: &str, timeout: Duration, waiting: &Receiver<Message>, state: &State) {
    // A proxy of the environment is for programs of a user; the collector is named here.
    let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None);
    let agent = config.timeout_connect(Some(timeout)).build().new_agent();
    let mut end: Option<Instant> = None;
    for message in waiting {
        let mut attempts = 0;
        loop {
            let left = match state.is_ending() {
                true => {
                    let end = *end.get_or_insert_with(|| Instant::now() + END);
                    timeout.min(end.saturating_duration_since(Instant::now()))
                }
                false => timeout,
            };
            if left.is_zero() {
                state.drop_one("the recorder ended");
                break;
            }
            attempts += 1;
            match attempt(&agent, address, left, &message) {
                Ok(()) => {
                    state.sent.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Err((_, true)) if attempts < ATTEMPTS && !state.is_ending() => {
                    state.pause(PAUSE * 2u32.pow(attempts - 1));
                }
                Err((error, _)) => {
                    state.drop_one(&error);
                    break;
                }
            }
        }
    }
}

/// One request. An error says whether another attempt may help, as the protocol has it: after no answer, and after
/// status 429, 502, 503 and 504.
fn attempt(
    agent: &Agent,
    address: &str,
    timeout: Duration,
    message: &Message,
) -> Result<(), (String, bool)> {
    let url = format!("{address}{}", message.signal.path());
    let request = agent.post(&url).config().timeout_global(Some(timeout)).build();
    let answer = request.content_type("application/json").send(&message.body[..]);
    let answer = answer.map_err(|error| (format!("{url}: {error}"), true))?;
    match answer.status().as_u16() {
        200..=299 => Ok(()),
        status => Err((format!("{url}: status {status}"), [429, 502, 503, 504].contains(&status))),
    }
}

/// A collector's address on the command line.
pub fn address(text: &str) -> Result<String, String> {
    let wrong =
        || format!("{text} is no address of a collector: give one as http://127.0.0.1:4318");
    if text.starts_with("https://") {
        return Err(
            "https is not supported: send to a collector on this host by http, and let it send on"
                .to_owned(),
        );
    }
    let uri: ureq::http::Uri = text.parse().map_err(|_| wrong())?;
    let is_address = uri.scheme_str() == Some("http") && uri.query().is_none();
    match uri.host() {
        Some(host) if is_address && !host.is_empty() => Ok(text.trim_end_matches('/').to_owned()),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use serde_json::json;

    use super::*;

    fn listener() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        (listener, address)
    }

    /// Reads a request with its body, and answers.
    fn answer(stream: &mut TcpStream, status: &str) -> String {
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            request.extend(byte);
        }
        let head = String::from_utf8(request).unwrap();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
        });
        let mut body = vec![0; length.unwrap()];
        stream.read_exact(&mut body).unwrap();
        let close = "Content-Length: 2\r\nConnection: close\r\n\r\n{}";
        write!(stream, "HTTP/1.1 {status}\r\n{close}").unwrap();
        head.lines().next().unwrap().to_owned() + " " + std::str::from_utf8(&body).unwrap()
    }

    #[test]
    fn a_busy_collector_gets_the_message_again_and_a_bad_one_is_dropped() {
        let (listener, address) = listener();
        let otlp = Otlp::start(&address).unwrap();
        otlp.send(Signal::Logs, &json!({"n": 1}));
        let first = answer(&mut listener.accept().unwrap().0, "503 Busy");
        assert_eq!(first, "POST /v1/logs HTTP/1.1 {\"n\":1}");
        assert_eq!(answer(&mut listener.accept().unwrap().0, "200 OK"), first);
        otlp.send(Signal::Metrics, &json!({"n": 2}));
        let second = answer(&mut listener.accept().unwrap().0, "400 Bad Request");
        assert_eq!(second, "POST /v1/metrics HTTP/1.1 {\"n\":2}");
        otlp.send(Signal::Metrics, &json!({"n": 3}));
        let third = answer(&mut listener.accept().unwrap().0, "200 OK");
        assert_eq!(third, "POST /v1/metrics HTTP/1.1 {\"n\":3}");
        let error = otlp.take_error().unwrap();
        assert!(error.ends_with("/v1/metrics: status 400"), "{error}");
        let state = Arc::clone(&otlp.state);
        drop(otlp);
        let counts = [&state.sent, &state.dropped].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [2, 1]);
    }

    #[test]
    fn a_collector_that_never_answers_costs_a_bounded_queue() {
        let (_listener, address) = listener();
        let otlp = Otlp::start_with(&address, Duration::from_secs(1)).unwrap();
        // One is with the thread, or not yet.
        (0..MESSAGES_MAX + 2).for_each(|n| otlp.send(Signal::Logs, &json!(n)));
        let [sent, dropped] = otlp.counts();
        assert!(sent == 0 && (1..=2).contains(&dropped), "{sent} {dropped}");
    }

    #[test]
    fn an_absent_collector_does_not_hold_the_end_up() {
        let (listener, address) = listener();
        drop(listener);
        let mut otlp = Otlp::start(&address).unwrap();
        (0..10).for_each(|n| otlp.send(Signal::Logs, &json!(n)));
        otlp.end();
        assert_eq!(otlp.counts(), [0, 10]);
        assert!(otlp.take_error().is_some());
    }

    #[test]
    fn addresses_are_checked() {
        assert_eq!(address("http://[::1]:4318/"), Ok("http://[::1]:4318".to_owned()));
        assert_eq!(address("http://h/otlp"), Ok("http://h/otlp".to_owned()));
        for wrong in ["", "h:4318", "ftp://h", "http://", "https://h:4318", "http://h/?a=b"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
