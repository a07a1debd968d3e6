//! The one source of chance: SplitMix64, seeded, in independent streams.
//!
//! Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, §3. Every
//! user of chance has a stream of its own, so that a draw of one does not change the numbers of
//! another.

/// A stream of pseudo-random numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

/// The increment of the generator: 2^64 divided by the golden ratio, made odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Stream `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self { state: seed };
        let start = random.next_u64();
        Self { state: start ^ mix(stream.wrapping_mul(GAMMA)) }
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// A number below `end`; 0 when `end` is 0. The bias is below `end` in 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(end);
        (wide >> 64) as u64
    }

    /// True in `per_million` of a million cases.
    pub fn chance(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.below(1_000_000) < u64::from(per_million)
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // First outputs of the reference implementation for the seed 1234567.
        let mut random = Random { state: 1_234_567 };
        let numbers = [(); 3].map(|()| random.next_u64());
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn streams_of_a_seed_differ_and_repeat() {
        let draw = |seed, stream| Random::new(seed, stream).next_u64();
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn draws_stay_below_their_end_and_chance_keeps_its_share() {
        let mut random = Random::new(1, 1);
        assert!((0..10_000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
        let hits = (0..100_000).filter(|_| random.chance(300_000)).count();
        assert!((29_000..31_000).contains(&hits), "{hits}");
        assert!(!random.chance(0));
    }
}
