//! Runs of an experiment with some parameters changed, which checks make for themselves: a parameter
//! that an experiment sets and the paper leaves open is judged over its whole range.

use sockscope_experiment::builtin_by_id;
use sockscope_experiment::result::RunResult;
use sockscope_lab::run;

/// The results of an experiment with changes, as `["client_timer_ms=40"]`.
///
/// # Errors
///
/// When there is no such experiment, a change has no sense, or a run fails.
pub(super) fn vary(id: &str, changes: &[&str]) -> Result<RunResult, String> {
    let result = || {
        let mut experiment = builtin_by_id(id)?;
        experiment.set_all(changes)?;
        run::run(&experiment, 1, &mut |_, _| {})
    };
    result().map_err(|error| error.to_string())
}
