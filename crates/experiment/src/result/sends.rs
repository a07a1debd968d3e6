//! Where a message of a sender spends its time, as tables: a column for each size, as in Tables 1a and 2a of the study
//! of buffers in 4.2BSD.

use std::io;

use super::table::{Series, Table, parameters};
use super::{CaseResult, RunResult};
use crate::measurement::SendProfile;

/// A row depends on size where its greatest time is so many times the least one, or so much of the least message above
/// it.
const TIMES_MIN: f64 = 2.0;
const SHARE_MIN: f64 = 0.1;
/// And where chance makes such a difference less than once in ten thousand rows.
const DEVIATIONS_MIN: f64 = 4.0;
/// Functions that a layer names, at most, and the least share of a message's time of one.
const NAMED_MAX: usize = 5;
const NAMED_SHARE_MIN: f64 = 0.02;

/// The dependence of a row's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dependence {
    /// On the size, among the sizes of the paper.
    Size,
    /// On it among today's larger sizes alone.
    LargeSize,
    /// On neither.
    Neither,
}

impl Dependence {
    fn mark(self) -> char {
        match self {
            Self::Size => '*',
            Self::LargeSize => '+',
            Self::Neither => ' ',
        }
    }
}

/// Profiles of all cases, and whether each has a size of the paper.
struct Sends<'a> {
    profiles: Vec<&'a SendProfile>,
    is_of_paper: Vec<bool>,
}

/// Writes the tables of a result that has them.
pub(super) fn write_sends(result: &RunResult, out: &mut dyn io::Write) -> io::Result<()> {
    let cases: Vec<&CaseResult> =
        result.cases.iter().filter(|case| case.measured.sends.is_some()).collect();
    let sends = Sends {
        profiles: cases.iter().filter_map(|case| case.measured.sends.as_ref()).collect(),
        is_of_paper: cases.iter().map(|case| !result.experiment.is_of_kernel(&case.case)).collect(),
    };
    if sends.profiles.is_empty() {
        return Ok(());
    }
    let table = |title: &str, numbers| Table {
        title: title.to_owned(),
        parameters: parameters(&cases),
        numbers,
    };
    writeln!(out, "A message alone: median of its octets in each stage, nanoseconds")?;
    table("stage", sends.stages()).write_by_name(out)?;
    writeln!(out, "Passages of each point by a message alone, counted by tracepoints")?;
    table("point", sends.passages()).write_by_name(out)?;
    writeln!(out, "CPU time of the sender for a message, nanoseconds")?;
    table("  layer and function", sends.layers()).write_by_name(out)?;
    writeln!(
        out,
        "* depends on the size, + only at today's larger sizes: the greatest time is twice"
    )?;
    writeln!(
        out,
        "the least, or a tenth of the least message above it, and more than chance makes it"
    )?;
    writeln!(out)?;
    writeln!(out, "The runs of the profile, one message after the other")?;
    table("", sends.quality()).write_by_name(out)
}

