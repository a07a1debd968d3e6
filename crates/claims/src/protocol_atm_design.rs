//! Checks of formats, queues and buses of chapters 3 and 4 of "The Influence of Protocol Choice on
//! Network Performance", which need no experiment: the codec, the card and the bus are asked.

use sockscope_atm::aal34::{Format, SarHeader, SarPdu, SegmentType, Segmentation};
use sockscope_atm::driver::{CountingHost, Sender};
use sockscope_atm::tca100::map::{RECEIVE_QUEUE, Register, TRANSMIT_QUEUE, control};
use sockscope_atm::tca100::words::{self, CELL_WORDS};
use sockscope_atm::tca100::{BusError, Config, LineCell, Tca100};
use sockscope_atm::{CELL_BYTES, Cell, Channel, Header, PAYLOAD_BYTES};
use sockscope_experiment::papers::Claim;
use sockscope_sim::turbochannel::TurbochannelMachine;
use sockscope_vmtp::wire::Packet;

use super::forwarding::{Path, latency_ns};
use super::protocol_vmtp_design::packets_of_16_kb;
use super::{Check, Comparison, Outcome, Runs};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "protocol-choice/3-a", needs: &[], compare: header_share },
    Check { id: "protocol-choice/3-b", needs: &[], compare: cut_through },
    Check { id: "protocol-choice/4-dec-a", needs: &[], compare: dma_rates },
    Check { id: "protocol-choice/4-tca-a", needs: &[], compare: queue_sizes },
    Check { id: "protocol-choice/4-tca-b", needs: &[], compare: queue_times },
    Check { id: "protocol-choice/4-tca-c", needs: &[], compare: burst },
    Check { id: "protocol-choice/4-tca-d", needs: &[], compare: overrun },
    Check { id: "protocol-choice/4-sar-a", needs: &[], compare: message_sizes },
    Check { id: "protocol-choice/4-sar-b", needs: &[], compare: windows },
    Check { id: "protocol-choice/4-sar-d", needs: &[], compare: numbering },
    Check { id: "protocol-choice/4-atm-j", needs: &[], compare: filler },
];

const CHANNEL: Channel = Channel::of_path_0(32);
/// Octets that a cell of AAL3/4 carries of its message.
const DATA_BYTES: usize = 44;
/// Octets of the largest VMTP packet.
const PACKET_BYTES: usize = 1092;
/// A bus cycle of the card.
const CYCLE_NS: u64 = 40;

