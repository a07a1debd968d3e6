//! `buffer-clipped`: a program asked for a larger socket buffer than it was granted.
//!
//! See [`BufferRequest::is_clipped`].

use sockscope_record::{Kind, Protocol};

use super::facts::FlowFacts;
use super::phrasing;
use super::tally::Tally;
use crate::buffers::{BufferRequest, GRANT_FACTOR, requests};
use crate::{Finding, FindingId};

/// At most one finding for each of the two buffers of the end that sends this flow; of several requests
/// the last one counts.
pub(super) fn find(facts: &FlowFacts<'_>) -> Vec<Finding> {
    let finding = |is_send| {
        let flow = facts.view.flow();
        if !flow.events.has(&[Kind::SocketOption]) {
            return None;
        }
        let last = requests(&flow.events, is_send).pop()?;
        let granted_bytes = last.granted_bytes?;
        last.is_clipped().then(|| of_request(facts, &last, granted_bytes))
    };
    [true, false].into_iter().filter_map(finding).collect()
}

fn of_request(facts: &FlowFacts<'_>, request: &BufferRequest, granted_bytes: u64) -> Finding {
    let BufferRequest { at_ns, is_send, asked_bytes, .. } = *request;
    let (option, sysctl, tuned) = match is_send {
        true => ("SO_SNDBUF", "net.core.wmem_max", "send"),
        false => ("SO_RCVBUF", "net.core.rmem_max", "receive"),
    };
    let who = phrasing::who(&facts.view.store.connection, facts.sender());
    let mut tally = Tally { count: 1, ..Tally::default() };
    tally.notes.add(at_ns, || {
        format!("setsockopt {option}: asked {asked_bytes} bytes, granted {granted_bytes} (twice the bytes usable)")
    });
    let summary = format!(
        "The {who} asked for a {tuned} buffer of {asked_bytes} bytes and got {} (with the kernel's \
         overhead {granted_bytes}).",
        granted_bytes / GRANT_FACTOR,
    );
    let raise = format!("raise {sysctl} to {asked_bytes} or more on its host");
    let fix = match facts.view.store.connection.protocol {
        // The kernel sizes no buffer of a datagram socket.
        Protocol::Udp => format!("For the {who}: {raise}."),
        _ => format!(
            "In the {who}: do not set {option}, so that the kernel sizes the buffer; or {raise}."
        ),
    };
    tally.into_finding(FindingId::BufferClipped, facts, facts.sender(), summary, fix)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Fixture, found};
    use insta::assert_snapshot;

    const IDLE: &str = "0ms app_idle | 1ms end";
    /// `extra`: level 1 (SOL_SOCKET), high half; option 7 (SO_SNDBUF), low half.
    const SO_SNDBUF: u32 = 1 << 16 | 7;
    const SO_RCVBUF: u32 = 1 << 16 | 8;

    fn request(option: u32, asked: u64, granted: u64) -> String {
        format!("1ms option extra={option} detail={asked} high={granted}")
    }

    #[test]
    fn a_grant_below_twice_the_request_was_clipped() {
        assert_snapshot!(found(&request(SO_SNDBUF, 4_194_304, 425_984), IDLE), @"buffer-clipped @client 1x 0 ns: The client asked for a send buffer of 4194304 bytes and got 212992 (with the kernel's overhead 425984).");
        assert_snapshot!(found(&request(SO_RCVBUF, 4_194_304, 425_984), IDLE), @"buffer-clipped @client 1x 0 ns: The client asked for a receive buffer of 4194304 bytes and got 212992 (with the kernel's overhead 425984).");
    }

    #[test]
    fn a_stream_is_better_sized_by_the_kernel_and_a_datagram_socket_is_not_sized_by_it() {
        let fixture = || Fixture::new(&request(SO_RCVBUF, 4_194_304, 425_984), IDLE);
        assert_snapshot!(fixture().findings()[0].fix, @"In the client: do not set SO_RCVBUF, so that the kernel sizes the buffer; or raise net.core.rmem_max to 4194304 or more on its host.");
        assert_snapshot!(fixture().udp().findings()[0].fix, @"For the client: raise net.core.rmem_max to 4194304 or more on its host.");
    }

    #[test]
    fn a_grant_of_twice_the_request_was_not() {
        assert_snapshot!(found(&request(SO_SNDBUF, 100_000, 200_000), IDLE), @"");
    }

    #[test]
    fn a_grant_of_what_was_asked_for_was_clipped() {
        assert_snapshot!(found(&request(SO_SNDBUF, 425_984, 425_984), IDLE), @"buffer-clipped @client 1x 0 ns: The client asked for a send buffer of 425984 bytes and got 212992 (with the kernel's overhead 425984).");
    }

    #[test]
    fn what_was_granted_and_not_seen_may_have_been_twice_the_request() {
        assert_snapshot!(found(&request(SO_SNDBUF, 4_096, 0), IDLE), @"");
    }

    #[test]
    fn a_grant_that_a_later_record_shows_was_clipped() {
        let text = format!(
            "{} | 9ms buffers detail=16384 high=425984 code=2",
            request(SO_RCVBUF, 4_194_304, 0)
        );
        assert_snapshot!(found(&text, IDLE), @"buffer-clipped @client 1x 0 ns: The client asked for a receive buffer of 4194304 bytes and got 212992 (with the kernel's overhead 425984).");
    }

    #[test]
    fn nor_was_one_raised_to_the_kernels_minimum() {
        assert_snapshot!(found(&request(SO_SNDBUF, 1, 4_608), IDLE), @"");
    }

    #[test]
    fn of_two_requests_the_last_one_counts() {
        let text = format!(
            "{} | {}",
            request(SO_SNDBUF, 4_194_304, 425_984),
            request(SO_SNDBUF, 1_000, 4_608)
        );
        assert_snapshot!(found(&text, IDLE), @"");
    }

    #[test]
    fn other_options_with_the_same_number_are_other_options() {
        assert_snapshot!(found(&request(6 << 16 | 7, 4_194_304, 1), IDLE), @"");
    }
}
