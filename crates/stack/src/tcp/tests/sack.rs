//! Selective acknowledgments (RFC 2018).

use super::Script;

/// A connection on which both SYNs permit them; the peer offers `window`.
fn permitted(personality: &str, window: u32) -> Script {
    let mut script = Script::alone(personality);
    script.begin("socket");
    script.begin("buffers 16384");
    script.begin("connect");
    script.begin(&format!("< S 0:0(0) ack 1 win {window} <mss 1024 sackOK>"));
    script
}

#[test]
fn blocks_are_sent_if_both_syns_permit_them() {
    Script::alone("tahoe+sack").check(
        "connect
         > S 0:0(0) win 4096 <mss 1024 sackOK>
         < S 0:0(0) ack 1 win 4096 <mss 1024>
         > . ack 1 win 4096
         < P 501:1001(500) ack 1 win 4096
         > . ack 1 win 4096",
    );
    let mut script = Script::alone("tahoe+sack");
    script.begin("listen");
    let answer = script.after("< S 0:0(0) win 4096 <mss 1024 sackOK>");
    assert!(answer.ends_with("> S 0:0(0) ack 1 win 4096 <mss 1024 sackOK>"), "{answer}");
    let plain = Script::alone("tahoe").after("connect");
    assert!(!plain.contains("sackOK"), "{plain}");
}

/// The examples of RFC 2018 §8 with segments of 500 bytes: the first is lost; then each second one is.
#[test]
fn the_block_of_the_last_segment_is_first() {
    permitted("tahoe+sack", 4096).check(
        "< P 501:1001(500) ack 1 win 4096
         > . ack 1 win 16384 <sack 501:1001>
         < P 1001:1501(500) ack 1 win 4096
         > . ack 1 win 16384 <sack 501:1501>
         < P 1501:2001(500) ack 1 win 4096
         > . ack 1 win 16384 <sack 501:2001>",
    );
    permitted("tahoe+sack", 4096).check(
        "< P 501:1001(500) ack 1 win 4096
         > . ack 1 win 16384 <sack 501:1001>
         < P 1501:2001(500) ack 1 win 4096
         > . ack 1 win 16384 <sack 1501:2001 501:1001>
         < P 2501:3001(500) ack 1 win 4096
         > . ack 1 win 16384 <sack 2501:3001 1501:2001 501:1001>
         < P 2001:2501(500) ack 1 win 4096               # fills a hole between two
         > . ack 1 win 16384 <sack 1501:3001 501:1001>
         < P 501:1001(500) ack 1 win 4096                # a copy
         > . ack 1 win 16384 <sack 501:1001 1501:3001>
         < P 1:501(500) ack 1 win 4096
         > . ack 1001 win 15384 <sack 1501:3001>
         < P 1001:1501(500) ack 1 win 4096
         > . ack 3001 win 13384",
    );
}

/// With timestamps there is room for three blocks, without for four.
#[test]
fn as_many_blocks_as_the_header_has_room_for() {
    let last = |personality: &str, options: &str| {
        let mut script = Script::alone(personality);
        script.begin("connect");
        script.begin(&format!("< S 0:0(0) ack 1 win 4096 <mss 1024 sackOK{options}>"));
        (0..6).map(|at| 101 + 200 * at).for_each(|at| {
            script.begin(&format!("< P {at}:{}(100) ack 1 win 4096", at + 100));
        });
        script.after("< P 101:201(100) ack 1 win 4096")
    };
    let without = last("tahoe+sack", "");
    assert!(without.ends_with("<sack 101:201 1101:1201 901:1001 701:801>"), "{without}");
    let with = last("tahoe+sack+timestamps", " ts 7 1");
    assert!(with.ends_with("<ts 1 7 sack 101:201 1101:1201 901:1001>"), "{with}");
}

/// Eight segments are in flight, numbers 8193 to 16385.
fn eight_in_flight(personality: &str) -> Script {
    let mut script = permitted(personality, 16_384);
    let mut next = 1;
    for _ in 0..8 {
        script.begin("write 1024");
        next += 1024;
        script.begin(&format!("< . ack {next} win 16384"));
    }
    for _ in 0..8 {
        script.begin("write 1024");
    }
    script
}

/// The first, third and fifth of eight segments are lost. All three are sent again on the acknowledgments of the
/// others: within a round trip.
#[test]
fn three_holes_of_one_window_are_repaired_in_one_round_trip() {
    for personality in ["reno+sack", "tahoe+sack", "sunos-4.1+sack"] {
        let mut script = eight_in_flight(personality);
        let mut resent = Vec::new();
        for line in [
            "< . ack 8193 win 16384 <sack 9217:10241>",
            "< . ack 8193 win 16384 <sack 11265:12289 9217:10241>",
            "< . ack 8193 win 16384 <sack 13313:14337 11265:12289 9217:10241>",
            "< . ack 8193 win 16384 <sack 13313:15361 11265:12289 9217:10241>",
            "< . ack 8193 win 16384 <sack 13313:16385 11265:12289 9217:10241>",
        ] {
            let text = script.after(line);
            let sent = text.lines().skip(1).filter_map(|line| line.split(' ').nth(2));
            resent.extend(sent.map(str::to_owned));
        }
        let holes = ["8193:9217(1024)", "10241:11265(1024)", "12289:13313(1024)"];
        assert_eq!(resent, holes, "{personality}");
        let end = script.after("< . ack 16385 win 16384");
        assert_eq!(end.lines().count(), 1, "{personality}: {end}");
        script.begin("10.000 state =");
        assert_eq!(script.pair.hosts[0].stack.tcp_counts().timeouts, 0, "{personality}");
    }
}

/// Without blocks the same losses need a timeout: Reno's recovery repairs the first.
#[test]
fn without_blocks_the_same_losses_need_a_timeout() {
    let mut script = eight_in_flight("reno");
    let mut text = String::new();
    for _ in 0..5 {
        text += &script.after("< . ack 8193 win 16384");
    }
    text += &script.after("< . ack 10241 win 16384");
    for hole in ["10241:11265(1024)", "12289:13313(1024)"] {
        assert!(!text.contains(hole), "{hole} is sent again:\n{text}");
    }
    assert!(script.after("4.000 state =").contains("> . 10241:11265(1024)"));
    assert!(script.pair.hosts[0].stack.tcp_counts().timeouts > 0);
}

/// The peer may drop what it announced (RFC 2018 §8): behind a timeout nothing is believed but newer blocks.
#[test]
fn a_timeout_forgets_blocks_and_newer_ones_spare_what_arrived() {
    let mut script = eight_in_flight("reno+sack");
    script.begin("< . ack 8193 win 16384 <sack 9217:10241>");
    let timeout = script.after("6.000 state =");
    assert!(timeout.contains("> . 8193:9217(1024)"), "{timeout}");
    let text = script.after("< . ack 9217 win 16384 <sack 10241:11265>");
    let resent: Vec<&str> = text.lines().skip(1).collect();
    // The window has room for two segments; the second has arrived.
    assert_eq!(resent, ["> . 9217:10241(1024) ack 1 win 16384"], "{text}");
    let mut script = eight_in_flight("reno");
    script.begin("6.000 state =");
    let text = script.after("< . ack 9217 win 16384");
    assert_eq!(text.lines().count(), 3, "without blocks both are sent again: {text}");
}
