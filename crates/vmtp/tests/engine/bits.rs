//! Flags of a packet that its receiver obeys: packets and times in, a table out.

use crate::common::{EVERYBODY, MS, Net, client_entity, server_address, server_entity};
use sockscope_vmtp::wire::{Checksum, Control, Entity, Header, Kind, code, emit};
use sockscope_vmtp::{Client, Config, Event, Options, Outcome, Request, Server};

const GROUP: Entity = Entity(0x6008_a05a_2408_004d);

fn net(servers: usize) -> Net {
    let mut net = Net::new(1, servers, &Config::default(), 1);
    net.log = Some(Vec::new());
    net
}

fn ask(net: &mut Net, bytes: usize, options: Options) {
    let request = Request { segment: vec![7; bytes], ..Request::default() };
    let (now_ns, to) = (net.now_ns, server_address(0));
    net.clients[0].start(now_ns, server_entity(0), to, request, options).expect("idle");
}

/// Runs until the client has an event, with empty answers.
fn event(net: &mut Net) -> Event<u16> {
    for _ in 0..10_000 {
        if let Some(event) = net.event(0) {
            return event;
        }
        assert!(net.step(&mut |_, _| Some(Outcome::default())), "nothing happens any more");
    }
    panic!("no end");
}

/// NRT: the second of three packets is dropped. Without the flag the server asks for it.
#[test]
fn what_is_missing_of_a_request_is_not_asked_for_where_the_client_forbids_it() {
    let table = [false, true].map(|no_retransmission| {
        let mut net = net(1);
        net.loses = Some(|number, _| number == 2);
        ask(&mut net, 3000, Options { no_retransmission, ..Options::default() });
        let is_answered = matches!(event(&mut net), Event::Response(_));
        let log = net.log.take().expect("a log");
        let retries = log.iter().filter(|line| line.contains("notice 1 ")).count();
        (no_retransmission, retries, is_answered, net.servers[0].counters().requests)
    });
    assert_eq!(table, [(false, 1, true, 1), (true, 0, false, 0)]);
}

/// The packet with `delivery` of four blocks of which three are sent (MDM: not block 2).
fn masked(head: Header, delivery: u32) -> Vec<u8> {
    let mut header = Header { delivery, ..head };
    header.code.message_mask = true;
    header.put(20, &0b1011u32.to_be_bytes());
    header.set_segment_size(2048);
    let data = vec![7; 512 * delivery.count_ones() as usize];
    let mut octets = Vec::new();
    emit(&header, [data.as_slice()], Checksum::Computed, &mut octets);
    octets
}

/// NRT with MDM: by the blocks that arrive, those that the application of the server gets after TS1.
#[test]
fn a_request_that_says_its_blocks_is_delivered_in_part() {
    let config = Config::default();
    let table = [0b1011, 0b0011, 0b1000, 0].map(|arrives| {
        let mut server: Server<u16> = Server::new(server_entity(0), config.clone());
        let control = Control { no_retransmission: true, ..Control::default() };
        let head = Header { control, ..Header::request(client_entity(0), server_entity(0), 1) };
        server.handle(0, 0, &masked(head, arrives));
        let at_once = server.poll_request().is_some();
        server.handle_timeout(config.next_packet_ns);
        let sends = server.poll_transmit(config.next_packet_ns, &mut Vec::new()).is_some();
        let late = server.poll_request();
        (at_once, late.and_then(|request| request.delivery), sends)
    });
    assert_eq!(
        table,
        [
            (true, None, false),
            (false, Some(0b0011), false),
            (false, Some(0b1000), false),
            (false, None, false)
        ]
    );
}

/// The same of a Response: without MDM it fails, and nothing is asked for.
#[test]
fn what_is_missing_of_a_response_is_not_asked_for_where_the_server_forbids_it() {
    let config = Config::default();
    let mut client: Client<u16> = Client::new(client_entity(0), 1, config.clone());
    let mut table = Vec::new();
    for has_mask in [true, false] {
        let request = Request::default();
        let number =
            client.start(0, server_entity(0), 9, request, Options::default()).expect("idle");
        while client.poll_transmit(0, &mut Vec::new()).is_some() {}
        let control =
            Control { kind: Kind::Response, no_retransmission: true, ..Control::default() };
        let head =
            Header { control, ..Header::request(client_entity(0), server_entity(0), number) };
        let octets = if has_mask {
            masked(head, 0b0011)
        } else {
            let mut header = Header { delivery: 1, ..head };
            header.set_segment_size(1024);
            let mut octets = Vec::new();
            emit(&header, [[7u8; 512].as_slice()], Checksum::Computed, &mut octets);
            octets
        };
        client.handle(0, 9, &octets);
        client.handle_timeout(config.next_packet_ns);
        let sends = client.poll_transmit(config.next_packet_ns, &mut Vec::new()).is_some();
        let ended = match client.poll_event() {
            Some(Event::Response(response)) => Ok(response.delivery),
            Some(Event::Failed(code)) => Err(code),
            other => panic!("{other:?}"),
        };
        table.push((ended, sends));
    }
    assert_eq!(table, [(Ok(Some(0b0011)), false), (Err(code::BAD_REPLY_SEGMENT), false)]);
}

