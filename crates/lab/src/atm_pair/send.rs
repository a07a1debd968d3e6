//! One machine that sends packets over and over: PC-1 and PC-2.

use sockscope_atm::aal34::{Format, Segmentation, cells_for};
use sockscope_atm::driver::Sender;
use sockscope_atm::tca100::words;
use sockscope_atm::{CELL_BYTES, Channel, Header};
use sockscope_experiment::measurement::{Measure, Measurement};
use sockscope_experiment::{AtmParameters, DriverPart, VMTP_HEADER_BYTES};
use sockscope_record::counted;
use sockscope_sim::turbochannel::TurbochannelMachine;

use super::cells::{Loads, write_cell};
use super::host::{DecstationHost, Spent};

/// A channel for users.
pub(super) const CHANNEL: Channel = Channel::of_path_0(32);

/// The format that holds a packet of 1 KB in one message.
pub(super) const FORMAT: Format = Format::FiveBit;

/// Packets whose time the thesis drew.
const PACKETS_DRAWN: f64 = 100_000.0;

/// Sends `parameters.packets` packets and measures their time.
pub(super) fn run(
    machine: &TurbochannelMachine,
    parameters: &AtmParameters,
) -> Result<Measurement, String> {
    let bytes = parameters.data_bytes.unwrap_or(0) + VMTP_HEADER_BYTES;
    let packets = parameters.packets.unwrap_or(1);
    let message: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
    let refuse = |error: sockscope_atm::tca100::BusError| error.to_string();
    let mut host = DecstationHost::new(machine.clone(), parameters.data_from).map_err(refuse)?;
    let work = Packets::new(parameters.driver, &message)?;
    for number in 0..packets {
        work.send(&mut host, number)?;
        // No receiver listens, and the card need not keep sent cells.
        while host.card.take_sent(0).is_some() {}
    }
    let deformed = host.card.counters().sent_deformed;
    if deformed > 0 {
        return Err(format!("{} left the card", counted(deformed, "deformed cell")));
    }
    let cells = cells_for(message.len()) as u64;
    Ok(Measurement {
        measures: measures(host.spent(), packets, bytes, cells),
        ..Measurement::default()
    })
}

/// The data sent over and over.
struct Packets<'a> {
    part: DriverPart,
    message: &'a [u8],
    sender: Sender,
    cells: Vec<[u32; words::CELL_WORDS]>,
}

impl<'a> Packets<'a> {
    fn new(part: DriverPart, message: &'a [u8]) -> Result<Self, String> {
        let header = Header::of_channel(CHANNEL);
        let refuse = |error: sockscope_atm::Error| error.to_string();
        let cells = Segmentation::new(message, FORMAT, &header, 0).map_err(refuse)?;
        let cells = cells.iter().map(|cell| words::of_cell(&cell)).collect();
        let sender = Sender::new(FORMAT, &header).map_err(refuse)?;
        Ok(Self { part, message, sender, cells })
    }

    fn send(&self, host: &mut DecstationHost, number: u64) -> Result<(), String> {
        if self.part == DriverPart::Packets {
            let id = (number % u64::from(FORMAT.message_ids())) as u16;
            let sent = self.sender.send(host, id, self.message);
            return sent.map(|_| ()).map_err(|error| error.to_string());
        }
        let loads = if self.part == DriverPart::Cells { Loads::All } else { Loads::Nothing };
        let written = self.cells.iter().try_for_each(|cell| write_cell(host, cell, loads));
        written.map_err(|error| error.to_string())
    }
}

/// Times are of one packet, seconds of as many as the thesis drew. Payload is the packet's data
/// without filler; cells count with all their 53 octets.
fn measures(spent: Spent, packets: u64, bytes: u64, cells: u64) -> Vec<Measure> {
    let packet_ns = |ps: u64| ps as f64 / 1e3 / packets as f64;
    let (total, copy) = (packet_ns(spent.total_ps), packet_ns(spent.copy_ps));
    let per_s = |count: u64| count as f64 * 1e9 / total;
    let drawn_s = |ns: f64| ns * PACKETS_DRAWN / 1e9;
    [
        ("cells", cells as f64),
        ("total_ns", total),
        ("copy_percent", 100.0 * copy / total),
        ("payload_bits_per_s", per_s(8 * bytes)),
        ("cell_bits_per_s", per_s(8 * cells * CELL_BYTES as u64)),
        ("packets_per_s", per_s(1)),
        ("cells_per_s", per_s(cells)),
        ("total_s", drawn_s(total)),
        ("copy_s", drawn_s(copy)),
        ("other_s", drawn_s(total - copy)),
    ]
    .map(|(name, value)| Measure::new(name, value))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(data_bytes: u64) -> AtmParameters {
        let text =
            format!("machine = \"decstation-5000-240\"\ndata_bytes = {data_bytes}\npackets = 20");
        toml::from_str(&text).unwrap()
    }

    fn measure(machine: &TurbochannelMachine, data_bytes: u64, name: &str) -> f64 {
        run(machine, &parameters(data_bytes)).unwrap().measure(name).unwrap()
    }

    /// No source gives the words of the buffer; they must not matter.
    #[test]
    fn the_depth_of_the_write_buffer_changes_nothing_that_is_compared() {
        let mut machine = super::super::machine(&parameters(0)).unwrap();
        for data_bytes in [0, 20, 21, 64, 1024] {
            machine.write_buffer.words = 6;
            let usual_ns = measure(&machine, data_bytes, "total_ns");
            for words in [4, 5, 8, 16] {
                machine.write_buffer.words = words;
                let ns = measure(&machine, data_bytes, "total_ns");
                assert!(
                    (ns / usual_ns - 1.0).abs() < 0.01,
                    "{data_bytes}, {words}: {ns} {usual_ns}"
                );
            }
        }
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let machine = super::super::machine(&parameters(0)).unwrap();
        for data_bytes in 0..200 {
            let of = |name| measure(&machine, data_bytes, name);
            assert!((of("copy_s") + of("other_s") - of("total_s")).abs() < 1e-12);
            assert!((of("total_ns") * 1e-4 - of("total_s")).abs() < 1e-12);
        }
    }
}
