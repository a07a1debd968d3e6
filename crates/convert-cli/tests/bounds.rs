//! Memory and time of a conversion: hostile captures take no more than twice the file plus 256 MiB, and reading is ten
//! times as fast as the statistics of conversations of tshark.
//!
//! `scripts/soak captures` runs the long forms.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Output};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Memory in addition to twice the file.
const MEMORY_BYTES: u64 = 256 << 20;
/// A mebibyte.
const MIB: usize = 1 << 20;

fn is_long() -> bool {
    std::env::var("SOCKSCOPE_SOAK").is_ok_and(|form| form == "full")
}

/// What a command took.
#[derive(Debug, Clone, Copy)]
struct Took {
    cpu_s: f64,
    peak_bytes: u64,
}

/// Runs a command to its end.
fn measured(command: &Command) -> (Output, Took) {
    // The kernel accounts for a child when its parent has waited for it.
    const WRAPPER: &str = "import resource, subprocess, sys; status = subprocess.call(sys.argv[2:]); \
        own = resource.getrusage(resource.RUSAGE_CHILDREN); \
        open(sys.argv[1], 'w').write(f'{own.ru_utime + own.ru_stime} {own.ru_maxrss}'); sys.exit(status)";
    let said = tempfile::NamedTempFile::new().expect("a file for the figures");
    let mut wrapper = Command::new("python3");
    wrapper.args(["-c", WRAPPER]).arg(said.path()).arg(command.get_program());
    let output = wrapper.args(command.get_args()).output().expect("python3 starts");
    let figures = std::fs::read_to_string(said.path()).expect("the wrapper wrote it");
    let figures: Vec<f64> = figures.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [cpu_s, peak_kib] = figures[..] else { panic!("no figures: {figures:?}") };
    (output, Took { cpu_s, peak_bytes: (peak_kib * 1024.0) as u64 })
}

fn convert(file: &Path) -> (Output, Took) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-convert"));
    measured(command.arg("convert").arg(file).arg("-o").arg(folder.path().join("bundle")))
}

/// Converts a file, and gives what was said. Its memory is within the bound.
fn converted_within_bounds(file: &Path) -> String {
    let (output, took) = convert(file);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let len = file.metadata().expect("it is there").len();
    let bound = 2 * len + MEMORY_BYTES;
    let name = file.display();
    println!("{name}: {} of {} MiB", took.peak_bytes >> 20, bound >> 20);
    assert!(took.peak_bytes <= bound, "{name}: {took:?}, a file of {len} octets: {said}");
    assert!(matches!(output.status.code(), Some(0 | 2)), "{name}: {said}");
    assert!(!said.contains("panicked"), "{name}: {said}");
    said
}

fn header(link_type: u32) -> Vec<u8> {
    let words = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link_type];
    words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
}

/// A segment.
#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    at_us: u64,
    connection: u32,
    from_server: bool,
    flags: u8,
    sequence: u32,
    acknowledged: u32,
    /// Octets of data; the file has only the headers.
    data: u32,
}

/// The record of a segment of raw IPv4 with time stamps, in a pcap file.
fn put(segment: &Segment, file: &mut Vec<u8>) {
    const HEADERS: u32 = 52;
    let Segment { at_us, connection, from_server, flags, sequence, acknowledged, data } = *segment;
    let words = [(at_us / 1_000_000) as u32, (at_us % 1_000_000) as u32, HEADERS, HEADERS + data];
    file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    file.extend([0x45, 0]);
    file.extend(((HEADERS + data) as u16).to_be_bytes());
    file.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    let client = 0x0a00_0000 | connection >> 14;
    let ends = [(client, 10_000 + (connection & 0x3fff) as u16), (0xc612_0002, 80)];
    let [from, to] = if from_server { [ends[1], ends[0]] } else { ends };
    file.extend([from.0.to_be_bytes(), to.0.to_be_bytes()].concat());
    file.extend([from.1.to_be_bytes(), to.1.to_be_bytes()].concat());
    file.extend([sequence.to_be_bytes(), acknowledged.to_be_bytes()].concat());
    file.extend([0x80, flags, 0x20, 0, 0, 0, 0, 0]);
    file.extend([1, 1, 8, 10]);
    file.extend([(at_us as u32).to_be_bytes(), 0_u32.to_be_bytes()].concat());
}

