//! The process scheduler of 4.3BSD: decaying priorities, quantum, and the boost of sleepers.
//!
//! S. J. Leffler et al., "The Design and Implementation of the 4.3BSD UNIX Operating System", §4.4.
//! A lower number is a better priority. A process that used the CPU has a worse priority, which
//! recovers each second; one that wakes in the kernel runs at its sleep priority, which beats all
//! user processes, until it returns to user mode.
//!
//! Times are nanoseconds. Clock ticks, the decay of each second and the load average are computed
//! on demand: a host without processes costs nothing.

use std::collections::VecDeque;

/// The clock ticks every 10 ms (`hz` = 100).
pub const TICK_NS: u64 = 10_000_000;

/// A process that runs has to let others run after 100 ms (`roundrobin`).
pub const QUANTUM_NS: u64 = 100_000_000;

/// Best priority in user mode (`PUSER`); lower numbers are kernel priorities.
pub const PUSER: u8 = 50;

/// Priority of a process that waits for a socket (`PZERO + 1`).
pub const PSOCK: u8 = 26;

/// Priority of a process that waits for a time (`PSLEP`).
pub const PSLEP: u8 = 40;

const SECOND_NS: u64 = 1_000_000_000;
const LOAD_SECONDS: u64 = 5;
/// exp(-5/60): weight of the old load average after five seconds.
const LOAD_KEEP: f64 = 0.920_044_414_629_323_2;
const CPU_MAX: u32 = 255;
const PRIORITY_MAX: u32 = 127;
const QUEUES: usize = 32;
/// After so many seconds without a process that wants the CPU, all is decayed to nothing.
const FORGET_SECONDS: u64 = 1000;

/// A process's number on its host.
pub type ProcessIndex = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Asleep,
    Gone,
}

#[derive(Debug)]
struct Entry {
    state: State,
    nice: u8,
    /// `p_cpu`, in ticks.
    cpu: u32,
    /// `p_pri`: its place in the queues.
    priority: u8,
    /// `p_slptime`, in seconds.
    asleep_seconds: u64,
}

/// One host's scheduler.
#[derive(Debug)]
pub struct Scheduler {
    entries: Vec<Entry>,
    queues: [VecDeque<ProcessIndex>; QUEUES],
    /// Bit i: queue i is not empty (`whichqs`).
    occupied: u32,
    running: Option<ProcessIndex>,
    /// Someone else may have to run (`runrun`).
    reschedule: bool,
    load: f64,
    /// All processes are equal.
    is_round_robin: bool,
    /// The age of the host's clock at time 0, in nanoseconds: at any phase of a tick.
    since_ns: u64,
    /// Everything up to here is accounted for, counted from that first tick.
    until_ns: u64,
}

impl Entry {
    /// `setpri`: 50 and one for each four ticks used.
    fn user_priority(&self) -> u8 {
        (u32::from(PUSER) + self.cpu / 4 + 2 * u32::from(self.nice)).min(PRIORITY_MAX) as u8
    }

    fn decay(&mut self, factor: f64) {
        let decayed = (f64::from(self.cpu) * factor) as u32 + u32::from(self.nice);
        self.cpu = decayed.min(CPU_MAX);
    }
}

impl Scheduler {
    /// The scheduler of a host whose clock ticked so many nanoseconds before time 0.
    pub fn new(since_ns: u64) -> Self {
        Self {
            since_ns,
            entries: Vec::new(),
            queues: Default::default(),
            occupied: 0,
            running: None,
            reschedule: false,
            load: 0.0,
            is_round_robin: false,
            until_ns: since_ns,
        }
    }

    /// Another scheduler, to compare with: all processes are equal, with any use of the CPU and any
    /// wait before, and take turns of a quantum.
    pub fn round_robin(since_ns: u64) -> Self {
        Self { is_round_robin: true, ..Self::new(since_ns) }
    }

    /// A new process, asleep; woken, it begins at user priority.
    pub fn spawn(&mut self, nice: u8) -> ProcessIndex {
        let state = State::Asleep;
        let mut entry = Entry { state, nice, cpu: 0, priority: PUSER, asleep_seconds: 0 };
        entry.priority = entry.user_priority();
        self.entries.push(entry);
        self.entries.len() - 1
    }

