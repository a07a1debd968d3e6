//! The protocol of slots and wake-up requests as a model, tried in every order of its steps.
//!
//! Two processes of one step at a time, each with a store buffer that empties in order whenever it
//! likes, as x86-64 has it (Sewell et al., "x86-TSO", 2010): a store is seen by others later than
//! the loads that follow it. The model's steps are those of `slots.rs`, `signal.rs` and the two
//! `waiting.rs`. Two of the four kinds of barrier must fail, or the model would prove nothing.

use std::collections::{HashSet, VecDeque};

/// The sides that have a barrier between their store and the load that follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Barrier {
    /// Each side has a fence of its own.
    Both,
    /// The sleeping side empties the store buffers of both sides: membarrier(2).
    BySleeper,
    /// The sleeping side has a fence, and the other side nothing.
    SleeperAlone,
    /// No process.
    None,
}

const SLOTS: u8 = 2;
const MESSAGES: u8 = 4;

/// Words of memory: for each process (0 writes, 1 reads) progress and request, then the slots.
const PROGRESS: [usize; 2] = [0, 1];
const REQUEST: [usize; 2] = [2, 3];
const WORD: [usize; 2] = [4, 5];
const PAYLOAD: [usize; 2] = [6, 7];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    /// Looks whether it can go on.
    Look,
    /// Fills or reads the payload.
    Payload,
    /// The writer stores the slot's word.
    Word,
    /// Stores its progress.
    Progress,
    /// Has the fence of the side that is awake, if any.
    Order,
    /// Loads the other's request, and wakes it.
    Answer,
    /// Requests a wake-up.
    Request,
    /// Has the barrier of the side that goes to sleep, if any.
    BeforeLook,
    /// Looks once more.
    LookAgain,
    /// Asks the kernel to sleep while the other's progress is unchanged.
    Sleep,
    Armed,
    TakeBack,
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Process {
    at: At,
    /// Number of the next message.
    next: u8,
    /// The other's progress when last looked at.
    seen: u8,
    answered: u8,
    /// Stores that no other thread sees yet.
    buffer: VecDeque<(usize, u8)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    memory: [u8; 8],
    processes: [Process; 2],
}

impl State {
    fn start() -> Self {
        let process =
            Process { at: At::Look, next: 0, seen: 0, answered: 0, buffer: VecDeque::new() };
        Self { memory: [0; 8], processes: [process.clone(), process] }
    }

    fn is_end(&self) -> bool {
        self.processes.iter().all(|process| process.at == At::Done)
    }

    /// The value of a word for `who`: its own latest store, else memory.
    fn load(&self, who: usize, word: usize) -> u8 {
        let own = self.processes[who].buffer.iter().rev().find(|store| store.0 == word);
        own.map_or(self.memory[word], |store| store.1)
    }

    fn store(&mut self, who: usize, word: usize, value: u8) {
        self.processes[who].buffer.push_back((word, value));
    }

    fn drain(&mut self, who: usize) {
        while self.drain_one(who) {}
    }

    fn drain_one(&mut self, who: usize) -> bool {
        let store = self.processes[who].buffer.pop_front();
        store.map(|(word, value)| self.memory[word] = value).is_some()
    }

    /// Whether `who` can go on, with the values that it sees now.
    fn can_go_on(&mut self, who: usize) -> bool {
        let next = self.processes[who].next;
        if who == 0 {
            self.processes[0].seen = self.load(0, PROGRESS[1]);
            return next - self.processes[0].seen < SLOTS;
        }
        self.processes[1].seen = next;
        self.load(1, WORD[slot(next)]) == next + 1
    }

