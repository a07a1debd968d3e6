//! A validator of JSON Schema 2020-12.
//!
//! It knows the keywords that the files use, and refuses a file with any other. Keys that a schema
//! does not list are errors here, although readers ignore them: each key has to be described.

use std::fs;
use std::path::Path;

use serde_json::Value;

const SCHEMAS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");

/// A schema file.
pub struct Schema {
    /// Its document.
    pub root: Value,
}

impl Schema {
    /// The file of this name.
    pub fn read(name: &str) -> Self {
        let file = Path::new(SCHEMAS).join(format!("{name}.json"));
        Self { root: serde_json::from_slice(&fs::read(file).unwrap()).unwrap() }
    }

    /// The document is of the schema.
    pub fn check(&self, source: &Path, document: &[u8]) {
        let document = serde_json::from_slice(document).unwrap();
        assert_eq!(self.problem(&self.root, &document, ""), None, "{}", source.display());
    }

    /// The first place in `value` that is not of `schema` (JSON Schema 2020-12).
    pub fn problem(&self, schema: &Value, value: &Value, at: &str) -> Option<String> {
        let Some(schema) = schema.as_object() else { panic!("{schema}: no schema") };
        let is_object = value.is_object();
        schema.iter().find_map(|(keyword, rule)| match keyword.as_str() {
            "$ref" => {
                let target = rule.as_str()?.strip_prefix('#')?;
                self.problem(self.root.pointer(target).expect("a definition"), value, at)
            }
            "type" => {
                let types = rule.as_array().map_or(std::slice::from_ref(rule), Vec::as_slice);
                let fits = types.iter().any(|name| is_of(value, name.as_str().unwrap_or("")));
                (!fits).then(|| format!("{at}: not {}", rule.as_str().unwrap_or("of the types")))
            }
            "const" => (rule != value).then(|| format!("{at}: not the constant")),
            "enum" => (!rule.as_array()?.contains(value)).then(|| format!("{at}: not in the list")),
            "minimum" => {
                (value.as_f64()? < rule.as_f64()?).then(|| format!("{at}: below the minimum"))
            }
            "anyOf" | "oneOf" => {
                let mut choices = rule.as_array()?.iter();
                let fits = choices.any(|choice| self.problem(choice, value, at).is_none());
                (!fits).then(|| format!("{at}: none of the choices"))
            }
            "items" => {
                let mut items = value.as_array()?.iter().enumerate();
                items.find_map(|(index, item)| self.problem(rule, item, &format!("{at}/{index}")))
            }
            "required" => {
                let mut keys = rule.as_array()?.iter().filter_map(Value::as_str);
                let missing = keys.find(|key| is_object && value.get(key).is_none())?;
                Some(format!("{at}: no {missing}"))
            }
            "properties" => value.as_object()?.iter().find_map(|(key, item)| match rule.get(key) {
                Some(rule) => self.problem(rule, item, &format!("{at}/{key}")),
                None => match schema.get("additionalProperties").filter(|rule| rule.is_object()) {
                    Some(rule) => self.problem(rule, item, &format!("{at}/{key}")),
                    None => Some(format!("{at}: {key} is not described")),
                },
            }),
            // Those without a name of their own are checked with the properties.
            "additionalProperties" if schema.contains_key("properties") => None,
            // Of maps by name or number.
            "patternProperties" | "additionalProperties" => {
                let rule = if keyword == "patternProperties" { rule.get("^\\d+$")? } else { rule };
                let mut entries = value.as_object().filter(|_| rule.is_object())?.iter();
                entries.find_map(|(key, item)| self.problem(rule, item, &format!("{at}/{key}")))
            }
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => None,
            keyword => panic!("{at}: the validator does not know {keyword}"),
        })
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => panic!("{name}: no type"),
    }
}
