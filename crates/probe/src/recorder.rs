//! A recording: programs attached, lists drained, records handed to a sink.

mod advice;
#[cfg(feature = "bench")]
mod bench;
mod missed;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use libbpf_rs::RingBuffer;
use sockscope_record::{
    Connection, ConnectionId, Kind, LossCounts, Point, PointCost, Record, counted, marks,
};

use crate::decode::{Decoder, point_of_raw};
use crate::error::Error;
use crate::hooks::{HOOKS, When};
use crate::layout::{FLOW_SLOTS, RawEvent, RawOption, RawRecord};
use crate::lists::{Lists, Shape};
use crate::pick::Pick;
use crate::places::Places;
use crate::programs::{Counted, Counters, HookReport, Programs, Statistics};
use missed::{Doubts, LostByNow, MissedHits};

/// Where decoded records go.
pub trait Sink {
    /// Records, nearly in time order.
    ///
    /// # Errors
    /// When they cannot be kept; the recording then ends.
    fn records(&mut self, records: &[Record]) -> Result<(), String>;

    /// A connection of which something new became known.
    ///
    /// # Errors
    /// As for records.
    fn connection(&mut self, connection: &Connection) -> Result<(), String>;

    /// Another user than root and the owner asked for this connection by `SO_LOG`, beside another pick.
    /// Said before anything else of it.
    fn of_others(&mut self, _connection: ConnectionId) {}

    /// Of this connection all was said: neither a record nor anything new follows. Connections that are open
    /// when the recording ends do not have it.
    fn complete(&mut self, _connection: ConnectionId) {}
}

/// How to record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Also record returns of send and receive calls.
    pub calls: bool,
    /// Measure the run time of the probes; costs some 40 ns a hit itself.
    pub statistics: bool,
    /// What is recorded starts with the recording: its first datagram may take a while.
    pub starts_command: bool,
    /// Bytes of each CPU's list of records that wait for the recorder, rounded up to a power of two
    /// from 64 KiB to 256 MiB; 4 MiB without.
    pub buffer_bytes: Option<u64>,
}

/// Between two looks at the lists, at most and at least.
const PAUSE_MAX: Duration = Duration::from_millis(10);
const PAUSE_MIN: Duration = Duration::from_micros(500);
/// A list filled by one part in this many between two looks is looked at twice as often, or half so.
const FILL_HIGH: u64 = 16;
const FILL_LOW: u64 = 64;
/// Records younger than this wait for the next look, so that the CPUs' lists merge in order.
const HOLD_BACK_NS: u64 = 200_000;
/// Records taken from one list before its places are given back.
const RELEASE_EVERY: u64 = 2_048;
/// Decoded records handed to the sink at once.
const BATCH: usize = 16_384;
/// Readings of the scheduler's clock of which the best counts.
const READINGS: usize = 64;
/// Without a datagram for this long after the start, their hook is detached until one comes.
const DATAGRAM_PATIENCE: Duration = Duration::from_millis(400);
/// The same where a command is started, which loads itself first.
const FIRST_DATAGRAM_PATIENCE: Duration = Duration::from_secs(3);

/// A connection of which no socket here is known is over after this time without a packet: longer than
/// `connect()` tries (127 s, `tcp_syn_retries`).
const IDLE: Duration = Duration::from_secs(150);
/// The decoder's own look at ages, where the event that tells of the end was lost.
const IDLE_MAX: Duration = Duration::from_secs(180);
/// Slots whose age is looked at together, and how often.
const SLOTS_AT_ONCE: u32 = 2_048;
const LOOK_AT_AGES_EVERY: Duration = Duration::from_millis(100);

