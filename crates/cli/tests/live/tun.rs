//! A path of TUN devices: no hook sees packets enter the input queue there.

use crate::background::Background;
use crate::bundle::{command, facts, run_once, sockscope_says, whole, workload};
use crate::hosts::Hosts;
use crate::report::{bytes, count, flow};
use crate::turn;

const PORT: u16 = 7000;
const BYTES: u64 = 2_000_000;
/// The address of host `b` on the TUN device.
const FAR: &str = "10.85.0.2";

#[test]
fn root_late_and_resent_segments_of_a_tun_path_are_not_taken_for_missed() {
    let Some(_turn) = turn::take() else { return };
    let hosts = Hosts::up(&[]);
    let forward = workload("tun_path.py", &["--far", &hosts.name_b()]);
    let (port, amount) = (PORT.to_string(), BYTES.to_string());
    let end = |role| {
        let place = ["--host", FAR, "--port", &port, "--bytes", &amount, "--role", role];
        workload("bulk.py", &place)
    };
    let mut of_path = String::new();
    let recording = whole(|| {
        let mut forward = command(&hosts.on_a(&forward));
        let path = Background::start_until(&mut forward, "-TERM", "forwarding");
        let mut serve = command(&hosts.on_b(&end("server")));
        let server = Background::start_until(&mut serve, "-TERM", "listening on");
        let recording = run_once(&[], &hosts.on_a(&end("client")));
        assert_eq!(facts(&server.ended())["server"]["ok"], true);
        of_path = path.stop();
        recording
    });
    let of_path = facts(&of_path);
    let [packets, overtaken, dropped] =
        ["packets", "overtaken", "dropped"].map(|key| count(&of_path[key]));
    assert!(overtaken > 100 && dropped > 10, "{of_path}");
    let report = &recording.report;
    let connection = report.connection(PORT);
    assert_eq!((bytes(connection, "client"), bytes(connection, "server")), (BYTES, 32));
    let sent = flow(connection, "client");
    assert!(count(&sent["retransmitted_bytes"]) > 0, "{sent}");
    assert_eq!(sent["ledger"]["unknown"], 0.0, "{sent}");
    let shown = sockscope_says(&["show".into(), recording.dir().into_os_string()]);
    let of_data = |line: &&str| line.contains(" > 5 InputEnqueue ") && !line.contains(" 0  [");
    assert_eq!(shown.lines().filter(of_data).count() as u64, packets - dropped);
}
