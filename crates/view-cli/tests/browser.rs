//! The page in a real browser: the tests of `tests/browser`, which node runs and Debian's Chromium shows.
//!
//! Where one of them is missing the test counts as skipped, and says which command installs it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What playwright-core runs on.
const NODE_MIN: u32 = 20;

/// The folder of the tests.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser")
}

/// What is missing for the browser; `None` where all is there.
fn missing() -> Option<String> {
    let has = |path: &str| Path::new(path).exists();
    if !has("/usr/bin/chromium") && !has("/usr/bin/chromium-browser") {
        return Some("no Chromium: `make setup` installs it".to_owned());
    }
    if !folder().join("node_modules/playwright-core").exists() {
        return Some("no playwright-core: `make setup` installs it".to_owned());
    }
    let Ok(node) = Command::new("node").arg("--version").output() else {
        return Some("no node: `make setup` installs it".to_owned());
    };
    let version = String::from_utf8_lossy(&node.stdout).trim().to_owned();
    let major = version.trim_start_matches('v').split('.').next().and_then(|it| it.parse().ok());
    let is_old = major.is_none_or(|major: u32| major < NODE_MIN);
    is_old.then(|| format!("node is {version}, and playwright-core needs {NODE_MIN} or later"))
}

/// Runs one file of tests, unless the browser is missing.
fn run(test: &str, file: &str, variables: &[(&str, &str)]) {
    if let Some(reason) = missing() {
        let required = std::env::var("SOCKSCOPE_BROWSER").is_ok_and(|wish| wish == "1");
        assert!(!required, "{reason}");
        // Of a test that passes libtest shows what is written past its capture.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
        return;
    }
    let output = Command::new("node")
        .args(["--test", "--test-reporter=tap", file])
        .current_dir(folder())
        .env("SOCKSCOPE_VIEW", env!("CARGO_BIN_EXE_sockscope-view"))
        .envs(variables.iter().copied())
        .output()
        .expect("node");
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{wrong}");
    assert!(said.contains("\n# fail 0\n") && !said.contains("\n# pass 0\n"), "{said}{wrong}");
}

#[test]
fn a_page_of_two_traces_works_in_a_browser() {
    run("a_page_of_two_traces_works_in_a_browser", "page.test.js", &[]);
}

#[test]
fn a_report_in_one_file_works_with_the_network_cut_off() {
    run("a_report_in_one_file_works_with_the_network_cut_off", "report.test.js", &[]);
}

#[test]
fn root_a_page_follows_a_recording_in_a_browser() {
    let test = "root_a_page_follows_a_recording_in_a_browser";
    if let Some(right) = sockscope_probe::missing_right() {
        let reason = sockscope_probe::Error::NoRight { right }.to_string();
        let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
        assert!(!required, "{reason}");
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
        return;
    }
    run(test, "running.test.js", &[]);
}
