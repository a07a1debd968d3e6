//! The combinations of functions that are compared, each composed at compile time.

use super::function::{Chain, Function};
use super::functions::{CIPHER_KEY_BYTES, Convert, Encrypt, Sum};
use super::path::{Damage, LimitError, Path, WHOLE};

/// For functions on words. With 64 octets the compiler begins each sum anew, with 1,024 data leave the registers.
const WORDS: usize = 256;
/// For a path with the cipher: its block.
const CIPHER: usize = 1_024;
/// Both ends know it.
const KEY: [u8; CIPHER_KEY_BYTES] = *b"a key of thirty-two octets, here";

/// Functions of a path, from the application down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combination {
    /// Checksum alone.
    Sum,
    /// Conversion alone.
    Convert,
    /// Encryption alone.
    Encrypt,
    /// Conversion, checksum.
    ConvertSum,
    /// Encryption, checksum.
    EncryptSum,
    /// Conversion, encryption.
    ConvertEncrypt,
    /// All three.
    All,
}

/// The two forms of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Each function goes over the whole message.
    Separate,
    /// All functions in one loop.
    Integrated,
}

/// A path of any functions; both ends use one each.
pub(super) trait End: Send {
    fn send(&mut self, data: &[u8], packet: &mut [u8]) -> Result<usize, LimitError>;
    fn receive(&self, packet: &[u8], data: &mut [u8]) -> Result<usize, Damage>;
    fn packet_bytes(&self, data_bytes: usize) -> usize;
}

impl<F: Function, const UNIT: usize> End for Path<F, UNIT>
where
    F: Send,
    F::Key: Send,
{
    fn send(&mut self, data: &[u8], packet: &mut [u8]) -> Result<usize, LimitError> {
        Path::send(self, data, packet)
    }

    fn receive(&self, packet: &[u8], data: &mut [u8]) -> Result<usize, Damage> {
        Path::receive(self, packet, data)
    }

    fn packet_bytes(&self, data_bytes: usize) -> usize {
        Self::packet_bytes(data_bytes)
    }
}

impl Combination {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Sum,
        Self::Convert,
        Self::Encrypt,
        Self::ConvertSum,
        Self::EncryptSum,
        Self::ConvertEncrypt,
        Self::All,
    ];

    /// The functions, as tables and the command line have them.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Convert => "convert",
            Self::Encrypt => "encrypt",
            Self::ConvertSum => "convert+sum",
            Self::EncryptSum => "encrypt+sum",
            Self::ConvertEncrypt => "convert+encrypt",
            Self::All => "convert+encrypt+sum",
        }
    }

    /// One end of a path with these functions.
    pub(super) fn end(self, form: Form, packet_bytes: usize) -> Result<Box<dyn End>, LimitError> {
        match self {
            Self::Sum => end::<Sum, WORDS>((), form, packet_bytes),
            Self::Convert => end::<Convert, WORDS>((), form, packet_bytes),
            Self::Encrypt => end::<Encrypt, CIPHER>(KEY, form, packet_bytes),
            Self::ConvertSum => end::<Chain<Convert, Sum>, WORDS>(((), ()), form, packet_bytes),
            Self::EncryptSum => end::<Chain<Encrypt, Sum>, CIPHER>((KEY, ()), form, packet_bytes),
            Self::ConvertEncrypt => {
                end::<Chain<Convert, Encrypt>, CIPHER>(((), KEY), form, packet_bytes)
            }
            Self::All => {
                let key = ((), (KEY, ()));
                end::<Chain<Convert, Chain<Encrypt, Sum>>, CIPHER>(key, form, packet_bytes)
            }
        }
    }
}

fn end<F, const UNIT: usize>(
    key: F::Key,
    form: Form,
    packet_bytes: usize,
) -> Result<Box<dyn End>, LimitError>
where
    F: Function + Send + 'static,
    F::Key: Send + 'static,
{
    Ok(match form {
        Form::Separate => Box::new(Path::<F, WHOLE>::new(key, packet_bytes)?),
        Form::Integrated => Box::new(Path::<F, UNIT>::new(key, packet_bytes)?),
    })
}
