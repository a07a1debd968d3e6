//! Names of the files of a bundle, and their columns.
//!
//! They are defined once: writer, readers and checker all take names and types from here,
//! and `docs/reference/bundle.md` describes the same. A later version of the same format may
//! add columns behind these; a reader skips them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema};
use sockscope_record::Kind;

/// The format version that this crate writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 2;

/// The first version whose messages all have a seal.
pub(crate) const SEALED_VERSION: u32 = 2;

/// Records in a full batch of `records.arrows`.
pub const BATCH_RECORDS: usize = 65_536;

/// Largest step back of the time of a record that is [in order](sockscope_record::Record::is_in_order), from the
/// latest time so far, in nanoseconds.
///
/// A probe reads the clock before it gets its place in the ring, and may be interrupted, or its virtual CPU stopped,
/// in between. That does not explain a larger step.
pub const TIME_STEP_BACK_NS_MAX: u64 = 100_000_000;

/// Longest message header that a reader accepts, in bytes. Ours have below 3,000.
pub(crate) const HEADER_BYTES_MAX: u64 = 1 << 20;

/// Longest message header that is looked for behind a damaged one, in bytes.
pub(crate) const SEALED_HEADER_BYTES_MAX: u64 = 1 << 13;

/// Longest message body that a reader accepts, in bytes: bounds the memory of one batch. A
/// full batch of ours has 3 MB.
pub(crate) const BODY_BYTES_MAX: u64 = 1 << 28;

/// Longest `meta.json` that a reader accepts, in bytes.
pub(crate) const META_BYTES_MAX: u64 = 1 << 24;

/// Key of the format version in the schema metadata of both streams.
pub(crate) const VERSION_KEY: &str = "sockscope.format_version";

/// Keys that every `meta.json` of ours begins with, also one that was not finished.
pub(crate) const META_KEYS: [&str; 3] = ["\"format_version\"", "\"tool_version\"", "\"complete\""];

/// Key of the kind table in the schema metadata: `code=name`, separated by commas.
const KINDS_KEY: &str = "sockscope.kinds";

/// Key of the clock's description in the schema metadata.
const CLOCK_KEY: &str = "sockscope.clock";

/// Name of a bundle's `meta.json` until it is complete and renamed; a kill may leave this file.
pub const META_UNFINISHED: &str = ".meta.json.new";

/// A file of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// `records.arrows`
    Records,
    /// `flows.arrows`
    Flows,
    /// `meta.json`
    Meta,
}

impl Part {
    /// All files of a bundle.
    pub const ALL: [Self; 3] = [Self::Records, Self::Flows, Self::Meta];

    /// The file's name inside the bundle's folder.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Records => "records.arrows",
            Self::Flows => "flows.arrows",
            Self::Meta => "meta.json",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_name())
    }
}

/// Width in bytes of each column of `records.arrows`, in column order.
pub(crate) const RECORD_WIDTHS: [usize; 12] = [8, 4, 1, 8, 4, 2, 4, 1, 1, 1, 8, 4];

/// Columns of `records.arrows`, one for each field of `Record`.
pub(crate) fn record_schema() -> Schema {
    let columns = [
        ("at_ns", DataType::UInt64),
        ("flow", DataType::UInt32),
        ("kind", DataType::UInt8),
        ("offset", DataType::UInt64),
        ("len", DataType::UInt32),
        ("cpu", DataType::UInt16),
        ("thread", DataType::UInt32),
        ("tcp_flags", DataType::UInt8),
        ("marks", DataType::UInt8),
        ("code", DataType::UInt8),
        ("detail", DataType::UInt64),
        ("extra", DataType::UInt32),
    ];
    with_metadata(columns.map(|(name, data_type)| Field::new(name, data_type, false)).to_vec())
}

/// Columns of `flows.arrows`: one row is the description of a connection at one moment.
pub(crate) fn flow_schema() -> Schema {
    with_metadata(vec![
        Field::new("connection", DataType::UInt32, false),
        Field::new("protocol", DataType::Utf8, false),
        Field::new("client", DataType::Utf8, false),
        Field::new("server", DataType::Utf8, false),
        Field::new("opened_ns", DataType::UInt64, false),
        Field::new("closed_ns", DataType::UInt64, true),
        Field::new("preexisting", DataType::Boolean, false),
        Field::new("both_ends_here", DataType::Boolean, false),
        Field::new("processes", DataType::List(process_field()), false),
        Field::new(GROUPS, DataType::List(group_field()), false),
        Field::new(MARK, DataType::UInt64, true),
        Field::new(ELSEWHERE, DataType::Utf8, false),
        Field::new(HOSTS, DataType::Utf8, false),
    ])
}

