//! Window scaling (RFC 1323 §2).

use super::Script;

fn alone(personality: &str, buffers: u32) -> Script {
    let mut script = Script::alone(personality);
    script.begin("socket");
    script.begin(&format!("buffers {buffers}"));
    script
}

#[test]
fn both_ends_offer_it_and_windows_are_shifted_behind_the_syn() {
    alone("reno+window_scaling", 262_144).check(
        "connect
         > S 0:0(0) win 65535 <mss 1024 wscale 3>
         < S 0:0(0) ack 1 win 65535 <mss 1024 wscale 2>
         > . ack 1 win 32768                       # 32768 << 3 is the buffer
         write 1024 = 1024
         > P 1:1025(1024) ack 1 win 32768
         < . ack 1025 win 512                      # 2048 bytes
         write 4096 = 4096
         > P 1025:2049(1024) ack 1 win 32768
         > P 2049:3073(1024) ack 1 win 32768
         < P 1:1025(1024) ack 3073 win 16384
         > . 3073:4097(1024) ack 1025 win 32640
         > P 4097:5121(1024) ack 1025 win 32640
         < . ack 5121 win 16384
         > . ack 1025 win 32640
         read 1024 = 1024",
    );
}

#[test]
fn without_it_at_one_end_no_window_is_shifted() {
    alone("reno+window_scaling", 262_144).check(
        "connect
         > S 0:0(0) win 65535 <mss 1024 wscale 3>
         < S 0:0(0) ack 1 win 2048 <mss 1024>
         > . ack 1 win 65535
         write 1024 = 1024
         > P 1:1025(1024) ack 1 win 65535
         < . ack 1025 win 1024
         write 4096 = 4096
         > P 1025:2049(1024) ack 1 win 65535       # 1024 bytes, as the header says
         < . ack 2049 win 1024
         > . 2049:3073(1024) ack 1 win 65535",
    );
    Script::alone("reno").check(
        "connect
         > S 0:0(0) win 4096 <mss 1024>
         < S 0:0(0) ack 1 win 1024 <mss 1024 wscale 2>
         > . ack 1 win 4096
         write 1024 = 1024
         > P 1:1025(1024) ack 1 win 4096
         < . ack 1025 win 1024
         write 4096 = 4096
         > P 1025:2049(1024) ack 1 win 4096",
    );
}

#[test]
fn the_end_that_is_called_offers_it_to_a_peer_that_does() {
    let answer = |options: &str| {
        let mut script = Script::alone("tahoe+window_scaling");
        script.begin("listen");
        script.listen_with(0, 131_072);
        script.after(&format!("< S 0:0(0) win 4096 <mss 1024{options}>"))
    };
    let of_scaled = answer(" wscale 7");
    assert!(of_scaled.ends_with("> S 0:0(0) ack 1 win 65535 <mss 1024 wscale 2>"), "{of_scaled}");
    let of_plain = answer("");
    assert!(of_plain.ends_with("> S 0:0(0) ack 1 win 65535 <mss 1024>"), "{of_plain}");
}

#[test]
fn a_syn_that_is_sent_again_says_the_same() {
    alone("reno+window_scaling", 1_048_576).check(
        "connect
         > S 0:0(0) win 65535 <mss 1024 wscale 5>
         6.000 > S 0:0(0) win 65535 <mss 1024 wscale 5>
         < S 0:0(0) ack 1 win 65535 <mss 1024 wscale 14>
         > . ack 1 win 32768
         < . ack 1 win 65535                       # 65535 << 14, the largest window
         state = Established",
    );
}

#[test]
fn more_than_65_535_bytes_are_in_flight() {
    let mut script = Script::with_queue("4.2bsd+window_scaling", 300);
    script.begin("socket");
    script.begin("buffers 262144");
    script.begin("connect");
    script.begin("< S 0:0(0) ack 1 win 65535 <mss 1024 wscale 2>");
    let limited = script.after("write 262144");
    assert_eq!(limited.lines().filter(|line| line.contains("> ")).count(), 63, "the SYN's window");
    let opened = script.after("< . ack 1 win 65535");
    // The window is 65535 << 2; the 1019 bytes behind these are less than a quarter of it.
    let last = opened.lines().last().unwrap();
    assert!(last.starts_with("> . 260097:261121(1024)"), "{last}");
}
