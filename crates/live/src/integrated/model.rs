//! Both forms on a machine of the papers: what was counted, at what its routines cost.
//!
//! Each form carries a real call there and back; its passes are counted where they happen, and each is
//! charged the routines of the kernel that make it, from the machine's cost table. Counted is the CPU of
//! both ends. Left out are the wire, acknowledgments, changes of process, and costs for each mbuf.
//!
//! What one loop that copies and sums costs, no table says: at least a copy (the addition hides behind
//! memory), at most a copy and a sum (nothing is gained but a loop). Both bounds are given.

use sockscope_sim::Machine;
use sockscope_stack::{Costs, Routine};

use super::form::{DATA_BYTES_MAX, Form, Integrated, Layered, Wire};
use super::measure::sizes;
use super::work::{Pass, PassCount, Work};

/// What is to be modelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPlan {
    /// Name of a machine.
    pub machine: String,
    /// Bytes of data, 1 MiB at most.
    pub data_bytes: Vec<usize>,
}

impl Default for ModelPlan {
    fn default() -> Self {
        Self {
            machine: "sparcstation-1".to_owned(),
            data_bytes: vec![64, 1024, 4000, 4800, 16 << 10, 64 << 10, 1 << 20],
        }
    }
}

impl ModelPlan {
    /// Replaces a part: `machine=sparcstation-2`, `data_bytes=64,4800`.
    ///
    /// # Errors
    ///
    /// When there is no such part, or the value has no sense for it; says what was expected.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        match text.split_once('=') {
            Some(("machine", name)) => name.clone_into(&mut self.machine),
            Some(("data_bytes", list)) => {
                let refused = |expected| format!("--set {text}: expected {expected}");
                self.data_bytes = sizes(list).map_err(refused)?;
            }
            _ => return Err(format!("--set {text}: expected machine=NAME or data_bytes=N,N")),
        }
        Ok(())
    }
}

/// One form at one size, an echo call there and back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRow {
    /// Bytes of data.
    pub data_bytes: usize,
    /// Which form.
    pub form: &'static str,
    /// What was counted.
    pub work: Work,
    /// Segments on the wire, both ways.
    pub segments: usize,
    /// CPU time of both ends, when a loop that copies and sums costs a copy.
    pub cpu_ns_min: u64,
    /// The same, when it costs a copy and a sum.
    pub cpu_ns_max: u64,
}

/// What a model gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modelled {
    /// Name of the machine.
    pub machine: String,
    /// By size, then form: layered, integrated.
    pub rows: Vec<ModelRow>,
}

/// Carries calls by both forms and says what they cost on the machine.
///
/// # Errors
///
/// When there is no such machine.
pub fn model(plan: &ModelPlan) -> Result<Modelled, String> {
    let machine = Machine::by_name(&plan.machine).ok_or_else(|| {
        let names: Vec<_> = Machine::names().collect();
        format!("no machine `{}`: expected {}", plan.machine, names.join(", "))
    })?;
    let rows = plan.data_bytes.iter().flat_map(|&bytes| {
        let forms: [Box<dyn Form>; 2] =
            [Box::new(Layered::default()), Box::new(Integrated::default())];
        forms.map(|mut form| row(form.as_mut(), bytes, &machine.costs))
    });
    Ok(Modelled { machine: machine.name, rows: rows.collect() })
}

fn row(form: &mut dyn Form, data_bytes: usize, costs: &Costs) -> ModelRow {
    let data_bytes = data_bytes.min(DATA_BYTES_MAX);
    let data: Vec<u8> = (0..data_bytes).map(|at| (at % 251) as u8).collect();
    let (mut wire, mut got, mut segments) = (Wire::default(), Vec::new(), 0);
    for _ in 0..2 {
        form.send(&data, &mut wire);
        segments += wire.segments().count();
        let came = form.receive(&wire, &mut got);
        assert!(came.is_ok() && got == data, "nothing damages this wire");
    }
    let work = form.take_work();
    let of_all = |cost: fn(&Costs, Pass, PassCount) -> u64| {
        Pass::ALL.into_iter().map(|pass| cost(costs, pass, work.of(pass))).sum::<u64>()
    };
    let cpu_ns_min = of_all(cost_ns);
    let cpu_ns_max = cpu_ns_min + of_all(addition_ns);
    ModelRow { data_bytes, form: form.name(), work, segments, cpu_ns_min, cpu_ns_max }
}

/// Routines that a pass enters, each once.
fn routines(pass: Pass) -> &'static [Routine] {
    use Routine::*;
    match pass {
        // Within the program.
        Pass::Encode | Pass::Decode => &[],
        Pass::Write => &[
            Syscall, Write, Getf, Rwuio, Useracc, SooRw, Sosend, Uiomove, Copyin, TcpUsrreq,
            Sbappend,
        ],
        Pass::Read => &[Syscall, Read, Getf, Rwuio, Useracc, SooRw, Soreceive, Uiomove, Copyout],
        // IP sums its header by `in_cksum`, whoever sums the data.
        Pass::Segment => &[TcpOutput, MCopy, IpOutput, InCksum, Enoutput, Enstart],
        Pass::Send => &[TcpOutput, IpOutput, InCksum, Enoutput, Enstart],
        Pass::Sum => &[TcpCksum],
        Pass::Verify => &[Enrint, Ipintr, InCksum, InPcblookup, TcpInput, TcpCksum],
        Pass::Receive => &[Enrint, Ipintr, InCksum, InPcblookup, TcpInput],
        Pass::Queue => &[IfRubaget, Sbappend, Sorwakeup],
        Pass::Hand => &[Syscall],
    }
}

