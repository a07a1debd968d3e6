//! The recording, and the one sentence to remember.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io;

use sockscope_analysis::{
    ConnectionAnalysis, DropCount, Finding, FindingId, FlowAnalysis, LedgerPart, TraceFacts,
};
use sockscope_record::{ConnectionId, FlowId};
use sockscope_render::number::{count, counted, percent_of};
use sockscope_render::style::Tone;

use super::calls::drop_reason;
use super::connection::{has_data, headline, shut_sides, unopened};
use super::page::{INDENT, Page};
use super::recorded;
use super::refused::Refused;
use crate::Report;
use crate::fix_to_try;
use crate::order::{
    self, FindingTotal, VERDICT_SHARE_DIVISOR, is_all_udp, is_under_way, is_verdicts_share,
    ledger_sum, place_name,
};
use crate::palette;
use crate::waits::{self, Waits};

/// Writes head, verdict and cautions; gives the connection that the verdict names.
pub(super) fn write(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<Option<Lead>> {
    write_origin(report, page)?;
    write_trace(report, page)?;
    recorded::write(report, page)?;
    page.blank()?;
    let (totals, verdict) = verdict(report);
    let lead = lead(report, verdict.map(|verdict| &totals[verdict]));
    write_verdict(report, (totals, verdict), page)?;
    write_cautions(report, page)?;
    Ok(lead)
}

pub(super) fn write_verdict_alone(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    write_verdict(report, verdict(report), page)
}

fn write_origin(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let origin = report.origin;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "?".to_owned());
    let line = format!(
        "sockscope {} on {}, kernel {}, clock {}",
        known(&origin.tool_version),
        known(&origin.host),
        known(&origin.kernel),
        known(&origin.clock),
    );
    page.wrapped("", 0, &line, Tone::Strong)?;
    match &origin.command {
        Some(command) => {
            let (command, room) = (page.clean(command), page.width - INDENT);
            let command = match report.options.full {
                true => shortened(&command, room),
                false => in_one_line(&command, room),
            };
            page.labelled("command", &command, Tone::Plain)
        }
        None => Ok(()),
    }
}

/// Characters of a command that are printed, and the number of them from its end; JSON has all.
const COMMAND_CHARS_MAX: usize = 240;
const COMMAND_END_CHARS: usize = 60;

/// Replaces the characters that a short report leaves out of a command.
const LEFT_OUT: &str = " [...] ";

/// A command without its long middle, so that the verdict stays near the top of a short report. Its begin
/// names the program, and its end differs from run to run.
fn in_one_line(command: &str, room: usize) -> String {
    let characters: Vec<char> = command.chars().collect();
    if characters.len() <= room {
        return command.to_owned();
    }
    let kept = room - LEFT_OUT.len();
    let (begin, end) = (kept - kept / 2, kept / 2);
    let begin = String::from_iter(&characters[..begin]);
    let end = String::from_iter(&characters[characters.len() - end..]);
    format!("{begin}{LEFT_OUT}{end}")
}

/// A command with its middle left out where it is very long, and its long words cut after `room` columns.
fn shortened(command: &str, room: usize) -> String {
    let characters: Vec<char> = command.chars().collect();
    let left_out = characters.len().saturating_sub(COMMAND_CHARS_MAX);
    let text = match left_out {
        0 => command.to_owned(),
        _ => {
            let (begin, rest) = characters.split_at(COMMAND_CHARS_MAX - COMMAND_END_CHARS);
            let (begin, end) = (String::from_iter(begin), String::from_iter(&rest[left_out..]));
            format!("{begin} [{} characters left out] {end}", count(left_out as u64))
        }
    };
    let words = text.split(' ').map(|word| {
        let word: Vec<char> = word.chars().collect();
        let parts: Vec<String> = word.chunks(room).map(String::from_iter).collect();
        parts.join(" ")
    });
    words.collect::<Vec<_>>().join(" ")
}

fn write_trace(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let analysis = report.analysis;
    let source = match analysis.facts.source.as_str() {
        "" => "?",
        source => source,
    };
    // From the first record to the last: without one there is no such time.
    let duration = match analysis.records {
        0 => String::new(),
        _ => format!("{}, ", page.time(analysis.duration_ns)),
    };
    let line = format!(
        "{source}, {duration}{}, {}, {}",
        counted(analysis.connections.len() as u64, "connection"),
        counted(analysis.records, "record"),
        missed(&analysis.facts),
    );
    page.labelled("trace", &line, Tone::Plain)
}

