//! Round-trip time, retransmission timeout, back-off: one estimator for each generation.
//!
//! Everything counts ticks of the slow timer, half a second each; a segment that is acknowledged
//! before the next tick has a round-trip time of 1. No floating point: means are kept in
//! thousandths of a tick or scaled by powers of two, as the sources have them.

use super::rules::{Estimator, RttRules, TICKS_PER_SECOND, Timing};
use super::seq::Seq;

const MICROSECONDS_PER_TICK: u64 = 1_000_000 / TICKS_PER_SECOND as u64;

/// Scale of Jacobson's mean, as a power of two (`TCP_RTT_SHIFT`).
const MEAN_SHIFT: u32 = 3;

/// Scale of his mean deviation, as a power of two (`TCP_RTTVAR_SHIFT`).
const DEVIATION_SHIFT: u32 = 2;

/// Mean deviation before the first sample, 6 ticks, scaled: with no mean yet it gives 6 seconds.
const DEVIATION_INITIAL: i32 = 6 << DEVIATION_SHIFT;

/// The round-trip time of one connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rtt {
    rules: RttRules,
    /// Ticks since the timed segment left, plus 1; 0 while none is timed (`t_rtt`).
    ticks: u32,
    /// First sequence number of the timed segment (`t_rtseq`).
    timed: Seq,
    mean: Mean,
    /// Timeouts in a row (`t_rxtshift`).
    shift: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mean {
    /// Thousandths of a tick; `None` before the first sample.
    Plain(Option<u32>),
    /// Mean times 8, 0 before the first sample, and mean deviation times 4.
    Scaled(i32, i32),
}

impl Rtt {
    /// Nothing known yet.
    pub fn new(rules: &RttRules) -> Self {
        let mean = match rules.estimator {
            Estimator::Mean { .. } => Mean::Plain(None),
            Estimator::Deviation { .. } => Mean::Scaled(0, DEVIATION_INITIAL),
        };
        Self { rules: *rules, ticks: 0, timed: Seq(0), mean, shift: 0 }
    }

    /// One tick of the slow timer.
    pub fn tick(&mut self) {
        if self.ticks > 0 {
            self.ticks += 1;
        }
    }

    /// A segment with new data leaves; it is timed unless another is.
    pub fn sent(&mut self, first: Seq) {
        if self.ticks == 0 && self.rules.timing != Timing::FromRestart {
            self.ticks = 1;
            self.timed = first;
        }
    }

    /// The retransmission timer was started for segments just sent.
    pub fn timer_started(&mut self) {
        if self.follows_timer() {
            self.ticks = 0;
        }
        self.timer_set();
    }

    /// The retransmission timer was started anew because an acknowledgment left segments out.
    pub fn timer_restarted(&mut self) {
        if self.follows_timer() {
            self.ticks = 1;
        }
        self.timer_set();
    }

    fn timer_set(&mut self) {
        if self.rules.timing != Timing::Karn {
            self.shift = 0;
        }
    }

    /// 4.2BSD bound timing to the timer.
    fn follows_timer(&self) -> bool {
        matches!(self.rules.timing, Timing::FromRestart | Timing::Cancelled)
    }

    /// Stops timing: the segment is sent again, so that its acknowledgment is no sample.
    pub fn stop(&mut self) {
        self.ticks = 0;
    }

    /// An acknowledgment up to `ack` arrived; whether it gave a sample. The echo of a timestamp, `echoed` ticks old, is
    /// always one: it shows which of several copies is acknowledged, so that Karn's rule has nothing to exclude.
    pub fn acknowledged(&mut self, ack: Seq, echoed: Option<u32>) -> bool {
        let timed = (self.ticks > 0 && ack.is_after(self.timed)).then_some(self.ticks);
        let Some(ticks) = echoed.or(timed) else { return false };
        self.sample(ticks);
        self.ticks = 0;
        true
    }

    /// Takes in one measured time, in ticks from 1 on.
    pub fn sample(&mut self, ticks: u32) {
        match &mut self.mean {
            Mean::Plain(mean) => {
                let sample = ticks * 1000;
                *mean = Some(mean.map_or(sample, |mean| (9 * mean + sample) / 10));
            }
            Mean::Scaled(mean, deviation) if *mean == 0 => {
                // Half the first sample is taken for the deviation.
                *mean = (ticks as i32) << MEAN_SHIFT;
                *deviation = (ticks as i32) << (DEVIATION_SHIFT - 1);
            }
            Mean::Scaled(mean, deviation) => {
                let delta = ticks as i32 - 1 - (*mean >> MEAN_SHIFT);
                *mean = (*mean + delta).max(1);
                *deviation = (*deviation + delta.abs() - (*deviation >> DEVIATION_SHIFT)).max(1);
            }
        }
        self.shift = 0;
    }

