//! When the last seconds are worth keeping.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use sockscope_analysis::FindingId;

/// Of a condition without one: the time of which it looks at the costs.
const WITHIN: Duration = Duration::from_secs(10);

/// A threshold of the time that findings cost: `lost > 1s in 10s`, `finding=slow-reader`,
/// `finding=nagle-delayed-ack > 200ms in 5s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// Costs that count.
    pub subject: Subject,
    /// It holds where they are more than this.
    pub more_than: Duration,
    /// Within so much time before now.
    pub within: Duration,
}

/// Findings whose cost counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The finding of each connection that costs most.
    Lost,
    /// This finding, of all connections.
    Finding(FindingId),
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            format!(
                "{text:?}: a condition is `lost > TIME in TIME`, or `finding=NAME`, with `> TIME in TIME` or without"
            )
        };
        let (subject, rest) = match text.split_once('>') {
            Some((subject, rest)) => (subject.trim(), Some(rest.trim())),
            None => (text.trim(), None),
        };
        let subject = match subject.split_once('=') {
            None if subject == "lost" => Subject::Lost,
            Some(("finding", name)) => Subject::Finding(finding(name.trim())?),
            _ => return Err(form()),
        };
        let Some(rest) = rest else {
            return match subject {
                Subject::Finding(_) => {
                    Ok(Self { subject, more_than: Duration::ZERO, within: WITHIN })
                }
                Subject::Lost => Err(form()),
            };
        };
        let (more_than, within) = match rest.split_once(" in ") {
            Some((more_than, within)) => (time(more_than)?, time(within)?),
            None => (time(rest)?, WITHIN),
        };
        if within.is_zero() {
            return Err(format!("{text:?}: the time after `in` is 0; give one as 10s"));
        }
        Ok(Self { subject, more_than, within })
    }
}

fn finding(name: &str) -> Result<FindingId, String> {
    let known = FindingId::ALL.iter().find(|id| id.name() == name);
    known
        .copied()
        .ok_or_else(|| format!("there is no finding {name:?}: `sockscope explain` lists the names"))
}

/// A number with its unit: `200ms`, `1.5s`, `2m`.
fn time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let wrong =
        || format!("{text:?} is no time: give a number with its unit, as 200ms, 1.5s or 2m");
    let digits = text.find(|it: char| !it.is_ascii_digit() && it != '.').ok_or_else(wrong)?;
    let unit_s = match &text[digits..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        _ => return Err(wrong()),
    };
    let number: f64 = text[..digits].parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit_s).map_err(|_| wrong())
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.subject {
            Subject::Lost => write!(f, "lost")?,
            Subject::Finding(id) => write!(f, "finding={}", id.name())?,
        }
        // A finding alone is enough: it is written without a time, and so printed.
        let is_short = matches!(self.subject, Subject::Finding(_)) && self.within == WITHIN;
        if is_short && self.more_than.is_zero() {
            return Ok(());
        }
        write!(f, " > {:?} in {:?}", self.more_than, self.within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        text.parse::<Condition>().map_or_else(|error| error, |condition| condition.to_string())
    }

    #[test]
    fn a_condition_is_a_subject_a_time_and_a_window() {
        let table = [
            ("lost > 1s in 10s", "lost > 1s in 10s"),
            ("lost>1.5s in 2m", "lost > 1.5s in 120s"),
            ("lost > 200ms", "lost > 200ms in 10s"),
            ("finding=slow-reader", "finding=slow-reader"),
            ("finding=slow-reader > 0s in 5s", "finding=slow-reader > 0ns in 5s"),
            ("lost > 0s", "lost > 0ns in 10s"),
            (
                "finding = nagle-delayed-ack > 50us in 1s",
                "\"finding = nagle-delayed-ack > 50us in 1s\": a condition is `lost > TIME in TIME`, or `finding=NAME`, with `> TIME in TIME` or without",
            ),
            ("finding=nagle-delayed-ack > 50us in 1s", "finding=nagle-delayed-ack > 50µs in 1s"),
            ("finding=nagle", "there is no finding \"nagle\": `sockscope explain` lists the names"),
            (
                "lost > 5 in 10s",
                "\"5\" is no time: give a number with its unit, as 200ms, 1.5s or 2m",
            ),
            ("lost > 1s in 0s", "\"lost > 1s in 0s\": the time after `in` is 0; give one as 10s"),
            (
                "lost > 1..5s",
                "\"1..5s\" is no time: give a number with its unit, as 200ms, 1.5s or 2m",
            ),
        ];
        for (given, expected) in table {
            assert_eq!(read(given), expected, "{given}");
        }
        for text in ["", "lost", "found > 1s", "> 1s"] {
            assert!(read(text).contains("a condition is"), "{text}: {}", read(text));
        }
    }
}
