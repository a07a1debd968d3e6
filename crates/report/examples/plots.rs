//! Draws every figure of three connections that are made up here: `plots FOLDER`.
//!
//! The connections are a call over loopback that Nagle's algorithm stalls, a bulk transfer whose
//! window opens, and a transfer behind a token bucket with a standing queue, a drop, and a trace
//! that missed records. They are made by rule and a fixed seed, so the figures never change by
//! themselves.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use sockscope_analysis::{ConnectionStore, FlowStore, LossInterval, Passage};
use sockscope_record::{
    Connection, ConnectionId, Direction, Point, Process, Protocol, Record, SegmentHeader,
    SendWindow, Side, marks, tcp_flags,
};
use sockscope_report::plot::{Figure, PlotOptions, draw};

const START_NS: u64 = 1_000_000_000;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("usage: plots FOLDER")?);
    fs::create_dir_all(&folder)?;
    let losses = [LossInterval {
        start_ns: START_NS + 640 * MS,
        end_ns: START_NS + 720 * MS,
        point: Some(Point::InterfaceDequeue),
        count: 137,
        of_datagrams: false,
        is_anchored: false,
    }];
    let traces: [(&str, ConnectionStore, Direction, &[LossInterval]); 3] = [
        ("stalled-call", stalled_calls(12), Direction::FromClient, &[]),
        ("bulk", bulk_over_loopback(), Direction::FromClient, &[]),
        ("limited", behind_a_token_bucket(&losses[0]), Direction::FromServer, &losses),
    ];
    for (name, store, direction, losses) in &traces {
        for figure in Figure::ALL {
            let options = PlotOptions { direction: *direction, losses, ..PlotOptions::default() };
            let path = folder.join(format!("{name}-{}.svg", figure.name()));
            fs::write(&path, draw(figure, store, &options)?)?;
            println!("{}", path.display());
        }
    }
    Ok(())
}

/// Calls of 100 and 300 bytes in two writes, answered by 60 bytes: the second write waits for the
/// delayed acknowledgment of the first.
fn stalled_calls(calls: u64) -> ConnectionStore {
    let mut trace = Trace::new("rpc-client", "rpc-server");
    let mut at_ns = START_NS;
    for call in 0..calls {
        let (asked, answered) = (call * 400, call * 60);
        trace.write(at_ns, Direction::FromClient, asked, 100);
        let first_ns = trace.segment(at_ns + 2 * US, Direction::FromClient, asked, 100, answered);
        trace.read(first_ns + 9 * US, Direction::FromClient, asked, 100);
        trace.write(at_ns + 21 * US, Direction::FromClient, asked + 100, 300);
        // The delayed-ACK timer of Linux, with the jitter of its wheel.
        let ack_ns = first_ns + 40 * MS + trace.jitter(900 * US);
        let acked_ns = trace.segment(ack_ns, Direction::FromServer, answered, 0, asked + 100);
        let rest_ns =
            trace.segment(acked_ns + 3 * US, Direction::FromClient, asked + 100, 300, answered);
        trace.read(rest_ns + 11 * US, Direction::FromClient, asked + 100, 300);
        let answer_ns = rest_ns + 60 * US + trace.jitter(30 * US);
        trace.write(answer_ns, Direction::FromServer, answered, 60);
        let done_ns =
            trace.segment(answer_ns + 2 * US, Direction::FromServer, answered, 60, asked + 400);
        trace.read(done_ns + 8 * US, Direction::FromServer, answered, 60);
        at_ns = done_ns + 150 * US + trace.jitter(60 * US);
    }
    trace.finish()
}

