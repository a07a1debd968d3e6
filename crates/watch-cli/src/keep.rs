//! A bundle of segments that follow one another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sockscope_program::failure::Failure;
use sockscope_record::{Connection, ConnectionId};
use sockscope_trace::{Bundle, BundleWriter, Meta};

/// Makes a bundle in `into` of the segments, in their order, with the reason as a note, and the one on connections that
/// were left out. Gives the number of records; `None` where the segments have none.
///
/// A segment that cannot be read is named in a note.
pub fn keep(
    segments: &[PathBuf],
    into: &Path,
    reason: &str,
    sampled: Option<String>,
) -> Result<Option<u64>, Failure> {
    let mut notes = vec![format!("kept by sockscope watch: {reason}")];
    notes.extend(sampled);
    let mut bundles = Vec::new();
    for segment in segments {
        match Bundle::open(segment) {
            Ok(bundle) => bundles.push(bundle),
            Err(error) => notes.push(format!("a part of the recording is missing: {error}")),
        }
    }
    let (Some(first), Some(last)) = (bundles.first(), bundles.last()) else { return Ok(None) };
    if bundles.iter().all(|bundle| bundle.record_rows() == 0) {
        return Ok(None);
    }
    let since_ns = first.meta().clock.first().map_or(0, |clock| clock.monotonic_ns);
    let mut meta = Meta {
        clock: [first, last].into_iter().flat_map(|it| it.meta().clock.clone()).collect(),
        ended_ns: last.meta().ended_ns,
        ..first.meta().clone()
    };
    meta.clock.dedup();
    meta.network_namespaces.retain(|number, name| {
        bundles.iter().all(|it| it.meta().network_namespaces.get(number) == Some(name))
    });
    meta.loss = bundles.iter().fold(meta.loss, |mut sum, bundle| {
        if !std::ptr::eq(bundle, first) {
            sum.add_all(&bundle.meta().loss);
        }
        sum
    });
    let mut connections: BTreeMap<ConnectionId, Connection> = BTreeMap::new();
    for connection in bundles.iter().flat_map(Bundle::connections) {
        let one = connections.entry(connection.id).or_insert_with(|| connection.clone());
        *one = connection.clone();
        // Its first bytes are in a segment that was removed.
        one.preexisting |= connection.opened_ns < since_ns;
    }
    let mut writer = BundleWriter::create(into, meta.clone())?;
    for connection in connections.values() {
        writer.connection(connection)?;
    }
    for bundle in &bundles {
        let mut records = bundle.records()?;
        while let Some(batch) = records.next_batch()? {
            writer.append(batch)?;
        }
        notes.extend(bundle.problems_after(&records).iter().map(ToString::to_string));
    }
    let records = writer.records();
    meta.notes.extend(notes);
    writer.finish(meta)?;
    Ok(Some(records))
}
