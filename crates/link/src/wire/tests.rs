//! Small traffic through a wire: times and packets in, times and packets out.

use proptest::prelude::*;

use super::*;
use crate::quantity::{Bandwidth, Interval};
use crate::settings::{LossModel, Reordering};

const MS: u64 = 1_000_000;

/// Settings from words, as `delay=5ms rate=12mbit`.
fn settings(words: &str) -> Settings {
    let mut settings = Settings::default();
    let (traces, others): (Vec<&str>, Vec<&str>) =
        words.split_whitespace().partition(|word| word.starts_with("trace="));
    let trace = traces.first().map(|word| word["trace=".len()..].replace(',', "\n"));
    settings.trace = trace.map(|trace| trace.parse().unwrap());
    settings.change(&others.join(" ")).unwrap();
    settings
}

/// An IPv4 packet of this number and length.
fn packet(number: u16, len: usize) -> Packet {
    let mut packet = vec![0; len];
    packet[0] = 0x45;
    packet[4..6].copy_from_slice(&number.to_be_bytes());
    packet
}

fn number(packet: &Packet) -> u16 {
    u16::from_be_bytes([packet[4], packet[5]])
}

/// Sends 1,500 bytes at each of these milliseconds, numbered from 1 on; `NUMBER at MS` of each that left, by time.
fn arrivals(words: &str, sent_ms: &[u64]) -> String {
    let mut wire = Wire::new(settings(words), 1);
    for (number, ms) in (1..).zip(sent_ms) {
        wire.enter(ms * MS, packet(number, 1_500));
    }
    let left = drain(&mut wire);
    let words =
        left.iter().map(|(due_ns, packet)| format!("{} at {}", number(packet), due_ns / MS));
    words.collect::<Vec<_>>().join(", ")
}

/// All packets inside, each asked for when it is due.
fn drain(wire: &mut Wire) -> Vec<(u64, Packet)> {
    let mut left = Vec::new();
    while let Some(next_ns) = wire.next_ns() {
        while let Some((due_ns, packet)) = wire.leave(next_ns) {
            assert!(due_ns <= next_ns);
            left.push((due_ns, packet));
        }
    }
    left
}

#[test]
fn a_group_has_the_time_and_the_place_of_its_packets() {
    use crate::group::tests::group;
    let offload = |words| Settings { offload: true, ..settings(words) };
    // Ten packets of 1,500 bytes at 12 Mbit/s take a millisecond each.
    let mut wire = Wire::new(offload("rate=12mbit delay=5ms queue=20p"), 1);
    for _ in 0..4 {
        wire.enter(0, group(10 * 1_448, 1_448));
    }
    assert_eq!((wire.counts().entered, wire.inside()), (40, 30));
    assert_eq!(wire.counts().dropped_by_queue, 10, "one is on the line, and two fill the queue");
    let due: Vec<u64> = drain(&mut wire).iter().map(|(due_ns, _)| due_ns / MS).collect();
    assert_eq!(due, [15, 25, 35]);
    assert_eq!((wire.counts().left, wire.inside()), (30, 0));
}

#[test]
fn a_delay_is_the_same_for_each_packet() {
    assert_eq!(arrivals("delay=20ms", &[0, 1, 7]), "1 at 20, 2 at 21, 3 at 27");
    assert_eq!(arrivals("", &[0, 3]), "1 at 0, 2 at 3");
}

#[test]
fn a_rate_sends_one_packet_after_the_other() {
    // 1,500 bytes take a millisecond.
    assert_eq!(arrivals("rate=12mbit", &[0, 0, 0, 9]), "1 at 1, 2 at 2, 3 at 3, 4 at 10");
    assert_eq!(arrivals("rate=12mbit delay=5ms", &[0, 0]), "1 at 6, 2 at 7");
}

#[test]
fn a_full_queue_drops_the_arriving_packet() {
    // One is sent, two wait, and the fourth finds the queue full; in 2 ms there is space again.
    let sent = [0, 0, 0, 0, 2];
    assert_eq!(arrivals("rate=12mbit queue=2p", &sent), "1 at 1, 2 at 2, 3 at 3, 5 at 4");
    assert_eq!(arrivals("rate=12mbit queue=3kb", &sent), "1 at 1, 2 at 2, 3 at 3, 5 at 4");
    // Without a queue a free line still sends.
    assert_eq!(arrivals("rate=12mbit queue=0p", &[0, 0, 1]), "1 at 1, 3 at 2");
}