fn refuse(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The cells of a message of zeros.
fn cells_of(bytes: usize, format: Format) -> Result<Vec<Cell>, String> {
    let message = vec![0; bytes];
    let cells = Segmentation::new(&message, format, &Header::of_channel(CHANNEL), 1);
    Ok(cells.map_err(refuse)?.iter().collect())
}

fn header_share(claim: &Claim, _: &Runs) -> Outcome {
    let cells = cells_of(PACKET_BYTES, Format::FiveBit)?;
    let all: usize = cells.iter().map(|cell| cell.octets().len()).sum();
    let payload: usize = cells.iter().map(|cell| cell.payload().len()).sum();
    Ok(Comparison::numbers(claim, &[100.0 * (all - payload) as f64 / all as f64]))
}

/// Whether each is less than the one before.
fn is_falling(values: &[u64]) -> bool {
    values.windows(2).all(|pair| pair[1] < pair[0])
}

/// By rate on free links, and by how long outputs of the slowest links are still in use.
fn cut_through(_: &Claim, _: &Runs) -> Outcome {
    let saved_ns = |bits_per_s, busy_ns| {
        let path = Path { hops: 4, bytes: 16_384, header_bytes: 53, bits_per_s, busy_ns };
        latency_ns(&path, false) - latency_ns(&path, true)
    };
    let rates = [10_000_000, 50_000_000, 155_000_000, 1_000_000_000];
    let saved = rates.map(|rate| saved_ns(rate, 0));
    // A message takes 13.1 ms at this rate: the last wait is longer.
    let queued = [0, 4_000_000, 8_000_000, 12_000_000, 20_000_000].map(|ns| saved_ns(rates[0], ns));
    let holds =
        is_falling(&saved) && saved[3] > 0 && is_falling(&queued) && queued[queued.len() - 1] == 0;
    Ok(Comparison::holds(
        holds,
        "saves less at each higher rate, less behind outputs that are longer in use, and then nothing",
        format!(
            "16 KB over four nodes saves {saved:?} ns at 10, 50, 155 and 1,000 Mbit/s; {queued:?} ns at 10 Mbit/s when outputs are in use for 0, 4, 8, 12 and 20 ms more"
        ),
    )
    .with_note("arithmetic of a path whose nodes wait for a header or a message, no run"))
}

fn dma_rates(claim: &Claim, _: &Runs) -> Outcome {
    let bus = TurbochannelMachine::by_name("decstation-5000-200").map_err(refuse)?.bus;
    let (read, write) = (
        [1, 128].map(|words| bus.dma_read_mbyte_per_s(words)),
        [1, 128].map(|words| bus.dma_write_mbyte_per_s(words)),
    );
    Ok(Comparison::numbers(claim, &[read, write].concat()).with_note(
        "cycles to get the bus are those of one word, so these two rates are taken in; those of 128 words follow",
    ))
}

/// A card with these engines on.
fn card(config: Config, engines: u32) -> Result<Tca100, String> {
    let mut card = Tca100::new(config);
    card.write_word(0, Register::Control.offset(), engines).map_err(refuse)?;
    Ok(card)
}

/// Writes the words of a cell as fast as the card lets them in; gives the time after them.
fn write_cell(card: &mut Tca100, mut now_ns: u64) -> Result<u64, BusError> {
    let cell = words::of_cell(&Cell::from_octets([0; CELL_BYTES]));
    for (at, word) in cell.iter().enumerate() {
        let access = card.write_word(now_ns, TRANSMIT_QUEUE + 4 * at as u32, *word)?;
        now_ns += access.wait_cycles * CYCLE_NS;
    }
    debug_assert_eq!(cell.len(), CELL_WORDS);
    Ok(now_ns)
}

/// Reads the cell at the head of the receive queue.
fn read_cell(card: &mut Tca100, now_ns: u64) -> Result<(), String> {
    (0..CELL_WORDS as u32).try_for_each(|at| {
        card.read_word(now_ns, RECEIVE_QUEUE + 4 * at).map(|_| ()).map_err(refuse)
    })
}

/// Cells that a receive queue takes, of `cells` that arrive; each is read at once, or none.
fn taken_of(cells: u64, is_read: bool) -> Result<u64, String> {
    let mut card = card(Config::default(), control::RECEIVE_ENABLE)?;
    let cell = Cell::from_octets([0; CELL_BYTES]);
    for now_ns in (0..cells).map(|at| at * 2_736) {
        card.receive(now_ns, cell.octets());
        if is_read {
            read_cell(&mut card, now_ns)?;
        }
    }
    Ok(cells - card.counters().lost_overrun)
}

/// Cells that an undrained receive queue takes, of `cells` that arrive.
fn taken(cells: u64) -> Result<u64, String> {
    taken_of(cells, false)
}

/// Cells that a transmit queue takes whose engine is off.
fn queued() -> Result<u64, String> {
    let mut card = card(Config::default(), 0)?;
    let whole = (0..).take_while(|_| write_cell(&mut card, 0).is_ok());
    Ok(whole.count() as u64)
}

fn queue_sizes(claim: &Claim, _: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &[taken(1000)? as f64, queued()? as f64]))
}

/// Time in which so many cells leave a card that always has one, in microseconds.
fn line_us(cells: u64) -> Result<f64, String> {
    let mut card = card(Config::default(), control::TRANSMIT_ENABLE)?;
    let mut now_ns = 0;
    for _ in 0..cells {
        now_ns = write_cell(&mut card, now_ns).map_err(refuse)?;
    }
    let mut last_ns = 0;
    loop {
        while let Some(line) = card.take_sent(now_ns) {
            last_ns = line.at_ns;
        }
        match card.next_event_ns() {
            Some(next_ns) => now_ns = next_ns,
            None => return Ok(last_ns as f64 / 1e3),
        }
    }
}

/// When an undrained receive queue is full that another card fills without a pause, in microseconds.
fn full_after_us() -> Result<f64, String> {
    let mut from = card(Config::default(), control::TRANSMIT_ENABLE)?;
    let mut to = card(Config::default(), control::RECEIVE_ENABLE)?;
    let (mut now_ns, mut full_ns) = (0, 0);
    loop {
        now_ns = write_cell(&mut from, now_ns).map_err(refuse)?;
        while let Some(line) = from.take_sent(now_ns) {
            to.receive(line.at_ns, line.octets());
            if to.counters().lost_overrun > 0 {
                return Ok(full_ns as f64 / 1e3);
            }
            full_ns = line.at_ns;
        }
    }
}

fn queue_times(claim: &Claim, _: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &[full_after_us()?, line_us(queued()?)?]))
}