    /// The running process sleeps at this priority.
    pub fn sleep(&mut self, now_ns: u64, priority: u8) {
        self.catch_up(now_ns);
        if let Some(process) = self.running.take() {
            let entry = &mut self.entries[process];
            entry.state = State::Asleep;
            entry.priority = priority;
            entry.asleep_seconds = 0;
        }
    }

    /// The running process ends.
    pub fn exit(&mut self, now_ns: u64) {
        self.catch_up(now_ns);
        if let Some(process) = self.running.take() {
            self.entries[process].state = State::Gone;
        }
    }

    /// `wakeup`: a sleeping process becomes ready at its sleep priority. `false` if it was not
    /// asleep.
    pub fn wakeup(&mut self, now_ns: u64, process: ProcessIndex) -> bool {
        if self.entries[process].state != State::Asleep {
            return false;
        }
        self.catch_up(now_ns);
        let factor = self.decay_factor();
        let entry = &mut self.entries[process];
        // updatepri: the decays that schedcpu left out while it slept.
        for _ in 1..entry.asleep_seconds.min(FORGET_SECONDS) {
            entry.decay(factor);
        }
        entry.asleep_seconds = 0;
        self.enqueue(process);
        self.reschedule |= !self.is_round_robin;
        true
    }

    /// `swtch`: the best process that is ready gets the CPU; the one before must have given it up.
    pub fn pick(&mut self, now_ns: u64) -> Option<ProcessIndex> {
        self.catch_up(now_ns);
        debug_assert!(self.running.is_none(), "the CPU is taken");
        let best = self.occupied.trailing_zeros() as usize;
        let process = self.queues.get_mut(best)?.pop_front()?;
        if self.queues[best].is_empty() {
            self.occupied &= !(1 << best);
        }
        assert_eq!(self.entries[process].state, State::Waiting, "process {process} is queued");
        self.entries[process].state = State::Running;
        self.running = Some(process);
        self.reschedule = false;
        Some(process)
    }

    /// The running process gives the CPU up but stays ready, at its user priority.
    pub fn give_up(&mut self, now_ns: u64) {
        self.catch_up(now_ns);
        if let Some(process) = self.running.take() {
            self.entries[process].priority = self.entries[process].user_priority();
            self.enqueue(process);
        }
    }

    /// Whether another process may have to run, which counts at the next return to user mode.
    pub fn must_reschedule(&self) -> bool {
        self.reschedule && self.occupied != 0
    }

    /// The process that has the CPU.
    pub fn running(&self) -> Option<ProcessIndex> {
        self.running
    }

    /// Whether a process waits for the CPU.
    pub fn somebody_waits(&self) -> bool {
        self.occupied != 0
    }

    /// `roundrobin`: the quantum is over. Called each [`QUANTUM_NS`] while a process waits.
    pub fn quantum_over(&mut self) {
        self.reschedule = true;
    }

    /// The load average over about a minute.
    pub fn load(&self) -> f64 {
        self.load
    }

    fn enqueue(&mut self, process: ProcessIndex) {
        let entry = &mut self.entries[process];
        entry.state = State::Waiting;
        debug_assert!(
            entry.cpu <= CPU_MAX && u32::from(entry.priority) <= PRIORITY_MAX,
            "{entry:?}"
        );
        let priority = if self.is_round_robin { PUSER } else { entry.priority };
        let queue = usize::from(priority / 4);
        debug_assert!(!self.queues[queue].contains(&process), "process {process} waits twice");
        self.queues[queue].push_back(process);
        self.occupied |= 1 << queue;
    }

    /// Accounts for ticks, seconds and load samples up to `now_ns`.
    pub fn catch_up(&mut self, now_ns: u64) {
        let now_ns = now_ns + self.since_ns;
        loop {
            let second_ns = (self.until_ns / SECOND_NS + 1) * SECOND_NS;
            if second_ns > now_ns {
                break;
            }
            if self.skip_idle(now_ns) {
                break;
            }
            self.charge_ticks(second_ns);
            self.second_passed(second_ns / SECOND_NS);
        }
        self.charge_ticks(now_ns);
    }

    /// Where no process wanted the CPU for long, there is nothing left to decay.
    fn skip_idle(&mut self, now_ns: u64) -> bool {
        let seconds = now_ns / SECOND_NS - self.until_ns / SECOND_NS;
        if self.running.is_some() || self.occupied != 0 || seconds <= FORGET_SECONDS {
            return false;
        }
        for entry in &mut self.entries {
            entry.asleep_seconds += seconds;
            entry.cpu = 0;
        }
        self.load = 0.0;
        self.until_ns = now_ns;
        true
    }

