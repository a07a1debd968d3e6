//! One CPU with its three levels, and the walk through the effects of its segments.
//!
//! A piece of work is a segment: the effects of one step of the stack, each with the CPU time after
//! which it happens. An interrupt pushes the rest of a segment back by exactly the time that it
//! takes. Times are nanoseconds.

use sockscope_stack::{Effect, Meter};

use crate::interrupts::Interrupts;
use crate::link::FrameId;

/// The levels of the CPU, lowest first; a higher level interrupts a lower one.
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

/// The action at the end of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Nothing,
    /// The device gets the frame.
    Transmit(u8, FrameId),
    /// A step of the running process's system call is over; the host knows its outcome.
    Step,
    /// The running process has completed its computation.
    Computed,
    /// The CPU has gone over to the running process.
    Switched,
}

/// Interrupts allowed during a segment.
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

/// The interrupts admitted by a segment of this level and mask, where `splnet` keeps device
/// interrupts out or does not.
fn admitted(level: Level, mask: Mask, masks_devices: bool) -> Interrupts {
    let device_barrier = if masks_devices { Mask::Soft } else { Mask::All };
    let mut admitted = Interrupts::default();
    if level < Level::Hard && mask < device_barrier {
        admitted.add(Interrupts::HARD);
    }
    if level < Level::Soft && mask < Mask::Soft {
        admitted.add(Interrupts::SOFT);
    }
    if mask == Mask::User {
        admitted.add(Interrupts::RESCHEDULE);
    }
    admitted
}

/// A piece of work on the CPU, and its progress.
#[derive(Debug)]
struct Segment {
    level: Level,
    mask: Mask,
    end: End,
    /// When it began, pushed back by all that ran in between.
    began_ns: u64,
    /// When something interrupted it, while that lasts.
    suspended_ns: u64,
    len_ns: u64,
    /// Its effects in order, each with the time from its beginning.
    effects: Vec<(u64, Effect)>,
    /// The first of its effects that has not happened yet.
    next_effect: usize,
}

impl Segment {
    /// The time of its next effect, or else of its end.
    fn next_ns(&self) -> u64 {
        let next = self.effects.get(self.next_effect);
        self.began_ns + next.map_or(self.len_ns, |(after_ns, _)| *after_ns)
    }
}

/// A CPU. An interrupting segment of any level lies on top of the interrupted one and ends first.
#[derive(Debug)]
pub(crate) struct Cpu {
    /// `splnet` keeps device interrupts out too.
    masks_devices: bool,
    /// The last one runs; each of the others was interrupted by the one after it.
    segments: Vec<Segment>,
    /// Lists of effects of segments that have ended, to be used again.
    spare: Vec<Vec<(u64, Effect)>>,
    /// Time of each level in segments that have ended.
    pub(crate) used_ns: [u64; LEVELS],
}

impl Cpu {
    /// An idle one; with `masks_devices`, `splnet` keeps device interrupts out too.
    pub(crate) fn new(masks_devices: bool) -> Self {
        Self { masks_devices, segments: Vec::new(), spare: Vec::new(), used_ns: [0; LEVELS] }
    }

    /// The time of its next effect or end; `u64::MAX` when it has nothing to do.
    pub(crate) fn next_ns(&self) -> u64 {
        self.segments.last().map_or(u64::MAX, Segment::next_ns)
    }

