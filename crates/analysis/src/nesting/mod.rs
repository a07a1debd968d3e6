//! Nesting: the requests that an answering program makes of others while it serves one itself.
//!
//! A program reads a request, asks servers of its own, and then answers. From the outside that is one service time.
//! Here it is divided: the time in which it waited for a nested request, and the rest, which is the program's own.
//!
//! Input is every request of the trace, with the processes at the ends of its connection. A request is nested in
//! another one where the process that asks it serves the other one then. There are no guesses: see [`parents`].

mod links;
mod nested_times;
mod parents;
#[cfg(test)]
mod proptests;
mod roles;
#[cfg(test)]
mod tests;

use sockscope_record::Connection;

pub use self::links::{Certainty, NestedTime, Nesting, RequestId, RequestLink};

use self::roles::Parties;
use crate::Requests;

/// Finds which requests are nested in which. The connections are in order of their numbers.
pub fn nest_requests<'a>(
    connections: impl Iterator<Item = (&'a Connection, &'a Requests)>,
) -> Nesting {
    let parties = Parties::new(connections.collect());
    let (mut links, mut times) = (Vec::new(), Vec::new());
    for process in parties.of_both_roles() {
        let (services, asks) = parties.requests_of(process);
        let found = parents::find(&services, &asks);
        times.extend(nested_times::of_services(&services, &asks, &found));
        links.extend(found.links(&services, &asks));
    }
    Nesting::new(links, times)
}
