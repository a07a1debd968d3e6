//! `sockscope export`: a trace bundle in a form that other programs open.

mod ordered;
mod pcapng;

use sockscope_program::failure::Failure;

use crate::args;

/// `sockscope export`.
pub fn export(arguments: &args::Export) -> Result<(), Failure> {
    match arguments.to {
        args::Form::Pcapng => pcapng::export(&arguments.dir, &arguments.output),
    }
}
