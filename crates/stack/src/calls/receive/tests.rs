//! `soreceive` on a stream: the data of a read, mbuf by mbuf.

use sockscope_record::Protocol;

use super::*;
use crate::mbuf::PoolUse;
use crate::personality::Personality;
use crate::stack::StackConfig;
use crate::testing::pattern;

/// A connected socket on a host without a network; the test plays the protocol.
struct Scene {
    stack: Stack,
    meter: Meter,
    socket: SocketId,
}

impl Scene {
    fn new() -> Self {
        let personality = Personality::by_name("tahoe").unwrap();
        let mut stack = Stack::new(personality, StackConfig::default());
        let mut socket = Socket::new(Protocol::Tcp);
        socket.rcv.reserve(4096, &stack.personality.socket.buffers);
        socket.state.is_connected = true;
        socket.log = Some(FlowId(3));
        let socket = stack.sockets.insert(socket);
        Self { stack, meter: Meter::default(), socket }
    }

    /// A segment arrives: its bytes in as many small mbufs as they need.
    fn arrive(&mut self, bytes: &[u8]) {
        let Stack { sockets, pool, personality, .. } = &mut self.stack;
        let chain = pool.chain_of(bytes, &mut self.meter).unwrap();
        let rules = &personality.socket.buffers;
        sockets[self.socket].rcv.append(chain, rules, pool, &mut self.meter);
    }

    fn step(&mut self, call: &mut ReceiveCall, user: &mut [u8]) -> Step {
        call.step(&mut self.stack, user, &mut self.meter)
    }

    /// Steps until the call sleeps or is done.
    fn run(&mut self, call: &mut ReceiveCall, user: &mut [u8]) -> Step {
        loop {
            match self.step(call, user) {
                Step::Continue => {}
                step => return step,
            }
        }
    }

    fn read(&mut self, len: usize) -> (Step, Vec<u8>) {
        let mut user = vec![0; len];
        let step = self.run(&mut ReceiveCall::read(self.socket, len), &mut user);
        if let Step::Done(Ok(given)) = step {
            user.truncate(given as usize);
        }
        (step, user)
    }

    fn state(&mut self) -> &mut crate::socket::SocketState {
        &mut self.stack.sockets[self.socket].state
    }
}

#[test]
fn a_read_takes_what_there_is_and_does_not_wait_for_more() {
    let mut scene = Scene::new();
    let data = pattern(300);
    scene.arrive(&data);
    let before = scene.meter.calls(Routine::Uiomove);
    assert_eq!(scene.read(1000), (Step::Done(Ok(300)), data));
    assert_eq!(scene.meter.calls(Routine::Uiomove) - before, 3, "112, 112 and 76 bytes");
    assert_eq!(scene.stack.pool.in_use(), PoolUse::default());
}

#[test]
fn small_reads_trim_the_mbuf_that_they_leave() {
    let mut scene = Scene::new();
    let data = pattern(250);
    scene.arrive(&data);
    let mut got = Vec::new();
    for len in [100, 100, 100] {
        got.push(scene.read(len).1);
    }
    assert_eq!(got.concat(), data);
    assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 50]);
    // 100; 12 and 88; 24 and 26.
    assert_eq!(scene.meter.calls(Routine::Uiomove), 5);
}

#[test]
fn data_that_arrives_during_a_copy_is_taken_too() {
    let mut scene = Scene::new();
    let data = pattern(224);
    scene.arrive(&data[..112]);
    let mut user = vec![0; 224];
    let mut call = ReceiveCall::read(scene.socket, 224);
    for (place, has_copied) in [("at the socket", false), ("has copied all there is", true)] {
        assert_eq!(scene.step(&mut call, &mut user), Step::Continue, "{place}");
        assert_eq!(call.has_copied(), has_copied, "{place}");
    }
    scene.arrive(&data[112..]);
    assert_eq!(scene.run(&mut call, &mut user), Step::Done(Ok(224)));
    assert_eq!(user, data);
}

#[test]
fn an_empty_buffer_is_waited_for_unless_nothing_can_come() {
    let mut scene = Scene::new();
    let sleeps = Step::Sleep(Channel::Readable(scene.socket));
    assert_eq!(scene.read(10).0, sleeps);
    assert!(scene.stack.sockets[scene.socket].rcv.is_waited_for);
    scene.state().cannot_receive_more = true;
    assert_eq!(scene.read(10), (Step::Done(Ok(0)), vec![]), "end of the stream");
    scene.arrive(&[5]);
    assert_eq!(scene.read(10), (Step::Done(Ok(1)), vec![5]), "what came before is read first");
    scene.stack.sockets[scene.socket].error = Some(SocketError::ConnectionReset);
    assert_eq!(scene.read(10).0, Step::Done(Err(SocketError::ConnectionReset)));
    assert_eq!(scene.read(10).0, Step::Done(Ok(0)), "an error is told once");
}

#[test]
fn a_second_reader_waits_for_the_first_to_be_done() {
    let mut scene = Scene::new();
    scene.arrive(&[1, 2]);
    let (mut first, mut second) =
        (ReceiveCall::read(scene.socket, 1), ReceiveCall::read(scene.socket, 1));
    let mut user = [0];
    for call in [&mut first, &mut second] {
        assert_eq!(scene.step(call, &mut user), Step::Continue, "on the way to the socket");
    }
    assert_eq!(scene.step(&mut first, &mut user), Step::Continue, "copies");
    let lock = Channel::ReceiveLock(scene.socket);
    assert_eq!(scene.step(&mut second, &mut user), Step::Sleep(lock));
    assert_eq!((scene.run(&mut first, &mut user), user), (Step::Done(Ok(1)), [1]));
    assert_eq!((scene.run(&mut second, &mut user), user), (Step::Done(Ok(1)), [2]));
}

#[test]
fn each_copy_of_a_logged_stream_is_a_record_at_its_position() {
    let mut scene = Scene::new();
    scene.arrive(&pattern(150));
    scene.read(120);
    scene.read(120);
    let records = scene.meter.effects().iter().filter_map(|(_, effect)| match effect {
        Effect::Observed(record) => Some((record.kind, record.flow.0, record.offset, record.len)),
        _ => None,
    });
    assert_eq!(
        records.collect::<Vec<_>>(),
        [
            (Kind::ReceiveDequeue, 2, 0, 112),
            (Kind::ReceiveDequeue, 2, 112, 8),
            (Kind::ReadReturn, 2, 0, 120),
            (Kind::ReceiveDequeue, 2, 120, 30),
            (Kind::ReadReturn, 2, 120, 30),
        ]
    );
}
