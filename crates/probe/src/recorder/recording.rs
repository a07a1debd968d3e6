//! The recorder's loop: looks at the lists again and again, decodes their records, hands them over.

use std::time::Duration;

use sockscope_record::{ConnectionId, LossCounts, PointCost, Record};

use super::clock::Calibration;
use super::kernel::Options;
use super::late_hooks::LateHooks;
use super::loss_meter::LossMeter;
use super::merge::{self, Merge, Unfinished};
use super::sink::Sink;
use super::slot_expiry::{self, SlotExpiry};
use super::source::RawSource;
use super::summary::{Missed, Summary};
use crate::backlog::Ring;
use crate::decode::Decoder;
use crate::error::Error;
use crate::hooks::When;
use crate::layout::RawRecord;
use crate::programs::HookReport;
use crate::sample::{Openings, Share};

/// Between two looks at the lists, at most without [`Options::pause_max`], and at least.
const PAUSE_MAX: Duration = Duration::from_millis(10);
const PAUSE_MIN: Duration = Duration::from_micros(500);
/// A list or a ring that fills by this part between two looks is looked at twice as often, or half so.
const FILL_HIGH: f64 = 1.0 / 16.0;
const FILL_LOW: f64 = 1.0 / 64.0;
/// Decoded records handed to the sink at once.
const BATCH: usize = 16_384;

/// A recording from one source.
pub(super) struct Recording<S> {
    source: S,
    decoder: Decoder,
    meter: LossMeter,
    calibration: Calibration,
    hooks: LateHooks,
    expiry: SlotExpiry,
    pause: Duration,
    pause_max: Duration,
    /// Records at which lists stop, so that later ones may be missing.
    unfinished: Unfinished,
    /// The probes are being detached: later misses are not of the recording.
    is_over: bool,
    records: u64,
    raw_records: u64,
    notes: Vec<String>,
}

impl<S: RawSource> Recording<S> {
    /// Of a source whose probes are all attached.
    pub(super) fn start(mut source: S, options: &Options) -> Result<Self, Error> {
        let attached_ns = source.now_ns();
        let meter = LossMeter::start(&mut source, attached_ns)?;
        let mut decoder = Decoder::default();
        decoder.see_input(source.is_attached(When::Devices));
        decoder.expire_after(slot_expiry::IDLE_MAX.as_nanos() as u64);
        let started_ns = source.now_ns();
        // From here on all that is missed is counted.
        decoder.attached(started_ns);
        let mut recording = Self {
            source,
            decoder,
            meter,
            calibration: Calibration::default(),
            hooks: LateHooks::new(started_ns, options.starts_command),
            expiry: SlotExpiry::new(started_ns),
            pause: PAUSE_MIN,
            pause_max: options.pause_max.unwrap_or(PAUSE_MAX),
            unfinished: Unfinished::default(),
            is_over: false,
            records: 0,
            raw_records: 0,
            notes: Vec::new(),
        };
        recording.calibrate();
        Ok(recording)
    }

    pub(super) fn source(&self) -> &S {
        &self.source
    }

