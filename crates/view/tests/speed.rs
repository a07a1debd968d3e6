//! The time that the server of the page takes for any view of a large trace.
//!
//! The long form, `scripts/soak view`, has 10 million records on one connection, and bounds the times. They are times of
//! CPUs, so that other programs do not count.

mod calls;

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use sockscope_analysis::{Analyzer, LedgerPart, TraceFacts};
use sockscope_report::Origin;
use sockscope_view::page::{
    self, Answer, ByteAsked, FigureAsked, ListAsked, PartAsked, RECORDS_MAX, Trace,
};

use calls::Calls;

/// As the page asks for them.
const COLUMNS: u32 = 2_000;
const CURVES: &str = "point1,point2,point3,point4,point5,point6,point7,point8,acknowledged,window,send_queue,\
                      tcp_output,interface_queue,wire,input_queue,tcp_input,receive_queue";
const ZOOMS: usize = 1_000;
/// Bounds of the long form.
const ZOOM_MAX: Duration = Duration::from_millis(200);
const FIRST_MAX: Duration = Duration::from_secs(2);

fn trace(records: u64) -> Trace {
    let mut calls = Calls { connections: 1, call: 0 };
    let mut analyzer = Analyzer::new();
    calls.describe(|one| analyzer.connection(one));
    let (mut batch, mut taken) = (Vec::new(), 0);
    while taken < records {
        batch.clear();
        for _ in 0..1_000 {
            calls.next(&mut batch);
        }
        analyzer.push(&batch);
        taken += batch.len() as u64;
    }
    let threads = NonZeroUsize::new(2).unwrap();
    let (analysis, stores) = analyzer.finish_keeping(TraceFacts::default(), threads);
    Trace::whole("calls".to_owned(), Origin::default(), analysis, stores)
}

/// The time of the CPUs for this process: other programs on them do not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// All questions of one view; the bytes of the answers.
fn view(trace: &Trace, from: f64, to: f64) -> Vec<Answer> {
    let columns = COLUMNS;
    let figure = |names: &str| FigureAsked { flow: 2, from, to, columns, names: names.to_owned() };
    let places: Vec<_> = LedgerPart::ALL.iter().map(|part| part.name()).collect();
    let part = PartAsked { flow: 2, from, to, columns };
    vec![
        page::curves(trace, &figure(CURVES)).unwrap(),
        page::ledger(trace, &figure(&places.join(","))).unwrap(),
        page::marks(trace, &part).unwrap(),
        page::records(trace, &part).unwrap(),
        page::byte(trace, ByteAsked { flow: 2, position: (from / 1e4) as u64 }).unwrap(),
    ]
}

/// A sequence of numbers from 0 to 1 that is the same in each run (the generator of Numerical Recipes, 64 bits).
fn random(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn any_zoom_of_a_large_trace_is_answered() {
    let is_soak = std::env::var("SOCKSCOPE_SOAK").is_ok_and(|form| form == "full");
    let records: u64 = if is_soak { 10_000_000 } else { 100_000 };
    let zooms = if is_soak { ZOOMS } else { ZOOMS / 20 };
    let trace = trace(records);
    let length = trace.analysis().duration_ns as f64;

    let (begun, begun_at) = (cpu_time(), Instant::now());
    page::overview(&trace, &ListAsked::default());
    let overview = cpu_time() - begun;
    // As the page does: all of the flow of the first connection, nothing made before.
    view(&trace, 0.0, length);
    let (first, first_lasted) = (cpu_time() - begun, begun_at.elapsed());

    let (mut seed, mut with_records) = (7, 0);
    let (mut times, mut lasted) = (Vec::with_capacity(zooms), Vec::with_capacity(zooms));
    for _ in 0..zooms {
        // Widths from all of it to a microsecond, as many of each order of magnitude.
        let width = length * (1e3 / length).powf(random(&mut seed));
        let from = (length - width) * random(&mut seed);
        let (begun, begun_at) = (cpu_time(), Instant::now());
        let answers = view(&trace, from, from + width);
        times.push(cpu_time() - begun);
        lasted.push(begun_at.elapsed());
        let floats = (1 + 3 * CURVES.split(',').count()) * COLUMNS as usize;
        assert_eq!(answers[0].bytes().len(), floats * 8);
        let listed = String::from_utf8_lossy(answers[3].bytes()).matches("\"line\"").count();
        assert!(listed <= RECORDS_MAX);
        with_records += usize::from(listed > 0);
    }
    times.sort();
    lasted.sort();
    let p99_at = times.len() * 99 / 100;
    let p99 = times[p99_at];
    println!(
        "{records} records: overview {overview:?}, first picture {first:?}; {zooms} zooms: median {:?}, p99 {p99:?}, \
         longest {:?}; {with_records} with their records",
        times[times.len() / 2],
        times[times.len() - 1],
    );
    println!("with the work of others: first picture {first_lasted:?}, p99 {:?}", lasted[p99_at]);
    assert!(with_records > 0 && with_records < zooms);
    if is_soak {
        assert!(p99 < ZOOM_MAX, "p99 of a zoom: {p99:?}");
        assert!(first < FIRST_MAX, "first picture: {first:?}");
    }
}
