//! The path: one loop over the data, from the application's memory to a packet and back.

use std::fmt;
use std::marker::PhantomData;

use super::function::Function;

/// A unit that no message is longer than: each function goes over the whole message by itself.
pub const WHOLE: usize = 1 << 40;
/// The number of a message, where a function needs one.
const NUMBER_BYTES: usize = 8;

/// A message or a network that does not fit the limits of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// The network's packets have no room for the header and one grain of data.
    #[error("packets of {packet_bytes} bytes: the functions need {least}")]
    Packet {
        /// Octets of a packet.
        packet_bytes: usize,
        /// Octets of the shortest packet with data.
        least: usize,
    },
    /// The message is longer than a packet's room.
    #[error("a message of {bytes} bytes: the path carries {most}")]
    TooLong {
        /// Octets of the message.
        bytes: usize,
        /// Octets of the longest one.
        most: usize,
    },
    /// The length of the message is no multiple.
    #[error("a message of {bytes} bytes: its length must be a multiple of {grain_bytes}")]
    Grain {
        /// Octets of the message.
        bytes: usize,
        /// The unit of the length.
        grain_bytes: usize,
    },
}

/// A packet arrived that this path did not send, as far as its functions tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a packet arrived damaged")]
pub struct Damage;

/// One direction of a path, at either end. `UNIT` is the number of octets that pass all functions before the next ones
/// do: a multiple of the functions' block. Another unit does not compile:
///
/// ```compile_fail
/// use sockscope_live::composed::{CIPHER_KEY_BYTES, Encrypt, Path};
/// let path = Path::<Encrypt, 64>::new([0; CIPHER_KEY_BYTES], 1_500);
/// ```
pub struct Path<F: Function, const UNIT: usize> {
    key: F::Key,
    next: u64,
    data_bytes_max: usize,
    functions: PhantomData<F>,
}

impl<F: Function, const UNIT: usize> Path<F, UNIT> {
    const UNIT_IS_WHOLE_BLOCKS: () =
        assert!(UNIT > 0 && UNIT.is_multiple_of(F::LIMITS.block_bytes), "a multiple of the block");
    const NUMBER_BYTES: usize = if F::NEEDS.has_number { NUMBER_BYTES } else { 0 };
    /// Octets before the data, up to their alignment.
    const DATA_AT: usize =
        (Self::NUMBER_BYTES + F::NEEDS.header_bytes).next_multiple_of(F::LIMITS.align_bytes);

    /// A path whose packets have at most `packet_bytes`.
    ///
    /// # Errors
    ///
    /// When packets have no room for the functions' needs.
    pub fn new(key: F::Key, packet_bytes: usize) -> Result<Self, LimitError> {
        let () = Self::UNIT_IS_WHOLE_BLOCKS;
        let grain_bytes = F::LIMITS.grain_bytes;
        let least = Self::DATA_AT + grain_bytes;
        if packet_bytes < least {
            return Err(LimitError::Packet { packet_bytes, least });
        }
        let data_bytes_max = (packet_bytes - Self::DATA_AT) / grain_bytes * grain_bytes;
        Ok(Self { key, next: 0, data_bytes_max, functions: PhantomData })
    }

    /// Octets of the longest message.
    pub fn data_bytes_max(&self) -> usize {
        self.data_bytes_max
    }

    /// Octets of the packet of a message.
    pub fn packet_bytes(data_bytes: usize) -> usize {
        Self::DATA_AT + data_bytes
    }

