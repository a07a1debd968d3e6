//! Patterns played under every personality: all bytes arrive, in the time that the calls take.

use std::num::NonZeroUsize;

use proptest::prelude::*;
use sockscope_analysis::{Analysis, Analyzer, FindingId, Pattern, Step, TraceFacts};
use sockscope_record::{Direction, Kind, Point, Protocol, Record};
use sockscope_sim::{Digest, Everything};
use sockscope_stack::Personality;

use super::*;

/// Steps from text: `w100/7` writes 100 bytes after 7 us; sequences apart by `;`.
fn side(text: &str) -> Activity {
    let step = |word: &str| {
        let (what, think) = word.split_once('/').unwrap_or((word, "0"));
        let action = if what.starts_with('w') { Action::Write } else { Action::Read };
        let think_us: u64 = think.parse().unwrap();
        Step {
            action,
            connection: 0,
            bytes: what[1..].parse().unwrap(),
            think_ns: think_us * 1000,
            after_wait: false,
            warm_ns: None,
            woken: false,
        }
    };
    let sequence = |text: &str| text.split_whitespace().map(step).collect();
    Activity {
        sequences: text.split(';').map(sequence).collect(),
        read_buffer_bytes: 4096,
        ..Activity::default()
    }
}

fn file(client: &str, server: &str) -> PatternFile {
    PatternFile {
        connection: "tcp 127.0.0.1:40000 > 127.0.0.1:80".to_owned(),
        processes: ["asker", "answerer"].map(str::to_owned),
        pattern: Pattern {
            protocol: Protocol::Tcp,
            connections: 1,
            sides: [side(client), side(server)],
        },
    }
}

/// Calls whose message is in two writes, as those of tests/workloads/split_calls.py.
fn split_calls(count: usize) -> PatternFile {
    file(&"w100/190 w300/20 r100 ".repeat(count), &"r400 w100/30 ".repeat(count))
}

struct Played {
    records: Vec<Record>,
    connections: Vec<Connection>,
    analysis: Analysis,
}

/// Plays the pattern with these settings, changes of its calls included.
fn played(file: &PatternFile, settings: &[&str]) -> Result<Played, String> {
    let (conditions, changes) = Conditions::parse(settings, 1)?;
    let mut file = file.clone();
    changes.iter().for_each(|change| change.apply(&mut file.pattern));
    let (connections, all) = record(&file, &conditions, Everything::default())?;
    let mut analyzer = Analyzer::new();
    connections.iter().for_each(|connection| analyzer.connection(connection.clone()));
    analyzer.push(&all.records);
    let (analysis, _) = analyzer.finish_keeping(TraceFacts::default(), NonZeroUsize::MIN);
    Ok(Played { records: all.records, connections, analysis })
}

impl Played {
    fn found(&self, id: FindingId) -> u64 {
        let findings = self.analysis.connections.iter().flat_map(|it| &it.findings);
        findings.filter(|finding| finding.id == id).map(|finding| finding.count).sum()
    }

    /// Bytes that all queues of both directions have too many or too few.
    fn residue(&self) -> u64 {
        let flows = self.analysis.connections.iter().flat_map(|it| &it.flows);
        let stages = flows.flat_map(|flow| &flow.stages).filter_map(|stage| stage.residue_bytes);
        stages.map(i64::unsigned_abs).sum()
    }

    /// Bytes that passed a point, by direction.
    fn bytes(&self, point: Point) -> [u64; 2] {
        [Direction::FromClient, Direction::FromServer].map(|direction| {
            let here = self.records.iter().filter(|record| {
                record.flow.direction() == direction && record.kind.point() == Some(point)
            });
            here.map(|record| record.offset + u64::from(record.len)).max().unwrap_or(0)
        })
    }

    /// When writes began, in milliseconds.
    fn writes_ms(&self) -> Vec<u64> {
        let writes = self.records.iter().filter(|record| record.kind == Kind::WriteCall);
        writes.map(|record| record.at_ns / 1_000_000).collect()
    }
}

#[test]
fn calls_in_two_writes_stall_under_4_3bsd_and_not_as_one_write() {
    let calls = split_calls(10);
    let before = played(&calls, &["personality=4.3bsd"]).unwrap();
    assert!(before.found(FindingId::NagleDelayedAck) >= 8, "{:?}", before.analysis);
    for change in ["one-write", "nodelay"] {
        let after = played(&calls, &["personality=4.3bsd", change]).unwrap();
        assert_eq!(after.found(FindingId::NagleDelayedAck), 0, "{change}");
        assert_eq!(after.bytes(Point::ReceiveDequeue), [4000, 1000], "{change}");
    }
    // 4.2BSD has no such rule.
    let older = played(&calls, &["personality=4.2bsd"]).unwrap();
    assert_eq!(older.found(FindingId::NagleDelayedAck), 0);
}

