//! One CPU with its three levels, and the walk through the effects of what runs on it.
//!
//! A piece of work is a [`Segment`]: the effects of one step of the stack, each with the CPU time
//! after which it happens. Whatever interrupts a segment pushes the rest of it back by exactly the
//! time that it takes. Times are nanoseconds.

use sockscope_stack::Effect;

use crate::link::FrameId;
use crate::process::StepResult;

/// Who has the CPU, lowest first; a higher level interrupts a lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A process, in the kernel or in its own program.
    Process = 0,
    /// Software interrupts: the network's and the clock's.
    Soft = 1,
    /// Interrupts of devices.
    Hard = 2,
}

/// Levels of a CPU.
pub(crate) const LEVELS: usize = 3;

/// What happens when a segment has run to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Nothing,
    /// The device gets the frame.
    Transmit(u8, FrameId),
    /// A step of the running process's system call is over.
    Step(StepResult),
    /// The running process has computed what it wanted.
    Computed,
    /// The CPU has gone over to the running process.
    Switched,
}

/// What may come in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mask {
    /// Everything of a higher level, and other processes too: user mode.
    User,
    /// Everything of a higher level.
    None,
    /// Device interrupts (`splnet`).
    Soft,
    /// Nothing (`splimp`).
    All,
}

/// A piece of work on the CPU.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Last first; times count from the segment's beginning.
    effects: Vec<(u64, Effect)>,
    /// When it began, pushed back by all that came in between.
    began_ns: u64,
    /// When something came on top of it, while that lasts.
    suspended_ns: u64,
    len_ns: u64,
    pub(crate) mask: Mask,
    end: End,
}

impl Segment {
    /// The effects of a step, in order.
    pub(crate) fn new(mut effects: Vec<(u64, Effect)>, len_ns: u64, mask: Mask, end: End) -> Self {
        debug_assert!(effects.is_sorted_by_key(|effect| effect.0), "effects out of order");
        effects.reverse();
        Self { effects, began_ns: 0, suspended_ns: 0, len_ns, mask, end }
    }
}

/// What the CPU comes to next.
pub(crate) enum Turn {
    /// Nothing before this time.
    Wait(u64),
    /// This effect, now.
    Effect(Effect),
    /// The end of a segment, now.
    End(Level, End),
}

/// A CPU.
#[derive(Debug, Default)]
pub(crate) struct Cpu {
    levels: [Vec<Segment>; LEVELS],
    spare: Vec<Vec<(u64, Effect)>>,
    /// Time spent at each level up to now, for reports.
    pub(crate) used_ns: [u64; LEVELS],
    accounted_ns: u64,
}

impl Cpu {
    /// The level that runs; `None` when the CPU has nothing to do.
    #[inline]
    pub(crate) fn level(&self) -> Option<Level> {
        [Level::Hard, Level::Soft, Level::Process]
            .into_iter()
            .find(|level| !self.levels[*level as usize].is_empty())
    }

    /// What the running segment lets come in between.
    #[inline]
    pub(crate) fn mask(&self) -> Mask {
        self.top().map_or(Mask::User, |segment| segment.mask)
    }

    fn top(&self) -> Option<&Segment> {
        self.levels.iter().rev().find_map(|level| level.last())
    }

    fn top_mut(&mut self) -> Option<&mut Segment> {
        self.levels.iter_mut().rev().find_map(|level| level.last_mut())
    }

    /// Memory for effects, empty.
    pub(crate) fn spare_effects(&mut self) -> Vec<(u64, Effect)> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes memory for effects back; they are dropped.
    pub(crate) fn return_effects(&mut self, mut effects: Vec<(u64, Effect)>) {
        effects.clear();
        self.spare.push(effects);
    }

    /// `segment` begins now, on top of what runs at its level or below it.
    pub(crate) fn begin(&mut self, now_ns: u64, level: Level, mut segment: Segment) {
        debug_assert!(self.level().is_none_or(|running| running <= level), "a lower level waits");
        self.account(now_ns);
        if let Some(interrupted) = self.top_mut() {
            interrupted.suspended_ns = now_ns;
        }
        segment.began_ns = now_ns;
        self.levels[level as usize].push(segment);
    }

    /// What comes next, by `now_ns`.
    #[inline]
    pub(crate) fn turn(&mut self, now_ns: u64) -> Option<Turn> {
        let level = self.level()?;
        let segment = self.levels[level as usize].last_mut()?;
        let next_ns = segment.began_ns + segment.effects.last().map_or(segment.len_ns, |next| next.0);
        if next_ns > now_ns {
            return Some(Turn::Wait(next_ns));
        }
        if let Some((_, effect)) = segment.effects.pop() {
            return Some(Turn::Effect(effect));
        }
        let end = segment.end;
        self.finish(now_ns, level);
        Some(Turn::End(level, end))
    }

