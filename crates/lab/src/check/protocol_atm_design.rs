//! Checks of formats, queues and buses of chapters 3 and 4 of "The Influence of Protocol Choice on
//! Network Performance", which need no experiment: the codec, the card and the bus are asked.

use sockscope_atm::aal34::{Format, SarHeader, SarPdu, SegmentType, Segmentation};
use sockscope_atm::driver::{CountingHost, Sender};
use sockscope_atm::tca100::map::{Register, TRANSMIT_QUEUE, control};
use sockscope_atm::tca100::words::{self, CELL_WORDS};
use sockscope_atm::tca100::{BusError, Config, Tca100};
use sockscope_atm::{CELL_BYTES, Cell, Channel, Header, PAYLOAD_BYTES};
use sockscope_sim::turbochannel::TurbochannelMachine;

use super::protocol_atm::judged;
use super::{Check, Judgement, Runs};
use crate::atm_pair::forwarding::{Path, latency_ns};
use crate::papers::Claim;

pub(super) const CHECKS: &[Check] = &[
    Check { id: "protocol-choice/3-a", needs: &[], judge: header_share },
    Check { id: "protocol-choice/3-b", needs: &[], judge: cut_through },
    Check { id: "protocol-choice/4-dec-a", needs: &[], judge: dma_rates },
    Check { id: "protocol-choice/4-tca-a", needs: &[], judge: queue_sizes },
    Check { id: "protocol-choice/4-tca-b", needs: &[], judge: queue_times },
    Check { id: "protocol-choice/4-tca-c", needs: &[], judge: burst },
    Check { id: "protocol-choice/4-tca-d", needs: &[], judge: overrun },
    Check { id: "protocol-choice/4-sar-a", needs: &[], judge: message_sizes },
    Check { id: "protocol-choice/4-sar-b", needs: &[], judge: windows },
    Check { id: "protocol-choice/4-sar-d", needs: &[], judge: numbering },
    Check { id: "protocol-choice/4-atm-j", needs: &[], judge: filler },
];

const CHANNEL: Channel = Channel::of_path_0(32);
/// Octets that a cell of AAL3/4 carries of its message.
const DATA_BYTES: usize = 44;
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

fn header_share(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let cells = cells_of(1092, Format::FiveBit)?;
        let all: usize = cells.iter().map(|cell| cell.octets().len()).sum();
        let payload: usize = cells.iter().map(|cell| cell.payload().len()).sum();
        Ok(Judgement::numbers(claim, &[100.0 * (all - payload) as f64 / all as f64]))
    })
}

fn cut_through(_: &Claim, _: &Runs) -> Judgement {
    let saved_ns = |bits_per_s, busy_ns| {
        let path = Path { hops: 4, bytes: 16_384, header_bytes: 53, bits_per_s, busy_ns };
        latency_ns(&path, false) - latency_ns(&path, true)
    };
    let rates = [10_000_000, 50_000_000, 155_000_000, 1_000_000_000];
    let saved = rates.map(|rate| saved_ns(rate, 0));
    // Longer than the message takes at the slowest of the rates.
    let congested = rates.map(|rate| saved_ns(rate, 20_000_000));
    let holds =
        saved.windows(2).all(|pair| pair[1] < pair[0]) && congested.iter().all(|ns| *ns == 0);
    Judgement::holds(
        holds,
        "saves less at each higher rate, and nothing behind busy outputs",
        format!(
            "16 KB over four nodes saves {saved:?} ns at 10, 50, 155 and 1,000 Mbit/s; {congested:?} ns when outputs are busy"
        ),
    )
}

fn dma_rates(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let bus = TurbochannelMachine::by_name("decstation-5000-200").map_err(refuse)?.bus;
        let (read, write) = (
            [1, 128].map(|words| bus.dma_read_mbyte_per_s(words)),
            [1, 128].map(|words| bus.dma_write_mbyte_per_s(words)),
        );
        Ok(Judgement::numbers(claim, &[read, write].concat()))
    })
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

/// Cells that an undrained receive queue takes, of `cells` that arrive.
fn taken(cells: u64) -> Result<u64, String> {
    let mut card = card(Config::default(), control::RECEIVE_ENABLE)?;
    let cell = Cell::from_octets([0; CELL_BYTES]);
    (0..cells).for_each(|at| card.receive(at * 2_736, cell.octets()));
    Ok(cells - card.counters().lost_overrun)
}

