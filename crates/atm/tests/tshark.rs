//! tshark as the judge of this crate's files.
//!
//! `scripts/setup` installs tshark. Without it these tests fail with this reason: nothing else
//! checks these properties. `SOCKSCOPE_TSHARK` names another program to run.

use std::fs::File;
use std::process::Command;

use sockscope_atm::aal34::{Format, Segmentation};
use sockscope_atm::capture::{Direction, Erf, Sniffer, SunAtm, Traffic};
use sockscope_atm::{Cell, Channel, Header, Interface, PayloadType, aal5};

const CHANNEL: Channel = Channel { vpi: 3, vci: 0x1234 };

/// The output of tshark for a file that `write` fills.
fn dissected(arguments: &[&str], write: impl FnOnce(File)) -> String {
    let folder = tempfile::tempdir().expect("a folder for captures");
    let path = folder.path().join("capture");
    write(File::create(&path).expect("a new file"));
    let program = std::env::var("SOCKSCOPE_TSHARK").unwrap_or_else(|_| "tshark".to_owned());
    let output = Command::new(&program).arg("-r").arg(&path).args(arguments).output();
    let output = output.unwrap_or_else(|error| {
        panic!("{program} is needed to judge cells and does not run ({error}): run scripts/setup")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} refuses the capture: {said}");
    String::from_utf8(output.stdout).expect("tshark prints text")
}

/// All lines that `-V` prints.
fn lines(write: impl FnOnce(File)) -> Vec<String> {
    dissected(&["-V"], write).lines().map(|line| line.trim().to_owned()).collect()
}

/// The named fields of each packet, separated by blanks.
fn fields(names: &[&str], write: impl FnOnce(File)) -> Vec<String> {
    let mut arguments = vec!["-T", "fields", "-E", "separator=/s"];
    arguments.extend(names.iter().flat_map(|name| ["-e", name]));
    dissected(&arguments, write).lines().map(str::to_owned).collect()
}

fn count(lines: &[String], start: &str, end: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(start) && line.ends_with(end)).count()
}

fn message(octets: usize) -> Vec<u8> {
    (0..octets).map(|at| (at * 7 + octets) as u8).collect()
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let content = aal5::Frame { payload, user_to_user: 0x5a, common_part: 0 };
    aal5::encode(&content, &mut frame).expect("short enough");
    frame
}

fn erf(file: File, frames: &[Vec<u8>]) {
    let mut erf = Erf::new(file).expect("a header");
    let header = Header::of_channel(CHANNEL);
    for (at, frame) in frames.iter().enumerate() {
        erf.frame(at as u64 * 1_500_000_000, Direction::Sent, &header, frame).expect("a record");
    }
    erf.finish().expect("all written");
}

/// LLC/SNAP, IPv4 and UDP around nothing (RFC 2684 §5.1), of `aal5.csv`.
fn ip_packet() -> Vec<u8> {
    let mut packet = vec![0xaa, 0xaa, 0x03, 0, 0, 0, 0x08, 0x00];
    packet.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0xf9, 0x6a, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend([0x03, 0xe8, 0x03, 0xe9, 0, 8, 0, 0]);
    packet
}

#[test]
fn aal5_frames_of_every_length_have_the_right_crc() {
    let frames: Vec<_> =
        (1..=200).chain([9188, 65_000]).map(|octets| frame(&message(octets))).collect();
    let lines = lines(|file| erf(file, &frames));
    assert_eq!(count(&lines, "AAL5 CRC:", "(correct)"), frames.len());
    assert_eq!(count(&lines, "AAL5 UU: 0x5a", ""), frames.len());
    assert_eq!(count(&lines, "AAL5 len: 65000", ""), 1);
    assert_eq!(count(&lines, "Virtual Circuit", ""), 0);
    assert_eq!(count(&lines, "VPI: 3", ""), frames.len());
    assert_eq!(count(&lines, "VCI: 4660", ""), frames.len());
}

#[test]
fn a_wrong_bit_in_an_aal5_frame_is_seen() {
    let mut wrong = frame(&message(100));
    wrong[17] ^= 0x10;
    let lines = lines(|file| erf(file, &[wrong]));
    assert_eq!(count(&lines, "AAL5 CRC:", "(correct)"), 0);
    assert_eq!(lines.iter().filter(|line| line.contains("(incorrect")).count(), 1, "{lines:?}");
}

/// Segmentation gives the cells, and their payloads make the frame again.
#[test]
fn an_ip_packet_is_found_in_the_cells_that_carry_it() {
    let packet = ip_packet();
    let header = Header::of_channel(CHANNEL);
    let segmentation = aal5::Segmentation::new(&aal5::Frame::of_payload(&packet), &header);
    let cells = segmentation.expect("short enough").to_cells();
    let whole: Vec<u8> = cells.iter().flat_map(|cell| *cell.payload()).collect();
    let names = ["frame.time_epoch", "ip.src", "ip.dst", "udp.srcport", "udp.dstport"];
    let found = fields(&names, |file| erf(file, &[whole.clone(), whole]));
    let expected =
        ["0.000000000", "1.500000000"].map(|at| format!("{at} 10.0.0.1 10.0.0.2 1000 1001"));
    assert_eq!(found, expected);
}

