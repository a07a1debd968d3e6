//! One CPU with its three levels, and the walk through the effects of what runs on it.
//!
//! A piece of work is a segment: the effects of one step of the stack, each with the CPU time
//! after which it happens. Whatever interrupts a segment pushes the rest of it back by exactly the
//! time that it takes. Times are nanoseconds.

use sockscope_record::Record;
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
    /// Device interrupts (`splnet`), unless they are masked too: [`Cpu::new`].
    Soft,
    /// Nothing (`splimp`).
    All,
}

/// A piece of work on the CPU.
#[derive(Debug)]
struct Segment {
    level: Level,
    mask: Mask,
    end: End,
    /// When it began, pushed back by all that came in between.
    began_ns: u64,
    /// When something came on top of it, while that lasts.
    suspended_ns: u64,
    len_ns: u64,
    /// What it does, in order, each with the time from its beginning.
    effects: Vec<(u64, Effect)>,
    /// The first of its effects that has not happened yet.
    next_effect: usize,
}

impl Segment {
    /// A place for segments, with none in it.
    const FREE: Self = Self {
        level: Level::Process,
        mask: Mask::None,
        end: End::Nothing,
        began_ns: 0,
        suspended_ns: 0,
        len_ns: 0,
        effects: Vec::new(),
        next_effect: 0,
    };
}

/// What the CPU comes to next.
pub(crate) enum Turn {
    /// Nothing before this time.
    Wait(u64),
    /// An effect, now: [`Cpu::take_effect`].
    Effect,
    /// The end of a segment, now.
    End(End),
}

/// A CPU. What interrupts a segment lies on top of it, whatever its level, and ends before it.
#[derive(Debug, Default)]
pub(crate) struct Cpu {
    /// The first `depth` are under way, and the last of these runs; the others are free places,
    /// whose lists are used again.
    segments: Vec<Segment>,
    depth: usize,
    /// `splnet` keeps device interrupts out too.
    masks_devices: bool,
    /// Time spent at each level up to now, for reports.
    pub(crate) used_ns: [u64; LEVELS],
    accounted_ns: u64,
}

impl Cpu {
    /// An idle one; with `masks_devices`, `splnet` keeps device interrupts out too.
    pub(crate) fn new(masks_devices: bool) -> Self {
        Self { masks_devices, ..Self::default() }
    }

    /// The segment that runs.
    #[inline]
    fn top(&self) -> Option<&Segment> {
        self.segments.get(self.depth.wrapping_sub(1))
    }

    #[inline]
    fn top_mut(&mut self) -> Option<&mut Segment> {
        self.segments.get_mut(self.depth.wrapping_sub(1))
    }

    /// The level that runs; `None` when the CPU has nothing to do.
    #[inline]
    pub(crate) fn level(&self) -> Option<Level> {
        self.top().map(|segment| segment.level)
    }

    /// Whether an interrupt of this level may come in now; a CPU with nothing to do lets
    /// everything in.
    #[inline]
    pub(crate) fn admits(&self, level: Level) -> bool {
        let keeps_out = if self.masks_devices { Mask::Soft } else { Mask::All };
        let barrier = if level == Level::Hard { keeps_out } else { Mask::Soft };
        self.top().is_none_or(|top| top.level < level && top.mask < barrier)
    }

    /// Whether a process runs in user mode.
    #[inline]
    pub(crate) fn is_in_user_mode(&self) -> bool {
        let is_user = |top: &Segment| top.level == Level::Process && top.mask == Mask::User;
        self.top().is_some_and(is_user)
    }

