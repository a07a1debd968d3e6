//! Retransmission and keep-alive, by the second.

use super::{Script, opened};

/// When the segment that is never acknowledged leaves again, in half seconds.
fn resent(name: &str) -> Vec<u64> {
    let mut script = opened(name);
    // Some exchanges teach it that the network is fast.
    for at in 0..12 {
        script.begin("write 100");
        script.begin(&format!("< . ack {} win 4096", 101 + at * 100));
    }
    script.begin("write 100");
    let text = script.after("900.000 error =");
    assert!(text.ends_with("error = TimedOut"), "{name}: {text}");
    let half_seconds = |line: &str| {
        let (whole, part) = line.split(' ').next().unwrap().split_once('.').unwrap();
        2 * whole.parse::<u64>().unwrap() + part.parse::<u64>().unwrap() / 500
    };
    text.lines().filter(|line| line.contains("(100)")).map(half_seconds).collect()
}

/// The time between one and the next.
fn steps(times: &[u64]) -> Vec<u64> {
    let before = std::iter::once(&0).chain(times);
    times.iter().zip(before).map(|(at, before)| at - before).collect()
}

#[test]
fn a_lost_segment_is_sent_again_as_the_tables_have_it() {
    assert_eq!(steps(&resent("4.2bsd")), [2, 2, 2, 2, 3, 4, 6, 10, 16, 32]);
    assert_eq!(steps(&resent("4.2bsd-cabrera")), [2, 2, 2, 2, 3, 4, 6, 10, 16, 32]);
    assert_eq!(steps(&resent("4.3bsd")), [2, 2, 4, 8, 12, 16, 20, 30, 40, 60, 60, 60]);
    let doubling = [2, 4, 8, 16, 32, 64, 128, 128, 128, 128, 128, 128];
    for name in ["tahoe", "sunos-4.0.3", "sunos-4.1"] {
        assert_eq!(steps(&resent(name)), doubling, "{name}");
    }
    let of_reno = [3, 6, 12, 24, 48, 96, 128, 128, 128, 128, 128, 128];
    assert_eq!(steps(&resent("reno")), of_reno);
}

#[test]
fn the_whole_window_goes_again_in_4_2_one_segment_in_4_3() {
    for (name, again) in [("4.2bsd", 2), ("4.3bsd", 1), ("tahoe", 1), ("sunos-4.1", 1)] {
        let mut script = opened(name);
        script.begin("write 2048");
        let text = script.after("12.000 state");
        let first = text
            .lines()
            .filter(|line| line.contains("> "))
            .map(|line| line.split(' ').next().unwrap().to_owned());
        let times: Vec<String> = first.collect();
        let at_once = times.iter().filter(|_| true).take_while(|at| *at == &times[0] || *at == ">");
        assert_eq!(at_once.count(), again, "{name}: {text}");
    }
}

/// Idle time is counted behind the timers, so that the eighth interval ends a tick too early to
/// count: there is a ninth probe.
#[test]
fn keep_alive_of_4_3_asks_every_45_seconds() {
    opened("4.3bsd").check(
        "keepalive
         45.000 > . 0:1(1) ack 0 win 4096
         < . ack 1 win 4096
         90.000 > . 0:1(1) ack 0 win 4096
         135.000 > . 0:1(1) ack 0 win 4096
         180.000 > . 0:1(1) ack 0 win 4096
         225.000 > . 0:1(1) ack 0 win 4096
         270.000 > . 0:1(1) ack 0 win 4096
         315.000 > . 0:1(1) ack 0 win 4096
         360.000 > . 0:1(1) ack 0 win 4096
         405.000 > . 0:1(1) ack 0 win 4096
         449.000 state = Established
         450.000 > R ack 1 win 4096
         450.500 error = TimedOut",
    );
}