#[test]
fn every_personality_and_machine_plays_the_calls() {
    // Halves of the transfer at once, and processes of their own for reading and writing.
    let both = file("r60000;w90000/50 w10/20000", "w60000/10; r90000 r10");
    for personality in Personality::ALL {
        let personality = format!("personality={}", personality.name);
        for settings in [
            &[personality.as_str()][..],
            &[&personality, "topology=loopback"],
            &[&personality, "delay=10ms", "rate=1mbit", "machine=vax-11-750"],
            &[&personality, "link=ethernet-3", "buffers=8192"],
        ] {
            for (calls, bytes) in [(&split_calls(5), [2000, 500]), (&both, [90_010, 60_000])] {
                let played = played(calls, settings).unwrap();
                assert_eq!(played.residue(), 0, "{settings:?}");
                for point in [Point::SendEnqueue, Point::ReceiveDequeue] {
                    assert_eq!(played.bytes(point), bytes, "{settings:?}");
                }
            }
        }
    }
    for machine in sockscope_sim::Machine::names() {
        let played = played(&split_calls(3), &[&format!("machine={machine}")]).unwrap();
        assert_eq!(played.bytes(Point::ReceiveDequeue), [1200, 300], "{machine}");
    }
}

#[test]
fn the_bundle_names_the_programs_and_the_port_of_the_recording() {
    let played = played(&split_calls(2), &[]).unwrap();
    let connection = &played.connections[0];
    let processes: Vec<_> = connection.processes.iter().map(|it| it.comm.as_str()).collect();
    assert_eq!((connection.server.port(), processes), (80, vec!["asker", "answerer"]));
}

#[test]
fn time_between_calls_is_exact_whatever_the_clock_tick() {
    // 25 ms and 3 ms: sleep with CPU time, and CPU time alone. A sleep alone would end at the next 10 ms.
    let calls = file("w10 w10/25000 w10/3000 w10/25000", "r40");
    let at_ms = played(&calls, &["machine=instant", "nodelay"]).unwrap().writes_ms();
    let gaps: Vec<_> = at_ms.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [25, 3, 25], "{at_ms:?}");
    let settings = ["machine=instant", "nodelay", "think=0"];
    let at_ms = played(&calls, &settings).unwrap().writes_ms();
    assert_eq!(at_ms.first(), at_ms.last());
}

#[test]
fn a_line_has_its_delay() {
    let calls = file(&"w10 r10 ".repeat(10), &"r10 w10 ".repeat(10));
    let played = played(&calls, &["machine=instant", "delay=30ms", "rate=100mbit"]).unwrap();
    let at_ms = played.writes_ms();
    let (first, last) = (at_ms[0], at_ms[at_ms.len() - 1]);
    // Nine round trips and one way.
    assert!((9 * 60 + 30..9 * 60 + 40).contains(&(last - first)), "{at_ms:?}");
}

/// The calls of a recording of datagrams.
fn datagrams(client: &str, server: &str) -> PatternFile {
    let mut calls = file(client, server);
    calls.pattern.protocol = Protocol::Udp;
    PatternFile { connection: calls.connection.replace("tcp", "udp"), ..calls }
}

#[test]
fn datagrams_are_answered_one_by_one() {
    let calls = datagrams(&"w100/50 r700 ".repeat(20), &"r100 w700/30 ".repeat(20));
    for personality in Personality::ALL {
        let played = played(&calls, &[&format!("personality={}", personality.name)]).unwrap();
        assert_eq!(played.connections[0].protocol, Protocol::Udp);
        assert_eq!(played.bytes(Point::ReceiveDequeue), [2000, 14_000], "{}", personality.name);
        assert_eq!(played.residue(), 0, "{}", personality.name);
    }
    let unread = played(&datagrams("w100 w100", "r100"), &[]).unwrap();
    assert_eq!(unread.bytes(Point::ReceiveDequeue), [200, 0]);
    assert_eq!(
        refused(&calls, &["lost_per_million=300000"]),
        "asker waits at step 2 for a datagram that was dropped: none for 60 s of the model's time; the link has \
         `lost_per_million`: set less of it, or another seed"
    );
    let long = refused(&datagrams("w60000 r1", "r60000 w1"), &[]);
    assert!(long.starts_with("asker after 0 steps: ") && !long.contains('\n'), "{long}");
}

