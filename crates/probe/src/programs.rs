//! The BPF object: opened, settings written, loaded, attached by the table of hooks.

#[cfg(test)]
mod listeners;
#[cfg(test)]
mod sampled;
#[cfg(test)]
mod slots;
#[cfg(test)]
mod verified;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use libbpf_rs::{Iter, Link, Object, ProgramInput, RingBuffer, RingBufferBuilder, libbpf_sys};
use sockscope_record::{LossCounts, Point, counted};

use crate::backlog::{Backlog, Positions, Ring};
use crate::cgroup::Cgroup;
use crate::error::Error;
use crate::hooks::{HOOKS, HookEntry, Kernel, When};
use crate::layout::{Plain, RawEvent, RawOption, plain};
use crate::lists::{Lists, Shape};
use crate::object::{self, one_line};
use crate::pick::Pick;
use crate::rights;
use crate::sample::Share;

/// Ages of connections count in units of 2 to the power of this, in nanoseconds (`bpf/state.h`).
const TICK_SHIFT: u32 = 20;

/// Reads of one pass over all open files, at most.
const READS_MAX: u32 = 1_000;

/// The state of one line of the table of hooks.
#[derive(Debug, Clone)]
pub struct HookReport {
    /// The line.
    pub entry: HookEntry,
    /// Attached now, or run by the recorder.
    pub used: bool,
    /// Why not, if it should be; empty otherwise.
    pub problem: String,
    /// Hooks that are used in its place.
    pub stand_ins: Vec<&'static str>,
}

impl HookReport {
    /// Why others serve in its place, and which; `None` when none does.
    pub fn replacement(&self) -> Option<String> {
        let stand_ins = self.stand_ins.join(", ");
        (!stand_ins.is_empty()).then(|| format!("{}; in its place: {stand_ins}", self.problem))
    }
}

/// Loaded programs and their links. Dropping it detaches everything.
pub(crate) struct Programs {
    object: Object,
    links: BTreeMap<&'static str, Link>,
    problems: BTreeMap<&'static str, String>,
    /// Replacements of programs whose own hook this kernel has, and programs of benchmarks elsewhere.
    unneeded: Vec<&'static str>,
    /// Descriptors of the loaded programs whose missed hits the kernel counts, with their points. They are as valid as
    /// the object.
    counted: Vec<(RawFd, Option<Point>)>,
    shape: Shape,
}

impl Programs {
    /// Loads everything that the running kernel has; attaches nothing yet.
    pub(crate) fn load(pick: &Pick, shape: Shape) -> Result<Self, Error> {
        if let Some(right) = rights::missing() {
            return Err(Error::NoRight { right });
        }
        silence();
        let kernel = Kernel::running().ok_or(Error::NoKernelSupport {
            what: "BTF (/sys/kernel/btf/vmlinux)",
            instead: "use one built with CONFIG_DEBUG_INFO_BTF",
        })?;
        let reads = kernel.reads().ok_or(Error::NoKernelSupport {
            what: "list of a control group's ancestors",
            instead: "Linux 6.1 or later is needed to record; everything else works",
        })?;
        let mut problems: BTreeMap<_, _> =
            HOOKS.iter().filter(|entry| !kernel.has(entry)).map(absent).collect();
        let is_needed = |entry: &HookEntry| {
            kernel.needs(entry) && (entry.when != When::Benchmark || cfg!(feature = "bench"))
        };
        let unneeded: Vec<_> =
            HOOKS.iter().filter(|entry| !is_needed(entry)).map(|entry| entry.program).collect();
        let load = |problems: &BTreeMap<&str, String>| {
            object::load(object::open(reads)?, &shape, pick, |program| {
                !problems.contains_key(program) && !unneeded.contains(&program)
            })
        };
        let object = load(&problems).or_else(|error| {
            // A kernel may refuse programs at functions, and still take those at tracepoints.
            let stands_in = |entry: &&HookEntry| entry.instead_of.is_some() && kernel.needs(entry);
            let refused: Vec<_> = HOOKS
                .iter()
                .filter(stands_in)
                .map(|entry| entry.program)
                .filter(|program| !problems.contains_key(program))
                .collect();
            if refused.is_empty() {
                return Err(error);
            }
            let reason = error.to_string();
            problems.extend(refused.into_iter().map(|program| (program, reason.clone())));
            load(&problems)
        });
        let object = object?;
        let is_loaded = |name: &str| !problems.contains_key(name) && !unneeded.contains(&name);
        // Also of those that are detached later: a count never falls.
        let counted = HOOKS.iter().filter(|entry| entry.is_traced() && is_loaded(entry.program));
        let counted = counted
            .filter_map(|entry| {
                let program = object::program(&object, entry.program)?;
                Some((program.as_fd().as_raw_fd(), entry.points.last().copied()))
            })
            .collect();
        Ok(Self { object, links: BTreeMap::new(), problems, unneeded, counted, shape })
    }