/// The routine whose cost of a byte is that of the pass.
fn mover(pass: Pass) -> Option<Routine> {
    match pass {
        // A program copies within its memory no faster than the kernel to it and from it.
        Pass::Encode | Pass::Write => Some(Routine::Copyin),
        Pass::Decode | Pass::Read | Pass::Receive => Some(Routine::Copyout),
        Pass::Segment | Pass::Send => Some(Routine::MCopy),
        Pass::Sum | Pass::Verify => Some(Routine::TcpCksum),
        // 0 where the device writes to memory by itself.
        Pass::Queue => Some(Routine::IfRubaget),
        Pass::Hand => None,
    }
}

fn cost_ns(costs: &Costs, pass: Pass, count: PassCount) -> u64 {
    let calls_ns: u64 =
        routines(pass).iter().map(|routine| u64::from(costs.of(*routine).call_ns)).sum();
    count.passes * calls_ns + mover(pass).map_or(0, |routine| bytes_ns(costs, routine, count))
}

/// What summing adds to a copy at most.
fn addition_ns(costs: &Costs, pass: Pass, count: PassCount) -> u64 {
    if pass.is_fused() { bytes_ns(costs, Routine::TcpCksum, count) } else { 0 }
}

/// Bytes are at most 8 MiB a call, picoseconds at most 2^32.
fn bytes_ns(costs: &Costs, routine: Routine, count: PassCount) -> u64 {
    count.bytes * u64::from(costs.of(routine).byte_ps) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(machine: &str, data_bytes: usize) -> [ModelRow; 2] {
        let plan = ModelPlan { machine: machine.to_owned(), data_bytes: vec![data_bytes] };
        model(&plan).unwrap().rows.try_into().unwrap()
    }

    #[test]
    fn counts_of_a_long_call_are_the_touches_that_the_forms_state() {
        let [layered, integrated] = rows("sparcstation-1", DATA_BYTES_MAX);
        let forms: [&dyn Form; 2] = [&Layered::default(), &Integrated::default()];
        for (row, form) in [layered, integrated].iter().zip(forms) {
            let per_byte = |bytes: u64| bytes as f64 / (2 * DATA_BYTES_MAX) as f64;
            let touches = form.touches();
            assert!((per_byte(row.work.read_bytes()) - f64::from(touches.reads)).abs() < 0.01);
            assert!((per_byte(row.work.written_bytes()) - f64::from(touches.writes)).abs() < 0.01);
        }
    }

    #[test]
    fn a_call_of_4800_octets_crosses_the_stub_in_two_buffers_and_the_path_in_none() {
        let [layered, integrated] = rows("sparcstation-1", 4800);
        let passes = |row: &ModelRow, pass| row.work.of(pass).passes;
        assert_eq!((passes(&layered, Pass::Write), passes(&layered, Pass::Segment)), (4, 8));
        assert_eq!(layered.work.of(Pass::Write).bytes, 2 * (4800 + 44 + 8));
        assert_eq!(layered.work.of(Pass::Verify).bytes, 2 * 4852);
        assert_eq!((passes(&integrated, Pass::Hand), passes(&integrated, Pass::Send)), (4, 8));
        assert_eq!(integrated.work.of(Pass::Receive).bytes, 2 * (4800 + 44));
        assert_eq!((layered.segments, integrated.segments), (8, 8));
    }

    #[test]
    fn one_path_is_cheaper_by_what_it_leaves_out() {
        let [layered, integrated] = rows("sparcstation-1", 4800);
        assert_eq!(layered.cpu_ns_min, layered.cpu_ns_max);
        // A sum of a byte costs 63.476 ns.
        let added = integrated.cpu_ns_max - integrated.cpu_ns_min;
        assert!(added.abs_diff(4 * 4844 * 63_476 / 1000) < 3, "{added}");
        assert!(integrated.cpu_ns_max < layered.cpu_ns_min);
    }

    #[test]
    fn where_nothing_costs_time_both_take_none() {
        assert!(rows("instant", 100).iter().all(|row| row.cpu_ns_max == 0));
    }

    #[test]
    fn what_has_no_sense_is_refused_in_one_line() {
        let refused = |text: &str| ModelPlan::default().set(text).unwrap_err();
        assert!(refused("machines=vax").ends_with("expected machine=NAME or data_bytes=N,N"));
        assert!(refused("data_bytes=1048577").contains("numbers up to 1048576"));
        let plan = ModelPlan { machine: "pdp-11".into(), data_bytes: vec![] };
        assert!(model(&plan).unwrap_err().starts_with("no machine `pdp-11`: expected vax-11-750"));
        let mut plan = ModelPlan::default();
        plan.set("machine=vax-11-750").unwrap();
        plan.set("data_bytes=1,2").unwrap();
        assert_eq!((plan.machine.as_str(), &plan.data_bytes[..]), ("vax-11-750", &[1, 2][..]));
    }
}
