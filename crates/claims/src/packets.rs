//! Checks of packets and system calls: Tables 3 to 6 of "Is Layering Harmful?".

use sockscope_experiment::papers::{Claim, WireFlags, WireRow, wire_trace};
use sockscope_experiment::result::{CaseResult, RunResult};
use sockscope_experiment::word;

use super::{Check, Comparison, Outcome, Runs};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "layering/T3-a", needs: &["lh-2"], compare: request_segments },
    Check { id: "layering/T3-b", needs: &["lh-2"], compare: reply_wait },
    Check { id: "layering/T3-c", needs: &["lh-2"], compare: request_wait },
    Check { id: "layering/T4-a", needs: &["lh-3"], compare: system_calls },
    Check { id: "layering/edge-a", needs: &["lh-4"], compare: edge },
    Check { id: "layering/T5-a", needs: &["lh-4"], compare: discard_segments },
    Check { id: "layering/T5-b", needs: &["lh-4"], compare: discard_times },
    Check { id: "layering/nagle-a", needs: &["lh-4"], compare: one_small_segment },
    Check { id: "layering/T6-a", needs: &["lh-5"], compare: small_at_once },
    Check { id: "layering/T6-b", needs: &["lh-5"], compare: nodelay_times },
    Check { id: "layering/track-a", needs: &["lh-4"], compare: push_empties },
    Check { id: "layering/tcpdump-a", needs: &["lh-2"], compare: clock },
];

/// Who sent a packet: the side that opened the connection, or the other.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum From {
    Client,
    Server,
}

/// The packets of TCP connections in `wire` that one side sent.
pub(super) fn sent(wire: &[WireRow], side: From) -> Vec<&WireRow> {
    let is_syn =
        |row: &&WireRow| matches!(row.flags, WireFlags::Tcp { syn: true, .. }) && row.ack.is_none();
    let Some(client) = wire.iter().find(is_syn).map(|row| &row.source) else { return Vec::new() };
    let tcp = wire.iter().filter(|row| row.flags != WireFlags::Udp);
    tcp.filter(|row| (row.source == *client) == (side == From::Client)).collect()
}

fn data(wire: &[WireRow], side: From) -> Vec<&WireRow> {
    sent(wire, side).into_iter().filter(|row| row.is_data()).collect()
}

fn sizes(rows: &[&WireRow]) -> Vec<f64> {
    rows.iter().map(|row| row.bytes as f64).collect()
}

/// Flags, sequence numbers, bytes and the number acknowledged: what must agree packet by packet.
fn form(row: &WireRow) -> (String, Option<(u64, u64)>, u64, Option<u64>) {
    (row.flags.to_string(), row.sequence, row.bytes, row.ack)
}

/// Whether a packet is as printed: its form, and the largest segment where one is printed. One SYN of
/// Table 5 is printed without.
fn is_as(model: &WireRow, paper: &WireRow) -> bool {
    form(model) == form(paper) && (paper.mss.is_none() || model.mss == paper.mss)
}

/// Whether the packets of both sides, those without data too, are those of a printed trace; if so the
/// note says it, calling the trace `table`.
fn as_printed(wire: &[WireRow], name: &str, table: &str) -> Comparison {
    let Ok(printed) = wire_trace(name) else {
        return Comparison::not_checkable(format!("{name} is not built in"));
    };
    for side in [From::Client, From::Server] {
        let (model, paper) = (sent(wire, side), sent(&printed, side));
        let differs = model.len() != paper.len()
            || model.iter().zip(&paper).any(|(model, paper)| !is_as(model, paper));
        if differs {
            let word = |row: &&WireRow| {
                let ack = row.ack.map(|ack| format!(" ack {ack}")).unwrap_or_default();
                let mss = row.mss.map(|mss| format!(" <mss {mss}>")).unwrap_or_default();
                format!("{} {}{ack}{mss}", row.flags, row.bytes)
            };
            let words = |rows: &[&WireRow]| rows.iter().map(word).collect::<Vec<_>>().join(", ");
            return Comparison::holds(false, words(&paper), words(&model));
        }
    }
    Comparison::holds(true, "the same packets", "the same packets").with_note(format!(
        "flags, sequence numbers and acknowledgments of every packet as in {table}, another window in {}",
        other_windows(wire, name)
    ))
}

