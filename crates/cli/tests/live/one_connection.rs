//! What is one connection, and what are two: by the addresses of its ends and their network namespaces.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};

use sockscope_trace::Bundle;

use crate::bundle::Recorder;
use crate::turn;

/// Sends the first datagram of a new socket from two threads at once; the socket's address.
fn sent_at_once(to: SocketAddr) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    let ready = AtomicUsize::new(0);
    let send = || {
        ready.fetch_add(1, Ordering::SeqCst);
        while ready.load(Ordering::SeqCst) < 2 {
            std::hint::spin_loop();
        }
        socket.send_to(&[7; 10], to).expect("it can be sent");
    };
    std::thread::scope(|scope| {
        scope.spawn(send);
        send();
    });
    socket.local_addr().expect("it is bound")
}

#[test]
fn root_a_flow_that_two_threads_open_at_once_is_one() {
    let Some(_turn) = turn::take() else { return };
    const SOCKETS: usize = 4_000;
    let reader = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    let to = reader.local_addr().expect("it is bound");
    let recorder = Recorder::start(&["--port", &to.port().to_string()], None);
    let sent: BTreeSet<SocketAddr> = (0..SOCKETS).map(|_| sent_at_once(to)).collect();
    let (folder, said) = recorder.end();
    let bundle = Bundle::open(folder.path().join("live.sockscope")).expect("it was finished");
    let clients = bundle.connections().iter().map(|known| known.client);
    let recorded: BTreeSet<SocketAddr> = clients.collect();
    assert_eq!(bundle.connections().len(), recorded.len(), "{said}");
    assert_eq!(recorded, sent, "{said}");
}
