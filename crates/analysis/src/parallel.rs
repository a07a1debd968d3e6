//! The same work for many items, on several threads.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, scope};

/// The results of `work`, in the order of the items. Each thread takes the next item when it has done one,
/// and drops nothing later than that: at most `threads` items are in work.
///
/// If the system refuses a thread, the others do its part.
pub(crate) fn map<T: Send, R: Send>(
    items: Vec<T>,
    threads: NonZeroUsize,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let count = items.len();
    let threads = threads.get().min(count);
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let waiting = Mutex::new(items.into_iter().enumerate());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        let mut done = Vec::new();
        while let Some((index, item)) = next() {
            done.push((index, work(item)));
        }
        done
    };
    let mut done = scope(|scope| {
        let start = |_| Builder::new().spawn_scoped(scope, run).ok();
        let workers: Vec<_> = (0..threads).filter_map(start).collect();
        // This thread waits: its heap has the items, and each worker that frees one needs that heap's lock.
        let mut done = if workers.is_empty() { run() } else { Vec::new() };
        for worker in workers {
            done.extend(worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    debug_assert!(done.iter().map(|(index, _)| *index).eq(0..count), "each item is done once");
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn threads(number: usize) -> NonZeroUsize {
        NonZeroUsize::new(number).unwrap()
    }

    #[test]
    fn results_have_the_order_of_their_items() {
        for number in [1, 2, 5, 200] {
            let doubled = map((0..100).collect(), threads(number), |item| 2 * item);
            assert_eq!(doubled, (0..100).map(|item| 2 * item).collect::<Vec<_>>());
        }
        assert_eq!(map(Vec::<u8>::new(), threads(4), |item| item), []);
    }

    #[test]
    fn as_many_items_are_in_work_as_there_are_threads() {
        // Neither of the two goes on before the other has begun.
        let both = Barrier::new(2);
        let workers = map(vec![(); 2], threads(2), |()| {
            both.wait();
            thread::current().id()
        });
        assert_eq!(workers.into_iter().collect::<HashSet<_>>().len(), 2);
    }

    #[test]
    #[should_panic(expected = "of the third item")]
    fn a_panic_of_any_thread_is_the_callers() {
        map((0..4).collect(), threads(3), |item| assert_ne!(item, 2, "of the third item"));
    }
}
