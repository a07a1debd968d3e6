//! Why a claim of "Is Layering Harmful?" differs.

use sockscope_experiment::papers::{Claim, table};

use super::explain::{Explain, Shown};
use crate::Runs;
use crate::packets::small_waits;
use crate::{least, most};

pub(super) const EXPLANATIONS: &[Explain] = &[Explain {
    id: "layering/T3-c",
    cause: "a free-running timer of 200 ms at each end, which both small segments wait for: the phase of the call decides which one waits long",
    is_known: true,
    open: "where the timers stood in the call of Table 3, and whether other calls had the same two waits",
    show: both_waits_end_at_ticks,
}];

/// How far the sums of both waits may be apart, in milliseconds.
const ALIKE_MS: f64 = 3.0;
/// The line of Table 3 that acknowledges the request's small segment.
const LINE: usize = 11;

fn both_waits_end_at_ticks(_: &Claim, runs: &Runs) -> Shown {
    let waits = small_waits(runs);
    let sums: Vec<f64> = waits.iter().map(|[request, reply]| request + reply).collect();
    let (shortest, longest) = (least(sums.iter().copied()), most(sums.iter().copied()));
    let requests = waits.iter().map(|[request, _]| *request);
    let spread = most(requests.clone()) - least(requests);
    // Had the server read the 96 octets, its acknowledgment would offer the whole buffer of 4,096.
    let printed = table("layering/rpc-4800").map_err(|error| error.to_string())?;
    let line = printed.rows().get(LINE - 1).ok_or("Table 3 is shorter")?;
    let (ack, window) = (line[7].as_str(), line[8].as_str());
    Ok((
        longest - shortest < ALIKE_MS && spread > 100.0 && (ack, window) == ("4097", "4000"),
        format!(
            "at four phases the request waits up to {spread:.0} ms longer or shorter, and the sum of both waits is {shortest:.0} to {longest:.0} ms; line {LINE} of Table 3 offers {window} octets, so that the 96 were not read when it left"
        ),
    ))
}
