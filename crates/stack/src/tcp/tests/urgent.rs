//! Urgent data: the pointer, the octet kept apart or in the stream, the mark.

use proptest::prelude::*;

use super::opened;
use crate::calls::{SendCall, Step};
use crate::personality::Personality;
use crate::socket::{SetOption, SocketId};
use crate::tcp::testing::byte_at;
use crate::testing::{Pair, pattern};

#[test]
fn the_pointer_names_the_octet_behind_or_the_last_one() {
    for (name, window, pointer) in [
        ("4.2bsd", 2048, 3),
        ("4.3bsd", 4096, 3),
        ("sunos-4.1", 4096, 3),
        ("reno+urgent_at_octet", 4096, 2),
    ] {
        opened(name).check(&format!(
            "urge 3 = 3
             > PU 1:4(3) ack 1 win {window} urg {pointer}"
        ));
    }
}

#[test]
fn urgent_data_leave_at_once_with_all_that_waits_before_them() {
    opened("tahoe").check(
        "write 100 = 100
         > P 1:101(100) ack 1 win 4096
         write 100 = 100                                 # Nagle's rule holds them
         urge 1 = 1
         > PU 101:202(101) ack 1 win 4096 urg 101
         < . ack 202 win 4096",
    );
}

/// RFC 793 §3.9: the receiver learns of urgent data that its window has no room for.
#[test]
fn a_closed_window_lets_the_news_through() {
    opened("tahoe").check(
        "write 10 = 10
         > P 1:11(10) ack 1 win 4096
         < . ack 11 win 0
         write 3 = 3
         urge 2 = 2
         > U 11:12(1) ack 1 win 4096 urg 5               # the probe of the window has the pointer
         < . ack 11 win 0
         write 3 = 3
         > U ack 1 win 4096 urg 5                        # each call of output announces it, without data
         < . ack 11 win 4096
         > PU 11:19(8) ack 1 win 4096 urg 5",
    );
}

/// A writer that found no space sleeps; urgent data have some of their own, up to a limit.
#[test]
fn a_full_buffer_takes_urgent_data() {
    for name in ["4.3bsd", "tahoe"] {
        let mut script = opened(name);
        script.begin("write 10");
        script.begin("< . ack 11 win 0");
        script.begin("write 4096");
        let mut urge = |line: &str| script.after(line).lines().next().unwrap().to_owned();
        assert_eq!(urge("urge 400 ="), "urge 400 = 400", "{name}");
        assert_eq!(urge("urge 400 ="), "urge 400 = 400", "{name}");
        assert_eq!(urge("urge 1 ="), "urge 1 = NoBuffers", "{name}: 800 beyond the limit");
    }
}

#[test]
fn the_octet_is_kept_apart_and_a_read_stops_at_the_mark() {
    for name in ["4.2bsd", "4.3bsd", "tahoe", "reno", "sunos-4.1"] {
        let mut script = opened(name);
        script.begin("< . 1:11(10) ack 1 win 4096");
        script.begin("< PU 11:21(10) ack 1 win 4096 urg 5");
        let mut answers = |line: &str| script.after(line).lines().next().unwrap().to_owned();
        assert_eq!(answers("mark ="), "mark = no", "{name}");
        assert_eq!(answers("read 100 ="), "read 100 = 14", "{name}");
        assert_eq!(answers("mark ="), "mark = yes", "{name}");
        assert_eq!(answers("urgent ="), format!("urgent = {}", byte_at(14)), "{name}");
        assert_eq!(answers("urgent ="), "urgent = Invalid", "{name}: it was read");
        assert_eq!(answers("read 100 ="), "read 100 = 5", "{name}");
        assert_eq!(answers("mark ="), "mark = no", "{name}");
        assert_eq!(answers("read 100 ="), "read 100 = sleep", "{name}");
    }
}

#[test]
fn with_so_oobinline_the_octet_is_the_first_behind_the_mark() {
    opened("4.3bsd").check(
        "inline
         < . 1:11(10) ack 1 win 4096
         < PU 11:21(10) ack 1 win 4096 urg 5
         urgent = Invalid
         read 100 = 14
         mark = yes
         read 100 = 6
         mark = no",
    );
    assert_eq!(opened("4.2bsd").after("inline ="), "inline = NotSupported");
}

#[test]
fn urgent_data_are_announced_before_they_arrive() {
    opened("4.3bsd").check(
        "urgent = Invalid                                # no word of any
         < U 1:11(10) ack 1 win 4096 urg 15
         urgent = WouldBlock
         read 4 = 4
         < U 11:21(10) ack 1 win 4096 urg 5
         read 100 = 10
         mark = yes
         urgent = 178
         read 100 = 5",
    );
}

/// The process group gets a signal for each, and a program may wait for it.
#[test]
fn each_new_end_of_urgent_data_is_announced_once() {
    opened("tahoe").check(
        "< U 1:11(10) ack 1 win 4096 urg 15
         announced = 1
         < U 11:21(10) ack 1 win 4096 urg 5
         announced = 1
         < PU 21:31(10) ack 1 win 4096 urg 1
         announced = 2",
    );
}

