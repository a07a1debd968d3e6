//! A DECstation with a TCA-100 card, as the thesis's driver needs one: each unit of the driver's work
//! takes its time on that machine.
//!
//! Time is split as the thesis splits it, into copying and the rest. Work that delays the time at
//! which processor and bus are both done is charged with the delay. So the parts add up to the whole
//! although writes overlap with the work of the processor.

use sockscope_atm::driver::{Host, Work};
use sockscope_atm::tca100::map::{Register, control};
use sockscope_atm::tca100::{Access, BusError, CYCLE_NS, Config, LineCell, Tca100};
use sockscope_experiment::{DataFrom, VMTP_HEADER_BYTES};
use sockscope_sim::turbochannel::{Begun, Timeline, TurbochannelMachine, Until};

const PS_PER_NS: u64 = 1000;

/// One machine, its card, and its time by kind of work.
#[derive(Debug)]
pub(crate) struct DecstationHost {
    /// The card, for its fibres.
    pub card: Tca100,
    machine: TurbochannelMachine,
    timeline: Timeline<Write>,
    data_from: DataFrom,
    /// Whether cells that are missing are asked for, which each received cell pays for.
    repairs: bool,
    /// Words of the message that were loaded so far.
    loaded: u64,
    /// Words at the begin of the message that stand in the cache.
    cached: u64,
    spent_ps: [u64; Work::ALL.len()],
    /// Time in which processor and bus had nothing to do.
    idle_ps: u64,
    /// A bus error that happened while no access could report it.
    refused: Option<BusError>,
}

/// A write in transit.
#[derive(Debug, Clone, Copy)]
enum Write {
    /// A word to the card.
    Word { offset: u32, word: u32 },
    /// A byte to the card.
    Byte { offset: u32 },
    /// A word to memory.
    Memory,
}

/// Time spent in all, and on moving the octets of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spent {
    pub total_ps: u64,
    pub copy_ps: u64,
}

impl DecstationHost {
    /// A machine at time 0 with both engines of its card on.
    pub fn new(machine: TurbochannelMachine, data_from: DataFrom) -> Result<Self, BusError> {
        let mut card = Tca100::new(Config::default());
        let engines = control::RECEIVE_ENABLE | control::TRANSMIT_ENABLE;
        card.write_word(0, Register::Control.offset(), engines)?;
        let timeline = Timeline::new(&machine);
        Ok(Self {
            card,
            machine,
            timeline,
            data_from,
            repairs: false,
            loaded: 0,
            cached: 0,
            spent_ps: [0; Work::ALL.len()],
            idle_ps: 0,
            refused: None,
        })
    }

    /// The same, keeping account of each cell of a message.
    pub fn repairing(self, repairs: bool) -> Self {
        Self { repairs, ..self }
    }

    /// The time spent so far.
    pub fn spent(&self) -> Spent {
        let sum = |is_meant: &dyn Fn(Work) -> bool| {
            let kinds = Work::ALL.into_iter().filter(|work| is_meant(*work));
            kinds.map(|work| self.spent_ps[work as usize]).sum()
        };
        Spent { total_ps: sum(&|_| true), copy_ps: sum(&Work::is_copy) }
    }

    fn told(&mut self) -> Result<(), BusError> {
        self.refused.take().map_or(Ok(()), Err)
    }

    /// The processor's time, in nanoseconds.
    pub fn ns(&self) -> u64 {
        self.timeline.cpu_ps() / PS_PER_NS
    }

    /// The processor's time, in picoseconds.
    pub fn ps(&self) -> u64 {
        self.timeline.cpu_ps()
    }

    /// Time in which processor or bus had work, in picoseconds.
    pub fn busy_ps(&self) -> u64 {
        self.timeline.done_ps() - self.idle_ps
    }

    /// Nothing to do until `at_ns`, if that is not over.
    pub fn wait_until(&mut self, at_ns: u64) {
        let before_ps = self.timeline.done_ps();
        self.timeline.wait_until(at_ns.saturating_mul(PS_PER_NS));
        self.idle_ps += self.timeline.done_ps() - before_ps;
    }

    /// The processor works for so many of its cycles on something else than the driver. Gives their time.
    pub fn other_work(&mut self, cycles: u64) -> u64 {
        let before_ps = self.timeline.cpu_ps();
        self.timeline.work(cycles);
        self.timeline.cpu_ps() - before_ps
    }

    /// Everything that was written to the card, once the last of it has left.
    pub fn sent(&mut self) -> Vec<LineCell> {
        let mut sent = Vec::new();
        loop {
            while let Some(line) = self.card.take_sent(self.ns()) {
                sent.push(line);
            }
            let Some(next_ns) = self.card.next_event_ns() else { return sent };
            self.wait_until(next_ns);
        }
    }