    /// The timer ran out once more; `false` when that was once too often.
    pub fn timed_out(&mut self) -> bool {
        self.shift += 1;
        if self.shift > self.rules.timeouts_max {
            self.shift = self.rules.timeouts_max;
            return false;
        }
        match self.rules.timing {
            Timing::Karn => {
                self.stop();
                self.forget_if_losing();
            }
            Timing::FirstKept if self.mean != Mean::Plain(None) => self.stop(),
            _ => {}
        }
        true
    }

    /// After many timeouts the mean is probably wrong: it becomes part of the deviation, which
    /// keeps the timeout, and the next sample counts as the first.
    fn forget_if_losing(&mut self) {
        if self.shift <= self.rules.timeouts_max / 4 {
            return;
        }
        let deviations = self.deviations();
        if let Mean::Scaled(mean, deviation) = &mut self.mean {
            *deviation += if deviations == 2 { *mean >> 2 } else { *mean >> 3 };
            *mean = 0;
        }
    }

    fn deviations(&self) -> u32 {
        match self.rules.estimator {
            Estimator::Mean { .. } => 0,
            Estimator::Deviation { deviations } => deviations,
        }
    }

    /// Timeouts in a row.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// No timeouts in a row any more.
    pub fn reset_shift(&mut self) {
        self.shift = 0;
    }

    /// Ticks until the retransmission timer runs out, backed off as the timeouts in a row demand.
    pub fn timeout_ticks(&self) -> u32 {
        let bounds = self.rules.timeout_ticks;
        if self.mean == Mean::Scaled(0, DEVIATION_INITIAL) && self.shift == 0 {
            return clamp(DEVIATION_INITIAL as u32 / 2, bounds);
        }
        let plain = self.plain_ticks(self.deviations());
        let Some(step) = self.backoff_step() else { return clamp(plain, bounds) };
        let base = match (self.rules.estimator, self.mean_ticks()) {
            (Estimator::Mean { backs_off_mean: true, .. }, mean) => clamp(mean, bounds),
            _ => plain,
        };
        clamp(base * self.tenths(step) / 10, bounds)
    }

    /// Ticks until the persist timer runs out; each call backs the next off further.
    pub fn persist_ticks(&mut self) -> u32 {
        let (last, next) = (self.rules.timeouts_max, self.shift + 1);
        let (ticks, factor, next) = match self.mean {
            // The default of an unknown mean does not apply here, and the doubling begins anew.
            Mean::Plain(mean) => {
                let next = if next < last { next } else { 0 };
                (2 * mean.unwrap_or(0) / 1000, 1 << self.shift.min(16), next)
            }
            // Both newer versions take two deviations here.
            Mean::Scaled(..) => (self.plain_ticks(2), self.tenths(self.shift) / 10, next.min(last)),
        };
        self.shift = next;
        clamp(ticks.saturating_mul(factor), self.rules.persist_ticks)
    }

    /// Place in the back-off table; the older systems begin at its first entry with the first
    /// timeout, the newer ones with none.
    fn backoff_step(&self) -> Option<u32> {
        match self.rules.estimator {
            Estimator::Mean { .. } => self.shift.checked_sub(1),
            Estimator::Deviation { .. } => Some(self.shift),
        }
    }

    fn tenths(&self, step: u32) -> u32 {
        let table = self.rules.backoff_tenths;
        table.get(step as usize).or(table.last()).copied().unwrap_or(10)
    }

    /// The timeout before bounds and back-off.
    fn plain_ticks(&self, deviations: u32) -> u32 {
        match self.mean {
            Mean::Plain(Some(mean)) => 2 * mean / 1000,
            Mean::Plain(None) => 2 * self.mean_ticks(),
            Mean::Scaled(mean, deviation) if deviations == 2 => {
                (((mean >> DEVIATION_SHIFT) + deviation) >> 1) as u32
            }
            Mean::Scaled(mean, deviation) => ((mean >> MEAN_SHIFT) + deviation) as u32,
        }
    }

