//! Traces that "Is Layering Harmful?" printed, segment by segment (its Tables 3, 5 and 6).
//!
//! Numbers are as printed there but for the SYN, which is 0 here. Times of the wire are left out;
//! the time of a timer's decision is given.

use crate::tcp::testing::Script;

const HANDSHAKE: &str = "
    s listen
    c connect
    c > S 0:0(0) win 4096 <mss 1460>
    s > S 0:0(0) ack 1 win 4096 <mss 1460>
    c > . ack 1 win 4096
    s accept = ok";

fn connected() -> Script {
    let mut script = Script::pair("sunos-4.1");
    script.check(HANDSHAKE);
    script
}

/// Table 3: a call of 4800 bytes in two writes, and its reply. Each way a piece of 96 bytes waits
/// for the peer's timer.
#[test]
fn a_remote_call_of_4800_bytes() {
    connected().check(
        "0.010 c hold
         c write 4000 = 4000
         c > . 1:1461(1460) ack 1 win 4096
         c > . 1461:2921(1460) ack 1 win 4096
         c > P 2921:4001(1080) ack 1 win 4096
         c write 852 = sleep
         c release
         s read 4000 = 4000
         s > . ack 4001 win 4096
         c > P 4001:4097(96) ack 1 win 4096
         0.200 s > . ack 4097 win 4000           # no data to go with it: the timer's
         c > P 4097:4853(756) ack 1 win 4096
         0.230 s read 852 = 852
         s hold
         s write 4000 = 4000
         s > . 1:1461(1460) ack 4853 win 4096
         s > . 1461:2921(1460) ack 4853 win 4096
         s > P 2921:4001(1080) ack 4853 win 4096
         s write 836 = sleep
         s release
         c hold
         c read 1472 = 1472
         c > . ack 4001 win 1568
         c read 2528 = 2528
         c > . ack 4001 win 4096
         c release
         s > P 4001:4097(96) ack 4853 win 4096
         c read 4000 = 96
         0.400 c > . ack 4097 win 4096           # the timer's again
         s > P 4097:4837(740) ack 4853 win 4096
         0.490 c read 4000 = 740
         c close
         c > F 4853:4853(0) ack 4837 win 4096
         s > . ack 4854 win 4096
         s close
         s > F 4837:4837(0) ack 4854 win 4096
         c > . ack 4838 win 4096
         c state = TimeWait
         s state = gone",
    );
}

/// Table 5, left: 5118 bytes to the discard port by a buffer of 4095. The byte that fits leaves
/// alone, the rest with the FIN.
#[test]
fn a_discarded_5118_bytes() {
    connected().check(
        "0.050 c hold
         c write 4095 = 4095
         c > . 1:1461(1460) ack 1 win 4096
         c > . 1461:2921(1460) ack 1 win 4096
         c > P 2921:4096(1175) ack 1 win 4096
         c write 1023 = sleep
         c release
         c hold
         s read 2048 = 2048
         s > . ack 4096 win 2049
         c pass
         c > P 4096:4097(1) ack 1 win 4096
         s read 2048 = 2047
         s > . ack 4096 win 4096
         c release
         s read 2048 = 1
         0.110 c close
         c > FP 4097:5119(1022) ack 1 win 4096
         s > . ack 5120 win 3074
         s read 2048 = 1022
         s close
         s > F 1:1(0) ack 5120 win 4096
         c > . ack 2 win 4096",
    );
}

/// Table 5, right: 5120 bytes. The second write waits until it can go whole.
#[test]
fn a_discarded_5120_bytes() {
    connected().check(
        "0.050 c hold
         c write 4095 = 4095
         c > . 1:1461(1460) ack 1 win 4096
         c > . 1461:2921(1460) ack 1 win 4096
         c > P 2921:4096(1175) ack 1 win 4096
         c write 1025 = sleep
         c release
         s hold
         s read 2048 = 2048
         s > . ack 4096 win 2049
         s read 2048 = 2047
         s > . ack 4096 win 4096
         s release
         c > P 4096:5121(1025) ack 1 win 4096
         0.100 s read 2048 = 1025
         c close
         c > F 5121:5121(0) ack 1 win 4096
         s > . ack 5122 win 4096
         s close
         s > F 1:1(0) ack 5122 win 4096
         c > . ack 2 win 4096",
    );
}

/// Table 6, left: 5118 bytes with `TCP_NODELAY`. The byte leaves at once, the rest as soon as there
/// is space.
#[test]
fn a_discarded_5118_bytes_without_delay() {
    connected().check(
        "c nodelay
         0.050 c hold
         c write 4095 = 4095
         c > . 1:1461(1460) ack 1 win 4096
         c > . 1461:2921(1460) ack 1 win 4096
         c > P 2921:4096(1175) ack 1 win 4096
         c write 1023 = sleep
         c > P 4096:4097(1) ack 1 win 4096
         c release
         s hold
         s read 2048 = 2048
         s > . ack 4097 win 2048
         s read 2048 = 2048
         s > . ack 4097 win 4096
         s release
         c > P 4097:5119(1022) ack 1 win 4096
         s read 2048 = 1022
         c close
         c > F 5119:5119(0) ack 1 win 4096
         s > . ack 5120 win 4096
         s close
         s > F 1:1(0) ack 5120 win 4096
         c > . ack 2 win 4096",
    );
}

/// Table 6, right: 5120 bytes with `TCP_NODELAY`, as without it.
#[test]
fn a_discarded_5120_bytes_without_delay() {
    connected().check(
        "c nodelay
         0.050 c hold
         c write 4095 = 4095
         c > . 1:1461(1460) ack 1 win 4096
         c > . 1461:2921(1460) ack 1 win 4096
         c > P 2921:4096(1175) ack 1 win 4096
         c write 1025 = sleep
         c release
         s hold
         s read 2048 = 2048
         s > . ack 4096 win 2049
         s read 2048 = 2047
         s > . ack 4096 win 4096
         s release
         c > P 4096:5121(1025) ack 1 win 4096
         s read 2048 = 1025
         c close
         c > F 5121:5121(0) ack 1 win 4096
         s > . ack 5122 win 4096
         s close
         s > F 1:1(0) ack 5122 win 4096
         c > . ack 2 win 4096",
    );
}

/// The edge that the authors did not print: from a second write of 1024 on nothing is cut off.
#[test]
fn the_cut_ends_where_a_cluster_is_written() {
    for (second, first_piece) in [(97, 96), (1023, 96), (1024, 1024), (1025, 1025)] {
        let mut script = connected();
        script.check(
            "c hold
             c write 4000 = 4000
             c > . 1:1461(1460) ack 1 win 4096
             c > . 1461:2921(1460) ack 1 win 4096
             c > P 2921:4001(1080) ack 1 win 4096",
        );
        script.check(&format!("c write {second} = sleep"));
        script.check(&format!(
            "c release
             s read 4000 = 4000
             s > . ack 4001 win 4096
             c > P 4001:{}({first_piece}) ack 1 win 4096",
            4001 + first_piece
        ));
    }
}
