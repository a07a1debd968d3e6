//! The socket calls of the programs of a connection, as a TOML file that people can read and edit.
//!
//! docs/reference/pattern.md describes it. A file that was written gives the same steps again.

use std::fmt::Write;

use sockscope_analysis::{Action, Activity, Loop, LoopStep, Pattern, Step, fold, unfold};
use sockscope_record::Protocol;
use toml::{Table, Value};

/// Names of the sides, which are the tables of the file.
const SIDES: [&str; 2] = ["client", "server"];

/// Columns of a line of a list.
const LIST_COLUMNS: usize = 100;

/// Steps of a side at most: a file with larger numbers is refused.
const STEPS_MAX: u64 = 10_000_000;

/// Connections at most. A process has 1024 open files where no limit was raised.
const CONNECTIONS_MAX: u64 = 1000;

/// A pattern, and its origin by the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternFile {
    /// The connection, as `tcp 127.0.0.1:40000 > 127.0.0.1:80`.
    pub connection: String,
    /// Names of the client's and the server's process; empty where they are not known.
    pub processes: [String; 2],
    /// Their calls.
    pub pattern: Pattern,
}

impl PatternFile {
    /// The text of the file.
    pub fn to_toml(&self) -> String {
        let mut text = String::from(
            "# What two programs did with their sockets. Each loop runs its steps `times` times, in order.\n\
             # `think_ns`: time that the program spends before the step. A list has a value for each round.\n\
             # `after_wait`: the program waited before that, and its caches had to be filled again.\n\
             # `woken`: data woke the read. It waited, and `think_ns` ends where its wait begins.\n\
             # `warm_ns`: the time before the step where the program does not wait; -1 is unknown.\n",
        );
        line(&mut text, "connection", &quoted(&self.connection));
        if self.pattern.connections > 1 {
            line(&mut text, "connections", &self.pattern.connections.to_string());
        }
        for (side, activity) in self.pattern.sides.iter().enumerate() {
            let _ = write!(text, "\n[{}]\n", SIDES[side]);
            line(&mut text, "process", &quoted(&self.processes[side]));
            line(&mut text, "no_delay", &activity.no_delay.to_string());
            line(&mut text, "read_buffer_bytes", &activity.read_buffer_bytes.to_string());
            let is_lower_bound = activity.read_buffer_is_lower_bound.to_string();
            line(&mut text, "read_buffer_is_lower_bound", &is_lower_bound);
            line(&mut text, "takes_all", &activity.takes_all.to_string());
            let short_take_all = activity.short_reads_take_all.to_string();
            line(&mut text, "short_reads_take_all", &short_take_all);
            line(&mut text, "answers_as_found", &activity.answers_as_found.to_string());
            for (key, bytes) in optional(activity) {
                bytes.iter().for_each(|bytes| line(&mut text, key, &bytes.to_string()));
            }
            text.push_str(
                "# Writes, and those of which it is certain which step they waited for.\n",
            );
            line(&mut text, "writes", &activity.writes.to_string());
            line(&mut text, "certain_writes", &activity.certain_writes.to_string());
            for (index, steps) in activity.sequences.iter().enumerate() {
                let sequence = (activity.sequences.len() > 1).then_some(index);
                fold(steps)
                    .iter()
                    .for_each(|one| write_loop(&mut text, SIDES[side], sequence, one));
            }
        }
        text
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    ///
    /// A sentence with the place, where it is not such a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Table = toml::from_str(text).map_err(|error| {
            let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or(""));
            format!("line {}: {}", before.matches('\n').count() + 1, error.message())
        })?;
        let connection = string(&file, "connection")?;
        let connections =
            if file.contains_key("connections") { number(&file, "connections") } else { Ok(1) }?;
        if !(1..=CONNECTIONS_MAX).contains(&connections) {
            return Err(format!("connections is not in 1 to {CONNECTIONS_MAX}"));
        }
        let connections = connections as u32;
        let side = |name: &str| -> Result<(String, Activity), String> {
            let of_side = |error: String| format!("{name}: {error}");
            let table = file.get(name).and_then(Value::as_table);
            let table = table.ok_or_else(|| format!("{name}: there is no such table"))?;
            let process = string(table, "process").map_err(of_side)?;
            Ok((process, activity(table, connections).map_err(of_side)?))
        };
        let [(client, client_did), (server, server_did)] = [side(SIDES[0])?, side(SIDES[1])?];
        let protocol = match connection.split_once(' ') {
            Some(("tcp", _)) => Protocol::Tcp,
            Some(("udp", _)) => Protocol::Udp,
            _ => return Err("connection does not begin with tcp or udp".to_owned()),
        };
        let pattern = Pattern { protocol, connections, sides: [client_did, server_did] };
        Ok(Self { connection, processes: [client, server], pattern })
    }
}

