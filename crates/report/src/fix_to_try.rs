//! Which fix of a finding `sockscope try` can show, and which one `sockscope replay`.

use sockscope_analysis::{Finding, FindingId};
use sockscope_record::{Direction, Protocol, Side};

use crate::{Report, order};

/// A fix as `sockscope try` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixToTry {
    /// As `nodelay`.
    pub fix: &'static str,
    /// The end of the connection to change.
    pub side: Side,
}

/// The end to change, seen from the flow of the finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Sender,
    Receiver,
}

/// The findings whose fix is a socket option, the option, and whose socket has it.
const FIXES: [(FindingId, &str, End); 7] = [
    (FindingId::NagleDelayedAck, "nodelay", End::Sender),
    (FindingId::DelayedAckWait, "delack=8ms", End::Receiver),
    (FindingId::SendBufferLimited, "sndbuf=4M", End::Sender),
    (FindingId::ReceiveWindowLimited, "rcvbuf=4M", End::Receiver),
    (FindingId::CongestionLimited, "iw=40", End::Sender),
    (FindingId::NetworkQueue, "cc=bbr", End::Sender),
    (FindingId::PacingLimited, "pacing=10gbit", End::Sender),
];

/// The fix that `sockscope try` can show; `None` where another change is needed.
pub fn fix_to_try(finding: &Finding) -> Option<FixToTry> {
    let (_, fix, end) = FIXES.iter().find(|(id, ..)| *id == finding.id)?;
    let is_of_client = (finding.flow.direction() == Direction::FromClient) == (*end == End::Sender);
    Some(FixToTry { fix, side: if is_of_client { Side::Client } else { Side::Server } })
}

/// The findings whose fix is a change of the program that `sockscope replay` can make.
const CHANGES: [(FindingId, &str); 3] = [
    (FindingId::SplitMessage, "one-write"),
    (FindingId::SmallWrites, "write-bytes=65536"),
    (FindingId::SmallReads, "read-bytes=65536"),
];

/// The change that `sockscope replay` can show, as its option `--set` takes it.
pub fn change_to_replay(finding: &Finding) -> Option<&'static str> {
    CHANGES.iter().find(|(id, _)| *id == finding.id).map(|(_, change)| *change)
}

/// The command that shows it, as a user can paste it. Of Unix sockets neither command has a form.
pub fn fix_command(finding: &Finding, protocol: Protocol) -> Option<String> {
    if protocol.is_unix() {
        return None;
    }
    let trial = fix_to_try(finding).map(|one| format!("sockscope try {} -- CMD", one.fix));
    trial.or_else(|| {
        let (connection, change) = (finding.flow.connection().0, change_to_replay(finding)?);
        Some(format!("sockscope replay DIR --connection {connection} --set {change}"))
    })
}

/// The findings by rule, the one that costs most first: of each the occurrence that costs most.
pub fn findings_by_cost<'a>(report: &Report<'a>) -> Vec<&'a Finding> {
    order::finding_totals(report).into_iter().map(|total| total.worst).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::stall;

    #[test]
    fn a_fix_belongs_to_the_sender_or_the_receiver_of_the_flow() {
        let mut finding = stall().connections[0].findings[0].clone();
        assert_eq!(fix_to_try(&finding), Some(FixToTry { fix: "nodelay", side: Side::Client }));
        finding.id = FindingId::DelayedAckWait;
        assert_eq!(fix_to_try(&finding), Some(FixToTry { fix: "delack=8ms", side: Side::Server }));
        finding.id = FindingId::SplitMessage;
        assert_eq!(fix_to_try(&finding), None);
        assert_eq!(
            fix_command(&finding, Protocol::Tcp).unwrap(),
            "sockscope replay DIR --connection 1 --set one-write"
        );
        assert_eq!(fix_command(&finding, Protocol::Unix), None);
        finding.id = FindingId::SlowReader;
        assert_eq!(fix_command(&finding, Protocol::Tcp), None);
    }
}
