//! Segments that no sane peer sends.

use proptest::prelude::*;
use sockscope_record::tcp_flags;

use super::{Script, opened};
use crate::personality::Personality;
use crate::socket::SocketId;
use crate::tcp::header::Header;
use crate::tcp::seq::Seq;
use crate::tcp::testing::frame_of;
use crate::tcp::timers::Timer;
use crate::tcp::{HeaderOptions, Timestamps};
use crate::testing::Flight;

#[test]
fn a_damaged_segment_changes_nothing() {
    let mut script = opened("reno");
    assert_eq!(
        script.after("< P 1:11(10) ack 1 win 4096 damaged"),
        "< P 1:11(10) ack 1 win 4096 damaged"
    );
    assert_eq!(script.after("0.300 read 10 ="), "0.300 read 10 = sleep");
    assert_eq!(script.pair.hosts[0].stack.tcp_counts().bad_checksums, 1);
}

#[test]
fn an_acknowledgment_of_what_was_never_sent_is_answered_and_ignored() {
    opened("tahoe").check(
        "write 10 = 10
         > P 1:11(10) ack 1 win 4096
         < . ack 500 win 4096
         > . ack 1 win 4096
         state = Established",
    );
}

#[test]
fn data_behind_a_fin_are_not_taken() {
    for name in ["4.3bsd", "tahoe", "reno"] {
        opened(name).check(
            "< FP 1:11(10) ack 1 win 4096
             > . ack 12 win 4086
             < P 12:22(10) ack 1 win 4096
             read 100 = 10
             read 100 = 0",
        );
    }
}

#[test]
fn a_tiny_segment_size_is_not_obeyed() {
    let mut script = Script::alone("tahoe");
    script.begin("connect");
    script.begin("< S 0:0(0) ack 1 win 4096 <mss 0>");
    let text = script.after("write 100");
    assert_eq!(text.lines().filter(|line| line.contains("> ")).count(), 4, "32 bytes each: {text}");
}

/// One segment of a peer that rolls dice.
#[derive(Debug, Clone)]
enum Act {
    Segment {
        seq: i32,
        ack: i32,
        flags: u8,
        window: u16,
        len: usize,
        size: Option<u16>,
        /// Timestamps: the peer's clock, and an echo.
        stamp: Option<(u32, u32)>,
        /// Blocks from the next number sent on.
        blocks: Vec<(i32, i32)>,
        urgent: u16,
    },
    Write(usize),
    Urge(usize),
    ReadUrgent,
    Read(usize),
    Fast,
    Slow(u32),
    Close,
    Shutdown,
}

fn act() -> impl Strategy<Value = Act> {
    let near = prop_oneof![8 => -3000..6000i32, 1 => any::<i32>()];
    let flags = prop_oneof![
        8 => Just(tcp_flags::ACK),
        3 => Just(tcp_flags::ACK | tcp_flags::FIN),
        1 => Just(tcp_flags::SYN),
        2 => Just(tcp_flags::ACK | tcp_flags::URG),
        1 => any::<u8>(),
    ];
    let clock = prop_oneof![4 => 0u32..20, 1 => any::<u32>()];
    let stamp = prop::option::of((clock.clone(), clock));
    let size = any::<Option<u16>>();
    let block = (-6000..2000i32, 0..3000i32).prop_map(|(from, len)| (from, from + len));
    let blocks = prop::collection::vec(block, 0..3);
    let options = (size, stamp, blocks);
    let urgent = prop_oneof![4 => 0..2000u16, 1 => any::<u16>()];
    let segment = (near.clone(), near, flags, any::<u16>(), 0usize..1400, options, urgent);
    let segment =
        segment.prop_map(|(seq, ack, flags, window, len, options, urgent)| Act::Segment {
            seq,
            ack,
            flags,
            window,
            len,
            size: options.0,
            stamp: options.1,
            blocks: options.2,
            urgent,
        });
    prop_oneof![
        20 => segment,
        4 => (1usize..5000).prop_map(Act::Write),
        4 => (1usize..5000).prop_map(Act::Read),
        2 => (1usize..2000).prop_map(Act::Urge),
        2 => Just(Act::ReadUrgent),
        2 => Just(Act::Fast),
        2 => (1u32..200).prop_map(Act::Slow),
        1 => Just(Act::Close),
        1 => Just(Act::Shutdown),
    ]
}

