//! The summaries of a fleet as Parquet files: the same bytes for the same spool.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow_schema::{ArrowError, Field, Schema};
use sockscope_analysis::LedgerPart;
use sockscope_record::{Direction, Stage, counted};
use sockscope_tables::{DESCRIPTION, SCHEMA, Table, UNIT, write_parquet};

use crate::clock_bounds::bounds;
use crate::hour::HOUR_NS;
use crate::page::page;
use crate::plan::Head;
use crate::problem::{Problem, Trouble};
use crate::summary::{Group, Summary, Sums};
use crate::{Error, histogram};

/// The page of a fleet.
const PAGE: &str = "fleet.html";

/// What an analysis of a fleet has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Connections; one whose halves are analysed apart is two.
    pub connections: u64,
    /// Their records.
    pub records: u64,
    /// Findings.
    pub findings: u64,
    /// What was not whole, one sentence each.
    pub problems: Vec<String>,
}

/// Adds up the summaries of all tasks, and writes the tables and the page into a folder, which is made
/// where it is not there.
///
/// # Errors
///
/// When a file cannot be written.
pub fn write_summaries(
    head: &Head,
    summaries: Vec<Summary>,
    folder: &Path,
) -> Result<Written, Error> {
    let mut sums = Sums::of(summaries);
    sums.problems.extend(head.problems.iter().cloned());
    sums.problems.extend(missing_hosts(&sums));
    sums.problems.sort();
    sums.problems.dedup();
    fs::create_dir_all(folder).map_err(Error::io("cannot make the folder", folder))?;
    let tables = [
        hosts(head)?,
        connections(&sums)?,
        ledger(&sums)?,
        delays(&sums)?,
        findings(&sums)?,
        clocks(&sums)?,
        problems(&sums)?,
    ];
    for table in tables {
        let path = folder.join(format!("{}.parquet", table.name()));
        let file = File::create(&path).map_err(Error::io("cannot write", &path))?;
        write_parquet(table, BufWriter::new(file), &[], &mut |_| {})?;
    }
    let path = folder.join(PAGE);
    fs::write(&path, page(head, &sums)).map_err(Error::io("cannot write", &path))?;
    Ok(Written {
        connections: sums.counts.iter().map(|(_, it)| it.connections).sum(),
        records: sums.counts.iter().map(|(_, it)| it.records).sum(),
        findings: sums.findings.len() as u64,
        problems: sums.problems.iter().map(sentence).collect(),
    })
}

fn sentence(problem: &Problem) -> String {
    let Problem { trouble, host, line } = problem;
    match host.as_str() {
        "" => format!("{}: {line}", trouble.name()),
        host => format!("{}: {host}: {line}", trouble.name()),
    }
}

/// Addresses to which connections lead, and that no host of the spool has.
fn missing_hosts(sums: &Sums) -> Vec<Problem> {
    let foreign = sums.unseen.iter().filter(|(address, _)| !sums.own.contains_key(*address));
    let problem = |(address, connections): (&String, &u64)| {
        let line = format!(
            "no segment of the host with this address, the other end of {}",
            counted(*connections, "connection")
        );
        Problem::new(Trouble::MissingHost, address, line)
    };
    foreign.map(problem).collect()
}

