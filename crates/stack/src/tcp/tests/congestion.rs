//! Slow start, congestion avoidance, fast retransmit and recovery, quench.

use super::{Script, open, opened};
use crate::mbuf::PoolUse;

/// Segments of data in each burst while the receiver reads whole bursts.
fn bursts(name: &str, count: usize) -> Vec<usize> {
    let mut script = Script::pair(name);
    for line in ["s socket", "c socket", "s listen", "c buffers 52428"] {
        script.begin(line);
    }
    script.listen_with(1, 52_428);
    for line in ["c connect", "s accept", "c hold", "c write 1500000"] {
        script.begin(line);
    }
    let mut bursts = Vec::new();
    while bursts.len() < count {
        let sent = script.pair.wire.iter().filter(|flight| flight.to == 1).count();
        bursts.push(sent);
        for _ in 0..script.pair.wire.len() {
            script.begin("c pass");
        }
        script.begin("s read 60000");
        if script.pair.wire.is_empty() {
            // One segment alone waits for the fast timer.
            let at_ms = (script.now_ms() / 200 + 1) * 200;
            script.begin(&format!("{}.{:03} c hold", at_ms / 1000, at_ms % 1000));
        }
        let acks = script.pair.wire.len();
        assert_eq!(acks, 1, "one acknowledgment a burst");
        script.begin("c pass");
    }
    bursts
}

#[test]
fn each_burst_of_sunos_is_one_segment_larger() {
    assert_eq!(bursts("sunos-4.0.3", 40), (1..=40).collect::<Vec<_>>());
}

#[test]
fn in_tahoe_a_local_peer_gets_a_whole_buffer_at_once() {
    assert_eq!(bursts("tahoe", 5), [4, 5, 6, 7, 8]);
}

fn sent_four(name: &str) -> Script {
    let mut script = opened(name);
    // Slow start is over before the loss.
    let mut next = 1;
    for _ in 0..8 {
        script.begin("write 1024");
        next += 1024;
        script.begin(&format!("< . ack {next} win 4096"));
    }
    assert_eq!(next, 8193);
    script.check(
        "write 4096 = 4096
         > . 8193:9217(1024) ack 1 win 4096
         > . 9217:10241(1024) ack 1 win 4096
         > . 10241:11265(1024) ack 1 win 4096
         > P 11265:12289(1024) ack 1 win 4096",
    );
    script
}

#[test]
fn tahoe_sends_one_segment_again_after_three_duplicates_and_starts_slow() {
    sent_four("tahoe").check(
        "< . ack 8193 win 4096
         < . ack 8193 win 4096
         < . ack 8193 win 4096
         > . 8193:9217(1024) ack 1 win 4096
         cwnd = 1024
         ssthresh = 2048
         < . ack 8193 win 4096
         < . ack 12289 win 4096
         cwnd = 2048",
    );
}

/// Its timeout leaves the count of duplicates where it was (`t_dupacks`), so that others are ignored until
/// something new is acknowledged; 4.3BSD-Reno's begins anew.
#[test]
fn in_tahoe_duplicates_behind_a_timeout_send_nothing_again() {
    sent_four("tahoe").check(
        "< . ack 8193 win 4096
         < . ack 8193 win 4096
         < . ack 8193 win 4096
         > . 8193:9217(1024) ack 1 win 4096
         1.000 > . 8193:9217(1024) ack 1 win 4096
         < . ack 8193 win 4096
         < . ack 8193 win 4096
         < . ack 8193 win 4096
         cwnd = 1024
         < . ack 12289 win 4096                    # now three count again
         write 4096 = 4096
         > . 12289:13313(1024) ack 1 win 4096
         > . 13313:14337(1024) ack 1 win 4096
         < . ack 12289 win 4096
         < . ack 12289 win 4096
         < . ack 12289 win 4096
         > . 12289:13313(1024) ack 1 win 4096",
    );
}

