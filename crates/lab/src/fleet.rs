//! A spool of many modelled hosts, and the truth about it: clocks, planted troubles, a missing host, damaged files.
//!
//! Each program of the hosts is run on the model once. Its records are those of many connections, each between two
//! hosts at a time of its own. A record goes to the host that would have made it, with a time of that host's clock.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;
use sockscope_analysis::{Analyzer, TraceFacts};
use sockscope_experiment::{Error, Experiment, Result};
use sockscope_fleet::{Part, SEGMENTS, Segment, write_segment};
use sockscope_record::{Connection, ConnectionId, Kind, Process, Record, Side};
use sockscope_sim::{Everything, of_model};
use sockscope_trace::{ClockSnapshot, Meta, Source};

use crate::model;

/// The true time at which all hosts begin to record: 2026-11-27 09:45 UTC.
const BEGIN_NS: i128 = 1_795_772_700_000_000_000;
const SECOND_NS: i128 = 1_000_000_000;
/// True time of a segment.
const SEGMENT_NS: i128 = 20 * SECOND_NS;
const SEGMENTS_EACH: i128 = 3;
/// Clocks are wrong by so much at most.
const OFFSET_NS_MAX: i128 = SECOND_NS;
const DRIFT_PPB_MAX: i128 = 50_000;

/// A fleet to write.
#[derive(Debug, Clone, Copy)]
pub struct Fleet {
    /// Number of hosts, from 4 on.
    pub hosts: u32,
    /// Number of connections of each program that each host opens without a trouble.
    pub rounds: u32,
    /// Seed of the clocks and of the times of connections.
    pub seed: u64,
}

/// What is true of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Truth {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The host whose segments are missing.
    pub missing_host: String,
    /// Its address.
    pub missing_address: String,
    /// The host of which a segment in the middle has no seal.
    pub missing_segment: String,
    /// The host of which all files of a segment are damaged.
    pub damaged_segment: String,
    /// Records that were written.
    pub records: u64,
    /// The connections.
    pub connections: Vec<Planted>,
}

/// A host of the fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Its wall clock is ahead by this at the begin.
    pub ahead_ns: i64,
    /// Nanoseconds that it gains in a second.
    pub gain_ns_per_s: i64,
    #[serde(skip)]
    boot_ns: i128,
}

/// A connection of the fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Planted {
    /// Name of the client's host.
    pub client_host: String,
    /// Name of the server's host.
    pub server_host: String,
    /// Address and port of the client.
    pub client: String,
    /// Address and port of the server.
    pub server: String,
    /// The trouble that was planted; empty of a healthy connection.
    pub planted: String,
    /// What the analysis finds where it has both halves on one clock.
    pub findings: Vec<String>,
    /// What the analysis finds in the client's half alone, and in the server's.
    pub findings_of_ends: [Vec<String>; 2],
    /// Records of it are not there: of the missing host, or of the missing or the damaged segment.
    pub is_cut: bool,
}

