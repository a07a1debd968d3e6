//! `sockscope-lab lab work`: each program over loopback, and what its line of JSON says.

#[path = "../../cli/tests/schema/mod.rs"]
mod schema;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use schema::Schema;
use serde_json::Value;

fn work(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope-lab"));
    command.args(["lab", "work"]).args(arguments.split(' ').filter(|word| !word.is_empty()));
    command
}

/// The line of JSON of a program that ends without an error.
fn ended(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    Schema::read("work").check(Path::new("lab work"), text.as_bytes());
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!(report["start_ns"].as_u64().unwrap() <= report["end_ns"].as_u64().unwrap());
    report
}

fn run(arguments: &str) -> Value {
    ended(work(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// A program that receives at a port of the kernel's choice, and its address.
fn server(arguments: &str) -> (Child, String) {
    let mut command = work(arguments);
    command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let address = said.trim_end().strip_prefix("sockscope: lab work: receives at ");
    let address = address.unwrap_or_else(|| panic!("{said}")).to_owned();
    (child, address)
}

fn terminate(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

fn number(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {report}"))
}

/// `count` times in order of their percentiles.
fn assert_times(report: &Value, pointer: &str, count: u64) {
    let times = ["count", "p50", "p90", "p99", "max"];
    let times = times.map(|name| number(report, &format!("{pointer}/{name}")));
    assert!(times[0] == count && times[1..].is_sorted(), "{report}");
}

#[test]
fn a_stream_is_sent_and_discarded() {
    let (discard, address) = server("discard --read-bytes 1000b --receive-buffer 64kib");
    let sent = run(&format!(
        "send --to {address} --messages 300 --message-bytes 1460b --nodelay --send-buffer 32kib"
    ));
    let received = ended(discard);
    assert_eq!(sent["sent"]["messages"], 300);
    assert_eq!(sent["sent"]["bytes"], 300 * 1_460);
    assert_eq!(received["received"]["bytes"], 300 * 1_460);
    assert!(number(&received, "/reads") >= 438, "of 1,000 bytes at most: {received}");
    assert_eq!(sent["socket"]["nodelay"], true);
    // Linux doubles what a program asks for (socket(7)).
    assert_eq!(sent["socket"]["send_buffer"]["asked_bytes"], 32_768);
    assert_eq!(sent["socket"]["send_buffer"]["granted_bytes"], 65_536);
    assert_eq!(received["socket"]["receive_buffer"]["granted_bytes"], 131_072);
    assert!(sent["latency_ns"].is_null() && sent["schedule"].is_null(), "{sent}");
}

#[test]
fn a_client_that_is_gone_does_not_hide_what_it_sent() {
    for program in ["discard", "one-at-a-time", "rpc-echo"] {
        let (serving, address) = server(&format!("{program} --connections 2"));
        let other = match program {
            "discard" => "send",
            _ => program,
        };
        // Part of a message, and then a reset: the socket is closed at once (socket(7), SO_LINGER).
        let mut gone = TcpStream::connect(&address).unwrap();
        gone.write_all(&[24, 0]).unwrap();
        thread::sleep(Duration::from_millis(100));
        rustix::net::sockopt::set_socket_linger(&gone, Some(Duration::ZERO)).unwrap();
        drop(gone);
        let sent = run(&format!("{other} --to {address}"));
        let serving = ended(serving);
        assert!(
            number(&serving, "/received/bytes") >= number(&sent, "/sent/bytes"),
            "{program}: {serving}"
        );
        assert_eq!((number(&serving, "/connections"), number(&serving, "/resets")), (2, 1));
    }
}

#[test]
fn a_stream_of_small_segments_is_bound_to_a_cpu() {
    let (discard, address) = server("discard --read-bytes 64kib");
    let sent = run(&format!(
        "--cpu 0 send --to {address} --messages 20 --message-bytes 5000b --segment-bytes 536 --unsent-bytes 4096"
    ));
    assert_eq!(ended(discard)["received"]["bytes"], sent["sent"]["bytes"]);
    let refused = work("--cpu 5000 send --to 127.0.0.1:9").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("cannot run on CPU 5000"), "{said}");
}

#[test]
fn each_client_of_vmtp_has_its_transactions_answered() {
    let (serving, address) = server("transactions --response-bytes 300b");
    let asking = run(&format!(
        "transactions --to {address} --request-bytes 20000b --response-bytes 300b --clients 2 --for 50ms"
    ));
    terminate(&serving);
    let serving = ended(serving);
    let asked = number(&asking, "/sent/messages");
    assert!(asked >= 2, "one of each client: {asking}");
    assert_eq!(number(&asking, "/received/bytes"), 300 * asked);
    // A request that was sent again is answered again from what the server keeps.
    assert_eq!(number(&serving, "/received/messages"), asked);
    assert_eq!(number(&serving, "/received/bytes"), 20_000 * asked);
    assert_eq!(asking["times_ns"].as_array().map(Vec::len), Some(asked as usize));
    assert!(number(&asking, "/packets") > asked, "a request has several packets: {asking}");
}

#[test]
fn a_schedule_stamps_messages_and_keeps_its_times() {
    let (discard, address) = server("discard --stamped --read-bytes 100b");
    let sent = run(&format!("send --to {address} --every 2ms --messages 40 --message-bytes 150b"));
    let received = ended(discard);
    assert_eq!(received["received"]["messages"], 40);
    assert_times(&received, "/latency_ns", 40);
    assert_times(&sent, "/schedule/late_ns", 40);
    assert_eq!(sent["schedule"]["every_ns"], 2_000_000);
    let ns = number(&sent, "/end_ns") - number(&sent, "/start_ns");
    assert!(ns >= 39 * 2_000_000, "{sent}");
}

#[test]
fn the_latency_counts_from_the_planned_time() {
    // The reader takes 20 messages a second, the schedule has 200: the wait of the last ones is the schedule's.
    let (discard, address) = server("discard --stamped --read-bytes 5000b --pause 50ms");
    run(&format!("send --to {address} --every 5ms --messages 10 --message-bytes 5000b"));
    let received = ended(discard);
    assert!(number(&received, "/latency_ns/max") >= 400_000_000, "{received}");
}

#[test]
fn datagrams_are_counted_until_sigterm() {
    for extra in ["", "--unconnected"] {
        let (discard, address) = server("discard --protocol udp --receive-buffer 1mib --stamped");
        let sent = run(&format!(
            "send --protocol udp {extra} --to {address} --messages 50 --message-bytes 700b --every 100us"
        ));
        thread::sleep(Duration::from_millis(100));
        terminate(&discard);
        let received = ended(discard);
        assert_eq!(sent["sent"]["bytes"], 35_000);
        assert_eq!(received["received"]["messages"], 50);
        assert_eq!(received["received"]["bytes"], 35_000);
        assert_times(&received, "/latency_ns", 50);
    }
}

#[test]
fn remote_calls_return_their_string() {
    let (answering, address) = server("rpc-echo");
    // 40 octets of head and 4 of length of the call, 24 and 4 of the reply; 4 for each fragment of 4,000.
    let asking =
        run(&format!("rpc-echo --to {address} --bytes 9000b --calls 20 --nodelay --list-times"));
    let answering = ended(answering);
    assert_eq!(asking["sent"]["messages"], 20);
    assert_eq!(asking["sent"]["bytes"], 20 * (9_000 + 44 + 3 * 4));
    assert_eq!(asking["received"]["bytes"], 20 * (9_000 + 28 + 3 * 4));
    assert_eq!(asking["writes"], 60, "three writes of up to 4,000 octets for each call");
    assert_eq!(answering["received"], asking["sent"]);
    assert_eq!(answering["sent"], asking["received"]);
    assert_times(&asking, "/latency_ns", 20);
    assert_eq!(asking["times_ns"].as_array().map(Vec::len), Some(20));
    assert_eq!(asking["unanswered"], 0);
}

#[test]
fn the_last_message_of_a_number_of_bytes_is_shorter() {
    let (discard, address) = server("discard");
    let sent =
        run(&format!("send --to {address} --bytes 5118b --message-bytes 4095b --list-times"));
    assert_eq!((&sent["sent"]["messages"], &sent["sent"]["bytes"]), (&2.into(), &5_118.into()));
    assert_eq!(sent["times_ns"].as_array().map(Vec::len), Some(2));
    assert_eq!(ended(discard)["received"]["bytes"], 5_118);
}

#[test]
fn requests_are_answered_in_turn_and_by_schedule() {
    for (program, extra) in [("one-at-a-time", ""), ("request-response", "--every 1ms")] {
        let (answering, address) = server(program);
        let asking = run(&format!(
            "{program} --to {address} {extra} --requests 30 --request-bytes 50b --response-bytes 3000b"
        ));
        let answering = ended(answering);
        assert_eq!(asking["sent"]["bytes"], 30 * 50);
        assert_eq!(asking["received"]["bytes"], 30 * 3_000);
        assert_eq!(answering["received"], asking["sent"]);
        assert_eq!(answering["sent"], asking["received"]);
        assert_times(&asking, "/latency_ns", 30);
        assert_eq!(asking["schedule"].is_null(), program == "one-at-a-time");
    }
}

#[test]
fn a_schedule_does_not_wait_for_answers() {
    // Each answer takes 20 ms, and a request leaves in each 2 ms: the last one waits for all before it.
    let (answering, address) = server("request-response --service 20ms");
    let asking = run(&format!("request-response --to {address} --every 2ms --requests 10"));
    ended(answering);
    assert_eq!(asking["unanswered"], 0);
    assert!(number(&asking, "/latency_ns/max") >= 180_000_000, "{asking}");
}

#[test]
fn datagrams_without_a_server_are_unanswered() {
    let (answering, address) = server("request-response --protocol udp");
    let ask = format!("--protocol udp --to {address} --requests 3");
    let asking = run(&format!("request-response {ask}"));
    assert_eq!((number(&asking, "/unanswered"), number(&asking, "/received/messages")), (0, 3));
    terminate(&answering);
    let answering = ended(answering);
    assert_eq!(answering["sent"]["messages"], 3);
    let asking = run(&format!("one-at-a-time {}", ask.replace("--requests 3", "--requests 1")));
    assert_eq!((number(&asking, "/unanswered"), number(&asking, "/received/messages")), (1, 0));
}

#[test]
fn a_pipeline_has_three_processes() {
    let (discard, after) = server("discard");
    let (pipeline, address) =
        server(&format!("pipeline --to {after} --message-bytes 1000b --compute 2ms"));
    let sent = run(&format!("send --to {address} --message-bytes 1000b --messages 25"));
    let pipeline = ended(pipeline);
    let received = ended(discard);
    for counted in [&sent["sent"], &pipeline["received"], &pipeline["sent"]] {
        assert_eq!(
            (counted["messages"].as_u64(), counted["bytes"].as_u64()),
            (Some(25), Some(25_000))
        );
    }
    assert_eq!(received["received"]["bytes"], 25_000);
    let names = ["receive", "compute", "transmit"];
    let processes = names.map(|name| number(&pipeline["processes"], &format!("/{name}/process")));
    assert!(processes[0] != processes[1] && processes[1] != processes[2], "{pipeline}");
    assert!(number(&pipeline, "/processes/compute/run_ns") >= 50_000_000, "25 times 2 ms");
    for name in names {
        number(&pipeline, &format!("/processes/{name}/ready_ns"));
    }
}

#[test]
fn a_pipeline_ends_at_sigterm() {
    let (discard, after) = server("discard");
    let (pipeline, address) = server(&format!("pipeline --to {after} --message-bytes 10b"));
    let mut before = TcpStream::connect(&address).unwrap();
    before.write_all(&[0; 25]).unwrap();
    wait_until("all processes run", || children(pipeline.id()).len() == 3);
    terminate(&pipeline);
    let pipeline = ended(pipeline);
    assert_eq!(number(&pipeline, "/sent/bytes"), 25, "with the part of a message");
    assert_eq!(ended(discard)["received"]["bytes"], 25);
}

#[test]
fn a_load_computes_on_its_cpus() {
    let load = run("load --processes 3 --cpus 0 --for 300ms");
    let processes = load["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 3);
    let cpu_ns: u64 = processes.iter().map(|process| number(process, "/cpu_ns")).sum();
    let run_ns = number(&load, "/end_ns") - number(&load, "/start_ns");
    // The processes begin on any CPU, before they are bound.
    assert!(cpu_ns <= run_ns + run_ns / 4, "all of them shared a CPU: {load}");
    assert!(processes.iter().all(|process| number(process, "/primes") > 0 && process["cpu"] == 0));
    let unknown = work("load --cpus 4096 --for 1ms").output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
}

/// The processes that this one started.
fn children(pid: u32) -> Vec<String> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Whether there is such a process. One that ended may not have been waited for.
fn runs(pid: &String) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "not in 60 s: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn no_process_outlives_a_workload_that_is_killed() {
    // Before its processes ask the kernel to end them with it, and after.
    assert_that_all_end(Duration::ZERO);
    assert_that_all_end(Duration::from_millis(200));
}

fn assert_that_all_end(pause: Duration) {
    let mut load = work("load --processes 2").spawn().unwrap();
    let (mut discard, after) = server("discard");
    let (mut pipeline, address) = server(&format!("pipeline --to {after}"));
    // The connection stays open: no process of the pipeline reads an end.
    let _before = TcpStream::connect(address).unwrap();
    for (workload, processes) in [(&mut load, 2), (&mut pipeline, 3)] {
        let mut all = Vec::new();
        wait_until("all processes run", || {
            all = children(workload.id());
            all.len() == processes
        });
        thread::sleep(pause);
        workload.kill().unwrap();
        workload.wait().unwrap();
        wait_until("all processes have ended", || !all.iter().any(runs));
    }
    discard.wait().unwrap();
}

#[test]
fn pages_are_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        for page in 0..4 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1_000];
            let bytes = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..bytes]).into_owned();
            assert!(request.starts_with("GET /a HTTP/1.0\r\n") && request.ends_with("\r\n\r\n"));
            let status = if page == 2 { "404 Not Found" } else { "200 OK" };
            let announced = if page == 3 { 6 } else { 5 };
            write!(stream, "HTTP/1.0 {status}\r\nContent-Length: {announced}\r\n\r\nhello")
                .unwrap();
        }
    });
    let report = run(&format!("page-client --to {address} --path /a --pages 4 --every 1ms"));
    // "HTTP/1.0 200 OK" and "HTTP/1.0 404 Not Found", with 23 more bytes of head and 5 of body.
    let bytes = 3 * (15 + 23 + 5) + 22 + 23 + 5;
    assert_eq!(report["received"], serde_json::json!({ "messages": 4, "bytes": bytes }));
    assert_eq!(report["statuses"], serde_json::json!({ "200": 3, "404": 1 }));
    assert_eq!((number(&report, "/truncated"), number(&report, "/unanswered")), (1, 0));
    assert_times(&report, "/latency_ns", 4);
    server.join().unwrap();
}

