//! A function over data, and two of them as one.

/// The limits of a function, which go up to the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Octets that it takes at a time; only the last block of a message may be shorter.
    pub block_bytes: usize,
    /// The data begin at a multiple of so many octets in a packet.
    pub align_bytes: usize,
    /// The length of a message is a multiple of so many octets.
    pub grain_bytes: usize,
}

/// The needs of a function, which go down to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Octets in the header.
    pub header_bytes: usize,
    /// Octets of its key.
    pub key_bytes: usize,
    /// A number that no other message of the path has.
    pub has_number: bool,
}

/// A function over data. One value is its state during one message.
pub trait Function: Sized {
    /// Its key; `()` without one.
    type Key: Clone;
    /// Its limits.
    const LIMITS: Limits;
    /// Its needs.
    const NEEDS: Needs;

    /// Begins the message with this number.
    fn begin(key: &Self::Key, number: u64) -> Self;

    /// The sender's work on a unit of data: a multiple of the block, or the end of the message.
    fn forward(&mut self, unit: &mut [u8]);

    /// The receiver's work, which gives back the sender's data.
    fn backward(&mut self, unit: &mut [u8]);

    /// Writes its own octets of the header, which begin at `at`. Those before are the headers of the functions above.
    fn seal(&self, header: &mut [u8], at: usize);

    /// Whether a received message is the one that was sealed, as far as this function tells.
    fn is_intact(&self, header: &[u8], at: usize) -> bool;
}

/// Two functions as one: `A` is above `B`, so the sender applies it first.
#[derive(Debug)]
pub struct Chain<A, B>(A, B);

impl<A: Function, B: Function> Function for Chain<A, B> {
    type Key = (A::Key, B::Key);
    const LIMITS: Limits = Limits {
        block_bytes: common_multiple(A::LIMITS.block_bytes, B::LIMITS.block_bytes),
        align_bytes: common_multiple(A::LIMITS.align_bytes, B::LIMITS.align_bytes),
        grain_bytes: common_multiple(A::LIMITS.grain_bytes, B::LIMITS.grain_bytes),
    };
    const NEEDS: Needs = Needs {
        header_bytes: A::NEEDS.header_bytes + B::NEEDS.header_bytes,
        key_bytes: A::NEEDS.key_bytes + B::NEEDS.key_bytes,
        has_number: A::NEEDS.has_number || B::NEEDS.has_number,
    };

    fn begin(key: &Self::Key, number: u64) -> Self {
        Self(A::begin(&key.0, number), B::begin(&key.1, number))
    }

    #[inline]
    fn forward(&mut self, unit: &mut [u8]) {
        self.0.forward(unit);
        self.1.forward(unit);
    }

    #[inline]
    fn backward(&mut self, unit: &mut [u8]) {
        self.1.backward(unit);
        self.0.backward(unit);
    }

    fn seal(&self, header: &mut [u8], at: usize) {
        self.0.seal(header, at);
        self.1.seal(header, at + A::NEEDS.header_bytes);
    }

    fn is_intact(&self, header: &[u8], at: usize) -> bool {
        self.1.is_intact(header, at + A::NEEDS.header_bytes) && self.0.is_intact(header, at)
    }
}

/// The least common multiple; both are 1 at least.
const fn common_multiple(one: usize, other: usize) -> usize {
    let (mut divisor, mut rest) = (one, other);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    one / divisor * other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_multiple_is_the_least() {
        let found = [(1, 1), (4, 8), (6, 4), (64, 1024), (3, 5)];
        assert_eq!(found.map(|(one, other)| common_multiple(one, other)), [1, 8, 12, 1024, 15]);
    }
}
