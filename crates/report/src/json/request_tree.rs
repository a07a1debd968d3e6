//! The slowest request that has others nested in it, with all of them.

use serde::Serialize;

use crate::request_tree::Branch;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct BranchView<'a> {
    connections: Vec<u32>,
    server: String,
    pid: Option<u32>,
    comm: Option<&'a str>,
    nested_by: Option<&'static str>,
    count: u64,
    asked_ns: u64,
    total_ns: u64,
    own_ns: Option<u64>,
    nested_ns: Option<u64>,
    shared_ns: Option<u64>,
    transit_ns: Option<u64>,
    nested: Vec<BranchView<'a>>,
}

impl<'a> BranchView<'a> {
    pub(super) fn new(branch: &Branch<'a>) -> Self {
        let (service, answerer) = (branch.service, branch.answerer());
        Self {
            connections: branch.connections.iter().map(|id| id.0).collect(),
            server: branch.connection.connection.end(sockscope_record::Side::Server).to_string(),
            pid: answerer.map(|process| process.pid),
            comm: answerer.map(|process| process.comm.as_str()),
            nested_by: branch.certainty.map(|certainty| certainty.name()),
            count: branch.count,
            asked_ns: branch.asked_ns,
            total_ns: branch.total_ns,
            own_ns: service.map(|service| service.own_ns),
            nested_ns: service.map(|service| service.nested_ns),
            shared_ns: service.map(|service| service.shared_ns),
            transit_ns: branch.transit_ns,
            nested: branch.nested.iter().map(Self::new).collect(),
        }
    }
}
