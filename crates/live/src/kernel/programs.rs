//! A case as programs of `lab work`, and the network between them.

use std::num::NonZero;

use sockscope_experiment::{
    CallProtocol, Case, Experiment, Faults, LinkKind, LoadAt, OtherPrograms, Parameters, Parser,
    Protocol, Topology, VmtpParameters, Workload,
};
use sockscope_link::{Bandwidth, Interval, LossModel, Reordering, Settings, Share, Side};

/// Where the answering program is in every topology.
const ADDRESS: &str = "198.18.0.2:7000";
/// Ports of the answering program, and of the reader behind a pipeline.
const PORT: u16 = 7000;
const SINK_PORT: u16 = 7001;
const SINK: &str = "198.18.0.1:7001";
/// The CPU of a client that has one of its own.
pub(super) const CLIENT_CPU: usize = 0;
/// Parameters with a counterpart here, as they stand in files.
const KNOWN: [&str; 45] = [
    "machine",
    "personality",
    "topology",
    "link",
    "link_delay_us",
    "link_kbit_per_s",
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
    "nagle",
    "sack",
    "timestamps",
    "window_scaling",
    "send_rule",
    "low_water_bytes",
    "segment_bytes",
    "connections",
    "load",
    "load_at",
    "pieces",
    "piece_bytes",
    "compute_us",
    "interface_queue_packets",
    "clients",
    "own_hosts",
    "request_bytes",
    "response_bytes",
    "members",
    "run_ms",
];
/// Bits a second of an Ethernet of 10 Mbit/s, and of the experimental one (Metcalfe and Boggs, 1976: 2.94 Mbit/s).
const ETHERNET_10: u64 = 10_000_000;
const ETHERNET_3: u64 = 2_940_000;
/// How long a frame is held back, where the file does not say it: as in the model.
const REORDERED_BY_US: u64 = 10_000;
/// The buffer of a record stream (the default of the library that the layering paper used).
const RPC_BUFFER: u64 = 4000;
/// Octets of TCP's timestamps in each segment, which count in TCP_MAXSEG.
const TIMESTAMP_BYTES: u32 = 12;
/// A window holds so many segments at least: Linux sends no segment of more than half of the window.
const SEGMENTS_OF_WINDOW: u64 = 4;

/// The network of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Network {
    /// One host.
    Loopback,
    /// Two, with devices of a rate and a queue in packets.
    Pair(Bandwidth, Option<u64>),
    /// Two, with devices without a rate.
    Fast,
    /// A server, and so many clients, each with such a pair of devices.
    Crowd(Bandwidth, u8),
    /// Two, with a wire in user space, the same both ways.
    Wire(Box<Settings>),
}

/// What the results are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The time of a whole transfer.
    Transfer,
    /// The times of calls.
    Calls,
    /// A transfer through three processes.
    Pipeline,
    /// Programs of other people.
    Others(Parser),
    /// Calls over VMTP, TCP or QUIC.
    Transactions {
        /// Clients of all hosts.
        clients: u32,
        /// Hosts that have them.
        hosts: u32,
    },
}

/// A program that others wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) side: Side,
    pub(super) port: u16,
    /// Arguments behind `lab work`.
    pub(super) arguments: Vec<String>,
}

/// What runs in a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Programs {
    pub(super) network: Network,
    /// Numbers below `net.ipv4` that are not the kernel's default.
    pub(super) settings: Vec<(&'static str, u32)>,
    /// What only computes, and on which host.
    pub(super) load: Option<(Side, Vec<String>)>,
    /// The last receiver of the data first.
    pub(super) servers: Vec<Server>,
    /// Programs that ask, each on a host of its own in a crowd.
    pub(super) clients: Vec<Vec<String>>,
    /// The servers end at a signal: a socket of datagrams has no end by itself.
    pub(super) needs_signal: bool,
    pub(super) kind: Kind,
}

/// Arguments of both ends.
type Ends = (Vec<String>, Vec<String>);

