//! Any text as the name of an entity, and any 64 bits as one: each way there and back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_vmtp::wire::Entity;

fuzz_target!(|octets: &[u8]| {
    if let Some(entity) = octets.first_chunk().map(|octets| Entity(u64::from_be_bytes(*octets))) {
        // No entity has the name 0.
        assert_eq!(entity.to_string().parse().ok(), Some(entity).filter(|entity| entity.0 != 0));
        assert_eq!(entity.host_group().is_some(), entity.is_group());
        assert!(entity.host_group().is_none_or(|group| group.is_multicast()));
    }
    if let Ok(entity) = std::str::from_utf8(octets).unwrap_or_default().parse::<Entity>() {
        assert_eq!(entity.to_string().parse(), Ok(entity));
    }
});
