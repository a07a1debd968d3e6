//! The steps of the programs of connections, from their calls: see [`Pattern`].

use std::collections::{HashMap, HashSet};

use sockscope_record::{ConnectionId, Kind, Protocol, Record, Side};

use crate::pattern::{Action, Activity, LONG_WAIT_NS, NoPattern, Pattern, Step, median};
use crate::pattern_calls::{Call, arrived, calls, elsewhere, woken_ns};
use crate::pattern_cpus::CallCpus;
use crate::send_hold::{NODELAY, is_of_option, is_option_on};
use crate::{ConnectionStore, FlowStore};

/// The time without a wait is known where one write in so many has none before it.
const WARM_WRITES_MIN: usize = 10;

/// A program that took longer than this before a call did something else than prepare it.
const WARM_THINK_MAX_NS: u64 = 1_000_000;

/// A program answers what it finds where nine of ten reads have an answer directly after them, and one of ten ended
/// within what the other side wrote without a read between.
const FOUND_SHARE: usize = 10;

/// The usual time before a step of a kind is known from so many of them.
const USUAL_STEPS_MIN: usize = 9;

/// One of so many reads after a wakeup got its CPU at once.
const QUICK_READS: usize = 10;

/// Level and number of the options `SO_SNDBUF` and `SO_RCVBUF`, as in a record.
const SEND_BUFFER: (u16, u16) = (1, 7);
const RECEIVE_BUFFER: (u16, u16) = (1, 8);

/// The steps of the programs of the chosen connections, which are indices: their numbers in the pattern are their
/// places in the list. `cpus` has the records of these connections.
///
/// # Errors
///
/// When they are not known to be all, with the connection of which they are not.
pub fn pattern(
    stores: &[ConnectionStore],
    chosen: &[usize],
    cpus: &CallCpus,
) -> Result<Pattern, (ConnectionId, NoPattern)> {
    let chosen_stores = || chosen.iter().map(|index| &stores[*index]);
    let refuse = |store: &ConnectionStore, reason| (store.connection.id, reason);
    let Some(first) = chosen_stores().next() else {
        return Err((ConnectionId(0), NoPattern::NoBytes));
    };
    let protocol = first.connection.protocol;
    let returns = [Kind::WriteReturn, Kind::ReadReturn];
    let mut flows = chosen_stores().flat_map(|store| &store.flows);
    if protocol == Protocol::Tcp && !flows.any(|flow| flow.events.has(&returns)) {
        return Err(refuse(first, NoPattern::NoCalls));
    }
    let mut of_sides = [Vec::new(), Vec::new()];
    for (store, number) in chosen_stores().zip(0..) {
        let made = [Side::Client, Side::Server].map(|side| calls(store, number, side));
        let [client, server] = made.map(|calls| calls.map_err(|reason| refuse(store, reason)));
        let (client, server) = (client?, server?);
        for (side, own, other) in
            [(Side::Client, &client, &server), (Side::Server, &server, &client)]
        {
            // What one side read the other one wrote.
            if own.is_empty() && !other.is_empty() {
                return Err(refuse(store, NoPattern::UnseenSide(side)));
            }
        }
        of_sides[0].extend(client);
        of_sides[1].extend(server);
    }
    if of_sides.iter().all(Vec::is_empty) {
        return Err(refuse(first, NoPattern::NoBytes));
    }
    of_sides.iter_mut().for_each(|calls| calls.sort_by_key(|call| (call.start_ns, call.end_ns)));
    let elsewhere = elsewhere(stores, chosen);
    let finder = Finder { stores: chosen_stores().collect(), elsewhere, cpus };
    let mut sides = [Side::Client, Side::Server].map(|side| finder.activity(side, &of_sides));
    if is_one_program(first) {
        let warm_ns = sides.each_ref().map(|side| side.warm_think_ns);
        sides[0].warm_think_ns = warm_ns[0].or(warm_ns[1]);
        sides[1].warm_think_ns = warm_ns[1].or(warm_ns[0]);
    }
    Ok(Pattern { protocol, connections: finder.stores.len() as u32, sides })
}

