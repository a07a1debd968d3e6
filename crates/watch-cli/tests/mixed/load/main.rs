//! A load of many TCP connections that uses little CPU time itself: one thread and one epoll set at each end.
//!
//! ```text
//! watch-load serve PORT     answers requests at PORT of 127.77.0.1, discards data at PORT + 1, until its input ends
//! watch-load ask PORT OPEN EVERY_S CHURN BULK RATE
//! ```
//!
//! `ask` opens OPEN connections, each of which makes an exchange every EVERY_S seconds, opens CHURN others a second for
//! one exchange each, and has BULK transfers of RATE bytes a second each. It reads commands, a line each: `count` prints
//! the counts as JSON, `pause` and `go` stop and start the churn. It ends with its input.

mod ask;
mod serve;

use std::io;
use std::net::Ipv4Addr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The address of the servers.
const SERVERS: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 1);

/// Bytes of a request, and of its answer.
const EXCHANGE: usize = 400;

fn main() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = words.iter().skip(1).map_while(|word| word.parse().ok()).collect();
    let port = |number: u64| u16::try_from(number).map_err(io::Error::other);
    match (words.first().map(String::as_str), &numbers[..]) {
        (Some("serve"), [at]) => serve::serve(port(*at)?),
        (Some("ask"), [to, open, every_s, churn, bulk, rate]) => {
            let plan = ask::Plan {
                open: *open,
                exchanges_s: open.div_ceil((*every_s).max(1)),
                churn_s: *churn,
                bulk: *bulk,
                bulk_bytes_s: *rate,
            };
            ask::ask(port(*to)?, &plan)
        }
        _ => Err(io::Error::other(
            "give `serve PORT`, or `ask PORT OPEN EVERY_S CHURN BULK RATE` with numbers",
        )),
    }
}