fn perform(script: &mut Script, act: &Act, is_open: &mut bool) {
    match act {
        Act::Segment { seq, ack, flags, window, len, size, stamp, blocks, urgent } => {
            let (ours, peers) = script.numbers();
            let number = |by: i32| Seq(ours.0.wrapping_add_signed(by));
            let sack = blocks.iter().map(|(from, to)| (number(*from), number(*to))).collect();
            let timestamps = stamp.map(|(value, echo)| Timestamps { value, echo });
            let header = Header {
                source_port: 9,
                destination_port: script.port(),
                seq: Seq(peers.0.wrapping_add_signed(*seq)),
                ack: Seq(ours.0.wrapping_add_signed(*ack)),
                flags: *flags,
                window: *window,
                urgent: *urgent,
                options: HeaderOptions {
                    segment_bytes: *size,
                    timestamps,
                    sack,
                    ..HeaderOptions::default()
                },
            };
            let bytes = frame_of(&header, &vec![7; *len], false);
            script.pair.wire.push_front(Flight { to: 0, bytes, mark: None });
            script.pair.deliver();
        }
        Act::Write(len) if *is_open && !script.is_writing() => {
            script.begin(&format!("write {len}"));
        }
        Act::Urge(len) if *is_open && !script.is_writing() => {
            script.begin(&format!("urge {len}"));
        }
        Act::ReadUrgent if *is_open => script.begin("urgent"),
        Act::Read(len) if *is_open => script.drain(*len),
        Act::Fast => script.pair.step(0, crate::Stack::fasttimo),
        Act::Slow(ticks) => script.begin(&format!("tick {ticks}")),
        Act::Close if *is_open => {
            *is_open = false;
            script.begin("close");
        }
        Act::Shutdown if *is_open => script.begin("shutdown"),
        _ => {}
    }
    script.pair.wire.clear();
    script.go_on();
}

fn is_persisting(script: &Script) -> bool {
    let stack = &script.pair.hosts[0].stack;
    let persists = |id: &SocketId| stack.tcb(*id).timers.runs(Timer::Persist);
    stack.tcp_connections().iter().all(persists)
}

fn reset() -> Act {
    let flags = tcp_flags::RST | tcp_flags::ACK;
    Act::Segment {
        seq: 0,
        ack: 0,
        flags,
        window: 0,
        len: 0,
        size: None,
        stamp: None,
        blocks: Vec::new(),
        urgent: 0,
    }
}

/// A peer whose window closes behind the sent data, and that then is silent.
#[test]
fn a_closed_window_is_asked_about_for_ever() {
    for name in ["4.2bsd", "4.3bsd", "tahoe", "reno"] {
        let mut script = opened(name);
        script.begin("write 900");
        script.begin("< . seq 5 ack 1 win 0");
        script.begin("close");
        script.begin("tick 14400");
        let is_asking = is_persisting(&script) && script.after("state =") == "state = FinWait1";
        assert_eq!(is_asking, name != "4.2bsd", "{name}: there the data are sent again and again");
        perform(&mut script, &reset(), &mut false);
        let text = script.after("state =");
        assert!(text.starts_with("state = gone"), "{name}: {text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_peer_can_harm_the_host(
        personality in prop::sample::select(Personality::ALL.to_vec()),
        acts in prop::collection::vec(act(), 1..80),
        iss: u32,
    ) {
        let mut script = Script::alone_from(personality.name, [iss, 5000]);
        super::open(&mut script, 4096);
        assert_unharmed(script, &acts);
    }

    #[test]
    fn no_peer_can_harm_a_host_with_options(
        base in prop::sample::select(Personality::ALL.to_vec()),
        acts in prop::collection::vec(act(), 1..80),
        iss: u32,
    ) {
        let personality = format!("{}+{}", base.name, Personality::OPTIONS.join("+"));
        let mut script = Script::alone_from(&personality, [iss, 5000]);
        script.begin("connect");
        script.begin("< S 0:0(0) ack 1 win 4096 <mss 1024 wscale 14 sackOK ts 4294967290 1>");
        assert_unharmed(script, &acts);
    }
}

/// After these acts the host gives up in the end, and frees all.
fn assert_unharmed(mut script: Script, acts: &[Act]) {
    let mut is_open = true;
    for act in acts {
        perform(&mut script, act, &mut is_open);
    }
    if is_open {
        script.begin("close");
    }
    script.finish_writer();
    // In any state, the timers give up in the end.
    for _ in 0..4 {
        script.begin("tick 3600");
        script.pair.wire.clear();
    }
    if is_persisting(&script) {
        // But for the persist timer, which asks for ever, as it should (RFC 1122 §4.2.2.17).
        perform(&mut script, &reset(), &mut false);
    }
    assert!(script.pair.hosts[0].stack.tcp_connections().is_empty());
    script.pair.assert_all_free();
}
