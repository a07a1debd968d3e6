//! The socket calls of the programs of one connection: writes, reads, and the time between them.
//!
//! A side is a sequence of steps. A write that follows a read of the same thread depends on that read; without a read
//! before it, it depends on the write before it. The time from the end of the step before to the start of a write is the
//! program's own: it thinks. So is the time to a read that was not woken by data, as the data lay there or the program
//! was elsewhere. A read that was woken waited, and the program did not think.
//!
//! The rule is ambiguous where another thread may have handed the work over, and where the thread used another
//! connection in between. Only calls that moved bytes are steps.
//!
//! After a wait the caches and the translation buffers of the CPU have to be filled again, and the time to the next call
//! is longer. This is CPU time: one piece of Python took 35 µs of it after a wait of 40 ms, and 2 µs without one. A step
//! therefore says whether a wait went before it: see [`Step::warm_think_ns`].

use std::collections::HashMap;
use std::fmt;

use sockscope_record::{Kind, Point, Protocol, Record, Side};

use crate::send_hold::{NODELAY, is_of_option, is_option_on};
use crate::{ConnectionStore, FlowStore, Passage};

/// After a wait of this length others had the CPU, or it was idle: its caches have other data.
pub const LONG_WAIT_NS: u64 = 1_000_000;

/// The program's code is slower by this at most until its caches are filled again. Calls of Python programs were slower
/// by 35 and 68 µs, those of its HTTP library by 142 and 180 µs.
pub const REFILL_MAX_NS: u64 = 200_000;

/// The time without a wait is known where one write in so many has none before it.
const WARM_WRITES_MIN: usize = 10;

/// A program that took longer than this before a call did something else than prepare it.
const WARM_THINK_MAX_NS: u64 = 1_000_000;

/// Level and number of the options `SO_SNDBUF` and `SO_RCVBUF`, as in a record.
const SEND_BUFFER: (u16, u16) = (1, 7);
const RECEIVE_BUFFER: (u16, u16) = (1, 8);

/// Calls of the two programs of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// TCP or UDP. A call of UDP moves one datagram.
    pub protocol: Protocol,
    /// The client, then the server.
    pub sides: [Activity; 2],
}

/// Calls of one side.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Activity {
    /// One sequence of steps, or two where some threads only read and others only write: first the reads.
    pub sequences: Vec<Vec<Step>>,
    /// Number of writes.
    pub writes: u64,
    /// Of these, those for which the rule of dependencies is not ambiguous.
    pub certain_writes: u64,
    /// The largest read, bytes.
    pub read_buffer_bytes: u64,
    /// No read left bytes behind that lay in the receive queue: the program's buffer may be larger.
    pub read_buffer_is_lower_bound: bool,
    /// The program set `TCP_NODELAY`.
    pub no_delay: bool,
    /// The last value of `SO_SNDBUF` that the program set, bytes.
    pub send_buffer_bytes: Option<u64>,
    /// The last value of `SO_RCVBUF` that the program set, bytes.
    pub receive_buffer_bytes: Option<u64>,
    /// Median time that the program thinks before a write without a wait; `None` where the trace has no such time.
    pub warm_think_ns: Option<u64>,
}

/// One call that moved bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Write or read.
    pub action: Action,
    /// Bytes that it took or returned.
    pub bytes: u64,
    /// Time that the program spent before it, nanoseconds.
    pub think_ns: u64,
    /// The program waited for [`LONG_WAIT_NS`] or longer directly before that.
    pub after_wait: bool,
}

impl Step {
    /// The think time where no wait goes before. The trace has it where none went before. Else it is less, by the
    /// filling of the caches: by [`REFILL_MAX_NS`] at most, and not below `warm_ns`, the program's own time without a wait.
    pub fn warm_think_ns(&self, warm_ns: Option<u64>) -> u64 {
        let Some(warm_ns) = warm_ns.filter(|_| self.after_wait) else { return self.think_ns };
        self.think_ns.saturating_sub(REFILL_MAX_NS).max(self.think_ns.min(warm_ns))
    }
}

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A write call.
    Write,
    /// A read call.
    Read,
}

