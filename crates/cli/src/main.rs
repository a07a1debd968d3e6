//! The program `sockscope`.
fn main() {}
