//! Checks of call times by data size: Figures 1, 5 and 7 of "Is Layering Harmful?".

use sockscope_experiment::papers::Claim;
use sockscope_experiment::result::{CaseResult, RunResult};
use sockscope_oncrpc::BUFFER_OCTETS;

use super::{Check, Comparison, Outcome, Runs};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "layering/glitch-a", needs: &["lh-1"], compare: slow_range },
    Check { id: "layering/glitch-b", needs: &["lh-1"], compare: slow_ratio },
    Check { id: "layering/glitch-c", needs: &["lh-1"], compare: irregular_beyond },
    Check { id: "layering/glitch-e", needs: &["lh-7"], compare: buffer_sizes },
    Check { id: "layering/bulk-a", needs: &["lh-6"], compare: long_transfers },
    Check { id: "layering/nagle-b", needs: &["lh-7"], compare: nagle_off },
    Check { id: "layering/track-b", needs: &["lh-1", "lh-7"], compare: old_rule },
    Check { id: "layering/track-c", needs: &["lh-7"], compare: repaired_rules },
    Check { id: "layering/track-d", needs: &["lh-7"], compare: low_water_marks },
];

/// A call is slow when its mean time is so many times that of calls with a little less data.
const SLOW_RATIO: f64 = 3.0;

/// A curve is smooth where no time is so many times that of the size before, 200 octets less.
const SMOOTH_RATIO: f64 = 1.1;

/// Octets of the first write, of those before the data, and of a cluster.
const BUFFER: u64 = BUFFER_OCTETS as u64;
const CALL_OVERHEAD: u64 = 52;
const REPLY_OVERHEAD: u64 = 36;
const CLUSTER: u64 = 1024;
/// Room that the first write leaves in a send buffer of 4,096.
const ROOM: u64 = 4096 - BUFFER;

/// Mean milliseconds of a call by data size, ascending.
fn curve<'a>(cases: impl Iterator<Item = &'a CaseResult>) -> Vec<(u64, f64)> {
    let mut curve: Vec<_> = cases
        .filter_map(|case| {
            let mean_ns = case.measured.call_ns.mean_ns()?;
            Some((case.case.parameters.data_bytes?, mean_ns as f64 / 1e6))
        })
        .collect();
    curve.sort_by_key(|(bytes, _)| *bytes);
    curve
}

/// The time that a call of `bytes` would take on the straight line through the fastest sizes of the
/// curve below 4,000 octets and beyond 1,000: stalls aside, time grows with the data alone.
fn straight(curve: &[(u64, f64)], bytes: u64) -> f64 {
    let calm: Vec<_> = curve.iter().filter(|(bytes, _)| (1000..4000).contains(bytes)).collect();
    let (Some((from, low)), Some((to, high))) = (calm.first(), calm.last()) else {
        return f64::NAN;
    };
    let slope = if to > from { (high - low) / (*to - *from) as f64 } else { 0.0 };
    low + slope * (bytes as f64 - *from as f64)
}

fn is_slow(curve: &[(u64, f64)], (bytes, ms): &(u64, f64)) -> bool {
    *ms > SLOW_RATIO * straight(curve, *bytes)
}

/// First slow size from 3,900 on, last slow size in a row with it, and first size after it.
fn slow_run(curve: &[(u64, f64)]) -> Option<(u64, u64, u64)> {
    let start = curve.iter().position(|it| it.0 >= 3900 && is_slow(curve, it))?;
    let len = curve[start..].iter().take_while(|it| is_slow(curve, it)).count();
    let (last, after) = (curve[start + len - 1], curve.get(start + len)?);
    Some((curve[start].0, last.0, after.0))
}

/// Octets that mark a fragment of a record, in front of each further buffer.
const MARK: u64 = 4;

/// Which sizes the old rule cuts behind so many whole buffers: those whose last write exceeds the room
/// and is below a cluster.
fn computed_edges_behind(buffers: u64) -> (u64, u64) {
    let (whole, marks) = (BUFFER * buffers, MARK * (buffers - 1));
    let first = (whole + ROOM + 1 - CALL_OVERHEAD - marks).next_multiple_of(4);
    let last = (whole + CLUSTER - 1 - REPLY_OVERHEAD - marks) / 4 * 4;
    (first, last)
}

