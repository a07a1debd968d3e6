//! Scripts in the manner of packetdrill: actions and segments sent, line by line.
//!
//! A script is a transcript. The lines that do something are done in order; the segments that leave
//! are written between them as they leave; and the whole must be the script again. So a test shows
//! everything that was sent, and nothing else was.
//!
//! ```text
//! 0.000 connect                                 # seconds; the beats are at multiples of 0.2 and 0.5
//!       > S 0:0(0) win 4096 <mss 1024>          # leaves this host
//!       < S 0:0(0) ack 1 win 4096 <mss 1024>    # arrives
//!       write 4000 = 4000                       # a call and its result
//! ```
//!
//! Letters are S, F, P, R, U, a dot for none of them; numbers count from each side's SYN, which is 0. With
//! two hosts, `c` and `s` before a line say which. Words: `socket`, `connect`, `listen`, `accept`, `write N`,
//! `urge N` (a write with `MSG_OOB`), `read N`, `urgent` (the octet), `announced` (how often), `mark`, `inline`, `close`, `shutdown`, `nodelay`, `keepalive`, `quench`, `buffers N` (both limits), `rcvbuf N`,
//! `hold` (frames wait), `lose` (the oldest one held), `pass` (it arrives), `release` (all do), `error`,
//! `state`, `cwnd`, `ssthresh`, `rtt_ms`, `timeout` (ticks), `tick N` (that many slow ticks). A call that sleeps goes on by itself.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use sockscope_record::{Protocol, tcp_flags};

use super::header::{Header, TCP_HEADER_BYTES};
use super::options::{HeaderOptions, SackBlocks, Timestamps};
use super::seq::Seq;
use crate::calls::{AcceptCall, ConnectCall, SendCall, Step};
use crate::checksum::{Checksum, checksum};
use crate::effect::Channel;
use crate::interface::InterfaceConfig;
use crate::ip::{IP_HEADER_BYTES, PROTOCOL_TCP};
use crate::personality::Personality;
use crate::socket::{SetOption, SocketId};
use crate::stack::{Stack, StackConfig};
use crate::testing::{ADDRESSES, Flight, Pair};

const LINK_BYTES: usize = 14;
const FAST_MS: u64 = 200;
const SLOW_MS: u64 = 500;
const PORT: u16 = 9;

/// The first number of each side unless a test sets another.
const ISS: [u32; 2] = [1_000, 5_000];

pub(super) struct Script {
    pub(super) pair: Pair,
    /// The second host is the script itself.
    is_alone: bool,
    iss: [u32; 2],
    sockets: [Option<SocketId>; 2],
    listeners: [Option<SocketId>; 2],
    writers: [Option<(SendCall, Vec<u8>)>; 2],
    written: [usize; 2],
    now_ms: u64,
    shown: usize,
    stamp: Option<String>,
    text: String,
    /// Bytes read so far, in their order.
    pub(super) read: [Vec<u8>; 2],
    /// Announcements of urgent data.
    announced: usize,
}

impl Script {
    /// One host of this name; the script plays the other.
    pub(super) fn alone(personality: &str) -> Self {
        let mut script = Self::pair(personality);
        script.is_alone = true;
        script.pair.is_held = true;
        script
    }

    /// Two hosts on a 10 Mbit/s Ethernet.
    pub(super) fn pair(personality: &str) -> Self {
        Self::with(&Personality::by_name(personality).expect("known"), ISS)
    }

    /// As [`Script::alone`] with both sides' first numbers.
    pub(super) fn alone_from(personality: &str, iss: [u32; 2]) -> Self {
        let mut script = Self::with(&Personality::by_name(personality).expect("known"), iss);
        script.is_alone = true;
        script.pair.is_held = true;
        script
    }

    /// As [`Script::alone`] with an interface queue of so many packets.
    pub(super) fn with_queue(personality: &str, packets: usize) -> Self {
        let personality = Personality::by_name(personality).expect("known");
        let mut script = Self::made(&personality, ISS, packets);
        script.is_alone = true;
        script.pair.is_held = true;
        script
    }

    pub(super) fn with(personality: &Personality, iss: [u32; 2]) -> Self {
        Self::made(personality, iss, 50)
    }