/// Without an end mark the count does not reach to the end of the trace.
fn missed(facts: &TraceFacts) -> String {
    let missed = count(facts.missed.total());
    match facts.unfinished {
        false => format!("{missed} missed"),
        true if facts.missed.total() == 0 => "not finished".to_owned(),
        true => format!("at least {missed} missed, not finished"),
    }
}

/// A place with so many times the cost of the verdict is named with it.
const ELSEWHERE_TIMES_MIN: u64 = 10;

/// The findings by rule, and the position of the verdict among them. No finding is the verdict where the answering
/// programs had [`ELSEWHERE_TIMES_MIN`] times its cost of a long wait: no caller would notice its repair.
fn verdict<'a>(report: &Report<'a>) -> (Vec<FindingTotal<'a>>, Option<usize>) {
    let (totals, verdict) = order::verdict(report);
    let is_of_callers = |id| matches!(id, FindingId::NPlusOne | FindingId::HeadOfLine);
    let verdict = verdict.filter(|at| {
        let total = &totals[*at];
        let is_free = is_wait(total) || total.id.is_failure() || is_of_callers(total.id);
        let waits = || Waits::of(report);
        is_free
            || totals.iter().any(|total| total.cost_ns == 0)
            || !is_known(report)
            || !waits().is_answerers_time(total.cost_ns.saturating_mul(ELSEWHERE_TIMES_MIN))
    });
    (totals, verdict)
}

