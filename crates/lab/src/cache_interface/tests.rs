//! Laws of the four present designs and the proposed one, and the places where they cross.

use proptest::prelude::*;
use sockscope_experiment::InterfaceDesign;

use super::*;

const DESIGNS: [&str; 5] = ["programmed-io", "dma-copy", "dma-remap", "cache-copy", "cache-remap"];

fn parameters(design: &str, message_bytes: u64, more: &str) -> CacheParameters {
    let working_set = if more.contains("working_set_bytes") { 0 } else { 131_072 };
    let working_set = match working_set {
        0 => String::new(),
        bytes => format!("working_set_bytes = {bytes}\n"),
    };
    let text = format!(
        "machine = \"second-level-cache\"\ndesign = \"{design}\"\nmessages = 16\n\
         message_bytes = {message_bytes}\n{working_set}{more}"
    );
    toml::from_str(&text).unwrap()
}

fn measured(design: &str, message_bytes: u64, more: &str) -> impl Fn(&str) -> f64 + use<> {
    let measures = measures(&parameters(design, message_bytes, more), 1).unwrap();
    move |name| measures.iter().find(|measure| measure.name == name).unwrap().value().unwrap()
}

fn each(design: &str, message_bytes: u64, more: &str, name: &str) -> f64 {
    measured(design, message_bytes, more)(name)
}

/// Moves by a processor of each octet: in by words and a copy; a copy; what is left of whole pages.
#[test]
fn copies_of_each_design() {
    let copies = |bytes| DESIGNS.map(|design| each(design, bytes, "", "copies"));
    assert_eq!(copies(8192), [2.0, 1.0, 0.0, 1.0, 0.0]);
    assert_eq!(copies(1024), [2.0, 1.0, 1.0, 1.0, 0.0], "no page is whole");
    assert_eq!(copies(6144), [2.0, 1.0, 1.0 / 3.0, 1.0, 0.0]);
}