#[test]
fn sunatm_holds_messages_and_their_channels() {
    let names = ["frame.time_epoch", "atm.vpi", "atm.vci", "ip.src", "udp.dstport"];
    let found = fields(&names, |file| {
        let mut sunatm = SunAtm::new(file).expect("a header");
        for direction in [Direction::Sent, Direction::Received] {
            sunatm.message(2_000_000_007, direction, CHANNEL, &ip_packet()).expect("a record");
        }
        sunatm.finish().expect("all written");
    });
    assert_eq!(found, ["2.000000007 3 4660 10.0.0.1 1001"; 2]);
}

#[test]
fn single_cells_show_their_header() {
    let header = Header {
        channel: CHANNEL,
        payload_type: PayloadType::USER_LAST,
        is_low_priority: true,
        ..Header::default()
    };
    let names = ["erf.types.type", "atm.vpi", "atm.vci", "frame.len"];
    let found = fields(&names, |file| {
        let cell = Cell::new(&header, Interface::Uni, &[0; 48]).expect("a small VPI");
        let mut erf = Erf::new(file).expect("a header");
        erf.cell(0, Direction::Received, &cell).expect("a record");
        erf.finish().expect("all written");
    });
    assert_eq!(found, ["3 3 4660 52"]);
}

fn sniffer(file: File, cells: &[Cell]) {
    let mut sniffer = Sniffer::new(file).expect("a header");
    for (at, cell) in cells.iter().enumerate() {
        let at_ns = at as u64 * 2_736;
        sniffer.cell(at_ns, Direction::Sent, Traffic::Aal34, cell).expect("a record");
    }
    sniffer.finish().expect("all written");
}

fn cells(format: Format, octets: usize) -> Vec<Cell> {
    let message = message(octets);
    let header = Header::of_channel(CHANNEL);
    Segmentation::new(&message, format, &header, 0x155).expect("a legal message").iter().collect()
}

#[test]
fn aal34_cells_have_right_hec_fields_and_crc() {
    let mut all = cells(Format::Standard, 1_000);
    all.extend(cells(Format::FiveBit, 1_092));
    all.extend(cells(Format::Standard, 40));
    let lines = lines(|file| sniffer(file, &all));
    assert_eq!(all.len(), 23 + 25 + 1);
    assert_eq!(count(&lines, "Header Error Check:", "(correct)"), all.len(), "{lines:?}");
    let containing = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(containing("= CRC: "), all.len());
    assert_eq!(count(&lines, "", "( (correct))"), all.len());
    // By the standard split, 0x155 with bit 9 of its field the last of five sequence bits.
    assert_eq!(containing("Multiplex ID: 341") + containing("Multiplex ID: 853"), all.len());
    assert_eq!(containing("Multiplex ID: 853"), 12, "every second of 25");
    assert_eq!(containing("Length Indicator: Unknown (44)"), 22 + 24, "{lines:#?}");
    assert_eq!(containing("Segment Type: SSM"), 1);
    assert_eq!(containing("Segment Type: BOM"), 2);
    assert_eq!(containing("Segment Type: EOM"), 2);
}

#[test]
fn tshark_names_the_bit_that_is_wrong_in_a_header() {
    let good = cells(Format::Standard, 40)[0];
    let flipped = |bit: usize| {
        let mut cell = good;
        cell.octets_mut()[bit / 8] ^= 0x80 >> (bit % 8);
        cell
    };
    let wrong: Vec<Cell> = (0..40).map(flipped).collect();
    let lines = lines(|file| sniffer(file, &wrong));
    let seen: Vec<_> =
        lines.iter().filter(|line| line.starts_with("Header Error Check:")).collect();
    assert_eq!(seen.len(), 40, "{lines:?}");
    for (bit, line) in seen.iter().enumerate() {
        assert!(line.contains(&format!("(error in bit {bit})")), "bit {bit}: {line}");
    }
}

#[test]
fn tshark_finds_every_wrong_bit_of_a_sar_pdu() {
    let good = cells(Format::Standard, 40)[0];
    let flipped = |bit: usize| {
        let mut cell = good;
        cell.payload_mut()[bit / 8] ^= 0x80 >> (bit % 8);
        cell
    };
    let wrong: Vec<Cell> = (0..384).map(flipped).collect();
    let lines = lines(|file| sniffer(file, &wrong));
    let crcs: Vec<_> = lines.iter().filter(|line| line.contains("= CRC: ")).collect();
    assert_eq!(crcs.len(), 384);
    assert!(crcs.iter().all(|line| line.ends_with("(incorrect))")), "{crcs:#?}");
}

#[test]
fn cells_keep_their_times() {
    let found = fields(&["frame.time_relative", "atm.vpi", "atm.vci"], |file| {
        let mut sniffer = Sniffer::new(file).expect("a header");
        let first_ns = 1_700_000_000_000_000_000;
        for later_ns in [0, 2_700, 90_000_000_000_000] {
            let (at_ns, cell) = (first_ns + later_ns, cells(Format::Standard, 40)[0]);
            sniffer.cell(at_ns, Direction::Sent, Traffic::Aal34, &cell).expect("a record");
        }
        sniffer.finish().expect("all written");
    });
    let expected = ["0.000000000", "0.000002700", "90000.000000000"];
    assert_eq!(found, expected.map(|at| format!("{at} 3 4660")));
}
