//! Connections that failed: refused, dropped in the handshake, reset, or stopped by a closed window.

use sockscope_record::{Direction, Kind, Point, Record, Side, tcp_flags, tcp_states};

use crate::drops::{self, Cause};
use crate::record_loss_times::Losses;
use crate::{ConnectionStore, DropReasons, FlowStore, LossInterval, Passage, Unopened};

/// Reason why there was no connection; `None` if there was one, if the reason is unknown, or if
/// records missed since its first SYN may prove the opposite.
pub(crate) fn unopened(
    store: &ConnectionStore,
    losses: &Losses,
    reasons: &DropReasons,
) -> Option<Unopened> {
    let [asked, answered] = &store.flows;
    let asked_ns = packets(asked).filter(|pass| is_syn(pass.tcp_flags)).map(|pass| pass.at_ns);
    let asked_ns = asked_ns.min()?;
    let mut hiding = losses.intervals.iter().filter(|loss| may_hide_opening(loss));
    let is_touched = hiding.any(|loss| loss.end_ns >= asked_ns);
    if is_touched || packets(answered).any(|pass| !is_reset(pass)) || opened(asked, asked_ns) {
        return None;
    }
    if packets(answered).any(|pass| pass.at_ns >= asked_ns) {
        return Some(Unopened::Refused);
    }
    let came = asked.at(Point::InputDequeue).iter().find(|pass| is_syn(pass.tcp_flags))?;
    let drops = asked.events.iter().filter(|event| event.kind == Kind::Drop);
    let mut drops = drops.filter(|drop| is_syn(drop.tcp_flags) && drop.at_ns >= came.at_ns);
    let drop = drops.next()?;
    // A segment that no socket takes is answered by a reset, which may have no record.
    Some(match drops::named(drop, reasons) {
        Some(Cause::NoSocket) => Unopened::Refused,
        _ => Unopened::Dropped(drops::reason(reasons, drop)),
    })
}

/// A client that asked for a connection without success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// Its first SYN.
    pub asked_ns: u64,
    /// When a reset answered, or its SYN was dropped because no socket took it; `None` when neither was seen.
    pub refused_ns: Option<u64>,
}

/// The attempt of a connection that did not open; `None` where it did, or where missed records may hide that.
pub(crate) fn attempt(
    store: &ConnectionStore,
    losses: &Losses,
    reasons: &DropReasons,
) -> Option<Attempt> {
    let [asked, answered] = &store.flows;
    let syns = packets(asked).filter(|pass| is_syn(pass.tcp_flags)).map(|pass| pass.at_ns);
    let asked_ns = syns.min()?;
    let mut hiding = losses.intervals.iter().filter(|loss| may_hide_opening(loss));
    let is_answered = packets(answered).any(|pass| !is_reset(pass));
    if is_answered || opened(asked, asked_ns) || hiding.any(|loss| loss.end_ns >= asked_ns) {
        return None;
    }
    let resets = packets(answered).map(|pass| pass.at_ns).filter(|at_ns| *at_ns >= asked_ns);
    let is_refused = unopened(store, losses, reasons) == Some(Unopened::Refused);
    let drops = asked.events.iter().filter(|event| is_refused && event.kind == Kind::Drop);
    Some(Attempt { asked_ns, refused_ns: resets.chain(drops.map(|drop| drop.at_ns)).min() })
}

/// Whether one of the records may have been of a packet outside of the sockets, or of no point.
fn may_hide_opening(loss: &LossInterval) -> bool {
    loss.point.is_none_or(|point| (2..6).contains(&point.index()))
}

/// Whether the asking socket's connection opened from `asked_ns` on. One that connects to itself has no answer
/// in the other direction: all its packets go from its address to its address.
fn opened(asked: &FlowStore, asked_ns: u64) -> bool {
    let later = asked.events.iter().filter(|event| event.at_ns >= asked_ns);
    later.filter_map(Record::state_change).any(|change| change.new == tcp_states::ESTABLISHED)
}

/// Side that cut the connection off by a reset (RFC 9293 §3.5.2), with the time. A reset after which
/// its sender goes on does not count: it was outside of the window, or forged (RFC 5961 §3.2).
pub(crate) fn reset(store: &ConnectionStore) -> Option<(Side, u64)> {
    let resets =
        [Direction::FromClient, Direction::FromServer].into_iter().filter_map(|direction| {
            let last_word = last_word(store.flow(direction), store.reverse(direction))?;
            Some((last_word, direction.sender()))
        });
    resets.min_by_key(|(at_ns, _)| *at_ns).map(|(at_ns, side)| (side, at_ns))
}

