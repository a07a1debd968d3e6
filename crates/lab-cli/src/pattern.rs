//! `sockscope lab pattern`: what the programs of a connection did with their sockets.

use std::path::Path;

use sockscope_analysis::{Action, Activity, Analysis, ConnectionStore, pattern};
use sockscope_lab::pattern_file::PatternFile;
use sockscope_program::failure::Failure;
use sockscope_program::loaded::{Loaded, say_notes};
use sockscope_program::output::write_to;
use sockscope_record::{ConnectionId, Side};
use sockscope_render::number::{count, counted, percent_of};

use crate::args::LabPattern;

/// `sockscope lab pattern`. The file goes to the output, what is known of it to standard error.
pub fn extract(arguments: &LabPattern) -> Result<(), Failure> {
    let (file, _) = read(&arguments.dir, arguments.connection)?;
    write_to(&arguments.output, |out| out.write_all(file.to_toml().as_bytes()))?;
    for (side, activity) in ["client", "server"].into_iter().zip(&file.pattern.sides) {
        stderr!("{}", in_words(side, activity));
    }
    Ok(())
}

/// The pattern of a connection of a bundle, and the analysis of it alone: of this number, else the one of most bytes.
pub fn read(dir: &Path, number: Option<u32>) -> Result<(PatternFile, Analysis), Failure> {
    let loaded = Loaded::read(dir)?;
    say_notes(&loaded.facts.notes);
    let (mut analysis, stores) = loaded.finish_keeping();
    let largest = stores.largest_flow().map(|flow| flow.connection());
    let wanted = number.map(ConnectionId).or(largest);
    let index = stores.connections.iter().position(|store| Some(store.connection.id) == wanted);
    let place = dir.display();
    let Some(index) = index else {
        return Err(Failure::new(match number {
            Some(number) => format!(
                "{place}: no connection {number} in this trace, which has {}",
                counted(stores.connections.len() as u64, "connection")
            ),
            None => format!("{place}: no connection in this trace"),
        }));
    };
    let store = &stores.connections[index];
    let pattern = pattern(&stores.connections, index).map_err(|reason| {
        Failure::new(format!("{place}: connection {}: {reason}", store.connection.id.0))
    })?;
    let connection = &store.connection;
    let (client, server) = (connection.client, connection.server);
    let file = PatternFile {
        connection: format!("{} {client} > {server}", connection.protocol.name()),
        processes: [Side::Client, Side::Server].map(|side| process(store, side)),
        pattern,
    };
    analysis.connections.retain(|other| other.connection.id == connection.id);
    Ok((file, analysis))
}

fn process(store: &ConnectionStore, side: Side) -> String {
    let first = store.connection.processes.iter().find(|process| process.side == side);
    first.map(|process| process.comm.clone()).unwrap_or_default()
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