fn computed_edges() -> (u64, u64) {
    computed_edges_behind(1)
}

fn slow_range(claim: &Claim, runs: &Runs) -> Outcome {
    let curve = curve(runs.of("lh-1").cases.iter());
    let Some((first, last, after)) = slow_run(&curve) else {
        return Ok(Comparison::holds(false, "a slow range from 4,000 to 5,000", "no slow range"));
    };
    let (computed_first, computed_last) = computed_edges();
    Ok(Comparison::numbers(claim, &[first as f64, after as f64]).with_note(format!(
        "slow from {first} to {last} octets of data; the rule of sosend computes {computed_first} to {computed_last}"
    )))
}

fn slow_ratio(claim: &Claim, runs: &Runs) -> Outcome {
    let curve = curve(runs.of("lh-1").cases.iter());
    let at = |wanted| curve.iter().find(|(bytes, _)| *bytes == wanted).map_or(f64::NAN, |it| it.1);
    let outside = (at(4000) + at(5200)) / 2.0;
    Ok(Comparison::numbers(claim, &[at(4800) / outside])
        .with_note(format!("4,800 octets {:.0} ms, 4,000 and 5,200 {outside:.1} ms", at(4800))))
}

fn irregular_beyond(_: &Claim, runs: &Runs) -> Outcome {
    Ok(steps_beyond(&curve(runs.of("lh-1").cases.iter())))
}

/// Beyond 5,000 octets the curve must step up and down again where the rule cuts a third write.
fn steps_beyond(curve: &[(u64, f64)]) -> Comparison {
    let (first, last) = computed_edges_behind(2);
    let beyond = || curve.iter().filter(|(bytes, _)| *bytes > 5000);
    let slow: Vec<_> = beyond().filter(|it| is_slow(curve, it)).map(|it| it.0).collect();
    let wanted: Vec<_> =
        beyond().map(|it| it.0).filter(|bytes| (first..=last).contains(bytes)).collect();
    let has_both_sides =
        beyond().any(|(bytes, _)| *bytes < first) && beyond().any(|(bytes, _)| *bytes > last);
    let words: Vec<_> = slow.iter().map(u64::to_string).collect();
    Comparison::holds(
        !slow.is_empty() && slow == wanted && has_both_sides,
        format!(
            "slow again from {first} to {last} octets, where the rule cuts the third write, and at no other size beyond 5,000"
        ),
        format!(
            "slow at {}",
            if words.is_empty() { "no size".to_owned() } else { words.join(", ") }
        ),
    )
}

/// The most that a time exceeds the one before it among sizes from 4,000 on, as a ratio.
fn steepest(curve: &[(u64, f64)]) -> f64 {
    let beyond: Vec<_> = curve.iter().filter(|(bytes, _)| *bytes >= 4000).collect();
    beyond.windows(2).map(|pair| pair[1].1 / pair[0].1).fold(0.0, f64::max)
}

/// Mean milliseconds of the sizes that are slow under the old rule.
fn mean_over(curve: &[(u64, f64)], sizes: &[u64]) -> f64 {
    let times: Vec<_> =
        curve.iter().filter(|(bytes, _)| sizes.contains(bytes)).map(|(_, ms)| *ms).collect();
    times.iter().sum::<f64>() / times.len() as f64
}

/// The cases of lh-7 with these parameters.
fn variant(runs: &Runs, wanted: &[(&str, &str)], lacking: &[&str]) -> Vec<(u64, f64)> {
    let cases = runs.of("lh-7").cases_with(wanted);
    curve(cases.filter(|case| lacking.iter().all(|name| case.case.value(name).is_none())))
}

fn old(runs: &Runs) -> Vec<(u64, f64)> {
    variant(runs, &[("send_rule", "old")], &["nodelay", "rpc_buffer_bytes"])
}

