//! Any octets as each message of set-up, and as a packet between proxies.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_channel::library::{Checked, PacketFormat};
use sockscope_channel::{ConnectReply, ConnectRequest};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = ConnectRequest::decode(bytes) {
        assert_eq!(ConnectRequest::decode(&request.encode()), Ok(request));
    }
    if let Ok(reply) = ConnectReply::decode(bytes) {
        assert_eq!(ConnectReply::decode(&reply.encode()), Ok(reply));
    }
    if let Ok(range) = Checked.open(bytes) {
        let mut packet = bytes.to_vec();
        Checked.seal(&mut packet);
        assert_eq!(Checked.open(&packet), Ok(range));
    }
});
