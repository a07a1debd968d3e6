//! Checks of VMTP over Ethernet: chapter 4 of "The Influence of Protocol Choice on Network
//! Performance", Figures 8 to 12.

use sockscope_experiment::papers::Claim;
use sockscope_experiment::result::{CaseResult, RunResult};

use super::{Check, Comparison, Outcome, Runs, least, most};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "protocol-choice/4-vmtp-a", needs: &["pc-6"], compare: smallest },
    Check { id: "protocol-choice/4-vmtp-b", needs: &["pc-6"], compare: largest },
    Check { id: "protocol-choice/4-vmtp-c", needs: &["pc-6"], compare: user_share },
    Check { id: "protocol-choice/4-vmtp-d", needs: &["pc-3"], compare: throughput_flattens },
    Check { id: "protocol-choice/4-vmtp-e", needs: &["pc-4"], compare: one_client },
    Check { id: "protocol-choice/4-vmtp-f", needs: &["pc-4"], compare: each_adds_less },
    Check { id: "protocol-choice/4-vmtp-g", needs: &["pc-5"], compare: rate_of_a_client },
    Check { id: "protocol-choice/4-vmtp-h", needs: &["pc-5"], compare: rate_of_the_host },
    Check { id: "protocol-choice/4-vmtp-i", needs: &["pc-6"], compare: linear },
    Check { id: "protocol-choice/4-vmtp-j", needs: &["pc-6"], compare: two_small_for_one_large },
    Check { id: "protocol-choice/4-vmtp-k", needs: &["pc-4"], compare: hosts_collide },
    Check { id: "protocol-choice/4-vmtp-m", needs: &["pc-6b"], compare: group },
];

/// The machine that 15.39 ms are fitted on.
const MACHINE: &str = "decstation-5000-200";

/// Clients in Figure 10 and 11 of the model.
pub(super) const CLIENTS: std::ops::RangeInclusive<u32> = 1..=8;

/// What the only case with these parameters saw; `None` without one.
fn case<'a>(run: &'a RunResult, wanted: &[(&str, &str)]) -> Option<&'a CaseResult> {
    run.cases.iter().find(|result| {
        let is = |name: &str, value: &str| {
            result.case.value(name).is_some_and(|it| sockscope_experiment::word(it) == value)
        };
        wanted.iter().all(|(name, value)| is(name, value))
    })
}

/// A measure of the only case with these parameters; no number without one.
fn measure(run: &RunResult, wanted: &[(&str, &str)], name: &str) -> f64 {
    case(run, wanted).and_then(|case| case.measured.measure(name)).unwrap_or(f64::NAN)
}

/// A transaction with a request of `bytes` of `pc-6`.
fn sized<'a>(runs: &'a Runs, bytes: &str) -> Option<&'a CaseResult> {
    case(runs.of("pc-6"), &[("machine", MACHINE), ("request_bytes", bytes)])
}

/// Its mean time in milliseconds, and what it puts on the wire.
fn latency_ms(runs: &Runs, bytes: &str) -> f64 {
    let mean_ns = sized(runs, bytes).and_then(|case| case.measured.call_ns.mean_ns());
    mean_ns.map_or(f64::NAN, |ns| ns as f64 / 1e6)
}

fn wire_ms(runs: &Runs, bytes: &str) -> f64 {
    let wire_ns = sized(runs, bytes).and_then(|case| case.measured.measure("wire_ns"));
    wire_ns.unwrap_or(f64::NAN) / 1e6
}

fn smallest(claim: &Claim, runs: &Runs) -> Outcome {
    let (all, wire) = (latency_ms(runs, "0"), wire_ms(runs, "0"));
    Ok(Comparison::numbers(claim, &[all, wire, 100.0 * wire / all]).with_note(
        "the first number is what the model is fitted to; the wire's follows from the packets",
    ))
}

