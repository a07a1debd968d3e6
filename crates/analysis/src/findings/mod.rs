//! The problems of a connection, the party and the change that solve each, and the records that prove it.
//!
//! One rule a file, each a pure function of one flow's facts. The order of precedence, so that no time is reported
//! twice, stands in [`of_flow`]; docs/findings/ has a page for each rule. A rule that is not certain has no
//! finding: that is better than a wrong one. [`find_across`] and [`Churn`] look at all connections.

mod accept_queue_full;
mod accepts;
mod ack_storm;
mod acks;
#[cfg(test)]
mod across_proptests;
mod awaiting_repair;
mod buffer_below_bdp;
mod buffer_clipped;
mod buffer_mismatch;
mod buffers;
mod by_byte;
mod caller_delay;
mod callers_wait;
mod congestion_limited;
mod connection_churn;
mod connection_refused;
mod control;
mod corked;
mod delayed_ack_wait;
mod doubt;
mod drop_reason;
mod duplicates;
#[cfg(test)]
mod end_to_end;
mod facts;
mod handshake;
mod head_of_line;
mod holds;
mod interface;
mod interface_queue_limited;
mod intervals;
mod language;
mod late_wakeup;
mod mtu_blackhole;
mod n_plus_one;
mod nagle_delayed_ack;
mod network_queue;
mod no_window_scaling;
mod pacing_limited;
mod packets;
mod phrasing;
mod protocols;
mod reads;
mod receive_window_limited;
mod resent;
mod resent_segment;
mod reset_unread;
mod retransmission;
mod send_buffer_limited;
mod served_request;
mod silly_window;
mod slow_accept;
mod slow_reader;
mod slow_service;
mod small_reads;
mod small_writes;
mod split_message;
mod stop_and_wait;
mod syn_dropped;
mod tally;
#[cfg(test)]
mod testing;
mod udp_dropped;
mod udp_receive_drop;
mod udp_refused;
mod unanswered;
mod unix_send_buffer_limited;
mod unix_stop_and_wait;
mod upstream_wait;
mod writes;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use sockscope_record::{ConnectionId, Protocol, Stage};

pub(crate) use self::caller_delay::{Delay, Delays};
pub(crate) use self::connection_churn::{Churn, Opening};

use self::facts::{FlowFacts, base_rtt_ns};
use self::intervals::{Interval, Intervals};
use self::served_request::Served;
use crate::{Analysis, ConnectionAnalysis, ConnectionView, Finding, FindingId, Uncertainty};

/// The findings of a connection that rest on its own records alone, highest cost first.
///
/// The second list has the parts of its requests in which a cause delayed data, for [`find_across`].
pub(crate) fn find(view: &ConnectionView<'_>) -> (Vec<Finding>, Vec<Delay>) {
    let of_opening = [accept_queue_full::find(view), syn_dropped::find(view)];
    let of_opening: Vec<_> = of_opening.into_iter().flatten().collect();
    let opening = Intervals::union_of(of_opening.iter().flat_map(times));
    let (mut findings, mut delays) = (Vec::new(), Vec::new());
    let base_rtt_ns = base_rtt_ns(view);
    for flow in &view.flows {
        let facts = FlowFacts::new(flow, base_rtt_ns);
        let found = of_flow(view, &facts, &opening);
        let is_queued_elsewhere = found.iter().any(|one| one.id == FindingId::NetworkQueue);
        delays.extend(delays_of(view, &facts, is_queued_elsewhere));
        findings.extend(found);
    }
    findings.extend(of_opening);
    findings
        .extend([connection_refused::find(view), reset_unread::find(view)].into_iter().flatten());
    let protocol = view.store.connection.protocol;
    findings.extend(match protocol.is_unix() {
        true => unix_stop_and_wait::find(view),
        false => stop_and_wait::find(view).or_else(|| packets::stop_and_wait(view)),
    });
    findings.extend(unanswered::find(view));
    findings.extend(ack_storm::find(view));
    findings.retain(|one| protocols::may_speak(one.id, protocol));
    by_cost(&mut findings);
    (findings, delays)
}

