//! Why claims of the study of buffers in 4.2BSD differ.

use sockscope_experiment::papers::{Claim, Table, table};

use super::explain::{Explain, Shown};
use crate::buffers::{CALLS_AT_1025, CALLS_TOLERANCE, HEADERS, received_copy};
use crate::profile::udp_groups_with_printed;
use crate::sunos_runs::observe_changed;
use crate::variation::vary;
use crate::{Runs, least, most};

pub(super) const EXPLANATIONS: &[Explain] = &[
    Explain {
        id: "bsd-buffers/3.1-d",
        cause: "a driver in whose buffer a page begins with the network header, so that the first 1,024 octets of any packet are exchanged and not copied",
        is_known: true,
        open: "where the driver puts a packet without a trailer",
        show: the_first_page_is_exchanged,
    },
    Explain {
        id: "bsd-buffers/4.1-a",
        cause: "m_get and m_freem, whose seconds rise with their calls alone (4.2-b)",
        is_known: true,
        open: "by which rule it divides the routines",
        show: two_routines_are_light,
    },
    Explain {
        id: "bsd-buffers/4.2-b",
        cause: "m_get at 1,024 bytes is printed with more seconds than its calls account for",
        is_known: false,
        open: "how much the seconds of a routine differ from run to run: it made one of each size",
        show: more_seconds_than_calls,
    },
    Explain {
        id: "bsd-buffers/T3-a",
        cause: "a sender that nothing delays: a write that is late finds its queue empty, and takes two calls for ten",
        is_known: true,
        open: "what delayed one write of 28; its Ethernet had no other traffic",
        show: late_writes_find_an_empty_queue,
    },
    Explain {
        id: "bsd-buffers/4.3-b",
        cause: "the same count: a sender that nothing delays",
        is_known: true,
        open: "what delayed one write of 28; its Ethernet had no other traffic",
        show: late_writes_find_an_empty_queue,
    },
    Explain {
        id: "bsd-buffers/5-a",
        cause: "without answers to datagrams the times by UDP are those of the report; that of 1,024 octets by TCP has no cause that a run shows",
        is_known: false,
        open: "how the companion report measured these times",
        show: without_answers,
    },
];

fn the_first_page_is_exchanged(_: &Claim, _: &Runs) -> Shown {
    let copied = |octets| received_copy(octets, "4.2bsd-cabrera");
    // With 40 octets of headers 984 fill a page.
    let (below, page) = (copied(983)?, copied(984)?);
    Ok((
        below > 1000.0 && page < HEADERS,
        format!(
            "the receiver copies {below:.0} octets of a message of 983, and {page:.0} of one of 984, which fills a page with its headers"
        ),
    ))
}

fn two_routines_are_light(claim: &Claim, runs: &Runs) -> Shown {
    let heavy = udp_groups_with_printed(runs, &[])?;
    let printed = udp_groups_with_printed(runs, &["m_get", "m_freem"])?;
    Ok((
        heavy as f64 + 2.0 == claim.values[4] && printed as f64 == claim.values[4],
        format!(
            "{heavy} UDP routines depend on size; with the printed seconds of m_get and m_freem {printed}"
        ),
    ))
}

/// Sizes at which both routines have two calls a datagram, and the size with three.
const TWO_CALLS: [&str; 3] = ["1", "112", "1025"];
const THREE_CALLS: &str = "1024";

fn seconds(table: &Table, routine: &str, size: &str) -> f64 {
    table.number(routine, size).unwrap_or(f64::NAN)
}

fn more_seconds_than_calls(_: &Claim, _: &Runs) -> Shown {
    let table = table("bsd-buffers/udp-seconds").map_err(|error| error.to_string())?;
    let of = |routine: &str| {
        let alike = TWO_CALLS.map(|size| seconds(&table, routine, size));
        let mean = alike.iter().sum::<f64>() / alike.len() as f64;
        let over_calls = seconds(&table, routine, THREE_CALLS) / mean / 1.5;
        (over_calls, most(alike) / least(alike))
    };
    let ((get, get_scatter), (free, free_scatter)) = (of("m_get"), of("m_freem"));
    Ok((
        get > 1.2 && get < get_scatter && free > 1.2,
        format!(
            "Table 2 has {get:.2} and {free:.2} times as many seconds at 1,024 bytes for a call of m_get and m_freem as elsewhere; for the same calls its own seconds differ by up to {get_scatter:.2} and {free_scatter:.2} times"
        ),
    ))
}

/// Of 10,000 messages of 1,025 octets, calls where a share of writes finds the queue empty.
fn calls_with_late(late: f64) -> f64 {
    2.0 * late + 10.0 * (1.0 - late)
}

/// Writes of 10,000 that were late by Table 3: `calls_with_late` gives its 97,158 calls.
const LATE: f64 = 0.0355;

fn late_writes_find_an_empty_queue(_: &Claim, _: &Runs) -> Shown {
    let messages = ["message_bytes=1025", "messages=2000"];
    let calls = |changes: &[&str]| {
        let run = vary("bb-1", &[&messages[..], changes].concat())?;
        let calls = run.cases.first().map_or(0, |case| case.measured.calls_of("uiomove"));
        Ok::<_, String>(calls as f64 / 2000.0)
    };
    let slow = observe_changed("bb-1", &messages, &|host| host.machine.cpu.user_ns += 20_000_000)?;
    let slow = slow.measured.calls_of("uiomove") as f64 / 2000.0;
    let busy = calls(&["other_frames_per_s=100", "other_frame_bytes=1500"])?;
    let is_near = |calls: f64| (calls / CALLS_AT_1025 - 1.0).abs() <= CALLS_TOLERANCE;
    Ok((
        slow < 2.05 && is_near(busy) && is_near(calls_with_late(LATE)),
        format!(
            "{slow:.2} calls a message where each write is 20 ms late, {busy:.2} with 100 frames of 1,500 octets a second from others; Table 3 has one late write of {:.0}",
            1.0 / LATE
        ),
    ))
}

/// Milliseconds a message in the listed routines of Table 2.
fn listed_ms(table: &Table, size: &str) -> f64 {
    table.rows().iter().map(|row| seconds(table, &row[0], size)).sum::<f64>() / 10.0
}

fn without_answers(claim: &Claim, _: &Runs) -> Shown {
    let ms = |bytes: &str| {
        let size = format!("message_bytes={bytes}");
        let changes =
            ["protocol=udp", "link=ethernet-3", "profiling=false", "udp_answers=false", &size];
        let run = vary("bb-3", &changes)?;
        let case = run.cases.first().ok_or("bb-3 has no such case")?;
        let messages = case.case.parameters.messages.unwrap_or(1) as f64;
        Ok::<_, String>(case.measured.transfer_ns as f64 / 1e6 / messages)
    };
    let got = [ms("1")?, ms("1024")?];
    let printed = [claim.values[1], claim.values[3]];
    let table = table("bsd-buffers/udp-seconds").map_err(|error| error.to_string())?;
    let (one, large) = (listed_ms(&table, "1"), listed_ms(&table, "1024"));
    let is_near = |(got, printed): (&f64, &f64)| (got - printed).abs() <= claim.tolerance(*printed);
    Ok((
        got.iter().zip(&printed).all(is_near) && large > printed[1],
        format!(
            "without answers {:.1} and {:.1} ms by UDP (printed {} and {}); the routines of Table 2 alone take {one:.1} and {large:.1} ms",
            got[0], got[1], printed[0], printed[1]
        ),
    ))
}
