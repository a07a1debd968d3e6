//! `sockscope-view report` on the bundles of the demonstration.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A bundle of the demonstration.
fn bundle(name: &str) -> PathBuf {
    let demo = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../cli/demo");
    demo.join(name).with_extension("sockscope")
}

fn report(name: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-view"));
    command.arg("report").arg(bundle(name)).args(arguments).output().unwrap()
}

fn page(name: &str, arguments: &[&str]) -> String {
    let output = report(name, arguments);
    // In a pipe there is no line of progress.
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn values<'p>(page: &'p str, attribute: &str) -> Vec<&'p str> {
    page.split(attribute).skip(1).filter_map(|it| it.split('"').next()).collect()
}

#[test]
fn a_stall_has_its_verdict_and_evidence_that_leads_to_its_figure() {
    let page = page("two-writes", &["--format", "html"]);
    assert!(page.contains("nagle-delayed-ack costs most"));
    assert!(page.contains("<code class=\"command\">sockscope try nodelay -- CMD</code>"));
    let evidence = values(&page, "<a href=\"#flow-");
    assert!(evidence.len() >= 8 && evidence.iter().all(|flow| *flow == "2"), "{evidence:?}");
    assert!(page.contains("id=\"flow-2-figures\"") && page.contains("data-kind=\"queues\""));
    // The first stall, from the write to the acknowledgment: 41 ms.
    let [from, to] =
        ["data-from=\"", "data-to=\""].map(|it| values(&page, it)[0].parse::<f64>().unwrap());
    assert!((0.03..0.06).contains(&(to - from)), "{from} to {to}");
    // Every flow has its figures here.
    assert!(!page.contains("sockscope plot"));
}

#[test]
fn the_page_of_a_part_has_only_that_part() {
    let page = page("two-writes", &["--flow", "3", "--wall-clock"]);
    assert!(page.contains("id=\"flow-3\"") && !page.contains("id=\"flow-2\""));
    let page = self::page(
        "two-writes",
        &["--from", "0.1", "--to", "0.3", "--finding", "nagle-delayed-ack"],
    );
    assert!(page.contains("nagle-delayed-ack") && !page.contains("<h4>split-message"));
    assert!(page.contains("<dt>shown</dt>"));
}

#[test]
fn the_status_says_whether_there_are_findings() {
    assert_eq!(report("two-writes", &["--check"]).status.code(), Some(1));
    assert_eq!(report("one-write", &["--check"]).status.code(), Some(0));
}

#[test]
fn what_cannot_be_shown_is_refused_in_one_line() {
    for (arguments, reason) in [
        (&["--flow", "99"][..], "no flow 99 in this trace"),
        (&["--port", "1"], "no connection with port 1"),
        (&["--format", "text"], "html"),
        (&["--from", "2", "--to", "1"], "nothing to show"),
    ] {
        let output = report("two-writes", arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(reason), "{said}");
        assert!(output.stdout.is_empty());
    }
}
