//! The hosts and the link of a replay, and changes of the calls, from words of the command line.

use sockscope_analysis::Activity;
use sockscope_experiment::{Parameters, Topology};
use sockscope_link::{Bandwidth, Interval};
use sockscope_record::Protocol;
use sockscope_stack::tcp::ShortSegments;

use crate::model::{Line, machine, personality};
use crate::pattern_change::PatternChange;
use crate::pattern_file::PatternFile;

/// The stack and the machine where the command line names none.
const PERSONALITY: &str = "4.3bsd";
const MACHINE: &str = "sparcstation-1";

/// Bits a second of a line with a delay and no rate: those of the Ethernet that it replaces.
const LINE_BITS_PER_S: u64 = 10_000_000;
const LINE_MTU: u32 = 1500;

/// The largest window without window scaling.
const WINDOW_MAX: u64 = 65_535;

/// A larger buffer is taken for one of this size: its limits are numbers of 32 bits.
const BUFFER_MAX: u64 = 1 << 30;

/// Hosts and their link.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions {
    pub(super) parameters: Parameters,
    pub(super) line: Option<Line>,
    pub(super) seed: u64,
}

/// Names of settings other than changes of the calls.
pub fn names() -> String {
    format!("delay, rate, {}", Parameters::HOSTS.join(", "))
}

/// Refuses two values for one setting, of which one would have no effect.
///
/// # Errors
///
/// A sentence with its name.
pub fn check_names<T: AsRef<str>>(settings: &[T]) -> Result<(), String> {
    let names = settings.iter().filter_map(|text| Some(text.as_ref().split_once('=')?.0));
    let names: Vec<&str> = names.collect();
    let twice = (1..names.len()).find(|at| names[..*at].contains(&names[*at]));
    twice.map_or(Ok(()), |at| Err(format!("--set: two values for {}; give one", names[at])))
}

impl Conditions {
    /// Hosts and link from settings as `personality=4.3bsd`; other words are changes of the calls.
    ///
    /// # Errors
    ///
    /// A sentence with the word that is wrong.
    pub fn parse<T: AsRef<str>>(
        settings: &[T],
        seed: u64,
    ) -> Result<(Self, Vec<PatternChange>), String> {
        check_names(settings)?;
        let mut named = Vec::new();
        let (mut delay, mut rate): (Option<Interval>, Option<Bandwidth>) = (None, None);
        let mut changes = Vec::new();
        for text in settings.iter().map(AsRef::as_ref) {
            let refuse = |problem: String| format!("--set {text}: {problem}");
            if PatternChange::is_named_in(text) {
                changes.push(text.parse().map_err(refuse)?);
                continue;
            }
            match text.split_once('=') {
                Some(("delay", value)) => {
                    delay = Some(value.parse().map_err(|error| refuse(format!("{error}")))?);
                }
                Some(("rate", value)) => {
                    rate = Some(value.parse().map_err(|error| refuse(format!("{error}")))?);
                }
                Some((name, value)) if Parameters::HOSTS.contains(&name) => {
                    named.push((name.to_owned(), value.to_owned()));
                }
                _ => {
                    return Err(refuse(format!(
                        "no such setting: give one-write, nodelay, write-bytes=N, read-bytes=N, buffers=N, think=0, \
                         think=-TIME, or a value for {}",
                        names()
                    )));
                }
            }
        }
        for (name, value) in [("personality", PERSONALITY), ("machine", MACHINE)] {
            if !named.iter().any(|(other, _)| other == name) {
                named.push((name.to_owned(), value.to_owned()));
            }
        }
        let parameters = Parameters::of_hosts(&named).map_err(|error| format!("--set: {error}"))?;
        let line = line(&named, delay, rate)?;
        let conditions = Self { parameters, line, seed };
        conditions.machine()?;
        personality(&conditions.parameters)?;
        Ok((conditions, changes))
    }

