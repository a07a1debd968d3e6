//! `sockscope-view plot`: a figure of pixels is drawn by the laboratory's program.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

/// A recorded trace.
const BUNDLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/bundles/v2/calls.sockscope");

/// Draws a figure with the program in `folder`, where it is alone or has the laboratory's program next to it.
fn plot(folder: &Path, output: &str) -> Output {
    let mut command = Command::new(folder.join("sockscope-view"));
    command.args(["plot", BUNDLE, "--figure", "acks", "-o", output]).env("PATH", "/bin:/usr/bin");
    command.output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_figure_of_pixels_is_drawn_by_the_laboratory() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    // By processes of their own: a file that this one has open for writing is busy for what a parallel test starts.
    let copied =
        Command::new("cp").arg(env!("CARGO_BIN_EXE_sockscope-view")).arg(folder.path()).status();
    assert!(copied.expect("cp is part of coreutils").success());
    let output = plot(folder.path(), "/nowhere/acks.png");
    let said = text(&output.stderr);
    // Before its last line the program says what the bundle notes.
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(output.status.code(), Some(2));
    let needs = "sockscope: `plot -o NAME.png` needs the program sockscope-lab";
    assert!(last.starts_with(needs), "{said}");

    let script = "#!/bin/sh\nhead -c 4; printf ' %s' \"$@\"\n";
    let made = Command::new("/bin/sh")
        .args(["-c", "printf %s \"$1\" > \"$0\"; chmod 755 \"$0\""])
        .args([folder.path().join("sockscope-lab").as_os_str(), script.as_ref()])
        .status();
    assert_eq!(made.expect("sh").into_raw(), 0);
    let output = plot(folder.path(), "/nowhere/acks.PNG");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "<svg lab png - --output=/nowhere/acks.PNG");
    let svg = text(&plot(folder.path(), "-").stdout);
    assert!(svg.starts_with("<svg xmlns"), "{svg}");
}