    /// Does something and charges it to `work`.
    fn charged<T>(&mut self, work: Work, act: impl FnOnce(&mut Self) -> T) -> T {
        let before_ps = self.timeline.done_ps();
        let result = act(self);
        // Only a write that ends in a bus error, and with it the run, moves it back.
        self.spent_ps[work as usize] += self.timeline.done_ps().saturating_sub(before_ps);
        result
    }

    /// Lets writes reach their place.
    fn settle(&mut self, until: Until) -> Result<(), BusError> {
        while let Some(begun) = self.timeline.begin_write(until) {
            self.carry_out(&begun)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, begun: &Begun<Write>) -> Result<(), BusError> {
        let at_ns = begun.at_ps / PS_PER_NS;
        let access = match begun.access {
            Write::Word { offset, word } => self.card.write_word(at_ns, offset, word)?,
            Write::Byte { offset } => self.card.write_byte(at_ns, offset)?,
            Write::Memory => Access::default(),
        };
        self.timeline.end_write(begun, access.wait_cycles);
        Ok(())
    }

    /// A store, of one instruction: when the buffer has room, the write enters it.
    fn store(&mut self, bus_cycles: u64, write: Write) -> Result<(), BusError> {
        self.timeline.work(1);
        self.settle(Until::Now)?;
        while self.timeline.is_full() {
            if !self.timeline.wait_for_room()
                && let Some(begun) = self.timeline.begin_write(Until::Empty)
            {
                self.carry_out(&begun)?;
            }
        }
        self.timeline.write(bus_cycles, write);
        Ok(())
    }

    /// The processor loads a word of the message, by one instruction.
    fn load(&mut self) -> Result<(), BusError> {
        let bus = &self.machine.bus;
        // A message begins at the begin of a cache line.
        let begins_line =
            self.loaded >= self.cached && self.loaded.is_multiple_of(bus.line_words.max(1));
        let bus_cycles = match self.data_from {
            DataFrom::Uncached => Some(bus.uncached_read),
            DataFrom::Memory if begins_line => Some(bus.line_fill),
            DataFrom::Memory | DataFrom::Cache => None,
        };
        self.loaded += 1;
        self.timeline.work(1);
        if let Some(bus_cycles) = bus_cycles {
            self.settle(Until::Now)?;
            let begun = self.timeline.begin_read(bus_cycles);
            self.timeline.end_read(&begun, 0);
        }
        Ok(())
    }

    /// Words in the cache lines of a packet's header. The processor wrote it, and the cache keeps a word
    /// that is written through. The thesis has packets read from the cache, and data cross the bus twice.
    fn header_words(&self) -> u64 {
        let words = VMTP_HEADER_BYTES.div_ceil(self.machine.bus.word_bytes.max(1));
        words.next_multiple_of(self.machine.bus.line_words.max(1))
    }

    fn act(&mut self, work: Work) -> Result<(), BusError> {
        let driver = &self.machine.driver;
        let cycles = match work {
            Work::MessageSetup => driver.message_setup,
            Work::TwoCellSetup => driver.two_cell_setup,
            Work::CellLoop => driver.cell_loop,
            Work::SequenceStep => driver.sequence_step,
            Work::FillCase => driver.fill_case,
            Work::CellCheck if self.repairs => driver.repair_check,
            Work::CellCheck => driver.cell_check,
            Work::DataLoad => return self.load(),
            Work::DataLoadPart => {
                self.load()?;
                self.machine.driver.part_word
            }
            Work::DataStore => return self.store(self.machine.bus.page_write, Write::Memory),
            // Accesses to the card have methods of their own.
            _ => 0,
        };
        self.timeline.work(cycles);
        if matches!(work, Work::MessageSetup | Work::TwoCellSetup) {
            (self.loaded, self.cached) = (0, self.header_words());
        }
        Ok(())
    }
}

impl Host for DecstationHost {
    fn now_ns(&self) -> u64 {
        self.ns()
    }

    fn work(&mut self, work: Work) {
        let done = self.charged(work, |host| host.act(work));
        // The card's refusal of a write that was still in transit is reported by the next access.
        self.refused = self.refused.or(done.err());
    }

    fn write(&mut self, work: Work, offset: u32, word: u32) -> Result<(), BusError> {
        let cycles = self.machine.driver.card_write;
        self.charged(work, |host| host.store(cycles, Write::Word { offset, word }))?;
        self.told()
    }

    fn read(&mut self, work: Work, offset: u32) -> Result<u32, BusError> {
        self.charged(work, |host| {
            host.timeline.work(1);
            // A read waits for buffered byte writes: they go to the same address.
            let is_same = |write: &Write| matches!(write, Write::Byte { .. });
            let waits = host.timeline.waiting().any(is_same);
            host.settle(if waits { Until::Empty } else { Until::Now })?;
            let begun = host.timeline.begin_read(host.machine.driver.card_read);
            let access = host.card.read_word(begun.at_ps / PS_PER_NS, offset)?;
            host.timeline.end_read(&begun, access.wait_cycles);
            host.told().map(|()| access.word)
        })
    }

