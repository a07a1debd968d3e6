//! Checks of the probing tool, the driver's lending and the pipeline's stage: §2.2, §3.3, §4.4.2 and §5
//! of "Experimental Evaluation of SunOS IPC and TCP/IP Protocol Implementation".

use sockscope_experiment::measurement::Phase;
use sockscope_experiment::papers::Claim;
use sockscope_experiment::{Experiment, Keep, builtin_by_id};
use sockscope_lab::model::{self, Observed, mean};
use sockscope_record::{Direction, Point, Record};
use sockscope_sim::{Everything, is_of_a_probe};
use sockscope_stack::Personality;

use super::sunos_runs::observe;
use super::{Check, Comparison, Outcome, Runs};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "sunos-ipc/2.2-d", needs: &["si-2a"], compare: lent_without_a_copy },
    Check { id: "sunos-ipc/3.3-c", needs: &["si-2a"], compare: mark_starts_the_receiver },
    Check { id: "sunos-ipc/3.3-d", needs: &["si-2a"], compare: mark_is_one_bit },
    Check { id: "sunos-ipc/3.3-e", needs: &["si-2a"], compare: full_list_loses },
    Check { id: "sunos-ipc/4.4.2-a", needs: &["si-4c"], compare: stage_takes_turns },
    Check { id: "sunos-ipc/4.4.3-a", needs: &["si-4c"], compare: who_communicates_runs_at_once },
    Check { id: "sunos-ipc/5-d", needs: &["si-3a"], compare: two_checksums },
];

/// Pieces at the beginning and the end of a pipeline that are not its steady state.
const UNSTEADY: usize = 5;

fn lent_without_a_copy(claim: &Claim, _: &Runs) -> Outcome {
    let copied = |bytes: &str| observe("si-2a", &[bytes]).map(|seen| seen.copied_in_bytes);
    let (once, twice) = (copied("total_bytes=262144")?, copied("total_bytes=524288")?);
    Ok(Comparison::numbers(claim, &[twice as f64 - once as f64]).with_note(format!(
        "copied for another 262,144 bytes; frames without data, {once} bytes in all, are copied"
    )))
}

/// Time of a record at each point of the receiving host, and of what it sends.
fn at_the_receiver(seen: &Observed) -> Vec<(u64, u64, u32)> {
    use Point::{InputDequeue, InputEnqueue, InterfaceEnqueue, ReceiveDequeue, ReceiveEnqueue};
    let way = |direction, points: &[Point]| {
        let passes = points.iter().flat_map(|&point| seen.passes(direction, point));
        passes.map(|pass| (pass.at_ns, pass.offset, pass.len)).collect::<Vec<_>>()
    };
    let came = [InputEnqueue, InputDequeue, ReceiveEnqueue, ReceiveDequeue];
    let mut all = way(Direction::FromClient, &came);
    all.extend(way(Direction::FromServer, &[InterfaceEnqueue]));
    all
}

fn mark_starts_the_receiver(_: &Claim, _: &Runs) -> Outcome {
    let asked = at_the_receiver(&observe("si-2a", &["so_log=true"])?);
    let all = at_the_receiver(&observe("si-2a", &[])?);
    Ok(Comparison::holds(
        asked == all && !asked.is_empty(),
        "with SO_LOG at the sender alone the receiver records what it does when all is recorded",
        format!("{} records of {}", asked.len(), all.len()),
    ))
}

fn mark_is_one_bit(claim: &Claim, _: &Runs) -> Outcome {
    let personality = Personality::by_name("sunos-4.0.3").ok_or("no personality `sunos-4.0.3`")?;
    let tos = personality.ip.log_tos;
    // The probes' own time is theirs, not the mark's.
    let changes = ["probing=false"];
    let mut plain = experiment("si-2a")?;
    let set = changes.iter().try_for_each(|change| plain.set(change));
    set.map_err(|error| error.to_string())?;
    // No program wants records: no packet is marked.
    plain.record = vec![Keep::Throughput];
    let cases = plain.cases().map_err(|error| error.to_string())?;
    let unmarked = model::run(&plain, &cases[0], 0)
        .map_err(|problem| plain.failed(&cases[0], problem).to_string())?;
    let marked = observe("si-2a", &changes)?.measured;
    Ok(Comparison::numbers(claim, &[f64::from(tos.count_ones())]).and(Comparison::holds(
        tos & !0x03 == 0 && unmarked.transfer_ns == marked.transfer_ns,
        "one of the two low bits; packets without it take the same time",
        format!("{tos:#04x}; {} and {} ns", unmarked.transfer_ns, marked.transfer_ns),
    )))
}

fn experiment(id: &str) -> Result<Experiment, String> {
    builtin_by_id(id).map_err(|error| error.to_string())
}

/// What the lists of both hosts held and lost.
#[derive(Clone)]
struct Listed {
    records: [Vec<Record>; 2],
    /// When each list first found no record free, in nanoseconds; `None` of one that never did.
    full_ns: [Option<u64>; 2],
    lost: u64,
}

