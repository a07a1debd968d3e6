//! The columns of a figure that can be zoomed and not asked for more: narrow where much happens, wide where nothing does.

/// The edges of at most `columns` columns from `from_ns` to `to_ns`. `times_ns`, in order, are the steps of all curves.
///
/// With a column for each step the curves are exact. Else half of the edges divide the steps evenly, and the others are
/// the ends of the longest gaps, so that a pause is never in one column with the steps next to it.
pub(super) fn edges(times_ns: &[u64], (from_ns, to_ns): (u64, u64), columns: usize) -> Vec<u64> {
    let within = |at_ns: &&u64| (from_ns..to_ns).contains(*at_ns);
    let times: Vec<u64> = times_ns.iter().filter(within).copied().collect();
    let mut edges = vec![from_ns, to_ns.max(from_ns + 1)];
    if times.len() + 2 <= columns {
        edges.extend(&times);
    } else {
        let share = columns / 4;
        let every = times.len().div_ceil((columns / 2).max(1));
        edges.extend(times.iter().step_by(every));
        let mut gaps: Vec<(u64, usize)> =
            times.windows(2).enumerate().map(|(at, pair)| (pair[1] - pair[0], at)).collect();
        if gaps.len() > share {
            gaps.select_nth_unstable_by_key(share, |gap| (std::cmp::Reverse(gap.0), gap.1));
            gaps.truncate(share);
        }
        edges.extend(gaps.iter().flat_map(|&(_, at)| [times[at], times[at + 1]]));
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Times in order, each once.
pub(super) fn sorted(times_ns: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut times: Vec<u64> = times_ns.collect();
    times.sort_unstable();
    times.dedup();
    times
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_of_few_steps_has_a_column() {
        assert_eq!(edges(&[12, 15, 40], (10, 50), 8), [10, 12, 15, 40, 50]);
        assert_eq!(edges(&[], (10, 10), 8), [10, 11]);
    }

    #[test]
    fn a_pause_among_many_steps_has_a_column_of_its_own() {
        let mut times: Vec<u64> = (0..10_000).collect();
        times.extend(50_000..60_000);
        let edges = edges(&times, (0, 60_000), 400);
        assert!(edges.windows(2).any(|pair| pair == [9_999, 50_000]), "{edges:?}");
        assert!(edges.len() <= 401);
    }

    proptest! {
        #[test]
        fn columns_are_few_and_cover_the_time(
            times in prop::collection::vec(0u64..100_000, 0..900), columns in 8usize..300,
        ) {
            let times = sorted(times.into_iter());
            let edges = edges(&times, (1_000, 90_000), columns);
            prop_assert!(edges.len() <= columns + 1 + 2, "{} of {columns}", edges.len());
            prop_assert!(edges.is_sorted_by(|left, right| left < right));
            prop_assert_eq!((edges[0], edges[edges.len() - 1]), (1_000, 90_000));
        }
    }
}
