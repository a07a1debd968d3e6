//! Situations 13 to 16 and 25: transfers between two hosts.

use std::os::unix::fs::MetadataExt;

use serde_json::Value;

use super::answer::assert_near;
use super::http_service::figure;
use super::situation::{Situation, When, undisturbed};
use crate::background::{Background, free_port};
use crate::bundle::{Recorder, Recording, command, run_once, sockscope_says, stdout_of, words};
use crate::hosts::{B_V4, Hosts};
use crate::report::count;
use crate::soak::sized;

#[test]
fn root_situation_13_iperf3_through_an_interface_of_50_mbit() {
    let Some(situation) = Situation::live(13, When::Always, &["iperf3"]) else { return };
    let hosts = Hosts::up(&["--rate", "50mbit"]);
    let (recording, said) = undisturbed(|| iperf3(&hosts, &["-t", sized("1", "4")]));
    situation.report(&recording.dir(), |answer| {
        answer.part_says("verdict", &["interface-queue-limited costs most"]);
        answer.part_says("why", &["client (iperf3, pid ", "interface's rate is the limit"]);
        answer.part_says("why", &["in the tbf queue of "]);
        answer.part_says("fix", &["client (iperf3, pid ", "rate limit (tc -s qdisc show dev "]);
        let received = figure(&said["end"]["sum_received"], "bits_per_second") / 1e6;
        assert_near("the rate in Mbit/s", answer.number_after("is the limit, "), received);
        answer.is_silent_about(&["nothing wrong", "the path", "sent again", "network-queue"]);
    });
    let flows = recording.report.connections().iter().flat_map(crate::report::flows);
    let interfaces: Vec<_> = flows.filter_map(|flow| flow.get("interface")).collect();
    let of_transfer = interfaces.iter().find(|it| it["queueing_discipline"] == "tbf");
    let of_transfer = of_transfer.unwrap_or_else(|| panic!("no tbf: {interfaces:?}"));
    let file = std::fs::metadata(format!("/run/netns/{}", hosts.namespaces()[0])).expect("host a");
    assert_eq!(count(&of_transfer["network_namespace"]), file.ino(), "{of_transfer}");
    let index = stdout_of(
        &command(&hosts.on_a(&words(&[
            "cat",
            &format!("/sys/class/net/{}/ifindex", of_transfer["device"].as_str().expect("a name")),
        ])))
        .output()
        .expect("cat"),
    );
    assert_eq!(index.trim().parse(), Ok(count(&of_transfer["index"])), "{of_transfer}");
}

#[test]
fn root_situation_14_eight_connections_share_an_interface() {
    let Some(situation) = Situation::live(14, When::InTheSuite, &["iperf3"]) else { return };
    let hosts = Hosts::up(&["--rate", "50mbit"]);
    let (recording, said) = undisturbed(|| iperf3(&hosts, &["-t", "4", "-P", "8"]));
    situation.report(&recording.dir(), |answer| {
        answer.part_says("verdict", &["interface-queue-limited costs most", "on 8 connections"]);
        answer.part_says("why", &["client (iperf3, pid ", "interface's rate is the limit"]);
        let cost_ms = answer.ms_after("costs most: ");
        let duration_ms = answer.ms_after("trace live, ");
        assert!(cost_ms <= duration_ms, "no cause costs more than all of the time:\n{answer}");
        assert!(cost_ms >= 0.7 * duration_ms, "it was the limit all the time:\n{answer}");
        // Of the connection that the verdict names.
        let port = answer.number_after("10.83.0.1:");
        let sockets = said["start"]["connected"].as_array().expect("sockets").iter();
        let streams = said["end"]["streams"].as_array().expect("streams");
        let mut both = sockets.zip(streams);
        let named = both.find(|(socket, _)| figure(socket, "local_port") == port);
        let (_, stream) = named.unwrap_or_else(|| panic!("no stream at port {port}: {said}"));
        let received = figure(&stream["receiver"], "bits_per_second") / 1e6;
        assert_near("its rate in Mbit/s", answer.number_after("is the limit, "), received);
        answer.is_silent_about(&["nothing wrong", "the path", "retransmission costs"]);
    });
}

#[test]
fn root_situation_15_a_packet_filter_that_drops_data() {
    let Some(situation) = Situation::live(15, When::InTheSuite, &["iperf3", "nft"]) else { return };
    let hosts = Hosts::up(&[]);
    let rule = "PATH=$PATH:/usr/sbin; nft add table inet t; \
         nft 'add chain inet t c { type filter hook input priority 0; }'; \
         nft add counter inet t drops; \
         nft add rule inet t c meta l4proto tcp numgen random mod 50 == 0 counter name drops drop";
    let status = command(&hosts.on_b(&words(&["sh", "-ec", rule]))).status();
    assert!(status.expect("ip is installed").success(), "{rule}");
    let list = "PATH=$PATH:/usr/sbin nft -j reset counters table inet t";
    let (recording, dropped) = undisturbed(|| {
        let (recording, _) = iperf3(&hosts, &["-t", "3", "-b", "100M"]);
        let listed = command(&hosts.on_b(&words(&["sh", "-ec", list]))).output().expect("nft");
        let counters: Value = serde_json::from_str(&stdout_of(&listed)).expect("nft speaks JSON");
        let mut counters = counters["nftables"].as_array().expect("counters").iter();
        let dropped = counters.find_map(|it| it["counter"]["packets"].as_u64());
        (recording, dropped.expect("a counter"))
    });
    situation.report(&recording.dir(), |answer| {
        answer.part_says("verdict", &["retransmission costs most"]);
        answer.part_says("why", &["client (iperf3, pid ", "had to be sent again"]);
        answer.part_says("fix", &["server (iperf3, pid ", "the packet filter", "NETFILTER_DROP"]);
        // A packet of several segments may be sent again in more than one piece.
        let ranges = answer.number_after("of the trace), ");
        let dropped = dropped as f64;
        assert!((0.8 * dropped..=3.0 * dropped).contains(&ranges), "{dropped} drops:\n{answer}");
        answer.is_silent_about(&["nothing wrong", "a bad link", "loses packets"]);
    });
}

