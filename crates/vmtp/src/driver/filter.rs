//! The packet filter of a raw socket.
//!
//! The kernel gives each raw socket of a protocol a copy of every packet to its address (raw(7)): with
//! n clients on one address each Response would wake all n. A filter of classic BPF looks at the
//! entities in the header (RFC 1045 §3.2) and throws foreign packets away before they are queued.
//! The engine checks each accepted packet itself: a filter may accept too much, never too little.

use socket2::SockFilter;

use crate::wire::{Entity, MANAGER_GROUP, operation};

/// Whose packets are wanted.
#[derive(Debug, Clone)]
pub(super) enum Wanted {
    /// Responses to this client, notices to it, and probes of it.
    Client(Entity),
    /// Requests to any server: without an entity of that name, the server refuses them. And answers to the
    /// server's own probes.
    Server(Entity),
    /// Requests to this server or one of its groups, and to the management module.
    Member(Entity, Vec<Entity>),
}

/// Offsets in a packet. In a notice, the addressed entity is the first parameter, in a probe the second.
mod at {
    pub const CLIENT: u32 = 0;
    pub const CONTROL: u32 = 12;
    pub const SERVER: u32 = 24;
    pub const CODE: u32 = 32;
    pub const NOTIFIED: u32 = 36;
    pub const PROBED: u32 = 44;
}

/// Bits of the code word that identify a notice or a probe: DGM, PIC and the operation.
const NOTICE_MASK: u32 = 0x41ff_ffff;
const NOTICE_FLAGS: u32 = 0x4100_0000;
const PROBE_FLAGS: u32 = 0x0100_0000;
const RESPONSE_BIT: u32 = 1;

// Classic BPF (linux/filter.h): the kernel's names of the instructions.
const LOAD_X_HEADER_BYTES: u16 = 0xb1; // BPF_LDX | BPF_B | BPF_MSH
const LOAD_X: u16 = 0x01; // BPF_LDX | BPF_W | BPF_IMM
const LOAD_AT_X: u16 = 0x40; // BPF_LD | BPF_W | BPF_IND
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const IF_ANY_BIT: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K
const TAKE: u32 = u32::MAX;
const DROP: u32 = 0;

/// One instruction: code, where to go if true and if false, operand.
type Step = (u16, u8, u8, u32);

/// The filter for a socket that receives packets with their IPv4 header, or without.
pub(super) fn filter(wanted: &Wanted, has_header: bool) -> Vec<SockFilter> {
    let steps = program(wanted, has_header);
    steps
        .into_iter()
        .map(|(code, yes, no, operand)| SockFilter::new(code, yes, no, operand))
        .collect()
}

fn program(wanted: &Wanted, has_header: bool) -> Vec<Step> {
    let start = if has_header { LOAD_X_HEADER_BYTES } else { LOAD_X };
    let rest = match wanted {
        Wanted::Client(client) => responses(*client),
        Wanted::Server(server) => [requests(*server), vec![(RETURN, 0, 0, TAKE)]].concat(),
        Wanted::Member(server, groups) => {
            let named = [server, &MANAGER_GROUP].into_iter().chain(groups);
            let named = named.flat_map(|&name| entity_is(at::SERVER, name));
            [requests(*server), named.collect(), vec![(RETURN, 0, 0, DROP)]].concat()
        }
    };
    [vec![(start, 0, 0, 0), (LOAD_AT_X, 0, 0, at::CONTROL)], rest].concat()
}

/// Takes Responses to a client, notices for it and probes of it, and nothing else.
fn responses(client: Entity) -> Vec<Step> {
    let response = [entity_is(at::CLIENT, client), vec![(RETURN, 0, 0, DROP)]].concat();
    let notice = [entity_is(at::NOTIFIED, client), vec![(RETURN, 0, 0, DROP)]].concat();
    let probe = [entity_is(at::PROBED, client), vec![(RETURN, 0, 0, DROP)]].concat();
    let is_response = (IF_ANY_BIT, 0, length(&response), RESPONSE_BIT);
    let is_notice = (IF_EQUAL, 0, length(&notice), NOTICE_FLAGS | operation::NOTIFY_CLIENT);
    let is_probe = (IF_EQUAL, 0, length(&probe), PROBE_FLAGS | operation::PROBE_ENTITY);
    let code = vec![(LOAD_AT_X, 0, 0, at::CODE), (AND, 0, 0, NOTICE_MASK)];
    let rest = [vec![is_notice], notice, vec![is_probe], probe, vec![(RETURN, 0, 0, DROP)]];
    [vec![is_response], response, code, rest.concat()].concat()
}

/// Goes on with Requests that are no notices; of those, takes the ones for this server.
fn requests(server: Entity) -> Vec<Step> {
    let found = [entity_is(at::CLIENT, server), vec![(RETURN, 0, 0, DROP)]].concat();
    let foreign = [entity_is(at::NOTIFIED, server), vec![(RETURN, 0, 0, DROP)]].concat();
    let mut steps = vec![(IF_ANY_BIT, 0, length(&found), RESPONSE_BIT)];
    steps.extend(found);
    steps.extend([(LOAD_AT_X, 0, 0, at::CODE), (AND, 0, 0, NOTICE_MASK)]);
    steps.extend([
        (IF_EQUAL, 0, 1, NOTICE_FLAGS | operation::NOTIFY_CLIENT),
        (RETURN, 0, 0, DROP),
        (IF_EQUAL, 0, length(&foreign), NOTICE_FLAGS | operation::NOTIFY_SERVER),
    ]);
    steps.extend(foreign);
    steps
}