    fn write_byte(&mut self, work: Work, offset: u32) -> Result<(), BusError> {
        let cycles = self.machine.bus.partial_write;
        self.charged(work, |host| host.store(cycles, Write::Byte { offset }))?;
        self.told()
    }

    fn flush(&mut self) -> Result<(), BusError> {
        let cycles = self.machine.driver.flush;
        self.charged(Work::Flush, |host| {
            host.settle(Until::Empty)?;
            host.timeline.flush(cycles);
            host.told()
        })
    }
}

// The card counts its waits in cycles of the bus that the machines have.
const _: () = assert!(CYCLE_NS == 40);

#[cfg(test)]
mod tests {
    use sockscope_atm::Header;
    use sockscope_atm::driver::{SendError, Sender};

    use super::super::send::{CHANNEL, FORMAT};
    use super::*;

    fn machine() -> TurbochannelMachine {
        TurbochannelMachine::by_name("decstation-5000-200").unwrap()
    }

    fn host(machine: TurbochannelMachine, data_from: DataFrom) -> DecstationHost {
        DecstationHost::new(machine, data_from).unwrap()
    }

    fn sender() -> Sender {
        Sender::new(FORMAT, &Header::of_channel(CHANNEL)).unwrap()
    }

    /// Time of the processor after each load, in nanoseconds.
    fn loads(data_from: DataFrom) -> [u64; 6] {
        let mut host = host(machine(), data_from);
        [(); 6].map(|()| {
            host.work(Work::DataLoad);
            host.ns()
        })
    }

    #[test]
    fn a_load_takes_an_instruction_and_the_bus_where_it_must() {
        assert_eq!(loads(DataFrom::Cache), [40, 80, 120, 160, 200, 240]);
        // A line of four words takes 13 cycles of the bus, a word past the cache 10.
        assert_eq!(loads(DataFrom::Memory), [560, 600, 640, 680, 1240, 1280]);
        assert_eq!(loads(DataFrom::Uncached), [440, 880, 1320, 1760, 2200, 2640]);
    }

    /// The header has 17 words, in five lines of four.
    #[test]
    fn the_header_of_each_message_is_in_the_cache_and_its_data_are_not() {
        let mut host = host(machine(), DataFrom::Memory);
        for setup in [Work::TwoCellSetup, Work::MessageSetup] {
            host.work(setup);
            let load_ns = [(); 24].map(|()| {
                let before_ns = host.ns();
                host.work(Work::DataLoad);
                host.ns() - before_ns
            });
            let filled: Vec<_> = (0..24).filter(|&word| load_ns[word] == 560).collect();
            assert_eq!(filled, [20], "{setup:?}: {load_ns:?}");
            assert_eq!(load_ns.iter().sum::<u64>(), 23 * 40 + 560);
        }
    }

    #[test]
    fn a_read_of_a_register_waits_for_the_card_and_a_discard_for_nothing() {
        let mut host = host(machine(), DataFrom::Cache);
        // An instruction, ten cycles of the bus and six that a register makes it wait.
        host.read(Work::RegisterRead, Register::Status.offset()).unwrap();
        assert_eq!(host.ns(), 17 * 40);
        host.write_byte(Work::Discard, sockscope_atm::tca100::map::RECEIVE_QUEUE).unwrap();
        assert_eq!(host.ns(), 18 * 40);
        host.flush().unwrap();
        assert_eq!(host.ns(), (18 + 11) * 40, "a partial write takes eleven");
    }

    #[test]
    fn a_machine_that_is_faster_than_the_line_is_held_to_it() {
        let mut machine = machine();
        machine.driver.card_write = 1;
        machine.cpu.cycle_ps = 5_000;
        let mut host = host(machine, DataFrom::Cache);
        for id in 0..40 {
            sender().send(&mut host, id, &[0; 1056]).unwrap();
        }
        // 960 cells at 155 Mbit/s, but for the 36 that still wait in the card.
        let line_ns = (960 - 36) * 424_000 / 155;
        assert!((line_ns - 6_000..line_ns + 6_000).contains(&host.ns()), "{}", host.ns());
    }

    #[test]
    fn a_bus_error_reaches_the_driver() {
        let mut host = host(machine(), DataFrom::Cache);
        host.write(Work::RegisterWrite, Register::Control.offset(), 0).unwrap();
        let refused = (0..40).find_map(|id| sender().send(&mut host, id, &[0; 1056]).err());
        assert!(matches!(refused, Some(SendError::Bus(BusError::Timeout { .. }))), "{refused:?}");
    }
}