fn largest(claim: &Claim, runs: &Runs) -> Outcome {
    // The packets of the request alone: its answer is that of the smallest transaction, half of whose
    // octets it is.
    let request = wire_ms(runs, "16384") - wire_ms(runs, "0") / 2.0;
    let all = latency_ms(runs, "16384");
    Ok(Comparison::numbers(claim, &[request])
        .with_note(format!(
            "the transaction takes {all:.2} ms, copying included; 29.4 by the claim's sum; 139.776 ms as printed is none of these"
        )))
}

fn user_share(claim: &Claim, runs: &Runs) -> Outcome {
    let share = sized(runs, "16384").and_then(|case| case.measured.measure("user_share_percent"));
    Ok(Comparison::numbers(claim, &[share.unwrap_or(f64::NAN)])
        .with_note("with 20 octets of IP and 18 of Ethernet around each packet"))
}

/// Per cent of its time that a wire is busy which is full or nearly so.
const WIRE_FULL: f64 = 90.0;

/// Megabits a second at whole packets, by size.
fn rates(run: &RunResult, machine: &str) -> Vec<f64> {
    let rate = |packets: usize| {
        let bytes = (1024 * packets).to_string();
        let case = case(run, &[("machine", machine), ("request_bytes", &bytes)])?;
        case.measured.throughput_bits_per_s().map(|rate| rate / 1e6)
    };
    (1..=16).map(|packets| rate(packets).unwrap_or(f64::NAN)).collect()
}

fn throughput_flattens(_: &Claim, runs: &Runs) -> Outcome {
    let run = runs.of("pc-3");
    let machines = ["decstation-3100", MACHINE, "decstation-5000-240"];
    let all = machines.map(|machine| rates(run, machine));
    let busy = |machine: &&str| {
        measure(run, &[("machine", *machine), ("request_bytes", "16384")], "network_busy_percent")
    };
    let busy = most(machines.iter().map(busy));
    let holds = all.iter().all(|rates| grows_ever_less(rates)) && busy < WIRE_FULL;
    let got = all.map(|rates| {
        let at = |packets: usize| rates.get(packets - 1).copied().unwrap_or(f64::NAN);
        format!("{:.2}, {:.2}, {:.2}, {:.2}", at(1), at(4), at(8), at(16))
    });
    Ok(Comparison::holds(
        holds,
        "rises with every packet to 16 KB, each time by less, on three machines, none of which fills the wire",
        format!(
            "Mbit/s at 1, 4, 8, 16 KB: {}; the wire is busy for {busy:.0} % at most",
            got.join("; ")
        ),
    ))
}

fn steps(values: &[f64]) -> Vec<f64> {
    values.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

fn grows_ever_less(values: &[f64]) -> bool {
    let steps = steps(values);
    steps.iter().all(|step| *step > 0.0) && steps.windows(2).all(|pair| pair[1] < pair[0])
}

/// A case of `pc-4`.
fn large<'a>(runs: &'a Runs, clients: u32, own_hosts: &str) -> Option<&'a CaseResult> {
    let clients = clients.to_string();
    case(runs.of("pc-4"), &[("clients", &clients), ("own_hosts", own_hosts)])
}

fn total_mbit_per_s(case: Option<&CaseResult>) -> f64 {
    case.and_then(|case| case.measured.throughput_bits_per_s()).map_or(f64::NAN, |rate| rate / 1e6)
}

/// The part of a transaction in which its VMTP packets are on the wire, as the thesis has it for the
/// smallest one: without Ethernet, IP and the silence behind each frame.
/// Frames that the full queue of one host dropped, with so many clients.
pub(super) fn dropped_frames(runs: &Runs, clients: u32) -> f64 {
    let case = large(runs, clients, "false");
    case.and_then(|case| case.measured.measure("dropped_frames")).unwrap_or(f64::NAN)
}

