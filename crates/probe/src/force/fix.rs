//! A fix as the command line names it: `nodelay`, `delack=8ms`, `sndbuf=64k`.

use std::fmt;
use std::str::FromStr;

/// A socket option that a sock_ops program can set (`bpf_setsockopt()` in bpf-helpers(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FixKind {
    /// `TCP_NODELAY`: Nagle's algorithm is off.
    Nodelay,
    /// `TCP_BPF_DELACK_MAX`: the longest delay of an acknowledgment.
    Delack,
    /// `SO_SNDBUF`: the limit of the send buffer.
    Sndbuf,
    /// `SO_RCVBUF`: the limit of the receive buffer.
    Rcvbuf,
    /// `TCP_NOTSENT_LOWAT`: the unsent bytes above which a socket takes no more.
    Notsent,
    /// `TCP_CONGESTION`: the algorithm of congestion control.
    Cc,
    /// `SO_MAX_PACING_RATE`: the highest rate at which TCP sends.
    Pacing,
    /// `TCP_BPF_RTO_MIN`: the shortest timeout of a retransmission.
    RtoMin,
    /// `TCP_BPF_IW`: the congestion window at the start.
    Iw,
    /// `TCP_WINDOW_CLAMP`: the largest receive window to offer.
    WindowClamp,
}

/// The unit of the value of a fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    None,
    Time,
    Bytes,
    Rate,
    Segments,
    Name,
}

/// Numbers of options that only BPF has (linux/bpf.h).
const BPF_IW: libc::c_int = 1001;
const BPF_DELACK_MAX: libc::c_int = 1003;
const BPF_RTO_MIN: libc::c_int = 1004;

/// Name, unit, level and number of the option.
type Described = (&'static str, Unit, libc::c_int, libc::c_int);

impl FixKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Nodelay,
        Self::Delack,
        Self::Sndbuf,
        Self::Rcvbuf,
        Self::Notsent,
        Self::Cc,
        Self::Pacing,
        Self::RtoMin,
        Self::Iw,
        Self::WindowClamp,
    ];

    fn described(self) -> Described {
        use libc::{IPPROTO_TCP, SOL_SOCKET};
        match self {
            Self::Nodelay => ("nodelay", Unit::None, IPPROTO_TCP, libc::TCP_NODELAY),
            Self::Delack => ("delack", Unit::Time, IPPROTO_TCP, BPF_DELACK_MAX),
            Self::Sndbuf => ("sndbuf", Unit::Bytes, SOL_SOCKET, libc::SO_SNDBUF),
            Self::Rcvbuf => ("rcvbuf", Unit::Bytes, SOL_SOCKET, libc::SO_RCVBUF),
            Self::Notsent => ("notsent", Unit::Bytes, IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
            Self::Cc => ("cc", Unit::Name, IPPROTO_TCP, libc::TCP_CONGESTION),
            Self::Pacing => ("pacing", Unit::Rate, SOL_SOCKET, libc::SO_MAX_PACING_RATE),
            Self::RtoMin => ("rto-min", Unit::Time, IPPROTO_TCP, BPF_RTO_MIN),
            Self::Iw => ("iw", Unit::Segments, IPPROTO_TCP, BPF_IW),
            Self::WindowClamp => ("window-clamp", Unit::Bytes, IPPROTO_TCP, libc::TCP_WINDOW_CLAMP),
        }
    }

    /// As on the command line, without the value.
    pub fn name(self) -> &'static str {
        self.described().0
    }

    /// The option as programs name it.
    pub fn option_name(self) -> &'static str {
        match self {
            Self::Nodelay => "TCP_NODELAY",
            Self::Delack => "TCP_BPF_DELACK_MAX",
            Self::Sndbuf => "SO_SNDBUF",
            Self::Rcvbuf => "SO_RCVBUF",
            Self::Notsent => "TCP_NOTSENT_LOWAT",
            Self::Cc => "TCP_CONGESTION",
            Self::Pacing => "SO_MAX_PACING_RATE",
            Self::RtoMin => "TCP_BPF_RTO_MIN",
            Self::Iw => "TCP_BPF_IW",
            Self::WindowClamp => "TCP_WINDOW_CLAMP",
        }
    }

    /// Level and number of the option, as `setsockopt()` takes them.
    pub fn option(self) -> (u32, u32) {
        let (_, _, level, option) = self.described();
        (level.cast_unsigned(), option.cast_unsigned())
    }

    /// Whether it acts on the handshake, by the window that a SYN offers and its scale.
    pub(crate) fn is_early(self) -> bool {
        matches!(self, Self::Rcvbuf | Self::WindowClamp)
    }
}

