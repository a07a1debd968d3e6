//! Names of the kernel's functions, from `/proc/kallsyms`.

use std::fs;

use super::error::ProfileError;

/// Functions by their address, ascending.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    functions: Vec<(u64, Box<str>)>,
}

impl Symbols {
    /// Of the running kernel, its modules and its BPF programs.
    ///
    /// # Errors
    ///
    /// When the kernel hides its addresses from this process.
    pub(crate) fn read() -> Result<Self, ProfileError> {
        let text = fs::read_to_string("/proc/kallsyms").map_err(ProfileError::Symbols)?;
        let symbols = Self::parse(&text);
        if symbols.functions.last().is_none_or(|(address, _)| *address == 0) {
            return Err(ProfileError::HiddenSymbols);
        }
        Ok(symbols)
    }

    /// Lines of an address, a letter for the kind and a name (proc(5)); `t` and `w` are functions.
    fn parse(text: &str) -> Self {
        let function = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_function = matches!(words.next()?, "t" | "T" | "w" | "W");
            is_function.then_some((address, Box::from(words.next()?)))
        };
        let mut functions: Vec<(u64, Box<str>)> = text.lines().filter_map(function).collect();
        // Several names of one address: the first one in the list counts.
        functions.sort_by_key(|(address, _)| *address);
        functions.dedup_by_key(|(address, _)| *address);
        Self { functions }
    }

    /// The function with the instruction at `address`. Compilers cut cold and constant parts from functions, with a name
    /// like `tcp_ack.cold`: they count as the function.
    pub(super) fn name(&self, address: u64) -> &str {
        let after = self.functions.partition_point(|&(start, _)| start <= address);
        let name = after.checked_sub(1).map_or("unknown", |index| &*self.functions[index].1);
        name.split('.').next().filter(|name| !name.is_empty()).unwrap_or(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_the_function_that_begins_before_it() {
        let symbols = Symbols::parse(
            "ffffffff81000100 T tcp_sendmsg\nffffffff81000180 d a_variable\nffffffff81000200 t tcp_ack.cold\n\
             ffffffff81000200 T an_alias\nffffffffc0000000 t bpf_prog_0123_point1\t[bpf]\n",
        );
        let names = [
            0xffff_ffff_8100_0100,
            0xffff_ffff_8100_01ff,
            0xffff_ffff_8100_0200,
            0xffff_ffff_c000_0007,
        ]
        .map(|address| symbols.name(address));
        assert_eq!(names, ["tcp_sendmsg", "tcp_sendmsg", "tcp_ack", "bpf_prog_0123_point1"]);
        assert_eq!(symbols.name(1), "unknown");
    }
}