/// Octets of data and cells of the largest VMTP message in one group, as its packets travel.
fn largest_group() -> Result<(usize, u64), String> {
    let mut sizes = (0, 0);
    for octets in packets_of_16_kb()? {
        let packet = Packet::new(&octets).map_err(refuse)?;
        let header = Header::of_channel(CHANNEL);
        let cells = Segmentation::new(&octets, Format::FiveBit, &header, 1).map_err(refuse)?;
        sizes = (sizes.0 + packet.data().len(), sizes.1 + cells.cells() as u64);
    }
    Ok(sizes)
}

fn burst(claim: &Claim, _: &Runs) -> Outcome {
    let room = taken(1000)? as usize;
    let (bytes, cells) = largest_group()?;
    let sizes = [room * DATA_BYTES, room * PAYLOAD_BYTES, bytes];
    let lost = |bytes: usize| {
        let cells = bytes.div_ceil(DATA_BYTES) as u64;
        Ok::<_, String>(cells - taken(cells)?)
    };
    let (fits, more) = (lost(sizes[0])?, lost(sizes[0] + 1)?);
    let (whole, read) = (cells - taken(cells)?, cells - taken_of(cells, true)?);
    let got = format!(
        "a burst of {} octets loses {fits} cells, one octet more {more}; the {cells} cells of 16 VMTP packets with {bytes} octets {whole}, and {read} when each is read at once",
        sizes[0]
    );
    let holds = fits == 0 && more == 1 && whole > 0 && read == 0;
    let expected =
        "16 KB overrun the queue of a receiver that does not drain it, 12,848 octets do not";
    Ok(Comparison::numbers(claim, &sizes.map(|size| size as f64))
        .and(Comparison::holds(holds, expected, &got))
        .with_note(got))
}

/// The longest that a card made a write wait before it took it, in cycles: lines slower and slower,
/// until the bus gives up.
fn longest_wait() -> Result<u64, String> {
    let mut longest = 0;
    for bits_per_s in (2_000_000..4_000_000).rev().step_by(1_000) {
        let config = Config { line_bits_per_s: bits_per_s, ..Config::default() };
        let mut card = card(config, control::TRANSMIT_ENABLE)?;
        let stalled = (0..).find_map(|at| {
            let write = card.write_word(0, TRANSMIT_QUEUE + 4 * (at % CELL_WORDS as u32), 0);
            write.map(|access| Some(access.wait_cycles).filter(|cycles| *cycles > 0)).transpose()
        });
        match stalled {
            Some(Ok(cycles)) => longest = longest.max(cycles),
            Some(Err(BusError::Timeout { .. })) => return Ok(longest),
            _ => return Err("the queue did not stall a write".to_owned()),
        }
    }
    Err("no line was slow enough for a bus error".to_owned())
}

fn overrun(claim: &Claim, _: &Runs) -> Outcome {
    let (room, longest) = (taken(1000)?, longest_wait()?);
    let kept = taken(room + 1)?;
    Ok(Comparison::numbers(claim, &[longest as f64]).and(Comparison::holds(
        kept == room,
        "a cell that arrives at a full queue is dropped",
        format!("{kept} of {} cells kept", room + 1),
    )))
}

/// Cells and octets of the longest message that the driver takes in this format.
fn longest_message(format: Format) -> Result<(usize, usize), String> {
    let sender = Sender::new(format, &Header::of_channel(CHANNEL)).map_err(refuse)?;
    let send = |bytes: usize| {
        let mut host = CountingHost::default();
        let engines = control::TRANSMIT_ENABLE;
        host.card.write_word(0, Register::Control.offset(), engines).ok()?;
        sender.send(&mut host, 1, &vec![0; bytes]).ok().map(|cells| (cells, bytes))
    };
    (1..3000).rev().find_map(send).ok_or_else(|| "no message was taken".to_owned())
}

fn message_sizes(claim: &Claim, _: &Runs) -> Outcome {
    let (cells, bytes) = longest_message(Format::Standard)?;
    let (_, changed) = longest_message(Format::FiveBit)?;
    let packet = cells_of(PACKET_BYTES, Format::FiveBit)?.len();
    let got = format!("{changed} octets as changed; a packet of 1,092 takes {packet} cells");
    Ok(Comparison::numbers(claim, &[cells as f64, bytes as f64])
        .and(Comparison::holds(
            bytes < PACKET_BYTES && changed == 2 * bytes && packet == 25,
            "twice the octets with one bit more; a 1 KB packet does not fit without it, and takes 25 cells",
            &got,
        ))
        .with_note(got))
}

