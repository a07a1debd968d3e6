//! A recorder under mixed load: many open connections, churn, and bulk transfers. Stalls are planted, the recorder is
//! killed and stopped, and its disk is full for some time.
//!
//! The full form (`SOCKSCOPE_SOAK=full`) takes an hour, or `SOCKSCOPE_MINUTES`. The short form has a small load, a kill and
//! a stall, and the same assertions. What does not hold is collected, so that a long run shows all of it.

mod checks;
mod ends;
mod kept;
mod meter;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use checks::checks;
use ends::{Counts, Ends, Kind, SERVERS, Stall, ports};
use meter::{Meter, Target, in_the_kernel, programs_of};

use crate::common::{Watch, may_record};
use crate::number_before;

/// The load.
pub struct Load {
    pub open: u64,
    /// An exchange of each open connection.
    pub every_s: u64,
    pub churn_s: u64,
    pub bulk: u64,
    /// Bytes a second of each transfer.
    pub bulk_s: u64,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Stall(Kind),
    /// SIGKILL, and a new recorder.
    Kill,
    /// Another file takes all room of the disk for 20 s.
    FullDisk,
    /// SIGSTOP of the recorder for 20 s, in which the kernel's lists may become full.
    Stop,
}

struct Form {
    length: Duration,
    load: Load,
    budget: f64,
    keep: &'static str,
    before: &'static str,
    after: &'static str,
    /// Of each kept trace: the least time before the stall and after it, seconds.
    least: (f64, f64),
    /// MiB of `--max-disk` and of the disk, which has the kept traces too.
    max_disk: u64,
    disk: &'static str,
    /// Between two samples, and between two rows of the table.
    sample: Duration,
    row_s: f64,
    is_long: bool,
    /// Least time between two events, seconds.
    gap_s: f64,
    /// In order, each with its time in seconds.
    events: Vec<(f64, Event)>,
}

/// The budget decides for the first two minutes of a recorder.
const SETTLED_S: f64 = 120.0;

impl Form {
    fn full(minutes: u64) -> Self {
        // Stalls at odd minutes, all else at even ones.
        let even = |part: f64| 120.0 * (minutes as f64 * part / 2.0).round();
        let odd = (1..minutes).step_by(2).zip(Kind::ALL.into_iter().cycle());
        let stalls = odd.map(|(minute, kind)| (60.0 * minute as f64, Event::Stall(kind)));
        let others =
            [(even(0.25), Event::Kill), (even(0.5), Event::FullDisk), (even(0.75), Event::Stop)];
        let mut events: Vec<(f64, Event)> = stalls.chain(others).collect();
        events.sort_by(|one, other| one.0.total_cmp(&other.0));
        Self {
            length: Duration::from_secs(60 * minutes),
            load: Load { open: 5_000, every_s: 20, churn_s: 500, bulk: 2, bulk_s: 20_000_000 },
            budget: 3.0,
            keep: "10m",
            before: "15s",
            after: "5s",
            least: (10.0, 3.0),
            max_disk: 128,
            disk: "640m",
            sample: Duration::from_secs(10),
            row_s: 300.0,
            is_long: true,
            gap_s: 20.0,
            events,
        }
    }

    fn short() -> Self {
        Self {
            length: Duration::ZERO,
            load: Load { open: 100, every_s: 2, churn_s: 30, bulk: 1, bulk_s: 2_000_000 },
            budget: 400.0,
            keep: "20s",
            before: "5s",
            after: "500ms",
            least: (1.0, 0.2),
            max_disk: 64,
            disk: "128m",
            sample: Duration::from_secs(1),
            row_s: 2.0,
            is_long: false,
            gap_s: 1.5,
            events: vec![(0.0, Event::Kill), (0.0, Event::Stall(Kind::SlowReader))],
        }
    }
}

struct Run {
    form: Form,
    ends: Ends,
    /// As the recorder names it.
    output: PathBuf,
    recorder: Option<Watch>,
    meter: Meter,
    begun: Instant,
    /// When the present recorder began, seconds.
    recording_s: f64,
    /// Of the load when it began.
    at_start: Counts,
    /// SYN and SYN-ACK that the kernel had sent again by then.
    repeated_at_start: u64,
    /// Of the load when the plan began.
    at_begin: Counts,
    /// Time without churn.
    paused: Duration,
    failures: Vec<String>,
}

