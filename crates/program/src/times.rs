//! Times in options.

use std::time::Duration;

/// Seconds, or with a unit: 5, 0.5, 5s, 500ms, 2m, 1h.
///
/// # Errors
///
/// What to give instead.
pub fn seconds(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let unit = UNITS.iter().find_map(|(unit, each)| Some((text.strip_suffix(unit)?, each)));
    let (number, each) = unit.unwrap_or((text, &1.0));
    let number: f64 = number.parse().map_err(|_| {
        format!("{text} is not a time: give seconds, as 5 or 0.5, or 500ms, 5s, 2m, 1h")
    })?;
    let seconds = number * each;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| format!("{text} seconds cannot be waited: give a positive number, as 0.5"))
}

/// A time in which something can be recorded.
///
/// # Errors
///
/// What to give instead.
pub fn some_time(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err(format!("in {text} seconds nothing is recorded: give more, as 0.5")),
        time => Ok(time),
    }
}
