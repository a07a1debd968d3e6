//! Any bytes as a `records.arrows`. Corpus: `tests/bundles/*/*/records.arrows`.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use sockscope_trace::RecordReader;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = RecordReader::new(Cursor::new(bytes), "records.arrows");
    let mut records = 0;
    while let Ok(Some(batch)) = reader.next_batch() {
        records += batch.len() as u64;
    }
    // Loss records stand for damaged batches; they are not in the file.
    assert!(records + reader.unknown_kinds() >= reader.rows());
});
