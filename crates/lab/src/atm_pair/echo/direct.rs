//! Calls by the thesis's driver: the program writes and reads the card itself, and polls.

use sockscope_atm::driver::Delivery;
use sockscope_experiment::{AtmParameters, LossPolicy, VMTP_HEADER_BYTES};
use sockscope_sim::turbochannel::TurbochannelMachine;

use super::super::loss::End;
use super::super::send::FORMAT;
use super::totals::{Stages, Totals};

/// Data of a packet at most, as in VMTP over this driver.
const PACKET_DATA_BYTES: usize = 1024;

pub(super) fn run(
    machine: &TurbochannelMachine,
    parameters: &AtmParameters,
    data: &[u8],
    calls: u64,
) -> Result<Totals, String> {
    let end = || End::new(machine, parameters, LossPolicy::Discard);
    let mut ends = [end()?, end()?];
    let mut totals = Totals::default();
    let mut number = 0;
    for _ in 0..calls {
        let from_ps = ends[0].host.ps();
        for from in [0, 1] {
            send(&mut ends, from, data, &mut number, &mut totals)?;
        }
        totals.elapsed_ps += ends[0].host.ps() - from_ps;
    }
    totals.driver_ps = ends.iter().map(|end| end.host.spent().total_ps).sum();
    totals.busy_ps = ends.iter().map(|end| end.host.busy_ps()).sum();
    Ok(totals)
}

/// One way of a call.
fn send(
    ends: &mut [End; 2],
    from: usize,
    data: &[u8],
    number: &mut u16,
    totals: &mut Totals,
) -> Result<(), String> {
    let [first, second] = ends;
    let (near, far) = if from == 0 { (first, second) } else { (second, first) };
    let header = [0; VMTP_HEADER_BYTES as usize];
    let called_ps = near.host.ps();
    // A call without data is a header.
    for data in data.chunks(PACKET_DATA_BYTES).chain(data.is_empty().then_some(&[][..])) {
        near.send_packet(*number, &[&header, data].concat())?;
        *number = (*number + 1) % FORMAT.message_ids() as u16;
        totals.packets += 1;
    }
    let written_ps = near.host.ps();
    let arriving = near.sent();
    totals.cells += arriving.len() as u64;
    let last_ps = arriving.last().map_or(written_ps, |line| line.at_ns * 1000);
    let mut taken = Vec::new();
    far.drain(arriving, &mut |delivery| {
        if let Delivery::Message(_, octets) = delivery {
            taken.extend_from_slice(&octets[header.len()..]);
        }
    })?;
    if taken != data {
        return Err("data arrived damaged".to_owned());
    }
    let done_ps = far.host.ps();
    totals.stages += Stages {
        driver_out_ps: written_ps - called_ps,
        fibre_ps: last_ps - written_ps,
        driver_in_ps: done_ps - last_ps,
        ..Stages::default()
    };
    totals.moved_by_driver += 2 * data.len() as u64;
    Ok(())
}
