//! Names under which ends of channels are found.
//!
//! A name lives in the kernel's abstract namespace of Unix sockets (unix(7)): it belongs to a network
//! namespace, has no file, and vanishes with the process that holds it, however that ends.

use std::fmt;

/// The prefix of all names; the user's id and a slash follow.
const PREFIX: &str = "sockscope.channel/";

/// Longest name: the rest of `sun_path` (unix(7): 108 bytes) after the prefix and a user id.
pub const NAME_BYTES_MAX: usize = 64;

/// The address of one end of a channel: a name within a user.
///
/// Two users may use the same name without meeting. Any user may take any abstract name, so set-up
/// asks the kernel for the user that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    uid: u32,
    name: String,
}

impl Address {
    /// The address `name` of the user `uid`. An error is the expected form.
    pub(crate) fn checked(uid: u32, name: &str) -> Result<Self, &'static str> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err("a name of 1 to 64 bytes");
        }
        Ok(Self { uid, name: name.to_owned() })
    }

    /// The name within the user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose address it is.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The name as the kernel knows it.
    pub(crate) fn abstract_name(&self) -> Vec<u8> {
        format!("{PREFIX}{}/{}", self.uid, self.name).into_bytes()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_fits_into_a_socket_address() {
        let name = "n".repeat(NAME_BYTES_MAX);
        let address = Address::checked(u32::MAX, &name).unwrap();
        // One byte of the 108 is the zero that marks an abstract name.
        assert!(address.abstract_name().len() < 108);
        let expected = format!("a name of 1 to {NAME_BYTES_MAX} bytes");
        assert_eq!(Address::checked(0, &format!("{name}n")).unwrap_err(), expected);
        assert_eq!(Address::checked(0, "").unwrap_err(), expected);
    }

    #[test]
    fn users_do_not_share_names() {
        let [one, two] = [1, 2].map(|uid| Address::checked(uid, "a").unwrap());
        assert_ne!(one.abstract_name(), two.abstract_name());
    }
}
