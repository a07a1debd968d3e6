//! Both forms on this machine, in turns.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use sockscope_experiment::measurement::Distribution;

use super::form::{DATA_BYTES_MAX, Form, Integrated, Layered, Touches, Wire};
use crate::conditions::{Conditions, Rule, Watch};

/// Turns longer than this tell no more.
const TURN_MS_MAX: u64 = 60_000;

/// What is to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Bytes of data, 1 MiB at most.
    pub data_bytes: Vec<usize>,
    /// Turns that each form gets for each size, 1 at least.
    pub turns: u32,
    /// Length of one turn.
    pub turn: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            data_bytes: vec![64, 1024, 4000, 4800, 16 << 10, 64 << 10, 1 << 20],
            turns: 15,
            turn: Duration::from_millis(2),
        }
    }
}

impl Plan {
    /// Replaces a part: `data_bytes=64,4800`, `turn_ms=5`.
    ///
    /// # Errors
    ///
    /// When there is no such part, or the value has no sense for it; says what was expected.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let refused = |expected: String| format!("--set {text}: expected {expected}");
        match text.split_once('=') {
            Some(("data_bytes", list)) => self.data_bytes = sizes(list).map_err(refused)?,
            Some(("turn_ms", ms)) => {
                let ms = ms.parse().ok().filter(|ms| (1..=TURN_MS_MAX).contains(ms));
                let words = || refused(format!("milliseconds from 1 to {TURN_MS_MAX}"));
                self.turn = Duration::from_millis(ms.ok_or_else(words)?);
            }
            _ => return Err(refused("data_bytes=N,N or turn_ms=N".to_owned())),
        }
        Ok(())
    }
}

/// Sizes of data, with commas; else what was expected.
pub(super) fn sizes(list: &str) -> Result<Vec<usize>, String> {
    let number = |word: &str| word.parse().ok().filter(|&it| it <= DATA_BYTES_MAX);
    let sizes: Option<Vec<_>> = list.split(',').map(number).collect();
    sizes.ok_or_else(|| format!("numbers up to {DATA_BYTES_MAX}, with commas"))
}

/// One form at one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Bytes of data.
    pub data_bytes: usize,
    /// Which form.
    pub form: &'static str,
    /// CPU time of an echo call without network: there and back, both ends' work. One time a turn, the
    /// mean of the turn's calls.
    pub call_ns: Distribution,
    /// Touches of each octet, one way.
    pub touches: Touches,
}

/// What a comparison gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What was measured.
    pub plan: Plan,
    /// By size, then form.
    pub rows: Vec<Row>,
    /// The machine, and what others did on it. No turn is dropped: CPU time is measured, which they do not have.
    pub conditions: Conditions,
}

/// Measures both forms, in turns, so that what disturbs one disturbs the other. Sizes over 1 MiB are
/// measured at that.
pub fn compare(plan: Plan) -> Comparison {
    let mut rows = Vec::new();
    let watch = Watch::begin();
    for &data_bytes in &plan.data_bytes {
        let (mut layered, mut integrated) = (Layered::default(), Integrated::default());
        let forms: [&mut dyn Form; 2] = [&mut layered, &mut integrated];
        let mut sides = forms.map(|form| Side::new(form, data_bytes.min(DATA_BYTES_MAX)));
        for _ in 0..plan.turns.max(1) {
            sides.iter_mut().for_each(|side| side.turn(plan.turn));
        }
        rows.extend(sides.into_iter().map(|side| Row {
            data_bytes,
            form: side.form.name(),
            touches: side.form.touches(),
            call_ns: side.times_ns.into_iter().collect(),
        }));
    }
    let rule = Rule { drops: false, ..Rule::default() };
    Comparison { plan, rows, conditions: Conditions::of(watch.end(), rule, Vec::new()) }
}

/// What this thread has had of a CPU: others that run meanwhile do not count as work of a call.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

struct Side<'a> {
    form: &'a mut dyn Form,
    data: Vec<u8>,
    got: Vec<u8>,
    wire: Wire,
    times_ns: Vec<u64>,
}

