//! A comparison from its plan: every case in turns, then its ledgers.

use sockscope_record::counted;

use super::measure::Measured;
use super::{Comparison, Figures, Plan, Protocol, Row, ledgers, run};
use crate::conditions::{Conditions, DROPPED, Disturbed, Watch, scattered};

/// Measures all cases of `plan`; `progress` gets the number of each before it begins.
pub fn compare(plan: Plan, progress: &(dyn Fn(&str) + Sync)) -> Comparison {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let watch = Watch::begin();
    let (turns, disturbed) = take_turns(&plan, progress);
    let others = watch.end();
    let mut turns = turns.into_iter();
    for &protocol in &plan.protocols {
        let mut of_protocol: Vec<Row> = cases(&plan)
            .zip(turns.by_ref())
            .map(|((message_bytes, clients), turns)| {
                let outcome = turns.and_then(Figures::of_median);
                Row { protocol, message_bytes, clients, outcome }
            })
            .collect();
        notes.extend(ledgers::add(&plan, protocol, &mut of_protocol, progress));
        rows.extend(of_protocol);
    }
    let conditions = Conditions::of(others, plan.rule, disturbed);
    notes.extend(conditions.disturbed_words());
    Comparison { plan, rows, notes, conditions }
}

/// The turns of one case so far, or why it gets no more.
type Turns = Result<Vec<Measured>, String>;

/// The turns of each case, by protocol, then case, and those that were disturbed: in each round every case is tried by one
/// protocol after the other, so that what disturbs one disturbs the others. A case that failed gets no turn more.
fn take_turns(plan: &Plan, progress: &(dyn Fn(&str) + Sync)) -> (Vec<Turns>, Vec<Disturbed>) {
    let cases: Vec<_> = cases(plan).collect();
    let mut turns = vec![Ok(Vec::new()); plan.protocols.len() * cases.len()];
    let mut disturbed = Vec::new();
    for round in 1..=plan.repetitions.max(1) {
        for (at, &(bytes, clients)) in cases.iter().enumerate() {
            let of = counted(clients as u64, "client");
            progress(&format!("round {round}: {bytes} B, {of}"));
            let of_case = turns.iter_mut().skip(at).step_by(cases.len());
            for (&protocol, turns) in plan.protocols.iter().zip(of_case) {
                let Ok(measured) = turns else { continue };
                match one_turn(plan, protocol, bytes, clients, &mut disturbed) {
                    Ok(turn) => measured.extend(turn),
                    Err(error) => *turns = Err(error),
                }
            }
        }
    }
    let names = plan.protocols.iter().flat_map(|&protocol| {
        cases.iter().map(move |&(bytes, clients)| name(protocol, bytes, clients))
    });
    for (turns, name) in turns.iter_mut().zip(names) {
        if let (Ok(measured), true) = (&mut *turns, plan.rule.drops) {
            drop_scattered(plan, measured, &name, &mut disturbed);
        }
        let last = disturbed.iter().rfind(|one| one.case == name);
        if let (Ok([]), Some(last)) = (turns.as_deref(), last) {
            *turns = Err(format!("{DROPPED} {}", last.reason));
        }
    }
    (turns, disturbed)
}

/// Drops the turns that are far from the median one.
fn drop_scattered(
    plan: &Plan,
    turns: &mut Vec<Measured>,
    name: &str,
    disturbed: &mut Vec<Disturbed>,
) {
    let rates: Vec<f64> = turns.iter().map(|turn| turn.calls_per_s).collect();
    for (at, percent) in scattered(&rates, plan.rule.scatter_percent_max).into_iter().rev() {
        turns.remove(at);
        let reason = format!("it was {percent:.0} % from the median of its case");
        disturbed.push(Disturbed { case: name.to_owned(), reason });
    }
}

/// A case in words.
fn name(protocol: Protocol, bytes: usize, clients: usize) -> String {
    format!("{}, {bytes} B, {}", protocol.name(), counted(clients as u64, "client"))
}

/// A turn, made again while others disturb it, a few times at most; `None` where they did each time.
fn one_turn(
    plan: &Plan,
    protocol: Protocol,
    bytes: usize,
    clients: usize,
    disturbed: &mut Vec<Disturbed>,
) -> Result<Option<Measured>, String> {
    for _ in 0..=plan.rule.again_max {
        let watch = Watch::begin();
        let turn = run(protocol, bytes, clients, plan.slice).map_err(|error| error.to_string())?;
        let Some(reason) = plan.rule.reason(&watch.end()) else { return Ok(Some(turn)) };
        disturbed.push(Disturbed { case: name(protocol, bytes, clients), reason });
        if !plan.rule.drops {
            return Ok(Some(turn));
        }
    }
    Ok(None)
}

/// Sizes in their order, each with its numbers of clients.
pub(super) fn cases(plan: &Plan) -> impl Iterator<Item = (usize, usize)> + '_ {
    let is_scaled = |size| plan.clients_bytes.is_empty() || plan.clients_bytes.contains(size);
    let clients = move |size| if is_scaled(size) { &plan.clients[..] } else { &plan.clients[..1] };
    let sizes = plan.message_bytes.iter();
    sizes.flat_map(move |size| clients(size).iter().map(move |&clients| (*size, clients)))
}

