//! The two forms.

use super::pass::{copy, copy_and_sum, finish, sum};
use super::work::{Pass, Work};

/// Data of a full segment: Ethernet's 1,500 less headers of IP and TCP.
pub const SEGMENT_BYTES: usize = 1460;
/// XDR's buffer, and the longest read and write.
const STUB_BYTES: usize = sockscope_oncrpc::BUFFER_OCTETS;
/// Header of a fragment in the record stream.
const MARK_BYTES: usize = 4;
/// Ten words of a call, and the length of its data.
const HEAD_BYTES: usize = 44;
/// The largest data unit: bounds every buffer.
pub(super) const DATA_BYTES_MAX: usize = 1 << 20;

/// How often each octet of the data is touched, from one application to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touches {
    /// Read from memory.
    pub reads: u32,
    /// Written to memory.
    pub writes: u32,
}

/// A segment arrived with a wrong checksum, or what arrived is no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("segment {segment} of the call arrived damaged")]
pub struct Damage {
    /// Its number, from 0 on.
    pub segment: usize,
}

/// A way from application to application. One value holds the buffers of both ends.
pub trait Form {
    /// The word in tables.
    fn name(&self) -> &'static str;

    /// Touches of each octet of data by [`Form::send`] and [`Form::receive`] together.
    fn touches(&self) -> Touches;

    /// What was done since this was last asked, as it was counted.
    fn take_work(&mut self) -> Work;

    /// Puts a call with `data` (at most 1 MiB; longer data is cut) on the wire.
    fn send(&mut self, data: &[u8], wire: &mut Wire);

    /// Takes a call off the wire; its data goes to `data`.
    ///
    /// # Errors
    ///
    /// When a segment is damaged; what `data` then holds is of no use.
    fn receive(&mut self, wire: &Wire, data: &mut Vec<u8>) -> Result<(), Damage>;
}

/// Segments in transit.
#[derive(Debug, Clone, Default)]
pub struct Wire {
    segments: Vec<Segment>,
    used: usize,
}

#[derive(Debug, Clone)]
struct Segment {
    octets: [u8; SEGMENT_BYTES],
    len: usize,
    checksum: u16,
}

impl Wire {
    /// Data of the segments in transit.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.segments[..self.used].iter().map(|segment| &segment.octets[..segment.len])
    }

    /// Flips one bit: `at` counts octets over all segments. Nothing happens beyond the last one.
    pub fn damage(&mut self, at: usize, bit: u8) {
        let mut at = at;
        for segment in &mut self.segments[..self.used] {
            if let Some(octet) = segment.octets[..segment.len].get_mut(at) {
                *octet ^= 1 << (bit % 8);
                return;
            }
            at -= segment.len;
        }
    }

    fn clear(&mut self) {
        self.used = 0;
    }

    fn next(&mut self) -> &mut Segment {
        if self.used == self.segments.len() {
            self.segments.push(Segment { octets: [0; SEGMENT_BYTES], len: 0, checksum: 0 });
        }
        self.used += 1;
        &mut self.segments[self.used - 1]
    }
}

/// The head of a call with so much data: transaction 1 of procedure 1 (RFC 5531 §9), no credentials.
fn head(data_bytes: usize) -> [u8; HEAD_BYTES] {
    let words = [1, 0, 2, 0x2000_0099, 1, 1, 0, 0, 0, 0, data_bytes as u32];
    let mut head = [0; HEAD_BYTES];
    for (place, word) in head.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *place = word.to_be_bytes();
    }
    head
}

/// Length of the data that a head announces; `None` when it is not one of these calls.
fn announced(bytes: &[u8]) -> Option<usize> {
    let len = u32::from_be_bytes(bytes.get(HEAD_BYTES - 4..HEAD_BYTES)?.try_into().ok()?);
    let len = usize::try_from(len).ok().filter(|&len| len <= DATA_BYTES_MAX)?;
    (bytes[..HEAD_BYTES] == head(len)).then_some(len)
}

fn cut(data: &[u8]) -> &[u8] {
    &data[..data.len().min(DATA_BYTES_MAX)]
}