/// A running recording. Dropping it detaches every probe.
pub struct Recorder {
    programs: Programs,
    counted: Counted,
    lists: Lists,
    ring: RingBuffer<'static>,
    incoming: Rc<RefCell<Incoming>>,
    decoder: Decoder,
    readings: VecDeque<i64>,
    missed: MissedHits,
    doubts: Doubts,
    lost: LossCounts,
    /// The probes are being detached: what is lost from now on is not of the recording.
    is_over: bool,
    interrupted: u64,
    skipped: u64,
    unplaced: u64,
    unknown_positions: u64,
    is_stalled: bool,
    last_counted_ns: u64,
    refused: Refused,
    /// Of what other users asked for.
    others_refused: Refused,
    ages: Ages,
    pause: Duration,
    started: Instant,
    datagrams: Datagrams,
    patience: Duration,
    places: Places,
    records: u64,
    raw_records: u64,
    statistics: Option<Statistics>,
    costs_before: BTreeMap<String, (u64, u64)>,
    notes: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Datagrams {
    /// Attached; given up if none comes.
    Waiting,
    /// Detached until one is seen.
    Absent,
    /// Attached for good.
    Logged,
}

/// What a recording was, beside its records.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Records handed to the sink.
    pub records: u64,
    /// Probe hits that they came from.
    pub hits: u64,
    /// Records lost.
    pub lost: LossCounts,
    /// Run time of the probes of each point; its hits count logged and other traffic.
    pub costs: [PointCost; 8],
    /// The table of hooks as used.
    pub hooks: Vec<HookReport>,
    /// Records that each CPU's list holds.
    pub list_records: u64,
    /// Bytes of all lists.
    pub list_bytes: u64,
    /// What to try, by the cause, where records were missed.
    pub advice: Option<String>,
    /// Sentences for the reader.
    pub notes: Vec<String>,
}

impl Recorder {
    /// Loads and attaches the probes; from its return on, everything picked is recorded.
    ///
    /// # Errors
    /// When a right or a kernel feature is missing.
    pub fn start(pick: &Pick, options: Options) -> Result<Self, Error> {
        let mut programs = Programs::load(pick, Shape::of(options.buffer_bytes))?;
        let lists = programs.lists()?;
        let incoming: Rc<RefCell<Incoming>> = Rc::default();
        let (for_events, for_options) = (Rc::clone(&incoming), Rc::clone(&incoming));
        let ring = programs.events(
            move |event| for_events.borrow_mut().events.push(*event),
            move |option| for_options.borrow_mut().options.push(*option),
        )?;
        let statistics = options.statistics.then(Statistics::enable).flatten();
        let costs_before = programs.costs();
        programs.attach(When::Control)?;
        if options.calls {
            programs.attach(When::Calls)?;
        }
        if pick.in_band {
            programs.attach(When::InBand)?;
        }
        programs.attach(When::Datagrams)?;
        let places = Places::now();
        if places.may_need_input_hook() {
            programs.attach(When::Devices)?;
        }
        programs.attach(When::Always)?;
        if pick.picks_any() {
            programs.join_existing()?;
        }
        let attached_ns = monotonic_ns();
        let missed = MissedHits {
            by_kind: lists.lost(),
            of_others: lists.lost_of_others(),
            interrupted: programs.interrupted()?,
        };
        let doubts = Doubts { missed: missed.clone(), looked_ns: attached_ns };
        let counters = programs.counters()?;
        let mut recorder = Self {
            programs,
            counted: Counted::new(counters),
            lists,
            ring,
            incoming,
            decoder: Decoder::default(),
            readings: VecDeque::new(),
            missed,
            doubts,
            lost: LossCounts::default(),
            is_over: false,
            interrupted: 0,
            skipped: 0,
            unplaced: 0,
            unknown_positions: 0,
            is_stalled: false,
            last_counted_ns: attached_ns,
            refused: Refused { counted: counters.refused(), since_ns: attached_ns, marks: 0 },
            others_refused: Refused {
                counted: counters.refused_of_others(),
                since_ns: attached_ns,
                marks: marks::OF_OTHERS,
            },
            ages: Ages { next: 0, looked: Instant::now() },
            pause: PAUSE_MIN,
            started: Instant::now(),
            datagrams: Datagrams::Waiting,
            patience: if options.starts_command {
                FIRST_DATAGRAM_PATIENCE
            } else {
                DATAGRAM_PATIENCE
            },
            places,
            records: 0,
            raw_records: 0,
            statistics,
            costs_before,
            notes: Vec::new(),
        };
        recorder.decoder.see_input(recorder.programs.is_attached(When::Devices));
        recorder.decoder.attached(attached_ns);
        recorder.decoder.expire_after(IDLE_MAX.as_nanos() as u64);
        recorder.calibrate();
        Ok(recorder)
    }

    /// The table of hooks as used now.
    #[must_use]
    pub fn hooks(&self) -> Vec<HookReport> {
        self.programs.report()
    }

    /// Records handed to the sink so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Records lost so far.
    #[must_use]
    pub fn lost(&self) -> LossCounts {
        self.lost
    }