#[test]
fn a_request_as_text_is_sent_by_a_schedule() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Answers the 11th request of each connection 50 ms late, and with it those that arrived meanwhile.
    let server = thread::spawn(move || {
        let answered = |mut stream: TcpStream| {
            let (mut begun, mut count) = (Vec::new(), 0);
            let mut bytes = [0; 1_000];
            while let Ok(more @ 1..) = stream.read(&mut bytes) {
                begun.extend_from_slice(&bytes[..more]);
                while begun.starts_with(b"PING\r\n") {
                    begun.drain(..6);
                    count += 1;
                    if count == 11 {
                        thread::sleep(Duration::from_millis(50));
                    }
                    stream.write_all(b"+PONG\r\n").unwrap();
                }
            }
            count
        };
        let lines: Vec<_> = (0..2)
            .map(|_| {
                let stream = listener.accept().unwrap().0;
                thread::spawn(move || answered(stream))
            })
            .collect();
        lines.into_iter().map(|line| line.join().unwrap()).collect::<Vec<i32>>()
    });
    let request = r"PING\r\n";
    let report = run(&format!(
        "text-client --to {address} --request {request} --connections 2 --requests 100 --every 1ms"
    ));
    // One more on each connection shows how long an answer is.
    assert_eq!(server.join().unwrap(), [51, 51]);
    assert_eq!(report["received"], serde_json::json!({ "messages": 100, "bytes": 700 }));
    assert_eq!(number(&report, "/unanswered"), 0);
    assert_times(&report, "/latency_ns", 100);
    // Requests are sent on time also while an answer is late, and their latency has the wait.
    assert!(number(&report, "/exact_latency_ns/max") >= 50_000_000, "{report}");
    assert!(number(&report, "/exact_latency_ns/p90") >= 20_000_000, "{report}");
}

