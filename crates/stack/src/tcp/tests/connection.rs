//! Opening and closing: every state, both ways round.

use super::{Script, opened};
use crate::personality::Personality;
use crate::socket::SetOption;

pub(super) const ALL: [&str; 7] =
    ["4.2bsd", "4.2bsd-cabrera", "4.3bsd", "tahoe", "reno", "sunos-4.0.3", "sunos-4.1"];

#[test]
fn every_personality_announces_its_segment_size() {
    let announced = ALL.map(|name| {
        let mut script = Script::alone(name);
        let text = script.after("connect");
        text.lines().last().unwrap().trim_start_matches("> ").to_owned()
    });
    assert_eq!(
        announced,
        [
            "S 0:0(0) win 2048 <mss 1024>",
            "S 0:0(0) win 2048 <mss 1024>",
            "S 0:0(0) win 4096 <mss 1024>",
            "S 0:0(0) win 4096 <mss 1024>",
            "S 0:0(0) win 4096 <mss 1024>",
            "S 0:0(0) win 4096 <mss 1024>",
            "S 0:0(0) win 4096 <mss 1460>",
        ]
    );
}

/// Buffers become whole segments where a SYN announces their size, so its answer offers no more.
#[test]
fn the_answer_to_a_syn_offers_what_the_buffer_will_hold() {
    for (name, window) in [("tahoe", 4096), ("reno", 4000)] {
        Script::alone(name).check(&format!(
            "listen
             < S 0:0(0) win 4096 <mss 1000>
             > S 0:0(0) ack 1 win {window} <mss 1024>
             < . ack 1 win 4096
             accept = ok
             < P 1:101(100) ack 1 win 4096
             read 100 = 100",
        ));
    }
}

/// `tcp_mss` of 4.3BSD-Reno changes buffers only for an option, or for an interface that takes less
/// than the 512 bytes of a peer without the option.
#[test]
fn a_syn_without_a_size_leaves_the_buffers_as_they_are() {
    for name in ["tahoe", "reno"] {
        let mut script = Script::alone(name);
        script.begin("listen");
        script.listen_with(0, 5000);
        script.check(
            "< S 0:0(0) win 4096
             > S 0:0(0) ack 1 win 5000 <mss 1024>
             < . ack 1 win 4096
             accept = ok
             < P 1:101(100) ack 1 win 4096
             read 100 = 100
             0.200 > . ack 101 win 5000",
        );
        Script::alone(name).check(
            "socket
             rcvbuf 5000
             connect
             > S 0:0(0) win 5000 <mss 1024>
             < S 0:0(0) ack 1 win 4096
             > . ack 1 win 5000",
        );
    }
}

#[test]
fn an_interface_of_small_packets_cuts_buffers_though_no_size_came() {
    for (name, window) in [("tahoe", 5000), ("reno", 4800)] {
        let mut script = Script::alone(name);
        script.pair.hosts[0].stack.config.segment_bytes_max = Some(400);
        script.check(&format!(
            "socket
             rcvbuf 5000
             connect
             > S 0:0(0) win 5000 <mss 400>
             < S 0:0(0) ack 1 win 4096
             > . ack 1 win {window}"
        ));
    }
}

/// A send buffer of less than a segment makes the segments smaller, and the receive buffer is a
/// whole number of these.
#[test]
fn the_receive_buffer_is_of_segments_that_the_send_buffer_holds() {
    for (name, window) in [("tahoe", 4096), ("reno", 4000)] {
        let mut script = Script::alone(name);
        script.begin("socket");
        script.set(0, SetOption::SendBuffer(1000));
        script.check(&format!(
            "connect
             > S 0:0(0) win 4096 <mss 1024>
             < S 0:0(0) ack 1 win 4096 <mss 1460>
             > . ack 1 win {window}
             < P 1:101(100) ack 1 win 4096
             read 100 = 100"
        ));
    }
}

#[test]
fn a_connection_is_opened_and_closed_from_here() {
    for name in ["4.3bsd", "tahoe", "reno"] {
        Script::alone(name).check(
            "connect
             > S 0:0(0) win 4096 <mss 1024>
             < S 0:0(0) ack 1 win 4096 <mss 1024>
             > . ack 1 win 4096
             state = Established
             write 100 = 100
             > P 1:101(100) ack 1 win 4096
             < . ack 101 win 4096
             close
             > F 101:101(0) ack 1 win 4096
             state = FinWait1
             < . ack 102 win 4096
             state = FinWait2
             < F 1:1(0) ack 102 win 4096
             > . ack 2 win 4096
             state = TimeWait",
        );
    }
}

