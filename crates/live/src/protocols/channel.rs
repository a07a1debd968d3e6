//! Messages through shared memory, by the crate `channel`: each client has a pair of ends and a thread
//! of the server.
//!
//! The kernel sees no byte of them, so that both ends tell of points 1, 2, 7 and 8 themselves where a
//! ledger is wanted.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sockscope_channel::{
    Address, Duplex, Error, Event, Observer, Receiver, Sender, Settings, Unobserved, Wait,
};
use sockscope_record::{Connection, ConnectionId, Direction, FlowId, Protocol, Record};

use super::record::Told;
use super::transport::{Client, Message, RESPONSE_BYTES, Server, Transport, answer};

/// Memory of one direction is about this, or two messages.
const SEGMENT_BYTES: usize = 256 << 10;
/// Slots of a direction whose messages are small.
const SLOTS_MAX: usize = 64;
/// A worker looks so often whether its server has ended, should its client never have called.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The channel; its ends tell of their messages when there is somebody to tell.
#[derive(Default)]
pub(super) struct Channel {
    pub told: Option<Told>,
}

impl Transport for Channel {
    fn serve(&self, request_bytes: usize) -> io::Result<Box<dyn Server>> {
        let (told, ends) = (self.told.clone(), Arc::default());
        Ok(Box::new(ChannelServer { request_bytes, told, ends, workers: Mutex::default() }))
    }
}

struct ChannelServer {
    request_bytes: usize,
    told: Option<Told>,
    ends: Arc<AtomicBool>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

impl Server for ChannelServer {
    fn client(&self) -> io::Result<Box<dyn Client>> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let address = |end: &str| {
            let name = format!("sockscope-{}-{number}-{end}", std::process::id());
            Address::new(&name).map_err(io::Error::other)
        };
        let (there, here) = (address("server")?, address("client")?);
        let bytes = self.request_bytes;
        let server = pair(&there, here.clone(), bytes)?;
        let client = pair(&here, there, bytes)?;
        let Some(told) = &self.told else {
            let watched = || (Unobserved, Unobserved);
            return self.join(Ends::of(server, watched()), Ends::of(client, watched()));
        };
        let id = ConnectionId(number);
        told.lock().map_err(poisoned)?.0.push(connection(id));
        let [request, response] = [Direction::FromClient, Direction::FromServer]
            .map(|direction| move || Teller::new(id.flow(direction), told));
        self.join(
            Ends::of(server, (response(), request())),
            Ends::of(client, (request(), response())),
        )
    }
}

impl ChannelServer {
    /// Has a worker answer at `server`, and gives the client at the other end.
    fn join<O: Observer + Send + 'static>(
        &self,
        server: Ends<O>,
        client: Ends<O>,
    ) -> io::Result<Box<dyn Client>> {
        let (bytes, ends) = (self.request_bytes, Arc::clone(&self.ends));
        let worker = thread::spawn(move || serve(server, bytes, &ends));
        self.workers.lock().map_err(poisoned)?.push(worker);
        Ok(Box::new(ChannelClient { ends: client, message: Message::new(bytes) }))
    }
}

impl Drop for ChannelServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        let workers = self.workers.lock().map(|mut workers| std::mem::take(&mut *workers));
        for worker in workers.unwrap_or_default() {
            // What it panicked of, its client has seen as a failed call.
            let _ = worker.join();
        }
    }
}

/// Both directions at one end, watched by an observer each.
struct Ends<O> {
    sender: Sender<O>,
    receiver: Receiver<O>,
}

impl<O: Observer> Ends<O> {
    fn of(duplex: Duplex, (sends, receives): (O, O)) -> Self {
        let Duplex { sender, receiver } = duplex;
        Self { sender: sender.observed(sends), receiver: receiver.observed(receives) }
    }
}

/// Answers requests until the client goes, or the server with a client that never called.
fn serve<O: Observer>(mut at: Ends<O>, request_bytes: usize, ends: &AtomicBool) {
    let mut request = vec![0; request_bytes.max(1)];
    while !ends.load(Ordering::Acquire) {
        match at.receiver.receive_into(&mut request, Wait::FUTEX.within(LOOK_EVERY)) {
            Ok(len) => {
                let response = answer(&request[..len.min(request.len())]);
                if at.sender.send(&response, Wait::FUTEX.within(LOOK_EVERY)).is_err() {
                    return;
                }
            }
            Err(Error::TimedOut) => {}
            Err(_) => return,
        }
    }
}

struct ChannelClient<O> {
    ends: Ends<O>,
    message: Message,
}

impl<O: Observer + Send> Client for ChannelClient<O> {
    fn call(&mut self, number: u64) -> io::Result<()> {
        let Self { ends, message } = self;
        ends.sender.send(message.number(number), Wait::FUTEX).map_err(io::Error::other)?;
        let response = ends.receiver.receive_into(&mut message.response, Wait::FUTEX);
        response.map_err(io::Error::other)?;
        message.check()
    }
}

fn pair(own: &Address, peer: Address, request_bytes: usize) -> io::Result<Duplex> {
    let slot_bytes = request_bytes.max(RESPONSE_BYTES);
    let slots = (SEGMENT_BYTES / slot_bytes).clamp(2, SLOTS_MAX);
    // At most the longest request of a comparison and `SLOTS_MAX`.
    let (slot_bytes, slots) = (slot_bytes as u32, slots.next_power_of_two() as u32);
    let settings = Settings { slots, slot_bytes, ..Settings::default() };
    Duplex::new(own, peer, settings).map_err(io::Error::other)
}

fn poisoned<T>(_: std::sync::PoisonError<T>) -> io::Error {
    io::Error::other("a client panicked")
}

/// A connection of two ends without addresses: its number stands for both ports.
fn connection(id: ConnectionId) -> Connection {
    let end = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let opened = Connection::new(id, Protocol::Udp, [end; 2], 0);
    Connection { both_ends_here: true, ..opened }
}

/// Keeps what passes one end in one direction, and tells it when the end is dropped.
struct Teller {
    flow: FlowId,
    told: Told,
    records: Vec<Record>,
}

impl Teller {
    fn new(flow: FlowId, told: &Told) -> Self {
        Self { flow, told: Arc::clone(told), records: Vec::new() }
    }
}

impl Observer for Teller {
    fn passed(&mut self, event: Event) {
        self.records.push(event.record(self.flow));
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        // Poisoned only by a client that panicked, whose case has failed.
        if let Ok(mut told) = self.told.lock() {
            told.1.append(&mut self.records);
        }
    }
}