/// SYN and SYN-ACK that the kernel sent again since it started: `TCPSynRetrans` of /proc/net/netstat.
fn repeated_handshakes() -> u64 {
    let counters = fs::read_to_string("/proc/net/netstat").unwrap();
    let mut rows = counters.lines().filter(|row| row.starts_with("TcpExt:"));
    let [names, values] = [rows.next().unwrap(), rows.next().unwrap()].map(str::split_whitespace);
    let found = names.zip(values).find(|(name, _)| *name == "TCPSynRetrans");
    found.expect("the kernel counts them").1.parse().unwrap()
}

fn signal(name: &str, pid: u32) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

impl Run {
    fn start(form: Form, folder: &Path, csv: &Path) -> Self {
        let mut ends = Ends::start(&form.load, form.disk, folder);
        let at_start = ends.counts();
        let meter = Meter::start(form.sample, form.row_s, csv);
        let mut run = Self {
            form,
            ends,
            output: folder.join("watch"),
            recorder: None,
            meter,
            begun: Instant::now(),
            recording_s: 0.0,
            at_start,
            repeated_at_start: 0,
            at_begin: at_start,
            paused: Duration::ZERO,
            failures: Vec::new(),
        };
        run.start_recorder();
        // The plan begins when the recorder records.
        run.begun = Instant::now();
        run.paused = Duration::ZERO;
        run.at_begin = run.ends.counts();
        run
    }

    fn at_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn say(&self, text: &str) {
        println!("{:.0} s: {text}", self.at_s());
    }

    fn expect(&mut self, holds: bool, text: String) {
        if !holds {
            self.say(&format!("NOT: {text}"));
            self.failures.push(text);
        }
    }

    fn recorder(&mut self) -> &mut Watch {
        self.recorder.as_mut().unwrap()
    }

    /// Starts one while there is no churn: the number of connections that it finds is then known.
    fn start_recorder(&mut self) {
        let paused = Instant::now();
        self.ends.pause_churn();
        self.at_start = self.ends.counts();
        self.repeated_at_start = repeated_handshakes();
        let Form { budget, keep, before, after, max_disk, .. } = &self.form;
        let mut command = self.ends.with_disk();
        command.arg(env!("CARGO_BIN_EXE_sockscope-watch"));
        command
            .args(["watch", "--port", &ports(), "--addr", &SERVERS.to_string()])
            .args(["--listen", "127.0.0.1:0", "-o"])
            .arg(&self.output);
        command.args(["--budget", &format!("{budget}%"), "--max-disk", &format!("{max_disk}M")]);
        command.args(["--keep", keep, "--before", before, "--after", after, "--per-hour", "200"]);
        command.args(["--when", "finding=slow-reader > 1s in 5s"]);
        command.args(["--when", "finding=nagle-delayed-ack > 1s in 5s"]);
        let had_one = self.recorder.is_some();
        let mut recorder = Watch::start(&mut command);
        let earlier = had_one.then(|| recorder.wait_for("was killed: its "));
        recorder.wait_for("a trace is kept when");
        let line = recorder.wait_for("metrics are at");
        let address = line.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned();
        self.ends.resume_churn();
        self.paused += paused.elapsed();
        let pid = recorder.child.id();
        let segments = self.ends.on_disk(&self.output.join("segments"));
        self.meter.set(Some(Target { pid, address, segments, programs: programs_of(pid) }));
        self.recorder = Some(recorder);
        self.recording_s = self.at_s();
        if let Some(said) = earlier {
            self.check_earlier(&said);
        }
    }

    /// The folder in a message, which this process finds elsewhere.
    fn folder_in(&self, line: &str) -> PathBuf {
        self.ends.on_disk(Path::new(line.rsplit(' ').next().unwrap()))
    }

    /// The trace that a killed recorder left.
    fn check_earlier(&mut self, said: &str) {
        let folder = self.folder_in(said);
        match kept::whole_connections(&folder) {
            Ok(found) => {
                self.say(&format!(
                    "the killed recorder left {:.1} s with {} whole connections, {} broken, {} records missed",
                    found.seconds, found.whole, found.broken, found.missed
                ));
                let least_s = if self.form.is_long { 15.0 } else { 0.5 };
                let text = format!("a killed recorder leaves {least_s} s: {:.1} s", found.seconds);
                self.expect(found.seconds >= least_s, text);
                self.expect(found.whole > 0, "its trace has whole connections".to_owned());
            }
            Err(error) => self.expect(false, format!("its trace is readable: {error}")),
        }
        fs::remove_dir_all(folder).unwrap();
    }

