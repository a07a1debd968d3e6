//! Memory, disk, CPU time and counts of a running recorder, with values of the kernel next to its own.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MB: f64 = 1e6;
/// Of /proc/PID/stat.
const TICKS_PER_SECOND: f64 = 100.0;

/// A recorder that is measured.
#[derive(Debug, Clone)]
pub struct Target {
    pub pid: u32,
    /// Of its metrics.
    pub address: String,
    pub segments: PathBuf,
    /// Of its probes.
    pub programs: BTreeSet<u64>,
}

/// One look at a recorder.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// Since the start of the run.
    pub at_s: f64,
    pub pid: u32,
    pub rss_mb: f64,
    pub pss_mb: f64,
    /// Files of the segments by their sizes, and the recorder's own value.
    pub disk_mb: f64,
    pub segments_mb: f64,
    /// By /proc/PID/stat, and the recorder's own value.
    pub cpu_s: f64,
    pub own_cpu_s: f64,
    /// Run time of its BPF programs, by the kernel.
    pub probes_s: f64,
    pub share: f64,
    pub connections: f64,
    pub left_out: f64,
    pub records: f64,
    pub missed: f64,
}

const HEAD: &str = "at_s,pid,rss_mb,pss_mb,disk_mb,segments_mb,cpu_s,own_cpu_s,probes_s,share,connections,left_out,records,missed";

/// Ids of the BPF programs that a process holds, alone or by a link.
pub fn programs_of(pid: u32) -> BTreeSet<u64> {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return BTreeSet::new() };
    let texts = open.flatten().filter_map(|file| fs::read_to_string(file.path()).ok());
    let ids = |text: String| {
        let ids = text.lines().filter_map(|line| line.strip_prefix("prog_id:"));
        ids.filter_map(|id| id.trim().parse().ok()).collect::<Vec<u64>>()
    };
    texts.flat_map(ids).collect()
}

/// Those of these programs that the kernel still has, with their run time in nanoseconds.
pub fn in_the_kernel(programs: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let output = Command::new("bpftool").args(["--json", "prog", "show"]).output();
    let output = output.expect("bpftool is installed: see scripts/setup");
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = all.as_array().unwrap().iter();
    let programs = all.filter(|one| one["id"].as_u64().is_some_and(|id| programs.contains(&id)));
    let run = |one: &serde_json::Value| one["run_time_ns"].as_u64().unwrap_or_default();
    programs.map(|one| (one["id"].as_u64().unwrap(), run(one))).collect()
}

/// Sizes of all files in the folder and its folders.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let of = |path: PathBuf| match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => size(&path),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(|entry| of(entry.path())).sum()
}

