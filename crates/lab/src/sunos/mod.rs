//! The SunOS IPC study: bulk transfers between SPARCstations, watched at the eight points.
//!
//! A [`Transfer`] says what is sent between which machines; [`Transfer::run`] gives what was
//! [`Observed`]: the records, put in order by flow. Times are nanoseconds of the model's clock, lengths bytes.

mod observed;
mod transfer;

pub(crate) use observed::{Burst, Observed};
pub(crate) use transfer::{Load, Topology, Transfer};

#[cfg(test)]
mod explore {
    use super::*;
    use sockscope_record::{Point, Stage};

    #[test]
    fn explore() {
        let base = Transfer::sparcstations().unwrap();
        for buffer in [4096, 8192, 16384, 24576, 32768, 40960, 52428] {
            let t = Transfer { buffer_bytes: Some(buffer), ..base.clone() }.of_bytes(1 << 20);
            let eth = t.run();
            let lo = Transfer { topology: Topology::Loopback, ..t.clone() }.run();
            let ss2 = Transfer {
                machine: sockscope_sim::Machine::by_name("sparcstation-2").unwrap(),
                personality: sockscope_stack::Personality::by_name("sunos-4.0.3").unwrap(),
                ..t.clone()
            }
            .run();
            let say = |r: &Result<Observed, String>| match r {
                Ok(o) => format!(
                    "{:.2} acks {} clean {}",
                    o.throughput_mbit(),
                    o.acks().len(),
                    o.is_clean()
                ),
                Err(e) => e.clone(),
            };
            println!("{buffer}: eth {} | lo {} | ss2 {}", say(&eth), say(&lo), say(&ss2));
        }
        let o = base.run().unwrap();
        println!(
            "256K: {:.2} bursts {:?}",
            o.throughput_mbit(),
            o.bursts().iter().map(|b| b.packets).collect::<Vec<_>>()
        );
        for stage in Stage::ALL {
            println!("{} mean {:.0} us", stage.name(), o.mean_delay_us(stage));
        }
        let g = o.gaps_in_bursts_us();
        println!("gaps mean {:.0} n {}", g.iter().sum::<f64>() / g.len() as f64, g.len());
        let mut h = std::collections::BTreeMap::new();
        for x in &g {
            *h.entry((x / 50.0) as u32 * 50).or_insert(0) += 1;
        }
        println!("send hist {h:?}");
        let r = o.packet_delays_us(Point::InputDequeue, Point::ReceiveEnqueue);
        let mut h = std::collections::BTreeMap::new();
        for x in &r {
            *h.entry((x / 50.0) as u32 * 50).or_insert(0) += 1;
        }
        println!("recv hist {h:?}");
        let one = Transfer {
            write_bytes: 1024,
            writes: 20,
            pace: sockscope_sim::programs::Pace::Sleep(1_000_000_000),
            buffer_bytes: None,
            reserve_bytes: Some(1024),
            no_delay: true,
            ..base.clone()
        }
        .run()
        .unwrap();
        for stage in Stage::ALL {
            println!("one {} mean {:.0} us", stage.name(), one.mean_delay_us(stage));
        }
        let lo = Transfer { topology: Topology::Loopback, ..base.clone() }
            .of_bytes(1 << 20)
            .run()
            .unwrap();
        println!(
            "lo bursts {:?} {:.2}",
            lo.bursts().iter().map(|b| b.packets).collect::<Vec<_>>(),
            lo.throughput_mbit()
        );
        for level in 0..5 {
            let t = base.clone().of_bytes(5 << 20);
            let s = Transfer { load: Load { server: level, client: 0 }, ..t.clone() }
                .run()
                .map(|o| o.throughput_mbit());
            let c = Transfer { load: Load { server: 0, client: level }, ..t.clone() }
                .run()
                .map(|o| o.throughput_mbit());
            println!("load {level}: server {s:?} client {c:?}");
        }
    }
}
