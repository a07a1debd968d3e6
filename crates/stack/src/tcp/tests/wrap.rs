//! Sequence numbers that pass 2^32 in the middle of a stream.

use super::{Script, open};
use crate::tcp::tests::connection::ALL;

#[test]
fn both_streams_wrap_without_notice() {
    for name in ["4.3bsd", "tahoe", "sunos-4.1"] {
        let mut script = Script::alone_from(name, [u32::MAX - 1500, u32::MAX - 700]);
        open(&mut script, 4096);
        script.check(
            "write 2500 = 2500
             > . 1:1025(1024) ack 1 win 4096
             > . 1025:2049(1024) ack 1 win 4096
             > P 2049:2501(452) ack 1 win 4096
             < . 1:1025(1024) ack 1025 win 4096
             < . 1025:2049(1024) ack 2501 win 4096
             read 4000 = 2048
             > . ack 2049 win 4096
             close
             > F 2501:2501(0) ack 2049 win 4096",
        );
    }
}

#[test]
fn a_lost_segment_at_the_wrap_is_sent_again() {
    for name in ALL {
        for back in [0, 1, 2, 500, 1024, 1025, 3000] {
            let iss = [u32::MAX - back, u32::MAX - back / 2];
            let personality = crate::Personality::by_name(name).unwrap();
            let mut script = Script::with(&personality, iss);
            for line in ["s listen", "c connect", "s accept", "c hold", "c write 1500", "c lose"] {
                script.begin(line);
            }
            script.begin("c release");
            for at in 1..40 {
                script.begin(&format!("{at}.000 s read 3000"));
            }
            assert_eq!(script.read[1].len(), 1500, "{name} from {iss:?}");
        }
    }
}