/// The sides whose last segments offer a receive window of 0, with the time since then, of a
/// connection that was still open when the trace ended: the other end cannot send before they read.
pub(crate) fn shut_windows(store: &ConnectionStore) -> Vec<(Side, u64)> {
    let is_over = store.connection.closed_ns.is_some() || store.left_out_ns().is_some();
    if is_over || reset(store).is_some() {
        return Vec::new();
    }
    let directions = [Direction::FromClient, Direction::FromServer].into_iter();
    let shut = directions
        .filter_map(|direction| Some((direction.sender(), shut_since_ns(store.flow(direction))?)));
    shut.collect()
}

/// Time since which the segments of `flow` offer no window; those of SYN and RST do not count.
fn shut_since_ns(flow: &FlowStore) -> Option<u64> {
    let no_offer = tcp_flags::SYN | tcp_flags::RST;
    let is_offer =
        |pass: &&Passage| pass.tcp_flags & tcp_flags::ACK != 0 && pass.tcp_flags & no_offer == 0;
    let seen = flow.passages[2..6].iter().find(|passes| !passes.is_empty())?;
    let offers = seen.iter().rev().filter(is_offer);
    offers.take_while(|pass| pass.window_bytes() == 0).last().map(|pass| pass.at_ns)
}

/// Time of the first reset after which the sender of `flow` sent and took nothing else. Data of
/// `reverse` that is in transit to it then still passes the points before its receive queue.
fn last_word(flow: &FlowStore, reverse: &FlowStore) -> Option<u64> {
    let at_the_socket = [
        flow.at(Point::SendEnqueue),
        flow.at(Point::SendDequeue),
        reverse.at(Point::ReceiveEnqueue),
    ];
    let alive_ns =
        at_the_socket.into_iter().filter_map(<[Passage]>::last).map(|pass| pass.at_ns).max();
    let by_point = flow.passages[2..6].iter().filter_map(|passes| {
        let after = passes.iter().rposition(|pass| !is_reset(pass)).map_or(0, |index| index + 1);
        let last_ones = passes[after..].iter().map(|pass| pass.at_ns);
        last_ones.filter(|at_ns| alive_ns.is_none_or(|alive_ns| *at_ns >= alive_ns)).min()
    });
    by_point.min()
}

/// Passages of a flow outside of its sockets.
fn packets(flow: &FlowStore) -> impl Iterator<Item = &Passage> {
    flow.passages[2..6].iter().flatten()
}

fn is_syn(flags: u8) -> bool {
    flags & tcp_flags::SYN != 0
}