fn write_verdict(
    report: &Report<'_>,
    (mut totals, verdict): (Vec<FindingTotal<'_>>, Option<usize>),
    page: &mut Page<'_>,
) -> io::Result<()> {
    let Some(verdict) = verdict else {
        if let Some(dropped) = Dropped::of(report) {
            page.labelled("verdict", &dropped.words(report, page), Tone::Bad)?;
            page.labelled("fix", &dropped.fix(), Tone::Strong)?;
            return write_others(&totals, page);
        }
        if let Some(refused) = Refused::of(report) {
            page.labelled("verdict", &refused.words(), Tone::Bad)?;
            page.labelled("fix", &refused.fix(), Tone::Strong)?;
            return write_others(&totals, page);
        }
        let waits = Waits::of(report);
        if !waits.is_little() && is_known(report) && totals.iter().all(|total| total.cost_ns > 0) {
            page.labelled("verdict", &waits.words(|ns| page.time(ns)), Tone::Plain)?;
            page.labelled("next", &waits.next(), Tone::Strong)?;
            return write_others(&totals, page);
        }
        let is_unclear =
            is_blind(report) || has_layer(report) || totals.iter().any(|total| total.cost_ns == 0);
        let tone = if is_unclear { Tone::Plain } else { Tone::Good };
        page.labelled("verdict", &all_clear(report, &totals, page), tone)?;
        return write_others(&totals, page);
    };
    let first = totals.remove(verdict);
    if is_wait(&first) {
        page.labelled("verdict", &waited(report, &first, page), Tone::Bad)?;
        page.labelled("next", &first.worst.fix, Tone::Strong)?;
        write_waited(report, page)?;
        return write_others(&totals, page);
    }
    let mut causes = totals.iter().filter(|other| !other.id.is_consequence());
    let costs_most = causes.all(|other| other.cost_ns <= first.cost_ns);
    page.labelled("verdict", &costliest(report, &first, costs_most, page), Tone::Bad)?;
    page.labelled("why", &first.worst.summary, Tone::Plain)?;
    page.labelled("fix", &first.worst.fix, Tone::Strong)?;
    if let Some(command) = fix_to_try::fix_command(first.worst, first.worst_in.connection.protocol)
    {
        page.command("try", &command)?;
    }
    write_waited(report, page)?;
    let dropped = Dropped::of(report).and_then(|one| one.beside(first.cost_ns, report, page));
    // One long request of a single thread holds up others, each only once.
    let is_held =
        |total: &&FindingTotal<'_>| is_wait(total) && held_up(report, total, page).is_some();
    let held = || totals.iter().find(is_held).map(|total| waited(report, total, page));
    let dropped = dropped.or_else(held);
    let more = dropped.or_else(|| writer_away(report, first.cost_ns, page));
    // The verdict itself names the cause of the callers' waits: the same time has no other cause.
    let is_of_callers = matches!(first.id, FindingId::NPlusOne | FindingId::HeadOfLine);
    let of_callers = || {
        let served = served(report, first.cost_ns, page);
        served.or_else(|| elsewhere(report, first.cost_ns, page))
    };
    let more = if is_of_callers { more } else { more.or_else(of_callers) };
    if let Some(more) = more {
        page.labelled("but", &more, Tone::Strong)?;
    }
    write_others(&totals, page)
}

/// The waits of callers and the shares of that time, where they were long.
fn write_waited(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let waits = Waits::of(report);
    if waits.is_little() {
        return Ok(());
    }
    page.labelled("waited", &waits.short_words(|ns| page.time(ns)), Tone::Plain)
}

/// Whether more is known of where bytes were than unknown, and there were any.
fn is_known(report: &Report<'_>) -> bool {
    let known_ns = under_way(report).iter().map(|&(_, ns)| ns).fold(0, u64::saturating_add);
    known_ns > 0 && hidden_ns(report) <= known_ns
}

/// Whether the cost of a finding is the waits of callers.
fn is_wait(total: &FindingTotal<'_>) -> bool {
    matches!(total.id, FindingId::SlowService | FindingId::Unanswered | FindingId::UpstreamWait)
}

/// The words of a finding whose cost is the waits of callers, and the other connections that it held up.
fn waited(report: &Report<'_>, total: &FindingTotal<'_>, page: &Page<'_>) -> String {
    let (name, summary) = (total.id.name(), total.worst.summary.trim_end_matches('.'));
    let id = total.worst_in.connection.id.0;
    let more = match total.connections {
        // Its sentence names the connections.
        _ if total.id == FindingId::UpstreamWait => ".".to_owned(),
        1 => format!(", on connection {id}."),
        more => format!(
            ", on connection {id}. On {} connections{} together {}.",
            count(more),
            to_servers(report, total.id),
            page.time(total.cost_ns)
        ),
    };
    let held = held_up(report, total, page).unwrap_or_default();
    let together = read_together(report, total).unwrap_or_default();
    format!("{name}: {summary}{more}{held}{together}")
}

/// The number of servers of the connections with a finding, where it is more than one.
fn to_servers(report: &Report<'_>, id: FindingId) -> String {
    let has_it = |one: &&ConnectionAnalysis| one.findings.iter().any(|finding| finding.id == id);
    let server = |one: &ConnectionAnalysis| (one.connection.protocol, one.connection.server);
    let servers: BTreeSet<_> = report.connections().filter(has_it).map(server).collect();
    match servers.len() {
        0 | 1 => String::new(),
        several => format!(" to {} servers", count(several as u64)),
    }
}

/// Of an event loop that read several requests, paused, and then answered them: no record shows the one that it
/// worked for. Those that read and work at once did so for the last one.
fn read_together(report: &Report<'_>, total: &FindingTotal<'_>) -> Option<String> {
    let (from_ns, until_ns) = *total.worst.times.iter().max_by_key(|times| times.1 - times.0)?;
    let list = &total.worst_in.requests.list;
    let slow = list.iter().find(|one| one.heard.ns() == Some(from_ns))?;
    let thread = Some(slow.reader_thread).filter(|thread| *thread != 0)?;
    let near_ns = (until_ns - from_ns) / 10;
    let is_near =
        |at_ns: Option<u64>, ns: u64| at_ns.is_some_and(|at_ns| at_ns.abs_diff(ns) <= near_ns);
    let mut read = Vec::new();
    for connection in report.connections() {
        let together = connection.requests.list.iter().filter(|one| {
            one.reader_thread == thread
                && is_near(one.heard.ns(), from_ns)
                && is_near(one.answered.ns(), until_ns)
        });
        read.extend(together.filter_map(|one| Some((one.heard.ns()?, connection))));
    }
    let (_, last) = read.iter().max_by_key(|(heard_ns, _)| *heard_ns)?;
    if read.len() < 2 {
        return None;
    }
    let asker = last.requests.asked_by?;
    let client = last.connection.processes.iter().find(|process| process.side == asker)?;
    Some(format!(
        " It had read {} together, and each of them may have had the time: the last one was that of {} (pid {}), on \
         connection {}.",
        counted(read.len() as u64, "request"),
        client.comm,
        client.pid,
        last.connection.id.0
    ))
}

/// Callers on other connections to the same address that waited as long as a long request takes, meanwhile.
fn held_up(report: &Report<'_>, total: &FindingTotal<'_>, page: &Page<'_>) -> Option<String> {
    let (from_ns, until_ns) = *total.worst.times.iter().max_by_key(|times| times.1 - times.0)?;
    let own = &total.worst_in.connection;
    let longest = |connection: &ConnectionAnalysis| {
        let meanwhile = connection.requests.list.iter().filter(|request| {
            request.asked_ns < until_ns && request.ended_ns > from_ns && request.is_long()
        });
        meanwhile.filter_map(|request| request.total_ns()).max()
    };
    let others = report
        .connections()
        .filter(|one| one.connection.id != own.id && one.connection.server == own.server);
    let waited: Vec<u64> = others.filter_map(longest).collect();
    let longest = page.time(*waited.iter().max()?);
    let on = counted(waited.len() as u64, "other connection");
    Some(format!(" Meanwhile callers waited on {on} to the same server, up to {longest}."))
}

/// The connection that the verdict names.
#[derive(Clone, Copy)]
pub(super) struct Lead {
    pub(super) connection: ConnectionId,
    /// The direction in which bytes waited, where the verdict is of one.
    pub(super) flow: Option<FlowId>,
}

/// The connection that the verdict names.
fn lead(report: &Report<'_>, found: Option<&FindingTotal<'_>>) -> Option<Lead> {
    let flow = found.filter(|total| !is_wait(total)).map(|total| total.worst.flow);
    let found = found.map(|total| total.worst_in);
    let dropped = || Dropped::of(report).map(|dropped| dropped.connection);
    let refused = || Refused::of(report).map(|refused| refused.connection);
    let has_time = || under_way(report).iter().any(|&(_, ns)| ns > 0);
    let idle =
        || if has_time() { None } else { stuck_first(report).or_else(|| away_first(report)) };
    let waits = || {
        let waits = Waits::of(report);
        let longest = waits.longest.filter(|_| !waits.is_little());
        longest.map(|(connection, _)| connection)
    };
    let lead = found.or_else(dropped).or_else(refused).or_else(idle).or_else(waits)?;
    Some(Lead { connection: lead.connection.id, flow })
}

/// The flow that waited longest for packets that the kernel had dropped, where that is a verdict.
///
/// A finding reports it where TCP reported the retransmission. It does not where the sender was not recorded, nor
/// of a first transmission that the sender's own host refused.
struct Dropped<'a> {
    connection: &'a ConnectionAnalysis,
    flow: &'a FlowAnalysis,
    cost_ns: u64,
}