impl Figures {
    /// Of the turn with the median of calls a second.
    fn of_median(mut turns: Vec<Measured>) -> Result<Self, String> {
        turns.sort_by(|a, b| a.calls_per_s.total_cmp(&b.calls_per_s));
        let turns_per_s: Vec<_> = turns.iter().map(|turn| turn.calls_per_s).collect();
        if turns.is_empty() {
            return Err("no turn was taken".to_owned());
        }
        let Measured { call_ns, calls, calls_per_s, .. } = turns.swap_remove(turns.len() / 2);
        Ok(Self { call_ns, calls, calls_per_s, turns_per_s, ledger: None, recorded_ratio: None })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;
    use crate::conditions::Rule;

    fn plan(message_bytes: Vec<usize>) -> Plan {
        Plan {
            protocols: Protocol::ALL.to_vec(),
            message_bytes,
            clients: vec![1, 3],
            clients_bytes: Vec::new(),
            repetitions: 2,
            slice: Duration::from_millis(5),
            recorded: Duration::ZERO,
            rule: kept(),
        }
    }

    /// The machine of a test may be busy.
    fn kept() -> Rule {
        Rule { drops: false, ..Rule::default() }
    }

    #[test]
    fn every_protocol_answers_every_size() {
        let comparison = compare(plan(vec![1, 7, 3000, 65_000]), &|_| {});
        assert_eq!(comparison.rows.len(), Protocol::ALL.len() * 4 * 2);
        for row in &comparison.rows {
            let figures = row.outcome.as_ref().unwrap_or_else(|why| panic!("{row:?}: {why}"));
            assert!(figures.calls >= row.clients as u64, "{row:?}");
            assert!(figures.call_ns.n() as u64 <= figures.calls);
        }
    }

    #[test]
    fn a_case_whose_turns_are_all_disturbed_has_the_reason_and_no_figures() {
        // Whatever others do is too much then, and nothing is less than nothing.
        let rule = Rule { others_percent_max: -1.0, counted_from_ns: 0, ..Rule::default() };
        let mut plan = Plan { rule, ..plan(vec![1]) };
        (plan.protocols, plan.clients) = (vec![Protocol::Unix], vec![1]);
        let comparison = compare(plan.clone(), &|_| {});
        let why = comparison.rows[0].outcome.as_ref().expect_err("each turn was dropped");
        assert!(why.starts_with("dropped, because others had "), "{why}");
        let disturbed = &comparison.conditions.disturbed;
        assert_eq!(disturbed.len() as u32, plan.repetitions * (rule.again_max + 1));
        assert_eq!(disturbed[0].case, "unix, 1 B, 1 client");
        let note =
            comparison.notes.iter().find(|note| note.starts_with("dropped 8 disturbed runs"));
        assert!(note.is_some(), "{:?}", comparison.notes);
        plan.rule.drops = false;
        let kept = compare(plan, &|_| {});
        assert!(kept.rows[0].outcome.is_ok() && kept.conditions.disturbed.len() == 2, "{kept:?}");
    }

    #[test]
    fn what_a_protocol_cannot_carry_has_a_reason_and_no_figures() {
        let comparison = compare(plan(vec![100_000]), &|_| {});
        let refused = comparison.rows.iter().filter(|row| row.outcome.is_err());
        assert!(refused.clone().all(|row| row.protocol == Protocol::Udp));
        assert_eq!(refused.count(), 2);
    }

    #[test]
    fn root_ends_that_tell_give_a_ledger_and_its_cost() {
        let protocols = vec![Protocol::VmtpIp, Protocol::Channel];
        let recorded = Duration::from_millis(5);
        let comparison = compare(Plan { protocols, recorded, ..plan(vec![64, 100_000]) }, &|_| {});
        for row in &comparison.rows {
            let figures = match &row.outcome {
                Ok(figures) => figures,
                Err(why) if row.protocol == Protocol::VmtpIp && why.contains("CAP_NET_RAW") => {
                    // `cargo xtask ci` counts this line; libtest keeps what `eprintln!` writes.
                    let _ = writeln!(
                        std::io::stderr(),
                        "SKIPPED: root_ends_that_tell_give_a_ledger_and_its_cost: {why}"
                    );
                    continue;
                }
                Err(why) => panic!("{row:?}: {why}"),
            };
            let ledger = figures.ledger.as_ref().expect("a ledger");
            assert_eq!(ledger.connections, row.clients);
            assert!([&ledger.request, &ledger.response].iter().all(|it| it.total_ns() > 0));
            assert!(figures.recorded_ratio.is_some_and(|ratio| ratio > 0.0));
        }
        let notes = comparison.notes.join(" ");
        assert!(notes.contains("channel: while recorded, a median call takes"), "{notes}");
    }
}
