//! The journal of a store: records in the order of the changes.
//!
//! A record is length (32 bits), hash (64 bits) and payload, little-endian. A journal begins with
//! the number of the records that hold the state when it was made. They are always whole, because
//! the file is made under another name. The later changes follow them. The first record there that
//! is not whole was being written at the end, and no client was answered.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat, renameat};

use super::StoreError;

const NAME: &str = ".sockscope-store.journal";
const NEW_NAME: &str = ".sockscope-store.new";
const MAGIC: [u8; 8] = *b"sockst01";
/// Octets before a payload.
const HEAD_BYTES: usize = 12;
/// A kind and one field are at least so long; that a length was damaged to 0, the hash need not show.
const PAYLOAD_BYTES_MIN: usize = 5;
/// A page and a name together are shorter.
const PAYLOAD_BYTES_MAX: usize = 1 << 16;

/// A journal that is written.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    bytes: u64,
    /// Records that a crash of the system could take away.
    is_dirty: bool,
    record: Vec<u8>,
}

/// The payloads of the journal in `folder`, in order; none if there is no journal.
pub(super) fn read(folder: &OwnedFd) -> Result<Vec<Vec<u8>>, StoreError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = match openat(folder, NAME, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(error) if error == rustix::io::Errno::NOENT => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::system("cannot open the journal")(error.into())),
    };
    let mut octets = Vec::new();
    io::Read::read_to_end(&mut &file, &mut octets)
        .map_err(StoreError::system("cannot read the journal"))?;
    parse(&octets)
}

/// The payloads of whole records, up to the first one that is not.
pub(super) fn parse(octets: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
    let head: [u8; 16] =
        octets.get(..16).and_then(|head| head.try_into().ok()).ok_or(StoreError::Damaged(0))?;
    if head[..8] != MAGIC {
        return Err(StoreError::Damaged(0));
    }
    let known = u64::from_le_bytes(std::array::from_fn(|at| head[8 + at]));
    let mut at = head.len();
    let mut payloads = Vec::new();
    while let Some(payload) = record_at(&octets[at..]) {
        at += HEAD_BYTES + payload.len();
        payloads.push(payload.to_vec());
    }
    if (payloads.len() as u64) < known { Err(StoreError::Damaged(at)) } else { Ok(payloads) }
}

fn record_at(octets: &[u8]) -> Option<&[u8]> {
    let head: [u8; HEAD_BYTES] = octets.get(..HEAD_BYTES)?.try_into().ok()?;
    let len = u32::from_le_bytes(std::array::from_fn(|at| head[at])) as usize;
    let sum = u64::from_le_bytes(std::array::from_fn(|at| head[4 + at]));
    let payload = octets.get(HEAD_BYTES..HEAD_BYTES + len)?;
    let is_payload = (PAYLOAD_BYTES_MIN..=PAYLOAD_BYTES_MAX).contains(&len);
    (is_payload && hash(payload) == sum).then_some(payload)
}

/// FNV-1a by words of 64 bits, with the length: finds records that are not whole, not forgeries.
fn hash(octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    let begin = 0xcbf2_9ce4_8422_2325 ^ octets.len() as u64;
    words
        .fold(begin, |hash, word| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29))
}

fn put(to: &mut Vec<u8>, payload: &[u8]) {
    let bounds = PAYLOAD_BYTES_MIN..=PAYLOAD_BYTES_MAX;
    debug_assert!(bounds.contains(&payload.len()), "payloads are bounded by their makers");
    to.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    to.extend_from_slice(&hash(payload).to_le_bytes());
    to.extend_from_slice(payload);
}

/// A journal whose first `known` payloads hold the state when it was made.
pub(super) fn compose<P: AsRef<[u8]>>(known: u64, payloads: &[P]) -> Vec<u8> {
    let mut octets = MAGIC.to_vec();
    octets.extend_from_slice(&known.to_le_bytes());
    payloads.iter().for_each(|payload| put(&mut octets, payload.as_ref()));
    octets
}

impl Journal {
    /// Puts a journal that begins with `known` in the place of the one in `folder`, durably.
    pub(super) fn replace(folder: &OwnedFd, known: &[Vec<u8>]) -> Result<Self, StoreError> {
        let failed = || StoreError::system("cannot make a journal");
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = openat(folder, NEW_NAME, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(opened.map_err(io::Error::from).map_err(failed())?);
        let octets = compose(known.len() as u64, known);
        file.write_all(&octets).and_then(|()| file.sync_all()).map_err(failed())?;
        renameat(folder, NEW_NAME, folder, NAME).map_err(io::Error::from).map_err(failed())?;
        rustix::fs::fsync(folder).map_err(io::Error::from).map_err(failed())?;
        Ok(Self { file, bytes: octets.len() as u64, is_dirty: false, record: Vec::new() })
    }

    /// Adds a record; `Ok(false)` when there is no room, and then nothing was added.
    pub(super) fn append(&mut self, payload: &[u8]) -> Result<bool, StoreError> {
        self.record.clear();
        put(&mut self.record, payload);
        match self.file.write_all(&self.record) {
            Ok(()) => {
                self.bytes += self.record.len() as u64;
                self.is_dirty = true;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                self.cut().map(|()| false).map_err(StoreError::system("cannot cut the journal"))
            }
            Err(error) => Err(StoreError::system("cannot write the journal")(error)),
        }
    }

    /// Takes the part of a record away that found room.
    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.bytes)?;
        io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.bytes)).map(|_| ())
    }

    /// Makes all records durable. After a failure the durable part is unknown: the store must stop.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        if self.is_dirty {
            self.file.sync_data().map_err(StoreError::system("cannot sync the journal"))?;
            self.is_dirty = false;
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_cut_anywhere_is_no_record() {
        let whole = compose(1, &["known", "since then", "lastly"]);
        let two = whole.len() - HEAD_BYTES - 6;
        assert_eq!(parse(&whole).expect("whole").len(), 3);
        for end in two..whole.len() {
            assert_eq!(parse(&whole[..end]).expect("a tail").len(), 2, "cut at {end}");
        }
    }

    #[test]
    fn a_flipped_bit_ends_the_journal_there() {
        let whole = compose(0, &["first", "second"]);
        for bit in 8 * 16..8 * whole.len() {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&damaged).expect("a tail").len() < 2, "bit {bit}");
        }
    }

    #[test]
    fn a_length_that_was_damaged_to_none_ends_the_journal() {
        // Its hash is that of no octets at all.
        let mut damaged = compose(0, &[[5, 0, 0, 0, 0]]);
        assert_eq!(parse(&damaged).expect("whole").len(), 1);
        damaged[16] = 0;
        assert_eq!(parse(&damaged).expect("a tail").len(), 0);
    }

    #[test]
    fn what_was_known_must_be_whole() {
        let whole = compose(2, &["first", "second"]);
        for end in 0..whole.len() {
            assert!(matches!(parse(&whole[..end]), Err(StoreError::Damaged(_))), "cut at {end}");
        }
    }
}