impl<'a> Dropped<'a> {
    fn of(report: &Report<'a>) -> Option<Self> {
        let of_flow = |connection, flow: &'a FlowAnalysis| {
            let cost_ns = flow.ledger.ns[LedgerPart::Dropped as usize];
            Self { connection, flow, cost_ns }
        };
        let flows = report.connections().flat_map(|connection| {
            report.flows(connection).map(move |flow| of_flow(connection, flow))
        });
        let worst = flows.max_by_key(|one| (one.cost_ns, Reverse(one.flow.id)))?;
        let duration_ns = report.analysis.duration_ns;
        is_verdicts_share(worst.cost_ns, worst.connection, duration_ns).then_some(worst)
    }

    /// The most frequent reason, of those that dropped data where there is one.
    fn drops(&self) -> Option<&'a DropCount> {
        let drops = &self.flow.drops;
        drops.iter().find(|one| one.bytes > 0).or(drops.first())
    }

    fn words(&self, report: &Report<'_>, page: &Page<'_>) -> String {
        let (time, share) = self.cost(report, page);
        let (id, what) = (self.connection.connection.id.0, self.what());
        let dropped = if self.is_unix() { "unread messages" } else { "dropped packets" };
        format!("{dropped} cost most: {time} ({share} of the trace), on connection {id}; {what}.")
    }

    /// The words next to a verdict that cost less, where no finding of the flow has this time.
    fn beside(&self, verdict_ns: u64, report: &Report<'_>, page: &Page<'_>) -> Option<String> {
        let has_time = |finding: &Finding| {
            let ids = [FindingId::Retransmission, FindingId::InterfaceQueueLimited];
            finding.flow == self.flow.id && ids.contains(&finding.id)
        };
        if self.cost_ns <= verdict_ns || self.connection.findings.iter().any(has_time) {
            return None;
        }
        let (time, share) = self.cost(report, page);
        let (id, what) = (self.connection.connection.id.0, self.what());
        Some(format!("for longer, {time} ({share} of the trace), on connection {id}, {what}."))
    }

    fn cost(&self, report: &Report<'_>, page: &Page<'_>) -> (String, String) {
        (page.time(self.cost_ns), percent_of(self.cost_ns, report.analysis.duration_ns))
    }

    /// As `what the client sent was dropped for NETFILTER_DROP on the server's host`.
    fn what(&self) -> String {
        let sender = self.flow.id.direction().sender().name();
        let mostly = if self.flow.drops.len() > 1 { "mostly " } else { "" };
        let why = self.drops().map(|drops| {
            let host = drops.host.map(|host| format!(" on the {}'s host", host.name()));
            format!(" {mostly}for {}{}", drop_reason(drops), host.unwrap_or_default())
        });
        format!("what the {sender} sent was dropped{}", why.unwrap_or_default())
    }

    fn is_unix(&self) -> bool {
        self.connection.connection.protocol.is_unix()
    }

    fn fix(&self) -> String {
        if self.is_unix() {
            let receiver = self.flow.id.direction().receiver().name();
            return format!("In the {receiver}: read all messages before the socket is closed.");
        }
        let place = match self.drops().and_then(|drops| drops.host) {
            Some(host) => format!("On the {}'s host", host.name()),
            None => "On both hosts".to_owned(),
        };
        format!(
            "{place}: find what drops them, a packet filter (nft list ruleset) or a full queue (tc -s qdisc \
             show, nstat -az)."
        )
    }
}

