//! What every protocol under comparison must be able to do.
//!
//! A *call* is a request of a fixed size and a response of [`RESPONSE_BYTES`]: what a VMTP response
//! carries in its header alone. Each request begins with the call's number as far as it fits, and the
//! response returns it, so that a mistaken response fails the call.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Bytes of a response (RFC 1045 §2.2 leaves this much user data in a header).
pub(super) const RESPONSE_BYTES: usize = 20;

/// A protocol on this machine.
pub(super) trait Transport {
    /// Starts a server for requests of `request_bytes`; it ends when what is returned is dropped.
    fn serve(&self, request_bytes: usize) -> io::Result<Box<dyn Server>>;
}

/// A running server.
pub(super) trait Server {
    /// A client of it, connected.
    fn client(&self) -> io::Result<Box<dyn Client>>;
}

/// One client: one call at a time.
pub(super) trait Client: Send {
    /// Makes call `number` and waits for its response.
    fn call(&mut self, number: u64) -> io::Result<()>;

    /// Ports that its packets carry, to find them in a recording; none where the kernel's network
    /// stack is not used.
    fn port(&self) -> Option<u16> {
        None
    }
}

/// A thread of a server, which ends when this is dropped.
pub(super) struct Worker {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts `work`, whose argument says when it is to end.
    pub(super) fn start(work: impl FnOnce(&AtomicBool) + Send + 'static) -> Self {
        let ends = Arc::<AtomicBool>::default();
        let thread = thread::spawn({
            let ends = Arc::clone(&ends);
            move || work(&ends)
        });
        Self { ends, thread: Some(thread) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // What it panicked of, a test has seen as a failed call.
            let _ = thread.join();
        }
    }
}

/// A request and the response that it must get.
#[derive(Debug)]
pub(super) struct Message {
    pub request: Vec<u8>,
    pub response: [u8; RESPONSE_BYTES],
}

impl Message {
    pub(super) fn new(request_bytes: usize) -> Self {
        Self { request: vec![0x5a; request_bytes.max(1)], response: [0; RESPONSE_BYTES] }
    }

    /// Puts the call's number at the start of the request.
    pub(super) fn number(&mut self, number: u64) -> &[u8] {
        let len = self.request.len().min(8);
        self.request[..len].copy_from_slice(&number.to_be_bytes()[8 - len..]);
        &self.request
    }

    /// Compares the response with the request.
    pub(super) fn check(&self) -> io::Result<()> {
        let len = self.request.len().min(8);
        if self.response[..len] == self.request[..len] {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "a response to another call"))
    }
}

/// The response to `request`.
pub(super) fn answer(request: &[u8]) -> [u8; RESPONSE_BYTES] {
    let mut response = [0; RESPONSE_BYTES];
    let len = request.len().min(8);
    response[..len].copy_from_slice(&request[..len]);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_belongs_to_one_call() {
        for bytes in [1, 7, 8, 100] {
            let mut message = Message::new(bytes);
            message.response = answer(message.number(7));
            assert!(message.check().is_ok());
            message.number(8);
            assert!(message.check().is_err());
        }
    }
}