#[test]
fn a_connection_is_opened_and_closed_by_the_peer() {
    for name in ["4.3bsd", "tahoe", "reno"] {
        Script::alone(name).check(
            "listen
             < S 0:0(0) win 4096 <mss 1024>
             > S 0:0(0) ack 1 win 4096 <mss 1024>
             accept = sleep
             < . ack 1 win 4096
             accept = ok
             state = Established
             < FP 1:101(100) ack 1 win 4096
             > . ack 102 win 3996
             state = CloseWait
             read 200 = 100
             read 200 = 0
             close
             > F 1:1(0) ack 102 win 4096
             state = LastAck
             < . seq 102 ack 2 win 4096
             state = gone",
        );
    }
}

/// Data that arrive in FIN-WAIT-2 are not on the fast path: from Tahoe on they are acknowledged at
/// once, before that when they are read.
#[test]
fn one_direction_may_be_closed_while_the_other_goes_on() {
    for (name, at_once) in [
        ("4.3bsd", ""),
        ("tahoe", "> . ack 1461 win 2636"),
        ("reno", "> . ack 1461 win 2636"),
        ("sunos-4.1", "> . ack 1461 win 2636"),
    ] {
        let after_reading = if name == "reno" { "" } else { "> . ack 1461 win 4096" };
        opened(name).check(&format!(
            "write 10 = 10
             > P 1:11(10) ack 1 win 4096
             shutdown
             > F 11:11(0) ack 1 win 4096
             < . ack 12 win 4096
             state = FinWait2
             write 10 = Pipe
             < P 1:1461(1460) ack 12 win 4096
             {at_once}
             read 4096 = 1460
             {after_reading}
             < F 1461:1461(0) ack 12 win 4096
             > . ack 1462 win 4096
             state = TimeWait"
        ));
    }
}

#[test]
fn closing_by_both_at_once_goes_through_closing() {
    // The FIN is sent along once more, with its old number.
    for name in ["tahoe", "reno", "4.3bsd"] {
        opened(name).check(
            "close
             > F 1:1(0) ack 1 win 4096
             < F 1:1(0) ack 1 win 4096
             > F 1:1(0) ack 2 win 4096
             state = Closing
             < . seq 2 ack 2 win 4096
             state = TimeWait",
        );
    }
}

#[test]
fn in_4_2_an_end_is_mute_behind_its_fin() {
    opened("4.2bsd").check(
        "close
         > F 1:1(0) ack 1 win 2048
         < F 1:1(0) ack 1 win 4096
         state = Closing
         1.000 > F 1:1(0) ack 2 win 2048          # the timer takes the acknowledgment along
         < . seq 2 ack 2 win 4096
         state = TimeWait",
    );
}

#[test]
fn fins_that_cross_end_for_every_personality() {
    for name in ALL {
        let mut script = Script::pair(name);
        for line in ["s listen", "c connect", "s accept", "c hold", "c close", "s close"] {
            script.begin(line);
        }
        script.begin("c release");
        script.begin("3.000 c hold");
        for side in ["c", "s"] {
            assert_eq!(
                script.after(&format!("{side} state =")),
                format!("{side} state = TimeWait")
            );
        }
        script.begin("70.000 c hold");
        assert_eq!(script.after("c state ="), "c state = gone", "{name}");
    }
}

#[test]
fn syns_that_cross_make_one_connection() {
    for name in ALL {
        let window = match name {
            "4.2bsd" | "4.2bsd-cabrera" => 2048,
            "reno" => 4000,
            _ => 4096,
        };
        let mut script = Script::alone(name);
        script.begin("connect");
        script.check(&format!(
            "< S 0:0(0) win 4096 <mss 1000>
             > . ack 1 win {window}
             state = SynReceived
             < . ack 1 win 4096
             state = Established
             < P 1:101(100) ack 1 win 4096
             read 100 = 100"
        ));
    }
}

#[test]
fn a_refused_connection_fails_at_once() {
    let mut script = Script::alone("reno");
    script.begin("connect");
    script.check(
        "< R seq 0 ack 1 win 0
         error = ConnectionRefused
         state = gone",
    );
}

#[test]
fn a_segment_for_nobody_is_reset() {
    Script::alone("tahoe").check(
        "< S 0:0(0) win 4096 <mss 1024>
         > R ack 1 win 0",
    );
    Script::alone("tahoe").check(
        "< . ack 77 win 4096
         > R win 0
         < R ack 77 win 4096",
    );
}

