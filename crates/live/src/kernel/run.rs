//! One run of one case: its programs, and the counts of the programs and their hosts.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use sockscope_experiment::measurement::{Measure, Measurement, Phase};
use sockscope_link::HostTraffic;

use super::children::{END, LOOK_EVERY, RUN, START, Starter, ended, errors, problem, terminate};
use super::error::KernelError;
use super::network::with_hosts;
use super::others;
use super::programs::{Kind, Programs};
use super::recorded::{self, Seen, Trace};
use crate::conditions::Namespaces;

/// Time in which the processes of a load start.
const LOAD_BEFORE: Duration = Duration::from_millis(100);

/// What a run gave.
pub(super) struct Run {
    pub(super) measured: Measurement,
    /// The wire was late by more than its share.
    pub(super) is_late: bool,
    /// Settings of both ends.
    pub(super) namespaces: Namespaces,
}

pub(super) fn run(programs: &Programs, laboratory: &Path) -> Result<Run, KernelError> {
    let (ran, is_late) = with_hosts(&programs.network, |hosts| {
        let starter = Starter { hosts, group: None };
        // The case's settings are there from its beginning to the end of its namespaces.
        Ok::<_, KernelError>((on(starter, programs, laboratory)?, Namespaces::read(hosts)?))
    })?;
    let (measured, namespaces) = ran?;
    Ok(Run { measured, is_late, namespaces })
}

/// The same while the kernel's passages of data are recorded: the records, and what the programs measured meanwhile.
pub(super) fn record(
    programs: &Programs,
    laboratory: &Path,
    trace: Option<&Trace>,
) -> Result<(Seen, Measurement), KernelError> {
    let (seen, _) = with_hosts(&programs.network, |hosts| {
        let ran = recorded::of(trace, programs.recorded_port(), |group| {
            on(Starter { hosts, group: Some(group) }, programs, laboratory)
        });
        let (seen, measured) = ran.map_err(|error| problem(error.to_string()))?;
        measured.map(|measured| (seen, measured))
    })?;
    seen
}

/// What programs reported: servers and clients as the case has them.
pub(super) struct Reports {
    pub(super) servers: Vec<Value>,
    pub(super) clients: Vec<Value>,
    /// Numbers of the processes on this host.
    pub(super) server_pids: Vec<u32>,
    pub(super) client_pids: Vec<u32>,
    traffic: HostTraffic,
}

fn on(
    starter: Starter<'_>,
    programs: &Programs,
    laboratory: &Path,
) -> Result<Measurement, KernelError> {
    let hosts = starter.hosts;
    for (name, value) in &programs.settings {
        hosts.set_ipv4(name, value)?;
    }
    if let Kind::Others(parser) = programs.kind {
        return others::run(starter, programs, parser);
    }
    let (reports, ()) = reports(starter, programs, laboratory, || Ok(()))?;
    Ok(reports.measurement(programs.kind))
}

/// Runs the programs. `begin` is called when the servers are there; what it gives is kept until the clients have ended.
pub(super) fn reports<A>(
    starter: Starter<'_>,
    programs: &Programs,
    laboratory: &Path,
    begin: impl FnOnce() -> Result<A, KernelError>,
) -> Result<(Reports, A), KernelError> {
    let hosts = starter.hosts;
    let load = match &programs.load {
        Some((side, arguments)) => {
            let load = starter.start(*side, command(laboratory, arguments))?;
            thread::sleep(LOAD_BEFORE);
            Some(load)
        }
        None => None,
    };
    let before = hosts.traffic()?;
    let mut servers = Vec::new();
    for server in &programs.servers {
        let mut child = starter.start(server.side, command(laboratory, &server.arguments))?;
        let until = Instant::now() + START;
        while !hosts.is_served_at(server.side, server.port)? {
            if ended(&mut child)? || Instant::now() >= until {
                return Err(problem(format!("the server did not start: {}", errors(&mut child))));
            }
            thread::sleep(LOOK_EVERY);
        }
        servers.push(child);
    }
    let begun = begin()?;
    let clients: Result<Vec<Child>, _> = programs
        .clients
        .iter()
        .enumerate()
        // In a crowd each is on a host of its own.
        .map(|(at, arguments)| {
            let host = if hosts.clients() > 1 { at } else { 0 };
            starter.start_client(host, command(laboratory, arguments))
        })
        .collect();
    let results = |children: Vec<Child>, name, patience| {
        let all = children.into_iter().map(|mut child| result(name, &mut child, patience));
        all.collect::<Result<Vec<Value>, _>>()
    };
    let clients = clients?;
    let client_pids = clients.iter().map(Child::id).collect();
    let server_pids = servers.iter().map(Child::id).collect();
    let clients = results(clients, "the client", RUN)?;
    if programs.needs_signal {
        servers.iter().try_for_each(terminate)?;
    }
    let servers = results(servers, "the server", END)?;
    let traffic = hosts.traffic()? - before;
    if let Some(mut load) = load {
        terminate(&load)?;
        result("the load", &mut load, END)?;
    }
    Ok((Reports { servers, clients, server_pids, client_pids, traffic }, begun))
}

fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or(0)
}

impl Reports {
    /// Segments with data, and datagrams, both ways.
    pub(super) fn segments(&self) -> u64 {
        self.traffic.data_segments + self.traffic.retransmitted + self.traffic.datagrams
    }

    fn measurement(&self, kind: Kind) -> Measurement {
        // The programs that ask are those that begin, and the last reader is the first server.
        let start_ns = self.clients.iter().map(|it| number(it, "start_ns")).min().unwrap_or(0);
        let received = &self.servers[0];
        let transfer_ns = number(received, "end_ns").saturating_sub(start_ns);
        let measured = Measurement {
            bytes: number(&received["received"], "bytes"),
            transfer_ns,
            call_ns: [transfer_ns].into_iter().collect(),
            segments: self.segments(),
            acks: self.traffic.pure_acks,
            retransmitted: self.traffic.retransmitted,
            ..Measurement::default()
        };
        match kind {
            Kind::Transfer => {
                let copy = Measure::new("memory_copy_bits_per_s", memory_copy_bits_per_s());
                Measurement { measures: vec![copy], ..measured }
            }
            Kind::Calls => Measurement {
                call_ns: self.times().collect(),
                measures: self.calls_of_kernel(),
                ..measured
            },
            // Their programs say themselves what they did.
            Kind::Others(_) => measured,
            Kind::Pipeline => self.of_stage(measured),
            Kind::Transactions { clients, hosts } => self.of_calls(measured, clients, hosts),
        }
    }

    /// Times of single calls.
    fn times(&self) -> impl Iterator<Item = u64> {
        let times = self.clients.iter().filter_map(|client| client["times_ns"].as_array());
        times.flatten().filter_map(Value::as_u64)
    }

    /// Calls to read and to write of a remote call, at the client.
    fn calls_of_kernel(&self) -> Vec<Measure> {
        let client = &self.clients[0];
        let calls = self.times().count().max(1) as f64;
        let counts = [("reads_per_call", "reads"), ("writes_per_call", "writes")];
        let counted = counts.into_iter().filter_map(|(measure, name)| {
            Some(Measure::new(measure, client[name].as_u64()? as f64 / calls))
        });
        counted.collect()
    }

    /// When each process of the stage had each piece, and how long those that communicate were ready without a CPU.
    fn of_stage(&self, measured: Measurement) -> Measurement {
        let processes = &self.servers[1]["processes"];
        let names = [("receive", "read"), ("compute", "compute"), ("transmit", "write")];
        let mut phases = Vec::new();
        for (name, process) in names {
            let times = processes[name]["times_ns"].as_array().into_iter().flatten();
            phases.extend(times.filter_map(|pair| {
                let [from_ns, to_ns] = [pair[0].as_u64()?, pair[1].as_u64()?];
                Some(Phase { process, from_ns, to_ns })
            }));
        }
        phases.sort_by_key(|phase| phase.from_ns);
        let mean_us = |process: &str| {
            let own = phases.iter().filter(|phase| phase.process == process);
            let us: Vec<f64> =
                own.map(|phase| phase.to_ns.saturating_sub(phase.from_ns) as f64 / 1e3).collect();
            recorded::mean(&us)
        };
        let pieces = number(&processes["receive"]["received"], "messages").max(1);
        let waited = ["receive", "transmit"].map(|name| number(&processes[name], "ready_ns"));
        let wait_us = waited.iter().sum::<u64>() as f64 / 1e3 / (2 * pieces) as f64;
        let measures = [
            ("stage_read_us", mean_us("read")),
            ("stage_compute_us", mean_us("compute")),
            ("stage_write_us", mean_us("write")),
            ("stage_cpu_wait_us", wait_us),
        ];
        let measures = measures.map(|(name, value)| Measure::new(name, value)).into();
        Measurement { phases, measures, ..measured }
    }

