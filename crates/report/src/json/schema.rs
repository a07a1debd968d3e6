//! The schema file of the report, and the schemas of objects whose keys are names of the trace.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use sockscope_analysis::{LedgerPart, RequestEnd};
use sockscope_record::{Point, Stage};

use super::ReportView;
use super::flow::StageView;
use super::trace::PointView;

pub(super) fn points(generator: &mut SchemaGenerator) -> Schema {
    object::<PointView>(Point::ALL.iter().map(|point| point.name()), generator)
}

pub(super) fn stages(generator: &mut SchemaGenerator) -> Schema {
    object::<StageView>(Stage::ALL.iter().map(|stage| stage.name()), generator)
}

/// Shares of the ledger, by place.
pub(super) fn shares(generator: &mut SchemaGenerator) -> Schema {
    object::<f64>(LedgerPart::ALL.iter().map(|part| part.name()), generator)
}

/// Nanoseconds of the ledger, by place.
pub(crate) fn parts(generator: &mut SchemaGenerator) -> Schema {
    object::<u64>(LedgerPart::ALL.iter().map(|part| part.name()), generator)
}

/// Counts of requests, by their end.
pub(super) fn request_ends(generator: &mut SchemaGenerator) -> Schema {
    object::<u64>(RequestEnd::ALL.iter().map(|end| end.name()), generator)
}

/// An object that has each of the names as a key, with values of one type.
fn object<T: JsonSchema>(
    names: impl Iterator<Item = &'static str> + Clone,
    generator: &mut SchemaGenerator,
) -> Schema {
    let value = generator.subschema_for::<T>();
    let properties: serde_json::Map<_, _> =
        names.clone().map(|name| (name.to_owned(), value.clone().into())).collect();
    json_schema!({
        "type": "object",
        "properties": properties,
        "required": names.collect::<Vec<_>>(),
    })
}

#[test]
fn the_schema_file_is_that_of_the_types() {
    check_schema_file::<ReportView<'_, '_>>("report");
}

/// Compares a file in docs/schema with the type that it describes.
pub(crate) fn check_schema_file<T: JsonSchema>(name: &str) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let expected = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let path = format!("{}/../../docs/schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("SOCKSCOPE_UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "run SOCKSCOPE_UPDATE=1 cargo test -p sockscope-report schema");
}
