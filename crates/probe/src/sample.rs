//! Which part of the picked connections is recorded.
//!
//! A hash of the protocol and both endpoints is compared with a limit. All hosts have the same hash of a connection,
//! in both directions (`docs/reference/sampling.md`). `bpf/sample.h` has the same function.

use std::net::SocketAddr;

use crate::layout::Counters;
use crate::pick::fold;

/// The number of values of a hash.
const HASHES: u64 = 1 << 32;

/// A part of all connections: those whose hash is below its limit.
///
/// Of two shares the smaller one has no connection that the larger one lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u64);

impl Share {
    /// All connections.
    pub const ALL: Self = Self(HASHES);

    /// Such a part of them, from 0 to 1.
    pub fn of(ratio: f64) -> Self {
        // The conversion takes numbers beyond the range, and none, for the nearest limit or 0.
        Self(((ratio * HASHES as f64) as u64).min(HASHES))
    }

    /// Those with a hash below this; at most 2^32.
    pub fn below(limit: u64) -> Self {
        Self(limit.min(HASHES))
    }

    /// The first hash that is left out.
    pub fn limit(self) -> u64 {
        self.0
    }

    /// From 0 to 1.
    pub fn ratio(self) -> f64 {
        self.0 as f64 / HASHES as f64
    }

    /// Whether it has the connection with this hash.
    pub fn has(self, hash: u32) -> bool {
        u64::from(hash) < self.0
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::ALL
    }
}

/// Connections that a recording decided on.
///
/// A connection that is left out on the way is one that was recorded until then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Openings {
    /// Those that are recorded.
    pub recorded: u64,
    /// Those whose hash is not below the limit, each once.
    pub left_out: u64,
    /// Those that were recorded, until the share fell below their hash.
    pub left_out_later: u64,
}

impl Openings {
    /// Those since an earlier count.
    pub fn since(self, before: Self) -> Self {
        Self {
            recorded: self.recorded.saturating_sub(before.recorded),
            left_out: self.left_out.saturating_sub(before.left_out),
            left_out_later: self.left_out_later.saturating_sub(before.left_out_later),
        }
    }

    /// A sentence for the readers of the recording, where it lacks connections.
    pub fn note(self) -> Option<String> {
        let Self { recorded, left_out, left_out_later } = self;
        let were = |count: u64, one: &str, more: &str| match count {
            1 => format!("1 {one} was"),
            count => format!("{count} {more} were"),
        };
        let mut parts = Vec::new();
        if left_out > 0 {
            let percent = recorded as f64 / (recorded + left_out) as f64 * 100.0;
            let others = were(left_out, "other", "others");
            parts.push(format!(
                "recorded {percent:.1} % of the connections ({recorded}) by a stable hash; {others} left out"
            ));
        }
        if left_out_later > 0 {
            let recorded = were(left_out_later, "recorded connection", "recorded connections");
            parts.push(format!("{recorded} left out on the way, and unknown from there on"));
        }
        let all = parts.join("; ");
        (!all.is_empty()).then(|| format!("{all}: all totals are of the recorded ones"))
    }
}

impl Counters {
    pub(crate) fn openings(&self) -> Openings {
        let recorded = u64::from(self.connections_opened);
        Openings {
            recorded,
            left_out: self.connections_left_out,
            left_out_later: self.connections_left_out_later,
        }
    }
}

/// The hash of a connection by its protocol's number (6 is TCP, 17 is UDP) and its two endpoints, in any order.
pub fn sample_hash(protocol: u8, one: SocketAddr, other: SocketAddr) -> u32 {
    let number = |end: SocketAddr| {
        // As the octets lie in memory: little-endian.
        u64::from(u32::from_le(fold(&end.ip()))) << 16 | u64::from(end.port())
    };
    let (one, other) = (number(one), number(other));
    let low = u64::from(protocol) << 48 | one.min(other);
    (mix(mix(low) ^ one.max(other)) >> 32) as u32
}

