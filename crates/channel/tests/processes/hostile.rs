//! Peers that keep to the set-up and then to nothing.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use sockscope_channel::{ConnectRequest, Offer, Role, WhenFull};

/// Slots of the hostile sender, and where the last of them ends.
const SLOTS: u32 = 4;
const SLOT_BYTES: u32 = 112;
const SEGMENT_BYTES: usize = 4_096 + 4 * 128;

/// Sends as a sender does, and meanwhile writes random words all over its segment.
pub fn scribble_slots(to: &str, seed: u64) {
    let (_file, words) = segment(SEGMENT_BYTES);
    let _socket = set_up(to, &request(Role::Sends), &_file);
    println!("ready");
    let mut random = seed | 1;
    loop {
        for number in 0..1_000_u64 {
            scribble(words, &mut random);
            // Sometimes the word of a reader, so that it reads beyond the first one.
            let slot = (4_096 + (number % 4) as usize * 128) / 8;
            let length = if random.is_multiple_of(8) { random as u32 } else { 100 };
            words[slot].store((number + 1) << 32 | u64::from(length), Ordering::Release);
        }
    }
}

/// Receives from a bound sender, and writes random words all over its control segment.
pub fn scribble_control(at: &str, seed: u64) {
    let (file, words) = segment(4_096);
    let socket = set_up(at, &request(Role::Receives), &file);
    println!("ready");
    let mut random = seed | 1;
    loop {
        scribble(words, &mut random);
        words[16].store(random, Ordering::Relaxed);
        let _ = rustix::net::send(&socket, &[7; 32], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

/// Offers a segment that it has not sealed, so that it could cut it under its reader.
pub fn shrink(to: &str) {
    let file = rustix::fs::memfd_create(c"unsealed", MemfdFlags::ALLOW_SEALING).expect("memory");
    rustix::fs::ftruncate(&file, SEGMENT_BYTES as u64).expect("room");
    let _socket = set_up(to, &request(Role::Sends), &file);
    println!("ready");
    std::thread::park();
}

/// Calls and says nothing.
pub fn hold_the_listener(at: &str) {
    let sockets: Vec<OwnedFd> = (0..3).map(|_| call(at)).collect();
    println!("ready");
    std::thread::park();
    drop(sockets);
}

fn request(role: Role) -> ConnectRequest {
    let (slots, slot_bytes) = (SLOTS, SLOT_BYTES);
    let offer = Offer { slots, slot_bytes, when_full: WhenFull::Wait, next: 0 };
    ConnectRequest { role, offer, member: None, incarnation: 0 }
}

fn scribble(words: &[AtomicU64], random: &mut u64) {
    // Marsaglia's xorshift.
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    words[(*random >> 20) as usize % words.len()].store(*random, Ordering::Relaxed);
}

fn segment(len: usize) -> (OwnedFd, &'static [AtomicU64]) {
    let file = rustix::fs::memfd_create(c"hostile", MemfdFlags::ALLOW_SEALING).expect("memory");
    rustix::fs::ftruncate(&file, len as u64).expect("room");
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).expect("a memory file");
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at a place that the kernel chooses, never unmapped; the words are
    // aligned, since a mapping is, and only accessed atomically.
    let words = unsafe {
        let base =
            rustix::mm::mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, &file, 0);
        std::slice::from_raw_parts(base.expect("memory").cast::<AtomicU64>(), len / 8)
    };
    (file, words)
}

fn call(at: &str) -> OwnedFd {
    let uid = rustix::process::geteuid().as_raw();
    let name =
        SocketAddrUnix::new_abstract_name(format!("sockscope.channel/{uid}/{at}").as_bytes());
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket =
        rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket");
    rustix::net::connect(&socket, &name.expect("a short name")).expect("somebody listens");
    socket
}

fn set_up(at: &str, request: &ConnectRequest, file: &OwnedFd) -> OwnedFd {
    let socket = call(at);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    let bytes = request.encode();
    rustix::net::sendmsg(&socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::empty())
        .expect("sent");
    let mut answer = [0; 64];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut answer)];
    rustix::net::recvmsg(&socket, &mut parts, &mut control, RecvFlags::empty()).expect("an answer");
    socket
}
