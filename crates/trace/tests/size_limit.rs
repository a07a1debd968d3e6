//! A bundle with a size limit stays within it, for any rows in any order.

mod common;

use std::fs;
use std::path::Path;

use common::{Folder, connection, meta, records};
use proptest::prelude::*;
use sockscope_record::{Connection, ConnectionId, Process, Record, Side};
use sockscope_trace::{Bundle, BundleWriter, Error, Meta, SizeLimit, check};

const MIN: u64 = 352 << 10;

fn size(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).unwrap().flatten();
    files.map(|file| file.metadata().unwrap().len()).sum()
}

fn writer(folder: &Folder, bytes: u64) -> BundleWriter {
    let mut writer = BundleWriter::create(folder.bundle(), meta()).unwrap();
    writer.limit(SizeLimit::new(bytes, &meta()).unwrap());
    writer
}

#[derive(Debug, Clone)]
enum Step {
    Records(u64),
    Open(Vec<String>),
    Close(u32),
    Complete(u32),
    Flush,
    Meta(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_u64..4_000).prop_map(Step::Records),
        3 => prop::collection::vec("[a-zé]{0,15}", 0..6).prop_map(Step::Open),
        2 => (0_u32..200).prop_map(Step::Close),
        1 => (0_u32..200).prop_map(Step::Complete),
        2 => Just(Step::Flush),
        1 => (0_usize..50_000).prop_map(Step::Meta),
    ]
}

/// Every connection has the longest addresses that there are.
fn opened(id: u32, names: &[String]) -> Connection {
    let address = "[1111:2222:3333:4444:5555:6666:7777:8888]:65535".parse().unwrap();
    let process = |comm: &String| Process::new(u32::MAX, comm.as_str(), Side::Client);
    Connection {
        client: address,
        server: address,
        processes: names.iter().map(process).collect(),
        ..connection(id)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_order_of_writes_exceeds_the_limit(
        steps in prop::collection::vec(step(), 1..150),
        bytes in MIN..1 << 20,
        by_thread in any::<bool>(),
    ) {
        let folder = Folder::new();
        let mut writer = writer(&folder, bytes);
        if by_thread {
            writer.write_by_thread().unwrap();
        }
        let mut rows = vec![connection(1)];
        writer.connection(&rows[0]).unwrap();
        let mut appended = 0;
        for step in steps {
            let was_full = writer.is_full();
            let before = writer.records();
            match step {
                Step::Records(count) => {
                    writer.append(&records(count)).unwrap();
                    appended += count;
                }
                Step::Open(names) => {
                    let row = opened(1 + rows.len() as u32, &names);
                    writer.connection(&row).unwrap();
                    rows.push(row);
                }
                Step::Close(at) => {
                    if let Some(row) = rows.get_mut(at as usize) {
                        row.closed_ns = Some(9);
                        writer.connection(row).unwrap();
                    }
                }
                Step::Complete(at) => {
                    if let Some(row) = rows.get(at as usize) {
                        writer.complete(row.id);
                    }
                }
                Step::Flush => writer.flush().unwrap(),
                Step::Meta(length) => {
                    let notes = vec!["n".repeat(length)];
                    writer.update_meta(&Meta { notes, ..meta() }).unwrap();
                }
            }
            prop_assert!(!was_full || writer.records() == before, "taken behind a gap");
            prop_assert!(size(&folder.bundle()) <= bytes);
        }
        let (is_full, taken) = (writer.is_full(), writer.records());
        prop_assert!(is_full || taken == appended);
        writer.finish(meta()).unwrap();
        prop_assert!(size(&folder.bundle()) <= bytes);
        prop_assert_eq!(check(folder.bundle()).unwrap().problems, []);
    }
}

fn rows_of(folder: &Folder) -> Vec<Connection> {
    Bundle::open(folder.bundle()).unwrap().connections().to_vec()
}

#[test]
fn the_limit_is_used_up_to_what_is_reserved() {
    let folder = Folder::new();
    let bytes = 4 << 20;
    let mut writer = writer(&folder, bytes);
    let some: Vec<Record> = records(1_000);
    while !writer.is_full() {
        writer.append(&some).unwrap();
    }
    writer.finish(meta()).unwrap();
    let used = size(&folder.bundle());
    assert!(used <= bytes && used > bytes - (384 << 10), "{used} of {bytes} bytes");
}

#[test]
fn a_connection_that_is_in_the_bundle_ends_in_it_though_the_bundle_is_full() {
    let folder = Folder::new();
    let mut writer = writer(&folder, MIN);
    let known = connection(1);
    writer.connection(&known).unwrap();
    writer.append(&records(100_000)).unwrap();
    assert!(writer.is_full());
    writer.connection(&connection(2)).unwrap();
    writer.connection(&Connection { closed_ns: Some(77), ..known }).unwrap();
    writer.finish(meta()).unwrap();
    let rows: Vec<_> = rows_of(&folder).iter().map(|row| (row.id.0, row.closed_ns)).collect();
    assert_eq!(rows, [(1, Some(77))]);
}

/// Most half-open connections give way to others, and no row says when they ended.
#[test]
fn a_connection_of_which_nothing_more_follows_keeps_no_room() {
    let rows = |is_complete: bool| {
        let folder = Folder::new();
        let mut writer = writer(&folder, 1 << 20);
        let mut id = 0;
        while !writer.is_full() {
            id += 1;
            writer.connection(&connection(id)).unwrap();
            if is_complete {
                writer.complete(ConnectionId(id));
            }
        }
        writer.finish(meta()).unwrap();
        rows_of(&folder).len()
    };
    let (open, complete) = (rows(false), rows(true));
    assert!(
        complete > open * 3 / 2,
        "{complete} rows of complete connections, {open} of open ones"
    );
}

#[test]
fn a_limit_that_no_bundle_fits_into_is_refused() {
    let least = |meta: &Meta| match SizeLimit::new(1, meta) {
        Err(Error::TooSmall { least, .. }) => least,
        other => panic!("{other:?}"),
    };
    let command = vec!["x".repeat(1 << 20)];
    let [short, long] = [meta(), Meta { command, ..meta() }].map(|meta| {
        let least = least(&meta);
        assert!(SizeLimit::new(least, &meta).is_ok() && SizeLimit::new(least - 1, &meta).is_err());
        least
    });
    assert_eq!(short, MIN);
    assert!(long > 2 << 20, "{long}");
}

#[test]
fn a_description_that_outgrows_the_limit_is_not_written() {
    let folder = Folder::new();
    let mut writer = writer(&folder, MIN);
    let notes = vec!["n".repeat(1 << 20)];
    let error = writer.update_meta(&Meta { notes, ..meta() }).unwrap_err().to_string();
    assert!(error.contains("meta.json: ") && error.contains("more than the size limit"), "{error}");
    assert!(size(&folder.bundle()) < MIN);
}