/// The text for a writer that left its room unused for longer than the verdict has cost, if that is a
/// verdict's share of the trace. No finding reports it, since only with `--calls` is it known to be asleep.
fn writer_away(report: &Report<'_>, verdict_ns: u64, page: &Page<'_>) -> Option<String> {
    let away = |flow: &FlowAnalysis| flow.ledger.ns[LedgerPart::SendWriter as usize];
    let flows = report.connections().flat_map(|connection| {
        report.flows(connection).map(move |flow| (away(flow), flow.id, connection))
    });
    let (away_ns, flow, connection) = flows.max_by_key(|&(ns, flow, _)| (ns, Reverse(flow)))?;
    let duration_ns = report.analysis.duration_ns;
    (away_ns > verdict_ns && away_ns.saturating_mul(VERDICT_SHARE_DIVISOR) >= duration_ns).then(|| {
        format!(
            "for longer, {} ({} of the trace), the {} of connection {} had asked to write more, had room, \
             and did not write: if it slept in its call it waited for a CPU (--calls tells), else it did \
             something else.",
            page.time(away_ns),
            percent_of(away_ns, duration_ns),
            flow.direction().sender().name(),
            connection.connection.id.0
        )
    })
}

/// Whether the places of most of the time are unknown.
fn is_blind(report: &Report<'_>) -> bool {
    let known_ns = under_way(report).iter().map(|&(_, ns)| ns).fold(0, u64::saturating_add);
    known_ns == 0 || hidden_ns(report) > known_ns
}

/// The verdict's finding. Of many connections together another one may have cost more, none of them
/// enough of its own time; then this one does not `cost most`.
fn costliest(
    report: &Report<'_>,
    total: &FindingTotal<'_>,
    costs_most: bool,
    page: &Page<'_>,
) -> String {
    let times = match total.count {
        1 => "once".to_owned(),
        more => format!("{} times", count(more)),
    };
    let place = match total.connections {
        1 => format!("on connection {}", total.worst_in.connection.id.0),
        more => format!(
            "on {} connections, most on connection {} ({})",
            count(more),
            total.worst_in.connection.id.0,
            headline(total.worst_in, page)
        ),
    };
    let id = total.id.name();
    if total.cost_ns == 0 && total.id.is_failure() {
        return format!("{id}: {times}, {place}.");
    }
    if total.cost_ns == 0 {
        return format!("{id}: seen {times} {place}; its cost cannot be measured.");
    }
    let share =
        format!(" ({} of the trace)", percent_of(total.cost_ns, report.analysis.duration_ns));
    let costs = if costs_most { " costs most:" } else { ": cost" };
    format!("{id}{costs} {}{share}, {times}, {place}.", page.time(total.cost_ns))
}