    /// Takes the top segment of `level`, which runs, off; what it interrupted goes on.
    fn finish(&mut self, now_ns: u64, level: Level) {
        self.account(now_ns);
        if let Some(finished) = self.levels[level as usize].pop() {
            debug_assert!(finished.effects.is_empty(), "effects left undone");
            self.spare.push(finished.effects);
        }
        if let Some(resumed) = self.top_mut() {
            resumed.began_ns += now_ns - resumed.suspended_ns;
        }
    }

    /// Takes a process's computation off the CPU; what is left of it, in nanoseconds.
    pub(crate) fn preempt(&mut self, now_ns: u64) -> u64 {
        let segment = self.levels[Level::Process as usize].last();
        let end_ns = segment.map_or(now_ns, |segment| segment.began_ns + segment.len_ns);
        self.finish(now_ns, Level::Process);
        end_ns.saturating_sub(now_ns)
    }

    /// Charges the time since the last account to the level that ran.
    pub(crate) fn account(&mut self, now_ns: u64) {
        if let Some(level) = self.level() {
            self.used_ns[level as usize] += now_ns - self.accounted_ns;
        }
        self.accounted_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(effects: &[u64], len_ns: u64) -> Segment {
        let effects = effects.iter().map(|at_ns| (*at_ns, Effect::SoftInterrupt)).collect();
        Segment::new(effects, len_ns, Mask::None, End::Nothing)
    }

    /// Runs the CPU up to `until_ns`; when each effect happened, and with a minus each end.
    fn walk(cpu: &mut Cpu, from_ns: u64, until_ns: u64) -> Vec<i64> {
        let mut happened = Vec::new();
        let mut now_ns = from_ns;
        loop {
            match cpu.turn(now_ns) {
                Some(Turn::Wait(next_ns)) if next_ns <= until_ns => now_ns = next_ns,
                Some(Turn::Effect(_)) => happened.push(now_ns as i64),
                Some(Turn::End(..)) => happened.push(-(now_ns as i64)),
                Some(Turn::Wait(_)) | None => return happened,
            }
        }
    }

    #[test]
    fn effects_happen_at_their_time_after_the_beginning() {
        let mut cpu = Cpu::default();
        cpu.begin(100, Level::Process, segment(&[0, 10, 30], 40));
        assert_eq!(walk(&mut cpu, 100, 1000), [100, 110, 130, -140]);
        assert_eq!(cpu.used_ns, [40, 0, 0]);
    }

    #[test]
    fn an_interrupt_pushes_the_rest_back_by_exactly_its_time() {
        let mut cpu = Cpu::default();
        cpu.begin(100, Level::Process, segment(&[10, 30], 40));
        assert_eq!(walk(&mut cpu, 100, 115), [110]);
        cpu.begin(115, Level::Hard, segment(&[3], 7));
        assert_eq!(walk(&mut cpu, 115, 1000), [118, -122, 137, -147]);
        assert_eq!(cpu.used_ns, [40, 0, 7]);
    }

    #[test]
    fn interrupts_of_interrupts_add_up() {
        let mut cpu = Cpu::default();
        cpu.begin(0, Level::Process, segment(&[100], 100));
        cpu.begin(10, Level::Soft, segment(&[50], 50));
        cpu.begin(20, Level::Hard, segment(&[], 5));
        assert_eq!(walk(&mut cpu, 20, 40), [-25]);
        cpu.begin(40, Level::Hard, segment(&[], 5));
        assert_eq!(walk(&mut cpu, 40, 1000), [-45, 70, -70, 160, -160]);
        assert_eq!(cpu.used_ns, [100, 50, 10]);
    }

    #[test]
    fn a_segment_on_top_at_the_same_level_comes_first() {
        let mut cpu = Cpu::default();
        cpu.begin(0, Level::Process, segment(&[10, 20], 30));
        assert_eq!(walk(&mut cpu, 0, 10), [10]);
        cpu.begin(10, Level::Process, segment(&[4], 6));
        assert_eq!(walk(&mut cpu, 10, 1000), [14, -16, 26, -36]);
    }

    #[test]
    fn what_is_left_of_a_preempted_computation_is_known() {
        let mut cpu = Cpu::default();
        cpu.begin(0, Level::Process, segment(&[], 1000));
        cpu.begin(300, Level::Hard, segment(&[], 50));
        assert_eq!(walk(&mut cpu, 300, 360), [-350]);
        assert_eq!(cpu.preempt(360), 690);
        assert!(cpu.level().is_none());
    }
}
