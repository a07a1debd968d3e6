//! Checks of constants of the design, which need no run: what a personality has is its own data.

use sockscope_experiment::papers::Claim;
use sockscope_record::Protocol;
use sockscope_stack::mbuf::{CLUSTER_BYTES, MBUF_BYTES, Pool, PoolLimits};
use sockscope_stack::{Costs, Meter, Personality, SetOption, SocketError, Stack, StackConfig};

use super::{Check, Comparison, Outcome, Runs};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "sunos-ipc/2.2-a", needs: &[], compare: mbuf_sizes },
    Check { id: "sunos-ipc/2.2-c", needs: &[], compare: logical_copy },
    Check { id: "sunos-ipc/4.1.1-g", needs: &[], compare: largest_buffer },
];

/// The system that the paper measured.
const SUNOS: &str = "sunos-4.0.3";

fn sunos() -> Result<Personality, String> {
    Personality::by_name(SUNOS).ok_or_else(|| "the model has no SunOS 4.0.3".to_owned())
}

fn mbuf_sizes(claim: &Claim, _: &Runs) -> Outcome {
    let personality = sunos()?;
    let data = personality.geometry.plain_bytes as usize;
    let sizes = [MBUF_BYTES, data, MBUF_BYTES - data, CLUSTER_BYTES];
    let [plain, cluster] = [false, true].map(|is_cluster| rooms(&personality, is_cluster));
    let (plain, cluster) = (plain?, cluster?);
    Ok(Comparison::numbers(claim, &sizes.map(|size| size as f64)).and(Comparison::holds(
        plain == (data, 0) && cluster == (0, CLUSTER_BYTES),
        "a plain mbuf has room for 112 octets inside, one with a cluster for 1,024 outside and none inside",
        format!("room inside and outside: {plain:?} and {cluster:?} octets"),
    )))
}

/// Octets that a new mbuf has room for inside, and in its cluster.
fn rooms(personality: &Personality, is_cluster: bool) -> Result<(usize, usize), String> {
    let mut pool = Pool::new(personality.geometry, PoolLimits::default());
    let mut meter = Meter::new(Costs::default());
    let id = pool.get(&mut meter).ok_or("the pool gave no mbuf")?;
    if !is_cluster {
        return Ok((pool.trailing_room(id), 0));
    }
    if !pool.attach_cluster(id, &mut meter) {
        return Err("the pool gave no cluster".to_owned());
    }
    pool.set_range(id, 0, CLUSTER_BYTES);
    Ok((pool.trailing_room(id), pool.data(id).len()))
}

/// A cluster and a plain mbuf, each filled and copied: octets moved, and whether all comes back.
fn logical_copy(claim: &Claim, _: &Runs) -> Outcome {
    let personality = sunos()?;
    let mut pool = Pool::new(personality.geometry, PoolLimits::default());
    let mut meter = Meter::new(Costs::default());
    let mut moved = |len: usize, is_cluster: bool| {
        let id = pool.get(&mut meter)?;
        if is_cluster && !pool.attach_cluster(id, &mut meter) {
            return None;
        }
        pool.set_range(id, 0, len);
        let mut chain = sockscope_stack::mbuf::Chain::new();
        pool.push_back(&mut chain, id);
        let before = meter.work(sockscope_stack::Routine::MCopy).bytes;
        let copy = pool.m_copy(&chain, 0, len, &mut meter)?;
        let bytes = meter.work(sockscope_stack::Routine::MCopy).bytes - before;
        pool.free_chain(chain, &mut meter);
        pool.free_chain(copy, &mut meter);
        Some(bytes as f64)
    };
    let (Some(cluster), Some(plain)) = (moved(CLUSTER_BYTES, true), moved(100, false)) else {
        return Err("the pool gave no mbuf".into());
    };
    let used = pool.in_use();
    Ok(Comparison::numbers(claim, &[cluster]).and(Comparison::holds(
        plain == 100.0 && used.clusters == 0 && used.mbufs == 0,
        "a plain mbuf of 100 octets is copied whole, and nothing stays in use",
        format!("{plain} octets copied; in use after: {used:?}"),
    )))
}

/// The largest limit of a buffer that a socket takes, of 64 KB and less.
fn largest_taken(
    personality: Personality,
    option: fn(u32) -> SetOption,
) -> Result<u32, SocketError> {
    let mut stack = Stack::new(personality, StackConfig::default());
    let mut meter = Meter::new(Costs::default());
    let id = stack.socket(Protocol::Tcp, &mut meter)?;
    let mut is_taken = |bytes: &u32| stack.set_option(id, option(*bytes), &mut meter).is_ok();
    Ok((1..=65_536).rev().find(|bytes| is_taken(bytes)).unwrap_or(0))
}

fn largest_buffer(claim: &Claim, _: &Runs) -> Outcome {
    let personality = sunos()?;
    let send = largest_taken(personality.clone(), SetOption::SendBuffer);
    let receive = largest_taken(personality, SetOption::ReceiveBuffer);
    let (send, receive) =
        send.and_then(|send| Ok((send, receive?))).map_err(|_| "the stack gave no socket")?;
    Ok(Comparison::numbers(claim, &[f64::from(send) / 1024.0])
        .and(Comparison::holds(
            send == receive,
            "sending and receiving buffers alike",
            format!("{send} and {receive} octets"),
        ))
        .with_note(format!("{send} octets, from the limits on mbuf storage; more is refused")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4.2BSD has no such option.
    #[test]
    fn the_largest_buffer_is_what_a_socket_takes() {
        let largest = |name: &str| {
            let personality = Personality::by_name(name).unwrap();
            largest_taken(personality, SetOption::SendBuffer).unwrap()
        };
        assert_eq!(["4.2bsd", SUNOS].map(largest), [0, 52_428]);
    }
}
