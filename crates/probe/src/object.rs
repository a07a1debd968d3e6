//! The compiled BPF object, in the form that the running kernel can load.
//!
//! One source is compiled twice (`bpf/access.h`): programs that read through typed pointers, and
//! programs that copy each field, for kernels before 6.2. Maps, settings and layouts are the same.

use std::ffi::OsStr;

use libbpf_rs::{Map, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, ProgramMut};

use crate::backlog::Ring;
use crate::error::Error;
use crate::layout::skeleton::types;
use crate::layout::{Counters, NO_LIST, plain};
use crate::lists::Shape;
use crate::pick::{Pick, SoLog};
use crate::sample::Share;

/// The way in which programs read kernel memory that no typed pointer leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// With plain loads, `bpf_rdonly_cast` giving addresses a type: since Linux 6.2.
    Casts,
    /// With a helper that copies each field.
    Copies,
}

/// An object's bytes as the build compressed them.
macro_rules! packed {
    ($form:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $form, ".bpf.o.deflate")).as_slice()
    };
}

static CASTS: &[u8] = packed!("casts");
static COPIES: &[u8] = packed!("copies");

/// Bytes of an ELF file, aligned for its headers.
struct Elf {
    padded: Vec<u8>,
    start: usize,
}

impl Elf {
    fn unpack(packed: &[u8]) -> Result<Self, Error> {
        let unpacked = miniz_oxide::inflate::decompress_to_vec(packed);
        let object = unpacked.map_err(|error| Error::Load(format!("the object: {error}")))?;
        let mut padded = vec![0; object.len() + size_of::<u64>()];
        let start = padded.as_ptr().align_offset(size_of::<u64>());
        padded[start..start + object.len()].copy_from_slice(&object);
        padded.truncate(start + object.len());
        Ok(Self { padded, start })
    }

    fn bytes(&self) -> &[u8] {
        &self.padded[self.start..]
    }
}

/// The object, opened and not yet loaded.
pub(crate) fn open(reads: Reads) -> Result<OpenObject, Error> {
    open_packed(match reads {
        Reads::Casts => CASTS,
        Reads::Copies => COPIES,
    })
}

/// The object of `bpf/force.bpf.c`.
pub(crate) fn open_force() -> Result<OpenObject, Error> {
    open_packed(packed!("force"))
}

fn open_packed(packed: &[u8]) -> Result<OpenObject, Error> {
    open_bytes(Elf::unpack(packed)?.bytes())
}

fn open_bytes(bytes: &[u8]) -> Result<OpenObject, Error> {
    let mut builder = ObjectBuilder::default();
    builder
        .name("sockscope_bpf")
        .and_then(|named| named.open_memory(bytes))
        .map_err(|error| refused(&error))
}

/// Writes the settings into an opened object, and loads the programs that are wanted.
pub(crate) fn load(
    mut open: OpenObject,
    shape: &Shape,
    pick: &Pick,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Object, Error> {
    for mut map in open.maps_mut() {
        if map.name() == "lists" {
            map.set_max_entries(shape.cpus.len() as u32).map_err(|error| refused(&error))?;
            map.set_value_size(shape.list_bytes() as u32).map_err(|error| refused(&error))?;
        } else if let Some(ring) = Ring::ALL.iter().find(|ring| map.name() == ring.name()) {
            map.set_max_entries(ring.bytes()).map_err(|error| refused(&error))?;
        } else if is_section(map.name(), ".rodata") {
            write_settings(map.initial_value_mut().unwrap_or_default(), pick, shape)?;
        }
    }
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(is_wanted(&name));
    }
    open.load().map_err(|error| refused(&error))
}

/// libbpf puts the object's name before that of a plain section.
pub(crate) fn is_section(map: &OsStr, section: &str) -> bool {
    map.to_string_lossy().ends_with(section)
}