/// The parts of the requests in which a cause kept data of the flow back. A queue in the network
/// explains a full congestion window.
fn delays_of(
    view: &ConnectionView<'_>,
    facts: &FlowFacts<'_>,
    is_queued_elsewhere: bool,
) -> Vec<Delay> {
    if view.requests.list.is_empty() {
        return Vec::new();
    }
    let mut holds = vec![late_wakeup::holds(facts), slow_reader::holds(facts)];
    if view.store.connection.protocol == Protocol::Tcp {
        holds.push(slow_accept::holds(facts));
        holds.extend((!is_queued_elsewhere).then(|| congestion_limited::holds(facts)));
    }
    caller_delay::of_requests(view.requests, &holds)
}

/// Says where the clocks of two hosts are known too badly for a finding about the time between them.
pub(crate) fn note_clocks(one: &mut ConnectionAnalysis) {
    for finding in one.findings.iter_mut().filter(|it| it.id == FindingId::NetworkQueue) {
        let stages = &one.flows[finding.flow.direction() as usize].stages;
        let wire = stages.iter().find(|it| it.stage == Stage::Wire && it.is_below_uncertainty());
        let doubt = match wire.and_then(|wire| wire.uncertainty) {
            None => continue,
            Some(Uncertainty::AtMost(ns)) => format!(
                "are known to ±{}, which is more than the median time between them",
                phrasing::time(ns)
            ),
            Some(Uncertainty::Unknown) => "differ by an unknown time".to_owned(),
        };
        finding.summary.push_str(&format!(" The clocks of the two hosts {doubt}."));
    }
}

/// Adds the findings that rest on requests of several connections, and takes away those that are only their effect.
pub(crate) fn find_across(analysis: &mut Analysis, delays: &Delays) {
    let mut line = head_of_line::find(analysis);
    let mut callers = callers_wait::find(analysis, delays, &line);
    let mut of_line: BTreeMap<ConnectionId, Vec<Finding>> = BTreeMap::new();
    let mut of_several = std::mem::take(&mut line.findings);
    of_several.append(&mut callers.findings);
    for finding in of_several {
        of_line.entry(finding.flow.connection()).or_default().push(finding);
    }
    let full_queues = accept_queue_full::addresses(analysis);
    let found = analysis.connections.iter().map(|connection| {
        let id = connection.connection.id;
        let served: Vec<Served<'_>> = Served::long(analysis, connection).collect();
        let is_effect = |finding: &Finding| match finding.id {
            FindingId::Unanswered => {
                accept_queue_full::explains(&full_queues, connection)
                    || upstream_wait::explains(&served, &finding.times)
            }
            FindingId::SlowReader => {
                line.explains(id, &finding.times) || callers.explains(id, &finding.times)
            }
            _ => false,
        } || callers.contains(connection, finding);
        let kept: Vec<bool> = connection.findings.iter().map(|one| !is_effect(one)).collect();
        let found = [
            slow_service::find(connection, &served, &line),
            upstream_wait::find(analysis, connection, &served),
            n_plus_one::find(analysis, connection, &served),
        ];
        let of_line = of_line.remove(&id).unwrap_or_default();
        (kept, found.into_iter().flatten().chain(of_line).collect::<Vec<_>>())
    });
    let found: Vec<_> = found.collect();
    for (connection, (kept, found)) in analysis.connections.iter_mut().zip(found) {
        let mut kept = kept.into_iter();
        connection.findings.retain(|_| kept.next().unwrap_or(true));
        connection.findings.extend(found);
        by_cost(&mut connection.findings);
    }
}

fn by_cost(findings: &mut [Finding]) {
    findings.sort_unstable_by_key(|finding| (Reverse(finding.cost_ns), finding.flow, finding.id));
}