    fn made(personality: &Personality, iss: [u32; 2], queue_packets_max: usize) -> Self {
        let interface = |host: usize| InterfaceConfig {
            queue_packets_max,
            ..InterfaceConfig::ethernet10("le0", ADDRESSES[host])
        };
        let config = |host: usize| StackConfig {
            interfaces: vec![interface(host)],
            initial_sequence: iss[host],
            ..StackConfig::default()
        };
        Self {
            pair: Pair::of(personality, [config(0), config(1)]),
            is_alone: false,
            iss,
            sockets: [None; 2],
            listeners: [None; 2],
            writers: [None, None],
            written: [0; 2],
            now_ms: 0,
            shown: 0,
            stamp: None,
            text: String::new(),
            read: [Vec::new(), Vec::new()],
            announced: 0,
        }
    }

    /// Carries out a script; the transcript must be the script.
    #[track_caller]
    pub(super) fn check(&mut self, script: &str) {
        self.text.clear();
        let lines = script.lines().map(|line| line.split('#').next().unwrap_or(line).trim());
        let wanted: Vec<String> = lines.filter(|line| !line.is_empty()).map(squeeze).collect();
        wanted.iter().for_each(|line| self.line(line));
        let wanted = wanted.join("\n");
        assert!(self.text.trim_end() == wanted, "--- wanted\n{wanted}\n--- got\n{}", self.text);
    }

    /// Carries out a line, and ignores its segments.
    pub(super) fn begin(&mut self, line: &str) {
        self.line(&squeeze(line));
        self.text.clear();
    }

    /// The segments sent by a line's act, and its result.
    pub(super) fn after(&mut self, line: &str) -> String {
        self.text.clear();
        self.line(&squeeze(line));
        std::mem::take(&mut self.text).trim_end().to_owned()
    }

    fn line(&mut self, line: &str) {
        let mut words = line.split(' ').peekable();
        if let Some(at_ms) = words.peek().and_then(|word| milliseconds(word)) {
            words.next();
            self.advance(at_ms);
            if !is_output(&mut words.clone()) {
                self.stamp = Some(line.split(' ').next().unwrap_or("").to_owned());
            }
        }
        if is_output(&mut words.clone()) {
            return;
        }
        let stamp = self.stamp.take().map_or(String::new(), |stamp| stamp + " ");
        let host = usize::from(words.peek() == Some(&"s"));
        let rest: Vec<&str> = words.filter(|word| !["c", "s"].contains(word)).collect();
        let (act, asks) = match rest.iter().position(|word| *word == "=") {
            Some(at) => (&rest[..at], true),
            None => (&rest[..], false),
        };
        let at = self.text.len();
        let result = self.act(host, act);
        let actor = if self.is_alone { "" } else { ["c ", "s "][host] };
        let result = if asks { format!(" = {result}") } else { String::new() };
        self.text.insert_str(at, &format!("{stamp}{actor}{}{result}\n", act.join(" ")));
        self.show();
        self.go_on();
    }

    /// Lets time pass; every beat up to then is run.
    fn advance(&mut self, to_ms: u64) {
        while self.now_ms < to_ms {
            let next = |beat: u64| (self.now_ms / beat + 1) * beat;
            self.now_ms = next(FAST_MS).min(next(SLOW_MS)).min(to_ms);
            let before = self.shown;
            self.stamp = Some(format!("{}.{:03}", self.now_ms / 1000, self.now_ms % 1000));
            let hosts = if self.is_alone { 1 } else { 2 };
            for host in 0..hosts {
                if self.now_ms.is_multiple_of(FAST_MS) {
                    self.pair.step(host, Stack::fasttimo);
                }
                if self.now_ms.is_multiple_of(SLOW_MS) {
                    self.pair.step(host, Stack::slowtimo);
                }
            }
            self.show();
            self.go_on();
            if self.shown != before {
                self.stamp = None;
            }
        }
        self.stamp = None;
    }

