//! A comparison from its plan: every case in turns, then its ledgers.

use sockscope_record::counted;

use super::measure::Measured;
use super::{Comparison, Figures, Plan, Row, ledgers, run};

/// Measures all cases of `plan`; `progress` gets the number of each before it begins.
pub fn compare(plan: Plan, progress: &(dyn Fn(&str) + Sync)) -> Comparison {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let mut turns = take_turns(&plan, progress).into_iter();
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
    Comparison { plan, rows, notes }
}

/// The turns of each case, by protocol, then case: in each round every case is tried by one protocol
/// after the other, so that what disturbs one disturbs the others. A case that failed gets no turn more.
fn take_turns(plan: &Plan, progress: &(dyn Fn(&str) + Sync)) -> Vec<Result<Vec<Measured>, String>> {
    let cases: Vec<_> = cases(plan).collect();
    let mut turns = vec![Ok(Vec::new()); plan.protocols.len() * cases.len()];
    for round in 1..=plan.repetitions.max(1) {
        for (at, &(bytes, clients)) in cases.iter().enumerate() {
            let of = counted(clients as u64, "client");
            progress(&format!("round {round}: {bytes} B, {of}"));
            let of_case = turns.iter_mut().skip(at).step_by(cases.len());
            for (&protocol, turns) in plan.protocols.iter().zip(of_case) {
                let Ok(measured) = turns else { continue };
                match run(protocol, bytes, clients, plan.slice) {
                    Ok(turn) => measured.push(turn),
                    Err(error) => *turns = Err(error.to_string()),
                }
            }
        }
    }
    turns
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

    use super::super::Protocol;
    use super::*;

    fn plan(message_bytes: Vec<usize>) -> Plan {
        Plan {
            protocols: Protocol::ALL.to_vec(),
            message_bytes,
            clients: vec![1, 3],
            clients_bytes: Vec::new(),
            repetitions: 2,
            slice: Duration::from_millis(5),
            recorded: Duration::ZERO,
        }
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