#[test]
fn in_reno_three_duplicates_behind_a_timeout_count() {
    recovering().check(
        "1.500 > . 8193:9217(1024) ack 1 win 4096
         < . ack 8193 win 4096
         < . ack 8193 win 4096
         < . ack 8193 win 4096
         > . 8193:9217(1024) ack 1 win 4096",
    );
}

/// Four segments of Reno's are out, the first of them lost; the third duplicate has arrived.
fn recovering() -> Script {
    let mut script = opened("reno");
    let mut next = 1;
    for _ in 0..8 {
        script.begin("write 1024");
        next += 1024;
        script.begin(&format!("< . ack {next} win 4096"));
    }
    script.check(
        "write 4096 = 4096
         > P 8193:9217(1024) ack 1 win 4096
         > P 9217:10241(1024) ack 1 win 4096
         > P 10241:11265(1024) ack 1 win 4096
         > P 11265:12289(1024) ack 1 win 4096
         < . ack 8193 win 4096
         < . ack 8193 win 4096
         < . ack 8193 win 4096
         > . 8193:9217(1024) ack 1 win 4096
         ssthresh = 2048
         cwnd = 5120",
    );
    script
}

#[test]
fn reno_recovers_without_slow_start() {
    recovering().check(
        "< . ack 8193 win 4096
         cwnd = 6144
         write 1024 = sleep
         < . ack 9217 win 4095                     # not what prediction expects
         cwnd = 3072                               # 2048, and one segment for what was acknowledged
         < . ack 12289 win 4095
         > P 12289:13313(1024) ack 1 win 4096",
    );
}

/// Header prediction has no eye for recovery: the window stays as large as the duplicates made it.
#[test]
fn a_predicted_acknowledgment_leaves_renos_window_inflated() {
    recovering().check(
        "< . ack 8193 win 4096
         < . ack 12289 win 4096
         cwnd = 6144",
    );
}

#[test]
fn with_exactly_three_duplicates_renos_window_stays_inflated() {
    recovering().check(
        "< . ack 12289 win 4095
         cwnd = 5452",
    );
}

#[test]
fn the_older_systems_ignore_duplicates() {
    sent_four("4.3bsd").check(
        "< . ack 8193 win 4096
         < . ack 8193 win 4096
         < . ack 8193 win 4096
         < . ack 8193 win 4096
         1.000 > . 8193:9217(1024) ack 1 win 4096",
    );
}

#[test]
fn an_acknowledgment_with_data_or_another_window_is_no_duplicate() {
    sent_four("tahoe").check(
        "< . ack 8193 win 4096
         < . ack 8193 win 4096
         < . ack 8193 win 4095
         < . ack 8193 win 4095
         < . 1:101(100) ack 8193 win 4095
         < . seq 101 ack 8193 win 4095
         < . seq 101 ack 8193 win 4095
         cwnd = 9216"
            .replace("cwnd = 9216", "cwnd = 12288")
            .as_str(),
    );
}

#[test]
fn a_timeout_leaves_one_segment_and_half_the_window() {
    sent_four("sunos-4.0.3").check(
        "1.000 > . 8193:9217(1024) ack 1 win 4096
         cwnd = 1024
         ssthresh = 2048
         < . ack 9217 win 4096
         > . 9217:10241(1024) ack 1 win 4096
         > . 10241:11265(1024) ack 1 win 4096
         < . ack 12289 win 4096
         cwnd = 3072",
    );
}

/// The growth by each acknowledgment of a segment, from a window of one segment on.
fn growth(name: &str) -> Vec<u32> {
    let mut script = opened(name);
    script.begin("quench");
    let mut next = 1;
    let mut windows = Vec::new();
    for _ in 0..4 {
        script.begin("write 1024");
        next += 1024;
        script.begin(&format!("< . ack {next} win 4096"));
        let text = script.after("cwnd =");
        windows.push(text.trim_start_matches("cwnd = ").parse().unwrap());
    }
    windows
}

