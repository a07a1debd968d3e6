//! The secret in the page's address, without which the server answers nothing.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;

use sockscope_program::failure::Failure;
use subtle::ConstantTimeEq;

/// 128 bits from the kernel, as hexadecimal digits.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A new one.
    ///
    /// # Errors
    ///
    /// When the kernel gives no random numbers.
    pub fn new() -> Result<Self, Failure> {
        let mut bytes = [0u8; 16];
        File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut bytes))
            .map_err(|error| Failure::new(format!("cannot read /dev/urandom: {error}")))?;
        let mut digits = String::with_capacity(32);
        for byte in bytes {
            // Writing to a string does not fail.
            let _ = write!(digits, "{byte:02x}");
        }
        Ok(Self(digits))
    }

    /// Whether this is it. The time of the comparison does not depend on the place of a wrong digit.
    pub fn is(&self, given: &str) -> bool {
        bool::from(self.0.as_bytes().ct_eq(given.as_bytes()))
    }

    /// Its digits.
    pub fn digits(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_128_bits_and_only_it_is_it() {
        let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
        assert_eq!(one.digits().len(), 32);
        assert!(one.is(one.digits()) && !one.is(other.digits()));
        assert!(
            !one.is("") && !one.is(&one.digits()[..31]) && !one.is(&format!("{}0", one.digits()))
        );
    }
}