/// An interrupted think time has the end of the other program's call and the switch between the two in it. They are in
/// each run again. It is no longer here than the usual time of a step of its kind.
fn without_switches(sequences: &mut [Vec<Step>], interrupted: &[(usize, usize)]) {
    let kind = |steps: &[Step], at: usize| {
        at.checked_sub(1).map(|before| (steps[before].action, steps[at].action))
    };
    let is_interrupted: HashSet<&(usize, usize)> = interrupted.iter().collect();
    let mut times: HashMap<_, Vec<u64>> = HashMap::new();
    for (sequence, steps) in sequences.iter().enumerate() {
        for (at, step) in steps.iter().enumerate().filter(|(_, step)| !step.woken) {
            if !is_interrupted.contains(&(sequence, at)) {
                times.entry(kind(steps, at)).or_default().push(step.think_ns);
            }
        }
    }
    let usual_ns: HashMap<_, u64> = times
        .into_iter()
        .filter(|(_, times)| times.len() >= USUAL_STEPS_MIN)
        .filter_map(|(kind, times)| Some((kind, median(times)?)))
        .collect();
    for (sequence, at) in interrupted {
        let steps = &mut sequences[*sequence];
        let usual_ns = usual_ns.get(&kind(steps, *at)).copied().unwrap_or(u64::MAX);
        // After a wait a step takes longer, and no usual time is known.
        let step = &mut steps[*at];
        if !step.after_wait {
            step.think_ns = step.think_ns.min(usual_ns);
        }
    }
}

/// Whether the same program is at both ends, by its name.
fn is_one_program(store: &ConnectionStore) -> bool {
    let name = |side| {
        let first = store.connection.processes.iter().find(|process| process.side == side);
        first.map(|process| process.comm.as_str())
    };
    name(Side::Client).is_some() && name(Side::Client) == name(Side::Server)
}

/// Finds the steps of a side in its calls.
struct Finder<'a> {
    /// The connections, by their numbers in the pattern.
    stores: Vec<&'a ConnectionStore>,
    /// When each thread moved bytes of other connections.
    elsewhere: HashMap<u32, Vec<u64>>,
    cpus: &'a CallCpus,
}

