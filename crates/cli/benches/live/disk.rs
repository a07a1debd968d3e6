//! From the kernel to disk on one core: a BPF program appends bursts to the recorder's list, which
//! decodes them and appends to a bundle.

use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use sockscope_probe::Options;
use sockscope_record::ConnectionId;

use crate::bundle::Recording;
use crate::statistics::Median;
use crate::table::{judged, row};
use crate::{Failure, Plan};

/// Segments that the program appends in one run, and runs before the recorder looks.
const BURST: u32 = 4096;
const BURSTS: u32 = 2;
const SEGMENT_BYTES: u32 = 1448;
/// A segment handed to the driver stands for points 2, 3 and 4.
const RECORDS_OF_SEGMENT: u64 = 3;

pub fn run(plan: &Plan) -> Result<(), Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let _client = TcpStream::connect(listener.local_addr()?)?;
    let _server = listener.accept()?;
    let port = listener.local_addr()?.port();
    let mut rates = Vec::new();
    for _ in 0..plan.rounds {
        rates.push(round(plan, port)? / 1e6);
    }
    let hits = Median::of(rates.clone());
    let records = Median::of(rates.iter().map(|hits| hits * RECORDS_OF_SEGMENT as f64).collect());
    println!(
        "kernel to disk on one core: {} segments a round, {} rounds, median (95 % interval)",
        plan.segments, plan.rounds
    );
    row("probe hits, none missed", &format!("{} million/s", hits.text(2)), None);
    row(
        "records in the bundle",
        &format!("{} million/s", records.text(2)),
        Some(judged("at least 5", records.is_at_least(5.0))),
    );
    Ok(())
}

/// Hits a second, with the programs that make them, the recorder and the file on this CPU.
fn round(plan: &Plan, port: u16) -> Result<f64, Failure> {
    let dir = plan.folder.join("bench.sockscope");
    let mut recording = Recording::start(dir, vec![port], Options::default())?;
    recording.recorder.take(&mut recording.sink)?;
    let connection = recording.sink.connections.first().ok_or("the connection was not joined")?.id;
    let before = recording.recorder.records();
    let mut seq = 0;
    let mut hits = 0;
    let start = Instant::now();
    while hits < plan.segments {
        hits += burst(&recording, connection, &mut seq)?;
        recording.recorder.take(&mut recording.sink)?;
    }
    recording.sink.writer.flush()?;
    let rate = hits as f64 / start.elapsed().as_secs_f64();
    let records = recording.recorder.records() - before;
    let missed = recording.recorder.missed().total();
    recording.finish()?;
    if missed > 0 || records < hits * RECORDS_OF_SEGMENT {
        return Err(format!("{hits} hits gave {records} records, {missed} missed").into());
    }
    Ok(rate)
}

fn burst(recording: &Recording, connection: ConnectionId, seq: &mut u32) -> Result<u64, Failure> {
    for _ in 0..BURSTS {
        let made = recording.recorder.produce(BURST, connection, *seq);
        if made < BURST {
            return Err(format!("{made} of {BURST} records found room").into());
        }
        *seq = seq.wrapping_add(BURST * SEGMENT_BYTES);
    }
    Ok(u64::from(BURST * BURSTS))
}