    /// One step of `who`; the error, if any.
    fn step(&mut self, who: usize, barrier: Barrier) -> Result<(), String> {
        let (next, other) = (self.processes[who].next, 1 - who);
        let at = self.processes[who].at;
        let then = match at {
            At::Look if next == MESSAGES => At::Done,
            At::Look if self.can_go_on(who) => At::Payload,
            At::Look => At::Request,
            At::Payload if who == 0 => {
                self.store(0, PAYLOAD[slot(next)], next + 1);
                At::Word
            }
            At::Payload => {
                let read = self.load(1, PAYLOAD[slot(next)]);
                if read != next + 1 {
                    return Err(format!("read {read} as message {next}"));
                }
                self.processes[1].next += 1;
                At::Progress
            }
            At::Word => {
                self.store(0, WORD[slot(next)], next + 1);
                self.processes[0].next += 1;
                At::Progress
            }
            At::Progress => {
                self.store(who, PROGRESS[who], next);
                At::Order
            }
            At::Order => {
                if barrier == Barrier::Both {
                    self.drain(who);
                }
                At::Answer
            }
            At::Answer => {
                self.answer(who);
                At::Look
            }
            At::Request => {
                let awaited = if who == 0 { next - SLOTS } else { next };
                self.store(who, REQUEST[who], awaited + 1);
                At::BeforeLook
            }
            At::BeforeLook => {
                if barrier != Barrier::None {
                    self.drain(who);
                }
                if barrier == Barrier::BySleeper {
                    self.drain(other);
                }
                At::LookAgain
            }
            At::LookAgain if self.can_go_on(who) => At::TakeBack,
            At::LookAgain => At::Sleep,
            At::Sleep => {
                // A system call is no barrier by rule, but it compares with the value in memory.
                let moved = self.memory[PROGRESS[other]] != self.processes[who].seen;
                if moved { At::TakeBack } else { At::Armed }
            }
            At::TakeBack => {
                self.store(who, REQUEST[who], 0);
                At::Look
            }
            At::Armed | At::Done => unreachable!("has no step"),
        };
        self.processes[who].at = then;
        Ok(())
    }

    fn answer(&mut self, who: usize) {
        let other = 1 - who;
        let request = self.load(who, REQUEST[other]);
        // A request is one more than the progress beyond which it is due.
        if request == 0
            || request == self.processes[who].answered
            || self.processes[who].next < request
        {
            return;
        }
        self.processes[who].answered = request;
        // Waking enters the kernel, which the stores before it have left the buffer for.
        self.drain(who);
        if self.processes[other].at == At::Armed {
            self.processes[other].at = At::TakeBack;
        }
    }

    /// All possible next states.
    fn successors(&self, barrier: Barrier) -> Result<Vec<Self>, String> {
        let mut states = Vec::new();
        for who in [0, 1] {
            let mut drained = self.clone();
            if drained.drain_one(who) {
                states.push(drained);
            }
            if !matches!(self.processes[who].at, At::Armed | At::Done) {
                let mut stepped = self.clone();
                stepped.step(who, barrier)?;
                states.push(stepped);
            }
        }
        Ok(states)
    }
}

fn slot(number: u8) -> usize {
    usize::from(number % SLOTS)
}

/// Tries everything; the number of states, or the error in one of them.
fn explore(barrier: Barrier) -> Result<usize, String> {
    let mut seen = HashSet::from([State::start()]);
    let mut open = vec![State::start()];
    while let Some(state) = open.pop() {
        let next = state.successors(barrier)?;
        if next.is_empty() && !state.is_end() {
            return Err(format!("everybody sleeps: {state:?}"));
        }
        open.extend(next.into_iter().filter(|state| seen.insert(state.clone())));
    }
    Ok(seen.len())
}

#[test]
fn with_a_fence_on_both_sides_nothing_is_lost() {
    assert!(explore(Barrier::Both).unwrap() > 1_000);
}

#[test]
fn with_the_sleepers_barrier_for_both_nothing_is_lost() {
    assert!(explore(Barrier::BySleeper).unwrap() > 1_000);
}

#[test]
fn without_a_barrier_for_the_side_that_is_awake_a_wake_up_is_lost() {
    assert!(explore(Barrier::SleeperAlone).unwrap_err().starts_with("everybody sleeps"));
}

#[test]
fn without_any_barrier_a_wake_up_is_lost() {
    assert!(explore(Barrier::None).unwrap_err().starts_with("everybody sleeps"));
}
