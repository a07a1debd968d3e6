//! Figures that a Unix socket has no records for: one sentence in the place of empty panels.

use super::figure_page;
use super::options::Figure;
use super::scene::Scene;

/// The title of a figure, and the reason why a Unix socket has no such figure.
pub(super) type Without = (&'static str, &'static str);

/// `None` for the figures that Unix sockets have.
pub(super) fn without(figure: Figure) -> Option<Without> {
    match figure {
        Figure::PacketTrace => Some(("Packet trace", "a Unix socket has no packets")),
        Figure::ProtocolDelay => {
            Some(("Protocol delay", "a Unix socket has no protocol between write and read"))
        }
        Figure::Acks => {
            Some(("Receive queue and acknowledgments", "a Unix socket has no acknowledgments"))
        }
        Figure::Layers => {
            Some(("Through the layers", "a Unix socket has no layers below the socket"))
        }
        Figure::QueueLength
        | Figure::QueueDelay
        | Figure::TimeSequence
        | Figure::Sequence
        | Figure::Ledger => None,
    }
}

pub(super) fn draw(scene: &Scene<'_>, (title, reason): Without) -> String {
    let mut page = figure_page::open(scene, title, &[]);
    page.empty(page.content(), reason);
    page.note(
        "queue-length, queue-delay, sequence, time-sequence and ledger have its bytes".into(),
    );
    page.finish()
}
