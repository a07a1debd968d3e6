//! `sockscope try` on a command at both ends of a link: fixes that have an effect where there is a delay, or a drop.
//!
//! Both ends belong to the command's control group, though each is in a network namespace of its own.

use crate::bundle::workload;
use crate::report::text;
use crate::trial::{is_full, sockets, tried};
use crate::turn;

/// The command: `program` as a server at one end of a link with these settings, and as a client at the other.
fn over_link(settings: &str, program: &str, arguments: &str) -> Vec<String> {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let end = |role| {
        let at = ["--host", "198.18.0.2", "--port", "7000", "--role", role];
        workload(program, &[&at[..], &arguments].concat())
    };
    let link = ["sockscope", "lab", "link"].map(str::to_owned);
    let mut command = link.to_vec();
    command[0] = env!("CARGO_BIN_EXE_sockscope").to_owned();
    command.extend(settings.split_whitespace().map(str::to_owned));
    let server = shlex::try_join(end("server").iter().map(String::as_str)).expect("no NUL");
    command.extend(["--server".to_owned(), server, "--".to_owned()]);
    command.extend(end("client"));
    command
}

/// Fixes that have an effect there: the link, the workload.
const EFFECTS: [(&str, &str, &str, &str); 5] = [
    // A reply of 64 KiB takes three round trips with a congestion window of ten segments.
    ("iw=50", "--delay 20ms", "replies.py", "--cc cubic --replies 5"),
    // A call has three packets to the server: its request, the repeat of that, and the acknowledgment of the
    // answer. So the link drops each request once, and only a timeout repairs that.
    (
        "rto-min=20ms",
        "--delay 5ms --to-server loss=every:3",
        "split_calls.py",
        "--cc cubic --one-write --quickack --calls 10",
    ),
    // Reno takes each drop for congestion.
    ("cc=bbr", "--delay 20ms --rate 50mbit --loss 2%", "bulk.py", "--cc reno --bytes 1500000"),
    // The end of each answer waits behind all that the socket took.
    (
        "notsent=16k",
        "--delay 5ms --rate 20mbit --queue 30p",
        "urgent.py",
        "--cc cubic --sndbuf 400000 --answers 8",
    ),
    // A window of 4 KiB in each round trip. Where the kernel sizes the receive buffer, it raises the clamp again.
    ("window-clamp=4k", "--delay 5ms", "bulk.py", "--cc cubic --bytes 200000 --rcvbuf 1000000"),
];

/// The short form: the server's end alone, in the namespace of the link.
#[test]
fn root_an_initial_window_helps_the_server_at_the_other_end_of_a_link() {
    let Some(_turn) = turn::take() else { return };
    if is_full() {
        // The test below has it with more rounds.
        return;
    }
    let command = over_link("--delay 20ms", "replies.py", "--cc cubic --replies 3");
    let (result, _) = tried(&["iw=50", "--side", "server", "--rounds", "4"], &command);
    let difference = &result["exchange_p50_ns"];
    assert!(difference["high"].as_f64().expect("an interval") < 0.0, "{result}");
    assert_eq!(sockets(&result), [2 * 3, 0, 0], "{result}");
    assert_eq!(result["fixes"][0]["accepted"], 6, "{result}");
}

#[test]
fn root_fixes_have_an_effect_over_a_link_that_needs_them() {
    let Some(_turn) = turn::take() else { return };
    if !is_full() {
        // They take minutes: `scripts/soak tries`.
        return;
    }
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let has_bbr = known.is_ok_and(|known| known.split_whitespace().any(|name| name == "bbr"));
    for (fix, settings, program, arguments) in EFFECTS {
        if fix == "cc=bbr" && !has_bbr {
            eprintln!(
                "SKIPPED: {fix} in root_fixes_have_an_effect_over_a_link_that_needs_them: load tcp_bbr"
            );
            continue;
        }
        let (result, _) = tried(&[fix], &over_link(settings, program, arguments));
        println!("{fix:<16} {program:<16} {}", result["result"]);
        assert_eq!(result["fixes"][0]["refused"], 0, "{result}");
        // A limit of the window is an effect too.
        let verb = if fix == "window-clamp=4k" { "makes it worse" } else { "helps" };
        assert!(text(&result["result"]).starts_with(&format!("{fix} {verb}")), "{result}");
    }
}
