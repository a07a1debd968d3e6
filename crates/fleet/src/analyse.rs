//! The analysis of one bucket: all hosts' records of its connections.
//!
//! Connections of the same two recordings are one trace for the analysis. Its clock is the wall clock of the first of
//! the two. The other's times are shifted to it by the bounds that the segments between them give.

use std::collections::{BTreeMap, BTreeSet};

use sockscope_analysis::{Analyzer, TraceFacts};
use sockscope_record::{
    ClockBounds, ClockLine, ClockPairs, ConnectionId, ControlGroup, LossCounts, Process, Record,
    Side,
};

use crate::clocks;
use crate::measure::{Ends, Measured};
use crate::pairs::{Place, joined, pairs};
use crate::plan::{Run, Task};
use crate::problem::{Problem, Trouble};
use crate::recorded::{Half, Recorded};
use crate::summary::{Clock, End, Summary};

/// Analyses a bucket. Files that are not whole are left out and named in the summary.
pub fn analyse(task: &Task) -> Summary {
    let mut all: Vec<Recorded> =
        task.runs.iter().map(|run| Recorded::read(&task.spool, run)).collect();
    for (host, recorded) in (1..).zip(&mut all) {
        let halves = recorded.halves.values_mut();
        halves.flat_map(|half| &mut half.connection.processes).for_each(|it| it.host = host);
    }
    let problems = all.iter_mut().flat_map(|it| std::mem::take(&mut it.problems)).collect();
    let mut summary = Summary { bucket: task.bucket, problems, ..Summary::default() };
    let mut measured = Measured::default();
    for (runs, trace) in traces(&mut summary, &task.runs, &all) {
        let line = trace.clock.as_ref().map(ClockBounds::line);
        let clocks = Clocks { runs: &task.runs, second: runs[1], line };
        analyse_trace(&mut measured, &mut all, runs, trace.members, &clocks);
    }
    measured.finish(&mut summary);
    summary
}

/// Connections that are analysed together: of one recording, or of two with the bounds of their clocks.
#[derive(Default)]
struct Trace {
    members: Vec<(Place, Option<Place>)>,
    clock: Option<ClockBounds>,
}

/// The traces of a bucket, by the places of their recordings. Without bounds of the clocks the halves of connections
/// stay apart: nothing is known of the times between them.
fn traces(
    summary: &mut Summary,
    runs: &[Run],
    all: &[Recorded],
) -> BTreeMap<[Option<usize>; 2], Trace> {
    let mut by_runs: BTreeMap<[usize; 2], (Vec<[Place; 2]>, ClockPairs)> = BTreeMap::new();
    for pair in pairs(all, runs) {
        let of = pair.map(|place| place.0);
        let (members, clock) = by_runs.entry(of).or_default();
        let halves = pair.map(|place| &all[place.0].halves[&place.1]);
        let is_whole = of.map(|run| all[run].losses.is_empty());
        clocks::add(clock, halves, of.map(|run| runs[run].offset_ns), is_whole);
        members.push(pair);
    }
    let mut traces: BTreeMap<[Option<usize>; 2], Trace> = BTreeMap::new();
    let mut is_paired = BTreeSet::new();
    for (of, (pairs, clock)) in by_runs {
        let clock = clock.bounds();
        if let Some(clock) = &clock {
            note_clock(summary, (runs, all), of, (pairs.len(), clock));
        }
        if clock.as_ref().is_some_and(|clock| clock.is_consistent) {
            is_paired.extend(pairs.iter().flatten().copied());
            let members = pairs.into_iter().map(|[first, second]| (first, Some(second))).collect();
            traces.insert(of.map(Some), Trace { members, clock });
        }
    }
    for (run, recorded) in all.iter().enumerate() {
        for id in recorded.halves.keys().filter(|id| !is_paired.contains(&(run, **id))) {
            traces.entry([Some(run), None]).or_default().members.push(((run, *id), None));
        }
    }
    traces
}

/// The clocks of a trace's recordings.
struct Clocks<'a> {
    runs: &'a [Run],
    /// The recording whose clock is shifted to that of the other.
    second: Option<usize>,
    line: Option<ClockLine>,
}

