//! The published and computed cells in `vectors/`, byte for byte, in both directions.

use sockscope_atm::aal34::{self, Format, Reassembler, SarPdu, Segmentation, cpcs};
use sockscope_atm::{Cell, Channel, Header, Interface, PayloadType, aal5, crc10};

const CHANNEL: Channel = Channel::of_path_0(32);

fn octets(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Splits a line at its last `count` commas: names may hold commas of their own.
fn columns(line: &str, count: usize) -> Vec<&str> {
    let mut columns: Vec<&str> = line.rsplitn(count + 1, ',').collect();
    columns.reverse();
    columns
}

struct SarMessage {
    name: String,
    format: Format,
    message_id: u16,
    cells: Vec<Cell>,
    octets: Vec<u8>,
}

/// The messages of `sar.csv`; the fields next to each cell are checked too.
fn sar_messages() -> Vec<SarMessage> {
    let mut messages: Vec<SarMessage> = Vec::new();
    for line in include_str!("vectors/sar.csv").lines().skip(1) {
        let [name, mode, number, st, sn, mid, li, crc, hex] = columns(line, 8)[..] else {
            panic!("columns of {line}")
        };
        let format = if mode == "sn5" { Format::FiveBit } else { Format::Standard };
        let cell = Cell::try_from(&octets(hex)[..]).expect("53 octets");
        let pdu = SarPdu::new(cell.payload());
        let header = pdu.header(format);
        let types = [("BOM", 0b10), ("COM", 0b00), ("EOM", 0b01), ("SSM", 0b11)];
        assert!(types.contains(&(st, header.segment_type.bits())), "{line}");
        assert_eq!(header.sequence.to_string(), sn, "{line}");
        assert_eq!(header.message_id.to_string(), mid, "{line}");
        assert_eq!(pdu.length().to_string(), li, "{line}");
        assert_eq!(crc10::of_sar_pdu(cell.payload()), u16::from_str_radix(crc, 16).unwrap());
        if number == "0" {
            messages.push(SarMessage {
                name: name.to_owned(),
                format,
                message_id: header.message_id,
                cells: Vec::new(),
                octets: Vec::new(),
            });
        }
        let message = messages.last_mut().expect("a first cell");
        message.cells.push(cell);
        message.octets.extend(&pdu.data()[..pdu.length().into()]);
    }
    messages
}

#[test]
fn sar_messages_are_segmented_as_published() {
    let messages = sar_messages();
    assert_eq!(messages.len(), 9);
    for SarMessage { name, format, message_id, cells, octets } in messages {
        let header = Header::of_channel(CHANNEL);
        let segmentation = Segmentation::new(&octets, format, &header, message_id).expect(&name);
        assert_eq!(segmentation.iter().collect::<Vec<_>>(), cells, "{name}");
    }
}

#[test]
fn sar_cells_are_reassembled() {
    for SarMessage { name, format, cells, octets, .. } in sar_messages() {
        let mut end = Reassembler::new(format, aal34::Limits::default());
        let (last, others) = cells.split_last().expect("at least one cell");
        for cell in others {
            assert_eq!(end.receive(0, CHANNEL, cell.payload()), aal34::Outcome::default());
        }
        let outcome = end.receive(0, CHANNEL, last.payload());
        assert_eq!(outcome.message.map(|(_, octets)| octets), Some(&octets[..]), "{name}");
    }
}

#[test]
fn framed_messages_are_framed_as_published() {
    let mut framed = 0;
    for SarMessage { name, octets, .. } in sar_messages() {
        if !name.contains("cpcs34") {
            continue;
        }
        let payload = cpcs::decode(&octets).expect(&name);
        let numbered: Vec<u8> = (0..payload.len() as u8).collect();
        assert_eq!(payload, numbered, "{name}");
        let mut frame = Vec::new();
        cpcs::encode(payload, octets[1], &mut frame).expect(&name);
        assert_eq!(frame, octets, "{name}");
        framed += 1;
    }
    assert_eq!(framed, 2);
}

#[test]
fn aal5_frames_are_as_published() {
    let mut frames = 0;
    for line in include_str!("vectors/aal5.csv").lines().skip(1) {
        // The source, in the last column, may stand in quotes and hold commas.
        let hex = line.split(',').find(|column| column.len() >= 96).expect("the frame");
        let expected = octets(hex);
        let frame = aal5::decode(&expected).expect(line);
        let mut encoded = Vec::new();
        aal5::encode(&frame, &mut encoded).expect(line);
        assert_eq!(encoded, expected, "{line}");

        let header = Header::of_channel(CHANNEL);
        let cells = aal5::Segmentation::new(&frame, &header).expect(line).to_cells();
        let payloads: Vec<u8> = cells.iter().flat_map(|cell| *cell.payload()).collect();
        assert_eq!(payloads, expected, "{line}");
        let (last, others) = cells.split_last().expect("at least one cell");
        let payload_type = |cell: &Cell| cell.header(Interface::Uni).payload_type;
        assert_eq!(payload_type(last), PayloadType::USER_LAST, "{line}");
        assert!(others.iter().all(|cell| payload_type(cell) == PayloadType::USER), "{line}");
        frames += 1;
    }
    assert_eq!(frames, 7);
}
