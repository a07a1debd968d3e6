//! The protocols of whose connections a rule may speak.
//!
//! Records of Unix sockets have the kinds and points of a TCP stream. A rule that reasons about segments, windows
//! or acknowledgments would explain times there by causes that do not exist.

use sockscope_record::Protocol;

use crate::FindingId;

pub(super) fn may_speak(id: FindingId, protocol: Protocol) -> bool {
    use FindingId::*;
    match id {
        SlowReader | LateWakeup | StopAndWait | SlowService | UpstreamWait | NPlusOne
        | HeadOfLine | Unanswered => true,
        // In a datagram or a sequenced packet each write is a message.
        SplitMessage => protocol.is_stream(),
        InterfaceQueueLimited | BufferClipped => !protocol.is_unix(),
        SendBufferLimited => protocol != Protocol::Udp,
        UdpReceiveDrop | UdpRefused | UdpDropped => protocol == Protocol::Udp,
        NagleDelayedAck | SmallWrites | DelayedAckWait | Corked | ReceiveWindowLimited
        | CongestionLimited | Retransmission | BufferBelowBdp | AcceptQueueFull | SynDropped
        | ConnectionRefused | ResetUnread | ConnectionChurn | SmallReads | NetworkQueue
        | PacingLimited | MtuBlackhole | SillyWindow | AckStorm | BufferMismatch | SlowAccept
        | NoWindowScaling => protocol == Protocol::Tcp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules that may speak, each with its protocols; those of TCP alone are left out.
    #[test]
    fn each_rule_has_its_protocols() {
        let line = |id: FindingId| {
            let protocols = Protocol::ALL.into_iter().filter(|one| may_speak(id, *one));
            let names: Vec<_> = protocols.map(Protocol::name).collect();
            (names != ["tcp"]).then(|| format!("{}: {}", id.name(), names.join(", ")))
        };
        let lines: Vec<_> = FindingId::ALL.into_iter().filter_map(line).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        split-message: tcp, unix
        stop-and-wait: tcp, udp, unix, unix-datagram, unix-seqpacket
        send-buffer-limited: tcp, unix, unix-datagram, unix-seqpacket
        slow-reader: tcp, udp, unix, unix-datagram, unix-seqpacket
        late-wakeup: tcp, udp, unix, unix-datagram, unix-seqpacket
        interface-queue-limited: tcp, udp
        buffer-clipped: tcp, udp
        udp-receive-drop: udp
        slow-service: tcp, udp, unix, unix-datagram, unix-seqpacket
        upstream-wait: tcp, udp, unix, unix-datagram, unix-seqpacket
        n-plus-one: tcp, udp, unix, unix-datagram, unix-seqpacket
        head-of-line: tcp, udp, unix, unix-datagram, unix-seqpacket
        unanswered: tcp, udp, unix, unix-datagram, unix-seqpacket
        udp-refused: udp
        udp-dropped: udp
        ");
    }
}
