//! What is written is read, whatever it is and however it was batched.

mod common;

use std::fs;

use common::{Folder, connection, meta, read, records, write};
use std::sync::Arc;

use proptest::prelude::*;
use sockscope_record::{
    Connection, ConnectionId, Container, ControlGroup, FlowId, Kind, Pod, Process, Protocol,
    Record, Side,
};
use sockscope_trace::{BATCH_RECORDS, Bundle, BundleWriter, Error, Meta};

#[test]
fn a_finished_bundle_gives_back_all_it_was_given() {
    let folder = Folder::new();
    let all = records(100);
    write(&folder.bundle(), &[&all[..60], &all[60..]], &[connection(1)]);
    assert_eq!(read(&folder.bundle()), (all, vec![]));
    let bundle = Bundle::open(folder.bundle()).unwrap();
    assert_eq!(bundle.connections(), [connection(1)]);
    assert_eq!(*bundle.meta(), Meta { complete: true, records: 100, ..meta() });
}

#[test]
fn an_empty_bundle_opens_without_a_problem() {
    let folder = Folder::new();
    write(&folder.bundle(), &[], &[]);
    assert_eq!(read(&folder.bundle()), (vec![], vec![]));
}

#[test]
fn batches_are_full_however_the_records_arrive() {
    let folder = Folder::new();
    let all = records(2 * BATCH_RECORDS as u64 + 10);
    let mut writer = BundleWriter::create(folder.bundle(), meta()).unwrap();
    all.chunks(1000).for_each(|chunk| writer.append(chunk).unwrap());
    assert_eq!(writer.records(), all.len() as u64);
    writer.finish(meta()).unwrap();
    let mut reader = Bundle::open(folder.bundle()).unwrap().records().unwrap();
    let mut sizes = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        sizes.push(batch.len());
    }
    assert_eq!(sizes, [0, BATCH_RECORDS, BATCH_RECORDS, 10, 0]);
    assert_eq!(read(&folder.bundle()).0, all);
}

#[test]
fn a_later_row_of_a_connection_replaces_the_earlier() {
    let folder = Folder::new();
    let closed = Connection { closed_ns: Some(99), processes: vec![], ..connection(1) };
    write(&folder.bundle(), &[], &[connection(1), connection(2), closed.clone()]);
    let bundle = Bundle::open(folder.bundle()).unwrap();
    assert_eq!(bundle.connections(), [closed, connection(2)]);
}

#[test]
fn an_old_bundle_is_replaced_and_its_other_files_stay() {
    let folder = Folder::new();
    write(&folder.bundle(), &[&records(9)], &[connection(1)]);
    fs::write(folder.bundle().join("my-notes.txt"), "keep").unwrap();
    write(&folder.bundle(), &[&records(3)], &[]);
    assert_eq!(read(&folder.bundle()), (records(3), vec![]));
    assert!(folder.bundle().join("my-notes.txt").exists());
}

#[test]
fn a_folder_that_is_no_bundle_is_left_as_it_is() {
    let folder = Folder::new();
    fs::create_dir(folder.bundle()).unwrap();
    fs::write(folder.bundle().join("meta.json"), "mine").unwrap();
    let refused = BundleWriter::create(folder.bundle(), meta());
    assert!(matches!(refused, Err(Error::NotOverwritten { .. })));
    assert_eq!(fs::read(folder.bundle().join("meta.json")).unwrap(), b"mine");
}

#[test]
fn nothing_there_is_not_a_bundle() {
    let folder = Folder::new();
    let open = || Bundle::open(folder.bundle());
    assert!(matches!(open(), Err(Error::NotThere { .. })));
    fs::create_dir_all(folder.bundle()).unwrap();
    assert!(matches!(open(), Err(Error::NotABundle { .. })));
    fs::remove_dir(folder.bundle()).unwrap();
    fs::write(folder.bundle(), "").unwrap();
    assert!(matches!(open(), Err(Error::NotAFolder { .. })));
}