impl Listed {
    /// Of the transfer of `si-2a`, with lists of so many records that are not read.
    fn of(list_records: u32) -> Result<Self, String> {
        let mut experiment = experiment("si-2a")?;
        let change = format!("probe_list_records={list_records}");
        experiment.set(&change).map_err(|error| error.to_string())?;
        let cases = experiment.cases().map_err(|error| error.to_string())?;
        let recorded = model::record(&experiment, &cases[0], Everything::default());
        let (_, all) =
            recorded.map_err(|problem| experiment.failed(&cases[0], problem).to_string())?;
        let of_host = |host| {
            let is_its = |record: &&Record| record.cpu == host && is_of_a_probe(record.kind);
            all.records.iter().filter(is_its).copied().collect()
        };
        let losses = || {
            let records = all.records.iter();
            records.filter_map(|record| Some((record.cpu, record.loss()?)))
        };
        let full_ns = |host| {
            let its = losses().filter(|(cpu, _)| *cpu == host);
            its.map(|(_, loss)| loss.since_ns).min()
        };
        Ok(Self {
            records: [0, 1].map(of_host),
            full_ns: [0, 1].map(full_ns),
            lost: losses().map(|(_, loss)| loss.count).sum(),
        })
    }

    /// Its records before a time.
    fn before(&self, until_ns: u64) -> [&[Record]; 2] {
        let before = |record: &Record| record.at_ns < until_ns;
        self.records.each_ref().map(|all| &all[..all.partition_point(before)])
    }
}

fn full_list_loses(_: &Claim, _: &Runs) -> Outcome {
    Ok(keeps_the_first(500, &Listed::of(500)?, &Listed::of(10_000_000)?))
}

/// Whether lists of so many records fill, keep what they hold from then on, and count the rest. Until the first of
/// them is full both hosts do the same as with lists that never fill; then a probe takes less time.
fn keeps_the_first(list_records: usize, short: &Listed, long: &Listed) -> Comparison {
    let are_full = short.records.iter().all(|records| records.len() == list_records - 1);
    let hosts = || short.records.iter().zip(short.full_ns);
    let keep = hosts().all(|(records, full_ns)| {
        full_ns.is_some_and(|full_ns| records.iter().all(|record| record.at_ns <= full_ns))
    });
    let first_ns = short.full_ns.into_iter().flatten().min().unwrap_or(0);
    let are_same = short.before(first_ns) == long.before(first_ns);
    let kept: Vec<usize> = short.records.iter().map(Vec::len).collect();
    Comparison::holds(
        are_full && keep && are_same && short.lost > 0 && long.lost == 0,
        "lists of 500 that are not read keep their first 499 records, those of a longer list; the transfer goes on, and what is lost is counted",
        format!("{kept:?} records kept, {} events lost", short.lost),
    )
}

fn stage(depth: &str) -> Result<Observed, String> {
    observe("si-4c", &[depth, "scheduler=decay"])
}

/// The phases of a process in steady state.
fn steady(seen: &Observed, name: &str) -> Vec<Phase> {
    let all = seen.measured.phases.iter().filter(|phase| phase.process == name);
    let count = all.clone().count();
    all.skip(UNSTEADY).take(count.saturating_sub(2 * UNSTEADY)).copied().collect()
}

fn lengths_ms(phases: &[Phase]) -> Vec<f64> {
    phases.iter().map(|phase| (phase.to_ns - phase.from_ns) as f64 / 1e6).collect()
}

/// From the end of each phase of `before` to the beginning of the same one of `after`, in milliseconds.
fn hand_overs_ms(before: &[Phase], after: &[Phase]) -> Vec<f64> {
    let pairs = before.iter().zip(after);
    pairs.map(|(before, after)| (after.from_ns as f64 - before.to_ns as f64) / 1e6).collect()
}

fn stage_takes_turns(_: &Claim, _: &Runs) -> Outcome {
    Ok(takes_turns(&stage("depth=1")?))
}

fn takes_turns(seen: &Observed) -> Comparison {
    let [read, compute, write] = ["read", "compute", "write"].map(|name| steady(seen, name));
    let [reads, computes, writes] = [&read, &compute, &write].map(|phases| lengths_ms(phases));
    let overs = [
        hand_overs_ms(&read, &compute),
        hand_overs_ms(&compute, &write),
        hand_overs_ms(&write, read.get(1..).unwrap_or(&[])),
    ];
    let latest = overs.concat().into_iter().map(f64::abs).fold(0.0, f64::max);
    let (read, compute, write) = (mean(&reads), mean(&computes), mean(&writes));
    Comparison::holds(
        compute > 2.0 * read && compute > 2.0 * write && latest < 0.05 * compute,
        "short read, longer compute, short write, each right after the one before",
        format!(
            "{read:.1}, {compute:.1} and {write:.1} ms, each within {latest:.2} ms of the end of the one before"
        ),
    )
}

