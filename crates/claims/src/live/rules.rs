//! The rules, as data, and the claims that no run here tells.
//!
//! Ranges are wide where the paper has a shape, and near its number where it has one. The machine of today is faster
//! than the line of 10 Mbit/s: claims on the CPU are judged over loopback, and the run says so.

use super::reading::Reading::{
    self, AcksPerWindow, Best, Dip, Gain, Line, Period, Ratio, Ratios, Share, Value,
};
use super::rule::{Rule, Run};

const MOST: f64 = f64::INFINITY;
const NONE: (f64, f64) = (f64::NAN, f64::NAN);
/// The claims on VMTP are about no other protocol.
const VMTP: &[&str] = &["protocol=vmtp"];

const fn run(id: &'static str) -> Run {
    Run { id, sets: &[] }
}

static SI_1A: Run = run("si-1a");
static SI_1B: Run = run("si-1b");
static SI_1C: Run = Run { id: "si-1c", sets: &["topology=loopback", "total_bytes=67108864"] };
static SI_2A: Run = run("si-2a");
static SI_3B: Run = run("si-3b");
static SI_4A: Run = Run { id: "si-4a", sets: &["topology=loopback", "total_bytes=67108864"] };
static SI_4B: Run = Run { id: "si-4b", sets: &["topology=loopback", "total_bytes=33554432"] };
static SI_4C: Run = run("si-4c");
static BB_1: Run = Run { id: "bb-1", sets: &["topology=loopback", "messages=5000"] };
static BB_2: Run = Run { id: "bb-2", sets: &["topology=loopback", "messages=5000"] };
static BB_3: Run = Run { id: "bb-3", sets: &["socket_buffer_bytes=2048"] };
static PC_2: Run = run("pc-2");
static PC_3: Run = Run { id: "pc-3", sets: VMTP };
static PC_4: Run = Run { id: "pc-4", sets: VMTP };
static PC_5: Run = Run { id: "pc-5", sets: VMTP };
static PC_6: Run = Run { id: "pc-6", sets: VMTP };
static PC_6B: Run = Run { id: "pc-6b", sets: VMTP };
static LH_3: Run = run("lh-3");
static LH_6: Run = run("lh-6");
static LH_7: Run = Run { id: "lh-7", sets: &["data_bytes=4800"] };

const fn rule(
    id: &'static str,
    run: &'static Run,
    reading: Reading,
    holds: (f64, f64),
    changed: (f64, f64),
) -> Rule {
    Rule { id, run, reading, holds, changed }
}

const THROUGHPUT: &str = "throughput_bits_per_s";
const BUFFER: &str = "socket_buffer_bytes";

