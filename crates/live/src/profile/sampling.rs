//! Samples of a command and of all that it starts: where each CPU is, so many times a second.

use std::collections::HashMap;
use std::io;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};

use super::error::ProfileError;
use super::symbols::Symbols;

/// Time between two looks into the buffers.
const READ_EVERY: Duration = Duration::from_millis(10);
/// Octets of samples that wait to be read, of each CPU.
const BUFFER_BYTES: usize = 1 << 20;
/// `PERF_RECORD_MISC_CPUMODE_MASK` and `PERF_RECORD_MISC_KERNEL` of include/uapi/linux/perf_event.h.
const MODE_MASK: u16 = 7;
const MODE_KERNEL: u16 = 1;
/// Greater entries of a call chain are marks, not addresses (`PERF_CONTEXT_MAX` of the same file).
const CONTEXT_MAX: u64 = 4096_u64.wrapping_neg();
/// The mark after which a chain goes on in user space (`PERF_CONTEXT_USER`).
const CONTEXT_USER: u64 = 512_u64.wrapping_neg();

/// One place of a program: the addresses of its kernel functions, the innermost one first. None: it was in user space.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(super) pid: u32,
    pub(super) kernel: Vec<u64>,
}

/// Counts of samples.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(super) places: HashMap<Place, u64>,
    /// Names of processes, by number: the last one counts.
    pub(super) names: HashMap<u32, String>,
    /// Samples that found no room.
    pub(super) missed: u64,
}

/// Samplers of all CPUs.
pub(crate) struct Sampling {
    cpus: Vec<Sampler>,
}

impl Sampling {
    /// Of the processes that this thread starts from now on. Sampling begins with the `exec` of each.
    ///
    /// # Errors
    ///
    /// When the kernel refuses it, for lack of rights as a rule.
    pub(crate) fn of_children(frequency_hz: u64) -> Result<Self, ProfileError> {
        let samplers = online_cpus().map(|cpu| sampler(cpu, frequency_hz, Scope::Children));
        let cpus = samplers.collect::<io::Result<_>>().map_err(ProfileError::Refused)?;
        Ok(Self { cpus })
    }

    /// Of this thread, from now on.
    ///
    /// # Errors
    ///
    /// As [`Sampling::of_children`].
    pub(crate) fn of_this_thread(frequency_hz: u64) -> Result<Self, ProfileError> {
        let samplers = online_cpus().map(|cpu| sampler(cpu, frequency_hz, Scope::Thread));
        let cpus = samplers.collect::<io::Result<_>>().map_err(ProfileError::Refused)?;
        Ok(Self { cpus })
    }

    /// Of all that runs on a CPU, from now on. The timer runs through, while that of a process is set anew whenever the
    /// process gets the CPU, which costs as much as a sample.
    ///
    /// # Errors
    ///
    /// As [`Sampling::of_children`].
    pub(crate) fn of_cpu(cpu: usize, frequency_hz: u64) -> Result<Self, ProfileError> {
        let sampler = sampler(cpu, frequency_hz, Scope::Cpu).map_err(ProfileError::Refused)?;
        Ok(Self { cpus: vec![sampler] })
    }

    /// Reads the samples that wait in the buffers.
    pub(crate) fn read(&mut self, samples: &mut Samples) {
        for sampler in &mut self.cpus {
            while let Some(record) = sampler.next_record() {
                let is_kernel = record.misc() & MODE_MASK == MODE_KERNEL;
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => {
                        let chain = if is_kernel { sample.callchain() } else { None };
                        let chain = chain.unwrap_or_default().iter().copied();
                        let kernel = chain.take_while(|&address| address != CONTEXT_USER);
                        let kernel = kernel.filter(|&address| address < CONTEXT_MAX).collect();
                        let place = Place { pid: sample.pid().unwrap_or(0), kernel };
                        *samples.places.entry(place).or_default() += 1;
                    }
                    Ok(Record::Comm(comm)) => {
                        let name = String::from_utf8_lossy(&comm.comm).into_owned();
                        samples.names.insert(comm.pid, name);
                    }
                    // A process has its parent's name until it executes another program.
                    Ok(Record::Fork(fork)) if fork.pid != fork.ppid => {
                        let name = samples.names.get(&fork.ppid).cloned();
                        samples.names.extend(name.map(|name| (fork.pid, name)));
                    }
                    Ok(Record::Lost(lost)) => samples.missed += lost.lost,
                    Ok(Record::LostSamples(lost)) => samples.missed += lost.lost,
                    _ => {}
                }
            }
        }
    }
}