#[test]
fn root_situation_16_datagrams_of_80_mbit_into_an_interface_of_50_mbit() {
    let Some(situation) = Situation::live(16, When::InTheSuite, &["iperf3"]) else { return };
    let hosts = Hosts::up(&["--rate", "50mbit"]);
    let (recording, said) = undisturbed(|| iperf3(&hosts, &["-t", "3", "-u", "-b", "80M"]));
    situation.report(&recording.dir(), |answer| {
        answer.part_says("verdict", &["interface-queue-limited costs most"]);
        answer.part_says("why", &["client (iperf3, pid ", "interface's rate is the limit"]);
        let received = figure(&said["end"]["sum_received"], "bits_per_second") / 1e6;
        assert_near("the rate in Mbit/s", answer.number_after("is the limit, "), received);
        answer.is_silent_about(&["nothing wrong", "the path", "tcp_", "throughput ?"]);
    });
    // A record that is missing leaves the rest of the stream known.
    let flows = recording.report.connections().iter().flat_map(crate::report::flows);
    let unknown = flows.map(|flow| figure(&flow["ledger"], "unknown")).fold(0.0, f64::max);
    assert!(unknown < 0.2, "the ledger has {unknown} of unknown time");
}

#[test]
fn root_situation_25_two_hosts_recorded_apart_and_merged() {
    let Some(situation) = Situation::live(25, When::InTheSuite, &["iperf3"]) else { return };
    let hosts = Hosts::up(&["--rate", "50mbit"]);
    let port = free_port().to_string();
    let [client, server] = [(); 2].map(|()| Recorder::start(&["--port", &port], None));
    let serve = hosts.on_b(&words(&["iperf3", "-s", "-1", "-p", &port]));
    let serving =
        Background::start(&mut command(&serve), "-TERM").listening(port.parse().expect("a port"));
    let call = words(&["iperf3", "-c", B_V4, "-t", "2", "-J", "-p", &port]);
    let said = command(&hosts.on_a(&call)).output().expect("iperf3 is installed");
    let said: Value = serde_json::from_str(&stdout_of(&said)).expect("iperf3 speaks JSON");
    drop(serving);
    let [client, server] = [client, server].map(Recorder::stop);
    let merged = client.dir().with_file_name("both.sockscope");
    let paths = [client.dir(), server.dir(), merged.clone()].map(|it| it.display().to_string());
    let merge = ["merge", &paths[0], &paths[1], "-o", &paths[2]];
    sockscope_says(&merge);
    situation.report(&merged, |answer| {
        answer.part_says("verdict", &["interface-queue-limited costs most"]);
        answer.part_says("why", &["client (iperf3, pid ", "interface's rate is the limit"]);
        let received = figure(&said["end"]["sum_received"], "bits_per_second") / 1e6;
        assert_near("the rate in Mbit/s", answer.number_after("is the limit, "), received);
        answer.is_silent_about(&["nothing wrong", "the path"]);
    });
    // One kernel sees both hosts, so that each recording has both ends, and no connection is in halves.
    let report = crate::bundle::report(&merged);
    assert!(report.notes().contains("0 of 4 connections seen by both hosts"), "{}", report.notes());
    let connections = report.at_port("server", port.parse().expect("a port"));
    let sent: Vec<u64> = connections.iter().map(|it| crate::report::bytes(it, "client")).collect();
    let received = count(&said["end"]["sum_received"]["bytes"]);
    let transfers = sent.iter().filter(|bytes| **bytes >= received).count();
    assert_eq!(transfers, 2, "the transfer in each recording: {sent:?}, {received} received");
}

/// Records the client of iperf3 on host `a`, whose server is on host `b`; and what it says.
fn iperf3(hosts: &Hosts, options: &[&str]) -> (Recording, Value) {
    let port = free_port();
    let text = port.to_string();
    let serve = hosts.on_b(&words(&["iperf3", "-s", "-1", "-p", &text]));
    let _server = Background::start(&mut command(&serve), "-TERM").listening(port);
    let call = [&["iperf3", "-c", B_V4, "-p", &text, "-J"], options].concat();
    let recording = run_once(&[], &hosts.on_a(&words(&call)));
    let said = serde_json::from_str(&recording.said)
        .unwrap_or_else(|error| panic!("{error}: {}", recording.said));
    (recording, said)
}