fn write_others(others: &[FindingTotal<'_>], page: &mut Page<'_>) -> io::Result<()> {
    if others.is_empty() {
        return Ok(());
    }
    let list: Vec<_> = others
        .iter()
        .map(|total| {
            let times = page.style.glyphs().times;
            let seen = format!("{} {}{times}", total.id.name(), count(total.count));
            match total.cost_ns {
                0 => seen,
                ns => format!("{seen} ({})", page.time(ns)),
            }
        })
        .collect();
    page.labelled("also", &list.join(", "), Tone::Plain)
}

fn all_clear(report: &Report<'_>, totals: &[FindingTotal<'_>], page: &Page<'_>) -> String {
    let has_findings = !totals.is_empty();
    let mut spent = under_way(report);
    let total = spent.iter().map(|&(_, ns)| ns).fold(0, u64::saturating_add);
    let layers = layers(report);
    if total == 0 {
        let layers = layers.map(|words| format!("no verdict: {words}"));
        let why = layers.or_else(|| stuck(report)).or_else(|| turned_away(report));
        return why.unwrap_or_else(|| without_traffic(report).to_owned());
    }
    spent.sort_unstable_by_key(|&(part, ns)| (Reverse(ns), part));
    let is_udp = is_all_udp(report);
    let most: Vec<_> = spent
        .iter()
        .take(3)
        .filter(|&&(_, ns)| ns > 0)
        .map(|&(part, ns)| format!("{} {}", place_name(part.name(), is_udp), percent_of(ns, total)))
        .collect();
    let held = match has_findings {
        true => "",
        false => most_held(report, &spent).map_or("", held_words),
    };
    let found = match has_findings {
        true => small_costs(totals),
        false => "nothing wrong found".to_owned(),
    };
    let service = served(report, 0, page).map(|words| format!(" {words}")).unwrap_or_default();
    let unknown = hidden(report, total, page).unwrap_or_default();
    let layers = layers.map(|words| format!(" But {words}.")).unwrap_or_default();
    let has = |of: LedgerPart| spent.iter().any(|&(part, ns)| part == of && ns > 0);
    let full = match (has(LedgerPart::SendBuffer), has(LedgerPart::SendWriter)) {
        (_, true) => " or to be written",
        (true, false) => " or kept out of a full send buffer",
        (false, false) => "",
    };
    let (total, most) = (page.time(total), most.join(", "));
    format!(
        "{unknown}{found}; of {total} with bytes under way{full}: {most}.{held}{service}{layers}"
    )
}

fn has_layer(report: &Report<'_>) -> bool {
    report.connections().any(|connection| !connection.layers.is_empty())
}

/// The connections whose programs are behind a layer of the kernel.
fn layers(report: &Report<'_>) -> Option<String> {
    let with = || report.connections().filter(|connection| !connection.layers.is_empty());
    let first = with().next()?;
    let mut names: Vec<_> =
        with().flat_map(|one| &one.layers).map(|(_, layer)| layer.name()).collect();
    names.sort_unstable();
    names.dedup();
    let which = match with().count() {
        1 => format!("connection {}", first.connection.id.0),
        more => format!("{} connections", count(more as u64)),
    };
    Some(format!(
        "a layer of the kernel ({}) reads and writes sockets of {which}: the times of its programs' writes and \
         reads are unknown",
        names.join(", ")
    ))
}

/// The text for findings that are no verdict. Some have an unmeasured cost, which is not small for that.
fn small_costs(totals: &[FindingTotal<'_>]) -> String {
    let percent = 100 / VERDICT_SHARE_DIVISOR;
    let unmeasured = totals.iter().filter(|total| total.cost_ns == 0);
    let names: Vec<_> = unmeasured.map(|total| total.id.name()).collect();
    match names.len() {
        0 => format!("no finding costs {percent} % of the time"),
        _ => format!(
            "no finding has a measured cost of {percent} % of the time; that of {} is not measured",
            names.join(", ")
        ),
    }
}

/// The text where TCP held short segments most of the time, and no wait for them was recorded.
fn held_words(part: LedgerPart) -> &'static str {
    match part {
        LedgerPart::SendNagle => {
            " Nagle's algorithm held short segments behind unacknowledged ones: where somebody waits for \
             each of them, set TCP_NODELAY or write each message in one call."
        }
        LedgerPart::SendCork => {
            " TCP_CORK or MSG_MORE held short segments, as the program asked: where somebody waits for \
             each of them, uncork after each, or do without."
        }
        _ => "",
    }
}

