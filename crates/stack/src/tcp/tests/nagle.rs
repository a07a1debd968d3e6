//! When a short segment may leave: the sender's silly-window rules and Nagle's.

use super::{Script, open, opened};

/// Of these writes behind one unacknowledged byte, those that leave at once.
fn leaving(name: &str, prepare: &str) -> Vec<usize> {
    let leaves = |len: &usize| {
        let mut script = opened(name);
        if !prepare.is_empty() {
            script.begin(prepare);
        }
        // The congestion window must not hold it.
        for next in [1025, 2049, 3073] {
            script.begin("write 1024");
            script.begin(&format!("< . ack {next} win 4096"));
        }
        script.begin("write 1");
        script.after(&format!("write {len}")).contains("> ")
    };
    [1, 511, 512, 1023, 1024].into_iter().filter(leaves).collect()
}

#[test]
fn behind_an_unacknowledged_byte_each_version_holds_what_its_rule_says() {
    for name in ["4.2bsd", "4.2bsd-cabrera"] {
        assert_eq!(leaving(name, ""), [1, 511, 512, 1023, 1024], "{name}: there is no such rule");
    }
    assert_eq!(leaving("4.3bsd", ""), [512, 1023, 1024], "512 bytes escape");
    for name in ["tahoe", "sunos-4.0.3", "sunos-4.1"] {
        assert_eq!(leaving(name, ""), [1024], "{name}");
    }
}

/// In 4.3BSD-Reno a write goes down mbuf by mbuf: each segment sent is full.
#[test]
fn reno_sends_only_full_segments_behind_a_byte() {
    // The window of one segment would hide the rule.
    let mut script = opened("reno");
    script.check(
        "write 1024 = 1024
         > P 1:1025(1024) ack 1 win 4096
         < . ack 1025 win 4096
         write 1 = 1
         > P 1025:1026(1) ack 1 win 4096
         write 1023 = 1023
         write 1 = 1
         > P 1026:2050(1024) ack 1 win 4096",
    );
}

#[test]
fn tcp_nodelay_lets_everything_leave() {
    for name in ["4.3bsd", "tahoe", "sunos-4.1"] {
        assert_eq!(leaving(name, "nodelay"), [1, 511, 512, 1023, 1024], "{name}");
    }
}

#[test]
fn the_rest_of_a_write_follows_its_full_segments_at_once() {
    for name in ["4.3bsd", "tahoe", "sunos-4.1"] {
        opened(name).check(
            "write 2500 = 2500
             > . 1:1025(1024) ack 1 win 4096
             > . 1025:2049(1024) ack 1 win 4096
             > P 2049:2501(452) ack 1 win 4096
             write 10 = 10
             < . ack 2049 win 4096
             < . ack 2501 win 4096
             > P 2501:2511(10) ack 1 win 4096",
        );
    }
}

#[test]
fn half_of_a_small_window_is_worth_a_segment() {
    for name in ["4.3bsd", "tahoe", "sunos-4.1"] {
        let mut script = Script::alone(name);
        open(&mut script, 800);
        script.check(
            "write 1 = 1
             > P 1:2(1) ack 1 win 4096
             write 399 = 399
             write 1 = 1
             > P 2:402(400) ack 1 win 4096",
        );
    }
}

#[test]
fn in_4_2_a_quarter_of_the_window_is_worth_a_segment() {
    let mut script = Script::alone("4.2bsd");
    open(&mut script, 1000);
    script.check(
        "write 700 = 700
         > P 1:701(700) ack 1 win 2048
         write 500 = 500
         > . 701:1001(300) ack 1 win 2048
         write 500 = 500
         < . ack 701 win 400                       # 100 more fit: a quarter
         > . 1001:1101(100) ack 1 win 2048
         < . ack 1001 win 199                      # 99 more: a quarter and more
         > . 1101:1200(99) ack 1 win 2048
         < . ack 1101 win 110                      # 11 more: too few",
    );
}

#[test]
fn a_fin_takes_the_rest_along() {
    opened("sunos-4.1").check(
        "write 1 = 1
         > P 1:2(1) ack 1 win 4096
         write 100 = 100
         close
         > FP 2:102(100) ack 1 win 4096",
    );
}