/// A program at each end, run on the model.
struct Program {
    planted: &'static str,
    /// Names of the processes, and the port.
    names: [&'static str; 2],
    port: u16,
    records: Vec<Record>,
    connection: Connection,
    findings: Vec<String>,
    findings_of_ends: [Vec<String>; 2],
}

const PROGRAMS: [(&str, [&str; 2], u16, &str); 6] = [
    (
        "",
        ["api", "postgres"],
        5432,
        "workload = \"rpc-echo\"\n[parameters]\nmachine = \"sparcstation-2\"\npersonality = \"tahoe\"\n\
         calls = 30\ndata_bytes = 200\nnodelay = true\n",
    ),
    (
        "",
        ["backup", "store"],
        873,
        "workload = \"discard\"\n[parameters]\nmachine = \"sparcstation-2\"\npersonality = \"tahoe\"\n\
         total_bytes = 200000\nwrite_bytes = 4096\n",
    ),
    (
        "nagle-delayed-ack",
        ["web", "orders"],
        8080,
        "workload = \"rpc-echo\"\n[parameters]\nmachine = \"sparcstation-1\"\npersonality = \"sunos-4.1\"\n\
         calls = 8\ndata_bytes = 4800\nread_delay_us = 2000\n",
    ),
    (
        "slow-reader",
        ["sync", "archive"],
        2049,
        "workload = \"discard\"\n[parameters]\nmachine = \"sparcstation-2\"\npersonality = \"tahoe\"\n\
         total_bytes = 60000\nwrite_bytes = 4096\nread_bytes = 4096\nread_pause_ms = 100\n",
    ),
    (
        "retransmission",
        ["mail", "relay"],
        25,
        "workload = \"discard\"\n[parameters]\nmachine = \"sparcstation-2\"\npersonality = \"tahoe\"\n\
         total_bytes = 200000\nwrite_bytes = 4096\nlost_per_million = 20000\n",
    ),
    (
        "receive-window-limited",
        ["replica", "primary"],
        3306,
        "workload = \"discard\"\n[parameters]\nmachine = \"sparcstation-2\"\npersonality = \"tahoe\"\n\
         total_bytes = 40000\nwrite_bytes = 4096\nreceiver_buffer_bytes = 2048\nsocket_buffer_bytes = 16384\n\
         link = \"line-3\"\nlink_delay_us = 20000\n",
    ),
];

impl Program {
    fn all() -> Result<Vec<Self>> {
        PROGRAMS
            .into_iter()
            .map(|(planted, names, port, text)| Self::run(planted, names, port, text))
            .collect()
    }

    fn run(planted: &'static str, names: [&'static str; 2], port: u16, text: &str) -> Result<Self> {
        let head = "id = \"fleet\"\ntitle = \"A program of the fleet\"\npaper = \"layering\"\nsource = \"\"\n\
                    question = \"\"\nfeeds = []\nseed = 1\nrepetitions = 1\nrecord = [\"trace\"]\n";
        let experiment = Experiment::parse(names[0], &format!("{head}{text}"))?;
        let case = &experiment.cases()?[0];
        let recorded = model::record(&experiment, case, Everything::default());
        let (connections, all) = recorded.map_err(|problem| experiment.failed(case, problem))?;
        let [connection] = <[Connection; 1]>::try_from(connections)
            .map_err(|all| experiment.failed(case, format!("{} connections", all.len())))?;
        // What happens on the wire, no host sees.
        let records: Vec<Record> =
            all.records.into_iter().filter(|it| host(it).is_some()).collect();
        let findings = findings(&records, connection.clone());
        let findings_of_ends = [Side::Client, Side::Server].map(|side| {
            let mine = records.iter().filter(|record| host(record) == Some(side)).copied();
            let half = Connection { both_ends_here: false, ..connection.clone() };
            self::findings(&mine.collect::<Vec<_>>(), half)
        });
        Ok(Self { planted, names, port, records, connection, findings, findings_of_ends })
    }
}

/// The ids of what the analysis finds, each once.
fn findings(records: &[Record], connection: Connection) -> Vec<String> {
    let mut analyzer = Analyzer::new();
    analyzer.push(records);
    analyzer.connection(connection);
    let drop_reasons = of_model(Meta::default()).drop_reasons;
    let analysis = analyzer.finish(TraceFacts { drop_reasons, ..TraceFacts::default() });
    let found = analysis.connections.iter().flat_map(|one| &one.findings);
    let mut findings: Vec<String> = found.map(|it| it.id.name().to_owned()).collect();
    findings.sort();
    findings.dedup();
    findings
}

/// The host that makes a record; `None` of the wire.
fn host(record: &Record) -> Option<Side> {
    let direction = record.flow.direction();
    let is_receivers = match record.kind {
        Kind::InputEnqueue | Kind::InputDequeue | Kind::ReceiveEnqueue | Kind::ReceiveDequeue => {
            true
        }
        Kind::ReadReturn | Kind::Wakeup | Kind::Run => true,
        Kind::Conversion => record.code != 0,
        Kind::Drop if record.code == Kind::InterfaceDequeue as u8 || record.code == 0 => {
            return None;
        }
        Kind::Drop => record.code > Kind::InterfaceDequeue as u8,
        _ => false,
    };
    Some(if is_receivers { direction.receiver() } else { direction.sender() })
}

