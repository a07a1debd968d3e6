//! The hooks that work on this machine, and the cost of a hit here.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::hooks::{Kernel, When};
use crate::lists::Shape;
use crate::pick::Pick;
use crate::programs::{HookReport, Programs, Statistics};

/// The cost of one program's hits, as the kernel measured it.
#[derive(Debug, Clone, PartialEq)]
pub struct HitCost {
    /// The program's name in the table of hooks.
    pub program: &'static str,
    /// Hits measured.
    pub hits: u64,
    /// Mean nanoseconds of a hit, with the kernel's own statistics in it.
    pub gross_ns: f64,
    /// The same less the mean of an empty program; `None` when that could not be measured.
    pub net_ns: Option<f64>,
}

/// Loads and attaches every hook once, and reports the state of each.
///
/// # Errors
/// When nothing can be loaded at all.
pub fn probe_hooks() -> Result<Vec<HookReport>, Error> {
    let mut programs = Programs::load(&Pick::default(), Shape::of(None))?;
    for when in [
        When::Control,
        When::Devices,
        When::Datagrams,
        When::Calls,
        When::Unix,
        When::InBand,
        When::Always,
    ] {
        programs.attach(when);
    }
    Ok(programs.report())
}

/// Runs small calls over a loopback connection of its own for `time`, all of it logged, and
/// measures the cost of each hit.
///
/// # Errors
/// When probes cannot be loaded, or the connection cannot be made.
pub fn measure(time: Duration) -> Result<Vec<HitCost>, Error> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(no_traffic)?;
    let port = listener.local_addr().map_err(no_traffic)?.port();
    let mut programs =
        Programs::load(&Pick { ports: vec![port], ..Pick::default() }, Shape::of(None))?;
    programs.attach(When::Always);
    programs.attach(When::Measure);
    let lists = programs.lists()?;
    let statistics = Statistics::enable();
    let before = programs.costs();
    let empty_lists = || {
        for cpu in 0..lists.len() {
            lists.release(cpu, lists.span(cpu).1);
        }
    };
    calls(&listener, time, empty_lists).map_err(no_traffic)?;
    let after = programs.costs();
    drop(statistics);
    let cost = |name: &str| {
        let (hits, run_ns) = after.get(name).copied()?;
        let (hits_before, run_before) = before.get(name).copied().unwrap_or((0, 0));
        let (hits, run_ns) = (hits - hits_before, run_ns - run_before);
        (hits > 0 && run_ns > 0).then(|| (hits, run_ns as f64 / hits as f64))
    };
    let empty = cost("empty").map(|(_, mean)| mean);
    Ok(programs
        .report()
        .iter()
        .filter_map(|report| {
            let (hits, gross_ns) = cost(report.entry.program)?;
            let net_ns = empty.map(|empty| gross_ns - empty);
            Some(HitCost { program: report.entry.program, hits, gross_ns, net_ns })
        })
        .collect())
}

fn no_traffic(source: std::io::Error) -> Error {
    Error::File { what: "cannot make traffic on", path: "loopback".into(), source }
}

/// Calls of 100 bytes each way between two threads.
fn calls(listener: &TcpListener, time: Duration, mut between: impl FnMut()) -> std::io::Result<()> {
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    // Each call is then one segment, without a wait for an acknowledgment (Nagle's algorithm,
    // RFC 9293 §3.7.4).
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let answering = std::thread::spawn(move || {
        let mut bytes = [0; 100];
        while server.read_exact(&mut bytes).is_ok() && server.write_all(&bytes).is_ok() {}
    });
    let ends = Instant::now() + time;
    let mut bytes = [0; 100];
    while Instant::now() < ends {
        for _ in 0..100 {
            client.write_all(&bytes)?;
            client.read_exact(&mut bytes)?;
        }
        between();
    }
    drop(client);
    // The thread ends with its connection; a panic in it would have shown in the reads.
    let _ = answering.join();
    Ok(())
}

/// The running kernel's names of drop reasons, by number.
pub fn drop_reasons() -> Vec<(u32, String)> {
    Kernel::running().map(|kernel| kernel.drop_reasons()).unwrap_or_default()
}
