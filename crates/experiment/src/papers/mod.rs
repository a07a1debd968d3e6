//! What the papers say: claims, tables and wire traces, built in from `papers/`.

mod claim;
mod evidence;
mod files;
mod table;
mod wire;

pub use claim::{Claim, ClaimKind, Claims, Live, Role, Where};
pub use evidence::{Evidence, EvidenceKind, EvidenceList};
pub use files::{PAPERS, table, wire_trace};
pub use table::Table;
pub use wire::{WireFlags, WireRow};