impl<'a> Side<'a> {
    fn new(form: &'a mut dyn Form, data_bytes: usize) -> Self {
        let data: Vec<u8> = (0..data_bytes).map(|at| (at * 31 % 251) as u8).collect();
        let mut side =
            Self { form, data, got: Vec::new(), wire: Wire::default(), times_ns: Vec::new() };
        // The first call gets memory from the system.
        side.call();
        side
    }

    fn turn(&mut self, length: Duration) {
        let (started, worked) = (Instant::now(), cpu_time());
        let mut calls = 0;
        while calls == 0 || started.elapsed() < length {
            // Reading the clock takes as long as a short call: it is read after an eighth more calls.
            let more = (calls / 8).max(1);
            (0..more).for_each(|_| self.call());
            calls += more;
        }
        let ns = (cpu_time() - worked).as_nanos() / calls;
        self.times_ns.push(u64::try_from(ns).unwrap_or(u64::MAX));
    }

    /// There and back: the answer carries the same data.
    fn call(&mut self) {
        for _ in 0..2 {
            self.form.send(black_box(&self.data), &mut self.wire);
            let came = self.form.receive(black_box(&self.wire), &mut self.got);
            assert!(came.is_ok() && self.got.len() == self.data.len(), "the call came back whole");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrated::form::Damage;
    use crate::integrated::work::Work;

    const SLEEP: Duration = Duration::from_millis(20);

    fn sleep() {
        std::thread::sleep(SLEEP);
    }

    /// Takes a quarter of the CPU time that [`sleep`] takes without a CPU.
    fn compute() {
        let begun = cpu_time();
        while cpu_time() - begun < SLEEP / 4 {}
    }

    /// A form that does something else before it sends.
    struct Pausing(Layered, fn());

    impl Form for Pausing {
        fn name(&self) -> &'static str {
            "pausing"
        }
        fn send(&mut self, data: &[u8], wire: &mut Wire) {
            self.1();
            self.0.send(data, wire);
        }
        fn receive(&mut self, wire: &Wire, data: &mut Vec<u8>) -> Result<(), Damage> {
            self.0.receive(wire, data)
        }
        fn touches(&self) -> Touches {
            self.0.touches()
        }
        fn take_work(&mut self) -> Work {
            self.0.take_work()
        }
    }

    #[test]
    fn time_without_a_cpu_is_no_work() {
        let one_turn = |pause| {
            let mut form = Pausing(Layered::default(), pause);
            let mut side = Side::new(&mut form, 1);
            side.turn(Duration::ZERO);
            side.times_ns[0]
        };
        assert!(one_turn(sleep) < one_turn(compute), "sleeping was counted");
    }

    #[test]
    fn both_forms_are_measured_at_every_size() {
        let plan = Plan { data_bytes: vec![0, 4800, 2 << 20], turns: 3, turn: Duration::ZERO };
        let comparison = compare(plan);
        let rows: Vec<_> = comparison.rows.iter().map(|row| (row.data_bytes, row.form)).collect();
        assert_eq!(rows.len(), 6);
        assert_eq!(rows[2..4], [(4800, "layered"), (4800, "integrated")]);
        assert!(comparison.rows.iter().all(|row| row.call_ns.n() == 3));
    }

    #[test]
    fn parts_are_replaced_and_nonsense_says_what_was_expected() {
        let mut plan = Plan::default();
        plan.set("data_bytes=1,4800").unwrap();
        plan.set("turn_ms=7").unwrap();
        assert_eq!((plan.data_bytes, plan.turn), (vec![1, 4800], Duration::from_millis(7)));
        let refused = |text: &str| Plan::default().set(text).unwrap_err();
        assert!(refused("turn_ms=0").ends_with("expected milliseconds from 1 to 60000"));
        assert!(refused("data_bytes=1048577").contains("numbers up to 1048576"));
        assert!(refused("machine=vax").ends_with("expected data_bytes=N,N or turn_ms=N"));
    }
}
