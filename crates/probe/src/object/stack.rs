//! Depth of the calls in a BPF object, as the verifier counts (`check_max_stack_depth()`).
//!
//! Kernels since 6.13 give programs on tracepoints a stack for each function, and check only these.

use std::collections::BTreeMap;

/// Where a function begins: its section and the offset there.
type Place = (u16, u64);

struct Function {
    name: String,
    /// Bytes of its stack.
    frame: u64,
    callees: Vec<Place>,
}

// elf.h, and linux/bpf.h.
const SHT_SYMTAB: u64 = 2;
const SHT_REL: u64 = 9;
const STT_FUNC: u64 = 2;
const CALL: u64 = 0x85;
const LOAD_ADDRESS: u64 = 0x18;
const MOVE: u64 = 0xbf;
const ADD_NUMBER: u64 = 0x07;
const PSEUDO_CALL: u64 = 1;
const FRAME_POINTER: u64 = 10;

struct Elf<'b>(&'b [u8]);

impl Elf<'_> {
    /// A number of so many bytes, low byte first.
    fn number(&self, at: u64, bytes: u64) -> u64 {
        let from = at as usize;
        let digits = self.0[from..from + bytes as usize].iter().rev();
        digits.fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn text(&self, at: u64) -> String {
        let bytes = self.0[at as usize..].iter().take_while(|byte| **byte != 0);
        bytes.map(|byte| char::from(*byte)).collect()
    }

    /// The header of a section.
    fn section(&self, number: u64) -> u64 {
        self.number(40, 8) + number * self.number(58, 2)
    }

    fn offset(&self, section: u64) -> u64 {
        self.number(self.section(section) + 24, 8)
    }

    /// Where the entries of a section's table are.
    fn entries(&self, section: u64, bytes: u64) -> impl Iterator<Item = u64> {
        let size = self.number(self.section(section) + 32, 8);
        let begin = self.offset(section);
        (0..size / bytes).map(move |number| begin + number * bytes)
    }

    fn sections(&self, of_type: u64) -> impl Iterator<Item = u64> {
        let all = 0..self.number(60, 2);
        all.filter(move |&number| self.number(self.section(number) + 4, 4) == of_type)
    }

    /// The place that the symbol names.
    fn place(&self, symbol: u64) -> Place {
        (self.number(symbol + 6, 2) as u16, self.number(symbol + 8, 8))
    }

    /// Places to which instructions are bound when the object is loaded.
    fn relocations(&self, symbols: u64) -> BTreeMap<Place, Place> {
        let mut bound = BTreeMap::new();
        for table in self.sections(SHT_REL) {
            let section = self.number(self.section(table) + 44, 4) as u16;
            for entry in self.entries(table, 16) {
                let symbol = self.offset(symbols) + self.number(entry + 12, 4) * 24;
                bound.insert((section, self.number(entry, 8)), self.place(symbol));
            }
        }
        bound
    }

    fn functions(&self) -> BTreeMap<Place, Function> {
        let symbols = self.sections(SHT_SYMTAB).next().unwrap();
        let names = self.offset(self.number(self.section(symbols) + 40, 4));
        let bound = self.relocations(symbols);
        let all = self.entries(symbols, 24).filter(|at| self.number(at + 4, 1) & 15 == STT_FUNC);
        let described = all.map(|symbol| {
            let name = self.text(names + self.number(symbol, 4));
            let place = self.place(symbol);
            let (frame, callees) = self.function(place, self.number(symbol + 16, 8), &bound);
            (place, Function { name, frame, callees })
        });
        described.collect()
    }

    /// The stack of a function, and its callees, also through a helper.
    fn function(
        &self,
        (section, begin): Place,
        bytes: u64,
        bound: &BTreeMap<Place, Place>,
    ) -> (u64, Vec<Place>) {
        let (mut lowest, mut callees, mut holds_frame) = (0i64, Vec::new(), [false; 16]);
        let base = self.offset(u64::from(section));
        let mut at = begin;
        while at < begin + bytes {
            let code = self.number(base + at, 1);
            let (to, from) =
                (self.number(base + at + 1, 1) & 15, self.number(base + at + 1, 1) >> 4);
            let offset = i64::from(self.number(base + at + 2, 2) as i16);
            let number = i64::from(self.number(base + at + 4, 4) as i32);
            let symbol = bound.get(&(section, at));
            match code {
                CALL if from == PSEUDO_CALL => callees.push(match symbol {
                    Some(&(there, start)) => (there, start.wrapping_add_signed((number + 1) * 8)),
                    None => (section, (at + 8).wrapping_add_signed(number * 8)),
                }),
                LOAD_ADDRESS => {
                    let there = symbol.map(|&(there, start)| (there, start + number as u64));
                    callees.extend(there);
                    at += 8;
                }
                MOVE => holds_frame[to as usize] = from == FRAME_POINTER,
                ADD_NUMBER if std::mem::take(&mut holds_frame[to as usize]) => {
                    lowest = lowest.min(number);
                }
                _ => {
                    let (loads, stores) = (code & 7 == 1, matches!(code & 7, 2 | 3));
                    if loads && from == FRAME_POINTER || stores && to == FRAME_POINTER {
                        lowest = lowest.min(offset);
                    }
                }
            }
            at += 8;
        }
        (lowest.unsigned_abs(), callees)
    }
}

/// The deepest chain of calls from this function on. A frame counts in steps of 32 bytes, the coarsest
/// of any kernel's.
fn below(functions: &BTreeMap<Place, Function>, place: Place) -> (u64, Vec<String>) {
    let Some(function) = functions.get(&place) else { return (0, Vec::new()) };
    let callees = function.callees.iter().map(|&callee| below(functions, callee));
    let (depth, names) = callees.max().unwrap_or_default();
    let name = format!("{} {}", function.name, function.frame);
    let chain = std::iter::once(name).chain(names).collect();
    (depth + function.frame.max(1).next_multiple_of(32), chain)
}

/// The deepest chain of calls in an object: its bytes of stack, and its functions with their own.
pub(super) fn deepest(object: &[u8]) -> (u64, Vec<String>) {
    let functions = Elf(object).functions();
    functions.keys().map(|&place| below(&functions, place)).max().unwrap_or_default()
}

/// Whether a function has an instruction of this code with this number.
pub(super) fn has(object: &[u8], function: &str, code: u8, number: i32) -> bool {
    let elf = Elf(object);
    let symbols = elf.sections(SHT_SYMTAB).next().unwrap();
    let names = elf.offset(elf.number(elf.section(symbols) + 40, 4));
    let mut all = elf.entries(symbols, 24);
    let symbol = all.find(|&at| elf.text(names + elf.number(at, 4)) == function).unwrap();
    let (section, begin) = elf.place(symbol);
    let from = elf.offset(u64::from(section)) + begin;
    let mut instructions = (from..from + elf.number(symbol + 16, 8)).step_by(8);
    instructions
        .any(|at| elf.number(at, 1) == u64::from(code) && elf.number(at + 4, 4) as i32 == number)
}