/// Through layers: each has its own buffer and its own pass.
#[derive(Debug)]
pub struct Layered {
    stub: Vec<u8>,
    filled: usize,
    send_queue: Vec<u8>,
    receive_queue: Vec<u8>,
    work: Work,
}

impl Default for Layered {
    fn default() -> Self {
        Self {
            stub: vec![0; STUB_BYTES],
            filled: MARK_BYTES,
            send_queue: Vec::new(),
            receive_queue: Vec::new(),
            work: Work::default(),
        }
    }
}

impl Layered {
    /// The stub's buffer becomes a fragment, and `write()` copies it into the socket's queue.
    fn flush(&mut self, is_last: bool) {
        let mark = u32::from(is_last) << 31 | (self.filled - MARK_BYTES) as u32;
        self.stub[..MARK_BYTES].copy_from_slice(&mark.to_be_bytes());
        self.send_queue.extend_from_slice(&self.stub[..self.filled]);
        self.work.count(Pass::Write, self.filled);
        self.filled = MARK_BYTES;
    }

    fn encode(&mut self, mut octets: &[u8]) {
        while !octets.is_empty() {
            let (now, later) = octets.split_at(octets.len().min(STUB_BYTES - self.filled));
            copy(&mut self.stub[self.filled..], now);
            self.work.count(Pass::Encode, now.len());
            self.filled += now.len();
            octets = later;
            if self.filled == STUB_BYTES {
                self.flush(false);
            }
        }
    }

    /// `read()` copies what arrived into the stub's buffer, which the stub decodes: fragment by fragment,
    /// as the sender's buffer made them.
    fn decode(&mut self, data: &mut Vec<u8>) -> Option<()> {
        let mut rest = &self.receive_queue[..];
        let (mut head, mut expected) = (Vec::with_capacity(HEAD_BYTES), None);
        data.clear();
        while !rest.is_empty() {
            let read = rest.len().min(STUB_BYTES);
            copy(&mut self.stub, &rest[..read]);
            self.work.count(Pass::Read, read);
            rest = &rest[read..];
            let mut octets = &self.stub[MARK_BYTES.min(read)..read];
            if expected.is_none() {
                let (of_head, later) = octets.split_at(octets.len().min(HEAD_BYTES));
                head.extend_from_slice(of_head);
                expected = Some(announced(&head)?);
                octets = later;
            }
            data.extend_from_slice(octets);
            self.work.count(Pass::Decode, octets.len());
        }
        data.truncate(expected?);
        (Some(data.len()) == expected).then_some(())
    }
}

impl Form for Layered {
    fn name(&self) -> &'static str {
        "layered"
    }

    fn touches(&self) -> Touches {
        // Encode, write(), segment, sum; sum, queue, read(), decode: six of the eight write.
        Touches { reads: 8, writes: 6 }
    }

    fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.work)
    }

    fn send(&mut self, data: &[u8], wire: &mut Wire) {
        let data = cut(data);
        self.send_queue.clear();
        self.encode(&head(data.len()));
        self.encode(data);
        self.encode(&[0; 3][..data.len().next_multiple_of(4) - data.len()]);
        self.flush(true);
        wire.clear();
        for piece in self.send_queue.chunks(SEGMENT_BYTES) {
            let segment = wire.next();
            copy(&mut segment.octets, piece);
            segment.len = piece.len();
            segment.checksum = finish(sum(&segment.octets[..segment.len]));
            self.work.count(Pass::Segment, piece.len());
            self.work.count(Pass::Sum, piece.len());
        }
    }

    fn receive(&mut self, wire: &Wire, data: &mut Vec<u8>) -> Result<(), Damage> {
        self.receive_queue.clear();
        for (number, segment) in wire.segments[..wire.used].iter().enumerate() {
            let octets = &segment.octets[..segment.len];
            if finish(sum(octets)) != segment.checksum {
                return Err(Damage { segment: number });
            }
            self.receive_queue.extend_from_slice(octets);
            self.work.count(Pass::Verify, octets.len());
            self.work.count(Pass::Queue, octets.len());
        }
        self.decode(data).ok_or(Damage { segment: 0 })
    }
}

