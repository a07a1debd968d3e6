//! What a sample costs: the same sends with samples and without, in turns.

use std::net::UdpSocket;
use std::time::Duration;

use super::error::ProfileError;
use super::sampling::{Samples, Sampling};
use crate::integrated::cpu_time;

/// Turns of each kind, and how long each is.
const TURNS: usize = 7;
const TURN: Duration = Duration::from_millis(20);
/// So many samples a second that their cost shows.
const FREQUENCY_HZ: u64 = 10_000;
/// Sends between two looks at the clock.
const SENDS: u64 = 16;

/// Nanoseconds of CPU time that one sample takes on this machine: the median of several turns, 0 where it does not show.
/// Sends go down to the device and up to a socket, so that the stacks are as deep as those of real traffic.
///
/// # Errors
///
/// When the kernel refuses samples, or there is no loopback.
pub(super) fn sample_cost_ns() -> Result<f64, ProfileError> {
    let reader = UdpSocket::bind("127.0.0.1:0").map_err(ProfileError::Command)?;
    let sender = UdpSocket::bind("127.0.0.1:0").map_err(ProfileError::Command)?;
    sender
        .connect(reader.local_addr().map_err(ProfileError::Command)?)
        .map_err(ProfileError::Command)?;
    // The queue of the reader is full after the first turn, and stays so.
    sends(&sender);
    let mut costs = Vec::new();
    for _ in 0..TURNS {
        let (plain, elapsed) = sends(&sender);
        let plain_ns = elapsed.as_nanos() as f64 / plain as f64;
        let mut sampling = Sampling::of_this_thread(FREQUENCY_HZ)?;
        let (sampled, elapsed) = sends(&sender);
        let mut samples = Samples::default();
        sampling.read(&mut samples);
        let count = samples.places.values().sum::<u64>() + samples.missed;
        if count > 0 {
            let more_ns = elapsed.as_nanos() as f64 - plain_ns * sampled as f64;
            costs.push(more_ns / count as f64);
        }
    }
    costs.sort_by(f64::total_cmp);
    Ok(costs.get(costs.len() / 2).copied().unwrap_or(0.0).max(0.0))
}

/// Sends for one turn; how many, and how much CPU time they took.
fn sends(sender: &UdpSocket) -> (u64, Duration) {
    let (began, mut count) = (cpu_time(), 0);
    while cpu_time() - began < TURN {
        for _ in 0..SENDS {
            // A full queue is no error of the sender.
            let _ = sender.send(b"x");
        }
        count += SENDS;
    }
    (count, cpu_time() - began)
}