    /// Attaches every program of this class that is loaded and not attached yet. [`Programs::report`] has the
    /// reason where the kernel refuses one.
    pub(crate) fn attach(&mut self, when: When) {
        for entry in HOOKS.iter().filter(|entry| entry.when == when) {
            if !self.is_loaded(entry) || self.links.contains_key(entry.program) {
                continue;
            }
            match attach(&self.object, entry) {
                Ok(link) => {
                    self.links.insert(entry.program, link);
                }
                Err(reason) => self.give_up(entry, &reason),
            }
        }
    }

    /// The program cannot be attached, and those that stand in together with it are of no use alone.
    fn give_up(&mut self, entry: &HookEntry, reason: &str) {
        let is_mate = |other: &&HookEntry| {
            other.program == entry.program
                || other.instead_of.is_some() && other.instead_of == entry.instead_of
        };
        for mate in HOOKS.iter().filter(is_mate) {
            self.links.remove(mate.program);
            self.problems.insert(mate.program, reason.to_owned());
        }
    }

    /// Whether a program of this class is attached.
    pub(crate) fn is_attached(&self, when: When) -> bool {
        HOOKS.iter().any(|entry| entry.when == when && self.links.contains_key(entry.program))
    }

    /// Detaches every program of this class.
    pub(crate) fn detach(&mut self, when: When) {
        for entry in HOOKS.iter().filter(|entry| entry.when == when) {
            self.links.remove(entry.program);
        }
    }

    fn is_loaded(&self, entry: &HookEntry) -> bool {
        !self.problems.contains_key(entry.program) && !self.unneeded.contains(&entry.program)
    }

    pub(crate) fn report(&self) -> Vec<HookReport> {
        let needed = HOOKS.iter().filter(|entry| !self.unneeded.contains(&entry.program));
        needed
            .map(|entry| HookReport {
                entry: *entry,
                used: self.links.contains_key(entry.program)
                    || matches!(entry.when, When::Run | When::Benchmark) && self.is_loaded(entry),
                problem: self.problems.get(entry.program).cloned().unwrap_or_default(),
                stand_ins: self.stand_ins(entry),
            })
            .collect()
    }

