//! `sockscope lab work`: programs that send, receive and compute, as the papers' programs did.
//!
//! Each ends with one line of JSON on standard output, which says what it sent and received.

pub mod args;
mod calls;
mod load;
mod message;
mod page;
pub mod pattern;
mod pipeline;
mod process;
mod quic;
mod report;
mod requests;
mod rpc;
mod schedule;
mod socket;
mod stream;
mod text;
mod transactions;

use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;

use args::{LabWork, WorkProgram};

/// `sockscope lab work`.
pub fn work(arguments: &LabWork) -> Result<Outcome, Failure> {
    arguments.cpu.map_or(Ok(()), load::bind)?;
    match &arguments.program {
        WorkProgram::Discard(arguments) => stream::discard(arguments),
        WorkProgram::Send(arguments) => stream::send(arguments),
        WorkProgram::RpcEcho(arguments) => rpc::rpc_echo(arguments),
        WorkProgram::OneAtATime(arguments) => requests::one_at_a_time(arguments),
        WorkProgram::RequestResponse(arguments) => requests::request_response(arguments),
        WorkProgram::Pipeline(arguments) => pipeline::pipeline(arguments),
        WorkProgram::Load(arguments) => load::load(arguments),
        WorkProgram::PageClient(arguments) => page::page_client(arguments),
        WorkProgram::TextClient(arguments) => text::text_client(arguments),
        WorkProgram::Transactions(arguments) => transactions::transactions(arguments),
        WorkProgram::Pattern(arguments) => pattern::pattern(arguments),
        WorkProgram::Stage(arguments) => pipeline::stage(arguments),
        WorkProgram::Primes(arguments) => load::primes(arguments),
    }
}