/// Milliseconds of packets on the wire and of a transaction of one client with 16 KB both ways.
pub(super) fn one_client_case(runs: &Runs) -> (f64, f64) {
    let one = large(runs, 1, "false");
    let wire_ns = one.and_then(|case| case.measured.measure("wire_ns"));
    let call_ns = one.and_then(|case| case.measured.call_ns.mean_ns());
    (wire_ns.unwrap_or(f64::NAN) / 1e6, call_ns.map_or(f64::NAN, |ns| ns as f64 / 1e6))
}

fn one_client(claim: &Claim, runs: &Runs) -> Outcome {
    let one = large(runs, 1, "false");
    let of = |name: &str| one.and_then(|case| case.measured.measure(name)).unwrap_or(f64::NAN);
    let call_ns =
        one.and_then(|case| case.measured.call_ns.mean_ns()).map_or(f64::NAN, |ns| ns as f64);
    Ok(Comparison::numbers(claim, &[100.0 * of("wire_ns") / call_ns]).with_note(format!(
        "time of VMTP packets alone; {:.1} % with frames and the silence behind each; user data is {:.2} Mbit/s",
        of("network_busy_percent"),
        total_mbit_per_s(one)
    )))
}

fn each_adds_less(_: &Claim, runs: &Runs) -> Outcome {
    let total = |clients| total_mbit_per_s(large(runs, clients, "false"));
    let rates = [1, 2, 3].map(total);
    let busy =
        large(runs, 3, "false").and_then(|case| case.measured.measure("network_busy_percent"));
    let busy = busy.unwrap_or(f64::NAN);
    let holds = grows_ever_less(&rates) && busy > WIRE_FULL;
    let got = rates.map(|rate| format!("{rate:.2}")).join(", ");
    Ok(Comparison::holds(
        holds,
        "three clients: each adds less, and the wire is nearly full",
        format!("{got} Mbit/s; the wire is busy for {busy:.0} % with three"),
    )
    .with_note(format!(
        "the model goes on: {:.2} Mbit/s with four, {:.2} with six",
        total(4),
        total(6)
    )))
}

/// The pairs of `pc-5`, and a measure of each by the number of clients.
fn small(runs: &Runs, name: &str) -> Vec<(String, Vec<f64>)> {
    let run = runs.of("pc-5");
    let machine_of = |case: &CaseResult, name: &str| {
        case.case.value(name).map(sockscope_experiment::word).unwrap_or_default()
    };
    let one = run.cases_with(&[("clients", "1")]);
    let pairs = one.map(|case| ["machine", "server_machine"].map(|name| machine_of(case, name)));
    let of_pair = |[machine, server]: [String; 2]| {
        let rate = |clients: u32| {
            let clients = clients.to_string();
            let pair =
                [("machine", &*machine), ("server_machine", &*server), ("clients", &clients)];
            measure(run, &pair, name)
        };
        let rates = CLIENTS.map(rate).collect();
        let short = |name: &str| name.trim_start_matches("decstation-").to_owned();
        (format!("{} to {}", short(&machine), short(&server)), rates)
    };
    pairs.map(of_pair).collect()
}

fn table(pairs: &[(String, Vec<f64>)]) -> String {
    let row = |(name, rates): &(String, Vec<f64>)| {
        let rates: Vec<_> = rates.iter().map(|rate| format!("{rate:.1}")).collect();
        format!("{name}: {}", rates.join(" "))
    };
    pairs.iter().map(row).collect::<Vec<_>>().join("; ")
}

fn rate_of_a_client(_: &Claim, runs: &Runs) -> Outcome {
    let pairs = small(runs, "client_packets_per_s");
    let falls = |rates: &[f64]| steps(rates).iter().all(|step| *step < 0.0);
    let is_convex = |rates: &[f64]| steps(rates).windows(2).all(|pair| pair[0] <= pair[1]);
    let all = |from: usize| {
        pairs.iter().all(|(_, rates)| falls(&rates[from..]) && is_convex(&rates[from..]))
    };
    let note = match (all(0), all(1)) {
        (true, _) => "",
        (_, true) => {
            "from the second client on; the second one costs the first one nothing, or less than the \
            third does, because each host works while the other one does"
        }
        _ => "nor does it from the second client on",
    };
    Ok(Comparison::holds(all(0), "packets a second of each client fall, ever less", table(&pairs))
        .with_note(note))
}

