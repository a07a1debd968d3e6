//! Any text as an experiment, a setting of one, a register of claims and a paper's table: a value or
//! one clear error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_experiment::Experiment;
use sockscope_experiment::papers::{Claims, Table};

fuzz_target!(|text: &str| {
    if let Ok(mut experiment) = Experiment::parse("any.toml", text) {
        assert!(!experiment.cases().expect("looked at when it was read").is_empty());
        for line in text.lines() {
            let _ = experiment.set(line);
        }
    }
    if let Ok(claims) = Claims::parse(text) {
        assert!(claims.of(None).all(|claim| claims.claim(&claim.id).is_some()));
    }
    if let Ok(table) = Table::parse("any.csv", text) {
        assert!(table.rows().iter().all(|row| row.len() == table.columns().len()));
    }
});
