//! A network between two sockets that loses, repeats and mixes datagrams, on a fixed pattern.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Datagrams that met a fault.
#[derive(Debug, Default, Clone, Copy)]
pub struct Faults {
    pub lost: u32,
    pub repeated: u32,
    pub mixed: u32,
}

/// Forwards datagrams between its two ends.
pub struct Relay {
    addresses: [SocketAddr; 2],
    ends: [UdpSocket; 2],
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Faults>>,
}

impl Relay {
    pub fn new() -> Self {
        let inner = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let ends = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let addresses = [0, 1].map(|at| inner[at].local_addr().unwrap());
        for (inner, end) in inner.iter().zip(&ends) {
            inner.connect(end.local_addr().unwrap()).unwrap();
            inner.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        }
        let stops = Arc::new(AtomicBool::new(false));
        let threads = [(0, 1), (1, 0)].map(|(from, to)| {
            let (from, to) = (inner[from].try_clone().unwrap(), inner[to].try_clone().unwrap());
            let stops = Arc::clone(&stops);
            thread::spawn(move || forward(&from, &to, &stops))
        });
        Self { addresses, ends, stops, threads: threads.into() }
    }

    /// Sockets that reach each other through the relay.
    pub fn ends(&self) -> [UdpSocket; 2] {
        [0, 1].map(|at| {
            let socket = self.ends[at].try_clone().unwrap();
            socket.connect(self.addresses[at]).unwrap();
            socket
        })
    }

    /// Ends it; returns the faults of both directions.
    pub fn stop(self) -> Faults {
        self.stops.store(true, Ordering::Relaxed);
        let both = self.threads.into_iter().map(|thread| thread.join().unwrap());
        both.fold(Faults::default(), |sum, one| Faults {
            lost: sum.lost + one.lost,
            repeated: sum.repeated + one.repeated,
            mixed: sum.mixed + one.mixed,
        })
    }
}

/// One in ten is lost, one in ten is doubled, one in ten follows the next one.
fn forward(from: &UdpSocket, to: &UdpSocket, stops: &AtomicBool) -> Faults {
    let (mut faults, mut held, mut random) = (Faults::default(), None::<Vec<u8>>, 1_u32);
    let mut datagram = vec![0; 65_536];
    let send = |octets: &[u8]| {
        // An end that is gone refuses; that is a loss more.
        let _ = to.send(octets);
    };
    while !stops.load(Ordering::Relaxed) {
        let Ok(len) = from.recv(&mut datagram) else {
            held.take().iter().for_each(|octets| send(octets));
            continue;
        };
        let octets = &datagram[..len];
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        match (random >> 16) % 10 {
            0 => faults.lost += 1,
            1 => {
                faults.repeated += 1;
                send(octets);
                send(octets);
            }
            2 if held.is_none() => {
                faults.mixed += 1;
                held = Some(octets.to_vec());
                continue;
            }
            _ => send(octets),
        }
        held.take().iter().for_each(|octets| send(octets));
    }
    faults
}
