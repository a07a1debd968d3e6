//! The probes of a host's kernel: records with the times of its clock, and what the list loses.

use sockscope_record::{LossCounts, Record};

use super::Host;
use crate::probe_list::is_of_a_probe;
use crate::shared::Shared;

impl Host {
    /// Records of the probes that no process has read yet; 0 without a list.
    pub(super) fn probe_records(&self) -> u32 {
        self.probe_list.as_ref().map_or(0, |list| list.in_use)
    }

    /// Events that the probes lost for want of a record, by point. The call to write has none.
    pub fn probes_lost(&self) -> LossCounts {
        self.probe_list.as_ref().map_or_else(LossCounts::default, |list| list.all_lost)
    }

    /// Hands a record of the laboratory's own over, with its time and CPU.
    pub(super) fn record(&self, now_ns: u64, record: Record, shared: &mut Shared) {
        let record = Record { at_ns: now_ns, cpu: self.number, ..record };
        match &self.probe_list {
            None => shared.observed.add(record),
            Some(list) => {
                let at_ns = list.reading_ns(now_ns);
                shared.observed.add_stamped(Record { at_ns, ..record }, now_ns);
            }
        }
    }

    /// The same of a record that a probe makes, unless no record of its list is free.
    pub(super) fn hand_over(&mut self, now_ns: u64, record: Record, shared: &mut Shared) {
        match &mut self.probe_list {
            Some(list) if is_of_a_probe(record.kind) => {
                let record = Record { cpu: self.number, ..record };
                if let Some(stored) = list.store(now_ns, &record) {
                    shared.observed.add_stamped(stored, now_ns);
                }
            }
            _ => self.record(now_ns, record, shared),
        }
    }

    /// A process has read so many records of the list.
    pub(super) fn free_probe_records(&mut self, records: u32, now_ns: u64, shared: &mut Shared) {
        if let Some(list) = &mut self.probe_list {
            let losses = list.free(records, now_ns);
            self.meter.free_probe_records(records);
            self.hand_over_losses(losses, now_ns, shared);
        }
    }

    /// The run is over: what the probes lost since the last reading is recorded.
    pub(crate) fn end_probes(&mut self, now_ns: u64, shared: &mut Shared) {
        let losses = self.probe_list.as_mut().map(|list| list.losses(now_ns));
        self.hand_over_losses(losses.unwrap_or_default(), now_ns, shared);
    }

    fn hand_over_losses(&self, losses: Vec<Record>, now_ns: u64, shared: &mut Shared) {
        for loss in losses {
            shared.observed.add_stamped(Record { cpu: self.number, ..loss }, now_ns);
        }
    }
}
