//! The settings of one direction of a wire.

use std::fmt;
use std::str::FromStr;

use crate::error::SettingsError;
use crate::opportunities::Opportunities;
use crate::quantity::{Bandwidth, Bytes, Interval, Share};

/// One direction of a wire. The default carries every packet at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// From the end of a packet's transmission to its arrival.
    pub delay: Interval,
    /// The delay of each packet differs from `delay` by at most this, evenly spread. It keeps the order of packets.
    pub jitter: Interval,
    /// Bits of IP packets a second; `None`: without limit.
    pub rate: Option<Bandwidth>,
    /// Times at which the line can send, in place of a rate.
    pub trace: Option<Opportunities>,
    /// Length of the queue before the line.
    pub capacity: Capacity,
    /// Discipline of that queue.
    pub discipline: Discipline,
    /// Packets dropped on the line.
    pub loss: LossModel,
    /// Packets that later ones overtake.
    pub reordering: Option<Reordering>,
    /// Share of the packets that arrive twice.
    pub duplicates: Share,
    /// Share of the packets in which one bit of the data behind the IP header is inverted.
    pub damage: Share,
    /// Packets of a connection pass in groups (GSO), which the queue takes or drops as a whole.
    pub offload: bool,
}

/// The length of the queue before a line, without the packet in transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// So many packets.
    Packets(u64),
    /// Packets of this number of bytes in all.
    Bytes(u64),
}

/// The discipline of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discipline {
    /// The arriving packet, when the queue is full.
    #[default]
    DropTail,
    /// Besides, packets at the head by the delay in the queue (CoDel, RFC 8289).
    CoDel,
}

/// The loss model of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossModel {
    /// None.
    #[default]
    None,
    /// Each with the same probability.
    Random(Share),
    /// Every nth.
    EveryNth(u64),
    /// By the model of Gilbert and Elliott: a good state and a bad one.
    GilbertElliott {
        /// Probability to change from good to bad, for each packet.
        to_bad: Share,
        /// Probability to change from bad to good, for each packet.
        to_good: Share,
        /// Probability of a drop in the bad state.
        in_bad: Share,
        /// Probability of a drop in the good state.
        in_good: Share,
    },
}

/// Packets that are delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reordering {
    /// Their share of all packets.
    pub share: Share,
    /// The additional delay, in which packets behind them may overtake them.
    pub by: Interval,
}

impl Default for Capacity {
    /// As much as most devices of Linux queue.
    fn default() -> Self {
        Self::Packets(1_000)
    }
}

impl Settings {
    /// Changes the settings that `words` names, as `rate=1mbit loss=0%`; the names are those of the options.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for a name or a value that is not understood.
    pub fn change(&mut self, words: &str) -> Result<(), SettingsError> {
        for word in words.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "delay" => self.delay = value.parse()?,
                "jitter" => self.jitter = value.parse()?,
                "rate" => (self.rate, self.trace) = (Some(value.parse()?), None),
                "queue" => self.capacity = value.parse()?,
                "discipline" => self.discipline = value.parse()?,
                "loss" => self.loss = value.parse()?,
                "reorder" => self.reordering = Some(value.parse()?),
                "duplicate" => self.duplicates = value.parse()?,
                "damage" => self.damage = value.parse()?,
                _ => {
                    return Err(SettingsError::Word {
                        text: name.to_owned(),
                        kind: "setting",
                        known: "delay, jitter, rate, queue, discipline, loss, reorder, duplicate, damage",
                    });
                }
            }
        }
        Ok(())
    }

    /// Whether all of them together have a meaning.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Conflict`] for a rate and a trace, for jitter that is longer than the delay, and for groups of
    /// packets where a setting is one of single packets.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.rate.is_some() && self.trace.is_some() {
            return Err(SettingsError::Conflict("a line has a rate or a trace, not both"));
        }
        if self.jitter > self.delay {
            return Err(SettingsError::Conflict("the jitter must not be longer than the delay"));
        }
        if self.discipline == Discipline::CoDel && self.rate.is_none() && self.trace.is_none() {
            return Err(SettingsError::Conflict(
                "CoDel needs a queue, which only a line with a rate or a trace has",
            ));
        }
        let of_groups = Self {
            delay: self.delay,
            rate: self.rate,
            capacity: self.capacity,
            offload: true,
            ..Self::default()
        };
        if self.offload && *self != of_groups {
            return Err(SettingsError::Conflict(
                "with --gso a link has a delay, a rate and a queue only; all other settings are those of single packets",
            ));
        }
        Ok(())
    }
}

