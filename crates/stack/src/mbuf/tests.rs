//! Chains against flat buffers: every small case, and random large ones.

use proptest::prelude::*;

use super::*;

const GEOMETRY: Geometry = Geometry { plain_bytes: 112, header_bytes: 112, pullup: Pullup::Exact };

impl Pool {
    /// Bytes of all slots and buffers, in use or not.
    pub(crate) fn made_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the first `len` bytes lie together where a header may be read and changed: in the
    /// first mbuf, and not in a cluster.
    fn is_pulled_up(&self, chain: &Chain, len: usize) -> bool {
        chain.first().is_some_and(|first| self.is_plain(first) && self.len(first) >= len)
    }
}

fn pool_with(pullup: Pullup) -> (Pool, CostMeter) {
    let geometry = Geometry { pullup, ..GEOMETRY };
    (Pool::new(geometry, PoolLimits::default()), CostMeter::default())
}

fn pool() -> (Pool, CostMeter) {
    pool_with(Pullup::Exact)
}

/// The kind of mbuf to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Make {
    Plain,
    Cluster,
    Lent,
}

const MAKES: [Make; 3] = [Make::Plain, Make::Cluster, Make::Lent];

fn one(pool: &mut Pool, make: Make, bytes: &[u8], meter: &mut CostMeter) -> MbufId {
    if make == Make::Lent {
        return pool.lend(bytes, meter).unwrap();
    }
    let id = pool.get(meter).unwrap();
    assert!(make == Make::Plain || pool.attach_cluster(id, meter));
    // Not at the start where there is room: most real headers are not either.
    let offset = if make == Make::Plain { 5.min(112 - bytes.len()) } else { 0 };
    pool.set_range(id, offset, bytes.len());
    pool.data_mut(id).copy_from_slice(bytes);
    id
}

/// A chain of these mbufs, its bytes counting up from 0.
fn chain(pool: &mut Pool, mbufs: &[(Make, usize)], meter: &mut CostMeter) -> (Chain, Vec<u8>) {
    let mut chain = Chain::new();
    let mut flat = Vec::new();
    for (make, len) in mbufs {
        let bytes: Vec<u8> = (flat.len()..flat.len() + len).map(|at| at as u8).collect();
        let id = one(pool, *make, &bytes, meter);
        pool.push_back(&mut chain, id);
        flat.extend(bytes);
    }
    (chain, flat)
}

fn check(pool: &Pool, chain: &Chain, expected: &[u8]) {
    assert_eq!(pool.bytes_of(chain), expected);
    assert_eq!(chain.len(), expected.len());
    assert_eq!(chain.mbufs() as usize, pool.ids(chain).count());
    assert_eq!(pool.ids(chain).last(), chain.last());
}

fn assert_full(pool: &Pool) {
    assert_eq!(pool.in_use(), PoolUse::default());
}

/// Every chain of up to `mbufs_max` mbufs of every kind with 0 to `bytes_max` bytes each.
fn every_chain(mbufs_max: usize, bytes_max: usize) -> Vec<Vec<(Make, usize)>> {
    let mut all = vec![vec![]];
    let mut last = all.clone();
    for _ in 0..mbufs_max {
        let longer = last.iter().flat_map(|shape: &Vec<(Make, usize)>| {
            MAKES.iter().flat_map(move |make| {
                (0..=bytes_max).map(move |len| {
                    let mut shape = shape.clone();
                    shape.push((*make, len));
                    shape
                })
            })
        });
        last = longer.collect();
        all.extend(last.iter().cloned());
    }
    all
}

#[test]
fn every_copy_of_every_small_chain_has_the_bytes_asked_for() {
    let (mut pool, mut meter) = pool();
    for shape in every_chain(3, 2) {
        let (whole, flat) = chain(&mut pool, &shape, &mut meter);
        for offset in 0..=flat.len() + 1 {
            for len in 0..=flat.len() + 1 {
                let copy = pool.m_copy(&whole, offset, len, &mut meter).unwrap();
                let from = offset.min(flat.len());
                check(&pool, &copy, &flat[from..(from + len).min(flat.len())]);
                let mut bytes = vec![0; len];
                let done = pool.copy_to(&whole, offset, &mut bytes);
                assert_eq!(bytes[..done], flat[from..(from + len).min(flat.len())]);
                pool.free_chain(copy, &mut meter);
            }
        }
        check(&pool, &whole, &flat);
        pool.free_chain(whole, &mut meter);
        assert_full(&pool);
    }
}