impl Programs {
    /// Of a case; else which parameter has no counterpart here.
    pub(super) fn of(experiment: &Experiment, case: &Case) -> Result<Self, String> {
        let mut names = case.named.iter().map(|(name, _)| name.as_str());
        if let Some(name) = names.find(|name| !KNOWN.contains(name)) {
            return Err(format!("`{name}` has no counterpart here"));
        }
        if let Some(vmtp) = &case.vmtp {
            return Self::transactions(vmtp);
        }
        let parameters = &case.parameters;
        if let Some(others) = &experiment.program {
            return Self::of_others(others, parameters);
        }
        let (mut server, mut client) = match experiment.workload {
            Workload::RpcEcho => echo(parameters),
            Workload::Discard => discard(parameters),
            Workload::Pipeline => pipeline(parameters),
            _ => send(parameters),
        };
        buffers(parameters, &mut server, &mut client);
        of_tcp(parameters, &mut server, &mut client);
        let mut programs = Self {
            network: Network::of(parameters)?,
            settings: settings(parameters),
            load: None,
            servers: vec![Server { side: Side::Server, port: PORT, arguments: server }],
            clients: vec![client; parameters.connections.into()],
            needs_signal: parameters.protocol == Protocol::Udp,
            kind: match experiment.workload {
                Workload::Discard => Kind::Transfer,
                Workload::Pipeline => Kind::Pipeline,
                _ => Kind::Calls,
            },
        };
        if experiment.workload == Workload::Pipeline {
            let mut sink = words("discard --listen");
            sink.push(SINK.to_owned());
            with(&mut sink, "--read-bytes", parameters.piece_bytes.unwrap_or(1), "b");
            let sink = Server { side: Side::Client, port: SINK_PORT, arguments: sink };
            programs.servers.insert(0, sink);
        }
        if experiment.parameter_names().contains("load") {
            programs.beside_load(parameters);
        }
        Ok(programs)
    }

    /// The port whose connections are recorded: that at which the clients are answered, or of a pipeline, that to which
    /// its stage sends. `None` where programs of others have no server.
    pub(super) fn recorded_port(&self) -> Option<u16> {
        let server = match self.kind {
            Kind::Pipeline => self.servers.first(),
            _ => self.servers.last(),
        };
        server.map(|server| server.port)
    }

    /// Gives each end a CPU of its own where there are two: those of client and server.
    fn bind_ends(&mut self) -> [usize; 2] {
        let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
        let ends = [CLIENT_CPU, usize::from(cpus > 1)];
        self.bind(ends);
        ends
    }

    /// Lets both ends share a CPU.
    pub(super) fn share_cpu(&mut self) {
        self.bind([CLIENT_CPU; 2]);
    }

    fn bind(&mut self, [client, server]: [usize; 2]) {
        let bind = |arguments: &mut Vec<String>, cpu: usize| {
            arguments.splice(0..0, ["--cpu".to_owned(), cpu.to_string()]);
        };
        self.servers.iter_mut().for_each(|one| bind(&mut one.arguments, server));
        self.clients.iter_mut().for_each(|one| bind(one, client));
    }

    /// The load is on the CPU of one end.
    fn beside_load(&mut self, parameters: &Parameters) {
        let [client, server] = self.bind_ends();
        if parameters.load > 0 {
            let (side, cpu) = match parameters.load_at {
                LoadAt::Server => (Side::Server, server),
                LoadAt::Client => (Side::Client, client),
            };
            let mut arguments = words("load");
            with(&mut arguments, "--processes", parameters.load.into(), "");
            with(&mut arguments, "--cpus", cpu as u64, "");
            self.load = Some((side, arguments));
        }
    }

    /// Their command lines, each as the only argument.
    fn of_others(others: &OtherPrograms, parameters: &Parameters) -> Result<Self, String> {
        let server = others.server.clone().zip(others.ready).map(|(line, port)| Server {
            side: Side::Server,
            port,
            arguments: vec![line],
        });
        Ok(Self {
            network: Network::of(parameters)?,
            settings: settings(parameters),
            load: None,
            servers: server.into_iter().collect(),
            clients: vec![vec![others.command.clone()]],
            needs_signal: true,
            kind: Kind::Others(others.parse),
        })
    }

