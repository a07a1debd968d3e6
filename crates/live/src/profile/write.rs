//! A profile as text, JSON (schema `sockscope.profile/1`) and folded stacks.

use std::io;

use serde_json::{Value, json};

use super::{LayerSamples, Profile};

/// Shares that differ by more percentage points between two runs have too few samples.
const POINTS_MAX: f64 = 3.0;
/// Functions of a layer that a table names, at most.
const NAMED_MAX: usize = 6;
/// And with at least this share of all samples, in tenths of a percent.
const NAMED_TENTHS_MIN: u64 = 5;

/// Writes a table: a line for each layer with its functions below it, and the total.
///
/// # Errors
///
/// When `out` fails.
pub fn write_text(profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
    let all = profile.samples();
    let ms = |samples: u64| samples as f64 * 1e3 / profile.frequency_hz.max(1) as f64;
    let percent = |samples: u64| samples as f64 * 100.0 / all.max(1) as f64;
    writeln!(out, "{:<44} {:>8} {:>10} {:>8}", "layer and function", "share", "CPU ms", "samples")?;
    for LayerSamples { layer, samples, functions } in profile.layers() {
        let line = |indent: &str, name: &str, samples: u64| {
            let name = format!("{indent}{name}");
            format!("{name:<44} {:>6.1} % {:>10.1} {samples:>8}", percent(samples), ms(samples))
        };
        writeln!(out, "{}", line("", layer.name(), samples))?;
        let is_much = |&&(_, samples): &&(&str, u64)| samples * 1000 >= all * NAMED_TENTHS_MIN;
        let named: Vec<_> = functions.iter().filter(is_much).take(NAMED_MAX).collect();
        // A layer of one function says nothing more.
        if functions.len() > 1 {
            for (name, samples) in &named {
                writeln!(out, "{}", line("  ", name, *samples))?;
            }
            let rest: u64 = samples - named.iter().map(|(_, samples)| samples).sum::<u64>();
            if !named.is_empty() && rest > 0 {
                let others = functions.len() - named.len();
                writeln!(out, "{}", line("  ", &counted_others(others), rest))?;
            }
        }
    }
    writeln!(out, "{:<44} {:>6.1} % {:>10.1} {all:>8}", "total", percent(all), ms(all))?;
    if profile.missed > 0 {
        writeln!(out, "caution: {} samples found no room and are not counted", profile.missed)?;
    }
    let (points, about) = (profile.points_by_chance(), "by chance alone (95 %)");
    if points > POINTS_MAX {
        writeln!(
            out,
            "caution: in another run a share may differ by {points:.1} points {about}: run longer, or raise --frequency"
        )?;
    } else {
        writeln!(out, "note: in another run a share may differ by {points:.1} points {about}")?;
    }
    let (us, share) = (profile.sample_cost_ns / 1e3, profile.cost_share() * 100.0);
    let frequency = profile.frequency_hz;
    writeln!(
        out,
        "note: a sample takes {us:.1} us here; {frequency} a second take {share:.1} % of the CPU time"
    )
}

/// Writes one document.
///
/// # Errors
///
/// When `out` fails.
pub fn write_json(profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
    let layer = |one: LayerSamples<'_>| -> Value {
        let functions = one.functions.iter();
        let functions =
            functions.map(|(name, samples)| json!({ "name": name, "samples": samples }));
        json!({
            "layer": one.layer.name(),
            "samples": one.samples,
            "functions": functions.collect::<Vec<_>>(),
        })
    };
    let document = json!({
        "schema": "sockscope.profile/1",
        "frequency_hz": profile.frequency_hz,
        "elapsed_ns": profile.elapsed_ns,
        "cpu_ns": profile.cpu_ns(),
        "samples": profile.samples(),
        "missed_samples": profile.missed,
        "sample_cost_ns": profile.sample_cost_ns,
        "points_by_chance": profile.points_by_chance(),
        "layers": profile.layers().into_iter().map(layer).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}

/// Writes a line for each place, as other programs for flame graphs read it: names with semicolons, and the samples.
///
/// # Errors
///
/// When `out` fails.
pub fn write_folded(profile: &Profile, out: &mut dyn io::Write) -> io::Result<()> {
    for (path, samples) in &profile.places {
        let names: Vec<String> = path.iter().map(|name| name.replace([';', '\n'], "_")).collect();
        writeln!(out, "{} {samples}", names.join(";"))?;
    }
    Ok(())
}

fn counted_others(count: usize) -> String {
    if count == 1 { "1 other".to_owned() } else { format!("{count} others") }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn profile() -> Profile {
        let places = [
            ("sh;user space", 250),
            ("sh;do_syscall_64;__sys_sendto;tcp_sendmsg", 500),
            ("sh;do_syscall_64;__sys_sendto;tcp_sendmsg;tcp_write_xmit", 247),
            ("sh;do_syscall_64;a_function_of_nothing", 3),
        ];
        let found = Profile::of_places(&places);
        Profile { frequency_hz: 1000, missed: 2, sample_cost_ns: 5_000.0, ..found }
    }

    fn written(write: fn(&Profile, &mut dyn io::Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&profile(), &mut out).expect("memory takes it");
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn a_table_has_layers_from_the_program_down_and_a_total() {
        assert_snapshot!(written(write_text), @r"
        layer and function                              share     CPU ms  samples
        program                                        25.0 %      250.0      250
        system call                                     0.3 %        3.0        3
        TCP                                            74.7 %      747.0      747
          tcp_sendmsg                                  50.0 %      500.0      500
          tcp_write_xmit                               24.7 %      247.0      247
        total                                         100.0 %     1000.0     1000
        caution: 2 samples found no room and are not counted
        caution: in another run a share may differ by 3.8 points by chance alone (95 %): run longer, or raise --frequency
        note: a sample takes 5.0 us here; 1000 a second take 0.5 % of the CPU time
        ");
    }

    #[test]
    fn four_times_the_samples_halve_the_chance() {
        let of =
            |samples: u64| Profile::of_places(&[("sh;user space", samples), ("sh;x", samples)]);
        let (few, many) = (of(500).points_by_chance(), of(2000).points_by_chance());
        assert!((few / many - 2.0).abs() < 1e-9 && (few - 4.383).abs() < 0.01, "{few} {many}");
        assert_eq!(Profile::of_places(&[]).points_by_chance(), 0.0);
        let mut text = Vec::new();
        write_text(&of(2000), &mut text).expect("memory takes it");
        let text = String::from_utf8(text).expect("it is text");
        assert!(text.contains("note: in another run a share may differ by 2.2 points"), "{text}");
    }

    #[test]
    fn json_and_folded_stacks_have_all_samples() {
        let json: Value = serde_json::from_str(&written(write_json)).expect("it is JSON");
        let layers = json["layers"].as_array().expect("a list");
        let sum: u64 = layers.iter().filter_map(|layer| layer["samples"].as_u64()).sum();
        assert_eq!((json["samples"].as_u64(), sum), (Some(1000), 1000));
        assert_eq!(json["cpu_ns"], 1_000_000_000);
        let folded = written(write_folded);
        assert!(
            folded.contains("sh;do_syscall_64;__sys_sendto;tcp_sendmsg;tcp_write_xmit 247\n"),
            "{folded}"
        );
    }
}
