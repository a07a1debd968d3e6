//! Whose folder a bundle is written into, and what may be part of one.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::Duration;

use common::{Folder, connection, meta, records, write};
use rustix::fs::{CWD, Mode, mkfifoat};
use sockscope_trace::{Bundle, BundleWriter, Error, Follower, Part, is_bundle};

/// How often something is tried that another thread should not be stuck in.
const WAITS: u32 = 500;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn refusal(dir: &Path) -> String {
    let error = BundleWriter::create(dir, meta()).err().expect("refused");
    error.to_string().replace(&format!("{}/", dir.parent().unwrap().display()), "")
}

#[test]
fn a_bundle_is_for_its_owner_alone() {
    let folder = Folder::new();
    write(&folder.bundle(), &[&records(3)], &[connection(1)]);
    assert_eq!(mode(&folder.bundle()), 0o700);
    for part in Part::ALL {
        assert_eq!(mode(&folder.bundle().join(part.file_name())), 0o600, "{part}");
    }
}

#[test]
fn the_description_is_not_written_through_a_link() {
    let folder = Folder::new();
    let victim = folder.named("victim");
    fs::write(&victim, "keep").unwrap();
    let mut writer = BundleWriter::create(folder.bundle(), meta()).unwrap();
    symlink(&victim, folder.bundle().join(".meta.json.new")).unwrap();
    writer.update_meta(&meta()).unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"keep");
    writer.finish(meta()).unwrap();
    assert_eq!(mode(&folder.bundle().join("meta.json")), 0o600);
    assert!(Bundle::open(folder.bundle()).unwrap().meta().complete);
}

#[test]
fn a_folder_into_which_others_can_write_is_refused() {
    let folder = Folder::new();
    fs::create_dir(folder.bundle()).unwrap();
    for mode in [0o777, 0o1777, 0o775, 0o702] {
        fs::set_permissions(folder.bundle(), Permissions::from_mode(mode)).unwrap();
        let expected = "a.sockscope: others can write into this folder: take that right from them \
                        (chmod go-w), or choose another name";
        assert_eq!(refusal(&folder.bundle()), expected, "{mode:o}");
    }
    fs::set_permissions(folder.bundle(), Permissions::from_mode(0o755)).unwrap();
    write(&folder.bundle(), &[&records(3)], &[]);
}

#[test]
fn root_a_folder_of_another_user_is_refused() {
    let folder = Folder::new();
    fs::create_dir(folder.bundle()).unwrap();
    chown(folder.bundle(), Some(65_534), None).unwrap();
    let expected = "a.sockscope: belongs to user 65534: a trace goes into your own folders only, \
                    choose another name";
    assert_eq!(refusal(&folder.bundle()), expected);
    assert_eq!(fs::read_dir(folder.bundle()).unwrap().count(), 0);
}

#[test]
fn a_link_in_place_of_the_folder_is_not_followed() {
    let folder = Folder::new();
    fs::create_dir(folder.named("b")).unwrap();
    symlink(folder.named("b"), folder.bundle()).unwrap();
    assert!(refusal(&folder.bundle()).starts_with("a.sockscope: "));
    assert_eq!(fs::read_dir(folder.named("b")).unwrap().count(), 0);
}

#[test]
fn a_folder_that_is_removed_or_exchanged_meanwhile_is_an_error() {
    let exchanges: [fn(&Folder); 4] = [
        |folder| fs::remove_dir_all(folder.bundle()).unwrap(),
        |folder| {
            fs::remove_dir_all(folder.bundle()).unwrap();
            fs::create_dir(folder.bundle()).unwrap();
        },
        |folder| {
            fs::rename(folder.bundle(), folder.named("b")).unwrap();
            write(&folder.bundle(), &[], &[]);
        },
        |folder| fs::remove_file(folder.bundle().join("records.arrows")).unwrap(),
    ];
    for exchange in exchanges {
        let folder = Folder::new();
        let mut writer = BundleWriter::create(folder.bundle(), meta()).unwrap();
        writer.append(&records(5)).unwrap();
        exchange(&folder);
        let updated = writer.update_meta(&meta());
        let finished = writer.finish(meta());
        for error in [updated.unwrap_err(), finished.unwrap_err()] {
            assert!(matches!(error, Error::Exchanged { .. }), "{error}");
        }
    }
}

/// Bytes that somebody else's folder gets would be the recording's.
#[test]
fn nothing_is_written_into_the_folder_that_took_the_name() {
    let folder = Folder::new();
    let mut writer = BundleWriter::create(folder.bundle(), meta()).unwrap();
    fs::rename(folder.bundle(), folder.named("b")).unwrap();
    fs::create_dir(folder.bundle()).unwrap();
    writer.append(&records(5)).unwrap();
    writer.flush().unwrap();
    assert!(writer.finish(meta()).is_err());
    assert_eq!(fs::read_dir(folder.bundle()).unwrap().count(), 0);
    assert_eq!(common::read(&folder.named("b")).0, records(5));
}

/// Opening a pipe without a writer would wait for ever.
#[test]
fn a_pipe_or_a_device_as_a_part_is_refused_without_waiting() {
    let folder = Folder::new();
    let tries = Part::ALL.map(|part| {
        let dir = folder.named(part.file_name());
        write(&dir, &[&records(3)], &[]);
        let path = dir.join(part.file_name());
        fs::remove_file(&path).unwrap();
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        std::thread::spawn(move || {
            let opened = Bundle::open(&dir).map(drop);
            assert!(matches!(opened, Err(Error::NotAFile { .. })), "{opened:?}");
            let mut follower = Follower::open(&dir);
            let followed = follower.as_mut().map(|follower| follower.poll().map(drop));
            assert!(!matches!(followed, Ok(Ok(()))), "{followed:?}");
            assert!(!is_bundle(&dir) || part != Part::Records);
        })
    });
    for attempt in tries {
        for _ in 0..WAITS {
            if attempt.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(attempt.is_finished(), "it waits for the pipe");
        attempt.join().unwrap();
    }
}

#[test]
fn a_link_or_a_folder_as_a_part_is_refused() {
    for part in Part::ALL {
        let folder = Folder::new();
        write(&folder.bundle(), &[&records(3)], &[]);
        let path = folder.bundle().join(part.file_name());
        for target in ["/dev/zero", "/dev/null", "/etc/passwd"] {
            fs::remove_file(&path).unwrap();
            symlink(target, &path).unwrap();
            let opened = Bundle::open(folder.bundle()).map(drop);
            assert!(matches!(opened, Err(Error::NotAFile { .. })), "{part} {target}: {opened:?}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let opened = Bundle::open(folder.bundle()).map(drop);
        let line = opened.unwrap_err().to_string();
        assert!(line.ends_with("no link, pipe or device is part of a trace bundle"), "{line}");
    }
}
