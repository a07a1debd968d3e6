//! A case as programs of `lab work`, and the network between them.

use sockscope_experiment::{Case, Experiment, LinkKind, Parameters, Protocol, Topology, Workload};
use sockscope_link::{Bandwidth, Interval, LossModel, Reordering, Settings, Share};

/// Where the answering program is in every topology.
const ADDRESS: &str = "198.18.0.2:7000";
/// Parameters with a counterpart here, as they stand in files.
const KNOWN: [&str; 25] = [
    "machine",
    "personality",
    "topology",
    "link",
    "link_delay_us",
    "lost_per_million",
    "duplicated_per_million",
    "reordered_per_million",
    "reordered_by_us",
    "corrupted_per_million",
    "protocol",
    "message_bytes",
    "messages",
    "data_bytes",
    "calls",
    "rpc_buffer_bytes",
    "total_bytes",
    "write_bytes",
    "read_bytes",
    "socket_buffer_bytes",
    "receiver_buffer_bytes",
    "write_pause_ms",
    "read_pause_ms",
    "nodelay",
    "interface_queue_packets",
];
/// Bits a second of an Ethernet of 10 Mbit/s, and of the experimental one (Metcalfe and Boggs, 1976: 2.94 Mbit/s).
const ETHERNET_10: u64 = 10_000_000;
const ETHERNET_3: u64 = 2_940_000;
/// How long a frame is held back, where the file does not say it: as in the model.
const REORDERED_BY_US: u64 = 10_000;
/// The buffer of a record stream (the default of the library that the layering paper used).
const RPC_BUFFER: u64 = 4000;

/// The network of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Network {
    /// One host.
    Loopback,
    /// Two, with devices of a rate and a queue in packets.
    Pair(Bandwidth, Option<u64>),
    /// Two, with a wire in user space, the same both ways.
    Wire(Box<Settings>),
}

/// What runs in a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Programs {
    pub(super) network: Network,
    /// Arguments behind `lab work`.
    pub(super) server: Vec<String>,
    pub(super) client: Vec<String>,
    pub(super) is_udp: bool,
    /// Whether the result's times are those of calls; else they are of whole transfers.
    pub(super) has_calls: bool,
}

impl Programs {
    /// Of a case; else which parameter has no counterpart here.
    pub(super) fn of(experiment: &Experiment, case: &Case) -> Result<Self, String> {
        let mut names = case.named.iter().map(|(name, _)| name.as_str());
        if let Some(name) = names.find(|name| !KNOWN.contains(name)) {
            return Err(format!("`{name}` has no counterpart here"));
        }
        let parameters = &case.parameters;
        let mut server = vec![experiment_program(experiment.workload)[0].to_owned()];
        let mut client = vec![experiment_program(experiment.workload)[1].to_owned()];
        server.extend(["--listen", ADDRESS].map(str::to_owned));
        client.extend(["--to", ADDRESS].map(str::to_owned));
        let is_udp = parameters.protocol == Protocol::Udp;
        match experiment.workload {
            Workload::RpcEcho => echo(parameters, &mut server, &mut client),
            Workload::Discard => discard(parameters, &mut server, &mut client),
            _ => send(parameters, &mut server, &mut client),
        }
        buffers(parameters, &mut server, &mut client);
        if parameters.nodelay {
            client.push("--nodelay".to_owned());
        }
        let has_calls = experiment.workload != Workload::Discard;
        Ok(Self { network: Network::of(parameters)?, server, client, is_udp, has_calls })
    }
}

/// The receiving and the sending program.
fn experiment_program(workload: Workload) -> [&'static str; 2] {
    if workload == Workload::RpcEcho { ["rpc-echo", "rpc-echo"] } else { ["discard", "send"] }
}

fn with(to: &mut Vec<String>, option: &str, value: u64, unit: &str) {
    to.extend([option.to_owned(), format!("{value}{unit}")]);
}

fn echo(parameters: &Parameters, server: &mut Vec<String>, client: &mut Vec<String>) {
    let buffer = match parameters.rpc_buffer_bytes {
        0 => RPC_BUFFER,
        bytes => bytes,
    };
    for end in [server, &mut *client] {
        with(end, "--buffer", buffer, "b");
    }
    with(client, "--bytes", parameters.data_bytes.unwrap_or(0), "b");
    with(client, "--calls", parameters.calls.unwrap_or(1), "");
    client.push("--list-times".to_owned());
}

fn discard(parameters: &Parameters, server: &mut Vec<String>, client: &mut Vec<String>) {
    let total = parameters.total_bytes.unwrap_or(0);
    with(server, "--read-bytes", parameters.discard_read_bytes(), "b");
    with(server, "--pause", parameters.read_pause_ms, "ms");
    with(client, "--message-bytes", parameters.write_bytes.unwrap_or(total), "b");
    with(client, "--bytes", total, "b");
    with(client, "--pause", parameters.write_pause_ms, "ms");
}

