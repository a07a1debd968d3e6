//! Cells that are written as they are: the driver's two lowest layers, and cells sent again.

use sockscope_atm::driver::{Host, Work};
use sockscope_atm::tca100::BusError;
use sockscope_atm::tca100::map::{HEADER, PAYLOAD, TRAILER, TRANSMIT_QUEUE};
use sockscope_atm::tca100::words::CELL_WORDS;

/// The words of a cell that are loaded from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loads {
    /// None of them.
    Nothing,
    /// Those of the message; headers and trailer are made by the driver.
    Data,
    /// All of a cell that was made before.
    All,
}

/// Writes a cell of these words, the write buffer flushed where the driver must: after the header,
/// before the trailer and after it, which is also before the next header.
///
/// Words that are not loaded from memory are in registers.
pub(super) fn write_cell(
    host: &mut impl Host,
    words: &[u32; CELL_WORDS],
    loads: Loads,
) -> Result<(), BusError> {
    host.work(Work::CellLoop);
    let last = CELL_WORDS - 1;
    for (at, &word) in words.iter().enumerate() {
        let is_data = (2..last).contains(&at);
        if loads == Loads::All || loads == Loads::Data && is_data {
            host.work(Work::DataLoad);
        }
        let (work, offset) = match at {
            0 => (Work::HeaderWrite, HEADER),
            1 => (Work::SarHeaderWrite, PAYLOAD),
            at if at == last => (Work::TrailerWrite, TRAILER),
            _ => (Work::DataWrite, PAYLOAD),
        };
        if at == last {
            host.flush()?;
        }
        host.write(work, TRANSMIT_QUEUE + offset, word)?;
        if at == 0 || at == last {
            host.flush()?;
        }
    }
    Ok(())
}
