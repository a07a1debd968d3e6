//! Timestamps (RFC 1323 §3, §4). The clock of this host begins at 1, and counts slow ticks.

use super::Script;

/// A connection with timestamps from 0.4 s on; segments of 1012 bytes, as 12 are the option's.
fn stamped(personality: &str) -> Script {
    let mut script = Script::alone(personality);
    script.begin("connect");
    script.begin("< S 0:0(0) ack 1 win 4096 <mss 1024 ts 70 1>");
    script
}

#[test]
fn both_ends_agree_and_each_segment_has_them() {
    Script::alone("reno+timestamps").check(
        "connect
         > S 0:0(0) win 4096 <mss 1024 ts 1 0>
         < S 0:0(0) ack 1 win 4096 <mss 1024 ts 70 1>
         > . ack 1 win 4048 <ts 1 70>
         write 2024 = 2024
         > . 1:1013(1012) ack 1 win 4048 <ts 1 70>
         0.700 < . ack 1013 win 4096 <ts 71 1>
         > P 1013:2025(1012) ack 1 win 4048 <ts 2 71>
         < P 1:11(10) ack 2025 win 4096 <ts 72 2>
         0.800 > . ack 11 win 4038 <ts 2 72>
         close
         > F 2025:2025(0) ack 11 win 4048 <ts 2 72>",
    );
}

#[test]
fn no_segment_has_them_unless_both_syns_do() {
    Script::alone("reno+timestamps").check(
        "connect
         > S 0:0(0) win 4096 <mss 1024 ts 1 0>
         < S 0:0(0) ack 1 win 4096 <mss 1024>
         > . ack 1 win 4096
         write 1024 = 1024
         > P 1:1025(1024) ack 1 win 4096",
    );
    Script::alone("reno").check(
        "connect
         > S 0:0(0) win 4096 <mss 1024>
         < S 0:0(0) ack 1 win 4096 <mss 1024 ts 70 0>
         > . ack 1 win 4096",
    );
}

/// The first of two segments is acknowledged after 1 tick, the second after 4. Without timestamps the second is not
/// timed, since the first is.
#[test]
fn each_acknowledgment_is_a_sample() {
    let smoothed = |personality: &str, echoes: [&str; 2]| {
        let mut script = stamped(personality);
        let [first, second] = echoes;
        script.begin("nodelay");
        script.begin("write 500");
        script.begin("write 500");
        script.begin(&format!("0.700 < . ack 501 win 4096{first}"));
        script.begin(&format!("2.200 < . ack 1001 win 4096{second}"));
        script.after("rtt_ms =")
    };
    // The SYN's round trip is 1 tick. Two more follow, of 2 and 5 ticks: 8 + 0 and then 8 + 3 eighths of 0.5 s.
    let stamped = smoothed("reno+timestamps", [" <ts 71 1>", " <ts 74 1>"]);
    assert_eq!(stamped, "rtt_ms = 687");
    assert_eq!(smoothed("reno", ["", ""]), "rtt_ms = 500");
}

/// Karn's rule excludes segments that were sent twice, since nothing shows which copy is acknowledged. Their timeout
/// stays backed off, so that the next loss costs more.
#[test]
fn a_segment_that_was_sent_again_is_a_sample_of_the_copy_that_is_echoed() {
    stamped("reno+timestamps").check(
        "write 1000 = 1000
         > P 1:1001(1000) ack 1 win 4048 <ts 1 70>
         1.500 > P 1:1001(1000) ack 1 win 4048 <ts 3 70>
         timeout = 6
         2.200 < . ack 1001 win 4096 <ts 75 3>
         rtt_ms = 562                              # the copy of 1.5 s
         timeout = 4",
    );
    let echoes_first = |personality: &str, echo: &str| {
        let mut script = stamped(personality);
        script.begin("write 1000");
        script.begin("1.600 rtt_ms =");
        script.begin(&format!("2.200 < . ack 1001 win 4096{echo}"));
        script.after("rtt_ms =")
    };
    assert_eq!(
        echoes_first("reno+timestamps", " <ts 75 1>"),
        "rtt_ms = 687",
        "the first copy, 5 ticks"
    );
    assert_eq!(echoes_first("reno", ""), "rtt_ms = 500", "Karn's rule: no sample");
}

/// The numbers have wrapped: a segment of the last round fits the window. Its timestamp shows its age.
#[test]
fn an_old_duplicate_is_refused_although_its_numbers_fit() {
    stamped("reno+timestamps").check(
        "< P 1:501(500) ack 1 win 4096 <ts 80 1>
         0.200 > . ack 501 win 3548 <ts 1 80>
         < P 501:1001(500) ack 1 win 4096 <ts 79 1>     # older than 80
         > . ack 501 win 3548 <ts 1 80>
         < P 501:601(100) ack 1 win 4096 <ts 81 1>
         read 4096 = 600                                # the bytes of the newer one
         < R 601:601(0) ack 1 win 4096 <ts 3 1>         # a reset is obeyed whatever its time
         state = gone",
    );
    let mut plain = super::opened("reno");
    plain.begin("< P 1:501(500) ack 1 win 4096");
    plain.begin("< P 501:1001(500) ack 1 win 4096");
    assert_eq!(plain.after("read 4096 ="), "read 4096 = 1000", "without timestamps it is data");
}

/// A receiver that waits for a hole echoes the time of the last segment before it; the sender's sample then has the
/// time of the repair in it (RFC 1323 §3.4, case B).
#[test]
fn behind_a_hole_the_time_before_it_is_echoed() {
    stamped("tahoe+timestamps").check(
        "< P 1:501(500) ack 1 win 4096 <ts 80 1>
         < P 1001:1501(500) ack 1 win 4096 <ts 82 1>
         > . ack 501 win 3596 <ts 1 80>
         < P 501:1001(500) ack 1 win 4096 <ts 85 1>
         > . ack 1501 win 2596 <ts 1 85>",
    );
}

/// After 24 days without a segment the peer's clock may have wrapped (RFC 1323 §4.2.3).
#[test]
fn an_idle_connection_forgets_the_time_of_its_peer() {
    let mut script = stamped("reno+timestamps");
    script.begin("tick 4147200");
    assert_eq!(
        script.after("< P 1:501(500) ack 1 win 4096 <ts 9 1>").lines().count(),
        2,
        "refused"
    );
    script.begin("tick 1");
    script.begin("< P 1:501(500) ack 1 win 4096 <ts 9 1>");
    assert_eq!(script.after("read 4096 ="), "read 4096 = 500");
}

/// The segment is timed instead, as without timestamps: 3 ticks.
#[test]
fn an_echo_from_the_future_is_no_sample() {
    for echo in [4, 1 << 30, 1u32 << 31] {
        let mut script = stamped("reno+timestamps");
        script.begin("write 500");
        script.begin(&format!("1.200 < . ack 501 win 4096 <ts 71 {echo}>"));
        assert_eq!(script.after("rtt_ms ="), "rtt_ms = 562", "{echo}");
    }
}