/// Why the steps of a connection are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPattern {
    /// No call was seen returning: it was recorded without `--calls`.
    NoCalls,
    /// Programs of the connection moved no byte.
    NoBytes,
    /// The calls of this side were not recorded: it is on another host, or no program has it.
    UnseenSide(Side),
    /// Some calls of this side are not in the trace: records were missed, or it reads by `splice`.
    MissedCalls(Side),
}

impl fmt::Display for NoPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCalls => {
                write!(f, "no call was recorded when it returned: record with --calls")
            }
            Self::NoBytes => write!(f, "no program wrote or read anything"),
            Self::UnseenSide(side) => {
                write!(
                    f,
                    "the calls of the {} were not recorded: it must be on this host",
                    side.name()
                )
            }
            Self::MissedCalls(side) => {
                write!(f, "some calls of the {} are not in the trace", side.name())
            }
        }
    }
}

/// The steps of the programs of the connection with this index.
///
/// # Errors
///
/// When they are not known to be all.
pub fn pattern(stores: &[ConnectionStore], index: usize) -> Result<Pattern, NoPattern> {
    let store = &stores[index];
    let protocol = store.connection.protocol;
    let returns = [Kind::WriteReturn, Kind::ReadReturn];
    if protocol == Protocol::Tcp && !store.flows.iter().any(|flow| flow.events.has(&returns)) {
        return Err(NoPattern::NoCalls);
    }
    let elsewhere = elsewhere(stores, index);
    let [client, server] = [Side::Client, Side::Server].map(|side| calls(store, side));
    let (client, server) = (client?, server?);
    if client.is_empty() && server.is_empty() {
        return Err(NoPattern::NoBytes);
    }
    for (side, own, other) in [(Side::Client, &client, &server), (Side::Server, &server, &client)] {
        // What one side read the other one wrote.
        if own.is_empty() && !other.is_empty() {
            return Err(NoPattern::UnseenSide(side));
        }
    }
    let sides = [(Side::Client, client), (Side::Server, server)];
    let mut sides = sides.map(|(side, calls)| activity(store, side, &calls, &elsewhere));
    if is_one_program(store) {
        let warm_ns = sides.each_ref().map(|side| side.warm_think_ns);
        sides[0].warm_think_ns = warm_ns[0].or(warm_ns[1]);
        sides[1].warm_think_ns = warm_ns[1].or(warm_ns[0]);
    }
    Ok(Pattern { protocol, sides })
}

/// Whether the same program is at both ends, by its name.
fn is_one_program(store: &ConnectionStore) -> bool {
    let name = |side| {
        let first = store.connection.processes.iter().find(|process| process.side == side);
        first.map(|process| process.comm.as_str())
    };
    name(Side::Client).is_some() && name(Side::Client) == name(Side::Server)
}

/// A call with its times; nanoseconds of the trace's clock.
#[derive(Debug, Clone, Copy)]
struct Call {
    action: Action,
    thread: u32,
    /// A write began; a read returned, as its begin is not recorded.
    start_ns: u64,
    end_ns: u64,
    offset: u64,
    bytes: u64,
}

/// The calls of one side that moved bytes, by start.
fn calls(store: &ConnectionStore, side: Side) -> Result<Vec<Call>, NoPattern> {
    let (sent, received) = (store.flow(side.sends()), store.flow(side.other().sends()));
    let mut calls = match store.connection.protocol {
        Protocol::Udp => {
            let mut calls = datagrams(sent, Point::SendEnqueue, Action::Write);
            calls.extend(datagrams(received, Point::ReceiveDequeue, Action::Read));
            calls
        }
        Protocol::Tcp => {
            let mut calls = writes(sent);
            calls.extend(reads(received));
            calls
        }
    };
    for action in [Action::Write, Action::Read] {
        let mut own: Vec<_> = calls.iter().filter(|call| call.action == action).collect();
        own.sort_by_key(|call| call.offset);
        let touch = |pair: &[&Call]| pair[0].offset + pair[0].bytes == pair[1].offset;
        let begins =
            own.first().is_none_or(|first| first.offset == 0 || store.connection.preexisting);
        if !begins || !own.windows(2).all(touch) {
            return Err(NoPattern::MissedCalls(side));
        }
    }
    calls.sort_by_key(|call| (call.start_ns, call.end_ns));
    Ok(calls)
}

