//! The data of a figure: one connection, the direction looked at, and the time shown.
//!
//! Times are nanoseconds of the trace's clock; the figure counts them from its zero. Positions that
//! would overflow 64 bits are held at the largest one, so hostile records draw oddly but draw.

use std::cell::OnceCell;
use std::iter::once;

use sockscope_analysis::{ConnectionStore, FlowCurves, FlowStore, LossInterval, Passage};
use sockscope_record::{Point, Protocol, Side};
use sockscope_render::number::{count, counted};
use sockscope_render::size::check_size;
use sockscope_render::style::printable;
use sockscope_render::units::Quantity;

use super::marks::Marks;
use super::options::{Figure, PlotError, PlotOptions};

/// One figure's data and window.
pub(super) struct Scene<'a> {
    figure: Figure,
    pub(super) store: &'a ConnectionStore,
    pub(super) options: &'a PlotOptions<'a>,
    /// First instant shown.
    pub(super) from_ns: u64,
    /// Last instant shown, later than `from_ns`.
    pub(super) to_ns: u64,
    pub(super) marks: Marks,
    zero_ns: u64,
    records: u64,
    curves: OnceCell<FlowCurves>,
}

impl<'a> Scene<'a> {
    /// Checks the options against the data.
    pub(super) fn new(
        store: &'a ConnectionStore,
        options: &'a PlotOptions<'a>,
        figure: Figure,
    ) -> Result<Self, PlotError> {
        check_size(options.width, options.height)?;
        let spans = || once(store).chain(options.others.iter().copied()).filter_map(span);
        let first_ns = spans().map(|(first_ns, _)| first_ns).min().unwrap_or(0);
        let last_ns = spans().map(|(_, last_ns)| last_ns).max().unwrap_or(0);
        let from_ns = options.from_ns.unwrap_or(first_ns);
        if options.to_ns.is_some_and(|to_ns| to_ns <= from_ns) {
            return Err(PlotError::EmptyWindow { from_ns, to_ns: options.to_ns.unwrap_or(0) });
        }
        // A window of one instant, or one after the last record, is given a microsecond.
        let to_ns = options.to_ns.unwrap_or(last_ns).max(from_ns.saturating_add(1_000));
        Ok(Self {
            figure,
            store,
            options,
            from_ns: from_ns.min(u64::MAX - 1_000),
            to_ns,
            marks: Marks::within(options.findings.iter(), (from_ns, to_ns)),
            zero_ns: options.zero_ns.unwrap_or(first_ns),
            records: record_count(store),
            curves: OnceCell::new(),
        })
    }

    /// Whether the ends are Unix sockets.
    pub(super) fn is_unix(&self) -> bool {
        self.store.connection.protocol.is_unix()
    }

