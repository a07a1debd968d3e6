//! The functions: conversion of words, encryption, and the Internet checksum.

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};

use super::function::{Function, Limits, Needs};

/// Octets of the cipher's key (RFC 8439 §2.3).
pub const CIPHER_KEY_BYTES: usize = 32;
/// Octets that the cipher's library encrypts at a time on wide registers: 16 blocks of 64.
const CIPHER_BLOCK_BYTES: usize = 1_024;
const WORD_BYTES: usize = 4;

/// Words of 32 bits, between the machine's order and that of XDR (RFC 4506 §4.1).
#[derive(Debug, Clone, Copy)]
pub struct Convert;

impl Function for Convert {
    type Key = ();
    const LIMITS: Limits =
        Limits { block_bytes: WORD_BYTES, align_bytes: WORD_BYTES, grain_bytes: WORD_BYTES };
    const NEEDS: Needs = Needs { header_bytes: 0, key_bytes: 0, has_number: false };

    fn begin((): &(), _: u64) -> Self {
        Self
    }

    #[inline]
    fn forward(&mut self, unit: &mut [u8]) {
        for word in unit.as_chunks_mut::<WORD_BYTES>().0 {
            *word = u32::from_ne_bytes(*word).to_be_bytes();
        }
    }

    #[inline]
    fn backward(&mut self, unit: &mut [u8]) {
        for word in unit.as_chunks_mut::<WORD_BYTES>().0 {
            *word = u32::from_be_bytes(*word).to_ne_bytes();
        }
    }

    fn seal(&self, _: &mut [u8], _: usize) {}

    fn is_intact(&self, _: &[u8], _: usize) -> bool {
        true
    }
}

/// ChaCha20 (RFC 8439 §2.4). The nonce is the message's number, so a key serves one direction of one path. It hides
/// the data and does not protect them from changes.
pub struct Encrypt(ChaCha20);

impl Function for Encrypt {
    type Key = [u8; CIPHER_KEY_BYTES];
    const LIMITS: Limits =
        Limits { block_bytes: CIPHER_BLOCK_BYTES, align_bytes: 1, grain_bytes: 1 };
    const NEEDS: Needs = Needs { header_bytes: 0, key_bytes: CIPHER_KEY_BYTES, has_number: true };

    fn begin(key: &Self::Key, number: u64) -> Self {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_le_bytes());
        Self(ChaCha20::new(key.into(), &nonce.into()))
    }

    #[inline]
    fn forward(&mut self, unit: &mut [u8]) {
        self.0.apply_keystream(unit);
    }

    #[inline]
    fn backward(&mut self, unit: &mut [u8]) {
        self.0.apply_keystream(unit);
    }

    fn seal(&self, _: &mut [u8], _: usize) {}

    fn is_intact(&self, _: &[u8], _: usize) -> bool {
        true
    }
}

/// The Internet checksum (RFC 1071) of the data as they leave, and of the headers of the functions above.
#[derive(Debug, Clone, Copy)]
pub struct Sum {
    /// Of each eighth word: sums that do not wait for each other stay in the CPU's wide registers.
    lanes: [u64; LANES],
}

const LANES: usize = 8;

/// The checksum, and two octets of 0 that keep the data at a whole word.
const SUM_HEADER_BYTES: usize = 4;

impl Sum {
    /// Sums in the machine's byte order: the result does not depend on it (RFC 1071 §2(B)).
    #[inline]
    fn add(&mut self, unit: &[u8]) {
        let (words, rest) = unit.as_chunks::<WORD_BYTES>();
        let (groups, words) = words.as_chunks::<LANES>();
        // A copy, which the compiler keeps in registers over the loop.
        let mut lanes = self.lanes;
        for group in groups {
            for (lane, word) in lanes.iter_mut().zip(group) {
                *lane += u64::from(u32::from_ne_bytes(*word));
            }
        }
        self.lanes = lanes;
        // A block is a whole word, so each unit begins at one.
        let mut last = [0; WORD_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        for word in words.iter().chain([&last]) {
            self.lanes[0] += u64::from(u32::from_ne_bytes(*word));
        }
    }

    fn checksum(mut self, above: &[u8]) -> [u8; 2] {
        self.add(above);
        let mut sum: u64 = self.lanes.iter().sum();
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        // The loop left 16 bits.
        (!(sum as u16)).to_ne_bytes()
    }
}

impl Function for Sum {
    type Key = ();
    const LIMITS: Limits =
        Limits { block_bytes: WORD_BYTES, align_bytes: WORD_BYTES, grain_bytes: 1 };
    const NEEDS: Needs = Needs { header_bytes: SUM_HEADER_BYTES, key_bytes: 0, has_number: false };

    fn begin((): &(), _: u64) -> Self {
        Self { lanes: [0; LANES] }
    }

    #[inline]
    fn forward(&mut self, unit: &mut [u8]) {
        self.add(unit);
    }

    #[inline]
    fn backward(&mut self, unit: &mut [u8]) {
        self.add(unit);
    }

    fn seal(&self, header: &mut [u8], at: usize) {
        let (above, own) = header.split_at_mut(at);
        own[..2].copy_from_slice(&self.checksum(above));
        own[2..SUM_HEADER_BYTES].fill(0);
    }

    fn is_intact(&self, header: &[u8], at: usize) -> bool {
        let (above, own) = header.split_at(at);
        own[..2] == self.checksum(above) && own[2..SUM_HEADER_BYTES] == [0; 2]
    }
}