/// Accepts a packet with this entity there; else continues with the next step.
fn entity_is(at: u32, entity: Entity) -> Vec<Step> {
    // The halves.
    let [high, low] = [(entity.0 >> 32) as u32, entity.0 as u32];
    vec![
        (LOAD_AT_X, 0, 0, at),
        (IF_EQUAL, 0, 3, high),
        (LOAD_AT_X, 0, 0, at + 4),
        (IF_EQUAL, 0, 1, low),
        (RETURN, 0, 0, TAKE),
    ]
}

/// The length of a jump over these: seven steps at most.
fn length(steps: &[Step]) -> u8 {
    steps.len() as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Checksum, Code, Control, Header, Kind, Notice, NoticeTo, emit};

    const CLIENT: Entity = Entity(0x0000_0101_7f00_0001);
    const OTHER: Entity = Entity(0x0000_0102_7f00_0001);
    const SERVER: Entity = Entity(0x0000_004d_7f00_0001);
    const GROUP: Entity = Entity(0x6008_a05a_2408_004d);

    /// The kernel's result for these few instructions (net/core/filter.c).
    fn takes(wanted: &Wanted, octets: &[u8], has_header: bool) -> bool {
        let (mut a, mut x, mut at) = (0u32, 0u32, 0usize);
        let steps = program(wanted, has_header);
        loop {
            let (code, yes, no, k) = steps[at];
            at += 1;
            let mut go = |holds: bool| at += usize::from(if holds { yes } else { no });
            match code {
                LOAD_X => x = k,
                LOAD_X_HEADER_BYTES => x = u32::from(octets[k as usize] & 15) * 4,
                LOAD_AT_X => match octets.get((x + k) as usize..).and_then(<[u8]>::first_chunk) {
                    Some(word) => a = u32::from_be_bytes(*word),
                    None => return false,
                },
                AND => a &= k,
                IF_EQUAL => go(a == k),
                IF_ANY_BIT => go(a & k != 0),
                RETURN => return k > 0,
                other => panic!("no instruction {other:#x}"),
            }
        }
    }

    fn packet(client: Entity, server: Entity, kind: Kind) -> Vec<u8> {
        let header = Header {
            control: Control { kind, ..Control::default() },
            code: Code::new(operation::NOTIFY_CLIENT),
            parameters: [0xff; 28],
            ..Header::request(client, server, 7)
        };
        octets(&header)
    }

    /// A probe of an entity, and the answer of its module.
    fn probe(of: Entity, from: Entity) -> [Vec<u8>; 2] {
        let code = Code {
            co_resident: true,
            public_interface: true,
            ..Code::new(operation::PROBE_ENTITY)
        };
        let mut header = Header { code, ..Header::request(from, MANAGER_GROUP, 7) };
        header.put(0, &of.0.to_be_bytes());
        header.put(8, &of.0.to_be_bytes());
        [octets(&header), octets(&header.found(of, 1))]
    }

    fn notice(to: NoticeTo, client: Entity, server: Entity) -> Vec<u8> {
        let (control, transaction, delivery, code) = (Control::default(), 7, 0, 0);
        let notice = Notice { to, client, server, transaction, delivery, code, control };
        octets(&notice.header(1, 1))
    }

    fn octets(header: &Header) -> Vec<u8> {
        let mut octets = Vec::new();
        emit(header, [], Checksum::Computed, &mut octets);
        octets
    }

    /// The names of the packets that are taken, with and without an IPv4 header.
    fn taken(wanted: &Wanted) -> String {
        use Kind::{Request, Response};
        let packets = [
            ("response", packet(CLIENT, SERVER, Response)),
            ("response-to-other", packet(OTHER, SERVER, Response)),
            ("request", packet(CLIENT, SERVER, Request)),
            ("request-to-other", packet(CLIENT, OTHER, Request)),
            ("request-to-group", packet(CLIENT, GROUP, Request)),
            ("probe", packet(CLIENT, MANAGER_GROUP, Request)),
            ("notice-to-client", notice(NoticeTo::Client, CLIENT, SERVER)),
            ("notice-to-other-client", notice(NoticeTo::Client, OTHER, SERVER)),
            ("notice-to-server", notice(NoticeTo::Server, CLIENT, SERVER)),
            ("notice-to-other-server", notice(NoticeTo::Server, CLIENT, OTHER)),
            ("probe-of-client", probe(CLIENT, SERVER)[0].clone()),
            ("probe-of-other", probe(OTHER, SERVER)[0].clone()),
            ("answer-of-client", probe(CLIENT, SERVER)[1].clone()),
            ("answer-to-other", probe(CLIENT, OTHER)[1].clone()),
            ("nothing", vec![0; 20]),
        ];
        let mut names = Vec::new();
        for (name, octets) in packets {
            let with_header = [vec![0x46; 24], octets.clone()].concat();
            let is_taken = takes(wanted, &octets, false);
            assert_eq!(takes(wanted, &with_header, true), is_taken, "{name}");
            names.extend(is_taken.then_some(name));
        }
        names.join(" ")
    }

    #[test]
    fn a_client_gets_what_is_for_it_alone() {
        assert_eq!(taken(&Wanted::Client(CLIENT)), "response notice-to-client probe-of-client");
    }

    #[test]
    fn a_server_gets_all_requests_and_its_own_notices() {
        let expected = "request request-to-other request-to-group probe notice-to-server \
            probe-of-client probe-of-other answer-of-client";
        assert_eq!(taken(&Wanted::Server(SERVER)), expected);
    }

    #[test]
    fn a_member_gets_what_names_it_or_its_groups() {
        let rest = "probe notice-to-server probe-of-client probe-of-other answer-of-client";
        let expected = format!("request request-to-group {rest}");
        assert_eq!(taken(&Wanted::Member(SERVER, vec![GROUP])), expected);
        assert_eq!(taken(&Wanted::Member(SERVER, Vec::new())), format!("request {rest}"));
    }
}