    fn go(&mut self) {
        // Events keep their distances, also where one took long or the machine made a pause.
        let (mut late_s, mut ended_s) = (0.0, 0.0);
        for (at_s, event) in std::mem::take(&mut self.form.events) {
            let due_s = f64::max(at_s + late_s, ended_s + self.form.gap_s);
            thread::sleep(Duration::from_secs_f64((due_s - self.at_s()).max(0.0)));
            late_s = self.at_s() - at_s;
            self.say(&format!("{event:?}"));
            match event {
                Event::Stall(kind) => self.stall(kind),
                Event::Kill => self.kill(),
                Event::FullDisk => self.fill_disk(),
                Event::Stop => self.stop(),
            }
            ended_s = self.at_s();
        }
        let length = self.form.length + Duration::from_secs_f64(late_s);
        thread::sleep(length.saturating_sub(self.begun.elapsed()));
    }

    fn stall(&mut self, kind: Kind) {
        let stall: Stall = self.ends.plant(kind);
        let (before_s, after_s) = self.form.least;
        // Other traces may have been kept meanwhile.
        let mut others = Vec::new();
        while others.len() < 3 {
            let Some(folder) = self.next_trace() else { break };
            let found = kept::has_stall(&folder, &stall, before_s, after_s);
            fs::remove_dir_all(&folder).unwrap();
            match found {
                Ok(line) => return self.say(&line),
                Err(error) => {
                    self.say(&format!("another trace: {error}"));
                    others.push(error);
                }
            }
        }
        self.expect(false, format!("a trace has {stall:?}: {others:?}"));
    }

    /// The next trace that the recorder made; `None` where it makes none for a while.
    fn next_trace(&mut self) -> Option<PathBuf> {
        let line =
            self.recorder().wait_at_most(Duration::from_secs(30), "see it: sockscope report");
        line.map(|line| self.folder_in(&line))
    }

