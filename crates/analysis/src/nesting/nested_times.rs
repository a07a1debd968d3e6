//! The part of each service that was a wait for nested requests.
//!
//! Nested requests may overlap each other, and last longer than the service. The result is the time in which at least
//! one was open during the service.

use super::links::{NestedTime, RequestId};
use super::parents::{Place, Places};
use super::roles::{Ask, Service};
use crate::ranges::{Range, Sums, total, union};

/// The times of the services that are not all their answerer's own.
pub(super) fn of_services(
    services: &[Service],
    asks: &[Ask],
    places: &Places,
) -> Vec<(RequestId, NestedTime)> {
    let mut nested: Vec<(usize, Range)> = Vec::new();
    let mut unplaced: Vec<Range> = Vec::new();
    for (place, ask) in places.0.iter().zip(asks) {
        let open = (ask.at_ns, ask.until_ns);
        match *place {
            Place::In(at, _) => nested.push((at, open)),
            Place::Unknown => unplaced.push(open),
            Place::Outside => {}
        }
    }
    nested.sort_unstable();
    let unplaced = Sums::new(union(&unplaced, &[]));
    let mut rest = &nested[..];
    let times = services.iter().enumerate().filter_map(|(at, service)| {
        let count = rest.partition_point(|(parent, _)| *parent == at);
        let (own, others) = rest.split_at(count);
        rest = others;
        let time = of_service(service, own, &unplaced);
        (time != NestedTime::default()).then_some((service.id, time))
    });
    times.collect()
}

fn of_service(service: &Service, nested: &[(usize, Range)], unplaced: &Sums) -> NestedTime {
    let ranges: Vec<Range> = nested.iter().map(|(_, range)| *range).collect();
    let ranges = union(&ranges, &[]);
    // In the service proper each instant is the answerer's. Of the response only its pauses are.
    let whole = (service.from_ns, service.answered_ns);
    let response = (service.answered_ns, service.until_ns);
    let nested_ns = overlap_ns(&ranges, whole);
    let nested_pause_ns = overlap_ns(&ranges, response).min(service.pause_ns);
    let shared = |part: Range| {
        let both = ranges.iter().map(|range| unplaced.overlap(clip(*range, part)));
        unplaced.overlap(part) - both.sum::<u64>()
    };
    let rest_ns = service.pause_ns - nested_pause_ns;
    NestedTime {
        nested_ns: nested_ns + nested_pause_ns,
        shared_ns: shared(whole) + shared(response).min(rest_ns),
    }
}

/// The part of a range within another one; empty where they are apart.
fn clip(range: Range, within: Range) -> Range {
    let start = range.0.clamp(within.0, within.1);
    (start, range.1.clamp(start, within.1))
}

fn overlap_ns(ranges: &[Range], within: Range) -> u64 {
    let clipped: Vec<Range> = ranges.iter().map(|range| clip(*range, within)).collect();
    total(&clipped)
}
