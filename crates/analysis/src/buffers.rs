//! Socket buffers that programs asked for and got.

use sockscope_record::{BufferSize, Direction, Kind, Record, Side, SocketBuffers, SocketOption};

use crate::{BufferGrant, ConnectionStore};

/// `SOL_SOCKET` (asm-generic/socket.h).
const SOL_SOCKET: u16 = 1;
/// `SO_SNDBUF` and `SO_SNDBUFFORCE`.
const SEND_OPTIONS: [u16; 2] = [7, 32];
/// `SO_RCVBUF` and `SO_RCVBUFFORCE`.
const RECEIVE_OPTIONS: [u16; 2] = [8, 33];

/// Linux grants this multiple of the bytes asked for, to have room for its own overhead (socket(7)).
pub(crate) const GRANT_FACTOR: u64 = 2;

/// A request for a buffer size and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferRequest {
    pub at_ns: u64,
    pub is_send: bool,
    pub asked_bytes: u64,
    /// With the kernel's overhead; `None` when it was not seen.
    pub granted_bytes: Option<u64>,
}

impl BufferRequest {
    /// Whether `wmem_max` or `rmem_max` cut the grant; a limit that was not seen is not reported.
    pub(crate) fn is_clipped(&self) -> bool {
        self.granted_bytes.is_some_and(|bytes| bytes < self.asked_bytes * GRANT_FACTOR)
    }
}

/// Both buffers of both ends as far as known: every size that a program asked for, in order of time,
/// and the last recorded size of a buffer without such a request.
pub(crate) fn grants(store: &ConnectionStore) -> Vec<BufferGrant> {
    let mut grants = Vec::new();
    for direction in [Direction::FromClient, Direction::FromServer] {
        let flow = store.flow(direction);
        if flow.events.has(&[Kind::SocketOption, Kind::SocketBuffers]) {
            for is_send in [true, false] {
                grants.extend(grants_of(&flow.events, direction.sender(), is_send));
            }
        }
    }
    grants
}

fn grants_of(events: &[Record], side: Side, is_send: bool) -> Vec<BufferGrant> {
    let requests = requests(events, is_send).into_iter();
    let asked = requests.map(|request| BufferGrant {
        side,
        is_send,
        asked_bytes: Some(request.asked_bytes),
        is_set_by_program: true,
        granted_bytes: request.granted_bytes,
    });
    let mut grants: Vec<_> = asked.collect();
    grants.dedup();
    if grants.is_empty() {
        grants.extend(not_asked(events, side, is_send));
    }
    grants
}

/// Requests for the size of one buffer among the events of a flow's sending end, in time order. A
/// grant that a request did not see is taken from the next record of the buffers, if that is before
/// the next request. Older recordings have the request in place of a grant that was not seen.
pub(crate) fn requests(events: &[Record], is_send: bool) -> Vec<BufferRequest> {
    let mut requests: Vec<BufferRequest> = Vec::new();
    for event in events {
        if let Some(request) = request(event).filter(|request| request.is_send == is_send) {
            requests.push(request);
        } else if let Some(last) = requests.last_mut()
            && last.granted_bytes.is_none_or(|granted_bytes| granted_bytes == last.asked_bytes)
        {
            last.granted_bytes = set_by_program(event, is_send).or(last.granted_bytes);
        }
    }
    requests
}

/// The buffer request in a record of an option; `None` of other options.
pub(crate) fn request(event: &Record) -> Option<BufferRequest> {
    let SocketOption { name: (level, option), asked, granted } = event.socket_option()?;
    let is_send = SEND_OPTIONS.contains(&option);
    let sets_buffer = level == SOL_SOCKET && (is_send || RECEIVE_OPTIONS.contains(&option));
    sets_buffer.then_some(BufferRequest {
        at_ns: event.at_ns,
        is_send,
        asked_bytes: asked.into(),
        granted_bytes: Some(granted.into()).filter(|&bytes| bytes > 0),
    })
}

