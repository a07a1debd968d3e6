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

/// With a set-up of 7 us three figures are as printed, and two others are not.
#[test]
fn a_long_setup_of_a_message_satisfies_some_figures_and_not_others() {
    let changes = ["machine=decstation-5000-240", "message_setup_cycles=240"];
    let claims = ["atm-d", "atm-f", "atm-g", "atm-h", "atm-k"];
    let [same, differs] = [Verdict::Reproduced, Verdict::Differs];
    assert_eq!(verdicts("pc-2", &changes, &claims), [same, same, same, differs, differs]);
}

/// With one of 3 us other figures are, and the faster machine is faster. Copying takes less than half
/// of the time where a third cell begins, and nowhere else: not at the smallest sizes.
#[test]
fn a_setup_between_satisfies_other_figures() {
    let setup = "message_setup_cycles=100";
    let changes = ["machine=decstation-5000-240", setup];
    let [same, differs] = [Verdict::Reproduced, Verdict::Differs];
    let claims = ["atm-f", "atm-h", "atm-d", "atm-g", "atm-k"];
    let expected = [same, differs, differs, differs, differs];
    assert_eq!(verdicts("pc-2", &changes, &claims), expected);
    let mut both = builtin_by_id("pc-2").unwrap();
    both.set(setup).unwrap();
    let result = run::run(&both, 2, &mut |_, _| {}).unwrap();
    let by_size = |machine, name| {
        let wanted = [("machine", machine)];
        let cases = result.cases_with(&wanted);
        cases.map(|case| case.measured.measure(name).unwrap()).collect::<Vec<_>>()
    };
    let machines = ["decstation-5000-240", "decstation-5000-200"];
    let [fast, slow] = machines.map(|machine| by_size(machine, "total_ns"));
    assert_eq!((fast.len(), slow.len()), (1025, 1025));
    assert!(fast.iter().zip(&slow).all(|(fast, slow)| fast < slow));
    let shares = by_size(machines[0], "copy_percent");
    let below: Vec<_> = (0..shares.len()).filter(|&bytes| shares[bytes] < 50.0).collect();
    assert_eq!(below, [21, 22, 23, 24]);
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