/// RFC 1122 §4.2.2.4 reads the same pointer as one octet more.
#[test]
fn ends_that_read_the_pointer_differently_take_neighbours() {
    for (name, octet) in [("tahoe", 4), ("tahoe+urgent_at_octet", 5)] {
        let mut script = opened(name);
        script.begin("< PU 1:11(10) ack 1 win 4096 urg 5");
        assert_eq!(script.after("urgent ="), format!("urgent = {}", byte_at(octet)), "{name}");
    }
}

/// The sources pull the end of urgent data along as soon as a segment leaves behind them.
#[test]
fn a_lost_urgent_segment_is_sent_again_without_its_pointer_if_others_followed() {
    opened("tahoe").check(
        "urge 1 = 1
         > PU 1:2(1) ack 1 win 4096 urg 1
         write 5 = 5                                     # Nagle's rule does not hold them: urgent data are out
         > P 2:7(5) ack 1 win 4096
         tick 3
         > P 1:7(6) ack 1 win 4096",
    );
    opened("tahoe").check(
        "urge 1 = 1
         > PU 1:2(1) ack 1 win 4096 urg 1
         tick 3
         > PU 1:2(1) ack 1 win 4096 urg 1",
    );
}

#[test]
fn a_pointer_beyond_everything_is_ignored() {
    opened("tahoe").check(
        "< . 1:11(10) ack 1 win 4096
         < PU 11:21(10) ack 1 win 4096 urg 65535
         urgent = Invalid
         read 100 = 20
         mark = no",
    );
}

/// A closed window is opened by one acknowledgment. In 4.2BSD, a sender whose data are under way asks for it by the
/// timer of retransmission: by urgent data without an octet, or not at all. No such segment is answered, and the
/// connection ends after ten timeouts. Later systems answer.
#[test]
fn in_4_2bsd_a_lost_window_ends_a_connection() {
    let is_whole = |name: &str, full: usize| {
        let mut transfer = Transfer::new(name, &[], false);
        [Act::Write(full), Act::Time, Act::Urge(1)].iter().for_each(|act| transfer.act(act));
        // The next segment is the answer to the read that empties the buffer.
        transfer.pair.lost.push(transfer.pair.sent.len());
        transfer.end()
    };
    assert!(!is_whole("4.2bsd", 2048));
    assert!(is_whole("4.3bsd", 4096));
}

#[derive(Debug, Clone)]
enum Act {
    Write(usize),
    Urge(usize),
    Read(usize),
    ReadUrgent,
    Time,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1usize..1500).prop_map(Act::Write),
        3 => (1usize..40).prop_map(Act::Urge),
        4 => (1usize..2000).prop_map(Act::Read),
        2 => Just(Act::ReadUrgent),
        2 => Just(Act::Time),
    ]
}

/// A connection, everything that its first host has written, and what the second has read.
struct Transfer {
    pair: Pair,
    sender: SocketId,
    receiver: SocketId,
    bytes: Vec<u8>,
    written: usize,
    /// Positions of urgent octets.
    urgent: Vec<usize>,
    /// Positions that no read of the stream has had.
    skipped: Vec<usize>,
    position: usize,
    octets: Vec<u8>,
    is_inline: bool,
}

impl Transfer {
    fn new(name: &str, lost: &[usize], is_inline: bool) -> Self {
        let mut pair = Pair::ethernet10(&Personality::by_name(name).unwrap());
        let (sender, receiver) = pair.connection(1, 9);
        if is_inline {
            let option = SetOption::OutOfBandInline(true);
            pair.step(1, |stack, meter| stack.set_option(receiver, option, meter)).unwrap();
        }
        let sent = pair.sent.len();
        pair.lost = lost.iter().map(|number| sent + number).collect();
        let bytes = pattern(200_000);
        Self {
            pair,
            sender,
            receiver,
            bytes,
            written: 0,
            urgent: Vec::new(),
            skipped: Vec::new(),
            position: 0,
            octets: Vec::new(),
            is_inline,
        }
    }

    fn send(&mut self, mut call: SendCall, len: usize, is_urgent: bool) {
        // A call that would wait takes as much as fits.
        let option = SetOption::NonBlocking(true);
        let sender = self.sender;
        self.pair.step(0, |stack, meter| stack.set_option(sender, option, meter)).unwrap();
        let user = self.bytes[self.written..self.written + len].to_vec();
        match self.pair.run_send(0, &mut call, &user) {
            Step::Done(Ok(taken)) => {
                self.written += taken as usize;
                if is_urgent && taken > 0 {
                    self.urgent.push(self.written - 1);
                }
            }
            step => assert!(matches!(step, Step::Done(Err(_))), "{step:?}"),
        }
    }

