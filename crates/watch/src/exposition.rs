//! The text of OpenMetrics, read back: the older form of Prometheus is made from it.

use std::collections::HashSet;

/// The older text form of Prometheus (version 0.0.4). A counter has its `_total` in the name of the family too, and there
/// are neither units nor exemplars.
pub(crate) fn plain(open_metrics: &str) -> String {
    let types = open_metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let counters: HashSet<&str> = types.filter_map(|it| it.strip_suffix(" counter")).collect();
    let mut plain = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        if line.starts_with("# UNIT ") || line == "# EOF" {
            continue;
        }
        let described = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
        match described.and_then(|rest| rest.split_once(' ')) {
            Some((name, rest)) if counters.contains(name) => {
                plain.extend([&line[..7], name, "_total ", rest]);
            }
            Some(_) => plain.push_str(line),
            None => plain.push_str(without_exemplar(line)),
        }
        plain.push('\n');
    }
    plain
}

/// A sample up to its value, which has no space.
fn without_exemplar(line: &str) -> &str {
    let value = labels_end(line) + 1;
    line.get(value..).and_then(|rest| rest.find(' ')).map_or(line, |end| &line[..value + end])
}

/// The space after the name and its labels. Text of a label may have anything, as a program's name may.
fn labels_end(line: &str) -> usize {
    let (mut is_text, mut is_escaped) = (false, false);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_text = !is_text,
            b' ' if !is_text => return at,
            _ => {}
        }
    }
    line.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_counters_end_in_total_and_exemplars_go() {
        let open_metrics = "\
# HELP a Times.
# TYPE a counter
# UNIT a seconds
a_total{x=\"} # {\\\" 1\"} 2 # {connection=\"1\"} 1
# HELP b Now.
# TYPE b gauge
b 3
# EOF
";
        let expected = "\
# HELP a_total Times.
# TYPE a_total counter
a_total{x=\"} # {\\\" 1\"} 2
# HELP b Now.
# TYPE b gauge
b 3
";
        assert_eq!(plain(open_metrics), expected);
    }
}