    fn of_calls(&self, measured: Measurement, clients: u32, hosts: u32) -> Measurement {
        let sum = |of: &[Value], name: &str| of.iter().map(|it| number(it, name)).sum::<u64>();
        let per_s: f64 =
            self.clients.iter().filter_map(|it| it["transactions_per_s"].as_f64()).sum();
        let calls = self.times().count().max(1) as f64;
        let bytes =
            |way: &str| self.clients.iter().map(|it| number(&it[way], "bytes")).sum::<u64>();
        let packets_out = sum(&self.clients, "packets") as f64 / calls;
        let elapsed_ns = calls * 1e9 / per_s;
        let percent = |of: &[Value], hosts: u32| {
            100.0 * sum(of, "cpu_ns") as f64 / f64::from(hosts) / elapsed_ns
        };
        // Unknown of TCP and of QUIC.
        let repeated = |name: &str| match self.clients.iter().any(|it| it[name].is_u64()) {
            true => sum(&self.clients, name) as f64,
            false => f64::NAN,
        };
        let measures = [
            ("transactions_per_s", per_s),
            ("client_packets_per_s", per_s * packets_out / f64::from(clients)),
            ("host_packets_per_s", per_s * packets_out / f64::from(hosts)),
            ("packets_out", packets_out),
            ("packets_in", sum(&self.servers, "packets") as f64 / calls),
            ("client_cpu_percent", percent(&self.clients, hosts)),
            ("server_cpu_percent", percent(&self.servers, 1)),
            ("blocks_again", repeated("blocks_again")),
            ("timeouts", repeated("timeouts")),
        ];
        Measurement {
            call_ns: self.times().collect(),
            bytes: bytes("sent") + bytes("received"),
            transfer_ns: elapsed_ns as u64,
            measures: measures.map(|(name, value)| Measure::new(name, value)).into(),
            ..measured
        }
    }
}

/// How fast this processor copies memory, in pieces that a read of the SunOS study asked for.
fn memory_copy_bits_per_s() -> f64 {
    const PIECE: usize = 52_428;
    const PIECES: u32 = 200;
    let from = vec![0x5a_u8; PIECE];
    let mut to = vec![0; PIECE];
    let began = Instant::now();
    for _ in 0..PIECES {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
    }
    f64::from(PIECES) * PIECE as f64 * 8.0 / began.elapsed().as_secs_f64()
}

fn command(laboratory: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(laboratory);
    command.args(["lab", "work"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits for a program's line of JSON. Its output fits the pipe but for long lists of times, so it is read by a thread.
fn result(name: &str, child: &mut Child, patience: Duration) -> Result<Value, KernelError> {
    let output = child.stdout.take();
    let reading = thread::spawn(move || {
        let mut text = String::new();
        output.map(|mut output| output.read_to_string(&mut text));
        text
    });
    let until = Instant::now() + patience;
    while !ended(child)? {
        if Instant::now() >= until {
            let _ = child.kill();
            let _ = child.wait();
            return Err(problem(format!("{name} did not end in {} s", patience.as_secs())));
        }
        thread::sleep(LOOK_EVERY);
    }
    let text = reading.join().unwrap_or_default();
    serde_json::from_str(&text).map_err(|_| problem(format!("{name}: {}", errors(child))))
}
