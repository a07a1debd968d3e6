//! The matrix: planted troubles in servers of many languages, and healthy look-alikes of them.
//!
//! Each cell starts a server and a caller that measures its own waits (`tests/workloads/matrix`), records them, and
//! compares the report with the caller. `SOCKSCOPE_MATRIX=freeze` leaves those cells whose name contains the word.

mod cells;
mod judged;
mod lookalikes;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use super::is_full;
use crate::bundle::{command, facts, stdout_of, workload};
use crate::turn;
use cells::Cell;
use judged::Judged;
use lookalikes::LookAlike;

/// The share of the cells in which side, cause and cost have to be right.
const RIGHT_SHARE: f64 = 0.95;
/// The share of all waits that may differ from the report's requests. A caller that loses its CPU between its clock and
/// its calls measures what the kernel does not see, and a host may take the CPU of a whole virtual machine.
const OFF_SHARE: f64 = 0.01;
/// The same of the short form, which has few waits.
const OFF_SHARE_SHORT: f64 = 0.05;

#[test]
fn root_soak_planted_troubles_are_found_with_side_cause_and_cost() {
    // Others may take their turns between the cells.
    let Some(_) = turn::take() else { return };
    let is_asked_for = |cell: &&Cell| {
        (is_full() || cell.is_smoke) && is_wished(&format!("{} {}", cell.trouble, cell.server))
    };
    let asked_for = || cells::ALL.iter().filter(is_asked_for);
    let built = Built::prepare(asked_for().flat_map(Cell::needs).collect());
    let mut shares = Shares::default();
    println!("{}", Judged::HEAD);
    for cell in asked_for() {
        match cell.needs().find_map(|program| built.lacks(program)) {
            Some(reason) => shares.skip(cell.trouble, cell.server, &reason),
            None => {
                let _turn = turn::take();
                shares.count(&judged::cell(cell, built.folder.path()));
            }
        }
    }
    for (trouble, servers, reason) in cells::LEFT_OUT.iter().filter(|_| is_full()) {
        println!("left out: {trouble} of {}: {reason}", servers.join(", "));
    }
    shares.end(if is_full() { RIGHT_SHARE } else { 1.0 });
}

#[test]
fn root_soak_healthy_look_alikes_are_silent() {
    let Some(_) = turn::take() else { return };
    let is_asked_for = |like: &&LookAlike| {
        (is_full() || like.is_smoke) && is_wished(&format!("{} {}", like.shape, like.server))
    };
    let asked_for = || lookalikes::ALL.iter().filter(is_asked_for);
    let built = Built::prepare(asked_for().map(|like| like.server).collect());
    let mut shares = Shares::default();
    println!("{}", Judged::HEAD);
    for like in asked_for() {
        match built.lacks(like.server) {
            Some(reason) => shares.skip(like.shape, like.server, &reason),
            None => {
                let _turn = turn::take();
                shares.count(&judged::look_alike(like, built.folder.path()));
            }
        }
    }
    shares.end(1.0);
}

fn is_wished(name: &str) -> bool {
    std::env::var("SOCKSCOPE_MATRIX").map_or(true, |wish| name.contains(&wish))
}

/// The compiled servers.
struct Built {
    folder: TempDir,
    /// Why a server is left out, by its name.
    missing: Value,
}

impl Built {
    fn prepare(servers: BTreeSet<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        // PostgreSQL runs as a user of its own.
        let open_to_all = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open_to_all).expect("the folder is ours");
        let path = folder.path().display().to_string();
        let arguments: Vec<&str> = ["prepare", &path].into_iter().chain(servers).collect();
        let words = workload("matrix/run.py", &arguments);
        let said = stdout_of(&command(&words).output().expect("Python is installed"));
        Self { folder, missing: facts(&said)["missing"].clone() }
    }

    fn lacks(&self, server: &str) -> Option<String> {
        self.missing[server].as_str().map(str::to_owned)
    }
}

/// The number of cells that are right.
struct Shares {
    since: Instant,
    right: usize,
    wrong: Vec<String>,
    skipped: usize,
    off: usize,
    waits: usize,
}

impl Default for Shares {
    fn default() -> Self {
        let since = Instant::now();
        Self { since, right: 0, wrong: Vec::new(), skipped: 0, off: 0, waits: 0 }
    }
}

impl Shares {
    fn skip(&mut self, what: &str, server: &str, reason: &str) {
        self.skipped += 1;
        // Not `eprintln!`: libtest keeps its output when the test passes.
        let _ = writeln!(std::io::stderr(), "SKIPPED: matrix {what} {server}: {reason}");
    }

    fn count(&mut self, judged: &Judged) {
        println!("{judged}");
        self.off += judged.requests_off;
        self.waits += judged.requests;
        if judged.wrong.is_empty() {
            self.right += 1;
        } else {
            self.wrong.push(format!("{}: {}", judged.name, judged.wrong.join("; ")));
        }
    }

    /// Prints the shares, and fails where too many are wrong.
    fn end(self, least: f64) {
        let (right, wrong) = (self.right, self.wrong.len());
        let share = right as f64 / (right + wrong).max(1) as f64;
        println!(
            "{right} right, {wrong} wrong ({:.1} % right), {} skipped; {} of {} requests off; {} s",
            share * 100.0,
            self.skipped,
            self.off,
            self.waits,
            self.since.elapsed().as_secs(),
        );
        let list = self.wrong.join("\n");
        println!("{list}");
        assert!(share >= least, "{wrong} cells are wrong:\n{list}");
        let off_share = self.off as f64 / self.waits.max(1) as f64;
        let most = if is_full() { OFF_SHARE } else { OFF_SHARE_SHORT };
        assert!(off_share <= most, "{} of {} requests are off", self.off, self.waits);
    }
}