#[test]
fn frames_that_the_link_drops_are_sent_again() {
    let calls = file(&"w1000 r1000 ".repeat(40), &"r1000 w1000 ".repeat(40));
    let played = played(&calls, &["personality=reno", "lost_per_million=50000"]).unwrap();
    assert_eq!(played.bytes(Point::ReceiveDequeue), [40_000, 40_000]);
    assert_eq!(played.residue(), 0);
    assert!(played.records.iter().any(|it| it.is_marked(sockscope_record::marks::RETRANSMITTED)));
}

#[test]
fn bytes_that_the_programs_left_unread_are_read_at_the_end() {
    let calls = file("w100 r50", "w5000 r30");
    let played = played(&calls, &[]).unwrap();
    assert_eq!(played.bytes(Point::ReceiveDequeue), [100, 5000]);
    assert_eq!(played.residue(), 0);
}

#[test]
fn the_same_seed_gives_the_same_records_and_the_same_bundle() {
    let calls = split_calls(20);
    let digest = |seed| {
        let settings = ["lost_per_million=100000", "personality=tahoe"];
        let (conditions, _) = Conditions::parse(&settings, seed).unwrap();
        record(&calls, &conditions, Digest::default()).unwrap().1
    };
    assert_eq!(digest(3), digest(3));
    assert_ne!(digest(3), digest(4));
    let folder = tempfile::tempdir().unwrap();
    let files = |name: &str| {
        let path = folder.path().join(name);
        let (conditions, _) = Conditions::parse::<&str>(&[], 3).unwrap();
        write_bundle(&calls, &conditions, vec!["sockscope".to_owned()], &path).unwrap();
        let mut files: Vec<_> = std::fs::read_dir(&path).unwrap().map(|it| it.unwrap()).collect();
        files.sort_by_key(std::fs::DirEntry::file_name);
        let content = |file: &std::fs::DirEntry| std::fs::read(file.path()).unwrap();
        files.iter().map(content).collect::<Vec<_>>()
    };
    assert!(files("one") == files("another"));
}

fn refused(file: &PatternFile, settings: &[&str]) -> String {
    played(file, settings).err().unwrap_or_else(|| "played".to_owned())
}

#[test]
fn programs_that_wait_for_each_other_are_named_with_their_steps() {
    // Both write more than the buffers of both ends hold before they read.
    let both = file("w10 r10 w90000 r90000", "r10 w10 w90000 r90000");
    assert_eq!(
        refused(&both, &[]),
        "the programs wait for each other: the client is at step 3 of 4 steps, the server is at step 3 of 4 steps; \
         larger buffers may help (--set buffers=N)"
    );
    assert_eq!(refused(&both, &["buffers=50000"]), "played");
}

#[test]
fn a_pattern_without_sense_is_refused_with_the_reason() {
    for (client, server, words) in [
        ("w10 r20", "r10 w10", "the client reads 20 bytes, of which the server writes 10"),
        ("w10; w10", "r20", "client: two sequences write, or two read"),
        ("w99999999", "r5", "client: a step has more than 67108864 bytes"),
        (&"w60000000 ".repeat(18), "r5", "the client writes more than 1073741824 bytes"),
        ("w0", "w5", "client: a step has no bytes"),
    ] {
        let refused = refused(&file(client, server), &[]);
        assert!(refused.starts_with(words), "{refused}");
    }
}

#[test]
fn settings_that_make_no_sense_are_refused_with_the_word() {
    let calls = split_calls(1);
    for (settings, words) in [
        (&["personality=minix"][..], "no personality `minix`: expected one of 4.2bsd, "),
        (&["machine=pdp-11"], "no machine `pdp-11`: expected one of vax-11-750, "),
        (&["delay=fast"], "--set delay=fast: "),
        (&["delay=1ms", "topology=loopback"], "--set delay: it needs a line between two hosts"),
        (&["rate=1mbit", "link=ethernet-3"], "--set rate: it needs a line between two hosts"),
        (&["segment_bytes=1k"], "--set: `segment_bytes`: expected a whole number, not `1k`"),
        (&["buffers=1k"], "--set buffers=1k: 1k is not a number of bytes"),
        (&["link=line-3", "link=line-3"], "--set: two values for link; give one"),
        (&["delay=1ms", "nodelay", "delay=5ms"], "--set: two values for delay; give one"),
        (&["think=0", "think=-1ms"], "--set: two values for think; give one"),
        (&["think=1"], "--set think=1: think=1 is no change"),
        (&["cc=reno"], "--set cc=reno: no such setting: give one-write, "),
    ] {
        let refused = refused(&calls, settings);
        assert!(refused.starts_with(words) && !refused.contains('\n'), "{refused}");
    }
}

