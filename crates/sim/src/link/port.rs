//! Where a link ends at a host.

/// One interface of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Port {
    pub(crate) host: u16,
    pub(crate) interface: u8,
}
