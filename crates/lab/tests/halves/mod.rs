//! One recording of both ends as two hosts would have made it, each by a clock of its own, and merged again.

use std::path::Path;

use sockscope_record::{Connection, Direction, Kind, Record};
use sockscope_trace::{Bundle, BundleWriter, ClockBand, ClockSnapshot, Meta, merge};

/// The clock of a host, from the time of the recording.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    pub start_ns: u64,
    pub offset_ns: i64,
    pub drift_ppb: i64,
    /// Its real-time clock less the other's, which decides whose times are moved.
    pub realtime_ns: i64,
}

impl Clock {
    const TRUE: Self = Self { start_ns: 5_000_000_000, offset_ns: 0, drift_ppb: 0, realtime_ns: 0 };

    /// Its time at a time of the recording.
    pub fn at(self, ns: u64) -> u64 {
        let drift = i128::from(ns) * i128::from(self.drift_ppb) / 1_000_000_000;
        let ns = i128::from(ns) + i128::from(self.start_ns) + i128::from(self.offset_ns) + drift;
        u64::try_from(ns).expect("a clock after its start")
    }
}

/// Whether the host of the client makes this record: it sends what leaves the client, and receives what arrives there.
pub fn is_of_client(record: &Record) -> bool {
    let is_of_sender = match record.kind.point() {
        Some(point) => point as u8 <= 4,
        None => !matches!(record.kind, Kind::Wakeup | Kind::Run | Kind::ReadReturn),
    };
    let is_from_client = record.flow.direction() == Direction::FromClient;
    is_of_sender == is_from_client
}

/// Writes the records of a host by its clock, in order of time.
fn write(dir: &Path, connections: &[Connection], records: &[Record], clock: Clock) -> Bundle {
    let snapshot = |ns: u64| {
        ClockSnapshot::new(
            clock.at(ns),
            1_800_000_000_000_000_000u64
                .saturating_add_signed(clock.realtime_ns)
                .saturating_add(clock.at(ns)),
        )
    };
    let last_ns = records.last().map_or(0, |record| record.at_ns);
    let name = dir.file_stem().unwrap().to_string_lossy().into_owned();
    let meta = Meta { host: name, clock: vec![snapshot(0), snapshot(last_ns)], ..Meta::default() };
    let mut writer = BundleWriter::create(dir, meta.clone()).unwrap();
    for row in connections {
        let row = Connection {
            both_ends_here: false,
            opened_ns: clock.at(row.opened_ns),
            closed_ns: row.closed_ns.map(|ns| clock.at(ns)),
            processes: Vec::new(),
            ..row.clone()
        };
        writer.connection(&row).unwrap();
    }
    let records: Vec<_> = records.iter().map(|record| record.on_clock(|ns| clock.at(ns))).collect();
    writer.append(&records).unwrap();
    writer.finish(meta).unwrap();
    Bundle::open(dir).unwrap()
}

/// All records of a bundle.
pub fn read(dir: &Path) -> Vec<Record> {
    let bundle = Bundle::open(dir).unwrap();
    let mut reader = bundle.records().unwrap();
    let mut all = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        all.extend_from_slice(batch);
    }
    all
}

/// What a merge states of the moved host's records: the true time and the stated one of each, the band, and the result
/// of a look at the merged bundle.
pub fn merged<T>(
    (connections, all): (&[Connection], &[Record]),
    server: Clock,
    look: impl FnOnce(&Path) -> T,
) -> (Vec<(u64, u64)>, ClockBand, T) {
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str| folder.path().join(name).with_extension("sockscope");
    let of = |client: bool| -> Vec<Record> {
        all.iter().filter(|record| is_of_client(record) == client).copied().collect()
    };
    let (of_client, of_server) = (of(true), of(false));
    let first = write(&named("client"), connections, &of_client, Clock::TRUE);
    let second = write(&named("server"), connections, &of_server, server);
    let result = merge(&first, &second, named("both")).unwrap();
    assert_eq!(result.matched as usize, connections.len());
    let band = result.band.expect("segments went both ways");
    let (moved, base, is_client) = match band.host.as_str() {
        "client" => (&of_client, server, true),
        _ => (&of_server, Clock::TRUE, false),
    };
    let stated: Vec<_> = read(&named("both"))
        .into_iter()
        .filter(|record| is_of_client(record) == is_client)
        .collect();
    assert_eq!(stated.len(), moved.len());
    let times = moved.iter().zip(&stated).map(|(truth, stated)| {
        assert_eq!((truth.kind, truth.offset), (stated.kind, stated.offset));
        (base.at(truth.at_ns), stated.at_ns)
    });
    (times.collect(), band, look(&named("both")))
}
