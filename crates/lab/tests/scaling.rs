//! The report on a model's transfer names the end that does not scale its windows, as it does live.

use sockscope_experiment::builtin_by_id;
use sockscope_lab::model;
use sockscope_record::Side;
use sockscope_sim::HostConfig;

/// What is found about a transfer over a line of 3 Mbit/s and 400 ms there and back with buffers of 256 KB, where each host may know the option;
/// for each finding the end that it names.
fn findings(knows: [bool; 2]) -> Vec<(String, Side, String)> {
    let mut experiment = builtin_by_id("si-3b").unwrap();
    let changes = [
        "personality=reno+window_scaling",
        "topology=pair",
        "link=line-3",
        "link_delay_us=200000",
        "socket_buffer_bytes=262144",
        "read_pause_ms=0",
        "total_bytes=3000000",
        "write_bytes=8192",
    ];
    experiment.set_all(&changes).unwrap();
    let forget = |host: &mut HostConfig| {
        let is_server = host.name == "server";
        host.personality.tcp.options.window_scaling = knows[usize::from(is_server)];
    };
    let case = &experiment.cases().unwrap()[0];
    let observed = model::observe_changed(&experiment, case, &forget).unwrap();
    let found = observed.analysis.connections.iter().flat_map(|one| &one.findings);
    found.map(|it| (it.id.name().to_owned(), it.side, it.summary.clone())).collect()
}

#[test]
fn the_end_without_the_option_is_named_and_where_both_have_it_none() {
    let of = |knows| {
        let found = findings(knows).into_iter();
        found.filter(|(id, ..)| id == "no-window-scaling").collect::<Vec<_>>()
    };
    for (knows, side, reason) in [
        ([true, false], Side::Server, "the host of the server (reader, pid 1) does not offer"),
        ([false, true], Side::Client, "no window scale option arrived from the host of the client"),
    ] {
        let found = of(knows);
        let [(_, named, summary)] = &found[..] else { panic!("{knows:?}: {found:?}") };
        assert!(*named == side && summary.contains(reason), "{knows:?}: {found:?}");
        assert!(summary.contains("at most 65535 bytes in flight"), "{knows:?}: {found:?}");
    }
    assert_eq!(of([true, true]), []);
}