#[test]
fn every_small_chain_of_four_is_trimmed_from_both_ends() {
    let (mut pool, mut meter) = pool();
    for shape in every_chain(4, 1) {
        let total: usize = shape.iter().map(|(_, len)| len).sum();
        for by in -(total as i32) - 1..=total as i32 + 1 {
            let (mut whole, flat) = chain(&mut pool, &shape, &mut meter);
            pool.m_adj(&mut whole, by, &mut meter);
            let bytes = (by.unsigned_abs() as usize).min(total);
            check(&pool, &whole, if by >= 0 { &flat[bytes..] } else { &flat[..total - bytes] });
            pool.free_chain(whole, &mut meter);
        }
    }
    assert_full(&pool);
}

#[test]
fn every_small_chain_is_pulled_up_under_each_rule() {
    for rule in [Pullup::Exact, Pullup::Extra, Pullup::Protocol] {
        let (mut pool, mut meter) = pool_with(rule);
        for shape in every_chain(3, 2) {
            let total: usize = shape.iter().map(|(_, len)| len).sum();
            for len in 0..=total + 1 {
                let (mut whole, flat) = chain(&mut pool, &shape, &mut meter);
                let is_done = pool.m_pullup(&mut whole, len, &mut meter);
                assert_eq!(is_done, len <= total, "{rule:?} {shape:?} {len}");
                check(&pool, &whole, if is_done { &flat } else { &[] });
                assert!(!is_done || len == 0 || pool.is_pulled_up(&whole, len));
                pool.free_chain(whole, &mut meter);
                assert_full(&pool);
            }
        }
    }
}

#[test]
fn a_copy_shares_clusters_and_copies_plain_mbufs_one_for_one() {
    let (mut pool, mut meter) = pool();
    let shape = [(Make::Plain, 112), (Make::Cluster, 1024), (Make::Plain, 1)];
    let (whole, _) = chain(&mut pool, &[&shape[..1], &[(Make::Plain, 0)]].concat(), &mut meter);
    let (other, flat) = chain(&mut pool, &shape, &mut meter);
    let copy = pool.m_copy(&other, 100, 1030, &mut meter).unwrap();
    check(&pool, &copy, &flat[100..1130]);
    assert_eq!((copy.mbufs(), pool.in_use().clusters), (2, 1), "12 bytes, then 1018 shared");
    pool.free_chain(other, &mut meter);
    check(&pool, &copy, &flat[100..1130]);
    assert_eq!(pool.in_use().clusters, 1, "the copy keeps the cluster");
    pool.free_chain(copy, &mut meter);
    pool.free_chain(whole, &mut meter);
    assert_full(&pool);
}

#[test]
fn ten_small_mbufs_give_ten_copies() {
    let (mut pool, mut meter) = pool();
    let (whole, flat) = chain(&mut pool, &[(Make::Plain, 112); 10], &mut meter);
    let copy = pool.m_copy(&whole, 0, 1023, &mut meter).unwrap();
    assert_eq!((copy.mbufs(), meter.calls(Routine::MCopy)), (10, 1));
    check(&pool, &copy, &flat[..1023]);
    pool.free_chain(copy, &mut meter);
    pool.free_chain(whole, &mut meter);
}

#[test]
fn a_shared_cluster_cannot_be_written_to() {
    let (mut pool, mut meter) = pool();
    let (whole, flat) = chain(&mut pool, &[(Make::Cluster, 8)], &mut meter);
    let copy = pool.m_copy(&whole, 0, 8, &mut meter).unwrap();
    let id = whole.first().unwrap();
    assert!(pool.data_mut(id).is_empty());
    pool.free_chain(copy, &mut meter);
    pool.data_mut(id)[0] = 99;
    assert_eq!(pool.bytes_of(&whole)[1..], flat[1..]);
    pool.free_chain(whole, &mut meter);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "Mbuf {")]
