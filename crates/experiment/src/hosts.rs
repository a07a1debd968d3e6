//! The hosts of a run and their link, for programs that no workload has.

use toml::{Table, Value};

use super::case::typed;
use super::parameters::Parameters;
use super::validate::check_hosts;

impl Parameters {
    /// The parameters of hosts and links, by name. All others belong to the programs of a workload.
    pub const HOSTS: [&str; 26] = [
        "machine",
        "personality",
        "topology",
        "link",
        "link_delay_us",
        "gateway_kbit_per_s",
        "lost_per_million",
        "duplicated_per_million",
        "reordered_per_million",
        "reordered_by_us",
        "corrupted_per_million",
        "other_frames_per_s",
        "other_frame_bytes",
        "socket_buffer_bytes",
        "segment_bytes",
        "send_rule",
        "low_water_bytes",
        "nagle",
        "ack_rule",
        "driver_gap",
        "interface_queue_packets",
        "protocol_cost_percent",
        "data_costs_only",
        "scheduler",
        "client_timer_ms",
        "server_timer_ms",
    ];

    /// Hosts and their link by the names and values of a command line. Machine and personality must be given.
    ///
    /// # Errors
    ///
    /// When a name is not one of hosts and links, a value is of the wrong type or out of its range, or
    /// some do not go together.
    pub fn of_hosts(named: &[(String, String)]) -> Result<Self, String> {
        if let Some((name, _)) =
            named.iter().find(|(name, _)| !Self::HOSTS.contains(&name.as_str()))
        {
            let known = Self::HOSTS.join(", ");
            return Err(format!("`{name}` is no parameter of hosts and links, which are {known}"));
        }
        // What is no number and no boolean is taken as a word.
        let value = |text: &str| text.parse().unwrap_or_else(|_| Value::String(text.to_owned()));
        let named: Vec<_> = named.iter().map(|(name, text)| (name.clone(), value(text))).collect();
        let table: Table = named.iter().cloned().collect();
        let parameters = typed(table, &named, Self::REQUIRED)?;
        check_hosts(&parameters)?;
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkKind, Topology};

    fn of(text: &str) -> Result<Parameters, String> {
        let pair = |word: &str| {
            let (name, value) = word.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        };
        Parameters::of_hosts(&text.split(' ').map(pair).collect::<Vec<_>>())
    }

    const HOSTS: &str = "machine=sparcstation-1 personality=4.3bsd";

    #[test]
    fn hosts_have_the_defaults_of_experiments() {
        let hosts = of(HOSTS).unwrap();
        assert_eq!((hosts.topology, hosts.link), (Topology::Pair, LinkKind::Ethernet10));
        assert_eq!((hosts.connections, hosts.protocol_cost_percent), (1, 100));
        let changed = of(&format!("{HOSTS} link=line-3 link_delay_us=7 nagle=false")).unwrap();
        assert_eq!((changed.link_delay_us, changed.nagle), (7, Some(false)));
    }

    #[test]
    fn every_name_is_a_parameter() {
        for name in Parameters::HOSTS {
            let alone = Table::from_iter([(name.to_owned(), Value::Array(Vec::new()))]);
            let refused = alone.try_into::<Parameters>().unwrap_err().to_string();
            assert!(!refused.contains("unknown field"), "{name}: {refused}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_name() {
        for (change, words) in [
            ("calls=7", "`calls` is no parameter of hosts and links"),
            ("topology=ring", "unknown variant `ring`"),
            ("socket_buffer_bytes=many", "`socket_buffer_bytes`: expected a whole number"),
            ("socket_buffer_bytes=0", "expected `socket_buffer_bytes` from 1"),
            ("lost_per_million=500001", "expected `lost_per_million` from 0"),
            ("link_delay_us=5", "`link_delay_us` goes with `link = \"line-3\"`"),
            ("other_frame_bytes=64", "`other_frame_bytes` goes with `other_frames_per_s`"),
            ("link=line-3 other_frames_per_s=5", "needs an Ethernet between two hosts"),
            ("topology=loopback other_frames_per_s=5", "needs an Ethernet between two hosts"),
            ("other_frames_per_s=10001", "expected `other_frames_per_s` from 0 to 10000"),
            ("send_rule=low-water", "`low_water_bytes` goes with `send_rule"),
        ] {
            let refused = of(&format!("{HOSTS} {change}")).unwrap_err();
            assert!(refused.contains(words) && !refused.contains('\n'), "{refused}");
        }
        assert_eq!(of("machine=instant").unwrap_err(), "missing field `personality`");
    }
}
