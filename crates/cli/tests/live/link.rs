//! Two hosts that a slow link joins: see `tests/workloads/tun_link.py`.

use serde_json::Value;

use crate::background::Background;
use crate::bundle::{Recording, command, facts, run_once, whole, workload};
use crate::hosts::Hosts;

/// The address of host `b` on the link.
const FAR: &str = "10.86.0.2";
const PORT: &str = "7000";

/// A workload whose client on host `a` talks to its server on host `b` by the link, recorded without gaps; and what
/// the link counted.
pub fn recorded(link: &[&str], program: &str, arguments: &[&str]) -> (Recording, Value) {
    let mut counts = Value::Null;
    let recording = whole(|| {
        let (recording, counted) = recorded_once(link, program, arguments);
        counts = counted;
        recording
    });
    (recording, counts)
}

/// The same, recorded once. Some kernels skip probes while the link's program reads from its devices.
pub fn recorded_once(link: &[&str], program: &str, arguments: &[&str]) -> (Recording, Value) {
    recorded_between(&Hosts::up(&[]), link, program, arguments)
}

/// The same between these hosts.
pub fn recorded_between(
    hosts: &Hosts,
    link: &[&str],
    program: &str,
    arguments: &[&str],
) -> (Recording, Value) {
    let forward = workload("tun_link.py", &[&["--far", &hosts.name_b()], link].concat());
    let end = |role| {
        let place = ["--host", FAR, "--port", PORT, "--role", role];
        workload(program, &[&place, arguments].concat())
    };
    let mut forward = command(&hosts.on_a(&forward));
    let path = Background::start_until(&mut forward, "-TERM", "forwarding");
    let mut serve = command(&hosts.on_b(&end("server")));
    let server = Background::start_until(&mut serve, "-TERM", "listening on");
    let recording = run_once(&[], &hosts.on_a(&end("client")));
    server.ended();
    (recording, facts(&path.stop()))
}
