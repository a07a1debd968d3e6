//! A processor, its write buffer and its bus over time.
//!
//! Both clocks tick from time 0. An instruction takes whole cycles of the processor; an access begins
//! at a tick of the bus. A write waits in the write buffer while the processor goes on, and leaves in
//! order. A read holds the processor and passes the writes that have not begun: the buffer keeps the
//! order of accesses to one address only (Whateley), so that a reader of new data must empty the
//! buffer first.

use std::collections::VecDeque;

use super::TurbochannelMachine;

/// One machine at work, from time 0 on. `W` is the content of a write.
///
/// An access is begun and then ended, so that the caller can ask a device on the bus in between for
/// its wait. Writes that have begun by that time must be ended before the next request: `while let
/// Some(write) = timeline.begin_write(Until::Now)`, then [`Timeline::end_write`].
#[derive(Debug, Clone)]
pub struct Timeline<W> {
    bus_cycle_ps: u64,
    cpu_cycle_ps: u64,
    buffer_words: usize,
    /// When the processor does its next instruction; a tick of its clock.
    cpu_ps: u64,
    /// When all accesses that have begun are over; a tick of the bus.
    bus_ps: u64,
    /// Writes that have not begun, oldest first.
    waiting: VecDeque<Waiting<W>>,
    /// When the writes leave the buffer that have begun, oldest first.
    leaving_ps: VecDeque<u64>,
}

#[derive(Debug, Clone)]
struct Waiting<W> {
    since_ps: u64,
    bus_cycles: u64,
    write: W,
}

/// An access that has the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Begun<W> {
    /// Since when, in picoseconds.
    pub at_ps: u64,
    /// The number of its cycles, if the device adds none.
    pub bus_cycles: u64,
    /// The content of the write.
    pub access: W,
}

/// Which writes to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Those that begin before the processor's time.
    Now,
    /// All.
    Empty,
}

impl<W> Timeline<W> {
    /// A machine that has done nothing yet.
    pub fn new(machine: &TurbochannelMachine) -> Self {
        Self {
            bus_cycle_ps: machine.bus.cycle_ps.max(1),
            cpu_cycle_ps: machine.cpu.cycle_ps.max(1),
            buffer_words: machine.write_buffer.words.max(1),
            cpu_ps: 0,
            bus_ps: 0,
            waiting: VecDeque::new(),
            leaving_ps: VecDeque::new(),
        }
    }

    /// The processor's time, in picoseconds.
    pub fn cpu_ps(&self) -> u64 {
        self.cpu_ps
    }

    /// When processor and bus are both done with all that was asked for, if no device adds to it, in
    /// picoseconds. It never falls.
    pub fn done_ps(&self) -> u64 {
        let bus_ps = self.waiting.iter().fold(self.bus_ps, |free_ps, waiting| {
            self.tick_ps(free_ps.max(waiting.since_ps)) + waiting.bus_cycles * self.bus_cycle_ps
        });
        bus_ps.max(self.cpu_ps)
    }

    /// The processor works, without the bus.
    pub fn work(&mut self, cpu_cycles: u64) {
        self.cpu_ps = self.cpu_ps.saturating_add(cpu_cycles.saturating_mul(self.cpu_cycle_ps));
    }

    /// The processor has nothing to do until `at_ps`, if that is not over.
    pub fn wait_until(&mut self, at_ps: u64) {
        self.cpu_ps = self.cpu_ps.max(at_ps.next_multiple_of(self.cpu_cycle_ps));
    }

    /// Whether the buffer has no room for a write; then [`Timeline::wait_for_room`].
    #[must_use]
    pub fn is_full(&mut self) -> bool {
        while self.leaving_ps.front().is_some_and(|&at_ps| at_ps <= self.cpu_ps) {
            self.leaving_ps.pop_front();
        }
        self.leaving_ps.len() + self.waiting.len() >= self.buffer_words
    }

