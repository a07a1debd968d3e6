//! `sockscope lab host`: a network stack of the 1980s at the other end of a wire.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use sockscope_link::{Hosts, Side, with_station};
use sockscope_live::host::{Begun, Exchanges, HostError, HostPlan, Progress, Trace, meta, run};
use sockscope_program::failure::Failure;
use sockscope_program::machine::clock;
use sockscope_program::outcome::Outcome;
use sockscope_program::output::write_to;
use sockscope_program::output_dir::OutputDir;
use sockscope_program::signals::StopSignals;
use sockscope_render::number::{count, counted};

use crate::args::LabHost;
use crate::programs::{LOOK_EVERY, end, exit_code, of_link, run_clients, start_server};
use crate::wire::{Report, both, wires};

/// `sockscope lab host`.
pub fn host(arguments: &LabHost) -> Result<Outcome, Failure> {
    let settings = both(&arguments.wire, "host", false)?;
    let plan = plan(arguments);
    plan.check().map_err(|error| of_host(&error))?;
    let output = arguments.output.as_deref();
    let output = output.map(|dir| OutputDir::find(dir, &[])).transpose()?;
    let stop = StopSignals::register()?;
    let (hosts, device) = with_station(arguments.wire.mtu).map_err(|error| of_link(&error))?;
    let server = arguments.server.as_deref().map(|line| start_server(&hosts, line, &stop));
    let mut server = server.transpose()?;
    let meta = meta(&plan, std::env::args().collect(), clock());
    // Locked until the bundle is whole.
    let output = output.map(|output| output.create(meta.clone())).transpose()?;
    let (writer, _lock) = output.unzip();
    let trace = writer.map(|writer| Trace { writer, meta, clock });
    let wires = wires(&settings, arguments.wire.seed);
    let is_over = AtomicBool::new(false);
    let (begun, begins) = channel();
    let (status, ended, drops) = thread::scope(|scope| {
        let begun = move |work| {
            // The other end waits for it unless it has failed.
            let _ = begun.send(work);
        };
        let carrying = scope.spawn(|| run(&plan, &device, wires, trace, begun, &is_over));
        let status = at_this_end(arguments, &hosts, &begins, &stop);
        let drops = [hosts.device_drops(Side::Client).unwrap_or(0), 0];
        is_over.store(true, Ordering::Relaxed);
        let ended = carrying.join().map_err(|_| of_link(&sockscope_link::Error::Thread))?;
        let ended = ended.map_err(|error| of_host(&error))?;
        Ok::<_, Failure>((status?, ended, drops))
    })?;
    if let Some(server) = &mut server {
        end(server)?;
    }
    stderr!("host        {} on the machine {}", plan.personality, plan.machine);
    let seed = arguments.wire.seed;
    let report = Report { seed, settings: &settings, ended: &ended, device_drops: drops };
    report.tell(arguments.json.as_deref())?;
    Ok(status.map_or(Outcome::Done, |status| Outcome::OfCommand(exit_code(status))))
}

fn plan(arguments: &LabHost) -> HostPlan {
    let fetch = arguments.fetch.as_ref();
    HostPlan {
        personality: arguments.personality.clone(),
        machine: arguments.machine.clone(),
        address: v4(Side::Server),
        mtu: arguments.wire.mtu,
        seed: arguments.wire.seed,
        services: arguments.serve.clone(),
        fetch: fetch.map(|(port, path)| (v4(Side::Client), *port, path.clone())),
        exchanges: arguments.exchange.map(|(port, count, connections)| Exchanges {
            with: (v4(Side::Client), port),
            count,
            connections,
        }),
    }
}

fn v4(side: Side) -> Ipv4Addr {
    match side.address() {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => unreachable!("links have IPv4 only"),
    }
}

fn of_host(error: &HostError) -> Failure {
    Failure::new(format!("lab host: {error}"))
}

/// Runs the command, and waits for the page and the exchanges of the host; the status of the command.
fn at_this_end(
    arguments: &LabHost,
    hosts: &Hosts,
    begins: &Receiver<Begun>,
    stop: &StopSignals,
) -> Result<Option<ExitStatus>, Failure> {
    // The host is at work, or has failed: then it says so itself.
    let Ok(begun) = begins.recv() else { return Ok(None) };
    let status = match arguments.command.is_empty() {
        true => None,
        false => Some(run_clients(hosts, 1, &arguments.command, stop)?),
    };
    if let Some(fetched) = begun.fetched {
        let Some(answer) = wait_for(|| fetched.answer(), stop) else { return Ok(status) };
        let bytes = answer.map_err(|error| {
            Failure::new(format!("lab host: the host cannot fetch it: {error}"))
        })?;
        write_to(Path::new("-"), |out| out.write_all(&bytes))?;
    }
    if let Some(exchanged) = begun.exchanged {
        let over = || Some(exchanged.progress()).filter(|progress| progress.at_work == 0);
        wait_for(over, stop);
        let Progress { done, wrong, error, at_work } = exchanged.progress();
        stderr!("exchanges   {} of the host were answered right", count(done));
        if wrong > 0 {
            let connections = counted(wrong.into(), "connection");
            return Err(Failure::new(format!("lab host: wrong bytes arrived on {connections}")));
        }
        if let Some(error) = error {
            return Err(Failure::new(format!("lab host: an exchange of the host failed: {error}")));
        }
        if at_work > 0 {
            return Err(Failure::new("lab host: stopped before all exchanges were made"));
        }
    }
    Ok(status)
}

/// Waits until there is something, or for a signal.
fn wait_for<T>(mut look: impl FnMut() -> Option<T>, stop: &StopSignals) -> Option<T> {
    loop {
        let found = look();
        if found.is_some() || stop.stop_requested() {
            return found;
        }
        thread::sleep(LOOK_EVERY);
    }
}