#[test]
fn a_trace_sends_at_its_times() {
    assert_eq!(arrivals("trace=5,6,20", &[0, 0, 0, 0]), "1 at 5, 2 at 6, 3 at 20, 4 at 25");
}

#[test]
fn a_packet_that_is_held_back_is_overtaken() {
    assert_eq!(arrivals("delay=5ms reorder=100%:10ms", &[0, 1]), "1 at 15, 2 at 16");
    let sent: Vec<u64> = (0..200).collect();
    let mut wire = Wire::new(settings("delay=5ms reorder=10%:10ms"), 3);
    for (number, ms) in (0..).zip(&sent) {
        wire.enter(ms * MS, packet(number, 100));
    }
    let order: Vec<u16> = drain(&mut wire).iter().map(|(_, packet)| number(packet)).collect();
    let overtaken = order.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
    let held_back = wire.counts().held_back;
    assert!((10..35).contains(&held_back), "{held_back} of 200");
    assert!(overtaken > 5 && overtaken <= held_back, "{overtaken} of {held_back}");
}

#[test]
fn duplicates_arrive_behind_their_original() {
    assert_eq!(arrivals("duplicate=100%", &[0, 4]), "1 at 0, 1 at 0, 2 at 4, 2 at 4");
}

#[test]
fn damage_inverts_one_bit_behind_the_header() {
    let mut wire = Wire::new(settings("damage=100%"), 9);
    for number in 0..100 {
        wire.enter(0, packet(number, 60));
    }
    wire.enter(0, packet(100, 20));
    let left = drain(&mut wire);
    for (_, damaged) in &left[..100] {
        let number = number(damaged);
        let wrong = damaged.iter().zip(packet(number, 60)).map(|(is, was)| (is ^ was).count_ones());
        assert_eq!(wrong.sum::<u32>(), 1, "packet {number}");
    }
    assert_eq!((&left[100].1, wire.counts().damaged), (&packet(100, 20), 100));
}

#[test]
fn lost_packets_take_their_time_on_the_line() {
    assert_eq!(arrivals("rate=12mbit loss=every:2", &[0, 0, 0]), "1 at 1, 3 at 3");
}

#[test]
fn codel_keeps_a_standing_queue_short() {
    // 2,000 packets a second where 1,000 can be sent, for two seconds.
    let longest = |words: &str| {
        let mut wire = Wire::new(settings(words), 1);
        let mut longest_ns = 0;
        for number in 0..4_000u64 {
            wire.enter(number * MS / 2, packet(number as u16, 1_500));
            while let Some((due_ns, packet)) = wire.leave(number * MS / 2) {
                longest_ns = due_ns - u64::from(tests::number(&packet)) * MS / 2;
            }
        }
        (longest_ns / MS, wire.counts().dropped_by_codel)
    };
    let (plain_ms, none) = longest("rate=12mbit queue=4000p");
    let (codel_ms, drops) = longest("rate=12mbit queue=4000p discipline=codel");
    assert_eq!(none, 0);
    assert!(drops > 10 && codel_ms < plain_ms, "{drops} drops, {codel_ms} of {plain_ms} ms");
}

#[test]
fn the_same_seed_drops_the_same_packets_whatever_the_times() {
    let survivors = |seed, words: &str, step_ns: u64| -> Vec<u16> {
        let mut wire = Wire::new(settings(words), seed);
        for number in 0..2_000u16 {
            wire.enter(u64::from(number) * step_ns, packet(number, 40 + usize::from(number % 7)));
        }
        let mut left: Vec<u16> =
            drain(&mut wire).iter().map(|(_, packet)| number(packet)).collect();
        left.sort_unstable();
        left
    };
    let plain = survivors(5, "loss=3%", 1_000);
    assert!((1_880..2_000).contains(&plain.len()), "{}", plain.len());
    assert_eq!(plain, survivors(5, "loss=3% delay=7ms jitter=2ms reorder=5%:3ms", 77_000));
    assert_eq!(plain, survivors(5, "loss=3% rate=100mbit damage=10%", 9_000));
    assert_ne!(plain, survivors(6, "loss=3%", 1_000));
}