    fn act(&mut self, host: usize, words: &[&str]) -> String {
        let number = || words.get(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        match words[0] {
            "<" => self.inject(words),
            "socket" => self.sockets[host] = Some(self.pair.socket(host, Protocol::Tcp)),
            "connect" => self.connect(host),
            "listen" => self.listen(host),
            "accept" => return self.accept(host),
            "write" => return self.write(host, number(), SendCall::write),
            "urge" => return self.write(host, number(), SendCall::urgent),
            "urgent" => return self.read_urgent(host),
            "announced" => return self.announced.to_string(),
            "read" => return self.read_some(host, number()),
            "hold" => self.pair.is_held = true,
            "lose" => drop(self.pair.wire.pop_front()),
            "pass" => drop(self.pair.deliver()),
            "release" => {
                self.pair.is_held = false;
                self.pair.settle();
            }
            "tick" => (0..number()).for_each(|_| self.pair.step(host, Stack::slowtimo)),
            word => return self.control(host, word, number()),
        }
        String::new()
    }

    fn control(&mut self, host: usize, word: &str, number: usize) -> String {
        let id = self.sockets[host].expect("a socket");
        let option = match word {
            "nodelay" => SetOption::NoDelay(true),
            "keepalive" => SetOption::KeepAlive(true),
            "inline" => SetOption::OutOfBandInline(true),
            "rcvbuf" => SetOption::ReceiveBuffer(number as u32),
            _ => return self.ask(host, id, word, number as u32),
        };
        let done = self.pair.step(host, |stack, meter| stack.set_option(id, option, meter));
        done.map_or_else(|error| format!("{error:?}"), |()| String::new())
    }

    fn ask(&mut self, host: usize, id: SocketId, word: &str, number: u32) -> String {
        let stack = &mut self.pair.hosts[host].stack;
        let result = match word {
            "buffers" => stack.reserve(id, number, number),
            "close" => self.pair.step(host, |stack, meter| stack.close(id, meter)),
            "shutdown" => {
                let how = crate::socket::Shutdown::Send;
                self.pair.step(host, |stack, meter| stack.shutdown(id, how, meter))
            }
            "quench" => {
                stack.tcp_quench(id);
                Ok(())
            }
            "error" => {
                let error = stack.sockets.find_mut(id).and_then(|socket| socket.error.take());
                return error.map_or("none".to_owned(), |error| format!("{error:?}"));
            }
            "mark" => {
                let is_there = stack.is_at_mark(id).expect("a socket");
                return if is_there { "yes" } else { "no" }.to_owned();
            }
            "state" => return self.block(host, |tcb| format!("{:?}", tcb.state())),
            "cwnd" => return self.block(host, |tcb| tcb.congestion().0.to_string()),
            "rtt_ms" => {
                return self.block(host, |tcb| (tcb.rtt().smoothed_us() / 1000).to_string());
            }
            "timeout" => return self.block(host, |tcb| tcb.rtt().timeout_ticks().to_string()),
            "ssthresh" => return self.block(host, |tcb| tcb.congestion().1.to_string()),
            _ => panic!("what is {word}?"),
        };
        result.map_or_else(|error| format!("{error:?}"), |()| "ok".to_owned())
    }

    fn block(&self, host: usize, show: impl Fn(&super::Tcb) -> String) -> String {
        let id = self.sockets[host].expect("a socket");
        let socket = self.pair.hosts[host].stack.sockets.find(id);
        socket.and_then(|socket| socket.tcb.as_ref()).map_or("gone".to_owned(), show)
    }

    fn connect(&mut self, host: usize) {
        let id = self.sockets[host].unwrap_or_else(|| self.pair.socket(host, Protocol::Tcp));
        self.sockets[host] = Some(id);
        let mut call = ConnectCall::new(id, (ADDRESSES[1 - host], PORT));
        let step = self.pair.step(host, |stack, meter| call.step(stack, meter));
        assert_eq!(step, Step::Sleep(Channel::Connection(id)));
    }

    fn listen(&mut self, host: usize) {
        let id = self.pair.bound(host, Protocol::Tcp, PORT);
        self.pair.step(host, |stack, meter| stack.listen(id, 5, meter)).expect("listens");
        self.listeners[host] = Some(id);
    }

    fn accept(&mut self, host: usize) -> String {
        let listener = self.listeners[host].expect("listens");
        let mut call = AcceptCall::new(listener);
        match self.pair.step(host, |stack, meter| call.step(stack, meter)) {
            Step::Done(Ok(number)) => {
                self.sockets[host] = Some(SocketId(number));
                "ok".to_owned()
            }
            Step::Done(Err(error)) => format!("{error:?}"),
            _ => "sleep".to_owned(),
        }
    }

    fn write(&mut self, host: usize, len: usize, call: fn(SocketId, usize) -> SendCall) -> String {
        assert!(self.writers[host].is_none(), "the last write sleeps still");
        let id = self.sockets[host].expect("a socket");
        let from = self.written[host];
        let user: Vec<u8> = (from..from + len).map(byte_at).collect();
        let mut call = call(id, len);
        match self.pair.run_send(host, &mut call, &user) {
            Step::Done(Ok(taken)) => {
                self.written[host] += taken as usize;
                taken.to_string()
            }
            Step::Done(Err(error)) => format!("{error:?}"),
            _ => {
                self.written[host] += len;
                self.writers[host] = Some((call, user));
                "sleep".to_owned()
            }
        }
    }

    /// Sets an option of a host's socket.
    pub(super) fn set(&mut self, host: usize, option: SetOption) {
        let id = self.sockets[host].expect("a socket");
        self.pair.step(host, |stack, meter| stack.set_option(id, option, meter)).expect("set");
    }

    /// A host listens with these buffer limits, which its connections take over.
    pub(super) fn listen_with(&mut self, host: usize, bytes: u32) {
        let id = self.listeners[host].expect("listens");
        self.pair.hosts[host].stack.reserve(id, bytes, bytes).expect("a socket");
    }

    /// Milliseconds since the script began.
    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Whether a write sleeps.
    pub(super) fn is_writing(&self) -> bool {
        self.writers[0].is_some()
    }

    /// Reads and ignores the data.
    pub(super) fn drain(&mut self, len: usize) {
        let id = self.sockets[0].expect("a socket");
        let mut call = crate::calls::ReceiveCall::read(id, len);
        let mut user = vec![0; len];
        self.pair.run_receive(0, &mut call, &mut user);
    }

    /// The next numbers that this host sends and expects; the first ones when it is gone.
    pub(super) fn numbers(&self) -> (Seq, Seq) {
        let id = self.sockets[0].expect("a socket");
        let socket = self.pair.hosts[0].stack.sockets.find(id);
        let tcb = socket.and_then(|socket| socket.tcb.as_ref());
        tcb.map_or((Seq(self.iss[0]), Seq(self.iss[1])), |tcb| (tcb.snd.nxt, tcb.rcv.nxt))
    }

    /// A writer whose socket is closed notices it and frees its resources.
    pub(super) fn finish_writer(&mut self) {
        if let Some((mut call, user)) = self.writers[0].take() {
            self.pair.run_send(0, &mut call, &user);
        }
    }

    /// Writers that were woken go on.
    pub(super) fn go_on(&mut self) {
        let is_urgent = |(_, channel): &&(usize, Channel)| matches!(channel, Channel::Urgent(_));
        self.announced += self.pair.woken.iter().filter(is_urgent).count();
        for host in 0..2 {
            let id = self.sockets[host];
            let is_woken = self.pair.woken.iter().any(|(at, channel)| {
                *at == host && id.is_some_and(|id| *channel == Channel::Writable(id))
            });
            let Some((mut call, user)) = self.writers[host].take_if(|_| is_woken) else { continue };
            self.pair.woken.clear();
            if let Step::Sleep(_) = self.pair.run_send(host, &mut call, &user) {
                self.writers[host] = Some((call, user));
            }
            self.show();
        }
        self.pair.woken.clear();
    }

    /// The urgent octet, which the test's stream knows by its position, or the error.
    fn read_urgent(&mut self, host: usize) -> String {
        let id = self.sockets[host].expect("a socket");
        match self.pair.step(host, |stack, meter| stack.receive_urgent(id, meter)) {
            Ok(octet) => octet.to_string(),
            Err(error) => format!("{error:?}"),
        }
    }

    fn read_some(&mut self, host: usize, len: usize) -> String {
        let id = self.sockets[host].expect("a socket");
        let Some(bytes) = self.pair.read(host, id, len) else { return "sleep".to_owned() };
        // An octet that is kept apart has a place in the stream as well, before those of this read.
        let end = self.pair.hosts[host].stack.sockets[id].rcv.left();
        let from = (end as usize).saturating_sub(bytes.len());
        let right = bytes.iter().enumerate().all(|(at, byte)| *byte == byte_at(from + at));
        assert!(right, "damaged data behind {from}");
        self.read[host].extend(&bytes);
        bytes.len().to_string()
    }

    /// Writes down the frames that have left since the last call.
    fn show(&mut self) {
        while let Some((host, frame)) = self.pair.sent.get(self.shown) {
            let stamp = self.stamp.take().map_or(String::new(), |stamp| stamp + " ");
            let actor = if self.is_alone { "" } else { ["c ", "s "][*host] };
            let segment = segment_text(frame, self.iss[*host], self.iss[1 - *host]);
            writeln!(self.text, "{stamp}{actor}> {segment}").expect("a string takes all");
            self.shown += 1;
        }
        if self.is_alone {
            self.pair.wire.clear();
        }
    }

    fn inject(&mut self, words: &[&str]) {
        let bytes = self.frame(words);
        self.pair.wire.push_front(Flight { to: 0, bytes, mark: None });
        self.pair.deliver();
    }

    /// A frame of the peer's as `< P 1:101(100) ack 1 win 4096`.
    fn frame(&self, words: &[&str]) -> Vec<u8> {
        let range = words.get(2).and_then(|word| word.split_once(':'));
        let from: u32 = range.map_or(0, |(from, _)| from.parse().expect("a number"));
        let len = range.map_or(0, |(_, to)| {
            let len = to.split(['(', ')']).nth(1);
            len.expect("a length").parse().expect("a number")
        });
        let after = |name: &str| {
            let at =
                words.iter().position(|word| word.trim_start_matches('<') == name && *word != "<");
            let number = at.map(|at| words[at + 1].trim_end_matches('>'));
            number.map(|number| number.parse::<u32>().expect("a number"))
        };
        let ack = after("ack");
        let seq = match range {
            Some(_) => from,
            None => after("seq").unwrap_or(1),
        };
        let header = Header {
            source_port: PORT,
            destination_port: self.port(),
            seq: Seq(self.iss[1]) + seq,
            ack: Seq(self.iss[0]) + ack.unwrap_or(0),
            flags: flags_of(words[1], ack.is_some()),
            window: after("win").unwrap_or(4096) as u16,
            urgent: after("urg").unwrap_or(0) as u16,
            options: HeaderOptions {
                segment_bytes: after("mss").map(|bytes| bytes as u16),
                window_shift: after("wscale").map(|shift| shift as u8),
                timestamps: timestamps_of(words),
                permits_sack: words.iter().any(|word| word.trim_matches(['<', '>']) == "sackOK"),
                sack: blocks_of(words, self.iss[0]),
            },
        };
        let data: Vec<u8> = (0..len).map(|at| byte_at(from.max(1) as usize - 1 + at)).collect();
        frame_of(&header, &data, words.contains(&"damaged"))
    }

    /// The port of this host's end: that of its first frame, or the one it listens at.
    pub(super) fn port(&self) -> u16 {
        match self.pair.sent.first() {
            Some((_, frame)) => u16::from_be_bytes([frame[34], frame[35]]),
            None => PORT,
        }
    }
}

/// The byte at a position of either stream.
pub(super) fn byte_at(position: usize) -> u8 {
    (position * 31 + position / 251) as u8
}

fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn milliseconds(word: &str) -> Option<u64> {
    let (whole, part) = word.split_once('.')?;
    if part.len() != 3 {
        return None;
    }
    Some(whole.parse::<u64>().ok()? * 1000 + part.parse::<u64>().ok()?)
}

fn is_output<'a>(words: &mut impl Iterator<Item = &'a str>) -> bool {
    let first = words.next();
    first == Some(">") || ["c", "s"].contains(&first.unwrap_or("")) && words.next() == Some(">")
}

