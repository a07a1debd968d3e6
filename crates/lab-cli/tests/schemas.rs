//! The schema files in docs/schema describe what the laboratory prints.

#[path = "../../cli/tests/schema/mod.rs"]
mod schema;

use std::path::Path;
use std::process::Command;

use schema::Schema;

/// Checks what the program prints in JSON.
fn check(schema: &Schema, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-lab"));
    let output = command.arg("lab").args(arguments).args(["--format", "json"]).output();
    schema.check(Path::new(&arguments.join(" ")), &output.expect("the program starts").stdout);
}

#[test]
fn results_have_the_schema_of_results() {
    let schema = Schema::read("lab");
    check(&schema, &["run", "bb-1", "--set", "messages=10"]);
    for id in ["lh-2", "lh-3", "lh-6", "pc-1"] {
        check(&schema, &["run", id]);
    }
}

#[test]
fn checked_claims_have_the_schema_of_claims() {
    check(&Schema::read("claims"), &["check", "--paper", "bsd-buffers"]);
}
