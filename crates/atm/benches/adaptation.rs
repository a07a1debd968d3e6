//! Rates of segmentation and reassembly on one core, in GB of message a second.
//!
//! `cargo bench -p sockscope-atm`. Every round runs each case once, so that all meet the same noise;
//! a line is the median and the range of the rounds, and the median ratio to the memcpy of the same
//! round. The two memcpy lines differ in nothing, and so show what the noise is.

use std::hint::black_box;
use std::time::Instant;

use sockscope_atm::aal34::{self, Format};
use sockscope_atm::{Cell, Channel, Header, Interface, aal5, crc10, crc32};

const ROUNDS: usize = 25;

/// Octets of message of one round and case.
const ROUND_BYTES: usize = 64 << 20;

/// The largest IP packet on ATM (RFC 2225 §7.3) with its LLC/SNAP header and AAL3/4 frame.
const LARGE_BYTES: usize = 9_196;

/// A packet of 1,024 octets with its VMTP header, which the 5-bit sequence number is for.
const PACKET_BYTES: usize = 1_092;

/// Two full cells.
const SMALL_BYTES: usize = 88;

struct Case {
    name: String,
    message_bytes: usize,
    /// Handles one message.
    run: Box<dyn FnMut()>,
    gigabytes_per_s: Vec<f64>,
}

fn main() {
    let mut cases = vec![memcpy("memcpy"), memcpy("memcpy (control)")];
    for (format, bytes) in [
        (Format::Standard, LARGE_BYTES),
        (Format::FiveBit, PACKET_BYTES),
        (Format::FiveBit, SMALL_BYTES),
    ] {
        cases.push(segment_34(format, bytes));
        cases.push(reassemble_34(format, bytes));
    }
    for bytes in [LARGE_BYTES, PACKET_BYTES, SMALL_BYTES] {
        cases.push(segment_5(bytes));
        cases.push(reassemble_5(bytes));
    }
    cases.push(over_message("CRC-10", |octets| {
        black_box(crc10::crc10(octets));
    }));
    cases.push(over_message("CRC-32", |octets| {
        black_box(crc32::crc32(octets));
    }));
    cases.push(over_message("CRC-32 by tables", |octets| {
        black_box(crc32::portable(octets));
    }));
    for _ in 0..ROUNDS {
        cases.iter_mut().for_each(round);
    }
    let memcpy = cases[0].gigabytes_per_s.clone();
    cases.iter_mut().for_each(|case| report(case, &memcpy));
}

fn round(case: &mut Case) {
    let start = Instant::now();
    let messages = ROUND_BYTES / case.message_bytes;
    (0..messages).for_each(|_| (case.run)());
    let seconds = start.elapsed().as_secs_f64();
    case.gigabytes_per_s.push((messages * case.message_bytes) as f64 / seconds / 1e9);
}

fn report(case: &mut Case, memcpy: &[f64]) {
    let rates = &mut case.gigabytes_per_s;
    let mut ratios: Vec<f64> = rates.iter().zip(memcpy).map(|(rate, copy)| rate / copy).collect();
    ratios.sort_by(f64::total_cmp);
    rates.sort_by(f64::total_cmp);
    let (median, least, most) = (rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]);
    let ratio = ratios[ROUNDS / 2];
    println!(
        "{:38} {median:7.2} GB/s ({least:.2} to {most:.2}, {ROUNDS} rounds), {ratio:.3} of memcpy",
        case.name
    );
}

fn case(name: String, message_bytes: usize, run: impl FnMut() + 'static) -> Case {
    Case { name, message_bytes, run: Box::new(run), gigabytes_per_s: Vec::new() }
}

fn message(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 256) as u8).collect()
}

fn header() -> Header {
    Header::of_channel(Channel::of_path_0(32))
}

fn memcpy(name: &str) -> Case {
    let (from, mut to) = (message(LARGE_BYTES), vec![0; LARGE_BYTES]);
    case(name.to_owned(), LARGE_BYTES, move || {
        black_box(&mut to[..]).copy_from_slice(black_box(&from));
    })
}

fn over_message(name: &str, run: impl Fn(&[u8]) + 'static) -> Case {
    let octets = message(LARGE_BYTES);
    case(format!("{name}, {LARGE_BYTES} octets"), LARGE_BYTES, move || run(black_box(&octets)))
}

fn segment_34(format: Format, bytes: usize) -> Case {
    let octets = message(bytes);
    let mut cells = vec![Cell::default(); aal34::cells_for(bytes)];
    case(format!("AAL3/4 segmentation, {bytes} octets"), bytes, move || {
        let segmentation = aal34::Segmentation::new(black_box(&octets), format, &header(), 5);
        segmentation.expect("a legal length").write(&mut cells).expect("room for all cells");
        black_box(&cells);
    })
}

fn reassemble_34(format: Format, bytes: usize) -> Case {
    let octets = message(bytes);
    let segmentation = aal34::Segmentation::new(&octets, format, &header(), 5);
    let cells: Vec<Cell> = segmentation.expect("a legal length").iter().collect();
    let mut end = aal34::Reassembler::new(format, aal34::Limits::default());
    case(format!("AAL3/4 reassembly, {bytes} octets"), bytes, move || {
        let mut whole = false;
        for cell in black_box(&cells) {
            let channel = cell.header(Interface::Uni).channel;
            let outcome = end.receive(0, channel, cell.payload());
            whole = black_box(outcome.message).is_some();
        }
        assert!(whole);
    })
}

fn segment_5(bytes: usize) -> Case {
    let octets = message(bytes);
    let mut cells = vec![Cell::default(); aal5::frame_bytes(bytes) / 48];
    case(format!("AAL5 segmentation, {bytes} octets"), bytes, move || {
        let frame = aal5::Frame::of_payload(black_box(&octets));
        let segmentation = aal5::Segmentation::new(&frame, &header());
        segmentation.expect("a legal length").write(&mut cells).expect("room for all cells");
        black_box(&cells);
    })
}

fn reassemble_5(bytes: usize) -> Case {
    let octets = message(bytes);
    let segmentation = aal5::Segmentation::new(&aal5::Frame::of_payload(&octets), &header());
    let cells = segmentation.expect("a legal length").to_cells();
    let mut end = aal5::Reassembler::new(aal5::Limits::default());
    case(format!("AAL5 reassembly, {bytes} octets"), bytes, move || {
        let mut whole = false;
        for cell in black_box(&cells) {
            let outcome = end.receive(0, &cell.header(Interface::Uni), cell.payload());
            whole = matches!(black_box(outcome), aal5::Outcome::Message(..));
        }
        assert!(whole);
    })
}