impl Host {
    fn new(number: u32, chance: &mut Chance) -> Self {
        let address = format!("10.1.{}.{}", number / 200, number % 200 + 1);
        Self {
            name: format!("host-{number:03}"),
            address,
            kernel: format!("model.{}", number % 3 + 1),
            ahead_ns: chance.within(OFFSET_NS_MAX) as i64,
            gain_ns_per_s: chance.within(DRIFT_PPB_MAX) as i64,
            boot_ns: BEGIN_NS - SECOND_NS * (1_000 + i128::from(number) * 977),
        }
    }

    /// Its monotonic clock at a true time.
    fn clock(&self, true_ns: i128) -> u64 {
        let since = true_ns - self.boot_ns;
        u64::try_from(since + since * i128::from(self.gain_ns_per_s) / SECOND_NS).unwrap_or(0)
    }

    fn meta(&self) -> Meta {
        let monotonic_ns = self.clock(BEGIN_NS);
        let realtime_ns = u64::try_from(BEGIN_NS + i128::from(self.ahead_ns)).unwrap_or(0);
        of_model(Meta {
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            source: Source::Model,
            host: self.name.clone(),
            kernel: self.kernel.clone(),
            clock: vec![ClockSnapshot::new(monotonic_ns, realtime_ns)],
            ..Meta::default()
        })
    }
}

/// Chance by a seed (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// From `-most` to `most`.
    fn within(&mut self, most: i128) -> i128 {
        i128::from(self.below(2 * most as u64 + 1)) - most
    }
}

/// What a host recorded.
#[derive(Default)]
struct Recording {
    connections: Vec<Connection>,
    records: Vec<Record>,
}

/// Writes the segments of a fleet into a spool.
///
/// Each host opens connections to others: of the programs without a trouble `rounds` of each, and one of a program with
/// a trouble. One host is missing, a segment in the middle of another has no seal, and one of a third is damaged.
///
/// # Errors
///
/// When a program does not run, or a file cannot be written.
pub fn write_fleet(spool: &Path, fleet: &Fleet) -> Result<Truth> {
    if fleet.hosts < 4 {
        return Err(Error::Write {
            what: spool.display().to_string(),
            problem: "a fleet has 4 hosts or more".to_owned(),
        });
    }
    let programs = Program::all()?;
    let mut chance = Chance(fleet.seed);
    let hosts: Vec<Host> = (0..fleet.hosts).map(|number| Host::new(number, &mut chance)).collect();
    let [missing, unsealed, damaged] = [1, 2, 3].map(|from_end| (fleet.hosts - from_end) as usize);
    let mut recordings: Vec<Recording> = hosts.iter().map(|_| Recording::default()).collect();
    let mut connections = Vec::new();
    for client in 0..hosts.len() {
        let troubles = programs.iter().filter(|it| !it.planted.is_empty());
        let trouble = troubles.clone().nth(client % troubles.count());
        let healthy = programs.iter().filter(|it| it.planted.is_empty());
        let healthy = healthy.flat_map(|it| (0..fleet.rounds).map(move |_| it));
        for (number, program) in (0..).zip(trouble.into_iter().chain(healthy)) {
            let server = (client + 1 + number as usize % (hosts.len() - 1)) % hosts.len();
            let at_ns = BEGIN_NS + SECOND_NS + i128::from(chance.below(50_000_000_000));
            let ends = [client, server];
            let planted = connect(program, ends, number, at_ns, &hosts, &mut recordings);
            let cut = |host: usize| host == missing || host == unsealed || host == damaged;
            connections.push(Planted { is_cut: ends.into_iter().any(cut), ..planted });
        }
    }
    let mut records = 0;
    for (number, (host, recording)) in hosts.iter().zip(recordings).enumerate() {
        if number != missing {
            let absent = (number == unsealed).then_some(1);
            records += write_host(spool, host, recording, absent)?;
        }
        if number == damaged {
            damage(spool, host).map_err(|error| refused(spool, error))?;
        }
    }
    Ok(Truth {
        missing_host: hosts[missing].name.clone(),
        missing_address: hosts[missing].address.clone(),
        missing_segment: hosts[unsealed].name.clone(),
        damaged_segment: hosts[damaged].name.clone(),
        records,
        connections,
        hosts,
    })
}