fn flags_of(letters: &str, has_ack: bool) -> u8 {
    let of = |letter| match letter {
        'S' => tcp_flags::SYN,
        'F' => tcp_flags::FIN,
        'P' => tcp_flags::PSH,
        'R' => tcp_flags::RST,
        'U' => tcp_flags::URG,
        _ => 0,
    };
    letters.chars().map(of).sum::<u8>() | if has_ack { tcp_flags::ACK } else { 0 }
}

fn segment_text(frame: &[u8], own: u32, peers: u32) -> String {
    let total = usize::from(u16::from_be_bytes([frame[LINK_BYTES + 2], frame[LINK_BYTES + 3]]));
    let tcp = &frame[LINK_BYTES + IP_HEADER_BYTES..LINK_BYTES + total];
    let header = Header::read(tcp).expect("a header");
    let len = tcp.len() - usize::from(tcp[12] >> 4) * 4;
    let letters: String = [('S', 2), ('F', 1), ('P', 8), ('R', 4), ('U', 32)]
        .into_iter()
        .filter(|(_, bit)| header.flags & bit != 0)
        .map(|(letter, _)| letter)
        .collect();
    let mut text = if letters.is_empty() { ".".to_owned() } else { letters };
    let numbered = tcp_flags::SYN | tcp_flags::FIN;
    if len > 0 || header.flags & numbered != 0 {
        let from = header.seq.0.wrapping_sub(own);
        let _ = write!(text, " {from}:{}({len})", from.wrapping_add(len as u32));
    }
    if header.has(tcp_flags::ACK) {
        let _ = write!(text, " ack {}", header.ack.0.wrapping_sub(peers));
    }
    let _ = write!(text, " win {}", header.window);
    if header.has(tcp_flags::URG) {
        let _ = write!(text, " urg {}", header.urgent);
    }
    let options = options_text(&header.options, peers);
    if !options.is_empty() {
        let _ = write!(text, " <{options}>");
    }
    text
}

