//! `sockscope lab link`: a command and its server at the two ends of a wire.

use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sockscope_link::{Hosts, Line, Settings, Side, Topology, carry};
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::signals::StopSignals;

use crate::args::LabLink;
use crate::programs::{end, exit_code, of_link, run_clients, start_server};
use crate::wire::{Report, both, wires};

/// `sockscope lab link`.
pub fn link(arguments: &LabLink) -> Result<Outcome, Failure> {
    let settings = both(&arguments.wire, "link", arguments.gso)?;
    let line = Line {
        rate: arguments.wire.rate,
        queue: arguments.wire.queue,
        mtu: arguments.wire.mtu,
        has_offload: arguments.gso,
    };
    if arguments.topology != Topology::Link {
        check_without_wire(arguments, &settings)?;
    }
    let stop = StopSignals::register()?;
    let (hosts, ends) = arguments.topology.build(line).map_err(|error| of_link(&error))?;
    let Some(ends) = ends else {
        let status = run(arguments, &hosts, &stop)?;
        stderr!("{}", without_wire(arguments.topology, line));
        return Ok(Outcome::OfCommand(exit_code(status)));
    };
    let wires = wires(&settings, arguments.wire.seed);
    let is_over = AtomicBool::new(false);
    let (status, ended, device_drops) = thread::scope(|scope| {
        let carrying = scope.spawn(|| carry(&ends, wires, &is_over));
        let status = run(arguments, &hosts, &stop);
        let drops = [Side::Client, Side::Server].map(|side| hosts.device_drops(side).unwrap_or(0));
        is_over.store(true, Ordering::Relaxed);
        let ended = carrying.join().map_err(|_| of_link(&sockscope_link::Error::Thread))?;
        Ok::<_, Failure>((status?, ended.map_err(|error| of_link(&error))?, drops))
    })?;
    let report =
        Report { seed: arguments.wire.seed, settings: &settings, ended: &ended, device_drops };
    report.tell(arguments.json.as_deref())?;
    Ok(Outcome::OfCommand(exit_code(status)))
}

/// Refuses settings that only a wire in user space has.
fn check_without_wire(arguments: &LabLink, settings: &[Settings; 2]) -> Result<(), Failure> {
    let topology = arguments.topology;
    let refuse =
        |text: &str| Err(Failure::new(format!("lab link: the topology {topology} {text}")));
    let of_devices = Settings {
        rate: arguments.wire.rate,
        capacity: arguments.wire.queue,
        ..Settings::default()
    };
    if settings.iter().any(|settings| *settings != of_devices) {
        return refuse("has a rate and a queue only; the other settings are those of a link");
    }
    if topology == Topology::Loopback && of_devices != Settings::default() {
        return refuse("has no rate and no queue");
    }
    match arguments.json {
        Some(_) => refuse("counts no packets for --json; a link does"),
        None => Ok(()),
    }
}

/// A line about a topology of devices alone.
fn without_wire(topology: Topology, line: Line) -> String {
    let settings = Settings { rate: line.rate, capacity: line.queue, ..Settings::default() };
    let settings = settings.to_string();
    format!("{:<11} {settings}", topology.to_string())
}

/// Runs the server, if there is one, and the command of each client; how the first one ended that failed.
fn run(arguments: &LabLink, hosts: &Hosts, stop: &StopSignals) -> Result<ExitStatus, Failure> {
    let server = arguments.server.as_deref().map(|line| start_server(hosts, line, stop));
    let mut server = server.transpose()?;
    let status = run_clients(hosts, arguments.topology.clients(), &arguments.command, stop)?;
    if let Some(server) = &mut server {
        end(server)?;
    }
    Ok(status)
}
