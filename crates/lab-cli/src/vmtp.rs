//! `sockscope vmtp`: an echo server, calls, names, and a store of files, over VMTP.

pub mod args;
mod record;

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use sockscope_link::Bandwidth;
use sockscope_program::failure::Failure;
use sockscope_program::output::write_to;
use sockscope_program::signals::StopSignals;
use sockscope_record::{Side, counted};
use sockscope_vmtp::driver::{Caller, Link, Service, Transport, group_address, rate_at, rate_to};
use sockscope_vmtp::observe::Log;
use sockscope_vmtp::server::{Incoming, ServerCounters};
use sockscope_vmtp::store::{self, ClientError, StoreClient};
use sockscope_vmtp::wire::{Entity, GROUP_BYTES, MANAGER_GROUP, code};
use sockscope_vmtp::{Config, Fixed, Options, Outcome, Request};

use args::{AtArgs, Call, Find, Get, List, Put, Serve, Store, ToArgs, Vmtp, VmtpCommand};
use record::{Background, Recording};

/// UDP payload of an Ethernet frame over IPv4 and IPv6.
const ETHERNET_PAYLOAD: [usize; 2] = [1472, 1452];
/// UDP payload of the longest IP packet, which loopback carries.
const LOOPBACK_PAYLOAD: usize = 65_507;
/// A name that no host says is its own three times, a twentieth of a second apart, is free.
const FIND: Fixed = Fixed { sends: 3, every_ns: 50_000_000 };
/// Octets that a server sends a stranger for each one that it receives, as QUIC does (RFC 9000 §8.1): a
/// forged address gets little more than its forger could send it himself.
const STRANGER_FACTOR: u32 = 3;
/// Refusals are shown this often at most.
const REFUSALS_EVERY: Duration = Duration::from_secs(10);
/// How long a store may be away, for instance while it is started again.
const PATIENCE: Duration = Duration::from_secs(10);

/// `sockscope vmtp`.
pub fn vmtp(arguments: &Vmtp) -> Result<(), Failure> {
    match &arguments.command {
        VmtpCommand::Serve(arguments) => serve(arguments),
        VmtpCommand::Call(arguments) => call(arguments),
        VmtpCommand::Find(arguments) => find(arguments),
        VmtpCommand::Store(arguments) => serve_store(arguments),
        VmtpCommand::List(arguments) => list(arguments),
        VmtpCommand::Put(arguments) => put(arguments),
        VmtpCommand::Get(arguments) => get(arguments),
    }
}

fn transport(raw: bool) -> Transport {
    if raw { Transport::Raw } else { Transport::Udp }
}

fn config(peer: IpAddr) -> Config {
    let payload = if peer.is_loopback() {
        LOOPBACK_PAYLOAD
    } else {
        ETHERNET_PAYLOAD[usize::from(peer.is_ipv6())]
    };
    Config::for_payload(payload)
}

/// A server by its arguments; says where it is.
fn service(at: &AtArgs, what: &str) -> Result<Service, Failure> {
    let name = match at.name {
        Some(name) => name,
        None if at.at.ip().is_unspecified() && at.at.is_ipv4() => {
            let reason = "it is made of the address, and 0.0.0.0 is none";
            return Err(Failure::new(format!("give the server a --name: {reason}")));
        }
        None => args::default_name(at.at.ip()),
    };
    let link = Link::bind(transport(at.raw), at.at).map_err(failure)?;
    let address = link.local_address()?;
    // Anybody may ask, in anybody's name.
    let config = Config { stranger_factor: STRANGER_FACTOR, ..config(at.at.ip()) };
    let rate = at.rate.map(|rate| rate.0).or_else(|| rate_at(at.at.ip()));
    let config = config.on_ethernet(rate);
    let mut service = Service::new(link, name, config);
    // Who chose a name shares an address that has no ports: other names are not for this one to refuse.
    if at.raw && at.name.is_some() {
        service.be_among_others().map_err(failure)?;
    }
    stderr!("{what}: {name} at {address}");
    Ok(service)
}

