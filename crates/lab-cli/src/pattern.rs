//! `sockscope lab pattern`: what the programs of a connection, or of several, did with their sockets.

use std::path::Path;

use sockscope_analysis::{Action, Activity, Analysis, ConnectionStore, Stores, pattern};
use sockscope_lab::pattern_file::PatternFile;
use sockscope_program::failure::Failure;
use sockscope_program::loaded::{Loaded, say_notes};
use sockscope_program::output::write_to;
use sockscope_record::{ConnectionId, Process, Protocol, Side};
use sockscope_render::number::{count, counted, percent_of};

use crate::args::LabPattern;
use crate::choice::Choice;
use crate::same_cpu::of_calls;

/// The calls of connections of a bundle.
pub struct Recorded {
    pub file: PatternFile,
    /// The analysis of these connections alone.
    pub analysis: Analysis,
    /// The share of the reads on the CPU of the write that they waited for; `None` where that is not known.
    pub same_cpu: Option<f64>,
}

/// `sockscope lab pattern`. The file goes to the output, what is known of it to standard error.
pub fn extract(arguments: &LabPattern) -> Result<(), Failure> {
    let Recorded { file, .. } = read(&arguments.dir, arguments.connection.as_ref())?;
    write_to(&arguments.output, |out| out.write_all(file.to_toml().as_bytes()))?;
    for (side, activity) in ["client", "server"].into_iter().zip(&file.pattern.sides) {
        stderr!("{}", in_words(side, activity));
    }
    Ok(())
}

/// The pattern of the chosen connections of a bundle, without a choice of the one of most bytes.
pub fn read(dir: &Path, choice: Option<&Choice>) -> Result<Recorded, Failure> {
    let loaded = Loaded::read(dir)?;
    say_notes(&loaded.facts.notes);
    let (mut analysis, stores) = loaded.finish_keeping();
    let place = dir.display();
    let chosen = chosen(&stores, choice).map_err(|why| Failure::new(format!("{place}: {why}")))?;
    let first = &stores.connections[chosen[0]];
    let ids: Vec<_> = chosen.iter().map(|index| stores.connections[*index].connection.id).collect();
    let (same_cpu, cpus) = of_calls(dir, &ids)?;
    let pattern = pattern(&stores.connections, &chosen, &cpus)
        .map_err(|(id, why)| Failure::new(format!("{place}: connection {}: {why}", id.0)))?;
    let (client, server) = (first.connection.client, first.connection.server);
    let others = match chosen.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let file = PatternFile {
        connection: format!("{} {client} > {server}{others}", first.connection.protocol.name()),
        processes: [Side::Client, Side::Server]
            .map(|side| process(first, side).map(|it| it.comm.clone()).unwrap_or_default()),
        pattern,
    };
    analysis.connections.retain(|other| ids.contains(&other.connection.id));
    Ok(Recorded { file, analysis, same_cpu })
}

/// The indices of the connections, by the order in which they were opened.
fn chosen(stores: &Stores, choice: Option<&Choice>) -> Result<Vec<usize>, String> {
    let all = &stores.connections;
    let index = |id| all.iter().position(|store| store.connection.id == id);
    let mut chosen = match choice {
        Some(Choice::Numbers(numbers)) => {
            let found = numbers.iter().map(|number| {
                let count = || counted(all.len() as u64, "connection");
                index(ConnectionId(*number)).ok_or_else(|| {
                    format!("no connection {number} in this trace, which has {}", count())
                })
            });
            found.collect::<Result<Vec<_>, _>>()?
        }
        choice => {
            let largest = stores.largest_flow().and_then(|flow| index(flow.connection()));
            let largest = largest.ok_or("no connection in this trace")?;
            match choice {
                None => vec![largest],
                _ => {
                    (0..all.len()).filter(|at| is_between_same(&all[*at], &all[largest])).collect()
                }
            }
        }
    };
    chosen.sort_by_key(|at| all[*at].connection.opened_ns);
    if let [first, second, ..] = chosen[..] {
        if let Some(other) = chosen.iter().find(|at| !is_between_same(&all[**at], &all[first])) {
            let [first, other] = [first, *other].map(|at| all[at].connection.id.0);
            return Err(format!(
                "connections {first} and {other} are not between the same two processes: a replay has two"
            ));
        }
        if all[second].connection.protocol == Protocol::Udp {
            return Err(
                "several connections of datagrams are not replayed together: choose one".to_owned()
            );
        }
    }
    Ok(chosen)
}

/// Whether the same processes have both.
fn is_between_same(one: &ConnectionStore, other: &ConnectionStore) -> bool {
    let processes = |store| {
        [Side::Client, Side::Server].map(|side| process(store, side).map(|process| process.pid))
    };
    let protocol = |store: &ConnectionStore| store.connection.protocol;
    processes(one) == processes(other) && protocol(one) == protocol(other)
}

fn process(store: &ConnectionStore, side: Side) -> Option<&Process> {
    store.connection.processes.iter().find(|process| process.side == side)
}

/// As `client: 400 writes, 200 reads; 400 of 400 writes (100.0 %) wait for a step that is certain`.
pub fn in_words(side: &str, activity: &Activity) -> String {
    let steps = activity.sequences.iter().flatten();
    let reads = steps.filter(|step| step.action == Action::Read).count();
    let (writes, certain) = (activity.writes, activity.certain_writes);
    let calls = format!("{}, {}", counted(writes, "write"), counted(reads as u64, "read"));
    if writes == 0 {
        return format!("sockscope: {side}: {calls}");
    }
    format!(
        "sockscope: {side}: {calls}; it is certain for {} of the writes ({}) which step they waited for",
        count(certain),
        percent_of(certain, writes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certainty_of_the_rule_is_said() {
        let said = |writes, certain_writes| {
            in_words("client", &Activity { writes, certain_writes, ..Activity::default() })
        };
        assert_eq!(
            said(400, 300),
            "sockscope: client: 400 writes, 0 reads; it is certain for 300 of the writes (75.0 %) which step they \
             waited for"
        );
        assert_eq!(said(0, 0), "sockscope: client: 0 writes, 0 reads");
    }
}
