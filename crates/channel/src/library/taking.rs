//! One to one of many: exactly one member of a group takes each message.
//!
//! The sender's [`Distributor`] gives a message to the member with the least to do, and offers it
//! until the member's answer arrives. A [`Taker`] takes a message once, even if offers are repeated.
//! When a member is gone, another one takes over its messages without an answer. The first may
//! have begun such a message before it ended, so [`Taken::again`] marks it.
//!
//! A member must not be declared gone while it can still take: [`Error::PeerGone`] is certain, since
//! the kernel reports the end of a process. A timer is not certain.
//!
//! [`Error::PeerGone`]: crate::Error::PeerGone

use std::collections::{BTreeMap, BTreeSet};

use super::word_at;

/// Octets of the header of an offer: number (8), all messages before this number are taken (8), 1 when
/// another member may have begun it (8); little-endian. An answer is the number alone.
const HEADER_BYTES: usize = 24;

/// The sending end; `M` names one incarnation of a member.
#[derive(Debug)]
pub struct Distributor<M> {
    next: u64,
    waiting: BTreeMap<u64, Waiting<M>>,
    members: BTreeMap<M, Load>,
}

/// A message without an answer.
#[derive(Debug)]
struct Waiting<M> {
    message: Vec<u8>,
    member: Option<M>,
    is_offered: bool,
    again: bool,
}

/// The work of a member. The order of the fields is that of the choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    waiting: u64,
    given: u64,
}

impl<M: Copy + Ord> Distributor<M> {
    /// A sender without members; messages wait for the first.
    pub fn new() -> Self {
        Self { next: 0, waiting: BTreeMap::new(), members: BTreeMap::new() }
    }

    /// A member joins. One that ended and starts again joins under a new name.
    pub fn join(&mut self, member: M) {
        self.members.entry(member).or_default();
        self.assign();
    }

    /// A member is gone for ever; others take over its messages.
    pub fn gone(&mut self, member: M) {
        self.members.remove(&member);
        for waiting in self.waiting.values_mut().filter(|waiting| waiting.member == Some(member)) {
            // A message that was never offered cannot have been begun.
            waiting.again |= waiting.is_offered;
            waiting.member = None;
            waiting.is_offered = false;
        }
        self.assign();
    }

    /// Accepts a message for one member; returns its number.
    pub fn send(&mut self, message: &[u8]) -> u64 {
        let number = self.next;
        self.next += 1;
        let waiting =
            Waiting { message: message.to_vec(), member: None, is_offered: false, again: false };
        self.waiting.insert(number, waiting);
        self.assign();
        number
    }

    /// An answer of a member arrived. Answers of members without that message are ignored.
    pub fn answered(&mut self, member: M, answer: &[u8]) {
        let Ok(number) = answer.try_into().map(u64::from_le_bytes) else { return };
        let offered = |waiting: &Waiting<M>| waiting.member == Some(member) && waiting.is_offered;
        if !self.waiting.get(&number).is_some_and(offered) {
            return;
        }
        self.waiting.remove(&number);
        if let Some(load) = self.members.get_mut(&member) {
            load.waiting -= 1;
        }
    }

    /// Makes the offers that are due: all without an answer when `repeat` is set, which a caller does
    /// by its timer; else only the new ones.
    pub fn offer(&mut self, repeat: bool, packet: &mut dyn FnMut(M, &[u8])) {
        let all_before = self.all_before();
        for (number, waiting) in &mut self.waiting {
            let Some(member) = waiting.member.filter(|_| repeat || !waiting.is_offered) else {
                continue;
            };
            waiting.is_offered = true;
            let words = [*number, all_before, u64::from(waiting.again)].map(u64::to_le_bytes);
            packet(member, &[&words.concat()[..], &waiting.message].concat());
        }
    }

    /// All messages before this number are answered.
    pub fn all_before(&self) -> u64 {
        self.waiting.first_key_value().map_or(self.next, |(number, _)| *number)
    }

    /// Messages that no member has answered.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn assign(&mut self) {
        for waiting in self.waiting.values_mut().filter(|waiting| waiting.member.is_none()) {
            let least = self.members.iter_mut().min_by_key(|(member, load)| (**load, **member));
            let Some((member, load)) = least else { return };
            waiting.member = Some(*member);
            load.waiting += 1;
            load.given += 1;
        }
    }
}

