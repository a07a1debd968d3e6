//! Numbers from the output of other people's programs. Each has a fixture: what the program wrote.

use serde_json::Value;
use sockscope_experiment::Parser;

/// What a program says of its own run.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Parsed {
    /// Octets that the receiver got, where the program counts them.
    pub(crate) bytes: u64,
    /// The time that they took, in nanoseconds.
    pub(crate) transfer_ns: u64,
    /// Other numbers.
    pub(crate) measures: Vec<(&'static str, f64)>,
}

const PER_S: &str = "requests_per_s";
const P50: &str = "latency_p50_us";
const P99: &str = "latency_p99_us";

/// Reads what `parser`'s program wrote to standard output; `None` where a number is not there.
pub(crate) fn parse(parser: Parser, text: &str) -> Option<Parsed> {
    match parser {
        Parser::Iperf3 => iperf3(text),
        Parser::Sockperf => sockperf(text),
        Parser::Wrk => wrk(text),
        Parser::Ab => ab(text),
        Parser::RedisBenchmark => redis_benchmark(text),
    }
}

fn iperf3(text: &str) -> Option<Parsed> {
    let document: Value = serde_json::from_str(text).ok()?;
    // A test over UDP has one sum.
    let end = &document["end"];
    let sum = [&end["sum_received"], &end["sum"]].into_iter().find(|sum| sum.is_object())?;
    Some(Parsed {
        bytes: sum["bytes"].as_u64()?,
        transfer_ns: (sum["seconds"].as_f64()? * 1e9) as u64,
        measures: Vec::new(),
    })
}

fn sockperf(text: &str) -> Option<Parsed> {
    let percentile = |percent: &str| number_after(text, &format!("percentile {percent} ="));
    let messages = number_after(text, "[Valid Duration] RunTime=").zip(received(text));
    let (seconds, messages) = messages?;
    let measures = vec![
        (PER_S, messages / seconds),
        (P50, percentile("50.000")?),
        (P99, percentile("99.000")?),
    ];
    Some(Parsed { measures, ..Parsed::default() })
}

/// Messages of the time that sockperf counts.
fn received(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains("[Valid Duration]"))?;
    number_after(line, "ReceivedMessages=")
}

fn wrk(text: &str) -> Option<Parsed> {
    let latency = |percent: &str| {
        let mut lines = text.lines().map(str::trim);
        let line = lines.find(|line| line.starts_with(percent))?;
        time_us(line.split_whitespace().nth(1)?)
    };
    let measures = vec![
        (PER_S, number_after(text, "Requests/sec:")?),
        (P50, latency("50%")?),
        (P99, latency("99%")?),
    ];
    Some(Parsed { measures, ..Parsed::default() })
}

/// A time with its unit, as `3.09ms`.
fn time_us(word: &str) -> Option<f64> {
    let at = word.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = word.split_at(at);
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

/// Percentiles of ab are whole milliseconds.
fn ab(text: &str) -> Option<Parsed> {
    let latency = |percent: &str| Some(1e3 * number_after(text, &format!(" {percent}%"))?);
    let measures = vec![
        (PER_S, number_after(text, "Requests per second:")?),
        (P50, latency("50")?),
        (P99, latency("99")?),
        ("failed_requests", number_after(text, "Failed requests:")?),
    ];
    Some(Parsed { measures, ..Parsed::default() })
}

fn redis_benchmark(text: &str) -> Option<Parsed> {
    let mut lines = text.lines().filter(|line| line.starts_with('"'));
    let words = |line: &str| -> Vec<String> {
        line.split(',').map(|word| word.trim_matches('"').to_owned()).collect()
    };
    let (names, values) = (words(lines.next()?), words(lines.next()?));
    let of = |name: &str| {
        let at = names.iter().position(|one| one == name)?;
        values.get(at)?.parse::<f64>().ok()
    };
    let measures = vec![
        (PER_S, of("rps")?),
        (P50, 1e3 * of("p50_latency_ms")?),
        (P99, 1e3 * of("p99_latency_ms")?),
    ];
    Some(Parsed { measures, ..Parsed::default() })
}

/// The number that stands behind some words.
fn number_after(text: &str, words: &str) -> Option<f64> {
    let (_, rest) = text.split_once(words)?;
    let rest = rest.trim_start();
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKPERF: &str = include_str!("fixtures/sockperf.txt");
    const WRK: &str = include_str!("fixtures/wrk.txt");
    const AB: &str = include_str!("fixtures/ab.txt");
    const REDIS: &str = include_str!("fixtures/redis-benchmark.csv");

    fn measures(parser: Parser, text: &str) -> Vec<(&'static str, f64)> {
        parse(parser, text).expect("it is the program's own output").measures
    }

    #[test]
    fn a_transfer_of_iperf3_has_bytes_and_a_time() {
        let parsed = parse(Parser::Iperf3, include_str!("fixtures/iperf3.json")).unwrap();
        assert_eq!((parsed.bytes, parsed.transfer_ns), (1126957056, 1001258999));
    }

    #[test]
    fn requests_have_a_rate_and_percentiles() {
        let wrk = [(PER_S, 36749.52), (P50, 75.0), (P99, 3090.0)];
        assert_eq!(measures(Parser::Wrk, WRK), wrk);
        let ab = [(PER_S, 5266.64), (P50, 1000.0), (P99, 5000.0), ("failed_requests", 0.0)];
        assert_eq!(measures(Parser::Ab, AB), ab);
        let redis = [(PER_S, 24630.54), (P50, 103.0), (P99, 407.0)];
        assert_eq!(measures(Parser::RedisBenchmark, REDIS), redis);
        let sockperf = [(PER_S, 17_496.0 / 0.544), (P50, 10.544), (P99, 65.817)];
        assert_eq!(measures(Parser::Sockperf, SOCKPERF), sockperf);
    }

    #[test]
    fn output_without_its_numbers_is_not_understood() {
        let all =
            [Parser::Iperf3, Parser::Sockperf, Parser::Wrk, Parser::Ab, Parser::RedisBenchmark];
        for parser in all {
            assert_eq!(parse(parser, ""), None, "{parser:?}");
            assert_eq!(parse(parser, "connection refused\n{}"), None, "{parser:?}");
        }
        let half = WRK.split("99%").next().unwrap();
        assert_eq!(parse(Parser::Wrk, half), None);
    }
}
