//! The service in which a request is asked, for one process: a sweep over time.
//!
//! A request is nested where exactly one service can be its parent. The rules, in this order:
//!
//! 1. The parent is the service that its thread reads or answers. Several such services are uncertain: an event loop
//!    serves them all at once.
//! 2. A thread that serves requests works for these alone. A thread that asks while the process serves nothing works
//!    for itself. Other threads are workers: their parent is the one service of the process; several are uncertain.
//!
//! Some runtimes move a request from one thread to another, as those of Go do. There threads prove nothing, and the
//! parent is the one service of the process.

use std::collections::{BTreeMap, BTreeSet};

use super::links::{Certainty, RequestLink};
use super::roles::{Ask, Service};

/// In which service an ask is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In no known service.
    Outside,
    /// In this one, by its place among the services.
    In(usize, Certainty),
    /// In one of several.
    Unknown,
}

/// The place of each ask.
pub(super) struct Places(pub Vec<Place>);

impl Places {
    pub(super) fn links<'a>(
        &'a self,
        services: &'a [Service],
        asks: &'a [Ask],
    ) -> impl Iterator<Item = RequestLink> + 'a {
        self.0.iter().zip(asks).filter_map(|(place, ask)| match *place {
            Place::In(at, certainty) => {
                Some(RequestLink { parent: services[at].id, child: ask.id, certainty })
            }
            Place::Outside | Place::Unknown => None,
        })
    }
}

/// Events at one instant, in this order. Reading a request takes time: a thread that asks at the same instant had not
/// read it. So a chain of nested requests gets later with each, and is no circle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ends(usize),
    Asks(usize),
    Begins(usize),
}

/// Finds the place of each ask of one process.
pub(super) fn find(services: &[Service], asks: &[Ask]) -> Places {
    let mut events: Vec<(u64, Event)> = Vec::with_capacity(services.len() * 2 + asks.len());
    for (at, service) in services.iter().enumerate() {
        debug_assert!(service.from_ns < service.until_ns);
        events.push((service.from_ns, Event::Begins(at)));
        events.push((service.until_ns, Event::Ends(at)));
    }
    events.extend(asks.iter().enumerate().map(|(at, ask)| (ask.at_ns, Event::Asks(at))));
    events.sort_unstable();
    let threads = Threads::of(services, asks, &events);
    let mut served = Served::default();
    let mut places = vec![Place::Outside; asks.len()];
    for (_, event) in events {
        match event {
            Event::Begins(at) => served.begin(at, &services[at]),
            Event::Ends(at) => served.end(at, &services[at]),
            Event::Asks(at) => {
                places[at] = served.place(&asks[at], &threads, services);
            }
        }
    }
    Places(places)
}

/// Roles of the threads of the process.
struct Threads {
    /// Some requests are answered by another thread than the one that read them, without a division of labour.
    are_mixed: bool,
    /// Threads that serve requests, or ask while nothing is served.
    independent: BTreeSet<u32>,
}

impl Threads {
    fn of(services: &[Service], asks: &[Ask], events: &[(u64, Event)]) -> Self {
        let of = |thread: fn(&Service) -> u32| -> BTreeSet<u32> {
            services.iter().map(thread).filter(|thread| *thread != 0).collect()
        };
        let (readers, answerers) = (of(|one| one.reader), of(|one| one.answerer));
        let moves = |one: &Service| {
            let is_moved = one.reader != one.answerer && one.reader != 0 && one.answerer != 0;
            is_moved && (answerers.contains(&one.reader) || readers.contains(&one.answerer))
        };
        let are_mixed = services.iter().any(moves);
        let mut independent: BTreeSet<u32> = readers.union(&answerers).copied().collect();
        let mut serving = 0usize;
        for (_, event) in events {
            match *event {
                Event::Begins(_) => serving += 1,
                Event::Ends(_) => serving -= 1,
                Event::Asks(at) if serving == 0 => {
                    independent.insert(asks[at].thread);
                }
                Event::Asks(_) => {}
            }
        }
        Self { are_mixed, independent }
    }
}

/// Some services: their count, and the sum of their places; the sum of a single one is its place.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    count: usize,
    sum: usize,
}

impl Group {
    fn add(&mut self, at: usize) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(at);
    }

    fn remove(&mut self, at: usize) {
        self.count -= 1;
        self.sum = self.sum.wrapping_sub(at);
    }
}

/// Services of the process at this time.
#[derive(Debug, Default)]
struct Served {
    all: Group,
    by_thread: BTreeMap<u32, Group>,
}

/// The threads of a service that are known.
fn threads(service: &Service) -> impl Iterator<Item = u32> {
    let answerer = Some(service.answerer).filter(|thread| *thread != service.reader);
    [Some(service.reader), answerer].into_iter().flatten().filter(|thread| *thread != 0)
}

impl Served {
    fn begin(&mut self, at: usize, service: &Service) {
        self.all.add(at);
        for thread in threads(service) {
            self.by_thread.entry(thread).or_default().add(at);
        }
    }

    fn end(&mut self, at: usize, service: &Service) {
        self.all.remove(at);
        for thread in threads(service) {
            let Some(group) = self.by_thread.get_mut(&thread) else { continue };
            group.remove(at);
            if group.count == 0 {
                self.by_thread.remove(&thread);
            }
        }
    }

    fn place(&self, ask: &Ask, threads: &Threads, services: &[Service]) -> Place {
        if self.all.count == 0 {
            return Place::Outside;
        }
        let of_thread = self.by_thread.get(&ask.thread).filter(|_| !threads.are_mixed);
        let (group, certainty) = match of_thread {
            Some(group) => (group, Certainty::Thread),
            None => (&self.all, Certainty::Process),
        };
        let is_independent =
            ask.thread != 0 && !threads.are_mixed && threads.independent.contains(&ask.thread);
        if certainty == Certainty::Process && (is_independent || ask.is_to_itself) {
            return Place::Outside;
        }
        match group.count {
            1 if services[group.sum].is_group => Place::Unknown,
            // The answer did not wait for it.
            1 if ask.is_open && services[group.sum].is_answered => Place::Outside,
            1 => Place::In(group.sum, certainty),
            _ => Place::Unknown,
        }
    }
}