const ACK: u8 = 0x10;

/// Each packet opens a connection, and more than can be kept.
#[test]
fn a_connection_in_each_packet_takes_no_more_memory_than_the_bound() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mut octets = header(101);
    for connection in 0..300_000 {
        put(&Segment { at_us: 1, connection, flags: 2, ..Segment::default() }, &mut octets);
    }
    let plain = folder.path().join("connections.pcap");
    std::fs::write(&plain, &octets).expect("the folder is ours");
    let said = converted_within_bounds(&plain);
    assert!(said.contains("37856 packets of more connections than can be kept"), "{said}");
    let small = folder.path().join("connections.pcap.gz");
    let mut file =
        GzEncoder::new(File::create(&small).expect("the folder is ours"), Compression::fast());
    file.write_all(&octets).and_then(|()| file.finish().map(drop)).expect("the folder is ours");
    assert_eq!(converted_within_bounds(&small).lines().count(), said.lines().count());
}

/// Connections with many segments in flight, in a file that is small by compression.
#[test]
fn segments_in_flight_of_many_connections_share_their_room() {
    let (connections, segments) = if is_long() { (100_000, 60) } else { (20_000, 12) };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("flights.pcap.gz");
    let file = File::create(&path).expect("the folder is ours");
    let mut file = GzEncoder::new(BufWriter::new(file), Compression::fast());
    file.write_all(&header(101)).expect("the folder is ours");
    for number in 0..segments {
        let mut octets = Vec::new();
        for connection in 0..connections {
            let segment = Segment { at_us: number, connection, flags: ACK, ..Segment::default() };
            // Every second one is missing: each leaves a segment without an acknowledgment, and a hole.
            put(&Segment { sequence: 20 * number as u32, data: 10, ..segment }, &mut octets);
            put(
                &Segment { sequence: 20 * number as u32, data: 10, from_server: true, ..segment },
                &mut octets,
            );
        }
        file.write_all(&octets).expect("the folder is ours");
    }
    file.finish().map(drop).expect("the folder is ours");
    let said = converted_within_bounds(&path);
    assert!(said.contains("see it: sockscope report"), "{said}");
}

/// A section of pcapng with an interface, and behind it a block of so many octets: all are options of four octets.
fn with_large_block(len: usize) -> Vec<u8> {
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let total = (body.len() as u32 + 12).to_le_bytes();
        file.extend([&kind.to_le_bytes()[..], &total, body, &total].concat());
    };
    block(0x0a0d_0d0a, &[0x1a2b_3c4d_u32, 1, u32::MAX, u32::MAX].map(u32::to_le_bytes).concat());
    block(1, &[101_u32, 0].map(u32::to_le_bytes).concat());
    let mut packet = Vec::new();
    put(&Segment { flags: ACK, ..Segment::default() }, &mut packet);
    // Behind the record's header of pcap, which has its lengths last.
    let words = [0_u32, 0, 0, 52, 52].map(u32::to_le_bytes).concat();
    let enhanced = [&words[..], &packet[16..]].concat();
    block(6, &enhanced);
    let options = [2989_u16, 0].map(u16::to_le_bytes).concat().repeat(len.saturating_sub(100) / 4);
    block(6, &[enhanced, options].concat());
    file
}