fn options_text(options: &HeaderOptions, peers: u32) -> String {
    let mut words = Vec::new();
    if let Some(bytes) = options.segment_bytes {
        words.push(format!("mss {bytes}"));
    }
    if let Some(shift) = options.window_shift {
        words.push(format!("wscale {shift}"));
    }
    if options.permits_sack {
        words.push("sackOK".to_owned());
    }
    if let Some(Timestamps { value, echo }) = options.timestamps {
        words.push(format!("ts {value} {echo}"));
    }
    if !options.sack.is_empty() {
        words.push("sack".to_owned());
    }
    for (from, to) in options.sack.as_slice() {
        words.push(format!("{}:{}", from.0.wrapping_sub(peers), to.0.wrapping_sub(peers)));
    }
    words.join(" ")
}

/// The blocks in the words of a segment, as `<sack 1025:2049 3073:4097>`.
fn blocks_of(words: &[&str], own: u32) -> SackBlocks {
    let at = words.iter().position(|word| word.trim_start_matches('<') == "sack");
    let blocks = words[at.map_or(words.len(), |at| at + 1)..].iter();
    let number = |text: &str| Seq(own) + text.parse().expect("a number");
    let ends = blocks.filter_map(|word| word.trim_end_matches('>').split_once(':'));
    ends.map(|(from, to)| (number(from), number(to))).collect()
}

