//! What others did on this machine during a run: CPU time, packets of each device, segments sent again.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;
use sockscope_link::HostTraffic;

use super::processes::{Busy, Processes};

/// Processes that are named, at most.
const NAMED_MAX: usize = 3;
/// Nanoseconds of a tick in `/proc/stat` (proc(5)).
const TICK_NS: u64 = 10_000_000;

/// What others did in an interval. Times are nanoseconds, to 10 ms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Others {
    /// The interval, by the monotonic clock.
    pub elapsed_ns: u64,
    /// CPU time of all processes but this one and those that it started. Those that began and ended within the interval
    /// are not among them, nor are the kernel's threads.
    pub cpu_ns: u64,
    /// The busiest of them.
    pub busiest: Vec<Busy>,
    /// What the host of a virtual machine gave to others while a CPU of it had work, all CPUs together.
    pub steal_ns: u64,
    /// Packets of each device of this namespace, in and out, also those of the run.
    pub packets: BTreeMap<String, u64>,
    /// Segments that TCP of this namespace sent again, also those of the run.
    pub tcp_retransmitted: u64,
}

/// Counts at the beginning of an interval.
#[derive(Debug)]
pub struct Watch {
    began: Instant,
    processes: Processes,
    counts: Counts,
}

/// Counts of the kernel since boot.
#[derive(Debug, Default)]
struct Counts {
    steal_ticks: u64,
    packets: BTreeMap<String, u64>,
    tcp_retransmitted: u64,
}

impl Watch {
    /// Begins an interval.
    pub fn begin() -> Self {
        let (processes, counts) = (Processes::now(), Counts::now());
        Self { began: Instant::now(), processes, counts }
    }

    /// What others did since then.
    pub fn end(&self) -> Others {
        let elapsed = self.began.elapsed();
        let (processes, counts) = (Processes::now(), Counts::now());
        let mut busiest = processes.others_since(&self.processes, std::process::id());
        let cpu_ns = busiest.iter().map(|one| one.cpu_ns).sum();
        busiest.truncate(NAMED_MAX);
        let since = |device: &String, count: u64| {
            count.saturating_sub(self.counts.packets.get(device).copied().unwrap_or(0))
        };
        let packets = counts.packets.iter();
        let packets = packets.map(|(device, &count)| (device.clone(), since(device, count)));
        let steal_ticks = counts.steal_ticks.saturating_sub(self.counts.steal_ticks);
        Others {
            elapsed_ns: elapsed.as_nanos().try_into().unwrap_or(u64::MAX),
            cpu_ns,
            busiest,
            steal_ns: steal_ticks * TICK_NS,
            packets: packets.filter(|(_, count)| *count > 0).collect(),
            tcp_retransmitted: (counts.tcp_retransmitted)
                .saturating_sub(self.counts.tcp_retransmitted),
        }
    }
}

impl Others {
    /// The interval.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns)
    }

    /// Share of one CPU, in percent.
    pub fn percent(&self, cpu_ns: u64) -> f64 {
        cpu_ns as f64 * 100.0 / self.elapsed_ns.max(1) as f64
    }

    /// In a few words: CPU time of others, and who had most.
    pub fn words(&self) -> String {
        let most = self
            .busiest
            .first()
            .map_or(String::new(), |one| format!(", most of it {} (pid {})", one.comm, one.pid));
        let steal = match self.steal_ns {
            0 => String::new(),
            ns => format!("; the host of this virtual machine took {:.0} %", self.percent(ns)),
        };
        format!("others had {:.0} % of a CPU{most}{steal}", self.percent(self.cpu_ns))
    }
}

impl Counts {
    fn now() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let counts = Self::parse(&text("/proc/stat"), &text("/proc/net/dev"));
        Self { tcp_retransmitted: HostTraffic::now().retransmitted, ..counts }
    }

    fn parse(stat: &str, devices: &str) -> Self {
        let steal =
            stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
        let packets = devices.lines().filter_map(|line| {
            let (name, counts) = line.split_once(':')?;
            let counts: Vec<u64> =
                counts.split_whitespace().map_while(|word| word.parse().ok()).collect();
            // The second field is of packets received, the tenth of packets sent.
            Some((name.trim().to_owned(), counts.get(1)? + counts.get(9)?))
        });
        Self { steal_ticks: steal.unwrap_or(0), packets: packets.collect(), tcp_retransmitted: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn counts_are_read_from_what_the_kernel_writes() {
        let counts = Counts::parse(
            "cpu  10 20 30 40 50 60 70 80 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n",
            "Inter-|   Receive\n face |bytes\n    lo: 900 5 0 0 0 0 0 0 900 7 0 0 0 0 0 0\n",
        );
        assert_eq!(counts.steal_ticks, 80);
        assert_eq!(counts.packets, BTreeMap::from([("lo".to_owned(), 12)]));
    }

    #[test]
    fn a_program_that_this_one_started_is_no_other() {
        let watch = Watch::begin();
        let mut hog = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()
            .expect("there is a shell");
        let until = Instant::now() + Duration::from_secs(20);
        let used = |pid: u32| {
            Processes::now()
                .others_since(&Processes::default(), 1_000_000_000)
                .into_iter()
                .find(|one| one.pid == pid)
        };
        while used(hog.id()).is_none_or(|one| one.cpu_ns < 100_000_000) {
            assert!(Instant::now() < until, "it gets no CPU time");
            std::thread::sleep(Duration::from_millis(10));
        }
        let others = watch.end();
        hog.kill().expect("it runs");
        hog.wait().expect("it was started");
        assert!(others.busiest.iter().all(|one| one.pid != hog.id()), "{others:?}");
        assert!(others.elapsed() >= Duration::from_millis(50));
    }

    #[test]
    fn words_say_who_had_most() {
        let busy = |pid, comm: &str, cpu_ns| Busy { pid, comm: comm.to_owned(), cpu_ns };
        let others = Others {
            elapsed_ns: 1_000_000_000,
            cpu_ns: 500_000_000,
            busiest: vec![busy(7, "cc1", 400_000_000), busy(8, "make", 100_000_000)],
            ..Others::default()
        };
        assert_eq!(others.words(), "others had 50 % of a CPU, most of it cc1 (pid 7)");
        let stolen = Others { steal_ns: 30_000_000, ..others };
        assert!(stolen.words().ends_with("; the host of this virtual machine took 3 %"));
    }
}
