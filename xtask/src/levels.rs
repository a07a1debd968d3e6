//! The level table: which crate may use which.
//!
//! A crate uses only crates of lower levels. ARCHITECTURE.md shows the same table; tidy compares.

/// One row of the table.
pub struct Row {
    /// 0 uses nothing of ours.
    pub level: u8,
    /// Folder below `crates/`; the package is `sockscope-` and this.
    pub folder: &'static str,
    /// The purpose, as in ARCHITECTURE.md.
    pub purpose: &'static str,
}

/// Every crate that may exist, lowest level first.
pub const TABLE: &[Row] = &[
    row(0, "record", "what one observation is; points, flows, clocks, loss counters"),
    row(1, "trace", "the trace bundle: write, read, follow, check, merge two hosts"),
    row(1, "convert", "pcap, pcapng and tcpdump text in; pcapng and Perfetto out"),
    row(1, "probe", "BPF C beside its loader; activation; the reader of its lists; doctor"),
    row(1, "analysis", "curves, lengths, delays, ledger, ACKs, findings"),
    row(1, "render", "charts, numbers and terminal styles; knows no analysis"),
    row(1, "stack", "the BSD stack without I/O: mbufs, socket buffers, TCP, UDP, IP"),
    row(1, "vmtp", "VMTP (RFC 1045) without I/O, and a driver for sockets"),
    row(1, "atm", "cells, HEC, AAL3/4 and AAL5, the TCA-100 interface"),
    row(1, "channel", "memory-based messaging: slots in shared memory, signals"),
    row(1, "oncrpc", "ONC RPC, XDR and the portmapper (RFC 5531, 4506, 1833) without I/O"),
    row(1, "link", "the wire in user space"),
    row(2, "sim", "virtual time: events, CPU, links, machine cost tables"),
    row(2, "report", "analysis results as text, JSON, CSV, SVG, one-file HTML"),
    row(2, "tables", "a trace and its analysis as Arrow tables; Parquet and CSV files of them"),
    row(2, "remote", "proxies of channels over VMTP: remote peers like local ones"),
    row(3, "view", "the screen of a terminal and the page of a browser over an analysis"),
    row(3, "experiment", "experiment files and papers in; results as text, JSON, CSV out"),
    row(
        3,
        "watch",
        "the rules of the flight recorder: when to keep, what to forget, what to count",
    ),
    row(3, "fleet", "segments of many hosts as Parquet, and the analysis of all of them together"),
    row(4, "lab", "experiments on the model: workloads, topologies, runs, figures"),
    row(4, "live", "experiments on this kernel: protocols, layers, their cost"),
    row(5, "claims", "the papers' claims judged by runs"),
    row(5, "program", "what the programs share: errors, messages, files read and written"),
    row(6, "cli", "the program sockscope"),
    row(6, "lab-cli", "the program sockscope-lab"),
    row(6, "convert-cli", "the program sockscope-convert"),
    row(6, "view-cli", "the program sockscope-view"),
    row(6, "watch-cli", "the program sockscope-watch"),
    row(7, "python", "the Python package"),
];

/// The level of the crate in this folder; `None` when the table does not list it.
pub fn level(folder: &str) -> Option<u8> {
    TABLE.iter().find(|row| row.folder == folder).map(|row| row.level)
}

/// The folder of one of our packages, as `record` of `sockscope-record`.
pub fn folder_of(package: &str) -> Option<&str> {
    package.strip_prefix("sockscope-")
}

/// The table as Markdown; crates not in `existing` are marked as planned.
pub fn markdown(existing: &[&str]) -> String {
    let mut text = String::from("| level | crate | purpose |\n|---|---|---|\n");
    for Row { level, folder, purpose } in TABLE {
        let planned = if existing.contains(folder) { "" } else { " (planned)" };
        text.push_str(&format!("| {level} | `{folder}`{planned} | {purpose} |\n"));
    }
    text
}

const fn row(level: u8, folder: &'static str, purpose: &'static str) -> Row {
    Row { level, folder, purpose }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The row of the only crate with this folder.
    fn row_of(folder: &str) -> usize {
        let rows: Vec<_> =
            TABLE.iter().enumerate().filter(|(_, row)| row.folder == folder).collect();
        let [(at, _)] = rows.as_slice() else { panic!("{} rows of {folder}", rows.len()) };
        *at
    }

    #[test]
    fn each_crate_of_the_workspace_has_one_row_below_those_of_its_dependencies() {
        let crates = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates"));
        for folder in crates.unwrap().map(|entry| entry.unwrap().path()) {
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let row = row_of(folder.file_name().unwrap().to_str().unwrap());
            let names = manifest.lines().filter_map(|line| line.split(['.', ' ']).next());
            for used in names.filter_map(folder_of) {
                assert!(row_of(used) < row, "{} uses {used}", folder.display());
            }
        }
    }

    #[test]
    fn a_crate_without_code_is_marked_as_planned() {
        let text = markdown(&["record"]);
        assert!(text.contains("| 0 | `record` | what one"));
        assert!(text.contains("| 1 | `trace` (planned) |"));
    }
}
