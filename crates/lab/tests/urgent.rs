//! Urgent octets in a transfer: all octets are had, and the records account for each.

use sockscope_experiment::{Experiment, builtin_by_id};
use sockscope_lab::run::run;

fn experiment(changes: &[&str]) -> Experiment {
    let mut experiment = builtin_by_id("si-3b").unwrap();
    let common = ["total_bytes=200000", "write_bytes=1000", "read_pause_ms=0", "topology=pair"];
    experiment.set_all(&[&common, changes].concat()).unwrap();
    experiment
}

const STACKS: [&str; 7] = [
    "4.2bsd",
    "4.3bsd",
    "tahoe",
    "reno",
    "sunos-4.0.3",
    "sunos-4.1",
    "reno+window_scaling+timestamps+sack+urgent_at_octet",
];
const FAULTS: [&str; 3] =
    ["lost_per_million=10000", "reordered_per_million=10000", "duplicated_per_million=10000"];

#[test]
fn each_octet_is_read_once_and_no_residue_is_left() {
    for stack in STACKS {
        for faults in [&[][..], &FAULTS] {
            let personality = format!("personality={stack}");
            let changes = [&[personality.as_str(), "urgent_every=10"], faults].concat();
            let result = run(&experiment(&changes), 1, &mut |_, _| {}).unwrap();
            for (number, case) in result.cases.iter().enumerate() {
                let measure = |name| case.measured.measure(name).unwrap();
                let [read, replaced] =
                    ["urgent_octets_read", "urgent_octets_replaced"].map(measure);
                // With the smallest buffer no write is ahead of the octets that are read.
                let all = number == 0 && faults.is_empty();
                assert!(!all || read == 20.0, "{changes:?}: {read} of 20");
                assert!(
                    read > 0.0 && read + replaced <= 20.0,
                    "{changes:?}: {read} and {replaced}"
                );
                assert_eq!(measure("residue_bytes"), 0.0, "{changes:?}");
            }
        }
    }
}
