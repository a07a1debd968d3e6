//! The observations, as named numbers: the rows of Table 1 and the queues' lengths and delays.

use sockscope_experiment::measurement::Measure;
use sockscope_record::{Point, Stage};

use super::Observed;

/// The queues of the study with the names of their measures.
const QUEUES: [(Stage, &str, &str); 4] = [
    (Stage::SendQueue, "send_queue_delay_us", "send_queue_mean_bytes"),
    (Stage::InterfaceQueue, "interface_queue_delay_us", "interface_queue_mean_bytes"),
    (Stage::InputQueue, "ip_queue_delay_us", "ip_queue_mean_bytes"),
    (Stage::ReceiveQueue, "receive_queue_delay_us", "receive_queue_mean_bytes"),
];

impl Observed {
    /// All of them; a value that no packet shows is no number.
    pub fn measures(&self) -> Vec<Measure> {
        let mut measures = self.table_1().map(|(name, us)| Measure::new(name, us)).to_vec();
        let (from_ns, until_ns) = self.span_ns();
        for (stage, delay, length) in QUEUES {
            measures.push(Measure::new(delay, self.mean_delay_us(stage)));
            measures.push(Measure::new(length, self.mean_length(stage, from_ns, until_ns)));
        }
        measures.push(Measure::new("sender_idle_us", mean(&self.gaps_between_bursts_us())));
        measures.push(Measure::new("residue_bytes", self.residue_bytes() as f64));
        measures.extend(self.stage_measures());
        measures
    }

    /// Of a pipeline's stage: the time for which its processes have work for one piece, and the CPU
    /// waits of those that communicate.
    fn stage_measures(&self) -> Vec<Measure> {
        if self.measured.phases.is_empty() {
            return Vec::new();
        }
        let lengths = |name| {
            let phases = self.measured.phases.iter().filter(|phase| phase.process == name);
            phases.map(|phase| (phase.to_ns - phase.from_ns) as f64 / 1e3).collect::<Vec<_>>()
        };
        let communicate = ["stage-receive", "stage-send"];
        let waits = communicate.map(|name| self.activities.waits_ns(name)).concat();
        let waits: Vec<f64> = waits.iter().map(|&ns| ns as f64 / 1e3).collect();
        vec![
            Measure::new("stage_read_us", mean(&lengths("read"))),
            Measure::new("stage_compute_us", mean(&lengths("compute"))),
            Measure::new("stage_write_us", mean(&lengths("write"))),
            Measure::new("stage_cpu_wait_us", mean(&waits)),
        ]
    }

    /// The rows of Table 1 in microseconds, means of all packets: a write until the protocol has its
    /// data, from there to the interface queue, and so on. In bursts the sending protocol's time is the
    /// gap between two packets (§4.2.1). The receive socket's row has the copy for the reader, as the
    /// paper's; point 8 lies before it, so a copy is added at the machine's cost.
    pub fn table_1(&self) -> [(&'static str, f64); 7] {
        use Point::{
            InputDequeue, InputEnqueue, InterfaceDequeue, InterfaceEnqueue, ReceiveDequeue,
            ReceiveEnqueue, SendEnqueue,
        };
        let delay = |from, to| mean(&self.packet_delays_us(from, to));
        let gaps = self.gaps_in_bursts_us();
        let protocol =
            if gaps.is_empty() { delay(SendEnqueue, InterfaceEnqueue) } else { mean(&gaps) };
        [
            ("send_socket_us", mean(&self.delays_from_write_us(SendEnqueue))),
            ("send_protocol_us", protocol),
            ("interface_queue_us", delay(InterfaceEnqueue, InterfaceDequeue)),
            ("driver_and_wire_us", delay(InterfaceDequeue, InputEnqueue)),
            ("ip_queue_us", delay(InputEnqueue, InputDequeue)),
            // The wait for a retransmission of another packet is no time of the protocol.
            ("receive_protocol_us", mean(&self.in_order_delays_us(InputDequeue, ReceiveEnqueue))),
            ("receive_socket_us", delay(ReceiveEnqueue, ReceiveDequeue) + self.packet_copy_us()),
        ]
    }
}

impl Observed {
    /// Copying the data of a packet to the reader's memory, mean of all.
    fn packet_copy_us(&self) -> f64 {
        // The data of a packet may be read in parts.
        let packets = self.data(Point::ReceiveEnqueue);
        let bytes = mean(&packets.iter().map(|pass| f64::from(pass.len)).collect::<Vec<_>>());
        bytes * f64::from(self.copy_byte_ps) / 1e6
    }
}

/// Arithmetic mean; no number when there is nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