    fn read(&mut self, len: usize) -> usize {
        let option = SetOption::NonBlocking(true);
        let receiver = self.receiver;
        self.pair.step(1, |stack, meter| stack.set_option(receiver, option, meter)).unwrap();
        let apart = self.pair.hosts[1].stack.sockets[receiver].urgent.apart();
        let mut user = vec![0; len];
        let mut call = crate::calls::ReceiveCall::read(receiver, len);
        let Step::Done(Ok(given)) = self.pair.run_receive(1, &mut call, &mut user) else {
            return 0;
        };
        let stack = &self.pair.hosts[1].stack;
        let end = stack.sockets[receiver].rcv.left() as usize;
        let from = self.position;
        let (skipped, had): (Vec<_>, Vec<_>) =
            (from..end).partition(|position| apart.contains(&(*position as u64)));
        let had: Vec<u8> = had.into_iter().map(|position| self.bytes[position]).collect();
        assert_eq!(user[..given as usize], had, "octets from {from} on");
        self.skipped.extend(skipped);
        self.position = end;
        let is_at_mark = stack.is_at_mark(receiver).unwrap();
        // A reader that has had the octet stands behind it.
        let is_urgent = self.urgent.contains(&end)
            || !self.is_inline && end > 0 && self.urgent.contains(&(end - 1));
        assert!(!is_at_mark || is_urgent, "a mark at {end}: {:?}", self.urgent);
        given as usize
    }

    fn read_urgent(&mut self) {
        let receiver = self.receiver;
        let octet = self.pair.step(1, |stack, meter| stack.receive_urgent(receiver, meter));
        self.octets.extend(octet.ok());
        let left = self.pair.hosts[1].stack.sockets[receiver].rcv.left() as usize;
        self.skipped.extend(self.position..left);
        self.position = left;
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Write(len) => self.send(SendCall::write(self.sender, len), len, false),
            Act::Urge(len) => self.send(SendCall::urgent(self.sender, len), len, true),
            Act::Read(len) => drop(self.read(len)),
            Act::ReadUrgent => self.read_urgent(),
            Act::Time => {
                self.pair.fasttimo();
                self.pair.slowtimo();
            }
        }
    }

    /// Until everything is read.
    fn finish(&mut self) {
        assert!(self.end(), "all has been read");
    }

    /// The sender closes, and the receiver reads. Whether it has everything.
    fn end(&mut self) -> bool {
        let sender = self.sender;
        self.pair.step(0, |stack, meter| stack.close(sender, meter)).unwrap();
        for _ in 0..3_000 {
            while self.read(700) > 0 {}
            self.read_urgent();
            let left = self.pair.hosts[1].stack.sockets[self.receiver].rcv.left() as usize;
            if left == self.written {
                return true;
            }
            self.act(&Act::Time);
        }
        false
    }

    fn check(&self) {
        assert!(
            self.skipped.iter().all(|position| self.urgent.contains(position)),
            "{:?} were not read, {:?} are urgent",
            self.skipped,
            self.urgent
        );
        assert!(self.octets.len() <= self.skipped.len(), "an octet was had twice");
        if self.is_inline {
            assert_eq!((&self.skipped[..], &self.octets[..]), (&[][..], &[][..]));
        }
    }
}

fn personality() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "4.2bsd",
        "4.3bsd",
        "tahoe",
        "reno",
        "sunos-4.1",
        "reno+sack",
        "tahoe+urgent_at_octet",
    ])
}

proptest! {
    /// Every octet is had once and in order, in the stream or as the urgent octet, and the mark is before an urgent
    /// octet, whatever is lost.
    ///
    /// Not in 4.2BSD: there [a lost window ends a connection](in_4_2bsd_a_lost_window_ends_a_connection). Its receiver
    /// may also take more than it had offered. It then answers each announcement of urgent data, the sender announces
    /// them again after each answer, and this ends when the program reads.
    #[test]
    fn no_octet_is_lost_or_had_twice(
        name in personality().prop_filter("see above", |name| *name != "4.2bsd"),
        is_inline: bool,
        acts in prop::collection::vec(act(), 1..60),
        lost in prop::collection::vec(0..80usize, 0..8),
    ) {
        let mut transfer = Transfer::new(name, &lost, is_inline);
        acts.iter().for_each(|act| transfer.act(act));
        transfer.finish();
        transfer.check();
    }

    /// A reader that looks after each write has each urgent octet.
    #[test]
    fn an_attentive_reader_has_each_urgent_octet(
        name in personality(),
        acts in prop::collection::vec(prop_oneof![
            (1usize..900).prop_map(Act::Write), (1usize..40).prop_map(Act::Urge)
        ], 1..40),
    ) {
        let mut transfer = Transfer::new(name, &[], false);
        for act in &acts {
            transfer.act(act);
            transfer.read_urgent();
            while transfer.read(5000) > 0 {}
            transfer.act(&Act::Time);
        }
        transfer.finish();
        transfer.check();
        let octets: Vec<u8> = transfer.urgent.iter().map(|at| transfer.bytes[*at]).collect();
        prop_assert_eq!(&transfer.octets, &octets);
        prop_assert_eq!(&transfer.skipped, &transfer.urgent);
    }
}