/// Columns of a table, and their fields.
#[derive(Default)]
struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn push(&mut self, name: &str, unit: &str, meaning: &str, array: ArrayRef) {
        let facts = [(UNIT, unit), (DESCRIPTION, meaning)].into_iter();
        let facts = facts.filter(|(_, text)| !text.is_empty());
        let facts: HashMap<String, String> =
            facts.map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
        let has_nulls =
            matches!(name, "client_host" | "server_host" | "client_kernel" | "server_kernel");
        let field = Field::new(name, array.data_type().clone(), has_nulls);
        self.fields.push(field.with_metadata(facts));
        self.arrays.push(array);
    }

    fn whole(&mut self, name: &str, unit: &str, meaning: &str, of: impl Iterator<Item = i64>) {
        self.push(name, unit, meaning, Arc::new(Int64Array::from_iter_values(of)));
    }

    fn count(&mut self, name: &str, unit: &str, meaning: &str, of: impl Iterator<Item = u64>) {
        self.whole(name, unit, meaning, of.map(|it| i64::try_from(it).unwrap_or(i64::MAX)));
    }

    fn text<T: AsRef<str>>(&mut self, name: &str, meaning: &str, of: impl Iterator<Item = T>) {
        self.push(name, "", meaning, Arc::new(StringArray::from_iter_values(of)));
    }

    fn maybe<'a>(&mut self, name: &str, meaning: &str, of: impl Iterator<Item = Option<&'a str>>) {
        self.push(name, "", meaning, Arc::new(of.collect::<StringArray>()));
    }

    fn time(&mut self, name: &str, meaning: &str, of: impl Iterator<Item = u64>) {
        let of = of.map(|it| i64::try_from(it).unwrap_or(i64::MAX));
        let array = TimestampNanosecondArray::from_iter_values(of).with_timezone("UTC");
        self.push(name, "ns", meaning, Arc::new(array));
    }

    fn groups<'a>(&mut self, of: impl Iterator<Item = &'a Group> + Clone) {
        self.time("hour", "Begin of the hour (UTC)", of.clone().map(|it| it.hour * HOUR_NS));
        self.text("protocol", "`tcp` or `udp`", of.clone().map(|it| &it.protocol));
        let service = "Program of the client, `unknown` where no host shows it";
        self.text("client_service", service, of.clone().map(|it| &it.client.service));
        let service = "Program of the server, and its port";
        self.text("server_service", service, of.clone().map(|it| &it.server.service));
        let host = "Host of the client; null where no segment is of it";
        self.maybe("client_host", host, of.clone().map(|it| it.client.host.as_deref()));
        let host = "Host of the server; null where no segment is of it";
        self.maybe("server_host", host, of.clone().map(|it| it.server.host.as_deref()));
        let kernel = "Its kernel";
        self.maybe("client_kernel", kernel, of.clone().map(|it| it.client.kernel.as_deref()));
        self.maybe("server_kernel", kernel, of.map(|it| it.server.kernel.as_deref()));
    }

    fn table(self, name: &'static str) -> Result<Table, ArrowError> {
        let version = HashMap::from([(SCHEMA.to_owned(), format!("sockscope.fleet.{name}/1"))]);
        let schema = Schema::new_with_metadata(self.fields, version);
        Ok(Table::of_batch(name, RecordBatch::try_new(Arc::new(schema), self.arrays)?))
    }
}

fn sender(direction: u8) -> &'static str {
    let direction = if direction == 0 { Direction::FromClient } else { Direction::FromServer };
    direction.sender().name()
}

const SENDER: &str = "The end that sends the bytes: `client` or `server`";

fn hosts(head: &Head) -> Result<Table, ArrowError> {
    let (mut columns, of) = (Columns::default(), head.recordings.iter());
    columns.text("host", "Name of the host", of.clone().map(|it| &it.host));
    columns.text("run", "Its number for the recording", of.clone().map(|it| &it.run));
    columns.text("kernel", "Release of its kernel", of.clone().map(|it| &it.kernel));
    columns.count("segments", "", "Segments of the recording", of.clone().map(|it| it.segments));
    columns.count("records", "", "Their records", of.clone().map(|it| it.records));
    let meaning = "Records of connections that the trace does not describe, in no summary";
    columns.count("undescribed_records", "", meaning, of.clone().map(|it| it.undescribed_records));
    let meaning = "From the first segment to the end of the last one";
    columns.count("duration_ns", "ns", meaning, of.map(|it| it.duration_ns));
    columns.table("hosts")
}

fn connections(sums: &Sums) -> Result<Table, ArrowError> {
    let (mut columns, of) = (Columns::default(), sums.counts.iter().map(|(_, it)| it));
    columns.groups(sums.counts.iter().map(|(group, _)| &sums.groups[*group]));
    let meaning =
        "Connections that opened in this hour; one whose halves are analysed apart is two";
    columns.count("connections", "", meaning, of.clone().map(|it| it.connections));
    let meaning = "Of them those whose ends were both recorded";
    columns.count("with_both_ends", "", meaning, of.clone().map(|it| it.with_both_ends));
    columns.count("records", "", "Records of them", of.clone().map(|it| it.records));
    columns.count(
        "bytes",
        "bytes",
        "Distinct bytes, both directions",
        of.clone().map(|it| it.bytes),
    );
    let meaning = "Bytes that were sent again";
    columns.count("retransmitted_bytes", "bytes", meaning, of.map(|it| it.retransmitted_bytes));
    columns.table("connections")
}

fn ledger(sums: &Sums) -> Result<Table, ArrowError> {
    let (mut columns, of) = (Columns::default(), sums.ledger.iter());
    columns.groups(of.clone().map(|(key, _)| &sums.groups[key.0]));
    columns.text("sender", SENDER, of.clone().map(|(key, _)| sender(key.1)));
    let place = |part: u8| LedgerPart::ALL[usize::from(part)].name();
    let meaning = "Place of the oldest byte not yet read, as in the report";
    columns.text("place", meaning, of.clone().map(|(key, _)| place(key.2)));
    columns.count("time_ns", "ns", "Time in that place within the hour", of.map(|(_, ns)| *ns));
    columns.table("ledger")
}

