//! Calls by the driver that was supplied with the card: IP over AAL3/4 in the kernel, behind a UDP socket.
//!
//! The thesis says that it carried IP with a Berkeley socket interface under Ultrix, and no more of its inside. Here
//! the layers above it are those of `sockscope_stack`. Packets have an LLC/SNAP header in front and travel in frames of
//! the standard AAL3/4 (RFC 1209). The card interrupts at the end of a message. The driver then reads all cells.
//!
//! Costs are of measurements that do not concern this driver. The kernel's calls take the cycles of a SPARCstation 1,
//! fitted to Table 1 of the SunOS study. Copies and checksums take those of Ultrix with VMTP, and each word of a cell
//! what it takes the thesis's driver.

use std::net::Ipv4Addr;

use sockscope_atm::Header;
use sockscope_atm::aal34::{Format, Limits, Segmentation, cpcs};
use sockscope_atm::driver::{Delivery, Host as _, Receiver, Work as DriverWork};
use sockscope_atm::tca100::{BusError, LineCell, words};
use sockscope_experiment::{AtmParameters, DataFrom};
use sockscope_record::Protocol;
use sockscope_sim::Machine;
use sockscope_sim::turbochannel::TurbochannelMachine;
use sockscope_stack::interface::{Frame, InterfaceConfig};
use sockscope_stack::{
    Cost, Costs, Effect, Endpoint, Meter, Packet, Personality, ReceiveCall, Routine, SendCall,
    SetOption, SocketError, SocketId, Stack, StackConfig, Step,
};

use super::super::cells::{Loads, write_cell};
use super::super::host::DecstationHost;
use super::super::loss::drain;
use super::super::send::CHANNEL;
use super::totals::{Layer, Stages, Totals};
use crate::vmtp_pair;

/// Routed IP behind LLC and SNAP (RFC 1209, RFC 1042).
const LLC_SNAP: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];

/// IP over AAL3/4 of its time: the MTU of SMDS (RFC 1209).
const MTU_BYTES: u64 = 9180;

/// The kernel of Ultrix 4.2a is a BSD of these years; the thesis does not say more.
const PERSONALITY: &str = "tahoe";

/// The machine that the costs of the kernel's calls were fitted on, with 20 MHz.
const FITTED_ON: &str = "sparcstation-1";
const FITTED_CYCLE_PS: u64 = 50_000;

/// Both buffers of the sockets: room for a datagram of 8 KB, as Ultrix had for NFS.
const BUFFER_BYTES: u32 = 16_384;

const PORT: u16 = 7;

pub(super) fn run(
    machine: &TurbochannelMachine,
    parameters: &AtmParameters,
    data: &[u8],
    calls: u64,
) -> Result<Totals, String> {
    let mut ends = [End::new(machine, parameters, 1)?, End::new(machine, parameters, 2)?];
    // The first datagram looks up routes.
    for from in [0, 1] {
        send(&mut ends, from, data)?;
    }
    ends.iter_mut().for_each(End::forget);
    let mut totals = Totals::default();
    for _ in 0..calls {
        let from_ps = ends[0].host.ps();
        for from in [0, 1] {
            totals.stages += send(&mut ends, from, data)?;
        }
        totals.elapsed_ps += ends[0].host.ps() - from_ps;
    }
    for end in &ends {
        totals.driver_ps += end.host.spent().total_ps - end.forgotten.driver_ps;
        totals.busy_ps += end.host.busy_ps() - end.forgotten.busy_ps;
        totals.moved_by_kernel += end.moved() - end.forgotten.moved;
        totals.mbufs += end.mbufs() - end.forgotten.mbufs;
        totals.packets += end.packets - end.forgotten.packets;
        totals.cells += end.cells - end.forgotten.cells;
        for (sum, ps) in totals.layers_ps.iter_mut().zip(end.layers_ps) {
            *sum += ps;
        }
    }
    totals.moved_by_driver = 4 * calls * data.len() as u64;
    Ok(totals)
}