/// In how many packets of a printed trace the model offers another window, and of how many.
fn other_windows(wire: &[WireRow], name: &str) -> String {
    let printed = wire_trace(name).unwrap_or_default();
    let (mut other, mut all) = (0, 0);
    for side in [From::Client, From::Server] {
        for (model, paper) in sent(wire, side).iter().zip(sent(&printed, side)) {
            all += 1;
            other += usize::from(model.window != paper.window);
        }
    }
    format!("{other} of {all}")
}

/// The first case: the one that the paper printed.
fn first(run: &RunResult) -> &CaseResult {
    &run.cases[0]
}

/// The case with this parameter.
fn with<'a>(run: &'a RunResult, name: &str, value: &str) -> &'a CaseResult {
    let is_it = |case: &&CaseResult| case.case.value(name).is_some_and(|it| word(it) == value);
    run.cases.iter().find(is_it).unwrap_or_else(|| first(run))
}

fn request_segments(claim: &Claim, runs: &Runs) -> Outcome {
    let wire = &first(runs.of("lh-2")).measured.wire;
    Ok(Comparison::numbers(claim, &sizes(&data(wire, From::Client))).and(as_printed(
        wire,
        "layering/rpc-4800",
        "Table 3",
    )))
}

/// Milliseconds from the small segment of `side` to the data segment after it.
fn small_wait(wire: &[WireRow], side: From) -> f64 {
    let rows = data(wire, side);
    let pair = rows.windows(2).find(|pair| pair[0].bytes < 100);
    pair.map_or(f64::NAN, |pair| (pair[1].at_ns - pair[0].at_ns) as f64 / 1e6)
}

fn reply_wait(claim: &Claim, runs: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &[small_wait(&first(runs.of("lh-2")).measured.wire, From::Server)])
        .with_note(
            "the timers stand as in Table 3, where the wait is longest: what is found is that the timer ends it; with other phases it is anything up to 200 ms",
        ))
}

fn request_wait(claim: &Claim, runs: &Runs) -> Outcome {
    let waits: Vec<_> = runs
        .of("lh-2")
        .cases
        .iter()
        .map(|case| [From::Client, From::Server].map(|side| small_wait(&case.measured.wire, side)))
        .collect();
    let words: Vec<_> =
        waits.iter().map(|[request, reply]| format!("{request:.0} and {reply:.0}")).collect();
    let only_the_reply = waits.iter().all(|[request, reply]| *request <= 30.0 && *reply > *request);
    Ok(Comparison::holds(
        only_the_reply,
        format!(
            "request {} to 20 ms, reply {} ms, whenever the call starts",
            claim.values[0], claim.values[1]
        ),
        format!("request and reply wait, by phase of the server's timer: {} ms", words.join("; ")),
    )
    .with_note("in the model both wait for a timer, and which waits long is a matter of phase"))
}

fn system_calls(claim: &Claim, runs: &Runs) -> Outcome {
    let calls = &first(runs.of("lh-3")).measured.system_calls;
    let of = |name: &str| {
        let calls = calls.iter().filter(|call| call.name == name && call.returned > 0);
        calls.map(|call| call.returned as f64).collect::<Vec<_>>()
    };
    Ok(Comparison::numbers(claim, &[of("write"), of("read")].concat()))
}

/// Whether the writer of this case put a segment of one byte on the wire.
fn has_tiny(case: &CaseResult) -> bool {
    data(&case.measured.wire, From::Client).iter().any(|row| row.bytes == 1)
}