    fn mean_ticks(&self) -> u32 {
        match (self.mean, self.rules.estimator) {
            (Mean::Plain(Some(mean)), _) => mean / 1000,
            (Mean::Plain(None), Estimator::Mean { unmeasured_ticks, .. }) => unmeasured_ticks,
            (Mean::Scaled(mean, _), _) => (mean >> MEAN_SHIFT) as u32,
            (Mean::Plain(None), Estimator::Deviation { .. }) => 0,
        }
    }

    /// The smoothed time in microseconds; 0 before the first sample. A clock of half a second
    /// cannot measure less than that: a faster network has up to 500,000.
    pub fn smoothed_us(&self) -> u32 {
        let us = match self.mean {
            Mean::Plain(mean) => u64::from(mean.unwrap_or(0)) * MICROSECONDS_PER_TICK / 1000,
            Mean::Scaled(mean, _) => (mean as u64 * MICROSECONDS_PER_TICK) >> MEAN_SHIFT,
        };
        us.min(u64::from(u32::MAX)) as u32
    }
}

fn clamp(ticks: u32, bounds: (u32, u32)) -> u32 {
    ticks.clamp(bounds.0, bounds.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::personality::Personality;
    use crate::tcp::rules::TcpRules;

    fn of(rules: &TcpRules) -> Rtt {
        Rtt::new(&rules.rtt)
    }

    /// The timer as it is first set and after each timeout in a row, until the connection ends.
    fn timeouts(rules: &TcpRules, samples: &[u32]) -> Vec<u32> {
        let mut rtt = of(rules);
        samples.iter().for_each(|ticks| rtt.sample(*ticks));
        let mut ticks = vec![rtt.timeout_ticks()];
        while rtt.timed_out() {
            ticks.push(rtt.timeout_ticks());
        }
        ticks
    }

    #[test]
    fn timeouts_before_any_sample() {
        let old = [2, 2, 2, 2, 3, 4, 6, 10, 16, 32, 60];
        assert_eq!(timeouts(&TcpRules::RELEASED_42, &[]), old);
        assert_eq!(timeouts(&TcpRules::MEASURED_42, &[]), old);
        let of_43 = [12, 12, 24, 48, 60, 60, 60, 60, 60, 60, 60, 60, 60];
        assert_eq!(timeouts(&TcpRules::BSD_43, &[]), of_43);
        let doubling = [12, 24, 48, 96, 128, 128, 128, 128, 128, 128, 128, 128, 128];
        for rules in [TcpRules::TAHOE, TcpRules::SUNOS_403, TcpRules::SUNOS_41] {
            assert_eq!(timeouts(&rules, &[]), doubling);
        }
        // As the book shows it for a SYN: after 6 seconds, then after 24.
        assert_eq!(timeouts(&TcpRules::RENO, &[])[..4], [12, 48, 96, 128]);
    }

    #[test]
    fn timeouts_on_a_fast_network_start_low() {
        assert_eq!(timeouts(&TcpRules::RELEASED_42, &[1, 1])[..4], [2, 2, 2, 2]);
        assert_eq!(timeouts(&TcpRules::BSD_43, &[1; 9])[..6], [2, 2, 4, 8, 12, 16]);
        assert_eq!(timeouts(&TcpRules::TAHOE, &[1; 20])[..5], [2, 4, 8, 16, 32]);
        // The scaled deviation cannot sink below 3, so that Reno starts at a second and a half.
        assert_eq!(timeouts(&TcpRules::RENO, &[1; 20])[..5], [3, 6, 12, 24, 48]);
    }

    #[test]
    fn a_first_sample_counts_whole_and_later_ones_are_smoothed() {
        let smoothed = |rules: &TcpRules, samples: &[u32]| {
            let mut rtt = of(rules);
            samples.iter().for_each(|ticks| rtt.sample(*ticks));
            (rtt.smoothed_us(), rtt.timeout_ticks())
        };
        assert_eq!(smoothed(&TcpRules::BSD_43, &[8]), (4_000_000, 16));
        // 0.9 * 8 + 0.1 * 18 = 9.
        assert_eq!(smoothed(&TcpRules::BSD_43, &[8, 18]), (4_500_000, 18));
        // 8 * 8 = 64, deviation 16: (16 + 16) / 2 and 8 + 16.
        assert_eq!(smoothed(&TcpRules::TAHOE, &[8]), (4_000_000, 16));
        assert_eq!(smoothed(&TcpRules::RENO, &[8]), (4_000_000, 24));
        // Then delta is 18 - 1 - 8 = 9: mean 73 / 8, deviation 16 + 9 - 4 = 21.
        assert_eq!(smoothed(&TcpRules::TAHOE, &[8, 18]), (4_562_500, (18 + 21) / 2));
        assert_eq!(smoothed(&TcpRules::RENO, &[8, 18]), (4_562_500, 9 + 21));
    }

    #[test]
    fn timing_follows_each_version() {
        let (first, second) = (Seq(100), Seq(200));
        let sampled = |rules: &TcpRules, act: &dyn Fn(&mut Rtt)| {
            let mut rtt = of(rules);
            rtt.sent(first);
            rtt.tick();
            act(&mut rtt);
            rtt.acknowledged(second, None)
        };
        let nothing = |_: &mut Rtt| {};
        let timeout = |rtt: &mut Rtt| assert!(rtt.timed_out());
        let all = Personality::ALL.map(|version| sampled(&version.tcp, &nothing));
        assert_eq!(all, [false, true, true, true, true, true, true]);
        let all = Personality::ALL.map(|version| sampled(&version.tcp, &Rtt::timer_started));
        assert_eq!(all, [false, false, true, true, true, true, true]);
        let all = Personality::ALL.map(|version| sampled(&version.tcp, &Rtt::timer_restarted));
        assert_eq!(all, [true; 7]);
        let all = Personality::ALL.map(|version| sampled(&version.tcp, &timeout));
        assert_eq!(all, [false, true, true, false, false, false, false], "Karn's rule");
        let known = |rtt: &mut Rtt| {
            rtt.sample(1);
            assert!(rtt.timed_out());
        };
        let of_43 = sampled(&TcpRules::BSD_43, &known);
        assert!(!of_43, "4.3BSD goes on timing only while it knows nothing");
        assert!(sampled(&TcpRules::MEASURED_42, &known));
    }

    #[test]
    fn karn_keeps_the_timeout_backed_off_until_a_sample() {
        let mut rtt = of(&TcpRules::TAHOE);
        rtt.sample(2);
        assert!(rtt.timed_out() && rtt.timed_out());
        let backed_off = rtt.timeout_ticks();
        rtt.timer_restarted();
        rtt.timer_started();
        assert_eq!(rtt.timeout_ticks(), backed_off);
        rtt.sample(2);
        assert!(rtt.timeout_ticks() < backed_off);
        let mut old = of(&TcpRules::BSD_43);
        assert!(old.timed_out() && old.timed_out() && old.timeout_ticks() == 24);
        old.timer_restarted();
        assert_eq!(old.timeout_ticks(), 12);
    }

    #[test]
    fn persist_timers_stay_within_their_bounds() {
        let persist = |rules: &TcpRules| {
            let mut rtt = of(rules);
            rtt.sample(1);
            (0..14).map(|_| rtt.persist_ticks()).collect::<Vec<_>>()
        };
        // The older systems begin anew after as many steps as they allow timeouts in a row.
        let anew = |steps| {
            let once = [10, 10, 10, 16, 32].into_iter().chain(std::iter::repeat(60)).take(steps);
            once.cycle().take(14).collect::<Vec<_>>()
        };
        assert_eq!(persist(&TcpRules::RELEASED_42), anew(10));
        assert_eq!(persist(&TcpRules::BSD_43), anew(12));
        let doubling: Vec<u32> = [10, 10, 10, 16, 32, 64].into_iter().chain([120; 8]).collect();
        assert_eq!(persist(&TcpRules::TAHOE), doubling);
        assert_eq!(persist(&TcpRules::RENO), doubling);
    }

    #[test]
    fn before_a_first_sample_the_older_systems_probe_every_five_seconds() {
        let persist = |rules: &TcpRules| {
            let mut rtt = of(rules);
            (0..6).map(|_| rtt.persist_ticks()).collect::<Vec<_>>()
        };
        assert_eq!(persist(&TcpRules::RELEASED_42), [10; 6]);
        assert_eq!(persist(&TcpRules::BSD_43), [10; 6]);
        assert_eq!(persist(&TcpRules::TAHOE), [12, 24, 48, 96, 120, 120]);
    }
}
