//! `meta.json` as bytes: read from any release, written with its seal.

use crate::error::Error;
use crate::meta::Meta;
use crate::{compat, meta_seal};

impl Meta {
    /// Number of hosts whose records are in the trace: `host` of a merged one has the names of both.
    pub fn hosts(&self) -> u32 {
        self.host.matches(" + ").count() as u32 + 1
    }

    /// Reads the bytes of a `meta.json` without its checksum: [`crate::Bundle::open`] checks that.
    ///
    /// # Errors
    ///
    /// [`Error::NewerVersion`] when a later release wrote it, [`Error::BadMeta`] when it is not such a
    /// file.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        compat::meta(bytes)
    }

    /// The bytes of a `meta.json` with its checksum, and a newline at the end.
    ///
    /// # Errors
    ///
    /// [`Error::BadMeta`] when a value cannot be written as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, Error> {
        meta_seal::sealed(self).map_err(|error| Error::json(&error))
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::PointCost;

    use super::*;
    use crate::meta::{ClockSnapshot, HookState, Machine, Ring, Source};

    fn read(json: &str) -> Result<Meta, String> {
        Meta::from_json(json.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn fields_of_other_releases_are_ignored_and_missing_ones_have_defaults() {
        let meta = read(r#"{"format_version":2,"host":"a","moon":{"phase":3},"ring":{"bytes":5}}"#);
        let expected =
            Meta { host: "a".into(), ring: Ring { records: 0, bytes: 5 }, ..Meta::default() };
        assert_eq!(meta, Ok(expected));
    }

    #[test]
    fn words_of_other_releases_are_unknown_not_errors() {
        let meta = read(r#"{"source":"satellite","hooks":[{"state":"resting"}]}"#).unwrap();
        assert_eq!(meta.source, Source::Unknown);
        assert_eq!(meta.hooks[0].state, HookState::Unknown);
    }

    #[test]
    fn what_is_written_is_read() {
        let ended_ns = Some(7);
        let mut meta = Meta { source: Source::Pcap, complete: true, ended_ns, ..Meta::default() };
        meta.loss.points[3] = u64::MAX;
        meta.loss.events = 7;
        meta.cost[7] = PointCost { hits: 3, run_ns: 99 };
        let clock = ClockSnapshot::new(5, 1_790_000_000_000_000_000);
        meta.clock.extend([clock, ClockSnapshot { steal_ns: Some(70), ..clock }]);
        assert_eq!(Meta::from_json(&meta.to_json().unwrap()).unwrap(), meta);
    }

    #[test]
    fn cpu_time_of_others_is_a_part_of_that_of_all_cpus() {
        let at = |seconds: u64, steal_ns| {
            let clock = ClockSnapshot::new(seconds * 1_000_000_000, 0);
            ClockSnapshot { steal_ns, ..clock }
        };
        let machine = Machine { cpus: 2, ..Machine::default() };
        let of = |clock: &[ClockSnapshot]| Meta {
            clock: clock.to_vec(),
            machine: machine.clone(),
            ..Meta::default()
        };
        let share = |clock: &[ClockSnapshot]| of(clock).steal_share();
        let (began, ended) = (at(100, Some(7)), at(110, Some(1_010_000_007)));
        assert_eq!(share(&[began, ended]), Some(0.05));
        // It may be no more than the rounding.
        assert_eq!(share(&[began, at(110, Some(10_000_007))]), Some(0.0));
        // A reading in the middle, as of a trace that `watch` kept.
        assert_eq!(share(&[began, at(105, None), ended]), Some(0.05));
        let unknown =
            [share(&[]), share(&[began]), share(&[began, at(110, None)]), share(&[ended, began])];
        assert_eq!(unknown, [None; 4]);
        let merged = Meta { source: Source::Merged, ..of(&[began, ended]) };
        assert_eq!(merged.steal_share(), None);
    }

    #[test]
    fn a_bad_file_says_where() {
        let error = read("{\n \"host\": 3\n}").unwrap_err();
        assert!(
            error.starts_with("line 2, column 10: expected the trace's description"),
            "{error}"
        );
    }
}