/// CMD: a server is asked while it works and while it waits.
#[test]
fn a_request_for_a_waiting_server_is_refused_by_one_that_works() {
    let config = Config::default();
    let mut server: Server<u16> = Server::new(server_entity(0), config.clone());
    let mut octets = Vec::new();
    let mut table = Vec::new();
    assert_eq!(server.poll_request(), None, "it waits");
    for (number, name) in [(1, "waits"), (2, "has one to take"), (3, "works"), (4, "waits again")] {
        let mut client: Client<u16> = Client::new(Entity(number), 1, config.clone());
        let options = Options { only_if_waiting: true, ..Options::default() };
        client.start(0, server_entity(0), 9, Request::default(), options).expect("idle");
        if number == 3 {
            assert!(server.poll_request().is_some(), "it takes the first one");
        }
        if number == 4 {
            assert_eq!(server.poll_request(), None);
        }
        while client.poll_transmit(0, &mut octets).is_some() {
            server.handle(0, 0, &octets);
        }
        while server.poll_transmit(0, &mut octets).is_some() {
            client.handle(0, 9, &octets);
        }
        table.push((name, client.poll_event()));
    }
    let refused = || Some(Event::Failed(code::NOT_AWAITING_MSG));
    assert_eq!(
        table,
        [
            ("waits", None),
            ("has one to take", refused()),
            ("works", refused()),
            ("waits again", None)
        ]
    );
    assert_eq!(server.counters().requests, 2);
}

/// A refused Request that is repeated is new: the server waits now.
#[test]
fn a_refused_request_may_be_repeated() {
    let mut server: Server<u16> = Server::new(server_entity(0), Config::default());
    let mut header = Header::request(client_entity(0), server_entity(0), 1);
    header.code.only_if_waiting = true;
    let mut octets = Vec::new();
    emit(&header, [], Checksum::Computed, &mut octets);
    server.handle(0, 0, &octets);
    assert_eq!(server.poll_request(), None, "it was refused, and now the server waits");
    server.handle(MS, 0, &octets);
    assert!(server.poll_request().is_some());
    server.handle(2 * MS, 0, &octets);
    assert_eq!(server.poll_request(), None, "it is executed once");
}

/// DRT: when the Responses of four members leave, in 0.1 ms.
#[test]
fn members_of_a_group_answer_at_different_times_where_the_client_asks_for_it() {
    let config = Config::default();
    let table = [false, true].map(|delay_response| {
        let mut net = net(4);
        net.servers.iter_mut().for_each(|server| server.join(GROUP));
        let options = Options { many_ns: Some(50 * MS), delay_response, ..Options::default() };
        net.clients[0].start(0, GROUP, EVERYBODY, Request::default(), options).expect("idle");
        let mut at = Vec::new();
        while net.event(0) != Some(Event::Finished(4)) {
            net.step(&mut |_, _| Some(Outcome::default()));
            let log = net.log.replace(Vec::new()).unwrap_or_default();
            let responses = log.iter().filter(|line| line.contains("Response")).count();
            at.extend(std::iter::repeat_n(net.now_ns / (MS / 10), responses));
        }
        at.dedup();
        (at.len(), at.iter().all(|at| at * MS / 10 <= config.response_delay_ns_max + MS))
    });
    assert_eq!(table, [(1, true), (4, true)]);
}

/// MDG: a member of the group asks it. Its own server receives the Request by multicast, too, and leaves it.
#[test]
fn a_member_that_asks_its_group_is_not_asked_itself() {
    let table = [false, true].map(|is_member| {
        let mut servers =
            [client_entity(0), server_entity(1)].map(|name| Server::new(name, Config::default()));
        servers.iter_mut().for_each(|server| server.join(GROUP));
        let mut client: Client<u16> = Client::new(client_entity(0), 1, Config::default());
        let options = Options { is_member, ..Options::default() };
        client.start(0, GROUP, EVERYBODY, Request::default(), options).expect("idle");
        let mut octets = Vec::new();
        while client.poll_transmit(0, &mut octets).is_some() {
            servers.iter_mut().for_each(|server: &mut Server<u16>| server.handle(0, 0, &octets));
        }
        servers.map(|mut server| server.poll_request().map(|request| request.is_from_member))
    });
    assert_eq!(table, [[Some(false), Some(false)], [None, Some(true)]]);
}
