//! The sizes that a picture can have.

use std::ops::RangeInclusive;

/// Widths and heights that a picture can have, pixels.
pub const SIZES_PX: RangeInclusive<u32> = 320..=8192;

/// A width or height outside [`SIZES_PX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a figure is {} to {} pixels wide and tall, not {size_px}", SIZES_PX.start(), SIZES_PX.end())]
pub struct SizeError {
    /// The size asked for, pixels.
    pub size_px: u32,
}

/// Fails when `width` or `height` is outside [`SIZES_PX`].
///
/// # Errors
///
/// [`SizeError`] with the width, if both are.
pub fn check_size(width: u32, height: u32) -> Result<(), SizeError> {
    let wrong = [width, height].into_iter().find(|size_px| !SIZES_PX.contains(size_px));
    wrong.map_or(Ok(()), |size_px| Err(SizeError { size_px }))
}
