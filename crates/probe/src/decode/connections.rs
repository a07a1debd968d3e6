//! The known state of each connection, by its number.
//!
//! Numbers only grow, and most connections are over soon: a page is freed with its last connection, so that
//! memory follows the connections that are remembered and not those that ever were.

use super::flow_state::ConnectionState;

/// Connections of one page.
const PAGE: usize = 64;
/// Pages that one look passes at most, those without a connection included.
const PASSED_MAX: usize = 65_536;

/// All connections that are remembered.
#[derive(Default)]
pub(super) struct Connections {
    pages: Vec<Option<Box<Page>>>,
}

struct Page {
    states: [Option<Box<ConnectionState>>; PAGE],
    count: usize,
}

impl Connections {
    /// One more than the greatest number that can be remembered without a further page.
    pub(super) fn end(&self) -> usize {
        self.pages.len() * PAGE
    }

    pub(super) fn get(&self, id: u32) -> Option<&ConnectionState> {
        let page = self.pages.get(id as usize / PAGE)?.as_deref()?;
        page.states[id as usize % PAGE].as_deref()
    }

    pub(super) fn of_mut(&mut self, id: u32) -> Option<&mut ConnectionState> {
        let page = self.pages.get_mut(id as usize / PAGE)?.as_deref_mut()?;
        page.states[id as usize % PAGE].as_deref_mut()
    }

    /// Remembers a connection; one of the same number is forgotten.
    pub(super) fn insert(&mut self, id: u32, state: ConnectionState) -> &mut ConnectionState {
        let index = id as usize / PAGE;
        if self.pages.len() <= index {
            self.pages.resize_with(index + 1, || None);
        }
        let page = self.pages[index]
            .get_or_insert_with(|| Box::new(Page { states: [const { None }; PAGE], count: 0 }));
        let place = &mut page.states[id as usize % PAGE];
        if place.is_none() {
            page.count += 1;
        }
        debug_assert!((1..=PAGE).contains(&page.count));
        place.insert(Box::new(state))
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Box<ConnectionState>> {
        let place = self.pages.get_mut(id as usize / PAGE)?;
        let page = place.as_deref_mut()?;
        let state = page.states[id as usize % PAGE].take()?;
        debug_assert!(page.count > 0, "a page without connections is dropped");
        page.count -= 1;
        if page.count == 0 {
            *place = None;
        }
        Some(state)
    }

    /// All of them, by number.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ConnectionState> {
        let pages = self.pages.iter_mut().flatten();
        pages.flat_map(|page| page.states.iter_mut().flatten().map(|state| &mut **state))
    }

    /// Those in the next `pages` that have connections, from the page of `from` on, and the number to go on from.
    pub(super) fn some_from(
        &self,
        from: u32,
        pages: usize,
    ) -> (impl Iterator<Item = &ConnectionState>, u32) {
        let first = from as usize / PAGE;
        let first = if first < self.pages.len() { first } else { 0 };
        let passed = &self.pages[first..self.pages.len().min(first + PASSED_MAX)];
        let last = passed.iter().enumerate().filter(|(_, page)| page.is_some()).nth(pages - 1);
        let after = first + last.map_or(passed.len(), |(index, _)| index + 1);
        let states = self.pages[first..after].iter().flatten();
        let states = states.flat_map(|page| page.states.iter().flatten().map(|state| &**state));
        (states, (after * PAGE) as u32)
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Connection, ConnectionId, Protocol};

    use super::*;

    impl Connections {
        /// Number of remembered connections.
        pub(crate) fn len(&self) -> usize {
            self.pages.iter().flatten().map(|page| page.count).sum()
        }
    }

    fn state(id: u32) -> ConnectionState {
        let nowhere = ([0, 0, 0, 0], 0).into();
        ConnectionState::new(Connection {
            id: ConnectionId(id),
            protocol: Protocol::Udp,
            client: nowhere,
            server: nowhere,
            opened_ns: 0,
            closed_ns: None,
            preexisting: false,
            both_ends_here: false,
            processes: Vec::new(),
            names: None,
            mark: None,
            elsewhere: None,
        })
    }

    #[test]
    fn a_page_goes_with_its_last_connection() {
        let mut connections = Connections::default();
        for id in 1..1_000 {
            connections.insert(id, state(id));
        }
        assert_eq!((connections.len(), connections.end()), (999, 1_024));
        for id in (1..1_000).filter(|id| *id != 500) {
            assert!(connections.remove(id).is_some_and(|state| state.info.id.0 == id));
        }
        assert!(connections.remove(499).is_none() && connections.remove(5_000).is_none());
        assert_eq!(connections.pages.iter().flatten().count(), 1);
        assert!(connections.get(500).is_some() && connections.get(501).is_none());
        assert_eq!(connections.iter_mut().count(), 1);
    }

    #[test]
    fn all_are_passed_in_turns() {
        let mut connections = Connections::default();
        for id in [3, 70, 200, 1_000, 1_001, 90_000] {
            connections.insert(id, state(id));
        }
        let mut from = 0;
        let mut next = || {
            let (some, next) = connections.some_from(from, 2);
            from = next;
            some.map(|state| state.info.id.0).collect::<Vec<_>>()
        };
        assert_eq!([next(), next(), next()], [vec![3, 70], vec![200, 1_000, 1_001], vec![90_000]]);
        assert_eq!(next(), [3, 70]);
    }

    #[test]
    fn a_look_passes_a_bounded_number_of_empty_pages() {
        let mut connections = Connections::default();
        let far = (PASSED_MAX * PAGE) as u32 + 1;
        connections.insert(far, state(far));
        let (some, next) = connections.some_from(0, 8);
        assert_eq!((some.count(), next), (0, far - 1));
        assert_eq!(connections.some_from(next, 8).0.count(), 1);
    }
}