#[test]
fn a_setting_without_effect_is_said() {
    let said = |settings: &[&str]| {
        let (conditions, changes) = Conditions::parse(settings, 1).unwrap();
        let mut file = split_calls(1);
        changes.iter().for_each(|change| change.apply(&mut file.pattern));
        conditions.without_effect(&file).unwrap()
    };
    assert_eq!(said(&["nodelay"]), Vec::<String>::new());
    let older = said(&["nodelay", "personality=4.2bsd"]);
    assert_eq!(older, ["nodelay changes nothing: 4.2bsd does not have Nagle's rule"]);
    let large = said(&["buffers=100000"]);
    assert!(large[0].starts_with("buffers of 100000 bytes: 4.3bsd offers windows up to 65535"));
}

/// Messages of an exchange, in pieces: who writes, the pieces of the writes and of the reads.
#[derive(Debug, Clone)]
struct Message {
    is_of_client: bool,
    writes: Vec<(u64, u64)>,
    reads: u64,
}

fn any_message() -> impl Strategy<Value = Message> {
    let writes = prop::collection::vec((1u64..3000, 0u64..40_000), 1..4);
    (any::<bool>(), writes, 1u64..4).prop_map(|(is_of_client, writes, reads)| Message {
        is_of_client,
        writes,
        reads,
    })
}

/// Each message is read to its end before the next one is written, so that no program waits for ever.
fn pattern_of(messages: &[Message]) -> PatternFile {
    let mut texts = [String::new(), String::new()];
    for message in messages {
        let (writer, reader) = if message.is_of_client { (0, 1) } else { (1, 0) };
        let total: u64 = message.writes.iter().map(|(bytes, _)| bytes).sum();
        for (bytes, think_us) in &message.writes {
            texts[writer] += &format!("w{bytes}/{think_us} ");
        }
        let first = total / message.reads;
        if first > 0 && message.reads > 1 {
            texts[reader] += &format!("r{first} ");
            texts[reader] += &format!("r{} ", total - first);
        } else {
            texts[reader] += &format!("r{total} ");
        }
    }
    file(&texts[0], &texts[1])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn all_bytes_arrive_every_read_ends_and_no_queue_has_a_residue(
        messages in prop::collection::vec(any_message(), 0..12),
        personality in 0..Personality::ALL.len(),
        (is_loopback, seed, read_buffer) in (any::<bool>(), 0u64..1000, 1u64..5000),
        reads_up_to in prop::option::of(1u64..20_000),
    ) {
        let mut file = pattern_of(&messages);
        for side in &mut file.pattern.sides {
            side.read_buffer_bytes = read_buffer.max(64);
            side.reads_up_to = reads_up_to.map(|bytes| bytes.max(64));
        }
        let topology = if is_loopback { "topology=loopback" } else { "topology=pair" };
        let name = format!("personality={}", Personality::ALL[personality].name);
        let seeded = |settings: &[&str]| {
            let (mut conditions, _) = Conditions::parse(settings, 1).unwrap();
            conditions.seed = seed;
            record(&file, &conditions, Everything::default())
        };
        let (connections, all) = seeded(&[&name, topology]).map_err(TestCaseError::fail)?;
        let mut analyzer = Analyzer::new();
        connections.iter().for_each(|connection| analyzer.connection(connection.clone()));
        analyzer.push(&all.records);
        let (analysis, _) = analyzer.finish_keeping(TraceFacts::default(), NonZeroUsize::MIN);
        let played = Played { records: all.records, connections, analysis };
        prop_assert_eq!(played.residue(), 0);
        let sent = [true, false].map(|is_of_client| {
            let own = messages.iter().filter(|it| it.is_of_client == is_of_client);
            own.flat_map(|message| &message.writes).map(|(bytes, _)| bytes).sum::<u64>()
        });
        prop_assert_eq!(played.bytes(Point::SendEnqueue), sent);
        prop_assert_eq!(played.bytes(Point::ReceiveDequeue), sent);
    }
}
