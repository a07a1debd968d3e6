//! Charts, numbers for people, text styles: the look of results of any kind.
//!
//! Everything here is a pure function of its arguments: no clock, no file, no environment is read, and
//! the same input gives the same bytes out. Values are in base units (nanoseconds, bytes), pictures in
//! pixels. A [`chart`] of many runs is drawn here whole; figures of one connection are put together
//! from the same [`page`], [`scale`], [`svg`] and [`theme`] by crates that know connections.

pub mod chart;
pub mod columns;
pub mod components;
pub mod histogram;
pub mod number;
pub mod page;
pub mod scale;
pub mod size;
pub mod style;
pub mod svg;
pub mod theme;
pub mod timeline;
pub mod units;
pub mod wall_clock;
