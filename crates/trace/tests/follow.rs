//! A bundle read while it is written.

mod common;

use std::fs::File;
use std::io::Write;

use common::{Folder, connection, meta, records};
use sockscope_record::Record;
use sockscope_trace::{BundleWriter, Follower, Part};

/// All that is new.
fn poll(follower: &mut Follower) -> Vec<Record> {
    let mut new = Vec::new();
    while let Some(batch) = follower.poll().unwrap() {
        assert!(!batch.is_empty());
        new.extend_from_slice(batch);
    }
    new
}

#[test]
fn each_batch_is_seen_once_when_it_is_whole() {
    let folder = Folder::new();
    let all = records(50);
    let mut writer = BundleWriter::create(folder.bundle(), meta()).unwrap();
    let mut follower = Follower::open(folder.bundle()).unwrap();
    assert_eq!(poll(&mut follower), []);

    writer.append(&all[..20]).unwrap();
    assert_eq!(poll(&mut follower), [], "held back by the writer");
    writer.flush().unwrap();
    assert_eq!(poll(&mut follower), all[..20]);
    assert_eq!(poll(&mut follower), []);
    assert!(!follower.is_complete());

    writer.append(&all[20..]).unwrap();
    writer.finish(meta()).unwrap();
    assert_eq!(poll(&mut follower), all[20..]);
    assert!(follower.is_complete());
    assert_eq!(follower.problems(), []);
}

#[test]
fn connections_are_known_before_their_records() {
    let folder = Folder::new();
    let mut writer = BundleWriter::create(folder.bundle(), meta()).unwrap();
    let mut follower = Follower::open(folder.bundle()).unwrap();
    assert_eq!(follower.poll().unwrap(), None);
    writer.connection(&connection(1)).unwrap();
    writer.append(&records(3)).unwrap();
    writer.flush().unwrap();
    assert_eq!(follower.poll().unwrap(), Some(&records(3)[..]));
    assert_eq!(follower.connections().values().collect::<Vec<_>>(), [&connection(1)]);
}

#[test]
fn a_batch_that_arrives_byte_by_byte_is_given_when_its_last_byte_is_there() {
    let (source, target) = (Folder::new(), Folder::new());
    common::write(&source.bundle(), &[&records(4), &records(6)], &[]);
    let whole = common::bytes(&source.bundle(), Part::Records);
    std::fs::create_dir(target.bundle()).unwrap();
    let mut follower = Follower::open(target.bundle()).unwrap();
    let mut sizes = Vec::new();
    let mut file = File::create(target.bundle().join(Part::Records.file_name())).unwrap();
    for byte in whole {
        file.write_all(&[byte]).unwrap();
        sizes.extend(follower.poll().unwrap().map(<[Record]>::len));
    }
    assert_eq!(sizes, [4, 6]);
}

#[test]
fn a_folder_that_is_not_there_yet_is_waited_for() {
    let folder = Folder::new();
    let mut follower = Follower::open(folder.bundle()).unwrap();
    assert_eq!(follower.poll().unwrap(), None);
    assert_eq!(follower.problems().len(), 3);
    common::write(&folder.bundle(), &[&records(2)], &[]);
    assert_eq!(poll(&mut follower), records(2));
    assert!(follower.is_complete());
}

#[test]
fn meta_is_read_again_as_it_changes() {
    let folder = Folder::new();
    let mut writer = BundleWriter::create(folder.bundle(), meta()).unwrap();
    let mut follower = Follower::open(folder.bundle()).unwrap();
    let mut changed = meta();
    changed.loss.events = 3;
    writer.update_meta(&changed).unwrap();
    assert_eq!(follower.poll().unwrap(), None);
    assert_eq!(follower.meta().map(|meta| (meta.loss.events, meta.complete)), Some((3, false)));
}