#[test]
fn keep_alive_of_tahoe_waits_two_hours() {
    for (name, probe) in
        [("tahoe", "> . ack 1 win 4096"), ("sunos-4.1", "> . 0:1(1) ack 0 win 4096")]
    {
        let mut script = opened(name);
        script.begin("keepalive");
        let text = script.after("8000.000 error =");
        let probes: Vec<&str> = text.lines().filter(|line| line.contains(probe)).collect();
        assert_eq!(probes.len(), 9, "{name}: {text}");
        assert!(probes[0].starts_with("7200.000") && probes[1].starts_with("7275.000"), "{text}");
        assert!(text.ends_with("error = TimedOut"), "{name}: {text}");
    }
}

#[test]
fn without_the_option_an_idle_connection_stays() {
    opened("tahoe").check("30000.000 state = Established");
}

#[test]
fn every_personality_answers_every_other_ones_keep_alive() {
    use crate::tcp::tests::connection::ALL;
    for name in ALL {
        let mut script = Script::pair(name);
        for line in ["s listen", "c connect", "s accept", "c keepalive", "30000.000 c hold"] {
            script.begin(line);
        }
        let answer = script.after("c state =");
        assert_eq!(answer, "c state = Established", "{name}");
    }
}

/// When a first segment of data leaves again, in seconds after a handshake whose SYN went out twice.
fn resent_after_two_syns(name: &str) -> u64 {
    let mut script = Script::alone(name);
    script.begin("connect");
    script.begin("6.000 state");
    script.begin("< S 0:0(0) ack 1 win 4096 <mss 1024>");
    script.begin("write 100");
    let text = script.after("60.000 state");
    let again = text.lines().find(|line| line.contains("(100)")).expect("sent again");
    again.split('.').next().and_then(|at| at.parse().ok()).map_or(0, |at: u64| at - 6)
}

/// Karn's rule: an acknowledgment of a SYN that was sent again is no sample, and the timeout stays
/// backed off until there is one.
#[test]
fn the_timeout_of_a_repeated_syn_serves_for_the_first_data() {
    assert_eq!(resent_after_two_syns("4.3bsd"), 6);
    assert_eq!(resent_after_two_syns("tahoe"), 12);
    assert_eq!(resent_after_two_syns("sunos-4.1"), 12);
    assert_eq!(resent_after_two_syns("reno"), 24);
}

/// 4.3BSD does not end timing its SYN when that is acknowledged.
#[test]
fn the_first_sample_of_4_3_begins_with_the_syn() {
    for (name, again) in [("4.3bsd", "16.000"), ("tahoe", "6.000")] {
        let mut script = opened(name);
        script.begin("5.000 write 100");
        script.begin("< . ack 101 win 4096");
        script.begin("write 100");
        let text = script.after("30.000 state");
        let first = text.lines().find(|line| line.contains("(100)")).expect("sent again");
        assert!(first.starts_with(again), "{name}: {text}");
    }
}

/// The wait for a missing FIN runs out a tick too early to count, and the time between probes is
/// waited once more: 11 minutes and 15 seconds (Stevens 1994, §18.6).
#[test]
fn a_missing_fin_is_waited_for() {
    for (name, last, gone) in [("tahoe", "674.900", "675.000"), ("4.3bsd", "404.900", "405.000")] {
        let mut script = opened(name);
        script.begin("close");
        script.begin("< . ack 2 win 4096");
        assert!(script.after(&format!("{last} state =")).ends_with("FinWait2"), "{name}");
        assert!(script.after(&format!("{gone} state =")).ends_with("gone"), "{name}");
    }
}

/// Any segment for the connection starts the keep-alive timer anew, in the handshake too: from Tahoe
/// on, where it is long, the retransmission timer alone then ends a handshake.
#[test]
fn a_stray_segment_keeps_a_handshake_from_being_given_up() {
    let state = |name: &str, stray: bool| {
        let mut script = Script::alone(name);
        script.begin("connect");
        if stray {
            script.begin("1.000 < . ack 500 win 4096");
        }
        script.after("80.000 state =").lines().last().unwrap_or_default().to_owned()
    };
    assert!(state("tahoe", true).ends_with("SynSent"));
    assert!(state("tahoe", false).ends_with("gone"));
    assert!(state("4.3bsd", true).ends_with("gone"));
}
