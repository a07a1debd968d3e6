//! `sosend` under each rule, cell by cell: the result of a write of n bytes.
//!
//! `C` is a cluster, `s` a small mbuf, each with its bytes; `[ ]` is one `PRU_SEND`, `zzz` is a
//! sleep of the writer. Data handed over stay in the send buffer, as they do until an
//! acknowledgment.

use proptest::prelude::*;
use sockscope_record::Protocol;

use super::*;
use crate::mbuf::PoolUse;
use crate::personality::Personality;
use crate::stack::StackConfig;
use crate::testing::pattern;

/// A socket that believes it is connected, on a host without a network.
struct Scene {
    stack: Stack,
    meter: Meter,
    socket: SocketId,
    text: String,
    passed: Vec<u8>,
}

impl Scene {
    fn new(personality: Personality, protocol: Protocol, hiwat: u32) -> Self {
        let mut stack = Stack::new(personality, StackConfig::default());
        let buffers = stack.personality.socket.buffers;
        let mut socket = Socket::new(protocol);
        socket.snd.reserve(hiwat, &buffers);
        socket.snd.set_lowat(buffers.send_lowat);
        socket.state.is_connected = true;
        let socket = stack.sockets.insert(socket);
        let (text, passed) = (String::new(), Vec::new());
        Self { stack, meter: Meter::default(), socket, text, passed }
    }

    /// Goes on with a call until it is done or would sleep.
    fn run(&mut self, call: &mut SendCall, user: &[u8]) -> Step {
        loop {
            let step = if matches!(call.next, Next::Send) {
                self.hand_over(call)
            } else {
                call.step(&mut self.stack, user, &mut self.meter)
            };
            match step {
                Step::Continue => {}
                Step::Sleep(_) => {
                    self.text += " zzz";
                    return step;
                }
                Step::Done(_) => return step,
            }
        }
    }

    /// Replaces `PRU_SEND`: notes the staged chain down and puts it into the buffer.
    fn hand_over(&mut self, call: &mut SendCall) -> Step {
        let chain = call.staged.take();
        self.text += &format!(" [{}]", shape(&self.stack, &chain));
        self.passed.extend(self.stack.pool.bytes_of(&chain));
        let Stack { sockets, pool, personality, .. } = &mut self.stack;
        if sockets[self.socket].is_atomic() {
            pool.free_chain(chain, &mut self.meter);
        } else {
            let rules = &personality.socket.buffers;
            sockets[self.socket].snd.append(chain, rules, pool, &mut self.meter);
        }
        call.after_send(&self.stack);
        Step::Continue
    }

    /// The peer acknowledges so many bytes.
    fn acknowledge(&mut self, bytes: usize) {
        let Stack { sockets, pool, .. } = &mut self.stack;
        sockets[self.socket].snd.drop_front(bytes, pool, &mut self.meter);
    }

    fn uiomoves(&self) -> u64 {
        self.meter.calls(Routine::Uiomove)
    }
}

/// As `9xs112 s15`.
fn shape(stack: &Stack, chain: &Chain) -> String {
    let mut runs: Vec<(usize, String)> = Vec::new();
    for id in stack.pool.ids(chain) {
        let kind = if stack.pool.is_cluster(id) { 'C' } else { 's' };
        let name = format!("{kind}{}", stack.pool.len(id));
        match runs.last_mut().filter(|(_, last)| *last == name) {
            Some((count, _)) => *count += 1,
            None => runs.push((1, name)),
        }
    }
    let names = runs.into_iter().map(|(count, name)| match count {
        1 => name,
        count => format!("{count}x{name}"),
    });
    names.collect::<Vec<_>>().join(" ")
}

fn named(personality: &str) -> Personality {
    Personality::by_name(personality).unwrap()
}

/// One write of `len` bytes when `queued` messages of that size wait in the buffer already.
fn write(personality: &str, hiwat: u32, len: usize, queued: usize) -> String {
    let mut scene = Scene::new(named(personality), Protocol::Tcp, hiwat);
    let user = pattern(len);
    for _ in 0..queued {
        let mut call = SendCall::write(scene.socket, len);
        assert_eq!(scene.run(&mut call, &user), Step::Done(Ok(len as u32)));
    }
    scene.text.clear();
    let mut call = SendCall::write(scene.socket, len);
    if scene.run(&mut call, &user) != Step::Done(Ok(len as u32)) {
        scene.acknowledge(usize::MAX);
        assert_eq!(scene.run(&mut call, &user), Step::Done(Ok(len as u32)), "{}", scene.text);
    }
    scene.text.trim_start().to_owned()
}

