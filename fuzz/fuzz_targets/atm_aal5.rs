//! AAL5 reassembly as a state machine: any cells at any times on few channels, and whole messages
//! among them; each message without another cell in between must be delivered.
//!
//! The input is a row of steps: 1 octet of kind, 1 of time, then 48 octets of cell or 1 of message
//! length. Corpus: none needed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_atm::aal5::{Frame, Limits, Outcome, Reassembler, Segmentation};
use sockscope_atm::{Channel, Header, Interface, PayloadType};

const CHANNELS_MAX: usize = 3;

const FRAME_BYTES_MAX: usize = 480;

fuzz_target!(|octets: &[u8]| {
    let limits =
        Limits { channels_max: CHANNELS_MAX, frame_bytes_max: FRAME_BYTES_MAX, timeout_ns: 1_000 };
    let mut end = Reassembler::new(limits);
    let (mut rest, mut now_ns) = (octets, 0);
    let (mut messages, mut dropped) = (0, 0);
    while let [how, time, tail @ ..] = rest {
        now_ns += u64::from(*time);
        while end.expire(now_ns).is_some() {
            dropped += 1;
        }
        assert!(end.next_deadline_ns().is_none_or(|deadline_ns| deadline_ns > now_ns));
        let channel = Channel::of_path_0((how & 7).into());
        if how & 0x80 != 0 {
            let Some((length, tail)) = tail.split_first() else { break };
            rest = tail;
            let payload = vec![*length; usize::from(*length) + 1];
            let (whole, lost) = send(&mut end, now_ns, channel, &payload);
            (messages, dropped) = (messages + whole, dropped + lost);
        } else {
            let Some((payload, tail)) = tail.split_first_chunk() else { break };
            rest = tail;
            let payload_type = PayloadType::from_bits(how >> 3);
            let header = Header { channel, payload_type, ..Header::default() };
            match end.receive(now_ns, &header, payload) {
                Outcome::Message(_, frame) => {
                    assert!(frame.payload.len() <= FRAME_BYTES_MAX);
                    messages += 1;
                }
                Outcome::Dropped(_) => dropped += 1,
                Outcome::Pending => {}
            }
        }
        assert!(end.open_messages() <= CHANNELS_MAX);
    }
    assert_eq!((end.counters().messages, end.counters().messages_dropped), (messages, dropped));
    while end.expire(u64::MAX).is_some() {}
    assert_eq!(end.open_messages(), 0);
});

/// Sends a message twice: the first, with any result, ended with its last cell, and the second must
/// be delivered where there is room. Returns the numbers of messages delivered and given up.
fn send(end: &mut Reassembler, now_ns: u64, channel: Channel, payload: &[u8]) -> (u64, u64) {
    let header = Header::of_channel(channel);
    let segmentation = Segmentation::new(&Frame::of_payload(payload), &header);
    let cells = segmentation.expect("at most 256 octets").to_cells();
    let (mut messages, mut dropped) = (0, 0);
    for round in 0..2 {
        let no_room = end.counters().no_room;
        let mut is_whole = false;
        for cell in &cells {
            is_whole = false;
            match end.receive(now_ns, &cell.header(Interface::Uni), cell.payload()) {
                Outcome::Message(_, frame) => {
                    is_whole = frame.payload == payload;
                    messages += 1;
                }
                Outcome::Dropped(_) => dropped += 1,
                Outcome::Pending => {}
            }
        }
        let had_room = end.counters().no_room == no_room;
        assert!(round == 0 || is_whole || !had_room);
    }
    (messages, dropped)
}
