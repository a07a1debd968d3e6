//! Listening sockets that ask to be logged, on the running kernel.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use libbpf_rs::{MapCore, MapFlags};

use super::Programs;
use crate::hooks::When;
use crate::lists::Shape;
use crate::object;
use crate::pick::Pick;
use crate::rights;

/// `SO_LOG` of the level `SOL_SOCKSCOPE`.
const SO_LOG: (i32, i32) = (0x5350, 1);
/// The mark of a listener that the operator may choose.
const PICKED: [u8; 1] = [1];
/// Listeners made until one has the address of another.
const TRIES: usize = 5_000;

fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

fn ask(listener: &TcpListener) {
    let one = 1i32;
    // libc, as rustix sets only options that it knows.
    // SAFETY: the value is an int, and its size is given.
    let result = unsafe {
        libc::setsockopt(listener.as_raw_fd(), SO_LOG.0, SO_LOG.1, (&raw const one).cast(), 4)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// The probes' keys of chosen listeners: the address, then the distinction of sockets there.
fn chosen(programs: &Programs) -> BTreeSet<Vec<u8>> {
    let map = programs.object.maps().find(|map| map.name() == "listeners").unwrap();
    map.keys().collect()
}

/// The close of a chosen listener is not recorded, and a later one has its address: that one is not chosen.
#[test]
fn root_a_listener_is_not_taken_for_an_earlier_one_at_its_address() {
    if !rights::can_load() {
        return;
    }
    let mut programs = Programs::load(&Pick::default(), Shape::of(None)).unwrap();
    for when in [When::Control, When::Always] {
        programs.attach(when);
    }
    let first = listener();
    ask(&first);
    let keys: Vec<_> = chosen(&programs).into_iter().collect();
    let [stale] = keys.as_slice() else { panic!("{keys:?}") };
    drop(first);
    assert_eq!(chosen(&programs), BTreeSet::new());
    let map = programs.object.maps().find(|map| map.name() == "listeners").unwrap();
    map.update(stale, &PICKED, MapFlags::ANY).unwrap();
    for _ in 0..TRIES {
        let later = listener();
        let opened = || object::counters(&programs.object).unwrap().connections_opened;
        let before = opened();
        let client = TcpStream::connect(later.local_addr().unwrap()).unwrap();
        let server = later.accept().unwrap();
        let is_logged = opened() > before;
        ask(&later);
        let is_there = chosen(&programs).iter().any(|key| key != stale && key[..8] == stale[..8]);
        assert!(!is_logged, "logged by what an earlier listener had asked for");
        if is_there {
            return;
        }
        drop((later, client, server));
    }
    panic!("none of {TRIES} listeners had the address of the first one");
}