impl FromStr for Capacity {
    type Err = SettingsError;

    /// `100p` or a size as `64kb`.
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let packets = text.strip_suffix('p').and_then(|number| number.parse::<u64>().ok());
        if let Some(packets) = packets {
            return Ok(Self::Packets(packets));
        }
        let wrong = || SettingsError::Quantity {
            text: text.to_owned(),
            kind: "queue",
            example: "100p or 64kb",
        };
        text.parse().map(|Bytes(bytes)| Self::Bytes(bytes)).map_err(|_| wrong())
    }
}

impl FromStr for Discipline {
    type Err = SettingsError;

    /// `drop-tail` or `codel`.
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        match text {
            "drop-tail" => Ok(Self::DropTail),
            "codel" => Ok(Self::CoDel),
            _ => Err(SettingsError::Word {
                text: text.to_owned(),
                kind: "queue discipline",
                known: "drop-tail, codel",
            }),
        }
    }
}

impl FromStr for LossModel {
    type Err = SettingsError;

    /// `1%`; `every:100`; `gilbert:1%,25%`, with the loss in the bad state and in the good one behind them where they
    /// are not 100 % and 0.
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let wrong = || SettingsError::Quantity {
            text: text.to_owned(),
            kind: "loss",
            example: "1%, every:100 or gilbert:1%,25%",
        };
        let (model, numbers) = text.split_once(':').unwrap_or(("", text));
        match model {
            "" => match numbers.parse().map_err(|_| wrong())? {
                Share::ZERO => Ok(Self::None),
                share => Ok(Self::Random(share)),
            },
            "every" => {
                let nth = numbers.parse().ok().filter(|nth| *nth > 0);
                nth.map(Self::EveryNth).ok_or_else(wrong)
            }
            "gilbert" => {
                let shares: Result<Vec<Share>, _> = numbers.split(',').map(str::parse).collect();
                let (to_bad, to_good, in_bad, in_good) = match shares.map_err(|_| wrong())?[..] {
                    [to_bad, to_good] => (to_bad, to_good, Share::ONE, Share::ZERO),
                    [to_bad, to_good, in_bad] => (to_bad, to_good, in_bad, Share::ZERO),
                    [to_bad, to_good, in_bad, in_good] => (to_bad, to_good, in_bad, in_good),
                    _ => return Err(wrong()),
                };
                Ok(Self::GilbertElliott { to_bad, to_good, in_bad, in_good })
            }
            _ => Err(wrong()),
        }
    }
}

impl FromStr for Reordering {
    type Err = SettingsError;

    /// `1%:5ms`: the share of packets, and their extra delay.
    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let parts = text.split_once(':').map(|(share, by)| (share.parse(), by.parse()));
        match parts {
            Some((Ok(share), Ok(by))) => Ok(Self { share, by }),
            _ => Err(SettingsError::Quantity {
                text: text.to_owned(),
                kind: "reordering",
                example: "1%:5ms",
            }),
        }
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Bytes(bytes) => write!(f, "{bytes}b"),
        }
    }
}

impl fmt::Display for LossModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "0%"),
            Self::Random(share) => write!(f, "{share}"),
            Self::EveryNth(nth) => write!(f, "every:{nth}"),
            Self::GilbertElliott { to_bad, to_good, in_bad, in_good } => {
                write!(f, "gilbert:{to_bad},{to_good},{in_bad},{in_good}")
            }
        }
    }
}