/// Whether a rate by clients rises with the first two and is level from three on.
fn rises_then_level(rates: &[f64]) -> bool {
    let (Some(one), Some(last)) = (rates.first(), rates.last()) else { return false };
    let level = rates.iter().skip(2).all(|rate| (rate / last - 1.0).abs() < 0.05);
    level && *last > 1.3 * one
}

/// What the busier CPU of a pair and the wire do at most once the rate is level, in per cent.
fn at_the_ceiling(runs: &Runs) -> (f64, f64) {
    let level = |name: &str| {
        let pairs = small(runs, name).into_iter();
        pairs.map(|(_, values)| values[2..].to_vec()).collect::<Vec<_>>().concat()
    };
    let (client, server) = (level("client_cpu_percent"), level("server_cpu_percent"));
    let busier = client.into_iter().zip(server).map(|(client, server)| most([client, server]));
    (least(busier), most(level("network_busy_percent")))
}

fn rate_of_the_host(_: &Claim, runs: &Runs) -> Outcome {
    let pairs = small(runs, "host_packets_per_s");
    let (cpu, wire) = at_the_ceiling(runs);
    Ok(Comparison::holds(
        pairs.iter().all(|(_, rates)| rises_then_level(rates)) && cpu > 95.0 && wire < 10.0,
        "packets a second of the host rise by a third and more, and are level within 5 % from three \
         clients on, where a CPU is always at work and the wire is not",
        format!(
            "{}; from three clients on a CPU works for at least {cpu:.1} % of the time, and the wire is busy for {wire:.0} % at most",
            table(&pairs)
        ),
    ))
}

/// Coefficients of correlation of all machines' times with the size of a request.
fn linear(_: &Claim, runs: &Runs) -> Outcome {
    let of_machine = |machine: &str| {
        let points: Vec<_> =
            runs.of("pc-6").cases_with(&[("machine", machine)]).filter_map(point).collect();
        (correlation(&points), points.len())
    };
    let all = ["decstation-3100", MACHINE, "decstation-5000-240"].map(of_machine);
    let got = all.map(|(r, sizes)| format!("{r:.5} of {sizes} sizes")).join(", ");
    Ok(Comparison::holds(
        all.iter().all(|(r, _)| *r > 0.99),
        "straight lines: correlation over 0.99 on three machines",
        format!("correlation {got}"),
    ))
}

fn point(case: &CaseResult) -> Option<(f64, f64)> {
    let bytes = case.case.value("request_bytes")?.as_integer()?;
    Some((bytes as f64, case.measured.call_ns.mean_ns()? as f64))
}

/// Pearson's coefficient of correlation.
fn correlation(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
    let xy = mean(&|point| (point.0 - x) * (point.1 - y));
    let xx = mean(&|point| (point.0 - x).powi(2));
    let yy = mean(&|point| (point.1 - y).powi(2));
    xy / (xx * yy).sqrt()
}

fn two_small_for_one_large(claim: &Claim, runs: &Runs) -> Outcome {
    let (small, large) = (latency_ms(runs, "1"), latency_ms(runs, "16384"));
    Ok(Comparison::numbers(claim, &[2.0 * small / large])
        .and(Comparison::holds(
            small >= 15.0,
            "another transaction adds at least 15 ms",
            format!("{small:.2} ms"),
        ))
        .with_note(format!(
            "{small:.2} ms with one octet, which is what the model is fitted to; {large:.2} ms with 16 KB"
        )))
}

/// Totals and collisions of so many clients, on one host and on a host each.
pub(super) struct Shared {
    clients: u32,
    mbit_per_s: [f64; 2],
    collisions: [f64; 2],
}

