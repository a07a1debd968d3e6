//! Samples of a command and of all that it starts: where each CPU is, so many times a second.

use std::collections::HashMap;
use std::io;
use std::process::{Child, Command};
use std::time::Duration;

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};

use super::error::ProfileError;

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
pub(super) struct Place {
    pub(super) pid: u32,
    pub(super) kernel: Vec<u64>,
}

/// Counts of samples.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) places: HashMap<Place, u64>,
    /// Names of processes, by number: the last one counts.
    pub(super) names: HashMap<u32, String>,
    /// Samples that found no room.
    pub(super) missed: u64,
}

/// Samplers of all CPUs.
pub(super) struct Sampling {
    cpus: Vec<Sampler>,
}

impl Sampling {
    /// Of the processes that this thread starts from now on. Sampling begins with the `exec` of each.
    ///
    /// # Errors
    ///
    /// When the kernel refuses it, for lack of rights as a rule.
    pub(super) fn of_children(frequency_hz: u64) -> Result<Self, ProfileError> {
        let samplers = online_cpus().map(|cpu| sampler(cpu, frequency_hz, true));
        let cpus = samplers.collect::<io::Result<_>>().map_err(ProfileError::Refused)?;
        Ok(Self { cpus })
    }

    /// Of this thread, from now on.
    ///
    /// # Errors
    ///
    /// As [`Sampling::of_children`].
    pub(super) fn of_this_thread(frequency_hz: u64) -> Result<Self, ProfileError> {
        let samplers = online_cpus().map(|cpu| sampler(cpu, frequency_hz, false));
        let cpus = samplers.collect::<io::Result<_>>().map_err(ProfileError::Refused)?;
        Ok(Self { cpus })
    }

    /// Reads the samples that wait in the buffers.
    pub(super) fn read(&mut self, samples: &mut Samples) {
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

fn sampler(cpu: usize, frequency_hz: u64, is_inherited: bool) -> io::Result<Sampler> {
    let mut builder = Builder::new(Software::CPU_CLOCK);
    builder
        .one_cpu(cpu)
        .include_kernel()
        .sample_frequency(frequency_hz)
        .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::CALLCHAIN);
    if is_inherited {
        builder.inherit(true).enable_on_exec(true).task(true).comm(true).comm_exec(true);
    } else {
        builder.enabled(true);
    }
    builder.build()?.sampled(BUFFER_BYTES)
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
        std::thread::sleep(Duration::from_millis(10));
    }
}
