//! One line each: acknowledgments, the program's calls, bursts, exchanges, buffers.

use std::cmp::Reverse;
use std::io;

use sockscope_analysis::{
    AckDelayCause, BufferGrant, Distribution, DropCount, ExchangeSummary, FlowAnalysis, Ledger,
    LedgerPart, TransactionSummary,
};
use sockscope_render::number::{bound, count, percent_of, rounded, size};
use sockscope_render::style::Tone;

use super::page::{INDENT, Page};
use crate::order::place_name;
use crate::times::Times;

/// The writes, sends, acknowledgments and reads of the data.
pub(super) fn write_flow(flow: &FlowAnalysis, is_tcp: bool, page: &mut Page<'_>) -> io::Result<()> {
    if let Some(writes) = &flow.write_bytes {
        page.labelled("writes", &sizes(writes, writes.max, flow.at_least.writes), Tone::Plain)?;
    }
    if let Some(reads) = &flow.read_bytes {
        let about = if flow.reads_are_guessed { "about " } else { "" };
        let least_max = if flow.reads_are_guessed { reads.min } else { reads.max };
        let sure_max = flow.read_copy_bytes_max.unwrap_or(least_max);
        let text = bound(about.to_owned() + &sizes(reads, sure_max, false), flow.at_least.reads);
        page.labelled("reads", &text, Tone::Plain)?;
    }
    if flow.bursts.count > 0 {
        page.labelled("bursts", &bursts(flow, page), Tone::Plain)?;
    }
    if is_tcp {
        page.labelled("acks", &acks(flow, page), Tone::Plain)?;
    }
    if !flow.drops.is_empty() {
        page.labelled("drops", &drops(flow), Tone::Plain)?;
    }
    Ok(())
}

/// As `25 by the kernel, with 1.31 MiB: NETFILTER_DROP (25)`.
fn drops(flow: &FlowAnalysis) -> String {
    let drops = &flow.drops;
    let all: u64 = drops.iter().map(|one| one.count).sum();
    let bytes: u64 = drops.iter().map(|one| one.bytes).sum();
    let with = if bytes > 0 { format!("with {}", size(bytes)) } else { "without data".to_owned() };
    let reason = |one: &DropCount| format!("{} ({})", drop_reason(one), count(one.count));
    let reasons: Vec<_> = drops.iter().map(reason).collect();
    let all = bound(count(all), flow.at_least.drops);
    format!("{all} by the kernel, {with}: {}", reasons.join(", "))
}

/// The kernel's name of it, or `reason 77`.
pub(super) fn drop_reason(drops: &DropCount) -> String {
    let is_number = drops.reason.starts_with(|first: char| first.is_ascii_digit());
    format!("{}{}", if is_number { "reason " } else { "" }, drops.reason)
}

/// `sure_max` bytes were in one call; a larger size may be that of several.
fn sizes(sizes: &Distribution, sure_max: u64, is_lower_bound: bool) -> String {
    let mean = rounded(sizes.mean).map_or("?".to_owned(), size);
    let (count, p50, min, max) = (
        bound(count(sizes.count), is_lower_bound),
        size(sizes.p50),
        size(sizes.min),
        size(sizes.max),
    );
    let text = format!("{count}: mean {mean}, p50 {p50}, from {min} to");
    match sure_max < sizes.max {
        true => format!(
            "{text} between {} and {max}, which came without a pause, in one call or several",
            size(sure_max)
        ),
        false => format!("{text} {max}"),
    }
}

fn bursts(flow: &FlowAnalysis, page: &Page<'_>) -> String {
    let bursts = &flow.bursts;
    let mut text = bound(count(bursts.count), flow.at_least.bursts);
    if let Some(bytes) = &bursts.bytes {
        text += &format!(" of {} (p50)", size(bytes.p50));
    }
    if let Some(gap) = &bursts.gap_ns {
        text += &format!(", {} apart (p50; p99 {})", page.time(gap.p50), page.time(gap.p99));
    }
    text
}

fn acks(flow: &FlowAnalysis, page: &Page<'_>) -> String {
    let acks = &flow.acks;
    if acks.advancing == 0 {
        return "none seen".to_owned();
    }
    let mut text = bound(count(acks.advancing), flow.at_least.acks);
    text += &format!(" ({} without data", count(acks.pure));
    if acks.duplicate > 0 {
        text += &format!("; {} more acknowledged nothing new", count(acks.duplicate));
    }
    text.push(')');
    if let Some(bytes) = &acks.bytes {
        text += &format!(", of {} each (p50)", size(bytes.p50));
    }
    if let Some(delay) = &acks.delay_ns {
        text += &format!(
            ", {} after arrival (p50; p99 {})",
            page.time(delay.p50),
            page.time(delay.p99)
        );
    }
    let late: Vec<_> = acks.late.iter().filter(|(_, count)| *count > 0).map(late).collect();
    if !late.is_empty() {
        text += &format!("; late: {}", late.join(", "));
    }
    text
}