fn datagram(personality: &str, hiwat: u32, len: usize) -> String {
    let mut scene = Scene::new(named(personality), Protocol::Udp, hiwat);
    let mut call = SendCall::write(scene.socket, len);
    let step = scene.run(&mut call, &pattern(len));
    match step {
        Step::Done(Ok(_)) => scene.text.trim_start().to_owned(),
        step => format!("{step:?}"),
    }
}

#[test]
fn writes_of_4_2_into_an_empty_buffer() {
    for personality in ["4.2bsd", "4.2bsd-cabrera"] {
        for (len, expected) in [
            (1, "[s1]"),
            (112, "[s112]"),
            (113, "[s112 s1]"),
            (1023, "[9xs112 s15]"),
            (1024, "[C1024]"),
            (1025, "[C1024 s1]"),
        ] {
            assert_eq!(write(personality, 2048, len, 0), expected, "{personality} {len}");
        }
    }
}

#[test]
fn writes_of_4_2_behind_one_message_of_their_size() {
    for personality in ["4.2bsd", "4.2bsd-cabrera"] {
        for (len, expected) in [
            (1, "[s1]"),
            (112, "[s112]"),
            (113, "[s112 s1]"),
            (1023, "[9xs112 s15]"),
            (1024, "[C1024]"),
            // 1023 bytes of space: no cluster.
            (1025, "[9xs112 s17]"),
        ] {
            assert_eq!(write(personality, 2048, len, 1), expected, "{personality} {len}");
        }
    }
}

#[test]
fn writes_of_4_2_behind_two_messages_of_their_size() {
    // Two bytes of space: as released the whole message goes beyond the limit; later one mbuf does.
    assert_eq!(write("4.2bsd", 2048, 1023, 2), "[9xs112 s15]");
    assert_eq!(write("4.2bsd-cabrera", 2048, 1023, 2), "[s112] zzz [8xs112 s15]");
    for personality in ["4.2bsd", "4.2bsd-cabrera"] {
        assert_eq!(write(personality, 2048, 1024, 2), "zzz [C1024]");
        assert_eq!(write(personality, 2048, 1025, 2), "zzz [C1024 s1]");
    }
}

#[test]
fn a_split_write_of_1023_bytes_still_takes_ten_uiomoves() {
    let mut scene = Scene::new(named("4.2bsd-cabrera"), Protocol::Tcp, 2048);
    let user = pattern(1023);
    for _ in 0..2 {
        scene.run(&mut SendCall::write(scene.socket, 1023), &user);
    }
    let snd = &scene.stack.sockets[scene.socket].snd;
    assert_eq!((snd.cc(), snd.space()), (2046, 2));
    let before = scene.uiomoves();
    let mut call = SendCall::write(scene.socket, 1023);
    assert_eq!(scene.run(&mut call, &user), Step::Sleep(Channel::Writable(scene.socket)));
    scene.acknowledge(1023);
    assert_eq!(scene.run(&mut call, &user), Step::Done(Ok(1023)));
    assert_eq!(scene.uiomoves() - before, 10);
}

#[test]
fn storage_of_4_2_after_one_message() {
    for (len, queued, cc, mbcnt) in
        [(1023, 1, 1023, 1280), (1024, 1, 1024, 1152), (1025, 1, 1025, 1280)]
    {
        let mut scene = Scene::new(named("4.2bsd-cabrera"), Protocol::Tcp, 2048);
        for _ in 0..queued {
            scene.run(&mut SendCall::write(scene.socket, len), &pattern(len));
        }
        let snd = &scene.stack.sockets[scene.socket].snd;
        assert_eq!((snd.cc(), snd.mbcnt()), (cc, mbcnt), "{len}");
    }
}