#[test]
fn a_request_whose_text_is_no_text_is_refused_in_one_line() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sockscope-lab"))
        .args(["lab", "work", "text-client", "--request", r"PING\q", "--to"])
        .arg(address.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains(r"write \r, \n, \t or \\"), "{said}");
}

/// Three calls in two writes; the server thinks for 2 ms before it answers.
const PATTERN: &str = "
connection = \"tcp 127.0.0.1:40000 > 127.0.0.1:80\"
[client]
process = \"a\"
no_delay = true
read_buffer_bytes = 4096
read_buffer_is_lower_bound = true
writes = 6
certain_writes = 6
[[client.loop]]
times = 3
[[client.loop.step]]
write = [100, 200, 300]
[[client.loop.step]]
write = 50
[[client.loop.step]]
read = 7
[server]
process = \"b\"
no_delay = false
read_buffer_bytes = 64
read_buffer_is_lower_bound = false
writes = 3
certain_writes = 3
[[server.loop]]
times = 3
[[server.loop.step]]
read = [150, 250, 350]
[[server.loop.step]]
write = 7
think_ns = 2000000
";

#[test]
fn a_pattern_is_played_call_by_call() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pattern.toml");
    std::fs::write(&file, PATTERN).unwrap();
    let report = run(&format!("pattern {}", file.display()));
    assert_eq!(report["sent"], serde_json::json!({ "messages": 6, "bytes": 750 }));
    assert_eq!(report["received"]["bytes"], 21);
    assert!(number(&report, "/end_ns") - number(&report, "/start_ns") >= 6_000_000, "{report}");
}

