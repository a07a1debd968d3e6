//! The panels of figures of queues: the queues of a flow, and between them its hops.
//!
//! The hops divide the wire: they stand between the interface queue and the input queue.

use sockscope_analysis::{Residence, hop_paths};
use sockscope_record::Stage;
use sockscope_render::number::counted;
use sockscope_render::page::Page;
use sockscope_render::style::printable;

use super::scene::Scene;

/// The queues among the stages, in path order.
pub(super) const QUEUES: [Stage; 4] =
    [Stage::SendQueue, Stage::InterfaceQueue, Stage::InputQueue, Stage::ReceiveQueue];

/// The queues of the connection. A Unix socket puts its bytes into the receive queue of its peer.
fn queues(scene: &Scene<'_>) -> &'static [Stage] {
    if scene.is_unix() { &QUEUES[3..] } else { &QUEUES }
}

/// Panels of hops at most: with more the panels are too flat.
const HOP_PANELS_MAX: usize = 4;

/// One panel: a queue among the stages, or a part of the wire.
pub(super) struct Place {
    /// Whose colour it has.
    pub(super) stage: Stage,
    /// The words of a hop, and the waits there.
    pub(super) hop: Option<(String, Vec<Residence>)>,
}

/// The panels in path order. Hops whose bytes waited longest go before others where there are many.
pub(super) fn places(scene: &Scene<'_>, page: &mut Page) -> Vec<Place> {
    let mut of_hops = Vec::new();
    for hop in hop_paths(scene.flow(), scene.options.network_namespaces) {
        let device = printable(&hop.device.placed());
        let by = hop.arrived_by.map(|by| printable(&by.shown())).unwrap_or_default();
        let transit = (Stage::Wire, format!("transit from {by} to {device}"), hop.transit);
        let queue = (Stage::InterfaceQueue, format!("queue of {device}"), hop.queue);
        of_hops.extend([transit, queue].into_iter().filter(|(.., waits)| !waits.is_empty()));
    }
    let time_of = |waits: &[Residence]| {
        waits.iter().fold(0_u64, |sum, wait| sum.saturating_add(wait.delay_ns()))
    };
    let mut times: Vec<_> = of_hops.iter().map(|(.., waits)| time_of(waits)).collect();
    times.sort_unstable_by(|one, other| other.cmp(one));
    if let Some(least) = times.get(HOP_PANELS_MAX - 1) {
        of_hops.retain(|(.., waits)| time_of(waits) >= *least);
        of_hops.truncate(HOP_PANELS_MAX);
    }
    let without = times.len() - of_hops.len();
    if without > 0 {
        page.note(format!(
            "{} of hops with shorter waits left out",
            counted(without as u64, "place")
        ));
    }
    let queue = |stage| Place { stage, hop: None };
    let hops =
        of_hops.into_iter().map(|(stage, words, waits)| Place { stage, hop: Some((words, waits)) });
    let (before, behind) =
        queues(scene).iter().partition::<Vec<Stage>, _>(|stage| **stage < Stage::Wire);
    before.into_iter().map(queue).chain(hops).chain(behind.into_iter().map(queue)).collect()
}