    /// The running process pays for the ticks since the last account, interrupts included.
    fn charge_ticks(&mut self, until_ns: u64) {
        if until_ns <= self.until_ns {
            return;
        }
        if let Some(process) = self.running {
            let ticks = until_ns / TICK_NS - self.until_ns / TICK_NS;
            let entry = &mut self.entries[process];
            entry.cpu = entry.cpu.saturating_add(ticks as u32).min(CPU_MAX);
        }
        self.until_ns = until_ns;
    }

    /// `schedcpu`, and every five seconds `loadav`.
    fn second_passed(&mut self, second: u64) {
        if second.is_multiple_of(LOAD_SECONDS) {
            let ready = |entry: &&Entry| matches!(entry.state, State::Waiting | State::Running);
            let count = self.entries.iter().filter(ready).count() as f64;
            self.load = self.load * LOAD_KEEP + count * (1.0 - LOAD_KEEP);
        }
        let factor = self.decay_factor();
        for process in 0..self.entries.len() {
            let entry = &mut self.entries[process];
            match entry.state {
                State::Gone => continue,
                State::Asleep => entry.asleep_seconds += 1,
                State::Waiting | State::Running => {}
            }
            if entry.asleep_seconds > 1 {
                continue;
            }
            entry.decay(factor);
            self.requeue(process);
        }
    }

    /// A ready process at user priority moves when its priority has changed enough.
    fn requeue(&mut self, process: ProcessIndex) {
        let entry = &mut self.entries[process];
        if entry.state != State::Waiting || entry.priority < PUSER || self.is_round_robin {
            return;
        }
        let (old, new) = (usize::from(entry.priority / 4), usize::from(entry.user_priority() / 4));
        entry.priority = entry.user_priority();
        if old != new {
            self.queues[old].retain(|waiting| *waiting != process);
            if self.queues[old].is_empty() {
                self.occupied &= !(1 << old);
            }
            self.enqueue(process);
        }
    }