fn edge(claim: &Claim, runs: &Runs) -> Outcome {
    let run = runs.of("lh-4");
    let total = |case: &CaseResult| case.case.parameters.total_bytes.unwrap_or(0);
    let cut: Vec<_> =
        run.cases.iter().filter(|case| has_tiny(case) && total(case) > 4096).map(total).collect();
    let whole: Vec<_> =
        run.cases.iter().filter(|case| !has_tiny(case) && total(case) > 4097).map(total).collect();
    let (last, first) =
        (cut.iter().max().copied().unwrap_or(0), whole.iter().min().copied().unwrap_or(0));
    let [low, high] = [claim.values[0] as u64, claim.values[1] as u64];
    Ok(Comparison::holds(
        cut.contains(&low) && whole.contains(&high) && last < first,
        format!("{low} octets with a 1-byte segment, {high} without"),
        format!("{last} octets the last with one, {first} the first without"),
    ))
}

fn discard_segments(claim: &Claim, runs: &Runs) -> Outcome {
    let run = runs.of("lh-4");
    let (slow, fast) = (with(run, "total_bytes", "5118"), with(run, "total_bytes", "5120"));
    Ok(Comparison::numbers(claim, &sizes(&data(&slow.measured.wire, From::Client)))
        .and(as_printed(&slow.measured.wire, "layering/discard-5118", "Table 5 (5,118)"))
        .and(as_printed(&fast.measured.wire, "layering/discard-5120", "Table 5 (5,120)")))
}

/// Milliseconds between the first and the last of `rows`.
fn span_ms(rows: &[&WireRow]) -> f64 {
    match (rows.first(), rows.last()) {
        (Some(first), Some(last)) => (last.at_ns - first.at_ns) as f64 / 1e6,
        _ => f64::NAN,
    }
}

fn discard_times(claim: &Claim, runs: &Runs) -> Outcome {
    let run = runs.of("lh-4");
    let span = |total| span_ms(&data(&with(run, "total_bytes", total).measured.wire, From::Client));
    Ok(Comparison::numbers(claim, &[span("5118"), span("5120")]).with_note(
        "the last segment of 5,118 leaves with the FIN, so the gap is the program's own 40 ms before it closes, a number of Table 5: what is found is that nothing else lets it go",
    ))
}

fn nodelay_times(claim: &Claim, runs: &Runs) -> Outcome {
    let run = runs.of("lh-5");
    let wire = |total| &with(run, "total_bytes", total).measured.wire;
    let span = |total| span_ms(&data(wire(total), From::Client));
    let whole = |total: &'static str| span_ms(&wire(total).iter().collect::<Vec<_>>());
    let got = [span("5118"), span("5120"), whole("5118"), whole("5120")];
    Ok(Comparison::numbers(claim, &got)
        .with_note(
            "when reader and writer start and close is taken from Table 6, so that only the likeness of both sizes is evidence, and the packets",
        )
        .and(as_printed(wire("5118"), "layering/discard-nodelay-5118", "Table 6 (5,118)"))
        .and(as_printed(wire("5120"), "layering/discard-nodelay-5120", "Table 6 (5,120)")))
}

fn small_at_once(claim: &Claim, runs: &Runs) -> Outcome {
    let wire = &with(runs.of("lh-5"), "total_bytes", "5118").measured.wire;
    let rows = data(wire, From::Client);
    let pair = rows.windows(2).find(|pair| pair[1].bytes == 1);
    let ms = pair.map_or(f64::NAN, |pair| (pair[1].at_ns - pair[0].at_ns) as f64 / 1e6);
    Ok(Comparison::numbers(claim, &[ms]))
}

/// Small segments of a writer that left while an earlier small one was not acknowledged. A FIN
/// forces out what is queued, so a segment that carries one does not count.
fn small_too_early(wire: &[WireRow]) -> usize {
    let mss = wire.iter().find_map(|row| row.mss).unwrap_or(1460);
    let client = sent(wire, From::Client);
    let server = sent(wire, From::Server);
    let is_small = |row: &&&WireRow| row.is_data() && row.bytes < mss;
    let small: Vec<_> = client.iter().filter(is_small).collect();
    let acked_by = |at_ns: u64| {
        let before = server.iter().filter(|row| row.at_ns <= at_ns);
        before.filter_map(|row| row.ack).max().unwrap_or(0)
    };
    let too_early = |pair: &&[&&WireRow]| {
        let fin = matches!(pair[1].flags, WireFlags::Tcp { fin: true, .. });
        let end = pair[0].sequence.map_or(0, |(_, end)| end);
        !fin && acked_by(pair[1].at_ns) < end
    };
    small.windows(2).filter(too_early).count()
}