fn data_beyond_an_mbufs_own_storage_are_not_handed_out() {
    let (mut pool, mut meter) = pool();
    let ids = [(); 2].map(|()| pool.get(&mut meter).unwrap());
    pool.mbuf_mut(ids[0]).len = 113;
    // The byte is there, but it is the other's.
    let _ = pool.data(ids[0]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "bytes of")]
fn data_beyond_an_mbufs_own_storage_are_not_copied() {
    let (mut pool, mut meter) = pool();
    let (whole, _) = chain(&mut pool, &[(Make::Plain, 4), (Make::Plain, 4)], &mut meter);
    pool.mbuf_mut(whole.first().unwrap()).len = 113;
    let _ = pool.m_copy(&whole, 0, 113, &mut meter);
}

#[test]
fn a_lent_buffer_goes_back_after_the_last_reference_and_is_lent_again() {
    let limits = PoolLimits { lent: 1, ..PoolLimits::default() };
    let (mut pool, mut meter) = (Pool::new(GEOMETRY, limits), CostMeter::default());
    let long: Vec<u8> = (0..5000).map(|at| at as u8).collect();
    let mut made = Vec::new();
    for bytes in [&[1, 2, 3][..], &long, &[4, 5, 6], &long] {
        let id = pool.lend(bytes, &mut meter).unwrap();
        let mut whole = Chain::new();
        pool.push_back(&mut whole, id);
        let copy = pool.m_copy(&whole, 1, 2, &mut meter).unwrap();
        pool.free_chain(whole, &mut meter);
        assert!(pool.lend(bytes, &mut meter).is_none(), "it is still out");
        check(&pool, &copy, &bytes[1..3]);
        pool.free_chain(copy, &mut meter);
        assert_full(&pool);
        made.push(pool.made_bytes());
    }
    assert_eq!(made[1], made[0] + 6144, "three units of 2,048 bytes for the long one");
    assert_eq!(made[1..], [made[1]; 3], "what fits is lent as it is");
}

#[test]
fn a_pool_at_its_limit_refuses_and_keeps_nothing() {
    let limits = PoolLimits { mbufs: 3, clusters: 1, lent: 1 };
    let (mut pool, mut meter) = (Pool::new(GEOMETRY, limits), CostMeter::default());
    let (whole, flat) = chain(&mut pool, &[(Make::Plain, 4), (Make::Cluster, 4)], &mut meter);
    assert!(pool.m_copy(&whole, 0, 8, &mut meter).is_none(), "one mbuf left, two needed");
    assert_eq!(pool.in_use().mbufs, 2);
    let last = pool.get(&mut meter).unwrap();
    assert!(!pool.attach_cluster(last, &mut meter));
    assert!(pool.lend(&[0], &mut meter).is_none());
    assert!(pool.get(&mut meter).is_none() && pool.refused() >= 3);
    pool.free(last, &mut meter);
    check(&pool, &whole, &flat);
    pool.free_chain(whole, &mut meter);
    assert_full(&pool);
}

/// Mbufs got, mbufs freed and the length of the first mbuf when 40 bytes are pulled up.
fn pullup_work(rule: Pullup, mbufs: &[(Make, usize)], lens: &[usize]) -> (u64, u64, usize) {
    let (mut pool, mut meter) = pool_with(rule);
    let (mut whole, _) = chain(&mut pool, mbufs, &mut meter);
    let before = meter.calls(Routine::MgetMacro);
    for len in lens {
        if !pool.is_pulled_up(&whole, *len) {
            assert!(pool.m_pullup(&mut whole, *len, &mut meter));
        }
    }
    let got = meter.calls(Routine::MgetMacro) - before;
    let result = (got, meter.calls(Routine::MPullup), pool.len(whole.first().unwrap()));
    pool.free_chain(whole, &mut meter);
    result
}

#[test]
fn a_packet_in_a_cluster_takes_two_pull_ups_in_4_2_and_one_later() {
    let packet = [(Make::Cluster, 1024), (Make::Plain, 40)];
    // IP asks for 20 bytes, TCP for 40.
    assert_eq!(pullup_work(Pullup::Exact, &packet, &[20, 40]), (2, 2, 40));
    assert_eq!(pullup_work(Pullup::Extra, &packet, &[20, 40]), (1, 1, 52));
    assert_eq!(pullup_work(Pullup::Protocol, &packet, &[20, 40]), (1, 1, 40));
}

