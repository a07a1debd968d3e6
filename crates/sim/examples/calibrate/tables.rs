//! The seconds that the paper printed.

use std::path::PathBuf;

use sockscope_stack::Routine;

/// The message sizes that may be used, in bytes.
pub const SIZES: [usize; 4] = [1, 112, 1024, 1025];

/// One table of seconds.
pub struct Table {
    /// As in `Table 1`.
    pub name: &'static str,
    /// Routine and seconds at each of [`SIZES`].
    pub rows: Vec<(Routine, [f64; 4])>,
    /// For each row, whether its time depends on the size.
    pub is_bold: Vec<bool>,
}

impl Table {
    /// Reads `papers/bsd-buffers/PROTOCOL-seconds.csv`.
    pub fn read(protocol: &str) -> Self {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        let path = root.join(format!("papers/bsd-buffers/{protocol}-seconds.csv"));
        let text = std::fs::read_to_string(path).expect("the table can be read");
        let name = if protocol == "tcp" { "Table 1" } else { "Table 2" };
        let mut table = Self { name, rows: Vec::new(), is_bold: Vec::new() };
        for line in text.lines().filter(|line| !line.starts_with('#')).skip(1) {
            let mut cells = line.split(',');
            let routine = cells.next().and_then(Routine::by_name).expect("a routine of the model");
            let mut seconds = [0.0; 4];
            for place in &mut seconds {
                *place = cells.next().and_then(|cell| cell.parse().ok()).expect("a number");
            }
            table.rows.push((routine, seconds));
            table.is_bold.push(cells.next() == Some("bold"));
        }
        table
    }
}
