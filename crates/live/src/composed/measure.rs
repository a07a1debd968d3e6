//! Both forms of each combination, in turns.

use std::io;
use std::thread;
use std::time::Duration;

use super::carrier::{Carrier, Wire};
use super::case::{Combination, End, Form};
use super::path::LimitError;
use crate::conditions::{Conditions, Rule, Watch};
use crate::integrated::cpu_time;

/// Messages of a turn, at least.
const MESSAGES_LEAST: usize = 8;
/// The longest message that a user may ask for.
const DATA_BYTES_MAX: usize = 4 << 20;
const KIB: f64 = 1024.0;

/// What is to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Octets of a message.
    pub data_bytes: Vec<usize>,
    /// Between the ends.
    pub carriers: Vec<Carrier>,
    /// Turns of each form, 1 at least.
    pub turns: u32,
    /// Data of a turn, in as many messages as that takes.
    pub turn_bytes: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            data_bytes: vec![1 << 10, 8 << 10, 60 << 10, 1 << 20],
            carriers: Carrier::ALL.to_vec(),
            turns: 11,
            turn_bytes: 2 << 20,
        }
    }
}

impl Plan {
    /// Replaces a part: `data_bytes=1024,8192`, `carriers=memory,tcp`, `turn_bytes=100000`.
    ///
    /// # Errors
    ///
    /// When there is no such part, or the value has no sense for it; says what was expected.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let refused = |expected: String| format!("--set {text}: {expected}");
        match text.split_once('=') {
            Some(("data_bytes", list)) => self.data_bytes = sizes(list).map_err(refused)?,
            Some(("carriers", list)) => {
                let carriers: Result<_, _> = list.split(',').map(str::parse).collect();
                self.carriers = carriers.map_err(refused)?;
            }
            Some(("turn_bytes", bytes)) => {
                let [bytes] = sizes(bytes).map_err(refused)?[..] else {
                    return Err(refused("expected one number".to_owned()));
                };
                self.turn_bytes = bytes;
            }
            _ => {
                let names = "expected data_bytes=N,N, carriers=NAME,NAME or turn_bytes=N";
                return Err(refused(names.to_owned()));
            }
        }
        Ok(())
    }
}

fn sizes(list: &str) -> Result<Vec<usize>, String> {
    let number = |word: &str| word.parse().ok().filter(|it| (1..=DATA_BYTES_MAX).contains(it));
    let sizes: Option<Vec<_>> = list.split(',').map(number).collect();
    sizes.ok_or_else(|| format!("expected numbers from 1 to {DATA_BYTES_MAX}, with commas"))
}

/// One combination over one carrier at one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The functions.
    pub combination: Combination,
    /// Between the ends.
    pub carrier: Carrier,
    /// Octets of a message.
    pub data_bytes: usize,
    /// The times, or the limit that the message exceeds.
    pub outcome: Result<Times, String>,
}

/// CPU time of both ends for each KiB of data, in nanoseconds: a mean for each turn, ascending.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    /// Each function goes over the whole message.
    pub separate: Vec<f64>,
    /// All functions in one loop.
    pub integrated: Vec<f64>,
    /// The same as `separate`, measured in the same turns.
    pub control: Vec<f64>,
}

impl Times {
    /// How many times longer the separate passes take, by the medians.
    pub fn ratio(&self) -> f64 {
        median(&self.separate) / median(&self.integrated)
    }

    /// The same of two equal forms.
    pub fn control_ratio(&self) -> f64 {
        median(&self.separate) / median(&self.control)
    }

    /// Whether the two forms differ by more than two equal ones do.
    pub fn is_clear(&self) -> bool {
        self.ratio().ln().abs() > self.control_ratio().ln().abs()
    }
}

/// Of ascending values; not a number without any.
pub(super) fn median(values: &[f64]) -> f64 {
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The result.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// What was measured.
    pub plan: Plan,
    /// By carrier, size, combination.
    pub rows: Vec<Row>,
    /// The machine, and others at work on it.
    pub conditions: Conditions,
}

/// Measures all combinations. The forms take turns, so that a disturbance of one disturbs the others.
pub fn measure(plan: Plan) -> Measured {
    let watch = Watch::begin();
    let mut rows = Vec::new();
    for &carrier in &plan.carriers {
        for &data_bytes in &plan.data_bytes {
            for combination in Combination::ALL {
                let outcome = times(combination, carrier, data_bytes, &plan);
                rows.push(Row { combination, carrier, data_bytes, outcome });
            }
        }
    }
    let rule = Rule { drops: false, ..Rule::default() };
    Measured { plan, rows, conditions: Conditions::of(watch.end(), rule, Vec::new()) }
}