/// 1 MiB over loopback: bursts that double until the receiver's window is full.
fn bulk_over_loopback() -> ConnectionStore {
    const TOTAL: u64 = 1 << 20;
    const SEGMENT: u64 = 8192;
    const WINDOW: u64 = 160 * 1024;
    let mut trace = Trace::new("iperf3", "iperf3");
    trace.write(START_NS, Direction::FromClient, 0, TOTAL as u32);
    let (mut at_ns, mut sent, mut burst) = (START_NS + 5 * US, 0, 2 * SEGMENT);
    while sent < TOTAL {
        let end = (sent + burst).min(TOTAL);
        trace.window(at_ns, Direction::FromClient, sent, WINDOW.min(burst * 2));
        let burst_start = sent;
        let mut last_ns = at_ns;
        while sent < end {
            let len = SEGMENT.min(end - sent);
            last_ns = trace.segment(at_ns, Direction::FromClient, sent, len as u32, 0);
            sent += len;
            at_ns += 9 * US + trace.jitter(5 * US);
        }
        let mut read = burst_start;
        let mut read_ns = last_ns.max(at_ns) + 20 * US;
        while read < end {
            let len = (3 * SEGMENT).min(end - read);
            trace.read(read_ns, Direction::FromClient, read, len as u32);
            read += len;
            read_ns += 12 * US + trace.jitter(8 * US);
        }
        let acked_ns = trace.segment(read_ns, Direction::FromServer, 0, 0, end);
        at_ns = acked_ns + 4 * US;
        burst = (burst * 2).min(WINDOW);
    }
    trace.finish()
}

/// 2 MB at 16 Mbit/s: the interface queue fills and stays full; one segment is dropped and sent
/// again; records of the time in `loss` are missing at its point.
fn behind_a_token_bucket(loss: &LossInterval) -> ConnectionStore {
    const SEGMENT: u64 = 2896;
    const PER_SEGMENT_NS: u64 = SEGMENT * 500;
    const SEGMENTS: u64 = 700;
    const QUEUE: u64 = 45;
    let mut trace = Trace::new("curl", "nginx");
    trace.write(START_NS, Direction::FromServer, 0, (SEGMENTS * SEGMENT) as u32);
    let mut again = None;
    for number in 0..SEGMENTS {
        let offset = number * SEGMENT;
        let leaves_ns = START_NS + MS + number * PER_SEGMENT_NS;
        // Slow start doubles the queued segments; later each departure lets one segment in.
        let ahead = QUEUE.min(8 + number / 2);
        let enters_ns = leaves_ns.saturating_sub(ahead * PER_SEGMENT_NS).max(START_NS + 10 * US);
        let enters_ns = enters_ns + trace.jitter(200 * US);
        if number % 40 == 0 {
            let window = 262_144 + (number * 900);
            trace.window(enters_ns, Direction::FromServer, offset, window);
        }
        let pass = trace.pass(enters_ns, offset, SEGMENT as u32, 0);
        trace.put(Direction::FromServer, Point::SendDequeue, pass);
        let queued = at(enters_ns + 3 * US, pass);
        trace.put(Direction::FromServer, Point::InterfaceEnqueue, queued);
        let left_ns = leaves_ns.max(enters_ns + 4 * US);
        if !(loss.start_ns..=loss.end_ns).contains(&left_ns) {
            let left = at(left_ns, pass);
            trace.put(Direction::FromServer, Point::InterfaceDequeue, left);
        }
        if number == 333 {
            again = Some((left_ns + 60 * MS, offset));
            continue;
        }
        trace.arrive(left_ns + 30 * US, Direction::FromServer, pass);
        if number % 2 == 1 {
            let acked = if again.is_some_and(|(at_ns, _)| left_ns < at_ns) {
                333 * SEGMENT
            } else {
                offset + SEGMENT
            };
            trace.segment(left_ns + 90 * US, Direction::FromClient, 0, 0, acked);
        }
        if number % 4 == 3 {
            let first = (number - 3) * SEGMENT;
            let at_ns = left_ns + 400 * US + trace.jitter(900 * US);
            trace.read(at_ns, Direction::FromServer, first, 4 * SEGMENT as u32);
        }
    }
    if let Some((at_ns, offset)) = again {
        let mut pass = trace.pass(at_ns, offset, SEGMENT as u32, 0);
        pass.marks = marks::RETRANSMITTED;
        for (index, point) in Point::ALL[1..4].iter().enumerate() {
            let at_ns = at_ns + index as u64 * 40 * US;
            trace.put(Direction::FromServer, *point, at(at_ns, pass));
        }
        trace.arrive(at_ns + 200 * US, Direction::FromServer, pass);
    }
    trace.finish()
}