    /// Connections that the decoder remembers.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.decoder.remembered()
    }

    pub(super) fn hooks(&self) -> Vec<HookReport> {
        self.source.hooks()
    }

    pub(super) fn records(&self) -> u64 {
        self.records
    }

    pub(super) fn missed(&self) -> LossCounts {
        self.meter.totals().missed
    }

    pub(super) fn costs(&self) -> [PointCost; 8] {
        self.source.costs()
    }

    pub(super) fn run_ns(&self) -> Option<u64> {
        self.source.run_ns()
    }

    /// Records this part of the connections from now on. Those that are recorded, and that the share has no more, are
    /// left out from now on.
    pub(super) fn set_share(&mut self, share: Share) -> Result<(), Error> {
        self.source.set_share(share)?;
        self.expiry.sweep(&mut self.source);
        Ok(())
    }

    pub(super) fn openings(&self) -> Openings {
        self.meter.counters().openings()
    }

    pub(super) fn step(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        self.source.pause(self.pause);
        self.calibrate();
        let horizon_ns = merge::horizon_ns(self.source.now_ns());
        let fullest = self.drain(horizon_ns, sink)?;
        self.adapt_pause(fullest);
        self.write_losses(sink)?;
        self.check_gaps();
        if self.unfinished.is_empty() {
            self.decoder.expire(horizon_ns);
        }
        self.meter.read_counters(&mut self.source);
        self.write_refused(sink)?;
        self.expiry.poll(&mut self.source);
        let counters = *self.meter.counters();
        let note = self.hooks.follow(&mut self.source, &counters, &mut self.decoder);
        self.notes.extend(note);
        Ok(())
    }

    pub(super) fn finish(
        mut self,
        sink: &mut impl Sink,
        deadline: Duration,
    ) -> Result<Summary, Error> {
        let hooks = self.source.hooks();
        // Before the end: any event after a look at a socket is recorded.
        if let Err(error) = self.source.announce_open() {
            self.notes.push(format!(
                "which connections were open at the end is not known, and how long their bytes \
                 waited after the last packet: {error}"
            ));
        }
        let ended_ns = self.source.now_ns();
        self.decoder.detaching(ended_ns);
        self.meter.read(&mut self.source);
        self.meter.report_to(&mut self.decoder);
        self.meter.read_counters(&mut self.source);
        self.write_refused(sink)?;
        self.is_over = true;
        for when in [
            When::Always,
            When::Devices,
            When::Datagrams,
            When::Calls,
            When::Unix,
            When::Control,
            When::InBand,
        ] {
            self.source.detach(when);
        }
        let ends_ns = self.source.now_ns().saturating_add(deadline.as_nanos() as u64);
        while self.drain(u64::MAX, sink)? > 0.0 || !self.unfinished.is_empty() {
            if self.source.now_ns() > ends_ns {
                self.notes.push(format!(
                    "the end of the trace is cut: records were left after {} s",
                    deadline.as_secs_f32()
                ));
                break;
            }
            if !self.unfinished.is_empty() {
                self.source.pause(PAUSE_MIN);
            }
        }
        self.write_losses(sink)?;
        // Once for the proofs from before, once for those of this last look.
        self.check_gaps();
        self.check_gaps();
        self.decoder.finish();
        self.hand_over(sink)?;
        Ok(self.summary(hooks))
    }

    /// Takes every finished record up to `horizon_ns`, and all entries of the rings. Returns the part that was taken of the
    /// fullest, 0 to 1.
    pub(super) fn drain(&mut self, horizon_ns: u64, sink: &mut impl Sink) -> Result<f64, Error> {
        // Heads first, then losses and events: the decoder needs both before the records behind them.
        let overdue = self.unfinished.overdue(self.source.now_ns());
        let mut merge = Merge::begin(&mut self.source, overdue);
        if !self.is_over {
            self.meter.read(&mut self.source);
            self.meter.report_to(&mut self.decoder);
        }
        let rings = self.take_entries(sink)?;
        let decoder = &mut self.decoder;
        while merge.take_run(&mut self.source, horizon_ns, |cpu, record| decoder.raw(cpu, record)) {
            if decoder.records().len() >= BATCH {
                hand_over(decoder, &mut self.records, sink)?;
            }
        }
        decoder.report_events(horizon_ns);
        let taken = merge.end(&mut self.source);
        self.unfinished.note(taken.unfinished, self.source.now_ns());
        self.raw_records += taken.records;
        self.hand_over(sink)?;
        for connection in self.decoder.take_forgotten() {
            sink.complete(ConnectionId(connection));
        }
        Ok(rings.max(taken.fullest as f64 / self.source.shape().records as f64))
    }

    /// The part that was taken of the fullest ring.
    fn take_entries(&mut self, sink: &mut impl Sink) -> Result<f64, Error> {
        let entries = self.source.events()?;
        let part = Ring::Events.part(entries.events.len());
        let part = part.max(Ring::Options.part(entries.options.len()));
        entries.hand_to(&mut self.decoder);
        for connection in self.decoder.take_of_others() {
            sink.of_others(ConnectionId(connection));
        }
        for connection in self.decoder.take_changed() {
            sink.connection(&connection).map_err(Error::Sink)?;
        }
        Ok(part)
    }

    fn hand_over(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        hand_over(&mut self.decoder, &mut self.records, sink)
    }

    /// Looks more often when a list or a ring fills.
    fn adapt_pause(&mut self, fullest: f64) {
        self.pause = match fullest {
            _ if !self.unfinished.is_empty() => PAUSE_MIN,
            high if high > FILL_HIGH => (self.pause / 2).max(PAUSE_MIN),
            low if low < FILL_LOW => (self.pause * 2).min(self.pause_max),
            _ => self.pause,
        };
    }

    /// Writes down the hits that were missed by the last reading.
    fn write_losses(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        let records = self.meter.records();
        self.write(&records, sink)
    }

    /// Writes down the events and connections that found no room.
    fn write_refused(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        let now_ns = self.source.now_ns();
        let records = self.meter.refused(now_ns);
        self.write(&records, sink)
    }

    fn write(&mut self, records: &[Record], sink: &mut impl Sink) -> Result<(), Error> {
        if records.is_empty() {
            return Ok(());
        }
        sink.records(records).map_err(Error::Sink)?;
        self.records += records.len() as u64;
        Ok(())
    }

    /// Counts the records that the kernel skipped, unless a CPU's list stopped at an unfinished one:
    /// then a record that looks skipped may still follow.
    fn check_gaps(&mut self) {
        if !self.unfinished.is_empty() {
            return;
        }
        self.decoder.check_gaps();
        self.meter.take_from(&mut self.decoder);
    }

    /// This thread just woke up: the best of the last readings is closest to the truth.
    fn calibrate(&mut self) {
        if let Some(reading_ns) = self.source.scheduler_offset_ns() {
            self.decoder.calibrate(self.calibration.add(reading_ns));
        }
    }

    fn summary(mut self, hooks: Vec<HookReport>) -> Summary {
        self.meter.take_unplaced_reads(&mut self.decoder);
        // Options that the probes missed are counted already.
        let early_options = self.decoder.options_missed();
        self.meter.add_events(early_options);
        let missed = Missed {
            totals: self.meter.totals(),
            counters: self.meter.counters(),
            early_options,
            of_unknown: self.decoder.unknown(),
        };
        let shape = self.source.shape();
        let advice = missed.advice(shape.records * size_of::<RawRecord>() as u64);
        let mut notes = self.notes;
        notes.extend(self.meter.unreadable().map(str::to_owned));
        notes.extend(missed.notes(advice.as_deref()));
        notes.extend(self.meter.counters().openings().note());
        Summary {
            records: self.records,
            hits: self.raw_records,
            missed: self.meter.totals().missed,
            openings: self.meter.counters().openings(),
            costs: self.source.costs(),
            hooks,
            list_records: shape.records,
            list_bytes: shape.bytes() as u64,
            advice,
            notes,
        }
    }
}

fn hand_over(decoder: &mut Decoder, count: &mut u64, sink: &mut impl Sink) -> Result<(), Error> {
    let records = decoder.records();
    if records.is_empty() {
        return Ok(());
    }
    sink.records(records).map_err(Error::Sink)?;
    *count += records.len() as u64;
    records.clear();
    Ok(())
}
