//! Socket buffers that programs asked for and got.

use sockscope_record::{Direction, Kind, Record, Side};

use crate::{BufferGrant, ConnectionStore};

/// `SOL_SOCKET` (asm-generic/socket.h).
const SOL_SOCKET: u32 = 1;
/// `SO_SNDBUF` and `SO_SNDBUFFORCE`.
const SEND_OPTIONS: [u32; 2] = [7, 32];
/// `SO_RCVBUF` and `SO_RCVBUFFORCE`.
const RECEIVE_OPTIONS: [u32; 2] = [8, 33];

/// Both buffers of both ends as far as known: every size that a program asked for, in order of time,
/// and the last size seen of a buffer that none asked for.
pub(crate) fn grants(store: &ConnectionStore) -> Vec<BufferGrant> {
    let mut grants = Vec::new();
    for direction in [Direction::FromClient, Direction::FromServer] {
        let events = &store.flow(direction).events;
        for is_send in [true, false] {
            grants.extend(grants_of(events, direction.sender(), is_send));
        }
    }
    grants
}

fn grants_of(events: &[Record], side: Side, is_send: bool) -> Vec<BufferGrant> {
    let mut grants: Vec<BufferGrant> = Vec::new();
    let mut last_seen = None;
    for event in events {
        match event.kind {
            Kind::SocketOption if sets_buffer(event, is_send) => {
                let asked_bytes = Some(half(event.detail, true));
                let granted_bytes = granted_bytes(event);
                let grant = BufferGrant { side, is_send, asked_bytes, granted_bytes };
                if grants.last() != Some(&grant) {
                    grants.push(grant);
                }
            }
            Kind::SocketBuffers => {
                last_seen = Some(half(event.detail, is_send)).filter(|&bytes| bytes > 0);
                if let Some(grant) = grants.last_mut() {
                    grant.granted_bytes = grant.granted_bytes.or(last_seen);
                }
            }
            _ => {}
        }
    }
    if grants.is_empty() {
        grants.extend(last_seen.map(|bytes| BufferGrant {
            side,
            is_send,
            asked_bytes: None,
            granted_bytes: Some(bytes),
        }));
    }
    grants
}

/// What a request for a buffer size was granted. Whoever sees the request alone records that as the
/// grant, which is never the same: Linux doubles it.
pub(crate) fn granted_bytes(request: &Record) -> Option<u64> {
    let [asked, granted] = [true, false].map(|low| half(request.detail, low));
    (granted != asked && granted > 0).then_some(granted)
}

fn sets_buffer(event: &Record, is_send: bool) -> bool {
    let options = if is_send { SEND_OPTIONS } else { RECEIVE_OPTIONS };
    event.extra >> 16 == SOL_SOCKET && options.contains(&(event.extra & 0xffff))
}

fn half(detail: u64, low: bool) -> u64 {
    if low { detail & 0xffff_ffff } else { detail >> 32 }
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
    fn what_was_granted_is_unknown_until_the_buffer_is_seen() {
        let asked = "1us buffers detail=87040 | 2us option extra=65543 detail=4096 high=4096";
        let sizes = |text: &str| {
            let grants = grants(&testing::store(text));
            grants.iter().map(|g| (g.asked_bytes, g.granted_bytes)).collect::<Vec<_>>()
        };
        assert_eq!(sizes(asked), [(Some(4096), None)]);
        let seen = format!("{asked} | 3us buffers detail=8192 code=1");
        assert_eq!(sizes(&seen), [(Some(4096), Some(8192))]);
    }

    #[test]
    fn other_levels_and_options_are_not_buffers() {
        // IPPROTO_TCP option 7, and SOL_SOCKET option 9 (SO_KEEPALIVE).
        let store =
            testing::store("1us option extra=393223 detail=1 | 2us option extra=65545 detail=1");
        assert_eq!(grants(&store), []);
    }
}
