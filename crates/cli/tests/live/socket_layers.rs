//! TCP sockets that a layer of the kernel reads and writes: a sockmap, or kTLS.

use std::process::Command;

use serde_json::{Value, json};

use crate::bundle::{Recording, command, run_once, sockscope_says, workload};
use crate::report::bytes;
use crate::turn;

/// The standard error of the workload where it fails.
fn failure(how: &str) -> Option<String> {
    let mut command: Command = command(&workload("socket_layers.py", &[how]));
    let output = command.output().expect("python3");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn lack_of_sockmaps() -> Option<&'static str> {
    let is_lack =
        |said: &String| said.contains("Invalid argument") && said.contains("bpf command 0");
    failure("member")
        .filter(is_lack)
        .map(|_| "this kernel has no sockmap (CONFIG_BPF_STREAM_PARSER, CONFIG_NET_SOCK_MSG)")
}

fn lack_of_ktls() -> Option<&'static str> {
    failure("ktls")
        .filter(|said| said.contains("FileNotFoundError"))
        .map(|_| "this kernel has no kTLS, or none of its ciphers (CONFIG_TLS, CONFIG_CRYPTO_GCM)")
}

fn recorded(options: &[&str], how: &str) -> Recording {
    run_once(options, &workload("socket_layers.py", &[how]))
}

/// The connection of a recording with one.
fn only(recording: &Recording) -> &Value {
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 1, "{}", recording.report.summary());
    &connections[0]
}

/// Layers by side, as `client: sockmap`.
fn layers(connection: &Value) -> Vec<String> {
    let layers = connection["layers"].as_array().expect("layers");
    let word = |layer: &Value, field: &str| layer[field].as_str().expect("a word").to_owned();
    layers.iter().map(|layer| word(layer, "side") + ": " + &word(layer, "layer")).collect()
}

/// Neither a cause nor a place in a socket's queues is known where a layer is at the end.
fn check_nothing_is_guessed(recording: &Recording) {
    for connection in recording.report.connections() {
        assert_eq!(connection["findings"], json!([]), "{connection}");
        assert_eq!(connection["exchanges"], Value::Null, "{connection}");
        assert_eq!(connection["requests"]["count"], 0, "{connection}");
        assert_eq!(connection["kernels_own"], false, "{connection}");
    }
    let dir = recording.dir().display().to_string();
    let said = sockscope_says(&["report", &dir]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("verdict no verdict: "), "{said}");
    assert!(said.contains("a layer of the kernel (sockmap) reads and writes sockets of"), "{said}");
    assert!(said.contains("note a layer of the kernel reads and writes this socket ("), "{said}");
}

#[test]
fn root_data_that_a_sockmap_redirects_does_not_wait_for_the_program() {
    let Some(_turn) = turn::take_with(lack_of_sockmaps()) else { return };
    for options in [&[][..], &["--calls"]] {
        let recording = recorded(options, "stream");
        let connections = recording.report.connections();
        assert_eq!(connections.len(), 2, "{}", recording.report.summary());
        for (connection, expected) in connections.iter().zip(["server: sockmap", "client: sockmap"])
        {
            assert_eq!(layers(connection), [expected], "{connection}");
            assert_eq!(bytes(connection, "client"), 10_000);
        }
        let ledger = &connections[0]["flows"][0]["ledger"];
        assert_eq!(ledger["receive_queue.app"], 0.0, "{ledger}");
        assert!(ledger["unknown"].as_f64().is_some_and(|share| share > 0.9), "{ledger}");
        check_nothing_is_guessed(&recording);
    }
}

#[test]
fn root_data_that_a_sockmap_hands_over_without_tcp_is_not_taken_for_silence() {
    let Some(_turn) = turn::take_with(lack_of_sockmaps()) else { return };
    for options in [&[][..], &["--calls"]] {
        let recording = recorded(options, "message");
        // Both, though the client leaves its sockmap before its first segment that says so.
        assert_eq!(layers(only(&recording)), ["client: sockmap", "server: sockmap"]);
        check_nothing_is_guessed(&recording);
    }
}

#[test]
fn root_a_socket_in_a_sockmap_without_a_program_is_known() {
    let Some(_turn) = turn::take_with(lack_of_sockmaps()) else { return };
    let recording = recorded(&[], "member");
    let connection = only(&recording);
    assert_eq!(layers(connection), ["server: sockmap"]);
    assert_eq!(bytes(connection, "client"), 10_000);
    check_nothing_is_guessed(&recording);
}

#[test]
fn root_ktls_is_known_at_both_ends() {
    let Some(_turn) = turn::take_with(lack_of_ktls()) else { return };
    let recording = recorded(&[], "ktls");
    let connection = only(&recording);
    assert_eq!(layers(connection), ["client: kTLS", "server: kTLS"]);
    assert_eq!(connection["findings"], json!([]));
    // Records of TLS are longer than the data in them.
    assert!(bytes(connection, "client") > 10_000, "{}", connection);
}
