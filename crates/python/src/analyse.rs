//! `sockscope.analyse`: the analysis of records that another library holds.

use std::num::NonZeroUsize;
use std::thread;

use arrow_array::RecordBatch;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_schema::ArrowError;
use pyo3::prelude::*;
use sockscope_analysis::{Analyzer, TraceFacts};
use sockscope_record::{LossCounts, Record};
use sockscope_report::Origin;
use sockscope_tables::{Tables, WallClock, read_records};
use sockscope_trace::Source;

use crate::analysed::{Analysed, Once};
use crate::bundle::Analysis;
use crate::connections::connections;
use crate::error::Problem;
use crate::stream::batches;

/// Analyses a table of records: `Bundle.records`, or a part of it, in any library with `__arrow_c_stream__`. Rows are
/// nearly in the order of time. `flows` has the connections, as `Bundle.flows`: without it their addresses are unknown.
#[pyfunction]
#[pyo3(signature = (records, *, flows=None))]
pub(crate) fn analyse(
    py: Python<'_>,
    records: &Bound<'_, PyAny>,
    flows: Option<&Bound<'_, PyAny>>,
) -> PyResult<Analysis> {
    let mut analyzer = Analyzer::new();
    // One after the other: both may be answers of one connection to a database, which has one open at a time.
    if let Some(flows) = flows {
        let flows = batches("flows", flows)?;
        analyzer = py.detach(|| described(analyzer, flows))?;
    }
    let records = batches("records", records)?;
    let analysed = py.detach(|| {
        let mut missed = LossCounts::default();
        for batch in records {
            let records = read_records(&read("records", batch)?)?;
            missed.add_all(&records.iter().filter_map(Record::loss).collect());
            analyzer.push(&records);
        }
        let source = Source::Unknown.name().to_owned();
        let facts = TraceFacts { source, missed, ..TraceFacts::default() };
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let (analysis, stores) = analyzer.finish_keeping(facts, threads);
        let tables = Tables::new(analysis, stores, WallClock::default());
        Ok::<_, Problem>(Analysed { tables, origin: Origin::default() })
    })?;
    Ok(Analysis::new(Once::made(analysed)))
}

/// The analyzer with the connections of the flows.
fn described(mut analyzer: Analyzer, flows: RecordBatchStreamReader) -> Result<Analyzer, Problem> {
    for batch in flows {
        let connections = connections(&read("flows", batch)?)?;
        connections.into_iter().for_each(|connection| analyzer.connection(connection));
    }
    Ok(analyzer)
}

fn read(name: &str, batch: Result<RecordBatch, ArrowError>) -> Result<RecordBatch, Problem> {
    batch.map_err(|error| Problem::new(format!("{name}: {error}")))
}
