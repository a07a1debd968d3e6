//! The part of a trace that is shown: connections by their properties, and an interval of time.
//!
//! Values of one kind are alternatives, and of different kinds all must match, as in a recording. Times count from
//! the trace's first record. The connections are known before the analysis, except by finding and by exchange.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use sockscope_analysis::{Analysis, ConnectionAnalysis, FindingId, Request};
use sockscope_record::{Connection, ConnectionId, counted};

/// Values that an error names; of more it has the number.
const NAMED_MAX: usize = 8;

/// Which part of a trace is shown; all of it by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Numbers of connections.
    pub connections: Vec<u32>,
    /// Ports at either end.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Processes at either end.
    pub pids: Vec<u32>,
    /// Names of processes at either end, as the trace has them.
    pub comms: Vec<String>,
    /// From so many nanoseconds after the trace's first record on.
    pub from_ns: Option<u64>,
    /// Until so many nanoseconds after it.
    pub to_ns: Option<u64>,
    /// So many connections, those with the slowest requests.
    pub slowest: Option<usize>,
    /// Connections that have one of these findings, and of their findings these.
    pub findings: Vec<FindingId>,
}

/// Why a filter leaves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// No connection matches the filter.
    #[error("no connection with {wanted}: the trace has {known}")]
    NoConnection {
        /// The part of the filter that none has.
        wanted: String,
        /// The values of that kind in the trace.
        known: String,
    },
    /// No connection has all values of the filter, though each part of it matches one.
    #[error("no connection with {wanted} at once")]
    NoneWithAll {
        /// The filter.
        wanted: String,
    },
    /// Nothing was recorded in the interval.
    #[error("nothing was recorded {wanted}: {what} from {:.6} s to {:.6} s after the first record", *first_ns as f64 / 1e9, *last_ns as f64 / 1e9)]
    NothingThen {
        /// The interval.
        wanted: String,
        /// The object with records then, with its verb.
        what: &'static str,
        /// Its first record.
        first_ns: u64,
        /// Its last one.
        last_ns: u64,
    },
    /// The interval ends before it begins.
    #[error("nothing to show: --to {} is not after --from {}", seconds(*to_ns), seconds(*from_ns))]
    EmptyInterval {
        /// Its begin.
        from_ns: u64,
        /// Its end.
        to_ns: u64,
    },
    /// No connection has the finding.
    #[error("no connection with {wanted}: {known}")]
    NoFinding {
        /// The findings that were asked for.
        wanted: String,
        /// Those that there are.
        known: String,
    },
    /// No connection has a request with a recorded caller.
    #[error("the slowest cannot be found: no request was recognized")]
    NoRequest,
}

impl Filter {
    /// Whether it leaves out nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the choice of connections needs results of the analysis.
    pub fn needs_analysis(&self) -> bool {
        self.slowest.is_some() || !self.findings.is_empty()
    }

    /// Whether an interval of time is chosen.
    pub fn has_interval(&self) -> bool {
        self.from_ns.is_some() || self.to_ns.is_some()
    }

    /// The same without the interval.
    #[must_use]
    pub fn without_interval(&self) -> Self {
        Self { from_ns: None, to_ns: None, ..self.clone() }
    }

    /// The interval on the clock of a trace whose first record is at `start_ns`; both ends are in it.
    ///
    /// # Errors
    ///
    /// When it ends before it begins.
    pub fn interval_ns(&self, start_ns: u64) -> Result<RangeInclusive<u64>, FilterError> {
        if let (Some(from_ns), Some(to_ns)) = (self.from_ns, self.to_ns)
            && to_ns <= from_ns
        {
            return Err(FilterError::EmptyInterval { from_ns, to_ns });
        }
        let at = |after_ns: u64| start_ns.saturating_add(after_ns);
        Ok(self.from_ns.map_or(0, at)..=self.to_ns.map_or(u64::MAX, at))
    }

