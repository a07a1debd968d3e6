//! The cost of loading: instructions that the running kernel's verifier processed.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd};

use super::{Programs, program_info};
use crate::lists::Shape;
use crate::pick::Pick;
use crate::rights;

/// A fifth of the million that the verifier allows.
const MOST: u32 = 200_000;

/// Everything that can be picked, as much of it as there can be.
fn everything() -> Pick {
    Pick {
        cgroup: Some((1, 1)),
        ports: (1..=16).collect(),
        addresses: (1..=8).map(|last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))).collect(),
        pids: (1..=64).collect(),
        comm: Some("a-name-of-15-by".to_owned()),
        in_band: true,
        ..Pick::default()
    }
}

/// Instructions that were gone through for each program that is loaded.
fn verified(pick: &Pick) -> BTreeMap<String, u32> {
    let programs = Programs::load(pick, Shape::of(None)).unwrap();
    let loaded = programs.object.progs().filter_map(|program| {
        let info = program_info(program.as_fd().as_raw_fd())?;
        Some((program.name().to_string_lossy().into_owned(), info.verified))
    });
    loaded.collect()
}

#[test]
fn root_no_program_is_near_the_verifiers_limit_whatever_is_picked() {
    if !rights::can_load() {
        return;
    }
    let in_band = Pick { ports: vec![80], in_band: true, ..Pick::default() };
    for pick in [Pick { ports: vec![80], ..Pick::default() }, in_band, everything()] {
        let verified = verified(&pick);
        let point4 = verified.get("point4").copied().unwrap_or_default();
        assert!(point4 > 1_000, "not counted: {verified:?}");
        let above: Vec<_> = verified.iter().filter(|(_, count)| **count > MOST).collect();
        assert!(above.is_empty(), "{above:?} with {pick:?}");
    }
}

#[test]
fn root_the_benchmarks_program_is_loaded_for_them_alone() {
    if !rights::can_load() {
        return;
    }
    let verified = verified(&Pick { ports: vec![80], ..Pick::default() });
    assert_eq!(verified.contains_key("produce"), cfg!(feature = "bench"), "{verified:?}");
}