impl Clocks<'_> {
    /// Gives times of a recording as nanoseconds since 1970, by the clock of the trace.
    fn of(&self, run: usize) -> impl Fn(u64) -> u64 + use<> {
        let offset_ns = self.runs[run].offset_ns;
        let line = self.line.filter(|_| Some(run) == self.second);
        move |ns| {
            let utc_ns = utc(ns, offset_ns);
            let by_ns = line.map_or(0, |line| line.at(utc_ns.cast_signed()));
            utc_ns.saturating_add_signed(by_ns.saturating_neg())
        }
    }
}

/// A time as nanoseconds since 1970 by the host's own clock.
fn utc(ns: u64, offset_ns: i64) -> u64 {
    ns.checked_add_signed(offset_ns).unwrap_or(0)
}

fn note_clock(
    summary: &mut Summary,
    (runs, all): (&[Run], &[Recorded]),
    [first, second]: [usize; 2],
    (connections, bounds): (usize, &ClockBounds),
) {
    let [one, other] = [first, second].map(|run| runs[run].host.clone());
    // The same of all buckets, so that their bounds are of one time.
    let middle_ns = u64::midpoint(all[second].began_ns, all[second].ended_ns);
    let at_ns = utc(middle_ns, runs[second].offset_ns).cast_signed();
    let (lowest_ns, highest_ns) = bounds.range_at(at_ns);
    let [slowest_ppb, fastest_ppb] =
        <[f64; 2]>::from(bounds.drift()).map(|it| (it * 1e9).round() as i64);
    if !bounds.is_consistent {
        let line = format!(
            "its clock or that of {one} was set: their connections are analysed by their ends"
        );
        summary.problems.push(Problem::new(Trouble::Clock, &other, line));
    }
    let clock = Clock {
        bucket: summary.bucket,
        connections: connections as u64,
        segments: bounds.segments,
        is_consistent: bounds.is_consistent,
        at_ns,
        lowest_ns,
        highest_ns,
        slowest_ppb,
        fastest_ppb,
    };
    summary.clocks.push(((one, other), clock));
}

fn analyse_trace(
    measured: &mut Measured,
    all: &mut [Recorded],
    of: [Option<usize>; 2],
    members: Vec<(Place, Option<Place>)>,
    clocks: &Clocks<'_>,
) {
    let runs: Vec<usize> = of.into_iter().flatten().collect();
    let mut analyzer = Analyzer::new();
    let mut missed = LossCounts::default();
    for run in &runs {
        let time = clocks.of(*run);
        let losses: Vec<Record> = all[*run].losses.iter().map(|it| it.on_clock(&time)).collect();
        missed.add_all(&losses.iter().filter_map(Record::loss).collect());
        analyzer.push(&losses);
    }
    let mut ends_of = BTreeMap::new();
    for (number, (one, other)) in (1..).zip(members) {
        let places = [Some(one), other];
        let mut halves: Vec<(usize, Half)> = places
            .into_iter()
            .flatten()
            .filter_map(|(run, id)| Some((run, all[run].halves.remove(&id)?)))
            .collect();
        let id = ConnectionId(number);
        let is_cut = halves.iter().any(|(run, half)| all[*run].is_cut(&half.connection));
        ends_of.insert(id, Ends { is_cut, ..ends(clocks.runs, &halves) });
        for (run, half) in &mut halves {
            on_clock(id, half, clocks.of(*run));
            half.records.iter().for_each(|records| analyzer.push(records));
        }
        let described = halves.into_iter().map(|(_, half)| half.connection);
        if let Some(connection) = described.reduce(|first, second| joined(&first, &second)) {
            analyzer.connection(connection);
        }
    }
    let mut drop_reasons = BTreeMap::new();
    for run in &runs {
        drop_reasons.extend(clocks.runs[*run].drop_reasons.clone());
    }
    let facts = TraceFacts {
        source: clocks.runs[runs[0]].source.clone(),
        missed,
        drop_reasons,
        ended_ns: runs.iter().map(|run| clocks.of(*run)(all[*run].ended_ns)).min(),
        ..TraceFacts::default()
    };
    measured.begin_trace();
    let analysis = analyzer.finish_each(facts, |flow| {
        if let Some(ends) = ends_of.get(&flow.connection.id) {
            measured.flow(flow, ends);
        }
    });
    for one in &analysis.connections {
        if let Some(ends) = ends_of.get(&one.connection.id) {
            measured.add(one, ends);
        }
    }
}