fn times(
    combination: Combination,
    carrier: Carrier,
    data_bytes: usize,
    plan: &Plan,
) -> Result<Times, String> {
    let mut wires = carrier.connect().map_err(|error| error.to_string())?;
    let messages = (plan.turn_bytes / data_bytes).max(MESSAGES_LEAST);
    let make = |form| Side::new(combination, form, carrier, [data_bytes, messages]);
    let mut sides = [make(Form::Separate)?, make(Form::Integrated)?, make(Form::Separate)?];
    let mut found = [Vec::new(), Vec::new(), Vec::new()];
    // The first turn gets memory from the system, and is not counted.
    for turn in 0..=plan.turns.max(1) {
        for (side, found) in sides.iter_mut().zip(&mut found) {
            let used = side.turn(&mut wires).map_err(|error| error.to_string())?;
            let kib = side.received.get().len() as f64 / KIB;
            if turn > 0 {
                found.push(used.as_nanos() as f64 / kib);
            }
        }
    }
    found.iter_mut().for_each(|values| values.sort_by(f64::total_cmp));
    let [separate, integrated, control] = found;
    Ok(Times { separate, integrated, control })
}

/// Octets whose data begin at a chosen place of a page. The speed of a long copy depends on the places of both its ends
/// on some CPUs, and the allocator must not decide about it.
struct Buffer {
    octets: Vec<u8>,
    start: usize,
}

const PAGE_BYTES: usize = 4_096;

impl Buffer {
    /// `bytes` octets, of which those from `data_at` on are data, which begin at `place` of a page.
    fn new(bytes: usize, data_at: usize, place: usize) -> Self {
        let octets = vec![0; bytes + PAGE_BYTES];
        let data_place = (octets.as_ptr().addr() + data_at) % PAGE_BYTES;
        Self { start: (place + PAGE_BYTES - data_place) % PAGE_BYTES, octets }
    }

    fn get(&mut self) -> &mut [u8] {
        let end = self.octets.len() - PAGE_BYTES + self.start;
        &mut self.octets[self.start..end]
    }
}

/// One form with the buffers of both ends.
struct Side {
    sender: Box<dyn End>,
    receiver: Box<dyn End>,
    /// Two messages that alternate, so that a message is not taken for the one before.
    data: [Buffer; 2],
    packet: Buffer,
    arrived: Buffer,
    /// All messages of a turn, which are compared when it is over.
    received: Buffer,
    data_bytes: usize,
}

impl Side {
    fn new(
        combination: Combination,
        form: Form,
        carrier: Carrier,
        [data_bytes, messages]: [usize; 2],
    ) -> Result<Self, String> {
        let words = |error: LimitError| error.to_string();
        let end = || combination.end(form, carrier.packet_bytes_max()).map_err(words);
        let (sender, receiver) = (end()?, end()?);
        let data = [31, 47].map(|step| {
            let mut data = Buffer::new(data_bytes, 0, 0);
            let octets = data.get().iter_mut().enumerate();
            octets.for_each(|(at, octet)| *octet = (at * step % 251) as u8);
            data
        });
        let packet_bytes = sender.packet_bytes(data_bytes);
        let data_at = packet_bytes - data_bytes;
        let buffer = |place| Buffer::new(packet_bytes, data_at, place);
        let mut side = Self {
            sender,
            receiver,
            data,
            packet: buffer(PAGE_BYTES / 4),
            arrived: buffer(PAGE_BYTES / 2),
            received: Buffer::new(messages * data_bytes, 0, PAGE_BYTES / 4 * 3),
            data_bytes,
        };
        // A message outside the limits is refused here.
        let [message, _] = &mut side.data;
        side.sender.send(message.get(), side.packet.get()).map_err(words)?;
        Ok(side)
    }

    /// The CPU time of both ends in one turn. Each message is compared with the one that was sent.
    fn turn(&mut self, wires: &mut Option<[Wire; 2]>) -> io::Result<Duration> {
        self.received.get().fill(0);
        let used = match wires {
            None => self.in_memory()?,
            Some([near, far]) => self.over(near, far)?,
        };
        let sent = self.data.each_mut().map(|data| &*data.get());
        let mut received = self.received.get().chunks(self.data_bytes).zip(sent.iter().cycle());
        match received.all(|(received, sent)| received == *sent) {
            true => Ok(used),
            false => Err(io::Error::other("a message was received with other data")),
        }
    }