/// The part with most of the time, the first in `spent`, if it has as much of the trace as a
/// verdict takes.
fn most_held(report: &Report<'_>, spent: &[(LedgerPart, u64)]) -> Option<LedgerPart> {
    let is_enough =
        |ns: u64| ns.saturating_mul(VERDICT_SHARE_DIVISOR) >= report.analysis.duration_ns;
    spent.first().filter(|&&(_, ns)| is_enough(ns)).map(|&(part, _)| part)
}

/// The first text where more time is unknown than known: finding nothing then shows little.
fn hidden(report: &Report<'_>, known_ns: u64, page: &Page<'_>) -> Option<String> {
    let unknown_ns = hidden_ns(report);
    (unknown_ns > known_ns).then(|| {
        let unknown = page.time(unknown_ns);
        let why = of_kernels_own(report, unknown_ns).unwrap_or_default();
        format!(
            "no verdict: for {unknown}, of all directions together, it is unknown where bytes were, or \
             whether there were any{why}. In what is known: "
        )
    })
}

/// Why most of `unknown_ns` is so, where that is it: programs use other sockets.
fn of_kernels_own(report: &Report<'_>, unknown_ns: u64) -> Option<String> {
    let of_inner = || report.connections().filter(|connection| connection.is_inner);
    let flows = of_inner().flat_map(|connection| report.flows(connection));
    let inner_ns = ledger_sum(flows)[LedgerPart::Unknown as usize];
    let first = of_inner().next()?.connection.id.0;
    let which = match of_inner().count() {
        1 => format!("connection {first}"),
        more => format!("{} connections", count(more as u64)),
    };
    (inner_ns.saturating_mul(2) > unknown_ns).then(|| {
        format!(", as sockets of {which} belong to the kernel (MPTCP's do): programs use others")
    })
}

/// Nanoseconds of all flows together in which it is unknown where bytes were.
fn hidden_ns(report: &Report<'_>) -> u64 {
    let flows = report.connections().flat_map(|connection| report.flows(connection));
    ledger_sum(flows)[LedgerPart::Unknown as usize]
}

fn is_stuck<'a>(report: &Report<'a>, connection: &'a ConnectionAnalysis) -> bool {
    shut_sides(connection, report.analysis).next().is_some()
        && !report.flows(connection).any(has_data)
}

fn stuck_first<'a>(report: &Report<'a>) -> Option<&'a ConnectionAnalysis> {
    report.connections().find(|connection| is_stuck(report, connection))
}

/// The first connection that was not established, where no connection carried data.
fn away_first<'a>(report: &Report<'a>) -> Option<&'a ConnectionAnalysis> {
    let mut flows = report.connections().flat_map(|connection| report.flows(connection));
    if flows.any(has_data) {
        return None;
    }
    report.connections().find(|connection| connection.unopened.is_some())
}

/// The text where no data passed because a program does not read.
fn stuck(report: &Report<'_>) -> Option<String> {
    let mut shut = report.connections().filter(|connection| is_stuck(report, connection));
    let first = shut.next()?;
    let sides: Vec<_> = shut_sides(first, report.analysis)
        .map(|(side, _)| format!("the {}'s", side.name()))
        .collect();
    let more = match shut.count() {
        0 => String::new(),
        1 => ", and so it is on another connection".to_owned(),
        more => format!(", and so it is on {} more connections", count(more as u64)),
    };
    let (whose, id) = (sides.join(" and "), first.connection.id.0);
    Some(format!(
        "no data passed: on connection {id} {whose} receive window is 0, which opens when the program \
         there reads{more}."
    ))
}

