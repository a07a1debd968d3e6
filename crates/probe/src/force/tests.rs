//! Settings from the loader, and effects of the program on this kernel.

use std::io::{Read, Write};
use std::net::Ipv6Addr;

use super::*;

#[test]
fn addresses_of_both_families_have_one_form() {
    let mapped: Ipv6Addr = "::ffff:127.0.0.1".parse().unwrap();
    assert_eq!(words("127.0.0.1".parse().unwrap()), words(IpAddr::V6(mapped)));
    assert_eq!(words("::1".parse().unwrap()), [0, 0, 0, 1u32.to_be()]);
}

#[test]
fn settings_have_the_fixes_and_the_scope() {
    let mut bytes = vec![0; size_of::<types::settings>()];
    let fixes: Vec<Fix> =
        ["nodelay", "cc=bbr", "rcvbuf=64k"].map(|text| text.parse().unwrap()).into();
    let scope = Scope {
        group: Some((7, 2)),
        ports: vec![80, 443],
        addresses: vec!["::1".parse().unwrap()],
        pids: vec![],
        sides: Sides::Server,
    };
    write_settings(&mut bytes, &fixes, &scope).unwrap();
    let settings: types::settings = plain(&bytes).unwrap();
    assert_eq!((settings.fix_count, settings.sides), (3, SIDE_SERVER));
    assert_eq!((settings.has_group, settings.group_id, settings.group_level), (1, 7, 2));
    assert_eq!((settings.ports, settings.port[1], settings.port[2]), (2, 443, 0));
    assert_eq!((settings.addresses, settings.pids), (1, 0));
    let of = settings.fixes;
    assert_eq!((of[0].option, of[0].value, of[0].is_early), (libc::TCP_NODELAY as u32, 1, 0));
    assert_eq!((of[1].has_name, of[1].name[2], of[1].name[3]), (1, b'r' as i8, 0));
    assert_eq!((of[2].value, of[2].is_early, of[2].has_name), (65_536, 1, 0));
}

#[test]
fn more_than_the_program_has_room_for_is_refused() {
    let mut bytes = vec![0; size_of::<types::settings>()];
    let fixes = vec![Fix::of(FixKind::Nodelay, 1); Force::FIXES_MAX + 1];
    assert!(write_settings(&mut bytes, &fixes, &Scope::default()).is_err());
    let scope = Scope { ports: vec![1; 99], ..Scope::default() };
    assert!(write_settings(&mut bytes, &[], &scope).is_err());
    assert!(write_settings(&mut [0; 8], &[], &Scope::default()).is_err());
}

#[test]
fn a_refusal_has_the_name_of_its_error() {
    let refused = |errno: i32| Outcome { errno: errno as u32, ..Outcome::default() }.reason();
    assert_eq!(refused(libc::EINVAL), "EINVAL: Invalid argument");
    assert_eq!(refused(libc::ENOMEM), "errno 12: Cannot allocate memory");
}

#[test]
fn root_this_kernel_says_of_each_fix_whether_it_accepts_it() {
    if !crate::rights::can_load() {
        return;
    }
    let found = supported_fixes().unwrap();
    assert_eq!(found.len(), FixKind::ALL.len());
    for (fix, outcome) in &found {
        assert_eq!(outcome.attempts, 1, "{fix}: {outcome:?}");
        assert_eq!(outcome.accepted + outcome.refused, 1, "{fix}: {outcome:?}");
    }
    // Since Linux 5.x every kernel of the table takes a buffer's size.
    let sndbuf = found.iter().find(|(fix, _)| fix.kind == FixKind::Sndbuf).unwrap();
    assert_eq!(sndbuf.1.granted, Some(131_072), "the kernel doubles it");
}

/// A connection whose ends are this process: its server's socket is in the scope, by its port.
#[test]
fn root_only_sockets_in_the_scope_are_changed() {
    if !crate::rights::can_load() {
        return;
    }
    let pair = || {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = listener.local_addr().unwrap();
        (listener, at)
    };
    let ((inside, at), (outside, elsewhere)) = (pair(), pair());
    let own: Vec<Listening> = Listening::here(at).into_iter().collect();
    let fixes = ["nodelay".parse().unwrap(), "sndbuf=64k".parse().unwrap()];
    let force = Force::attach_to(&fixes, &Scope::default(), &own).unwrap();
    let nodelay = |listener: &TcpListener, at| {
        let mut client = TcpStream::connect(at).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7]).unwrap();
        server.read_exact(&mut [0]).unwrap();
        (client.nodelay().unwrap(), server.nodelay().unwrap())
    };
    assert_eq!(nodelay(&inside, at), (false, true));
    assert_eq!(nodelay(&outside, elsewhere), (false, false));
    assert_eq!(force.sockets().unwrap(), [0, 0, 1]);
    let outcomes = force.outcomes().unwrap();
    assert_eq!(outcomes.iter().map(|one| one.accepted).collect::<Vec<_>>(), [1, 1]);
    drop(force);
    assert_eq!(nodelay(&inside, at), (false, false), "it ends with the program");
}

/// TCP has no algorithm of that name, so the kernel refuses it at both ends.
#[test]
fn root_a_socket_on_which_the_kernel_refuses_all_is_not_a_changed_one() {
    if !crate::rights::can_load() {
        return;
    }
    for (names, changed) in [(&["cc=nosuch"][..], 0), (&["cc=nosuch", "nodelay"], 2)] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let own: Vec<Listening> = Listening::here(at).into_iter().collect();
        let fixes: Vec<Fix> = names.iter().map(|name| name.parse().unwrap()).collect();
        let scope = Scope { pids: vec![std::process::id()], ..Scope::default() };
        let force = Force::attach_to(&fixes, &scope, &own).unwrap();
        connected(&listener, at).unwrap();
        let refused = force.outcomes().unwrap()[0];
        assert_eq!((refused.attempts, refused.refused), (2, 2), "{names:?}");
        assert_eq!(refused.reason(), "ENOENT: No such file or directory");
        assert_eq!(force.sockets().unwrap(), [0, 0, changed], "{names:?}");
    }
}
