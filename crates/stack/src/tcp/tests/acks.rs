//! When the receiver speaks: window updates, delayed and immediate acknowledgments.

use super::{Script, open, opened};
use crate::tcp::tests::connection::ALL;

/// A connection whose socket has these buffers from before it was opened.
fn opened_with(name: &str, buffers: u32) -> Script {
    let mut script = Script::alone(name);
    script.begin("socket");
    script.begin(&format!("buffers {buffers}"));
    open(&mut script, 4096);
    script
}

/// Fills the receive buffer with segments of 1024 bytes; returns their number.
fn fill(script: &mut Script, buffers: u32) -> u32 {
    let segments = buffers / 1024;
    for at in 0..segments {
        let from = 1 + at * 1024;
        script.begin(&format!("< . {from}:{}(1024) ack 1 win 4096", from + 1024));
    }
    segments
}

/// The least number of bytes that must be read from a full buffer to make an update leave.
fn threshold(name: &str, buffers: u32) -> u32 {
    let updates = |len: u32| {
        let mut script = opened_with(name, buffers);
        fill(&mut script, buffers);
        script.after(&format!("read {len}")).contains("> ")
    };
    let (mut silent, mut loud) = (0, buffers / 1024 * 1024);
    assert!(updates(loud));
    while loud - silent > 1 {
        let middle = (silent + loud) / 2;
        if updates(middle) { loud = middle } else { silent = middle }
    }
    loud
}

#[test]
fn an_update_leaves_when_the_window_moves_far_enough() {
    assert_eq!(threshold("4.2bsd", 2048), 717);
    assert_eq!(threshold("4.2bsd-cabrera", 2048), 717);
    for name in ["4.3bsd", "tahoe", "sunos-4.0.3", "sunos-4.1"] {
        assert_eq!(threshold(name, 4096), 1434, "{name}");
    }
    for name in ["4.3bsd", "sunos-4.0.3"] {
        assert_eq!(threshold(name, 52_428), 18_350, "{name}");
    }
    assert_eq!(threshold("reno", 4096), 2048);
}

/// Bytes read at once into an otherwise empty buffer of 52,428, and whether that speaks.
fn speaks_after(name: &str, segments: u32) -> bool {
    let mut script = opened_with(name, 52_428);
    fill(&mut script, segments * 1024);
    script.after("read 60000").contains("> ")
}

#[test]
fn an_emptied_buffer_speaks_after_two_segments_since_tahoe() {
    let spoken = |name| (1..=3).map(|segments| speaks_after(name, segments)).collect::<Vec<_>>();
    assert_eq!(spoken("4.3bsd"), [false, false, false]);
    for name in ["tahoe", "sunos-4.0.3", "sunos-4.1", "reno"] {
        assert_eq!(spoken(name), [false, true, true], "{name}");
    }
}

#[test]
fn only_reno_speaks_after_two_segments_while_more_is_left() {
    let spoken = |name| {
        let mut script = opened_with(name, 52_428);
        fill(&mut script, 4 * 1024);
        script.after("read 2048").contains("> ")
    };
    assert!(!spoken("sunos-4.0.3") && !spoken("tahoe") && spoken("reno"));
}

#[test]
fn with_small_buffers_every_second_segment_is_acknowledged() {
    for name in ["4.3bsd", "tahoe", "reno", "sunos-4.1"] {
        opened(name).check(
            "< . 1:1025(1024) ack 1 win 4096
             read 4096 = 1024
             < . 1025:2049(1024) ack 1 win 4096
             read 4096 = 1024
             > . ack 2049 win 4096
             < . 2049:3073(1024) ack 1 win 4096
             read 4096 = 1024",
        );
    }
}

#[test]
fn data_that_nothing_else_acknowledges_wait_for_the_fast_timer() {
    for name in ALL {
        let window = if name.starts_with("4.2") { 2048 } else { 4096 };
        opened(name).check(&format!(
            "0.050 < P 1:11(10) ack 1 win 4096
             0.200 > . ack 11 win {}
             0.310 < P 11:21(10) ack 1 win 4096
             write 5 = 5
             > P 1:6(5) ack 21 win {}
             0.900 read 100 = 20",
            window - 10,
            window - 20
        ));
    }
}

#[test]
fn data_out_of_order_are_acknowledged_at_once_since_tahoe() {
    for name in ["tahoe", "reno", "sunos-4.0.3"] {
        opened(name).check(
            "0.010 < . 1025:2049(1024) ack 1 win 4096
             > . ack 1 win 4096
             < . 2049:3073(1024) ack 1 win 4096
             > . ack 1 win 4096
             < . 1:1025(1024) ack 1 win 4096
             > . ack 3073 win 1024
             read 4096 = 3072
             > . ack 3073 win 4096",
        );
    }
    opened("4.3bsd").check(
        "0.010 < . 1025:2049(1024) ack 1 win 4096
         0.200 > . ack 1 win 4096
         < . 1:1025(1024) ack 1 win 4096
         0.400 > . ack 2049 win 2048",
    );
}

#[test]
fn what_came_before_is_acknowledged_again_at_once() {
    for name in ALL {
        let mut script = opened(name);
        script.begin("< P 1:11(10) ack 1 win 4096");
        script.begin("0.250 read 100");
        let answer = script.after("< P 1:11(10) ack 1 win 4096");
        assert!(answer.contains("> . ack 11"), "{name}: {answer}");
    }
}

#[test]
fn an_empty_segment_outside_the_window_is_answered_but_in_4_2() {
    for name in ALL {
        let answer = opened(name).after("< . seq 9999 ack 1 win 4096");
        assert_eq!(answer.contains("> . ack 1"), !name.starts_with("4.2"), "{name}: {answer}");
    }
}

#[test]
fn reno_takes_what_it_expects_without_calling_output() {
    let calls = |name: &str| {
        let mut script = opened(name);
        let before = script.pair.calls(0, crate::Routine::TcpXoutput);
        script.begin("< . 1:513(512) ack 1 win 4096");
        script.begin("< . 513:1025(512) ack 1 win 4096");
        script.pair.calls(0, crate::Routine::TcpXoutput) - before
    };
    // The first segment brings no news of the window, as its number is that of the handshake's last.
    assert_eq!(["4.2bsd", "4.3bsd", "tahoe", "reno"].map(calls), [2, 1, 1, 0]);
}