fn send(parameters: &Parameters, server: &mut Vec<String>, client: &mut Vec<String>) {
    with(client, "--message-bytes", parameters.message_bytes.unwrap_or(1), "b");
    with(client, "--messages", parameters.messages.unwrap_or(1), "");
    client.push("--list-times".to_owned());
    if parameters.protocol == Protocol::Udp {
        for end in [server, client] {
            end.extend(["--protocol", "udp"].map(str::to_owned));
        }
    }
}

/// Sizes of both sockets' buffers, where the case has them.
fn buffers(parameters: &Parameters, server: &mut Vec<String>, client: &mut Vec<String>) {
    let both = parameters.socket_buffer_bytes;
    for (end, bytes) in [(client, both), (server, parameters.receiver_buffer_bytes.or(both))] {
        if let Some(bytes) = bytes {
            with(end, "--send-buffer", bytes, "b");
            with(end, "--receive-buffer", bytes, "b");
        }
    }
}

impl Network {
    fn of(parameters: &Parameters) -> Result<Self, String> {
        let faults = parameters.faults();
        let has_faults = faults.lost_per_million
            + faults.duplicated_per_million
            + faults.reordered_per_million
            + faults.corrupted_per_million
            > 0;
        let rate = Bandwidth(match parameters.link {
            LinkKind::Ethernet10 => ETHERNET_10,
            LinkKind::Ethernet3 | LinkKind::Line3 => ETHERNET_3,
        });
        if parameters.topology == Topology::Loopback {
            return if has_faults {
                Err("faults need a link".to_owned())
            } else {
                Ok(Self::Loopback)
            };
        }
        if !has_faults && parameters.link != LinkKind::Line3 {
            return Ok(Self::Pair(rate, parameters.interface_queue_packets.map(u64::from)));
        }
        let share =
            |per_million: u32| Share::new(f64::from(per_million) / 1e6).unwrap_or(Share::ONE);
        let by_us = faults.reordered_by_us.unwrap_or(REORDERED_BY_US);
        let reordering =
            Reordering { share: share(faults.reordered_per_million), by: Interval(by_us * 1000) };
        Ok(Self::Wire(Box::new(Settings {
            delay: Interval(parameters.link_delay_us * 1000),
            rate: Some(rate),
            loss: match faults.lost_per_million {
                0 => LossModel::None,
                per_million => LossModel::Random(share(per_million)),
            },
            reordering: Some(reordering).filter(|_| faults.reordered_per_million > 0),
            duplicates: share(faults.duplicated_per_million),
            damage: share(faults.corrupted_per_million),
            ..Settings::default()
        })))
    }
}

#[cfg(test)]
mod tests {
    use sockscope_experiment::builtin_by_id;

    use super::super::of_kernel;
    use super::*;

    fn first(id: &str, changes: &[&str]) -> Result<Programs, String> {
        let mut experiment = of_kernel(&builtin_by_id(id).unwrap()).unwrap();
        experiment.set_all(changes).unwrap();
        Programs::of(&experiment, &experiment.cases().unwrap()[0])
    }

    #[test]
    fn a_transfer_is_a_sender_and_a_reader_with_the_buffers_of_the_case() {
        let programs = first("si-1a", &["socket_buffer_bytes=8192"]).unwrap();
        assert_eq!(programs.network, Network::Pair(Bandwidth(10_000_000), None));
        assert_eq!(
            programs.server.join(" "),
            "discard --listen 198.18.0.2:7000 --read-bytes 52428b --pause 0ms --send-buffer 8192b --receive-buffer 8192b"
        );
        assert_eq!(
            programs.client.join(" "),
            "send --to 198.18.0.2:7000 --message-bytes 5242880b --bytes 5242880b --pause 0ms --send-buffer 8192b --receive-buffer 8192b"
        );
    }

    #[test]
    fn a_line_with_a_delay_and_faults_is_a_wire() {
        let programs =
            first("bb-3", &["link=line-3", "link_delay_us=5000", "lost_per_million=10000"]);
        let Network::Wire(settings) = programs.unwrap().network else { panic!("it has a delay") };
        let words = settings.to_string();
        assert_eq!(words, "delay=5ms rate=2.94mbit queue=1000p loss=1%");
    }

    #[test]
    fn a_parameter_without_a_counterpart_is_named() {
        assert_eq!(first("si-4a", &[]).unwrap_err(), "`load_at` has no counterpart here");
    }
}
