//! Runs that the checks of the SunOS IPC study make for themselves, watched at the eight points.

use sockscope_experiment::builtin_by_id;
use sockscope_lab::model::{self, Observed};
use sockscope_sim::HostConfig;

/// Runs the first case of an experiment with some parameters changed, as `["client_load=4"]`.
///
/// # Errors
///
/// When there is no such experiment, a change has no sense, or the run fails.
pub(super) fn observe(id: &str, changes: &[&str]) -> Result<Observed, String> {
    observe_changed(id, changes, &|_| {})
}

/// The same on hosts that `change` has altered, where no parameter does.
///
/// # Errors
///
/// As [`observe`].
pub(super) fn observe_changed(
    id: &str,
    changes: &[&str],
    change: &dyn Fn(&mut HostConfig),
) -> Result<Observed, String> {
    let run = || {
        let mut experiment = builtin_by_id(id)?;
        changes.iter().try_for_each(|change| experiment.set(change))?;
        let cases = experiment.cases()?;
        // A sweep has at least one case.
        Ok((experiment, cases.into_iter().next()))
    };
    let (experiment, case) =
        run().map_err(|error: sockscope_experiment::Error| error.to_string())?;
    let case = case.ok_or_else(|| format!("{id} has no case"))?;
    model::observe_changed(&experiment, &case, change)
        .map_err(|problem| experiment.failed(&case, problem).to_string())
}

#[cfg(test)]
mod tests;
