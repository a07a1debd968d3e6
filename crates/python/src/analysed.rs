//! A trace with its analysis, made when it is first needed.

use std::sync::{Arc, Mutex, PoisonError};

use sockscope_record::FlowId;
use sockscope_report::{Format, Options, Origin, Report};
use sockscope_tables::Tables;

use crate::error::Problem;

/// A trace and its analysis.
pub(crate) struct Analysed {
    /// The analysis, and the records sorted.
    pub(crate) tables: Tables,
    pub(crate) origin: Origin,
}

impl Analysed {
    /// A report in this form: of one flow, or of all.
    pub(crate) fn report(&self, form: &dyn Format, flow: Option<u32>) -> Result<Vec<u8>, Problem> {
        let options = Options { flow: flow.map(FlowId), ..Options::default() };
        let (origin, analysis) = (&self.origin, self.tables.analysis());
        let report = Report { origin, analysis, options: &options };
        let mut written = Vec::new();
        form.write(&report, &mut written)?;
        Ok(written)
    }
}

/// Makes the analysis.
type Make = dyn Fn() -> Result<Analysed, Problem> + Send + Sync;

/// An analysis that is made once. A failed attempt is not kept: the next one may succeed.
pub(crate) struct Once {
    make: Box<Make>,
    made: Mutex<Option<Arc<Analysed>>>,
}

impl Once {
    pub(crate) fn new(
        make: impl Fn() -> Result<Analysed, Problem> + Send + Sync + 'static,
    ) -> Self {
        Self { make: Box::new(make), made: Mutex::new(None) }
    }

    /// One that is there already.
    pub(crate) fn made(analysed: Analysed) -> Self {
        let unused = || Err(Problem::new("the analysis was made from a table"));
        Self { made: Mutex::new(Some(Arc::new(analysed))), ..Self::new(unused) }
    }

    /// The analysis. Other threads wait for it: call this without the interpreter.
    pub(crate) fn analysed(&self) -> Result<Arc<Analysed>, Problem> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(analysed) = &*made {
            return Ok(Arc::clone(analysed));
        }
        let analysed = Arc::new((self.make)()?);
        *made = Some(Arc::clone(&analysed));
        Ok(analysed)
    }
}