    /// One unit that the connection carries: a Unix stream has no segments.
    pub(super) fn unit(&self) -> &'static str {
        match self.store.connection.protocol {
            Protocol::Tcp | Protocol::Udp => "segment",
            Protocol::Unix => "run",
            Protocol::UnixDatagram | Protocol::UnixSeqpacket => "message",
        }
    }

    /// The flow whose data the figure shows.
    pub(super) fn flow(&self) -> &'a FlowStore {
        self.store.flow(self.options.direction)
    }

    /// The connections of the figure, its own first.
    pub(super) fn stores(&self) -> impl Iterator<Item = &'a ConnectionStore> + use<'a> {
        once(self.store).chain(self.options.others.iter().copied())
    }

    /// The curves of that flow, worked out when a figure first asks for them.
    pub(super) fn curves(&self) -> &FlowCurves {
        self.curves.get_or_init(|| {
            let PlotOptions { direction, losses, drop_reasons, .. } = *self.options;
            FlowCurves::new(self.store, direction, losses, drop_reasons)
        })
    }

    /// The flow that carries its acknowledgments.
    pub(super) fn reverse(&self) -> &'a FlowStore {
        self.store.reverse(self.options.direction)
    }

    /// Nanoseconds from the figure's zero to `at_ns`; negative before it.
    pub(super) fn since_zero(&self, at_ns: u64) -> f64 {
        (i128::from(at_ns) - i128::from(self.zero_ns)) as f64
    }

    /// The passes of `passes` within the time shown.
    pub(super) fn shown(&self, passes: &'a [Passage]) -> &'a [Passage] {
        let from = passes.partition_point(|pass| pass.at_ns < self.from_ns);
        let to = passes.partition_point(|pass| pass.at_ns <= self.to_ns);
        passes.get(from..to).unwrap_or(&[])
    }

    /// Whether `at_ns` is within the time shown.
    pub(super) fn shows(&self, at_ns: u64) -> bool {
        (self.from_ns..=self.to_ns).contains(&at_ns)
    }

    /// Losses that may have touched the connection, by start.
    pub(super) fn losses(&self) -> impl Iterator<Item = &LossInterval> {
        let protocol = self.store.connection.protocol;
        self.options.losses.iter().filter(move |loss| loss.may_touch(protocol))
    }

    /// Whether records of one of `points` were missed within the time shown.
    pub(super) fn loses_records_of(&self, points: &[Point]) -> bool {
        self.losses().any(|loss| {
            loss.point.is_some_and(|point| points.contains(&point))
                && loss.start_ns <= self.to_ns
                && loss.end_ns >= self.from_ns
        })
    }

    /// `tcp 10.0.0.1:4711 (curl) → 10.0.0.2:80 (nginx), client to server`.
    pub(super) fn subtitle(&self) -> String {
        let protocol = self.store.connection.protocol.name();
        if self.figure == Figure::TimeSequence {
            let (client, server) = (self.end_words(Side::Client), self.end_words(Side::Server));
            return format!("{protocol} {client} ↔ {server}, both directions");
        }
        let direction = self.options.direction;
        let (sender, receiver) = (direction.sender(), direction.receiver());
        let (from, to) = (self.end_words(sender), self.end_words(receiver));
        format!("{protocol} {from} → {to}, {} to {}", sender.name(), receiver.name())
    }

    /// Address and programs of one end.
    pub(super) fn end_words(&self, side: Side) -> String {
        let connection = &self.store.connection;
        let address = printable(&connection.end(side).to_string());
        let mut programs: Vec<&str> = Vec::new();
        for process in connection.processes.iter().filter(|process| process.side == side) {
            if !programs.contains(&process.comm.as_str()) {
                programs.push(&process.comm);
            }
        }
        match programs.as_slice() {
            [] => address,
            [one] => format!("{address} ({one})"),
            [first, rest @ ..] => format!("{address} ({first} and {} more)", rest.len()),
        }
    }

    /// The line at the foot: records and losses, and the part of the trace that is shown.
    pub(super) fn facts(&self, shown_ns: u64) -> String {
        let missed: u64 =
            self.options.losses.iter().fold(0, |sum, loss| sum.saturating_add(loss.count));
        let missed = match missed {
            0 => "no records missed".to_owned(),
            1 => "1 record missed in the trace".to_owned(),
            missed => format!("{} records missed in the trace", count(missed)),
        };
        let span = Quantity::Time.words(shown_ns as f64);
        let records = counted(self.records, "record");
        format!("sockscope: {records} of this connection; {missed}; {span} shown")
    }
}

/// Position after the last byte of `pass`.
pub(super) fn end_of(pass: &Passage) -> u64 {
    pass.end()
}

/// First and last time in `store`.
fn span(store: &ConnectionStore) -> Option<(u64, u64)> {
    let mut times = Vec::new();
    for flow in &store.flows {
        for passes in &flow.passages {
            times.extend(passes.first().map(|pass| pass.at_ns));
            times.extend(passes.last().map(|pass| pass.at_ns));
        }
        times.extend(flow.events.first().map(|event| event.at_ns));
        times.extend(flow.events.last().map(|event| event.at_ns));
    }
    Some((times.iter().copied().min()?, times.iter().copied().max()?))
}

fn record_count(store: &ConnectionStore) -> u64 {
    let of_flow =
        |flow: &FlowStore| flow.passages.iter().map(Vec::len).sum::<usize>() + flow.events.len();
    store.flows.iter().map(of_flow).sum::<usize>() as u64
}

/// The name of a point in a figure: `point 3`, with its description.
pub(super) fn point_words(point: Point) -> String {
    let what = match point {
        Point::SendEnqueue => "application writes",
        Point::SendDequeue => "protocol takes a segment",
        Point::InterfaceEnqueue => "into the interface queue",
        Point::InterfaceDequeue => "taken by the driver",
        Point::InputEnqueue => "into the IP input queue",
        Point::InputDequeue => "taken by IP",
        Point::ReceiveEnqueue => "into the receive socket queue",
        Point::ReceiveDequeue => "read by the application",
    };
    format!("point {}: {what}", point.number())
}