fn is_reset(pass: &Passage) -> bool {
    pass.tcp_flags & tcp_flags::RST != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn outcome(text: &str) -> Option<Unopened> {
        testing::analyze(text).unopened
    }

    const DROPPED: &str = "1us 3-6 syn | 2us drop syn detail=77";

    #[test]
    fn a_syn_that_a_reset_answers_was_refused() {
        let refused = "1us 3-6 syn | 2us drop syn | 3us <3-6 rst";
        assert_eq!(outcome(refused), Some(Unopened::Refused));
        assert_eq!(
            outcome("1us 3-4 syn | 90us <5-6 rst"),
            Some(Unopened::Refused),
            "by another host"
        );
        assert_eq!(outcome("1us 3-6 syn | 9s 3-6 rst"), None, "its own sender gave up");
    }

    #[test]
    fn a_syn_that_came_and_was_dropped_without_an_answer_was_dropped() {
        assert_eq!(outcome(DROPPED), Some(Unopened::Dropped("reason 77".into())));
        assert_eq!(outcome("1us 3-4 syn | 2us drop syn detail=77"), None, "it never came");
        assert_eq!(outcome(&format!("{DROPPED} | 9us 3-6 syn | 10us <3-6 syn ack=0")), None);
        assert_eq!(outcome("1us 3-6 syn"), None);
    }

    #[test]
    fn a_socket_that_connected_to_itself_was_not_turned_away() {
        assert_eq!(outcome(&format!("{DROPPED} | 3us state-change code=1")), None);
        assert!(outcome(&format!("{DROPPED} | 3us state-change code=7")).is_some(), "it gave up");
    }

    #[test]
    fn one_that_found_no_socket_was_refused_by_an_unseen_reset() {
        let store = testing::store(DROPPED);
        let outcome =
            |name: &str| unopened(&store, &Losses::default(), &[(77, name.into())].into());
        assert_eq!(outcome("NO_SOCKET"), Some(Unopened::Refused));
        assert_eq!(
            outcome("NETFILTER_DROP"),
            Some(Unopened::Dropped("reason NETFILTER_DROP".into()))
        );
    }

    #[test]
    fn where_records_were_missed_an_answer_may_have_been_one_of_them() {
        assert_eq!(outcome(&format!("{DROPPED} | 20us loss code=6 from=1us")), None);
        let refused = "1us 3-6 syn | 3us <3-6 rst | 4us loss code=3 from=2us";
        assert_eq!(outcome(refused), None);
        assert_eq!(
            outcome(&format!("{DROPPED} | 20us loss code=31 from=1us")),
            None,
            "or its opening"
        );
        for point in [1, 2, 7, 8] {
            let data = format!("{DROPPED} | 20us loss code={point} from=1us");
            assert!(outcome(&data).is_some(), "no packet passes point {point}");
        }
        let before = format!("0us loss code=6 from=0us | {DROPPED}");
        assert!(outcome(&before).is_some(), "what was missed before it asked is not of it");
    }

    #[test]
    fn a_window_that_stays_shut_to_the_end_is_told_with_its_side() {
        let shut = |text: &str| testing::analyze(text).shut_windows;
        let text = "1us <3-6 ack=0 win=900 | 2us 1-7 +900 | 3us <3-6 ack=900 win=0 | 9us <3-6 ack=900 win=0";
        assert_eq!(shut(text), [(Side::Server, 3_000)]);
        assert!(shut(&format!("{text} | 10us <3-6 ack=900 win=500")).is_empty(), "it opened again");
        assert!(shut(&format!("{text} | 10us <3-6 rst")).is_empty(), "it ended");
        assert!(shut("1us 3-6 syn | 2us 3-6 rst | 2us <3-6 rst ack=0").is_empty());
        let both = format!("{text} | 10us 3-6 ack=0 win=0");
        assert_eq!(shut(&both), [(Side::Client, 10_000), (Side::Server, 3_000)]);
    }

    #[test]
    fn the_first_reset_and_its_sender_are_told() {
        let text = "10us 1-7 +100 | 20us <3-6 rst | 30us 3-6 rst";
        assert_eq!(testing::analyze(text).reset, Some((Side::Server, 20_000)));
        assert_eq!(testing::analyze("10us 1-8 +100 | 20us <3-6 fin").reset, None);
    }

    #[test]
    fn a_reset_after_which_its_sender_goes_on_did_not_end_anything() {
        let reset = |text: &str| testing::analyze(text).reset;
        let taken = "10us 1-8 +100 | 20us <3-6 rst | 30us 1-7 +100";
        assert_eq!(reset(taken), None, "it takes data");
        let remote = "10us 1-4 +100 | 20us <5-6 rst | 30us 1-4 +100 | 40us <5-6 ack=200";
        assert_eq!(reset(remote), None, "it acknowledges");
        let later = format!("{remote} | 50us <5-6 rst");
        assert_eq!(reset(&later), Some((Side::Server, 50_000)), "the second one did");
    }

    #[test]
    fn a_socket_connected_to_itself_that_takes_data_after_a_reset_was_not_cut_off() {
        let own = testing::connection(1);
        let own = sockscope_record::Connection { server: own.client, ..own };
        let reset = |text: &str| testing::analyze_of(own.clone(), text).reset;
        let text = "10us 1-7 +100 | 20us 3-6 rst";
        assert_eq!(reset(text), Some((Side::Client, 20_000)));
        assert_eq!(reset(&format!("{text} | 30us 7 +50")), None);
    }

    #[test]
    fn what_was_under_way_to_the_sender_of_a_reset_does_not_belie_it() {
        let text = "10us 1-4 +100 | 11us <3-6 rst | 12us 5-6 +100 | 13us <3-6 rst";
        assert_eq!(testing::analyze(text).reset, Some((Side::Server, 11_000)));
    }
}
