//! Why claims on the trace of a transfer differ: §4.2.1 of the SunOS study.

use sockscope_experiment::papers::Claim;
use sockscope_lab::model::{Observed, mean};
use sockscope_record::Point;
use sockscope_sim::HostConfig;
use sockscope_stack::{Cost, Routine};

use super::explain::{Explain, Shown};
use crate::sunos_runs::{observe, observe_changed};
use crate::sunos_trace::{
    each_higher, ends_in_two_packets, gathers_in_silence, peaks, queues_of_second_half, two_groups,
};
use crate::{Comparison, Outcome, Runs, Shown as Value, Verdict};

pub(super) const EXPLANATIONS: &[Explain] = &[
    Explain {
        id: "sunos-ipc/4.2.1-d",
        cause: "programs that close as soon as they can, so that the FIN leaves behind the data",
        is_known: true,
        open: "when the programs closed",
        show: later_closes_are_alone,
    },
    Explain {
        id: "sunos-ipc/4.2.1-f",
        cause: "a receiver that acknowledges each window twice, so that bursts grow slowly; and a driver that takes every third packet while a burst is made, so that one packet more makes no higher peak",
        is_known: true,
        open: "what let the receiver fall behind by a window",
        show: one_acknowledgment_and_a_slow_driver_raise_each_peak,
    },
    Explain {
        id: "sunos-ipc/4.2.1-h",
        cause: "a window with room for more while three packets gather at the receiver",
        is_known: true,
        open: "what let more data gather there",
        show: a_small_window_is_silent,
    },
    Explain {
        id: "sunos-ipc/4.2.1-i",
        cause: "a transfer that ends before the congestion window is open, and a receiver that nearly keeps up",
        is_known: true,
        open: "which work of the receiver made it fall behind",
        show: a_longer_transfer_fills_the_interface,
    },
    Explain {
        id: "sunos-ipc/4.2.1-m",
        cause: "a protocol that masks the network's devices, so that no interrupt falls between two packets of a burst",
        is_known: true,
        open: "where its two groups come from: the paper says twice that devices are masked",
        show: interrupts_make_two_groups,
    },
];

/// Whether a check holds of a run, and its numbers.
fn judged(outcome: Outcome) -> Result<(bool, String), String> {
    let Comparison { verdict, got, .. } = outcome?;
    let words = if let Value::Words(words) = got { words } else { String::new() };
    Ok((verdict == Verdict::Reproduced, words))
}

fn later_closes_are_alone(_: &Claim, _: &Runs) -> Shown {
    let seen = observe("si-2a", &["close_after_ms=60", "reader_close_us=20000"])?;
    let (holds, got) = judged(ends_in_two_packets(&seen))?;
    Ok((
        holds,
        format!("with a writer that closes 60 ms and a reader that closes 20 ms later: {got}"),
    ))
}

/// Bursts whose peaks are compared.
const BURSTS: usize = 8;

fn one_acknowledgment_and_a_slow_driver_raise_each_peak(_: &Claim, _: &Runs) -> Shown {
    // A reader that sleeps has each window acknowledged once.
    let late = observe("si-2a", &["read_pause_ms=20"])?;
    let packets: Vec<usize> =
        late.bursts().iter().take(BURSTS).map(|burst| burst.packets).collect();
    let slow = observe("si-2a", &["read_pause_ms=20", "link=ethernet-3"])?;
    let peaks: Vec<u64> = peaks(&slow).into_iter().take(BURSTS).collect();
    let grows = packets.iter().copied().eq(1..=BURSTS);
    // An idle driver takes the only packet of the first burst and the first one of the second.
    let rises = peaks.len() == BURSTS && each_higher(&peaks[1..]);
    Ok((
        grows && rises,
        format!(
            "a reader that sleeps 20 ms makes bursts of {packets:?} packets; on a cable of 2.94 Mbit/s besides, their peaks are {peaks:?} bytes"
        ),
    ))
}

fn a_small_window_is_silent(_: &Claim, _: &Runs) -> Shown {
    let (holds, got) =
        judged(gathers_in_silence(&observe("si-2a", &["socket_buffer_bytes=8192"])?))?;
    Ok((holds, format!("with a window of eight packets {got}")))
}

/// A receiver whose interrupt takes this much longer.
const SLOWER_NS: u32 = 100_000;

/// The routine at one call's price more or less.
fn reprice(host: &mut HostConfig, routine: Routine, price: impl Fn(u32) -> u32) {
    let cost = host.machine.costs.of(routine);
    let cost = Cost { call_ns: price(cost.call_ns), ..cost };
    host.machine.costs.set(routine, cost);
}

fn a_longer_transfer_fills_the_interface(_: &Claim, _: &Runs) -> Shown {
    let long = ["total_bytes=1048576", "write_bytes=1048576"];
    let slower = |host: &mut HostConfig| {
        if host.name == "server" {
            reprice(host, Routine::Enrint, |ns| ns + SLOWER_NS);
        }
    };
    let (_, as_is) = judged(queues_of_second_half(&observe("si-2a", &long)?))?;
    let (holds, slowed) =
        judged(queues_of_second_half(&observe_changed("si-2a", &long, &slower)?))?;
    Ok((
        holds,
        format!("with 1 MB {as_is}; with 100 us more in the receiver's interrupt besides {slowed}"),
    ))
}

/// Mean time of a packet in the IP queue, in microseconds.
fn in_ip_queue_us(seen: &Observed) -> f64 {
    mean(&seen.packet_delays_us(Point::InputEnqueue, Point::InputDequeue))
}

fn interrupts_make_two_groups(_: &Claim, _: &Runs) -> Shown {
    let unmasked = |name: Option<&'static str>| {
        move |host: &mut HostConfig| {
            if name.is_none_or(|name| host.name == name) {
                host.personality.interface.masks_devices = false;
            }
        }
    };
    let sender = observe_changed("si-2a", &[], &unmasked(Some("client")))?;
    let both = observe_changed("si-2a", &[], &unmasked(None))?;
    let (holds, got) = judged(two_groups(&sender))?;
    Ok((
        holds,
        format!(
            "with the sender's devices unmasked {got}; with those of both, packets wait {:.0} us in the IP queue, where Table 1 has 124",
            in_ip_queue_us(&both)
        ),
    ))
}
