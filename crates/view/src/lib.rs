//! Views of running connections. The records go through [`Window`](sockscope_analysis::Window), and the results are a
//! terminal's picture, text, or lines of JSON.
//!
//! Nothing here reads a clock, a file or a socket, except [`top::Screen`], which draws on a terminal.

pub mod top;
