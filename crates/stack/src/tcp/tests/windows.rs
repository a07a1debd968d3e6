//! The window: its offer, closed windows, probes, and windows that shrink.

use super::{Script, open, opened};

#[test]
fn a_closed_window_is_probed_with_one_byte() {
    for name in ["4.3bsd", "tahoe", "sunos-4.1"] {
        opened(name).check(
            "write 1024 = 1024
             > P 1:1025(1024) ack 1 win 4096
             < . ack 1025 win 0
             write 100 = 100
             5.000 > . 1025:1026(1) ack 1 win 4096
             < . ack 1025 win 0
             10.000 > . 1025:1026(1) ack 1 win 4096
             < . ack 1025 win 4096
             > P 1025:1125(100) ack 1 win 4096
             < . ack 1125 win 4096
             20.000 state = Established",
        );
    }
}

#[test]
fn a_probe_that_is_taken_counts_as_sent() {
    for name in ["4.2bsd", "4.3bsd", "tahoe", "reno"] {
        let window = if name == "4.2bsd" { 2048 } else { 4096 };
        opened(name).check(&format!(
            "write 1024 = 1024
             > P 1:1025(1024) ack 1 win {window}
             < . ack 1025 win 0
             write 100 = 100
             5.000 > . 1025:1026(1) ack 1 win {window}
             < . ack 1026 win 2047
             > P 1026:1125(99) ack 1 win {window}",
        ));
    }
}

#[test]
fn the_persist_timer_backs_off() {
    let times = |name: &str| {
        let mut script = opened(name);
        script.begin("write 1024");
        script.begin("< . ack 1025 win 0");
        script.begin("write 100");
        let text = script.after("170.000 state =");
        let at = |line: &str| line.split('.').next().unwrap().to_owned();
        let probes = text.lines().filter(|line| line.contains("1025:1026(1)"));
        probes.map(at).collect::<Vec<_>>().join(" ")
    };
    // Released 4.2BSD never has a round-trip time to multiply.
    let fives: Vec<String> = (1..=34).map(|five| (5 * five).to_string()).collect();
    assert_eq!(times("4.2bsd"), fives.join(" "));
    assert_eq!(times("4.3bsd"), "5 10 15 23 39 69 99 129 159");
    assert_eq!(times("tahoe"), "5 10 15 23 39 71 131");
}

#[test]
fn no_window_is_offered_that_is_not_worth_a_segment() {
    for name in ["4.3bsd", "tahoe", "reno"] {
        let mut script = opened(name);
        for from in [1, 1025, 2049, 3073] {
            script.begin(&format!("< . {from}:{}(1024) ack 1 win 4096", from + 1024));
        }
        script.check(
            "0.200 > . ack 4097 win 0
             read 500 = 500
             write 1 = 1
             > P 1:2(1) ack 4097 win 0
             read 524 = 524
             < . seq 4097 ack 2 win 4096
             write 1 = 1
             > P 2:3(1) ack 4097 win 1024",
        );
    }
}

#[test]
fn in_4_2_an_offered_window_may_shrink() {
    opened("4.2bsd").check(
        "< . 1:1025(1024) ack 1 win 4096
         < . 1025:1601(576) ack 1 win 4096
         0.200 > . ack 1601 win 0",
    );
    let mut script = Script::alone("4.3bsd");
    script.begin("socket");
    script.begin("buffers 2048");
    open(&mut script, 4096);
    script.check(
        "< . 1:1025(1024) ack 1 win 4096
         < . 1025:1601(576) ack 1 win 4096
         0.200 > . ack 1601 win 448",
    );
}