/// A fix with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// Which option.
    pub kind: FixKind,
    /// The value as the kernel takes it: bytes, microseconds, bytes a second, segments, or 1.
    pub value: u32,
    /// The value of [`FixKind::Cc`]; empty for others.
    pub name: String,
}

impl Fix {
    /// `kind` with this value.
    pub fn of(kind: FixKind, value: u32) -> Self {
        Self { kind, value, name: String::new() }
    }
}

/// Units of sizes, of times and of rates, and the factor of each to the unit of the option.
const BYTES: [(&str, f64); 7] = [
    ("k", 1024.0),
    ("K", 1024.0),
    ("m", 1_048_576.0),
    ("M", 1_048_576.0),
    ("g", 1_073_741_824.0),
    ("G", 1_073_741_824.0),
    ("", 1.0),
];
const MICROSECONDS: [(&str, f64); 4] = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("", 1e3)];
const BYTES_A_SECOND: [(&str, f64); 4] =
    [("kbit", 125.0), ("mbit", 125e3), ("gbit", 125e6), ("bit", 0.125)];

impl FromStr for Fix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let Some(kind) = FixKind::ALL.into_iter().find(|kind| kind.name() == name) else {
            let names = FixKind::ALL.map(FixKind::name).join(", ");
            return Err(format!("{name:?} is no fix; there are {names}"));
        };
        let unit = kind.described().1;
        let example = kind.example();
        let missing = || format!("{name} needs a value, as {name}={example}");
        if unit == Unit::None {
            return match value {
                None => Ok(Self::of(kind, 1)),
                Some(_) => Err(format!("{name} takes no value")),
            };
        }
        let value = value.filter(|value| !value.is_empty()).ok_or_else(missing)?;
        if unit == Unit::Name {
            let is_name =
                value.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-'));
            // TCP_CA_NAME_MAX with its zero (net/tcp.h).
            if !is_name || value.len() > 15 {
                return Err(format!("{name}={value}: give the name of an algorithm, as {example}"));
            }
            return Ok(Self { kind, value: 0, name: value.to_owned() });
        }
        let number = match unit {
            Unit::Time => number(value, &MICROSECONDS),
            Unit::Rate => number(value, &BYTES_A_SECOND),
            Unit::Segments => number(value, &[("", 1.0)]),
            _ => number(value, &BYTES),
        };
        let value = number.map_err(|why| format!("{text}: {why}, as {name}={example}"))?;
        Ok(Self::of(kind, value))
    }
}

/// A number above 0 with one of the units; the unit without a name is last.
fn number(text: &str, units: &[(&str, f64)]) -> Result<u32, &'static str> {
    let at = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
    let (digits, named) = text.split_at(at);
    let unit = units.iter().find(|(unit, _)| *unit == named);
    let number = digits.parse::<f64>().ok().zip(unit).map(|(number, (_, each))| number * each);
    let number = number.ok_or("give a number and its unit")?.round();
    if number < 1.0 {
        return Err("give more than 0");
    }
    // The kernel takes an int.
    if number > f64::from(i32::MAX) {
        return Err("the kernel takes no such number, give less");
    }
    Ok(number as u32)
}

impl FixKind {
    /// A value that most kernels accept, as on the command line.
    pub(crate) fn example(self) -> &'static str {
        match self {
            Self::Nodelay => "",
            Self::Delack => "8ms",
            Self::Sndbuf | Self::Rcvbuf | Self::WindowClamp => "64k",
            Self::Notsent => "16k",
            Self::Cc => "reno",
            Self::Pacing => "10mbit",
            Self::RtoMin => "40ms",
            Self::Iw => "20",
        }
    }
}

