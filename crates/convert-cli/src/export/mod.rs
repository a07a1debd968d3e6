//! `sockscope export`: a trace bundle in a form that other programs open.

mod ordered;
mod pcapng;
mod perfetto;
mod spool;
mod tables;

use sockscope_program::failure::Failure;

use crate::args;

/// `sockscope export`.
pub fn export(arguments: &args::Export) -> Result<(), Failure> {
    let (dir, output) = (&arguments.dir, &arguments.output);
    match arguments.to {
        args::Form::Csv => tables::export(dir, output, tables::Kind::Csv),
        args::Form::Parquet => tables::export(dir, output, tables::Kind::Parquet),
        args::Form::Perfetto => perfetto::export(dir, output),
        args::Form::Pcapng => pcapng::export(dir, output),
        args::Form::Spool => spool::export(dir, output),
    }
}
