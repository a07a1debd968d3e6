//! A process of a pipeline's stage whose times with work are listed.

use sockscope_experiment::measurement::Phase;
use sockscope_sim::{Action, Program, ProgramContext};

use super::SharedLog;

/// Lists the times when the program inside has a piece of work: from its input to its output.
pub(crate) struct Phased<P> {
    inner: P,
    /// Its name in the list.
    name: &'static str,
    log: SharedLog,
    /// It asked for a piece.
    is_asking: bool,
    began_ns: Option<u64>,
}

impl<P: Program> Phased<P> {
    pub(crate) fn new(inner: P, name: &'static str, log: SharedLog) -> Self {
        Self { inner, name, log, is_asking: false, began_ns: None }
    }
}

impl<P: Program> Program for Phased<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        if std::mem::take(&mut self.is_asking) {
            self.began_ns = Some(context.now_ns);
        }
        let action = self.inner.next(context);
        match action {
            Action::Take(_) => self.is_asking = true,
            Action::Post(_) => {
                if let Some(from_ns) = self.began_ns.take() {
                    let phase = Phase { process: self.name, from_ns, to_ns: context.now_ns };
                    self.log.borrow_mut().phases.push(phase);
                }
            }
            _ => {}
        }
        action
    }
}
