//! One to one, one to many, many to one; blocking, timed, polled.

use std::collections::BTreeMap;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sockscope_channel::{Error, Event, Receiver, Sender, Settings, Wait};
use sockscope_record::{FlowId, Point};

use super::{LONG, Peer, SLEEP, SLEEP_AT_SOCKET, SPIN, address};

fn settings() -> Settings {
    Settings { slots: 64, slot_bytes: 1 << 16, ..Settings::default() }
}

/// Messages of all lengths go to another process and return unchanged, for each kind of wait.
#[test]
fn messages_of_all_lengths_come_back_from_another_process() {
    for (name, wait) in [("spin", SPIN), ("futex", SLEEP), ("socket", SLEEP_AT_SOCKET)] {
        let (there, back) = (address(name), address(&format!("{name}-back")));
        let mut receiver = Receiver::bind(&back, settings()).unwrap();
        let _peer = Peer::ready(&["echo", there.name(), back.name(), name, "-"]);
        let mut sender = Sender::to(there, settings()).unwrap();
        for len in (0..200).chain([4_095, 4_096, 65_535, 65_536]) {
            let message: Vec<u8> = (0..len).map(|at: usize| (at * 7 + len) as u8).collect();
            sender.send(&message, wait).unwrap();
            assert_eq!(receiver.receive(wait).unwrap().to_vec(), message, "{name}");
        }
    }
}

