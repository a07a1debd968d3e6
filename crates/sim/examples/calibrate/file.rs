//! A machine file: a part written by hand, a mark, and a part written by this example.

use std::path::PathBuf;

use sockscope_sim::Machine;
use sockscope_stack::{Cost, Routine};

/// Begins the line below which the example writes.
const MARKS: [&str; 2] = ["# Fitted; ", "# Derived; "];

/// One machine file.
pub struct File {
    path: PathBuf,
    by_hand: String,
    written: String,
}

impl File {
    /// Reads `machines/NAME.toml`.
    pub fn read(name: &str) -> Self {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        let path = root.join(format!("machines/{name}.toml"));
        let text = std::fs::read_to_string(&path).expect("the machine file can be read");
        let mark = MARKS.iter().find_map(|mark| text.find(mark)).expect("the file has the mark");
        let end = text[mark..].find('\n').map_or(text.len(), |line| mark + line + 1);
        let (by_hand, written) = text.split_at(end);
        Self { path, by_hand: by_hand.to_owned(), written: written.to_owned() }
    }

    /// The machine as the file has it.
    pub fn machine(&self) -> Machine {
        let text = format!("{}{}", self.by_hand, self.written);
        Machine::from_toml(&text).expect("the machine file is sound")
    }

    /// The machine without the part that this example writes.
    pub fn machine_by_hand(&self) -> Machine {
        Machine::from_toml(&self.by_hand).expect("the machine file is sound")
    }

    /// Puts a number into the part written by hand.
    pub fn set(&mut self, key: &str, value: u64) {
        let start = format!("{key} = ");
        let line = |line: &str| match line.starts_with(&start) {
            true => format!("{start}{value}\n"),
            false => format!("{line}\n"),
        };
        self.by_hand = self.by_hand.lines().map(line).collect();
    }

    /// Replaces the part below the mark; `false` if that changed the file. Writes only if asked to.
    pub fn replace(self, written: &str, write: bool) -> bool {
        let text = format!("{}{written}", self.by_hand);
        if write {
            std::fs::write(&self.path, &text).expect("the machine file can be written");
        }
        let old = std::fs::read_to_string(&self.path).expect("the machine file can be read");
        old == text
    }
}

/// The section of one routine.
pub fn section(routine: Routine, cost: Cost, source: &str) -> String {
    let Cost { call_ns, byte_ps, mbuf_ns, walk_ns } = cost;
    let mut text = format!("\n[routine.{}]\n", routine.name());
    let numbers =
        [("call_ns", call_ns), ("byte_ps", byte_ps), ("mbuf_ns", mbuf_ns), ("walk_ns", walk_ns)];
    for (name, value) in numbers.into_iter().filter(|(_, value)| *value > 0) {
        text += &format!("{name} = {value}\n");
    }
    text + &format!("source = \"{source}\"\n")
}
