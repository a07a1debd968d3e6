//! Parameters in words, for legends, axes and subtitles: those of the papers in place of names in files.

use sockscope_experiment::word;
use toml::Value;

use super::measured::{Measured, number};

/// Names whose parts are no words that a reader expects.
const NAMES: [(&str, &str); 37] = [
    ("acks", "acknowledgments"),
    ("call_ns.mean", "mean time of a call"),
    ("call_ns.p50", "median time of a call"),
    ("cells_lost_per_million", "cells lost of a million"),
    ("copy_percent", "share of copying"),
    ("copy_s", "copying"),
    ("cpu_checksum_us", "checksums"),
    ("cpu_copy_us", "copies"),
    ("cpu_driver_us", "driver"),
    ("cpu_interface_us", "interface"),
    ("cpu_ip_us", "IP"),
    ("cpu_mbufs_us", "mbufs"),
    ("cpu_socket_us", "socket"),
    ("cpu_switch_us", "process switch"),
    ("cpu_system_call_us", "system call"),
    ("cpu_udp_us", "UDP"),
    ("cpu_us", "CPU time"),
    ("depth", "pieces in the stage"),
    ("heard_in_vain", "heard in vain"),
    ("host_packets_per_s", "packets of the host"),
    ("client_packets_per_s", "packets of a client"),
    ("interface_queue_packets", "interface queue of"),
    ("ip_queue_us", "IP queue"),
    ("load", "workload level"),
    ("low_water_bytes", "mark at"),
    ("message_bytes", "size of a message"),
    ("other_s", "all else"),
    ("payload_bits_per_s", "throughput"),
    ("request_bytes", "size of a request"),
    ("rpc_buffer_bytes", "buffer of the library"),
    ("sender_idle_us", "idle time of the sender"),
    ("stage_compute_us", "compute"),
    ("stage_cpu_wait_us", "wait for the CPU"),
    ("stage_read_us", "read"),
    ("stage_write_us", "write"),
    ("total_s", "all of it"),
    ("write_bytes", "size of a write"),
];

/// Values that are names of things, or words of a rule.
const VALUES: [(&str, &str); 36] = [
    ("4.2bsd", "4.2BSD"),
    ("4.2bsd-cabrera", "4.2BSD"),
    ("4.3bsd", "4.3BSD"),
    ("decay", "by decay"),
    ("decstation-3100", "DECstation 3100"),
    ("second-level-cache", "host with a second-level cache"),
    ("decstation-5000-200", "DECstation 5000/200"),
    ("decstation-5000-240", "DECstation 5000/240"),
    ("ethernet-10", "Ethernet of 10 Mbit/s"),
    ("ethernet-3", "Ethernet of 2.94 Mbit/s"),
    ("linux", "Linux"),
    ("line-3", "line of 2.94 Mbit/s"),
    ("pair", "two hosts"),
    ("quic", "QUIC"),
    ("reno", "4.3BSD-Reno"),
    ("round-robin", "in turn"),
    ("sack", "SACK"),
    ("sparcstation-1", "SPARCstation 1"),
    ("sparcstation-2", "SPARCstation 2"),
    ("sunos-4.0.3", "SunOS 4.0.3"),
    ("sunos-4.1", "SunOS 4.1"),
    ("tahoe", "4.3BSD-Tahoe"),
    ("tcp", "TCP"),
    ("udp", "UDP"),
    ("vax-11-750", "VAX-11/750"),
    ("vmtp", "VMTP"),
    ("vmtp-ip", "VMTP over IP"),
    ("vmtp-udp", "VMTP over UDP"),
    ("window_scaling", "window scaling"),
    ("send_rule=old", "old rule"),
    ("send_rule=cluster", "rule by cluster"),
    ("send_rule=low-water", "low-water rule"),
    ("ack_rule=when-empty", "ACK when the buffer is empty"),
    ("loss_policy=discard", "discard the packet"),
    ("path=direct", "driver in the program"),
    ("path=vendor", "IP behind a socket"),
];