#[test]
fn many_senders_are_read_each_in_its_order_and_their_ends_are_told() {
    let at = address("many-to-one");
    let mut receiver = Receiver::bind(&at, Settings::default()).unwrap();
    let ids = ["0", "1", "2", "3", "4", "5"];
    let mut peers = ids.map(|id| Peer::start(&["send", at.name(), id, "2000"]));
    let mut next = BTreeMap::new();
    let mut gone = 0;
    while gone < ids.len() {
        let text = match receiver.receive(SLEEP) {
            Ok(message) => String::from_utf8(message.to_vec()).unwrap(),
            Err(Error::PeerGone { .. }) => {
                gone += 1;
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let words: Vec<&str> = text.splitn(3, ' ').collect();
        let expected = next.entry(words[0].to_owned()).or_insert(0);
        assert_eq!(words[1], expected.to_string());
        assert_eq!(words[2], "x".repeat(*expected % 90));
        *expected += 1;
    }
    assert!(next.len() == ids.len() && next.values().all(|count| *count == 2_000));
    assert!(peers.iter_mut().all(|peer| peer.line() == "sent 2000"));
}

#[test]
fn every_subscriber_gets_every_message_from_its_first_on() {
    let at = address("one-to-many");
    let mut sender = Sender::bind(&at, Settings::default()).unwrap();
    let mut peers: Vec<Peer> =
        (0..4).map(|_| Peer::ready(&["subscribe", at.name(), "5000"])).collect();
    while sender.peers().count() < peers.len() {
        std::thread::yield_now();
    }
    // All of the four are there, each from some later message on.
    for number in 0..5_000_u64 {
        assert_eq!(sender.send(&number.to_le_bytes(), SLEEP_AT_SOCKET).unwrap(), number);
    }
    assert!(peers.iter_mut().all(|peer| peer.line() == "received 5000"));
    while sender.peers().count() > 0 {
        sender.attend();
        std::thread::yield_now();
    }
    assert_eq!(sender.disconnects().count(), 4);
}

#[test]
fn what_is_written_over_is_counted_and_what_is_read_is_whole() {
    let at = address("overwrite");
    let mut peer = Peer::ready(&["publish", at.name()]);
    let mut receiver = Receiver::subscribe(&at, Settings::default()).unwrap();
    let mut last = None;
    let mut read = 0;
    let mut first = 0;
    while read < 5_000 {
        let message = receiver.receive(SPIN).unwrap();
        let (number, bytes) = (message.number(), message.to_vec());
        assert!(last.is_none_or(|last| number > last));
        assert!(bytes.chunks(8).all(|word| word == number.to_le_bytes()), "torn: {number}");
        first = if last.is_none() { number } else { first };
        last = Some(number);
        read += 1;
    }
    peer.kill();
    // Nothing is neither read nor counted.
    let lost = receiver.lost();
    assert!(lost >= last.unwrap() + 1 - first - read, "{lost}");
}

#[test]
fn a_receiver_that_stalls_stops_its_sender_and_not_its_memory() {
    let at = address("stall");
    let mut peer = Peer::ready(&["stall", at.name(), "0"]);
    assert_eq!(peer.line(), "stalled");
    let mut sender =
        Sender::to(at, Settings { slots: 8, slot_bytes: 64, ..Settings::default() }).unwrap();
    for _ in 0..8 {
        sender.send(b"x", Wait::NOT).unwrap();
    }
    assert!(matches!(sender.send(b"x", Wait::NOT), Err(Error::WouldBlock)));
    let soon = std::time::Duration::from_millis(1);
    for wait in [Wait::SPIN, Wait::FUTEX, Wait::SOCKET] {
        assert!(matches!(sender.send(b"x", wait.within(soon)), Err(Error::TimedOut)));
    }
    assert_eq!((sender.sent(), sender.read_by_all()), (8, 0));
    assert_eq!(sender.segment_bytes(), 4_096 + 8 * 128);
}

#[test]
fn a_descriptor_tells_of_messages_and_of_room() {
    let at = address("poll");
    let mut receiver = Receiver::bind(&at, Settings::default()).unwrap();
    let settings = Settings { slots: 2, slot_bytes: 8, ..Settings::default() };
    let mut sender = Sender::to(at, settings).unwrap();
    sender.send(b"0", Wait::NOT).unwrap();
    assert_eq!(receiver.receive(SLEEP).unwrap().to_vec(), b"0");

    assert!(receiver.arm().unwrap());
    assert!(!is_readable(receiver.descriptor().unwrap()));
    sender.send(b"1", Wait::NOT).unwrap();
    sender.send(b"2", Wait::NOT).unwrap();
    wait_for(receiver.descriptor().unwrap());
    assert!(!receiver.arm().unwrap(), "there is something to receive");

    while sender.arm().unwrap() {
        // The first message that is given back is announced.
        assert!(!is_readable(sender.descriptor().unwrap()));
        assert_eq!(receiver.receive(Wait::NOT).unwrap().to_vec(), b"1");
        wait_for(sender.descriptor().unwrap());
    }
    sender.send(b"3", Wait::NOT).unwrap();
    assert_eq!(receiver.receive(Wait::NOT).unwrap().to_vec(), b"2");
    assert_eq!(receiver.receive(Wait::NOT).unwrap().to_vec(), b"3");
    assert!(matches!(receiver.receive(Wait::NOT), Err(Error::WouldBlock)));
}

fn wait_for(descriptor: impl std::os::fd::AsFd) {
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    assert_eq!(poll(&mut polled, Some(&Timespec::try_from(LONG).unwrap())), Ok(1));
}

fn is_readable(descriptor: impl std::os::fd::AsFd) -> bool {
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).unwrap() > 0
}

#[test]
fn a_message_is_written_and_read_in_place() {
    let at = address("in-place");
    let mut receiver = Receiver::bind(&at, Settings::default()).unwrap();
    let mut sender = Sender::to(at, Settings::default()).unwrap();
    let mut slot = sender.reserve(Wait::NOT).unwrap();
    slot.bytes_mut()[..5].copy_from_slice(b"hello");
    slot.send(5).unwrap();
    let message = receiver.receive(SLEEP).unwrap();
    // SAFETY: the sender is this test, which leaves the slot alone.
    assert_eq!(unsafe { message.as_bytes() }, b"hello");
    let mut part = [0; 8];
    assert_eq!(message.copy_from(0, &mut part[..3]), 3);
    assert_eq!(&part[..3], b"hel");
    assert_eq!(message.copy_from(8, &mut part), 0);
    drop(message);

    let slot = sender.reserve(Wait::NOT).unwrap();
    assert!(matches!(slot.send(2_033), Err(Error::TooLong { bytes: 2_033, slot_bytes: 2_032 })));
    let _unsent = sender.reserve(Wait::NOT).unwrap();
    assert!(matches!(receiver.receive(Wait::NOT), Err(Error::WouldBlock)));
    assert_eq!(sender.sent(), 1);
}

#[test]
fn observers_see_points_1_2_7_and_8_of_the_same_bytes_in_order() {
    let at = address("observed");
    let seen = std::sync::Mutex::new(Vec::new());
    let note = |event: Event| seen.lock().unwrap().push(event);
    let mut receiver = Receiver::bind(&at, Settings::default()).unwrap().observed(note);
    let mut sender = Sender::to(at, Settings::default()).unwrap().observed(note);
    for message in [&b"first"[..], b"second"] {
        sender.send(message, Wait::NOT).unwrap();
        receiver.receive(SLEEP).unwrap();
    }
    let events = seen.lock().unwrap();
    let points: Vec<u8> = events.iter().map(|event| event.point.number()).collect();
    assert_eq!(points, [1, 2, 7, 8, 1, 2, 7, 8]);
    assert!(events.is_sorted_by_key(|event| event.at_ns));
    let bytes: Vec<(u64, u32)> = events.iter().map(|event| (event.offset, event.len)).collect();
    assert_eq!(bytes, [[(0, 5); 4], [(5, 6); 4]].concat());
    let record = events[6].record(FlowId(3));
    assert_eq!((record.point(), record.end()), (Some(Point::ReceiveEnqueue), 11));
}

#[test]
fn set_up_says_what_is_wrong() {
    let at = address("set-up");
    let mut sender = Sender::to(at.clone(), Settings::default()).unwrap();
    assert!(matches!(sender.send(b"x", Wait::NOT), Err(Error::NotThere { .. })));
    assert!(matches!(sender.send(&[0; 4_000], Wait::NOT), Err(Error::TooLong { .. })));

    let small = Settings { segment_bytes_max: 8_192, peers_max: 1, ..Settings::default() };
    let _receiver = Receiver::bind(&at, small).unwrap();
    assert!(matches!(Receiver::bind(&at, Settings::default()), Err(Error::Taken { .. })));
    let reason = sender.send(b"x", Wait::NOT).unwrap_err().to_string();
    assert_eq!(reason, "the other side rejected the channel: our segment is larger than it maps");
    let wrong = Receiver::subscribe(&at, Settings::default()).map(|_| ()).unwrap_err().to_string();
    assert_eq!(wrong, "the other side rejected the channel: it sends, or receives, itself");

    let fitting = || Settings { slots: 2, slot_bytes: 64, ..Settings::default() };
    let mut first = Sender::to(at.clone(), fitting()).unwrap();
    first.send(b"x", Wait::NOT).unwrap();
    let mut second = Sender::to(at, fitting()).unwrap();
    let reason = second.send(b"x", Wait::NOT).unwrap_err().to_string();
    assert_eq!(reason, "the other side rejected the channel: it has as many peers as it takes");
    let odd = Settings { slots: 3, ..Settings::default() };
    assert!(matches!(Sender::bind(&address("odd"), odd), Err(Error::BadSetting { .. })));
}
