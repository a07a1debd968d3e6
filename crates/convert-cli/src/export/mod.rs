//! `sockscope export`: a trace bundle in a form that other programs open.

mod ordered;
mod pcapng;
mod perfetto;

use sockscope_program::failure::Failure;

use crate::args;

/// `sockscope export`.
pub fn export(arguments: &args::Export) -> Result<(), Failure> {
    match arguments.to {
        args::Form::Perfetto => perfetto::export(&arguments.dir, &arguments.output),
        args::Form::Pcapng => pcapng::export(&arguments.dir, &arguments.output),
    }
}
