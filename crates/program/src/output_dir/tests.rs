//! Two bundles of a name, and all that is not one.

use super::*;

/// Writes an empty bundle of the host `host` into `dir`.
fn write(dir: &Path, host: &str) -> Result<(), Failure> {
    let meta = Meta { host: host.to_owned(), ..Meta::default() };
    let (writer, _lock) = OutputDir::find(dir, &[])?.create(meta.clone())?;
    Ok(writer.finish(meta)?)
}

fn host(dir: &Path) -> String {
    sockscope_trace::Bundle::open(dir).unwrap().meta().host.clone()
}

fn refusal(dir: &Path, sources: &[&Path]) -> String {
    let line = OutputDir::find(dir, sources).unwrap_err().to_string();
    line.replace(&format!("{}/", dir.parent().unwrap().display()), "")
}

#[test]
fn the_bundle_before_is_kept_and_the_one_before_that_is_not() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("t");
    for host in ["first", "second", "third"] {
        write(&dir, host).unwrap();
    }
    assert_eq!((host(&dir), host(&root.path().join("t.old"))), ("third".into(), "second".into()));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
}

/// The names in a folder, in order.
fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_folder_with_other_files_does_not_give_way_nor_does_one_that_was_kept() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("t");
    let line = |name: &str| {
        format!(
            "{name}: has another file than a trace bundle's, figure.svg: move it away or choose \
             another name"
        )
    };
    write(&dir, "first").unwrap();
    fs::write(dir.join("figure.svg"), "drawn").unwrap();
    assert_eq!(refusal(&dir, &[]), line("t"));
    fs::remove_file(dir.join("figure.svg")).unwrap();
    write(&dir, "second").unwrap();
    fs::write(root.path().join("t.old/figure.svg"), "drawn").unwrap();
    assert_eq!(refusal(&dir, &[]), line("t.old"));
    assert!(root.path().join("t.old/figure.svg").exists() && host(&dir) == "second");
}

#[test]
fn one_file_named_as_a_bundles_does_not_make_a_bundle_of_a_folder_of_ones_own() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("work");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("records.arrows"), "x").unwrap();
    fs::write(dir.join("thesis.tex"), "long").unwrap();
    assert!(write(&dir, "first").is_err());
    assert_eq!(names(&dir), ["records.arrows", "thesis.tex"]);
    assert_eq!(names(root.path()), ["work"]);
}

#[test]
fn a_file_of_ones_own_that_has_a_bundles_name_is_no_bundle() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("work");
    fs::create_dir(&dir).unwrap();
    let records = dir.join("records.arrows");
    fs::write(&records, "mine").unwrap();
    let refused = "work: not empty and not a trace bundle: left as it is, choose another name";
    assert_eq!(refusal(&dir, &[]), refused);
    assert_eq!(BundleWriter::create(&dir, Meta::default()).err().map(|_| ()), Some(()));
    assert_eq!(
        (names(&dir), fs::read(&records).unwrap()),
        (vec!["records.arrows".into()], b"mine".to_vec())
    );
    assert!(check_output(&records).is_ok());
}

/// An empty file and a word that other formats have too.
#[test]
fn files_of_ones_own_beside_are_not_vouched_for() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("work");
    fs::create_dir(&dir).unwrap();
    let cases = [
        ("", "meta.json", r#"{"mine":1}"#),
        ("", "flows.arrows", "mine"),
        ("mine", "meta.json", r#"{"format_version": 3, "map": "my game"}"#),
        ("mine", "meta.json", ""),
    ];
    for (records, name, mine) in cases {
        fs::write(dir.join("records.arrows"), records).unwrap();
        fs::write(dir.join(name), mine).unwrap();
        assert!(write(&dir, "first").is_err(), "{records:?} {name} {mine}");
        assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), mine);
        fs::remove_file(dir.join(name)).unwrap();
    }
}

/// Such a bundle is identified by its other files; the rest from a full disk, by being empty.
#[test]
fn a_bundle_whose_records_are_damaged_or_empty_still_gives_way() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("t");
    for left in ["damaged", ""] {
        write(&dir, "first").unwrap();
        fs::write(dir.join("records.arrows"), left).unwrap();
        write(&dir, "second").unwrap();
        assert_eq!(host(&dir), "second");
    }
    fs::remove_file(dir.join("meta.json")).unwrap();
    fs::remove_file(dir.join("flows.arrows")).unwrap();
    fs::write(dir.join("records.arrows"), "").unwrap();
    write(&dir, "third").unwrap();
    assert_eq!(host(&dir), "third");
}

