//! One slice of a running transfer under a condition, and its rate.

use std::thread::sleep;
use std::time::Duration;

use sockscope_probe::bench::EmptyPrograms;
use sockscope_probe::{Fix, Force, Options, Scope};

use crate::bundle::Recording;
use crate::tcpdump::Tcpdump;
use crate::transfer::Transfer;
use crate::{Failure, Plan};

/// What runs next to the transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing: what the noise is.
    Control,
    /// Programs that do nothing, on the recorder's hooks.
    Empty,
    /// A recorder that logs another port.
    OtherPort,
    /// A recorder that logs this transfer at all points.
    Recorded,
    /// tcpdump writing this transfer's headers.
    Tcpdump,
    /// The program of `sockscope try` on the root control group, with a fix.
    Forced,
}

impl Condition {
    pub const ALL: [Self; 6] =
        [Self::Control, Self::Empty, Self::OtherPort, Self::Recorded, Self::Tcpdump, Self::Forced];

    pub fn name(self) -> &'static str {
        match self {
            Self::Control => "nothing (A/A control)",
            Self::Empty => "empty programs on the hooks",
            Self::OtherPort => "recorder on, other traffic logged",
            Self::Recorded => "recorded, all points",
            Self::Tcpdump => "tcpdump -s 96 -w FILE",
            Self::Forced => "a fix of sockscope try attached",
        }
    }
}

/// Under a recorder, one slice had this.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Share of one CPU that the recorder's threads used.
    pub thread_cpus: f64,
    pub records_per_s: f64,
    /// Records missed.
    pub missed: u64,
    /// Whether every byte of the slice passed point 8, and each point has records.
    pub is_whole: bool,
}

/// After something was switched on or off, before its effect is measured.
const SETTLE: Duration = Duration::from_millis(50);
/// A recorder gives its hook for datagrams 400 ms: as long a recording is not yet as it stays.
const SETTLE_RECORDER: Duration = Duration::from_millis(480);
/// The discard service: no other program uses it here.
const OTHER_PORT: u16 = 9;

/// Bytes a second while nothing is switched on.
pub fn plain(transfer: &Transfer, plan: &Plan) -> f64 {
    sleep(SETTLE);
    rate(transfer, || sleep(plan.slice))
}

/// Bytes a second under the condition, `None` where it cannot be had; and what recording cost.
pub fn under(
    condition: Condition,
    transfer: &Transfer,
    plan: &Plan,
) -> Result<(Option<f64>, Option<Cost>), Failure> {
    match condition {
        Condition::Control => Ok((Some(plain(transfer, plan)), None)),
        Condition::Empty => {
            let programs = EmptyPrograms::attach()?;
            let rate = plain(transfer, plan);
            drop(programs);
            Ok((Some(rate), None))
        }
        Condition::Tcpdump => {
            let file = plan.folder.join("bench.pcap");
            let Some(tcpdump) = Tcpdump::start(file, transfer.port)? else {
                return Ok((None, None));
            };
            let rate = plain(transfer, plan);
            tcpdump.finish()?;
            Ok((Some(rate), None))
        }
        Condition::Forced => {
            // Connections that open meanwhile have the fix; this one has the option already.
            let fix = "nodelay".parse::<Fix>()?;
            let force = Force::attach(&[fix], &Scope::default())?;
            let rate = plain(transfer, plan);
            drop(force);
            Ok((Some(rate), None))
        }
        Condition::OtherPort => {
            let (rate, cost) = recorded(transfer, OTHER_PORT, plan)?;
            if cost.records_per_s > 0.0 {
                return Err("the transfer was logged though its port was not picked".into());
            }
            Ok((Some(rate), None))
        }
        Condition::Recorded => {
            let (rate, cost) = recorded(transfer, transfer.port, plan)?;
            // A slice that was not recorded as a whole would flatter.
            Ok((cost.is_whole.then_some(rate), Some(cost)))
        }
    }
}

fn recorded(transfer: &Transfer, port: u16, plan: &Plan) -> Result<(f64, Cost), Failure> {
    let dir = plan.folder.join("bench.sockscope");
    let mut recording = Recording::start(dir, vec![port], Options::default())?;
    recording.write_by_thread()?;
    recording.run(SETTLE_RECORDER)?;
    let records_before = recording.recorder.records();
    let (from, start) = transfer.progress();
    let thread_cpus = recording.run(plan.slice)?;
    let (to, end) = transfer.progress();
    let records = recording.recorder.records() - records_before;
    let seconds = (end - start).as_secs_f64();
    let (summary, counts) = recording.finish()?;
    let all_read = counts.read_bytes.iter().any(|&bytes| bytes >= to - from);
    let cost = Cost {
        thread_cpus,
        records_per_s: records as f64 / seconds,
        missed: summary.missed.total(),
        is_whole: all_read && !counts.records.contains(&0),
    };
    Ok(((to - from) as f64 / seconds, cost))
}

fn rate(transfer: &Transfer, during: impl FnOnce()) -> f64 {
    let (from, start) = transfer.progress();
    during();
    let (to, end) = transfer.progress();
    (to - from) as f64 / (end - start).as_secs_f64()
}
