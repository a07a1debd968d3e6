//! Checks of the ATM measurements of chapter 4 of "The Influence of Protocol Choice on Network
//! Performance": the real driver on a model of the machines.

use sockscope_experiment::papers::Claim;
use sockscope_experiment::result::{CaseResult, RunResult};

use super::variation::vary;
use super::{Check, Comparison, Outcome, Runs};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "protocol-choice/4-atm-a", needs: &["pc-1"], compare: cells_from_cache },
    Check { id: "protocol-choice/4-atm-b", needs: &["pc-2"], compare: saw_tooth },
    Check { id: "protocol-choice/4-atm-c", needs: &["pc-2"], compare: smallest_share },
    Check { id: "protocol-choice/4-atm-d", needs: &["pc-2"], compare: range_of_shares },
    Check { id: "protocol-choice/4-atm-e", needs: &["pc-2"], compare: two_straight_lines },
    Check { id: "protocol-choice/4-atm-f", needs: &["pc-2"], compare: what_dominates },
    Check { id: "protocol-choice/4-atm-g", needs: &["pc-2"], compare: best_and_worst },
    Check { id: "protocol-choice/4-atm-h", needs: &["pc-2"], compare: limit },
    Check { id: "protocol-choice/4-atm-i", needs: &["pc-2", "pc-7a"], compare: two_machines },
    Check { id: "protocol-choice/4-atm-k", needs: &["pc-2"], compare: steps_of_rates },
    Check { id: "protocol-choice/5-a", needs: &["pc-7b"], compare: receiver_limits },
    Check { id: "protocol-choice/4-sar-c", needs: &["pc-7b"], compare: discard_or_repair },
];

pub(super) const FAST: &str = "decstation-5000-240";
pub(super) const SLOW: &str = "decstation-5000-200";

/// Octets of data at which a third cell begins, and from there on another one.
pub(super) const FIRST_TOOTH: usize = 21;
const TOOTH: usize = 44;
/// Teeth after which packets end at the same place of a cache line again: 176 octets are four teeth
/// and eleven lines. Only such teeth can be compared.
const ALIKE: usize = 4;
/// Largest packet, in octets of data.
pub(super) const LARGEST: usize = 1024;

fn number(case: &CaseResult, name: &str) -> Result<f64, String> {
    let number = case.measured.measure(name);
    number.ok_or_else(|| format!("{} has no `{name}`", case.case.words()))
}

/// A measure over the sweep of cases with these parameters, in the order of the file.
pub(super) fn curve(
    run: &RunResult,
    wanted: &[(&str, &str)],
    name: &str,
) -> Result<Vec<f64>, String> {
    run.cases_with(wanted).map(|case| number(case, name)).collect()
}

/// A measure by octets of data, 0 to 1,024.
pub(super) fn by_size(runs: &Runs, machine: &str, name: &str) -> Result<Vec<f64>, String> {
    let curve = curve(runs.of("pc-2"), &[("machine", machine)], name)?;
    let sizes = LARGEST + 1;
    if curve.len() == sizes { Ok(curve) } else { Err(format!("expected {sizes} sizes")) }
}

/// Sizes at which the curve falls, or rises, by more than `least` from the size before.
fn falls(curve: &[f64], least: f64) -> Vec<usize> {
    (1..curve.len()).filter(|&at| curve[at - 1] - curve[at] > least).collect()
}

fn rises(curve: &[f64], least: f64) -> Vec<usize> {
    (1..curve.len()).filter(|&at| curve[at] - curve[at - 1] > least).collect()
}

/// Sizes at which another cell begins, from the third one on.
fn teeth() -> Vec<usize> {
    (FIRST_TOOTH..=LARGEST).step_by(TOOTH).collect()
}

/// Whether each whole tooth begins at its least and ends at its most, but for `slack`.
fn climbs_in_teeth(curve: &[f64], slack: f64) -> bool {
    let climbs = |from: usize| {
        let tooth = curve.get(from..from + TOOTH)?;
        let (first, last) = (tooth[0], tooth[TOOTH - 1]);
        Some(tooth.iter().all(|value| (first - slack..=last + slack).contains(value)))
    };
    teeth().into_iter().filter_map(climbs).all(|climbs| climbs)
}