impl Finder<'_> {
    fn activity(&self, side: Side, of_sides: &[Vec<Call>; 2]) -> Activity {
        let own = side as usize;
        let calls = &of_sides[own];
        let sequences = sequences(calls);
        let mut activity = Activity::default();
        let first_ns = calls.first().map_or(0, |call| self.opened_ns(call));
        let (mut largest, mut largest_cut, mut smallest_cut) = (0, 0, u64::MAX);
        let mut warm_ns = Vec::new();
        let mut woken_reads_ns = Vec::new();
        let mut interrupted = Vec::new();
        for sequence in &sequences {
            let mut steps = Vec::new();
            let mut before: Option<&Call> = None;
            let mut after_wait = false;
            for call in sequence {
                let incoming = self.incoming(call.connection, side);
                let since_ns = before.map_or(first_ns, |before| before.end_ns);
                let is_read = call.action == Action::Read;
                let woken = woken_ns(incoming, call, since_ns).filter(|_| is_read);
                woken_reads_ns.extend(woken.map(|at_ns| call.start_ns.saturating_sub(at_ns)));
                let is_woken = is_read && (before.is_none() || woken.is_some());
                let (think_ns, is_interrupted) = match is_woken {
                    true => (self.before_wait_ns(before, call, since_ns), false),
                    false => self.own_ns(before, call, since_ns),
                };
                if is_interrupted {
                    interrupted.push((activity.sequences.len(), steps.len()));
                }
                let is_write = call.action == Action::Write;
                if is_write && before.is_some() && !after_wait && think_ns < WARM_THINK_MAX_NS {
                    warm_ns.push(think_ns);
                }
                let Call { action, connection, bytes, .. } = *call;
                steps.push(Step {
                    action,
                    connection,
                    bytes,
                    think_ns,
                    after_wait,
                    warm_ns: None,
                    woken: is_woken,
                });
                after_wait = is_woken && call.end_ns.saturating_sub(since_ns) >= LONG_WAIT_NS;
                match call.action {
                    Action::Write => {
                        activity.writes += 1;
                        let is_certain = !is_handed(&sequences, sequence, before, call)
                            && !self.is_elsewhere(call, since_ns);
                        activity.certain_writes += u64::from(is_certain);
                    }
                    Action::Read => {
                        largest = largest.max(call.bytes);
                        if arrived(incoming, since_ns) > call.end() {
                            largest_cut = largest_cut.max(call.bytes);
                            smallest_cut = smallest_cut.min(call.bytes);
                        }
                    }
                }
                before = Some(call);
            }
            activity.sequences.push(steps);
        }
        without_switches(&mut activity.sequences, &interrupted);
        // A program may read by several sizes: a shorter read that left bytes says nothing of the largest one.
        activity.read_buffer_is_lower_bound = largest_cut < largest;
        activity.read_buffer_bytes = largest;
        activity.short_reads_take_all = smallest_cut >= largest;
        activity.takes_all =
            largest_cut == 0 && self.stores[0].connection.protocol == Protocol::Tcp;
        activity.answers_as_found = activity.takes_all
            && self.stores.len() == 1
            && sequences.len() == 1
            && answers_as_found(calls, &of_sides[1 - own]);
        if warm_ns.len() * WARM_WRITES_MIN >= activity.writes as usize {
            activity.warm_think_ns = median(warm_ns);
        }
        activity.woken_read_ns = quick(woken_reads_ns);
        activity.refill_ns = activity.refill_by(&activity);
        let warm_times = activity.warm_times();
        activity.take_warm_times(&warm_times);
        self.set_options(side, &mut activity);
        activity
    }

    /// The time before a call in which the program computed or slept, and whether it was interrupted. Where the other
    /// program had the CPU in it, it is the time since. A wait for the CPU is no part of it, for any other thread. A
    /// program that takes longer than [`WARM_THINK_MAX_NS`] may sleep, and needs no CPU.
    fn own_ns(&self, before: Option<&Call>, call: &Call, since_ns: u64) -> (u64, bool) {
        let all_ns = call.start_ns.saturating_sub(since_ns);
        let Some(before) = before.filter(|before| before.thread == call.thread) else {
            return (all_ns, false);
        };
        let (waited_ns, has_waited) = call.waited_for_cpu(before);
        let whole_ns = all_ns.saturating_sub(waited_ns);
        if whole_ns >= WARM_THINK_MAX_NS {
            return (whole_ns, false);
        }
        let other_ns = self.cpus.last_other_ns(call.thread, since_ns, call.start_ns);
        let own_ns = other_ns.map_or(whole_ns, |other_ns| whole_ns.min(call.start_ns - other_ns));
        (own_ns, has_waited || other_ns.is_some())
    }

    /// The time between a call and the begin of a read that waited. It is known where the other program waited for the CPU.
    fn before_wait_ns(&self, before: Option<&Call>, read: &Call, since_ns: u64) -> u64 {
        let own = before.filter(|before| before.thread == read.thread);
        own.and_then(|_| self.cpus.kept_ns(read.thread, since_ns, read.end_ns)).unwrap_or(0)
    }

    /// The data that this side reads from a connection.
    fn incoming(&self, connection: u32, side: Side) -> &FlowStore {
        self.stores[connection as usize].flow(side.other().sends())
    }

    /// When the last connection was opened before the first call. Later ones are opened with it in a replay.
    fn opened_ns(&self, first: &Call) -> u64 {
        let fresh = self.stores.iter().filter(|store| !store.connection.preexisting);
        let opened = fresh.map(|store| store.connection.opened_ns);
        opened.filter(|ns| *ns <= first.start_ns).max().unwrap_or(first.start_ns)
    }

    /// Whether the thread moved bytes of a connection that is not of the pattern since then.
    fn is_elsewhere(&self, call: &Call, since_ns: u64) -> bool {
        let times = self.elsewhere.get(&call.thread).map_or(&[][..], Vec::as_slice);
        let next = times.partition_point(|at_ns| *at_ns <= since_ns);
        times.get(next).is_some_and(|at_ns| *at_ns < call.start_ns)
    }

    /// Options that the program set, on any connection.
    fn set_options(&self, side: Side, activity: &mut Activity) {
        let last = |name| {
            let flows = self.stores.iter().map(|store| store.flow(side.sends()));
            let options = flows.flat_map(|flow| flow.events_of(Kind::SocketOption));
            options.filter(|event| is_of_option(event, name)).max_by_key(|event| event.at_ns)
        };
        activity.no_delay = last(NODELAY).is_some_and(is_option_on);
        let asked = |name| last(name).and_then(Record::socket_option).map(|it| u64::from(it.asked));
        activity.send_buffer_bytes = asked(SEND_BUFFER);
        activity.receive_buffer_bytes = asked(RECEIVE_BUFFER);
    }
}