fn slow_sizes(curve: &[(u64, f64)]) -> Vec<u64> {
    let slow = curve.iter().filter(|it| it.0 >= 3900 && is_slow(curve, it));
    slow.map(|(bytes, _)| *bytes).collect()
}

fn sizes_words(sizes: &[u64]) -> String {
    match (sizes.first(), sizes.last()) {
        (Some(first), Some(last)) => format!("{} sizes slow, {first} to {last}", sizes.len()),
        _ => "no size slow".to_owned(),
    }
}

fn buffer_sizes(claim: &Claim, runs: &Runs) -> Outcome {
    let whole = variant(runs, &[("send_rule", "old"), ("rpc_buffer_bytes", "4096")], &[]);
    let window = stack_window("sunos-4.1");
    let below: Vec<_> =
        slow_sizes(&whole).into_iter().filter(|bytes| *bytes < 4096 + CLUSTER).collect();
    Ok(Comparison::numbers(claim, &[BUFFER as f64, window]).and(Comparison::holds(
        below.is_empty(),
        "no slow range when the program's buffer is as large as the window",
        format!("with buffers of 4,096: {}", sizes_words(&below)),
    )))
}

/// Octets of a new TCP socket's receive buffer.
fn stack_window(personality: &str) -> f64 {
    let found = sockscope_stack::Personality::by_name(personality);
    found.map_or(f64::NAN, |personality| f64::from(personality.socket.tcp_bytes.1))
}

fn long_transfers(claim: &Claim, runs: &Runs) -> Outcome {
    let run = runs.of("lh-6");
    let rate = |bytes: &str| {
        let wanted = [("write_bytes", bytes)];
        let case = run.cases_with(&wanted).next();
        case.and_then(|case| case.measured.throughput_bits_per_s()).unwrap_or(f64::NAN)
    };
    let (odd, whole) = (rate("4095"), rate("4096"));
    Ok(Comparison::numbers(claim, &[odd / whole]).with_note(format!(
        "{:.3} Mbit/s in buffers of 4,095, {:.3} in 4,096",
        odd / 1e6,
        whole / 1e6
    )))
}

/// A little improvement leaves so much of the time. The paper gives no number.
const LITTLE: f64 = 0.75;

fn nagle_off(_: &Claim, runs: &Runs) -> Outcome {
    let with = old(runs);
    let without = variant(runs, &[("send_rule", "old"), ("nodelay", "true")], &[]);
    let (slow, still) = (slow_sizes(&with), slow_sizes(&without));
    let [before_ms, after_ms] = [&with, &without].map(|curve| mean_over(curve, &slow));
    Ok(Comparison::holds(
        !slow.is_empty() && still.len() * 4 >= slow.len() * 3 && after_ms > before_ms * LITTLE,
        "three of four slow sizes stay slow with TCP_NODELAY, and less than a quarter of the time is saved",
        format!(
            "{}, {before_ms:.0} ms in the mean; with TCP_NODELAY {}, {after_ms:.0} ms for the same sizes",
            sizes_words(&slow),
            sizes_words(&still)
        ),
    ))
}

/// The slow range must be exactly what the rule computes, as far as the swept sizes tell.
fn old_rule(_: &Claim, runs: &Runs) -> Outcome {
    let (first, last) = computed_edges();
    let check = |run: &RunResult| {
        let curve = curve(run.cases.iter());
        let wanted: Vec<_> = curve
            .iter()
            .map(|(bytes, _)| *bytes)
            .filter(|bytes| (3900..5000).contains(bytes) && (first..=last).contains(bytes))
            .collect();
        let slow: Vec<_> = slow_sizes(&curve).into_iter().filter(|bytes| *bytes < 5000).collect();
        (wanted, slow)
    };
    let (wanted, slow) = check(runs.of("lh-1"));
    let again = slow_sizes(&old(runs));
    let same = again.iter().all(|bytes| *bytes > 5000 || (first..=last).contains(bytes));
    Ok(Comparison::holds(
        wanted == slow && same,
        format!("slow at every size from {first} to {last}, at no other below 5,000"),
        sizes_words(&slow),
    ))
}