/// Whether each is less than the one before that ended alike, and the last less than a quarter of the
/// first.
fn shrinks(teeth: &[f64]) -> bool {
    let (first, last) = (teeth.first(), teeth.last());
    teeth.windows(ALIKE + 1).all(|alike| alike[ALIKE] < alike[0])
        && first.zip(last).is_some_and(|(first, last)| *last < first / 4.0)
}

fn least_at(curve: &[f64]) -> usize {
    (0..curve.len()).min_by(|a, b| curve[*a].total_cmp(&curve[*b])).unwrap_or(0)
}

fn most_at(curve: &[f64]) -> usize {
    (0..curve.len()).max_by(|a, b| curve[*a].total_cmp(&curve[*b])).unwrap_or(0)
}

fn mbit(bits_per_s: f64) -> f64 {
    bits_per_s / 1e6
}

fn cells_from_cache(claim: &Claim, runs: &Runs) -> Outcome {
    let wanted = [("machine", FAST), ("driver", "cells"), ("data_from", "cache")];
    let rate = |name| Ok::<_, String>(curve(runs.of("pc-1"), &wanted, name)?.first().copied());
    let (cells, payload) = (rate("cell_bits_per_s")?, rate("payload_bits_per_s")?);
    let (cells, payload) = cells.zip(payload).ok_or("pc-1 has no such case")?;
    Ok(Comparison::numbers(claim, &[mbit(cells), mbit(payload)])
        .with_note("the time of a flush is fitted to the first number, to the nearest cycle"))
}

/// A fall of the share by half a percent marks a tooth; within one it rises in steps of a word.
const SHARE_FALL: f64 = 0.5;
/// It may fall by so much where a word more is the first one of a cache line.
const SHARE_SLACK: f64 = 0.1;

fn saw_tooth(claim: &Claim, runs: &Runs) -> Outcome {
    let shares = by_size(runs, FAST, "copy_percent")?;
    let falls = falls(&shares, SHARE_FALL);
    let mut spaces: Vec<f64> = falls.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    spaces.dedup();
    let got = format!("falls at {falls:?} octets of data");
    Ok(Comparison::numbers(claim, &spaces).and(Comparison::holds(
        falls == teeth() && climbs_in_teeth(&shares, SHARE_SLACK),
        "a fall where each cell begins, and nowhere else; lowest there, highest where all cells are full",
        got,
    )))
}

fn smallest_share(claim: &Claim, runs: &Runs) -> Outcome {
    let shares = by_size(runs, FAST, "copy_percent")?;
    Ok(Comparison::numbers(claim, &[least_at(&shares) as f64]))
}

fn range_of_shares(claim: &Claim, runs: &Runs) -> Outcome {
    let shares = by_size(runs, FAST, "copy_percent")?;
    let ends: Vec<f64> = [claim.low, claim.high].into_iter().flatten().collect();
    Ok(Comparison::against(claim, &ends, &[shares[FIRST_TOOTH], shares[LARGEST]]))
}

/// Intercept and slope of the line through a curve by least squares, and the part of its variance that
/// the line explains.
fn line(curve: &[f64]) -> (f64, f64, f64) {
    let n = curve.len() as f64;
    let (mid_x, mid_y) = ((n - 1.0) / 2.0, curve.iter().sum::<f64>() / n);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in curve.iter().enumerate() {
        let (dx, dy) = (x as f64 - mid_x, y - mid_y);
        (xy, xx, yy) = (xy + dx * dy, xx + dx * dx, yy + dy * dy);
    }
    let slope = xy / xx;
    (mid_y - slope * mid_x, slope, xy * xy / (xx * yy))
}

/// Values at the first octets of cells.
fn at_teeth(curve: &[f64]) -> Vec<f64> {
    teeth().into_iter().map(|at| curve[at]).collect()
}

