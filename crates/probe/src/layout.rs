//! The layouts and constants that the BPF programs and the recorder share, as generated.

#[allow(
    missing_docs,
    unused_qualifications,
    non_camel_case_types,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::semicolon_if_nothing_returned,
    clippy::uninlined_format_args,
    unsafe_op_in_unsafe_fn
)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/sockscope.skel.rs"));
}

#[allow(dead_code)]
pub(crate) mod constants {
    include!(concat!(env!("OUT_DIR"), "/constants.rs"));
}

/// Slots for connections in the probes' table.
pub(crate) const FLOW_SLOTS: u32 = length(|section| &section.flows) as u32;

/// Entries of an array of the table's section, in which the compiler puts them as it likes.
const fn length<T, const N: usize>(_: fn(&skeleton::types::bss_flows) -> &[T; N]) -> usize {
    N
}

const _: () = assert!(FLOW_SLOTS.is_power_of_two());

/// In the place of the index of a CPU's list, of one that has none.
pub(crate) const NO_LIST: u16 = u16::MAX;

pub(crate) use skeleton::types::{
    event as RawEvent, option_event as RawOption, raw_record as RawRecord,
    record_list as RecordList,
};
