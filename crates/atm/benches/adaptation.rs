//! Rates of segmentation and reassembly on one core, in bytes of message a second.
//!
//! `cargo bench -p sockscope-atm`. Of two machines the ratios to `memcpy` are comparable, the rates are
//! not. `memcpy` and its control differ in nothing, and so show the noise of the machine.

use std::hint::black_box;

use divan::Bencher;
use divan::counter::BytesCount;
use sockscope_atm::aal34::{self, Format};
use sockscope_atm::{Cell, Channel, Header, Interface, aal5, crc10, crc32};

/// The largest IP packet on ATM (RFC 2225 §7.3) with its LLC/SNAP header and AAL3/4 frame.
const LARGE_BYTES: usize = 9_196;

/// A packet of 1,024 octets with its VMTP header, which the 5-bit sequence number is for.
const PACKET_BYTES: usize = 1_092;

/// Two full cells.
const SMALL_BYTES: usize = 88;

const SIZES: [usize; 3] = [LARGE_BYTES, PACKET_BYTES, SMALL_BYTES];

fn main() {
    divan::main();
}

#[divan::bench(args = ["case", "control"])]
fn memcpy(bencher: Bencher<'_, '_>, _: &str) {
    let (from, mut to) = (message(LARGE_BYTES), vec![0; LARGE_BYTES]);
    bencher.counter(BytesCount::new(LARGE_BYTES)).bench_local(|| {
        black_box(&mut to[..]).copy_from_slice(black_box(&from));
    });
}

#[divan::bench(args = SIZES)]
fn aal34_segmentation(bencher: Bencher<'_, '_>, bytes: usize) {
    let octets = message(bytes);
    let mut cells = vec![Cell::default(); aal34::cells_for(bytes)];
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        let segmentation =
            aal34::Segmentation::new(black_box(&octets), format(bytes), &header(), 5);
        segmentation.expect("a legal length").write(&mut cells).expect("room for all cells");
        black_box(&cells);
    });
}

#[divan::bench(args = SIZES)]
fn aal34_reassembly(bencher: Bencher<'_, '_>, bytes: usize) {
    let octets = message(bytes);
    let segmentation = aal34::Segmentation::new(&octets, format(bytes), &header(), 5);
    let cells: Vec<Cell> = segmentation.expect("a legal length").iter().collect();
    let mut end = aal34::Reassembler::new(format(bytes), aal34::Limits::default());
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        let mut whole = false;
        for cell in black_box(&cells) {
            let channel = cell.header(Interface::Uni).channel;
            let outcome = end.receive(0, channel, cell.payload());
            whole = black_box(outcome.message).is_some();
        }
        assert!(whole);
    });
}

#[divan::bench(args = SIZES)]
fn aal5_segmentation(bencher: Bencher<'_, '_>, bytes: usize) {
    let octets = message(bytes);
    let mut cells = vec![Cell::default(); aal5::frame_bytes(bytes) / 48];
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        let frame = aal5::Frame::of_payload(black_box(&octets));
        let segmentation = aal5::Segmentation::new(&frame, &header());
        segmentation.expect("a legal length").write(&mut cells).expect("room for all cells");
        black_box(&cells);
    });
}

#[divan::bench(args = SIZES)]
fn aal5_reassembly(bencher: Bencher<'_, '_>, bytes: usize) {
    let octets = message(bytes);
    let segmentation = aal5::Segmentation::new(&aal5::Frame::of_payload(&octets), &header());
    let cells = segmentation.expect("a legal length").to_cells();
    let mut end = aal5::Reassembler::new(aal5::Limits::default());
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        let mut whole = false;
        for cell in black_box(&cells) {
            let outcome = end.receive(0, &cell.header(Interface::Uni), cell.payload());
            whole = matches!(black_box(outcome), aal5::Outcome::Message(..));
        }
        assert!(whole);
    });
}

#[divan::bench]
fn crc_10(bencher: Bencher<'_, '_>) {
    over_message(bencher, crc10::crc10);
}

#[divan::bench]
fn crc_32(bencher: Bencher<'_, '_>) {
    over_message(bencher, crc32::crc32);
}

fn over_message<T>(bencher: Bencher<'_, '_>, run: impl Fn(&[u8]) -> T) {
    let octets = message(LARGE_BYTES);
    bencher.counter(BytesCount::new(LARGE_BYTES)).bench_local(|| run(black_box(&octets)));
}

/// Sequence numbers of 5 bits are for packets that are no longer than VMTP's.
fn format(bytes: usize) -> Format {
    if bytes > PACKET_BYTES { Format::Standard } else { Format::FiveBit }
}

fn message(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 256) as u8).collect()
}

fn header() -> Header {
    Header::of_channel(Channel::of_path_0(32))
}
