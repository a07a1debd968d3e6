//! The look for observations that the kernel skipped, and what the recorder says of missed records.

use sockscope_record::{LossCounts, Point};

use super::decoder::Decoder;
use super::flow_state::ConnectionState;
use super::incoming::DELIVERY_NS_MAX;
use super::missed::{Watch, mark_of};
use super::unplaced::Missed;

impl ConnectionState {
    /// Whether every byte between its two sockets can be seen: both are here, from the start on.
    fn is_judged(&self, watch: &Watch) -> bool {
        let is_new = !self.info.preexisting && self.info.opened_ns >= watch.attached_ns;
        is_new && self.opened == [true; 2]
    }
}

impl Decoder {
    /// All probes are attached from `at_ns` on: connections opened before are not judged.
    pub(crate) fn attached(&mut self, at_ns: u64) {
        self.watch.attached_ns = at_ns;
    }

    /// Probes are detached from `at_ns` on, one after the other: what passes later is seen by some of them
    /// only, and is not of the recording.
    pub(crate) fn detaching(&mut self, at_ns: u64) {
        self.watch.until_ns = Some(at_ns);
    }

    /// Records were lost and counted between two times, told as of these points: gaps that may come from
    /// that are no news, and positions may not be known. Of any connection, or of those of others alone.
    pub(crate) fn lost_between(
        &mut self,
        since_ns: u64,
        until_ns: u64,
        told: &[Point],
        of_others: bool,
    ) {
        let missed = &mut self.missed[usize::from(of_others)..];
        missed.iter_mut().for_each(|missed| missed.add(since_ns, until_ns));
        self.watch.lost_at(until_ns, told, of_others);
    }

    /// The kernel ran no probe for hits told as of these points, by then. The analysis takes positions for
    /// unknown where they are so many that 2 GiB may have passed.
    pub(crate) fn interrupted(&mut self, until_ns: u64, told: &[Point]) {
        if !told.is_empty() {
            self.watch.lost_at(until_ns, told, false);
        }
    }

    /// Hits that could not be placed, since the last call.
    pub(crate) fn take_unknown_positions(&mut self) -> LossCounts {
        let [mut counts, more] = self.missed.each_mut().map(Missed::take_counts);
        counts.add_all(&more);
        counts
    }

    /// Observations that the kernel skipped, found since the last call.
    pub(crate) fn take_holes(&mut self) -> LossCounts {
        std::mem::take(&mut self.watch.found)
    }

    /// Looks for holes in what was proven by the last look. To be called when all records of all
    /// CPUs up to one time were decoded.
    pub(crate) fn judge(&mut self) {
        for (missed, of_others) in self.missed.iter_mut().zip([false, true]) {
            self.out.extend(missed.take_losses(mark_of(of_others)));
        }
        self.judge_datagrams();
        for id in std::mem::take(&mut self.watch.moved) {
            let Some(state) = self.connections.of_mut(id) else { continue };
            let is_judged = state.is_judged(&self.watch);
            for flow in &mut state.flows {
                for (point, hole, at_ns) in flow.path.passage.judge().filter(|_| is_judged) {
                    let since_ns = hole.since_ns.max(state.info.opened_ns);
                    self.out.extend(self.watch.found(
                        point,
                        hole.count,
                        (since_ns, at_ns),
                        state.of_others,
                    ));
                }
            }
            state.is_moved = !state.flows.iter().all(|flow| flow.path.passage.is_settled());
            if state.is_moved {
                self.watch.moved.push(id);
            }
        }
    }

    /// At the end: datagrams that IP took long ago have left it, so that a drop was skipped, or an
    /// arrival in a receive queue.
    fn judge_datagrams(&mut self) {
        let Some(until_ns) = self.watch.until_ns else { return };
        self.end_reads(until_ns);
        for state in self.connections.iter_mut() {
            for flow in &mut state.flows {
                let stranded =
                    flow.path.datagrams.stranded(until_ns.saturating_sub(DELIVERY_NS_MAX));
                if let Some((count, since_ns)) = stranded {
                    let times = (since_ns, until_ns);
                    self.out.extend(self.watch.found_beside(count, times, state.of_others));
                }
            }
        }
    }
}