/// The keys that a side has where their values are known.
fn optional(activity: &Activity) -> [(&'static str, Option<u64>); 7] {
    [
        ("reads_up_to", activity.reads_up_to),
        ("woken_read_ns", activity.woken_read_ns),
        ("poll_ns", activity.poll_ns),
        ("send_buffer_bytes", activity.send_buffer_bytes),
        ("receive_buffer_bytes", activity.receive_buffer_bytes),
        ("warm_think_ns", activity.warm_think_ns),
        ("refill_ns", activity.refill_ns),
    ]
}

fn line(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{key} = {value}");
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let letters = text.chars().map(|it| match it {
        '"' | '\\' => format!("\\{it}"),
        it if it.is_control() => format!("\\u{:04x}", u32::from(it)),
        it => it.to_string(),
    });
    format!("\"{}\"", letters.collect::<String>())
}

fn write_loop(text: &mut String, side: &str, sequence: Option<usize>, one: &Loop) {
    let _ = write!(text, "\n[[{side}.loop]]\n");
    if let Some(sequence) = sequence {
        line(text, "sequence", &sequence.to_string());
    }
    line(text, "times", &one.times.to_string());
    for step in &one.steps {
        let _ = writeln!(text, "[[{side}.loop.step]]");
        line(text, name(step.action), &list(&step.bytes));
        if step.connection != [0] {
            line(text, "connection", &list(&step.connection));
        }
        if step.think_ns != [0] {
            line(text, "think_ns", &list(&step.think_ns));
        }
        if step.after_wait != [false] {
            line(text, "after_wait", &list(&step.after_wait));
        }
        if step.woken != [false] {
            line(text, "woken", &list(&step.woken));
        }
        if step.warm_ns.iter().any(Option::is_some) {
            let signed = step
                .warm_ns
                .iter()
                .map(|ns| ns.map_or(-1, |ns| ns.min(i64::MAX as u64).cast_signed()));
            line(text, "warm_ns", &list(&signed.collect::<Vec<i64>>()));
        }
    }
}

fn name(action: Action) -> &'static str {
    match action {
        Action::Write => "write",
        Action::Read => "read",
    }
}

/// One number, or a list in lines.
fn list<T: ToString>(values: &[T]) -> String {
    if let [one] = values {
        return one.to_string();
    }
    let mut text = String::from("[");
    let mut columns = LIST_COLUMNS;
    for value in values {
        let value = format!(" {},", value.to_string());
        columns += value.len();
        if columns >= LIST_COLUMNS {
            text.push_str("\n ");
            columns = value.len();
        }
        text.push_str(&value);
    }
    text.push_str("\n]");
    text
}

