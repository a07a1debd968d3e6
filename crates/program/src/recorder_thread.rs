//! A recorder in a thread of its own: the use of its records never delays it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sockscope_probe::{
    Backlog, Error, HookReport, Openings, Options, Pick, Priority, Recorder, Share, Sink, Thread,
};
use sockscope_record::{Connection, LossCounts, PointCost, Record};

use crate::failure::Failure;
use crate::give_way::{Guard, Pulses};

/// Messages that wait at most. While there are as many the recorder waits, and then misses records, which it counts.
const MESSAGES_MAX: usize = 4_096;
/// For taking the last records at the end.
const DRAIN_DEADLINE: Duration = Duration::from_secs(1);
/// Between two questions for the run time of the probes.
const COSTS_EVERY: Duration = Duration::from_millis(500);

/// From the recorder.
#[derive(Debug)]
pub enum Message {
    /// The next records, nearly in time order.
    Records(Vec<Record>),
    /// The present description of a connection.
    Connection(Connection),
}

/// The thread of a recorder.
#[derive(Debug)]
pub struct Recording {
    messages: Receiver<Message>,
    missed: Arc<Mutex<LossCounts>>,
    costs: Arc<Mutex<[PointCost; 8]>>,
    /// Run time of all probes.
    run_ns: Arc<Mutex<Option<u64>>>,
    openings: Arc<Mutex<Openings>>,
    /// The limit of the share that is wanted.
    share: Arc<AtomicU64>,
    started: Started,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    pulses: Arc<Pulses>,
    guard: Option<Guard>,
}

/// The recorder as it started.
#[derive(Debug)]
struct Started {
    hooks: Vec<HookReport>,
    backlog: Backlog,
    thread: Thread,
}

struct Sender(SyncSender<Message>);

impl Sender {
    fn send(&self, message: Message) -> Result<(), String> {
        self.0.send(message).map_err(|_| "the program takes no more records".to_owned())
    }
}

impl Sink for Sender {
    fn records(&mut self, records: &[Record]) -> Result<(), String> {
        self.send(Message::Records(records.to_vec()))
    }

    fn connection(&mut self, connection: &Connection) -> Result<(), String> {
        self.send(Message::Connection(connection.clone()))
    }
}

impl Recording {
    /// Starts it; from its return on, all that was picked is recorded.
    ///
    /// # Errors
    ///
    /// When the probes cannot be attached.
    pub fn start(pick: Pick, options: Options) -> Result<Self, Failure> {
        Self::start_then(pick, options, || {})
    }