/// The size of a buffer that the program set, if `event` has it.
fn set_by_program(event: &Record, is_send: bool) -> Option<u64> {
    let buffer = one_of(event.socket_buffers()?, is_send);
    Some(buffer.bytes.into()).filter(|&bytes| buffer.is_set_by_program && bytes > 0)
}

/// The last size seen of a buffer that no program was seen to ask for.
fn not_asked(events: &[Record], side: Side, is_send: bool) -> Option<BufferGrant> {
    let buffer = one_of(events.iter().rev().find_map(Record::socket_buffers)?, is_send);
    (buffer.bytes > 0).then_some(BufferGrant {
        side,
        is_send,
        asked_bytes: None,
        is_set_by_program: buffer.is_set_by_program,
        granted_bytes: Some(buffer.bytes.into()),
    })
}

/// The send or the receive buffer.
pub(crate) fn one_of(buffers: SocketBuffers, is_send: bool) -> BufferSize {
    if is_send { buffers.send } else { buffers.receive }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_clipped_buffer_shows_both_sizes() {
        // Level 1, option 7: SO_SNDBUF.
        let store = testing::store("1us option extra=65543 detail=4194304 high=425984");
        let grant = BufferGrant {
            side: Side::Client,
            is_send: true,
            asked_bytes: Some(4_194_304),
            is_set_by_program: true,
            granted_bytes: Some(425_984),
        };
        assert_eq!(grants(&store), [grant]);
    }

    #[test]
    fn a_buffer_that_the_kernel_sizes_has_its_last_size() {
        let store = testing::store(
            "1us <buffers detail=87040 high=65536 | 5us <buffers detail=2626560 high=65536",
        );
        let sizes: Vec<_> = grants(&store).iter().map(|g| (g.is_send, g.granted_bytes)).collect();
        assert_eq!(sizes, [(true, Some(2_626_560)), (false, Some(65_536))]);
    }

    #[test]
    fn a_size_from_the_listener_is_the_programs_though_it_was_not_seen_to_ask() {
        let store = testing::store("1us <buffers detail=2626560 high=4608 code=2");
        let set: Vec<_> = grants(&store).iter().map(|g| (g.is_send, g.is_set_by_program)).collect();
        assert_eq!(set, [(true, false), (false, true)]);
    }

    fn sizes(text: &str) -> Vec<(Option<u64>, Option<u64>)> {
        let grants = grants(&testing::store(text));
        grants.iter().map(|grant| (grant.asked_bytes, grant.granted_bytes)).collect()
    }

    #[test]
    fn what_was_granted_is_unknown_until_the_buffer_is_seen() {
        let asked = "1us buffers detail=87040 | 2us option extra=65543 detail=4096";
        assert_eq!(sizes(asked), [(Some(4096), None)]);
        let before_it_took_effect = format!("{asked} | 3us buffers detail=87040");
        assert_eq!(sizes(&before_it_took_effect), [(Some(4096), None)]);
        let seen = format!("{asked} | 3us buffers detail=8192 code=1");
        assert_eq!(sizes(&seen), [(Some(4096), Some(8192))]);
    }

    #[test]
    fn a_grant_may_be_what_was_asked_for() {
        // Twice the default of wmem_max: clipped to it, and doubled.
        let granted = "2us option extra=65543 detail=425984 high=425984";
        assert_eq!(sizes(granted), [(Some(425_984), Some(425_984))]);
        let seen_later = "2us option extra=65543 detail=425984 | 3us buffers detail=425984 code=1";
        assert_eq!(sizes(seen_later), [(Some(425_984), Some(425_984))]);
    }

    #[test]
    fn an_older_recordings_request_gives_way_to_the_grant() {
        let old = "2us option extra=65543 detail=4096 high=4096 | 3us buffers detail=8192 code=1";
        assert_eq!(sizes(old), [(Some(4096), Some(8192))]);
    }

    #[test]
    fn other_levels_and_options_are_not_buffers() {
        // IPPROTO_TCP option 7, and SOL_SOCKET option 9 (SO_KEEPALIVE).
        let store =
            testing::store("1us option extra=393223 detail=1 | 2us option extra=65545 detail=1");
        assert_eq!(grants(&store), []);
    }
}