fn activity(table: &Table, connections: u32) -> Result<Activity, String> {
    let mut sequences: Vec<Vec<Step>> = Vec::new();
    let empty = Vec::new();
    let loops = match table.get("loop") {
        None => &empty,
        Some(loops) => loops.as_array().ok_or("loop is not a list of tables")?,
    };
    for (index, one) in loops.iter().enumerate() {
        let of_loop = |error: String| format!("loop {}: {error}", index + 1);
        let one = one.as_table().ok_or_else(|| of_loop("not a table".to_owned()))?;
        let sequence = if one.contains_key("sequence") { number(one, "sequence") } else { Ok(0) };
        let sequence = sequence.map_err(of_loop)?;
        // Of each connection the reads and the writes.
        let last = 2 * u64::from(connections) - 1;
        if sequence > last {
            return Err(of_loop(format!("a side has the sequences 0 to {last}")));
        }
        let parsed = parse_loop(one).map_err(of_loop)?;
        let numbers = parsed.steps.iter().flat_map(|step| &step.connection);
        if let Some(wrong) = numbers.max().filter(|number| **number >= connections) {
            return Err(of_loop(format!(
                "there is no connection {wrong}: their number is {connections}"
            )));
        }
        let known: u64 = sequences.iter().map(|steps| steps.len() as u64).sum();
        let more = parsed.times.saturating_mul(parsed.steps.len() as u64);
        if known.saturating_add(more) > STEPS_MAX {
            return Err(of_loop(format!("more than {STEPS_MAX} steps")));
        }
        sequences.resize_with(sequences.len().max(sequence as usize + 1), Vec::new);
        sequences[sequence as usize].extend(unfold(&[parsed]));
    }
    let optional = |key| table.get(key).map(|value| whole(Some(value), key)).transpose();
    let flag = |key| if table.contains_key(key) { boolean(table, key) } else { Ok(false) };
    Ok(Activity {
        sequences,
        writes: number(table, "writes")?,
        certain_writes: number(table, "certain_writes")?,
        read_buffer_bytes: number(table, "read_buffer_bytes")?,
        read_buffer_is_lower_bound: boolean(table, "read_buffer_is_lower_bound")?,
        takes_all: flag("takes_all")?,
        short_reads_take_all: flag("short_reads_take_all")?,
        answers_as_found: flag("answers_as_found")?,
        no_delay: boolean(table, "no_delay")?,
        reads_up_to: optional("reads_up_to")?,
        woken_read_ns: optional("woken_read_ns")?,
        poll_ns: optional("poll_ns")?,
        send_buffer_bytes: optional("send_buffer_bytes")?,
        receive_buffer_bytes: optional("receive_buffer_bytes")?,
        warm_think_ns: optional("warm_think_ns")?,
        refill_ns: optional("refill_ns")?,
    })
}

fn parse_loop(table: &Table) -> Result<Loop, String> {
    let times = number(table, "times")?;
    let steps = table.get("step").and_then(Value::as_array).ok_or("it has no step")?;
    let step = |(index, step): (usize, &Value)| {
        let of_step = |error: String| format!("step {}: {error}", index + 1);
        let step = step.as_table().ok_or_else(|| of_step("not a table".to_owned()))?;
        parse_step(step, times).map_err(of_step)
    };
    Ok(Loop { times, steps: steps.iter().enumerate().map(step).collect::<Result<_, _>>()? })
}

fn parse_step(table: &Table, times: u64) -> Result<LoopStep, String> {
    let action = match (table.contains_key("write"), table.contains_key("read")) {
        (true, false) => Action::Write,
        (false, true) => Action::Read,
        _ => return Err("give write or read, one of them".to_owned()),
    };
    let think_ns = match table.get("think_ns") {
        None => vec![0],
        Some(value) => numbers(value, "think_ns", times)?,
    };
    let bytes = numbers(&table[name(action)], name(action), times)?;
    let connection = match table.get("connection") {
        None => vec![0],
        Some(value) => each_round(value, "connection", times, |value, key| {
            let number = u32::try_from(whole(Some(value), key)?);
            number.map_err(|_| format!("{key} is not a number of a connection"))
        })?,
    };
    let flags = |key: &str| match table.get(key) {
        None => Ok(vec![false]),
        Some(value) => each_round(value, key, times, |value, key| {
            value.as_bool().ok_or_else(|| format!("{key} is not true or false"))
        }),
    };
    let (after_wait, woken) = (flags("after_wait")?, flags("woken")?);
    let warm_ns = match table.get("warm_ns") {
        None => vec![None],
        Some(value) => each_round(value, "warm_ns", times, |value, key| {
            let number = value.as_integer().filter(|ns| *ns >= -1);
            let number = number.ok_or_else(|| format!("{key} is not a whole number, or -1"))?;
            Ok(u64::try_from(number).ok())
        })?,
    };
    Ok(LoopStep { action, connection, bytes, think_ns, after_wait, warm_ns, woken })
}

