//! Any bytes as a capture file, damaged or not.
//! Seeds: a file of each format and link type, made by the tests of `convert`.

#![no_main]

#[path = "../capture.rs"]
mod capture;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| capture::check(file));