    /// Makes the packet of a message in `packet`; its length. `packet` has room for [`Path::packet_bytes`].
    ///
    /// # Errors
    ///
    /// When the message is outside the limits.
    pub fn send(&mut self, data: &[u8], packet: &mut [u8]) -> Result<usize, LimitError> {
        let (bytes, grain_bytes) = (data.len(), F::LIMITS.grain_bytes);
        let room = packet.len().saturating_sub(Self::DATA_AT);
        let most = self.data_bytes_max.min(room);
        if bytes > most {
            return Err(LimitError::TooLong { bytes, most });
        }
        if !bytes.is_multiple_of(grain_bytes) {
            return Err(LimitError::Grain { bytes, grain_bytes });
        }
        let number = self.next;
        self.next += 1;
        let (header, body) = packet[..Self::DATA_AT + bytes].split_at_mut(Self::DATA_AT);
        header.fill(0);
        if F::NEEDS.has_number {
            header[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
        }
        let mut functions = F::begin(&self.key, number);
        each_unit::<UNIT>(body, data, |unit| functions.forward(unit));
        functions.seal(header, Self::NUMBER_BYTES);
        Ok(Self::DATA_AT + bytes)
    }

    /// Takes the message out of a packet; its length. `data` has room for [`Path::data_bytes_max`].
    ///
    /// # Errors
    ///
    /// When the packet is damaged; the content of `data` is then of no use.
    pub fn receive(&self, packet: &[u8], data: &mut [u8]) -> Result<usize, Damage> {
        let (header, body) = packet.split_at_checked(Self::DATA_AT).ok_or(Damage)?;
        let data = data.get_mut(..body.len()).ok_or(Damage)?;
        if body.len() > self.data_bytes_max || !body.len().is_multiple_of(F::LIMITS.grain_bytes) {
            return Err(Damage);
        }
        let number = match header.first_chunk() {
            Some(number) if F::NEEDS.has_number => u64::from_le_bytes(*number),
            _ => 0,
        };
        let mut functions = F::begin(&self.key, number);
        each_unit::<UNIT>(data, body, |unit| functions.backward(unit));
        if functions.is_intact(header, Self::NUMBER_BYTES) { Ok(data.len()) } else { Err(Damage) }
    }
}

/// Without the key.
impl<F: Function, const UNIT: usize> fmt::Debug for Path<F, UNIT> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Path");
        fields.field("next", &self.next).field("data_bytes_max", &self.data_bytes_max);
        fields.finish_non_exhaustive()
    }
}

