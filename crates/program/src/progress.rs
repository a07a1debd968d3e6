//! One line on the terminal of standard error while long work runs: its name, and its part done. It is erased at the
//! end. Work that is done at once has none, and in a pipe no line is written.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use sockscope_render::number::count;

/// Between two lines, and before the first one.
const EVERY: Duration = Duration::from_millis(250);
/// Erases the line (ECMA-48 §8.3.41).
const ERASED: &str = "\r\x1b[K";

/// When the first work of this process began.
static BEGAN: OnceLock<Instant> = OnceLock::new();

/// Work that runs until this is dropped.
#[derive(Debug)]
pub struct Progress {
    work: &'static str,
    /// Steps that are done, and all of them; 0 where their number is not known.
    steps: Cell<(u64, u64)>,
    /// When the line was drawn, or the first work began; `None` without a terminal.
    drawn: Cell<Option<Instant>>,
    is_shown: Cell<bool>,
}

impl Progress {
    /// Begins work of so many steps; 0 where their number is not known.
    pub fn begin(work: &'static str, steps: u64) -> Self {
        let began = *BEGAN.get_or_init(Instant::now);
        let progress = Self {
            work,
            steps: Cell::new((0, steps)),
            drawn: Cell::new(std::io::stderr().is_terminal().then_some(began)),
            is_shown: Cell::new(false),
        };
        progress.show(0, steps);
        progress
    }

    /// So many more steps are done.
    pub fn add(&self, steps: u64) {
        let (done, of) = self.steps.get();
        self.show(done + steps, of);
    }

    /// So many steps of all of them are done.
    pub fn set(&self, done: usize, of: usize) {
        self.show(done as u64, of as u64);
    }

    fn show(&self, done: u64, of: u64) {
        self.steps.set((done, of));
        if self.drawn.get().is_some_and(|drawn| drawn.elapsed() >= EVERY) {
            self.drawn.set(Some(Instant::now()));
            self.draw();
        }
    }

    fn draw(&self) {
        self.is_shown.set(true);
        let (done, of) = self.steps.get();
        put(&format!("{ERASED}sockscope: {}", words(self.work, done, of)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown.get() {
            put(ERASED);
        }
    }
}

fn put(text: &str) {
    let mut out = std::io::stderr();
    // The terminal may have gone.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn words(work: &str, done: u64, steps: u64) -> String {
    match (done, steps) {
        (0, 0) => format!("{work} ..."),
        (done, 0) => format!("{work}: {}", count(done)),
        (done, steps) => {
            let share = done.min(steps).saturating_mul(100) / steps;
            format!("{work}: {share} % of {}", count(steps))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_part_that_is_done() {
        assert_eq!(words("reading records", 0, 0), "reading records ...");
        assert_eq!(words("reading records", 1_500, 0), "reading records: 1,500");
        assert_eq!(words("reading records", 1_500, 3_000), "reading records: 50 % of 3,000");
        assert_eq!(words("reading records", 9_000, 3_000), "reading records: 100 % of 3,000");
    }

    #[test]
    fn steps_add_up_and_are_replaced_by_a_new_count() {
        let progress = Progress::begin("working", 2);
        progress.add(2);
        assert_eq!(progress.steps.get(), (2, 2));
        progress.set(3, 4);
        assert_eq!(progress.steps.get(), (3, 4));
    }
}
