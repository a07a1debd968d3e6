//! `sockscope lab link`: a command and its server at the two ends of a wire.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sockscope_link::{Ended, Hosts, Line, Settings, Side, Topology, Wire, carry};
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::output::write_to;
use sockscope_program::signals::StopSignals;
use sockscope_render::number::{count, counted};
use sockscope_render::units::Quantity;

use crate::args::LabLink;

/// Time that a server has until it takes connections or datagrams.
const SERVER_START: Duration = Duration::from_secs(5);
/// Time that a server has to end by itself after SIGTERM.
const SERVER_END: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// In the environment of a client's command: its number, from 1 on.
const CLIENT_NUMBER: &str = "SOCKSCOPE_CLIENT";
/// Of the delay: with later packets, the measurement is one of this machine and not of the link.
const LATE_PERCENT_MAX: u64 = 5;

/// `sockscope lab link`.
pub fn link(arguments: &LabLink) -> Result<Outcome, Failure> {
    let settings = both(arguments)?;
    let line = Line {
        rate: arguments.rate,
        queue: arguments.queue,
        mtu: arguments.mtu,
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
    let wires = [0, 1].map(|index| {
        // Each direction has a seed of its own, or both would drop the same packets.
        Wire::new(
            settings[index].clone(),
            arguments.seed.wrapping_mul(2).wrapping_add(index as u64),
        )
    });
    let is_over = AtomicBool::new(false);
    let (status, ended, device_drops) = thread::scope(|scope| {
        let carrying = scope.spawn(|| carry(&ends, wires, &is_over));
        let status = run(arguments, &hosts, &stop);
        let drops = [Side::Client, Side::Server].map(|side| hosts.device_drops(side).unwrap_or(0));
        is_over.store(true, Ordering::Relaxed);
        let ended = carrying.join().map_err(|_| of_link(&sockscope_link::Error::Thread))?;
        Ok::<_, Failure>((status?, ended.map_err(|error| of_link(&error))?, drops))
    })?;
    let report = Report { seed: arguments.seed, settings: &settings, ended: &ended, device_drops };
    report.say();
    if let Some(path) = &arguments.json {
        let text = format!("{:#}\n", report.json());
        write_to(path, |out| out.write_all(text.as_bytes()))?;
    }
    Ok(Outcome::OfCommand(exit_code(status)))
}

/// Refuses settings that only a wire in user space has.
fn check_without_wire(arguments: &LabLink, settings: &[Settings; 2]) -> Result<(), Failure> {
    let topology = arguments.topology;
    let refuse =
        |text: &str| Err(Failure::new(format!("lab link: the topology {topology} {text}")));
    let of_devices =
        Settings { rate: arguments.rate, capacity: arguments.queue, ..Settings::default() };
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

fn of_link(error: &sockscope_link::Error) -> Failure {
    Failure::new(format!("lab link: {error}"))
}

/// The settings to the server and to the command.
fn both(arguments: &LabLink) -> Result<[Settings; 2], Failure> {
    let trace = arguments.trace.as_deref().map(read_trace).transpose()?;
    let common = Settings {
        delay: arguments.delay,
        jitter: arguments.jitter,
        rate: arguments.rate,
        trace,
        capacity: arguments.queue,
        discipline: arguments.discipline,
        loss: arguments.loss,
        reordering: arguments.reorder,
        duplicates: arguments.duplicate,
        damage: arguments.damage,
        offload: arguments.gso,
    };
    let changes = [("--to-server", &arguments.to_server), ("--to-command", &arguments.to_command)];
    let [to_server, to_command] = changes.map(|(option, words)| {
        let mut settings = common.clone();
        let changed = settings.change(words.as_deref().unwrap_or_default());
        let checked = changed.and_then(|()| settings.check());
        checked.map(|()| settings).map_err(|error| match words {
            Some(_) => Failure::new(format!("lab link {option}: {error}")),
            None => Failure::new(format!("lab link: {error}")),
        })
    });
    Ok([to_server?, to_command?])
}

fn read_trace(path: &Path) -> Result<sockscope_link::Opportunities, Failure> {
    let named =
        |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| named(&error))?;
    text.parse().map_err(|error| named(&error))
}

/// Runs the server, if there is one, and the command of each client; how the first one ended that failed.
fn run(arguments: &LabLink, hosts: &Hosts, stop: &StopSignals) -> Result<ExitStatus, Failure> {
    let mut server = match &arguments.server {
        None => None,
        Some(line) => {
            let mut command = Command::new("sh");
            // Without a shell between, signals are the server's.
            command.arg("-c").arg(format!("exec {line}"));
            Some(hosts.start(Side::Server, command).map_err(|error| of_link(&error))?)
        }
    };
    if let Some(server) = &mut server {
        wait_for(hosts, server, stop)?;
    }
    let mut commands = Vec::new();
    for index in 0..arguments.topology.clients() {
        let started = hosts.start_client(index, client_command(arguments, index));
        commands.push(started.map_err(|error| of_link(&error))?);
    }
    let mut statuses = vec![None; commands.len()];
    while statuses.iter().any(Option::is_none) {
        for (command, status) in commands.iter_mut().zip(&mut statuses) {
            if status.is_none() {
                *status = ended(command)?;
            }
            if status.is_none() && stop.stop_requested() {
                end(command)?;
            }
        }
        thread::sleep(LOOK_EVERY);
    }
    if let Some(mut server) = server {
        end(&mut server)?;
    }
    let mut statuses = statuses.into_iter().flatten();
    let first = statuses.next().unwrap_or_default();
    Ok(if first.success() {
        statuses.find(|status| !status.success()).unwrap_or(first)
    } else {
        first
    })
}

/// The command of a client, from 0 on; people count from 1.
fn client_command(arguments: &LabLink, index: usize) -> Command {
    let (program, rest) = arguments.command.split_first().unwrap_or_else(|| unreachable!("clap"));
    let mut command = Command::new(program);
    command.args(rest).env(CLIENT_NUMBER, (index + 1).to_string());
    command
}

/// Waits until the server can be asked.
fn wait_for(hosts: &Hosts, server: &mut Child, stop: &StopSignals) -> Result<(), Failure> {
    let until = Instant::now() + SERVER_START;
    while !hosts.is_served(Side::Server).map_err(|error| of_link(&error))? {
        if let Some(status) = ended(server)? {
            return Err(Failure::new(format!("lab link: the server ended with {status}")));
        }
        if Instant::now() >= until || stop.stop_requested() {
            stderr!("sockscope: no socket of the server listens; the command starts all the same");
            return Ok(());
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn ended(child: &mut Child) -> Result<Option<ExitStatus>, Failure> {
    child.try_wait().map_err(|error| Failure::new(format!("cannot wait for a command: {error}")))
}

/// Ends a command by SIGTERM, and by SIGKILL where that does nothing.
fn end(child: &mut Child) -> Result<(), Failure> {
    if ended(child)?.is_some() {
        return Ok(());
    }
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // It ended just now where there is no such process.
        let _ = kill_process(pid, Signal::TERM);
    }
    let until = Instant::now() + SERVER_END;
    while ended(child)?.is_none() {
        if Instant::now() >= until {
            child.kill().map_err(|error| Failure::new(format!("cannot end a command: {error}")))?;
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// The status with which a shell would end.
pub fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The counts and times of the wire.
struct Report<'a> {
    seed: u64,
    settings: &'a [Settings; 2],
    ended: &'a [Ended; 2],
    /// Packets that the kernel dropped before the wire took them.
    device_drops: [u64; 2],
}

impl Report<'_> {
    fn say(&self) {
        let [to_server, to_command] = self.settings.each_ref().map(ToString::to_string);
        match to_server == to_command {
            true => stderr!("link        seed {}; {to_server}", self.seed),
            false => stderr!(
                "link        seed {}; to server {to_server}; to command {to_command}",
                self.seed
            ),
        }
        for index in [0, 1] {
            stderr!("{}", self.line(index));
        }
        for index in [0, 1] {
            self.lateness_caution(index).into_iter().for_each(|line| stderr!("{line}"));
        }
    }

    fn line(&self, index: usize) -> String {
        let Ended { counts, inside, refused, lateness } = &self.ended[index];
        let name = ["to server", "to command"][index];
        let parts = [
            (counts.dropped_by_loss, "dropped by loss"),
            (counts.dropped_by_queue, "dropped by the full queue"),
            (counts.dropped_by_codel, "dropped by CoDel"),
            (self.device_drops[index], "dropped by the kernel before the wire"),
            (counts.duplicated, "duplicated"),
            (counts.damaged, "damaged"),
            (counts.held_back, "held back"),
            (*refused, "refused by the receiving device"),
            (*inside, "still inside"),
        ];
        let mut words = vec![
            format!("{} entered", counted(counts.entered, "packet")),
            format!("{} left", count(counts.left)),
        ];
        let shown = parts.iter().filter(|(number, _)| *number > 0);
        words.extend(shown.map(|(number, what)| format!("{} {what}", count(*number))));
        let time = |ns: u64| Quantity::Time.words(ns as f64);
        format!(
            "{name:<11} {}; late p50 {}, p99 {}, max {}",
            words.join(", "),
            time(lateness.percentile_ns(50)),
            time(lateness.percentile_ns(99)),
            time(lateness.max_ns())
        )
    }

    /// Whether packets left too late for the delay.
    fn is_late(&self, index: usize) -> bool {
        let p99_ns = self.ended[index].lateness.percentile_ns(99);
        let delay_ns = self.settings[index].delay.0;
        delay_ns > 0 && p99_ns.saturating_mul(100) > delay_ns.saturating_mul(LATE_PERCENT_MAX)
    }

    fn lateness_caution(&self, index: usize) -> Option<String> {
        let name = ["to the server", "to the command"][index];
        let p99_ns = self.ended[index].lateness.percentile_ns(99);
        self.is_late(index).then(|| {
            format!(
                "caution     packets {name} left up to {} late (p99), more than {LATE_PERCENT_MAX} % of the delay: \
                 this machine is too busy for this link",
                Quantity::Time.words(p99_ns as f64)
            )
        })
    }

    fn json(&self) -> Value {
        let direction = |index: usize| {
            let Ended { counts, inside, refused, lateness } = &self.ended[index];
            json!({
                "settings": self.settings[index].to_string(),
                "delay_ns": self.settings[index].delay.0,
                "rate_bits_per_s": self.settings[index].rate.map(|rate| rate.0),
                "entered": counts.entered,
                "left": counts.left,
                "duplicated": counts.duplicated,
                "dropped": {
                    "loss": counts.dropped_by_loss,
                    "queue": counts.dropped_by_queue,
                    "codel": counts.dropped_by_codel,
                    "device": self.device_drops[index],
                },
                "damaged": counts.damaged,
                "held_back": counts.held_back,
                "refused": refused,
                "inside": inside,
                "lateness_ns": {
                    "p50": lateness.percentile_ns(50),
                    "p99": lateness.percentile_ns(99),
                    "max": lateness.max_ns(),
                },
                "late": self.is_late(index),
            })
        };
        json!({
            "schema": "sockscope.link/1",
            "seed": self.seed,
            "to_server": direction(0),
            "to_command": direction(1),
        })
    }
}
