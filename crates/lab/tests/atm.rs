//! The ATM driver on the machines of the thesis, at the sizes where its figures turn.
//!
//! Tables are written for a reader: octets of data, cells, and the results of the model. They
//! change with the driver, the bus or a machine's file.

use sockscope_experiment::result::RunResult;
use sockscope_experiment::{Experiment, builtin_by_id};
use sockscope_lab::run::run;

fn with(id: &str, changes: &[&str]) -> Experiment {
    let mut experiment = builtin_by_id(id).unwrap();
    changes.iter().for_each(|change| experiment.set(change).unwrap());
    experiment
}

fn results(id: &str, changes: &[&str]) -> RunResult {
    run(&with(id, changes), 2, &mut |_, _| {}).unwrap()
}

/// A measure of every case.
fn column(result: &RunResult, name: &str) -> Vec<f64> {
    result.cases.iter().map(|case| case.measured.measure(name).unwrap()).collect()
}

/// Cells, copying in percent and Mbit/s of payload of a packet with so much data.
fn measures(data_bytes: usize, more: &[&str]) -> [f64; 3] {
    let size = format!("data_bytes={data_bytes}");
    let changes = [&["machine=decstation-5000-240", &size][..], more].concat();
    let result = results("pc-2", &changes);
    let of = |name| column(&result, name)[0];
    [of("cells"), of("copy_percent"), of("payload_bits_per_s") / 1e6]
}

fn packet(data_bytes: usize, more: &[&str]) -> String {
    let [cells, copying, rate] = measures(data_bytes, more);
    format!("{data_bytes}: {cells} {copying:.0}% {rate:.0}")
}

fn packets(sizes: &[usize], more: &[&str]) -> String {
    let packets = sizes.iter().map(|&size| packet(size, more));
    packets.collect::<Vec<_>>().join(" | ")
}

#[test]
fn a_packet_on_the_path_for_two_cells_is_cheap_and_one_octet_more_is_not() {
    let expected = "0: 2 53% 85 | 20: 2 70% 101 | 21: 3 47% 65 | 64: 3 70% 85 | 65: 4 57% 69";
    assert_eq!(packets(&[0, 20, 21, 64, 65], &[]), expected);
}

/// Mbit/s of payload when nothing but the bus takes time: each cell has 11 words of data, which cost
/// so many bus cycles of 40 ns to load, and 14 words to the card at 5 cycles (20 MB/s in the thesis).
fn bus_limit(cycles_to_load_a_word: f64) -> f64 {
    let cell_ns = 40.0 * (11.0 * cycles_to_load_a_word + 14.0 * 5.0);
    44.0 * 8.0 * 1e3 / cell_ns
}

/// Whether the driver's own work, which the limit leaves out, costs at most an eighth of the rate.
fn is_near_limit(rate: f64, limit: f64) -> bool {
    (limit * 7.0 / 8.0..limit).contains(&rate)
}

#[test]
fn large_packets_tend_to_the_rate_at_which_data_cross_the_bus_twice() {
    assert_eq!(
        packets(&[988, 989, 1024], &[]),
        "988: 24 79% 79 | 989: 25 77% 77 | 1024: 25 79% 79"
    );
    // A cache line of four words takes 13 cycles (30 MB/s in the thesis).
    assert!(is_near_limit(measures(988, &[])[2], bus_limit(13.0 / 4.0)));
}

#[test]
fn data_from_cache_cross_the_bus_once_and_past_the_cache_slowly() {
    assert_eq!(packet(988, &["data_from=cache"]), "988: 24 70% 112");
    assert_eq!(packet(988, &["data_from=uncached"]), "988: 24 88% 46");
    // No load, or one of 10 cycles for each word (10 MB/s in the thesis).
    for (from, cycles) in [("data_from=cache", 0.0), ("data_from=uncached", 10.0)] {
        assert!(is_near_limit(measures(988, &[from])[2], bus_limit(cycles)), "{from}");
    }
}

/// Figure 4: a saw tooth of 44 octets, lowest at 21. Figures 5 and 6: each tooth is a cell.
#[test]
fn the_share_of_copying_falls_where_a_cell_begins_and_nowhere_else() {
    let result = results("pc-2", &["machine=decstation-5000-240", "packets=2"]);
    let [shares, cells] = ["copy_percent", "cells"].map(|name| column(&result, name));
    let sizes = || 1..=1024;
    let falls: Vec<usize> = sizes().filter(|&at| shares[at - 1] - shares[at] > 0.5).collect();
    let begins: Vec<usize> = sizes().filter(|&at| cells[at] > cells[at - 1]).collect();
    assert_eq!(falls, begins);
    assert_eq!(falls, (21..=1024).step_by(44).collect::<Vec<_>>());
    assert!(sizes().all(|at| shares[at] >= shares[21]));
}

#[test]
fn cells_from_cache_go_at_the_rate_that_the_flush_was_fitted_to() {
    let changes = ["machine=decstation-5000-240"];
    let rates = column(&results("pc-1", &changes), "cell_bits_per_s");
    let rates: Vec<_> = rates.iter().map(|rate| format!("{:.1}", rate / 1e6)).collect();
    // Fixed words, preformatted cells, packets from cache, from memory, past the cache.
    assert_eq!(rates, ["138.6", "135.7", "134.5", "95.5", "55.8"]);
}

#[test]
fn clocks_of_unequal_rate_lose_where_accesses_follow_closely() {
    let access_ns = |machine: &str| {
        let machine = format!("machine={machine}");
        let all = column(&results("pc-7a", &[&machine]), "access_ns");
        [0, 2, 4, 20].map(|cycles: usize| all[cycles].round())
    };
    assert_eq!(access_ns("decstation-5000-240"), [250.0, 333.0, 375.0, 875.0]);
    assert_eq!(access_ns("decstation-5000-200"), [240.0, 320.0, 400.0, 1040.0]);
}

#[test]
fn a_parameter_of_another_workload_is_refused() {
    let refusal =
        |id: &str, change: &str| builtin_by_id(id).unwrap().set(change).unwrap_err().to_string();
    assert!(refusal("pc-2", "messages=3").contains("means nothing to `atm-send`"));
    assert!(refusal("pc-2", "nodelay=true").contains("nodelay"));
    assert!(refusal("pc-2", "data_bytes=1341").contains("from 0 to 1340"));
    assert!(refusal("pc-7b", "packets=3").contains("means nothing to `atm-loss`"));
    assert!(refusal("pc-7b", "cells_lost_per_million=600000").contains("0 to 500000"));
    assert!(refusal("pc-7a", "message_setup_cycles=3").contains("means nothing"));
}

#[test]
fn a_machine_without_a_turbochannel_is_told() {
    let refused = run(&with("pc-7a", &["machine=vax-11-750"]), 1, &mut |_, _| {});
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("no machine `vax-11-750` with a TURBOchannel: expected one of")
    );
}

#[test]
fn a_parameter_of_calls_is_refused_out_of_its_range_and_elsewhere() {
    let refusal =
        |id: &str, change: &str| builtin_by_id(id).unwrap().set(change).unwrap_err().to_string();
    assert!(refusal("pc-1b", "data_bytes=8193").contains("from 0 to 8192"));
    assert!(refusal("pc-1b", "mtu_bytes=575").contains("from 576 to 9180"));
    assert!(refusal("pc-1b", "packets=3").contains("means nothing to `atm-echo`"));
    assert!(refusal("pc-1", "kernel_percent=50").contains("means nothing to `atm-send`"));
    assert!(refusal("pc-2", "path=vendor").contains("means nothing to `atm-send`"));
}