fn repaired_rules(_: &Claim, runs: &Runs) -> Outcome {
    let mark = [("send_rule", "low-water"), ("low_water_bytes", "1024")];
    let [cluster, mark] =
        [&[("send_rule", "cluster")][..], &mark].map(|rule| variant(runs, rule, &[]));
    let before = steepest(&old(runs));
    let [cluster_step, mark_step] = [&cluster, &mark].map(|curve| steepest(curve));
    let slow = [&cluster, &mark].map(|curve| slow_sizes(curve));
    Ok(Comparison::holds(
        before > SLOW_RATIO
            && slow.iter().all(Vec::is_empty)
            && cluster_step < SMOOTH_RATIO
            && mark_step < SMOOTH_RATIO,
        "from 4,000 octets on no size takes a tenth more than the one before, with either rule",
        format!(
            "old rule: up to {before:.1} times; more than a cluster free: {cluster_step:.2}; low-water mark of a cluster: {mark_step:.2}"
        ),
    ))
}

fn low_water_marks(_: &Claim, runs: &Runs) -> Outcome {
    let with = |bytes| {
        slow_sizes(&variant(runs, &[("send_rule", "low-water"), ("low_water_bytes", bytes)], &[]))
    };
    let (none, segment) = (with("0"), with("1460"));
    Ok(Comparison::holds(
        !none.is_empty() && segment.is_empty(),
        "a mark of 0 leaves the slow range, one of a segment removes it",
        format!("mark 0: {}; mark 1,460: {}", sizes_words(&none), sizes_words(&segment)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use sockscope_experiment::builtin_by_id;
    use sockscope_lab::run;

    #[test]
    fn a_step_shows_in_the_steepest_ratio_and_the_second_buffer_does_not() {
        let smooth = [(3800, 16.5), (4000, 24.0), (4200, 25.2), (4400, 25.0)];
        assert!(steepest(&smooth) < SMOOTH_RATIO);
        assert!(steepest(&[(4000, 24.0), (4048, 40.0), (4200, 41.0)]) > SMOOTH_RATIO);
    }

    /// One slow size more, or one less, is another curve than the rule's.
    #[test]
    fn a_stall_that_the_rule_does_not_cut_is_no_step_of_it() {
        let with_slow = |slow: &[u64]| {
            let sizes = [1000, 3800, 6000, 8040, 8044, 8500, 8980, 8984, 9500];
            let curve: Vec<_> = sizes
                .map(|bytes| (bytes, if slow.contains(&bytes) { 200.0 } else { 20.0 }))
                .to_vec();
            steps_beyond(&curve).verdict
        };
        assert_eq!(with_slow(&[8044, 8500, 8980]), Verdict::Reproduced);
        assert_eq!(with_slow(&[8500]), Verdict::Differs);
        assert_eq!(with_slow(&[6000, 8044, 8500, 8980]), Verdict::Differs);
        assert_eq!(with_slow(&[]), Verdict::Differs);
    }

    /// As `docs/fidelity.md` has it: faster programs are slow at other sizes.
    #[test]
    fn the_edges_are_those_of_programs_that_take_their_time() {
        let is_slow = |delay_us: u32, bytes: u32| {
            let mut experiment = builtin_by_id("lh-1").unwrap();
            let changes = [format!("read_delay_us={delay_us}"), format!("data_bytes={bytes}")];
            experiment.set_all(&changes).unwrap();
            let result = run::run(&experiment, 1, &mut |_, _| {}).unwrap();
            curve(result.cases.iter())[0].1 > 100.0
        };
        let slow_of = |delay_us: u32, sizes: &[u32]| -> Vec<u32> {
            sizes.iter().copied().filter(|&bytes| is_slow(delay_us, bytes)).collect()
        };
        let sizes = [3948, 3952, 4044, 4048, 4984, 4988, 5250, 5500];
        assert_eq!(slow_of(700, &sizes), [4048, 4984]);
        let sizes = [3948, 3949, 3964, 3965, 4300, 4301, 4800, 4984, 4988, 5408, 5409];
        assert_eq!(slow_of(0, &sizes), [] as [u32; 0]);
    }
}
