//! Many to many: every member hears every other.
//!
//! There is no server in the middle. Member n holds the name `GROUP/n`. A new member takes the first
//! free name, which the kernel gives to one process only and takes back when it ends. It then
//! subscribes to all others. Each of them, if it does not hear the new member yet, subscribes in
//! return. So memory has one writer here too: a group of n has n segments.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::duplex::Duplex;
use crate::error::Error;
use crate::handshake::ConnectRequest;
use crate::listener::Inbox;
use crate::observe::now_ns;
use crate::receiver::{self, Member, Receiver, RxRing};
use crate::sender::Sender;
use crate::settings::Settings;

/// A member's place in a group.
pub struct Group {
    duplex: Duplex,
    number: u32,
}

impl Group {
    /// Joins the group `name` of this user, which has at most `members_max` members, a number that
    /// all of them share. Returns when all present members hear each other.
    ///
    /// # Errors
    /// `Taken` when there are as many members as there may be; `TimedOut` when some did not answer
    /// within `setup_timeout`; `BadSetting`, also for a name of more than 60 bytes; `System`.
    pub fn join(name: &str, members_max: u32, settings: &Settings) -> Result<Self, Error> {
        let receiver = Receiver::new(settings.clone())?;
        let deadline = Instant::now() + settings.setup_timeout;
        let (sender, circle) = take_place(name, members_max, settings, receiver.inbox())?;
        let mut duplex = Duplex { sender, receiver };
        for number in (0..members_max).filter(|number| *number != circle.own.number) {
            circle.listen_to(number)?;
        }
        while !is_met(&mut duplex) {
            if Instant::now() >= deadline {
                return Err(Error::TimedOut);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(Self { duplex, number: circle.own.number })
    }

    /// This member's number, from 0 on. Free again when the member has left.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Numbers of the other members that this one hears, in order.
    pub fn others(&mut self) -> Vec<u32> {
        let mut members = self.duplex.receiver.members_there();
        members.sort_unstable();
        members
    }

    /// Sending to all others, and receiving from them.
    pub fn duplex(&mut self) -> &mut Duplex {
        &mut self.duplex
    }

    /// The same, for an [`Endpoint`](crate::library::Endpoint) to put parts on.
    pub fn into_duplex(self) -> Duplex {
        self.duplex
    }
}

/// Whether each member that we hear hears us.
fn is_met(duplex: &mut Duplex) -> bool {
    let heard = duplex.receiver.members_there();
    let hearing: Vec<_> = duplex.sender.peers().filter_map(|peer| peer.member).collect();
    heard.iter().all(|member| hearing.contains(member))
}

/// Takes the first free name.
fn take_place(
    name: &str,
    members_max: u32,
    settings: &Settings,
    inbox: &Arc<Inbox<RxRing>>,
) -> Result<(Sender, Arc<Circle>), Error> {
    let incarnation = now_ns();
    for number in 0..members_max {
        let own = Member { number, incarnation };
        let circle = Arc::new(Circle {
            name: name.to_owned(),
            own,
            settings: settings.clone(),
            inbox: Arc::clone(inbox),
            heard: Mutex::default(),
        });
        let answering = Arc::clone(&circle);
        let on_arrival =
            move |request: &ConnectRequest| Circle::answer(&answering, request, members_max);
        match Sender::bind_as(&circle.address(number)?, settings.clone(), incarnation, on_arrival) {
            Ok(sender) => return Ok((sender, circle)),
            Err(Error::Taken { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Taken { address: Address::new(name)? })
}

/// The members that a member hears, shared with the threads that subscribe.
struct Circle {
    name: String,
    own: Member,
    settings: Settings,
    inbox: Arc<Inbox<RxRing>>,
    heard: Mutex<BTreeMap<u32, Heard>>,
}

/// The state of one other member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// A thread is just subscribing; `again` when the member called meanwhile, so that a failed
    /// attempt may have been too early.
    Calling { again: bool },
    /// This incarnation is heard, or was until it ended.
    Incarnation(u64),
}

impl Circle {
    fn address(&self, number: u32) -> Result<Address, Error> {
        Address::new(&format!("{}/{number}", self.name))
    }

    /// A member subscribed to us: subscribe in return, unless that is done or under way. In a thread
    /// of its own, because the other's listener may be waiting for ours.
    fn answer(circle: &Arc<Self>, request: &ConnectRequest, members_max: u32) {
        let Some(number) = request.member.filter(|number| *number < members_max) else { return };
        let (circle, incarnation) = (Arc::clone(circle), request.incarnation);
        if !circle.is_wanted(number, Some(incarnation)) {
            return;
        }
        let call = move || {
            // A member that is gone before it could be heard is not missed.
            let _ = circle.call(number);
        };
        // Without threads left the member stays unheard, and its join fails with `TimedOut`.
        let _ = std::thread::Builder::new().name("channel-call".into()).spawn(call);
    }

    /// Subscribes to a member, if it is there and that is not done or under way.
    fn listen_to(&self, number: u32) -> Result<(), Error> {
        if self.is_wanted(number, None) { self.call(number) } else { Ok(()) }
    }

    /// Whether the caller is to call that member, of this incarnation or any; then no other member is.
    fn is_wanted(&self, number: u32, incarnation: Option<u64>) -> bool {
        let mut heard = self.heard();
        match heard.get_mut(&number) {
            Some(Heard::Calling { again }) => *again = true,
            Some(Heard::Incarnation(known)) if incarnation.is_none_or(|other| other == *known) => {}
            _ => {
                heard.insert(number, Heard::Calling { again: false });
                return true;
            }
        }
        false
    }

    /// Calls a member until it answers or is not there.
    fn call(&self, number: u32) -> Result<(), Error> {
        let address = self.address(number)?;
        loop {
            let own = Some(self.own);
            match receiver::call(&address, &self.settings, &self.inbox, own, Some(number)) {
                Ok((rx_ring, incarnation)) => {
                    self.heard().insert(number, Heard::Incarnation(incarnation));
                    return self.inbox.arrive(|| Ok(rx_ring));
                }
                Err(error) => match self.failed(number, error) {
                    Some(result) => return result,
                    None => std::thread::sleep(Duration::from_millis(1)),
                },
            }
        }
    }

    /// After an attempt that failed: `None` for one more.
    fn failed(&self, number: u32, error: Error) -> Option<Result<(), Error>> {
        let mut heard = self.heard();
        if heard.get(&number) == Some(&Heard::Calling { again: true }) {
            heard.insert(number, Heard::Calling { again: false });
            return None;
        }
        heard.remove(&number);
        Some(match error {
            // No member has that number, or no longer.
            Error::NotThere { .. } | Error::BadSetup { .. } => Ok(()),
            error => Err(error),
        })
    }

    fn heard(&self) -> MutexGuard<'_, BTreeMap<u32, Heard>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