fn delays(sums: &Sums) -> Result<Table, ArrowError> {
    let (mut columns, of) = (Columns::default(), sums.delays.iter());
    columns.groups(of.clone().map(|(key, _)| &sums.groups[key.0]));
    columns.text("sender", SENDER, of.clone().map(|(key, _)| sender(key.1)));
    let stage = |stage: u8| Stage::ALL[usize::from(stage)].name();
    let meaning = "The stage: `send_queue` to `receive_queue`, or `total`";
    columns.text("stage", meaning, of.clone().map(|(key, _)| stage(key.2)));
    let meaning = "Number of the bucket: two for each doubling";
    columns.whole("bucket", "", meaning, of.clone().map(|(key, _)| key.3.into()));
    let up_to = of.clone().map(|(key, _)| histogram::bounds(key.3).1);
    let up_to: ArrayRef = Arc::new(Float64Array::from_iter_values(up_to));
    columns.push("up_to_ns", "ns", "Largest delay of the bucket", up_to);
    let meaning = "Runs of bytes that left the stage within the hour";
    columns.count("runs", "", meaning, of.clone().map(|(_, it)| it.runs));
    columns.count("delay_ns", "ns", "Sum of their delays", of.map(|(_, it)| it.delay_ns));
    columns.table("delays")
}

fn findings(sums: &Sums) -> Result<Table, ArrowError> {
    let (mut columns, of) = (Columns::default(), sums.findings.iter());
    columns.groups(of.clone().map(|it| &it.group));
    columns.text("finding", "Its id, as in the report", of.clone().map(|it| &it.finding));
    columns.text("client", "Address and port of the client", of.clone().map(|it| &it.client));
    columns.text("server", "Address and port of the server", of.clone().map(|it| &it.server));
    columns.time(
        "opened",
        "First event of the connection (UTC)",
        of.clone().map(|it| it.opened_ns),
    );
    columns.text("sender", SENDER, of.clone().map(|it| &it.sender));
    columns.count("count", "", "Times that it was found", of.clone().map(|it| it.count));
    columns.count("cost_ns", "ns", "Time that it cost", of.clone().map(|it| it.cost_ns));
    columns.text("summary", "The sentence of the report", of.clone().map(|it| &it.summary));
    columns.text("fix", "Advice", of.map(|it| &it.fix));
    columns.table("findings")
}

fn clocks(sums: &Sums) -> Result<Table, ArrowError> {
    let all = bounds(sums);
    let (mut columns, of) = (Columns::default(), all.iter());
    columns.text("host", "A host", of.clone().map(|it| &it.hosts.0));
    columns.text(
        "other_host",
        "The host whose clock is compared",
        of.clone().map(|it| &it.hosts.1),
    );
    let at = of.clone().map(|it| u64::try_from(it.clock.at_ns).unwrap_or(0));
    columns.time("bounds_at", "Time of the bounds, by the other host's clock (UTC)", at);
    let meaning = "The other host's clock is ahead by this at least";
    columns.whole("ahead_ns_min", "ns", meaning, of.clone().map(|it| it.clock.lowest_ns));
    let meaning = "And by this at most";
    columns.whole("ahead_ns_max", "ns", meaning, of.clone().map(|it| it.clock.highest_ns));
    let meaning = "Nanoseconds that it gains in a second, at least";
    columns.whole("gain_ns_per_s_min", "ns/s", meaning, of.clone().map(|it| it.clock.slowest_ppb));
    columns.whole(
        "gain_ns_per_s_max",
        "ns/s",
        "And at most",
        of.clone().map(|it| it.clock.fastest_ppb),
    );
    let meaning = "Whether the segments agree; they do not where a clock was set";
    let agree: ArrayRef =
        Arc::new(of.clone().map(|it| Some(it.clock.is_consistent)).collect::<BooleanArray>());
    columns.push("is_consistent", "", meaning, agree);
    let meaning = "Connections between the two";
    columns.count("connections", "", meaning, of.clone().map(|it| it.clock.connections));
    let meaning = "Segments from the host that both recorded";
    columns.count("segments", "packets", meaning, of.clone().map(|it| it.clock.segments[0]));
    let meaning = "Segments to the host that both recorded";
    columns.count("segments_back", "packets", meaning, of.map(|it| it.clock.segments[1]));
    columns.table("clocks")
}

fn problems(sums: &Sums) -> Result<Table, ArrowError> {
    let (mut columns, of) = (Columns::default(), sums.problems.iter());
    let meaning = "`missing-host`, `missing-segment`, `damaged-segment` or `clock`";
    columns.text("problem", meaning, of.clone().map(|it| it.trouble.name()));
    columns.text("host", "The host, or its address", of.clone().map(|it| &it.host));
    columns.text("line", "A sentence with the place", of.map(|it| &it.line));
    columns.table("problems")
}