/// The timestamps in the words of a segment, as `<ts 7 1>`.
fn timestamps_of(words: &[&str]) -> Option<Timestamps> {
    let at = words.iter().position(|word| word.trim_start_matches('<') == "ts")?;
    let number = |at: usize| words[at].trim_end_matches('>').parse().expect("a number");
    Some(Timestamps { value: number(at + 1), echo: number(at + 2) })
}

/// An Ethernet frame from the second host to the first.
pub(super) fn frame_of(header: &Header, data: &[u8], is_damaged: bool) -> Vec<u8> {
    let options = header.options.write();
    let mut tcp = header.write(TCP_HEADER_BYTES + options.len()).to_vec();
    tcp.extend(options.as_slice());
    tcp.extend(data);
    let [to, from]: [Ipv4Addr; 2] = ADDRESSES;
    let len = tcp.len() as u16;
    let mut sum = Checksum::of_pseudo_header(from.octets(), to.octets(), PROTOCOL_TCP, len);
    sum.add(&tcp);
    tcp[16..18].copy_from_slice(&(sum.finish() ^ u16::from(is_damaged)).to_be_bytes());
    let mut ip = [0; IP_HEADER_BYTES];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&(IP_HEADER_BYTES as u16 + len).to_be_bytes());
    ip[8..10].copy_from_slice(&[60, PROTOCOL_TCP]);
    ip[12..16].copy_from_slice(&from.octets());
    ip[16..].copy_from_slice(&to.octets());
    let sum = checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    let mut frame = vec![0; LINK_BYTES - 2];
    frame.extend([0x08, 0x00]);
    frame.extend(ip);
    frame.extend(tcp);
    frame
}