#[test]
fn a_pull_up_works_in_place_since_4_3_where_the_first_mbuf_has_room() {
    let packet = [(Make::Plain, 20), (Make::Plain, 40)];
    assert_eq!(pullup_work(Pullup::Exact, &packet, &[40]), (1, 1, 40));
    assert_eq!(pullup_work(Pullup::Extra, &packet, &[40]), (0, 1, 60));
}

#[test]
fn a_prepended_header_takes_an_mbuf_only_where_there_is_no_room() {
    let (mut pool, mut meter) = pool();
    let (mut plain, _) = chain(&mut pool, &[(Make::Plain, 3)], &mut meter);
    assert!(pool.prepend(&mut plain, 5, &mut meter));
    assert_eq!((plain.len(), plain.mbufs(), meter.calls(Routine::MGet)), (8, 1, 0));
    assert!(pool.prepend(&mut plain, 1, &mut meter));
    assert_eq!((plain.len(), plain.mbufs(), meter.calls(Routine::MGet)), (9, 2, 1));
    let (mut cluster, _) = chain(&mut pool, &[(Make::Cluster, 3)], &mut meter);
    assert!(pool.prepend(&mut cluster, 4, &mut meter));
    assert_eq!((cluster.len(), cluster.mbufs(), meter.calls(Routine::MGet)), (7, 2, 2));
    pool.free_chain(plain, &mut meter);
    pool.free_chain(cluster, &mut meter);
    assert_full(&pool);
}

/// One operation on the chain under test and on its flat picture.
#[derive(Debug, Clone)]
enum Operation {
    Append(Vec<u8>, u8),
    DropFront(usize),
    Truncate(usize),
    Prepend(usize),
    Pullup(usize),
    CopyAndSwap(usize, usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        (prop::collection::vec(any::<u8>(), 0..112), 0u8..3).prop_map(|(b, m)| Append(b, m)),
        (0usize..300).prop_map(DropFront),
        (0usize..3000).prop_map(Truncate),
        (1usize..60).prop_map(Prepend),
        (0usize..112).prop_map(Pullup),
        (0usize..500, 0usize..3000).prop_map(|(offset, len)| CopyAndSwap(offset, len)),
    ]
}

fn apply(
    pool: &mut Pool,
    chain: &mut Chain,
    flat: &mut Vec<u8>,
    step: Operation,
    meter: &mut CostMeter,
) {
    match step {
        Operation::Append(bytes, make) => {
            let id = one(pool, MAKES[usize::from(make)], &bytes, meter);
            pool.push_back(chain, id);
            flat.extend(bytes);
        }
        Operation::DropFront(len) => {
            pool.drop_front(chain, len, meter);
            flat.drain(..len.min(flat.len()));
        }
        Operation::Truncate(len) => {
            pool.truncate(chain, len, meter);
            flat.truncate(len);
        }
        Operation::Prepend(len) => {
            assert!(pool.prepend(chain, len, meter));
            let first = chain.first().unwrap();
            pool.data_mut(first)[..len].fill(0xee);
            flat.splice(..0, std::iter::repeat_n(0xee, len));
        }
        Operation::Pullup(len) => {
            if !pool.m_pullup(chain, len, meter) {
                assert!(len > flat.len());
                flat.clear();
            }
        }
        Operation::CopyAndSwap(offset, len) => {
            let copy = pool.m_copy(chain, offset, len, meter).unwrap();
            pool.free_chain(chain.take(), meter);
            *chain = copy;
            let from = offset.min(flat.len());
            *flat = flat[from..(from + len).min(flat.len())].to_vec();
        }
    }
}

proptest! {
    #[test]
    fn any_operations_leave_what_they_leave_on_a_flat_buffer(
        steps in prop::collection::vec(operation(), 1..40),
        rule in 0usize..3,
    ) {
        let rule = [Pullup::Exact, Pullup::Extra, Pullup::Protocol][rule];
        let (mut pool, mut meter) = pool_with(rule);
        let (mut chain, mut flat) = (Chain::new(), Vec::new());
        for step in steps {
            apply(&mut pool, &mut chain, &mut flat, step, &mut meter);
            check(&pool, &chain, &flat);
        }
        pool.free_chain(chain, &mut meter);
        assert_full(&pool);
    }
}