fn one_small_segment(claim: &Claim, runs: &Runs) -> Outcome {
    let cases = &runs.of("lh-4").cases;
    let early: usize = cases.iter().map(|case| small_too_early(&case.measured.wire)).sum();
    let outstanding = if early == 0 { 1.0 } else { 2.0 };
    Ok(Comparison::numbers(claim, &[outstanding]).with_note(format!(
        "over {} transfers; a segment with FIN may leave beside another, as in Table 5",
        cases.len()
    )))
}

/// Where segments with push end, against where the writer's queue was empty by the rule of sosend.
fn push_empties(_: &Claim, runs: &Runs) -> Outcome {
    let run = runs.of("lh-4");
    let pushed = |total: &str| {
        let rows = data(&with(run, "total_bytes", total).measured.wire, From::Client);
        let ends =
            rows.into_iter().filter(|row| matches!(row.flags, WireFlags::Tcp { push: true, .. }));
        ends.filter_map(|row| row.sequence).map(|(_, end)| end).collect::<Vec<_>>()
    };
    let (cut, whole) = (pushed("5118"), pushed("5120"));
    Ok(Comparison::holds(
        cut == [4096, 4097, 5119] && whole == [4096, 5121],
        "push at 4096, 4097 and 5119, and at 4096 and 5121: each end of what was queued, nowhere else",
        format!("push at {cut:?}, and at {whole:?}"),
    ))
}

fn clock(_: &Claim, _: &Runs) -> Outcome {
    Err("a property of the clock of the machine that made the traces; the model's clock is exact, and comparisons with \
         Tables 3 and 5 allow 10 ms"
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    /// The SYNs of Tables 3, 5 and 6 announce 1,460 octets, but for one that was printed without it.
    #[test]
    fn a_syn_announces_what_the_tables_print() {
        let wire = |id: &str| {
            let experiment = sockscope_experiment::builtin_by_id(id).unwrap();
            let run = sockscope_lab::run::run(&experiment, 1, &mut |_, _| {}).unwrap();
            with(&run, "total_bytes", "5118").measured.wire.clone()
        };
        let traces = [
            ("lh-2", "layering/rpc-4800"),
            ("lh-4", "layering/discard-5118"),
            ("lh-5", "layering/discard-nodelay-5118"),
        ];
        for (id, table) in traces {
            let mut model = wire(id);
            let syns: Vec<_> = model.iter().filter_map(|row| row.mss).collect();
            assert_eq!(syns, [1460, 1460], "{id}");
            assert_eq!(as_printed(&model, table, "it").verdict, Verdict::Reproduced);
            model.iter_mut().filter(|row| row.mss.is_some()).for_each(|row| row.mss = Some(1024));
            assert_eq!(as_printed(&model, table, "it").verdict, Verdict::Differs);
        }
    }

    /// One acknowledgment more than printed is another trace, though all data are the same.
    #[test]
    fn a_packet_without_data_counts_as_well() {
        let name = "layering/discard-nodelay-5118";
        let mut wire = wire_trace(name).unwrap();
        let note = |of_14| {
            format!(
                "flags, sequence numbers and acknowledgments of every packet as in it, another window in {of_14} of 14"
            )
        };
        assert_eq!(as_printed(&wire, name, "it").note, note(0));
        wire[7].window = Some(0);
        assert_eq!(as_printed(&wire, name, "it").verdict, Verdict::Reproduced);
        assert_eq!(as_printed(&wire, name, "it").note, note(1));
        assert!(!wire[7].is_data());
        wire.insert(7, wire[7].clone());
        let other = as_printed(&wire, name, "it");
        assert_eq!((other.verdict, other.note.as_str()), (Verdict::Differs, ""));
    }
}