/// One way of a call, from one program to the other.
fn send(ends: &mut [End; 2], from: usize, data: &[u8]) -> Result<Stages, String> {
    let [first, second] = ends;
    let (near, far) = if from == 0 { (first, second) } else { (second, first) };
    let called_ps = near.host.ps();
    let frames = near.send(data, far.address)?;
    let (driver_out_ps, written_ps) = (near.driver_out_ps, near.written_ps);
    let last_ps = frames.iter().flatten().map(|line| line.at_ns * 1000).max();
    let last_ps = last_ps.ok_or("a call sent no cell")?;
    let driver_in_ps = far.take(frames, last_ps, data)?;
    let done_ps = far.host.ps();
    Ok(Stages {
        kernel_out_ps: written_ps - called_ps - driver_out_ps,
        driver_out_ps,
        fibre_ps: last_ps - written_ps,
        driver_in_ps,
        kernel_in_ps: done_ps - last_ps - driver_in_ps,
    })
}

/// Counts at the end of the calls that are not measured.
#[derive(Debug, Clone, Copy, Default)]
struct Forgotten {
    driver_ps: u64,
    busy_ps: u64,
    moved: u64,
    mbufs: u64,
    packets: u64,
    cells: u64,
}

/// One machine, its kernel, and the process that calls or answers.
struct End {
    host: DecstationHost,
    stack: Stack,
    meter: Meter,
    receiver: Receiver,
    address: Ipv4Addr,
    socket: SocketId,
    switch_ns: u64,
    cpu_cycle_ps: u64,
    /// CPU time of the kernel by layer.
    layers_ps: [u64; Layer::ALL.len()],
    /// Time of the driver in the last call that sent.
    driver_out_ps: u64,
    /// When the driver had written the last word of that call.
    written_ps: u64,
    tag: u8,
    packets: u64,
    cells: u64,
    forgotten: Forgotten,
}

impl End {
    fn new(
        machine: &TurbochannelMachine,
        parameters: &AtmParameters,
        number: u8,
    ) -> Result<Self, String> {
        let percent = parameters.kernel_percent.unwrap_or(100);
        let (costs, switch_ns) = costs(machine, percent)?;
        let address = Ipv4Addr::new(198, 18, 0, number);
        let mtu = parameters.mtu_bytes.unwrap_or(MTU_BYTES) as u32;
        let config = StackConfig {
            interfaces: vec![InterfaceConfig::point_to_point("fa0", address, mtu)],
            ..StackConfig::default()
        };
        let personality = Personality::by_name(PERSONALITY).ok_or("no such personality")?;
        // The program has filled the mbufs, and the cache keeps what the processor writes.
        let host = DecstationHost::new(machine.clone(), DataFrom::Cache).map_err(bus)?;
        let mut stack = Stack::new(personality, config);
        let mut meter = Meter::new(costs);
        let socket = bound(&mut stack, &mut meter).map_err(|error| format!("{error:?}"))?;
        Ok(Self {
            host,
            stack,
            meter,
            receiver: Receiver::new(Format::Standard, Limits::default(), vec![CHANNEL]),
            address,
            socket,
            switch_ns,
            cpu_cycle_ps: machine.cpu.cycle_ps,
            layers_ps: [0; Layer::ALL.len()],
            driver_out_ps: 0,
            written_ps: 0,
            tag: 0,
            packets: 0,
            cells: 0,
            forgotten: Forgotten::default(),
        })
    }

    /// Measures begin here.
    fn forget(&mut self) {
        self.forgotten = Forgotten {
            driver_ps: self.host.spent().total_ps,
            busy_ps: self.host.busy_ps(),
            moved: self.moved(),
            mbufs: self.mbufs(),
            packets: self.packets,
            cells: self.cells,
        };
        self.layers_ps = [0; Layer::ALL.len()];
    }

    /// Octets of data moved between program and kernel.
    fn moved(&self) -> u64 {
        self.meter.work(Routine::Uiomove).bytes
    }

    fn mbufs(&self) -> u64 {
        self.meter.calls(Routine::MGet) + self.meter.calls(Routine::MgetMacro)
    }