    fn kill(&mut self) {
        self.meter.set(None);
        let recorder = self.recorder();
        let programs = programs_of(recorder.child.id());
        recorder.child.kill().unwrap();
        recorder.child.wait().unwrap();
        let had_some = !programs.is_empty();
        self.start_recorder();
        let until = Instant::now() + Duration::from_secs(10);
        let mut left = in_the_kernel(&programs);
        while !left.is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(50));
            left = in_the_kernel(&programs);
        }
        let is_gone = had_some && left.is_empty();
        self.expect(is_gone, format!("nothing of a killed recorder is in the kernel: {left:?}"));
    }

    fn fill_disk(&mut self) {
        let filler = self.ends.on_disk(&self.output).with_file_name("filler");
        let until = Instant::now() + Duration::from_secs(20);
        let mut bytes = 0;
        while Instant::now() < until {
            let mut file = OpenOptions::new().create(true).append(true).open(&filler).unwrap();
            while let Ok(more) = file.write(&[b'x'; 64 << 10]) {
                bytes += more;
            }
            thread::sleep(Duration::from_millis(200));
        }
        let gap = self.recorder().wait_at_most(Duration::from_secs(10), "the recording has a gap");
        fs::remove_file(&filler).unwrap();
        self.say(&format!("another file had {:.1} MB of the disk; {gap:?}", bytes as f64 / 1e6));
        self.expect(gap.is_some(), "the recorder says that the disk is full".to_owned());
    }

    fn stop(&mut self) {
        let pid = self.recorder().child.id();
        signal("-STOP", pid);
        thread::sleep(Duration::from_secs(20));
        signal("-CONT", pid);
        thread::sleep(Duration::from_secs(2));
        signal("-USR1", pid);
        self.recorder().wait_for("it was asked for");
        let folder = self.next_trace();
        let found = folder.as_ref().map(|folder| kept::whole_connections(folder));
        folder.into_iter().for_each(|folder| fs::remove_dir_all(folder).unwrap());
        match found {
            Some(Ok(found)) => {
                let text = format!(
                    "a stop is counted: {:.1} s with {} whole connections, {} broken, {} records missed",
                    found.seconds, found.whole, found.broken, found.missed
                );
                self.say(&text);
                self.expect(found.whole > 0 && found.broken <= found.missed, text);
            }
            other => self
                .expect(false, format!("there is a trace of a stop: {:?}", other.map(Result::err))),
        }
    }

    /// Ends it, and looks at counts, memory, disk and cost.
    fn end(mut self) -> Vec<String> {
        let all_s = self.begun.elapsed().as_secs_f64();
        let passed_s = [all_s, all_s - self.paused.as_secs_f64()];
        self.ends.pause_churn();
        let counts = self.ends.counts();
        let ended_s = self.at_s();
        let said = self.recorder.take().unwrap().end();
        said.lines()
            .filter(|line| !line.contains("new connections are recorded"))
            .for_each(|line| println!("{line}"));
        self.check_load(&counts, passed_s);
        let at_start = self.at_start;
        let recorded = number_before(&said, " connections recorded");
        // Some that are recorded may be left out on the way.
        let others =
            if said.contains(" others left out") { " others left out" } else { " left out" };
        let left_out = number_before(&said, others);
        let opened = at_start.open + counts.opened - at_start.opened;
        // A packet of the handshake that comes again may count a left-out connection again (docs/reference/sampling.md).
        let repeated = repeated_handshakes() - self.repeated_at_start;
        let text = format!(
            "recorded {recorded} + left out {left_out} = opened {opened}, with {repeated} SYN and SYN-ACK sent again"
        );
        self.say(&text);
        self.expect(recorded + left_out == opened, text);
        let [own, ticks] =
            ["it used ", "/proc/self/stat "].map(|words| seconds_after(&said, words));
        let text = format!("its CPU time {own} s is that of /proc, {ticks} s");
        self.expect(ticks < 1.0 || (own / ticks - 1.0).abs() < 0.05, text);
        if self.form.is_long {
            let is_full = said.contains("the disk had no room for");
            self.expect(is_full, "the records without room are counted".to_owned());
        }
        let Self { form, meter, failures, recording_s, .. } = self;
        let samples = meter.end();
        let exhausted = said.contains("the smallest share");
        [failures, checks(&form, &samples, recording_s, ended_s, exhausted)].concat()
    }

    /// The rates of the load by its own counts, over the whole time and over that with churn.
    fn check_load(&mut self, counts: &Counts, passed_s: [f64; 2]) {
        let (load, begin) = (&self.form.load, self.at_begin);
        let stopped_s = counts.stopped_s - begin.stopped_s;
        let passed_s = passed_s.map(|passed_s| passed_s - stopped_s);
        if stopped_s > 0.0 {
            self.say(&format!(
                "the load was stopped for {stopped_s:.1} s, as by a pause of the machine"
            ));
        }
        let exchanges = counts.exchanges - begin.exchanges - (counts.churned - begin.churned);
        let rates = [
            ("churn", counts.churned - begin.churned, load.churn_s, passed_s[1]),
            ("exchanges", exchanges, load.open.div_ceil(load.every_s), passed_s[0]),
            (
                "bulk bytes",
                counts.bulk_bytes - begin.bulk_bytes,
                load.bulk * load.bulk_s,
                passed_s[0],
            ),
        ];
        let open = load.open + load.bulk + 4;
        for (name, count, planned, passed_s) in rates {
            let text = format!("{name} a second: {:.1} of {planned}", count as f64 / passed_s);
            self.say(&text);
            self.expect(count as f64 >= 0.95 * planned as f64 * passed_s, text);
        }
        let is_open = counts.open == open && counts.failed == 0;
        self.expect(is_open, format!("{open} connections are open: {counts:?}"));
    }
}

/// The number of seconds behind these words.
fn seconds_after(text: &str, words: &str) -> f64 {
    let rest = text.split(words).nth(1).unwrap_or_else(|| panic!("no {words:?} in\n{text}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn root_a_recorder_survives_mixed_load() {
    if !may_record("root_a_recorder_survives_mixed_load") {
        return;
    }
    let is_full = std::env::var("SOCKSCOPE_SOAK").is_ok_and(|form| form == "full");
    let minutes = std::env::var("SOCKSCOPE_MINUTES").ok().and_then(|it| it.parse().ok());
    let form = if is_full { Form::full(minutes.unwrap_or(60)) } else { Form::short() };
    let folder = tempfile::tempdir().unwrap();
    let csv = if is_full { "mixed.csv" } else { "mixed-short.csv" };
    let csv = Path::new(env!("CARGO_TARGET_TMPDIR")).join(csv);
    println!("samples are in {}", csv.display());
    let mut run = Run::start(form, folder.path(), &csv);
    run.go();
    let failures = run.end();
    assert!(failures.is_empty(), "{failures:#?}");
}