impl<M: Copy + Ord> Default for Distributor<M> {
    fn default() -> Self {
        Self::new()
    }
}

/// A member's end, for one sender.
#[derive(Debug, Default)]
pub struct Taker {
    /// All before this number are taken by some member.
    all_before: u64,
    taken: BTreeSet<u64>,
}

/// A message that this member has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken<'a> {
    /// Its number at the sender.
    pub number: u64,
    /// Whether a member that is gone may have begun it.
    pub again: bool,
    /// The message.
    pub message: &'a [u8],
}

impl Taker {
    /// Takes an offer that arrived; `None` when it is a repetition or no offer. `answer` sends the
    /// answer, also for a repetition, because the first answer may be lost.
    pub fn arrive<'a>(
        &mut self,
        packet: &'a [u8],
        answer: &mut dyn FnMut(&[u8]),
    ) -> Option<Taken<'a>> {
        let (header, message) = packet.split_at_checked(HEADER_BYTES)?;
        let (number, all_before) = (word_at(header, 0), word_at(header, 8));
        if all_before > number {
            return None;
        }
        // An older offer may arrive after a newer one: the bound never falls.
        self.all_before = self.all_before.max(all_before);
        self.taken = self.taken.split_off(&self.all_before);
        answer(&number.to_le_bytes());
        let is_new = number >= self.all_before && self.taken.insert(number);
        is_new.then_some(Taken { number, again: word_at(header, 16) != 0, message })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offers(sender: &mut Distributor<u32>, repeat: bool) -> Vec<(u32, Vec<u8>)> {
        let mut offers = Vec::new();
        sender.offer(repeat, &mut |member, packet| offers.push((member, packet.to_vec())));
        offers
    }

    #[test]
    fn members_share_the_messages() {
        let mut sender = Distributor::new();
        sender.join(1);
        sender.join(2);
        for message in [b"a", b"b", b"c", b"d"] {
            sender.send(message);
        }
        let members: Vec<_> =
            offers(&mut sender, false).iter().map(|(member, _)| *member).collect();
        assert_eq!(members, [1, 2, 1, 2]);
        assert!(offers(&mut sender, false).is_empty());
        assert_eq!(offers(&mut sender, true).len(), 4);
    }

    #[test]
    fn another_takes_over_and_knows_it() {
        let mut sender = Distributor::new();
        sender.send(b"job");
        assert!(offers(&mut sender, false).is_empty(), "no member yet");
        sender.join(1);
        assert_eq!(offers(&mut sender, false)[0].0, 1);
        sender.join(2);
        sender.gone(1);
        sender.answered(1, &0_u64.to_le_bytes());
        assert_eq!(sender.waiting(), 1, "an answer of a member that is gone counts no more");
        let (member, packet) = offers(&mut sender, false).remove(0);
        let (mut taker, mut answers) = (Taker::default(), Vec::new());
        let taken = taker.arrive(&packet, &mut |answer| answers.push(answer.to_vec()));
        assert_eq!((member, taken), (2, Some(Taken { number: 0, again: true, message: b"job" })));
        assert_eq!(taker.arrive(&packet, &mut |answer| answers.push(answer.to_vec())), None);
        assert_eq!(answers.len(), 2, "a repetition is answered too");
        sender.answered(2, &answers[0]);
        assert_eq!(sender.waiting(), 0);
    }

    #[test]
    fn a_message_that_was_never_offered_is_not_marked() {
        let mut sender = Distributor::new();
        sender.join(1);
        sender.send(b"job");
        sender.gone(1);
        sender.join(2);
        let (_, packet) = offers(&mut sender, false).remove(0);
        assert!(!Taker::default().arrive(&packet, &mut |_| {}).unwrap().again);
    }

    #[test]
    fn a_late_repetition_is_not_taken_after_the_bound_has_risen() {
        let mut sender = Distributor::new();
        sender.join(1);
        sender.send(b"a");
        let (_, first) = offers(&mut sender, false).remove(0);
        let mut taker = Taker::default();
        taker.arrive(&first, &mut |answer| sender.answered(1, answer));
        sender.send(b"b");
        let (_, second) = offers(&mut sender, false).remove(0);
        assert!(taker.arrive(&second, &mut |_| {}).is_some());
        assert_eq!(taker.taken.len(), 1, "what all know is forgotten");
        assert_eq!(taker.arrive(&first, &mut |_| {}), None);
    }

    /// One step of a run with a network that loses, repeats and mixes packets.
    #[derive(Debug, Clone)]
    enum Step {
        Send,
        Offer(bool),
        Arrive(prop::sample::Index, bool),
        Lose(prop::sample::Index),
        End(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => Just(Step::Send),
            3 => any::<bool>().prop_map(Step::Offer),
            6 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, twice)| Step::Arrive(at, twice)),
            2 => any::<prop::sample::Index>().prop_map(Step::Lose),
            1 => (0_u32..4).prop_map(Step::End),
        ];
        prop::collection::vec(step, 0..150)
    }

    /// Sender, members and the packets between them. Member 3 never ends.
    struct World {
        sender: Distributor<u32>,
        takers: BTreeMap<u32, Taker>,
        /// Member, whether it is an answer, the packet.
        wire: Vec<(u32, bool, Vec<u8>)>,
        /// Who took each message, and whether it was marked.
        taken: BTreeMap<u64, Vec<(u32, bool)>>,
    }

    impl World {
        fn offer(&mut self, repeat: bool) {
            let offers = offers(&mut self.sender, repeat);
            self.wire.extend(offers.into_iter().map(|(member, packet)| (member, false, packet)));
        }

        fn arrive(&mut self, at: usize, twice: bool) {
            let (member, is_answer, packet) = self.wire[at].clone();
            if !twice {
                self.wire.swap_remove(at);
            }
            if is_answer {
                self.sender.answered(member, &packet);
                return;
            }
            let Some(taker) = self.takers.get_mut(&member) else { return };
            let wire = &mut self.wire;
            let mut answer = |answer: &[u8]| wire.push((member, true, answer.to_vec()));
            if let Some(taken) = taker.arrive(&packet, &mut answer) {
                assert_eq!(taken.message, taken.number.to_be_bytes());
                self.taken.entry(taken.number).or_default().push((member, taken.again));
            }
        }
    }

    proptest! {
        #[test]
        fn each_message_is_taken_by_one_member_under_loss_mixing_and_ends(steps in steps()) {
            let mut world = World {
                sender: Distributor::new(),
                takers: (0..4).map(|member| (member, Taker::default())).collect(),
                wire: Vec::new(),
                taken: BTreeMap::new(),
            };
            let (mut sent, mut ended) = (0_u64, BTreeSet::new());
            for member in 0..4 {
                world.sender.join(member);
            }
            for step in steps {
                match step {
                    Step::Send => {
                        world.sender.send(&sent.to_be_bytes());
                        sent += 1;
                    }
                    Step::Offer(repeat) => world.offer(repeat),
                    Step::Arrive(at, twice) if !world.wire.is_empty() => {
                        world.arrive(at.index(world.wire.len()), twice);
                    }
                    Step::Lose(at) if !world.wire.is_empty() => {
                        world.wire.swap_remove(at.index(world.wire.len()));
                    }
                    Step::End(member) if member < 3 => {
                        world.takers.remove(&member);
                        world.sender.gone(member);
                        ended.insert(member);
                    }
                    _ => {}
                }
            }
            // The network gets well: everything that was sent is taken after two rounds.
            for _ in 0..2 {
                world.offer(true);
                while !world.wire.is_empty() {
                    world.arrive(0, false);
                }
            }
            prop_assert_eq!(world.sender.waiting(), 0);
            prop_assert_eq!(world.taken.len() as u64, sent);
            for (number, takers) in &world.taken {
                let (last, before) = takers.split_last().unwrap();
                // More than one only where each earlier one ended, and the later ones know it.
                prop_assert!(before.iter().all(|(member, _)| ended.contains(member)), "{}: {:?}", number, takers);
                prop_assert!(before.is_empty() || last.1, "{}: {:?}", number, takers);
            }
        }
    }
}
