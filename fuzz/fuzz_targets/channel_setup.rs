//! Any octets as each message of set-up, and as a packet between proxies.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_channel::library::{Checked, PacketFormat};
use sockscope_channel::{Hello, Welcome};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(hello) = Hello::decode(bytes) {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    if let Ok(welcome) = Welcome::decode(bytes) {
        assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
    }
    if let Ok(range) = Checked.open(bytes) {
        let mut packet = bytes.to_vec();
        Checked.seal(&mut packet);
        assert_eq!(Checked.open(&packet), Ok(range));
    }
});