/// One number, or one for each round.
fn numbers(value: &Value, key: &str, times: u64) -> Result<Vec<u64>, String> {
    each_round(value, key, times, |value, key| whole(Some(value), key))
}

fn each_round<T>(
    value: &Value,
    key: &str,
    times: u64,
    read: fn(&Value, &str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let Some(list) = value.as_array() else { return Ok(vec![read(value, key)?]) };
    if list.len() as u64 != times {
        return Err(format!("{key} has {} values for {times} rounds", list.len()));
    }
    list.iter().map(|value| read(value, key)).collect()
}

fn number(table: &Table, key: &str) -> Result<u64, String> {
    whole(table.get(key), key)
}

fn whole(value: Option<&Value>, key: &str) -> Result<u64, String> {
    let value = value.ok_or_else(|| missing(key))?;
    let number = value.as_integer().and_then(|value| u64::try_from(value).ok());
    number.ok_or_else(|| format!("{key} is not a whole number"))
}

fn boolean(table: &Table, key: &str) -> Result<bool, String> {
    let value = table.get(key).ok_or_else(|| missing(key))?;
    value.as_bool().ok_or_else(|| format!("{key} is not true or false"))
}

fn string(table: &Table, key: &str) -> Result<String, String> {
    let value = table.get(key).ok_or_else(|| missing(key))?;
    value.as_str().map(str::to_owned).ok_or_else(|| format!("{key} is not a text"))
}

fn missing(key: &str) -> String {
    format!("{key} is missing")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn step(action: Action, bytes: u64, think_ns: u64) -> Step {
        let after_wait = think_ns >= 50_000 || think_ns == 3;
        let warm_ns = matches!(think_ns, 2 | 8_000).then_some(think_ns / 2);
        Step { action, connection: 0, bytes, think_ns, after_wait, warm_ns, woken: bytes == 400 }
    }

    /// 200 calls in two writes, whose client thinks differently each time.
    fn calls() -> PatternFile {
        let client = (0..200).flat_map(|at| {
            [
                step(Action::Write, 100, 50_000 + at),
                step(Action::Write, 300, 8_000),
                step(Action::Read, 100, 0),
            ]
        });
        let server = (0..200)
            .flat_map(|at| [step(Action::Read, 400, 0), step(Action::Write, 100, 30_000 + at)]);
        let side = |steps: Vec<Step>, writes| Activity {
            sequences: vec![steps],
            writes,
            certain_writes: writes,
            read_buffer_bytes: 400,
            read_buffer_is_lower_bound: true,
            takes_all: true,
            short_reads_take_all: true,
            answers_as_found: true,
            reads_up_to: Some(65_536),
            woken_read_ns: Some(3_000),
            poll_ns: Some(0),
            no_delay: false,
            send_buffer_bytes: None,
            receive_buffer_bytes: Some(4096),
            warm_think_ns: Some(8_000),
            refill_ns: Some(30_000),
        };
        PatternFile {
            connection: "tcp 127.0.0.1:40000 > 127.0.0.1:80".to_owned(),
            processes: ["python3", "a \"server\"\u{1b}\\"].map(str::to_owned),
            pattern: Pattern {
                protocol: Protocol::Tcp,
                connections: 1,
                sides: [side(client.collect(), 400), side(server.collect(), 200)],
            },
        }
    }

    #[test]
    fn two_hundred_calls_are_a_page() {
        let text = calls().to_toml();
        assert!(text.lines().count() < 100, "{text}");
        assert!(text.lines().all(|line| line.len() <= 110), "{text}");
        assert!(
            text.contains(
                "times = 200\n[[client.loop.step]]\nwrite = 100\nthink_ns = [\n  50000, 50001,"
            ),
            "{text}"
        );
    }

    #[test]
    fn what_was_written_is_read_again() {
        assert_eq!(PatternFile::parse(&calls().to_toml()), Ok(calls()));
    }

    #[test]
    fn a_wrong_file_is_refused_with_the_place() {
        let changed = |from: &str, to: &str| {
            let text = calls().to_toml();
            assert!(text.contains(from), "{text}");
            PatternFile::parse(&text.replacen(from, to, 1)).unwrap_err()
        };
        assert_eq!(
            changed("times = 200", "times = 199"),
            "client: loop 1: step 1: think_ns has 200 values for 199 rounds"
        );
        assert_eq!(
            changed("write = 100", "send = 100"),
            "client: loop 1: step 1: give write or read, one of them"
        );
        assert_eq!(
            changed("write = 300", "write = -1"),
            "client: loop 1: step 2: write is not a whole number"
        );
        assert_eq!(
            changed("no_delay = false", "no_delay = 0"),
            "client: no_delay is not true or false"
        );
        assert_eq!(changed("times = 200", "tymes = 200"), "client: loop 1: times is missing");
        assert_eq!(changed("no_delay = false", ""), "client: no_delay is missing");
        assert_eq!(changed("connection = ", "connexion = "), "connection is missing");
    }

    #[test]
    fn a_step_of_a_connection_that_is_not_there_is_refused() {
        let text = calls().to_toml().replacen("write = 100", "write = 100\nconnection = 1", 1);
        let error = PatternFile::parse(&text).unwrap_err();
        assert_eq!(error, "client: loop 1: there is no connection 1: their number is 1");
        let of_two = text.replacen("\n[client]", "connections = 2\n[client]", 1);
        let client = &PatternFile::parse(&of_two).unwrap().pattern.sides[0];
        assert_eq!(
            client.sequences[0][..2].iter().map(|it| it.connection).collect::<Vec<_>>(),
            [1, 0]
        );
        let none = text.replacen("\n[client]", "connections = 0\n[client]", 1);
        assert_eq!(PatternFile::parse(&none).unwrap_err(), "connections is not in 1 to 1000");
    }

    #[test]
    fn a_file_of_endless_steps_is_refused() {
        let text = calls().to_toml();
        let head = text.split("[[client.loop]]").next().unwrap();
        let server = &text[text.find("[server]").unwrap()..];
        let endless =
            "[[client.loop]]\ntimes = 9223372036854775807\n[[client.loop.step]]\nread = 1\n";
        let error = PatternFile::parse(&format!("{head}{endless}{server}")).unwrap_err();
        assert_eq!(error, "client: loop 1: more than 10000000 steps");
    }

    fn any_steps() -> impl Strategy<Value = Vec<Step>> {
        let one = (any::<bool>(), 0u32..3, 1u64..5, 0u64..4);
        let one = one.prop_map(|(is_write, connection, bytes, think_ns)| {
            let action = if is_write { Action::Write } else { Action::Read };
            Step { connection, ..step(action, bytes, think_ns) }
        });
        (prop::collection::vec(one, 1..9), 1usize..9).prop_map(|(steps, times)| steps.repeat(times))
    }

    proptest! {
        #[test]
        fn any_steps_are_the_same_after_writing_and_reading(
            client in prop::collection::vec(any_steps(), 1..3),
            server in prop::collection::vec(any_steps(), 1..3),
        ) {
            let mut file = calls();
            file.pattern.connections = 3;
            file.pattern.sides[0].sequences = client;
            file.pattern.sides[1].sequences = server;
            prop_assert_eq!(PatternFile::parse(&file.to_toml()), Ok(file));
        }
    }
}
