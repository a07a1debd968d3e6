//! A comparison as one picture: a panel for each carrier, a line for each combination.

use sockscope_render::chart::{Chart, ChartAxis, ChartPanel, Join, Series, Spread};
use sockscope_render::units::Quantity;

use super::ID;
use super::case::Combination;
use super::measure::{Measured, Row};

/// The CPU time of one loop, in hundredths of that of separate passes, over the size of messages.
pub fn chart(measured: &Measured) -> Chart {
    let plan = &measured.plan;
    let panels = plan.carriers.iter().map(|carrier| {
        let line = |combination: Combination| {
            let rows = measured.rows.iter();
            let rows = rows.filter(|row| row.carrier == *carrier && row.combination == combination);
            let point = |row: &Row| {
                Some((row.data_bytes as f64, 100.0 / row.outcome.as_ref().ok()?.ratio()))
            };
            let points = rows.filter_map(point).collect();
            Series { name: combination.name().to_owned(), points, join: Join::Line }
        };
        ChartPanel {
            title: format!("{}: CPU time of one loop, of that of separate passes", carrier.name()),
            x: ChartAxis::new("data", Quantity::Bytes, Spread::Doubling),
            y: ChartAxis::new("one loop", Quantity::Percent, Spread::Linear),
            series: Combination::ALL.map(line).into(),
        }
    });
    Chart {
        title: "Functions over data in one loop, and one after the other".to_owned(),
        subtitle: "this machine; work of both ends, with the kernel's for their sockets".to_owned(),
        panels: panels.collect(),
        notes: vec![
            "The table says which of these differences are larger than those of two equal forms."
                .to_owned(),
        ],
        facts: format!("sockscope: lab run {ID} --on live; {} turns", plan.turns),
    }
}
