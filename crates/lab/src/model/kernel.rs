//! Machines and stacks with the switches of an experiment.

use sockscope_experiment::{AckRule, Case, Parameters, SendRule};
use sockscope_render::units::grouped;
use sockscope_sim::Machine;
use sockscope_stack::personality::{SendFill, SendWait};
use sockscope_stack::tcp::{ShortSegments, WindowUpdate};
use sockscope_stack::{Cost, Costs, Personality, Routine};

/// Size of an mbuf cluster.
const CLUSTER_BYTES: u32 = 1024;

/// The machine of both hosts: one included in the program, or a file of its form.
pub(crate) fn machine(parameters: &Parameters) -> Result<Machine, String> {
    let name = &parameters.machine;
    let mut machine = match name.strip_suffix(".toml") {
        Some(_) => machine_file(name)?,
        None => Machine::by_name(name).ok_or_else(|| {
            let known: Vec<_> = Machine::names().collect();
            format!("no machine `{name}`: expected one of {}, or a .toml file", known.join(", "))
        })?,
    };
    if let Some(has_gap) = parameters.driver_gap {
        machine.driver.sends_back_to_back = !has_gap;
        if !has_gap {
            // The gap is the driver's. The device still takes its own time for each frame.
            machine.driver.gap_ns = 0;
        }
    }
    if let Some(percent) = parameters.profiling_cost_percent {
        machine.cpu.count_ns = (u64::from(machine.cpu.count_ns) * u64::from(percent) / 100) as u32;
    }
    machine.costs = scaled(&machine.costs, parameters.protocol_cost_percent);
    if parameters.data_costs_only {
        (machine.costs, machine.cpu) = (of_data(&machine.costs), Machine::instant().cpu);
    }
    Ok(machine)
}

/// The same case, with the name from the machine's file in place of its path, which differs from one
/// computer to the next.
///
/// # Errors
///
/// When the file cannot be read or has no machine.
pub(crate) fn without_path(case: &Case) -> Result<Case, String> {
    let mut case = case.clone();
    if case.parameters.machine.ends_with(".toml") {
        let name = machine(&case.parameters)?.name;
        for (_, value) in case.named.iter_mut().filter(|(parameter, _)| parameter == "machine") {
            *value = toml::Value::String(name.clone());
        }
        case.parameters.machine = name;
    }
    Ok(case)
}

/// Of these costs the cost per octet of copies to and from programs and of checksums of data.
fn of_data(costs: &Costs) -> Costs {
    use Routine::{Copyin, Copyout, TcpCksum, UdpCksum};
    let mut only = Costs::default();
    for routine in [Copyin, Copyout, TcpCksum, UdpCksum] {
        only.set(routine, Cost { byte_ps: costs.of(routine).byte_ps, ..Cost::default() });
    }
    only
}

/// The machine of a file like those in `machines/`.
fn machine_file(path: &str) -> Result<Machine, String> {
    let refuse = |problem: String| format!("machine {path}: {}", problem.trim().replace('\n', " "));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    Machine::from_toml(&text).map_err(|error| refuse(error.to_string()))
}

/// The same with TCP, IP and their helpers at so many percent of their cost; copies to and from
/// programs, socket layer and driver stay.
fn scaled(costs: &Costs, percent: u32) -> Costs {
    use Routine::{
        InCksum, IpOutput, Ipintr, MCopy, TcpCksum, TcpInput, TcpOutput, TcpUsrreq, TcpXoutput,
    };
    let part = |number: u32| (u64::from(number) * u64::from(percent) / 100) as u32;
    let mut scaled = costs.clone();
    for routine in
        [TcpOutput, TcpXoutput, TcpInput, TcpUsrreq, TcpCksum, InCksum, IpOutput, Ipintr, MCopy]
    {
        let cost = costs.of(routine);
        let cost = Cost {
            call_ns: part(cost.call_ns),
            byte_ps: part(cost.byte_ps),
            mbuf_ns: part(cost.mbuf_ns),
            walk_ns: part(cost.walk_ns),
        };
        scaled.set(routine, cost);
    }
    scaled
}

/// That a case has larger socket buffers than its system gives a program, where it has.
pub(crate) fn beyond_limit(parameters: &Parameters) -> Option<String> {
    let most = Personality::by_name(&parameters.personality)?.socket.buffers.hiwat_max?;
    let set = parameters.socket_buffer_bytes.max(parameters.receiver_buffer_bytes)?;
    (set > u64::from(most)).then(|| {
        format!(
            "{} refuses a program socket buffers of more than {} octets; the laboratory sets {} past that limit",
            parameters.personality,
            grouped(&most.to_string()),
            grouped(&set.to_string())
        )
    })
}

/// The personality with the switches of the experiment.
pub(crate) fn personality(parameters: &Parameters) -> Result<Personality, String> {
    let name = &parameters.personality;
    let found = Personality::by_name(name);
    let mut personality = found.ok_or_else(|| {
        let known = Personality::ALL.map(|personality| personality.name);
        let (known, options) = (known.join(", "), Personality::OPTIONS.join(", +"));
        format!("no personality `{name}`: expected one of {known}, with or without +{options}")
    })?;
    let socket = &mut personality.socket;
    match parameters.send_rule {
        SendRule::Personality => {}
        SendRule::Fill => (socket.wait, socket.fill) = (SendWait::NoSpace, SendFill::Staged),
        SendRule::Old => socket.wait = SendWait::Aligned,
        SendRule::LowWater => {
            socket.wait = SendWait::LowWater;
            let mark = parameters.low_water_bytes.unwrap_or(0);
            socket.buffers.send_lowat = u32::try_from(mark).unwrap_or(u32::MAX);
        }
        SendRule::Cluster => {
            socket.wait = SendWait::LowWater;
            // More than a cluster must be free.
            socket.buffers.send_lowat = CLUSTER_BYTES + 1;
        }
    }
    if let Some(nagle) = parameters.nagle {
        let held = ShortSegments::Nagle { escape_bytes: None };
        personality.tcp.short_segments = if nagle { held } else { ShortSegments::Quarter };
    }
    personality.tcp.window_update = match parameters.ack_rule {
        AckRule::Personality => personality.tcp.window_update,
        AckRule::Share => WindowUpdate::Share { two_when_empty: false },
        AckRule::WhenEmpty => WindowUpdate::Share { two_when_empty: true },
        AckRule::TwoSegments => WindowUpdate::TwoOrHalf,
    };
    if let Some(caches_route) = parameters.udp_route_cache {
        personality.udp.caches_route = caches_route;
    }
    Ok(personality)
}