#[test]
fn a_huge_block_is_within_the_bound_or_is_damage_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    for (mib, is_read) in [(8, true), (9, false), (64, false)] {
        let path = folder.path().join(format!("{mib}.pcapng.gz"));
        let file = File::create(&path).expect("the folder is ours");
        let mut file = GzEncoder::new(file, Compression::fast());
        let octets = with_large_block(mib * MIB);
        file.write_all(&octets).and_then(|()| file.finish().map(drop)).expect("the folder is ours");
        let said = converted_within_bounds(&path);
        let damage = "octet 132, after 1 packets: expected a block of at most 8 MiB; what follows was not read";
        assert_eq!(said.contains(damage), !is_read, "{mib}: {said}");
        let packets = if is_read { "2 packets without" } else { "1 packet without" };
        assert!(said.contains(packets), "{mib}: {said}");
    }
}

/// A few octets of gzip that are many zeros, behind the header of a capture and without one.
#[test]
fn a_file_of_gzip_that_is_mostly_zeros_ends_in_one_line() {
    let len = if is_long() { 1 << 31 } else { 1 << 24 };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let cases = [
        (header(101), "no packet of TCP or UDP that can be read, of "),
        (Vec::new(), "expected a pcap or pcapng file"),
    ];
    for (start, wanted) in cases {
        let path = folder.path().join("zeros.gz");
        let file = File::create(&path).expect("the folder is ours");
        let mut file = GzEncoder::new(BufWriter::new(file), Compression::fast());
        file.write_all(&start).expect("the folder is ours");
        let zeros = vec![0; MIB];
        (0..len / MIB).for_each(|_| file.write_all(&zeros).expect("the folder is ours"));
        file.finish().map(drop).expect("the folder is ours");
        let said = converted_within_bounds(&path);
        assert!(said.lines().last().is_some_and(|line| line.contains(wanted)), "{said}");
    }
}

/// A capture of bulk data on many connections at once, as tcpdump makes it with `-s 52` on a device without a link layer.
fn write_bulk(path: &Path, packets: u64) {
    const CONNECTIONS: u64 = 1_000;
    let mut file = BufWriter::with_capacity(MIB, File::create(path).expect("the folder is ours"));
    file.write_all(&header(101)).expect("there is room");
    let mut octets = Vec::new();
    for number in 0..packets {
        let (round, connection) = (number / CONNECTIONS, (number % CONNECTIONS) as u32);
        let from_server = round % 3 == 2;
        let segment = Segment {
            at_us: 10 * number,
            connection,
            from_server,
            flags: ACK,
            ..Segment::default()
        };
        // Two segments of the client, and their acknowledgment.
        let sent = (round / 3 * 2 + round % 3) as u32 * 1_000;
        octets.clear();
        match from_server {
            true => put(&Segment { sequence: 7, acknowledged: 1 + sent, ..segment }, &mut octets),
            false => put(
                &Segment { sequence: 1 + sent, acknowledged: 7, data: 1_000, ..segment },
                &mut octets,
            ),
        }
        file.write_all(&octets).expect("there is room");
    }
    file.flush().expect("there is room");
}

/// CPU time of both in one run, with the conversion twice.
#[test]
fn a_capture_is_read_ten_times_as_fast_as_by_tshark() {
    let packets = if is_long() { 10_000_000 } else { 30_000 };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("bulk.pcap");
    write_bulk(&path, packets);
    let own = || {
        let (output, took) = convert(&path);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("{packets} packets without a direction")), "{said}");
        took.cpu_s
    };
    let first_s = own();
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&path).args(["-q", "-z", "conv,tcp"]);
    let (output, tshark_took) = measured(&tshark);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.matches("<->").count(), 1_000);
    let second_s = own();
    let tshark_s = tshark_took.cpu_s;
    println!(
        "{packets} packets, CPU seconds: {first_s:.2} and {second_s:.2} here, {tshark_s:.2} tshark, {:.1} times; \
         A/A {:.3}",
        tshark_s / first_s.max(second_s),
        second_s / first_s,
    );
    if is_long() {
        assert!(tshark_s >= 10.0 * first_s.max(second_s), "tshark is not ten times as slow");
    }
}
