//! Checks of the seconds in each routine: Tables 1 and 2 of the study of buffers in 4.2BSD.
//!
//! Sizes stand in the order of [`SIZES`]. Sums are over the routines that the paper lists, so a
//! routine that the model alone has counts nowhere.

use sockscope_experiment::papers::{Claim, Table, table};
use sockscope_experiment::result::{CaseResult, RunResult};

use super::{Check, Comparison, Outcome, Runs};

/// The sizes of Tables 1 to 4.
pub(super) const SIZES: [&str; 6] = ["1", "112", "113", "1023", "1024", "1025"];

const ONE_BELOW: usize = 3;
const CLUSTER: usize = 4;
const ONE_ABOVE: usize = 5;

pub(super) const CHECKS: &[Check] = &[
    Check { id: "bsd-buffers/T1-a", needs: &["bb-1"], compare: tcp_bold_sums },
    Check { id: "bsd-buffers/T1-b", needs: &["bb-1", "bb-2"], compare: light_sums },
    Check { id: "bsd-buffers/T1-c", needs: &["bb-1"], compare: tcp_ratios },
    Check { id: "bsd-buffers/4.1-a", needs: &["bb-1", "bb-2"], compare: group_sizes },
    Check { id: "bsd-buffers/4.1-b", needs: &["bb-1"], compare: most_changing },
    Check { id: "bsd-buffers/4.1-c", needs: &["bb-1"], compare: tcp_heaviest },
    Check { id: "bsd-buffers/4.1-d", needs: &["bb-1"], compare: heaviest_at_cluster },
    Check { id: "bsd-buffers/4.1-e", needs: &["bb-1", "bb-2"], compare: checksum_shares },
    Check { id: "bsd-buffers/T2-a", needs: &["bb-2"], compare: udp_bold_sums },
    Check { id: "bsd-buffers/T2-c", needs: &["bb-2"], compare: udp_ratios },
    Check { id: "bsd-buffers/4.2-b", needs: &["bb-2"], compare: trailer_mbufs },
    Check { id: "bsd-buffers/4.2-c", needs: &["bb-2"], compare: udp_heaviest },
    Check { id: "bsd-buffers/4.2-d", needs: &["bb-2"], compare: checksum_leads },
    Check { id: "bsd-buffers/4.2-e", needs: &["bb-1", "bb-2"], compare: concentration },
];

/// What a reader should know of every sum of seconds.
const TAKEN_IN: &str = "the machine is calibrated on the columns of 1, 112, 1024 and 1025 bytes; those of 113 and 1023 are predictions";

/// Which of the two tables.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

/// A table of seconds: the paper's routines with the model's times.
struct Profile {
    /// Name, whether bold, and seconds by size.
    rows: Vec<(String, bool, [f64; 6])>,
}

impl Profile {
    fn of(runs: &Runs, transport: Transport) -> Self {
        let (run, file) = match transport {
            Transport::Tcp => (runs.of("bb-1"), "bsd-buffers/tcp-seconds"),
            Transport::Udp => (runs.of("bb-2"), "bsd-buffers/udp-seconds"),
        };
        let row = |name: &Vec<String>, table: &Table| {
            let is_bold = table.field(&name[0], "group") == Some("bold");
            let seconds = SIZES.map(|size| case(run, size).measured.seconds_of(&name[0]));
            (name[0].clone(), is_bold, seconds)
        };
        // A test reads every built-in table; an unreadable one would leave nothing to compare.
        let rows =
            table(file).map(|table| table.rows().iter().map(|name| row(name, &table)).collect());
        Self { rows: rows.unwrap_or_default() }
    }

    fn sums(&self, bold: bool) -> [f64; 6] {
        let mut sums = [0.0; 6];
        for (_, _, seconds) in self.rows.iter().filter(|(_, is_bold, _)| *is_bold == bold) {
            sums.iter_mut().zip(seconds).for_each(|(sum, seconds)| *sum += seconds);
        }
        sums
    }

    fn of_routine(&self, name: &str) -> [f64; 6] {
        let row = self.rows.iter().find(|(other, ..)| other == name);
        row.map_or([0.0; 6], |(_, _, seconds)| *seconds)
    }

    /// The first `count` routines by `key`, largest first.
    fn leaders(&self, count: usize, key: impl Fn(&[f64; 6]) -> f64) -> Vec<&str> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by(|left, right| key(&right.2).total_cmp(&key(&left.2)));
        rows.iter().take(count).map(|(name, ..)| name.as_str()).collect()
    }
}

/// The case of a size.
pub(super) fn case<'a>(run: &'a RunResult, message_bytes: &str) -> &'a CaseResult {
    let is_it = |case: &&CaseResult| {
        case.case
            .value("message_bytes")
            .is_some_and(|it| sockscope_experiment::word(it) == message_bytes)
    };
    // Each experiment of messages has a case of each size: its file is part of the program.
    run.cases.iter().find(is_it).unwrap_or(&run.cases[0])
}