impl Sends<'_> {
    fn row(&self, name: &str, value: impl Fn(&SendProfile) -> String) -> Series {
        Series {
            name: name.to_owned(),
            values: self.profiles.iter().map(|profile| value(profile)).collect(),
        }
    }

    fn stages(&self) -> Vec<Series> {
        let first = self.profiles.iter().flat_map(|profile| &profile.stages);
        let mut names: Vec<&str> = Vec::new();
        for stage in first.map(|time| time.stage) {
            if !names.contains(&stage) {
                names.push(stage);
            }
        }
        let median = |profile: &SendProfile, name: &str| {
            profile.stages.iter().find(|time| time.stage == name).and_then(|time| time.p50_ns)
        };
        let text = |ns: Option<u64>| ns.map_or("?".to_owned(), |ns| ns.to_string());
        names.iter().map(|name| self.row(name, |profile| text(median(profile, name)))).collect()
    }

    fn passages(&self) -> Vec<Series> {
        let names = self.profiles.first().into_iter().flat_map(|profile| &profile.passages);
        let count = |profile: &SendProfile, name: &str| {
            profile.passages.iter().find(|(other, _)| *other == name).map(|(_, count)| *count)
        };
        let text = |count: Option<f64>| count.map_or("?".to_owned(), |count| format!("{count:.2}"));
        names.map(|(name, _)| self.row(name, |it| text(count(it, name)))).collect()
    }

    /// Layers with their functions below them, and sums of the layers by their dependence.
    fn layers(&self) -> Vec<Series> {
        let mut rows = Vec::new();
        let mut sums = [Dependence::Size, Dependence::LargeSize, Dependence::Neither]
            .map(|dependence| (dependence, vec![0_u64; self.profiles.len()]));
        for layer in self.layer_names() {
            let samples = self.samples(|profile| profile.of_layer(layer));
            let dependence = self.dependence(&samples);
            for (_, sum) in sums.iter_mut().filter(|(of, _)| *of == dependence) {
                sum.iter_mut().zip(&samples).for_each(|(sum, samples)| *sum += samples);
            }
            rows.push(self.times(&format!("{} {layer}", dependence.mark()), &samples));
            for name in self.function_names(layer) {
                let samples = self.samples(|profile| profile.of_function(layer, name));
                let mark = self.dependence(&samples).mark();
                rows.push(self.times(&format!("{mark}   {name}"), &samples));
            }
        }
        let words = ["* depend on the size", "+ only at larger sizes", "  about the same"];
        let sums = words.iter().zip(&sums).filter(|_| self.profiles.len() > 1);
        rows.extend(sums.map(|(words, (_, samples))| self.times(words, samples)));
        rows.push(self.times("  total", &self.samples(SendProfile::samples)));
        rows
    }

    fn quality(&self) -> Vec<Series> {
        let percent = |value: Option<f64>| value.map_or("?".to_owned(), |it| format!("{it:.1}"));
        let least = |it: &SendProfile| it.cost_percent.iter().copied().reduce(f64::min);
        let most = |it: &SendProfile| it.cost_percent.iter().copied().reduce(f64::max);
        vec![
            self.row("segments or datagrams for a message", |it| {
                format!("{:.2}", it.segments_per_message)
            }),
            self.row("samples", |it| it.samples().to_string()),
            self.row("samples without room", |it| it.missed.to_string()),
            self.row("points of a share by chance (95 %)", |it| percent(Some(it.points_by_chance))),
            self.row("cost of the profile, %", |it| percent(it.mean_cost_percent())),
            self.row("  in the least of the rounds", |it| percent(least(it))),
            self.row("  in the greatest of them", |it| percent(most(it))),
        ]
    }

    fn samples(&self, of: impl Fn(&SendProfile) -> u64) -> Vec<u64> {
        self.profiles.iter().map(|profile| of(profile)).collect()
    }

    fn times(&self, name: &str, samples: &[u64]) -> Series {
        let times = self.profiles.iter().zip(samples);
        let values = times.map(|(profile, samples)| format!("{:.0}", profile.ns_of(*samples)));
        Series { name: name.to_owned(), values: values.collect() }
    }

    /// Layers of any case, from the program down.
    fn layer_names(&self) -> Vec<&'static str> {
        let mut names: Vec<(usize, &'static str)> = Vec::new();
        for layer in self.profiles.iter().flat_map(|profile| &profile.layers) {
            if !names.iter().any(|(_, name)| *name == layer.layer) {
                names.push((layer.rank, layer.layer));
            }
        }
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// Functions of a layer that have a share in the time of a message of any size, that with the greatest share first.
    /// A layer of one function names none.
    fn function_names(&self, layer: &str) -> Vec<&str> {
        let mut shares: Vec<(f64, &str)> = Vec::new();
        for profile in &self.profiles {
            let all = profile.samples().max(1) as f64;
            let layers = profile.layers.iter().filter(|one| one.layer == layer);
            for (name, samples) in layers.flat_map(|one| &one.functions) {
                let share = *samples as f64 / all;
                match shares.iter_mut().find(|(_, other)| other == name) {
                    Some((most, _)) => *most = most.max(share),
                    None => shares.push((share, name)),
                }
            }
        }
        if shares.len() < 2 {
            return Vec::new();
        }
        shares.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
        shares.retain(|(share, _)| *share >= NAMED_SHARE_MIN);
        shares.into_iter().take(NAMED_MAX).map(|(_, name)| name).collect()
    }

    fn dependence(&self, samples: &[u64]) -> Dependence {
        let all = || self.profiles.iter().copied().zip(samples.iter().copied());
        let of_paper = all().zip(&self.is_of_paper).filter(|(_, is)| **is).map(|(row, _)| row);
        if depends(of_paper) {
            Dependence::Size
        } else if depends(all()) {
            Dependence::LargeSize
        } else {
            Dependence::Neither
        }
    }
}