    /// Hooks whose programs replace the entry's.
    fn stand_ins(&self, entry: &HookEntry) -> Vec<&'static str> {
        let stands_in =
            |other: &&HookEntry| other.instead_of == Some(entry.program) && self.is_loaded(other);
        HOOKS.iter().filter(stands_in).map(|other| other.hook).collect()
    }

    pub(crate) fn lists(&self) -> Result<Lists, Error> {
        Lists::map(&object::map(&self.object, "lists")?, self.shape.clone()).map_err(|source| {
            Error::File { what: "cannot map", path: "the record lists".into(), source }
        })
    }

    /// How full these lists and the rings are.
    pub(crate) fn backlog(&self, lists: &Arc<Lists>) -> Result<Backlog, Error> {
        let map = |ring: Ring| {
            Positions::map(ring, &object::map(&self.object, ring.name())?).map_err(|source| {
                Error::File { what: "cannot map", path: ring.name().into(), source }
            })
        };
        let rings = Ring::ALL.into_iter().map(map).collect::<Result<_, _>>()?;
        Ok(Backlog::new(Arc::clone(lists), rings))
    }

    /// The rings of rare events and of options. Of one look at both the options are read first: then the
    /// event that announced their connection is among those read.
    pub(crate) fn events(
        &mut self,
        on_event: impl FnMut(&RawEvent) + 'static,
        on_option: impl FnMut(&RawOption) + 'static,
    ) -> Result<RingBuffer<'static>, Error> {
        let mut builder = RingBufferBuilder::new();
        let options = object::map(&self.object, Ring::Options.name())?;
        let events = object::map(&self.object, Ring::Events.name())?;
        builder.add(&options, reader(on_option)).map_err(|e| Error::Load(one_line(&e)))?;
        builder.add(&events, reader(on_event)).map_err(|e| Error::Load(one_line(&e)))?;
        builder.build().map_err(|e| Error::Load(one_line(&e)))
    }

    /// The counters of all programs.
    pub(crate) fn counters(&self) -> Result<Counters, Error> {
        object::counters(&self.object)
    }

    /// Records this part of the connections that open from now on.
    pub(crate) fn set_share(&self, share: Share) -> Result<(), Error> {
        object::set_share(&self.object, share)
    }

    /// One pass over all open files, joining connections that the pick chooses.
    pub(crate) fn join_existing(&mut self) -> Result<(), Error> {
        self.pass_over("existing", "iter/task_file")
    }

    /// One pass over all open files, which sends an event for each connection that is logged and open now.
    pub(crate) fn announce_open(&mut self) -> Result<(), Error> {
        self.pass_over("remaining", "iter/task_file")
    }

    /// One pass over all Unix sockets: those of now are older than the recording.
    pub(crate) fn note_existing_unix(&mut self) -> Result<(), Error> {
        self.pass_over("unix_existing", "iter/unix")
    }

    fn pass_over(&self, program: &str, hook: &'static str) -> Result<(), Error> {
        if self.problems.contains_key(program) {
            return Ok(());
        }
        let failed = |reason: String| Error::Attach { hook, reason };
        let program = object::program(&self.object, program)
            .ok_or_else(|| failed("no such program in the object".to_owned()))?;
        let link = program.attach().map_err(|e| failed(one_line(&e)))?;
        let mut iter = Iter::new(&link).map_err(|e| failed(one_line(&e)))?;
        run_to_end(&mut iter).map_err(|e| failed(e.to_string()))
    }

    /// The offset from the scheduler's clock to `CLOCK_MONOTONIC`, from one reading: too large
    /// by the time since this thread got its CPU.
    pub(crate) fn scheduler_offset_ns(&self) -> Option<i64> {
        let [now, arrival]: [u64; 2] = self.run_with("calibrate", [0; 4])?;
        (arrival > 0).then(|| now.cast_signed().wrapping_sub(arrival.cast_signed()))
    }

    /// Ends connections without a socket here after `idle_ns` without a packet, in some slots from
    /// one on; false where that is impossible.
    pub(crate) fn expire(&self, from: u32, slots: u32, idle_ns: u64) -> bool {
        let idle = u32::try_from(idle_ns >> TICK_SHIFT).unwrap_or(u32::MAX >> 1);
        self.run_with::<[u32; 4]>("expire", [from, slots, idle, 0]).is_some()
    }

    /// Appends `records` records of `flow` to this CPU's list, from sequence number `seq` on, and
    /// returns the number that fitted: the load of the benchmark.
    #[cfg(feature = "bench")]
    pub(crate) fn produce(&self, records: u32, flow: u32, seq: u32) -> u32 {
        self.run_with("produce", [records, flow, seq, 0]).map_or(0, |[.., done]: [u32; 4]| done)
    }

    /// Runs a program once with this context, which the kernel hands back as the program left it.
    fn run_with<T: Plain>(&self, program: &str, context: [u32; 4]) -> Option<T> {
        let mut context = context.map(u32::to_ne_bytes);
        let bytes = Some(context.as_flattened_mut());
        let input = ProgramInput { context_in: bytes, ..ProgramInput::default() };
        object::program(&self.object, program)?.test_run(input).ok()?;
        plain(context.as_flattened())
    }

    /// Hits and run time of each program, by name; the time does not advance while the kernel's
    /// statistics are off.
    pub(crate) fn costs(&self) -> BTreeMap<String, (u64, u64)> {
        self.object
            .progs()
            .filter_map(|program| {
                let info = program_info(program.as_fd().as_raw_fd())?;
                Some((program.name().to_string_lossy().into_owned(), (info.hits, info.run_ns)))
            })
            .collect()
    }

    /// Run time of all programs, also of those without a point.
    pub(crate) fn run_ns(&self) -> u64 {
        self.costs().values().map(|(_, run_ns)| run_ns).sum()
    }

    /// Hits so far for which the kernel did not run a program, as the same program was running on that CPU. A
    /// hit of several points counts at the last one, as a hit that finds its list full does.
    pub(crate) fn interrupted(&self) -> Result<LossCounts, Error> {
        let mut counts = LossCounts::default();
        for &(fd, point) in &self.counted {
            let info = program_info(fd).ok_or_else(|| Error::Uncounted {
                reason: io::Error::last_os_error().to_string(),
            })?;
            counts.add(point, info.recursion_misses);
        }
        Ok(counts)
    }
}

