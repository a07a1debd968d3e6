//! Encoding of a store's requests and answers in the Requests and Responses of VMTP.
//!
//! A Request's code has the operation in its upper 8 bits and the file's number in the lower 16. Its
//! 12 octets of user data are session, sequence number and page, each 32 bits, big-endian. A
//! Response's 20 are a number (of a session, a file, or the next name), the file's version and its
//! length, of 32, 64 and 64 bits.

use crate::wire::{GROUP_BYTES, code};
use crate::{Outcome, Request};

/// Octets of a page: one packet group.
pub const PAGE_BYTES: usize = GROUP_BYTES;
/// Pages of the longest file: 1 TiB.
pub const PAGES_MAX: u32 = 1 << 26;
/// Octets of the longest name.
const NAME_BYTES_MAX: usize = 1024;
/// Names that begin so are the store's own.
pub(super) const OWN_PREFIX: &str = ".sockscope-store";

/// One request to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreRequest {
    /// The client's session; 0 before it has one.
    pub session: u32,
    /// Number of the change within the session, from 1; a repeated request has the same number. Ignored
    /// when the operation changes nothing.
    pub sequence: u32,
    /// The operation.
    pub operation: Operation,
}

/// The creation rule when a file is opened by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// It must be there.
    Never,
    /// It is made if it is not there.
    IfAbsent,
    /// It must not be there.
    New,
}

/// An operation of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Begins a session.
    Hello,
    /// Gives a file's number, which stays the same for ever.
    Open {
        /// Path below the folder, parts separated by `/`.
        name: String,
        /// Whether to make it.
        creation: Creation,
    },
    /// Reads a page: fewer octets at the end of the file.
    Read {
        /// Number of the file.
        file: u16,
        /// Which page.
        page: u32,
    },
    /// Writes the first octets of a page.
    Write {
        /// Number of the file.
        file: u16,
        /// Which page.
        page: u32,
        /// At most [`PAGE_BYTES`].
        data: Vec<u8>,
        /// Answer when it is durable, and all before it.
        durable: bool,
    },
    /// Cuts a file, or lengthens it by zeros; answered when durable.
    SetLength {
        /// Number of the file.
        file: u16,
        /// Octets from now on.
        length: u64,
    },
    /// Gives version and length.
    Stat {
        /// Number of the file.
        file: u16,
    },
    /// Answers when all that was answered before is durable.
    Sync,
    /// Names of files, one a line, in order of their octets.
    List {
        /// Names to skip: the next number of the answer before.
        from: u32,
    },
}

/// Why something was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A session that this store did not begin, or forgot.
    #[error("the store does not know the session")]
    NoSession,
    /// A number that the session has left behind.
    #[error("the session has gone on")]
    Old,
    /// No file has the number or name.
    #[error("there is no such file")]
    NoFile,
    /// The name is taken.
    #[error("there is such a file")]
    Exists,
    /// Not a path of plain names to a regular file.
    #[error("not a path of plain names to a regular file")]
    BadName,
    /// Not one of these operations, or not its form.
    #[error("not an operation of the store")]
    BadRequest,
    /// The disk, the file or the table of files is full.
    #[error("there is no room")]
    NoRoom,
    /// The system does not allow it, or failed.
    #[error("the store's system refuses")]
    System,
}

const REFUSALS: [Refusal; 8] = [
    Refusal::NoSession,
    Refusal::Old,
    Refusal::NoFile,
    Refusal::Exists,
    Refusal::BadName,
    Refusal::BadRequest,
    Refusal::NoRoom,
    Refusal::System,
];

impl Refusal {
    /// Its code in a Response, from the first one of applications on.
    pub fn code(self) -> u32 {
        let at = REFUSALS.iter().position(|&refusal| refusal == self).unwrap_or(REFUSALS.len());
        // Eight at most.
        code::APPLICATION + 1 + at as u32
    }

    /// The refusal with this code.
    pub fn of_code(code: u32) -> Option<Self> {
        let at = code.checked_sub(code::APPLICATION + 1)?;
        REFUSALS.get(at as usize).copied()
    }
}