impl fmt::Display for Fix {
    /// As the command line takes it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = (self.kind.name(), self.value);
        match self.kind.described().1 {
            Unit::None => write!(out, "{name}"),
            Unit::Name => write!(out, "{name}={}", self.name),
            Unit::Time if value % 1000 == 0 => write!(out, "{name}={}ms", value / 1000),
            Unit::Time => write!(out, "{name}={value}us"),
            Unit::Bytes if value.is_multiple_of(1 << 20) => write!(out, "{name}={}M", value >> 20),
            Unit::Bytes if value.is_multiple_of(1 << 10) => write!(out, "{name}={}k", value >> 10),
            Unit::Bytes | Unit::Segments => write!(out, "{name}={value}"),
            Unit::Rate if value.is_multiple_of(125_000) => {
                write!(out, "{name}={}mbit", value / 125_000)
            }
            Unit::Rate if value.is_multiple_of(125) => write!(out, "{name}={}kbit", value / 125),
            Unit::Rate => write!(out, "{name}={}bit", u64::from(value) * 8),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> (FixKind, u32) {
        let fix: Fix = text.parse().unwrap();
        (fix.kind, fix.value)
    }

    fn error(text: &str) -> String {
        let error = text.parse::<Fix>().unwrap_err();
        assert!(!error.contains('\n'), "{error}");
        error
    }

    #[test]
    fn values_have_the_units_of_their_options() {
        assert_eq!(parsed("nodelay"), (FixKind::Nodelay, 1));
        assert_eq!(parsed("delack=8ms"), (FixKind::Delack, 8_000));
        assert_eq!(parsed("delack=8"), (FixKind::Delack, 8_000));
        assert_eq!(parsed("rto-min=0.04s"), (FixKind::RtoMin, 40_000));
        assert_eq!(parsed("sndbuf=64k"), (FixKind::Sndbuf, 65_536));
        assert_eq!(parsed("rcvbuf=4M"), (FixKind::Rcvbuf, 4 << 20));
        assert_eq!(parsed("notsent=16384"), (FixKind::Notsent, 16_384));
        assert_eq!(parsed("pacing=10mbit"), (FixKind::Pacing, 1_250_000));
        assert_eq!(parsed("pacing=1.5gbit"), (FixKind::Pacing, 187_500_000));
        assert_eq!(parsed("iw=20"), (FixKind::Iw, 20));
        assert_eq!(parsed("window-clamp=1k"), (FixKind::WindowClamp, 1024));
        assert_eq!("cc=bbr".parse::<Fix>().unwrap().name, "bbr");
    }

    #[test]
    fn what_is_no_fix_is_refused_in_one_line() {
        assert!(error("nagle").starts_with("\"nagle\" is no fix; there are nodelay, delack, "));
        assert_eq!(error("nodelay=1"), "nodelay takes no value");
        assert_eq!(error("delack"), "delack needs a value, as delack=8ms");
        assert_eq!(error("sndbuf="), "sndbuf needs a value, as sndbuf=64k");
        assert_eq!(error("sndbuf=0"), "sndbuf=0: give more than 0, as sndbuf=64k");
        assert_eq!(error("iw=2k"), "iw=2k: give a number and its unit, as iw=20");
        assert_eq!(error("pacing=10"), "pacing=10: give a number and its unit, as pacing=10mbit");
        assert_eq!(
            error("rcvbuf=2g"),
            "rcvbuf=2g: the kernel takes no such number, give less, as rcvbuf=64k"
        );
        assert_eq!(error("cc=a/b"), "cc=a/b: give the name of an algorithm, as reno");
        assert!(error("cc=sixteen_letters_").contains("name of an algorithm"));
        assert!(error("delack=-8ms").contains("give a number"));
        assert!(error("delack=1e9s").contains("give a number"));
    }

    proptest! {
        #[test]
        fn a_printed_fix_is_read_back(at in 0..FixKind::ALL.len(), value in 1..=i32::MAX as u32) {
            let kind = FixKind::ALL[at];
            let fix = match kind {
                FixKind::Nodelay => Fix::of(kind, 1),
                FixKind::Cc => Fix { kind, value: 0, name: format!("cc_{}", value % 1000) },
                _ => Fix::of(kind, value),
            };
            prop_assert_eq!(fix.to_string().parse::<Fix>().unwrap(), fix);
        }

        #[test]
        fn no_text_makes_the_parser_fail(text in ".{0,40}") {
            if let Ok(fix) = text.parse::<Fix>() {
                prop_assert_eq!(fix.to_string().parse::<Fix>(), Ok(fix));
            }
        }
    }
}
