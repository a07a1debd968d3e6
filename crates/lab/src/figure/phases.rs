//! When the processes of a pipeline's stage had work, above the queues that they fill: Figure 18 of the SunOS study.

use sockscope_analysis::{ConnectionStore, DropReasons, FlowCurves};
use sockscope_experiment::Figure;
use sockscope_experiment::measurement::Phase;
use sockscope_experiment::result::{CaseResult, RunResult};
use sockscope_record::{Direction, Stage};
use sockscope_render::timeline::{ActivityRow, QueueCurve, Timeline};
use sockscope_report::palette;

use super::captions::{On, facts, notes, subtitle};

/// The case that the figure shows: the first.
pub fn case_of<'a>(figure: &Figure, result: &'a RunResult) -> Option<&'a CaseResult> {
    result.cases.iter().find(|case| figure.shows(&case.case))
}

/// The states of the processes, in the order in which a piece passes them, and the queues of `trace`, which is of the
/// same run. Times count from the first phase. `None` where the run has no phases.
///
/// # Errors
///
/// When the figure names a stage that does not exist.
pub fn activity(
    figure: &Figure,
    result: &RunResult,
    trace: Option<(&ConnectionStore, Direction)>,
) -> Result<Option<Timeline>, String> {
    let Some(case) = case_of(figure, result) else { return Ok(None) };
    let phases = &case.measured.phases;
    let Some(start_ns) = phases.iter().map(|phase| phase.from_ns).min() else { return Ok(None) };
    let end_ns = phases.iter().map(|phase| phase.to_ns).max().unwrap_or(start_ns);
    let since = |ns: u64| (i128::from(ns) - i128::from(start_ns)) as f64;
    let to_ns = figure.to_ms.map_or(since(end_ns), |ms| ms * 1e6);
    let rows = rows(phases, since);
    let writes = rows.last().map_or(&[][..], |row| &row.spans_ns);
    let marked_ns = writes.iter().map(|(began_ns, _)| *began_ns).collect();
    let last = rows.last().map_or("", |row| &row.name);
    let mut queues = Vec::new();
    for name in &figure.queues {
        let found = Stage::ALL.into_iter().find(|stage| stage.name() == name);
        let stage = found.ok_or_else(|| {
            let known: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
            format!("figure `{}`: no stage `{name}`; there are {}", figure.name, known.join(", "))
        })?;
        queues.extend(trace.and_then(|trace| queue(stage, trace, since)));
    }
    Ok(Some(Timeline {
        title: figure.title.clone(),
        subtitle: subtitle(figure, &result.experiment, Some(&case.case), On::of(result)),
        window_ns: (figure.from_ms.unwrap_or(0.0) * 1e6, to_ns),
        rows_title: "processes of the stage".to_owned(),
        marked_words: format!("{last} begins"),
        rows,
        marked_ns,
        queues,
        notes: notes(figure, &result.experiment),
        facts: facts(figure, result),
    }))
}

fn rows(phases: &[Phase], since: impl Fn(u64) -> f64) -> Vec<ActivityRow> {
    let mut rows: Vec<ActivityRow> = Vec::new();
    for phase in phases {
        let span = (since(phase.from_ns), since(phase.to_ns));
        match rows.iter_mut().find(|row| row.name == phase.process) {
            Some(row) => row.spans_ns.push(span),
            None => {
                rows.push(ActivityRow { name: phase.process.to_owned(), spans_ns: vec![span] });
            }
        }
    }
    rows
}

fn queue(
    stage: Stage,
    (store, direction): (&ConnectionStore, Direction),
    since: impl Fn(u64) -> f64,
) -> Option<QueueCurve> {
    let curves = FlowCurves::new(store, direction, &[], &DropReasons::new());
    let steps = curves.lengths(stage)?;
    let step = |step: &sockscope_analysis::QueueStep| {
        (since(step.at_ns), step.length_bytes.map(|length_bytes| length_bytes as f64))
    };
    let look = palette::stage(stage);
    Some(QueueCurve {
        title: format!("{} of the data that the stage sends", stage.name().replace('_', " ")),
        steps: steps.iter().map(step).collect(),
        look: (look.class, [look.on_light, look.on_dark]),
    })
}

#[cfg(test)]
mod tests {
    use sockscope_experiment::builtin_by_id;
    use sockscope_experiment::measurement::Measurement;
    use sockscope_experiment::result::CaseResult;

    use super::*;

    fn result(phases: Vec<Phase>) -> (Figure, RunResult) {
        let experiment = builtin_by_id("si-4c").unwrap();
        let mut figure = experiment.figures.iter().find(|it| it.phases).unwrap().clone();
        (figure.from_ms, figure.to_ms) = (None, None);
        figure.only.clear();
        let case = experiment.cases().unwrap().remove(0);
        let measured = Measurement { phases, ..Measurement::default() };
        let cases = vec![CaseResult { case, measured }];
        (figure, RunResult { experiment, cases, kernel: None })
    }

    #[test]
    fn states_count_from_the_first_phase_and_the_last_process_is_marked() {
        let phase = |process, from_ns, to_ns| Phase { process, from_ns, to_ns };
        let (figure, result) = result(vec![
            phase("read", 100, 120),
            phase("write", 150, 400),
            phase("read", 410, 420),
        ]);
        let timeline = activity(&figure, &result, None).unwrap().unwrap();
        assert_eq!(timeline.window_ns, (0.0, 320.0));
        let spans: Vec<_> = timeline.rows.iter().map(|row| row.spans_ns.clone()).collect();
        assert_eq!(spans, [vec![(0.0, 20.0), (310.0, 320.0)], vec![(50.0, 300.0)]]);
        assert_eq!(
            (timeline.marked_ns, timeline.marked_words.as_str()),
            (vec![50.0], "write begins")
        );
        assert_eq!(timeline.queues, []);
    }

    #[test]
    fn a_run_without_phases_has_no_figure_and_a_stage_must_exist() {
        let (mut figure, mut result) =
            result(vec![Phase { process: "read", from_ns: 1, to_ns: 2 }]);
        figure.queues = vec!["moon".to_owned()];
        let error = activity(&figure, &result, None).unwrap_err();
        assert!(error.contains("no stage `moon`; there are send_queue"), "{error}");
        result.cases[0].measured.phases.clear();
        assert_eq!(activity(&figure, &result, None), Ok(None));
    }
}