#[test]
fn writes_of_4_3_and_tahoe_into_an_empty_buffer() {
    for personality in ["4.3bsd", "tahoe", "sunos-4.0.3", "sunos-4.1"] {
        for (len, expected) in [
            (1, "[s1]"),
            (112, "[s112]"),
            (113, "[s112 s1]"),
            (511, "[4xs112 s63]"),
            (512, "[C512]"),
            (1023, "[C1023]"),
            (1024, "[C1024]"),
            (1025, "[C1024 s1]"),
            (4000, "[3xC1024 C928]"),
            (4096, "[4xC1024]"),
        ] {
            assert_eq!(write(personality, 4096, len, 0), expected, "{personality} {len}");
        }
    }
}

#[test]
fn writes_of_reno_into_an_empty_buffer() {
    for (len, expected) in [
        (1, "[s1]"),
        (100, "[s100]"),
        (112, "[s100] [s12]"),
        (113, "[s100] [s13]"),
        (207, "[s100] [s100] [s7]"),
        (208, "[C208]"),
        (1023, "[C1023]"),
        (1024, "[C1024]"),
        (1025, "[C1024] [s1]"),
        (4000, "[C1024] [C1024] [C1024] [C928]"),
        (4096, "[C1024] [C1024] [C1024] [C1024]"),
    ] {
        assert_eq!(write("reno", 4096, len, 0), expected, "{len}");
    }
}

#[test]
fn datagrams_of_4_2_and_4_3_are_one_chain() {
    for (len, expected) in
        [(1, "[s1]"), (113, "[s112 s1]"), (1023, "[9xs112 s15]"), (1025, "[C1024 s1]")]
    {
        assert_eq!(datagram("4.2bsd-cabrera", 2048, len), expected);
    }
    assert_eq!(datagram("tahoe", 2048, 1023), "[C1023]");
    for personality in ["4.2bsd", "4.2bsd-cabrera", "4.3bsd", "tahoe"] {
        assert_eq!(datagram(personality, 2048, 2049), "Done(Err(MessageSize))");
    }
}

#[test]
fn datagrams_of_reno_are_one_chain_too() {
    assert_eq!(datagram("reno", 9216, 112), "[s100 s12]");
    assert_eq!(datagram("reno", 9216, 113), "[s100 s13]");
    assert_eq!(datagram("reno", 9216, 9217), "Done(Err(MessageSize))");
}

#[test]
fn tahoe_waits_to_stay_aligned_and_only_then() {
    // 4000 bytes queued leave 96: less than a cluster, as is the rest of the write.
    let after_4000 = |personality: Personality, len: usize| {
        let mut scene = Scene::new(personality, Protocol::Tcp, 4096);
        scene.run(&mut SendCall::write(scene.socket, 4000), &pattern(4000));
        scene.text.clear();
        let mut call = SendCall::write(scene.socket, len);
        while scene.run(&mut call, &pattern(len)) != Step::Done(Ok(len as u32)) {
            scene.acknowledge(usize::MAX);
        }
        scene.text.trim_start().to_owned()
    };
    assert_eq!(after_4000(named("sunos-4.1"), 852), "[s96] zzz [C756]");
    assert_eq!(after_4000(named("sunos-4.1"), 1023), "[s96] zzz [C927]");
    assert_eq!(after_4000(named("sunos-4.1"), 1024), "zzz [C1024]");
    assert_eq!(after_4000(named("sunos-4.1"), 96), "[s96]");
    assert_eq!(after_4000(named("reno"), 852), "zzz [C852]");
    // The repaired rule on the older system.
    let mut repaired = named("sunos-4.1");
    repaired.socket.wait = SendWait::LowWater;
    repaired.socket.buffers.send_lowat = 1024;
    assert_eq!(after_4000(repaired.clone(), 852), "zzz [C852]");
    repaired.socket.buffers.send_lowat = 0;
    assert_eq!(after_4000(repaired, 852), "[s96] zzz [C756]");
}

/// The aligned `sosend` of August 1984 on the system as measured: a switch for after the study.
#[test]
fn alignment_alone_saves_the_small_mbufs_of_1025_byte_writes() {
    let mut changed = named("4.2bsd-cabrera");
    changed.socket.wait = SendWait::Aligned;
    let mut scene = Scene::new(changed, Protocol::Tcp, 2048);
    let user = pattern(1025);
    scene.run(&mut SendCall::write(scene.socket, 1025), &user);
    let mut call = SendCall::write(scene.socket, 1025);
    assert_eq!(scene.run(&mut call, &user), Step::Sleep(Channel::Writable(scene.socket)));
    scene.acknowledge(1025);
    assert_eq!(scene.run(&mut call, &user), Step::Done(Ok(1025)));
    assert_eq!(scene.text, " [C1024 s1] zzz [C1024 s1]");
    assert_eq!(scene.uiomoves(), 4);
}

