//! What layers cost a remote call on this machine.
//!
//! `cargo run --release -p sockscope-lab --example integrated`

use sockscope_lab::integrated::{Plan, compare, write_text};

fn main() -> std::io::Result<()> {
    write_text(&compare(Plan::default()), &mut std::io::stdout().lock())
}
