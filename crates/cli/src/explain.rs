//! `sockscope explain`: the pages of the findings, which come with the program.

use sockscope_analysis::FindingId;
use sockscope_program::failure::Failure;
use sockscope_program::output::write_to;

use crate::args;

/// The pages, by the name of the finding.
macro_rules! pages {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../../docs/findings/", $name, ".md")))),*]
    };
}

const PAGES: &[(&str, &str)] = pages![
    "accept-queue-full",
    "ack-storm",
    "buffer-below-bdp",
    "buffer-clipped",
    "buffer-mismatch",
    "congestion-limited",
    "connection-churn",
    "connection-refused",
    "corked",
    "delayed-ack-wait",
    "head-of-line",
    "interface-queue-limited",
    "late-wakeup",
    "mtu-blackhole",
    "n-plus-one",
    "nagle-delayed-ack",
    "network-queue",
    "no-window-scaling",
    "pacing-limited",
    "receive-window-limited",
    "reset-unread",
    "retransmission",
    "send-buffer-limited",
    "silly-window",
    "slow-accept",
    "slow-reader",
    "slow-service",
    "small-reads",
    "small-writes",
    "split-message",
    "stop-and-wait",
    "syn-dropped",
    "udp-dropped",
    "udp-receive-drop",
    "udp-refused",
    "unanswered",
    "upstream-wait",
];

/// `sockscope explain`.
pub fn explain(arguments: &args::Explain) -> Result<(), Failure> {
    let text = match arguments.finding {
        Some(finding) => page(finding).unwrap_or_default().to_owned(),
        None => FindingId::ALL.map(|finding| format!("{}\n", finding.name())).concat(),
    };
    write_to("-".as_ref(), |out| out.write_all(text.as_bytes()))
}

fn page(finding: FindingId) -> Option<&'static str> {
    let found = PAGES.iter().find(|(name, _)| *name == finding.name());
    found.map(|(_, page)| *page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_has_its_page() {
        for finding in FindingId::ALL {
            let page = page(finding).unwrap_or_else(|| panic!("no page of {}", finding.name()));
            assert!(page.starts_with(&format!("# {}\n", finding.name())), "{}", finding.name());
        }
        assert_eq!(PAGES.len(), FindingId::ALL.len());
    }
}