/// The rules of one flow in order of precedence. An earlier rule takes time away from a later one
/// either by its finding or by the times that both read from [`FlowFacts`]. `opening`: times in
/// which a rule of the handshake explains its wait.
fn of_flow(
    connection: &ConnectionView<'_>,
    facts: &FlowFacts<'_>,
    opening: &Intervals,
) -> Vec<Finding> {
    let reader = [slow_reader::find(facts), late_wakeup::find(facts)];
    if connection.store.connection.protocol.is_unix() {
        let of_sender = [split_message::find(facts), unix_send_buffer_limited::find(facts)];
        return reader.into_iter().chain(of_sender).flatten().collect();
    }
    let clipped = buffer_clipped::find(facts);
    let queue = interface_queue_limited::find(facts);
    if connection.store.connection.protocol == Protocol::Udp {
        let others = udp_dropped::find(facts, queue.is_some());
        let dropped = [queue, udp_receive_drop::find(facts), udp_refused::find(facts), others];
        return reader.into_iter().chain(dropped).flatten().chain(clipped).collect();
    }
    let pacing = pacing_limited::find(facts);
    let queue = queue.filter(|_| pacing.is_none());
    let network = network_queue::find(facts);
    let blackhole = mtu_blackhole::find(facts);
    let opening = &Intervals::union_of(opening.iter().chain(blackhole.iter().flat_map(times)));
    let is_free = |_: &Finding| network.is_none();
    let is_queue_limited = queue.is_some();
    let is_reader_slow = reader[0].is_some();
    let send_buffer = send_buffer_limited::find(facts).filter(is_free);
    let silly_window = silly_window::find(facts);
    let receive_window = receive_window_limited::find(facts, is_reader_slow);
    let receive_window = receive_window.filter(is_free).filter(|_| silly_window.is_none());
    let unscaled = receive_window.as_ref().and_then(|_| no_window_scaling::find(facts));
    let receive_window = receive_window.filter(|_| unscaled.is_none());
    let below_bdp = buffer_below_bdp::find(facts, send_buffer.is_some(), receive_window.is_some());
    let of_sender = [
        nagle_delayed_ack::find(facts),
        split_message::find(facts),
        small_writes::find(facts),
        buffer_mismatch::find(facts),
        small_reads::find(facts),
        delayed_ack_wait::find(facts),
        corked::find(facts),
        congestion_limited::find(facts).filter(is_free),
        retransmission::find(facts, is_queue_limited, opening),
    ];
    let limits = [pacing, queue, send_buffer, silly_window, unscaled, receive_window, below_bdp];
    of_sender
        .into_iter()
        .chain(reader)
        .chain(limits)
        .flatten()
        .chain(network)
        .chain(blackhole)
        .chain(clipped)
        .chain(packets::of_flow(facts))
        .collect()
}

/// When a finding cost time.
fn times(finding: &Finding) -> impl Iterator<Item = Interval> {
    finding.times.iter().map(|&(start_ns, end_ns)| Interval::new(start_ns, end_ns))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// `FindingId::ALL` and docs/findings/ name the same findings.
    #[test]
    fn each_finding_has_its_page_and_each_page_its_finding() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings");
        let index = std::fs::read_to_string(folder.join("README.md")).unwrap();
        let files = std::fs::read_dir(&folder).unwrap();
        let mut pages: Vec<_> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| name.strip_suffix(".md").map(str::to_owned))
            .filter(|name| name != "README")
            .collect();
        let mut ids: Vec<_> = FindingId::ALL.iter().map(|id| id.name().to_owned()).collect();
        pages.sort_unstable();
        ids.sort_unstable();
        assert_eq!(pages, ids);
        for id in &ids {
            assert!(index.contains(&format!("({id}.md)")), "README.md does not list {id}");
        }
    }

    #[test]
    fn each_page_answers_the_same_questions() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings");
        for id in FindingId::ALL {
            let page = std::fs::read_to_string(folder.join(format!("{}.md", id.name()))).unwrap();
            assert!(page.starts_with(&format!("# {}\n", id.name())));
            let heads: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
            assert_eq!(heads, ["Symptom", "Evidence", "Cause", "Fix", "Test it", "Limits"]);
        }
    }
}