    /// Waits a little, then takes what the probes wrote meanwhile. To be called in a loop.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn step(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        std::thread::sleep(self.pause);
        self.calibrate();
        // Before the lists are read: most is lost meanwhile, as they make room only at the end of that.
        let lost = LostByNow::read(monotonic_ns, || self.missed_hits());
        let now_ns = lost.until_ns;
        let fullest = self.drain(now_ns.saturating_sub(HOLD_BACK_NS), sink)?;
        self.pause = match fullest {
            high if high > self.lists.shape().records / FILL_HIGH => {
                (self.pause / 2).max(PAUSE_MIN)
            }
            low if low < self.lists.shape().records / FILL_LOW => (self.pause * 2).min(PAUSE_MAX),
            _ => self.pause,
        };
        self.note_loss(lost, sink)?;
        self.judge();
        if !self.is_stalled {
            self.decoder.expire(now_ns.saturating_sub(HOLD_BACK_NS));
        }
        self.look_at_counters();
        self.note_refused(sink)?;
        self.look_at_ages();
        self.follow_devices()?;
        self.follow_datagrams()
    }

    /// Looks at the sockets that are open, ends the recording there, detaches the probes, and then takes
    /// what is left, for at most `deadline`.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn finish(mut self, sink: &mut impl Sink, deadline: Duration) -> Result<Summary, Error> {
        let hooks = self.programs.report();
        // Before the end: what comes after a look at a socket is recorded.
        if let Err(error) = self.programs.tell_remaining() {
            self.notes.push(format!(
                "which connections were open at the end is not known, and how long their bytes \
                 waited after the last packet: {error}"
            ));
        }
        let ended_ns = monotonic_ns();
        self.decoder.detaching(ended_ns);
        self.doubt();
        let missed = self.missed_hits();
        self.look_at_counters();
        self.note_refused(sink)?;
        self.is_over = true;
        for when in
            [When::Always, When::Devices, When::Datagrams, When::Calls, When::Control, When::InBand]
        {
            self.programs.detach(when);
        }
        let ends = Instant::now() + deadline;
        while self.drain(u64::MAX, sink)? > 0 {
            if Instant::now() > ends {
                self.notes.push(format!(
                    "the end of the trace is cut: records were left after {} s",
                    deadline.as_secs_f32()
                ));
                break;
            }
        }
        self.note_loss(LostByNow { since_ns: ended_ns, missed, until_ns: ended_ns }, sink)?;
        // Once for what was proven before, once for what this last look proved.
        self.judge();
        self.judge();
        self.decoder.finish();
        self.hand_over(sink)?;
        Ok(self.summary(hooks))
    }

    fn summary(mut self, hooks: Vec<HookReport>) -> Summary {
        self.count_unplaced();
        // Those that the probes missed are counted already.
        let early = self.decoder.options_missed();
        self.lost.add(None, early);
        let Counters { events_lost, unlisted, .. } = self.counted.now;
        // A longer list would be for others.
        let full = self.lists.lost().iter().sum::<u64>().saturating_sub(unlisted);
        let others: u64 = self.lists.lost_of_others().iter().sum();
        let list_bytes = self.lists.shape().records * size_of::<RawRecord>() as u64;
        let advice = advice::of(full, events_lost, list_bytes);
        self.notes.extend(advice::notes(full, others, events_lost, unlisted, advice.as_deref()));
        let options_missed = self.counted.now.options_missed + early;
        if options_missed > 0 {
            self.notes.push(format!(
                "options of sockets that are missing, and counted as missed: {options_missed}"
            ));
        }
        self.notes.extend(self.counted.now.notes());
        if self.interrupted > 0 {
            self.notes.push(format!(
                "{} of a probe that was under way on the same CPU, so that the kernel did not run it: \
                 all of them are counted as missed, also those of connections that are not recorded",
                counted(self.interrupted, "hit")
            ));
        }
        if self.skipped > 0 {
            self.notes.push(format!(
                "the kernel skipped {} (no probe ran), counted as lost",
                counted(self.skipped, "observation")
            ));
        }
        if self.unplaced > 0 {
            self.notes.push(format!(
                "unknown when read, as reads before were not seen, and counted as lost: {}",
                counted(self.unplaced, "datagram")
            ));
        }
        if self.unknown_positions > 0 {
            self.notes.push(format!(
                "of unknown position, as records before were missed, and counted as missed: {}",
                counted(self.unknown_positions, "observation")
            ));
        }
        if self.decoder.unknown() > 0 {
            self.notes.push(format!(
                "{} of connections that are not in the trace, counted as missed",
                counted(self.decoder.unknown(), "observation")
            ));
        }
        Summary {
            records: self.records,
            hits: self.raw_records,
            lost: self.lost,
            costs: self.point_costs(),
            hooks,
            list_records: self.lists.shape().records,
            list_bytes: self.lists.shape().bytes() as u64,
            advice,
            notes: self.notes,
        }
    }

    fn point_costs(&self) -> [PointCost; 8] {
        let now = self.programs.costs();
        let mut costs = [PointCost::default(); 8];
        if self.statistics.is_none() {
            return costs;
        }
        for entry in HOOKS {
            // A hook that stands for several points is counted once, at the last.
            let (Some(point), Some(&(hits, run_ns))) =
                (entry.points.last(), now.get(entry.program))
            else {
                continue;
            };
            let before = self.costs_before.get(entry.program).copied().unwrap_or((0, 0));
            let cost = &mut costs[point.index()];
            cost.hits += hits - before.0;
            cost.run_ns += run_ns - before.1;
        }
        costs
    }

    /// Takes every finished record up to `horizon_ns`; the largest number taken from one list.
    fn drain(&mut self, horizon_ns: u64, sink: &mut impl Sink) -> Result<u64, Error> {
        // Heads first, then events: what a record needs to be understood was announced before.
        let mut cursors: Vec<Cursor> =
            (0..self.lists.len()).filter_map(|list| Cursor::new(&self.lists, list)).collect();
        self.doubt();
        self.take_events(sink)?;
        let mut fullest = 0;
        while let Some((first, bound)) = earliest(&cursors) {
            let cursor = &mut cursors[first];
            if cursor.at_ns() > horizon_ns {
                break;
            }
            while let Some(record) = cursor.current
                && record.at_ns <= bound.min(horizon_ns)
            {
                self.decoder.raw(self.lists.cpu(cursor.list), &record);
                self.raw_records += 1;
                cursor.advance(&self.lists);
            }
            fullest = fullest.max(cursor.taken);
            if self.decoder.records().len() >= BATCH {
                self.hand_over(sink)?;
            }
        }
        self.decoder.tell_events(horizon_ns);
        self.is_stalled = cursors.iter().any(Cursor::is_stalled);
        for cursor in &cursors {
            self.lists.release(cursor.list, cursor.next);
        }
        self.hand_over(sink)?;
        for connection in self.decoder.take_forgotten() {
            sink.complete(ConnectionId(connection));
        }
        Ok(fullest)
    }

    fn take_events(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        self.ring.consume().map_err(|error| Error::Load(error.to_string()))?;
        self.incoming.borrow_mut().hand_to(&mut self.decoder);
        for connection in self.decoder.take_of_others() {
            sink.of_others(ConnectionId(connection));
        }
        for connection in self.decoder.take_changed() {
            sink.connection(&connection).map_err(Error::Sink)?;
        }
        Ok(())
    }

    fn hand_over(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        let records = self.decoder.records();
        if records.is_empty() {
            return Ok(());
        }
        sink.records(records).map_err(Error::Sink)?;
        self.records += records.len() as u64;
        records.clear();
        Ok(())
    }

    /// Hits that were missed by now. Where the kernel does not say how often it ran no probe, what it said
    /// last stands.
    fn missed_hits(&mut self) -> MissedHits {
        let interrupted = self.programs.interrupted().unwrap_or_else(|error| {
            self.notes.extend(self.counted.note(&error));
            self.doubts.missed.interrupted
        });
        let (by_kind, of_others) = (self.lists.lost(), self.lists.lost_of_others());
        MissedHits { by_kind, of_others, interrupted }
    }

    /// Writes down what was missed since the last look, by what is counted now.
    fn note_loss(&mut self, now: LostByNow, sink: &mut impl Sink) -> Result<(), Error> {
        let LostByNow { since_ns: next_since_ns, missed: now, until_ns } = now;
        let since_ns = std::mem::replace(&mut self.last_counted_ns, next_since_ns);
        let before = std::mem::replace(&mut self.missed, now);
        let loss = |point: Option<Point>, detail, marks| Record {
            at_ns: until_ns,
            offset: since_ns,
            detail,
            kind: Kind::Loss,
            code: point.map_or(Kind::Loss as u8, Point::number),
            marks,
            ..Record::default()
        };
        let mut losses = Vec::new();
        let kinds = [
            (&self.missed.by_kind, &before.by_kind, false),
            (&self.missed.of_others, &before.of_others, true),
        ];
        for (now, before, of_others) in kinds {
            let mark = marks::ANCHORED | if of_others { marks::OF_OTHERS } else { 0 };
            for (kind, (count, seen)) in now.iter().zip(before).enumerate() {
                if count > seen {
                    let point = point_of_raw(kind as u8);
                    self.decoder.lost_between(since_ns, until_ns, point.as_slice(), of_others);
                    losses.push((point, loss(point, count - seen, mark)));
                }
            }
        }
        let interrupted = self.missed.interrupted.since(&before.interrupted);
        self.interrupted += interrupted.total();
        for (point, count) in interrupted.by_point().filter(|(_, count)| *count > 0) {
            self.decoder.interrupted(until_ns, point.as_slice());
            // No probe ran that could have had the positions joined anew.
            losses.push((point, loss(point, count, 0)));
        }
        for (point, record) in losses {
            self.lost.add(point, record.detail);
            sink.records(&[record]).map_err(Error::Sink)?;
            self.records += 1;
        }
        Ok(())
    }

    /// Tells the decoder what was lost: once a hit of datagrams at their socket was, later ones do not
    /// show whose they are. Every record that is in a list now was written before, or after a loss that
    /// is counted now.
    fn doubt(&mut self) {
        if self.is_over {
            return;
        }
        let now = LostByNow::read(monotonic_ns, || self.missed_hits());
        let since_ns = std::mem::replace(&mut self.doubts.looked_ns, now.since_ns);
        let fresh = self.doubts.look(now.missed);
        if fresh.any {
            self.decoder.lost_between(since_ns, now.until_ns, &fresh.points, false);
        }
        if let Some(points) = &fresh.of_others {
            self.decoder.lost_between(since_ns, now.until_ns, points, true);
        }
        self.decoder.interrupted(now.until_ns, &fresh.interrupted);
        if fresh.at_sockets {
            self.decoder.doubt_reads(monotonic_ns());
        }
    }

    /// Counts what the kernel skipped, unless a CPU's list stopped at an unfinished record: then
    /// what looks skipped may come yet.
    fn judge(&mut self) {
        if self.is_stalled {
            return;
        }
        self.decoder.judge();
        self.count_unplaced();
        self.count_unknown_positions();
        let unknown = self.decoder.take_unknown();
        self.add_missed(unknown);
        let holes = self.decoder.take_holes();
        self.skipped += holes.total();
        self.add_missed(holes);
    }

    fn add_missed(&mut self, missed: LossCounts) {
        self.lost.add_all(&missed);
    }

    /// Counts the hits whose position was not known, as others of their connections were missed.
    fn count_unknown_positions(&mut self) {
        let unknown = self.decoder.take_unknown_positions();
        self.unknown_positions += unknown.total();
        self.lost.add_all(&unknown);
    }

    /// Writes down the events and connections that found no room since the last look.
    fn note_refused(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        let (now, now_ns) = (&self.counted.now, monotonic_ns());
        let refused = self.refused.look(now.refused(), now_ns);
        let of_others = self.others_refused.look(now.refused_of_others(), now_ns);
        for record in refused.into_iter().chain(of_others) {
            self.lost.add(None, record.detail);
            sink.records(&[record]).map_err(Error::Sink)?;
            self.records += 1;
        }
        Ok(())
    }

    /// Ends connections that are too old, some slots at a time.
    fn look_at_ages(&mut self) {
        if self.ages.looked.elapsed() < LOOK_AT_AGES_EVERY {
            return;
        }
        self.programs.expire(self.ages.next, SLOTS_AT_ONCE, IDLE.as_nanos() as u64);
        self.ages =
            Ages { next: (self.ages.next + SLOTS_AT_ONCE) % FLOW_SLOTS, looked: Instant::now() };
    }

    /// Counts the datagrams of which it is not known when they were read.
    fn count_unplaced(&mut self) {
        let unplaced = self.decoder.take_unplaced();
        self.unplaced += unplaced;
        self.lost.add(Some(Point::ReceiveDequeue), unplaced);
    }

    /// This thread just woke up: the best of the last readings is closest to the truth.
    fn calibrate(&mut self) {
        let Some(reading) = self.programs.scheduler_offset_ns() else { return };
        if self.readings.len() == READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back(reading);
        if let Some(best) = self.readings.iter().min() {
            self.decoder.calibrate(*best);
        }
    }

    /// Reads the counters; the first time that this fails becomes a note.
    fn look_at_counters(&mut self) {
        self.notes.extend(self.counted.look(self.programs.counters()));
    }

    /// Attaches the hook of point 5 before, or at the latest when, packets need it.
    fn follow_devices(&mut self) -> Result<(), Error> {
        if self.programs.is_attached(When::Devices) {
            return Ok(());
        }
        if self.counted.now.devices || self.places.grew() {
            self.programs.attach(When::Devices)?;
            self.decoder.see_input(self.programs.is_attached(When::Devices));
        }
        Ok(())
    }

    fn follow_datagrams(&mut self) -> Result<(), Error> {
        if self.datagrams == Datagrams::Logged {
            return Ok(());
        }
        if self.counted.now.datagrams {
            if self.datagrams == Datagrams::Absent {
                self.programs.attach(When::Datagrams)?;
                self.decoder.doubt_reads(monotonic_ns());
                self.notes.push(format!(
                    "reads of datagrams are recorded from {:.3} s after the start on",
                    self.started.elapsed().as_secs_f64()
                ));
            }
            self.datagrams = Datagrams::Logged;
        } else if self.datagrams == Datagrams::Waiting && self.started.elapsed() > self.patience {
            self.programs.detach(When::Datagrams);
            self.datagrams = Datagrams::Absent;
        }
        Ok(())
    }
}

