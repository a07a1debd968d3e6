//! Makes a release build of the program smaller: the linker keeps one copy of functions, tables and constants that are
//! equal.
//!
//! LLD can do this, which is the linker of Rust 1.90 and later for x86-64. GNU ld cannot. The build therefore links an
//! empty program first, and leaves the options out where that fails.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, io};

/// The second option is for constants and for the tables of unwinding, which are most of the gain. Both need a program
/// that does not tell functions or constants apart by their addresses:
/// `docs/decisions/2026-11-28-one-copy-of-equal-code.md`.
const OPTIONS: [&str; 2] = ["-Wl,--icf=all", "-Wl,--ignore-data-address-equality"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let release = env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    if release && links_with(&OPTIONS).unwrap_or(false) {
        for option in OPTIONS {
            println!("cargo:rustc-link-arg-bin=sockscope={option}");
        }
    }
}

/// Whether a program links with `options`, by the compiler, target, linker and flags of this build.
fn links_with(options: &[&str]) -> io::Result<bool> {
    let variable = |name| env::var(name).map_err(io::Error::other);
    let mut rustc = Command::new(variable("RUSTC")?);
    rustc.args(["--crate-name", "empty", "--target", &variable("TARGET")?]);
    rustc.arg("-o").arg(Path::new(&variable("OUT_DIR")?).join("empty"));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    rustc.args(options.iter().map(|option| format!("-Clink-arg={option}")));
    rustc.arg("-").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut compiler = rustc.spawn()?;
    if let Some(mut source) = compiler.stdin.take() {
        source.write_all(b"fn main() {}")?;
    }
    Ok(compiler.wait()?.success())
}
