//! What a user may change of a comparison: `NAME=VALUE`, lists with commas.

use std::str::FromStr;
use std::time::Duration;

use super::{Plan, Protocol};

/// Largest request, the longest message of VMTP (RFC 1045 §2.15).
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Clients at once, each of which is a thread.
const CLIENTS_MAX: usize = 1024;
/// Longest slice.
const SLICE_MS_MAX: usize = 60_000;

impl Plan {
    /// Replaces a part of the plan, as `protocols=tcp,channel`, `message_bytes=64,1024`,
    /// `clients=1,8`, `clients_bytes=64` (the sizes for all of `clients`), `slice_ms=100` or
    /// `recorded_ms=0`.
    ///
    /// # Errors
    ///
    /// When there is no such part, or the value has no sense for it; says what was expected.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("--set {text}: expected NAME=VALUE"))?;
        let refused = |expected: String| format!("--set {text}: {expected}");
        match name {
            "protocols" => self.protocols = protocols(value).map_err(refused)?,
            "message_bytes" => {
                self.message_bytes = numbers(value, 1, MESSAGE_BYTES_MAX).map_err(refused)?;
                // A size that was asked for is tried with all clients that were.
                self.clients_bytes.clear();
            }
            "clients" => self.clients = numbers(value, 1, CLIENTS_MAX).map_err(refused)?,
            "clients_bytes" => {
                self.clients_bytes = numbers(value, 1, MESSAGE_BYTES_MAX).map_err(refused)?;
                let missing = |size: &&usize| !self.message_bytes.contains(size);
                if let Some(size) = self.clients_bytes.iter().find(missing) {
                    return Err(refused(format!("{size} is not among message_bytes")));
                }
            }
            "slice_ms" => self.slice = time(value, 1).map_err(refused)?,
            "recorded_ms" => self.recorded = time(value, 0).map_err(refused)?,
            _ => {
                return Err(refused(
                    "expected protocols, message_bytes, clients, clients_bytes, slice_ms or recorded_ms"
                        .to_owned(),
                ));
            }
        }
        Ok(())
    }
}

impl FromStr for Protocol {
    type Err = String;

    /// The protocol of this [name](Protocol::name).
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|protocol| protocol.name() == name);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("no protocol `{name}`: expected {}", names()))
    }
}

fn protocols(list: &str) -> Result<Vec<Protocol>, String> {
    list.split(',').map(str::parse).collect()
}

/// Different numbers from `least` to `most`, in the order given.
fn numbers(list: &str, least: usize, most: usize) -> Result<Vec<usize>, String> {
    let mut numbers = Vec::new();
    for word in list.split(',') {
        let number = word.parse().ok().filter(|number| (least..=most).contains(number));
        let number = number.ok_or_else(|| format!("expected numbers from {least} to {most}"))?;
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

fn time(text: &str, least_ms: usize) -> Result<Duration, String> {
    match numbers(text, least_ms, SLICE_MS_MAX)?[..] {
        [ms] => Ok(Duration::from_millis(ms as u64)),
        _ => Err("expected one number of milliseconds".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_replaced_and_nonsense_says_what_was_expected() {
        let mut plan = Plan::default();
        for text in
            ["protocols=channel,tcp", "message_bytes=64,1024", "clients=1,8,8", "slice_ms=7"]
        {
            plan.set(text).unwrap();
        }
        assert_eq!(plan.protocols, [Protocol::Channel, Protocol::Tcp]);
        assert_eq!((plan.message_bytes, plan.clients), (vec![64, 1024], vec![1, 8]));
        assert_eq!(plan.slice, Duration::from_millis(7));
        let refused = |text: &str| Plan::default().set(text).unwrap_err();
        assert!(refused("protocols=ipx").contains("no protocol `ipx`: expected tcp, udp"));
        assert!(refused("message_bytes=0").contains("from 1 to 4194304"));
        assert!(refused("slice_ms=1,2").contains("one number"));
        assert!(refused("clients_bytes=3").contains("not among message_bytes"));
        assert!(refused("moon=3").contains("expected protocols"));
        assert!(refused("moon").contains("NAME=VALUE"));
    }
}
