//! The source of raw records: everything that the recorder's loop needs from outside.
//!
//! The loop is generic over this trait, so that each source has a loop of its own without calls through
//! pointers. The kernel is one source ([`super::kernel`]); tests have another one.

use std::time::Duration;

use sockscope_record::{LossCounts, PointCost};

use crate::decode::{Decoder, Groups};
use crate::error::Error;
use crate::hooks::When;
use crate::layout::{RawEvent, RawOption, RawRecord};
use crate::lists::{KINDS, Shape};
use crate::programs::{Counters, HookReport};
use crate::sample::Share;

/// Probes, their lists of records, their rings of events, their counters, and the clock of the records.
///
/// Times are nanoseconds of that clock. Counters only grow. The probes may run during every call, on
/// other CPUs than the caller's.
pub(super) trait RawSource {
    /// The clock of the records.
    fn now_ns(&mut self) -> u64;

    /// Waits at least this long.
    fn pause(&mut self, pause: Duration);

    /// Number and size of the lists.
    fn shape(&self) -> &Shape;

    /// Numbers of the first record of a list that was not released and of the first one not yet begun. Lists
    /// are in the order of [`Shape::cpus`].
    fn span(&mut self, list: usize) -> (u64, u64);

    /// The record of a list with this number; `None` until its probe has finished it.
    fn read(&mut self, list: usize, number: u64) -> Option<RawRecord>;

    /// Gives the places before `number` of a list back to the probes.
    fn release(&mut self, list: usize, number: u64);

    /// Events and options since the last call, in the order in which they happened.
    fn events(&mut self) -> Result<Events, Error>;

    /// Hits that found a list full so far, by kind, but those of [`RawSource::missed_of_others`].
    fn missed(&mut self, list: usize) -> [u64; KINDS];

    /// Hits of connections that other users asked for, beyond their half of a list, by kind.
    fn missed_of_others(&mut self, list: usize) -> [u64; KINDS];

    /// Hits for which no program ran so far, by the last point of the program.
    fn interrupted(&mut self) -> Result<LossCounts, Error>;

    /// The other counters of the probes.
    fn counters(&mut self) -> Result<Counters, Error>;

    /// The number to add to the scheduler's clock to get the clock of the records, by one reading. It is too
    /// large by the time since this thread got its CPU. `None` where it cannot be read.
    fn scheduler_offset_ns(&mut self) -> Option<i64>;

    /// Ends connections without a socket on this host that had no packet for `idle_ns`, in `slots` slots
    /// from `from` on, and leaves out those that the share has no more.
    fn expire(&mut self, from: u32, slots: u32, idle_ns: u64);

    /// Records this part of the connections that open from now on; see [`RawSource::expire`] for those that are open.
    fn set_share(&mut self, share: Share) -> Result<(), Error>;

    /// Attaches the programs of a class.
    fn attach(&mut self, when: When);

    /// Detaches the programs of a class.
    fn detach(&mut self, when: When);

    /// Whether a program of this class is attached.
    fn is_attached(&self, when: When) -> bool;

    /// Whether a network namespace or a device appeared since the last call.
    fn has_new_input_devices(&mut self) -> bool;

    /// Sends an event for each socket that is recorded and open now.
    fn announce_open(&mut self) -> Result<(), Error>;

    /// The table of hooks as used now.
    fn hooks(&self) -> Vec<HookReport>;

    /// Run time of the probes of each point since the start.
    fn costs(&self) -> [PointCost; 8];

    /// Run time of all programs since the start; `None` where the kernel does not measure it.
    fn run_ns(&self) -> Option<u64>;
}

/// Events and options that the rings held, each in order of time.
#[derive(Default)]
pub(super) struct Events {
    pub(super) events: Vec<RawEvent>,
    pub(super) options: Vec<RawOption>,
    /// Of the processes that the events show.
    pub(super) groups: Groups,
}

impl Events {
    /// Each option is handed over before the event that follows it. An event that describes a socket repeats
    /// its options, and the decoder makes no second record of an option that it knows.
    pub(super) fn hand_to(self, decoder: &mut Decoder) {
        decoder.set_groups(self.groups);
        let mut options = self.options.into_iter().peekable();
        for event in self.events {
            while let Some(option) = options.next_if(|option| option.at_ns <= event.at_ns) {
                decoder.option(&option);
            }
            decoder.event(&event);
        }
        options.for_each(|option| decoder.option(&option));
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::Kind;

    use super::*;
    use crate::layout::constants as raw;

    #[test]
    fn options_go_after_the_event_that_opens_their_connection_and_before_the_next() {
        let event = |at_ns, kind, flow| RawEvent {
            at_ns,
            kind: u32::from(kind),
            connection: flow / 2,
            flow,
            family: 2,
            protocol: 6,
            nonagle: 2,
            new_state: 1,
            ..RawEvent::default()
        };
        let cork =
            RawOption { at_ns: 5, flow: 2, level: 6, option: 3, value: 1, ..RawOption::default() };
        let late = RawOption { at_ns: 9, value: 0, ..cork };
        let mut incoming = Events {
            events: vec![event(4, raw::EVENT_OPEN, 0), event(5, raw::EVENT_STATE, 2)],
            options: vec![cork, late],
            ..Events::default()
        };
        incoming.events[0].connection = 1;
        let mut decoder = Decoder::default();
        incoming.hand_to(&mut decoder);
        decoder.report_events(u64::MAX);
        let options = decoder.records().drain(..).filter(|one| one.kind == Kind::SocketOption);
        let values: Vec<u64> = options.map(|one| one.detail & 1).collect();
        // The state has a cork, which the decoder knows already.
        assert_eq!(values, [1, 0]);
    }
}
