//! Records of a logged connection.

use sockscope_record::{FlowId, Hold, Kind, Record, RetransmitClass, marks};

use super::Script;
use crate::socket::SetOption;

/// Two hosts whose client's socket is logged as flow 2, connected.
fn logged(name: &str) -> Script {
    let mut script = Script::pair(name);
    script.begin("c socket");
    script.set(0, SetOption::Log(FlowId(2)));
    for line in ["s listen", "c connect", "s accept"] {
        script.begin(line);
    }
    script
}

/// The records of some kinds as `flow:kind offset+len code`.
fn shown(script: &Script, kinds: &[Kind]) -> Vec<String> {
    let picked = script.pair.records.iter().map(|(_, record)| record);
    let picked = picked.filter(|record| kinds.contains(&record.kind));
    let show = |record: &Record| {
        let Record { flow, kind, offset, len, code, .. } = record;
        format!("{flow}:{} {offset}+{len} {code}", kind.name())
    };
    picked.map(show).collect()
}

const STREAM: [Kind; 3] = [Kind::SendEnqueue, Kind::SendDequeue, Kind::ReceiveEnqueue];

#[test]
fn bytes_pass_the_points_of_both_sockets() {
    let mut script = logged("sunos-4.1");
    script.begin("c write 2000");
    script.begin("s read 4000");
    assert_eq!(
        shown(&script, &STREAM),
        [
            "2:SendEnqueue 0+2000 0",
            "2:SendDequeue 0+1460 0",
            "2:SendDequeue 1460+540 0",
            "2:ReceiveEnqueue 0+1460 0",
            "2:ReceiveEnqueue 1460+540 0",
        ]
    );
    script.pair.records.clear();
    script.begin("c write 10");
    script.begin("c write 10");
    let held = format!("2:SendEnqueue 2010+10 {}", Hold::Nagle as u8);
    assert!(shown(&script, &STREAM).contains(&held), "{:?}", shown(&script, &STREAM));
}

#[test]
fn the_mark_of_a_syn_makes_the_accepted_socket_a_logged_one() {
    let mut script = logged("tahoe");
    script.begin("s write 100");
    let shown = shown(&script, &STREAM);
    assert_eq!(shown[..2], ["3:SendEnqueue 0+100 0", "3:SendDequeue 0+100 0"]);
    assert!(shown.contains(&"3:ReceiveEnqueue 0+100 0".to_owned()));
}

#[test]
fn a_full_window_says_what_holds_the_rest() {
    let mut script = Script::pair("sunos-4.1");
    for line in ["c socket", "c buffers 8192"] {
        script.begin(line);
    }
    script.set(0, SetOption::Log(FlowId(2)));
    for line in ["s listen", "c connect", "s accept", "c hold", "c write 6000", "c write 100"] {
        script.begin(line);
    }
    let closed = Hold::Rwnd as u8;
    let all = shown(&script, &STREAM);
    assert_eq!(
        all[all.len() - 2..],
        [format!("2:SendDequeue 1460+1460 {closed}"), format!("2:SendEnqueue 6000+100 {closed}")]
    );
    let mut script = logged("sunos-4.0.3");
    script.begin("c hold");
    script.begin("c write 3000");
    let all = shown(&script, &[Kind::SendDequeue]);
    assert_eq!(all, [format!("2:SendDequeue 0+1024 {}", Hold::Cwnd as u8)]);
}

#[test]
fn states_are_told_in_the_numbers_of_linux() {
    let mut script = logged("tahoe");
    for line in ["c close", "s close"] {
        script.begin(line);
    }
    let codes = |flow| {
        let changes = script.pair.records.iter().map(|(_, record)| record);
        let changes = changes.filter(|it| it.kind == Kind::StateChange && it.flow == FlowId(flow));
        changes.map(|record| (record.extra, record.code)).collect::<Vec<_>>()
    };
    assert_eq!(codes(2), [(7, 2), (2, 1), (1, 4), (4, 5), (5, 6)]);
    assert_eq!(codes(3), [(7, 3), (3, 1), (1, 8), (8, 9), (9, 7)]);
}

