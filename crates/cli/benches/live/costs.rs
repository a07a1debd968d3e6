//! What one hit of each probe costs, by the kernel's own run-time statistics.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sockscope_probe::Options;
use sockscope_probe::bench::EmptyPrograms;

use crate::bundle::Recording;
use crate::statistics::Median;
use crate::table::{judged, row};
use crate::transfer::{Load, Transfer};
use crate::{Failure, Plan};

/// Hits and run time in nanoseconds by program.
type Costs = BTreeMap<String, (u64, u64)>;

/// Programs with a smaller share of the hits are left out of the table.
const SHARE_MIN: f64 = 0.005;

/// In one slice: hits, and mean nanoseconds of one net of an empty program on that hook.
struct Slice {
    seconds: f64,
    programs: BTreeMap<String, (f64, f64)>,
}

impl Slice {
    fn hits(&self) -> f64 {
        self.programs.values().map(|(hits, _)| hits).sum()
    }

    /// Over all programs, weighted by hits.
    fn net_ns(&self) -> f64 {
        self.programs.values().map(|(hits, net_ns)| hits * net_ns).sum::<f64>() / self.hits()
    }
}

/// Records the transfer with the statistics on, and an empty program next to each probe.
pub fn run(load: Load, transfer: &Transfer, plan: &Plan) -> Result<(), Failure> {
    let options = Options { statistics: true, ..Options::default() };
    let dir = plan.folder.join("bench.sockscope");
    let mut recording = Recording::start(dir, vec![transfer.port], options)?;
    recording.write_by_thread()?;
    let empty = EmptyPrograms::attach()?;
    recording.run(Duration::from_millis(600))?;
    let mut slices = Vec::new();
    for _ in 0..plan.cost_slices {
        let records_before = recording.recorder.records();
        let start = Instant::now();
        let before = (recording.recorder.program_costs(), empty.costs());
        recording.run(plan.slice)?;
        if recording.recorder.records() == records_before {
            return Err("the transfer was not logged".into());
        }
        let after = (recording.recorder.program_costs(), empty.costs());
        slices.push(slice(&before, &after, start.elapsed().as_secs_f64()));
    }
    drop(empty);
    recording.finish()?;
    print(load, &slices);
    Ok(())
}

fn slice(before: &(Costs, Costs), after: &(Costs, Costs), seconds: f64) -> Slice {
    let mut programs = BTreeMap::new();
    for name in after.1.keys() {
        let probe = difference(&before.0, &after.0, name);
        let empty = difference(&before.1, &after.1, name);
        if let (Some((hits, gross_ns)), Some((_, empty_ns))) = (probe, empty) {
            programs.insert(name.clone(), (hits, gross_ns - empty_ns));
        }
    }
    Slice { seconds, programs }
}

/// Hits between two readings and the mean nanoseconds of one.
fn difference(before: &Costs, after: &Costs, name: &str) -> Option<(f64, f64)> {
    let (hits_before, run_before) = before.get(name).copied().unwrap_or((0, 0));
    let (hits, run_ns) = after.get(name).copied()?;
    let hits = hits.checked_sub(hits_before).filter(|&hits| hits > 0)? as f64;
    Some((hits, run_ns.checked_sub(run_before)? as f64 / hits))
}

fn print(load: Load, slices: &[Slice]) {
    println!(
        "{}: ns of a hit net of an empty program, {} slices, median (95 % interval)",
        load.name(),
        slices.len()
    );
    let of = |value: &dyn Fn(&Slice) -> f64| Median::of(slices.iter().map(value).collect());
    let names: BTreeSet<&String> = slices.iter().flat_map(|slice| slice.programs.keys()).collect();
    for name in names {
        let program = |slice: &Slice| slice.programs.get(name).copied().unwrap_or((0.0, 0.0));
        let share = of(&|slice| program(slice).0 / slice.hits()).value;
        if share >= SHARE_MIN {
            let name = format!("{name}, {:.0} % of the hits", share * 100.0);
            row(&name, &of(&|slice| program(slice).1).text(0), None);
        }
    }
    let net = of(&Slice::net_ns);
    let verdict = judged("at most 100", net.is_at_most(100.0));
    row("all, weighted by hits", &net.text(0), Some(verdict));
    let hits = of(&|slice| slice.hits() / slice.seconds / 1e6);
    row("hits", &format!("{} million/s", hits.text(2)), None);
    let cpus = of(&|slice| slice.net_ns() * slice.hits() / slice.seconds / 1e9);
    row("CPUs of the probes, net", &cpus.text(3), None);
}