/// Gives a half its number in the trace, and the trace's time.
fn on_clock(id: ConnectionId, half: &mut Half, time: impl Fn(u64) -> u64) {
    let connection = &mut half.connection;
    connection.id = id;
    connection.opened_ns = time(connection.opened_ns);
    connection.closed_ns = connection.closed_ns.map(&time);
    for record in half.records.iter_mut().flatten() {
        let flow = id.flow(record.flow.direction());
        *record = Record { flow, ..record.on_clock(&time) };
    }
}

/// The two ends of a connection, as far as its halves show them.
fn ends(runs: &[Run], halves: &[(usize, Half)]) -> Ends {
    let end = |side: Side| {
        let is_there = |half: &Half| half.connection.both_ends_here || half.here == Some(side);
        let at = halves.iter().find(|(_, half)| is_there(half));
        let process = at.and_then(|(_, half)| {
            half.connection.processes.iter().find(|process| process.side == side)
        });
        let service = process.map_or_else(|| "unknown".to_owned(), service);
        let first = halves.first().map(|(_, half)| &half.connection);
        let port = first.filter(|it| !it.protocol.is_unix()).map(|it| it.server.port());
        End {
            service: match (side, port) {
                (Side::Server, Some(port)) => format!("{service}:{port}"),
                _ => service,
            },
            host: at.map(|(run, _)| runs[*run].host.clone()),
            kernel: at.map(|(run, _)| runs[*run].kernel.clone()),
        }
    };
    Ends { client: end(Side::Client), server: end(Side::Server), is_cut: false }
}

