//! `sockscope lab levels`: messages at each service level of the network library, and the cost of each.

use std::path::Path;
use std::time::Duration;

use sockscope_link::{Settings, Topology};
use sockscope_live::levels::{Level, Measured, Plan, measure, write_json, write_text};
use sockscope_program::failure::Failure;
use sockscope_program::output::write_to;

use crate::args::{LabLevels, LevelsFormat};
use crate::wire::both;

/// `sockscope lab levels`.
pub fn levels(arguments: &LabLevels) -> Result<(), Failure> {
    let plan = plan(arguments)?;
    let progress = |level: &str| stderr!("sockscope: {level}");
    let measured =
        measure(plan, &progress).map_err(|error| Failure::new(format!("lab levels: {error}")))?;
    let mut errors =
        measured.rows.iter().filter_map(|row| Some((row.level, row.outcome.as_ref().err()?)));
    let failed = errors
        .next()
        .map(|(level, error)| Failure::new(format!("lab levels: {}: {error}", level.name())));
    if let Some(failed) = failed {
        // A table of errors alone shows no more than the first of them.
        if errors.count() + 1 == measured.rows.len() {
            return Err(failed);
        }
        show(arguments, &measured)?;
        return Err(failed);
    }
    show(arguments, &measured)
}

fn show(arguments: &LabLevels, measured: &Measured) -> Result<(), Failure> {
    let write = match arguments.format {
        LevelsFormat::Text => write_text,
        LevelsFormat::Json => write_json,
    };
    write_to(Path::new("-"), |out| write(measured, out))
}

fn plan(arguments: &LabLevels) -> Result<Plan, Failure> {
    let settings = both(&arguments.wire, "levels", false)?;
    let is_plain = settings.iter().all(|one| *one == Settings::default());
    let levels = match arguments.level.is_empty() {
        true => Level::ALL.to_vec(),
        false => arguments.level.clone(),
    };
    Ok(Plan {
        levels,
        messages: arguments.messages,
        message_bytes: arguments.message_bytes.0 as usize,
        every: Duration::from_nanos(arguments.every.0),
        members: usize::from(arguments.members),
        block: arguments.block,
        window: arguments.window.into(),
        give_up: Duration::from_nanos(arguments.give_up.0),
        topology: if is_plain { Topology::Loopback } else { Topology::Link },
        settings,
        seed: arguments.wire.seed,
        mtu: arguments.wire.mtu,
    })
}
