//! Counters by point as JSON objects with the points' names for keys.
//!
//! Points that are absent count 0, and names that this release does not know are ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sockscope_record::{LossCounts, Point, PointCost};

/// Key of the missed records of no point.
pub(crate) const EVENTS: &str = "events";

/// `{"SendEnqueue": 0, …, "events": 0}`
pub(crate) mod loss {
    use super::{BTreeMap, Deserialize, Deserializer, EVENTS, LossCounts, Point, Serializer};

    pub(crate) fn serialize<S: Serializer>(loss: &LossCounts, to: S) -> Result<S::Ok, S::Error> {
        let points = Point::ALL.iter().map(|point| (point.name(), loss.points[point.index()]));
        to.collect_map(points.chain([(EVENTS, loss.events)]))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<LossCounts, D::Error> {
        let table = BTreeMap::<String, u64>::deserialize(from)?;
        let count = |name: &str| table.get(name).copied().unwrap_or(0);
        let points = Point::ALL.map(|point| count(point.name()));
        Ok(LossCounts { points, events: count(EVENTS) })
    }
}

/// `{"SendEnqueue": {"hits": 0, "run_ns": 0}, …}`
pub(crate) mod cost {
    use super::{BTreeMap, Cost, Deserialize, Deserializer, Point, PointCost, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        cost: &[PointCost; 8],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(Point::ALL.iter().map(|point| {
            let PointCost { hits, run_ns } = cost[point.index()];
            (point.name(), Cost { hits, run_ns })
        }))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<[PointCost; 8], D::Error> {
        let table = BTreeMap::<String, Cost>::deserialize(from)?;
        Ok(Point::ALL.map(|point| match table.get(point.name()) {
            Some(Cost { hits, run_ns }) => PointCost { hits: *hits, run_ns: *run_ns },
            None => PointCost::default(),
        }))
    }
}

#[derive(Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct Cost {
    hits: u64,
    run_ns: u64,
}