#[test]
fn what_a_kill_leaves_of_a_write_is_part_of_the_bundle() {
    let root = tempfile::tempdir().unwrap();
    let [dir, old] = ["t", "t.old"].map(|name| root.path().join(name));
    write(&dir, "first").unwrap();
    fs::write(dir.join(".meta.json.new"), "{").unwrap();
    write(&dir, "second").unwrap();
    assert_eq!((host(&dir), host(&old)), ("second".into(), "first".into()));
    write(&dir, "third").unwrap();
    assert_eq!((host(&dir), host(&old)), ("third".into(), "second".into()));
    assert_eq!(names(root.path()), ["t", "t.old"]);
}

#[test]
fn what_is_no_bundle_stays_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("t");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("mine"), "").unwrap();
    assert_eq!(
        refusal(&dir, &[]),
        "t: not empty and not a trace bundle: left as it is, choose another name"
    );
    fs::remove_file(dir.join("mine")).unwrap();
    write(&dir, "into an empty folder").unwrap();
    fs::write(root.path().join("t.old"), "mine").unwrap();
    assert_eq!(refusal(&dir, &[]), "t.old: not a trace bundle: left as it is, choose another name");
    let file = root.path().join("t.old");
    assert_eq!(refusal(&file, &[]), "cannot write t.old: t.old is a file: choose another name");
    assert!(OutputDir::find(&file.join("below"), &[]).is_err());
}

#[test]
fn a_bundle_that_is_read_or_being_written_is_not_replaced() {
    let root = tempfile::tempdir().unwrap();
    let [dir, old] = ["t", "t.old"].map(|name| root.path().join(name));
    write(&dir, "first").unwrap();
    write(&dir, "second").unwrap();
    for source in [&dir, &old] {
        assert!(
            refusal(&dir, &[source])
                .ends_with("would be read and replaced at once: choose another folder")
        );
    }
    let written = OutputDir::find(&dir, &[]).unwrap().create(Meta::default()).unwrap();
    assert_eq!(refusal(&dir, &[]), BEING_WRITTEN);
    drop(written);
    assert!(OutputDir::find(&dir, &[]).is_ok());
}

#[test]
fn a_figure_does_not_replace_a_bundles_own_file() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("t");
    write(&dir, "first").unwrap();
    assert!(check_output(&dir.join("records.arrows")).is_err());
    std::os::unix::fs::symlink(dir.join("meta.json"), root.path().join("m")).unwrap();
    assert!(check_output(&root.path().join("m")).is_err());
    fs::write(root.path().join("meta.json"), "").unwrap();
    for free in ["meta.json", "t/figure.svg", "new.svg"] {
        assert!(check_output(&root.path().join(free)).is_ok(), "{free}");
    }
}

const BEING_WRITTEN: &str =
    "t: being written by another sockscope: left as it is, choose another name";

/// Why nothing was begun at `output`, which lies in `root`.
fn lost(output: OutputDir, root: &Path) -> String {
    let line = output.create(Meta::default()).err().unwrap().to_string();
    line.replace(&format!("{}/", root.display()), "")
}

#[test]
fn of_two_that_start_at_once_where_nothing_was_one_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("t");
    let [first, second] = [(); 2].map(|()| OutputDir::find(&dir, &[]).unwrap());
    let meta = Meta { host: "first".to_owned(), ..Meta::default() };
    let (writer, _lock) = first.create(meta.clone()).unwrap();
    assert_eq!(lost(second, root.path()), BEING_WRITTEN);
    writer.finish(meta).unwrap();
    assert_eq!((host(&dir), names(root.path())), ("first".into(), vec!["t".into()]));
}

#[test]
fn the_first_to_look_at_an_older_bundle_is_the_one_to_replace_it() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("t");
    write(&dir, "older").unwrap();
    let first = OutputDir::find(&dir, &[]).unwrap();
    assert_eq!(refusal(&dir, &[]), BEING_WRITTEN);
    let _written = first.create(Meta::default()).unwrap();
    assert_eq!(refusal(&dir, &[]), BEING_WRITTEN);
    assert_eq!(host(&root.path().join("t.old")), "older");
}