/// A call of a datagram, which has no record of its return: it takes no time.
fn datagrams(flow: &FlowStore, point: Point, action: Action) -> Vec<Call> {
    let passes = flow.at(point).iter().filter(|pass| pass.len > 0);
    let call = |pass: &Passage| Call {
        action,
        thread: pass.thread,
        start_ns: pass.at_ns,
        end_ns: pass.at_ns,
        offset: pass.offset,
        bytes: pass.len.into(),
    };
    passes.map(call).collect()
}

fn writes(flow: &FlowStore) -> Vec<Call> {
    let mut begun: HashMap<u32, u64> = HashMap::new();
    let mut writes = Vec::new();
    for event in &flow.events {
        match event.kind {
            // A call that waited for room may be announced again.
            Kind::WriteCall => drop(begun.entry(event.thread).or_insert(event.at_ns)),
            Kind::WriteReturn => {
                let start_ns = begun.remove(&event.thread).unwrap_or(event.at_ns);
                writes.extend(call(event, Action::Write, start_ns));
            }
            _ => {}
        }
    }
    writes
}

fn reads(flow: &FlowStore) -> impl Iterator<Item = Call> {
    flow.events_of(Kind::ReadReturn).filter_map(|event| call(event, Action::Read, event.at_ns))
}

fn call(event: &Record, action: Action, start_ns: u64) -> Option<Call> {
    let Record { at_ns: end_ns, offset, len, thread, .. } = *event;
    let bytes = u64::from(len);
    (bytes > 0).then_some(Call { action, thread, start_ns, end_ns, offset, bytes })
}

/// When each thread moved bytes of other connections.
fn elsewhere(stores: &[ConnectionStore], index: usize) -> HashMap<u32, Vec<u64>> {
    let mut times: HashMap<u32, Vec<u64>> = HashMap::new();
    let others = stores.iter().enumerate().filter(|(other, _)| *other != index);
    for flow in others.flat_map(|(_, store)| &store.flows) {
        for event in flow.events_with(&[Kind::WriteReturn, Kind::ReadReturn]) {
            if matches!(event.kind, Kind::WriteReturn | Kind::ReadReturn) && event.len > 0 {
                times.entry(event.thread).or_default().push(event.at_ns);
            }
        }
    }
    times.values_mut().for_each(|times| times.sort_unstable());
    times
}

fn activity(
    store: &ConnectionStore,
    side: Side,
    calls: &[Call],
    elsewhere: &HashMap<u32, Vec<u64>>,
) -> Activity {
    let incoming = store.flow(side.other().sends());
    let sequences = sequences(calls);
    let mut activity = Activity::default();
    let first_ns = match store.connection.preexisting {
        true => calls.first().map_or(0, |call| call.start_ns),
        false => store.connection.opened_ns,
    };
    let (mut largest, mut largest_cut) = (0, 0);
    let mut warm_ns = Vec::new();
    for sequence in &sequences {
        let mut steps = Vec::new();
        let mut before: Option<&Call> = None;
        let mut after_wait = false;
        for call in sequence {
            let since_ns = before.map_or(first_ns, |before| before.end_ns);
            let is_woken = call.action == Action::Read
                && (before.is_none() || was_woken(incoming, call, since_ns));
            let think_ns = if is_woken { 0 } else { call.start_ns.saturating_sub(since_ns) };
            let is_write = call.action == Action::Write;
            if is_write && before.is_some() && !after_wait && think_ns < WARM_THINK_MAX_NS {
                warm_ns.push(think_ns);
            }
            steps.push(Step { action: call.action, bytes: call.bytes, think_ns, after_wait });
            after_wait = is_woken && call.end_ns.saturating_sub(since_ns) >= LONG_WAIT_NS;
            match call.action {
                Action::Write => {
                    activity.writes += 1;
                    let is_handed = match sequences.len() {
                        1 => before.is_some_and(|before| before.thread != call.thread),
                        _ => sequences[0].iter().any(|read| is_within(read.end_ns, since_ns, call)),
                    };
                    let times = elsewhere.get(&call.thread).map_or(&[][..], Vec::as_slice);
                    let next = times.partition_point(|at_ns| *at_ns <= since_ns);
                    let is_elsewhere = times.get(next).is_some_and(|at_ns| *at_ns < call.start_ns);
                    activity.certain_writes += u64::from(!is_handed && !is_elsewhere);
                }
                Action::Read => {
                    largest = largest.max(call.bytes);
                    if arrived(incoming, since_ns) > call.offset + call.bytes {
                        largest_cut = largest_cut.max(call.bytes);
                    }
                }
            }
            before = Some(call);
        }
        activity.sequences.push(steps);
    }
    // A program may read by several sizes: a shorter read that left bytes says nothing of the largest one.
    activity.read_buffer_is_lower_bound = largest_cut < largest;
    activity.read_buffer_bytes = largest;
    warm_ns.sort_unstable();
    if warm_ns.len() * WARM_WRITES_MIN >= activity.writes as usize {
        activity.warm_think_ns = warm_ns.get(warm_ns.len() / 2).copied();
    }
    let last = |name| {
        let mut options = store.flow(side.sends()).events_of(Kind::SocketOption);
        options.rfind(|event| is_of_option(event, name))
    };
    activity.no_delay = last(NODELAY).is_some_and(is_option_on);
    let asked = |name| last(name).and_then(Record::socket_option).map(|it| u64::from(it.asked));
    activity.send_buffer_bytes = asked(SEND_BUFFER);
    activity.receive_buffer_bytes = asked(RECEIVE_BUFFER);
    activity
}

