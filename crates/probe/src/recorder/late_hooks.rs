//! Hooks that are attached only while something needs them, as they cost a hit each.
//!
//! The hook of point 5 waits for a device that is not loopback. That of datagrams' reads is detached where
//! no datagram is recorded for some time, and attached again when one is.

use std::time::Duration;

use super::source::RawSource;
use crate::decode::Decoder;
use crate::hooks::When;
use crate::programs::Counters;

/// Without a datagram for this long after the start, their hook is detached.
const WAIT: Duration = Duration::from_millis(400);
/// The same where a command is started, which loads itself first.
const WAIT_FOR_COMMAND: Duration = Duration::from_secs(3);

/// The attached hooks, and the reasons for them.
pub(super) struct LateHooks {
    started_ns: u64,
    wait_ns: u64,
    datagrams: Datagrams,
}

/// The hook of datagrams' reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Datagrams {
    /// Attached; detached if no datagram is recorded.
    Waiting,
    /// Detached until a datagram is recorded.
    Absent,
    /// Attached until the end.
    Recorded,
}

/// A change of an attachment.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Attach,
    Detach,
}

impl LateHooks {
    /// From the start of a recording on, with the datagrams' hook attached.
    pub(super) fn new(started_ns: u64, starts_command: bool) -> Self {
        let wait = if starts_command { WAIT_FOR_COMMAND } else { WAIT };
        Self { started_ns, wait_ns: wait.as_nanos() as u64, datagrams: Datagrams::Waiting }
    }

    /// Attaches and detaches them by the counts of the probes. Returns a sentence if earlier hits were not
    /// recorded.
    pub(super) fn follow(
        &mut self,
        source: &mut impl RawSource,
        counters: &Counters,
        decoder: &mut Decoder,
    ) -> Option<String> {
        follow_devices(source, counters, decoder);
        let now_ns = source.now_ns();
        if self.follow_datagrams(counters.udp_seen > 0, now_ns)? == Change::Detach {
            source.detach(When::Datagrams);
            return None;
        }
        source.attach(When::Datagrams);
        let attached_ns = source.now_ns();
        decoder.mark_reads_uncertain(attached_ns);
        let after = Duration::from_nanos(attached_ns - self.started_ns).as_secs_f64();
        Some(format!("reads of datagrams are recorded from {after:.3} s after the start on"))
    }

    fn follow_datagrams(&mut self, is_recorded: bool, now_ns: u64) -> Option<Change> {
        let is_late = now_ns.saturating_sub(self.started_ns) > self.wait_ns;
        let (next, change) = match self.datagrams {
            Datagrams::Absent if is_recorded => (Datagrams::Recorded, Some(Change::Attach)),
            Datagrams::Waiting if is_recorded => (Datagrams::Recorded, None),
            Datagrams::Waiting if is_late => (Datagrams::Absent, Some(Change::Detach)),
            same => (same, None),
        };
        self.datagrams = next;
        change
    }
}

/// Attaches the hook of point 5 before, or at the latest when, packets need it.
fn follow_devices(source: &mut impl RawSource, counters: &Counters, decoder: &mut Decoder) {
    let is_attached = source.is_attached(When::Devices);
    if !is_attached && (counters.devices_seen > 0 || source.has_new_input_devices()) {
        source.attach(When::Devices);
        if source.is_attached(When::Devices) {
            decoder.see_input_from(source.now_ns());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The changes of a recording that began at 0; each look is a time and whether datagrams are recorded.
    fn changes(starts_command: bool, looks: &[(u64, bool)]) -> Vec<Option<Change>> {
        let mut hooks = LateHooks::new(0, starts_command);
        looks.iter().map(|(at_ns, seen)| hooks.follow_datagrams(*seen, *at_ns)).collect()
    }

    #[test]
    fn the_hook_of_datagrams_goes_where_there_is_none_and_is_back_with_the_first() {
        let looks = [(400 * MS, false), (401 * MS, false), (500 * MS, false), (600 * MS, true)];
        let expected = [None, Some(Change::Detach), None, Some(Change::Attach)];
        assert_eq!(changes(false, &looks), expected);
    }

    #[test]
    fn the_hook_of_datagrams_stays_where_there_is_one() {
        assert_eq!(changes(false, &[(100 * MS, true), (900 * MS, false)]), [None, None]);
    }

    #[test]
    fn a_command_has_longer_until_its_first_datagram() {
        let looks = [(2_999 * MS, false), (3_001 * MS, false)];
        assert_eq!(changes(true, &looks), [None, Some(Change::Detach)]);
    }
}