/// The 64-bit finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: u8 = 6;
    const UDP: u8 = 17;

    fn hash(protocol: u8, one: &str, other: &str) -> u32 {
        sample_hash(protocol, one.parse().unwrap(), other.parse().unwrap())
    }

    /// The numbers are those of `docs/reference/sampling.md`, from another program.
    #[test]
    fn the_hash_is_the_one_that_is_published() {
        let vectors = [
            (TCP, "10.0.0.1:40000", "10.0.0.2:80", 0xcaee_3684),
            (UDP, "10.0.0.1:40000", "10.0.0.2:80", 0x0542_9373),
            (TCP, "127.0.0.1:50000", "127.0.0.1:6379", 0x27ac_df83),
            (TCP, "[2001:db8::1]:40000", "[2001:db8::2]:443", 0x910d_daed),
            (UDP, "192.0.2.1:53", "[::ffff:198.51.100.7]:5353", 0xaebb_0529),
        ];
        let page = include_str!("../../../docs/reference/sampling.md");
        for (protocol, one, other, expected) in vectors {
            assert_eq!(hash(protocol, one, other), expected, "{one} {other}");
            assert_eq!(hash(protocol, other, one), expected, "{other} {one}");
            let line = page.lines().find(|line| line.contains(&format!("{expected:#010x}")));
            let line = line.unwrap_or_else(|| panic!("{expected:#x} is not on the page"));
            assert!(line.contains(one) && line.contains(other), "{line}");
        }
    }

    #[test]
    fn a_share_has_its_part_of_the_connections_and_all_of_a_smaller_one() {
        let hashes: Vec<u32> = (1..=20_000)
            .map(|port| hash(TCP, &format!("10.0.0.1:{port}"), "10.0.0.2:80"))
            .collect();
        let of = |ratio| hashes.iter().filter(move |hash| Share::of(ratio).has(**hash)).count();
        // Five standard deviations of a binomial distribution, at most 354.
        for (ratio, expected) in [(0.5, 10_000usize), (0.1, 2_000), (1.0 / 16.0, 1_250)] {
            assert!(of(ratio).abs_diff(expected) < 354, "{ratio}: {}", of(ratio));
        }
        assert!(hashes.iter().all(|one| !Share::of(0.1).has(*one) || Share::of(0.5).has(*one)));
        assert_eq!((of(0.0), of(1.0)), (0, hashes.len()));
    }

    #[test]
    fn a_share_beyond_the_range_is_all_or_nothing() {
        assert_eq!((Share::of(7.0), Share::below(u64::MAX)), (Share::ALL, Share::ALL));
        assert_eq!((Share::of(-1.0), Share::of(f64::NAN)), (Share::below(0), Share::below(0)));
        assert!(Share::ALL.has(u32::MAX) && !Share::of(0.0).has(0));
    }

    #[test]
    fn a_recording_without_some_connections_has_a_note() {
        let openings = |recorded, left_out| Openings { recorded, left_out, ..Openings::default() };
        let note = openings(1_210, 8_825).since(openings(10, 25)).note();
        assert_eq!(
            note.as_deref(),
            Some(
                "recorded 12.0 % of the connections (1200) by a stable hash; 8800 others were left out: all \
                 totals are of the recorded ones"
            )
        );
        assert_eq!(openings(9, 5).since(openings(0, 5)).note(), None);
        let one = openings(0, 1).note().unwrap();
        assert!(one.starts_with("recorded 0.0 %") && one.contains("1 other was left out"), "{one}");
        let later = |left_out, left_out_later| Openings { recorded: 3, left_out, left_out_later };
        assert_eq!(
            later(1, 1).note().as_deref(),
            Some(
                "recorded 75.0 % of the connections (3) by a stable hash; 1 other was left out; 1 recorded \
                 connection was left out on the way, and unknown from there on: all totals are of the recorded ones"
            )
        );
        let note = later(0, 2).since(later(0, 0)).note().unwrap();
        assert!(note.starts_with("2 recorded connections were left out on the way"), "{note}");
    }

    #[test]
    fn the_probes_mix_with_the_same_numbers() {
        let source = include_str!("bpf/sample.h");
        for number in [0xbf58_476d_1ce4_e5b9u64, 0x94d0_49bb_1331_11eb] {
            assert!(source.contains(&format!("{number:#x}ULL")), "{number:#x}");
        }
    }
}
