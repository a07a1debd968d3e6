//! Many to many, among processes that join at once, leave and die.

use sockscope_channel::{Error, Group, Settings, Wait};

use super::{Peer, SLEEP, address};

#[test]
fn members_that_join_at_once_all_hear_each_other() {
    let name = address("group");
    let mut peers: Vec<Peer> =
        (0..5).map(|_| Peer::start(&["join", name.name(), "5", "500"])).collect();
    let mut lines: Vec<String> = peers.iter_mut().map(Peer::line).collect();
    lines.sort();
    let expected: Vec<String> =
        (0..5).map(|number| format!("member {number} heard [500, 500, 500, 500]")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_member_that_was_killed_is_missed_and_its_place_taken_again() {
    let name = address("places");
    let mut group = Group::join(name.name(), 3, &Settings::default()).unwrap();
    assert_eq!((group.number(), group.others()), (0, vec![]));
    let mut doomed = Peer::start(&["join", name.name(), "2", "1"]);
    assert_eq!(group.duplex().receiver.receive(SLEEP).unwrap().from().member, Some(1));
    doomed.kill();
    assert!(matches!(group.duplex().receiver.receive(SLEEP), Err(Error::PeerGone { .. })));
    assert_eq!(group.others(), []);

    let mut next = Group::join(name.name(), 3, &Settings::default()).unwrap();
    assert_eq!((next.number(), next.others()), (1, vec![0]));
    next.duplex().sender.send(b"to all", Wait::NOT).unwrap();
    assert_eq!(group.duplex().receiver.receive(SLEEP).unwrap().to_vec(), b"to all");
    group.duplex().sender.send(b"back", Wait::NOT).unwrap();
    assert_eq!(next.duplex().receiver.receive(SLEEP).unwrap().to_vec(), b"back");
}

#[test]
fn a_group_has_as_many_places_as_it_was_made_for() {
    let name = address("full");
    let _members = [(); 2].map(|()| Group::join(name.name(), 2, &Settings::default()).unwrap());
    let third = Group::join(name.name(), 2, &Settings::default());
    assert!(matches!(third, Err(Error::Taken { .. })));
}