/// The answer of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Session, file, or names given so far; 0 when the list is complete.
    pub number: u32,
    /// Changes made to the file, ever.
    pub version: u64,
    /// Octets of the file; only when asked for.
    pub length: u64,
    /// Page or names.
    pub data: Vec<u8>,
}

const HELLO: u32 = 1;
const OPEN: u32 = 2;
const READ: u32 = 3;
const WRITE: u32 = 4;
const WRITE_DURABLE: u32 = 5;
const SET_LENGTH: u32 = 6;
const STAT: u32 = 7;
const SYNC: u32 = 8;
const LIST: u32 = 9;

impl StoreRequest {
    /// As a Request.
    pub fn encode(&self) -> Request {
        let (operation, file, page, segment) = match &self.operation {
            Operation::Hello => (HELLO, 0, 0, Vec::new()),
            Operation::Open { name, creation } => {
                (OPEN, 0, *creation as u32, name.clone().into_bytes())
            }
            Operation::Read { file, page } => (READ, *file, *page, Vec::new()),
            Operation::Write { file, page, data, durable } => {
                (if *durable { WRITE_DURABLE } else { WRITE }, *file, *page, data.clone())
            }
            Operation::SetLength { file, length } => {
                (SET_LENGTH, *file, 0, length.to_be_bytes().to_vec())
            }
            Operation::Stat { file } => (STAT, *file, 0, Vec::new()),
            Operation::Sync => (SYNC, 0, 0, Vec::new()),
            Operation::List { from } => (LIST, 0, *from, Vec::new()),
        };
        let mut user = [0; 12];
        for (at, word) in [self.session, self.sequence, page].into_iter().enumerate() {
            user[4 * at..4 * at + 4].copy_from_slice(&word.to_be_bytes());
        }
        Request { code: operation << 16 | u32::from(file), user, segment }
    }

    /// Of a Request's code, user data and segment.
    ///
    /// # Errors
    ///
    /// When it is no operation, or a name or page is out of bounds.
    pub fn decode(code: u32, user: &[u8; 12], segment: &[u8]) -> Result<Self, Refusal> {
        let word =
            |at: usize| u32::from_be_bytes([user[at], user[at + 1], user[at + 2], user[at + 3]]);
        // The low half.
        let (file, page) = (code as u16, word(8));
        let operation = match code >> 16 {
            HELLO => Operation::Hello,
            OPEN => Operation::Open { name: name(segment)?, creation: creation(page)? },
            READ => Operation::Read { file, page: in_file(page)? },
            WRITE | WRITE_DURABLE if segment.len() <= PAGE_BYTES => Operation::Write {
                file,
                page: in_file(page)?,
                data: segment.to_vec(),
                durable: code >> 16 == WRITE_DURABLE,
            },
            SET_LENGTH => Operation::SetLength { file, length: length(segment)? },
            STAT => Operation::Stat { file },
            SYNC => Operation::Sync,
            LIST => Operation::List { from: page },
            _ => return Err(Refusal::BadRequest),
        };
        Ok(Self { session: word(0), sequence: word(4), operation })
    }
}

impl Operation {
    /// Whether it is numbered and done once.
    pub(super) fn is_change(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Write { .. } | Self::SetLength { .. })
    }
}

fn creation(word: u32) -> Result<Creation, Refusal> {
    let known = [Creation::Never, Creation::IfAbsent, Creation::New];
    known.into_iter().find(|&known| known as u32 == word).ok_or(Refusal::BadRequest)
}

fn in_file(page: u32) -> Result<u32, Refusal> {
    if page < PAGES_MAX { Ok(page) } else { Err(Refusal::NoRoom) }
}

fn length(segment: &[u8]) -> Result<u64, Refusal> {
    let octets: [u8; 8] = segment.try_into().map_err(|_| Refusal::BadRequest)?;
    let length = u64::from_be_bytes(octets);
    let most = u64::from(PAGES_MAX) * PAGE_BYTES as u64;
    if length <= most { Ok(length) } else { Err(Refusal::NoRoom) }
}

