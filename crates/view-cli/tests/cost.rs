//! CPU time of `sockscope-view top` and of the page of a running recording, next to that of the recorder alone.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Each connection asks five times a second.
const CONNECTIONS: &str = "
import asyncio, random, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
async def serve(reader, writer):
    try:
        while await reader.readexactly(100): writer.write(b'a' * 300)
    except (asyncio.IncompleteReadError, ConnectionError): pass
async def client(address):
    reader, writer = await asyncio.open_connection(*address)
    await asyncio.sleep(random.random())
    while True:
        writer.write(b'q' * 100)
        await reader.readexactly(300)
        await asyncio.sleep(0.2)
async def main():
    server = await asyncio.start_server(serve, '127.0.0.1', 0, backlog=4096)
    address = server.sockets[0].getsockname()
    print(address[1], flush=True)
    await asyncio.gather(*[client(address) for _ in range(1000)])
asyncio.run(main())
";
/// Time of each run.
const RUN_S: f64 = 8.0;
/// What the view may take of a CPU in addition to the recorder.
const TOP_PERCENT_MAX: f64 = 10.0;
/// Of clock ticks in `/proc`.
const TICKS_A_SECOND: f64 = 100.0;

/// Ended when the test ends.
struct Traffic(Child);

impl Drop for Traffic {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPU time of all children that have ended, in seconds (proc(5), fields 16 and 17 of `stat`).
fn of_children_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("proc is there");
    let rest = stat.rsplit_once(')').expect("the name ends").1;
    let ticks = rest.split_whitespace().skip(13).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>() / TICKS_A_SECOND
}

/// CPU time of a command, in percent of a CPU. Without an end of its own it ends by SIGINT.
fn percent(command: &mut Command) -> f64 {
    let before = of_children_s();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs_f64(RUN_S));
    let pid = child.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().expect("kill is there");
    child.wait().expect("it ends");
    100.0 * (of_children_s() - before) / began.elapsed().as_secs_f64()
}

/// The long form of `scripts/soak top`.
#[test]
fn root_soak_a_thousand_busy_connections_cost_a_view_little() {
    if std::env::var("SOCKSCOPE_SOAK").as_deref() != Ok("full") {
        return;
    }
    let mut traffic = Command::new("python3");
    let traffic = traffic.args(["-c", CONNECTIONS]).stdout(Stdio::piped()).spawn();
    let mut traffic = Traffic(traffic.expect("python3 is there"));
    let mut port = String::new();
    BufReader::new(traffic.0.stdout.as_mut().unwrap()).read_line(&mut port).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let view = Path::new(env!("CARGO_BIN_EXE_sockscope-view"));
    let folder = tempfile::tempdir().unwrap();
    let run = |program: &Path, arguments: &[&str]| {
        percent(Command::new(program).args(arguments).args(["--port", port.trim()]))
    };
    let recorder = view.with_file_name("sockscope");
    let bundle = folder.path().join("b");
    let recorded = ["record", "-o", bundle.to_str().unwrap()];
    let mut rounds: Vec<[f64; 4]> = (0..3)
        .map(|_| {
            let before = run(&recorder, &recorded);
            let top = run(view, &["top", "--json"]);
            let page = run(view, &["view", "--live"]);
            [before, top, page, run(&recorder, &recorded)]
        })
        .collect();
    println!("percent of a CPU: recorder, top, page, recorder again");
    for round in &rounds {
        println!("{round:.1?}");
    }
    rounds.sort_by(|one, other| one[1].total_cmp(&other[1]));
    let [before, top, _, after] = rounds[1];
    let more = top - f64::midpoint(before, after);
    assert!(before > 1.0, "the recorder had no work: {before:.1} %");
    assert!(more <= TOP_PERCENT_MAX, "top takes {more:.1} % of a CPU more than the recorder");
}