/// What the rings held at one look.
#[derive(Default)]
struct Incoming {
    events: Vec<RawEvent>,
    options: Vec<RawOption>,
}

impl Incoming {
    /// Each option goes before the event that follows it: an event that describes a socket says which
    /// options it has, and those that are known already are not said again.
    fn hand_to(&mut self, decoder: &mut Decoder) {
        let mut options = self.options.drain(..).peekable();
        for event in self.events.drain(..) {
            while let Some(option) = options.next_if(|option| option.at_ns <= event.at_ns) {
                decoder.option(&option);
            }
            decoder.event(&event);
        }
        options.for_each(|option| decoder.option(&option));
    }
}

/// Events, connections, listeners and sockets that found no room.
struct Refused {
    counted: u64,
    /// They were counted before this.
    since_ns: u64,
    /// Of the loss records.
    marks: u8,
}

impl Refused {
    /// What was refused since the last look, by what is counted now.
    fn look(&mut self, counted: u64, now_ns: u64) -> Option<Record> {
        let fresh = counted.saturating_sub(std::mem::replace(&mut self.counted, counted));
        let since_ns = std::mem::replace(&mut self.since_ns, now_ns);
        (fresh > 0).then(|| Record {
            at_ns: now_ns,
            offset: since_ns,
            detail: fresh,
            kind: Kind::Loss,
            code: Kind::Loss as u8,
            marks: self.marks,
            ..Record::default()
        })
    }
}