/// The time in which one of [`QUICK_READS`] ended.
fn quick(mut times: Vec<u64>) -> Option<u64> {
    times.sort_unstable();
    times.get(times.len() / QUICK_READS).copied().filter(|_| times.len() >= USUAL_STEPS_MIN)
}

/// Whether another thread may have handed this write over.
fn is_handed(sequences: &[Vec<Call>], own: &[Call], before: Option<&Call>, write: &Call) -> bool {
    let is_read = |call: &&Call| call.action == Action::Read;
    if sequences.len() == 1 || own.iter().any(|call| is_read(&call)) {
        return before.is_some_and(|before| before.thread != write.thread);
    }
    let since_ns = before.map_or(0, |before| before.end_ns);
    let mut reads = sequences.iter().flatten().filter(is_read);
    reads.any(|read| since_ns < read.end_ns && read.end_ns < write.start_ns)
}

/// Calls in the order of one thread, or of threads that share a connection and a kind of call. Others have a sequence of
/// their own: the order among them is not known.
fn sequences(calls: &[Call]) -> Vec<Vec<Call>> {
    // The group of each thread, and of each connection and kind of call.
    let mut of_threads: HashMap<u32, usize> = HashMap::new();
    let mut of_calls: HashMap<(u32, Action), usize> = HashMap::new();
    let mut groups: Vec<usize> = Vec::new();
    for call in calls {
        let mut find = |known: Option<&usize>| -> usize {
            let mut group = known.copied().unwrap_or(groups.len());
            if group == groups.len() {
                groups.push(group);
            }
            while groups[group] != group {
                group = groups[group];
            }
            group
        };
        let key = (call.connection, call.action);
        let of_thread = find(of_threads.get(&call.thread));
        of_threads.insert(call.thread, of_thread);
        let of_call = find(of_calls.get(&key).or(Some(&of_thread)));
        of_calls.insert(key, of_call);
        groups[of_thread.max(of_call)] = of_thread.min(of_call);
    }
    let mut found: HashMap<usize, Vec<Call>> = HashMap::new();
    for call in calls {
        let mut group = of_threads[&call.thread];
        while groups[group] != group {
            group = groups[group];
        }
        found.entry(group).or_default().push(*call);
    }
    let mut sequences: Vec<Vec<Call>> = found.into_values().collect();
    let key = |call: &Call| (call.connection, call.action == Action::Write);
    sequences.sort_by_key(|calls| calls.iter().map(key).min());
    if sequences.is_empty() {
        sequences.push(Vec::new());
    }
    sequences
}

