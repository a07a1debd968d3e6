//! Any octets as cell, header, SAR-PDU, AAL3/4 frame, AAL5 frame and queue words; accepted input
//! survives being written and read again. Corpus: `crates/atm/tests/vectors/`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_atm::aal34::{Format, SarPdu, cpcs};
use sockscope_atm::delineation::Delineator;
use sockscope_atm::tca100::words;
use sockscope_atm::{Cell, Interface, aal5, crc10, hec};

fuzz_target!(|octets: &[u8]| {
    assert_eq!(crc10::crc10(octets), crc10::bitwise(octets));
    if let Ok(payload) = cpcs::decode(octets) {
        let mut frame = Vec::new();
        cpcs::encode(payload, octets[1], &mut frame).expect("its length was in a length field");
        assert_eq!(cpcs::decode(&frame), Ok(payload));
    }
    if let Ok(frame) = aal5::decode(octets) {
        let mut encoded = Vec::new();
        aal5::encode(&frame, &mut encoded).expect("its length was in a length field");
        assert_eq!(aal5::decode(&encoded), Ok(frame));
    }
    let mut line = Delineator::new();
    let cells = octets.iter().filter_map(|&octet| line.push(octet)).count();
    assert!(cells <= octets.len() / 53);
    let received = words::of_received(octets);
    if let Ok(mut cell) = Cell::try_from(octets) {
        assert_eq!(words::to_cell(&received), cell);
        check_cell(&mut cell);
    }
});

fn check_cell(cell: &mut Cell) {
    for interface in [Interface::Uni, Interface::Nni] {
        let header = cell.header(interface);
        assert_eq!(header.encode(interface), Ok(cell.header_word()));
    }
    let pdu = SarPdu::new(cell.payload());
    for format in [Format::Standard, Format::FiveBit] {
        let header = pdu.header(format);
        let word = u16::from_be_bytes([cell.payload()[0], cell.payload()[1]]);
        assert_eq!(header.encode(format), Ok(word));
        let _ = pdu.is_length_legal(header.segment_type, format);
    }
    let mut receiver = hec::Receiver::new();
    if receiver.receive(cell.header_mut()) != hec::Verdict::Discard {
        assert_eq!(receiver.receive(cell.header_mut()), hec::Verdict::Good);
    }
    crc10::insert(cell.payload_mut());
    assert_eq!(crc10::syndrome(cell.payload()), 0);
}