    /// 2L / (2L + 1).
    fn decay_factor(&self) -> f64 {
        2.0 * self.load / (2.0 * self.load + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Scheduler {
        /// Recent CPU use of a process in ticks (`p_cpu`), 0 to 255.
        fn recent_cpu(&self, process: ProcessIndex) -> u32 {
            self.entries[process].cpu
        }
    }

    const MS: u64 = 1_000_000;

    fn start(scheduler: &mut Scheduler, now_ns: u64, nice: u8) -> ProcessIndex {
        let process = scheduler.spawn(nice);
        assert!(scheduler.wakeup(now_ns, process));
        process
    }

    /// Runs `hogs` processes that only compute, with the quantum, for `seconds`.
    fn run_hogs(scheduler: &mut Scheduler, hogs: usize, seconds: u64) {
        for _ in 0..hogs {
            start(scheduler, 0, 0);
        }
        scheduler.pick(0);
        for quantum in 1..=seconds * 10 {
            scheduler.quantum_over();
            let now_ns = quantum * QUANTUM_NS;
            if scheduler.must_reschedule() {
                scheduler.give_up(now_ns);
                scheduler.pick(now_ns);
            }
        }
    }

    #[test]
    fn four_that_compute_settle_between_200_and_225_ticks() {
        let mut scheduler = Scheduler::new(0);
        run_hogs(&mut scheduler, 4, 600);
        scheduler.catch_up(600 * SECOND_NS);
        for process in 0..4 {
            let cpu = scheduler.recent_cpu(process);
            assert!((190..=230).contains(&cpu), "process {process}: {cpu}");
        }
        assert!((scheduler.load() - 4.0).abs() < 0.01, "{}", scheduler.load());
    }

    #[test]
    fn one_alone_swings_between_170_and_255_ticks() {
        let mut scheduler = Scheduler::new(0);
        run_hogs(&mut scheduler, 1, 600);
        scheduler.catch_up(600 * SECOND_NS);
        let after = scheduler.recent_cpu(0);
        scheduler.catch_up(601 * SECOND_NS - 1);
        assert_eq!((after, scheduler.recent_cpu(0)), (169, 255));
    }

    /// The clock began 3 ms before time 0, so that it ticks at 7, 17 and 27 ms.
    #[test]
    fn use_of_the_cpu_rises_when_the_host_s_own_clock_ticks() {
        let mut scheduler = Scheduler::new(3 * MS);
        let process = start(&mut scheduler, 0, 0);
        scheduler.pick(0);
        let mut used = |now_ns| {
            scheduler.catch_up(now_ns);
            scheduler.recent_cpu(process)
        };
        let times_ns = [7 * MS - 1, 7 * MS, 10 * MS, 17 * MS - 1, 17 * MS, 27 * MS];
        assert_eq!(times_ns.map(&mut used), [0, 1, 1, 1, 2, 3]);
    }

    #[test]
    fn who_wakes_from_a_socket_beats_all_user_processes() {
        let mut scheduler = Scheduler::new(0);
        let sleeper = start(&mut scheduler, 0, 0);
        assert_eq!(scheduler.pick(0), Some(sleeper));
        scheduler.sleep(MS, PSOCK);
        let hogs = [start(&mut scheduler, MS, 0), start(&mut scheduler, MS, 0)];
        assert_eq!(scheduler.pick(MS), Some(hogs[0]));
        assert!(scheduler.wakeup(2 * MS, sleeper));
        assert!(!scheduler.wakeup(2 * MS, sleeper), "awake already");
        assert!(scheduler.must_reschedule());
        scheduler.give_up(3 * MS);
        assert_eq!(scheduler.pick(3 * MS), Some(sleeper));
        // Back in user mode all three are equal again, and it is the last one.
        scheduler.give_up(4 * MS);
        assert_eq!(scheduler.pick(4 * MS), Some(hogs[1]));
    }

    #[test]
    fn round_robin_lets_nobody_pass() {
        let mut scheduler = Scheduler::round_robin(0);
        let sleeper = start(&mut scheduler, 0, 0);
        assert_eq!(scheduler.pick(0), Some(sleeper));
        scheduler.sleep(MS, PSOCK);
        let hogs = [start(&mut scheduler, MS, 0), start(&mut scheduler, MS, 0)];
        assert_eq!(scheduler.pick(MS), Some(hogs[0]));
        assert!(scheduler.wakeup(2 * MS, sleeper));
        assert!(!scheduler.must_reschedule(), "the quantum is not over");
        // Two seconds of use make no process worse.
        for (second, next) in [(1, hogs[1]), (2, sleeper), (3, hogs[0])] {
            scheduler.quantum_over();
            assert!(scheduler.must_reschedule());
            scheduler.give_up(second * SECOND_NS);
            assert_eq!(scheduler.pick(second * SECOND_NS), Some(next));
        }
    }

    #[test]
    fn equal_processes_take_turns_of_a_quantum() {
        let mut scheduler = Scheduler::new(0);
        let processes =
            [start(&mut scheduler, 0, 0), start(&mut scheduler, 0, 0), start(&mut scheduler, 0, 0)];
        let mut order = Vec::new();
        for turn in 0..6 {
            order.extend(scheduler.pick(turn * QUANTUM_NS));
            scheduler.quantum_over();
            scheduler.give_up((turn + 1) * QUANTUM_NS);
        }
        let [a, b, c] = processes;
        assert_eq!(order, [a, b, c, a, b, c]);
    }

    #[test]
    fn a_nice_process_waits_for_the_others() {
        let mut scheduler = Scheduler::new(0);
        let nice = start(&mut scheduler, 0, 4);
        let plain = start(&mut scheduler, 0, 0);
        assert_eq!(scheduler.pick(0), Some(plain));
        scheduler.give_up(MS);
        assert_eq!(scheduler.pick(MS), Some(plain));
        scheduler.exit(2 * MS);
        assert_eq!(scheduler.pick(2 * MS), Some(nice));
    }

    #[test]
    fn a_long_sleep_is_accounted_for_without_counting_its_seconds() {
        let mut scheduler = Scheduler::new(0);
        run_hogs(&mut scheduler, 1, 30);
        let now_ns = 30 * SECOND_NS;
        scheduler.sleep(now_ns, PSLEP);
        let later_ns = now_ns + 1_000_000_000 * SECOND_NS;
        assert!(scheduler.wakeup(later_ns, 0));
        assert_eq!((scheduler.recent_cpu(0), scheduler.load()), (0, 0.0));
        assert_eq!(scheduler.pick(later_ns), Some(0));
    }
}