#[test]
fn many_at_once_leave_whole_bundles_and_lines_that_say_why() {
    let root = tempfile::tempdir().unwrap();
    let [dir, old] = ["t", "t.old"].map(|name| root.path().join(name));
    write(&dir, "older").unwrap();
    let one = || {
        let tries = (0..50).filter_map(|_| write(&dir, "new").err());
        tries.map(|error| error.to_string()).collect::<Vec<String>>()
    };
    let said = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(one));
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    let expected = |line: &&String| !line.ends_with(&BEING_WRITTEN[1..]);
    assert_eq!(said.iter().find(expected), None);
    assert_eq!((host(&dir), host(&old)), ("new".into(), "new".into()));
    assert_eq!(names(root.path()), ["t", "t.old"]);
}

#[test]
fn the_bundle_behind_a_symbolic_link_is_kept_beside_itself() {
    let root = tempfile::tempdir().unwrap();
    let [real, link, other] = ["real", "l", "l.old"].map(|name| root.path().join(name));
    write(&real, "first").unwrap();
    write(&other, "other").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    write(&root.path().join("l/"), "second").unwrap();
    let kept = root.path().join("real.old");
    assert_eq!([&real, &kept, &other].map(|dir| host(dir)), ["second", "first", "other"]);
}

#[test]
fn a_bundle_that_cannot_be_renamed_costs_the_kept_one_nothing() {
    let root = tempfile::tempdir().unwrap();
    let [dir, old] = ["t", "t.old"].map(|name| root.path().join(name));
    write(&dir, "first").unwrap();
    write(&dir, "second").unwrap();
    let backup = Backup::find(&dir).unwrap();
    fs::rename(&dir, root.path().join("gone")).unwrap();
    assert!(backup.take(&dir).is_err());
    assert_eq!(
        (host(&old), names(root.path())),
        ("first".into(), vec!["gone".into(), "t.old".into()])
    );
}

#[test]
fn a_mount_point_is_named_as_the_reason() {
    let said = cannot_keep(Path::new("m"), Path::new("m.old"), &Errno::BUSY.into()).to_string();
    assert_eq!(
        said,
        "m: cannot be renamed to m.old: left as it is, choose a folder that is no mount point"
    );
}

#[test]
fn what_a_kill_leaves_of_a_removal_goes_with_the_next() {
    let root = tempfile::tempdir().unwrap();
    let [dir, old] = ["t", "t.old"].map(|name| root.path().join(name));
    write(&dir, "first").unwrap();
    write(&root.path().join("t.old.removed"), "before").unwrap();
    write(&dir, "second").unwrap();
    assert_eq!((host(&dir), host(&old)), ("second".into(), "first".into()));
    assert_eq!(names(root.path()), ["t", "t.old"]);
}

#[test]
fn only_the_last_folder_is_made_and_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("no/such/t");
    let said = OutputDir::find(&dir, &[]).unwrap_err().to_string();
    let above = root.path().join("no/such");
    assert_eq!(
        said,
        format!("cannot write {}: there is no folder {}", dir.display(), above.display())
    );
    assert_eq!(names(root.path()), Vec::<String>::new());
    write(&root.path().join("t"), "first").unwrap();
    let mode = fs::metadata(root.path().join("t")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
}

#[test]
fn root_a_folder_of_another_user_does_not_give_way() {
    let root = tempfile::tempdir().unwrap();
    let [dir, old, link] = ["t", "t.old", "l"].map(|name| root.path().join(name));
    let owned =
        "belongs to user 65534: a trace goes into your own folders only, choose another name";
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::chown(&dir, Some(65_534), None).unwrap();
    assert_eq!(refusal(&dir, &[]), format!("t: {owned}"));
    fs::remove_dir(&dir).unwrap();
    // Nor one that was kept.
    write(&dir, "first").unwrap();
    write(&dir, "second").unwrap();
    std::os::unix::fs::chown(&old, Some(65_534), None).unwrap();
    assert_eq!(refusal(&dir, &[]), format!("t.old: {owned}"));
    // Nor the target of a link of theirs.
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
    assert_eq!(
        refusal(&link, &[]),
        "l: a symbolic link of user 65534: left as it is, choose another name"
    );
}

#[test]
fn root_an_output_does_not_follow_a_link_of_another_user() {
    let root = tempfile::tempdir().unwrap();
    let [victim, link] = ["victim", "figure.svg"].map(|name| root.path().join(name));
    fs::write(&victim, "keep").unwrap();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    assert!(create_output(&link).is_ok(), "a link of one's own is one's own choice");
    fs::write(&victim, "keep").unwrap();
    std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
    let said = create_output(&link).unwrap_err().to_string();
    assert!(said.ends_with(
        "figure.svg: a symbolic link of user 65534: left as it is, choose another name"
    ));
    assert_eq!(fs::read(&victim).unwrap(), b"keep");
}