/// Hands the entries of a ring to `on_each`.
fn reader<T: Plain>(mut on_each: impl FnMut(&T)) -> impl FnMut(&[u8]) -> i32 {
    move |bytes| {
        plain(bytes).iter().for_each(&mut on_each);
        0
    }
}

/// The counters of the programs, other than the records.
pub(crate) use crate::layout::Counters;

impl Counters {
    /// The number of events, connections and sockets that found no memory.
    pub(crate) fn refused(&self) -> u64 {
        self.events_lost
            + self.options_missed
            + self.connections_refused
            + self.openings_missed
            + self.ambiguous
            + self.half_open_missed
            + self.listeners_refused
            + self.sockets_refused
    }

    /// The same of other users, whose share of the memory was full.
    pub(crate) fn refused_of_others(&self) -> u64 {
        self.others_events_refused + self.others_connections_refused + self.others_listeners_refused
    }

    /// A sentence for each of these counters that is not 0.
    pub(crate) fn notes(&self) -> Vec<String> {
        let counters = [
            (
                self.others_events_refused,
                "event",
                "of connections that other users asked for by SO_LOG, beyond their half of the ring of \
                 events, and counted as missed",
            ),
            (
                self.others_connections_refused,
                "connection",
                "that other users asked for by SO_LOG, beyond their quarter of the slots: not recorded, \
                 and counted as missed",
            ),
            (
                self.others_listeners_refused,
                "listening socket",
                "that other users asked for by SO_LOG, beyond their quarter of the room: not recorded, \
                 and counted as missed",
            ),
            (
                self.connections_refused,
                "connection",
                "not recorded, as too many were open at once, and counted as missed; pick fewer",
            ),
            (
                self.openings_missed,
                "packet",
                "that may have opened a connection, not recorded, as another one opened its own at \
                 that moment, and counted as missed",
            ),
            (
                self.ambiguous,
                "packet",
                "between network namespaces, not recorded, as connections in several of them have its \
                 addresses and ports, and counted as missed",
            ),
            (
                self.half_open_replaced,
                "TCP connection",
                "that had not opened gave way to later ones: what followed of them is not recorded",
            ),
            (
                self.half_open_missed,
                "TCP connection",
                "that gave way to later ones opened after that, and counted as missed",
            ),
            (
                self.listeners_refused,
                "listening socket",
                "not recorded, as too many were chosen, and counted as missed; pick by port",
            ),
            (
                self.sockets_refused,
                "arrival",
                "at a datagram socket for which there was no memory, and counted as missed",
            ),
            (
                self.open_untold,
                "socket",
                "open at the end, counted in each process that has it, found no room for its state: how \
                 long the bytes of such connections waited after the last packet is not known",
            ),
        ];
        let some = counters.into_iter().filter(|(count, ..)| *count > 0);
        some.map(|(count, what, text)| format!("{} {text}", counted(count, what))).collect()
    }
}

/// The reason why a program is not loaded whose hook the kernel lacks.
fn absent(entry: &HookEntry) -> (&'static str, String) {
    let is_function = ["fentry/", "fexit/"].iter().any(|kind| entry.hook.starts_with(kind));
    let reason = if is_function {
        "the kernel's own type information has no function of that name (a module's is not looked at)"
            .to_owned()
    } else {
        format!("not in this kernel; since Linux {}", entry.since)
    };
    (entry.program, reason)
}

fn attach(object: &Object, entry: &HookEntry) -> Result<Link, String> {
    let program = object::program(object, entry.program)
        .ok_or_else(|| "no such program in the object".to_owned())?;
    match entry.when {
        When::Control | When::InBand => {
            let path = Cgroup::hierarchy().map_err(|e| e.to_string())?;
            let dir = std::fs::File::open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            // At the root it runs for the sockets of all groups. A link leaves the programs of others there
            // (`BPF_F_ALLOW_MULTI` in `cgroup_bpf_link_attach()`).
            program.attach_cgroup(dir.as_raw_fd()).map_err(|e| one_line(&e))
        }
        _ => program.attach().map_err(|e| one_line(&e)),
    }
}