fn two_straight_lines(_: &Claim, runs: &Runs) -> Outcome {
    let copy = by_size(runs, FAST, "copy_s")?;
    let other = by_size(runs, FAST, "other_s")?;
    let (_, _, copy_r2) = line(&copy);
    let (_, tooth_s, tooth_r2) = line(&at_teeth(&other));
    // A cell's filler, and more: what a step within a tooth never is. Clocks that meet the bus
    // otherwise may cost a fifth of it.
    let (step_s, slack_s) = (0.05, 0.01);
    let jumps = rises(&other, step_s);
    let falls: Vec<f64> = other.iter().map(|other_s| -other_s).collect();
    let got = format!(
        "r2 of copying {copy_r2:.5}, of the teeth of the rest {tooth_r2:.5}; these rise by {tooth_s:.3} s a cell, and stand at {jumps:?}"
    );
    Ok(Comparison::holds(
        copy_r2 > 0.999
            && tooth_r2 > 0.999
            && tooth_s > 0.0
            && jumps == teeth()
            && climbs_in_teeth(&falls, slack_s),
        "copying on a line (r2 over 0.999); the rest jumps 44 octets apart, falls in between, and its teeth rise on a line",
        got,
    )
    .with_note("the rest is what copying leaves of the total, so that they add up says nothing"))
}

fn what_dominates(_: &Claim, runs: &Runs) -> Outcome {
    let shares = by_size(runs, FAST, "copy_percent")?;
    let below = shares.iter().filter(|share| **share < 50.0).count();
    let least = shares[least_at(&shares)];
    Ok(Comparison::holds(
        below > 0 && below < shares.len() / 2,
        "copying takes less than half of the time at some sizes, at fewer than half of them",
        format!("less than half at {below} of {} sizes; least {least:.1} %", shares.len()),
    ))
}

fn best_and_worst(claim: &Claim, runs: &Runs) -> Outcome {
    let rates = by_size(runs, FAST, "payload_bits_per_s")?;
    let (best, worst) = (most_at(&rates), least_at(&rates));
    let near = [best, 20, worst].map(|at| format!("{at}: {:.1}", mbit(rates[at])));
    Ok(Comparison::numbers(claim, &[best as f64, worst as f64])
        .with_note(format!("Mbit/s by octets of data: {}", near.join(", "))))
}

/// Whether the values after the first half lie within two in a hundred of the last.
fn levels_off(values: &[f64]) -> bool {
    let last = values.last().copied().unwrap_or(f64::NAN);
    values[values.len() / 2..].iter().all(|value| (value / last - 1.0).abs() < 0.02)
}

fn limit(claim: &Claim, runs: &Runs) -> Outcome {
    let rates = by_size(runs, FAST, "payload_bits_per_s")?;
    let full: Vec<f64> = teeth().iter().map(|at| rates[at - 1]).collect();
    let depths: Vec<f64> = teeth().iter().map(|at| rates[at - 1] - rates[*at]).collect();
    let deeper = depths.windows(2).filter(|pair| pair[1] > pair[0]).count();
    let (first, last) = (mbit(depths[0]), mbit(depths[depths.len() - 1]));
    let holds = shrinks(&depths) && levels_off(&full);
    Ok(Comparison::numbers(claim, &[mbit(rates[LARGEST])])
        .and(Comparison::holds(
            holds,
            "rates of full cells that level off, each tooth less deep than the one that ended alike",
            format!("teeth {first:.1} Mbit/s deep at first, {last:.1} at last"),
        ))
        .with_note(format!(
            "teeth {first:.1} Mbit/s deep at first, {last:.1} at last; {deeper} of {} are deeper than the one before them, which ended elsewhere in a cache line",
            depths.len()
        )))
}

/// At how many sizes the first machine takes less time.
pub(super) fn faster_at(fast: &[f64], slow: &[f64]) -> usize {
    fast.iter().zip(slow).filter(|(fast, slow)| fast < slow).count()
}

