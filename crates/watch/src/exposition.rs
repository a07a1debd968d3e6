//! The text of OpenMetrics, read back: other forms are made from it, as the library has no way to the values of a family.

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

/// Metrics of one name, with their samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Family<'a> {
    pub name: &'a str,
    pub kind: &'a str,
    pub unit: &'a str,
    pub help: &'a str,
    pub samples: Vec<Sample<'a>>,
}

/// One value with its labels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample<'a> {
    pub labels: Vec<(&'a str, String)>,
    pub value: &'a str,
}

/// The families of an OpenMetrics text of ours.
pub(crate) fn families(open_metrics: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in open_metrics.lines() {
        let described = |word| line.strip_prefix(word)?.split_once(' ');
        if let Some((name, help)) = described("# HELP ") {
            families.push(Family { name, help, ..Family::default() });
            continue;
        }
        let Some(family) = families.last_mut() else { continue };
        if let Some((_, kind)) = described("# TYPE ") {
            family.kind = kind;
        } else if let Some((_, unit)) = described("# UNIT ") {
            family.unit = unit;
        } else if !line.starts_with('#') {
            let line = without_exemplar(line);
            let (series, value) = line.split_at(labels_end(line));
            let labels = series.split_once('{').map_or("", |(_, labels)| labels);
            family.samples.push(Sample { labels: read_labels(labels), value: value.trim_start() });
        }
    }
    families
}

/// Labels up to the brace behind them.
fn read_labels(mut text: &str) -> Vec<(&str, String)> {
    let mut labels = Vec::new();
    while let Some((name, rest)) = text.split_once("=\"") {
        let mut value = String::new();
        let mut bytes = rest.char_indices();
        text = "";
        while let Some((at, one)) = bytes.next() {
            match one {
                '"' => {
                    text = rest[at + 1..].trim_start_matches(',');
                    break;
                }
                '\\' => match bytes.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, escaped)) => value.push(escaped),
                    None => {}
                },
                one => value.push(one),
            }
        }
        labels.push((name, value));
    }
    labels
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

    #[test]
    fn a_family_has_its_samples() {
        let open_metrics = "\
# HELP a_seconds Times.
# TYPE a_seconds counter
# UNIT a_seconds seconds
a_seconds_total{x=\"p\\\"q, r=\\\\\",y=\"\"} 2.5 # {connection=\"1\"} 1
# HELP b Now.
# TYPE b gauge
b 3
# EOF
";
        let [a, b] = &families(open_metrics)[..] else { panic!("two families") };
        assert_eq!((a.name, a.kind, a.unit, a.help), ("a_seconds", "counter", "seconds", "Times."));
        let labels = vec![("x", "p\"q, r=\\".to_owned()), ("y", String::new())];
        assert_eq!(a.samples, [Sample { labels, value: "2.5" }]);
        assert_eq!(b.samples, [Sample { labels: Vec::new(), value: "3" }]);
    }
}
