//! The five designs: the way of a message from the network to its program, or to the network again.

use sockscope_experiment::{CacheParameters, InterfaceDesign, MessageTask};
use sockscope_sim::random::Random;

use super::memory::{Memory, Purpose};

/// Pages of the pools that buffers are taken from in turn: they are not in the cache when they are used again.
const POOL_PAGES: u64 = 4096;

/// Pools of pages lie one after the other, behind the program's other data.
#[derive(Debug, Clone, Copy)]
enum Pool {
    /// The network writes here.
    Network = 1,
    /// The program has its messages here.
    Program = 2,
    /// The kernel sends from here.
    Out = 3,
}

/// Messages of one case, one after the other.
pub(super) struct Messages {
    parameters: CacheParameters,
    page_bytes: u64,
    /// From an address to the same set of the cache and another line of memory.
    alias_bytes: u64,
    /// The pages of the pools in the order in which they are used, and the number of those used so far.
    order: Vec<u64>,
    used: u64,
}

/// A piece of a message that lies in one page.
#[derive(Debug, Clone, Copy)]
struct Piece {
    address: u64,
    bytes: u64,
}

/// A message and the places of its octets.
struct Message {
    pieces: Vec<Piece>,
    /// Its pages in the pools, as numbers in the order of use.
    first: u64,
}

impl Messages {
    pub fn new(parameters: &CacheParameters, memory: &Memory, seed: u64) -> Self {
        let shape = memory.cache.shape();
        let way_bytes = shape.bytes / shape.ways;
        let page_bytes = memory.machine.page_bytes;
        let mut random = Random::new(seed, 0);
        let mut order: Vec<u64> = (0..POOL_PAGES).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        // Beyond all pools.
        let alias_bytes = (8 * POOL_PAGES * page_bytes).next_multiple_of(way_bytes);
        Self { parameters: parameters.clone(), page_bytes, alias_bytes, order, used: 0 }
    }

    /// Passes so many messages, some of which wait for the first of them.
    pub fn pass(&mut self, memory: &mut Memory, count: u64) {
        let mut left = count;
        while left > 0 {
            let waiting = left.min(self.parameters.waiting);
            let arrived: Vec<_> = (0..waiting).map(|_| self.arrive(memory)).collect();
            for message in arrived {
                match self.parameters.task {
                    MessageTask::Deliver => {
                        let places = self.deliver(memory, &message);
                        self.read(memory, &places);
                    }
                    MessageTask::ForwardKernel => self.send(memory, &message.pieces),
                    MessageTask::ForwardProgram => self.forward_by_program(memory, &message),
                }
                self.read_working_set(memory);
            }
            left -= waiting;
        }
    }

    /// The message comes from the network.
    fn arrive(&mut self, memory: &mut Memory) -> Message {
        let first = self.used;
        let pieces = self.pieces(Pool::Network, first);
        self.used += pieces.len() as u64;
        for piece in &pieces {
            match self.parameters.design {
                InterfaceDesign::ProgrammedIo => {
                    for (line, bytes) in lines(memory, piece) {
                        memory.card_words(words(memory, bytes), true);
                        memory.access(Purpose::Network, line, bytes, true);
                    }
                    memory.copied_bytes += piece.bytes;
                }
                InterfaceDesign::DmaCopy | InterfaceDesign::DmaRemap => {
                    memory.dma_write(piece.address, piece.bytes);
                }
                InterfaceDesign::CacheCopy | InterfaceDesign::CacheRemap => {
                    lines(memory, piece).for_each(|(line, _)| memory.receive_line(line));
                }
            }
            memory.network_bytes += piece.bytes;
        }
        Message { pieces, first }
    }

    /// The kernel gives a message to its program. Returns the places where the program has it.
    fn deliver(&self, memory: &mut Memory, message: &Message) -> Vec<Piece> {
        let own = self.pieces(Pool::Program, message.first);
        message.pieces.iter().zip(own).map(|(from, to)| self.hand_over(memory, *from, to)).collect()
    }

