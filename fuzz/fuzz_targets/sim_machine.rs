//! Any text as a machine file: a machine or one clear error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_sim::Machine;

fuzz_target!(|text: &str| {
    if let Err(error) = Machine::from_toml(text) {
        assert!(!error.to_string().is_empty());
    }
});