#[test]
fn acknowledgments_open_the_window() {
    assert_eq!(growth("tahoe"), [2048, 3072, 4096, 5120]);
    assert_eq!(growth("sunos-4.1"), [2048, 3072, 4096, 5120]);
    assert_eq!(growth("4.3bsd"), [1126, 1238, 1361, 1497]);
    assert_eq!(growth("4.2bsd"), [65_535; 4]);
}

#[test]
fn beyond_the_threshold_the_window_grows_by_a_segment_a_window() {
    // A loss sets the threshold to 2048.
    let mut script = sent_four("tahoe");
    script.begin("1.000 state");
    let mut windows = Vec::new();
    let mut next = 12_289;
    script.begin(&format!("< . ack {next} win 4096"));
    for _ in 0..4 {
        script.begin("write 1024");
        next += 1024;
        script.begin(&format!("< . ack {next} win 4096"));
        windows.push(script.after("cwnd ="));
    }
    assert_eq!(windows, ["cwnd = 3072", "cwnd = 3413", "cwnd = 3720", "cwnd = 4001"]);
}

#[test]
fn a_full_interface_queue_is_a_quench_since_tahoe_and_a_loss_before() {
    for (name, window) in [("4.3bsd", 4505), ("tahoe", 1024), ("sunos-4.1", 1024)] {
        let mut script = Script::with_queue(name, 1);
        open(&mut script, 4096);
        script.begin("write 1024");
        script.begin("< . ack 1025 win 4096");
        // The device takes the first of four segments, the queue the second.
        script.check(&format!(
            "write 4096 = 4096
             > . 1025:2049(1024) ack 1 win 4096
             > . 2049:3073(1024) ack 1 win 4096
             cwnd = {window}"
        ));
        script.begin("< . ack 3073 win 4096");
        let text = script.after("9.000 state =");
        assert!(text.contains("> . 3073:4097(1024)"), "{name}: {text}");
    }
}

#[test]
fn without_mbufs_a_segment_is_tried_again_later() {
    for name in ["4.2bsd", "4.3bsd", "tahoe", "reno"] {
        let mut script = opened(name);
        let mut meter = crate::Meter::default();
        let pool = &mut script.pair.hosts[0].stack.pool;
        let mut taken: Vec<_> = std::iter::from_fn(|| pool.get(&mut meter)).collect();
        // One for the data; none for the header.
        let last = taken.pop().unwrap();
        pool.free(last, &mut meter);
        assert_eq!(script.after("write 10 ="), "write 10 = 10", "{name}");
        let pool = &mut script.pair.hosts[0].stack.pool;
        taken.into_iter().for_each(|id| pool.free(id, &mut meter));
        let text = script.after("20.000 state =");
        assert!(text.contains("> P 1:11(10)"), "{name}: {text}");
        script.begin("< . ack 11 win 4096");
        assert_eq!(script.pair.hosts[0].stack.pool.in_use(), PoolUse::default());
    }
}

/// From Tahoe on the last segment of the handshake acknowledges the SYN as any does data. So the
/// called end begins with a segment more.
#[test]
fn the_end_that_was_called_begins_with_a_segment_more() {
    let called = |name: &str| {
        let mut script = Script::alone(name);
        script.begin("listen");
        script.begin("< S 0:0(0) win 4096 <mss 1024>");
        script.begin("< . ack 1 win 4096");
        script.begin("accept");
        script.after("cwnd =")
    };
    assert_eq!(called("4.3bsd"), "cwnd = 4096");
    assert_eq!(called("tahoe"), "cwnd = 5120");
    assert_eq!(called("reno"), "cwnd = 2048");
    assert_eq!(opened("tahoe").after("cwnd ="), "cwnd = 4096");
    assert_eq!(opened("reno").after("cwnd ="), "cwnd = 1024");
}
