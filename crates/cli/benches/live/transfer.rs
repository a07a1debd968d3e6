//! One running transfer over loopback, both ends on one CPU.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use sockscope_probe::bench;

use crate::Failure;

/// What goes over the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// 100 bytes there and 100 back, with TCP_NODELAY; one after another.
    Calls,
    /// Writes of 128 KiB as fast as they are taken.
    Bulk,
}

impl Load {
    pub fn name(self) -> &'static str {
        match self {
            Self::Calls => "100-byte calls",
            Self::Bulk => "bulk",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Calls => 100,
            Self::Bulk => 128 * 1024,
        }
    }
}

/// A transfer that runs until it is dropped.
pub struct Transfer {
    pub port: u16,
    client: TcpStream,
    /// Bytes that the server has read.
    received: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Transfer {
    /// Connects, and starts both ends on this CPU.
    pub fn start(load: Load, cpu: usize) -> Result<Self, Failure> {
        let (client, server) = bench::unpaced_connection()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let received = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&received);
        let sending = client.try_clone()?;
        let start = |end: Box<dyn FnOnce() + Send>| {
            std::thread::spawn(move || {
                if bench::pin(cpu).is_ok() {
                    end();
                }
            })
        };
        let threads = vec![
            start(Box::new(move || serve(server, load, &counted))),
            start(Box::new(move || send(sending, load))),
        ];
        Ok(Self { port: client.peer_addr()?.port(), client, received, threads })
    }

    /// Bytes that arrived so far, and when that was.
    pub fn progress(&self) -> (u64, Instant) {
        (self.received.load(Ordering::Relaxed), Instant::now())
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // Both ends then see the end of their stream; it may have ended before.
        let _ = self.client.shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn send(mut stream: TcpStream, load: Load) {
    let mut bytes = vec![0x53; load.bytes()];
    while stream.write_all(&bytes).is_ok() {
        if load == Load::Calls && stream.read_exact(&mut bytes).is_err() {
            break;
        }
    }
}

fn serve(mut stream: TcpStream, load: Load, received: &AtomicU64) {
    let mut bytes = vec![0; load.bytes()];
    while let Ok(1..) = stream.read(&mut bytes).inspect(|count| {
        received.fetch_add(*count as u64, Ordering::Relaxed);
    }) {
        // A call fits into one segment: what was read is the whole of it.
        if load == Load::Calls && stream.write_all(&bytes).is_err() {
            break;
        }
    }
}