    fn transactions(parameters: &VmtpParameters) -> Result<Self, String> {
        let hosts = parameters.client_hosts();
        let (faults, delay_us) = (parameters.faults(), parameters.link_delay_us);
        let rate = Bandwidth(parameters.link_kbit_per_s.map_or(ETHERNET_10, |kbit| kbit * 1000));
        let network = match u8::try_from(hosts) {
            Ok(1) => Network::wire(&faults, delay_us, rate),
            Ok(hosts) if delay_us == 0 && Network::with_faults(&faults, 0, rate).is_none() => {
                Network::Crowd(rate, hosts)
            }
            _ => {
                let why = "faults and a delay are of one link, and these hosts have one each";
                return Err(why.to_owned());
            }
        };
        let over = match parameters.protocol {
            CallProtocol::Vmtp => None,
            CallProtocol::Tcp => Some("tcp"),
            CallProtocol::Quic => Some("quic"),
        };
        let [mut server, mut client] = ["--listen", "--to"].map(|end| {
            let mut program = words("transactions");
            program.extend([end.to_owned(), ADDRESS.to_owned()]);
            program.extend(over.iter().flat_map(|name| ["--protocol", name]).map(str::to_owned));
            with(&mut program, "--request-bytes", parameters.request_bytes as u64, "b");
            with(&mut program, "--response-bytes", parameters.response_bytes as u64, "b");
            // The interface has another speed than the wire in user space behind it.
            with(&mut program, "--rate", rate.0, "bit");
            program
        });
        with(&mut client, "--clients", u64::from(parameters.clients / hosts), "");
        with(&mut client, "--for", parameters.run_ms, "ms");
        if let Some(members) = parameters.members {
            for end in [&mut server, &mut client] {
                with(end, "--members", members.into(), "");
            }
        }
        Ok(Self {
            network,
            settings: Vec::new(),
            load: None,
            servers: vec![Server { side: Side::Server, port: PORT, arguments: server }],
            clients: vec![client; hosts as usize],
            needs_signal: true,
            kind: Kind::Transactions { clients: parameters.clients, hosts },
        })
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Programs at both ends, by name, with their addresses.
fn ends(server: &str, client: &str) -> Ends {
    let end = |name: &str, option: &str| words(&format!("{name} {option} {ADDRESS}"));
    (end(server, "--listen"), end(client, "--to"))
}

fn with(to: &mut Vec<String>, option: &str, value: u64, unit: &str) {
    to.extend([option.to_owned(), format!("{value}{unit}")]);
}

fn echo(parameters: &Parameters) -> Ends {
    let (mut server, mut client) = ends("rpc-echo", "rpc-echo");
    let buffer = match parameters.rpc_buffer_bytes {
        0 => RPC_BUFFER,
        bytes => bytes,
    };
    for end in [&mut server, &mut client] {
        with(end, "--buffer", buffer, "b");
    }
    with(&mut client, "--bytes", parameters.data_bytes.unwrap_or(0), "b");
    with(&mut client, "--calls", parameters.calls.unwrap_or(1), "");
    client.push("--list-times".to_owned());
    (server, client)
}

fn discard(parameters: &Parameters) -> Ends {
    let (mut server, mut client) = ends("discard", "send");
    let total = parameters.total_bytes.unwrap_or(0);
    with(&mut server, "--read-bytes", parameters.discard_read_bytes(), "b");
    with(&mut server, "--pause", parameters.read_pause_ms, "ms");
    if parameters.connections > 1 {
        with(&mut server, "--connections", parameters.connections.into(), "");
    }
    with(&mut client, "--message-bytes", parameters.write_bytes.unwrap_or(total), "b");
    with(&mut client, "--bytes", total, "b");
    with(&mut client, "--pause", parameters.write_pause_ms, "ms");
    (server, client)
}

fn send(parameters: &Parameters) -> Ends {
    let (mut server, mut client) = ends("discard", "send");
    with(&mut client, "--message-bytes", parameters.message_bytes.unwrap_or(1), "b");
    with(&mut client, "--messages", parameters.messages.unwrap_or(1), "");
    client.push("--list-times".to_owned());
    if parameters.protocol == Protocol::Udp {
        for end in [&mut server, &mut client] {
            end.extend(["--protocol", "udp"].map(str::to_owned));
        }
    }
    (server, client)
}

/// Three processes at the server, between a sender and a reader at the client.
fn pipeline(parameters: &Parameters) -> Ends {
    let (mut stage, mut client) = ends("pipeline", "send");
    stage.extend(["--to", SINK].map(str::to_owned));
    let bytes = parameters.piece_bytes.unwrap_or(1);
    for end in [&mut stage, &mut client] {
        with(end, "--message-bytes", bytes, "b");
    }
    with(&mut stage, "--compute", parameters.compute_us.unwrap_or(0), "us");
    stage.push("--list-times".to_owned());
    with(&mut client, "--messages", parameters.pieces.unwrap_or(1), "");
    (stage, client)
}

/// Sizes of both sockets' buffers, where the case has them.
fn buffers(parameters: &Parameters, server: &mut Vec<String>, client: &mut Vec<String>) {
    let both = parameters.socket_buffer_bytes;
    let window = parameters.segment_bytes.map_or(0, |bytes| u64::from(bytes) * SEGMENTS_OF_WINDOW);
    for (end, bytes) in [(client, both), (server, parameters.receiver_buffer_bytes.or(both))] {
        if let Some(bytes) = bytes {
            with(end, "--send-buffer", bytes.max(window), "b");
            with(end, "--receive-buffer", bytes.max(window), "b");
        }
    }
}

/// What TCP offers to its peer, as numbers of the kernel.
fn settings(parameters: &Parameters) -> Vec<(&'static str, u32)> {
    let all = [
        ("tcp_sack", parameters.sack),
        ("tcp_timestamps", parameters.timestamps),
        ("tcp_window_scaling", parameters.window_scaling),
    ];
    let set = all.into_iter().filter_map(|(name, value)| Some((name, u32::from(value?))));
    set.collect()
}

/// Options of TCP.
fn of_tcp(parameters: &Parameters, server: &mut Vec<String>, client: &mut Vec<String>) {
    if parameters.nodelay || parameters.nagle == Some(false) {
        client.push("--nodelay".to_owned());
    }
    if let Some(bytes) = parameters.segment_bytes {
        let options = if parameters.timestamps == Some(false) { 0 } else { TIMESTAMP_BYTES };
        for end in [server, &mut *client] {
            with(end, "--segment-bytes", (bytes + options).into(), "");
        }
    }
    // Of 0 the kernel makes its default.
    if let Some(bytes) = parameters.low_water_bytes.filter(|bytes| *bytes > 0) {
        with(client, "--unsent-bytes", bytes, "");
    }
}

impl Network {
    fn of(parameters: &Parameters) -> Result<Self, String> {
        if parameters.topology == Topology::Gateway {
            let router = "`lab link --topology router` joins commands here";
            return Err(format!("only the model has `topology = \"gateway\"`; {router}"));
        }
        let faults = parameters.faults();
        let rate = Bandwidth(match parameters.link {
            LinkKind::Ethernet10 => ETHERNET_10,
            LinkKind::Ethernet3 | LinkKind::Line3 => ETHERNET_3,
        });
        let wire = Self::with_faults(&faults, parameters.link_delay_us, rate);
        if parameters.topology == Topology::Loopback {
            return match wire {
                Some(_) => Err("faults need a link".to_owned()),
                None => Ok(Self::Loopback),
            };
        }
        if parameters.link == LinkKind::Line3 {
            return Ok(Self::wire(&faults, parameters.link_delay_us, rate));
        }
        Ok(wire.unwrap_or(Self::Pair(rate, parameters.interface_queue_packets.map(u64::from))))
    }

    /// A wire of a rate and a delay, with these faults if there are any.
    fn wire(faults: &Faults, delay_us: u64, rate: Bandwidth) -> Self {
        let settings = || Settings {
            delay: Interval(delay_us * 1000),
            rate: Some(rate),
            ..Settings::default()
        };
        Self::with_faults(faults, delay_us, rate)
            .unwrap_or_else(|| Self::Wire(Box::new(settings())))
    }

    /// A wire with these faults; `None` without any.
    fn with_faults(faults: &Faults, delay_us: u64, rate: Bandwidth) -> Option<Self> {
        let all = faults.lost_per_million
            + faults.duplicated_per_million
            + faults.reordered_per_million
            + faults.corrupted_per_million;
        if all == 0 {
            return None;
        }
        let share =
            |per_million: u32| Share::new(f64::from(per_million) / 1e6).unwrap_or(Share::ONE);
        let by_us = faults.reordered_by_us.unwrap_or(REORDERED_BY_US);
        let reordering =
            Reordering { share: share(faults.reordered_per_million), by: Interval(by_us * 1000) };
        Some(Self::Wire(Box::new(Settings {
            delay: Interval(delay_us * 1000),
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
        let mut experiment = builtin_by_id(id).unwrap();
        experiment.set_all(changes).unwrap();
        let experiment = of_kernel(&experiment).unwrap();
        Programs::of(&experiment, &experiment.cases().unwrap()[0])
    }

    #[test]
    fn a_transfer_is_a_sender_and_a_reader_with_the_buffers_of_the_case() {
        let programs = first("si-1a", &["socket_buffer_bytes=8192"]).unwrap();
        assert_eq!(programs.network, Network::Pair(Bandwidth(10_000_000), None));
        assert_eq!(
            programs.servers[0].arguments.join(" "),
            "discard --listen 198.18.0.2:7000 --read-bytes 52428b --pause 0ms --send-buffer 8192b --receive-buffer 8192b"
        );
        assert_eq!(
            programs.clients[0].join(" "),
            "send --to 198.18.0.2:7000 --message-bytes 1048576b --bytes 1048576b --pause 0ms --send-buffer 8192b --receive-buffer 8192b"
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
    fn load_shares_the_cpu_of_one_end() {
        let programs = first("si-4a", &["load=3", "load_at=client"]).unwrap();
        let (side, load) = programs.load.unwrap();
        assert_eq!((side, load.join(" ").as_str()), (Side::Client, "load --processes 3 --cpus 0"));
        assert!(programs.clients[0].join(" ").starts_with("--cpu 0 send --to 198.18.0.2:7000"));
        let without = first("si-4a", &["load=0"]).unwrap();
        assert!(without.load.is_none() && without.clients[0][0] == "--cpu", "{without:?}");
    }

    #[test]
    fn segments_and_low_water_marks_are_set_at_the_sockets() {
        let one =
            first("si-2b", &["socket_buffer_bytes=1024"]).unwrap().clients.remove(0).join(" ");
        let expected = "--send-buffer 4096b --receive-buffer 4096b --nodelay --segment-bytes 1036";
        assert!(one.ends_with(expected), "{one}");
        let low = first("lh-7", &["send_rule=low-water", "low_water_bytes=1460"]).unwrap();
        assert!(low.clients[0].join(" ").ends_with("--unsent-bytes 1460"), "{low:?}");
    }

    #[test]
    fn options_of_tcp_are_numbers_of_the_namespaces() {
        let set = ["sack=false", "timestamps=false", "window_scaling=true"];
        let programs = first("si-2b", &[&set[..], &["socket_buffer_bytes=1024"]].concat()).unwrap();
        let settings = [("tcp_sack", 0), ("tcp_timestamps", 0), ("tcp_window_scaling", 1)];
        assert_eq!(programs.settings, settings);
        let client = programs.clients[0].join(" ");
        assert!(client.ends_with("--segment-bytes 1024"), "no room for timestamps: {client}");
        assert_eq!(first("si-2b", &[]).unwrap().settings, []);
    }

    #[test]
    fn connections_and_the_stages_of_a_pipeline_are_programs() {
        let many = first("si-5a", &["connections=8"]).unwrap();
        assert_eq!(many.clients.len(), 8);
        assert!(many.servers[0].arguments.join(" ").contains("--connections 8"));
        let stage = first("si-4c", &[]).unwrap();
        let words: Vec<_> = stage.servers.iter().map(|it| it.arguments.join(" ")).collect();
        assert_eq!(words[0], "discard --listen 198.18.0.1:7001 --read-bytes 32768b");
        assert!(words[1].starts_with("pipeline --listen 198.18.0.2:7000 --to 198.18.0.1:7001"));
        assert_eq!((stage.servers[0].side, stage.kind), (Side::Client, Kind::Pipeline));
        assert_eq!(stage.recorded_port(), Some(SINK_PORT), "the stage's output, as of the model");
    }

    #[test]
    fn clients_of_vmtp_are_on_one_host_or_on_one_each() {
        let together = first("pc-4", &["clients=3", "own_hosts=false"]).unwrap();
        assert_eq!(together.clients.len(), 1);
        let Network::Wire(settings) = &together.network else { panic!("{together:?}") };
        assert_eq!(settings.rate, Some(Bandwidth(ETHERNET_10)));
        assert!(together.clients[0].join(" ").contains("--clients 3 --for "), "{together:?}");
        let apart = first("pc-4", &["clients=3", "own_hosts=true"]).unwrap();
        assert_eq!(apart.network, Network::Crowd(Bandwidth(ETHERNET_10), 3));
        assert_eq!(apart.kind, Kind::Transactions { clients: 3, hosts: 3 });
        let slow = ["link_kbit_per_s=2000", "link_delay_us=5000", "protocol=quic"];
        let far = first("pc-3", &slow).unwrap();
        let Network::Wire(settings) = &far.network else { panic!("{far:?}") };
        assert_eq!(settings.to_string(), "delay=5ms rate=2mbit queue=1000p");
        let ends = [&far.servers[0].arguments, &far.clients[0]].map(|words| words.join(" "));
        assert!(ends.iter().all(|end| end.contains(" --protocol quic ")), "{ends:?}");
        let refused = first("pc-4", &["own_hosts=true", "clients=2", "link_delay_us=1"]);
        assert!(refused.unwrap_err().contains("these hosts have one each"));
    }
}
