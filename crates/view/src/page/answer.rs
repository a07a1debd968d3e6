//! An answer to the page, or the reason why it has no answer.

use serde::Serialize;

/// The body of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// JSON.
    Json(Vec<u8>),
    /// 64-bit floats, little-endian.
    Floats(Vec<u8>),
}

/// Why a question has no answer, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The question makes no sense.
    #[error("{0}")]
    Wrong(String),
    /// It names something that the trace does not have.
    #[error("{0}")]
    Absent(String),
}

impl Answer {
    /// A value as JSON.
    pub(super) fn json(value: &impl Serialize) -> Self {
        // Views have string keys and no failing `Serialize`, and a vector takes all bytes.
        Self::Json(serde_json::to_vec(value).unwrap_or_default())
    }

    /// Arrays one after the other.
    pub(super) fn floats(arrays: &[&[f64]]) -> Self {
        let count: usize = arrays.iter().map(|array| array.len()).sum();
        let mut bytes = Vec::with_capacity(count * 8);
        for value in arrays.iter().copied().flatten() {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        Self::Floats(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        let (Self::Json(bytes) | Self::Floats(bytes)) = self;
        bytes
    }
}
