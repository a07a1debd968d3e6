//! SIGKILL at any instant: the other side notices, reads all sent messages, and nothing stays.

use std::time::Duration;

use sockscope_channel::{Address, Error, Receiver, Sender, Settings, Wait, WhenFull};

use super::{Peer, SLEEP, SLEEP_AT_SOCKET, SPIN, address};

#[test]
fn a_killed_sender_is_noticed_however_the_receiver_waits() {
    for (name, wait) in [("spin", SPIN), ("futex", SLEEP), ("socket", SLEEP_AT_SOCKET)] {
        let at = address(&format!("killed-{name}"));
        let mut peer = Peer::ready(&["publish", at.name()]);
        let mut receiver = Receiver::subscribe(&at, Settings::default()).unwrap();
        receiver.receive(wait).unwrap();
        let pid = peer.pid();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            peer.kill();
        });
        let end = loop {
            match receiver.receive(wait) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(end, Error::PeerGone { peer } if peer.pid == pid), "{name}: {end}");
        killer.join().unwrap();
        assert!(matches!(receiver.receive(Wait::NOT), Err(Error::WouldBlock)), "reported once");
    }
}

#[test]
fn a_sender_that_waits_for_room_notices_that_its_receiver_was_killed() {
    for (name, wait) in [("spin", SPIN), ("futex", SLEEP), ("socket", SLEEP_AT_SOCKET)] {
        let at = address(&format!("deaf-{name}"));
        let mut peer = Peer::ready(&["stall", at.name(), "1"]);
        let settings = Settings { slots: 4, slot_bytes: 64, ..Settings::default() };
        let mut sender = Sender::to(at.clone(), settings).unwrap();
        let killer = std::thread::spawn(move || {
            assert_eq!(peer.line(), "stalled");
            std::thread::sleep(Duration::from_millis(5));
            peer.kill();
        });
        let end = loop {
            match sender.send(b"x", wait) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(end, Error::PeerGone { .. }), "{name}: {end}");
        killer.join().unwrap();
        // The next message calls again, and finds no receiver, then a new one.
        assert!(matches!(sender.send(b"x", Wait::NOT), Err(Error::NotThere { .. })));
        let mut receiver = Receiver::bind(&at, Settings::default()).unwrap();
        sender.send(b"again", Wait::NOT).unwrap();
        assert_eq!(receiver.receive(wait).unwrap().to_vec(), b"again");
    }
}

#[test]
fn a_subscriber_that_is_killed_does_not_stop_the_others() {
    let at = address("one-of-many");
    let settings = Settings { slots: 4, slot_bytes: 64, ..Settings::default() };
    let mut sender = Sender::bind(&at, settings).unwrap();
    let mut doomed = Peer::ready(&["subscribe", at.name(), "1000000000"]);
    let mut other = Peer::ready(&["subscribe", at.name(), "3000"]);
    while sender.peers().count() < 2 {
        std::thread::yield_now();
    }
    for number in 0..3_000_u64 {
        if number == 1_000 {
            doomed.kill();
        }
        sender.send(&number.to_le_bytes(), SLEEP).unwrap();
    }
    assert_eq!(other.line(), "received 3000");
}

#[test]
fn all_that_a_sender_published_before_it_was_killed_is_read() {
    let at = address("last-words");
    let mut receiver = Receiver::bind(&at, Settings::default()).unwrap();
    let mut peer = Peer::start(&["send", at.name(), "0", "8"]);
    assert_eq!(peer.line(), "sent 8");
    peer.kill();
    for number in 0..8 {
        let message = receiver.receive(SLEEP).unwrap();
        assert!(message.to_vec().starts_with(format!("0 {number} ").as_bytes()));
    }
    assert!(matches!(receiver.receive(SLEEP), Err(Error::PeerGone { .. })));
}

/// Kills processes in the middle of everything, then looks for their remains.
#[test]
fn kills_leave_no_name_no_file_and_no_mapping() {
    let at = address("stale");
    let mut mapped = Vec::new();
    for round in 0..10 {
        let mut peer = Peer::ready(&["publish", at.name()]);
        let mut receiver = Receiver::subscribe(&at, Settings::default()).unwrap();
        receiver.receive(SLEEP).unwrap();
        std::thread::sleep(Duration::from_micros(300 * round));
        peer.kill();
        while receiver.receive(SLEEP).is_ok() {}
        assert!(!names().contains(at.name()), "the name went with the process");
        // The address is free at once.
        let overwrite = Settings { when_full: WhenFull::Overwrite, ..Settings::default() };
        drop(Sender::bind(&at, overwrite).unwrap());
        drop(receiver);
        mapped.push(mappings_of_channels());
    }
    // Other tests of this process have channels of their own; those of the killed do not add up.
    let (first, last) = (mapped[0], mapped[9]);
    assert!(last < first + 10, "{mapped:?}");
    let left: Vec<_> = std::fs::read_dir("/dev/shm").unwrap().flatten().collect();
    let ours = |name: &str| name.contains("sockscope-channel") || name.contains(at.name());
    assert!(!left.iter().any(|entry| ours(&entry.file_name().to_string_lossy())));
}

/// Abstract and other names of Unix sockets in use.
fn names() -> String {
    std::fs::read_to_string("/proc/net/unix").unwrap()
}

fn mappings_of_channels() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("memfd:sockscope-channel")).count()
}

#[test]
fn a_receiver_bound_for_senders_of_another_user_is_not_found() {
    let at = address("user");
    let _receiver = Receiver::bind(&at, Settings::default()).unwrap();
    let other = Address::of_user(at.uid() + 1, at.name()).unwrap();
    let mut sender = Sender::to(other, Settings::default()).unwrap();
    assert!(matches!(sender.send(b"x", Wait::NOT), Err(Error::NotThere { .. })));
}