/// One for each claim that a run tells.
pub(super) static RULES: &[Rule] = &[
    rule("sunos-ipc/2.4-a", &SI_2A, Value { y: "points_seen", of: &[] }, (8.0, 8.0), (1.0, 7.0)),
    rule("sunos-ipc/3.3-a", &SI_2A, Value { y: "points_seen", of: &[] }, (8.0, 8.0), (1.0, 7.0)),
    rule(
        "sunos-ipc/3.3-b",
        &SI_2A,
        Value { y: "data_bytes_back", of: &[] },
        (0.0, 0.0),
        (1.0, MOST),
    ),
    rule(
        "sunos-ipc/4.1.1-a",
        &SI_1A,
        Ratio {
            y: THROUGHPUT,
            of: &[("topology", "pair"), (BUFFER, "52224")],
            to: &[("topology", "pair"), (BUFFER, "4096")],
        },
        (1.2, MOST),
        (0.9, 1.2),
    ),
    rule(
        "sunos-ipc/4.1.1-b",
        &SI_1A,
        Gain { y: THROUGHPUT, x: BUFFER, at: 16384.0, of: &[("topology", "pair")] },
        (0.5, MOST),
        (0.01, 0.5),
    ),
    rule(
        "sunos-ipc/4.1.1-e",
        &SI_1B,
        Ratio { y: "acks", of: &[(BUFFER, "4096")], to: &[(BUFFER, "52224")] },
        (1.6, 2.4),
        (1.1, MOST),
    ),
    rule("sunos-ipc/4.1.1-f", &SI_1B, AcksPerWindow, (1.0, MOST), (0.1, 1.0)),
    rule(
        "sunos-ipc/4.1.1-h",
        &SI_1A,
        Dip { y: THROUGHPUT, x: BUFFER, at: 32768.0, of: &[("topology", "pair")] },
        (5.0, MOST),
        NONE,
    ),
    rule(
        "sunos-ipc/4.1.2-d",
        &SI_1A,
        Best { y: THROUGHPUT, of: &[("topology", "loopback")], to: &[("topology", "pair")] },
        (1.0, MOST),
        (0.5, 1.0),
    ),
    rule(
        "sunos-ipc/4.1.2-e",
        &SI_1A,
        Ratio {
            y: THROUGHPUT,
            of: &[("topology", "loopback"), (BUFFER, "52224")],
            to: &[("topology", "loopback"), (BUFFER, "4096")],
        },
        (1.2, MOST),
        (0.9, 1.2),
    ),
    rule(
        "sunos-ipc/4.2.1-a",
        &SI_2A,
        Share { y: "sender_idle_us", to: "send_protocol_us", of: &[] },
        (5.0, MOST),
        (1.5, 5.0),
    ),
    rule(
        "sunos-ipc/4.2.1-b",
        &SI_2A,
        Share { y: "sent_gap_spread_percent", to: "handed_gap_spread_percent", of: &[] },
        (0.0, 0.7),
        (0.7, 1.0),
    ),
    rule(
        "sunos-ipc/4.2.1-c",
        &SI_2A,
        Value { y: "arrival_gap_change_percent", of: &[] },
        (0.0, 10.0),
        (10.0, 50.0),
    ),
    rule("sunos-ipc/4.2.1-d", &SI_2A, Value { y: "fin_packets", of: &[] }, (2.0, 2.0), (1.0, 1.0)),
    rule(
        "sunos-ipc/4.2.1-g",
        &SI_2A,
        Value { y: "ip_queue_found_empty_percent", of: &[] },
        (90.0, 100.0),
        (50.0, 90.0),
    ),
    rule(
        "sunos-ipc/4.2.1-i",
        &SI_2A,
        Share { y: "interface_queue_mean_bytes", to: "receive_queue_mean_bytes", of: &[] },
        (1.5, 50.0),
        (50.0, MOST),
    ),
    rule("sunos-ipc/4.2.1-j", &SI_2A, Value { y: "write_calls", of: &[] }, (1.0, 1.0), (2.0, MOST)),
    rule(
        "sunos-ipc/4.2.1-k",
        &SI_2A,
        Share { y: "last_in_burst_delay_us", to: "interface_queue_us", of: &[] },
        (1.05, MOST),
        (0.9, 1.05),
    ),
    rule(
        "sunos-ipc/4.3.1-f",
        &SI_1A,
        Ratio {
            y: "acks",
            of: &[("topology", "pair"), (BUFFER, "52224")],
            to: &[("topology", "loopback"), (BUFFER, "52224")],
        },
        (1.1, MOST),
        (0.2, 1.1),
    ),
    rule(
        "sunos-ipc/4.3.2-a",
        &SI_3B,
        Ratio {
            y: "sender_idle_us",
            of: &[("topology", "pair"), (BUFFER, "52428"), ("read_pause_ms", "80")],
            to: &[("topology", "pair"), (BUFFER, "52428"), ("read_pause_ms", "40")],
        },
        (1.5, 2.5),
        (1.1, MOST),
    ),
    rule(
        "sunos-ipc/4.4.1-a",
        &SI_4A,
        Ratio {
            y: THROUGHPUT,
            of: &[("load_at", "server"), ("load", "8")],
            to: &[("load_at", "server"), ("load", "0")],
        },
        (0.0, 0.7),
        (0.7, 0.95),
    ),
    rule(
        "sunos-ipc/4.4.1-b",
        &SI_4B,
        Share {
            y: "receive_queue_delay_us",
            to: "send_queue_delay_us",
            of: &[("load", "4"), ("load_at", "server")],
        },
        (1.0, MOST),
        (0.1, 1.0),
    ),
    rule(
        "sunos-ipc/4.4.1-d",
        &SI_4B,
        Ratio {
            y: "receive_protocol_us",
            of: &[("load", "4"), ("load_at", "server")],
            to: &[("load", "0")],
        },
        (0.7, 1.3),
        (0.3, 3.0),
    ),
    rule(
        "sunos-ipc/4.4.2-a",
        &SI_4C,
        Share { y: "stage_compute_us", to: "stage_write_us", of: &[] },
        (4.0, MOST),
        (1.0, 4.0),
    ),
    rule(
        "sunos-ipc/4.4.3-a",
        &SI_4C,
        Share { y: "stage_cpu_wait_us", to: "stage_compute_us", of: &[] },
        (0.0, 0.02),
        (0.02, 0.5),
    ),
    // The bound is a third of the rate of copying: at 43 % of it the share is 0.143.
    rule(
        "sunos-ipc/5-c",
        &SI_1C,
        Share { y: THROUGHPUT, to: "memory_copy_bits_per_s", of: &[] },
        (0.1, 0.19),
        (0.01, 1.0),
    ),
    rule(
        "sunos-ipc/5-e",
        &SI_3B,
        Ratio {
            y: "acks",
            of: &[("topology", "pair"), (BUFFER, "4096"), ("read_pause_ms", "0")],
            to: &[("topology", "pair"), (BUFFER, "52428"), ("read_pause_ms", "80")],
        },
        (2.0, MOST),
        (1.1, 2.0),
    ),
    // The shortest call of thousands: the others are longer by what else the CPU did.
    rule(
        "bsd-buffers/T1-c",
        &BB_1,
        Ratio {
            y: "call_ns.min",
            of: &[("message_bytes", "1025")],
            to: &[("message_bytes", "1024")],
        },
        (1.8, MOST),
        (1.3, 1.8),
    ),
    rule(
        "bsd-buffers/T2-c",
        &BB_2,
        Ratio {
            y: "call_ns.min",
            of: &[("message_bytes", "1023")],
            to: &[("message_bytes", "1024")],
        },
        (1.8, MOST),
        (1.3, 1.8),
    ),
    rule(
        "bsd-buffers/4.3-a",
        &BB_1,
        Value { y: "write_calls", of: &[("message_bytes", "1024")] },
        (5000.0, 5000.0),
        (1.0, 4999.0),
    ),
    rule(
        "bsd-buffers/5-b",
        &BB_3,
        Ratios {
            y: "call_ns.p50",
            of: [
                &[("link", "ethernet-3"), ("protocol", "tcp"), ("message_bytes", "1")],
                &[("link", "ethernet-3"), ("protocol", "udp"), ("message_bytes", "1")],
            ],
            to: [
                &[("link", "ethernet-3"), ("protocol", "tcp"), ("message_bytes", "1024")],
                &[("link", "ethernet-3"), ("protocol", "udp"), ("message_bytes", "1024")],
            ],
        },
        (0.0, 0.8),
        (0.8, MOST),
    ),
    // UDP's calls take microseconds with either delay.
    rule(
        "bsd-buffers/5-c",
        &BB_3,
        Ratio {
            y: "call_ns.mean",
            of: &[("link_delay_us", "5000"), ("protocol", "tcp"), ("message_bytes", "1024")],
            to: &[("link_delay_us", "0"), ("protocol", "tcp"), ("message_bytes", "1024")],
        },
        (1.3, MOST),
        (1.05, 1.3),
    ),
    rule(
        "protocol-choice/4-atm-b",
        &PC_2,
        Period { y: "copy_percent", x: "data_bytes", period: 44.0, of: &[] },
        (0.5, 1.0),
        (0.15, 0.5),
    ),
    rule(
        "protocol-choice/4-atm-e",
        &PC_2,
        Line { y: "copy_s", x: "data_bytes", of: &[] },
        (0.95, 1.0),
        (0.5, 0.95),
    ),
    rule(
        "protocol-choice/4-atm-f",
        &PC_2,
        Value { y: "copy_percent", of: &[("data_bytes", "1024")] },
        (50.0, 100.0),
        (1.0, 50.0),
    ),
    rule(
        "protocol-choice/4-vmtp-d",
        &PC_3,
        Ratio {
            y: THROUGHPUT,
            of: &[("request_bytes", "16384")],
            to: &[("request_bytes", "8192")],
        },
        (1.005, 1.6),
        (0.9, MOST),
    ),
    rule(
        "protocol-choice/4-vmtp-f",
        &PC_4,
        Ratio {
            y: THROUGHPUT,
            of: &[("own_hosts", "false"), ("clients", "3")],
            to: &[("own_hosts", "false"), ("clients", "1")],
        },
        (1.05, 3.0),
        (0.9, 1.05),
    ),
    rule(
        "protocol-choice/4-vmtp-g",
        &PC_5,
        Ratio { y: "client_packets_per_s", of: &[("clients", "8")], to: &[("clients", "1")] },
        (0.0, 0.6),
        (0.6, 0.95),
    ),
    rule(
        "protocol-choice/4-vmtp-h",
        &PC_5,
        Ratio { y: "host_packets_per_s", of: &[("clients", "8")], to: &[("clients", "4")] },
        (0.8, 1.2),
        (0.5, 2.0),
    ),
    rule(
        "protocol-choice/4-vmtp-i",
        &PC_6,
        Line { y: "call_ns.p50", x: "request_bytes", of: &[] },
        (0.99, 1.0),
        (0.8, 0.99),
    ),
    rule(
        "protocol-choice/4-vmtp-j",
        &PC_6,
        Ratio {
            y: "call_ns.p50",
            of: &[("request_bytes", "16384")],
            to: &[("request_bytes", "1")],
        },
        (1.8, 2.1),
        (1.0, MOST),
    ),
    rule(
        "protocol-choice/4-vmtp-m",
        &PC_6B,
        Ratio { y: "packets_out", of: &[("members", "8")], to: &[("members", "1")] },
        (0.9, 1.1),
        (1.1, 8.0),
    ),
    // With TCP_NODELAY at the client the only wait is that of the reply.
    rule(
        "layering/T3-b",
        &LH_7,
        Value { y: "call_ns.p50", of: &[("nodelay", "true")] },
        (150e6, 300e6),
        (20e6, 150e6),
    ),
    rule("layering/T4-a", &LH_3, Value { y: "reads_per_call", of: &[] }, (3.0, 3.0), (1.0, 2.0)),
    rule(
        "layering/glitch-e",
        &LH_7,
        Ratio {
            y: "call_ns.p50",
            of: &[("rpc_buffer_bytes", "-"), ("nodelay", "-"), ("low_water_bytes", "-")],
            to: &[("rpc_buffer_bytes", "4096")],
        },
        (2.0, MOST),
        (1.1, 2.0),
    ),
    rule(
        "layering/nagle-b",
        &LH_7,
        Ratio {
            y: "call_ns.p50",
            of: &[("rpc_buffer_bytes", "-"), ("nodelay", "-"), ("low_water_bytes", "-")],
            to: &[("nodelay", "true")],
        },
        (0.8, 1.5),
        (1.5, MOST),
    ),
    rule(
        "layering/track-a",
        &LH_6,
        Value { y: "pushed_emptying_percent", of: &[("write_bytes", "4095")] },
        (95.0, 100.0),
        (20.0, 95.0),
    ),
    rule(
        "layering/bulk-a",
        &LH_6,
        Ratio { y: THROUGHPUT, of: &[("write_bytes", "4095")], to: &[("write_bytes", "4096")] },
        (0.95, 1.05),
        (0.5, 2.0),
    ),
];