/// Switches: their name, and the words where they are on and off.
const SWITCHES: [(&str, [&str; 2]); 5] = [
    ("nagle", ["with Nagle's rule", "without Nagle's rule"]),
    ("nodelay", ["TCP_NODELAY", "without TCP_NODELAY"]),
    ("own_hosts", ["each client on a host of its own", "all clients on one host"]),
    ("probing", ["with probes", "without probes"]),
    ("udp_route_cache", ["route kept between datagrams", "no route kept"]),
];

fn found<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(other, _)| *other == name).map(|(_, words)| *words)
}

/// The words for a number's name, as on an axis.
pub(super) fn of_name(name: &str) -> String {
    found(&NAMES, name).map_or_else(|| Measured::of(name).words, str::to_owned)
}

/// The words for a value that is a word: `SPARCstation 1`, or `SunOS 4.1 + SACK` for a system with an option.
pub(super) fn of_word(word: &str) -> String {
    let parts: Vec<&str> =
        word.split('+').map(|part| found(&VALUES, part).unwrap_or(part)).collect();
    parts.join(" + ")
}

/// A parameter in a legend: `socket buffer 8.00 KiB`, `without Nagle's rule`, `SPARCstation 1`.
pub(super) fn of_parameter(name: &str, value: &Value) -> String {
    let Measured { quantity, factor, .. } = Measured::of(name);
    let words = of_name(name);
    match value {
        Value::Boolean(is_on) => match found(&SWITCHES, name) {
            Some([on, off]) => (if *is_on { on } else { off }).to_owned(),
            None if *is_on => words,
            None => format!("no {words}"),
        },
        Value::String(word) => match found(&VALUES, &format!("{name}={word}")) {
            Some(words) => words.to_owned(),
            None if name == "load_at" => format!("load on the {word}"),
            None if name == "server_machine" => format!("server {}", of_word(word)),
            // `old` alone would not name its rule.
            None if name.ends_with("_rule") => format!("{words} {word}"),
            None => of_word(word),
        },
        other => match number(other) {
            Some(number) => format!("{words} {}", quantity.words(number * factor)),
            None => format!("{words} {}", word(other)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sockscope_experiment::builtin;

    use super::*;

    #[test]
    fn a_parameter_has_the_words_of_the_papers() {
        let text = |name: &str, value: &str| of_parameter(name, &Value::from(value));
        assert_eq!(text("machine", "sparcstation-1"), "SPARCstation 1");
        let with_options = "reno+window_scaling+timestamps+sack";
        let words = "4.3BSD-Reno + window scaling + timestamps + SACK";
        assert_eq!(text("personality", with_options), words);
        assert_eq!(text("load_at", "server"), "load on the server");
        assert_eq!(text("server_machine", "decstation-3100"), "server DECstation 3100");
        assert_eq!(text("send_rule", "low-water"), "low-water rule");
        assert_eq!(of_parameter("own_hosts", &Value::from(false)), "all clients on one host");
        assert_eq!(of_parameter("load", &Value::from(4)), "workload level 4");
        assert_eq!(of_parameter("low_water_bytes", &Value::from(1024)), "mark at 1.00 KiB");
        assert_eq!(
            of_parameter("socket_buffer_bytes", &Value::from(8192)),
            "socket buffer 8.00 KiB"
        );
    }

    #[test]
    fn every_machine_and_stack_that_legends_name_has_its_name_in_words() {
        let mut named = BTreeSet::new();
        for case in builtin().unwrap().iter().flat_map(|it| it.cases().unwrap()) {
            let is_name =
                |name: &str| ["machine", "server_machine", "personality", "link"].contains(&name);
            let names = case.named.iter().filter(|(name, _)| is_name(name));
            named.extend(names.filter_map(|(_, value)| value.as_str().map(str::to_owned)));
        }
        for word in &named {
            assert_ne!(&of_word(word), word);
        }
        assert!(named.len() > 8, "{named:?}");
    }
}