/// A message that is sent on: two and four moves by programmed I/O, none by lines that are set up to be sent.
#[test]
fn copies_of_a_message_that_is_sent_on() {
    let copies =
        |task| DESIGNS.map(|design| each(design, 8192, &format!("task = \"{task}\""), "copies"));
    assert_eq!(copies("forward-kernel"), [2.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(copies("forward-program"), [4.0, 2.0, 0.0, 2.0, 0.0]);
}

#[test]
fn mappings_are_of_pages_or_of_lines() {
    let remaps = |bytes| DESIGNS.map(|design| each(design, bytes, "", "remaps"));
    assert_eq!(remaps(8192), [0.0, 0.0, 2.0, 0.0, 64.0]);
    assert_eq!(remaps(8193), [0.0, 0.0, 2.0, 0.0, 65.0]);
    assert_eq!(each("cache-remap", 8192, "line_bytes = 32", "remaps"), 256.0);
}

/// A message of one line by DMA, by hand: 6 cycles for the bus and 32 words; then a fill of the line and one of its
/// copy, each 10 cycles and 31 words. The program finds the copy in the cache.
#[test]
fn cycles_of_a_line_by_dma_and_copy() {
    let of = measured("dma-copy", 128, "working_set_bytes = 0\ncache_bytes = 16777216");
    assert_eq!(of("network_bus_cycles"), 38.0);
    assert_eq!((of("copy_bus_cycles"), of("read_bus_cycles")), (2.0 * 41.0, 0.0));
    // Accesses of 3 cycles at 33 MHz: 64 by the copy, 32 by the program; 82 waits at 25 MHz.
    let expected_ps = 96 * 3 * 30_303 + 82 * 40_000;
    assert!(
        (of("processor_us") - f64::from(expected_ps) / 1e6).abs() < 1e-6,
        "{}",
        of("processor_us")
    );
}

/// The same by the interface at the cache: the bus is not used at all while the cache has room.
#[test]
fn a_line_in_the_cache_needs_no_bus() {
    let of = measured("cache-remap", 128, "working_set_bytes = 0\ncache_bytes = 16777216");
    assert_eq!((of("bus_cycles"), of("displaced_lines")), (0.0, 0.0));
    let expected_ps = (200 + 32 * 3) * 30_303;
    assert!(
        (of("processor_us") - f64::from(expected_ps) / 1e6).abs() < 1e-6,
        "{}",
        of("processor_us")
    );
}

/// The proposal's condition: a mapping costs less than a copy from some length of a line on, and the dearer the mapping,
/// the longer the line.
#[test]
fn mapping_lines_pays_from_some_length_of_a_line_on() {
    let lines = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
    let crossing = |remap_cycles: u64| {
        let pays = lines.map(|line_bytes| {
            let more = format!("line_bytes = {line_bytes}\nremap_cycles = {remap_cycles}");
            let us = |design| each(design, 4096, &more, "processor_us");
            us("cache-remap") < us("cache-copy")
        });
        let first = pays.iter().position(|pays| *pays).expect("pays at 4,096 octets");
        assert!(pays[first..].iter().all(|pays| *pays), "{remap_cycles}: {pays:?}");
        lines[first]
    };
    let crossings = [50, 200, 1000, 4000].map(crossing);
    assert!(crossings.is_sorted() && crossings[0] < crossings[3], "{crossings:?}");
}

/// The proposal's danger: data that nothing reads soon displace useful data, where DMA to memory displaces nothing.
#[test]
fn data_that_are_not_read_displace_useful_data_at_the_cache_alone() {
    let displaced = |design| each(design, 16_384, "read_percent = 0", "useful_lines_displaced");
    assert_eq!(displaced("dma-remap"), 0.0);
    assert!(displaced("cache-remap") > 0.0);
    // What is read must enter in any design.
    let read = each("dma-remap", 16_384, "", "useful_lines_displaced");
    assert_eq!(read, each("cache-remap", 16_384, "", "useful_lines_displaced"));
}

/// Messages that wait displace each other before they are read, when they are more than the cache.
#[test]
fn messages_that_wait_beyond_the_cache_come_back_from_memory() {
    let bus = |waiting| {
        let more = format!("working_set_bytes = 0\nwaiting = {waiting}");
        each("cache-remap", 65_536, &more, "remap_bus_cycles")
    };
    assert!(bus(1) < bus(16), "{} {}", bus(1), bus(16));
}

#[test]
fn a_machine_or_a_cache_without_sense_is_refused() {
    let refused = |more: &str| measures(&parameters("dma-copy", 64, more), 1).unwrap_err();
    assert!(refused("cache_bytes = 1000").contains("no whole number of sets"));
    assert!(refused("cache_bytes = 65536").contains("do not fit"));
    let mut parameters = parameters("dma-copy", 64, "");
    parameters.machine = "pdp-11".to_owned();
    assert!(measures(&parameters, 1).unwrap_err().contains("second-level-cache"));
}

fn any_case() -> impl Strategy<Value = CacheParameters> {
    let tasks = ["deliver", "forward-kernel", "forward-program"];
    let shape = (4u32..12, 1u64..5, 6u32..12);
    let sizes = (1u64..40_000, 0u64..32, 1u64..5, 0u64..=100, 0u64..5000);
    (prop::sample::select(DESIGNS.to_vec()), prop::sample::select(tasks.to_vec()), shape, sizes).prop_map(
        |(design, task, (line, ways, sets), (bytes, working_set, waiting, read, remap))| {
            let line_bytes = 1u64 << line;
            let cache_bytes = (line_bytes * ways) << sets;
            let working_set = (cache_bytes * working_set / 64).min(1 << 20);
            let read = if task == "deliver" { read } else { 100 };
            let more = format!(
                "task = \"{task}\"\nline_bytes = {line_bytes}\nways = {ways}\ncache_bytes = {cache_bytes}\n\
                 working_set_bytes = {working_set}\nwaiting = {waiting}\nread_percent = {read}\nremap_cycles = {remap}"
            );
            parameters(design, bytes, &more)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Each cycle has one purpose, each line one fate, and every octet of a message crosses to the host and, where
    /// it is sent on, back. Octets that the processor does not move are mapped.
    #[test]
    fn cycles_lines_and_octets_are_conserved(parameters in any_case(), seed in 0u64..1000) {
        let measures = measures(&parameters, seed).unwrap();
        let of = |name: &str| measures.iter().find(|measure| measure.name == name).unwrap().value().unwrap();
        prop_assert_eq!((of("cycle_residue"), of("line_residue")), (0.0, 0.0));
        let purposes = ["network", "copy", "remap", "read", "refill"];
        let sum: f64 = purposes.iter().map(|name| of(&format!("{name}_bus_cycles"))).sum();
        prop_assert!((sum - of("bus_cycles")).abs() < 1e-6);
        let is_delivered = parameters.task == sockscope_experiment::MessageTask::Deliver;
        prop_assert_eq!(of("network_moves"), if is_delivered { 1.0 } else { 2.0 });
        if is_delivered {
            let line_bytes = parameters.line_bytes.unwrap() as f64;
            let mapped = match parameters.design {
                InterfaceDesign::DmaRemap => of("remaps") * 4096.0,
                InterfaceDesign::CacheRemap => of("remaps") * line_bytes,
                _ => 0.0,
            };
            let copied = of("copies") * parameters.message_bytes as f64;
            prop_assert!(copied + mapped + 1e-6 >= parameters.message_bytes as f64);
        }
        // A message brings in each of its lines once for each place that it has.
        let places = 3.0;
        let line_bytes = parameters.line_bytes.unwrap();
        let lines = (parameters.message_bytes.div_ceil(line_bytes)) as f64;
        if parameters.waiting == 1 && line_bytes <= 4096 {
            prop_assert!(of("displaced_lines") <= 2.0 * places * lines, "{} of {lines}", of("displaced_lines"));
        }
    }
}