    /// A step of the kernel: its time passes, layer by layer. Gives the result and its effects.
    fn step<R>(
        &mut self,
        act: impl FnOnce(&mut Stack, &mut Meter) -> R,
    ) -> (R, Vec<(u64, Effect)>) {
        let charged = |meter: &Meter| Routine::ALL.iter().map(|r| meter.charged_ns(*r)).collect();
        let before: Vec<u64> = charged(&self.meter);
        self.meter.begin();
        let result = act(&mut self.stack, &mut self.meter);
        let after: Vec<u64> = charged(&self.meter);
        let mut layers_ns = [0; Layer::ALL.len()];
        for (routine, (before, after)) in Routine::ALL.iter().zip(before.iter().zip(after)) {
            layers_ns[Layer::of(*routine) as usize] += after - before;
        }
        debug_assert_eq!(layers_ns.iter().sum::<u64>(), self.meter.elapsed_ns());
        for (layer, ns) in Layer::ALL.into_iter().zip(layers_ns) {
            self.work(layer, ns);
        }
        let mut effects = Vec::new();
        self.meter.take_effects(&mut effects);
        (result, effects)
    }

    /// The processor works in a layer, for whole cycles.
    fn work(&mut self, layer: Layer, ns: u64) {
        let cycles = (ns * 1000).div_ceil(self.cpu_cycle_ps);
        self.layers_ps[layer as usize] += self.host.other_work(cycles);
    }

    /// The program sends. Gives the cells of each frame, with their times at the other end.
    fn send(&mut self, data: &[u8], to: Ipv4Addr) -> Result<Vec<Vec<LineCell>>, String> {
        let to: Endpoint = (to, PORT);
        let mut call = SendCall::send_to(self.socket, data.len(), to);
        self.driver_out_ps = 0;
        let mut frames = Vec::new();
        loop {
            let (step, effects) = self.step(|stack, meter| call.step(stack, data, meter));
            for effect in effects {
                if let (_, Effect::Output { interface, packet }) = effect {
                    frames.push(self.output(interface, packet)?);
                }
            }
            match step {
                Step::Continue => {}
                Step::Done(Ok(_)) => break,
                step => return Err(format!("a call to send ended with {step:?}")),
            }
        }
        let mut lines = self.host.sent().into_iter();
        Ok(frames.into_iter().map(|cells| lines.by_ref().take(cells).collect()).collect())
    }

    /// A packet goes through the interface's queue to the driver, which writes it to the card. Gives its cells.
    fn output(&mut self, interface: u8, packet: Packet) -> Result<usize, String> {
        let mut frame = Frame::default();
        self.step(|stack, meter| {
            stack.interface_enqueue(interface, packet, meter);
            stack.interface_start(interface, &mut frame, meter);
        });
        self.tag = self.tag.wrapping_add(1);
        let mut octets = Vec::new();
        let payload = [&LLC_SNAP, frame.bytes.as_slice()].concat();
        cpcs::encode(&payload, self.tag, &mut octets).map_err(|error| error.to_string())?;
        let from_ps = self.host.ps();
        let cells = write_frame(&mut self.host, &octets, self.tag.into())?;
        self.written_ps = self.host.ps();
        self.driver_out_ps += self.written_ps - from_ps;
        self.packets += 1;
        self.cells += cells as u64;
        // The words are in the card: there is no interrupt to wait for.
        self.step(|stack, meter| stack.transmit_done(interface, meter));
        Ok(cells)
    }

    /// The frames arrive, and the program gets their data. Gives the driver's time after `last_ps`.
    fn take(
        &mut self,
        frames: Vec<Vec<LineCell>>,
        last_ps: u64,
        data: &[u8],
    ) -> Result<u64, String> {
        let mut call = ReceiveCall::receive_from(self.socket, data.len());
        let mut user = vec![0; data.len()];
        let mut driver_in_ps = 0;
        // The program has called before anything arrived, and sleeps.
        self.receive(&mut call, &mut user)?;
        for lines in frames {
            // The card interrupts at the last cell of a message.
            self.host.wait_until(lines.last().map_or(0, |line| line.at_ns));
            let from_ps = self.host.ps();
            let payloads = self.read_cells(lines)?;
            driver_in_ps += self.host.ps().saturating_sub(from_ps.max(last_ps));
            for payload in payloads {
                let packet = payload.strip_prefix(&LLC_SNAP).ok_or("a frame holds no IP packet")?;
                let frame = Frame::from(packet.to_vec());
                self.step(|stack, meter| stack.receive_frame(0, &frame, meter));
                while self.step(Stack::ip_input_step).0 {}
            }
        }
        // The reader was woken.
        self.work(Layer::Switch, self.switch_ns);
        let given = self.receive(&mut call, &mut user)?;
        if given != Some(data.len()) || user != data {
            return Err("data arrived damaged".to_owned());
        }
        Ok(driver_in_ps)
    }