/// Adds a connection to the recordings of its two hosts.
fn connect(
    program: &Program,
    ends: [usize; 2],
    number: u32,
    at_ns: i128,
    hosts: &[Host],
    recordings: &mut [Recording],
) -> Planted {
    let [client, server] = ends.map(|end| &hosts[end]);
    let client_end = format!("{}:{}", client.address, 20_000 + number);
    let server_end = format!("{}:{}", server.address, program.port);
    let begin_ns = i128::from(program.connection.opened_ns);
    for (end, side) in ends.into_iter().zip([Side::Client, Side::Server]) {
        let time = |ns: u64| hosts[end].clock(at_ns + i128::from(ns) - begin_ns);
        let recording = &mut recordings[end];
        let id = ConnectionId(recording.connections.len() as u32 + 1);
        let mine = program.records.iter().filter(|record| host(record) == Some(side));
        recording.records.extend(mine.map(|record| Record {
            flow: id.flow(record.flow.direction()),
            ..record.on_clock(time)
        }));
        let parse = |end: &str| end.parse().unwrap_or(program.connection.client);
        recording.connections.push(Connection {
            id,
            client: parse(&client_end),
            server: parse(&server_end),
            opened_ns: time(program.connection.opened_ns),
            closed_ns: program.connection.closed_ns.map(time),
            both_ends_here: false,
            processes: vec![Process::new(100, program.names[side as usize], side)],
            ..program.connection.clone()
        });
    }
    Planted {
        client_host: client.name.clone(),
        server_host: server.name.clone(),
        client: client_end,
        server: server_end,
        planted: program.planted.to_owned(),
        findings: program.findings.clone(),
        findings_of_ends: program.findings_of_ends.clone(),
        is_cut: false,
    }
}

/// Writes the segments of a host, but the absent one; gives the number of records.
fn write_host(spool: &Path, host: &Host, recording: Recording, absent: Option<u64>) -> Result<u64> {
    let meta = host.meta();
    let mut parts: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
    let bound = |part: u64| host.clock(BEGIN_NS + SEGMENT_NS * i128::from(part));
    for record in recording.records {
        let last = SEGMENTS_EACH as u64 - 1;
        let part = (0..last).find(|part| record.at_ns < bound(part + 1)).unwrap_or(last);
        parts.entry(part).or_default().push(record);
    }
    let mut count = 0;
    for part in (0..SEGMENTS_EACH as u64).filter(|part| Some(*part) != absent) {
        let (is_last, records) =
            (part + 1 == SEGMENTS_EACH as u64, parts.remove(&part).unwrap_or_default());
        let until_ns = bound(part + 1);
        let segment = Part {
            meta: &meta,
            run: "0000000000000001",
            sequence: part,
            is_last,
            times_ns: (bound(part), until_ns),
            connections: &recording.connections,
        };
        count += records.len() as u64;
        write_segment(spool, &segment, records).map_err(|error| refused(spool, error))?;
    }
    Ok(count)
}

/// Turns a bit in each file of the host's second segment.
fn damage(spool: &Path, host: &Host) -> std::io::Result<()> {
    let seal = spool.join(SEGMENTS).join(format!("{}-0000000000000001-00000001.json", host.name));
    let segment: Segment = serde_json::from_slice(&fs::read(seal)?)?;
    for file in segment.files {
        let path = spool.join(file.path);
        let mut octets = fs::read(&path)?;
        let middle = octets.len() / 2;
        octets[middle] ^= 1;
        fs::write(path, octets)?;
    }
    Ok(())
}

fn refused(spool: &Path, error: impl std::fmt::Display) -> Error {
    Error::Write { what: format!("spool {}", spool.display()), problem: error.to_string() }
}
