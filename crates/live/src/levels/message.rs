//! A message with its number and planned time, and content by which a receiver verifies it.

/// Octets of the number and of the planned time, which begin a message.
pub(super) const MESSAGE_BYTES_MIN: usize = 16;

/// A message that arrived whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub number: u64,
    pub planned_ns: u64,
}

/// Fills a message of this length.
pub(super) fn write(message: &mut [u8], stamp: Stamp) {
    let (head, content) = message.split_at_mut(MESSAGE_BYTES_MIN);
    head[..8].copy_from_slice(&stamp.number.to_le_bytes());
    head[8..].copy_from_slice(&stamp.planned_ns.to_le_bytes());
    let octets = content.iter_mut().enumerate();
    octets.for_each(|(at, octet)| *octet = content_at(stamp.number, at));
}

/// The stamp of a message; `None` when its length or content is not that of the message with its number.
pub(super) fn read(message: &[u8], bytes: usize) -> Option<Stamp> {
    let word = |at: usize| Some(u64::from_le_bytes(message.get(at..at + 8)?.try_into().ok()?));
    let stamp = Stamp { number: word(0)?, planned_ns: word(8)? };
    let mut content = message[MESSAGE_BYTES_MIN..].iter().enumerate();
    let is_whole = content.all(|(at, octet)| *octet == content_at(stamp.number, at));
    (message.len() == bytes && is_whole).then_some(stamp)
}

fn content_at(number: u64, at: usize) -> u8 {
    (number as usize).wrapping_mul(31).wrapping_add(at) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_and_other_content_is_refused() {
        let stamp = Stamp { number: 300, planned_ns: 7 };
        let mut message = vec![0; 40];
        write(&mut message, stamp);
        assert_eq!(read(&message, 40), Some(stamp));
        assert_eq!(read(&message[..39], 40), None);
        message[0] ^= 1;
        assert_eq!(read(&message, 40), None, "content of another number");
        assert_eq!(read(&message[..9], 9), None);
    }
}
