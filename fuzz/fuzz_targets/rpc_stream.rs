//! Any octets as a stream of records, each decoded as a message. The first octet cuts the stream
//! into pieces, which must not change the result.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_oncrpc::{Message, RecordReader};

const RECORD_OCTETS_MAX: usize = 1 << 16;

fn records(pieces: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut reader = RecordReader::new(RECORD_OCTETS_MAX);
    let mut records = Vec::new();
    for piece in pieces {
        match reader.push(&piece) {
            Ok(more) => records.extend(more),
            Err(_) => break,
        }
    }
    records
}

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, stream)) = bytes.split_first() else { return };
    let whole = records(stream.chunks(1).map(<[u8]>::to_vec));
    let pieces = records(stream.chunks(usize::from(*piece) + 1).map(<[u8]>::to_vec));
    // A piece that ends in an error takes the records before the error with it.
    assert_eq!(pieces, whole[..pieces.len()]);
    for record in &whole {
        if let Ok(message) = Message::decode(record) {
            let again = message.encode();
            assert_eq!(record[..again.len()], again);
        }
    }
});