/// The pod, the container or the service unit of a process; else its program. Other units, as the scope of a login, do
/// not name a service.
fn service(process: &Process) -> String {
    let Some(ControlGroup { unit, container, pod, .. }) = process.group.as_deref() else {
        return process.comm.clone();
    };
    let unit = unit.as_ref().filter(|unit| unit.ends_with(".service"));
    match (pod, container, unit) {
        (Some(pod), ..) => pod.label(),
        (_, Some(container), _) => container.label().to_owned(),
        (.., Some(unit)) => unit.clone(),
        _ => process.comm.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use sockscope_record::{Connection, Direction, Kind, LossCounts, Protocol};
    use sockscope_trace::{ClockSnapshot, Meta};

    use super::*;
    use crate::summary::Counts;
    use crate::{Part, Plan, SEGMENTS, write_segment};

    const SINCE_1970_NS: u64 = 1_795_771_800_000_000_000;
    const MS: u64 = 1_000_000;

    /// Writes a segment with the records of one end of the connection 10.0.0.1:40000 to 10.0.0.2:80.
    fn write(
        spool: &Path,
        (host, group): (&str, &str),
        sequence: u64,
        records: &[(u64, Kind, Direction, u64)],
    ) {
        // The server's wall clock is ahead by 0.4 s, and its monotonic clock is another.
        let (side, boot_ns, ahead_ns) = match host {
            "web" => (Side::Client, 0, 0),
            _ => (Side::Server, 7_000 * MS, 400 * MS),
        };
        let time = |ms: u64| ms * MS + boot_ns;
        let clock = ClockSnapshot::new(time(0), SINCE_1970_NS + ahead_ns);
        let meta = Meta {
            host: host.to_owned(),
            kernel: format!("{host}-kernel"),
            clock: vec![clock],
            ..Meta::default()
        };
        let ends = ["10.0.0.1:40000", "10.0.0.2:80"].map(|end| end.parse().unwrap());
        let id = ConnectionId(if host == "web" { 3 } else { 8 });
        let mut connection = Connection::new(id, Protocol::Tcp, ends, time(1));
        let group = Some(std::sync::Arc::new(ControlGroup::of_path(group)));
        connection.processes = vec![Process { group, ..Process::new(1, host, side) }];
        let record = |&(ms, kind, direction, offset): &(u64, Kind, Direction, u64)| Record {
            at_ns: time(ms),
            flow: id.flow(direction),
            offset,
            len: 100,
            kind,
            ..Record::default()
        };
        let part = Part {
            meta: &meta,
            run: "a",
            sequence,
            is_last: false,
            times_ns: (time(100 * sequence), time(100 * sequence + 100)),
            connections: &[connection],
        };
        let records = records.iter().map(record).collect();
        write_segment(spool, &part, records).unwrap().expect("a new segment");
    }

    /// A request at 10 ms and its answer, each 2 ms on the wire; the second pair is in the next segment.
    fn exchange(spool: &Path, host: &str, sequence: u64) {
        exchange_in(spool, host, sequence, "/");
    }

    /// The same by processes of a control group.
    fn exchange_in(spool: &Path, host: &str, sequence: u64, group: &str) {
        use Direction::{FromClient, FromServer};
        let (at, offset) = (100 * sequence + 10, 100 * sequence);
        let records = match host {
            "web" => [
                (at, Kind::SendEnqueue, FromClient, offset),
                (at, Kind::SendDequeue, FromClient, offset),
                (at, Kind::InterfaceEnqueue, FromClient, offset),
                (at, Kind::InterfaceDequeue, FromClient, offset),
                (at + 9, Kind::InputEnqueue, FromServer, offset),
                (at + 9, Kind::InputDequeue, FromServer, offset),
                (at + 9, Kind::ReceiveEnqueue, FromServer, offset),
                (at + 9, Kind::ReceiveDequeue, FromServer, offset),
            ],
            _ => [
                (at + 2, Kind::InputEnqueue, FromClient, offset),
                (at + 2, Kind::InputDequeue, FromClient, offset),
                (at + 2, Kind::ReceiveEnqueue, FromClient, offset),
                (at + 2, Kind::ReceiveDequeue, FromClient, offset),
                (at + 7, Kind::SendEnqueue, FromServer, offset),
                (at + 7, Kind::SendDequeue, FromServer, offset),
                (at + 7, Kind::InterfaceEnqueue, FromServer, offset),
                (at + 7, Kind::InterfaceDequeue, FromServer, offset),
            ],
        };
        write(spool, (host, group), sequence, &records);
    }

    fn spool() -> tempfile::TempDir {
        let spool = tempfile::tempdir().unwrap();
        for (host, sequence) in [("web", 0), ("web", 1), ("db", 0), ("db", 1)] {
            exchange(spool.path(), host, sequence);
        }
        spool
    }

    fn summary(spool: &Path) -> (Plan, Summary) {
        let plan = Plan::of(spool).unwrap();
        let [task] = &plan.tasks[..] else { panic!("{:?}", plan.tasks) };
        let summary = analyse(task);
        (plan, summary)
    }

    fn seal(spool: &Path, name: &str) -> std::path::PathBuf {
        spool.join(SEGMENTS).join(format!("{name}.json"))
    }

    #[test]
    fn two_halves_are_one_connection_on_one_clock() {
        let spool = spool();
        let (plan, summary) = summary(spool.path());
        assert_eq!((plan.head.problems, &summary.problems), (vec![], &vec![]));
        let [group] = &summary.groups[..] else { panic!("{:?}", summary.groups) };
        assert_eq!([&group.client.service, &group.server.service], ["web", "db:80"]);
        assert_eq!(group.server.kernel.as_deref(), Some("db-kernel"));
        let [(_, counts)] = summary.counts[..] else { panic!("{:?}", summary.counts) };
        let expected = Counts {
            connections: 1,
            with_both_ends: 1,
            records: 32,
            bytes: 400,
            retransmitted_bytes: 0,
        };
        assert_eq!(counts, expected);
        // The first host in order is `db`: `web` is behind it by 400 ms, plus or minus the 2 ms of the wire.
        let [(hosts, clock)] = &summary.clocks[..] else { panic!("{:?}", summary.clocks) };
        assert_eq!((hosts.0.as_str(), hosts.1.as_str()), ("db", "web"));
        assert!(clock.lowest_ns <= -400 * MS as i64 && -400 * MS as i64 <= clock.highest_ns);
        assert!(clock.highest_ns - clock.lowest_ns < 5 * MS as i64, "{clock:?}");
        let wire =
            summary.delays.iter().filter(|(key, _)| key.2 == sockscope_record::Stage::Wire as u8);
        let (runs, delay_ns) =
            wire.fold((0, 0), |sum, (_, it)| (sum.0 + it.runs, sum.1 + it.delay_ns));
        // What one direction seems longer the other seems shorter.
        assert_eq!(runs, 4);
        assert!(delay_ns.abs_diff(8 * MS) < MS / 10, "{delay_ns}");
    }

    #[test]
    fn a_service_is_a_pod_a_container_or_a_unit_where_there_is_one() {
        let of = |path: &str, names: [Option<&str>; 3]| {
            let mut group = ControlGroup::of_path(path);
            let [container, namespace, pod] = names.map(|name| name.map(str::to_owned));
            group.container.iter_mut().for_each(|it| it.name.clone_from(&container));
            group.pod.iter_mut().for_each(|it| {
                (it.namespace, it.name) = (namespace.clone(), pod.clone());
            });
            let group = Some(std::sync::Arc::new(group));
            service(&Process { group, ..Process::new(1, "nginx", Side::Server) })
        };
        let id = "4f".repeat(32);
        let pod = format!("/kubepods/pod0d6d1a2c-97ab-4b0d-b2f6-6f1c8a8d9e10/{id}");
        let names = [Some("front"), Some("shop"), Some("web-0")];
        assert_eq!(of(&pod, names), "shop/web-0");
        assert_eq!(of(&pod, [None; 3]), "0d6d1a2c-97ab-4b0d-b2f6-6f1c8a8d9e10");
        assert_eq!(of(&format!("/docker/{id}"), names), "front");
        assert_eq!(of("/system.slice/nginx.service", [None; 3]), "nginx.service");
        assert_eq!(of("/user.slice/session-3.scope", [None; 3]), "nginx");
        assert_eq!(of("/", [None; 3]), "nginx");
        assert_eq!(service(&Process::new(1, "nginx", Side::Server)), "nginx");
    }

    #[test]
    fn groups_are_services_of_the_summary() {
        let spool = tempfile::tempdir().unwrap();
        for (host, sequence) in [("web", 0), ("db", 0)] {
            exchange_in(spool.path(), host, sequence, &format!("/system.slice/{host}-x.service"));
        }
        let (_, summary) = summary(spool.path());
        let [group] = &summary.groups[..] else { panic!("{:?}", summary.groups) };
        let services = [&group.client.service, &group.server.service];
        assert_eq!(services, ["web-x.service", "db-x.service:80"]);
    }

    #[test]
    fn a_missing_segment_is_a_problem_and_a_time_without_records() {
        let spool = spool();
        exchange(spool.path(), "db", 2);
        fs::remove_file(seal(spool.path(), "db-a-00000001")).unwrap();
        let (plan, summary) = summary(spool.path());
        let [problem] = &plan.head.problems[..] else { panic!("{:?}", plan.head.problems) };
        assert_eq!((problem.trouble, problem.host.as_str()), (Trouble::MissingSegment, "db"));
        assert_eq!(problem.line, "segment 1 of recording a: no seal");
        assert_eq!(summary.problems, []);
        let losses = Recorded::read(spool.path(), &plan.tasks[0].runs[0]).losses;
        let missed: LossCounts = losses.iter().filter_map(Record::loss).collect();
        assert_eq!(missed.total(), 9, "of each point and of none");
    }

    #[test]
    fn a_damaged_file_is_a_problem_and_the_rest_is_analysed() {
        let spool = spool();
        let plan = Plan::of(spool.path()).unwrap();
        let file = plan.tasks[0].runs[0].segments[1].file.clone().unwrap();
        let path = spool.path().join(&file.path);
        let mut octets = fs::read(&path).unwrap();
        octets[40] ^= 1;
        fs::write(&path, octets).unwrap();
        let damaged = analyse(&plan.tasks[0]);
        let lines: Vec<_> =
            damaged.problems.iter().map(|it| (it.trouble, it.line.as_str())).collect();
        let expected = format!("segment 1 of recording a: {}: not as it was written", file.path);
        assert_eq!(lines, [(Trouble::DamagedSegment, expected.as_str())]);
        assert_eq!(damaged.counts.iter().map(|(_, it)| it.records).sum::<u64>(), 24);
        let recorded = Recorded::read(spool.path(), &plan.tasks[0].runs[0]);
        let half = &recorded.halves[&ConnectionId(8)].connection;
        assert!(recorded.is_cut(half), "it was open then");
        let closed_ns = Some(half.opened_ns + 50 * MS);
        assert!(!recorded.is_cut(&Connection { closed_ns, ..half.clone() }), "it closed before");
        fs::remove_file(path).unwrap();
        let lines = analyse(&plan.tasks[0]).problems;
        assert!(lines[0].line.ends_with("No such file or directory (os error 2)"), "{lines:?}");
    }

    #[test]
    fn a_seal_that_leads_out_of_the_spool_is_damaged() {
        let spool = spool();
        let seal = seal(spool.path(), "web-a-00000001");
        let text = fs::read_to_string(&seal).unwrap().replace("\"day=", "\"../day=");
        fs::write(&seal, text).unwrap();
        let problems = Plan::of(spool.path()).unwrap().head.problems;
        assert!(problems[0].line.ends_with("a path outside of the spool"), "{problems:?}");
    }
}