/// Cells that a transmit queue takes whose engine is off.
fn queued() -> Result<u64, String> {
    let mut card = card(Config::default(), 0)?;
    let whole = (0..).take_while(|_| write_cell(&mut card, 0).is_ok());
    Ok(whole.count() as u64)
}

fn queue_sizes(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| Ok(Judgement::numbers(claim, &[taken(1000)? as f64, queued()? as f64])))
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

fn queue_times(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| Ok(Judgement::numbers(claim, &[line_us(taken(1000)?)?, line_us(queued()?)?])))
}

fn burst(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let room = taken(1000)? as usize;
        let sizes = [room * DATA_BYTES, room * PAYLOAD_BYTES, 16 * 1024];
        let lost = |bytes: usize| {
            let cells = bytes.div_ceil(DATA_BYTES) as u64;
            Ok::<_, String>(cells - taken(cells)?)
        };
        let (fits, more, whole) = (lost(sizes[0])?, lost(sizes[0] + 1)?, lost(sizes[2])?);
        let got = format!(
            "a burst of {} octets loses {fits} cells, one octet more {more}, {} octets {whole}",
            sizes[0], sizes[2]
        );
        let holds = fits == 0 && more == 1 && whole > 0;
        Ok(Judgement::numbers(claim, &sizes.map(|size| size as f64))
            .and(Judgement::holds(holds, "16 KB overrun the queue, 12,848 octets do not", &got))
            .with_note(got))
    })
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

fn overrun(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let (room, longest) = (taken(1000)?, longest_wait()?);
        let kept = taken(room + 1)?;
        Ok(Judgement::numbers(claim, &[longest as f64]).and(Judgement::holds(
            kept == room,
            "a cell that arrives at a full queue is dropped",
            format!("{kept} of {} cells kept", room + 1),
        )))
    })
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

fn message_sizes(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let (cells, bytes) = longest_message(Format::Standard)?;
        let (_, changed) = longest_message(Format::FiveBit)?;
        let packet = cells_of(1092, Format::FiveBit)?.len();
        let got = format!("{changed} octets as changed; a packet of 1,092 takes {packet} cells");
        Ok(Judgement::numbers(claim, &[cells as f64, bytes as f64])
            .and(Judgement::holds(changed >= 1092 && packet == 25, "a 1 KB packet fits", &got))
            .with_note(got))
    })
}

fn windows(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        // The largest identifier that fits, by trying; a window is half of them.
        let window = |format: Format| {
            let fits = |&id: &u16| {
                let segment_type = SegmentType::Begin;
                SarHeader { segment_type, sequence: 0, message_id: id }.encode(format).is_ok()
            };
            (0..u16::MAX).take_while(fits).count() / 2
        };
        let got = [Format::Standard, Format::FiveBit].map(|format| window(format) as f64);
        Ok(Judgement::numbers(claim, &[got[0], got[1], taken(1000)? as f64]))
    })
}

fn numbering(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let first =
            SarHeader { segment_type: SegmentType::Continuation, sequence: 0, message_id: 1 };
        let format = Format::FiveBit;
        let word = first.encode(format).map_err(refuse)?;
        let next = SarHeader { sequence: 1, ..first }.encode(format).map_err(refuse)?;
        let step = next - word;
        let is_next = |at: u8| {
            let header = SarHeader::decode(word + u16::from(at) * step, format);
            header == SarHeader { sequence: at, ..first }
        };
        Ok(Judgement::numbers(claim, &[step.into()]).and(Judgement::holds(
            (0..25).all(is_next),
            "25 additions count 0 to 24 and change nothing else",
            "another header came out",
        )))
    })
}

/// Octets of filler in the cells of a message.
fn filler_of(bytes: usize) -> Result<(f64, f64), String> {
    let cells = cells_of(bytes, Format::FiveBit)?;
    let data: usize =
        cells.iter().map(|cell| usize::from(SarPdu::new(cell.payload()).length())).sum();
    Ok(((cells.len() * DATA_BYTES - data) as f64, (cells.len() * DATA_BYTES) as f64))
}

fn filler(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let mut shares = Vec::new();
        for bytes in [89, 1057] {
            let (filler, sent) = filler_of(bytes)?;
            shares.extend([100.0 * filler / bytes as f64, 100.0 * filler / sent]);
        }
        Ok(Judgement::numbers(claim, &shares))
    })
}