fn is_within(at_ns: u64, since_ns: u64, call: &Call) -> bool {
    since_ns < at_ns && at_ns < call.start_ns
}

/// All calls, or the reads and the writes apart where no thread does both.
fn sequences(calls: &[Call]) -> Vec<Vec<Call>> {
    let of = |action| calls.iter().filter(move |call| call.action == action);
    let writers: Vec<u32> = of(Action::Write).map(|call| call.thread).collect();
    let is_apart = !of(Action::Read).any(|read| writers.contains(&read.thread));
    match is_apart && !writers.is_empty() && of(Action::Read).next().is_some() {
        true => [Action::Read, Action::Write].map(|action| of(action).copied().collect()).into(),
        false => vec![calls.to_vec()],
    }
}

/// Whether data woke the reader after `since_ns`.
fn was_woken(incoming: &FlowStore, read: &Call, since_ns: u64) -> bool {
    let events = incoming.events_with(&[Kind::Wakeup]);
    let first = events.partition_point(|event| event.at_ns <= since_ns);
    let later = events[first..].iter().take_while(|event| event.at_ns <= read.end_ns);
    later.into_iter().any(|event| event.kind == Kind::Wakeup && event.thread == read.thread)
}

/// The position up to which data lay in the receive queue or was read, at this time.
fn arrived(incoming: &FlowStore, at_ns: u64) -> u64 {
    let passes = incoming.at(Point::ReceiveEnqueue);
    let count = passes.partition_point(|pass| pass.at_ns <= at_ns);
    passes[..count].last().map_or(0, |pass| pass.end())
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Connection, SocketOption};

    use super::*;
    use crate::testing;

    /// The steps of each side, as `w100/7` for a write of 100 bytes after 7 µs, sequences apart by `;`.
    fn found(text: &str) -> Result<[String; 2], NoPattern> {
        let pattern = pattern(&[testing::store(text)], 0)?;
        let step = |step: &Step| {
            let letter = if step.action == Action::Write { 'w' } else { 'r' };
            format!("{letter}{}/{}", step.bytes, step.think_ns / 1000)
        };
        let sequence = |steps: &Vec<Step>| steps.iter().map(step).collect::<Vec<_>>().join(" ");
        let side =
            |side: &Activity| side.sequences.iter().map(sequence).collect::<Vec<_>>().join("; ");
        Ok(pattern.sides.each_ref().map(side))
    }

    /// A call of 100 bytes and its answer of 50, whose reader thinks for 30 µs.
    const CALL: &str =
        "10us write +100 thread=1 | 10us 1-7 +100 | 12us write-return +100 thread=1 |
        11us wakeup thread=2 | 20us 8 +100 thread=2 | 20us read-return +100 thread=2 |
        50us <write +50 thread=2 | 50us <1-7 +50 | 51us <write-return +50 thread=2 |
        51us <wakeup thread=1 | 60us <8 +50 thread=1 | 60us <read-return +50 thread=1";

    #[test]
    fn a_call_is_a_write_and_a_read_at_each_end() {
        assert_eq!(found(CALL).unwrap(), ["w100/10 r50/0", "r100/0 w50/30"]);
    }

    #[test]
    fn a_reader_that_was_not_woken_was_elsewhere() {
        let slow = "1us write +300 thread=1 | 1us 1-7 +300 | 2us write-return +300 thread=1 |
            10us 8 +100 thread=2 | 10us read-return +100 thread=2 |
            90us 8 +200 thread=2 | 90us read-return +200 thread=2";
        assert_eq!(found(slow).unwrap(), ["w300/1", "r100/0 r200/80"]);
    }

    #[test]
    fn threads_that_only_read_or_only_write_have_sequences_of_their_own() {
        let apart = CALL.replace(
            "60us <8 +50 thread=1 | 60us <read-return +50 thread=1",
            "60us <8 +50 thread=9 | 60us <read-return +50 thread=9",
        );
        assert_eq!(found(&apart).unwrap()[0], "r50/0; w100/10");
    }

    #[test]
    fn a_write_that_another_thread_may_have_handed_over_is_not_certain() {
        let certain = |text: &str| {
            let pattern = pattern(&[testing::store(text)], 0).unwrap();
            pattern.sides.map(|side| (side.certain_writes, side.writes))
        };
        assert_eq!(certain(CALL), [(1, 1), (1, 1)]);
        let handed = CALL.replace("50us <write +50 thread=2", "50us <write +50 thread=3");
        let handed = handed.replace("<write-return +50 thread=2", "<write-return +50 thread=3");
        assert_eq!(certain(&handed), [(1, 1), (0, 1)]);
    }

    #[test]
    fn a_write_that_may_wait_for_another_connection_is_not_certain() {
        let upstream = "30us write +9 thread=2 | 31us write-return +9 thread=2 | 40us <read-return +9 thread=2";
        let stores = [testing::store(CALL), testing::store(upstream)];
        let pattern = pattern(&stores, 0).unwrap();
        assert_eq!(pattern.sides.map(|side| side.certain_writes), [1, 0]);
    }

    #[test]
    fn a_buffer_is_known_where_a_read_left_bytes() {
        let buffers = |text: &str| {
            let pattern = pattern(&[testing::store(text)], 0).unwrap();
            let server = &pattern.sides[1];
            (server.read_buffer_bytes, server.read_buffer_is_lower_bound)
        };
        assert_eq!(buffers(CALL), (100, true));
        let cut = "1us write +300 thread=1 | 1us 1-7 +300 | 2us write-return +300 thread=1 |
            10us 8 +100 thread=2 | 10us read-return +100 thread=2 | 20us 8 +100 thread=2 |
            20us read-return +100 thread=2 | 30us 8 +100 thread=2 | 30us read-return +100 thread=2";
        assert_eq!(buffers(cut), (100, false));
    }

    #[test]
    fn a_partial_write_and_one_that_failed_are_what_they_took() {
        let text = "1us write +300 thread=1 | 1us 1-8 +200 | 2us write-return +200 thread=1 |
            3us write at=200 len=100 thread=1 | 4us write-return at=200 len=0 code=11 thread=1 |
            9us write at=200 len=100 thread=1 | 9us 1-8 +100 | 9us write-return at=200 len=100 thread=1 |
            10us read-return +300 thread=2";
        assert_eq!(found(text).unwrap(), ["w200/1 w100/7", "r300/0"]);
    }

    /// Calls as [`CALL`], one after the other, whose reader waits for so many milliseconds each time.
    fn calls(count: u64, every_ms: u64) -> String {
        let calls = (0..count).map(|number| {
            let at = number * every_ms * 1000;
            format!(
                "{}us write +100 thread=1 | {0}us 1-7 +100 | {}us write-return +100 thread=1 |
                {0}us wakeup thread=2 | {}us 8 +100 thread=2 | {2}us read-return +100 thread=2 |
                {}us <write +50 thread=2 | {3}us <1-7 +50 | {}us <write-return +50 thread=2 |
                {4}us <wakeup thread=1 | {}us <8 +50 thread=1 | {5}us <read-return +50 thread=1",
                at + 10,
                at + 12,
                at + 20,
                at + 50,
                at + 51,
                at + 60
            )
        });
        calls.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_step_says_that_a_long_wait_went_before_it() {
        let pattern = pattern(&[testing::store(&calls(3, 5))], 0).unwrap();
        let [client, server] = pattern.sides.each_ref().map(|side| {
            let writes = side.sequences[0].iter().filter(|step| step.action == Action::Write);
            writes.map(|step| step.after_wait).collect::<Vec<_>>()
        });
        // The client thinks for 5 ms, and waits for 50 µs.
        assert_eq!((client, server), (vec![false; 3], vec![false, true, true]));
    }

    #[test]
    fn without_a_wait_a_program_thinks_for_less_but_not_below_its_own_time() {
        let step =
            |think_ns, after_wait| Step { action: Action::Write, bytes: 1, think_ns, after_wait };
        let warm = |step: Step| step.warm_think_ns(Some(3_000));
        assert_eq!(warm(step(70_000, true)), 3_000);
        assert_eq!(warm(step(2_000, true)), 2_000);
        assert_eq!(warm(step(REFILL_MAX_NS + 500_000, true)), 500_000);
        assert_eq!(warm(step(70_000, false)), 70_000);
        assert_eq!(step(70_000, true).warm_think_ns(None), 70_000);
    }

    #[test]
    fn datagrams_need_no_returns() {
        let text = "10us 1-7 +100 thread=1 | 11us wakeup thread=2 | 20us 8 +100 thread=2 |
            50us <1-7 +50 thread=2 | 51us <wakeup thread=1 | 60us <8 +50 thread=1";
        let connection = Connection { protocol: Protocol::Udp, ..testing::connection(1) };
        let pattern = pattern(&[testing::store_of(connection, text)], 0).unwrap();
        assert_eq!(pattern.protocol, Protocol::Udp);
        let bytes = pattern.sides.map(|side| {
            side.sequences[0].iter().map(|step| (step.action, step.bytes)).collect::<Vec<_>>()
        });
        let expected = [
            [(Action::Write, 100), (Action::Read, 50)],
            [(Action::Read, 100), (Action::Write, 50)],
        ];
        assert_eq!(bytes, expected.map(Vec::from));
    }

    #[test]
    fn sizes_of_buffers_are_what_the_program_asked_for() {
        let send_buffer = SocketOption { name: SEND_BUFFER, asked: 4096, granted: 8192 };
        let mut store = testing::store(CALL);
        let record = store.flows[0].events[0].with_socket_option(send_buffer);
        store.flows[0].events.push(record);
        let pattern = pattern(&[store], 0).unwrap();
        let [client, server] = pattern.sides;
        assert_eq!((client.send_buffer_bytes, client.receive_buffer_bytes), (Some(4096), None));
        assert_eq!(server.send_buffer_bytes, None);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let without =
            "10us write +100 thread=1 | 10us 1-8 +100 | 50us <write +50 thread=2 | 50us <1-8 +50";
        assert_eq!(found(without), Err(NoPattern::NoCalls));
        assert!(NoPattern::NoCalls.to_string().contains("record with --calls"));
        let one_end = "1us write +9 thread=1 | 2us write-return +9 thread=1";
        assert_eq!(found(one_end), Err(NoPattern::UnseenSide(Side::Server)));
        let gap = "1us write +9 thread=1 | 2us write-return +9 thread=1 | 3us write-return 20..30 thread=1 |
            3us read-return +30 thread=2";
        assert_eq!(found(gap), Err(NoPattern::MissedCalls(Side::Client)));
        let failed = "1us write +9 thread=1 | 2us write-return len=0 code=11 thread=1";
        assert_eq!(found(failed), Err(NoPattern::NoBytes));
    }
}
