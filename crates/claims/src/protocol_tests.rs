//! Checks of the thesis on the choice of protocols against models that are changed: a check that sees
//! nothing of it would be none. Experiment, changes to it, and the verdicts there by claim.

use sockscope_experiment::builtin_by_id;
use sockscope_experiment::papers::{Claims, EvidenceList};
use sockscope_lab::run;

use super::registry::checked;
use super::*;

/// Verdicts on claims, by what follows `protocol-choice/4-`, when an experiment is changed.
fn verdicts(experiment: &'static str, changes: &[&str], claims: &[&str]) -> Vec<Verdict> {
    let mut changed = builtin_by_id(experiment).unwrap();
    changed.set_all(changes).unwrap();
    let result = run::run(&changed, 2, &mut |_, _| {}).unwrap();
    let runs = Runs(BTreeMap::from([(experiment, result)]));
    let (register, evidence) = (Claims::builtin().unwrap(), EvidenceList::builtin().unwrap());
    let verdict = |claim: &&str| {
        let claim = register.claim(&format!("protocol-choice/4-{claim}")).unwrap();
        checked(claim, evidence.of(claim), &runs).comparison.verdict
    };
    claims.iter().map(verdict).collect()
}

fn assert_all(expected: Verdict, experiment: &'static str, changes: &[&str], claims: &[&str]) {
    let verdicts = verdicts(experiment, changes, claims);
    assert!(verdicts.iter().all(|verdict| *verdict == expected), "{changes:?}: {verdicts:?}");
}

/// With a set-up of 3 us the smallest share of copying is as printed as well, but the rate of large packets
/// levels off later.
#[test]
fn a_longer_setup_moves_the_share_of_copying() {
    let changes = ["machine=decstation-5000-240", "message_setup_cycles=50"];
    let claims = ["atm-d", "atm-f", "atm-g"];
    let same = Verdict::Reproduced;
    assert_eq!(verdicts("pc-2", &changes, &claims), [same, same, same]);
}

#[test]
fn cells_fall_where_the_setup_costs_nothing() {
    let changes = ["machine=decstation-5000-240", "message_setup_cycles=0"];
    assert_all(Verdict::Reproduced, "pc-2", &changes, &["atm-c", "atm-e", "atm-h", "atm-k"]);
}

/// All of each cell is data then, filler too, and a packet of two cells takes no shorter way.
#[test]
fn preformatted_cells_make_no_saw_tooth_of_copying() {
    let changes = ["machine=decstation-5000-240", "driver=cells"];
    assert_all(Verdict::Differs, "pc-2", &changes, &["atm-b", "atm-c", "atm-e", "atm-h", "atm-k"]);
}

#[test]
fn repair_that_costs_nothing_always_wins() {
    assert_all(Verdict::Differs, "pc-7b", &["repair_check_cycles=12"], &["sar-c"]);
}

/// Messages that are not small: the wire has a part in the ceiling.
#[test]
fn a_ceiling_that_is_not_of_overhead_alone_is_seen() {
    let short = "run_ms=1500";
    assert_all(Verdict::Reproduced, "pc-5", &[short], &["vmtp-h"]);
    assert_all(Verdict::Differs, "pc-5", &[short, "request_bytes=8192"], &["vmtp-h"]);
}

/// Without data in the responses the server limits, before the wire is full.
#[test]
fn a_wire_that_is_not_full_is_seen() {
    let changes = ["run_ms=1000", "response_bytes=0"];
    assert_all(Verdict::Differs, "pc-4", &changes, &["vmtp-e", "vmtp-f", "vmtp-k"]);
}

#[test]
fn other_transactions_have_other_times_and_shares() {
    assert_all(Verdict::Differs, "pc-6", &["response_bytes=1024"], &["vmtp-a", "vmtp-b", "vmtp-c"]);
    assert_all(Verdict::Differs, "pc-6", &["response_bytes=16384"], &["vmtp-j"]);
    assert_all(Verdict::Differs, "pc-3", &["run_ms=1000", "clients=8"], &["vmtp-d"]);
}