/// Which slots' ages are looked at next, and when the last look was.
struct Ages {
    next: u32,
    looked: Instant,
}

/// Reading position in one CPU's list.
struct Cursor {
    list: usize,
    next: u64,
    end: u64,
    taken: u64,
    current: Option<RawRecord>,
}

impl Cursor {
    fn new(lists: &Lists, list: usize) -> Option<Self> {
        let (next, end) = lists.span(list);
        if next == end {
            return None;
        }
        let current = lists.read(list, next);
        Some(Self { list, next, end, taken: 0, current })
    }

    /// Whether the next record is begun and not finished.
    fn is_stalled(&self) -> bool {
        self.current.is_none() && self.next < self.end
    }

    fn at_ns(&self) -> u64 {
        self.current.map_or(u64::MAX, |record| record.at_ns)
    }

    fn advance(&mut self, lists: &Lists) {
        self.next += 1;
        self.taken += 1;
        if self.taken.is_multiple_of(RELEASE_EVERY) {
            lists.release(self.list, self.next);
        }
        self.current = if self.next < self.end { lists.read(self.list, self.next) } else { None };
    }
}

/// The cursor with the earliest record, and up to when it may go on before another has its turn.
fn earliest(cursors: &[Cursor]) -> Option<(usize, u64)> {
    let mut best: Option<usize> = None;
    let mut bound = u64::MAX;
    for (index, cursor) in cursors.iter().enumerate() {
        if cursor.current.is_none() {
            continue;
        }
        match best {
            Some(first) if cursors[first].at_ns() <= cursor.at_ns() => {
                bound = bound.min(cursor.at_ns());
            }
            Some(first) => {
                bound = cursors[first].at_ns();
                best = Some(index);
            }
            None => best = Some(index),
        }
    }
    best.map(|first| (first, bound))
}

