//! Checks of the bound by copies and checksums, and of slow readers: §5 of "Experimental Evaluation of SunOS IPC
//! and TCP/IP Protocol Implementation".

use sockscope_experiment::papers::Claim;

use super::sunos::{LOOPBACK, SEGMENT_BYTES, best, copy_and_checksum_us, listed};
use super::sunos_runs::observe;
use super::{Check, Comparison, Outcome, Runs};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "sunos-ipc/5-b", needs: &[], compare: copies_and_checksums_bound },
    Check { id: "sunos-ipc/5-c", needs: &["si-1a"], compare: share_of_the_bound },
    Check { id: "sunos-ipc/5-e", needs: &["si-3b"], compare: slow_readers_open_windows_slowly },
];

fn copies_and_checksums_bound(claim: &Claim, _: &Runs) -> Outcome {
    let (copy, checksum) = copy_and_checksum_us()?;
    let rate = bound_mbit_per_s("socket_buffer_bytes=49152")?;
    Ok(Comparison::numbers(claim, &[rate]).with_note(format!(
        "a run in which nothing else costs time; two copies of {copy:.0} us and two checksums of {checksum:.0} us"
    )))
}

/// Rate of local transfers in which only copies and checksums cost time. They are long, since the timer
/// alone acknowledges the first segment: up to 200 ms, a tenth of the experiment's own 5 MB.
fn bound_mbit_per_s(change: &str) -> Result<f64, String> {
    let changes = ["data_costs_only=true", "topology=loopback", "total_bytes=52428800", change];
    let seen = observe("si-1a", &changes)?.measured;
    Ok(seen.throughput_bits_per_s().unwrap_or(f64::NAN) / 1e6)
}

fn share_of_the_bound(claim: &Claim, runs: &Runs) -> Outcome {
    let (copy, checksum) = copy_and_checksum_us()?;
    let bound = SEGMENT_BYTES * 8.0 / (2.0 * copy + 2.0 * checksum);
    Ok(Comparison::numbers(claim, &[best(runs, &LOOPBACK) / bound]))
}

/// Time until a burst of so many packets left, in milliseconds.
fn opened_ms(changes: &[&str], packets: usize) -> Result<f64, String> {
    let seen = observe("si-3b", changes)?;
    let (first_ns, _) = seen.span_ns();
    let burst = seen.bursts().into_iter().find(|burst| burst.packets >= packets);
    let burst = burst.ok_or(format!("no burst of {packets} packets"))?;
    Ok((burst.last_ns - first_ns) as f64 / 1e6)
}

fn slow_readers_open_windows_slowly(_: &Claim, runs: &Runs) -> Outcome {
    let acks = |topology, buffer, pause| {
        let wanted =
            [("topology", topology), ("socket_buffer_bytes", buffer), ("read_pause_ms", pause)];
        runs.of("si-3b").cases_with(&wanted).map(|case| case.measured.acks).sum::<u64>()
    };
    let by_buffer = ["4096", "16384", "52428"].map(|buffer| acks("loopback", buffer, "0"));
    // On one host a reader already finds a whole window each time; between two it can fall behind.
    let by_pause = ["0", "20", "80"].map(|pause| acks("pair", "52428", pause));
    let opened = ["0", "20", "80"].map(|pause| {
        let pause = format!("read_pause_ms={pause}");
        opened_ms(&["topology=loopback", "socket_buffer_bytes=52428", &pause], 10)
    });
    let [at_once, soon, late] = opened;
    let opened = [at_once?, soon?, late?];
    let falls = |counts: &[u64]| counts.windows(2).all(|pair| pair[1] < pair[0]);
    Ok(Comparison::holds(
        falls(&by_buffer) && falls(&by_pause) && opened.is_sorted() && opened[0] < opened[1],
        "fewer acknowledgments with larger buffers and slower readers, and windows that open later",
        format!(
            "{by_buffer:?} acknowledgments on one host with buffers of 4, 16 and 51 KB; between two with the largest {by_pause:?} for pauses of 0, 20 and 80 ms, and bursts of ten on one after {} ms",
            listed(&opened, 0)
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::sunos::timer_phases;
    use super::*;

    /// The bound falls with the copy rate, so a run that something else held back would differ.
    #[test]
    fn the_bound_of_copies_and_checksums_comes_from_a_run() {
        let rate = |change: &str| bound_mbit_per_s(change).unwrap();
        let (one, two) = (rate("machine=sparcstation-1"), rate("machine=sparcstation-2"));
        assert!((20.0..21.1).contains(&one), "{one}");
        assert!((1.95..2.0).contains(&(two / one)), "{two}");
    }
    /// Where the free-running timer stands is chance: the bound does not hang on it.
    #[test]
    fn no_bound_hangs_on_the_phase_of_the_timer() {
        for phase in timer_phases() {
            let rate = bound_mbit_per_s(&phase).unwrap();
            assert!((20.58..21.42).contains(&rate), "{phase}: {rate}");
        }
    }
}
