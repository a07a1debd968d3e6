//! Whether the two ends of connections ran on one CPU.
//!
//! A reader on the writer's CPU waits for it. A reader on another one runs at the same time, but that CPU may have to be
//! woken first. A call of microseconds differs by as much.

use std::collections::HashMap;
use std::path::Path;

use sockscope_analysis::CallCpus;
use sockscope_program::failure::Failure;
use sockscope_record::{ConnectionId, FlowId, Point, Record};
use sockscope_trace::Bundle;

/// Of these connections of a bundle the share of the reads on the CPU of the write of their last byte, and the CPUs of the
/// calls. The share is `None` without a read of which both are known.
pub fn of_calls(dir: &Path, ids: &[ConnectionId]) -> Result<(Option<f64>, CallCpus), Failure> {
    let (mut flows, mut cpus) = (Flows::default(), CallCpus::default());
    each_record(dir, |record| {
        if ids.contains(&record.flow.connection()) {
            flows.add(record);
            cpus.add(record);
        }
    })?;
    cpus.finish();
    Ok((flows.share(), cpus))
}

/// The share of the reads on the CPU of the write of their last byte, of all connections of a bundle. `None` without a read
/// of which both are known.
pub fn same_cpu(dir: &Path) -> Result<Option<f64>, Failure> {
    let mut flows = Flows::default();
    each_record(dir, |record| flows.add(record))?;
    Ok(flows.share())
}

fn each_record(dir: &Path, mut take: impl FnMut(&Record)) -> Result<(), Failure> {
    let bundle = Bundle::open(dir)?;
    let mut records = bundle.records()?;
    while let Some(batch) = records.next_batch()? {
        batch.iter().for_each(&mut take);
    }
    Ok(())
}

/// Of each flow the ends of the writes and of the reads, each with its CPU.
#[derive(Default)]
struct Flows(HashMap<FlowId, [Vec<(u64, u16)>; 2]>);

impl Flows {
    fn add(&mut self, record: &Record) {
        let place = match record.kind.point() {
            Some(Point::SendEnqueue) => 0,
            Some(Point::ReceiveDequeue) => 1,
            _ => return,
        };
        self.0.entry(record.flow).or_default()[place].push((record.end(), record.cpu));
    }

    fn share(self) -> Option<f64> {
        let (mut same, mut reads) = (0u64, 0u64);
        for [mut written, read] in self.0.into_values() {
            written.sort_unstable();
            for (end, cpu) in read {
                let of = written.partition_point(|(written, _)| *written < end);
                let Some((_, of_write)) = written.get(of) else { continue };
                reads += 1;
                same += u64::from(*of_write == cpu);
            }
        }
        (reads > 0).then(|| same as f64 / reads as f64)
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Direction, Kind};

    use super::*;

    #[test]
    fn a_read_is_compared_with_the_write_of_its_last_byte() {
        let mut flows = Flows::default();
        let mut add = |kind, offset, len, cpu| {
            let flow = ConnectionId(1).flow(Direction::FromClient);
            flows.add(&Record { kind, flow, offset, len, cpu, ..Record::default() });
        };
        add(Kind::SendEnqueue, 0, 100, 0);
        add(Kind::SendEnqueue, 100, 50, 1);
        add(Kind::ReceiveDequeue, 0, 120, 1);
        add(Kind::ReceiveDequeue, 120, 30, 0);
        add(Kind::SendEnqueue, 150, 9, 0);
        add(Kind::ReceiveDequeue, 150, 9, 0);
        add(Kind::ReceiveDequeue, 159, 9, 0);
        assert_eq!(flows.share(), Some(2.0 / 3.0));
        assert_eq!(Flows::default().share(), None);
    }
}