/// The kernel's counters of a program.
pub(crate) struct ProgramInfo {
    pub(crate) hits: u64,
    pub(crate) run_ns: u64,
    /// Hits for which it was not run: it was running on that CPU (`bpf_prog_inc_misses_counter()`).
    recursion_misses: u64,
    /// Instructions that the verifier went through.
    #[cfg(test)]
    verified: u32,
}

/// The kernel's counters of the program behind a descriptor.
pub(crate) fn program_info(fd: i32) -> Option<ProgramInfo> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // `ProgramInfo` of libbpf-rs reads the programs of the whole machine, not one by its descriptor.
    // SAFETY: `info` is a zeroed structure of the length given; the kernel fills at most that.
    let result =
        unsafe { libbpf_sys::bpf_obj_get_info_by_fd(fd, (&raw mut info).cast(), &raw mut len) };
    (result == 0).then_some(ProgramInfo {
        hits: info.run_cnt,
        run_ns: info.run_time_ns,
        recursion_misses: info.recursion_misses,
        #[cfg(test)]
        verified: info.verified_insns,
    })
}

/// The kernel's run-time statistics, on while this is held (Linux 5.8).
pub struct Statistics {
    _fd: OwnedFd,
}

impl Statistics {
    /// Turns them on; `None` when the kernel refuses.
    pub fn enable() -> Option<Self> {
        // libbpf-rs does not have this call.
        // SAFETY: a plain system call that makes a descriptor.
        let fd = unsafe { owned(libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME)) };
        Some(Self { _fd: fd.ok()? })
    }
}

/// The descriptor that a call of libbpf returned, or its error.
///
/// # Safety
/// Nothing else owns the descriptor.
pub(crate) unsafe fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads to the end from a program that writes nothing. One read covers a million objects at most,
/// and then reports that there may be more (`bpf_seq_read()`).
fn run_to_end(pass: &mut impl Read) -> io::Result<()> {
    let mut nothing = Vec::new();
    let mut reads = 0;
    loop {
        reads += 1;
        match pass.read_to_end(&mut nothing) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && reads < READS_MAX => {}
            done => return done.map(drop),
        }
    }
}

