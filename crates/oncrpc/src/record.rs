//! Record marking over a byte stream (RFC 5531 §11), buffered as the classic C library does.
//!
//! A record is one or more fragments; a fragment is a header of four octets (bit 31: last of its
//! record, the rest: length) and that much data. The writer has one buffer: when data fills it, it
//! becomes one fragment and one `write()`. The reader makes no assumption about fragment borders.

use super::{Result, RpcError, Sink};

/// Size of the classic library's send and receive buffers when a program asks for none.
pub const BUFFER_OCTETS: usize = 4000;

/// Longest fragment that the header can announce.
pub const FRAGMENT_OCTETS_MAX: usize = (1 << 31) - 1;

const HEADER_OCTETS: usize = 4;
const LAST: u32 = 1 << 31;

/// Smallest buffer that is taken as asked for; a smaller wish gets [`BUFFER_OCTETS`].
const BUFFER_OCTETS_MIN: usize = 100;

/// Size that a program gets which asks for `wanted` octets: whole units, the default for less than
/// 100.
fn buffer_octets(wanted: usize) -> usize {
    if wanted < BUFFER_OCTETS_MIN { BUFFER_OCTETS } else { wanted.next_multiple_of(4) }
}

/// The sending half of a record stream: its octets become the contents of `write()` calls.
#[derive(Debug, Clone)]
pub struct RecordWriter {
    buffer: Vec<u8>,
    size: usize,
    /// Place of the open fragment's header in `buffer`.
    header_at: usize,
    /// A fragment of the open record has been written already.
    is_split: bool,
    writes: Vec<Vec<u8>>,
}

impl RecordWriter {
    /// A stream with a buffer of `wanted` octets, made a multiple of four; less than 100 asks for
    /// the default.
    pub fn new(wanted: usize) -> Self {
        let size = buffer_octets(wanted);
        let mut buffer = Vec::with_capacity(size);
        buffer.resize(HEADER_OCTETS, 0);
        Self { buffer, size, header_at: 0, is_split: false, writes: Vec::new() }
    }

    /// Ends the record. With `send_now` it is written; without, a record that is not yet written in
    /// part stays in the buffer while there is room for another header (batched calls).
    pub fn end_record(&mut self, send_now: bool) {
        let has_room = self.buffer.len() + HEADER_OCTETS < self.size;
        if send_now || self.is_split || !has_room {
            self.is_split = false;
            self.flush(LAST);
        } else {
            self.close_fragment(LAST);
            self.header_at = self.buffer.len();
            self.buffer.extend_from_slice(&[0; HEADER_OCTETS]);
        }
    }

    /// The contents of the `write()` calls made since the last time, in order.
    pub fn take_writes(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.writes)
    }

    fn close_fragment(&mut self, mark: u32) {
        let len = self.buffer.len() - self.header_at - HEADER_OCTETS;
        // The buffer's size bounds the length far below 31 bits for every size that can be made.
        let header = mark | u32::try_from(len).unwrap_or(LAST - 1);
        self.buffer[self.header_at..][..HEADER_OCTETS].copy_from_slice(&header.to_be_bytes());
    }

    fn flush(&mut self, mark: u32) {
        self.close_fragment(mark);
        self.header_at = 0;
        let mut fresh = Vec::with_capacity(self.size);
        fresh.resize(HEADER_OCTETS, 0);
        self.writes.push(std::mem::replace(&mut self.buffer, fresh));
    }

    fn flush_part(&mut self) {
        self.is_split = true;
        self.flush(0);
    }
}

impl Sink for RecordWriter {
    /// A word flushes before it is put where it does not fit, so it may fill the buffer unsent.
    fn put_word(&mut self, word: u32) {
        if self.buffer.len() + 4 > self.size {
            self.flush_part();
        }
        self.buffer.extend_from_slice(&word.to_be_bytes());
    }

    /// Octets flush as soon as they fill the buffer.
    fn put_octets(&mut self, mut octets: &[u8]) {
        while !octets.is_empty() {
            let room = self.size - self.buffer.len();
            let (now, later) = octets.split_at(room.min(octets.len()));
            self.buffer.extend_from_slice(now);
            octets = later;
            if self.buffer.len() == self.size {
                self.flush_part();
            }
        }
    }
}

/// The receiving half: octets of a stream in, whole records out.
#[derive(Debug, Clone)]
pub struct RecordReader {
    record: Vec<u8>,
    record_max: usize,
    header: Vec<u8>,
    /// Octets missing of the open fragment.
    missing: usize,
    is_last: bool,
    offset: usize,
}

impl RecordReader {
    /// A reader that refuses records of more than `record_max` octets.
    pub fn new(record_max: usize) -> Self {
        let (record, header) = (Vec::new(), Vec::with_capacity(HEADER_OCTETS));
        Self { record, record_max, header, missing: 0, is_last: false, offset: 0 }
    }

    /// Takes octets as they were read, in pieces of any size; gives the records that they complete.
    ///
    /// Empty fragments are legal, last or not.
    ///
    /// # Errors
    ///
    /// When a record grows past the limit; the stream is then of no more use.
    pub fn push(&mut self, mut octets: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut records = Vec::new();
        while !octets.is_empty() {
            let taken = if self.missing == 0 {
                self.take_header(octets)?
            } else {
                let taken = self.missing.min(octets.len());
                self.record.extend_from_slice(&octets[..taken]);
                self.missing -= taken;
                taken
            };
            octets = &octets[taken..];
            self.offset += taken;
            if self.missing == 0 && self.is_last {
                self.is_last = false;
                records.push(std::mem::take(&mut self.record));
            }
        }
        Ok(records)
    }