    /// The name of the machine.
    pub(super) fn machine(&self) -> Result<String, String> {
        Ok(machine(&self.parameters)?.name)
    }

    /// Sizes of the send and the receive buffer, where they are not the personality's: those that the
    /// program asked for, else those of the kernel.
    pub(super) fn buffers(&self, activity: &Activity, of_datagrams: bool) -> [Option<u32>; 2] {
        let of_kernel = self.parameters.socket_buffer_bytes;
        let [send, receive] = [activity.send_buffer_bytes, activity.receive_buffer_bytes]
            .map(|bytes| bytes.or(of_kernel))
            .map(|bytes| bytes.map(|bytes| bytes.min(BUFFER_MAX) as u32));
        let own = personality(&self.parameters).ok().map(|it| match of_datagrams {
            true => it.socket.udp_bytes,
            false => it.socket.tcp_bytes,
        });
        match (send, receive, own) {
            (None, Some(_), Some((of_personality, _))) => [Some(of_personality), receive],
            (Some(_), None, Some((_, of_personality))) => [send, Some(of_personality)],
            _ => [send, receive],
        }
    }

    /// The seed of the model's chance.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn is_loopback(&self) -> bool {
        self.parameters.topology == Topology::Loopback
    }

    /// Settings that change nothing with this personality, each in a sentence with the reason.
    ///
    /// # Errors
    ///
    /// When the personality is not known.
    pub fn without_effect(&self, file: &PatternFile) -> Result<Vec<String>, String> {
        let mut sentences = Vec::new();
        let rules = personality(&self.parameters)?;
        let has_nagle = matches!(rules.tcp.short_segments, ShortSegments::Nagle { .. });
        let sets_no_delay = file.pattern.sides.iter().any(|side| side.no_delay);
        if sets_no_delay && is_of_datagrams(file) {
            sentences.push("nodelay changes nothing: datagrams wait for no other".to_owned());
        } else if sets_no_delay && !has_nagle {
            sentences.push(format!(
                "nodelay changes nothing: {} does not have Nagle's rule",
                self.parameters.personality
            ));
        }
        let of_calls = file.pattern.sides.iter().filter_map(|side| side.receive_buffer_bytes);
        let largest = of_calls.chain(self.parameters.socket_buffer_bytes).max();
        let is_limited = !rules.tcp.options.window_scaling && !is_of_datagrams(file);
        if let Some(bytes) = largest.filter(|bytes| *bytes > WINDOW_MAX && is_limited) {
            sentences.push(format!(
                "buffers of {bytes} bytes: {} offers windows up to {WINDOW_MAX} bytes, as it has no window scaling: name {}+window_scaling",
                self.parameters.personality, self.parameters.personality
            ));
        }
        Ok(sentences)
    }
}

/// Whether the calls move datagrams.
pub(super) fn is_of_datagrams(file: &PatternFile) -> bool {
    file.pattern.protocol == Protocol::Udp
}

/// The line of `delay` and `rate`; `None` without both.
fn line(
    named: &[(String, String)],
    delay: Option<Interval>,
    rate: Option<Bandwidth>,
) -> Result<Option<Line>, String> {
    let given = if delay.is_some() { "delay" } else { "rate" };
    let other = ["link", "link_delay_us", "topology"];
    let conflict = named.iter().find(|(name, value)| {
        other.contains(&name.as_str()) && (name.as_str(), value.as_str()) != ("topology", "pair")
    });
    match (delay, rate, conflict) {
        (None, None, _) => Ok(None),
        (_, _, Some((name, value))) => Err(format!(
            "--set {given}: it needs a line between two hosts; leave {name}={value} out"
        )),
        (delay, rate, None) => Ok(Some(Line {
            bits_per_s: rate.map_or(LINE_BITS_PER_S, |rate| rate.0),
            delay_ns: delay.map_or(0, |delay| delay.0),
            mtu: LINE_MTU,
        })),
    }
}
