//! The address of a name, for a caller.
//!
//! It is separate from the address itself, which errors show: an error knows addresses, and no
//! address knows it.

use crate::address::Address;
use crate::error::Error;

impl Address {
    /// The address `name` of the calling user.
    ///
    /// # Errors
    /// `BadSetting` when the name is empty or has more than [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX)
    /// bytes.
    pub fn new(name: &str) -> Result<Self, Error> {
        Self::of_user(rustix::process::geteuid().as_raw(), name)
    }

    /// The address `name` of the user `uid`.
    ///
    /// # Errors
    /// As [`Address::new`].
    pub fn of_user(uid: u32, name: &str) -> Result<Self, Error> {
        Self::checked(uid, name).map_err(Error::setting)
    }
}
