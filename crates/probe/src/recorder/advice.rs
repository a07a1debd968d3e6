//! What to try where records were missed, by the cause.

use sockscope_record::counted;

/// A list is suggested this many times as long, up to what is accepted.
const LONGER: u64 = 16;
const LIST_BYTES_MAX: u64 = 256 << 20;

/// For hits that found a list full, and events that found their ring full.
pub(super) fn of(full: u64, events: u64, list_bytes: u64) -> Option<String> {
    let longer = (list_bytes * LONGER).min(LIST_BYTES_MAX);
    match (full, events) {
        (0, 0) => None,
        (0, _) => Some("record fewer connections (--port, --pid)".to_owned()),
        _ if longer > list_bytes => Some(format!(
            "try --buffer {}M, or record fewer connections (--port, --pid)",
            longer >> 20
        )),
        _ => Some("record fewer connections (--port, --pid)".to_owned()),
    }
}

/// One sentence for each cause; `others` are hits of connections that other users asked for.
pub(super) fn notes(
    full: u64,
    others: u64,
    events: u64,
    unlisted: u64,
    advice: Option<&str>,
) -> Vec<String> {
    let advice = advice.unwrap_or_default();
    let cause = |count, what: &str, why: &str| {
        (count > 0).then(|| format!("{} missed, {why}", counted(count, what)))
    };
    [
        cause(full, "record", &format!("as the list of a CPU was full: {advice}")),
        cause(
            others,
            "record",
            "of connections that other users asked for by SO_LOG, beyond their half of a CPU's list",
        ),
        cause(events, "event", "as the ring of events was full: record fewer connections"),
        cause(unlisted, "record", "on a CPU that came up after the start: record again"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_action_fits_the_cause() {
        assert_eq!(of(0, 0, 4 << 20), None);
        let longer = of(7, 0, 4 << 20).unwrap();
        assert!(longer.starts_with("try --buffer 64M, or record fewer"), "{longer}");
        for (full, events, bytes) in [(0, 3, 4 << 20), (7, 0, 256 << 20)] {
            assert_eq!(
                of(full, events, bytes).unwrap(),
                "record fewer connections (--port, --pid)"
            );
        }
    }

    #[test]
    fn each_cause_is_counted_apart() {
        assert_eq!(notes(0, 0, 0, 0, None), [""; 0]);
        let notes = notes(2, 4, 1, 3, Some("try this"));
        assert_eq!(
            notes,
            [
                "2 records missed, as the list of a CPU was full: try this",
                "4 records missed, of connections that other users asked for by SO_LOG, beyond their half of a \
                 CPU's list",
                "1 event missed, as the ring of events was full: record fewer connections",
                "3 records missed, on a CPU that came up after the start: record again",
            ]
        );
    }
}
