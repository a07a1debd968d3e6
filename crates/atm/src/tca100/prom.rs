//! The ID PROM, as the TURBOchannel specification lays it out for every card: one byte in each
//! word, a test pattern, and names that a kernel looks a driver up by. FORE's names are not known;
//! these are ours.

/// Byte offset of the width of the PROM in bytes.
const WIDTH: u32 = 0x3e0;

/// Byte offset of the distance between its bytes.
const STRIDE: u32 = 0x3e4;

/// Byte offset of its size in units of 8 KB.
const SIZE: u32 = 0x3e8;

/// Byte offset of four bytes by which a kernel knows that a card is there.
const PATTERN: u32 = 0x3f0;

/// Byte offset of three names of eight bytes each: firmware, vendor, module.
const NAMES: u32 = 0x400;

/// The byte at `offset` of the region; 0 where nothing is laid down.
pub(super) fn byte(offset: u32) -> u8 {
    let offset = offset & !3;
    match offset {
        WIDTH => 1,
        STRIDE => 4,
        SIZE => 1,
        PATTERN..NAMES => [0x55, 0x00, 0xaa, 0xff][((offset - PATTERN) / 4) as usize],
        _ => {
            let names = b"MODEL   FORE    TCA-100 ";
            let at = offset.checked_sub(NAMES).map(|bytes| bytes as usize / 4);
            at.and_then(|at| names.get(at)).copied().unwrap_or(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(offset: u32) -> String {
        (0..8).map(|at| char::from(byte(offset + 4 * at))).collect()
    }

    #[test]
    fn a_kernel_finds_pattern_and_names() {
        assert_eq!([0, 1, 2, 3].map(|at| byte(PATTERN + 4 * at)), [0x55, 0x00, 0xaa, 0xff]);
        assert_eq!((text(0x420), text(0x440)), ("FORE    ".into(), "TCA-100 ".into()));
        assert_eq!((byte(0), byte(0x460)), (0, 0));
    }
}
