//! Checks of packets and system calls: Tables 3 to 6 of "Is Layering Harmful?".

use sockscope_experiment::papers::{Claim, WireFlags, WireRow, wire_trace};
use sockscope_experiment::result::{CaseResult, RunResult};
use sockscope_experiment::word;

use super::variation::vary;
use super::{Check, Comparison, Outcome, Runs, most};

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

/// Where the client's timer of 200 ms may stand when the call begins, in milliseconds.
const PHASES_MS: std::ops::Range<u64> = 0..200;
const PHASE_STEP_MS: usize = 10;

/// The reply's wait at each phase of the client's timer, in milliseconds.
fn reply_waits(changes: &[&str]) -> Result<Vec<f64>, String> {
    let wait = |phase_ms: u64| {
        let phase = format!("client_timer_ms={phase_ms}");
        let run = vary("lh-2", &[&["server_timer_ms=30", phase.as_str()], changes].concat())?;
        Ok(small_wait(&first(&run).measured.wire, From::Server))
    };
    PHASES_MS.step_by(PHASE_STEP_MS).map(wait).collect()
}

/// The phase of the timer is chance, and Table 3 shows one: the longest wait is the timer's period, and
/// the mean is half of it.
fn reply_wait(claim: &Claim, _: &Runs) -> Outcome {
    Ok(longest_wait(claim, &reply_waits(&[])?))
}

fn longest_wait(claim: &Claim, waits: &[f64]) -> Comparison {
    let (longest, mean) =
        (most(waits.iter().copied()), waits.iter().sum::<f64>() / waits.len() as f64);
    let half = claim.values[0] / 2.0;
    Comparison::numbers(claim, &[longest])
        .and(Comparison::holds(
            (mean - half).abs() <= claim.tolerance(claim.values[0]),
            format!("{half:.0} ms in the mean of all phases"),
            format!("{mean:.0} ms in the mean, {longest:.0} at most"),
        ))
        .with_note(format!(
            "the longest of {} phases of the client's timer, {mean:.0} ms in the mean: the timer ends the wait, and Table 3 shows one of the longest",
            waits.len()
        ))
}

/// Waits of the request's and of the reply's small segment at each phase, in milliseconds.
pub(super) fn small_waits(runs: &Runs) -> Vec<[f64; 2]> {
    let of_case = |case: &CaseResult| {
        [From::Client, From::Server].map(|side| small_wait(&case.measured.wire, side))
    };
    runs.of("lh-2").cases.iter().map(of_case).collect()
}