fn write_settings(bytes: &mut [u8], pick: &Pick, shape: &Shape) -> Result<(), Error> {
    if bytes.len() < size_of::<types::rodata>() {
        return Err(Error::Load("the object has no room for settings".to_owned()));
    }
    let settings = bytes.as_mut_ptr().cast::<types::rodata>();
    // SAFETY: at least as many bytes as the layout has, which is plain integers for which every
    // bit pattern is valid. They are read and written unaligned, and nothing else points to them.
    unsafe {
        let mut fresh = settings.read_unaligned();
        pick.write(&mut fresh.pick)?;
        (fresh.list_mask, fresh.list_room) = (shape.mask(), shape.room());
        fresh.list_is_cpu = u32::from(shape.cpus.iter().copied().eq(0..shape.cpus.len() as u16));
        fresh.others_may_ask = u32::from(pick.so_log == SoLog::All);
        fresh.list_of_cpu.fill(NO_LIST);
        for (list, cpu) in (0..NO_LIST).zip(&shape.cpus) {
            // A number beyond is of a CPU without a list.
            fresh.list_of_cpu.get_mut(usize::from(*cpu)).into_iter().for_each(|of| *of = list);
        }
        settings.write_unaligned(fresh);
    }
    Ok(())
}

/// The map of this name.
pub(crate) fn map<'o>(object: &'o Object, name: &str) -> Result<Map<'o>, Error> {
    let found = object.maps().find(|map| map.name() == name);
    found.ok_or_else(|| Error::Load(format!("no map {name} in the object")))
}

/// The program of this name.
pub(crate) fn program<'o>(object: &'o Object, name: &str) -> Option<ProgramMut<'o>> {
    object.progs_mut().find(|program| program.name() == name)
}

/// The connections to record from now on; probes that run at this moment may have the limit from before.
pub(crate) fn set_share(object: &Object, share: Share) -> Result<(), Error> {
    let map = object.maps().find(|map| is_section(map.name(), ".data.sample"));
    let map = map.ok_or_else(|| Error::Load("no limit of the sample in the object".to_owned()))?;
    let limit = share.limit().to_ne_bytes();
    map.update(&0u32.to_ne_bytes(), &limit, MapFlags::ANY).map_err(|error| refused(&error))
}

/// The counters of all programs as they stand.
pub(crate) fn counters(object: &Object) -> Result<Counters, Error> {
    let unread = |reason: String| Error::Uncounted { reason };
    let map = object.maps().find(|map| is_section(map.name(), ".bss"));
    let map = map.ok_or_else(|| unread("the object has none".to_owned()))?;
    let found = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
    let section = found.map_err(|error| unread(one_line(&error)))?;
    section.and_then(counters_in).ok_or_else(|| unread("the map is empty".to_owned()))
}

/// A section ends with its last counter, the layout with the padding of its last word.
fn counters_in(mut section: Vec<u8>) -> Option<Counters> {
    section.resize(section.len().max(size_of::<Counters>()), 0);
    plain(&section)
}

fn refused(error: &libbpf_rs::Error) -> Error {
    Error::Load(one_line(error))
}