    /// Whether the connection is one that is shown, by its facts before the analysis.
    pub fn admits(&self, connection: &Connection) -> bool {
        self.parts().iter().all(|part| part.admits(connection))
    }

    /// The connections that are shown, by their facts before the analysis.
    ///
    /// # Errors
    ///
    /// When no connection of the trace is left; with the values that it has instead.
    pub fn admitted(
        &self,
        connections: &[Connection],
    ) -> Result<BTreeSet<ConnectionId>, FilterError> {
        let admitted: BTreeSet<_> =
            connections.iter().filter(|it| self.admits(it)).map(|it| it.id).collect();
        if !admitted.is_empty() || connections.is_empty() {
            return Ok(admitted);
        }
        for part in self.parts() {
            if !connections.iter().any(|connection| part.admits(connection)) {
                return Err(FilterError::NoConnection {
                    wanted: part.to_string(),
                    known: part.known(connections),
                });
            }
        }
        let parts: Vec<String> = self.parts().iter().map(ToString::to_string).collect();
        Err(FilterError::NoneWithAll { wanted: parts.join(" and ") })
    }

    /// The kinds of properties that are chosen.
    fn parts(&self) -> Vec<Part<'_>> {
        let all = [
            Part::Connections(&self.connections),
            Part::Ports(&self.ports),
            Part::Pids(&self.pids),
            Part::Comms(&self.comms),
        ];
        all.into_iter().filter(|part| !part.is_empty()).collect()
    }

    /// Leaves in the analysis the connections with the findings, and of these the slowest.
    ///
    /// # Errors
    ///
    /// When none is left; the findings that there are.
    pub fn narrow(&self, analysis: &mut Analysis) -> Result<(), FilterError> {
        if !self.findings.is_empty() {
            let found = findings(analysis);
            for connection in &mut analysis.connections {
                connection.findings.retain(|finding| self.findings.contains(&finding.id));
            }
            analysis.connections.retain(|connection| !connection.findings.is_empty());
            if analysis.connections.is_empty() {
                let wanted = self.findings.iter().map(|id| id.name());
                let wanted = format!("the finding {}", wanted.collect::<Vec<_>>().join(" or "));
                return Err(FilterError::NoFinding { wanted, known: found });
            }
        }
        if let Some(count) = self.slowest {
            let mut slowest: Vec<_> = analysis.connections.iter().filter_map(slowness).collect();
            if slowest.is_empty() {
                return Err(FilterError::NoRequest);
            }
            slowest.sort_unstable_by_key(|&(ns, id)| (Reverse(ns), id));
            let kept: BTreeSet<_> = slowest.iter().take(count).map(|&(_, id)| id).collect();
            analysis.connections.retain(|connection| kept.contains(&connection.connection.id));
        }
        Ok(())
    }

    /// The error of an interval in which nothing was recorded.
    pub fn nothing_then(&self, (first_ns, last_ns): (u64, u64)) -> FilterError {
        let is_whole = self.parts().is_empty();
        let what = if is_whole { "the trace has records" } else { "what is chosen has records" };
        let wanted = self.interval().unwrap_or_default();
        FilterError::NothingThen { wanted, what, first_ns, last_ns }
    }

    /// As `from 1.5 s to 2 s`.
    fn interval(&self) -> Option<String> {
        let end = |word: &str, ns: Option<u64>| ns.map(|ns| format!("{word} {}", seconds(ns)));
        let ends = [end("from", self.from_ns), end("to", self.to_ns)];
        let ends: Vec<String> = ends.into_iter().flatten().collect();
        (!ends.is_empty()).then(|| ends.join(" "))
    }

    /// For people, as `port 80, from 1.5 s to 2 s, the slowest 3`; `None` where all is shown.
    pub fn words(&self) -> Option<String> {
        let mut parts: Vec<String> = self.parts().iter().map(ToString::to_string).collect();
        parts.extend(self.interval());
        let findings: Vec<&str> = self.findings.iter().map(|id| id.name()).collect();
        parts.extend((!findings.is_empty()).then(|| format!("finding {}", findings.join(" or "))));
        parts.extend(self.slowest.map(|count| format!("the slowest {count}")));
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// One kind of properties: a connection that has one of the values is admitted.
#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    Connections(&'a [u32]),
    Ports(&'a [RangeInclusive<u16>]),
    Pids(&'a [u32]),
    Comms(&'a [String]),
}

impl Part<'_> {
    fn is_empty(self) -> bool {
        match self {
            Part::Connections(numbers) | Part::Pids(numbers) => numbers.is_empty(),
            Part::Ports(ports) => ports.is_empty(),
            Part::Comms(comms) => comms.is_empty(),
        }
    }

    fn admits(self, connection: &Connection) -> bool {
        let mut processes = connection.processes.iter();
        match self {
            Part::Connections(numbers) => numbers.contains(&connection.id.0),
            Part::Ports(ports) => {
                let own = [connection.client.port(), connection.server.port()];
                !connection.protocol.is_unix()
                    && ports.iter().any(|range| own.iter().any(|port| range.contains(port)))
            }
            Part::Pids(pids) => processes.any(|process| pids.contains(&process.pid)),
            Part::Comms(comms) => processes.any(|process| comms.contains(&process.comm)),
        }
    }

    /// The connections' values of this kind, the most frequent first.
    fn known(self, connections: &[Connection]) -> String {
        let processes = || connections.iter().flat_map(|connection| &connection.processes);
        match self {
            Part::Connections(_) => runs(connections.iter().map(|it| it.id.0)),
            // Those of clients are mostly numbers without a meaning.
            Part::Ports(_) => {
                let with_ports = connections.iter().filter(|it| !it.protocol.is_unix());
                listed("servers at port", with_ports.map(|it| it.server.port().to_string()))
            }
            Part::Pids(_) => listed("processes", processes().map(|it| it.pid.to_string())),
            Part::Comms(_) => listed("processes named", processes().map(|it| it.comm.clone())),
        }
    }
}

impl std::fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let joined = |values: Vec<String>| values.join(" or ");
        let numbers = |numbers: &[u32]| joined(numbers.iter().map(u32::to_string).collect());
        match self {
            Part::Connections(ids) => write!(f, "number {}", numbers(ids)),
            Part::Ports(ports) => {
                let ports = ports.iter().map(|range| match range.start() == range.end() {
                    true => range.start().to_string(),
                    false => format!("{} to {}", range.start(), range.end()),
                });
                write!(f, "port {}", joined(ports.collect()))
            }
            Part::Pids(pids) => write!(f, "process {}", numbers(pids)),
            Part::Comms(comms) => write!(f, "a process named {}", comms.join(" or ")),
        }
    }
}