fn windows(claim: &Claim, _: &Runs) -> Outcome {
    // The largest identifier that fits, by trying; a window is half of them.
    let window = |format: Format| {
        let fits = |&id: &u16| {
            let segment_type = SegmentType::Begin;
            SarHeader { segment_type, sequence: 0, message_id: id }.encode(format).is_ok()
        };
        (0..u16::MAX).take_while(fits).count() / 2
    };
    let got = [Format::Standard, Format::FiveBit].map(|format| window(format) as f64);
    Ok(Comparison::numbers(claim, &[got[0], got[1], taken(1000)? as f64]))
}

/// First payload words of the cells of a packet, as the driver sends them.
fn sar_words(message_id: u16) -> Result<Vec<u16>, String> {
    let mut host = CountingHost::default();
    let control = Register::Control.offset();
    host.card.write_word(0, control, control::TRANSMIT_ENABLE).map_err(refuse)?;
    let sender = Sender::new(Format::FiveBit, &Header::of_channel(CHANNEL)).map_err(refuse)?;
    sender.send(&mut host, message_id, &[0; PACKET_BYTES]).map_err(refuse)?;
    let mut sent = Vec::new();
    while let Some(next_ns) = host.card.next_event_ns() {
        host.wait_until(next_ns);
        sent.extend(std::iter::from_fn(|| host.card.take_sent(next_ns)));
    }
    let word = |cell: Cell| u16::from_be_bytes([cell.payload()[0], cell.payload()[1]]);
    Ok(sent.iter().filter_map(LineCell::cell).map(word).collect())
}

/// Whether words are those of one packet: numbered from 0, one identifier, first, middle and last.
fn is_one_packet(words: &[u16], message_id: u16) -> bool {
    let last = words.len().saturating_sub(1);
    let segment_type = |at: usize| match at {
        0 => SegmentType::Begin,
        at if at == last => SegmentType::End,
        _ => SegmentType::Continuation,
    };
    words.iter().enumerate().all(|(at, &word)| {
        let sequence = at as u8;
        let expected = SarHeader { segment_type: segment_type(at), sequence, message_id };
        SarHeader::decode(word, Format::FiveBit) == expected
    })
}

/// With the largest identifier, next to which an addition that went astray would show.
fn numbering(claim: &Claim, _: &Runs) -> Outcome {
    let message_id = Format::FiveBit.message_ids() as u16 - 1;
    let words = sar_words(message_id)?;
    // The two bits of the segment type aside.
    let step = |pair: &[u16]| (pair[1] & 0x3fff).wrapping_sub(pair[0] & 0x3fff);
    let mut steps: Vec<f64> = words.windows(2).map(|pair| step(pair).into()).collect();
    steps.dedup();
    Ok(Comparison::numbers(claim, &steps).and(Comparison::holds(
        words.len() == 25 && is_one_packet(&words, message_id),
        "25 cells of the driver, numbered 0 to 24, one identifier, types begin, continuation and end",
        format!("words {words:x?}"),
    )))
}

/// Octets of filler in the cells of a message.
fn filler_of(bytes: usize) -> Result<(f64, f64), String> {
    let cells = cells_of(bytes, Format::FiveBit)?;
    let data: usize =
        cells.iter().map(|cell| usize::from(SarPdu::new(cell.payload()).length())).sum();
    Ok(((cells.len() * DATA_BYTES - data) as f64, (cells.len() * DATA_BYTES) as f64))
}

fn filler(claim: &Claim, _: &Runs) -> Outcome {
    let mut shares = Vec::new();
    for bytes in [89, 1057] {
        let (filler, sent) = filler_of(bytes)?;
        shares.extend([100.0 * filler / bytes as f64, 100.0 * filler / sent]);
    }
    Ok(Comparison::numbers(claim, &shares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_in_time_loses_nothing_and_none_loses_what_is_over_292() {
        assert_eq!((taken_of(400, false), taken_of(400, true)), (Ok(292), Ok(400)));
        assert_eq!(largest_group(), Ok((16_384, 400)));
    }

    #[test]
    fn cells_that_are_numbered_otherwise_are_no_packet() {
        let words = sar_words(511).unwrap();
        assert!(is_one_packet(&words, 511));
        assert!(!is_one_packet(&words, 510), "another identifier");
        assert!(!is_one_packet(&words[1..], 511), "the first is missing");
        let carried: Vec<u16> = words.iter().enumerate().map(|(at, w)| w + at as u16).collect();
        assert!(!is_one_packet(&carried, 511), "a carry into the sequence number");
    }
}