/// `CLOCK_MONOTONIC`, the clock of the records.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::constants as raw;

    /// One cursor for each time; 0 is a list at its end or at an unfinished record.
    fn cursors(times: &[u64]) -> Vec<Cursor> {
        let cursor = |(list, at_ns): (usize, &u64)| {
            let record = RawRecord { at_ns: *at_ns, ..RawRecord::default() };
            let current = (*at_ns > 0).then_some(record);
            Cursor { list, next: 0, end: u64::from(*at_ns == 9), taken: 0, current }
        };
        times.iter().enumerate().map(cursor).collect()
    }

    #[test]
    fn the_earliest_list_goes_on_until_the_next_one_has_its_turn() {
        assert_eq!(earliest(&cursors(&[30, 10, 20])), Some((1, 20)));
        assert_eq!(earliest(&cursors(&[10, 30, 20])), Some((0, 20)));
        assert_eq!(earliest(&cursors(&[30, 20, 10])), Some((2, 20)));
    }

    #[test]
    fn a_list_alone_goes_on_to_its_end() {
        assert_eq!(earliest(&cursors(&[0, 10, 0])), Some((1, u64::MAX)));
        assert_eq!(earliest(&cursors(&[0, 0])), None);
    }

    #[test]
    fn of_two_at_one_time_the_first_cpu_goes_first_and_no_further() {
        assert_eq!(earliest(&cursors(&[10, 10, 10])), Some((0, 10)));
    }

    #[test]
    fn lists_merge_into_one_order_of_time() {
        let mut lists = [vec![1, 4, 5, 9], vec![2, 3, 9], vec![], vec![6]];
        let mut merged = Vec::new();
        loop {
            let heads: Vec<u64> = lists.iter().map(|l| l.first().copied().unwrap_or(0)).collect();
            let Some((first, bound)) = earliest(&cursors(&heads)) else { break };
            while lists[first].first().is_some_and(|at_ns| *at_ns <= bound) {
                merged.push(lists[first].remove(0));
            }
        }
        assert_eq!(merged, [1, 2, 3, 4, 5, 6, 9, 9]);
    }

    #[test]
    fn a_list_stops_at_a_record_that_is_begun_and_not_finished() {
        let [mut cursor]: [Cursor; 1] = cursors(&[9]).try_into().ok().unwrap();
        assert!(!cursor.is_stalled());
        cursor.current = None;
        assert!(cursor.is_stalled());
        cursor.next = cursor.end;
        assert!(!cursor.is_stalled());
    }

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
        let mut incoming = Incoming {
            events: vec![event(4, raw::EVENT_OPEN, 0), event(5, raw::EVENT_STATE, 2)],
            options: vec![cork, late],
        };
        incoming.events[0].connection = 1;
        let mut decoder = Decoder::default();
        incoming.hand_to(&mut decoder);
        decoder.tell_events(u64::MAX);
        let options = decoder.records().drain(..).filter(|one| one.kind == Kind::SocketOption);
        let values: Vec<u64> = options.map(|one| one.detail & 1).collect();
        // The state says that the socket has a cork, which is not news.
        assert_eq!(values, [1, 0]);
    }

    #[test]
    fn each_point_counts_its_own_losses() {
        let points: Vec<Option<Point>> = (0..raw::RAW_KINDS).map(point_of_raw).collect();
        for point in Point::ALL.into_iter().filter(|point| *point != Point::SendDequeue) {
            assert_eq!(points.iter().filter(|of| **of == Some(point)).count(), 1, "{point:?}");
        }
        assert_eq!(point_of_raw(raw::RAW_DROP), None);
    }
}