#[test]
fn a_probe_of_our_closed_window_is_answered_but_in_the_old_systems() {
    for (name, answers) in [("4.2bsd", false), ("4.3bsd", false), ("tahoe", true), ("reno", true)] {
        let mut script = opened(name);
        let segments = if name == "4.2bsd" { 2 } else { 4 };
        for at in 0..segments {
            let from = 1 + at * 1024;
            script.begin(&format!("< . {from}:{}(1024) ack 1 win 4096", from + 1024));
        }
        script.begin("0.300 state");
        let next = 1 + segments * 1024;
        let answer = script.after(&format!("< . {next}:{}(1) ack 1 win 4096", next + 1));
        assert_eq!(answer.contains(&format!("> . ack {next} win 0")), answers, "{name}: {answer}");
    }
}

#[test]
fn data_beyond_the_window_are_cut_off() {
    for name in ["4.3bsd", "tahoe", "reno"] {
        let mut script = opened(name);
        for from in [1, 1025, 2049] {
            script.begin(&format!("< . {from}:{}(1024) ack 1 win 4096", from + 1024));
        }
        script.begin("< . 3073:4373(1300) ack 1 win 4096");
        assert_eq!(
            script.after("read 9000 ="),
            "read 9000 = 4096\n> . ack 4097 win 4096",
            "{name}"
        );
    }
}

#[test]
fn a_window_that_shrinks_behind_what_was_sent_makes_the_sender_wait() {
    for name in ["4.3bsd", "tahoe", "sunos-4.1"] {
        opened(name).check(
            "write 3072 = 3072
             > . 1:1025(1024) ack 1 win 4096
             > . 1025:2049(1024) ack 1 win 4096
             > P 2049:3073(1024) ack 1 win 4096
             < . ack 1025 win 1024                # the edge moves back by 1024
             < . ack 2049 win 0                   # and closes: back to the edge, to persist
             5.000 > . 2049:2050(1) ack 1 win 4096
             < . ack 2049 win 4096
             > P 2049:3073(1024) ack 1 win 4096",
        );
    }
}

#[test]
fn a_window_update_that_got_lost_does_not_stop_the_connection() {
    for name in ["4.2bsd", "4.3bsd", "tahoe", "reno", "sunos-4.1"] {
        let mut script = Script::pair(name);
        for line in ["s listen", "c connect", "s accept", "c write 2048", "0.300 c write 2048"] {
            script.begin(line);
        }
        script.begin("0.900 c write 3000");
        script.begin("3.000 c hold");
        while !script.after("s read 512 =").contains("sleep") {}
        script.pair.wire.clear();
        script.begin("c release");
        script.begin("60.000 c hold");
        script.begin("c release");
        let mut total = script.read[1].len();
        for at in 61..100 {
            script.begin(&format!("{at}.000 s read 8000"));
            total = script.read[1].len();
        }
        assert_eq!(total, 7096, "{name}");
    }
}

/// Two full buffers with a little read from each: too little to announce, but enough for a probe.
/// Both probes were taken and their answers lost: each end counts from before its probe, which the
/// other has, so that no acknowledgment seems to be new.
#[test]
fn ends_that_probed_each_other_at_once_hear_each_other_again() {
    for name in ["4.2bsd", "4.3bsd", "tahoe", "reno", "sunos-4.0.3", "sunos-4.1"] {
        let mut script = Script::pair(name);
        for line in ["s listen", "c connect", "s accept", "c buffers 2048", "s buffers 2048"] {
            script.begin(line);
        }
        for line in ["c write 2048", "s write 2048", "4.000 c write 100", "s write 100"] {
            script.begin(line);
        }
        for line in ["c hold", "c read 100", "s read 100"] {
            script.begin(line);
        }
        while script.pair.wire.len() < 2 {
            script.begin("c tick 1");
            script.begin("s tick 1");
        }
        for line in ["c pass", "c pass", "10.000 c hold"] {
            script.begin(line);
        }
        assert!(script.pair.wire.len() >= 2, "{name}: the answers");
        script.pair.wire.clear();
        script.begin("c release");
        for at in [60, 120, 180] {
            script.begin(&format!("{at}.000 c read 2048"));
            script.begin("s read 2048");
        }
        assert_eq!(script.read.each_ref().map(Vec::len), [2148, 2148], "{name}");
    }
}