fn two_machines(_: &Claim, runs: &Runs) -> Outcome {
    let [fast, slow] = [FAST, SLOW].map(|machine| by_size(runs, machine, "total_s"));
    let (fast, slow) = (fast?, slow?);
    let is_faster = faster_at(&fast, &slow);
    let access = |machine| curve(runs.of("pc-7a"), &[("machine", machine)], "access_ns");
    let (fast_ns, slow_ns) = (access(FAST)?, access(SLOW)?);
    let slower: Vec<usize> =
        (0..fast_ns.len()).filter(|&cycles| fast_ns[cycles] > slow_ns[cycles]).collect();
    let got = format!(
        "the 5000/240 takes less time at {is_faster} of {} sizes; slower with {slower:?} of 0 to {} CPU cycles between accesses",
        fast.len(),
        fast_ns.len() - 1
    );
    let holds = is_faster == fast.len() && !slower.is_empty() && slower.len() < fast_ns.len();
    Ok(Comparison::holds(holds, "faster with every size, slower with some timings", got))
}

/// Mean of a curve over each whole tooth.
fn tooth_means(curve: &[f64]) -> Vec<f64> {
    let mean = |from: usize| {
        curve.get(from..from + TOOTH).map(|tooth| tooth.iter().sum::<f64>() / TOOTH as f64)
    };
    teeth().into_iter().filter_map(mean).collect()
}

fn steps_of_rates(_: &Claim, runs: &Runs) -> Outcome {
    let packets = by_size(runs, FAST, "packets_per_s")?;
    let cells = by_size(runs, FAST, "cells_per_s")?;
    let (holds, got) = falls_in_steps(&packets, &cells);
    Ok(Comparison::holds(
        holds,
        "steps of packets shrink; cells peak where one is added, and fall slowly from tooth to tooth",
        got,
    ))
}

/// Whether rates of packets and cells are as in Figure 6, and their numbers.
pub(super) fn falls_in_steps(packets: &[f64], cells: &[f64]) -> (bool, String) {
    let steps: Vec<f64> = teeth().iter().map(|at| packets[at - 1] - packets[*at]).collect();
    let has_peaks = teeth().iter().all(|&at| cells[at] > cells[at - 1]);
    let means = tooth_means(cells);
    let (_, slope, _) = line(&means);
    let got = format!(
        "packet steps from {:.0} to {:.0} a second; cells jump up at each of {} teeth: {has_peaks}; mean of a tooth from {:.0} to {:.0} cells a second",
        steps[0],
        steps[steps.len() - 1],
        steps.len(),
        means[0],
        means[means.len() - 1],
    );
    (shrinks(&steps) && has_peaks && slope < 0.0, got)
}

/// Lost cells of a million on a network that is nearly free of errors: one packet of 400 lacks one.
const NEARLY_NONE: i64 = 100;

/// What keeping account of a cell may cost, in cycles with the check of the cell itself: our estimate
/// is 24.
const REPAIR_CYCLES: [u32; 2] = [13, 48];

/// Fewest lost cells of a million at which repair wins, where it wins from there on and not before.
fn crossing(run: &RunResult) -> Result<Option<i64>, String> {
    let goodput = |policy| curve(run, &[("loss_policy", policy)], "goodput_bits_per_s");
    let (discard, repair) = (goodput("discard")?, goodput("repair")?);
    let lost = run.cases_with(&[("loss_policy", "discard")]);
    let lost: Vec<_> =
        lost.filter_map(|case| case.case.value("cells_lost_per_million")?.as_integer()).collect();
    let wins: Vec<bool> = discard.iter().zip(&repair).map(|(one, other)| one > other).collect();
    let first = wins.iter().position(|wins| !wins);
    Ok(first.filter(|&at| wins[at..].iter().all(|wins| !wins)).map(|at| lost[at]))
}

/// Over a range of what keeping account of a cell costs, which the thesis does not say.
fn discard_or_repair(_: &Claim, runs: &Runs) -> Outcome {
    let varied =
        |cycles: u32| crossing(&vary("pc-7b", &[&format!("repair_check_cycles={cycles}")])?);
    let own = crossing(runs.of("pc-7b"))?;
    let others = REPAIR_CYCLES.into_iter().map(varied).collect::<Result<Vec<_>, String>>()?;
    let is_once = |at: &Option<i64>| at.is_some_and(|lost| lost > NEARLY_NONE);
    let word = |at: &Option<i64>| at.map_or("nowhere".to_owned(), |lost| lost.to_string());
    let words: Vec<_> = REPAIR_CYCLES
        .iter()
        .zip(&others)
        .map(|(cycles, at)| format!("{cycles} cycles: {}", word(at)))
        .collect();
    Ok(Comparison::holds(
        is_once(&own) && others.iter().all(is_once),
        "discarding wins at low loss, repair at high loss, at each cost of an account",
        format!(
            "repair wins from so many lost cells of a million on: {}; by cost of an account: {}",
            word(&own),
            words.join(", ")
        ),
    ))
}