#[test]
fn a_change_of_a_pattern_is_made_at_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pattern.toml");
    std::fs::write(&file, PATTERN).unwrap();
    let played = |change: &str| run(&format!("pattern {} --set {change}", file.display()));
    assert_eq!(played("one-write")["sent"], serde_json::json!({ "messages": 3, "bytes": 750 }));
    assert_eq!(
        played("write-bytes=25")["sent"],
        serde_json::json!({ "messages": 30, "bytes": 750 })
    );
    // The answer of 7 bytes takes seven reads.
    assert_eq!(
        played("read-bytes=1")["received"],
        serde_json::json!({ "messages": 21, "bytes": 21 })
    );
}

#[test]
fn a_pattern_that_waits_for_ever_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pattern.toml");
    for (from, to, reason) in [
        ("read = 7", "read = 8", "a side reads more bytes than the other one writes"),
        ("write = 50", "write = 99999999", "a step has more than 64 MiB"),
        ("times = 3", "times = x", "line 11: "),
    ] {
        std::fs::write(&file, PATTERN.replacen(from, to, 1)).unwrap();
        let output = work(&format!("pattern {}", file.display())).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.lines().count() == 1 && said.contains(reason), "{said}");
    }
}

#[test]
fn wrong_arguments_are_one_line() {
    let cases = [
        (
            "send --to 127.0.0.1:1 --every 1ms --message-bytes 10b",
            "a message with a stamp has 24 bytes",
        ),
        ("send --to 127.0.0.1:1 --unconnected", "--unconnected is for --protocol udp"),
        ("one-at-a-time --to 127.0.0.1:1 --request-bytes 1b", "has 24 bytes or more"),
        ("request-response --to 127.0.0.1:1", "cannot connect to 127.0.0.1:1: Connection refused"),
        ("rpc-echo", "--listen"),
    ];
    for (arguments, expected) in cases {
        let output = work(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(expected), "{arguments}: {said}");
        assert_eq!((said.lines().count(), output.status.code()), (1, Some(2)), "{said}");
    }
}