    /// Reads cells from the card until none is left. Gives the payload of each frame.
    fn read_cells(&mut self, lines: Vec<LineCell>) -> Result<Vec<Vec<u8>>, String> {
        let (mut payloads, mut problem) = (Vec::new(), None);
        drain(&mut self.host, &mut self.receiver, lines, &mut |delivery| match delivery {
            Delivery::Message(_, frame) => match cpcs::decode(frame) {
                Ok(payload) => payloads.push(payload.to_vec()),
                Err(error) => problem = Some(error.to_string()),
            },
            _ => problem = Some("a frame was not whole".to_owned()),
        })?;
        // The interrupt returns when the last word is in memory.
        self.host.flush().map_err(bus)?;
        problem.map_or(Ok(payloads), Err)
    }

    /// Steps a call that receives until it sleeps or has data.
    fn receive(
        &mut self,
        call: &mut ReceiveCall,
        user: &mut [u8],
    ) -> Result<Option<usize>, String> {
        loop {
            match self.step(|stack, meter| call.step(stack, user, meter)).0 {
                Step::Continue => {}
                Step::Sleep(_) => return Ok(None),
                Step::Done(Ok(given)) => return Ok(Some(given as usize)),
                step => return Err(format!("a call to receive ended with {step:?}")),
            }
        }
    }
}

/// A socket of the kernel with room for the largest datagram.
fn bound(stack: &mut Stack, meter: &mut Meter) -> Result<SocketId, SocketError> {
    let socket = stack.socket(Protocol::Udp, meter)?;
    for option in [SetOption::SendBuffer(BUFFER_BYTES), SetOption::ReceiveBuffer(BUFFER_BYTES)] {
        stack.set_option(socket, option, meter)?;
    }
    stack.bind(socket, (Ipv4Addr::UNSPECIFIED, PORT), meter)?;
    meter.drain_effects();
    Ok(socket)
}

/// Costs of the kernel's routines, and of a switch to another process in nanoseconds.
fn costs(machine: &TurbochannelMachine, percent: u64) -> Result<(Costs, u64), String> {
    let fitted = Machine::by_name(FITTED_ON).ok_or("no machine with costs of its kernel")?;
    let [copy_ps, checksum_ps] = vmtp_pair::octet_ps(&machine.name)?;
    let cycles = |ns: u64| ns * machine.cpu.cycle_ps * percent / (100 * FITTED_CYCLE_PS);
    let scaled = |ns: u32| cycles(ns.into()) as u32;
    let mut costs = Costs::default();
    for routine in Routine::ALL.iter().copied() {
        let of = fitted.costs.of(routine);
        let byte_ps = match Layer::of(routine) {
            _ if of.byte_ps == 0 => 0,
            Layer::Checksum => checksum_ps,
            _ => copy_ps,
        };
        let call_ns = match routine {
            // Words go to the card one by one: no interrupt says that a frame has gone.
            Routine::Enxint => 0,
            // An interrupt and a short routine, as on the other machine after a frame has gone. Its receive interrupt
            // has a time that was fitted to its own device; here words are charged one by one.
            Routine::Enrint => fitted.costs.of(Routine::Enxint).call_ns,
            _ => of.call_ns,
        };
        let (call_ns, mbuf_ns, walk_ns) = (scaled(call_ns), scaled(of.mbuf_ns), scaled(of.walk_ns));
        costs.set(routine, Cost { call_ns, byte_ps: byte_ps as u32, mbuf_ns, walk_ns });
    }
    Ok((costs, cycles(fitted.cpu.switch_ns)))
}

/// Writes the cells of a frame as the thesis's driver writes those of a message: headers are made ready before, the
/// write buffer is flushed around them. Gives their number.
fn write_frame(host: &mut DecstationHost, frame: &[u8], message: u16) -> Result<usize, String> {
    let header = Header::of_channel(CHANNEL);
    let cells = Segmentation::new(frame, Format::Standard, &header, message)
        .map_err(|error| error.to_string())?;
    host.work(DriverWork::MessageSetup);
    for cell in cells.iter() {
        host.work(DriverWork::SequenceStep);
        write_cell(host, &words::of_cell(&cell), Loads::Data).map_err(bus)?;
    }
    Ok(cells.cells())
}

fn bus(error: BusError) -> String {
    error.to_string()
}
