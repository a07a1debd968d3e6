//! Links on their own: the order of senders, and the arrivals.

use super::*;
use crate::event::{Event, EventQueue};

/// Frames offered at times by stations, and the link's events, as text.
fn run(config: &LinkConfig, offers: &[(u64, u16, usize)]) -> Vec<String> {
    run_holding(0, config, offers)
}

/// The same with stations that hold their frames back after one arrived.
fn run_holding(hold_ns: u64, config: &LinkConfig, offers: &[(u64, u16, usize)]) -> Vec<String> {
    let port = |host| Port { host, interface: 0 };
    // A frame's first byte is the station that it is for: the next one.
    let station = |host: u16| Station { port: port(host), address: vec![host as u8], hold_ns };
    let mut link = Link::new(config, 0, (0..3).map(station).collect(), 11);
    let (mut events, mut frames) = (EventQueue::default(), Frames::default());
    let mut happened = Vec::new();
    let mut offers = offers.iter().peekable();
    loop {
        let offer_ns = offers.peek().map_or(u64::MAX, |offer| offer.0);
        if events.next_ns() == u64::MAX && offer_ns == u64::MAX {
            assert_eq!(frames.in_use(), 0);
            return happened;
        }
        if offer_ns <= events.next_ns() {
            let Some((now_ns, from, bytes)) = offers.next().copied() else { continue };
            let frame = frames.make();
            frames.frame_mut(frame).bytes = vec![(from as u8 + 1) % 3; bytes];
            let mut context = LinkContext { now_ns, events: &mut events, frames: &mut frames };
            link.accept(from, frame);
            link.attempt(from, &mut context);
            continue;
        }
        let Some((now_ns, event)) = events.pop() else { continue };
        match event {
            Event::Attempt { station, .. } => {
                let mut context = LinkContext { now_ns, events: &mut events, frames: &mut frames };
                link.attempt(station, &mut context);
            }
            Event::TransmissionEnd { number, .. } => {
                let mut context = LinkContext { now_ns, events: &mut events, frames: &mut frames };
                link.transmission_ends(number, &mut context);
            }
            Event::Arrival { host, frame, .. } => {
                let bytes = frames.frame(frame).bytes.len();
                happened.push(format!("{now_ns} {bytes} at {host}"));
                frames.release(frame);
            }
            Event::Sent { host, .. } => happened.push(format!("{now_ns} sent by {host}")),
            Event::Collided { host, .. } => happened.push(format!("{now_ns} collision of {host}")),
            _ => {}
        }
    }
}

#[test]
fn a_frame_takes_its_bits_and_the_propagation() {
    // 1012 bytes and 12 of framing: 819.2 µs at 10 Mbit/s.
    let happened = run(&LinkConfig::ethernet10(), &[(1000, 0, 1012)]);
    assert_eq!(happened, ["820200 sent by 0", "821400 1012 at 1"]);
}

#[test]
fn who_finds_the_cable_busy_waits_for_silence() {
    let happened = run(&LinkConfig::ethernet10(), &[(0, 0, 1012), (500_000, 1, 1012)]);
    let expected =
        ["819200 sent by 0", "820400 1012 at 1", "1648000 sent by 1", "1649200 1012 at 2"];
    assert_eq!(happened, expected);
}

#[test]
fn two_that_wait_collide_and_both_get_through() {
    let offers = [(0, 0, 1012), (100, 1, 100), (200_000, 2, 100)];
    let happened = run(&LinkConfig::ethernet10(), &offers);
    let collisions = happened.iter().filter(|line| line.contains("collision")).count();
    let arrivals = happened.iter().filter(|line| line.contains(" at ")).count();
    assert!(collisions >= 2, "{happened:?}");
    assert_eq!(arrivals, 3, "{happened:?}");
}

#[test]
fn a_station_that_holds_back_sends_between_frames_that_leave_room() {
    let offers = [(0, 0, 1012), (100_000, 1, 100), (200_000, 2, 100)];
    let happened = run_holding(10_000, &LinkConfig::ethernet10(), &offers);
    // Station 1 has just received: station 2 begins after the gap, station 1 after that one.
    let sent: Vec<_> = happened.iter().filter(|line| line.contains("sent")).collect();
    assert_eq!(sent, ["819200 sent by 0", "918400 sent by 2", "1017600 sent by 1"]);
    let alone = run_holding(10_000, &LinkConfig::ethernet10(), &offers[..2]);
    assert_eq!(alone[2], "928400 sent by 1", "it waits no longer than it must");
}

/// Frames of other stations on the cable delay those of the hosts and collide with them, reach no
/// host, and are the same again on the same seed.
#[test]
fn frames_of_others_delay_and_collide_and_arrive_nowhere() {
    let addresses: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    let happened = |frames_per_s: u32, seed: u64| {
        let other = OtherTraffic { frames_per_s, frame_bytes: 200 };
        let config = LinkConfig::ethernet10().with_other_traffic(other);
        let mut medium = crate::Medium::new(&config, &addresses, seed);
        let mut frame = addresses[1].to_vec();
        frame.resize(1012, 7);
        let mut sent_ns = Vec::new();
        medium.offer(0, 0, &frame);
        while sent_ns.len() < 1000 {
            let now_ns = medium.next_ns();
            match medium.advance() {
                Some(crate::MediumEvent::Sent { station }) => {
                    assert_eq!(station, 0);
                    sent_ns.push(now_ns);
                    medium.offer(now_ns, 0, &frame);
                }
                Some(crate::MediumEvent::Arrived { station, frame }) => {
                    assert_eq!((station, frame.len()), (1, 1012));
                }
                None => {}
            }
        }
        (sent_ns, medium.counts())
    };
    let (alone, quiet) = happened(0, 1);
    let (beside, busy) = happened(600, 1);
    assert_eq!((quiet.collisions, quiet.other_frames), (0, 0));
    // A station that always has a frame wins most collisions, so that the others wait.
    assert!(busy.other_frames > 5 && busy.collisions > 20, "{busy:?}");
    assert!(beside.last() > alone.last());
    assert_eq!(happened(600, 1), (beside.clone(), busy));
    assert_ne!(happened(600, 2).0, beside);
}

#[test]
fn a_line_carries_both_ways_at_once() {
    let line = LinkConfig::point_to_point(8_000_000, 500);
    let happened = run(&line, &[(0, 0, 100), (0, 1, 200)]);
    let expected = ["100000 sent by 0", "100500 100 at 1", "200000 sent by 1", "200500 200 at 0"];
    assert_eq!(happened, expected);
}

#[test]
fn faults_do_what_they_say_and_count_it() {
    let everything = |faults| {
        let config = LinkConfig::point_to_point(0, 1000).with_faults(faults);
        run(&config, &[(0, 0, 50)]).into_iter().filter(|line| line.contains(" at ")).count()
    };
    let all = 1_000_000;
    assert_eq!(everything(Faults { loss_ppm: all, ..Faults::NONE }), 0);
    assert_eq!(everything(Faults { duplication_ppm: all, ..Faults::NONE }), 2);
    assert_eq!(everything(Faults { corruption_ppm: all, ..Faults::NONE }), 1);
    let late = Faults { reordering_ppm: all, reordering_ns_max: 10, ..Faults::NONE };
    assert_eq!(everything(late), 1);
}