    /// The processor waits until the oldest write that has begun has left the buffer; `false` when
    /// none has begun, and one must be.
    #[must_use]
    pub fn wait_for_room(&mut self) -> bool {
        let room_ps = self.leaving_ps.pop_front();
        room_ps.map(|room_ps| self.wait_until(room_ps)).is_some()
    }

    /// A write enters the buffer; there must be room.
    pub fn write(&mut self, bus_cycles: u64, write: W) {
        debug_assert!(self.leaving_ps.len() + self.waiting.len() < self.buffer_words);
        self.waiting.push_back(Waiting { since_ps: self.cpu_ps, bus_cycles, write });
    }

    /// The writes that wait, oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = &W> {
        self.waiting.iter().map(|waiting| &waiting.write)
    }

    /// Begins the oldest write that waits.
    pub fn begin_write(&mut self, until: Until) -> Option<Begun<W>> {
        let oldest = self.waiting.front()?;
        let at_ps = self.tick_ps(self.bus_ps.max(oldest.since_ps));
        if until == Until::Now && at_ps >= self.cpu_ps {
            return None;
        }
        let Waiting { bus_cycles, write, .. } = self.waiting.pop_front()?;
        Some(Begun { at_ps, bus_cycles, access: write })
    }

    /// Ends a write for which its device made the bus wait so many cycles.
    pub fn end_write(&mut self, begun: &Begun<W>, wait_cycles: u64) {
        self.occupy(begun.at_ps, begun.bus_cycles + wait_cycles);
        self.leaving_ps.push_back(self.bus_ps);
    }

    /// A read of so many cycles. Writes that begin before it must have begun.
    pub fn begin_read(&mut self, bus_cycles: u64) -> Begun<()> {
        let at_ps = self.tick_ps(self.cpu_ps.max(self.bus_ps));
        Begun { at_ps, bus_cycles, access: () }
    }

    /// Ends a read for which its device made the bus wait so many cycles, and the processor with it.
    pub fn end_read(&mut self, begun: &Begun<()>, wait_cycles: u64) {
        self.occupy(begun.at_ps, begun.bus_cycles + wait_cycles);
        self.wait_until(self.bus_ps);
    }

    /// The processor waits for the last write, then needs so many cycles to go on. All writes must
    /// have begun.
    pub fn flush(&mut self, cpu_cycles: u64) {
        debug_assert!(self.waiting.is_empty());
        if let Some(&left_ps) = self.leaving_ps.back() {
            self.wait_until(left_ps);
        }
        self.leaving_ps.clear();
        self.work(cpu_cycles);
    }

    fn tick_ps(&self, at_ps: u64) -> u64 {
        at_ps.next_multiple_of(self.bus_cycle_ps)
    }

    fn occupy(&mut self, at_ps: u64, bus_cycles: u64) {
        debug_assert!(at_ps >= self.bus_ps, "two accesses have the bus");
        self.bus_ps = at_ps.saturating_add(bus_cycles.saturating_mul(self.bus_cycle_ps));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A timeline with a bus of 40 ns, a processor of `cpu_ps` and a buffer of two words, on which
    /// every access is noted.
    struct Machine {
        timeline: Timeline<()>,
        accesses: Vec<(u64, u64)>,
    }

    impl Machine {
        fn new(cpu_ps: u64) -> Self {
            let mut machine = TurbochannelMachine::by_name("decstation-5000-200").unwrap();
            machine.cpu.cycle_ps = cpu_ps;
            machine.write_buffer.words = 2;
            Self { timeline: Timeline::new(&machine), accesses: Vec::new() }
        }

        fn begin_one(&mut self, until: Until) -> bool {
            let Some(begun) = self.timeline.begin_write(until) else { return false };
            self.timeline.end_write(&begun, 0);
            self.accesses.push((begun.at_ps, begun.at_ps + begun.bus_cycles * 40_000));
            true
        }

        fn settle(&mut self, until: Until) {
            while self.begin_one(until) {}
        }

        fn step(&mut self, kind: u8, cycles: u64) {
            match kind {
                b'w' => {
                    self.timeline.work(1);
                    self.settle(Until::Now);
                    while self.timeline.is_full() {
                        let _ = self.timeline.wait_for_room() || self.begin_one(Until::Empty);
                    }
                    self.timeline.write(cycles, ());
                }
                b'r' => {
                    self.timeline.work(1);
                    self.settle(Until::Now);
                    let begun = self.timeline.begin_read(cycles);
                    self.timeline.end_read(&begun, 0);
                    self.accesses.push((begun.at_ps, begun.at_ps + cycles * 40_000));
                }
                b'f' => {
                    self.settle(Until::Empty);
                    self.timeline.flush(cycles);
                }
                _ => self.timeline.work(cycles),
            }
        }
    }

    /// The processor's time after each step, then the accesses, in nanoseconds. `w5` writes for five
    /// bus cycles, `r5` reads, `f3` flushes, a number works.
    fn trace(cpu_ps: u64, steps: &str) -> String {
        let mut machine = Machine::new(cpu_ps);
        let mut times = Vec::new();
        for step in steps.split(' ') {
            let cycles = step.trim_start_matches(char::is_alphabetic).parse().unwrap();
            machine.step(step.as_bytes()[0], cycles);
            times.push(format!("{}", machine.timeline.cpu_ps() / 1000));
        }
        machine.settle(Until::Empty);
        let accesses = machine.accesses.iter();
        let accesses = accesses.map(|(from, to)| format!("{}-{}", from / 1000, to / 1000));
        format!("{} | {}", times.join(" "), accesses.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn writes_queue_behind_each_other_while_the_processor_goes_on() {
        assert_eq!(trace(40_000, "w5 w5 3 f2"), "40 80 200 520 | 40-240 240-440");
    }

    #[test]
    fn a_full_buffer_holds_the_processor_until_a_write_has_left() {
        let expected = "40 80 240 440 | 40-240 240-440 440-640 640-840";
        assert_eq!(trace(40_000, "w5 w5 w5 w5"), expected);
    }

    #[test]
    fn a_read_passes_the_writes_that_wait_but_not_the_one_that_has_begun() {
        assert_eq!(trace(40_000, "w5 w5 r10 1"), "40 80 640 680 | 40-240 240-640 640-840");
    }

    #[test]
    fn accesses_begin_at_ticks_of_the_bus_and_instructions_at_ticks_of_the_processor() {
        assert_eq!(trace(30_000, "r5 r5 r5"), "240 480 720 | 40-240 280-480 520-720");
        assert_eq!(trace(30_000, "w5 f0 w1"), "30 240 270 | 40-240 280-320");
    }

    proptest! {
        #[test]
        fn time_never_falls_and_the_bus_has_one_access_at_a_time(
            steps in prop::collection::vec((prop::sample::select(b"wrf1".to_vec()), 0u64..20), 1..100),
            cpu_ps in 10_000u64..60_000,
        ) {
            let mut machine = Machine::new(cpu_ps);
            for (kind, cycles) in steps {
                let (cpu_ps, done_ps) = (machine.timeline.cpu_ps(), machine.timeline.done_ps());
                machine.step(kind, cycles);
                prop_assert!(machine.timeline.cpu_ps() >= cpu_ps);
                prop_assert!(machine.timeline.done_ps() >= done_ps);
            }
            let done_ps = machine.timeline.done_ps();
            machine.settle(Until::Empty);
            prop_assert_eq!(machine.timeline.done_ps(), done_ps);
            for pair in machine.accesses.windows(2) {
                prop_assert!(pair[0].1 <= pair[1].0, "{:?}", pair);
            }
            prop_assert!(machine.accesses.iter().all(|(from, _)| from.is_multiple_of(40_000)));
            prop_assert_eq!(machine.timeline.cpu_ps() % cpu_ps, 0);
        }
    }
}