/// Keeps libbpf's messages from standard error; ours are sufficient.
fn silence() {
    libbpf_rs::set_print(None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::constants;

    /// Keeps this thread, and those that it starts, on one CPU; false where no CPU has that number.
    fn pin(cpu: usize) -> bool {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        rustix::thread::sched_setaffinity(None, &set).is_ok()
    }

    #[test]
    fn root_hits_on_a_cpu_that_came_up_after_the_start_are_counted() {
        use std::net::{TcpListener, TcpStream};
        // Lists for CPU 0 alone, as if the other had been down.
        if !rights::can_load() {
            return;
        }
        if !pin(1) {
            return rights::skip("this machine has one CPU");
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let pick = Pick { ports: vec![port], ..Pick::default() };
        let mut programs = Programs::load(&pick, Shape { cpus: vec![0], records: 1024 }).unwrap();
        programs.attach(When::Always);
        let lists = programs.lists().unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        for _ in 0..10 {
            io::Write::write_all(&mut client, b"question").unwrap();
            server.read_exact(&mut [0; 8]).unwrap();
        }
        let lost = lists.lost(0);
        for kind in [constants::RAW_WRITE, constants::RAW_TRANSMIT, constants::RAW_READY] {
            assert!(lost[usize::from(kind)] >= 10, "{lost:?}");
        }
        assert!(lost[usize::from(constants::RAW_COPY)] >= 10, "{lost:?}");
        assert_eq!(programs.counters().unwrap().unlisted, lost.iter().sum::<u64>());
        assert_eq!(lists.span(0), (0, 0));
    }

    #[test]
    fn root_a_cpu_has_its_list_whatever_its_number() {
        use std::net::{TcpListener, TcpStream};
        // A list for CPU 1 alone, as if the other had no number below it.
        if !rights::can_load() {
            return;
        }
        if !pin(1) {
            return rights::skip("the machine has one CPU");
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let pick = Pick { ports: vec![port], ..Pick::default() };
        let mut programs = Programs::load(&pick, Shape { cpus: vec![1], records: 1024 }).unwrap();
        programs.attach(When::Always);
        let lists = programs.lists().unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(lists.shape().cpus, [1]);
        assert!(lists.span(0).1 >= 3, "{:?}", lists.span(0));
    }

    /// Nothing of an earlier record is left in a place that is used again, not even in words without a field.
    #[test]
    fn root_every_word_of_a_record_is_written_by_its_hit() {
        use std::collections::BTreeMap;
        use std::net::{TcpListener, TcpStream, UdpSocket};
        if !rights::can_load() {
            return;
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let pick = Pick { ports: vec![address.port()], ..Pick::default() };
        let mut programs = Programs::load(&pick, Shape::of(None)).unwrap();
        for when in [When::Always, When::Datagrams, When::Devices, When::Calls, When::Unix] {
            programs.attach(when);
        }
        let lists = programs.lists().unwrap();
        lists.fill(0xaa);
        let mut client = TcpStream::connect(address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let reader = UdpSocket::bind(address).unwrap();
        let sender = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        for _ in 0..10 {
            io::Write::write_all(&mut client, b"question").unwrap();
            server.read_exact(&mut [0; 8]).unwrap();
            sender.send_to(b"question", address).unwrap();
            assert_eq!(reader.recv(&mut [0; 8]).unwrap(), 8);
        }
        drop(reader);
        // Refused: no socket has this port any more.
        sender.send_to(b"question", address).unwrap();
        let mut kinds = BTreeMap::new();
        for cpu in 0..lists.len() {
            let (first, after) = lists.span(cpu);
            for record in (first..after).map(|number| lists.read(cpu, number).unwrap()) {
                let record = record.any();
                let fields = format!("{record:?}");
                let octets = ["code: 170,", "tcp_flags: 170,", "marks: 170,"].map(str::to_owned);
                let words = [0xaaaa_aaaa, 0xaaaa_aaaa_aaaa_aaaa_u64].map(|word| word.to_string());
                let stale = octets.into_iter().chain(words).find(|stale| fields.contains(stale));
                assert_eq!(stale, None, "{fields}");
                let is_udp = record.marks & constants::MARK_UDP != 0;
                *kinds.entry((record.kind, is_udp)).or_insert(0) += 1;
            }
        }
        use constants::{
            RAW_CONGESTION, RAW_COPY, RAW_DROP, RAW_INPUT, RAW_READ_RETURN, RAW_READY, RAW_RECEIVE,
            RAW_TRANSMIT, RAW_WRITE, RAW_WRITE_RETURN,
        };
        let of_both = [RAW_TRANSMIT, RAW_INPUT, RAW_RECEIVE, RAW_READY, RAW_COPY];
        let of_streams = [RAW_WRITE, RAW_CONGESTION, RAW_WRITE_RETURN, RAW_READ_RETURN];
        let streams = of_both.iter().chain(&of_streams).map(|kind| (*kind, false));
        let datagrams = of_both.iter().chain(&[RAW_DROP]).map(|kind| (*kind, true));
        for kind in streams.chain(datagrams) {
            assert!(kinds.contains_key(&kind), "no hit of {kind:?}: {kinds:?}");
        }
    }

    #[test]
    fn a_function_that_may_be_in_a_module_is_not_said_to_come_with_a_later_kernel() {
        for entry in HOOKS {
            let (_, reason) = absent(entry);
            let is_function = entry.hook.starts_with('f');
            assert_eq!(reason.contains("no function of that name"), is_function, "{reason}");
            assert_eq!(reason.contains("since Linux"), !is_function, "{reason}");
        }
    }

    /// Has so many parts to go through, and then an end; writes nothing.
    struct Parts(u32);

    impl Read for Parts {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            match self.0 {
                0 => Ok(0),
                _ => {
                    self.0 -= 1;
                    Err(io::ErrorKind::WouldBlock.into())
                }
            }
        }
    }

    #[test]
    fn a_pass_over_more_files_than_one_read_goes_through_is_read_on() {
        let mut pass = Parts(3);
        run_to_end(&mut pass).unwrap();
        assert_eq!(pass.0, 0);
    }

    #[test]
    fn a_pass_without_end_is_given_up() {
        let error = run_to_end(&mut Parts(u32::MAX)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn sockets_whose_state_at_the_end_is_unknown_are_numbered_and_not_counted_as_missed() {
        let counters = Counters { open_untold: 3, ..Counters::default() };
        let notes = counters.notes();
        assert!(notes.len() == 1 && notes[0].starts_with("3 sockets open at the end"), "{notes:?}");
        assert_eq!(counters.refused(), 0);
    }
}