fn serve(arguments: &Serve) -> Result<(), Failure> {
    let mut service = service(&arguments.at, "VMTP echo")?;
    // A socket of one address gets what is sent to that one.
    let hears_multicast = arguments.at.at.ip().is_unspecified();
    for &group in &arguments.group {
        service.link().join(group, arguments.interface).map_err(failure)?;
        service.join(group).map_err(failure)?;
        if !hears_multicast {
            stderr!(
                "{group}: multicast does not come here, it needs --at 0.0.0.0:PORT --name ENTITY"
            );
        }
    }
    if hears_multicast && let Err(error) = service.link().join(MANAGER_GROUP, arguments.interface) {
        stderr!("it cannot be found by multicast: {error}");
    }
    let recording = observed(&mut service, &arguments.at, arguments.record.as_deref())?;
    recorded(&mut service, recording, |service, ends| Ok(service.serve(ends, echo)?))
}

/// Answers with what was sent.
fn echo(request: Incoming<SocketAddr>) -> Outcome {
    Outcome { code: code::OK, segment: request.segment, ..Outcome::default() }
}

/// Whether an interrupt arrived; takes what the engine saw.
type Ends<'e> = &'e mut dyn FnMut(&mut Service) -> bool;

/// Serves until an interrupt or a failure. What was seen until then is kept either way, and a failure
/// to serve is said before one to record.
fn recorded(
    service: &mut Service,
    mut recording: Option<Recording>,
    serve: impl FnOnce(&mut Service, Ends<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut recorded = Ok(());
    let mut refusals = Refusals::default();
    let signals = StopSignals::register()?;
    let served = serve(service, &mut |service| {
        refusals.show(service.counters(), REFUSALS_EVERY);
        if let Some(recording) = &mut recording {
            recorded = recording.take(|| service.log().poll());
        }
        signals.stop_requested() || recorded.is_err()
    });
    refusals.show(service.counters(), Duration::ZERO);
    // A recording that could not be written on is not made to look whole.
    served.and(recorded.and_then(|()| end(recording, service.log())))
}

/// What a server refused, as far as it was shown.
#[derive(Default)]
struct Refusals {
    shown: [u64; 3],
    shown_at: Option<Instant>,
}

impl Refusals {
    /// Prints the refusals since the last line, unless that was printed less than `every` ago.
    fn show(&mut self, counters: ServerCounters, every: Duration) {
        let now = [counters.busy, counters.given_up, counters.withheld];
        if now == self.shown || self.shown_at.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        let [busy, given_up, withheld] = now;
        stderr!(
            "so far {busy} packets refused for lack of room, {given_up} unfinished requests given up, \
             {withheld} answers withheld from addresses that are not proved"
        );
        (self.shown, self.shown_at) = (now, Some(Instant::now()));
    }
}

/// A recording of what the server's engine sees, if one is wanted.
fn observed(
    service: &mut Service,
    at: &AtArgs,
    record: Option<&Path>,
) -> Result<Option<Recording>, Failure> {
    let Some(dir) = record else { return Ok(None) };
    service.log().begin();
    let local = service.link().local_address()?;
    Recording::create(dir, transport(at.raw), local, Side::Server).map(Some)
}

/// The same of a client's engine.
fn observed_client(
    caller: &mut Caller,
    to: &ToArgs,
    record: Option<&Path>,
) -> Result<Option<Recording>, Failure> {
    let Some(dir) = record else { return Ok(None) };
    caller.log().begin();
    let own = own_address(caller, to.to)?;
    Recording::create(dir, transport(to.raw), own, Side::Client).map(Some)
}

fn end(recording: Option<Recording>, log: &mut Log<SocketAddr>) -> Result<(), Failure> {
    let Some(mut recording) = recording else { return Ok(()) };
    recording.take(|| log.poll())?;
    recording.finish(log.lost())
}

/// A client on a socket of its own; its name is one that no other client is likely to have.
fn caller(to: SocketAddr, raw: bool, rate: Option<Bandwidth>) -> Result<Caller, Failure> {
    let any: IpAddr = match to {
        _ if to.ip().is_loopback() => to.ip(),
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let link = Link::bind(transport(raw), SocketAddr::new(any, 0)).map_err(failure)?;
    let host = match local_address(to) {
        Some(IpAddr::V4(host)) => host,
        _ => Ipv4Addr::UNSPECIFIED,
    };
    let random = RandomState::new().hash_one("client");
    // 28 bits of name, and 32 others to begin to count at.
    let name = Entity::new((random as u32 & 0x0fff_ffff).max(2), host);
    let rate = rate.map(|rate| rate.0).or_else(|| rate_to(to.ip()));
    Ok(Caller::new(link, name, (random >> 32) as u32, config(to.ip()).on_ethernet(rate)))
}

/// This host's address as the other one sees it.
fn local_address(to: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// Where the client's socket is, as the server sees it.
fn own_address(caller: &Caller, to: SocketAddr) -> Result<SocketAddr, Failure> {
    let bound = caller.link().local_address()?;
    let host = if bound.ip().is_unspecified() { local_address(to) } else { None };
    Ok(SocketAddr::new(host.unwrap_or(bound.ip()), bound.port()))
}

fn server_name(to: &ToArgs) -> Entity {
    to.name.unwrap_or_else(|| args::default_name(to.to.ip()))
}

fn call(arguments: &Call) -> Result<(), Failure> {
    let segment = match (&arguments.data, &arguments.file) {
        (Some(data), _) => data.clone().into_bytes(),
        (None, Some(file)) => content(file)?,
        (None, None) => Vec::new(),
    };
    let to = &arguments.to;
    let options = Options { long_response: segment.len() > GROUP_BYTES, ..Options::default() };
    let request = Request { code: arguments.code, segment, ..Request::default() };
    if let Some(group) = arguments.group {
        return call_group(arguments, group, request);
    }
    let mut caller = caller(to.to, to.raw, to.rate)?;
    let mut recording = observed_client(&mut caller, to, arguments.record.as_deref())?;
    let mut response = caller.call(server_name(to), to.to, request.clone(), options);
    for _ in 1..arguments.times {
        if response.is_err() {
            break;
        }
        response = caller.call(server_name(to), to.to, request.clone(), options);
        if let Some(recording) = &mut recording {
            recording.take(|| caller.log().poll())?;
        }
    }
    end(recording, caller.log())?;
    let response = response.map_err(|error| at(to, &error))?;
    if response.code != code::OK {
        return Err(at(to, &format!("it answers with code {:#x}", response.code)));
    }
    write_to(Path::new("-"), |out| out.write_all(&response.segment))
}

/// Calls all members of a group: a line for each answer, in the order in which they arrive.
fn call_group(arguments: &Call, group: Entity, request: Request) -> Result<(), Failure> {
    let asked = &arguments.to;
    let to = group_address(group, asked.to.port(), asked.to.is_ipv6());
    let to =
        to.ok_or_else(|| Failure::new(format!("{group} is no group: it begins with UG or RG")))?;
    let mut caller = caller(to, asked.raw, asked.rate)?;
    if let Some(interface) = arguments.interface {
        caller.link().multicast_by(interface).map_err(failure)?;
    }
    let mut recording = observed_client(&mut caller, asked, arguments.record.as_deref())?;
    let collect = Duration::from_nanos(arguments.collect.0);
    let responses = caller.call_group(group, to, request, collect);
    if let Some(recording) = &mut recording {
        recording.take(|| caller.log().poll())?;
    }
    end(recording, caller.log())?;
    let responses = responses.map_err(|error| Failure::new(format!("{group} at {to}: {error}")))?;
    let mut out = io::stdout().lock();
    for response in &responses {
        let text = String::from_utf8_lossy(&response.segment);
        let text = sockscope_report::printable(&text);
        let result = if response.code == code::OK {
            text.to_string()
        } else {
            format!("answers with code {:#x}", response.code)
        };
        writeln!(out, "{} at {}: {result}", response.server, response.from)?;
    }
    if responses.iter().any(|response| response.code == code::OK) {
        return Ok(());
    }
    // Without an answer the call has failed already.
    let answers = counted(responses.len() as u64, "answer");
    Err(Failure::new(format!("{group} at {to}: {answers}, none without an error code")))
}

fn content(file: &Path) -> Result<Vec<u8>, Failure> {
    if file == Path::new("-") {
        let mut octets = Vec::new();
        io::stdin().read_to_end(&mut octets)?;
        return Ok(octets);
    }
    fs::read(file).map_err(|error| Failure::file("cannot read", file, &error))
}

fn find(arguments: &Find) -> Result<(), Failure> {
    let group = group_address(MANAGER_GROUP, arguments.port, false);
    let to = arguments.to.or(group).ok_or_else(|| Failure::new("no group to ask"))?;
    let mut caller = caller(to, arguments.raw, None)?;
    if let Some(interface) = arguments.interface {
        caller.link().multicast_by(interface).map_err(failure)?;
    }
    let found = caller.find(arguments.entity, to, FIND).map_err(failure)?;
    let mut out = io::stdout().lock();
    for response in &found {
        writeln!(out, "{} at {}", response.server, response.from)?;
    }
    if found.is_empty() {
        writeln!(out, "{}: nobody answers, as far as {to} reaches", arguments.entity)?;
    }
    Ok(())
}

fn serve_store(arguments: &Store) -> Result<(), Failure> {
    let mut store = store::Store::open(&arguments.folder).map_err(failure)?;
    let mut service = service(&arguments.at, "VMTP store")?;
    let recording = observed(&mut service, &arguments.at, arguments.record.as_deref())?;
    recorded(&mut service, recording, |service, ends| {
        store::serve(service, &mut store, ends).map_err(failure)
    })
}

/// A session with a store, recorded or not.
struct Session {
    client: StoreClient,
    recording: Option<Background>,
}

impl Session {
    fn begin(to: &ToArgs, record: Option<&Path>) -> Result<Self, Failure> {
        let mut caller = caller(to.to, to.raw, to.rate)?;
        let recording = observed_client(&mut caller, to, record)?;
        let client = StoreClient::connect(caller, server_name(to), to.to, PATIENCE);
        let mut client = client.map_err(|error| at(to, &error))?;
        let recording = recording.map(|recording| {
            let (recording, seen) = Background::start(recording);
            client.tell(seen);
            recording
        });
        Ok(Self { client, recording })
    }

    fn end(mut self) -> Result<(), Failure> {
        let unseen = self.client.unseen();
        // The recording ends when no sender is left.
        drop(self.client);
        self.recording.map_or(Ok(()), |recording| recording.finish(unseen))
    }
}

fn list(arguments: &List) -> Result<(), Failure> {
    let names = Session::begin(&arguments.to, None)?.client.list().map_err(failure)?;
    let mut out = io::stdout().lock();
    for name in names {
        // A store's names may have any character but the end of a line.
        writeln!(out, "{}", sockscope_report::printable(&name))?;
    }
    Ok(())
}

fn put(arguments: &Put) -> Result<(), Failure> {
    let file = &arguments.file;
    let own = || file.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = arguments.as_name.clone().or_else(own);
    let name = name.ok_or_else(|| Failure::new("the file has no name: give one for the store"))?;
    let mut session = Session::begin(&arguments.to, arguments.record.as_deref())?;
    let stored = session.client.put(file, &name);
    let ended = session.end();
    let bytes = stored.map_err(failure)?;
    ended?;
    stderr!("{name}: {bytes} bytes stored and compared");
    Ok(())
}

fn get(arguments: &Get) -> Result<(), Failure> {
    let name = &arguments.of_name;
    let own = || Path::new(name.rsplit('/').next().unwrap_or(name)).to_owned();
    let file = arguments.file.clone().unwrap_or_else(own);
    let mut session = Session::begin(&arguments.to, arguments.record.as_deref())?;
    let copied = if file == Path::new("-") {
        session.client.copy_out(name, &mut io::stdout().lock(), Path::new("standard output"))
    } else {
        session.client.get(name, &file)
    };
    let ended = session.end();
    let bytes = copied.map_err(|error| match error {
        // Who reads no more has seen enough, as with every output.
        ClientError::Local { source, .. } if source.kind() == ErrorKind::BrokenPipe => {
            source.into()
        }
        error => failure(error),
    })?;
    ended?;
    stderr!("{name}: {bytes} bytes to {}", file.display());
    Ok(())
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

fn at(to: &ToArgs, error: &impl std::fmt::Display) -> Failure {
    Failure::new(format!("{} at {}: {error}", server_name(to), to.to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_and_what_was_seen_until_then_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("bundle");
        let local = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let link = Link::bind(Transport::Udp, local).expect("a socket");
        let mut service =
            Service::new(link, args::default_name(local.ip()), Config::for_payload(1472));
        let recording = Recording::create(&dir, Transport::Udp, local, Side::Server);
        let recording = recording.unwrap_or_else(|failure| panic!("{failure}"));
        let failed = recorded(&mut service, Some(recording), |service, ends| {
            ends(service);
            Err(Failure::new("the disk is full"))
        });
        assert_eq!(failed.map_err(|failure| failure.to_string()), Err("the disk is full".into()));
        let bundle = sockscope_trace::Bundle::open(&dir).expect("a bundle");
        assert!(bundle.meta().complete && bundle.problems().is_empty());
    }
}
