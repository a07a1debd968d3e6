//! The schema file of `meta.json`, and the schemas of its objects whose keys are points.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use sockscope_record::Point;

use crate::meta_seal::Sealed;
use crate::point_tables::{Cost, EVENTS};

pub(crate) fn loss(generator: &mut SchemaGenerator) -> Schema {
    object::<u64>(&[EVENTS], generator)
}

pub(crate) fn cost(generator: &mut SchemaGenerator) -> Schema {
    object::<Cost>(&[], generator)
}

/// An object that has each point and each of `more` as a key, with values of one type.
fn object<T: JsonSchema>(more: &[&str], generator: &mut SchemaGenerator) -> Schema {
    let value = generator.subschema_for::<T>();
    let names: Vec<_> = Point::ALL.iter().map(|point| point.name()).chain(more.to_vec()).collect();
    let properties: serde_json::Map<_, _> =
        names.iter().map(|&name| (name.to_owned(), value.clone().into())).collect();
    json_schema!({ "type": "object", "properties": properties, "required": names })
}

#[test]
fn the_schema_file_is_that_of_the_types() {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator().into_root_schema_for::<Sealed<'_>>();
    let expected = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/meta.json");
    if std::env::var_os("SOCKSCOPE_UPDATE").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == expected, "run SOCKSCOPE_UPDATE=1 cargo test -p sockscope-trace schema");
}