    fn in_memory(&mut self) -> io::Result<Duration> {
        let packet = self.packet.get();
        let data = self.data.each_mut().map(|data| &*data.get());
        let began = cpu_time();
        let places = self.received.get().chunks_mut(self.data_bytes);
        for (place, data) in places.zip(data.iter().cycle()) {
            let bytes = self.sender.send(data, packet).map_err(io::Error::other)?;
            self.receiver.receive(&packet[..bytes], place).map_err(io::Error::other)?;
        }
        Ok(cpu_time() - began)
    }

    fn over(&mut self, near: &mut Wire, far: &mut Wire) -> io::Result<Duration> {
        let (packet, arrived) = (self.packet.get(), self.arrived.get());
        let data = self.data.each_mut().map(|data| &*data.get());
        let (receiver, received) = (&mut self.receiver, self.received.get());
        let (data_bytes, messages) = (self.data_bytes, received.len() / self.data_bytes);
        let receive = move || {
            let began = cpu_time();
            for place in received.chunks_mut(data_bytes) {
                let bytes = far.receive(arrived)?;
                receiver.receive(&arrived[..bytes], place).map_err(io::Error::other)?;
            }
            Ok::<_, io::Error>(cpu_time() - began)
        };
        thread::scope(|scope| {
            let receiving = scope.spawn(receive);
            let began = cpu_time();
            for data in data.iter().cycle().take(messages) {
                let bytes = self.sender.send(data, packet).map_err(io::Error::other)?;
                near.send(&packet[..bytes])?;
            }
            let used = cpu_time() - began;
            let panicked = |_| Err(io::Error::other("the receiver panicked"));
            Ok(used + receiving.join().unwrap_or_else(panicked)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_passes_every_carrier_whole() {
        let plan = Plan { data_bytes: vec![12, 6_000], turns: 1, turn_bytes: 1, ..Plan::default() };
        let measured = measure(plan);
        assert_eq!(measured.rows.len(), 3 * 2 * 7);
        for row in &measured.rows {
            let times = row.outcome.as_ref().unwrap_or_else(|error| panic!("{error}: {row:?}"));
            assert_eq!([&times.separate, &times.integrated, &times.control].map(Vec::len), [1; 3]);
            assert!(times.ratio() > 0.0 && times.control_ratio() > 0.0);
        }
    }

    #[test]
    fn data_begin_at_their_place_of_a_page() {
        for (data_at, place) in [(0, 0), (12, 1_024), (8, 3_072)] {
            let mut buffer = Buffer::new(100, data_at, place);
            let octets = buffer.get();
            assert_eq!(octets.len(), 100);
            assert_eq!((octets.as_ptr().addr() + data_at) % PAGE_BYTES, place);
        }
    }

    #[test]
    fn a_difference_below_that_of_equal_forms_is_not_clear() {
        let times = |separate, integrated, control| Times {
            separate: vec![separate],
            integrated: vec![integrated],
            control: vec![control],
        };
        assert!(times(120.0, 100.0, 118.0).is_clear());
        assert!(!times(120.0, 100.0, 150.0).is_clear());
    }

    #[test]
    fn a_limit_of_the_network_or_of_a_function_is_the_outcome() {
        let outcome = |combination, carrier, data_bytes| {
            times(combination, carrier, data_bytes, &Plan::default()).unwrap_err()
        };
        let refused = outcome(Combination::All, Carrier::Udp, 1 << 16);
        assert_eq!(refused, "a message of 65536 bytes: the path carries 65492");
        let refused = outcome(Combination::Convert, Carrier::Memory, 5);
        assert_eq!(refused, "a message of 5 bytes: its length must be a multiple of 4");
    }

    #[test]
    fn parts_are_replaced_and_nonsense_says_what_was_expected() {
        let mut plan = Plan::default();
        plan.set("data_bytes=64,4096").unwrap();
        plan.set("carriers=udp").unwrap();
        assert_eq!((plan.data_bytes, plan.carriers), (vec![64, 4096], vec![Carrier::Udp]));
        let refused = |text: &str| Plan::default().set(text).unwrap_err();
        assert!(refused("data_bytes=0").contains("numbers from 1 to 4194304"));
        assert!(refused("carriers=ip").contains("no carrier `ip`"));
        assert!(refused("turn_bytes=1,2").ends_with("expected one number"));
        assert!(refused("turn_ms=1").ends_with("carriers=NAME,NAME or turn_bytes=N"));
    }
}