#[test]
fn a_link_that_leads_nowhere_is_not_called_missing() {
    let folder = Folder::new();
    fs::create_dir_all(folder.bundle()).unwrap();
    std::os::unix::fs::symlink("meta.json", folder.bundle().join("meta.json")).unwrap();
    let refused = Bundle::open(folder.bundle());
    assert!(matches!(refused, Err(Error::NotAFile { .. })), "{:?}", refused.err());
}

fn any_record() -> impl Strategy<Value = Record> {
    let kind = (0..Kind::ALL.len()).prop_map(|index| Kind::ALL[index]);
    let long = (any::<u64>(), any::<u64>(), any::<u64>());
    let middle = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    let short = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u16>());
    (kind, long, middle, short).prop_map(|(kind, long, middle, short)| Record {
        at_ns: long.0,
        offset: long.1,
        detail: long.2,
        flow: FlowId(middle.0),
        len: middle.1,
        thread: middle.2,
        extra: middle.3,
        kind,
        code: short.0,
        tcp_flags: short.1,
        marks: short.2,
        cpu: short.3,
    })
}

/// An unknown name is `None`, and never an empty one.
fn any_group() -> impl Strategy<Value = ControlGroup> {
    let name = || prop::option::of(".{1,9}");
    let container = (".{1,9}", name()).prop_map(|(id, name)| Container { id, name });
    let pod = (".{1,9}", name(), name());
    let pod = pod.prop_map(|(uid, namespace, name)| Pod { uid, namespace, name });
    let of = prop::option::of(container);
    (".{0,20}", name(), of, prop::option::of(pod))
        .prop_map(|(path, unit, container, pod)| ControlGroup { path, unit, container, pod })
}

fn any_connection() -> impl Strategy<Value = Connection> {
    let side = prop_oneof![Just(Side::Client), Just(Side::Server)];
    let host = prop_oneof![Just(0), any::<u32>()];
    let process = (any::<u32>(), ".{0,15}", side, prop::option::of(any_group()), host);
    let process = process.prop_map(|(pid, comm, side, group, host)| Process {
        group: group.map(Arc::new),
        host,
        ..Process::new(pid, comm, side)
    });
    let address = (any::<std::net::IpAddr>(), any::<u16>()).prop_map(Into::into);
    let ends = (address.clone(), address);
    let marks = (any::<Option<u64>>(), prop::option::of(ends.clone()));
    let times = (any::<u64>(), any::<Option<u64>>());
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (any::<u32>(), ends, times, flags, prop::collection::vec(process, 0..4), marks).prop_map(
        |(id, ends, times, flags, processes, marks)| Connection {
            id: ConnectionId(id),
            protocol: if flags.2 { Protocol::Tcp } else { Protocol::Udp },
            client: ends.0,
            server: ends.1,
            opened_ns: times.0,
            closed_ns: times.1,
            preexisting: flags.0,
            both_ends_here: flags.1,
            processes,
            names: None,
            mark: marks.0,
            elsewhere: marks.1.map(|(client, server)| [client, server]),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_records_in_any_batches(batches in prop::collection::vec(prop::collection::vec(any_record(), 0..20), 0..5)) {
        let folder = Folder::new();
        let slices: Vec<_> = batches.iter().map(Vec::as_slice).collect();
        write(&folder.bundle(), &slices, &[]);
        // Where times run backwards the reader adds losses of unknown size.
        let is_added = |record: &Record| {
            let added = Record { kind: Kind::Loss, at_ns: record.at_ns, offset: record.offset, code: record.code, ..Record::default() };
            *record == added
        };
        let (mut given, problems) = read(&folder.bundle());
        let mut written = batches.concat();
        given.retain(|record| !is_added(record));
        written.retain(|record| !is_added(record));
        prop_assert_eq!((given, problems), (written, vec![]));
    }

    #[test]
    fn any_connections(rows in prop::collection::vec(any_connection(), 0..20)) {
        let folder = Folder::new();
        write(&folder.bundle(), &[], &rows);
        let mut latest = std::collections::BTreeMap::new();
        latest.extend(rows.into_iter().map(|row| (row.id, row)));
        let bundle = Bundle::open(folder.bundle()).unwrap();
        prop_assert_eq!(bundle.problems(), []);
        prop_assert_eq!(bundle.connections(), latest.into_values().collect::<Vec<_>>());
    }
}