fn late(&(cause, late): &(AckDelayCause, u64)) -> String {
    let cause = match cause {
        AckDelayCause::Timer => "by the delayed-ACK timer",
        AckDelayCause::Piggyback => "on data or a FIN sent late",
        AckDelayCause::Read => "when the reader read",
        AckDelayCause::Unknown => "for an unknown reason",
    };
    format!("{} {cause}", count(late))
}

/// Request to response, and the shares of a mean exchange's time.
pub(super) fn write_exchanges(
    exchanges: &ExchangeSummary,
    is_udp: bool,
    times: Times,
    page: &mut Page<'_>,
) -> io::Result<()> {
    let total = &exchanges.total_ns;
    let (slowest_at_ns, slowest_ns) = exchanges.slowest;
    let text = format!(
        "{} {}, asked by the {}: p50 {}, p90 {}, p99 {}; slowest {} at {}",
        count(total.count),
        if total.count == 1 { "request and response" } else { "requests and responses" },
        exchanges.asked_by.name(),
        page.time(total.p50),
        page.time(total.p90),
        page.time(total.p99),
        page.time(slowest_ns),
        times.at(slowest_at_ns),
    );
    page.labelled("exchange", &text, Tone::Plain)?;
    let mean_ns = rounded(total.mean).unwrap_or(0);
    let service_ns = rounded(exchanges.service_ns.mean);
    let request_ns = total_ns(&exchanges.request_ns);
    let response_ns = total_ns(&exchanges.response_ns);
    page.line(&format!("{:INDENT$}a mean one takes {}:", "", page.mean_time(total.mean)))?;
    let mut leg = |name: &str, ns: Option<u64>, parts: String| {
        let share = ns.map_or("?".to_owned(), |ns| percent_of(ns, mean_ns));
        let time = ns.map_or("?".to_owned(), |ns| page.time(ns));
        let first = format!("{:INDENT$}  {name:<9}{time:>8} {share:>8}  ", "");
        page.wrapped(&first, first.chars().count(), &parts, Tone::Plain)
    };
    leg("request", Some(request_ns), parts(&exchanges.request_ns, mean_ns, is_udp))?;
    leg("service", service_ns, "from last byte read to first byte written".to_owned())?;
    leg("response", Some(response_ns), parts(&exchanges.response_ns, mean_ns, is_udp))
}

fn total_ns(ledger: &Ledger) -> u64 {
    ledger.ns.iter().fold(0, |sum, &ns| sum.saturating_add(ns))
}

/// The parts of at least 1 % of `whole_ns`, largest first; the largest in any case.
fn parts(ledger: &Ledger, whole_ns: u64, is_udp: bool) -> String {
    let mut parts: Vec<_> = LedgerPart::ALL.into_iter().zip(ledger.ns).collect();
    parts.retain(|&(_, ns)| ns > 0);
    parts.sort_unstable_by_key(|&(part, ns)| (Reverse(ns), part));
    let is_shown = |ns: u64| u128::from(ns) * 100 >= u128::from(whole_ns);
    let large = parts.iter().filter(|&&(_, ns)| is_shown(ns)).count().max(1);
    let texts = parts.iter().take(large).map(|&(part, ns)| {
        format!("{} {}", place_name(part.name(), is_udp), percent_of(ns, whole_ns))
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Transactions of VMTP and retransmissions.
pub(super) fn write_transactions(
    transactions: &TransactionSummary,
    page: &mut Page<'_>,
) -> io::Result<()> {
    let mut text = match &transactions.total_ns {
        Some(total) => format!(
            "{} answered: p50 {}, p99 {}, slowest {}",
            count(total.count),
            page.time(total.p50),
            page.time(total.p99),
            page.time(total.max),
        ),
        None => "none answered".to_owned(),
    };
    if transactions.failed > 0 {
        text += &format!("; {} failed", count(transactions.failed));
    }
    let [client, server] = transactions.blocks_again.map(count);
    text += &format!("; blocks sent again: {client} by the client, {server} by the server");
    let tone = if transactions.failed > 0 { Tone::Bad } else { Tone::Plain };
    page.labelled("transact", &text, tone)
}

/// Socket buffers asked for and granted.
pub(super) fn write_buffers(buffers: &[BufferGrant], page: &mut Page<'_>) -> io::Result<()> {
    if buffers.is_empty() {
        return Ok(());
    }
    let texts: Vec<_> = buffers.iter().map(buffer).collect();
    page.labelled("buffers", &texts.join("; "), Tone::Plain)
}

fn buffer(grant: &BufferGrant) -> String {
    let which = if grant.is_send { "send" } else { "receive" };
    let granted = grant.granted_bytes.map_or_else(|| "?".to_owned(), size);
    match grant.asked_bytes {
        Some(asked) => format!("{} {which} {granted} (asked {})", grant.side.name(), size(asked)),
        None => {
            let who = if grant.is_set_by_program { "set by the program" } else { "by the kernel" };
            format!("{} {which} {granted} ({who})", grant.side.name())
        }
    }
}