#[test]
fn a_reset_ends_a_connection_with_an_error() {
    opened("tahoe").check(
        "< R ack 1 win 0
         error = ConnectionReset
         state = gone
         write 1 = Pipe",
    );
}

/// The older systems end the connection by the routine that resets the peer.
#[test]
fn up_to_4_3_a_reset_is_answered_by_one() {
    for name in ["4.2bsd", "4.3bsd"] {
        let window = if name == "4.2bsd" { 2048 } else { 4096 };
        opened(name).check(&format!(
            "< R ack 1 win 0
             > R ack 1 win {window}
             error = ConnectionReset
             state = gone
             < R ack 1 win 0"
        ));
    }
}

#[test]
fn a_reset_beyond_the_window_is_ignored() {
    opened("tahoe").check(
        "< R seq 9000 ack 1 win 0
         state = Established",
    );
}

#[test]
fn data_for_a_process_that_is_gone_are_reset() {
    for name in ALL {
        let mut script = opened(name);
        script.begin("close");
        script.begin("< . ack 2 win 4096");
        let answer = script.after("< P 1:11(10) ack 2 win 4096");
        assert!(answer.contains("> R"), "{name}: {answer}");
    }
}

#[test]
fn old_data_for_a_process_that_is_gone_are_not_reset() {
    for name in ALL {
        let mut script = opened(name);
        script.begin("< P 1:11(10) ack 1 win 4096");
        script.begin("read 10");
        script.begin("close");
        script.begin("< . seq 11 ack 2 win 4096");
        let answer = script.after("< P 1:11(10) ack 2 win 4096");
        assert!(!answer.contains("> R"), "{name}: {answer}");
    }
}

#[test]
fn unanswered_syns_go_out_again_until_the_handshake_has_taken_too_long() {
    let times = |name: &str| {
        let mut script = Script::alone(name);
        script.begin("connect");
        let text = script.after("200.000 error =");
        let sent: Vec<String> = text
            .lines()
            .filter(|line| line.contains("> S"))
            .map(|line| line.split('.').next().unwrap().to_owned())
            .collect();
        assert!(text.ends_with("error = TimedOut"), "{name}: {text}");
        sent.join(" ")
    };
    assert_eq!(times("4.2bsd"), "1 2 3 4 5 7 10 15 23 39");
    assert_eq!(times("4.3bsd"), "6 12 24");
    assert_eq!(times("tahoe"), "6 18 42");
    assert_eq!(times("reno"), "6 30");
    assert_eq!(times("sunos-4.1"), "6 18 42");
}

#[test]
fn a_new_syn_opens_a_waiting_connection_anew() {
    for (name, opens) in [("4.2bsd", false), ("4.3bsd", false), ("tahoe", true), ("reno", true)] {
        let mut script = Script::alone(name);
        for line in [
            "listen",
            "< S 0:0(0) win 4096 <mss 1024>",
            "< . ack 1 win 4096",
            "accept",
            "close",
            "< . ack 2 win 4096",
            "< F 1:1(0) ack 2 win 4096",
        ] {
            script.begin(line);
        }
        assert_eq!(script.after("state ="), "state = TimeWait");
        let answer = script.after("< S 900000:900000(0) win 4096 <mss 1024>");
        assert_eq!(answer.contains("> S"), opens, "{name}: {answer}");
    }
}

#[test]
fn a_syn_in_the_middle_of_a_connection_ends_it() {
    opened("reno").check(
        "< S 100:100(0) ack 1 win 4096
         > R ack 1 win 4096                       # the end of the connection
         > R win 0                                # the answer to the segment
         error = ConnectionReset",
    );
}

#[test]
fn the_number_of_waiting_connections_is_bounded() {
    let personality = Personality::by_name("tahoe").unwrap();
    let mut script = Script::with(&personality, [1, 2]);
    script.begin("s listen");
    let before = script.pair.hosts[1].stack.tcp_connections().len();
    for _ in 0..20 {
        let id = script.pair.socket(0, sockscope_record::Protocol::Tcp);
        let to = (crate::testing::ADDRESSES[1], 9);
        let mut call = crate::calls::ConnectCall::new(id, to);
        script.pair.step(0, |stack, meter| call.step(stack, meter));
    }
    assert_eq!(script.pair.hosts[1].stack.tcp_connections().len() - before, 8);
}
