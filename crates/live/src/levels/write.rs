//! A measurement of levels as a table, and as JSON (schema `sockscope.levels/1`).

use std::io;

use serde_json::{Value, json};
use sockscope_link::Topology;
use sockscope_render::units::Quantity;

use super::figures::{Figures, Measured, Row};
use super::plan::Plan;
use crate::conditions::Conditions;

/// Writes a table: a line for each level.
///
/// # Errors
///
/// When `out` fails.
pub fn write_text(measured: &Measured, out: &mut dyn io::Write) -> io::Result<()> {
    let plan = &measured.plan;
    writeln!(
        out,
        "levels: {} messages of {} bytes at each level, one every {}, {}\n",
        plan.messages,
        plan.message_bytes,
        time(plan.every.as_nanos() as u64),
        network(plan)
    )?;
    writeln!(
        out,
        "{:<12} {:<18} {:<10} {:>9} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "",
        "",
        "",
        "",
        "",
        "out of",
        "p50",
        "p99",
        "until",
        "packets",
        "octets",
        "CPU send",
        "receive"
    )?;
    writeln!(
        out,
        "{:<12} {:<18} {:<10} {:>9} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "level",
        "model",
        "on loss",
        "delivered",
        "lost",
        "order",
        "latency",
        "latency",
        "the last",
        "/message",
        "/message",
        "/message",
        "/message"
    )?;
    for row in &measured.rows {
        write_row(row, out)?;
    }
    writeln!(out)?;
    if measured.rows.iter().any(|row| row.is_control) {
        writeln!(out, "The last line is a control: the same level, measured once more.")?;
    }
    let Conditions { machine, others, .. } = &measured.conditions;
    writeln!(out, "machine: {}; meanwhile {}", machine.words(), others.words())
}

/// The network in words.
fn network(plan: &Plan) -> String {
    if plan.topology == Topology::Loopback {
        return "over loopback".to_owned();
    }
    let [to, back] = plan.settings.each_ref().map(ToString::to_string);
    let settings = if to == back { to } else { format!("to receivers {to}; back {back}") };
    format!("over a link, seed {}; {settings}", plan.seed)
}

fn time(ns: u64) -> String {
    Quantity::Time.words(ns as f64)
}

fn write_row(row: &Row, out: &mut dyn io::Write) -> io::Result<()> {
    let (name, model, on_loss) = (row.level.name(), row.level.model(), row.level.on_loss());
    write!(out, "{name:<12} {model:<18} {on_loss:<10} ")?;
    let figures = match &row.outcome {
        Ok(figures) => figures,
        Err(reason) => return writeln!(out, "no figures: {reason}"),
    };
    let latency = |percent| figures.latency_ns.percentile_ns(percent).map_or("?".to_owned(), time);
    let cpu = |ns: u64| time(figures.by_message(ns) as u64);
    write!(
        out,
        "{:>9} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8.2} {:>8.0} {:>9} {:>9}",
        figures.delivered,
        figures.lost(),
        figures.out_of_order,
        latency(50),
        latency(99),
        time(figures.elapsed_ns),
        figures.by_message(figures.packets),
        figures.by_message(figures.octets),
        cpu(figures.sender_cpu_ns),
        cpu(figures.receiver_cpu_ns)
    )?;
    let faults = [(figures.repeated, "delivered twice"), (figures.damaged, "damaged")];
    for (count, what) in faults.into_iter().filter(|(count, _)| *count > 0) {
        write!(out, "  {count} {what}")?;
    }
    writeln!(out)
}

/// Writes one document.
///
/// # Errors
///
/// When `out` fails.
pub fn write_json(measured: &Measured, out: &mut dyn io::Write) -> io::Result<()> {
    let plan = &measured.plan;
    let has_link = plan.topology == Topology::Link;
    let settings = |index: usize| has_link.then(|| plan.settings[index].to_string());
    let document = json!({
        "schema": "sockscope.levels/1",
        "messages": plan.messages,
        "message_bytes": plan.message_bytes,
        "every_ns": plan.every.as_nanos() as u64,
        "members": plan.members,
        "block": { "messages": plan.block.0, "parity": plan.block.1 },
        "window": plan.window,
        "network": {
            "topology": plan.topology.to_string(),
            "to_receivers": settings(0),
            "back": settings(1),
            "seed": has_link.then_some(plan.seed),
            "mtu_bytes": has_link.then_some(plan.mtu),
        },
        "levels": measured.rows.iter().map(row_json).collect::<Vec<_>>(),
        "conditions": measured.conditions,
    });
    writeln!(out, "{document:#}")
}

fn row_json(row: &Row) -> Value {
    let figures = row.outcome.as_ref().ok().map(figures_json);
    json!({
        "level": row.level.name(),
        "model": row.level.model(),
        "on_loss": row.level.on_loss(),
        "keeps_order": row.level.keeps_order(),
        "control": row.is_control,
        "figures": figures,
        "error": row.outcome.as_ref().err(),
    })
}

fn figures_json(figures: &Figures) -> Value {
    let latency = |percent| figures.latency_ns.percentile_ns(percent);
    json!({
        "sent": figures.sent,
        "expected": figures.expected,
        "delivered": figures.delivered,
        "lost": figures.lost(),
        "repeated": figures.repeated,
        "damaged": figures.damaged,
        "out_of_order": figures.out_of_order,
        "elapsed_ns": figures.elapsed_ns,
        "latency_ns": { "p50": latency(50), "p90": latency(90), "p99": latency(99) },
        "packets": figures.packets,
        "octets": figures.octets,
        "sender_cpu_ns": figures.sender_cpu_ns,
        "receiver_cpu_ns": figures.receiver_cpu_ns,
        "dropped_packets": figures.dropped,
    })
}