/// A connection's records under construction, in any order of time.
/// `pass` at another time.
fn at(at_ns: u64, mut pass: Passage) -> Passage {
    pass.at_ns = at_ns;
    pass
}

struct Trace {
    store: ConnectionStore,
    seed: u64,
}

impl Trace {
    fn new(client: &str, server: &str) -> Self {
        let id = ConnectionId(1);
        let process = |pid, comm: &str, side| Process::new(pid, comm, side);
        let flow = |direction| FlowStore {
            id: id.flow(direction),
            passages: Default::default(),
            events: Default::default(),
        };
        let connection = Connection {
            id,
            protocol: Protocol::Tcp,
            client: ([127, 0, 0, 1], 41_234).into(),
            server: ([127, 0, 0, 1], 8_000).into(),
            opened_ns: START_NS,
            closed_ns: None,
            preexisting: false,
            both_ends_here: true,
            processes: vec![
                process(4711, client, Side::Client),
                process(4700, server, Side::Server),
            ],
            names: None,
            mark: None,
            elsewhere: None,
        };
        let flows = [flow(Direction::FromClient), flow(Direction::FromServer)];
        Self { store: ConnectionStore { connection, flows, window: None }, seed: 7 }
    }

    /// A number below `below`, by Knuth's multiplicative generator (MMIX).
    fn jitter(&mut self, below: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn pass(&self, at_ns: u64, offset: u64, len: u32, acknowledged: u64) -> Passage {
        let segment = Record { at_ns, offset, len, tcp_flags: tcp_flags::ACK, ..Record::default() };
        let header = SegmentHeader { acknowledged: Some(acknowledged), window_bytes: 65_536 };
        Passage::of(&segment.with_segment_header(header)).expect("a record of point 1")
    }

    fn put(&mut self, direction: Direction, point: Point, mut pass: Passage) {
        pass.point = point;
        self.store.flows[direction as usize].passages[point.index()].push(pass);
    }

    fn write(&mut self, at_ns: u64, direction: Direction, offset: u64, len: u32) {
        let pass = self.pass(at_ns, offset, len, 0);
        self.put(direction, Point::SendEnqueue, pass);
    }

    fn read(&mut self, at_ns: u64, direction: Direction, offset: u64, len: u32) {
        let pass = self.pass(at_ns, offset, len, 0);
        self.put(direction, Point::ReceiveDequeue, pass);
    }

    /// A segment that meets no queue, from point 2 to point 7; returns the time of its arrival.
    fn segment(
        &mut self,
        at_ns: u64,
        direction: Direction,
        offset: u64,
        len: u32,
        acknowledged: u64,
    ) -> u64 {
        let mut pass = self.pass(at_ns, offset, len, acknowledged);
        if len > 0 {
            self.put(direction, Point::SendDequeue, pass);
        }
        for point in [Point::InterfaceEnqueue, Point::InterfaceDequeue] {
            pass.at_ns += 700 + self.jitter(900);
            self.put(direction, point, pass);
        }
        self.arrive(pass.at_ns + 1_500, direction, pass)
    }

    /// From point 5 to point 7, starting at `at_ns`.
    fn arrive(&mut self, at_ns: u64, direction: Direction, mut pass: Passage) -> u64 {
        pass.at_ns = at_ns;
        for point in [Point::InputEnqueue, Point::InputDequeue, Point::ReceiveEnqueue] {
            if point != Point::ReceiveEnqueue || pass.len > 0 {
                self.put(direction, point, pass);
            }
            pass.at_ns += 600 + self.jitter(800);
        }
        pass.at_ns
    }

    fn window(&mut self, at_ns: u64, direction: Direction, offset: u64, window_bytes: u64) {
        let flow = &mut self.store.flows[direction as usize];
        let noted = Record { at_ns, offset, flow: flow.id, ..Record::default() };
        let window = SendWindow { bytes: window_bytes, segment_bytes: 0 };
        flow.events.push(noted.with_send_window(window));
    }

    fn finish(mut self) -> ConnectionStore {
        for flow in &mut self.store.flows {
            flow.events.sort_by_time();
            flow.passages.iter_mut().for_each(|passes| passes.sort_by_key(|pass| pass.at_ns));
        }
        self.store
    }
}