    /// Whether it has nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.segments.is_empty()
    }

    /// The level that runs; `None` when the CPU has nothing to do.
    pub(crate) fn level(&self) -> Option<Level> {
        self.segments.last().map(|running| running.level)
    }

    /// The interrupts allowed now; a CPU with nothing to do lets every interrupt in.
    pub(crate) fn lets_in(&self) -> Interrupts {
        self.segments.last().map_or(Interrupts::ALL, |running| {
            admitted(running.level, running.mask, self.masks_devices)
        })
    }

    /// Whether a process runs in user mode.
    pub(crate) fn is_in_user_mode(&self) -> bool {
        self.segments.last().is_some_and(|running| running.mask == Mask::User)
    }

    /// A segment of `len_ns` without effects begins now, on top of the running one at its level or
    /// below it.
    pub(crate) fn begin(&mut self, now_ns: u64, level: Level, mask: Mask, len_ns: u64, end: End) {
        if let Some(interrupted) = self.segments.last_mut() {
            debug_assert!(interrupted.level <= level, "a lower level waits");
            interrupted.suspended_ns = now_ns;
        }
        let effects = self.spare.pop().unwrap_or_default();
        self.segments.push(Segment {
            level,
            mask,
            end,
            began_ns: now_ns,
            suspended_ns: 0,
            len_ns,
            effects,
            next_effect: 0,
        });
    }

    /// As [`Cpu::begin`], of the step that the meter holds, with its effects.
    pub(crate) fn begin_step(
        &mut self,
        now_ns: u64,
        level: Level,
        mask: Mask,
        meter: &mut Meter,
        end: End,
    ) {
        self.begin(now_ns, level, mask, meter.elapsed_ns(), end);
        let Some(segment) = self.segments.last_mut() else { return };
        meter.take_effects(&mut segment.effects);
        debug_assert!(
            segment.effects.is_sorted_by_key(|(at_ns, _)| *at_ns),
            "effects out of order"
        );
    }

    /// The segment that has just begun has this effect at its end.
    pub(crate) fn ends_with(&mut self, effect: Effect) {
        if let Some(segment) = self.segments.last_mut() {
            segment.effects.push((segment.len_ns, effect));
        }
    }

    /// The effect of the running segment that is due now; `None` when its end is due:
    /// [`Cpu::finish`].
    pub(crate) fn next_effect(&mut self) -> Option<&mut Effect> {
        let running = self.segments.last_mut()?;
        let (_, effect) = running.effects.get_mut(running.next_effect)?;
        running.next_effect += 1;
        Some(effect)
    }

    /// Takes the running segment off the CPU, at its end; the interrupted one goes on.
    pub(crate) fn finish(&mut self, now_ns: u64) -> End {
        let Some(Segment { level, began_ns, len_ns, end, mut effects, .. }) = self.segments.pop()
        else {
            return End::Nothing;
        };
        debug_assert_eq!(now_ns, began_ns + len_ns, "a segment ends at another time");
        self.used_ns[level as usize] += len_ns;
        effects.clear();
        self.spare.push(effects);
        if let Some(interrupted) = self.segments.last_mut() {
            interrupted.began_ns += now_ns - interrupted.suspended_ns;
        }
        end
    }

    /// Takes a process's running computation off the CPU; returns its rest, in nanoseconds.
    pub(crate) fn preempt(&mut self, now_ns: u64) -> u64 {
        let Some(running) = self.segments.last_mut() else { return 0 };
        debug_assert!(running.effects.is_empty(), "a computation has effects");
        let past_ns = now_ns - running.began_ns;
        let left_ns = running.len_ns.saturating_sub(past_ns);
        running.len_ns = past_ns;
        self.finish(now_ns);
        left_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockscope_stack::{Cost, Costs, Routine};

    fn begin(cpu: &mut Cpu, now_ns: u64, level: Level, effects: &[u64], len_ns: u32) {
        let mut costs = Costs::default();
        costs.set(Routine::Ipintr, Cost { call_ns: 1, ..Cost::default() });
        let mut meter = Meter::new(costs);
        effects.iter().for_each(|at_ns| meter.effect_at(*at_ns, Effect::SoftInterrupt));
        meter.calls_of(Routine::Ipintr, len_ns);
        cpu.begin_step(now_ns, level, Mask::None, &mut meter, End::Nothing);
    }

    /// Runs the CPU up to `until_ns`; when each effect happened, and with a minus each end.
    fn walk(cpu: &mut Cpu, from_ns: u64, until_ns: u64) -> Vec<i64> {
        let mut happened = Vec::new();
        let mut now_ns = from_ns;
        while !cpu.is_idle() && now_ns.max(cpu.next_ns()) <= until_ns {
            now_ns = now_ns.max(cpu.next_ns());
            if cpu.next_effect().is_some() {
                happened.push(now_ns as i64);
            } else {
                cpu.finish(now_ns);
                happened.push(-(now_ns as i64));
            }
        }
        happened
    }

    #[test]
    fn effects_happen_at_their_time_after_the_beginning() {
        let mut cpu = Cpu::new(false);
        begin(&mut cpu, 100, Level::Process, &[0, 10, 30], 40);
        assert_eq!(walk(&mut cpu, 100, 1000), [100, 110, 130, -140]);
        assert_eq!(cpu.used_ns, [40, 0, 0]);
    }

    #[test]
    fn an_interrupt_pushes_the_rest_back_by_exactly_its_time() {
        let mut cpu = Cpu::new(false);
        begin(&mut cpu, 100, Level::Process, &[10, 30], 40);
        assert_eq!(walk(&mut cpu, 100, 115), [110]);
        begin(&mut cpu, 115, Level::Hard, &[3], 7);
        assert_eq!(walk(&mut cpu, 115, 1000), [118, -122, 137, -147]);
        assert_eq!(cpu.used_ns, [40, 0, 7]);
    }

    #[test]
    fn interrupts_of_interrupts_add_up() {
        let mut cpu = Cpu::new(false);
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
            assert_eq!(cpu.lets_in().has(Interrupts::HARD), admits);
            assert!(!cpu.lets_in().has(Interrupts::SOFT));
        }
    }

    #[test]
    fn a_segment_on_top_at_the_same_level_comes_first() {
        let mut cpu = Cpu::new(false);
        begin(&mut cpu, 0, Level::Process, &[10, 20], 30);
        assert_eq!(walk(&mut cpu, 0, 10), [10]);
        begin(&mut cpu, 10, Level::Process, &[4], 6);
        assert_eq!(walk(&mut cpu, 10, 1000), [14, -16, 26, -36]);
    }

    #[test]
    fn what_is_left_of_a_preempted_computation_is_known() {
        let mut cpu = Cpu::new(false);
        begin(&mut cpu, 0, Level::Process, &[], 1000);
        begin(&mut cpu, 300, Level::Hard, &[], 50);
        assert_eq!(walk(&mut cpu, 300, 360), [-350]);
        assert_eq!(cpu.preempt(360), 690);
        assert_eq!(cpu.used_ns, [310, 0, 50]);
        assert!(cpu.level().is_none());
    }
}
