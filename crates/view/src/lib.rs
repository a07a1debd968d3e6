//! Views of connections: the screen of a terminal, and a page in a browser.
//!
//! Nothing here reads a clock, a file or a socket. [`top`] draws running connections into a frame that it is given.
//! [`page`] answers the questions of the page, from a trace or from a [`Window`](sockscope_analysis::Window).

mod alone;
pub mod page;
pub mod top;