fn depends<'a>(rows: impl Iterator<Item = (&'a SendProfile, u64)>) -> bool {
    let rows: Vec<_> = rows.collect();
    let time = |(profile, samples): &(&SendProfile, u64)| profile.ns_of(*samples);
    let order = |one: &&_, other: &&_| time(one).total_cmp(&time(other));
    let (Some(least), Some(most)) = (rows.iter().min_by(order), rows.iter().max_by(order)) else {
        return false;
    };
    let message_ns = rows.iter().map(|(profile, _)| profile.cpu_ns).reduce(f64::min).unwrap_or(0.0);
    let above_ns = time(most) - time(least);
    let deviation = |(profile, samples): &(&SendProfile, u64)| profile.deviation_ns(*samples);
    let by_chance_ns = DEVIATIONS_MIN * deviation(least).hypot(deviation(most));
    let is_much = time(most) >= TIMES_MIN * time(least) || above_ns >= SHARE_MIN * message_ns;
    is_much && above_ns > by_chance_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{LayerSamples, Measurement, StageTime};
    use crate::{Experiment, builtin_by_id};

    /// A case whose message takes `cpu_ns`, with samples of the layers copy, TCP and IP.
    fn sends(cpu_ns: f64, samples: [u64; 3]) -> SendProfile {
        let layer = |rank, layer, functions: &[(&str, u64)]| LayerSamples {
            rank,
            layer,
            functions: functions.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
        };
        let [copy, tcp, ip] = samples;
        SendProfile {
            messages: 1000,
            segments_per_message: 0.5,
            cpu_ns,
            cost_percent: vec![2.0, 1.0],
            points_by_chance: 1.25,
            layers: vec![
                layer(3, "copy", &[("_copy_from_iter", copy)]),
                layer(4, "TCP", &[("tcp_sendmsg_locked", tcp / 2), ("tcp_ack", tcp - tcp / 2)]),
                layer(6, "IP", &[("ip_output", ip)]),
            ],
            stages: vec![
                StageTime { stage: "send_queue", p50_ns: Some(900), mean_ns: Some(1000) },
                StageTime { stage: "wire", p50_ns: None, mean_ns: None },
            ],
            passages: vec![("SendEnqueue", 1.0), ("InterfaceEnqueue", 1.5)],
            ..SendProfile::default()
        }
    }

    fn text(profiles: &[SendProfile]) -> String {
        let mut experiment: Experiment = builtin_by_id("bb-1").unwrap();
        experiment.add_values_of_kernel();
        let cases = experiment.cases().unwrap();
        let sizes = [0, 4, 8].map(|at| cases[at].clone()).into_iter();
        let cases = sizes.zip(profiles).map(|(case, sends)| {
            let measured = Measurement { sends: Some(sends.clone()), ..Measurement::default() };
            CaseResult { case, measured }
        });
        let result = RunResult { cases: cases.collect(), experiment, kernel: None };
        let mut out = Vec::new();
        write_sends(&result, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_that_depend_on_the_size_are_marked_and_summed() {
        let profiles = [
            sends(1000.0, [1000, 5000, 4000]),
            sends(1400.0, [4000, 3571, 2857]),
            sends(9000.0, [5000, 2500, 2500]),
        ];
        let text = text(&profiles);
        let row = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.map(|line| line[name.len()..].split_whitespace().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(row("message_bytes").as_deref(), Some("1 1024 32768"), "{text}");
        assert_eq!(row("send_queue").as_deref(), Some("900 900 900"), "{text}");
        assert_eq!(row("wire").as_deref(), Some("? ? ?"), "{text}");
        assert_eq!(row("InterfaceEnqueue").as_deref(), Some("1.50 1.50 1.50"), "{text}");
        assert_eq!(row("* copy").as_deref(), Some("100 537 4500"), "{text}");
        assert_eq!(row("+ TCP").as_deref(), Some("500 479 2250"), "{text}");
        assert_eq!(row("+   tcp_ack").as_deref(), Some("250 240 1125"), "{text}");
        assert_eq!(row("* depend on the size").as_deref(), Some("100 537 4500"), "{text}");
        assert_eq!(row("+ only at larger sizes").as_deref(), Some("900 863 4500"), "{text}");
        assert_eq!(row("  total").as_deref(), Some("1000 1400 9000"), "{text}");
        assert_eq!(row("cost of the profile, %").as_deref(), Some("1.5 1.5 1.5"), "{text}");
    }

    #[test]
    fn what_chance_makes_is_no_dependence() {
        let few = [sends(1000.0, [1, 5, 4]), sends(1000.0, [4, 4, 2])];
        let text = text(&few);
        assert!(text.lines().any(|line| line.starts_with("  copy")), "{text}");
    }
}