fn tcp_bold_sums(claim: &Claim, runs: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &Profile::of(runs, Transport::Tcp).sums(true))
        .with_note(TAKEN_IN))
}

fn udp_bold_sums(claim: &Claim, runs: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &Profile::of(runs, Transport::Udp).sums(true))
        .with_note(TAKEN_IN))
}

fn light_sums(claim: &Claim, runs: &Runs) -> Outcome {
    let tcp = Profile::of(runs, Transport::Tcp).sums(false);
    let udp = Profile::of(runs, Transport::Udp).sums(false);
    let expected = [claim.values.as_slice(), &claim.values_udp].concat();
    Ok(Comparison::against(claim, &expected, &[tcp, udp].concat()).with_note(TAKEN_IN))
}

/// One byte less and one byte more than a cluster, against the cluster.
fn ratios(sums: [f64; 6]) -> [f64; 2] {
    [sums[ONE_BELOW] / sums[CLUSTER], sums[ONE_ABOVE] / sums[CLUSTER]]
}

fn tcp_ratios(claim: &Claim, runs: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &ratios(Profile::of(runs, Transport::Tcp).sums(true)))
        .with_note(TAKEN_IN))
}

fn udp_ratios(claim: &Claim, runs: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &ratios(Profile::of(runs, Transport::Udp).sums(true)))
        .with_note(TAKEN_IN))
}

/// The ratio of the rule below by UDP.
const UDP_RATIO: f64 = 1.9;

/// Whether a routine's seconds depend on the size, by a rule that parts the paper's own four columns
/// as the paper does: the largest is `ratio` times the smallest, or 3 s above it.
fn changes(seconds: &[f64; 6], ratio: f64) -> bool {
    let max = seconds.iter().copied().fold(0.0, f64::max);
    let min = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    max >= ratio * min || max - min >= 3.0
}

/// How many UDP routines depend on the size, with the printed seconds of some in place of the model's.
pub(super) fn udp_groups_with_printed(runs: &Runs, printed: &[&str]) -> Result<usize, String> {
    let table = table("bsd-buffers/udp-seconds").map_err(|error| error.to_string())?;
    let mut rows = Profile::of(runs, Transport::Udp).rows;
    for (name, _, seconds) in rows.iter_mut().filter(|(name, ..)| printed.contains(&name.as_str()))
    {
        for (size, seconds) in SIZES.iter().zip(seconds) {
            // Two columns are not in the table; the model predicts them.
            *seconds = table.number(name, size).unwrap_or(*seconds);
        }
    }
    Ok(rows.iter().filter(|(_, _, seconds)| changes(seconds, UDP_RATIO)).count())
}

fn group_sizes(claim: &Claim, runs: &Runs) -> Outcome {
    let mut got = Vec::new();
    for (transport, ratio) in [(Transport::Tcp, 2.05), (Transport::Udp, UDP_RATIO)] {
        let rows = Profile::of(runs, transport).rows;
        let heavy = rows.iter().filter(|(_, _, seconds)| changes(seconds, ratio)).count();
        got.extend([rows.len(), heavy, rows.len() - heavy].map(|count| count as f64));
    }
    Ok(Comparison::numbers(claim, &got).with_note(
        "a routine depends on size where its largest time is 2.05 times (UDP 1.9 times) its smallest or 3 s above it: \
         thresholds that part the paper's own columns as it does",
    ))
}

/// Whether `got` are the same names as `expected`, in any order.
fn same_names(expected: &[&str], got: &[&str]) -> bool {
    expected.len() == got.len() && expected.iter().all(|name| got.contains(name))
}

fn names(expected: &[&str], got: &[&str]) -> Comparison {
    Comparison::holds(same_names(expected, got), expected.join(", "), got.join(", "))
}

fn most_changing(_: &Claim, runs: &Runs) -> Outcome {
    let profile = Profile::of(runs, Transport::Tcp);
    let got = profile.leaders(5, around_cluster);
    Ok(names(&["sosend", "uiomove", "m_copy", "sbappend", "if_wubaput"], &got))
}

/// How much more a byte less and a byte more cost than a cluster. Less than a tenth of a second at
/// 1024 is no base for a quotient.
fn around_cluster(seconds: &[f64; 6]) -> f64 {
    let base = seconds[CLUSTER];
    if base < 0.1 { 0.0 } else { (seconds[ONE_BELOW] + seconds[ONE_ABOVE]) / (2.0 * base) }
}

fn tcp_heaviest(_: &Claim, runs: &Runs) -> Outcome {
    let profile = Profile::of(runs, Transport::Tcp);
    let expected = ["sosend", "if_wubaput", "tcp_cksum", "m_copy"];
    let at = |size: usize| names(&expected, &profile.leaders(4, |seconds| seconds[size]));
    Ok(at(ONE_BELOW).and(at(ONE_ABOVE)))
}

fn heaviest_at_cluster(_: &Claim, runs: &Runs) -> Outcome {
    let profile = Profile::of(runs, Transport::Tcp);
    Ok(names(&["tcp_input", "tcp_cksum"], &profile.leaders(2, |seconds| seconds[CLUSTER])))
}