#[test]
fn segments_sent_again_are_marked_and_classed() {
    let mut script = logged("tahoe");
    for line in ["c hold", "c write 1024", "c lose", "c release", "9.000 s read 2000"] {
        script.begin(line);
    }
    let class = |class: RetransmitClass| class as u8;
    assert_eq!(
        shown(&script, &[Kind::Retransmit]),
        [format!("2:Retransmit 0+1024 {}", class(RetransmitClass::Timeout))]
    );
    let again: Vec<u8> = script
        .pair
        .records
        .iter()
        .filter(|(_, record)| record.kind == Kind::SendDequeue)
        .map(|(_, record)| record.marks)
        .collect();
    assert_eq!(again, [0, marks::RETRANSMITTED]);
    let mut script = Script::pair("tahoe");
    script.begin("c socket");
    script.set(0, SetOption::Log(FlowId(2)));
    for line in ["s listen", "c hold", "c connect", "c lose", "c release", "9.000 s accept"] {
        script.begin(line);
    }
    let handshake = format!("2:Retransmit 0+0 {}", class(RetransmitClass::Handshake));
    assert_eq!(shown(&script, &[Kind::Retransmit]), [handshake]);
}

#[test]
fn windows_are_told_when_they_change() {
    let mut script = logged("sunos-4.0.3");
    script.begin("c write 3000");
    script.begin("s read 4000");
    let told = |kind| {
        let records = script.pair.records.iter().map(|(_, record)| record);
        let records = records.filter(move |it| it.kind == kind && it.flow == FlowId(2));
        records.map(|record| (record.offset, record.detail, record.extra)).collect::<Vec<_>>()
    };
    let windows = told(Kind::SendWindow);
    assert_eq!(windows.first(), Some(&(0, 4096, 1024)));
    let first = told(Kind::TcpState)[0];
    assert_eq!((first.1 as u32, first.1 >> 32), (1, 65_535 / 1024));
}

#[test]
fn nothing_is_said_of_a_connection_that_is_not_logged() {
    let mut script = Script::pair("reno");
    for line in ["s listen", "c connect", "s accept", "c write 3000", "s read 3000", "c close"] {
        script.begin(line);
    }
    assert!(script.pair.records.is_empty());
}

/// The ends that do not scale their windows, as `host flow reason`.
fn unscaled(knows: [bool; 2], buffers: u32) -> Vec<String> {
    let mut script = Script::pair("reno+window_scaling");
    for (host, knows) in script.pair.hosts.iter_mut().zip(knows) {
        host.stack.personality.tcp.options.window_scaling = knows;
    }
    script.begin("c socket");
    script.begin(&format!("c buffers {buffers}"));
    script.set(0, SetOption::Log(FlowId(2)));
    script.begin("s listen");
    script.listen_with(1, buffers);
    script.begin("c connect");
    let records = script.pair.records.iter();
    let of_scale = records
        .filter_map(|(host, record)| Some((host, record.flow, record.window_scale()?)))
        .map(|(host, flow, scale)| format!("{} {flow} {scale:?}", ["c", "s"][*host]));
    of_scale.collect()
}

/// As the live recorder has it, but that a host which does not know the option notes it only where the peer does.
#[test]
fn an_end_without_scaled_windows_is_noted_where_one_end_knows_the_option() {
    assert_eq!(unscaled([true; 2], 262_144), [""; 0]);
    assert_eq!(unscaled([false; 2], 262_144), [""; 0], "the systems of the time have no option");
    let both = unscaled([true; 2], 4096);
    let expected = ["c 2 Unshifted", "c 3 Unshifted", "s 3 Unshifted", "s 2 Unshifted"];
    assert_eq!(both, expected);
    assert_eq!(unscaled([true, false], 262_144), ["c 3 NotReceived", "s 3 NotOffered"]);
    assert_eq!(unscaled([false, true], 262_144), ["s 2 NotReceived"]);
}
