//! What a small and a large call cost over each protocol of this machine.
//!
//! `cargo run --release -p sockscope-live --example protocols`

use sockscope_live::protocols::{Plan, compare, write_text};

fn main() -> std::io::Result<()> {
    let plan = Plan {
        message_bytes: vec![64, 16 << 10, 1 << 20],
        clients: vec![1, 16],
        clients_bytes: Vec::new(),
        ..Plan::default()
    };
    let comparison = compare(plan, &|case| eprintln!("{case}"));
    write_text(&comparison, &mut std::io::stdout().lock())
}