/// The error message of libbpf, in one line.
pub(crate) fn one_line(error: &libbpf_rs::Error) -> String {
    format!("{error:#}").lines().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod stack;

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, type, sizes and length of each map.
    fn maps(reads: Reads) -> Vec<(String, u32, u32, u32, u32)> {
        let object = open(reads).unwrap();
        let described = object.maps().map(|map| {
            let name = map.name().to_string_lossy().into_owned();
            (name, map.map_type() as u32, map.key_size(), map.value_size(), map.max_entries())
        });
        described.collect()
    }

    #[test]
    fn both_forms_of_the_programs_have_the_same_maps_and_sections() {
        let of_casts = maps(Reads::Casts);
        assert_eq!(of_casts, maps(Reads::Copies));
        assert!(of_casts.iter().any(|map| map.0.ends_with(".rodata")));
    }

    /// Such a map gives up an old entry for a new one and counts nothing.
    #[test]
    fn no_map_gives_up_entries_by_itself() {
        const LRU: [u32; 2] =
            [libbpf_rs::MapType::LruHash as u32, libbpf_rs::MapType::LruPercpuHash as u32];
        let all = maps(Reads::Casts);
        assert!(all.len() > 8, "{all:?}");
        let giving_up = all.iter().filter(|map| LRU.contains(&map.1));
        assert_eq!(giving_up.map(|map| &map.0).collect::<Vec<_>>(), [""; 0]);
    }

    /// As on CPUs that reorder stores.
    static REORDERED: &[u8] = packed!("reordered");
    static REORDERED_COPIES: &[u8] = packed!("reordered-copies");

    /// Kernels before 6.13 have one stack for a program and all that it calls.
    #[test]
    fn every_chain_of_calls_fits_one_stack() {
        for packed in [CASTS, COPIES, REORDERED, REORDERED_COPIES] {
            let (bytes, chain) = stack::deepest(Elf::unpack(packed).unwrap().bytes());
            assert!(chain.len() > 4 && bytes > 256, "calls were not followed: {chain:?}");
            assert!(bytes <= 512, "{bytes} bytes: {chain:?}");
        }
    }

    // BPF_STX | BPF_ATOMIC, with BPF_DW or BPF_W, and the operation (linux/bpf.h).
    const ATOMIC_64: u8 = 0xdb;
    const ATOMIC_32: u8 = 0xc3;
    const FETCH_ADD: i32 = 0x01;
    const FETCH_OR: i32 = 0x41;
    const EXCHANGE: i32 = 0xe1;

    /// Names of the programs that have such an atomic operation.
    fn with_atomic(packed: &[u8], code: u8, operation: i32) -> Vec<String> {
        let object = open_packed(packed).unwrap();
        let has = |program: &libbpf_rs::OpenProgram<'_>| {
            program.insns().iter().any(|insn| insn.code == code && insn.imm == operation)
        };
        let found = object.progs().filter(has);
        found.map(|program| program.name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn where_cpus_reorder_stores_each_record_is_handed_over_by_an_exchange() {
        let all = with_atomic(REORDERED, ATOMIC_64, FETCH_ADD).len();
        let exchanging = with_atomic(REORDERED, ATOMIC_64, EXCHANGE).len();
        assert!(exchanging > 10 && exchanging >= all / 2, "{exchanging} of {all}");
        let here = with_atomic(CASTS, ATOMIC_64, EXCHANGE);
        assert_eq!(cfg!(target_arch = "x86_64"), here.is_empty());
    }

    #[test]
    fn where_cpus_reorder_stores_a_slot_is_published_and_found_by_atomic_operations() {
        let reordered = Elf::unpack(REORDERED).unwrap();
        for function in ["open_number", "leave_slot"] {
            assert!(stack::has(reordered.bytes(), function, ATOMIC_32, EXCHANGE), "{function}");
        }
        for function in ["find_slot", "look_at_candidate", "look_up_socket"] {
            assert!(stack::has(reordered.bytes(), function, ATOMIC_32, FETCH_OR), "{function}");
        }
        let here = [EXCHANGE, FETCH_OR].map(|how| with_atomic(CASTS, ATOMIC_32, how).is_empty());
        assert_eq!([cfg!(target_arch = "x86_64"); 2], here);
    }

    /// Without the two programs of the form for older kernels whose packet leads to a socket. The verifiers of
    /// kernels with casts refuse such a pointer as argument of `bpf_skc_to_tcp_sock` (`rcu_ptr_`).
    #[test]
    fn root_the_verifier_takes_every_form_of_the_programs() {
        if !crate::rights::can_load() {
            return;
        }
        let Some(kernel) = crate::hooks::Kernel::running() else {
            return crate::rights::skip("this kernel does not show its types");
        };
        let is_newer = kernel.reads() == Some(Reads::Casts);
        let of_packets = ["point3", "point4"];
        let pick = Pick { ports: vec![80], ..Pick::default() };
        let forms = [
            ("casts", CASTS, is_newer, false),
            ("reordered", REORDERED, is_newer, false),
            ("copies", COPIES, true, is_newer),
            ("reordered copies", REORDERED_COPIES, true, is_newer),
        ];
        for (form, packed, can_load, without_packets) in forms {
            if !can_load {
                continue;
            }
            let is_wanted = |program: &str| {
                let entry = crate::hooks::HOOKS.iter().find(|entry| entry.program == program);
                entry.is_some_and(|entry| kernel.has(entry) && kernel.needs(entry))
                    && !(without_packets && of_packets.contains(&program))
            };
            let open = open_packed(packed).unwrap();
            let wanted =
                open.progs().filter(|program| is_wanted(&program.name().to_string_lossy()));
            assert!(wanted.count() > 15, "{form}");
            let loaded = load(open, &Shape::of(None), &pick, is_wanted);
            assert!(loaded.is_ok(), "{form}: {:?}", loaded.err());
        }
    }

    #[test]
    fn counters_are_read_from_a_section_of_its_own_length() {
        for reads in [Reads::Casts, Reads::Copies] {
            let maps = maps(reads).into_iter();
            let section = maps.filter(|map| map.0.ends_with(".bss")).map(|map| map.3 as usize);
            let bytes: Vec<usize> = section.collect();
            let &[bytes] = bytes.as_slice() else { panic!("sections: {bytes:?}") };
            assert!(bytes <= size_of::<Counters>());
            let counters = counters_in(vec![1; bytes]).unwrap();
            let ones = u64::from_ne_bytes([1; 8]);
            let lost = (counters.events_lost, counters.connections_refused);
            assert_eq!(lost, (ones, ones));
            assert_eq!((counters.udp_seen, counters.devices_seen), (ones, ones));
        }
    }

    #[test]
    fn settings_are_written_over_the_first_bytes_and_nothing_else() {
        let mut bytes = vec![0; size_of::<types::rodata>() + 3];
        let pick = Pick { ports: vec![80], ..Pick::default() };
        write_settings(&mut bytes, &pick, &Shape { cpus: vec![0, 2], records: 1024 }).unwrap();
        let at = std::mem::offset_of!(types::rodata, pick);
        let port = at + std::mem::offset_of!(types::pick, port);
        assert_eq!(bytes[port..port + 2], 80u16.to_ne_bytes());
        let lists = std::mem::offset_of!(types::rodata, list_of_cpu);
        let list_of = |cpu: usize| [bytes[lists + 2 * cpu], bytes[lists + 2 * cpu + 1]];
        let of_cpus = [0, 1, 2, 3].map(|cpu| u16::from_ne_bytes(list_of(cpu)));
        assert_eq!(of_cpus, [0, NO_LIST, 1, NO_LIST]);
        assert_eq!(bytes[size_of::<types::rodata>()..], [0; 3]);
    }

    #[test]
    fn settings_say_what_the_verifier_may_remove() {
        let written = |so_log, cpus: &[u16]| {
            let mut bytes = vec![0; size_of::<types::rodata>()];
            let pick = Pick { so_log, ..Pick::default() };
            write_settings(&mut bytes, &pick, &Shape { cpus: cpus.to_vec(), records: 1024 })
                .unwrap();
            let at = |offset: usize| u32::from(bytes[offset..offset + 4] != [0; 4]);
            let lists = at(std::mem::offset_of!(types::rodata, list_is_cpu));
            (lists, at(std::mem::offset_of!(types::rodata, others_may_ask)))
        };
        assert_eq!(written(SoLog::Off, &[0, 1, 2]), (1, 0));
        assert_eq!(written(SoLog::Own(1000), &[1, 2]), (0, 0));
        assert_eq!(written(SoLog::All, &[0, 2]), (0, 1));
    }

    #[test]
    fn settings_without_room_are_refused() {
        assert!(write_settings(&mut [0; 8], &Pick::default(), &Shape::of(None)).is_err());
    }
}
