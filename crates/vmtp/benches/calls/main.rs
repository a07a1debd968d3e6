//! Calls over VMTP on UDP next to calls over bare UDP, TCP and QUIC, on loopback.
//!
//! `cargo bench -p sockscope-vmtp [-- --quick]`. The client's thread has the first CPU, every server's
//! the second. Each kind has one server that runs all the time. In each round every kind has one slice
//! of calls, with a slice of the plain kind between any two; a ratio is that of a slice's time of a call to the
//! mean of the two plain slices next to it. A slice's time is the median over its pieces, so that a piece in which
//! another program had the CPU does not count. The control is the plain kind measured like the others. Values
//! are medians over rounds, with the interval that holds the median with 95 % or more (order
//! statistics: W. J. Conover, Practical Nonparametric Statistics, 3rd edition, §3.2).

mod ends;
mod quic;

use std::time::Instant;

use ends::{Call, Tcp, Udp, Vmtp, pin};
use quic::Quic;

/// Calls that are timed together.
const PIECE: u32 = 10;
const PIECES: usize = 40;
const PAGE: usize = 16_384;

fn main() {
    let quick = std::env::args().any(|word| word == "--quick");
    let rounds = if quick { 5 } else { 200 };
    pin(0);
    println!(
        "32 octets there and back: time of a call as a multiple of bare UDP's, {rounds} rounds"
    );
    let mut kinds: Vec<Kind> = vec![
        Kind::new("nothing (A/A control)", Udp::start(32)),
        Kind::new("VMTP on UDP", Vmtp::start(32, 32)),
        Kind::new("QUIC (quinn)", Quic::start(32)),
    ];
    let small = compare(&mut Kind::new("bare UDP", Udp::start(32)), &mut kinds, rounds);
    print_judged(&small[1], "at most 1.25", small[1].ratio.middle <= 1.25);
    print_judged(&small[2], "above VMTP", small[2].ratio.low > small[1].ratio.high);

    println!("16,384 octets there and back: rate of calls as a multiple of TCP's, {rounds} rounds");
    page_calls(PAGE, rounds);
    println!("32 octets there, 16,384 back: rate of calls as a multiple of TCP's, {rounds} rounds");
    page_calls(32, rounds);
}

fn page_calls(request: usize, rounds: usize) {
    let mut kinds: Vec<Kind> = vec![
        Kind::new("nothing (A/A control)", Tcp::start(request, PAGE)),
        Kind::new("VMTP on UDP", Vmtp::start(request, PAGE)),
    ];
    let plain = &mut Kind::new("TCP", Tcp::start(request, PAGE));
    let pages: Vec<_> =
        compare(plain, &mut kinds, rounds).into_iter().map(Compared::into_rate).collect();
    print_judged(&pages[1], "at least 0.8", pages[1].ratio.middle >= 0.8);
}

/// Something to be measured.
struct Kind {
    name: &'static str,
    call: Box<dyn Call>,
}

impl Kind {
    fn new(name: &'static str, call: impl Call + 'static) -> Self {
        Self { name, call: Box::new(call) }
    }

    /// Median time of a call in a slice, in nanoseconds.
    fn slice_ns(&mut self) -> f64 {
        let mut pieces: Vec<f64> = (0..PIECES)
            .map(|_| {
                let start = Instant::now();
                (0..PIECE).for_each(|_| self.call.call());
                start.elapsed().as_nanos() as f64 / f64::from(PIECE)
            })
            .collect();
        pieces.sort_by(f64::total_cmp);
        pieces[PIECES / 2]
    }
}

/// A kind next to the plain one.
struct Compared {
    name: &'static str,
    call_ns: f64,
    ratio: Median,
}

impl Compared {
    fn into_rate(self) -> Self {
        let Median { low, middle, high } = self.ratio;
        let ratio = Median { low: 1.0 / high, middle: 1.0 / middle, high: 1.0 / low };
        Self { ratio, ..self }
    }
}

/// A median and the interval that holds it.
#[derive(Clone, Copy)]
struct Median {
    low: f64,
    middle: f64,
    high: f64,
}

impl Median {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        // Ranks of the 95 % interval: n/2 - 1.96·√n/2, rounded outward.
        let rank = (count / 2.0 - 0.98 * count.sqrt()).floor().max(1.0) as usize;
        let [low, high] = [rank - 1, values.len() - rank].map(|at| values[at]);
        Self { low, middle: values[values.len() / 2], high }
    }
}

/// Measures all alternately and prints times.
fn compare(plain: &mut Kind, kinds: &mut [Kind], rounds: usize) -> Vec<Compared> {
    // Round trips of the protocols are learnt first.
    std::iter::once(&mut *plain).chain(&mut *kinds).for_each(|kind| {
        kind.slice_ns();
    });
    let (mut times, mut ratios) = (vec![Vec::new(); kinds.len()], vec![Vec::new(); kinds.len()]);
    let mut plain_ns = vec![plain.slice_ns()];
    for round in 0..rounds {
        for turn in 0..kinds.len() {
            let at = (turn + round) % kinds.len();
            let before_ns = plain_ns[plain_ns.len() - 1];
            let slice_ns = kinds[at].slice_ns();
            let after_ns = plain.slice_ns();
            times[at].push(slice_ns);
            ratios[at].push(slice_ns * 2.0 / (before_ns + after_ns));
            plain_ns.push(after_ns);
        }
    }
    let plain_ns = Median::of(plain_ns);
    println!(
        "  {:24} {:8.2} µs ({:.2} to {:.2})",
        plain.name,
        plain_ns.middle / 1e3,
        plain_ns.low / 1e3,
        plain_ns.high / 1e3
    );
    let named = kinds.iter().zip(times.into_iter().zip(ratios));
    let compared: Vec<_> = named
        .map(|(kind, (times, ratios))| Compared {
            name: kind.name,
            call_ns: Median::of(times).middle,
            ratio: Median::of(ratios),
        })
        .collect();
    let Median { low, middle, high } = compared[0].ratio;
    println!("  {:24} {middle:8.3} ({low:.3} to {high:.3})", compared[0].name);
    compared
}

fn print_judged(compared: &Compared, goal: &str, is_reached: bool) {
    let Median { low, middle, high } = compared.ratio;
    let judged = if is_reached { "reached" } else { "missed" };
    println!(
        "  {:24} {middle:8.3} ({low:.3} to {high:.3}), {:.2} µs a call; {goal}: {judged}",
        compared.name,
        compared.call_ns / 1e3
    );
}