/// One path: one loop at each end.
#[derive(Debug, Default)]
pub struct Integrated {
    work: Work,
}

impl Form for Integrated {
    fn name(&self) -> &'static str {
        "integrated"
    }

    fn touches(&self) -> Touches {
        Touches { reads: 2, writes: 2 }
    }

    fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.work)
    }

    fn send(&mut self, data: &[u8], wire: &mut Wire) {
        let mut rest = cut(data);
        let head = head(rest.len());
        wire.clear();
        self.work.count(Pass::Hand, 0);
        let mut at = HEAD_BYTES;
        while at > 0 || !rest.is_empty() {
            let segment = wire.next();
            let mut sum = copy_and_sum(&mut segment.octets, &head[..at]);
            let (now, later) = rest.split_at(rest.len().min(SEGMENT_BYTES - at));
            sum += copy_and_sum(&mut segment.octets[at..], now);
            segment.len = at + now.len();
            segment.checksum = finish(sum);
            self.work.count(Pass::Send, segment.len);
            (rest, at) = (later, 0);
        }
    }

    fn receive(&mut self, wire: &Wire, data: &mut Vec<u8>) -> Result<(), Damage> {
        let mut expected = None;
        let mut filled = 0;
        for (number, segment) in wire.segments[..wire.used].iter().enumerate() {
            let octets = &segment.octets[..segment.len];
            let (head, body) = match expected {
                None => octets.split_at(octets.len().min(HEAD_BYTES)),
                Some(_) => octets.split_at(0),
            };
            if expected.is_none() {
                // The length decides about the data's place before the sum can tell whether it is
                // right: it is bounded, and a wrong sum gives all of it up.
                let len = announced(head).ok_or(Damage { segment: number })?;
                data.resize(len, 0);
                expected = Some(len);
            }
            let place =
                data.get_mut(filled..filled + body.len()).ok_or(Damage { segment: number })?;
            if finish(sum(head) + copy_and_sum(place, body)) != segment.checksum {
                return Err(Damage { segment: number });
            }
            filled += body.len();
            self.work.count(Pass::Receive, octets.len());
        }
        self.work.count(Pass::Hand, 0);
        if expected == Some(filled) { Ok(()) } else { Err(Damage { segment: wire.used }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lens(form: &mut dyn Form, data_bytes: usize) -> Vec<usize> {
        let mut wire = Wire::default();
        form.send(&vec![7; data_bytes], &mut wire);
        wire.segments().map(<[u8]>::len).collect()
    }

    #[test]
    fn layers_leave_the_fragment_headers_on_the_wire_and_the_path_does_not() {
        assert_eq!(lens(&mut Layered::default(), 4800), [1460, 1460, 1460, 472]);
        assert_eq!(lens(&mut Integrated::default(), 4800), [1460, 1460, 1460, 464]);
        assert_eq!(lens(&mut Integrated::default(), 0), [44]);
        assert_eq!(lens(&mut Integrated::default(), 1416), [1460]);
    }

    proptest! {
        #[test]
        fn what_is_sent_arrives(data in prop::collection::vec(any::<u8>(), 0..9000)) {
            let forms: [&mut dyn Form; 2] = [&mut Layered::default(), &mut Integrated::default()];
            for form in forms {
                let (mut wire, mut got) = (Wire::default(), vec![1, 2, 3]);
                form.send(&data, &mut wire);
                prop_assert_eq!(form.receive(&wire, &mut got), Ok(()));
                prop_assert_eq!(&got, &data, "{}", form.name());
            }
        }

        #[test]
        fn one_wrong_bit_is_damage(len in 0usize..5000, at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let forms: [&mut dyn Form; 2] = [&mut Layered::default(), &mut Integrated::default()];
            for form in forms {
                let (mut wire, mut got) = (Wire::default(), Vec::new());
                form.send(&vec![0x33; len], &mut wire);
                let total: usize = wire.segments().map(<[u8]>::len).sum();
                wire.damage(at.index(total), bit);
                prop_assert!(form.receive(&wire, &mut got).is_err());
            }
        }
    }
}
