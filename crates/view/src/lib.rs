//! Views of running connections. The records go through [`Window`](sockscope_analysis::Window), and the results are a
//! terminal's picture, text, or lines of JSON.
//!
//! Nothing here reads a clock, a file or a socket; [`top::draw`] draws into a frame that it is given.

pub mod top;
