//! VMTP: the kernel's points of its datagrams and the engines' own in one bundle.

use std::path::Path;

use crate::bundle::{run_once, sockscope_says, whole};
use crate::report::{Report, count, flow};
use crate::turn;

const CALLS: u64 = 67;
const OCTETS: usize = 16_000;

/// A server and a client below one recording, each with a bundle of its own.
fn script(folder: &Path) -> String {
    let sockscope = env!("CARGO_BIN_EXE_sockscope");
    let folder = folder.display();
    format!(
        "set -e; cd {folder}; rm -rf server client said; head -c {OCTETS} /dev/zero > data
         {sockscope} vmtp serve --at 127.0.0.1:0 --record server 2> said & server=$!
         until grep -q ' at ' said; do sleep 0.05; done
         {sockscope} vmtp call --times {CALLS} --file data --record client \\
             --to $(sed 's/.* at //' said) > answer
         cmp data answer; kill $server; wait $server"
    )
}

#[test]
fn root_vmtp_queues_of_engines_and_kernel_are_one_ledger() {
    let Some(_turn) = turn::take() else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let command = ["sh".to_owned(), "-c".to_owned(), script(folder.path())];
    let recording = whole(|| run_once(&[], &command));
    let place = |name: &str| folder.path().join(name).display().to_string();
    let kernel = recording.dir().display().to_string();
    sockscope_says(&["merge", &kernel, &place("client"), "-o", &place("one")]);
    sockscope_says(&["merge", &place("one"), &place("server"), "-o", &place("all")]);
    let report = Report::parse(&sockscope_says(&["report", &place("all"), "--format", "json"]));
    assert!(report.gaps().is_empty(), "{:?}", report.gaps());

    let [connection] = report.connections() else { panic!("{}", report.summary()) };
    let transactions = &connection["transactions"];
    assert_eq!(count(&transactions["total_ns"]["count"]), CALLS, "{transactions}");
    assert_eq!(transactions["failed"], 0);
    for end in ["client", "server"] {
        let flow = flow(connection, end);
        assert!(count(&flow["bytes"]) > CALLS * OCTETS as u64, "headers are counted: {flow}");
        assert!(count(&flow["ledger_total_ns"]) > 0, "{flow}");
    }
    // Nothing of the kernel's own points is left: each datagram has one record at each point.
    let sent = report.records_at("InterfaceDequeue");
    for point in ["SendEnqueue", "SendDequeue", "ReceiveEnqueue"] {
        assert!(report.records_at(point) <= sent, "{point}");
    }
    assert!(report.notes().contains("VMTP client engine"), "{}", report.notes());
    assert!(report.notes().contains("VMTP server engine"), "{}", report.notes());
}