pub(super) fn shared_by_clients(runs: &Runs, clients: u32) -> Shared {
    let both = ["false", "true"].map(|own_hosts| large(runs, clients, own_hosts));
    let of = |case: Option<&CaseResult>, name: &str| {
        case.and_then(|case| case.measured.measure(name)).unwrap_or(f64::NAN)
    };
    Shared {
        clients,
        mbit_per_s: both.map(total_mbit_per_s),
        collisions: both.map(|case| of(case, "collisions")),
    }
}

/// Whether hosts give less than one host because they collide, and one host never falls.
pub(super) fn hosts_lose(rows: &[Shared]) -> bool {
    let loses = |row: &Shared| {
        row.mbit_per_s[1] < row.mbit_per_s[0] && row.collisions[0] == 0.0 && row.collisions[1] > 0.0
    };
    let holds_up = |pair: &[Shared]| pair[1].mbit_per_s[0] > 0.995 * pair[0].mbit_per_s[0];
    !rows.is_empty() && rows.iter().all(loses) && rows.windows(2).all(holds_up)
}

/// From two clients on: one has a host of its own in either case.
fn hosts_collide(_: &Claim, runs: &Runs) -> Outcome {
    let rows: Vec<_> = CLIENTS.skip(1).map(|clients| shared_by_clients(runs, clients)).collect();
    let words = |row: &Shared| {
        let [one, own] = row.mbit_per_s;
        format!("{}: {one:.2} and {own:.2} ({:.1} collisions)", row.clients, row.collisions[1])
    };
    Ok(Comparison::holds(
        hosts_lose(&rows),
        "with any number of clients from two on, a host for each gives less than one host, through collisions; one host does not fall",
        format!("Mbit/s by clients: {}", rows.iter().map(words).collect::<Vec<_>>().join("; ")),
    ))
}

fn group(claim: &Claim, runs: &Runs) -> Outcome {
    let run = runs.of("pc-6b");
    let of = |members: &str, name: &str| measure(run, &[("members", members)], name);
    let requests =
        ["2", "4", "8"].map(|members| of(members, "packets_out") / of("1", "packets_out"));
    Ok(Comparison::against(claim, &[1.0; 3], &requests).with_note(format!(
        "replies come on top: {:.1} packets from eight members; two hosts beside the group hear {:.1} \
         frames of each request in vain",
        of("8", "packets_in"),
        of("8", "heard_in_vain")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_rises_on_or_hardly_rises_is_no_ceiling() {
        assert!(rises_then_level(&[52.0, 88.0, 88.0, 88.0]));
        assert!(!rises_then_level(&[52.0, 70.0, 88.0, 100.0]));
        assert!(!rises_then_level(&[80.0, 88.0, 88.0, 88.0]));
    }

    #[test]
    fn hosts_lose_by_collisions_or_not_at_all() {
        let row = |mbit_per_s, collisions| Shared { clients: 3, mbit_per_s, collisions };
        let (good, more) = (row([8.8, 8.6], [0.0, 4.0]), row([8.9, 8.5], [0.0, 6.0]));
        assert!(hosts_lose(&[good, more]));
        assert!(!hosts_lose(&[]), "nothing to compare");
        assert!(!hosts_lose(&[row([8.8, 8.9], [0.0, 4.0])]), "more than one host");
        assert!(!hosts_lose(&[row([8.8, 8.6], [0.0, 0.0])]), "less for another reason");
        let falls = [row([8.9, 8.5], [0.0, 6.0]), row([8.2, 8.1], [0.0, 6.0])];
        assert!(!hosts_lose(&falls), "one host falls");
    }

    #[test]
    fn a_square_is_no_straight_line() {
        let straight: Vec<_> = (0..64).map(|x| (f64::from(x), 3.0 + f64::from(x))).collect();
        let square: Vec<_> = (0..64).map(|x| (f64::from(x), f64::from(x * x))).collect();
        assert!(correlation(&straight) > 0.9999);
        assert!(correlation(&square) < 0.99);
    }
}
