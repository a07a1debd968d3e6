//! Which runs give no number: a rule that is the same for all, and is part of the result.

use serde::Serialize;

use super::others::Others;

/// How a result begins that has no number, as its runs were dropped.
pub const DROPPED: &str = "dropped, because";

/// When a run is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rule {
    /// Other processes had more than this of one CPU, in percent.
    pub others_percent_max: f64,
    /// The host of a virtual machine took more than this of one CPU, in percent.
    pub steal_percent_max: f64,
    /// Both count from so many nanoseconds of CPU time on: the kernel counts in steps of 10 ms.
    pub counted_from_ns: u64,
    /// A run is so far from the median of the runs of its case, in percent of that.
    pub scatter_percent_max: f64,
    /// A run that was dropped is made again so often.
    pub again_max: u32,
    /// `false`: no run is dropped, and the reasons stand in the result all the same.
    pub drops: bool,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            others_percent_max: 10.0,
            steal_percent_max: 10.0,
            counted_from_ns: 20_000_000,
            scatter_percent_max: 50.0,
            again_max: 3,
            drops: true,
        }
    }
}

impl Rule {
    /// Why a run with these others is dropped, in words; `None` where it is not.
    pub fn reason(&self, others: &Others) -> Option<String> {
        let is_much = |ns: u64, most: f64| ns >= self.counted_from_ns && others.percent(ns) > most;
        if is_much(others.cpu_ns, self.others_percent_max) {
            return Some(others.words());
        }
        let percent = others.percent(others.steal_ns);
        is_much(others.steal_ns, self.steal_percent_max)
            .then(|| format!("the host of this virtual machine took {percent:.0} % of a CPU"))
    }
}

/// Which of a case's runs are too far from the median of their values, by index, each with its distance in percent. The
/// median itself is not.
pub fn scattered(values: &[f64], percent_max: f64) -> Vec<(usize, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(&median) = sorted.get(sorted.len() / 2).filter(|median| **median > 0.0) else {
        return Vec::new();
    };
    let distance = |value: &f64| (value - median).abs() * 100.0 / median;
    let distances = values.iter().map(distance).enumerate();
    distances.filter(|(_, percent)| *percent > percent_max).collect()
}

#[cfg(test)]
mod tests {
    use super::super::processes::Busy;
    use super::*;

    fn others(elapsed_ms: u64, cpu_ms: u64, steal_ms: u64) -> Others {
        let cpu_ns = cpu_ms * 1_000_000;
        Others {
            elapsed_ns: elapsed_ms * 1_000_000,
            cpu_ns,
            steal_ns: steal_ms * 1_000_000,
            busiest: vec![Busy { pid: 9, comm: "cc1".to_owned(), cpu_ns }],
            ..Others::default()
        }
    }

    #[test]
    fn a_busy_machine_is_a_reason_and_one_step_of_the_clock_is_none() {
        let rule = Rule::default();
        assert_eq!(rule.reason(&others(1000, 100, 0)), None);
        assert_eq!(rule.reason(&others(50, 10, 10)), None);
        let busy = rule.reason(&others(1000, 110, 0)).expect("it is over the limit");
        assert_eq!(busy, "others had 11 % of a CPU, most of it cc1 (pid 9)");
        let stolen = rule.reason(&others(1000, 0, 500)).expect("it is over the limit");
        assert_eq!(stolen, "the host of this virtual machine took 50 % of a CPU");
    }

    #[test]
    fn a_run_far_from_the_median_is_scattered_and_the_median_never_is() {
        assert_eq!(
            scattered(&[100.0, 90.0, 10.0], 50.0),
            [(2, 10.0_f64.mul_add(-1.0, 90.0) * 100.0 / 90.0)]
        );
        assert_eq!(scattered(&[1.0, 100.0], 50.0), [(0, 99.0)]);
        assert_eq!(scattered(&[5.0], 0.0), []);
        assert_eq!(scattered(&[], 0.0), []);
        assert_eq!(scattered(&[0.0, 0.0, 7.0], 0.0), [], "of nothing there is no share");
    }
}
