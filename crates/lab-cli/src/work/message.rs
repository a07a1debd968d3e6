//! A message with a stamp: its length, that of its answer, its number, and the time at which it was to be sent.

/// Bytes of the stamp, which begins the message.
pub const STAMP_BYTES: usize = 24;

/// Bytes of the longest message.
pub const MESSAGE_BYTES_MAX: u64 = 64 << 20;

/// The stamp of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Bytes of the message, with the stamp.
    pub message_bytes: u32,
    /// Bytes of the answer; 0 without one.
    pub answer_bytes: u32,
    /// From 0 on.
    pub number: u64,
    /// By the schedule, in nanoseconds of the monotonic clock, which all network namespaces share.
    pub planned_ns: u64,
}

impl Stamp {
    /// Writes the stamp to the beginning of a message.
    pub fn write(self, message: &mut [u8]) {
        let Self { message_bytes, answer_bytes, number, planned_ns } = self;
        message[..4].copy_from_slice(&message_bytes.to_le_bytes());
        message[4..8].copy_from_slice(&answer_bytes.to_le_bytes());
        message[8..16].copy_from_slice(&number.to_le_bytes());
        message[16..STAMP_BYTES].copy_from_slice(&planned_ns.to_le_bytes());
    }

    /// The stamp of a message; `None` where a length is that of no stamped message.
    pub fn read(message: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(message.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(message.get(at..at + 8)?.try_into().ok()?));
        let stamp = Self {
            message_bytes: word(0)?,
            answer_bytes: word(4)?,
            number: long(8)?,
            planned_ns: long(16)?,
        };
        let lengths = [stamp.message_bytes, stamp.answer_bytes];
        let is_short = lengths.iter().all(|bytes| u64::from(*bytes) <= MESSAGE_BYTES_MAX);
        (is_short && stamp.message_bytes as usize >= STAMP_BYTES).then_some(stamp)
    }
}

/// The borders of stamped messages in a byte stream that is read in pieces of any size.
#[derive(Debug, Default)]
pub struct Borders {
    head: Vec<u8>,
    /// The message under way, and its bytes that are still to be read.
    open: Option<(Stamp, usize)>,
}

/// Bytes that are no stamp, where one was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoStamp;

impl Borders {
    /// Takes bytes; gives the stamps of the messages that end in them.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Stamp>, NoStamp> {
        let mut whole = Vec::new();
        loop {
            let (stamp, missing) = match self.open {
                Some(open) => open,
                None => {
                    let taken = (STAMP_BYTES - self.head.len()).min(bytes.len());
                    self.head.extend(&bytes[..taken]);
                    bytes = &bytes[taken..];
                    if self.head.len() < STAMP_BYTES {
                        return Ok(whole);
                    }
                    let stamp = Stamp::read(&self.head).ok_or(NoStamp)?;
                    self.head.clear();
                    (stamp, stamp.message_bytes as usize - STAMP_BYTES)
                }
            };
            let taken = missing.min(bytes.len());
            bytes = &bytes[taken..];
            if taken < missing {
                self.open = Some((stamp, missing - taken));
                return Ok(whole);
            }
            self.open = None;
            whole.push(stamp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> (Vec<Stamp>, Vec<u8>) {
        let stamps: Vec<_> = [24_u32, 25, 100, 3_000]
            .into_iter()
            .enumerate()
            .map(|(number, message_bytes)| Stamp {
                message_bytes,
                answer_bytes: 7,
                number: number as u64,
                planned_ns: 1 << 40,
            })
            .collect();
        let bytes = stamps.iter().flat_map(|stamp| {
            let mut message = vec![0xff; stamp.message_bytes as usize];
            stamp.write(&mut message);
            message
        });
        (stamps.clone(), bytes.collect())
    }

    #[test]
    fn the_pieces_of_a_stream_do_not_matter() {
        let (stamps, bytes) = messages();
        for piece in [1, 2, 23, 24, 25, 50, 1_000, 10_000] {
            let mut borders = Borders::default();
            let found: Vec<_> =
                bytes.chunks(piece).flat_map(|bytes| borders.push(bytes).unwrap()).collect();
            assert_eq!(found, stamps, "{piece}");
            assert!(borders.open.is_none() && borders.head.is_empty());
        }
    }

    #[test]
    fn a_message_ends_with_its_last_byte() {
        let (stamps, bytes) = messages();
        let mut borders = Borders::default();
        assert_eq!(borders.push(&bytes[..bytes.len() - 1]).unwrap(), stamps[..3]);
        assert_eq!(borders.push(&bytes[bytes.len() - 1..]).unwrap(), stamps[3..]);
    }

    #[test]
    fn other_bytes_are_no_stamp() {
        assert_eq!(Borders::default().push(&[0; 100]), Err(NoStamp));
        assert_eq!(Stamp::read(&[9; 23]), None);
        let mut message = [0; STAMP_BYTES];
        let long = Stamp { message_bytes: 24, answer_bytes: u32::MAX, number: 0, planned_ns: 0 };
        long.write(&mut message);
        assert_eq!(Stamp::read(&message), None, "no answer is that long");
    }
}