    fn take_header(&mut self, octets: &[u8]) -> Result<usize> {
        let taken = (HEADER_OCTETS - self.header.len()).min(octets.len());
        self.header.extend_from_slice(&octets[..taken]);
        if let Ok(header) = <[u8; HEADER_OCTETS]>::try_from(self.header.as_slice()) {
            self.header.clear();
            let header = u32::from_be_bytes(header);
            self.is_last = header & LAST != 0;
            self.missing = (header & !LAST) as usize;
            if self.missing > self.record_max - self.record.len() {
                return Err(RpcError { offset: self.offset, expected: "a shorter record" });
            }
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Encoder;
    use crate::tests::words;
    use proptest::prelude::*;

    impl RecordReader {
        /// Whether the stream may end here: no record has begun.
        fn is_between_records(&self) -> bool {
            self.record.is_empty() && self.header.is_empty() && self.missing == 0
        }
    }

    /// Sizes of the writes of a call with `data` octets of string, after a head of ten words.
    fn call_writes(data: usize) -> Vec<usize> {
        write_sizes(10, data)
    }

    fn write_sizes(head_words: usize, data: usize) -> Vec<usize> {
        let mut stream = RecordWriter::new(BUFFER_OCTETS);
        (0..head_words).for_each(|_| stream.put_word(0));
        Encoder::new(&mut stream).opaque(&vec![b'x'; data]);
        stream.end_record(true);
        stream.take_writes().iter().map(Vec::len).collect()
    }

    /// Measured with a library of this lineage and buffers of 4,000 octets.
    #[test]
    fn writes_of_a_call_have_the_measured_sizes() {
        let table: [(usize, &[usize]); 10] = [
            (0, &[48]),
            (3948, &[3996]),
            (3952, &[4000, 4]),
            (4044, &[4000, 96]),
            (4048, &[4000, 100]),
            (4800, &[4000, 852]),
            (4968, &[4000, 1020]),
            (4972, &[4000, 1024]),
            (7944, &[4000, 3996]),
            (7948, &[4000, 4000, 4]),
        ];
        for (data, writes) in table {
            assert_eq!(call_writes(data), writes, "{data} octets");
        }
        assert_eq!(write_sizes(6, 4800), [4000, 836], "the reply");
    }

    #[test]
    fn fragment_headers_are_those_of_the_printed_system_calls() {
        let mut stream = RecordWriter::new(BUFFER_OCTETS);
        (0..10).for_each(|_| stream.put_word(0));
        Encoder::new(&mut stream).opaque(&[0; 4800]);
        stream.end_record(true);
        let headers: Vec<_> = stream.take_writes().iter().map(|it| words(&it[..4])).collect();
        assert_eq!(headers, ["00000f9c", "80000350"]);
    }

    #[test]
    fn a_record_that_ends_at_the_buffers_end_closes_with_an_empty_fragment() {
        let mut stream = RecordWriter::new(100);
        stream.put_octets(&[1; 96]);
        stream.end_record(true);
        let writes = stream.take_writes();
        assert_eq!(writes.iter().map(Vec::len).collect::<Vec<_>>(), [100, 4]);
        assert_eq!(words(&writes[1]), "80000000");
    }

    #[test]
    fn a_word_that_fills_the_buffer_is_not_sent_before_the_next() {
        let mut stream = RecordWriter::new(100);
        (0..24).for_each(|word| stream.put_word(word));
        assert!(stream.take_writes().is_empty());
        stream.end_record(true);
        assert_eq!(stream.take_writes().len(), 1);
    }

    #[test]
    fn batched_records_share_a_write() {
        let mut stream = RecordWriter::new(100);
        for word in [7, 8] {
            stream.put_word(word);
            stream.end_record(false);
        }
        assert!(stream.take_writes().is_empty());
        stream.put_word(9);
        stream.end_record(true);
        let writes = stream.take_writes();
        assert_eq!(writes.len(), 1);
        assert_eq!(words(&writes[0]), "80000004 00000007 80000004 00000008 80000004 00000009");
    }

    #[test]
    fn small_wishes_get_the_default_and_odd_ones_whole_units() {
        let sizes = [0, 99, 100, 4001].map(buffer_octets);
        assert_eq!(sizes, [4000, 4000, 100, 4004]);
    }

    #[test]
    fn empty_fragments_change_nothing() {
        let mut reader = RecordReader::new(100);
        let octets = crate::tests::hex("00000000 00000001 41000000 00800000 0142");
        assert_eq!(reader.push(&octets), Ok(vec![b"AB".to_vec()]));
        assert!(reader.is_between_records());
    }

    #[test]
    fn a_record_past_the_limit_is_refused_by_its_header() {
        let mut reader = RecordReader::new(8);
        assert_eq!(reader.push(&[0, 0, 0, 8]), Ok(vec![]));
        assert_eq!(reader.push(&[0; 8]), Ok(vec![]));
        let error = reader.push(&[0x80, 0, 0, 1]).unwrap_err();
        assert_eq!(error.to_string(), "octet 12: expected a shorter record");
    }

    proptest! {
        #[test]
        fn records_survive_any_fragments_and_any_pieces(
            records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..400), 1..6),
            size in 100_usize..300,
            piece in 1_usize..50,
        ) {
            let mut writer = RecordWriter::new(size);
            for record in &records {
                writer.put_octets(record);
                writer.end_record(true);
            }
            let stream = writer.take_writes().concat();
            let mut reader = RecordReader::new(400);
            let mut read = Vec::new();
            for piece in stream.chunks(piece) {
                read.extend(reader.push(piece)?);
            }
            prop_assert_eq!(read, records);
            prop_assert!(reader.is_between_records());
        }
    }
}
