//! A comparison as one picture: the time of a call, and the data that it moves, over its size.

use sockscope_render::chart::{Chart, ChartAxis, ChartPanel, Join, Series, Spread};
use sockscope_render::units::Quantity;

use super::write::LEFT_OUT;
use super::{Comparison, ID, Modelled};

const TITLE: &str = "An echo call through layers and by one integrated path";

/// One line of a panel: a name, and nanoseconds by bytes of data.
type Line = (String, Vec<(usize, u64)>);

/// The chart of what was measured on this machine.
pub fn chart(comparison: &Comparison) -> Chart {
    let mut lines: Vec<Line> = Vec::new();
    for row in &comparison.rows {
        let ns = row.call_ns.percentile_ns(50).unwrap_or(0);
        add(&mut lines, row.form, (row.data_bytes, ns));
    }
    let plan = &comparison.plan;
    Chart {
        title: TITLE.to_owned(),
        subtitle: "this machine; work of both ends there and back, without network".to_owned(),
        panels: panels(&lines, "CPU time of a call, median of turns"),
        notes: Vec::new(),
        facts: format!(
            "sockscope: lab run {ID} --on live; {} turns of {} ms",
            plan.turns,
            plan.turn.as_millis()
        ),
    }
}

/// The chart of what a model gave. No table says what a loop costs that copies and sums: the path has
/// two bounds.
pub fn model_chart(modelled: &Modelled) -> Chart {
    let mut lines: Vec<Line> = Vec::new();
    for row in &modelled.rows {
        if row.cpu_ns_min == row.cpu_ns_max {
            add(&mut lines, row.form, (row.data_bytes, row.cpu_ns_min));
        } else {
            add(&mut lines, &format!("{}, at least", row.form), (row.data_bytes, row.cpu_ns_min));
            add(&mut lines, &format!("{}, at most", row.form), (row.data_bytes, row.cpu_ns_max));
        }
    }
    Chart {
        title: TITLE.to_owned(),
        subtitle: format!("{}: CPU of both ends, there and back", modelled.machine),
        panels: panels(&lines, "CPU time of a call"),
        notes: vec![LEFT_OUT.to_owned()],
        facts: format!("sockscope: lab run {ID} --set machine={}", modelled.machine),
    }
}

fn add(lines: &mut Vec<Line>, name: &str, point: (usize, u64)) {
    match lines.iter_mut().find(|line| line.0 == name) {
        Some(line) => line.1.push(point),
        None => lines.push((name.to_owned(), vec![point])),
    }
}

/// Time, and data moved in that time, both ways counted. What has no logarithm is left out.
fn panels(lines: &[Line], title: &str) -> Vec<ChartPanel> {
    let series = |value: fn(f64, f64) -> f64| {
        let line = |(name, points): &Line| {
            let points = points.iter().filter(|&&(bytes, ns)| bytes > 0 && ns > 0);
            let points = points.map(|&(bytes, ns)| (bytes as f64, value(bytes as f64, ns as f64)));
            Series { name: name.clone(), points: points.collect(), join: Join::Line }
        };
        lines.iter().map(line).collect::<Vec<_>>()
    };
    let x = ChartAxis::new("data", Quantity::Bytes, Spread::Doubling);
    let y = |name: &str, quantity| ChartAxis::new(name, quantity, Spread::Log);
    vec![
        ChartPanel {
            title: title.to_owned(),
            x: x.clone(),
            y: y("call", Quantity::Time),
            series: series(|_, ns| ns),
        },
        ChartPanel {
            title: "data, both ways, by that time".to_owned(),
            x,
            y: y("throughput", Quantity::BitRate),
            series: series(|bytes, ns| 2.0 * bytes * 8e9 / ns),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrated::{ModelPlan, Plan, compare, model};

    #[test]
    fn every_form_has_a_line_and_a_path_of_two_bounds_has_two() {
        let names = |chart: &Chart| {
            let series = chart.panels[0].series.iter();
            series.map(|it| format!("{} {}", it.name, it.points.len())).collect::<Vec<_>>()
        };
        let plan = ModelPlan { data_bytes: vec![0, 64, 4800], ..ModelPlan::default() };
        let modelled = names(&model_chart(&model(&plan).unwrap()));
        assert_eq!(modelled, ["layered 2", "integrated, at least 2", "integrated, at most 2"]);
        let turn = std::time::Duration::ZERO;
        let plan = Plan { data_bytes: vec![64, 4800], turns: 1, turn };
        assert_eq!(names(&chart(&compare(plan))), ["layered 2", "integrated 2"]);
    }
}
