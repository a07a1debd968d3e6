//! `sockscope-lab vmtp` servers and the packets of strangers, over loopback UDP.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use sockscope_vmtp::store::{Operation, StoreRequest};
use sockscope_vmtp::wire::{Checksum, Code, Entity, Header, emit};

use crate::{Server, path, run, started, text};

/// A server that has at most so many KiB of address space.
fn bounded_server(kibibytes: u32, arguments: &[&str]) -> Server {
    let script = format!("ulimit -v {kibibytes} && exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_sockscope-lab"))
        .arg("vmtp")
        .args(arguments);
    started(&mut command)
}

/// The first packet of `client`'s Request: `data`, of a segment of `bytes`.
fn packet(client: u32, ask: (u32, [u8; 12]), bytes: usize, data: &[u8]) -> Vec<u8> {
    let client = Entity::new(client + 2, Ipv4Addr::new(10, 0, 0, 1));
    let mut header = Header {
        delivery: u32::from(!data.is_empty()),
        code: Code::new(ask.0),
        ..Header::request(client, Entity::new(1, Ipv4Addr::LOCALHOST), 1)
    };
    header.put(8, &ask.1);
    header.set_segment_size(bytes as u32);
    let mut octets = Vec::new();
    emit(&header, [data], Checksum::Computed, &mut octets);
    octets
}

#[test]
fn half_requests_leave_a_server_its_memory_and_its_clients() {
    // 20,000 clients announce 80 GiB and send 10 MiB.
    const CLIENTS: u32 = 20_000;
    let server = bounded_server(1_000_000, &["serve", "--at", "127.0.0.1:0"]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for client in 0..CLIENTS {
        let octets = packet(client, (0, [0; 12]), 4 << 20, &[0; 512]);
        socket.send_to(&octets, &server.address).expect("sent");
        if client % 500 == 499 {
            let called = run(&["call", "hello", "--to", &server.address]);
            assert_eq!(called.status.code(), Some(0), "{}", text(&called.stderr));
        }
    }
    let (status, said) = server.end();
    assert_eq!(status, Some(0), "{said}");
    let shown = said.lines().last().expect("a line");
    assert!(shown.contains("refused for lack of room"), "{said}");
    assert!(shown.contains("unfinished requests given up"), "{said}");
}

#[test]
fn a_stranger_gets_at_most_three_times_what_it_sent_and_a_client_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let [served, page, got] = ["served", "page", "got"].map(|name| folder.path().join(name));
    std::fs::create_dir(&served).expect("a folder");
    for number in 0..300 {
        let name = format!("a-name-that-is-long-enough-to-fill-a-list-{number}");
        std::fs::write(served.join(name), "").expect("a file");
    }
    let octets: Vec<u8> = (0..100_000).map(|at| (at * 7 % 251) as u8).collect();
    std::fs::write(&page, &octets).expect("a file");
    let server = bounded_server(4_000_000, &["store", path(&served), "--at", "127.0.0.1:0"]);
    let put = run(&["put", path(&page), "page", "--to", &server.address]);
    assert_eq!(put.status.code(), Some(0), "{}", text(&put.stderr));

    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(1500))).expect("a limit");
    let mut client = 6;
    for operation in [Operation::Read { file: 0, page: 0 }, Operation::List { from: 0 }] {
        // No session, and one that is guessed.
        for session in [0, 1] {
            let ask = StoreRequest { session, sequence: 0, operation: operation.clone() }.encode();
            client += 1;
            let sent = packet(client, (ask.code, ask.user), 0, &[]);
            socket.send_to(&sent, &server.address).expect("sent");
            let mut answers = 0;
            let mut bytes = 0;
            let mut answer = [0; 65_536];
            // Until nothing comes any more: retries count, too.
            while let Ok(len) = socket.recv(&mut answer) {
                (answers, bytes) = (answers + 1, bytes + len);
            }
            assert!(answers > 0, "{operation:?}: no answer says that it is refused");
            assert!(bytes <= 3 * sent.len(), "{operation:?}: {bytes} for {}", sent.len());
        }
    }

    let read = run(&["get", "page", path(&got), "--to", &server.address]);
    assert_eq!(read.status.code(), Some(0), "{}", text(&read.stderr));
    assert!(std::fs::read(&got).expect("a file") == octets);
    let list = run(&["list", "--to", &server.address]);
    assert_eq!(text(&list.stdout).lines().count(), 301);
    let (status, said) = server.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("answers withheld from addresses that are not proved"), "{said}");
}
