//! `sockscope top`: connections that wait now.

mod app;
mod board;
mod details;
mod filter;
mod json;
mod line;
mod picture;
mod row;
mod screen;
#[cfg(test)]
mod testing;
mod text;

pub use app::{App, Key, Page, Reaction, Sort};
pub use board::Board;
pub use filter::{Filter, FilterError};
pub use json::write_json;
pub use picture::picture;
pub use row::{Row, RowFinding};
pub use screen::{Facts, draw};
pub use text::write_text;