/// Part of the time that the receiving machine is at work when it is what limits.
const AT_WORK: f64 = 0.95;

/// The rate of a receiving machine that is always at work, and that it is what limits. The second
/// number is the first one twice, since data cross the bus from the card and again to memory.
fn receiver_limits(claim: &Claim, runs: &Runs) -> Outcome {
    let lossless = [("loss_policy", "discard"), ("cells_lost_per_million", "0")];
    let of = |name| {
        let rate = curve(runs.of("pc-7b"), &lossless, name)?.first().copied().map(mbit);
        rate.ok_or_else(|| "pc-7b has no case without loss".to_owned())
    };
    let (rate, carried) = (of("receiver_bits_per_s")?, of("goodput_bits_per_s")?);
    let bus_mbyte_per_s = 2.0 * rate / 8.0;
    let at_work = carried / rate;
    Ok(Comparison::numbers(claim, &[rate, bus_mbyte_per_s])
        .and(Comparison::holds(
            at_work > AT_WORK,
            "the receiving machine is at work all the time, so that nothing else limits",
            format!("at work for {:.0} % of the time", 100.0 * at_work),
        ))
        .with_note(format!(
            "taken as the rate at which the receiving machine, at work for {:.0} % of the time, can drain its card; twice as much crosses its bus",
            100.0 * at_work
        )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_a_saw_tooth_is_none() {
        let straight: Vec<f64> = (0..100).map(|x| 3.0 + 0.5 * f64::from(x)).collect();
        let (intercept, slope, r2) = line(&straight);
        assert!((intercept - 3.0).abs() < 1e-9 && (slope - 0.5).abs() < 1e-9);
        assert!((r2 - 1.0).abs() < 1e-9);
        let saw: Vec<f64> = (0..100).map(|x| f64::from(x % 10)).collect();
        assert!(line(&saw).2 < 0.1);
        assert_eq!(falls(&saw, 1.0), (10..100).step_by(10).collect::<Vec<_>>());
    }

    #[test]
    fn teeth_begin_where_a_cell_does() {
        let all = teeth();
        assert_eq!((all[0], all[1], all[all.len() - 1]), (21, 65, 989));
    }

    #[test]
    fn a_tooth_climbs_from_its_first_octet_to_its_last() {
        let place = |size: usize| (size + TOOTH - FIRST_TOOTH) % TOOTH;
        let mut curve: Vec<f64> = (0..=LARGEST).map(|size| place(size) as f64).collect();
        assert!(climbs_in_teeth(&curve, 0.0));
        curve[FIRST_TOOTH + 5] = -0.5;
        assert!(climbs_in_teeth(&curve, 1.0) && !climbs_in_teeth(&curve, 0.0));
        curve[FIRST_TOOTH + 5] = 44.5;
        assert!(!climbs_in_teeth(&curve, 1.0), "higher than where the cell is full");
    }

    #[test]
    fn a_curve_that_still_rises_at_its_end_has_no_limit() {
        assert!(levels_off(&[10.0, 70.0, 79.0, 80.0]));
        assert!(!levels_off(&[10.0, 70.0, 77.0, 80.0]));
    }

    /// A saw tooth that starts with one high peak and climbs after it does not fall.
    #[test]
    fn a_trend_is_that_of_whole_teeth() {
        let tooth = |size: usize| (size - FIRST_TOOTH) / TOOTH;
        let climbing = |size: usize| if size == FIRST_TOOTH { 99.0 } else { tooth(size) as f64 };
        let curve: Vec<f64> = (0..=LARGEST).map(|size| climbing(size.max(FIRST_TOOTH))).collect();
        let means = tooth_means(&curve);
        assert_eq!((means.len(), means[1], means[21]), (22, 1.0, 21.0));
        assert!(line(&means).1 > 0.0);
    }
}