/// A path that cannot lead out of the folder by its words; symbolic links are the folder's matter.
pub(super) fn name(octets: &[u8]) -> Result<String, Refusal> {
    let name = std::str::from_utf8(octets).map_err(|_| Refusal::BadName)?;
    let is_plain = |part: &str| {
        !matches!(part, "" | "." | "..") && !part.starts_with(OWN_PREFIX) && part.len() <= 255
    };
    let is_good = name.len() <= NAME_BYTES_MAX
        && name.split('/').all(is_plain)
        && !name.chars().any(char::is_control);
    if is_good { Ok(name.to_owned()) } else { Err(Refusal::BadName) }
}

impl Answer {
    /// As the outcome of a server's transaction.
    pub fn encode(self) -> Outcome {
        let mut user = [0; 20];
        user[..4].copy_from_slice(&self.number.to_be_bytes());
        user[4..12].copy_from_slice(&self.version.to_be_bytes());
        user[12..].copy_from_slice(&self.length.to_be_bytes());
        Outcome { code: code::OK, user, segment: self.data, idempotent: false }
    }

    /// Of a Response's code, user data and segment.
    ///
    /// # Errors
    ///
    /// The refusal of the store; a code that is not one of its own is [`Refusal::BadRequest`].
    pub fn decode(code: u32, user: &[u8; 20], segment: Vec<u8>) -> Result<Self, Refusal> {
        if code != code::OK {
            return Err(Refusal::of_code(code).unwrap_or(Refusal::BadRequest));
        }
        let long = |at: usize| {
            let octets: [u8; 8] = std::array::from_fn(|index| user[at + index]);
            u64::from_be_bytes(octets)
        };
        let number = u32::from_be_bytes([user[0], user[1], user[2], user[3]]);
        Ok(Self { number, version: long(4), length: long(12), data: segment })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for bad in ["", "/", "/etc/passwd", "..", "a/../b", "a//b", "a/", "./a", "a\nb", "a\0"] {
            assert_eq!(name(bad.as_bytes()), Err(Refusal::BadName), "{bad:?}");
        }
        assert_eq!(name(b".sockscope-store.journal"), Err(Refusal::BadName));
        assert_eq!(name(&[0xff]), Err(Refusal::BadName));
        assert_eq!(name("a/b..c/Ü".as_bytes()).as_deref(), Ok("a/b..c/Ü"));
    }

    #[test]
    fn refusals_have_codes_of_their_own() {
        for refusal in REFUSALS {
            assert_eq!(Refusal::of_code(refusal.code()), Some(refusal));
        }
        assert_eq!(Refusal::of_code(code::OK), None);
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let data = prop::collection::vec(any::<u8>(), 0..100);
        let creation =
            prop_oneof![Just(Creation::Never), Just(Creation::IfAbsent), Just(Creation::New)];
        prop_oneof![
            Just(Operation::Hello),
            Just(Operation::Sync),
            any::<u32>().prop_map(|from| Operation::List { from }),
            any::<u16>().prop_map(|file| Operation::Stat { file }),
            ("[a-z]{1,9}", creation)
                .prop_map(|(name, creation)| Operation::Open { name, creation }),
            (any::<u16>(), 0..PAGES_MAX).prop_map(|(file, page)| Operation::Read { file, page }),
            (any::<u16>(), 0u64..1 << 40)
                .prop_map(|(file, length)| Operation::SetLength { file, length }),
            (any::<u16>(), 0..PAGES_MAX, data, any::<bool>()).prop_map(
                |(file, page, data, durable)| Operation::Write { file, page, data, durable }
            ),
        ]
    }

    proptest! {
        #[test]
        fn requests_come_back(session: u32, sequence: u32, operation in operation()) {
            let request = StoreRequest { session, sequence, operation };
            let encoded = request.encode();
            let decoded = StoreRequest::decode(encoded.code, &encoded.user, &encoded.segment);
            prop_assert_eq!(decoded, Ok(request));
        }

        #[test]
        fn answers_come_back(number: u32, version: u64, length: u64) {
            let answer = Answer { number, version, length, data: vec![1, 2] };
            let outcome = answer.clone().encode();
            prop_assert_eq!(Answer::decode(outcome.code, &outcome.user, outcome.segment), Ok(answer));
        }
    }
}
