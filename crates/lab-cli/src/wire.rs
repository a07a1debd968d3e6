//! The wire of `lab link` and `lab host`: its settings from the command line, and its report at the end.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use sockscope_link::{Ended, Settings, Wire};
use sockscope_program::failure::Failure;
use sockscope_program::output::write_to;
use sockscope_render::number::{count, counted};
use sockscope_render::units::Quantity;

use crate::args::WireOptions;

/// Of the delay: with later packets, the measurement is one of this machine and not of the link.
const LATE_PERCENT_MAX: u64 = 5;

/// The settings to the server and to the command.
pub fn both(
    options: &WireOptions,
    command: &str,
    has_offload: bool,
) -> Result<[Settings; 2], Failure> {
    let trace = options.trace.as_deref().map(read_trace).transpose()?;
    let common = Settings {
        delay: options.delay,
        jitter: options.jitter,
        rate: options.rate,
        trace,
        capacity: options.queue,
        discipline: options.discipline,
        loss: options.loss,
        reordering: options.reorder,
        duplicates: options.duplicate,
        damage: options.damage,
        offload: has_offload,
    };
    let changes = [("--to-server", &options.to_server), ("--to-command", &options.to_command)];
    let [to_server, to_command] = changes.map(|(option, words)| {
        let mut settings = common.clone();
        let changed = settings.change(words.as_deref().unwrap_or_default());
        let checked = changed.and_then(|()| settings.check());
        checked.map(|()| settings).map_err(|error| match words {
            Some(_) => Failure::new(format!("lab {command} {option}: {error}")),
            None => Failure::new(format!("lab {command}: {error}")),
        })
    });
    Ok([to_server?, to_command?])
}

fn read_trace(path: &Path) -> Result<sockscope_link::Opportunities, Failure> {
    let named =
        |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| named(&error))?;
    text.parse().map_err(|error| named(&error))
}

/// The wires to the server and to the command.
pub fn wires(settings: &[Settings; 2], seed: u64) -> [Wire; 2] {
    // Each direction has a seed of its own, or both would drop the same packets.
    [0, 1].map(|index| {
        Wire::new(settings[index].clone(), seed.wrapping_mul(2).wrapping_add(index as u64))
    })
}

/// The counts and times of the wire.
pub struct Report<'a> {
    pub seed: u64,
    pub settings: &'a [Settings; 2],
    pub ended: &'a [Ended; 2],
    /// Packets that the kernel dropped before the wire took them.
    pub device_drops: [u64; 2],
}

impl Report<'_> {
    /// Prints it, and writes it as JSON where a path is given.
    pub fn tell(&self, json: Option<&Path>) -> Result<(), Failure> {
        self.say();
        let Some(path) = json else { return Ok(()) };
        let text = format!("{:#}\n", self.json());
        write_to(path, |out| out.write_all(text.as_bytes()))
    }

    fn say(&self) {
        let [to_server, to_command] = self.settings.each_ref().map(ToString::to_string);
        match to_server == to_command {
            true => stderr!("link        seed {}; {to_server}", self.seed),
            false => stderr!(
                "link        seed {}; to server {to_server}; to command {to_command}",
                self.seed
            ),
        }
        for index in [0, 1] {
            stderr!("{}", self.line(index));
        }
        for index in [0, 1] {
            self.lateness_caution(index).into_iter().for_each(|line| stderr!("{line}"));
        }
    }

    fn line(&self, index: usize) -> String {
        let Ended { counts, inside, refused, lateness } = &self.ended[index];
        let name = ["to server", "to command"][index];
        let parts = [
            (counts.dropped_by_loss, "dropped by loss"),
            (counts.dropped_by_queue, "dropped by the full queue"),
            (counts.dropped_by_codel, "dropped by CoDel"),
            (self.device_drops[index], "dropped by the kernel before the wire"),
            (counts.duplicated, "duplicated"),
            (counts.damaged, "damaged"),
            (counts.held_back, "held back"),
            (*refused, "refused by the receiving device"),
            (*inside, "still inside"),
        ];
        let mut words = vec![
            format!("{} entered", counted(counts.entered, "packet")),
            format!("{} left", count(counts.left)),
        ];
        let shown = parts.iter().filter(|(number, _)| *number > 0);
        words.extend(shown.map(|(number, what)| format!("{} {what}", count(*number))));
        let time = |ns: u64| Quantity::Time.words(ns as f64);
        format!(
            "{name:<11} {}; late p50 {}, p99 {}, max {}",
            words.join(", "),
            time(lateness.percentile_ns(50)),
            time(lateness.percentile_ns(99)),
            time(lateness.max_ns())
        )
    }

    /// Whether packets left too late for the delay.
    fn is_late(&self, index: usize) -> bool {
        let p99_ns = self.ended[index].lateness.percentile_ns(99);
        let delay_ns = self.settings[index].delay.0;
        delay_ns > 0 && p99_ns.saturating_mul(100) > delay_ns.saturating_mul(LATE_PERCENT_MAX)
    }

    fn lateness_caution(&self, index: usize) -> Option<String> {
        let name = ["to the server", "to the command"][index];
        let p99_ns = self.ended[index].lateness.percentile_ns(99);
        self.is_late(index).then(|| {
            format!(
                "caution     packets {name} left up to {} late (p99), more than {LATE_PERCENT_MAX} % of the delay: \
                 this machine is too busy for this link",
                Quantity::Time.words(p99_ns as f64)
            )
        })
    }

    fn json(&self) -> Value {
        let direction = |index: usize| {
            let Ended { counts, inside, refused, lateness } = &self.ended[index];
            json!({
                "settings": self.settings[index].to_string(),
                "delay_ns": self.settings[index].delay.0,
                "rate_bits_per_s": self.settings[index].rate.map(|rate| rate.0),
                "entered": counts.entered,
                "left": counts.left,
                "duplicated": counts.duplicated,
                "dropped": {
                    "loss": counts.dropped_by_loss,
                    "queue": counts.dropped_by_queue,
                    "codel": counts.dropped_by_codel,
                    "device": self.device_drops[index],
                },
                "damaged": counts.damaged,
                "held_back": counts.held_back,
                "refused": refused,
                "inside": inside,
                "lateness_ns": {
                    "p50": lateness.percentile_ns(50),
                    "p99": lateness.percentile_ns(99),
                    "max": lateness.max_ns(),
                },
                "late": self.is_late(index),
            })
        };
        json!({
            "schema": "sockscope.link/1",
            "seed": self.seed,
            "to_server": direction(0),
            "to_command": direction(1),
        })
    }
}
