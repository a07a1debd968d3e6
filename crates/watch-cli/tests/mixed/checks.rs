//! Bounds for the samples of a run.

use super::meter::{Cost, Sample, between, most};
use super::{Form, SETTLED_S};

/// Memory is compared by such parts of the run.
const WINDOW_S: f64 = 600.0;

/// Memory, disk and cost. Prints the figures; those that do not hold.
pub fn checks(
    form: &Form,
    samples: &[Sample],
    recording_s: f64,
    ended_s: f64,
    exhausted: bool,
) -> Vec<String> {
    let mut failures = Vec::new();
    let mut expect = |holds: bool, text: String| {
        println!("{}{text}", if holds { "" } else { "NOT: " });
        if !holds {
            failures.push(text);
        }
    };
    expect(samples.len() > 1, format!("{} samples", samples.len()));
    let max_mb = (form.max_disk << 20) as f64 / 1e6;
    let disk_mb = most(samples, |it| it.disk_mb.max(it.segments_mb));
    expect(disk_mb <= max_mb, format!("segments have {disk_mb:.1} MB at most, of {max_mb:.1} MB"));
    // The recorder's own value is of its last refresh.
    let is_more = |sample: &&Sample| sample.own_cpu_s > sample.cpu_s + 0.03;
    let more = samples.iter().find(is_more);
    expect(more.is_none(), format!("its own CPU time is at most that of /proc: {more:?}"));
    if !form.is_long {
        return failures;
    }
    let length_s = form.length.as_secs_f64();
    // The first ten minutes have the start, and those of a recorder after a kill.
    let mut windows = Vec::new();
    while windows.len() as f64 * WINDOW_S < length_s {
        let from_s = windows.len() as f64 * WINDOW_S;
        windows.push(most(between(samples, from_s, from_s + WINDOW_S), |it| it.rss_mb));
    }
    let is_flat = windows.iter().all(|window| *window <= 1.1 * windows[0]);
    expect(is_flat, format!("RSS by ten minutes, MB at most: {windows:.1?}"));
    let mut from_s = 0.0;
    while from_s + form.row_s <= length_s {
        let cost = Cost::of(between(samples, from_s, from_s + form.row_s));
        let ratio = cost.own_cpu_s / cost.cpu_s;
        let text = format!("from {from_s:.0} s: own CPU time {ratio:.3} of that of /proc");
        expect((ratio - 1.0).abs() < 0.05, text);
        from_s += form.row_s;
    }
    let cost = Cost::of(between(samples, recording_s + SETTLED_S, ended_s));
    let percent = |s: f64| 100.0 * s / cost.passed_s;
    let all = percent(cost.cpu_s + cost.probes_s);
    let is_held = all <= form.budget || exhausted;
    let says = if exhausted { "it says that the budget cannot hold" } else { "" };
    let (own, probes, budget) = (percent(cost.cpu_s), percent(cost.probes_s), form.budget);
    expect(
        is_held,
        format!(
            "the cost is {all:.2} % ({own:.2} + probes {probes:.2}), budget {budget} %; {says}"
        ),
    );
    failures
}
