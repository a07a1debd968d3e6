//! Fields as octets, by the encoding of protocol buffers, for the messages of which a trace has millions.

/// A number of variable length.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A field that is a number.
pub(super) fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field << 3));
    varint(out, value);
}

/// A field that is a number of 64 bits.
pub(super) fn fixed(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field << 3 | 1));
    out.extend_from_slice(&value.to_le_bytes());
}

/// The head of a field of so many octets.
pub(super) fn head(out: &mut Vec<u8>, field: u32, len: usize) {
    varint(out, u64::from(field << 3 | 2));
    varint(out, len as u64);
}

/// A field that is a text or a message.
pub(super) fn octets(out: &mut Vec<u8>, field: u32, octets: &[u8]) {
    head(out, field, octets.len());
    out.extend_from_slice(octets);
}