/// Whether a program answers a part of what the other side wrote without a read between.
fn answers_as_found(calls: &[Call], of_peer: &[Call]) -> bool {
    let is_read = |call: &Call| call.action == Action::Read;
    let runs = of_peer.chunk_by(|left, right| is_read(left) == is_read(right));
    let runs = runs.filter(|run| !is_read(&run[0]));
    // Where each run of writes begins and ends.
    let runs: Vec<(u64, u64)> = runs.map(|run| (run[0].offset, run[run.len() - 1].end())).collect();
    let is_within_run = |position: u64| {
        let next = runs.partition_point(|(_, end)| *end <= position);
        runs.get(next).is_some_and(|(begin, _)| *begin < position)
    };
    let reads = calls.iter().filter(|call| is_read(call)).count();
    let answered = || calls.windows(2).filter(|pair| is_read(&pair[0]) && !is_read(&pair[1]));
    let of_parts = answered().filter(|pair| is_within_run(pair[0].end())).count();
    (reads - answered().count()) * FOUND_SHARE <= reads && of_parts * FOUND_SHARE > reads
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Connection, SocketOption};

    use super::*;
    use crate::pattern::REFILL_MAX_NS;
    use crate::testing;

    /// The pattern of records without their CPUs.
    fn pattern(
        stores: &[ConnectionStore],
        chosen: &[usize],
    ) -> Result<Pattern, (ConnectionId, NoPattern)> {
        super::pattern(stores, chosen, &CallCpus::default())
    }

    /// The steps of each side, as `w100/7` for a write of 100 bytes after 7 µs, sequences apart by `;`.
    fn found(text: &str) -> Result<[String; 2], NoPattern> {
        let pattern = pattern(&[testing::store(text)], &[0]).map_err(|(_, reason)| reason)?;
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
    fn the_time_of_the_other_program_on_the_same_cpu_is_not_its_own() {
        // The server takes the CPU after the first write: the second one is 40 us later, and 8 us after the read.
        let text = "10us write +100 thread=1 | 10us 1-7 +100 | 12us write-return +100 thread=1 |
            44us 8 +100 thread=2 | 44us read-return +100 thread=2 |
            52us write +300 thread=1 | 52us 1-7 +300 | 53us write-return +300 thread=1 |
            70us 8 +300 thread=2 | 70us read-return +300 thread=2";
        let store = testing::store(text);
        let mut records =
            store.flows.iter().flat_map(|flow| &flow.events).copied().collect::<Vec<_>>();
        let think = |records: &[Record]| {
            let cpus = CallCpus::of(records);
            let [client, _] = super::pattern(&[testing::store(text)], &[0], &cpus).unwrap().sides;
            client.sequences[0][1].think_ns
        };
        assert_eq!(think(&records), 8_000);
        let server = records.iter_mut().filter(|record| record.thread == 2);
        server.for_each(|record| record.cpu = 1);
        assert_eq!(think(&records), 40_000);
    }

    #[test]
    fn a_wait_for_the_cpu_is_not_the_readers_own() {
        // 500 bytes lie there. The reader lost its CPU before the second read, for 400 us, and before the last, for 30 us.
        // A wait counts from the read before, which left them.
        let text = "1us write +500 thread=1 | 1us 1-7 +500 | 2us write-return +500 thread=1 |
            10us 8 +100 runq=1 ran=1us thread=2 | 10us read-return +100 thread=2 |
            420us 8 +100 runq=400us ran=415us thread=2 | 420us read-return +100 thread=2 |
            423us 8 +100 runq=1 ran=415us thread=2 | 423us read-return +100 thread=2 |
            430us 8 +100 runq=1 ran=415us thread=2 | 430us read-return +100 thread=2 |
            470us 8 +100 runq=30us ran=465us thread=2 | 470us read-return +100 thread=2";
        let server = &found(text).unwrap()[1];
        assert_eq!(server, "r100/0 r100/10 r100/3 r100/7 r100/10");
        // The read before ended some time after it took its bytes.
        let text = "1us write +200 thread=1 | 1us 1-7 +200 | 2us write-return +200 thread=1 |
            10us 8 +100 runq=1 ran=1us thread=2 | 11us read-return +100 thread=2 |
            421us 8 +100 runq=390us ran=415us thread=2 | 422us read-return +100 thread=2";
        assert_eq!(found(text).unwrap()[1], "r100/0 r100/21");
        // These bytes arrived after the read before: the wait is since that one.
        let text = "1us write +100 thread=1 | 1us 1-7 +100 | 2us write-return +100 thread=1 |
            50us 8 +100 runq=40us ran=48us thread=2 | 50us read-return +100 thread=2 |
            51us write +100 thread=1 | 52us 1-7 +100 | 53us write-return +100 thread=1 |
            90us 8 +100 runq=30us ran=85us thread=2 | 90us read-return +100 thread=2";
        assert!(found(text).unwrap()[1].ends_with(" r100/10"), "{:?}", found(text));
    }

    #[test]
    fn a_wait_for_the_cpu_is_not_the_writers_own() {
        // The writer lost its CPU for 400 us before the second write. Before the third, 3 us after that, a call of another
        // kind waited, for longer than the time between.
        let text = |waits: [&str; 3]| {
            let writes = [1, 421, 425].into_iter().zip(waits).map(|(at, wait)| {
                format!(
                    "{at}us write +100 {wait} thread=1 | {at}us 1-7 +100 | {}us write-return +100 thread=1",
                    at + 1
                )
            });
            let read = "500us 8 +300 thread=2 | 500us read-return +300 thread=2".to_owned();
            writes.chain([read]).collect::<Vec<_>>().join(" | ")
        };
        let writes = |waits| found(&text(waits)).unwrap()[0].clone();
        assert_eq!(writes(["extra=0", "runq=400us", "runq=9us"]), "w100/1 w100/19 w100/0");
        // Not known, and no time at all.
        assert_eq!(writes(["extra=0", "extra=0", "extra=1"]), "w100/1 w100/419 w100/3");
    }

    #[test]
    fn a_wait_that_may_be_from_before_the_last_write_is_not_taken_off() {
        // 200 bytes lie there at 1 us. Before the second read the thread writes. It lost its CPU for 40 us before that,
        // and for 5 us after it.
        let text = |since: &str| {
            format!(
                "1us write +100 thread=1 | 1us 1-7 +100 | 2us write-return +100 thread=1 |
                {since} write +100 thread=1 | {since} 1-7 +100 | {since} write-return +100 thread=1 |
                10us 8 +100 runq=1 ran=1us thread=2 | 10us read-return +100 thread=2 |
                60us <write +9 runq=40us thread=2 | 60us <1-7 +9 | 61us <write-return +9 thread=2 |
                91us 8 +100 runq=45us ran=85us thread=2 | 91us read-return +100 thread=2 |
                99us <8 +9 thread=1 | 99us <read-return +9 thread=1"
            )
        };
        assert_eq!(found(&text("3us")).unwrap()[1], "r100/0 w9/10 r100/30");
        // Bytes that arrive after the write: the wait is since the write.
        let later = text("62us").replace("runq=45us", "runq=5us");
        assert_eq!(found(&later).unwrap()[1], "r100/0 w9/10 r100/25");
    }

    #[test]
    fn an_interrupted_time_has_no_switch_in_it() {
        // Ten writes, each 1 us after the one before. The server reads before the last, which is 4 us later.
        let mut text: Vec<String> = (0..10)
            .map(|write| {
                format!(
                    "{0}us write +10 thread=1 | {0}us 1-7 +10 | {1}us write-return +10 thread=1",
                    2 * write,
                    2 * write + 1
                )
            })
            .collect();
        text.push("20us 8 +100 thread=2 | 20us read-return +100 thread=2".to_owned());
        text.push(
            "24us write +10 thread=1 | 24us 1-7 +10 | 25us write-return +10 thread=1".to_owned(),
        );
        let last_ns = |text: &str| {
            let store = testing::store(text);
            let records: Vec<Record> =
                store.flows.iter().flat_map(|flow| &flow.events).copied().collect();
            let cpus = CallCpus::of(&records);
            let [client, _] = super::pattern(&[testing::store(text)], &[0], &cpus).unwrap().sides;
            client.sequences[0].last().unwrap().think_ns
        };
        assert_eq!(last_ns(&text.join(" | ")), 1000);
        // Two writes before show no usual time.
        text.drain(2..10);
        assert_eq!(last_ns(&text.join(" | ").replace("+100", "+20")), 4000);
    }

    #[test]
    fn a_reader_that_was_not_woken_was_elsewhere() {
        let slow = "1us write +300 thread=1 | 1us 1-7 +300 | 2us write-return +300 thread=1 |
            10us 8 +100 thread=2 | 10us read-return +100 thread=2 |
            90us 8 +200 thread=2 | 90us read-return +200 thread=2";
        assert_eq!(found(slow).unwrap(), ["w300/1", "r100/0 r200/80"]);
    }

    #[test]
    fn the_kernels_work_for_others_at_the_end_of_a_read_is_not_the_programs_time() {
        // The third read takes its bytes at 30 us. Then its acknowledgment brings the next ones, up to 90 us.
        let slow = "1us write +300 thread=1 | 1us 1-7 +300 | 2us write-return +300 thread=1 |
            10us 8 +100 thread=2 | 11us read-return +100 thread=2 |
            20us 8 +100 thread=2 | 21us read-return +100 thread=2 |
            30us 8 +100 thread=2 | 90us read-return +100 thread=2";
        assert_eq!(found(slow).unwrap(), ["w300/1", "r100/0 r100/10 r100/10"]);
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
            let pattern = pattern(&[testing::store(text)], &[0]).unwrap();
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
        let pattern = pattern(&stores, &[0]).unwrap();
        assert_eq!(pattern.sides.map(|side| side.certain_writes), [1, 0]);
    }

    #[test]
    fn a_buffer_is_known_where_a_read_left_bytes() {
        let buffers = |text: &str| {
            let pattern = pattern(&[testing::store(text)], &[0]).unwrap();
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
    fn the_steps_of_several_connections_are_in_the_order_of_their_threads() {
        // A line on the first connection goes to both.
        let first = "10us write +80 thread=1 | 10us 1-7 +80 | 12us write-return +80 thread=1 |
            11us wakeup thread=2 | 20us 8 +80 thread=2 | 20us read-return +80 thread=2 |
            30us <write +80 thread=2 | 30us <1-7 +80 | 31us <write-return +80 thread=2 |
            31us <wakeup thread=1 | 60us <8 +80 thread=1 | 60us <read-return +80 thread=1";
        let second = "35us <write +80 thread=2 | 35us <1-7 +80 | 36us <write-return +80 thread=2 |
            65us <8 +80 thread=1 | 65us <read-return +80 thread=1";
        let pattern = pattern(&[testing::store(first), testing::store(second)], &[0, 1]).unwrap();
        assert_eq!(pattern.connections, 2);
        let step = |step: &Step| {
            let letter = if step.action == Action::Write { 'w' } else { 'r' };
            format!("{letter}{}@{}/{}", step.bytes, step.connection, step.think_ns / 1000)
        };
        let of = |side: &Activity| -> Vec<Vec<String>> {
            side.sequences.iter().map(|steps| steps.iter().map(step).collect()).collect()
        };
        let [client, server] = &pattern.sides;
        assert_eq!(of(client), [["w80@0/10", "r80@0/0", "r80@1/5"]]);
        assert_eq!(of(server), [["r80@0/0", "w80@0/10", "w80@1/4"]]);
        // The write to the other connection has its cause in the pattern.
        assert_eq!((server.writes, server.certain_writes), (2, 2));
    }

    #[test]
    fn threads_with_connections_of_their_own_have_sequences_of_their_own() {
        let other = CALL.replace("thread=1", "thread=3").replace("thread=2", "thread=4");
        let stores = [testing::store(CALL), testing::store(&other)];
        let [client, server] = pattern(&stores, &[0, 1]).unwrap().sides;
        assert_eq!((client.sequences.len(), server.sequences.len()), (2, 2));
        assert!(client.sequences[1].iter().all(|step| step.connection == 1));
        // One thread that serves both is one sequence.
        let shared = other.replace("thread=4", "thread=2");
        let [client, server] =
            pattern(&[testing::store(CALL), testing::store(&shared)], &[0, 1]).unwrap().sides;
        assert_eq!((client.sequences.len(), server.sequences.len()), (2, 1));
    }

    /// Three requests of 10 bytes in as many writes, answered by the reads of these numbers of requests.
    fn requests(reads: &[u64]) -> String {
        let writes = (0..3).map(|number| {
            let at = 10 + number;
            format!("{at}us write +10 thread=1 | {at}us 1-7 +10 | {at}us write-return +10 thread=1")
        });
        let answers = (0..).zip(reads).map(|(number, requests)| {
            let (at, bytes, of) = (20 + 10 * number, 10 * requests, 5 * requests);
            format!(
                "{at}us 8 +{bytes} thread=2 | {at}us read-return +{bytes} thread=2 | {}us <write +{of} thread=2 |
                {0}us <1-7 +{of} | {0}us <write-return +{of} thread=2",
                at + 5
            )
        });
        let end = "90us <wakeup thread=1 | 99us <8 +15 thread=1 | 99us <read-return +15 thread=1";
        writes.chain(answers).chain([end.to_owned()]).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_server_that_answers_a_part_of_the_requests_answers_what_it_finds() {
        let found = |text: &str| {
            let pattern = pattern(&[testing::store(text)], &[0]).unwrap();
            pattern.sides.map(|side| side.answers_as_found)
        };
        assert_eq!(found(&requests(&[1, 2])), [false, true]);
        // The second read leaves bytes behind: its size is that of a buffer.
        assert_eq!(found(&requests(&[1, 1, 1])), [false, false]);
        // All at once; and calls, each answered before the next one.
        assert_eq!(found(&requests(&[3])), [false, false]);
        assert_eq!(found(&calls(3, 5)), [false, false]);
    }

    #[test]
    fn a_short_read_that_left_bytes_asked_for_fewer() {
        // 250 bytes lie there; reads of a buffer of 100, or of 100 and a message's rest.
        let found = |reads: &str| {
            let text = format!(
                "1us write +250 thread=1 | 1us 1-7 +250 | 2us write-return +250 thread=1 | {reads}"
            );
            let [_, server] = pattern(&[testing::store(&text)], &[0]).unwrap().sides;
            server.short_reads_take_all
        };
        let read = |at: u64, bytes: u64| {
            format!("{at}us 8 +{bytes} thread=2 | {at}us read-return +{bytes} thread=2")
        };
        let all = |sizes: [u64; 3]| {
            let reads = sizes.into_iter().zip([10, 20, 30]).map(|(bytes, at)| read(at, bytes));
            reads.collect::<Vec<_>>().join(" | ")
        };
        assert!(found(&all([100, 100, 50])));
        assert!(!found(&all([100, 50, 100])));
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
        let pattern = pattern(&[testing::store(&calls(3, 5))], &[0]).unwrap();
        let [client, server] = pattern.sides.each_ref().map(|side| {
            let writes = side.sequences[0].iter().filter(|step| step.action == Action::Write);
            writes.map(|step| step.after_wait).collect::<Vec<_>>()
        });
        // The client thinks for 5 ms, and waits for 50 µs.
        assert_eq!((client, server), (vec![false; 3], vec![false, true, true]));
    }

    #[test]
    fn a_read_that_got_its_cpu_at_once_shows_the_time_after_a_wakeup() {
        let woken = |count| {
            let pattern = pattern(&[testing::store(&calls(count, 5))], &[0]).unwrap();
            pattern.sides.map(|side| side.woken_read_ns)
        };
        assert_eq!(woken(9), [Some(9_000), Some(10_000)]);
        assert_eq!(woken(8), [None, None]);
        // Eight of ten waited for the CPU.
        let mut times = vec![30; 8];
        times.extend([3, 4]);
        assert_eq!(quick(times), Some(4));
    }

    fn written(think_ns: u64, after_wait: bool) -> Step {
        Step {
            action: Action::Write,
            connection: 0,
            bytes: 1,
            think_ns,
            after_wait,
            warm_ns: None,
            woken: false,
        }
    }

    #[test]
    fn without_a_wait_a_program_thinks_for_less_but_not_below_its_own_time() {
        let side = Activity { warm_think_ns: Some(3_000), ..Activity::default() };
        let warm = |think_ns, after_wait| side.warm_think_ns(&written(think_ns, after_wait));
        assert_eq!(warm(70_000, true), 3_000);
        assert_eq!(warm(2_000, true), 2_000);
        assert_eq!(warm(REFILL_MAX_NS + 500_000, true), 500_000);
        assert_eq!(warm(70_000, false), 70_000);
        assert_eq!(Activity::default().warm_think_ns(&written(70_000, true)), 70_000);
        // The trace shows the difference.
        let side = Activity { refill_ns: Some(20_000), ..side };
        assert_eq!(side.warm_think_ns(&written(70_000, true)), 50_000);
        assert_eq!(side.warm_think_ns(&written(21_000, true)), 3_000);
    }

    #[test]
    fn the_filling_of_the_caches_is_the_difference_that_the_trace_shows() {
        // Calls every 5 ms, whose server thinks for 30 us, and then some at once, with 10 us.
        let soon = |number: u64| {
            let at = 20_000 + number * 200;
            format!(
                "{at}us write +100 thread=1 | {at}us 1-7 +100 | {}us write-return +100 thread=1 |
                {at}us wakeup thread=2 | {}us 8 +100 thread=2 | {1}us read-return +100 thread=2 |
                {}us <write +50 thread=2 | {2}us <1-7 +50 | {}us <write-return +50 thread=2 |
                {3}us <wakeup thread=1 | {}us <8 +50 thread=1 | {4}us <read-return +50 thread=1",
                at + 2,
                at + 10,
                at + 20,
                at + 21,
                at + 30
            )
        };
        let server = |text: &str| {
            let [_, server] = pattern(&[testing::store(text)], &[0]).unwrap().sides;
            server.refill_ns
        };
        let both = [calls(4, 5), soon(0), soon(1), soon(2), soon(3)].join(" | ");
        assert_eq!(server(&both), Some(20_000));
        assert_eq!(server(&calls(4, 5)), None);
    }

    #[test]
    fn datagrams_need_no_returns() {
        let text = "10us 1-7 +100 thread=1 | 11us wakeup thread=2 | 20us 8 +100 thread=2 |
            50us <1-7 +50 thread=2 | 51us <wakeup thread=1 | 60us <8 +50 thread=1";
        let connection = Connection { protocol: Protocol::Udp, ..testing::connection(1) };
        let pattern = pattern(&[testing::store_of(connection, text)], &[0]).unwrap();
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
        let pattern = pattern(&[store], &[0]).unwrap();
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