/// Copies `from` to `to`, both of the same length, and works on each unit right after its copy.
#[inline]
fn each_unit<const UNIT: usize>(to: &mut [u8], from: &[u8], mut work: impl FnMut(&mut [u8])) {
    let mut units = to.chunks_exact_mut(UNIT);
    let sources = from.chunks_exact(UNIT);
    let rest = sources.remainder();
    for (unit, source) in (&mut units).zip(sources) {
        unit.copy_from_slice(source);
        work(unit);
    }
    let last = units.into_remainder();
    last.copy_from_slice(rest);
    work(last);
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20;
    use chacha20::cipher::{KeyIvInit, StreamCipher};
    use proptest::prelude::*;

    use super::super::function::Chain;
    use super::super::functions::{CIPHER_KEY_BYTES, Convert, Encrypt, Sum};
    use super::*;

    type All = Chain<Convert, Chain<Encrypt, Sum>>;
    const KEY: [u8; CIPHER_KEY_BYTES] = [7; CIPHER_KEY_BYTES];

    fn convert(data: &mut [u8]) {
        data.chunks_mut(4).for_each(<[u8]>::reverse);
    }

    fn encrypt(number: u64, data: &mut [u8]) {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_le_bytes());
        ChaCha20::new(&KEY.into(), &nonce.into()).apply_keystream(data);
    }

    /// RFC 1071 §4.1, a word of two octets after the other.
    fn checksum(octets: &[u8]) -> [u8; 2] {
        let mut sum = 0_u32;
        for word in octets.chunks(2) {
            sum += u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low));
            sum = (sum >> 16) + (sum & 0xffff);
        }
        (!(sum as u16)).to_be_bytes()
    }

    fn send<F: Function, const UNIT: usize>(key: F::Key, data: &[u8]) -> Vec<u8> {
        let mut path = Path::<F, UNIT>::new(key, 1 << 16).unwrap();
        let mut packet = vec![0; 1 << 16];
        // The second message, so that its number is 1.
        path.send(&[], &mut packet).unwrap();
        let bytes = path.send(data, &mut packet).unwrap();
        packet.truncate(bytes);
        packet
    }

    /// Both forms make this packet, and each takes the data out of it.
    fn check<F: Function, const UNIT: usize>(key: F::Key, data: &[u8], expected: &[u8]) {
        assert_eq!(send::<F, UNIT>(key.clone(), data), expected, "in one loop");
        assert_eq!(send::<F, WHOLE>(key.clone(), data), expected, "one after the other");
        let mut received = vec![0; 1 << 16];
        let path = Path::<F, UNIT>::new(key.clone(), 1 << 16).unwrap();
        assert_eq!(path.receive(expected, &mut received), Ok(data.len()));
        assert_eq!(received[..data.len()], *data);
        received.fill(0);
        let path = Path::<F, WHOLE>::new(key, 1 << 16).unwrap();
        assert_eq!(path.receive(expected, &mut received), Ok(data.len()));
        assert_eq!(received[..data.len()], *data);
    }

    #[cfg(target_endian = "little")]
    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_composition_is_the_sequence_of_its_functions(
            words in prop::collection::vec(any::<[u8; 4]>(), 0..600),
        ) {
            let data = words.concat();
            let (number, no_key) = (1_u64.to_le_bytes(), ());
            let (mut converted, mut encrypted) = (data.clone(), data.clone());
            convert(&mut converted);
            encrypt(1, &mut encrypted);
            let mut both = converted.clone();
            encrypt(1, &mut both);
            let summed = |numbered: &[u8], body: &[u8]| {
                let sum = checksum(&[numbered, body].concat());
                [numbered, &sum, &[0, 0], body].concat()
            };
            check::<Convert, 64>(no_key, &data, &converted);
            check::<Sum, 64>(no_key, &data, &summed(&[], &data));
            check::<Encrypt, 1024>(KEY, &data, &[&number[..], &encrypted].concat());
            check::<Chain<Convert, Sum>, 64>((no_key, no_key), &data, &summed(&[], &converted));
            check::<Chain<Encrypt, Sum>, 1024>((KEY, no_key), &data, &summed(&number, &encrypted));
            check::<Chain<Convert, Encrypt>, 1024>((no_key, KEY), &data, &[&number[..], &both].concat());
            check::<All, 1024>((no_key, (KEY, no_key)), &data, &summed(&number, &both));
        }

        #[test]
        fn any_packet_is_judged_without_panic(packet in prop::collection::vec(any::<u8>(), 0..200)) {
            let path = Path::<All, 1024>::new(((), (KEY, ())), 128).unwrap();
            let received = path.receive(&packet, &mut [0; 128]);
            prop_assert!(received.is_err() || packet.len() <= 128);
        }

        #[test]
        fn a_flipped_bit_is_noticed_by_the_sum(at in any::<prop::sample::Index>(), bit in 0_u8..8) {
            let mut packet = send::<All, 1024>(((), (KEY, ())), &[5; 1_100]);
            let at = at.index(packet.len());
            packet[at] ^= 1 << bit;
            let path = Path::<All, 1024>::new(((), (KEY, ())), 1 << 16).unwrap();
            prop_assert_eq!(path.receive(&packet, &mut [0; 2_000]), Err(Damage));
        }
    }

    #[test]
    fn limits_go_up_and_needs_go_down() {
        let path = Path::<All, 1024>::new(((), (KEY, ())), 1_003).unwrap();
        // The number and the checksum need 12 octets, and the data are whole words.
        assert_eq!(path.data_bytes_max(), 988);
        assert_eq!(
            All::NEEDS,
            super::super::function::Needs { header_bytes: 4, key_bytes: 32, has_number: true }
        );
        assert_eq!(All::LIMITS.block_bytes, 1024);
        assert_eq!(Path::<Convert, 64>::packet_bytes(100), 100);
    }

    #[test]
    fn lengths_outside_the_limits_are_errors() {
        let refused = Path::<All, 1024>::new(((), (KEY, ())), 15).unwrap_err();
        assert_eq!(refused, LimitError::Packet { packet_bytes: 15, least: 16 });
        let mut path = Path::<All, 1024>::new(((), (KEY, ())), 100).unwrap();
        let mut packet = [0; 100];
        let refused = path.send(&[0; 92], &mut packet).unwrap_err();
        assert_eq!(refused, LimitError::TooLong { bytes: 92, most: 88 });
        let refused = path.send(&[0; 7], &mut packet).unwrap_err();
        assert_eq!(refused.to_string(), "a message of 7 bytes: its length must be a multiple of 4");
        assert_eq!(
            path.send(&[0; 8], &mut packet[..19]),
            Err(LimitError::TooLong { bytes: 8, most: 7 })
        );
    }
}
