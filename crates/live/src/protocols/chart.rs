//! A comparison as one picture: latency and throughput over the size of a request, and over the
//! number of clients.

use sockscope_render::chart::{Chart, ChartAxis, ChartPanel, Join, Series, Spread};
use sockscope_render::units::Quantity;

use super::{Comparison, ID, Row};

/// The chart of `comparison`: what has fewer than two values is left out.
pub fn chart(comparison: &Comparison) -> Chart {
    let plan = &comparison.plan;
    let mut panels = Vec::new();
    if let ([_, _, ..], [clients, ..]) = (&plan.message_bytes[..], &plan.clients[..]) {
        let words =
            if *clients == 1 { "one client".to_owned() } else { format!("{clients} clients") };
        let is_shown = |row: &Row| row.clients == *clients;
        panels.extend(panels_over(comparison, SIZES, &words, is_shown));
    }
    if plan.clients.len() > 1 {
        let scaled =
            if plan.clients_bytes.is_empty() { &plan.message_bytes } else { &plan.clients_bytes };
        for &bytes in scaled.iter().take(1) {
            let words = format!("requests of {}", Quantity::Bytes.words(bytes as f64));
            let is_shown = |row: &Row| row.message_bytes == bytes;
            panels.extend(panels_over(comparison, CLIENTS, &words, is_shown));
        }
    }
    Chart {
        title: "Calls over protocols of this machine".to_owned(),
        subtitle: "loopback, one process; a request of the size, a response of 20 B".to_owned(),
        panels,
        notes: comparison.notes.clone(),
        facts: format!(
            "sockscope: lab run {ID} --on live; the median of {} turns of {} ms",
            plan.repetitions,
            plan.slice.as_millis()
        ),
    }
}

/// What panels show along their x axis, and besides latency.
#[derive(Clone, Copy)]
struct Along {
    name: &'static str,
    quantity: Quantity,
    of: fn(&Row) -> usize,
    measure: Measure,
}

/// A result of a case.
#[derive(Clone, Copy)]
struct Measure {
    title: &'static str,
    name: &'static str,
    quantity: Quantity,
    of: fn(&Row) -> f64,
}

const SIZES: Along = Along {
    name: "request",
    quantity: Quantity::Bytes,
    of: |row| row.message_bytes,
    measure: Measure {
        title: "requests",
        name: "throughput",
        quantity: Quantity::BitRate,
        of: |row| row.throughput_bits_per_s().unwrap_or(f64::NAN),
    },
};
const CLIENTS: Along = Along {
    name: "clients",
    quantity: Quantity::Count,
    of: |row| row.clients,
    measure: Measure {
        title: "calls of all clients",
        name: "calls",
        quantity: Quantity::Rate,
        of: |row| row.outcome.as_ref().map_or(f64::NAN, |figures| figures.calls_per_s),
    },
};

/// Latency and another measure of the rows that are shown.
fn panels_over(
    comparison: &Comparison,
    along: Along,
    words: &str,
    is_shown: impl Fn(&Row) -> bool,
) -> [ChartPanel; 2] {
    let rows: Vec<&Row> = comparison.rows.iter().filter(|row| is_shown(row)).collect();
    let series = |value: fn(&Row) -> f64| {
        let of_protocol = |protocol: &super::Protocol| {
            let rows = rows.iter().filter(|row| row.protocol == *protocol);
            let points = rows.map(|row| ((along.of)(row) as f64, value(row)));
            Series { name: protocol.name().to_owned(), points: points.collect(), join: Join::Line }
        };
        comparison.plan.protocols.iter().map(of_protocol).collect()
    };
    let x = ChartAxis::new(along.name, along.quantity, Spread::Doubling);
    let y = |name: &str, quantity| ChartAxis::new(name, quantity, Spread::Log);
    [
        ChartPanel {
            title: format!("time of a call, median; {words}"),
            x: x.clone(),
            y: y("call", Quantity::Time),
            series: series(latency_ns),
        },
        ChartPanel {
            title: format!("{}; {words}", along.measure.title),
            x,
            y: y(along.measure.name, along.measure.quantity),
            series: series(along.measure.of),
        },
    ]
}

fn latency_ns(row: &Row) -> f64 {
    let median = row.outcome.as_ref().ok().and_then(|figures| figures.call_ns.percentile_ns(50));
    median.map_or(f64::NAN, |ns| ns as f64)
}

#[cfg(test)]
mod tests {
    use super::super::{Figures, Plan, Protocol};
    use super::*;
    use crate::conditions::{Conditions, Others, Rule};
    use sockscope_experiment::measurement::Distribution;

    fn comparison(clients: &[usize]) -> Comparison {
        let plan = Plan {
            protocols: vec![Protocol::Tcp, Protocol::Udp],
            message_bytes: vec![64, 1 << 20],
            clients: clients.to_vec(),
            clients_bytes: vec![64],
            ..Plan::default()
        };
        let mut rows = Vec::new();
        for &protocol in &plan.protocols {
            for (message_bytes, clients) in super::super::compare::cases(&plan) {
                let mut call_ns = Distribution::default();
                call_ns.extend([10_000 * clients as u64]);
                let figures = Figures {
                    call_ns,
                    calls: 1,
                    calls_per_s: 100.0,
                    turns_per_s: vec![100.0],
                    ledger: None,
                    recorded_ratio: None,
                };
                let is_carried = protocol == Protocol::Tcp || message_bytes == 64;
                let outcome = if is_carried { Ok(figures) } else { Err("too long".to_owned()) };
                rows.push(Row { protocol, message_bytes, clients, outcome });
            }
        }
        let conditions = Conditions::of(Others::default(), Rule::default(), Vec::new());
        Comparison { plan, rows, notes: Vec::new(), conditions }
    }

    #[test]
    fn sizes_and_clients_have_two_panels_each_and_what_was_refused_is_a_gap() {
        let chart = chart(&comparison(&[1, 8]));
        let titles: Vec<&str> = chart.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "time of a call, median; one client",
                "requests; one client",
                "time of a call, median; requests of 64 B",
                "calls of all clients; requests of 64 B",
            ]
        );
        let points = |panel: usize, series: usize| &chart.panels[panel].series[series].points[..];
        assert_eq!(points(0, 0), [(64.0, 10_000.0), (1_048_576.0, 10_000.0)]);
        assert!(points(0, 1)[1].1.is_nan());
        assert_eq!(points(2, 0), [(1.0, 10_000.0), (8.0, 80_000.0)]);
    }

    #[test]
    fn one_number_of_clients_is_no_axis() {
        assert_eq!(chart(&comparison(&[2])).panels.len(), 2);
    }
}