/// Seconds in both checksum routines.
fn checksums(profile: &Profile, transport: Transport) -> [f64; 6] {
    let own = if transport == Transport::Tcp { "tcp_cksum" } else { "udp_cksum" };
    let (own, header) = (profile.of_routine(own), profile.of_routine("in_cksum"));
    std::array::from_fn(|size| own[size] + header[size])
}

fn checksum_shares(claim: &Claim, runs: &Runs) -> Outcome {
    let mut got = Vec::new();
    for transport in [Transport::Tcp, Transport::Udp] {
        let profile = Profile::of(runs, transport);
        let (bold, light) = (profile.sums(true), profile.sums(false));
        let sums = checksums(&profile, transport);
        got.extend((0..6).map(|size| sums[size] / (bold[size] + light[size])));
    }
    Ok(Comparison::within(claim, &got).with_note("TCP by size, then UDP by size"))
}

fn trailer_mbufs(claim: &Claim, runs: &Runs) -> Outcome {
    let profile = Profile::of(runs, Transport::Udp);
    let times = ["m_freem", "m_get"].map(|name| profile.of_routine(name));
    let is_longest = |seconds: &[f64; 6]| seconds.iter().all(|other| *other <= seconds[CLUSTER]);
    let seconds = times.map(|seconds| seconds[CLUSTER]);
    let run = runs.of("bb-2");
    let per_message = |routine: &str, size: &str| {
        (case(run, size).measured.calls_of(routine) as f64 / 10_000.0).round()
    };
    let calls = SIZES.map(|size| (per_message("m_get", size), per_message("m_freem", size)));
    let one_more =
        (0..6).all(|size| calls[size] == if size == CLUSTER { (3.0, 3.0) } else { (2.0, 2.0) });
    let longest = times.iter().all(is_longest);
    Ok(Comparison::numbers(claim, &seconds).and(Comparison::holds(
        one_more && longest,
        "3 calls a datagram and the longest time at 1024 bytes, 2 calls elsewhere",
        format!("calls of m_get and m_freem by size: {calls:?}"),
    )))
}

fn udp_heaviest(_: &Claim, runs: &Runs) -> Outcome {
    let profile = Profile::of(runs, Transport::Udp);
    let expected = ["udp_cksum", "sosend", "if_wubaput", "Copyin"];
    let at = |size: usize| names(&expected, &profile.leaders(4, |seconds| seconds[size]));
    let varying = names(&["uiomove", "sosend", "if_wubaput"], &profile.leaders(3, around_cluster));
    Ok(at(ONE_BELOW).and(at(ONE_ABOVE)).and(varying))
}

fn checksum_leads(claim: &Claim, runs: &Runs) -> Outcome {
    let profile = Profile::of(runs, Transport::Udp);
    let sums = checksums(&profile, Transport::Udp);
    let leads = |size: &usize| {
        let others = profile.rows.iter().filter(|(name, ..)| !name.ends_with("cksum"));
        others.map(|(_, _, seconds)| seconds[*size]).all(|seconds| seconds <= sums[*size])
    };
    Ok(Comparison::numbers(claim, &[(0..6).filter(leads).count() as f64]))
}

fn concentration(_: &Claim, runs: &Runs) -> Outcome {
    let share = |transport| {
        let profile = Profile::of(runs, transport);
        let (bold, light) = (profile.sums(true), profile.sums(false));
        std::array::from_fn::<f64, 6, _>(|size| bold[size] / (bold[size] + light[size]))
    };
    let (tcp, udp) = (share(Transport::Tcp), share(Transport::Udp));
    let range = |shares: [f64; 6]| {
        let max = shares.iter().copied().fold(0.0, f64::max);
        let min = shares.iter().copied().fold(1.0, f64::min);
        format!("{min:.2} to {max:.2}")
    };
    Ok(Comparison::holds(
        tcp.iter().zip(&udp).all(|(tcp, udp)| tcp > udp),
        "share of size-dependent routines larger in TCP at every size (0.56 to 0.86, UDP 0.29 to 0.63)",
        format!("TCP {}, UDP {}", range(tcp), range(udp)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule of [`group_sizes`] on the columns of the paper. Sizes 113 and 1023 are not carried:
    /// the rule must hold without them, but for UDP's sosend, whose large time is at 1023.
    #[test]
    fn the_rule_parts_the_papers_own_columns_as_the_paper_does() {
        for (file, ratio) in [("bsd-buffers/tcp-seconds", 2.05), ("bsd-buffers/udp-seconds", 1.9)] {
            let table = table(file).unwrap();
            for row in table.rows() {
                let second = |size| table.number(&row[0], size).unwrap();
                let [a, b, c, d] = ["1", "112", "1024", "1025"].map(second);
                let is_bold = table.field(&row[0], "group") == Some("bold");
                if row[0] == "sosend" && file.contains("udp") {
                    continue;
                }
                assert_eq!(changes(&[a, b, b, c, c, d], ratio), is_bold, "{file} {}", row[0]);
            }
        }
    }
}