    /// A piece goes to the other side of the kernel's border, by copy or by mapping.
    fn hand_over(&self, memory: &mut Memory, from: Piece, to: Piece) -> Piece {
        match self.parameters.design {
            // The mapping changes, the place in memory stays.
            InterfaceDesign::DmaRemap if from.bytes == self.page_bytes => {
                memory.remap();
                from
            }
            InterfaceDesign::CacheRemap => {
                let alias = Piece { address: from.address + self.alias_bytes, ..from };
                for (line, _) in lines(memory, &from) {
                    memory.remap_line(line, line + self.alias_bytes);
                }
                alias
            }
            _ => {
                copy(memory, from, to);
                to
            }
        }
    }

    /// The program reads some of the message.
    fn read(&self, memory: &mut Memory, places: &[Piece]) {
        let mut left = self.parameters.message_bytes * self.parameters.read_percent / 100;
        for piece in places {
            let piece = Piece { bytes: piece.bytes.min(left), ..*piece };
            left -= piece.bytes;
            for (line, bytes) in lines(memory, &piece) {
                memory.access(Purpose::Read, line, bytes, false);
            }
        }
    }

    /// A message goes to the network.
    fn send(&self, memory: &mut Memory, pieces: &[Piece]) {
        for piece in pieces {
            match self.parameters.design {
                InterfaceDesign::ProgrammedIo => {
                    for (line, bytes) in lines(memory, piece) {
                        memory.access(Purpose::Network, line, bytes, false);
                        memory.card_words(words(memory, bytes), false);
                    }
                    memory.copied_bytes += piece.bytes;
                }
                InterfaceDesign::DmaCopy | InterfaceDesign::DmaRemap => {
                    memory.dma_read(piece.address, piece.bytes);
                }
                InterfaceDesign::CacheCopy | InterfaceDesign::CacheRemap => {
                    for (line, _) in lines(memory, piece) {
                        memory.send_line(line);
                    }
                }
            }
            memory.network_bytes += piece.bytes;
        }
    }

    /// A program gets a message and gives it back to the kernel, which sends it.
    fn forward_by_program(&self, memory: &mut Memory, message: &Message) {
        if self.parameters.design == InterfaceDesign::CacheRemap {
            // The line that arrives is one that is set up to be sent.
            return self.send(memory, &message.pieces);
        }
        let places = self.deliver(memory, message);
        let out = self.pieces(Pool::Out, message.first);
        let sent: Vec<_> =
            places.iter().zip(out).map(|(from, to)| self.hand_over(memory, *from, to)).collect();
        self.send(memory, &sent);
    }

    /// The program reads its other data, which lie in as many sets of the cache as they have lines.
    fn read_working_set(&self, memory: &mut Memory) {
        let all = Piece { address: 0, bytes: self.parameters.working_set_bytes };
        for (line, bytes) in lines(memory, &all) {
            memory.access(Purpose::WorkingSet, line, bytes, false);
        }
    }

    /// The pages of a message in a pool.
    fn pieces(&self, pool: Pool, first: u64) -> Vec<Piece> {
        let (page_bytes, all) = (self.page_bytes, self.parameters.message_bytes);
        let piece = |at: u64| {
            let page = self.order[((first + at) % POOL_PAGES) as usize];
            // A page of one pool has another place in the cache than the same page of the next one.
            let page = (page * (2 * pool as u64 - 1)) % POOL_PAGES + pool as u64 * POOL_PAGES;
            Piece { address: page * page_bytes, bytes: (all - at * page_bytes).min(page_bytes) }
        };
        (0..all.div_ceil(page_bytes)).map(piece).collect()
    }
}

/// The processor moves a piece.
fn copy(memory: &mut Memory, from: Piece, to: Piece) {
    for ((source, bytes), (target, _)) in lines(memory, &from).zip(lines(memory, &to)) {
        memory.access(Purpose::Copy, source, bytes, false);
        memory.access(Purpose::Copy, target, bytes, true);
    }
    memory.copied_bytes += from.bytes;
}

/// The lines of a piece, which begins with one, and the octets of it in each.
fn lines(memory: &Memory, piece: &Piece) -> impl Iterator<Item = (u64, u64)> + use<> {
    let Piece { address, bytes } = *piece;
    let line_bytes = memory.machine.shape.line_bytes;
    let lines = memory.lines(address, bytes);
    lines.map(move |line| (line, (address + bytes - line).min(line_bytes)))
}

fn words(memory: &Memory, bytes: u64) -> u64 {
    bytes.div_ceil(memory.machine.base.bus.word_bytes)
}