/// CPUs that are there, by number.
fn online_cpus() -> impl Iterator<Item = usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or("0".to_owned());
    let ranges: Vec<(usize, usize)> = text.trim().split(',').filter_map(range).collect();
    ranges.into_iter().flat_map(|(first, last)| first..=last)
}

fn range(text: &str) -> Option<(usize, usize)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// The source of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Thread,
    Children,
    Cpu,
}

fn sampler(cpu: usize, frequency_hz: u64, scope: Scope) -> io::Result<Sampler> {
    let mut builder = Builder::new(Software::CPU_CLOCK);
    builder
        .one_cpu(cpu)
        .include_kernel()
        .sample_frequency(frequency_hz)
        .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::CALLCHAIN);
    match scope {
        Scope::Children => {
            builder.inherit(true).enable_on_exec(true).task(true).comm(true).comm_exec(true);
        }
        Scope::Thread => drop(builder.enabled(true)),
        Scope::Cpu => drop(builder.any_pid().enabled(true)),
    }
    builder.build()?.sampled(BUFFER_BYTES)
}

impl Samples {
    /// Those of these processes.
    pub(crate) fn of_processes(mut self, pids: &[u32]) -> Self {
        self.places.retain(|place, _| pids.contains(&place.pid));
        self
    }

    /// Those of a process, and of every other one where the kernel was in one of these functions.
    pub(crate) fn of_process_or_in(
        mut self,
        pid: u32,
        functions: &[&str],
        symbols: &Symbols,
    ) -> Self {
        let is_in = |address: &u64| functions.contains(&symbols.name(*address));
        self.places.retain(|place, _| place.pid == pid || place.kernel.iter().any(is_in));
        self
    }

    /// Their number.
    pub(crate) fn count(&self) -> u64 {
        self.places.values().sum()
    }

    /// Adds those of another run.
    pub(crate) fn add(&mut self, other: Self) {
        for (place, count) in other.places {
            *self.places.entry(place).or_default() += count;
        }
        self.names.extend(other.names);
        self.missed += other.missed;
    }
}

/// A thread that reads samples until it is ended.
pub(crate) struct Reading {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Samples>,
}

impl Reading {
    /// # Errors
    ///
    /// When there is no thread for it.
    pub(crate) fn begin(mut sampling: Sampling) -> Result<Self, ProfileError> {
        let is_over = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&is_over);
        let read = move || {
            let mut samples = Samples::default();
            loop {
                // One that is alone with its flag has no owner any more.
                let is_over =
                    of_thread.load(Ordering::Acquire) || Arc::strong_count(&of_thread) == 1;
                sampling.read(&mut samples);
                if is_over {
                    return samples;
                }
                std::thread::sleep(READ_EVERY);
            }
        };
        let thread = std::thread::Builder::new().spawn(read).map_err(ProfileError::Command)?;
        Ok(Self { is_over, thread })
    }

    /// All samples up to now.
    pub(crate) fn end(self) -> Samples {
        self.is_over.store(true, Ordering::Release);
        // The thread reported its panic.
        self.thread.join().unwrap_or_default()
    }
}

/// Starts the command under samplers, and reads them until it ends or `is_stopped` says so; a child that is not waited
/// for runs on.
pub(super) fn run(
    command: &mut Command,
    frequency_hz: u64,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(Samples, Child), ProfileError> {
    let mut sampling = Sampling::of_children(frequency_hz)?;
    let mut child = command.spawn().map_err(ProfileError::Command)?;
    let mut samples = Samples::default();
    loop {
        let is_over = child.try_wait().map_err(ProfileError::Command)?.is_some() || is_stopped();
        sampling.read(&mut samples);
        if is_over {
            return Ok((samples, child));
        }
        std::thread::sleep(READ_EVERY);
    }
}
