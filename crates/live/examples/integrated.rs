//! What layers cost a remote call on this machine.
//!
//! `cargo run --release -p sockscope-live --example integrated`

use sockscope_live::integrated::{Plan, compare, write_text};

fn main() -> std::io::Result<()> {
    write_text(&compare(Plan::default()), &mut std::io::stdout().lock())
}