/// The text where no data passed because a connection did not open.
fn turned_away(report: &Report<'_>) -> Option<String> {
    if report.connections().flat_map(|connection| report.flows(connection)).any(has_data) {
        return None;
    }
    let mut away =
        report.connections().filter_map(|connection| Some((connection, unopened(connection)?)));
    let (first, why) = away.next()?;
    let more = match away.count() {
        0 => String::new(),
        1 => "; another connection did not come about either".to_owned(),
        more => format!("; {} more did not come about either", count(more as u64)),
    };
    Some(format!("no data passed: connection {} was {why}{more}.", first.connection.id.0))
}

/// The text for a trace without any byte.
fn without_traffic(report: &Report<'_>) -> &'static str {
    let facts = &report.analysis.facts;
    let is_live = facts.source == "live" && !facts.unfinished;
    if report.connections().count() == 0 {
        // The recorder notes that where the kernel does not show Unix sockets.
        let asks_for_unix = facts.notes.iter().any(|note| note.starts_with("--unix: "));
        return match is_live {
            true if asks_for_unix => {
                "no connection was recorded: nothing that was picked sent or received over TCP or \
                 UDP. Of Unix sockets nothing is known: see the note."
            }
            true => {
                "no connection was recorded: nothing that was picked sent or received over TCP or \
                 UDP (Unix sockets need --unix)."
            }
            false => "there is no connection in the trace.",
        };
    }
    if facts.source == "pcap" {
        return "nothing can be said of who waited: a capture has packets alone. The send and receive queues \
                are not known, nor when programs wrote and read. Record on the host of either program (sockscope record).";
    }
    if report.connections().flat_map(|connection| report.flows(connection)).any(has_data) {
        return "nothing can be said: where the bytes were is unknown.";
    }
    if report.analysis.records == 0 {
        return "no record can be read: nothing is known of what passed.";
    }
    "no data passed: there is nothing to measure."
}

/// The text where callers wait for the program that answers, and not for the sockets: at least
/// half of the time of all exchanges was service, and more than the verdict has cost.
fn served(report: &Report<'_>, verdict_ns: u64, page: &Page<'_>) -> Option<String> {
    let (calls_ns, service_ns) =
        waits::answered_ns(report).filter(|(calls_ns, _)| *calls_ns > 0)?;
    (service_ns > verdict_ns && service_ns.saturating_mul(2) >= calls_ns).then(|| {
        let share = percent_of(service_ns, calls_ns);
        let calls = page.time(calls_ns);
        let whose = match report.analysis.nesting.is_empty() {
            true => "program's",
            false => "programs'",
        };
        format!("Of {calls} that callers waited, {share} was the answering {whose} own time.")
    })
}

/// The words for a verdict whose finding costs next to nothing against one place: one of thousands of
/// short connections can have it.
fn elsewhere(report: &Report<'_>, verdict_ns: u64, page: &Page<'_>) -> Option<String> {
    let spent = under_way(report);
    let (part, ns) = spent.iter().copied().max_by_key(|&(part, ns)| (ns, Reverse(part)))?;
    let total_ns = spent.iter().map(|&(_, ns)| ns).fold(0, u64::saturating_add);
    (verdict_ns > 0 && ns / ELSEWHERE_TIMES_MIN >= verdict_ns).then(|| {
        let (most, total) = (page.time(ns), page.time(total_ns));
        format!(
            "of all connections together, bytes were in {} ({}) for {most} of {total}.",
            place_name(part.name(), is_all_udp(report)),
            palette::place(part).meaning
        )
    })
}

/// Time in each part where bytes are under way, all flows together.
fn under_way(report: &Report<'_>) -> Vec<(LedgerPart, u64)> {
    let flows = report.connections().flat_map(|connection| report.flows(connection));
    let sum = ledger_sum(flows);
    LedgerPart::ALL.into_iter().zip(sum).filter(|&(part, _)| is_under_way(part)).collect()
}

/// Limits to the worth of all that follows.
fn write_cautions(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let analysis = report.analysis;
    let missed = analysis.facts.missed.total();
    if missed > 0 {
        let share = percent_of(missed, missed.saturating_add(analysis.records));
        let text = match missed {
            1 => format!("1 record ({share}) was missed: what it touches is unknown, not guessed."),
            _ => format!(
                "{} records ({share}) were missed: what they touch is unknown, not guessed.",
                count(missed)
            ),
        };
        page.labelled("caution", &text, Tone::Bad)?;
    }
    for note in &analysis.facts.notes {
        page.labelled("note", note, Tone::Plain)?;
    }
    Ok(())
}
