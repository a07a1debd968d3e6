//! A bundle as capture files: one of this host's end of each connection, and one of the servers' ends where both are
//! here.

use std::fs::File;
use std::io::BufWriter;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use sockscope_convert::pcapng::{Facts, Remark, Writer};
use sockscope_program::failure::Failure;
use sockscope_program::loaded::Loaded;
use sockscope_program::output_dir::create_output;
use sockscope_program::stderr;
use sockscope_record::{Connection, Side, counted};
use sockscope_trace::{Bundle, Meta};

use super::ordered;

/// Room before a write.
const BUFFER: usize = 1 << 18;

/// Writes the files.
pub fn export(dir: &Path, output: &Path) -> Result<(), Failure> {
    let bundle = Bundle::open(dir)?;
    let facts = facts(bundle.meta(), bundle.connections());
    let remarks = remarks(dir)?;
    let of = |side: fn(&Connection) -> Option<Side>| {
        let connections = bundle.connections().iter();
        connections.filter_map(|it| Some((it, side(it)?))).collect::<Vec<_>>()
    };
    let files = [
        (output.to_path_buf(), of(|it| Some(end_here(it)))),
        (beside(output, "-server"), of(|it| it.both_ends_here.then_some(Side::Server))),
    ];
    let mut writers = Vec::new();
    for (path, ends) in files {
        if ends.is_empty() && !writers.is_empty() {
            continue;
        }
        let cannot = |error| Failure::file("cannot write", &path, &error);
        let file = BufWriter::with_capacity(BUFFER, create_output(&path)?);
        let writer = Writer::new(file, &facts, ends, remarks.clone()).map_err(cannot)?;
        writers.push((path, writer));
    }
    ordered::each(&bundle, |record| {
        writers.iter_mut().try_for_each(|(path, writer)| {
            writer.record(record).map_err(|error| Failure::file("cannot write", path, &error))
        })
    })?;
    for (path, writer) in writers {
        let packets = finish(writer, &path)?;
        stderr!("sockscope: {} in {}", counted(packets, "packet"), path.display());
    }
    Ok(())
}

fn finish(writer: Writer<'_, BufWriter<File>>, path: &Path) -> Result<u64, Failure> {
    writer.finish().map_err(|error| Failure::file("cannot write", path, &error))
}

/// The end whose packets a capture on this host has: the client's where both are here.
fn end_here(connection: &Connection) -> Side {
    let has_process = |side| connection.processes.iter().any(|process| process.side == side);
    match has_process(Side::Client) || !has_process(Side::Server) {
        true => Side::Client,
        false => Side::Server,
    }
}

/// `a/b-server.pcapng` of `a/b.pcapng`.
fn beside(path: &Path, addition: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(addition);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn facts(meta: &Meta, connections: &[Connection]) -> Facts {
    let clock = meta.clock.first();
    // The addresses of this host, by the ends that have a process here.
    let here = connections.iter().flat_map(|it| {
        let end = |side| match side {
            Side::Client => it.client.ip(),
            Side::Server => it.server.ip(),
        };
        it.processes.iter().map(move |process| end(process.side))
    });
    let mut here: Vec<IpAddr> = here.filter(|address| !address.is_loopback()).collect();
    here.sort_unstable();
    here.dedup();
    let is_named = !meta.host.is_empty();
    Facts {
        program: format!("sockscope {}", env!("CARGO_PKG_VERSION")),
        offset_ns: clock.map_or(0, |clock| clock.offset_ns()),
        missed: meta.loss.total(),
        names: here.into_iter().filter(|_| is_named).map(|it| (it, meta.host.clone())).collect(),
    }
}

/// The evidence of each finding.
fn remarks(dir: &Path) -> Result<Vec<Remark>, Failure> {
    let (analysis, _, _) = Loaded::read(dir)?.finish();
    let findings = analysis.connections.iter().flat_map(|it| &it.findings);
    let remarks = findings.flat_map(|finding| {
        finding.evidence.iter().map(|evidence| Remark {
            flow: finding.flow,
            at_ns: evidence.at_ns,
            words: format!("{}: {}", finding.id.name(), evidence.text),
        })
    });
    Ok(remarks.collect())
}
