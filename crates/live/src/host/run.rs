//! A host at work until it is over, recorded or not.

use std::sync::atomic::AtomicBool;

use sockscope_link::{Ended, Tun, Wire, carry_to_station, now_ns};
use sockscope_sim::sink::of_model;
use sockscope_sim::{BundleSink, NoRecords, RecordSink};
use sockscope_trace::{BundleWriter, ClockSnapshot, Meta};

use super::{Exchanged, Fetched, HostError, HostPlan, ModelHost};

/// Where the records of a host go.
pub struct Trace {
    /// The bundle, which has begun.
    pub writer: BundleWriter,
    /// What it says of itself, as [`meta`] has it.
    pub meta: Meta,
    /// Both clocks.
    pub clock: fn() -> ClockSnapshot,
}

/// What the processes of a host do of themselves.
#[derive(Debug, Clone)]
pub struct Begun {
    /// The page that it fetches.
    pub fetched: Option<Fetched>,
    /// The exchanges that it makes.
    pub exchanged: Option<Exchanged>,
}

/// What the bundle of a host says of itself. `command` is the command line of the program.
pub fn meta(plan: &HostPlan, command: Vec<String>, clock: ClockSnapshot) -> Meta {
    of_model(Meta {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        host: plan.machine.clone(),
        kernel: plan.personality.clone(),
        pick: "every connection of the host".to_owned(),
        command,
        clock: vec![clock],
        ..Meta::default()
    })
}

/// Runs a host at the other end of `device` until `is_over`. `wires` are those to the host and to the device.
/// `begun` gets to know of the work of the host.
///
/// # Errors
///
/// [`HostError`].
pub fn run(
    plan: &HostPlan,
    device: &Tun,
    wires: [Wire; 2],
    trace: Option<Trace>,
    begun: impl FnOnce(Begun),
    is_over: &AtomicBool,
) -> Result<[Ended; 2], HostError> {
    let Some(Trace { writer, mut meta, clock }) = trace else {
        return carry(plan, device, wires, NoRecords, begun, is_over).map(|(ended, _)| ended);
    };
    let (ended, host) = carry(plan, device, wires, BundleSink::of(writer), begun, is_over)?;
    meta.clock.push(clock());
    let (sink, connections) = host.into_records();
    sink.finish(&connections, meta)?;
    Ok(ended)
}

fn carry<S: RecordSink>(
    plan: &HostPlan,
    device: &Tun,
    wires: [Wire; 2],
    sink: S,
    begun: impl FnOnce(Begun),
    is_over: &AtomicBool,
) -> Result<([Ended; 2], ModelHost<S>), HostError> {
    let mut host = ModelHost::new(plan, now_ns(), sink)?;
    let fetch = plan.fetch.as_ref();
    begun(Begun {
        fetched: fetch.map(|(address, port, path)| host.fetch((*address, *port), path)),
        exchanged: plan.exchanges.map(|exchanges| host.exchange(exchanges, plan.seed)),
    });
    let ended = carry_to_station(device, &mut host, wires, is_over)?;
    Ok((ended, host))
}
