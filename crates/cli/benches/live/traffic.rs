//! What recording costs the traffic: ratios within one running transfer.

use crate::slices::{Condition, Cost, plain, under};
use crate::statistics::Median;
use crate::table::{judged, row};
use crate::transfer::{Load, Transfer};
use crate::{Failure, Plan, costs};

/// Rates as shares of the unrecorded rate right before and after; one row for each round.
struct Ratios {
    rows: Vec<[Option<f64>; Condition::ALL.len()]>,
    plain: Vec<f64>,
    costs: Vec<Cost>,
}

pub fn run(load: Load, plan: &Plan) -> Result<(), Failure> {
    let transfer = Transfer::start(load, plan.traffic_cpu)?;
    let ratios = measure(&transfer, plan)?;
    print(load, &ratios, plan);
    println!();
    costs::run(load, &transfer, plan)
}

/// A judged ratio's interval is this wide at most before a measurement ends early.
const WIDTH_MAX: f64 = 0.01;

/// In each round every condition has one slice, in a new order; between any two of them, and at
/// both ends, nothing is switched on for one slice. On an unsteady machine more rounds follow, of
/// what is judged. When to end depends on the intervals' width alone: on what they hold would favour
/// an answer.
fn measure(transfer: &Transfer, plan: &Plan) -> Result<Ratios, Failure> {
    let mut ratios = Ratios { rows: Vec::new(), plain: Vec::new(), costs: Vec::new() };
    let mut order = Order(0x5350);
    let mut before = plain(transfer, plan);
    while ratios.rows.len() < plan.pairs_max {
        let wanted = ratios.wanted(plan);
        if wanted.is_empty() {
            break;
        }
        let mut row = [None; Condition::ALL.len()];
        for condition in order.shuffled().into_iter().filter(|one| wanted.contains(one)) {
            let (rate, cost) = under(condition, transfer, plan)?;
            let after = plain(transfer, plan);
            row[condition as usize] = rate.map(|rate| rate / f64::midpoint(before, after));
            ratios.costs.extend(cost);
            ratios.plain.push(after);
            before = after;
        }
        ratios.rows.push(row);
    }
    Ok(ratios)
}

impl Ratios {
    fn of(&self, condition: Condition) -> Option<Median> {
        self.map(|row| row[condition as usize])
    }

    fn of_not_logged(&self) -> Option<Median> {
        self.between(Condition::OtherPort, Condition::Empty)
    }

    /// What the next round measures: at first everything, then what a judged ratio still lacks.
    fn wanted(&self, plan: &Plan) -> Vec<Condition> {
        if self.rows.len() < plan.pairs {
            return Condition::ALL.to_vec();
        }
        let is_wide = |ratio: Option<Median>| ratio.is_none_or(|ratio| ratio.width() > WIDTH_MAX);
        let mut wanted = Vec::new();
        if is_wide(self.of(Condition::Recorded)) {
            wanted.push(Condition::Recorded);
        }
        if is_wide(self.of_not_logged()) {
            wanted.extend([Condition::Empty, Condition::OtherPort]);
        }
        if is_wide(self.of(Condition::Forced)) {
            wanted.push(Condition::Forced);
        }
        wanted
    }

    /// Of one condition to another of the same round.
    fn between(&self, one: Condition, other: Condition) -> Option<Median> {
        self.map(|row| Some(row[one as usize]? / row[other as usize]?))
    }

    fn map(
        &self,
        value: impl Fn(&[Option<f64>; Condition::ALL.len()]) -> Option<f64>,
    ) -> Option<Median> {
        let values: Vec<f64> = self.rows.iter().filter_map(value).collect();
        (!values.is_empty()).then(|| Median::of(values))
    }
}

fn print(load: Load, ratios: &Ratios, plan: &Plan) {
    let (unit, bytes) = match load {
        Load::Calls => ("thousand calls/s", 1e5),
        Load::Bulk => ("million bytes/s", 1e6),
    };
    let plain = Median::of(ratios.plain.iter().map(|rate| rate / bytes).collect());
    println!(
        "{}: rate as a share of the unrecorded, {} pairs of {} ms, up to {} of what is judged, \
         median (95 % interval)",
        load.name(),
        plan.pairs,
        plan.slice.as_millis(),
        ratios.rows.len()
    );
    row("unrecorded", &format!("{} {unit}", plain.text(0)), None);
    for condition in Condition::ALL {
        let target = match (condition, load) {
            (Condition::Recorded, Load::Calls) => Some(0.88),
            (Condition::Recorded, Load::Bulk) => Some(0.90),
            (Condition::Forced, _) => Some(0.99),
            _ => None,
        };
        ratio(condition.name(), ratios.of(condition), target);
    }
    let not_logged = "other traffic logged : empty programs";
    ratio(not_logged, ratios.of_not_logged(), Some(0.97));
    let tcpdump = ratios.between(Condition::Recorded, Condition::Tcpdump);
    ratio("recorded : tcpdump", tcpdump, Some(1.0));
    let of_costs = |value: fn(&Cost) -> f64| Median::of(ratios.costs.iter().map(value).collect());
    row("CPUs of the recorder's threads", &of_costs(|cost| cost.thread_cpus).text(2), None);
    let records = of_costs(|cost| cost.records_per_s / 1e6);
    row("records", &format!("{} million/s", records.text(2)), None);
    let missed: u64 = ratios.costs.iter().map(|cost| cost.missed).sum();
    row("records missed in all slices", &missed.to_string(), None);
    let partly = ratios.costs.iter().filter(|cost| !cost.is_whole).count();
    row("slices left out, not wholly recorded", &partly.to_string(), None);
}

fn ratio(name: &str, median: Option<Median>, target: Option<f64>) {
    let text = median.map_or_else(|| "not installed".to_owned(), |median| median.text(3));
    let verdict = median.zip(target).map(|(median, target)| {
        judged(&format!("at least {target:.2}"), median.is_at_least(target))
    });
    row(name, &text, verdict);
}

/// Pseudo-random orders, the same in every run (Marsaglia, Xorshift RNGs, 2003).
struct Order(u64);

impl Order {
    fn shuffled(&mut self) -> [Condition; Condition::ALL.len()] {
        let mut order = Condition::ALL;
        for last in (1..order.len()).rev() {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            order.swap(last, (self.0 % (last as u64 + 1)) as usize);
        }
        order
    }
}
