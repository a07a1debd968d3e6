//! Compiles the BPF programs and generates their loader. The shared layouts are from the compiled
//! programs' BTF, the constants from `layout.h`.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/bpf/sockscope.bpf.c";
/// What `sockscope try` loads, apart from the probes.
const FORCE: &str = "src/bpf/force.bpf.c";
const LAYOUT: &str = "src/bpf/layout.h";
/// The most that `miniz_oxide` can do.
const COMPRESSION: u8 = 10;

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    if let Err(error) = compile(&out) {
        eprintln!("cannot compile {SOURCE}: {error}; is clang (12 or later) installed?");
        process::exit(1);
    }
    if let Err(error) = pack(&out) {
        eprintln!("cannot compress the compiled programs: {error}");
        process::exit(1);
    }
    if let Err(error) = write_constants(&out.join("constants.rs")) {
        eprintln!("cannot read the constants of {LAYOUT}: {error}");
        process::exit(1);
    }
}

/// The same source twice: for kernels that give any address a type, and for older ones. See
/// `access.h`; layouts are those of the first. Two more are for tests alone: each as for CPUs that
/// reorder stores (`order.h`), on any CPU.
fn compile(out: &Path) -> Result<(), String> {
    let copies = "-DSOCKSCOPE_COPIES";
    let reordered = "-DSOCKSCOPE_WEAK_ORDER";
    form(SOURCE, out, "casts", &[])
        .build_and_generate(out.join("sockscope.skel.rs"))
        .map_err(|error| format!("{error:#}"))?;
    form(FORCE, out, "force", &[])
        .build_and_generate(out.join("force.skel.rs"))
        .map_err(|error| format!("{FORCE}: {error:#}"))?;
    let others: [(&str, &[&str]); 3] = [
        ("copies", &[copies]),
        ("reordered", &[reordered]),
        ("reordered-copies", &[copies, reordered]),
    ];
    others.iter().try_for_each(|(name, defines)| {
        form(SOURCE, out, name, defines).build().map_err(|error| format!("{error:#}"))
    })
}

/// A quarter of the bytes: a program uses one of the forms, and carries both.
fn pack(out: &Path) -> std::io::Result<()> {
    ["casts", "copies", "reordered", "reordered-copies", "force"].iter().try_for_each(|name| {
        let object = fs::read(out.join(format!("{name}.bpf.o")))?;
        let packed = miniz_oxide::deflate::compress_to_vec(&object, COMPRESSION);
        fs::write(out.join(format!("{name}.bpf.o.deflate")), packed)
    })
}

fn form(source: &str, out: &Path, name: &str, defines: &[&str]) -> SkeletonBuilder {
    let arguments = ["-mcpu=v3", "-Wall", "-Werror"];
    let mut builder = SkeletonBuilder::new();
    builder
        .source(source)
        .obj(out.join(format!("{name}.bpf.o")))
        .clang_args(arguments.iter().chain(defines));
    builder
}

/// `#define NAME number` and the members of `enum *_kind` become `u8` or `usize` constants.
fn write_constants(to: &Path) -> std::io::Result<()> {
    let text = fs::read_to_string(LAYOUT)?;
    let mut rust = String::new();
    let mut next = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#define RAW_MARK_") {
            let mut words = rest.split_whitespace();
            if let (Some(name), Some(value)) = (words.next(), words.next()) {
                rust += &format!("pub const MARK_{name}: u8 = {value};\n");
            }
        } else if line.starts_with("enum ") && line.ends_with('{') {
            next = Some(0u8);
        } else if line.starts_with('}') {
            next = None;
        } else if let Some(value) = &mut next {
            let item = line.split(',').next().unwrap_or_default();
            let mut sides = item.split('=').map(str::trim);
            let name = sides.next().unwrap_or_default();
            if let Some(explicit) = sides.next().and_then(|number| number.parse().ok()) {
                *value = explicit;
            }
            if name.chars().all(|c| c.is_ascii_uppercase() || c == '_') && !name.is_empty() {
                rust += &format!("pub const {name}: u8 = {value};\n");
                *value += 1;
            }
        }
    }
    fs::write(to, rust)
}