/// Times of a stage with several pieces, in milliseconds.
#[derive(Clone, Copy)]
struct Competing {
    /// Reading and writing a piece.
    communicates: f64,
    computes: f64,
    /// Waiting for the CPU, of those who communicate.
    waits: f64,
}

/// How much longer than alone a communicating process may take that runs near full speed.
const NEAR_FULL_SPEED: f64 = 1.25;

/// Whether the scheduler that decays favours communication: near full speed, with far shorter waits than
/// round-robin, at the cost of who computes.
fn favours_communication(alone: Competing, decay: Competing, by_turns: Competing) -> bool {
    decay.waits * 4.0 < by_turns.waits
        && decay.communicates < NEAR_FULL_SPEED * alone.communicates
        && decay.computes > by_turns.computes
}

fn who_communicates_runs_at_once(_: &Claim, runs: &Runs) -> Outcome {
    let of = |depth, scheduler| {
        let wanted = [("depth", depth), ("scheduler", scheduler)];
        let case = runs.of("si-4c").cases_with(&wanted).next();
        let measure =
            |name| case.and_then(|case| case.measured.measure(name)).unwrap_or(f64::NAN) / 1e3;
        Competing {
            communicates: measure("stage_read_us") + measure("stage_write_us"),
            computes: measure("stage_compute_us"),
            waits: measure("stage_cpu_wait_us"),
        }
    };
    let (alone, decay, by_turns) = (of("1", "decay"), of("3", "decay"), of("3", "round-robin"));
    Ok(Comparison::holds(
        favours_communication(alone, decay, by_turns),
        "who communicates waits far less for the CPU than when all take turns, and takes at most a quarter longer than alone; who computes is slowed, by more than when all take turns",
        format!(
            "waits of {:.1} ms against {:.1}; reading and writing take {:.1} ms, {:.1} alone; 100 ms of work take {:.0} ms against {:.0}",
            decay.waits,
            by_turns.waits,
            decay.communicates,
            alone.communicates,
            decay.computes,
            by_turns.computes
        ),
    ))
}

fn two_checksums(claim: &Claim, _: &Runs) -> Outcome {
    let seen = observe("si-3a", &[])?;
    let both = [Direction::FromClient, Direction::FromServer].into_iter();
    // Both ends are on this host; what its own queue drops is summed once.
    let arrived = both.map(|way| seen.passes(way, Point::InputDequeue).len()).sum::<usize>();
    let sums = seen.measured.calls_of("tcp_cksum");
    Ok(Comparison::numbers(claim, &[(sums as f64 / arrived as f64 * 100.0).round() / 100.0])
        .with_note(format!("{sums} checksums of {arrived} packets")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    /// With three pieces in the stage the processes compete, and none begins where another ends.
    #[test]
    fn a_stage_with_three_pieces_takes_no_turns() {
        assert_eq!(takes_turns(&stage("depth=1").unwrap()).verdict, Verdict::Reproduced);
        assert_eq!(takes_turns(&stage("depth=3").unwrap()).verdict, Verdict::Differs);
    }

    #[test]
    fn a_list_that_overwrites_or_does_not_count_differs() {
        let records = |times: &[u64]| -> Vec<Record> {
            times.iter().map(|&at_ns| Record { at_ns, ..Record::default() }).collect()
        };
        let long = Listed {
            records: [records(&[1, 3, 6]), records(&[2, 4, 5])],
            full_ns: [None; 2],
            lost: 0,
        };
        let short = Listed {
            records: [records(&[1, 3]), records(&[2, 4])],
            full_ns: [Some(6), Some(5)],
            lost: 2,
        };
        let verdict = |short: &Listed| keeps_the_first(3, short, &long).verdict;
        assert_eq!(verdict(&short), Verdict::Reproduced);
        let overwritten = [records(&[3, 6]), records(&[2, 4])];
        assert_eq!(verdict(&Listed { records: overwritten, ..short.clone() }), Verdict::Differs);
        let later = [records(&[1, 3]), records(&[2, 7])];
        assert_eq!(verdict(&Listed { records: later, ..short.clone() }), Verdict::Differs);
        assert_eq!(verdict(&Listed { lost: 0, ..short.clone() }), Verdict::Differs);
        let half = [records(&[1]), records(&[2, 4])];
        assert_eq!(verdict(&Listed { records: half, ..short }), Verdict::Differs);
    }

    #[test]
    fn a_scheduler_that_slows_computing_less_does_not_favour_communication() {
        let competing = |communicates, computes, waits| Competing { communicates, computes, waits };
        let (alone, by_turns) = (competing(36.0, 125.0, 5.0), competing(47.0, 152.0, 46.0));
        let favours = |decay| favours_communication(alone, decay, by_turns);
        assert!(favours(competing(40.0, 160.0, 5.0)));
        assert!(!favours(competing(40.0, 126.0, 5.0)), "computing is slowed less than round-robin");
        assert!(!favours(competing(60.0, 160.0, 5.0)), "far from full speed");
        assert!(!favours(competing(40.0, 160.0, 40.0)), "waits as round-robin");
    }
}