/// The settings that differ from those of a line that carries every packet at once, as `delay=20ms rate=100mbit`.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        let default = Self::default();
        if self.delay != default.delay {
            words.push(format!("delay={}", self.delay));
        }
        if self.jitter != default.jitter {
            words.push(format!("jitter={}", self.jitter));
        }
        words.extend(self.rate.map(|rate| format!("rate={rate}")));
        if self.trace.is_some() {
            words.push("trace".to_owned());
        }
        if self.rate.is_some() || self.trace.is_some() {
            words.push(format!("queue={}", self.capacity));
        }
        if self.discipline == Discipline::CoDel {
            words.push("codel".to_owned());
        }
        if self.loss != default.loss {
            words.push(format!("loss={}", self.loss));
        }
        words.extend(self.reordering.map(|it| format!("reorder={}:{}", it.share, it.by)));
        let shares = [("duplicate", self.duplicates), ("damage", self.damage)];
        let shares = shares.iter().filter(|(_, share)| *share != Share::ZERO);
        words.extend(shares.map(|(name, share)| format!("{name}={share}")));
        words.extend(self.offload.then(|| "gso".to_owned()));
        f.write_str(if words.is_empty() { "every packet at once" } else { "" })?;
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_read_as_they_are_shown() {
        for text in ["0%", "1%", "every:100", "gilbert:1%,25%,100%,0%", "gilbert:2%,3%,50%,0.1%"] {
            assert_eq!(text.parse::<LossModel>().unwrap().to_string(), text);
        }
        let short: LossModel = "gilbert:1%,25%".parse().unwrap();
        assert_eq!(short.to_string(), "gilbert:1%,25%,100%,0%");
    }

    #[test]
    fn others_are_refused() {
        for text in ["", "1", "every:0", "every:1%", "gilbert:1%", "gilbert:1%,2%,3%,4%,5%", "x:1%"]
        {
            let error = text.parse::<LossModel>().unwrap_err().to_string();
            assert!(error.contains("is no loss; write it as 1%, every:100 or"), "{text}: {error}");
        }
        assert!("5ms".parse::<Reordering>().is_err() && "10".parse::<Capacity>().is_err());
        let known = "fifo".parse::<Discipline>().unwrap_err().to_string();
        assert_eq!(known, "\"fifo\" is no queue discipline; there are drop-tail, codel");
    }

    #[test]
    fn settings_that_exclude_each_other_are_refused() {
        let delay = Interval(5);
        let settings = Settings { delay, jitter: Interval(6), ..Settings::default() };
        assert!(settings.check().is_err());
        assert!(Settings { delay, jitter: delay, ..Settings::default() }.check().is_ok());
        let codel = Settings { discipline: Discipline::CoDel, ..Settings::default() };
        assert!(codel.check().is_err());
        let rate = Some(Bandwidth(1_000));
        assert!(Settings { rate, ..codel.clone() }.check().is_ok());
        let of_groups = |words: &str| {
            let mut settings = Settings { offload: true, ..Settings::default() };
            settings.change(words).unwrap();
            settings.check()
        };
        assert_eq!(of_groups("delay=5ms rate=1gbit queue=64kb"), Ok(()));
        for words in [
            "delay=5ms jitter=1ms",
            "loss=1%",
            "reorder=1%:1ms",
            "duplicate=1%",
            "damage=1%",
            "rate=1mbit discipline=codel",
        ] {
            assert!(of_groups(words).is_err(), "{words}");
        }
    }

    #[test]
    fn settings_show_what_they_change() {
        let settings = Settings {
            delay: "20ms".parse().unwrap(),
            rate: Some("1.5mbit".parse().unwrap()),
            capacity: "100p".parse().unwrap(),
            loss: "1%".parse().unwrap(),
            ..Settings::default()
        };
        assert_eq!(settings.to_string(), "delay=20ms rate=1.5mbit queue=100p loss=1%");
        assert_eq!(Settings::default().to_string(), "every packet at once");
    }
}
