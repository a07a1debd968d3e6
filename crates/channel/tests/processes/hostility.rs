//! Peers that do their worst: the other side stays within bounds, says so, and serves the rest.

use sockscope_channel::{Error, Receiver, Sender, Settings, Wait};

use super::{Peer, SLEEP, SPIN, address, talk};

/// A sender scribbles over its whole segment while it is read. The reader gets messages within
/// their slots, until it finds an error; honest senders are not affected.
#[test]
fn a_sender_that_scribbles_is_read_within_bounds_and_detached() {
    let at = address("scribble");
    let mut receiver = Receiver::bind(&at, Settings::default()).unwrap();
    let mut honest = Sender::to(at.clone(), Settings::default()).unwrap();
    let mut number = 0_u64;
    for seed in 0..12_u64 {
        let mut peer = Peer::ready(&["scribble-slots", at.name(), &seed.to_string()]);
        let hostile = peer.pid();
        let mut detached = false;
        while !detached {
            honest.send(&number.to_le_bytes(), Wait::NOT).unwrap();
            loop {
                match receiver.receive(SPIN) {
                    Ok(message) if message.from().pid == hostile => {
                        assert!(message.len() <= 112);
                        assert_eq!(message.to_vec().len(), message.len());
                    }
                    Ok(message) => {
                        assert_eq!(message.to_vec(), number.to_le_bytes());
                        break;
                    }
                    Err(Error::Misbehaved { peer, .. }) => {
                        assert_eq!(peer.pid, hostile);
                        detached = true;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            number += 1;
        }
        assert!(peer.runs());
    }
}

/// The example `talk` answers while senders overwrite their segments, name invalid addresses or addresses
/// without a listener, and send empty questions.
#[test]
fn the_example_answers_whoever_else_misbehaves() {
    let at = address("talk");
    let mut receiver = Receiver::bind(&at, Settings::default()).unwrap();
    let back = address("talk-back");
    let mut answers = Receiver::bind(&back, Settings::default()).unwrap();
    let mut asker = Sender::to(at.clone(), Settings::default()).unwrap();
    for bad in ["no line", "\n", "\0\nx", "a/b c\nx", "nobody-listens-there\nx"] {
        asker.send(bad.as_bytes(), Wait::NOT).unwrap();
        let answered = talk::answer_next(&mut receiver).expect("it goes on");
        assert_eq!(answered.is_err(), bad != "no line", "{bad:?}");
    }
    let hostile: Vec<Peer> = (0..3_u64)
        .map(|seed| Peer::ready(&["scribble-slots", at.name(), &seed.to_string()]))
        .collect();
    let mut detached = 0;
    while detached < hostile.len() {
        let answered = talk::answer_next(&mut receiver).expect("it goes on");
        detached += usize::from(matches!(answered, Err(Error::Misbehaved { .. })));
    }
    asker.send(format!("{}\nhow long?", back.name()).as_bytes(), Wait::NOT).unwrap();
    let answer = loop {
        talk::answer_next(&mut receiver).expect("it goes on").expect("it can be answered");
        match answers.receive(Wait::NOT) {
            Ok(answer) => break answer.to_vec(),
            Err(Error::WouldBlock) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(answer, b"9 bytes");
}

/// The example `talk` waits for its answer while another sender connects to its address and leaves.
#[test]
fn the_example_gets_its_answer_although_others_leave() {
    let at = address("talk-asks");
    let mut receiver = Receiver::bind(&at, Settings::default()).unwrap();
    drop(Sender::to(at.clone(), Settings::default()).unwrap());
    let answering = std::thread::spawn(move || {
        // After the other's departure, which the socket says by itself.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut sender = Sender::to(at, Settings::default()).unwrap();
        sender.send(b"9 bytes", Wait::NOT).unwrap();
        sender
    });
    assert_eq!(talk::answer(&mut receiver).unwrap(), b"9 bytes");
    drop(answering.join());
}

/// A receiver scribbles over its control segment and floods the socket. The sender detaches it and
/// goes on with the others.
#[test]
fn a_receiver_that_scribbles_is_detached_and_the_others_are_served() {
    for seed in 0..6_u64 {
        let at = address(&format!("control-{seed}"));
        let settings = Settings { slots: 4, slot_bytes: 64, ..Settings::default() };
        let mut sender = Sender::bind(&at, settings).unwrap();
        let mut honest = Receiver::subscribe(&at, Settings::default()).unwrap();
        let hostile = Peer::ready(&["scribble-control", at.name(), &seed.to_string()]);
        let mut number = 0_u64;
        let disconnect = loop {
            sender.send(&number.to_le_bytes(), SPIN).unwrap();
            assert_eq!(honest.receive(SLEEP).unwrap().to_vec(), number.to_le_bytes());
            number += 1;
            if let Some(disconnect) = sender.disconnects().next() {
                break disconnect;
            }
        };
        assert!(
            matches!(disconnect, Error::Misbehaved { peer, .. } if peer.pid == hostile.pid()),
            "{disconnect}"
        );
    }
}

/// A file that could be cut under its reader would kill the reader with SIGBUS.
#[test]
fn a_segment_that_could_be_cut_is_rejected() {
    let at = address("shrink");
    let mut receiver = Receiver::bind(&at, Settings::default()).unwrap();
    let _peer = Peer::ready(&["shrink", at.name()]);
    assert_eq!(receiver.peers().count(), 0);
    assert!(matches!(receiver.receive(Wait::NOT), Err(Error::WouldBlock)));
}

/// Callers that send no request delay the next one for a moment, not for ever.
#[test]
fn callers_that_send_nothing_do_not_block_the_listener() {
    let at = address("listener");
    let mut receiver = Receiver::bind(&at, Settings::default()).unwrap();
    let _peer = Peer::ready(&["hold-the-listener", at.name()]);
    let mut sender = Sender::to(at, Settings::default()).unwrap();
    sender.send(b"x", Wait::NOT).unwrap();
    assert_eq!(receiver.receive(SLEEP).unwrap().to_vec(), b"x");
}
