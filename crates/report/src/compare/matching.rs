//! Which connections of the runs are compared with which.
//!
//! First those of one role. Of the roles that only some runs have, those of one server port, then those of the same
//! processes: a program may have another name after a change, or another port. Last, the only role of each run.

use std::collections::BTreeMap;

use sockscope_record::Protocol;

use super::group::Group;
use super::role::Role;

/// The property that the connections of a row share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchedBy {
    Role,
    Port,
    Processes,
    OnlyRole,
}

impl MatchedBy {
    /// The word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Role => "role",
            Self::Port => "port",
            Self::Processes => "processes",
            Self::OnlyRole => "only_role",
        }
    }
}

/// The connections that are compared with each other, by run.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) matched_by: MatchedBy,
    /// `None` where the run has none.
    pub(crate) groups: Vec<Option<(Role, Group)>>,
}

impl Row {
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().flatten().map(|(_, group)| group)
    }

    /// The role in the first run that has it.
    pub(crate) fn role(&self) -> Option<&Role> {
        self.groups.iter().flatten().map(|(role, _)| role).next()
    }

    pub(crate) fn is_in_all(&self) -> bool {
        self.groups.iter().all(Option::is_some)
    }
}

/// Matches the groups of the runs; rows are by role.
pub(crate) fn matched(runs: Vec<BTreeMap<Role, Group>>) -> Vec<Row> {
    let count = runs.len();
    let is_one_role = runs.iter().all(|run| run.len() <= 1);
    let mut rows: BTreeMap<Role, Row> = BTreeMap::new();
    for (run, groups) in runs.into_iter().enumerate() {
        for (role, group) in groups {
            let empty = || Row { matched_by: MatchedBy::Role, groups: vec![None; count] };
            let row = rows.entry(role.clone()).or_insert_with(empty);
            row.groups[run] = Some((role, group));
        }
    }
    let mut rows: Vec<Row> = rows.into_values().collect();
    merge(&mut rows, MatchedBy::Port, |role| Some((role.protocol, role.server_port?, "", "")));
    merge(&mut rows, MatchedBy::Processes, |role| {
        Some((role.protocol, 0, &role.client, &role.server))
    });
    if is_one_role {
        merge(&mut rows, MatchedBy::OnlyRole, |role| Some((role.protocol, 0, "", "")));
    }
    rows
}

type Key<'r> = (Protocol, u16, &'r str, &'r str);

/// Joins rows that are not in all runs and have the same key, where no run has two of them.
fn merge(rows: &mut Vec<Row>, matched_by: MatchedBy, key: impl Fn(&Role) -> Option<Key<'_>>) {
    let mut alike: BTreeMap<Key<'_>, Vec<usize>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_in_all()) {
        if let Some(key) = row.role().and_then(&key) {
            alike.entry(key).or_default().push(index);
        }
    }
    let is_unambiguous = |indices: &Vec<usize>| {
        let runs = rows.first().map_or(0, |row| row.groups.len());
        let has = |row: &&usize, run: usize| rows[**row].groups[run].is_some();
        let having = |run: usize| indices.iter().filter(|row| has(row, run)).count();
        indices.len() > 1 && (0..runs).all(|run| having(run) <= 1)
    };
    let alike: Vec<_> = alike.into_values().filter(is_unambiguous).collect();
    let mut is_gone = vec![false; rows.len()];
    for indices in alike {
        for &from in &indices[1..] {
            let groups = std::mem::take(&mut rows[from].groups);
            let into = &mut rows[indices[0]];
            into.matched_by = matched_by;
            into.groups.iter_mut().zip(groups).for_each(|(into, group)| {
                if group.is_some() {
                    *into = group;
                }
            });
            is_gone[from] = true;
        }
    }
    let mut gone = is_gone.into_iter();
    rows.retain(|_| !gone.next().unwrap_or(false));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of runs whose roles are written as `client>server:port`, as `who-by-run (why)`.
    fn rows(runs: &[&[&str]]) -> Vec<String> {
        let run =
            |roles: &&[&str]| roles.iter().map(|role| (role_of(role), Group::default())).collect();
        let rows = matched(runs.iter().map(run).collect());
        let name = |group: &Option<(Role, Group)>| {
            group.as_ref().map_or("-".to_owned(), |(role, _)| {
                format!("{}>{}:{}", role.client, role.server, role.server_port.unwrap_or(0))
            })
        };
        let row = |row: &Row| {
            let names: Vec<_> = row.groups.iter().map(name).collect();
            format!("{} by {}", names.join(" | "), row.matched_by.name())
        };
        rows.iter().map(row).collect()
    }

    fn role_of(text: &str) -> Role {
        let (client, rest) = text.split_once('>').unwrap();
        let (server, port) = rest.split_once(':').unwrap();
        let server_port = port.parse().ok().filter(|port| *port > 0);
        Role { protocol: Protocol::Tcp, client: client.into(), server: server.into(), server_port }
    }

    #[test]
    fn connections_of_one_role_are_compared() {
        let run: &[&str] = &["a>b:80", "a>c:90"];
        assert_eq!(rows(&[run, run]), ["a>b:80 | a>b:80 by role", "a>c:90 | a>c:90 by role"]);
    }

    #[test]
    fn a_role_that_one_run_has_stays_alone() {
        let found = rows(&[&["a>b:80", "a>redis:6379"], &["a>b:80", "x>y:1"]]);
        let expected = ["a>b:80 | a>b:80 by role", "a>redis:6379 | - by role", "- | x>y:1 by role"];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_changed_program_is_matched_by_its_port_or_by_its_peer() {
        assert_eq!(
            rows(&[&["a>b:80", "q>r:1"], &["new>b:80", "q>r:1"]])[0],
            "a>b:80 | new>b:80 by port"
        );
        assert_eq!(rows(&[&["a>b:80"], &["a>b:81"]]), ["a>b:80 | a>b:81 by processes"]);
        assert_eq!(rows(&[&["a>b:0"], &["c>d:0"]]), ["a>b:0 | c>d:0 by only_role"]);
        assert_eq!(rows(&[&["a>b:0", "e>f:2"], &["c>d:0"]]).len(), 3);
    }

    #[test]
    fn an_ambiguous_match_is_none() {
        let found = rows(&[&["a>b:80", "c>d:80"], &["x>y:80"]]);
        assert_eq!(found, ["a>b:80 | - by role", "c>d:80 | - by role", "- | x>y:80 by role"]);
    }

    #[test]
    fn three_runs_have_three_columns() {
        let found = rows(&[&["a>b:80"], &[], &["z>b:80"]]);
        assert_eq!(found, ["a>b:80 | - | z>b:80 by port"]);
    }
}