/// Any settings that have a meaning.
fn any_settings() -> impl Strategy<Value = Settings> {
    let share = || (0u32..=100).prop_map(|percent| Share::new(f64::from(percent) / 100.0).unwrap());
    let loss = prop_oneof![
        Just(LossModel::None),
        share().prop_map(LossModel::Random),
        (1u64..50).prop_map(LossModel::EveryNth),
        (share(), share(), share(), share()).prop_map(|(to_bad, to_good, in_bad, in_good)| {
            LossModel::GilbertElliott { to_bad, to_good, in_bad, in_good }
        }),
    ];
    let capacity = prop_oneof![
        (0u64..40).prop_map(Capacity::Packets),
        (0u64..60_000).prop_map(Capacity::Bytes),
    ];
    let line = (any::<bool>(), prop::option::of(1_000_000u64..1_000_000_000), any::<bool>());
    let times = (0u64..50 * MS, 0u64..100);
    let reordering = prop::option::of((share(), 0u64..20 * MS));
    (times, line, capacity, loss, reordering, share(), share()).prop_map(
        |(
            (delay, part),
            (is_trace, rate, is_codel),
            capacity,
            loss,
            reordering,
            duplicates,
            damage,
        )| {
            let trace = (is_trace && rate.is_none()).then(|| "1\n1\n2\n5\n9".parse().unwrap());
            let has_queue = rate.is_some() || trace.is_some();
            let discipline =
                if is_codel && has_queue { Discipline::CoDel } else { Discipline::DropTail };
            Settings {
                delay: Interval(delay),
                jitter: Interval(delay * part / 100),
                rate: rate.map(Bandwidth),
                trace,
                capacity,
                discipline,
                loss,
                reordering: reordering.map(|(share, by)| Reordering { share, by: Interval(by) }),
                duplicates,
                damage,
                offload: false,
            }
        },
    )
}

proptest! {
    /// A packet that enters leaves or is counted as dropped, in order except for delayed ones, and not before its
    /// time.
    #[test]
    fn every_packet_leaves_or_is_counted(
        settings in any_settings(),
        seed: u64,
        gaps in prop::collection::vec((0u64..3 * MS, 20usize..2_000), 1..200),
        lookups in prop::collection::vec(any::<bool>(), 200),
    ) {
        prop_assert_eq!(settings.check(), Ok(()));
        let mut wire = Wire::new(settings.clone(), seed);
        let (mut now_ns, mut entered_ns, mut left) = (0, Vec::new(), Vec::new());
        for (index, (gap_ns, len)) in gaps.iter().enumerate() {
            now_ns += gap_ns;
            entered_ns.push(now_ns);
            wire.enter(now_ns, packet(index as u16, *len));
            // Asking or not asking meanwhile changes nothing.
            while lookups[index] && let Some(out) = wire.leave(now_ns) {
                left.push(out);
            }
        }
        left.extend(drain(&mut wire));
        let counts = wire.counts();
        prop_assert_eq!(wire.inside(), 0);
        prop_assert_eq!(counts.entered, gaps.len() as u64);
        prop_assert_eq!(counts.left, left.len() as u64);
        prop_assert_eq!(counts.entered + counts.duplicated, counts.left + counts.dropped());
        let least_ns = settings.delay.0 - settings.jitter.0;
        for (due_ns, packet) in &left {
            prop_assert!(*due_ns >= entered_ns[usize::from(number(packet))] + least_ns);
        }
        if settings.reordering.is_none() {
            prop_assert!(left.is_sorted_by_key(|(due_ns, packet)| (*due_ns, number(packet))));
        }
        let mut again = Wire::new(settings, seed);
        for (index, (at_ns, (_, len))) in entered_ns.iter().zip(&gaps).enumerate() {
            again.enter(*at_ns, packet(index as u16, *len));
        }
        prop_assert_eq!(drain(&mut again).len(), left.len());
    }

    /// No hostile packet and no hostile choice is too much.
    #[test]
    fn a_bit_is_inverted_within_the_packet(mut bytes: Vec<u8>, choice: u64) {
        let before = bytes.clone();
        let is_damaged = invert_bit(&mut bytes, choice);
        let wrong: u32 = bytes.iter().zip(&before).map(|(is, was)| (is ^ was).count_ones()).sum();
        prop_assert_eq!(wrong, u32::from(is_damaged));
    }
}
