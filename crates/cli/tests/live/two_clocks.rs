//! A recording of both ends of a link, cut in two, each half by a clock of its own: the true time of each event is in the
//! band that `merge` states.
//!
//! The short form has two runs. The full form (`SOCKSCOPE_SOAK=full`) has 20.

use sockscope_trace::Bundle;

use crate::bundle::{run_once, whole};
use crate::halves::{Clock, merged, read};
use crate::turn;

const SERVER: &str = "python3 -c \"
import socket
c, _ = socket.create_server(('198.18.0.2', 7000)).accept()
while data := c.recv(4000):
    c.sendall(data)
\"";
const CLIENT: &str = "
import socket
s = socket.create_connection(('198.18.0.2', 7000))
for size in range(100):
    s.sendall(b'x' * (1 + 30 * size))
    s.recv(4000)
";

#[test]
fn root_the_true_time_of_each_event_is_in_the_band() {
    let Some(_turn) = turn::take() else { return };
    let is_full = std::env::var("SOCKSCOPE_SOAK").is_ok_and(|form| form == "full");
    let runs = if is_full { 20 } else { 2 };
    for run in 0..runs {
        let sockscope = env!("CARGO_BIN_EXE_sockscope");
        let link = ["lab", "link", "--delay", "2ms", "--jitter", "500us", "--loss", "1%"];
        let seed = ["--seed", &run.to_string(), "--server", SERVER, "--", "python3", "-c", CLIENT];
        let words = [&[sockscope][..], &link, &seed].concat();
        let command: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut recording = whole(|| run_once(&[], &command));
        let dir = recording.keep();
        let mut records = read(&dir);
        records.sort_by_key(|record| record.at_ns);
        let start_ns = records[0].at_ns;
        let bundle = Bundle::open(&dir).expect("it was recorded");
        // A second ahead or behind, and up to 50 ppm faster or slower.
        let offset_ns = 1_000_000_000 * (run - runs / 2) / (runs / 2);
        let drift_ppb = 50_000 * (runs / 2 - run) / (runs / 2);
        let realtime_ns = if run % 2 == 0 { 3_600_000_000_000 } else { -3_600_000_000_000 };
        let server = Clock { start_ns: 9_000_000_000, offset_ns, drift_ppb, realtime_ns };
        let (times, band, ()) = merged((bundle.connections(), &records), server, |_| ());
        assert!(times.len() > 500, "{}", times.len());
        let mut widest = 0;
        for (truth, stated) in times {
            let (early, late) = band.at(stated).expect("within the recording");
            assert!(
                stated - early <= truth && truth <= stated + late,
                "run {run}: {truth} is not in {stated} -{early} +{late}, start {start_ns}: {band:?}"
            );
            widest = widest.max(early + late);
        }
        println!(
            "run {run}: offset {offset_ns} ns, drift {drift_ppb} ppb, widest part {widest} ns"
        );
    }
}
