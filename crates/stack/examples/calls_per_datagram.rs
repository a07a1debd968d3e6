//! Prints the number of calls of each routine by a host for one datagram, version by version.
//!
//! `cargo run --example calls_per_datagram -- 1024`

use std::net::Ipv4Addr;

use sockscope_record::Protocol;
use sockscope_stack::interface::{Frame, InterfaceConfig};
use sockscope_stack::{
    Effect, Meter, Personality, Routine, SendCall, SocketError, SocketId, Stack, StackConfig, Step,
};

const OWN: Ipv4Addr = Ipv4Addr::new(128, 32, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(128, 32, 0, 2);

fn main() -> Result<(), SocketError> {
    let asked = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let message_bytes = asked.unwrap_or(1024);
    let columns = Personality::ALL.map(|version| (version.name, calls(version, message_bytes)));
    print!("{message_bytes:<16}");
    columns.iter().for_each(|(name, _)| print!("{name:>14}"));
    println!();
    for routine in Routine::ALL {
        let row: Vec<_> = columns.iter().map(|(_, calls)| calls[routine.index()]).collect();
        if row.iter().any(|calls| *calls > 0) {
            print!("{:<16}", routine.name());
            row.iter().for_each(|calls| print!("{calls:>14}"));
            println!();
        }
    }
    Ok(())
}

/// Calls of each routine for one datagram, after a first one has filled the caches; no calls where
/// the version refuses the message.
fn calls(version: Personality, message_bytes: usize) -> Vec<u64> {
    let interfaces = vec![InterfaceConfig::ethernet3("en0", OWN)];
    let mut stack = Stack::new(version, StackConfig { interfaces, ..StackConfig::default() });
    let mut meter = Meter::default();
    let mut counts = || -> Result<Vec<u64>, SocketError> {
        let socket = stack.socket(Protocol::Udp, &mut meter)?;
        stack.bind(socket, (Ipv4Addr::UNSPECIFIED, 2000), &mut meter)?;
        send(&mut stack, socket, message_bytes, &mut meter)?;
        let before: Vec<_> = Routine::ALL.iter().map(|routine| meter.calls(*routine)).collect();
        send(&mut stack, socket, message_bytes, &mut meter)?;
        let after = Routine::ALL.iter().map(|routine| meter.calls(*routine));
        Ok(after.zip(before).map(|(after, before)| after - before).collect())
    };
    counts().unwrap_or_else(|_| vec![0; Routine::COUNT])
}

/// Sends one datagram and lets its frame go.
fn send(
    stack: &mut Stack,
    socket: SocketId,
    message_bytes: usize,
    meter: &mut Meter,
) -> Result<(), SocketError> {
    let user = vec![0; message_bytes];
    let mut call = SendCall::send_to(socket, message_bytes, (PEER, 9));
    loop {
        meter.begin();
        let step = call.step(stack, &user, meter);
        let mut effects = Vec::new();
        meter.take_effects(&mut effects);
        for (_, effect) in effects {
            if let Effect::Output { interface, packet } = effect {
                stack.interface_enqueue(interface, packet, meter);
                stack.interface_start(interface, &mut Frame::default(), meter);
                stack.transmit_done(interface, meter);
            }
        }
        if let Step::Done(result) = step {
            return result.map(drop);
        }
    }
}