/// Claims that no run here tells, with the reason.
pub(super) static UNJUDGED: &[(&str, &str)] = &[
    ("sunos-ipc/3.3-c", "no experiment sets SO_LOG at one end only; the recorder's own tests do"),
    (
        "sunos-ipc/3.3-d",
        "the mark of this kernel's recorder is another one (docs/reference/hooks.md)",
    ),
    ("sunos-ipc/4.1.1-c", "no experiment has buffers of two sizes at both ends"),
    ("sunos-ipc/4.2.1-e", "no number of the results has the order of the steps of a queue"),
    ("sunos-ipc/4.2.1-f", "no number of the results has the peak of the queue in each burst"),
    ("sunos-ipc/4.2.1-h", "no number of the results joins two queues in time"),
    ("sunos-ipc/4.2.2-d", "the time in a call of write before point 1 is unknown"),
    ("sunos-ipc/4.2.2-e", "the time in a call of write before point 1 is unknown"),
    ("sunos-ipc/4.3.1-b", "no experiment sends one segment to a reader that does not read"),
    ("sunos-ipc/4.3.1-c", "no number of the results has the segments of each burst"),
    ("sunos-ipc/4.3.1-d", "no number of the results joins acknowledgments and the receive queue"),
    ("sunos-ipc/4.4.1-c", "the time of data in the program's own buffer is unknown"),
    ("sunos-ipc/5-d", "nothing here counts passes over the data for a checksum"),
    ("bsd-buffers/3-a", "no experiment profiles the kernel; `lab profile` prints its own cost"),
    ("bsd-buffers/3.1-e", "no experiment compares numbers of messages"),
    ("bsd-buffers/4.1-e", "nothing here times the checksum; `lab profile` samples it"),
    ("protocol-choice/5-d", "no experiment looks for a name; `vmtp find` does"),
    ("layering/nagle-a", "no number of the results has the segments under way"),
];