    /// The same; its thread runs `attached` as soon as the probes are attached, as to give up rights.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn start_then(
        pick: Pick,
        options: Options,
        attached: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Failure> {
        let (sender, messages) = sync_channel(MESSAGES_MAX);
        let (started, is_started) = sync_channel(1);
        let missed = Arc::new(Mutex::new(LossCounts::default()));
        let costs = Arc::new(Mutex::new([PointCost::default(); 8]));
        let run_ns = Arc::new(Mutex::new(None));
        let openings = Arc::new(Mutex::new(Openings::default()));
        let share = Arc::new(AtomicU64::new(options.share.limit()));
        let (ran_ns, opened, wanted) =
            (Arc::clone(&run_ns), Arc::clone(&openings), Arc::clone(&share));
        let stop = Arc::new(AtomicBool::new(false));
        let pulses = Arc::new(Pulses::default());
        let (counted, stopped, beats) =
            (Arc::clone(&missed), Arc::clone(&stop), Arc::clone(&pulses));
        let measured = options.statistics.then(|| Arc::clone(&costs));
        let thread = std::thread::Builder::new().name("recorder".to_owned());
        let thread = thread.spawn(move || {
            let _priority = Priority::raise();
            let mut sink = Sender(sender);
            let mut recorder = match Recorder::start(&pick, options) {
                Ok(recorder) => recorder,
                Err(error) => {
                    let _ = started.send(Err(error));
                    return Ok(());
                }
            };
            let store = |run_ns| *ran_ns.lock().unwrap_or_else(PoisonError::into_inner) = run_ns;
            store(recorder.run_ns());
            attached();
            let backlog = recorder.backlog();
            beats.looked(&backlog);
            let _ = started.send(Ok(Started {
                hooks: recorder.hooks(),
                backlog: backlog.clone(),
                thread: Thread::current(),
            }));
            let mut costs_at = Instant::now();
            let mut share = options.share;
            while !stopped.load(Ordering::Relaxed) {
                let now = Share::below(wanted.load(Ordering::Relaxed));
                if now != std::mem::replace(&mut share, now) {
                    recorder.set_share(share)?;
                }
                recorder.step(&mut sink)?;
                beats.looked(&backlog);
                *opened.lock().unwrap_or_else(PoisonError::into_inner) = recorder.openings();
                *counted.lock().unwrap_or_else(PoisonError::into_inner) = recorder.missed();
                if let Some(measured) = &measured
                    && costs_at.elapsed() >= COSTS_EVERY
                {
                    costs_at = Instant::now();
                    *measured.lock().unwrap_or_else(PoisonError::into_inner) = recorder.costs();
                    store(recorder.run_ns());
                }
            }
            recorder.finish(&mut sink, DRAIN_DEADLINE).map(drop)
        })?;
        match is_started.recv() {
            Ok(Ok(started)) => Ok(Self {
                messages,
                missed,
                costs,
                run_ns,
                openings,
                share,
                started,
                stop,
                thread: Some(thread),
                pulses,
                guard: None,
            }),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Failure::new("the recorder ended before it began")),
        }
    }

    /// From now on the recorder and the calling thread, which is to take its records, leave the CPU to other programs,
    /// for as long as nothing is missed by that. Without `CAP_SYS_NICE` all stays as it is.
    pub fn give_way(&mut self) {
        self.pulses.took();
        let (backlog, pulses) = (self.started.backlog.clone(), Arc::clone(&self.pulses));
        self.guard = Guard::start(backlog, self.started.thread, Thread::current(), pulses);
    }

    /// Hands over all messages, and waits for the first one up to `wait`.
    ///
    /// # Errors
    ///
    /// When the recorder ended.
    pub fn take(&mut self, wait: Duration, mut each: impl FnMut(Message)) -> Result<(), Failure> {
        self.pulses.took();
        match self.messages.recv_timeout(wait) {
            Ok(message) => each(message),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => return Ok(()),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return self.ended(),
        }
        loop {
            match self.messages.try_recv() {
                Ok(message) => each(message),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return self.ended(),
            }
        }
    }

    fn ended(&mut self) -> Result<(), Failure> {
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(Err(error))) => Err(error.into()),
            _ => Err(Failure::new("the recorder ended")),
        }
    }

    /// Records that were missed since the start.
    pub fn missed(&self) -> LossCounts {
        *self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hits and run time of the probes since the start, half a second old at most; all 0 without
    /// [`Options::statistics`].
    pub fn costs(&self) -> [PointCost; 8] {
        *self.costs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Run time of all probes since the start, as old as the costs; `None` where the kernel does not measure it.
    pub fn run_ns(&self) -> Option<u64> {
        *self.run_ns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections that are recorded since the start, and those that sampling left out.
    pub fn openings(&self) -> Openings {
        *self.openings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has this part of the connections recorded, a moment later. Others are left out from then on.
    pub fn set_share(&self, share: Share) {
        self.share.store(share.limit(), Ordering::Relaxed);
    }

    /// The hooks with their state at the start.
    pub fn hooks(&self) -> &[HookReport] {
        &self.started.hooks
    }
}

impl Drop for Recording {
    /// Detaches the probes.
    fn drop(&mut self) {
        self.guard = None;
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return };
        // It may wait for room.
        while !thread.is_finished() {
            let _ = self.messages.recv_timeout(Duration::from_millis(10));
        }
        let _ = thread.join();
    }
}
