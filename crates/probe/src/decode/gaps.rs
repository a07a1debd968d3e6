//! The look for observations that the kernel skipped, and the recorder's notes of missed records.

use sockscope_record::{LossCounts, Point};

use super::decoder::Decoder;
use super::flow_state::ConnectionState;
use super::incoming::DELIVERY_NS_MAX;
use super::missed::{MissedTracker, mark_of};
use super::unknown_positions::UnknownPositions;

impl ConnectionState {
    /// Whether every byte between its two sockets can be seen: both are here, from the start on.
    fn is_checked(&self, missed: &MissedTracker) -> bool {
        let is_new = !self.info.preexisting && self.info.opened_ns >= missed.attached_ns;
        is_new && self.opened == [true; 2]
    }
}

impl Decoder {
    /// All probes are attached from `at_ns` on: connections opened before are not checked.
    pub(crate) fn attached(&mut self, at_ns: u64) {
        self.missed.attached_ns = at_ns;
    }

    /// Probes are detached from `at_ns` on, one after the other: only some of them record later packets,
    /// which are not of the recording.
    pub(crate) fn detaching(&mut self, at_ns: u64) {
        self.missed.until_ns = Some(at_ns);
    }

    /// Packets that enter the input queue are observed by a hook of their own from `at_ns` on: of those
    /// before, none was skipped. All other points were observed, so that no hit of them was missed for that.
    pub(crate) fn see_input_from(&mut self, at_ns: u64) {
        self.see_input(true);
        self.missed.unobserved_until(at_ns, Point::InputEnqueue);
    }

    /// Records were lost and counted between two times, counted at these points: gaps that may be due to
    /// that are no news, and positions may not be known. Of any connection, or of those of others alone.
    pub(crate) fn lost_between(
        &mut self,
        since_ns: u64,
        until_ns: u64,
        points: &[Point],
        of_others: bool,
    ) {
        let unknown = &mut self.unknown_positions[usize::from(of_others)..];
        unknown.iter_mut().for_each(|positions| positions.add(since_ns, until_ns));
        self.missed.lost_between((since_ns, until_ns), points, of_others);
    }

    /// The kernel ran no probe for hits of these points between two times. The analysis takes positions for
    /// unknown where they are so many that 2 GiB may have passed.
    pub(crate) fn interrupted(&mut self, since_ns: u64, until_ns: u64, points: &[Point]) {
        self.missed.lost_between((since_ns, until_ns), points, false);
    }

    /// Hits that could not be placed, since the last call.
    pub(crate) fn take_unknown_positions(&mut self) -> LossCounts {
        let [mut counts, more] =
            self.unknown_positions.each_mut().map(UnknownPositions::take_counts);
        counts.add_all(&more);
        counts
    }

    /// Observations that the kernel skipped, found since the last call.
    pub(crate) fn take_gaps(&mut self) -> LossCounts {
        std::mem::take(&mut self.missed.found)
    }

    /// Looks for gaps in the bytes that were proven by the last check. To be called when all records of all
    /// CPUs up to one time were decoded.
    pub(crate) fn check_gaps(&mut self) {
        for (positions, of_others) in self.unknown_positions.iter_mut().zip([false, true]) {
            self.out.extend(positions.take_losses(mark_of(of_others)));
        }
        self.check_datagrams();
        for id in std::mem::take(&mut self.missed.moved) {
            let Some(state) = self.connections.of_mut(id) else { continue };
            let is_checked = state.is_checked(&self.missed);
            let (opened_ns, of_others) = (state.info.opened_ns, state.of_others);
            let missed_until = *self.missed.missed_until(of_others);
            for flow in &mut state.flows {
                let gaps = flow.path.recorded_ranges.check(opened_ns, &missed_until);
                for (point, gap, at_ns) in gaps.filter(|_| is_checked) {
                    let times = (gap.since_ns, at_ns);
                    self.out.push(self.missed.count(Some(point), gap.count, times, of_others));
                }
            }
            state.is_moved = !state.flows.iter().all(|flow| flow.path.recorded_ranges.is_settled());
            if state.is_moved {
                self.missed.moved.push(id);
            }
        }
    }

    /// At the end: datagrams that IP took long ago have left it, so that a drop was skipped, or an
    /// arrival in a receive queue; and those that later ones overtook have passed unseen.
    fn check_datagrams(&mut self) {
        let Some(until_ns) = self.missed.until_ns else { return };
        self.end_reads(until_ns);
        for state in self.connections.iter_mut() {
            for flow in &mut state.flows {
                let undelivered =
                    flow.path.datagrams.undelivered(until_ns.saturating_sub(DELIVERY_NS_MAX));
                if let Some((count, since_ns)) = undelivered {
                    let times = (since_ns, until_ns);
                    self.out.extend(self.missed.found(None, count, times, state.of_others));
                }
                let datagrams = &mut flow.path.datagrams;
                datagrams.give_up_overtaken(until_ns);
                self.missed.vanished(&mut datagrams.unseen, state.of_others, &mut self.out);
            }
        }
    }
}
