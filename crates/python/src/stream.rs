//! Tables of other libraries, by the Arrow PyCapsule interface.

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::Problem;

/// The batches of a table of any library. `name` is that of the argument, for errors.
pub(crate) fn batches(name: &str, table: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let Some(export) = table.getattr_opt("__arrow_c_stream__")? else {
        let kind = table.get_type().name()?;
        let line = format!(
            "{name}: expected a table with __arrow_c_stream__, as of pyarrow, polars or pandas 3, found {kind}"
        );
        return Err(Problem::new(line).into());
    };
    let capsule = export.call0()?.cast_into::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    let stream = stream.cast::<FFI_ArrowArrayStream>().as_ptr();
    // SAFETY: a capsule of this name has a valid `ArrowArrayStream` by the Arrow PyCapsule interface, which PyCapsule
    // has just checked. The capsule lives until the end of this function. The reader takes the stream out of it, and
    // leaves one that was released, as the interface asks: the capsule's destructor then frees nothing twice.
    #[allow(unsafe_code)]
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream) };
    reader.map_err(|error| Problem::new(format!("{name}: {error}")).into())
}