/// CPU time of a process by /proc.
fn cpu_s(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: Vec<f64> = fields.take(2).filter_map(|field| field.parse().ok()).collect();
    Some(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
}

fn metrics(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

impl Sample {
    /// `None` where the recorder has ended meanwhile.
    pub fn take(target: &Target, at_s: f64) -> Option<Self> {
        let pid = target.pid;
        let metrics = metrics(&target.address)?;
        let sum = |begins: &str| {
            let lines = metrics.lines().filter(|line| line.starts_with(begins));
            let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            values.sum::<f64>()
        };
        let kilobytes = |file: &str, name: &str| {
            let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        let programs = in_the_kernel(&target.programs);
        Some(Self {
            at_s,
            pid,
            rss_mb: kilobytes("status", "VmRSS:")? * 1024.0 / MB,
            pss_mb: kilobytes("smaps_rollup", "Pss:")? * 1024.0 / MB,
            disk_mb: size(&target.segments) as f64 / MB,
            segments_mb: sum("sockscope_segments_bytes ") / MB,
            // After the recorder's own value: it is not smaller.
            cpu_s: cpu_s(pid)?,
            own_cpu_s: sum("sockscope_recorder_cpu_seconds_total "),
            probes_s: programs.iter().map(|(_, run_ns)| *run_ns as f64 * 1e-9).sum(),
            share: sum("sockscope_sample_ratio "),
            connections: sum("sockscope_connections{sampled=\"true\"} "),
            left_out: sum("sockscope_connections_left_out_total "),
            records: sum("sockscope_records_total "),
            missed: sum("sockscope_records_missed_total{"),
        })
    }

    fn line(&self) -> String {
        let Self { at_s, pid, rss_mb, pss_mb, disk_mb, segments_mb, cpu_s, .. } = self;
        let Self { own_cpu_s, probes_s, share, connections, left_out, records, missed, .. } = self;
        format!(
            "{at_s:.1},{pid},{rss_mb:.1},{pss_mb:.1},{disk_mb:.1},{segments_mb:.1},{cpu_s:.2},{own_cpu_s:.3},\
             {probes_s:.3},{share:.5},{connections},{left_out},{records},{missed}"
        )
    }
}

/// Measures each such time until it is ended.
pub struct Meter {
    target: Arc<Mutex<Option<Target>>>,
    end: Sender<()>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Meter {
    /// Writes each sample to the file, and prints a row for each `row_s` seconds.
    pub fn start(every: Duration, row_s: f64, file: &Path) -> Self {
        let target = Arc::new(Mutex::new(None::<Target>));
        let (end, ended) = channel();
        let mut file = fs::File::create(file).unwrap();
        writeln!(file, "{HEAD}").unwrap();
        let shared = Arc::clone(&target);
        let thread = std::thread::spawn(move || {
            let (begun, mut samples, mut rows) = (Instant::now(), Vec::new(), 1.0);
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(every) {
                let target = shared.lock().unwrap().clone();
                let at_s = begun.elapsed().as_secs_f64();
                let sample = target.and_then(|target| Sample::take(&target, at_s));
                if let Some(sample) = sample {
                    writeln!(file, "{}", sample.line()).unwrap();
                    samples.push(sample);
                }
                if at_s >= rows * row_s {
                    rows += 1.0;
                    println!("{}", row(&samples, at_s - row_s, at_s));
                }
            }
            samples
        });
        println!("{ROW_HEAD}");
        Self { target, end, thread }
    }

    /// Measures this one from now on; no one with `None`.
    pub fn set(&self, target: Option<Target>) {
        *self.target.lock().unwrap() = target;
    }

    pub fn end(self) -> Vec<Sample> {
        self.end.send(()).unwrap();
        self.thread.join().unwrap()
    }
}

const ROW_HEAD: &str = "| until s | RSS MB, max | Pss MB, max | segments MB, max | CPU by /proc % | own value % | probes % | share % | records/s | missed |\n|---|---|---|---|---|---|---|---|---|---|";

/// Cost of a part of the run, of each recorder that had two samples in it.
#[derive(Debug, Default)]
pub struct Cost {
    pub passed_s: f64,
    pub cpu_s: f64,
    pub own_cpu_s: f64,
    pub probes_s: f64,
    pub records: f64,
    pub missed: f64,
}

impl Cost {
    pub fn of(samples: &[Sample]) -> Self {
        let mut cost = Self::default();
        for pair in samples.windows(2).filter(|pair| pair[0].pid == pair[1].pid) {
            let [one, next] = pair else { continue };
            cost.passed_s += next.at_s - one.at_s;
            cost.cpu_s += next.cpu_s - one.cpu_s;
            cost.own_cpu_s += next.own_cpu_s - one.own_cpu_s;
            cost.probes_s += next.probes_s - one.probes_s;
            cost.records += next.records - one.records;
            cost.missed += next.missed - one.missed;
        }
        cost
    }
}

/// Samples of a part of the run.
pub fn between(samples: &[Sample], from_s: f64, until_s: f64) -> &[Sample] {
    let first = samples.partition_point(|sample| sample.at_s <= from_s);
    let last = samples.partition_point(|sample| sample.at_s <= until_s);
    &samples[first..last.max(first)]
}

pub fn most(samples: &[Sample], value: fn(&Sample) -> f64) -> f64 {
    samples.iter().map(value).fold(0.0, f64::max)
}

fn row(samples: &[Sample], from_s: f64, until_s: f64) -> String {
    // With the sample before: the costs are differences.
    let first = samples.partition_point(|sample| sample.at_s <= from_s).saturating_sub(1);
    let cost = Cost::of(&samples[first..]);
    let part = between(samples, from_s, until_s);
    let percent = |s: f64| 100.0 * s / cost.passed_s.max(1e-9);
    let mut row = format!("| {until_s:.0} ");
    for value in [
        most(part, |it| it.rss_mb),
        most(part, |it| it.pss_mb),
        most(part, |it| it.disk_mb),
        percent(cost.cpu_s),
        percent(cost.own_cpu_s),
        percent(cost.probes_s),
        100.0 * part.last().map_or(0.0, |sample| sample.share),
        cost.records / cost.passed_s.max(1e-9),
        cost.missed,
    ] {
        let _ = write!(row, "| {value:.2} ");
    }
    row + "|"
}