fn request_wait(claim: &Claim, runs: &Runs) -> Outcome {
    let waits = small_waits(runs);
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

/// Milliseconds from the first to the last data segment of a writer of so many octets.
fn data_span_ms(run: &RunResult, total: &str) -> f64 {
    span_ms(&data(&with(run, "total_bytes", total).measured.wire, From::Client))
}

/// When the writer of Table 5 may close after its last write, in milliseconds: sooner than its timer
/// acknowledges the stalled segment.
const CLOSES_MS: [u64; 4] = [10, 20, 40, 80];

/// Spans of both sizes for each time of closing, in milliseconds.
fn spans_by_close(changes: &[&str]) -> Result<Vec<[f64; 2]>, String> {
    let spans = |close_ms: u64| {
        let close = format!("close_after_ms={close_ms}");
        let run = vary("lh-4", &[&[close.as_str()], changes].concat())?;
        Ok(["5118", "5120"].map(|total| data_span_ms(&run, total)))
    };
    CLOSES_MS.into_iter().map(spans).collect()
}

/// Whether the stalled size lasts longer by the time until the writer closes, and the other size does
/// not know of it.
fn follow_the_close(spans: &[[f64; 2]], slack_ms: f64) -> bool {
    let free = spans.first().map_or(f64::NAN, |spans| spans[1]);
    CLOSES_MS.iter().zip(spans).all(|(close_ms, [cut, whole])| {
        (cut - whole - *close_ms as f64).abs() <= slack_ms && (whole - free).abs() <= slack_ms
    })
}

/// The time until the writer closes is a number of Table 5, that of the other size. So the rule is
/// judged over a range of such times.
fn discard_times(claim: &Claim, runs: &Runs) -> Outcome {
    let run = runs.of("lh-4");
    let spans = spans_by_close(&[])?;
    let words: Vec<_> = CLOSES_MS
        .iter()
        .zip(&spans)
        .map(|(close, [cut, whole])| format!("{close}: {cut:.0} and {whole:.0}"))
        .collect();
    let words = words.join("; ");
    Ok(Comparison::numbers(claim, &["5118", "5120"].map(|total| data_span_ms(run, total)))
        .and(Comparison::holds(
            follow_the_close(&spans, claim.tolerance(0.0)),
            "5,118 octets last longer by the time until the writer closes, 5,120 do not",
            format!("by milliseconds until it closes: {words} ms"),
        ))
        .with_note(format!(
            "40 ms until the writer closes is the FIN of the other trace in Table 5; by milliseconds until it closes: {words} ms"
        )))
}

/// Times of the reader in Table 6's program that may be others, in microseconds.
const READS_US: [u64; 3] = [10_000, 33_000, 60_000];

/// Spans of data and of the whole connection, of both sizes.
fn nodelay_spans(run: &RunResult) -> [f64; 4] {
    let wire = |total| &with(run, "total_bytes", total).measured.wire;
    let whole = |total: &'static str| span_ms(&wire(total).iter().collect::<Vec<_>>());
    [data_span_ms(run, "5118"), data_span_ms(run, "5120"), whole("5118"), whole("5120")]
}

/// Whether both sizes take the same, but for `tolerance` of the time.
fn alike(spans: &[f64; 4], tolerance: f64) -> bool {
    let is_near = |a: f64, b: f64| (a - b).abs() <= tolerance * a.max(b);
    is_near(spans[0], spans[1]) && is_near(spans[2], spans[3])
}

fn nodelay_times(claim: &Claim, runs: &Runs) -> Outcome {
    let run = runs.of("lh-5");
    let tolerance = claim.tol_rel.unwrap_or(0.0);
    let spans =
        |read_us: u64| Ok(nodelay_spans(&vary("lh-5", &[&format!("read_after_us={read_us}")])?));
    let by_reader = READS_US.into_iter().map(spans).collect::<Result<Vec<_>, String>>()?;
    let words: Vec<_> = by_reader
        .iter()
        .zip(READS_US)
        .map(|(spans, us)| format!("{} ms: {:.1} and {:.1}", us / 1000, spans[0], spans[1]))
        .collect();
    let wire = |total| &with(run, "total_bytes", total).measured.wire;
    Ok(Comparison::numbers(claim, &nodelay_spans(run))
        .with_note(
            "when reader and writer start and close is taken from Table 6, so that only the likeness of both sizes is evidence, and the packets",
        )
        .and(Comparison::holds(
            by_reader.iter().all(|spans| alike(spans, tolerance)),
            "both sizes take the same, whenever the reader begins",
            words.join("; "),
        ))
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

/// A writer of 100 octets each 30 ms to a reader that begins when all is written: small segments, and
/// those of them that left too early.
fn small_pieces(changes: &[&str]) -> Result<(usize, usize), String> {
    let pieces =
        ["total_bytes=3000", "write_bytes=100", "write_pause_ms=30", "read_after_us=4000000"];
    let run = vary("lh-4", &[&pieces, changes].concat())?;
    let wire = &first(&run).measured.wire;
    let mss = wire.iter().find_map(|row| row.mss).unwrap_or(1460);
    let small = data(wire, From::Client).iter().filter(|row| row.bytes < mss).count();
    Ok((small, small_too_early(wire)))
}

fn one_small_segment(claim: &Claim, runs: &Runs) -> Outcome {
    let cases = &runs.of("lh-4").cases;
    let (small, early_of_pieces) = small_pieces(&[])?;
    let early: usize = cases.iter().map(|case| small_too_early(&case.measured.wire)).sum();
    let outstanding = if early + early_of_pieces == 0 { 1.0 } else { 2.0 };
    Ok(Comparison::numbers(claim, &[outstanding])
        .and(Comparison::holds(
            small > 3,
            "several small segments",
            format!("{small} small segments"),
        ))
        .with_note(format!(
            "over {} transfers, and {small} small segments of a writer of 100 octets each 30 ms; a segment with FIN may leave beside another, as in Table 5",
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

    fn claim(id: &str) -> Claim {
        sockscope_experiment::papers::Claims::builtin().unwrap().claim(id).unwrap().clone()
    }

    /// Where the send rule cuts no small segment there is nothing to wait for.
    #[test]
    fn a_wait_that_is_not_the_timers_differs() {
        let claim = claim("layering/T3-b");
        let ramp: Vec<f64> = (1..=20).map(|at| f64::from(at) * 10.0).collect();
        assert_eq!(longest_wait(&claim, &ramp).verdict, Verdict::Reproduced);
        let short: Vec<f64> = ramp.iter().map(|ms| ms / 5.0).collect();
        assert_eq!(longest_wait(&claim, &short).verdict, Verdict::Differs, "a timer of 40 ms");
        assert_eq!(longest_wait(&claim, &[200.0; 20]).verdict, Verdict::Differs, "no timer");
        let whole = reply_waits(&["send_rule=cluster"]).unwrap();
        assert_eq!(longest_wait(&claim, &whole).verdict, Verdict::Differs, "{whole:?}");
    }

    #[test]
    fn without_nagles_rule_nothing_follows_the_close_and_small_pieces_leave_early() {
        assert!(follow_the_close(&spans_by_close(&[]).unwrap(), 10.0));
        assert!(!follow_the_close(&spans_by_close(&["nodelay=true"]).unwrap(), 10.0));
        let (_, early) = small_pieces(&["nodelay=true"]).unwrap();
        assert!(early > 0);
    }

    #[test]
    fn sizes_that_take_different_times_are_not_alike() {
        assert!(alike(&[27.9, 27.6, 64.0, 63.7], 0.1));
        assert!(!alike(&[51.9, 11.3, 89.3, 88.2], 0.1), "with Nagle's rule");
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