#[test]
fn one_byte_writes_pack_into_full_mbufs() {
    let mut scene = Scene::new(named("4.2bsd-cabrera"), Protocol::Tcp, 2048);
    for _ in 0..113 {
        scene.run(&mut SendCall::write(scene.socket, 1), &[7]);
    }
    let snd = &scene.stack.sockets[scene.socket].snd;
    assert_eq!((snd.cc(), snd.chain().mbufs(), snd.mbcnt()), (113, 2, 256));
    assert_eq!(scene.meter.calls(Routine::MFree), 111, "all but the first of each mbuf");
}

#[test]
fn a_second_writer_waits_for_the_first_to_be_done() {
    let mut scene = Scene::new(named("tahoe"), Protocol::Tcp, 4096);
    let (mut first, mut second) =
        (SendCall::write(scene.socket, 10), SendCall::write(scene.socket, 10));
    let user = pattern(10);
    let mut step = |call: &mut SendCall| call.step(&mut scene.stack, &user, &mut scene.meter);
    let lock = Channel::SendLock(scene.socket);
    assert_eq!([step(&mut first), step(&mut first)], [Step::Continue; 2]);
    assert_eq!([step(&mut second), step(&mut second)], [Step::Continue, Step::Sleep(lock)]);
    assert_eq!(scene.run(&mut first, &user), Step::Done(Ok(10)));
    let woken = |effect: &(u64, crate::effect::Effect)| matches!(effect.1, crate::effect::Effect::Wakeup(channel) if channel == lock);
    assert!(scene.meter.effects().iter().any(woken));
    assert_eq!(scene.run(&mut second, &user), Step::Done(Ok(10)));
}

#[test]
fn a_write_that_cannot_be_says_why() {
    let outcome = |arrange: fn(&mut Socket)| {
        let mut scene = Scene::new(named("tahoe"), Protocol::Tcp, 4096);
        arrange(&mut scene.stack.sockets[scene.socket]);
        scene.run(&mut SendCall::write(scene.socket, 5000), &pattern(5000))
    };
    let failed = |error| Step::Done(Err(error));
    assert_eq!(outcome(|socket| socket.state.cannot_send_more = true), failed(SocketError::Pipe));
    assert_eq!(
        outcome(|socket| socket.state.is_connected = false),
        failed(SocketError::NotConnected)
    );
    let reset = |socket: &mut Socket| socket.error = Some(SocketError::ConnectionReset);
    assert_eq!(outcome(reset), failed(SocketError::ConnectionReset));
    assert_eq!(outcome(|socket| socket.state.is_nonblocking = true), Step::Done(Ok(4096)));
}

proptest! {
    #[test]
    fn any_writes_arrive_whole_and_in_order_in_every_personality(
        which in 0usize..7,
        hiwat in 512u32..9000,
        writes in prop::collection::vec(1usize..6000, 1..8),
        acknowledged in 1usize..5000,
    ) {
        let mut scene = Scene::new(Personality::ALL[which].clone(), Protocol::Tcp, hiwat);
        let mut expected = Vec::new();
        for len in writes {
            let user = pattern(len);
            expected.extend(&user);
            let mut call = SendCall::write(scene.socket, len);
            for _ in 0..20_000 {
                match scene.run(&mut call, &user) {
                    Step::Done(result) => {
                        prop_assert_eq!(result, Ok(len as u32));
                        break;
                    }
                    _ => scene.acknowledge(acknowledged),
                }
            }
        }
        prop_assert_eq!(&scene.passed, &expected);
        scene.acknowledge(usize::MAX);
        let snd = &scene.stack.sockets[scene.socket].snd;
        prop_assert_eq!((snd.cc(), snd.mbcnt(), snd.is_locked), (0, 0, false));
        prop_assert_eq!(scene.stack.pool.in_use(), PoolUse::default());
    }
}