/// The most frequent of the values, with their kind before them.
fn listed(kind: &str, values: impl Iterator<Item = String>) -> String {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let named: Vec<_> =
        counts.iter().take(NAMED_MAX).map(|(value, _)| crate::printable(value)).collect();
    match counts.len().saturating_sub(NAMED_MAX) {
        _ if counts.is_empty() => format!("no {kind}"),
        0 => format!("{kind} {}", named.join(", ")),
        more => format!("{kind} {} and {more} more", named.join(", ")),
    }
}

/// As `connections 1 to 5, 7`.
fn runs(numbers: impl Iterator<Item = u32>) -> String {
    let numbers: BTreeSet<u32> = numbers.collect();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if number - *last == 1 => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let named = runs.iter().take(NAMED_MAX).map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    });
    let named: Vec<_> = named.collect();
    let more = runs.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more runs") } else { String::new() };
    format!("connections {}{more}", named.join(", "))
}

/// As `there are nagle-delayed-ack (2 connections)`.
fn findings(analysis: &Analysis) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for connection in &analysis.connections {
        let ids: BTreeSet<_> =
            connection.findings.iter().map(|finding| finding.id.name()).collect();
        ids.into_iter().for_each(|id| *counts.entry(id).or_default() += 1);
    }
    let named =
        counts.iter().map(|(id, count)| format!("{id} ({})", counted(*count, "connection")));
    let named: Vec<_> = named.collect();
    if named.is_empty() {
        "there are no findings".to_owned()
    } else {
        format!("there are {}", named.join(", "))
    }
}