/// The item of the list column `processes`.
pub(crate) fn process_field() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Struct(process_fields()), false))
}

/// Members of an item of `processes`.
pub(crate) fn process_fields() -> Fields {
    Fields::from(vec![
        Field::new("pid", DataType::UInt32, false),
        Field::new("comm", DataType::Utf8, false),
        Field::new("side", DataType::Utf8, false),
    ])
}

/// Columns of `flows.arrows` that every bundle has: those before `groups`.
pub(crate) fn first_flow_schema() -> Schema {
    let all = flow_schema().fields;
    let first = all.iter().take_while(|field| field.name() != GROUPS);
    Schema::new(first.cloned().collect::<Fields>())
}

/// Names of the columns that bundles of earlier releases do not have: control groups, what a mark in the SYN adds, and
/// the hosts of the processes.
const GROUPS: &str = "groups";
const MARK: &str = "mark";
const ELSEWHERE: &str = "elsewhere";
const HOSTS: &str = "hosts";

/// Members of an item of `groups` that are texts, behind the number of its process.
pub(crate) const GROUP_TEXTS: [&str; 7] =
    ["path", "unit", "container_id", "container", "pod_uid", "namespace", "pod"];

/// Columns of a batch of `flows.arrows` up to `groups`, nested ones included.
const GROUPED_COLUMNS: usize = 9 + 4 + 1 + 1 + 1 + GROUP_TEXTS.len();

/// Columns of `flows.arrows` that a file has behind those of every bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaterColumns {
    /// `groups`.
    pub(crate) groups: bool,
    /// `mark` and `elsewhere`.
    pub(crate) marks: bool,
    /// `hosts`.
    pub(crate) hosts: bool,
}

impl LaterColumns {
    /// Of a file with these columns.
    pub(crate) fn of(columns: &Schema) -> Self {
        let (own, first) = (flow_schema().fields, first_flow_schema().fields.len());
        let has = |index: usize| {
            columns.fields.get(index).is_some_and(|it| {
                it.name() == own[index].name() && it.data_type() == own[index].data_type()
            })
        };
        let groups = has(first);
        let marks = groups && has(first + 1) && has(first + 2);
        Self { groups, marks, hosts: marks && has(first + 3) }
    }

    /// Of a batch with so many columns, nested ones included, where the schema is damaged: of this format or a later
    /// one.
    pub(crate) fn of_batch(columns: usize) -> Self {
        Self {
            groups: columns >= GROUPED_COLUMNS,
            marks: columns >= GROUPED_COLUMNS + 2,
            hosts: columns >= GROUPED_COLUMNS + 3,
        }
    }
}

/// The item of the list column `groups`.
pub(crate) fn group_field() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Struct(group_fields()), false))
}

/// Members of an item of `groups`.
pub(crate) fn group_fields() -> Fields {
    let process = Field::new("process", DataType::UInt32, false);
    let texts = GROUP_TEXTS.map(|name| Field::new(name, DataType::Utf8, false));
    [process].into_iter().chain(texts).collect()
}

fn with_metadata(fields: Vec<Field>) -> Schema {
    let kinds: Vec<String> =
        Kind::ALL.iter().map(|kind| format!("{}={}", *kind as u8, kind.name())).collect();
    let metadata = HashMap::from([
        (VERSION_KEY.to_owned(), FORMAT_VERSION.to_string()),
        (KINDS_KEY.to_owned(), kinds.join(",")),
        (CLOCK_KEY.to_owned(), "monotonic, nanoseconds; see meta.json clock".to_owned()),
    ]);
    Schema::new_with_metadata(fields, metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_width_is_that_of_its_column() {
        let widths: Vec<_> = record_schema()
            .fields
            .iter()
            .map(|field| field.data_type().primitive_width())
            .collect();
        assert_eq!(widths, RECORD_WIDTHS.map(Some));
    }

    #[test]
    fn the_kind_table_names_every_kind() {
        let table = &record_schema().metadata[KINDS_KEY];
        assert_eq!(table.split(',').count(), Kind::ALL.len());
        assert!(table.starts_with("1=SendEnqueue,2=SendDequeue,"), "{table}");
        assert!(
            table.ends_with(
                ",31=Loss,32=Conversion,33=Interface,34=Accept,35=WindowScale,36=LeftOut,38=Hop,39=HopDevice,40=SocketLayer"
            ),
            "{table}"
        );
    }
}
