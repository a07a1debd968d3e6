//! Frames of an Ethernet as an interface captured them.

use std::io::{self, Write};

use super::block::Block;

/// A frame of which the first octets were captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Nanoseconds since 1970, of the clock of the host that captures.
    pub at_ns: u64,
    /// Link header, network and transport headers, perhaps data.
    pub headers: &'a [u8],
    /// Octets of the frame, without its check sequence.
    pub len: u32,
}

/// Writes a file of these frames in their order, and the number of those that the interface missed.
///
/// # Errors
///
/// When the output fails.
pub fn write_frames<'a>(
    mut out: impl Write,
    (program, comment): (&str, &str),
    frames: impl IntoIterator<Item = Frame<'a>>,
    missed: u64,
) -> io::Result<()> {
    let mut block = Block::default();
    block.section(comment, program, &mut out)?;
    block.interface("cable", &mut out)?;
    let (mut received, mut last_ns) = (missed, 0);
    for frame in frames {
        block.frame(frame.at_ns, frame.headers, frame.len, &mut out)?;
        (received, last_ns) = (received + 1, frame.at_ns);
    }
    block.statistics(last_ns, [received, missed], &mut out)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::capture_file::{Part, Told, Unreadable, read};

    #[test]
    fn frames_are_read_in_their_order_with_what_was_missed() {
        let frames = [3_000_000_001, 3_000_000_001, 10].map(|at_ns| Frame {
            at_ns,
            headers: &[0; 60],
            len: 1514,
        });
        let mut file = Vec::new();
        write_frames(&mut file, ("it", "some frames"), frames, 7).unwrap();
        let read = read(Cursor::new(file), &Told::default(), |_: &Part| Ok::<(), Unreadable>(()));
        let summary = read.unwrap();
        assert_eq!((summary.packets, summary.damage), (3, None));
        let interface = &summary.interfaces[0];
        assert_eq!((interface.name.as_deref(), interface.missed), (Some("cable"), 7));
    }
}