/// Total of the slowest exchange.
fn slowness(connection: &ConnectionAnalysis) -> Option<(u64, ConnectionId)> {
    let longest_ns = connection.requests.list.iter().filter_map(Request::total_ns).max()?;
    Some((longest_ns, connection.connection.id))
}

/// As `1.5 s`: the digits that are needed, down to the nanosecond.
fn seconds(ns: u64) -> String {
    let fraction = format!("{:09}", ns % 1_000_000_000);
    match fraction.trim_end_matches('0') {
        "" => format!("{} s", ns / 1_000_000_000),
        digits => format!("{}.{digits} s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use sockscope_analysis::RequestEnd;
    use sockscope_record::{Process, Protocol, Side, UnixName};

    use super::*;
    use crate::fixture;

    /// Connections 1 to 40; every tenth has a slow reader. Their servers have port 8080.
    fn analysis() -> Analysis {
        let mut analysis = fixture::many(40);
        for (index, connection) in analysis.connections.iter_mut().enumerate() {
            let id = index as u32 + 1;
            connection.connection.client.set_port(40_000 + id as u16);
            connection.connection.server.set_port(if id <= 2 { 9000 } else { 8080 });
            let comm = if id == 7 { "redis-cli" } else { "curl" };
            connection.connection.processes = vec![Process::new(100 + id, comm, Side::Client)];
        }
        analysis
    }

    fn connections() -> Vec<Connection> {
        analysis().connections.into_iter().map(|it| it.connection).collect()
    }

    fn admitted(filter: &Filter) -> Result<Vec<u32>, String> {
        let admitted = filter.admitted(&connections()).map_err(|error| error.to_string())?;
        Ok(admitted.into_iter().map(|id| id.0).collect())
    }

    #[test]
    fn a_unix_socket_has_no_port() {
        let ends = ["unix:7", "/run/a.sock"].map(UnixName::new);
        let all = [Connection::of_unix(ConnectionId(1), Protocol::Unix, ends, 0)];
        let of_port = |ports| Filter { ports, ..Filter::default() }.admitted(&all);
        let refused = of_port(vec![0..=100]).unwrap_err().to_string();
        assert!(refused.contains("no servers at port"), "{refused}");
    }

    #[test]
    fn values_of_one_kind_are_alternatives_and_all_kinds_must_match() {
        let ports = Filter { ports: vec![9000..=9000, 40_005..=40_006], ..Filter::default() };
        assert_eq!(admitted(&ports), Ok(vec![1, 2, 5, 6]));
        let named = Filter { comms: vec!["redis-cli".to_owned()], ..Filter::default() };
        assert_eq!(admitted(&named), Ok(vec![7]));
        let both = Filter { pids: vec![102, 103], ..ports.clone() };
        assert_eq!(admitted(&both), Ok(vec![2]));
        let numbers = Filter { connections: vec![3, 40, 99], ..Filter::default() };
        assert_eq!(admitted(&numbers), Ok(vec![3, 40]));
        assert_eq!(admitted(&Filter::default()).map(|all| all.len()), Ok(40));
    }

    #[test]
    fn a_filter_that_matches_nothing_is_told_what_there_is() {
        for (filter, reason) in [
            (
                Filter { ports: vec![81..=83], ..Filter::default() },
                "no connection with port 81 to 83: the trace has servers at port 8080, 9000",
            ),
            (
                Filter { connections: vec![99], ..Filter::default() },
                "no connection with number 99: the trace has connections 1 to 40",
            ),
            (
                Filter { comms: vec!["wget".to_owned()], ..Filter::default() },
                "no connection with a process named wget: the trace has processes named curl, redis-cli",
            ),
            (
                Filter { pids: vec![7], ..Filter::default() },
                "no connection with process 7: the trace has processes 101, 102, 103, 104, 105, 106, 107, 108 \
                 and 32 more",
            ),
            (
                Filter { connections: vec![1], ports: vec![8080..=8080], ..Filter::default() },
                "no connection with number 1 and port 8080 at once",
            ),
        ] {
            assert_eq!(admitted(&filter), Err(reason.to_owned()));
        }
    }

    #[test]
    fn by_finding_its_connections_stay_and_of_their_findings_this_one() {
        let mut narrowed = analysis();
        let filter = Filter { findings: vec![FindingId::SlowReader], ..Filter::default() };
        filter.narrow(&mut narrowed).unwrap();
        assert!(!narrowed.connections.is_empty() && narrowed.connections.len() < 40);
        let mut ids = narrowed.connections.iter().flat_map(|it| &it.findings).map(|it| it.id);
        assert!(ids.all(|id| id == FindingId::SlowReader));
        let filter = Filter { findings: vec![FindingId::Corked], ..Filter::default() };
        let error = filter.narrow(&mut analysis()).unwrap_err().to_string();
        assert!(
            error.starts_with("no connection with the finding corked: there are slow-reader ("),
            "{error}"
        );
    }

    #[test]
    fn the_slowest_are_those_with_the_slowest_request() {
        let mut analysis = analysis();
        for (index, connection) in analysis.connections.iter_mut().enumerate() {
            let total_ns = if index == 20 { 9_000 } else { 100 + index as u64 };
            let requests = [50, total_ns].map(|ns| Request::asked(7, 7 + ns, RequestEnd::GivenUp));
            connection.requests.list = requests.into_iter().filter(|_| index != 30).collect();
        }
        let filter = Filter { slowest: Some(2), ..Filter::default() };
        let mut narrowed = analysis.clone();
        filter.narrow(&mut narrowed).unwrap();
        let ids: Vec<_> = narrowed.connections.iter().map(|it| it.connection.id.0).collect();
        assert_eq!(ids, [21, 40]);
        analysis.connections.iter_mut().for_each(|connection| connection.requests.list.clear());
        assert_eq!(filter.narrow(&mut analysis), Err(FilterError::NoRequest));
    }

    #[test]
    fn an_interval_counts_from_the_first_record() {
        let filter = |from_ns, to_ns| Filter { from_ns, to_ns, ..Filter::default() };
        assert_eq!(filter(Some(5), None).interval_ns(100), Ok(105..=u64::MAX));
        assert_eq!(filter(Some(5), Some(7)).interval_ns(100), Ok(105..=107));
        assert_eq!(filter(None, Some(7)).interval_ns(100), Ok(0..=107));
        let empty = filter(Some(2_000_000_000), Some(1_500_000_000)).interval_ns(0).unwrap_err();
        assert_eq!(empty.to_string(), "nothing to show: --to 1.5 s is not after --from 2 s");
        let late = filter(Some(500_000_000_000), None).nothing_then((0, 2_600_000_000));
        assert_eq!(
            late.to_string(),
            "nothing was recorded from 500 s: the trace has records from 0.000000 s to 2.600000 s after the first record"
        );
    }

    #[test]
    fn a_filter_is_named_in_words() {
        assert_eq!(Filter::default().words(), None);
        let filter = Filter {
            ports: vec![80..=80, 8000..=8003],
            from_ns: Some(1_500_000_000),
            slowest: Some(3),
            findings: vec![FindingId::SlowReader],
            ..Filter::default()
        };
        assert_eq!(
            filter.words().unwrap(),
            "port 80 or 8000 to 8003, from 1.5 s, finding slow-reader, the slowest 3"
        );
    }
}