    /// A segment of `len_ns` begins now, on top of what runs at its level or below it. The list
    /// takes its effects, in order, each with the time from its beginning.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        now_ns: u64,
        level: Level,
        mask: Mask,
        len_ns: u64,
        end: End,
    ) -> &mut Vec<(u64, Effect)> {
        debug_assert!(self.level().is_none_or(|running| running <= level), "a lower level waits");
        self.account(now_ns);
        if let Some(interrupted) = self.top_mut() {
            interrupted.suspended_ns = now_ns;
        }
        if self.depth == self.segments.len() {
            self.segments.push(Segment::FREE);
        }
        let segment = &mut self.segments[self.depth];
        self.depth += 1;
        segment.level = level;
        segment.mask = mask;
        segment.end = end;
        segment.began_ns = now_ns;
        segment.len_ns = len_ns;
        segment.next_effect = 0;
        segment.effects.clear();
        &mut segment.effects
    }

    /// What comes next, by `now_ns`.
    #[inline]
    pub(crate) fn turn(&mut self, now_ns: u64) -> Option<Turn> {
        let segment = self.top()?;
        let next = segment.effects.get(segment.next_effect);
        let next_ns = segment.began_ns + next.map_or(segment.len_ns, |(after_ns, _)| *after_ns);
        if next_ns > now_ns {
            return Some(Turn::Wait(next_ns));
        }
        if next.is_some() {
            return Some(Turn::Effect);
        }
        let end = segment.end;
        self.finish(now_ns);
        Some(Turn::End(end))
    }

    /// The effect that [`Cpu::turn`] has come to.
    #[inline]
    pub(crate) fn take_effect(&mut self) -> Option<Effect> {
        let segment = self.top_mut()?;
        let (_, effect) = segment.effects.get_mut(segment.next_effect)?;
        segment.next_effect += 1;
        Some(std::mem::replace(effect, Effect::SoftInterrupt))
    }

    /// The record that is the next effect, if it is one and its time has come.
    #[inline]
    pub(crate) fn take_record(&mut self, now_ns: u64) -> Option<Record> {
        let segment = self.top_mut()?;
        match segment.effects.get(segment.next_effect) {
            Some((after_ns, Effect::Observed(record))) if segment.began_ns + after_ns <= now_ns => {
                segment.next_effect += 1;
                Some(*record)
            }
            _ => None,
        }
    }

    /// Takes the top segment off; what it interrupted goes on.
    #[inline]
    fn finish(&mut self, now_ns: u64) {
        self.account(now_ns);
        self.depth -= 1;
        if let Some(resumed) = self.top_mut() {
            resumed.began_ns += now_ns - resumed.suspended_ns;
        }
    }

    /// Takes a process's computation, which runs, off the CPU; what is left of it, in nanoseconds.
    pub(crate) fn preempt(&mut self, now_ns: u64) -> u64 {
        let end_ns = self.top().map(|segment| segment.began_ns + segment.len_ns);
        self.finish(now_ns);
        end_ns.map_or(0, |end_ns| end_ns.saturating_sub(now_ns))
    }

    /// Charges the time since the last account to the level that ran.
    #[inline]
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

    fn begin(cpu: &mut Cpu, now_ns: u64, level: Level, effects: &[u64], len_ns: u64) {
        let list = cpu.begin(now_ns, level, Mask::None, len_ns, End::Nothing);
        list.extend(effects.iter().map(|at_ns| (*at_ns, Effect::SoftInterrupt)));
    }

    /// Runs the CPU up to `until_ns`; when each effect happened, and with a minus each end.
    fn walk(cpu: &mut Cpu, from_ns: u64, until_ns: u64) -> Vec<i64> {
        let mut happened = Vec::new();
        let mut now_ns = from_ns;
        loop {
            match cpu.turn(now_ns) {
                Some(Turn::Wait(next_ns)) if next_ns <= until_ns => now_ns = next_ns,
                Some(Turn::Effect) => {
                    assert!(cpu.take_effect().is_some());
                    happened.push(now_ns as i64);
                }
                Some(Turn::End(_)) => happened.push(-(now_ns as i64)),
                Some(Turn::Wait(_)) | None => return happened,
            }
        }
    }

    #[test]
    fn effects_happen_at_their_time_after_the_beginning() {
        let mut cpu = Cpu::default();
        begin(&mut cpu, 100, Level::Process, &[0, 10, 30], 40);
        assert_eq!(walk(&mut cpu, 100, 1000), [100, 110, 130, -140]);
        assert_eq!(cpu.used_ns, [40, 0, 0]);
    }

    #[test]
    fn an_interrupt_pushes_the_rest_back_by_exactly_its_time() {
        let mut cpu = Cpu::default();
        begin(&mut cpu, 100, Level::Process, &[10, 30], 40);
        assert_eq!(walk(&mut cpu, 100, 115), [110]);
        begin(&mut cpu, 115, Level::Hard, &[3], 7);
        assert_eq!(walk(&mut cpu, 115, 1000), [118, -122, 137, -147]);
        assert_eq!(cpu.used_ns, [40, 0, 7]);
    }

    #[test]
    fn interrupts_of_interrupts_add_up() {
        let mut cpu = Cpu::default();
        begin(&mut cpu, 0, Level::Process, &[100], 100);
        begin(&mut cpu, 10, Level::Soft, &[50], 50);
        begin(&mut cpu, 20, Level::Hard, &[], 5);
        assert_eq!(walk(&mut cpu, 20, 40), [-25]);
        begin(&mut cpu, 40, Level::Hard, &[], 5);
        assert_eq!(walk(&mut cpu, 40, 1000), [-45, 70, -70, 160, -160]);
        assert_eq!(cpu.used_ns, [100, 50, 10]);
    }

    #[test]
    fn a_kernel_whose_splnet_masks_devices_lets_none_in_while_the_protocol_runs() {
        for (masks_devices, admits) in [(false, true), (true, false)] {
            let mut cpu = Cpu::new(masks_devices);
            cpu.begin(0, Level::Soft, Mask::Soft, 10, End::Nothing);
            assert_eq!(cpu.admits(Level::Hard), admits);
            assert!(!cpu.admits(Level::Soft));
        }
    }

    #[test]
    fn a_segment_on_top_at_the_same_level_comes_first() {
        let mut cpu = Cpu::default();
        begin(&mut cpu, 0, Level::Process, &[10, 20], 30);
        assert_eq!(walk(&mut cpu, 0, 10), [10]);
        begin(&mut cpu, 10, Level::Process, &[4], 6);
        assert_eq!(walk(&mut cpu, 10, 1000), [14, -16, 26, -36]);
    }

    #[test]
    fn what_is_left_of_a_preempted_computation_is_known() {
        let mut cpu = Cpu::default();
        begin(&mut cpu, 0, Level::Process, &[], 1000);
        begin(&mut cpu, 300, Level::Hard, &[], 50);
        assert_eq!(walk(&mut cpu, 300, 360), [-350]);
        assert_eq!(cpu.preempt(360), 690);
        assert!(cpu.level().is_none());
    }
}
