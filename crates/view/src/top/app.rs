//! The state of the screen: its rows, their order, and the open one. Keys change it.

use std::cmp::Reverse;

use sockscope_record::ConnectionId;

use super::filter::Filter;
use super::row::Row;

/// A key, as far as the screen knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// The arrow up.
    Up,
    /// The arrow down.
    Down,
    /// A screen up.
    PageUp,
    /// A screen down.
    PageDown,
    /// To the first line.
    Home,
    /// To the last line.
    End,
    /// Opens the selected row, or ends the input of a filter.
    Enter,
    /// Closes the open page.
    Esc,
    /// Takes back a character of the filter.
    Backspace,
}

/// The effect of a key on the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// Draw again.
    Draw,
    /// End.
    Quit,
}

/// The order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// Time in queues, most first.
    #[default]
    Waited,
    /// Age of the oldest unread byte, oldest first.
    Oldest,
    /// Bytes in both queues, most first.
    Queued,
    /// By the names of both ends.
    Name,
}

impl Sort {
    const ALL: [Self; 4] = [Self::Waited, Self::Oldest, Self::Queued, Self::Name];

    /// In words, for the last line of the screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waited => "time waited",
            Self::Oldest => "oldest unread byte",
            Self::Queued => "bytes in queues",
            Self::Name => "name",
        }
    }

    fn moved(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|one| *one == self).unwrap_or(0);
        Self::ALL[(at + by) % Self::ALL.len()]
    }
}

/// The page that the screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Page {
    /// The list of connections.
    #[default]
    List,
    /// The findings of all connections.
    Findings,
    /// One connection.
    Details(ConnectionId),
    /// The keys.
    Help,
}

/// The state of the screen.
#[derive(Debug, Default)]
pub struct App {
    rows: Vec<Row>,
    /// Shown page.
    pub page: Page,
    /// Order of the list.
    pub sort: Sort,
    filter: Filter,
    /// The line that is typed after `/`.
    pub input: Option<String>,
    /// The words of the filter, for the last line of the screen.
    pub filter_line: String,
    /// Why the last filter was refused.
    pub error: Option<String>,
    /// Refreshes do not change the screen.
    pub is_frozen: bool,
    /// Closed connections are shown.
    pub shows_closed: bool,
    selected: Option<ConnectionId>,
    /// First shown line of the details.
    pub scroll: usize,
}

impl App {
    /// With the list of no connections.
    pub fn new() -> Self {
        Self { shows_closed: true, ..Self::default() }
    }

    /// Takes the rows of a refresh, unless the screen is frozen.
    pub fn refresh(&mut self, rows: &[Row]) {
        if !self.is_frozen {
            self.rows = rows.to_vec();
        }
    }

    /// The rows that the filter selects, in order.
    pub fn rows(&self) -> Vec<&Row> {
        let rows = self.rows.iter();
        let rows = rows.filter(|row| self.shows_closed || row.closed_ns.is_none());
        let mut rows: Vec<&Row> = rows.filter(|row| self.filter.matches(row)).collect();
        let queued = |row: &Row| {
            row.send_queue_bytes.unwrap_or(0).saturating_add(row.receive_queue_bytes.unwrap_or(0))
        };
        match self.sort {
            Sort::Waited => rows.sort_by_key(|row| {
                (row.closed_ns.is_some(), Reverse(row.waited_ns), row.connection.id)
            }),
            Sort::Oldest => rows.sort_by_key(|row| (Reverse(row.oldest_ns), row.connection.id)),
            Sort::Queued => rows.sort_by_key(|row| (Reverse(queued(row)), row.connection.id)),
            Sort::Name => rows.sort_by_key(|row| (row.ends(), row.connection.id)),
        }
        rows
    }

    /// The row of a connection, also where the filter does not select it.
    pub fn row(&self, id: ConnectionId) -> Option<&Row> {
        self.rows.iter().find(|row| row.connection.id == id)
    }

    /// Place of the selected row in [`rows`](Self::rows): that of the selected connection, else the first one.
    pub fn selected(&self) -> usize {
        let rows = self.rows();
        let place = rows.iter().position(|row| Some(row.connection.id) == self.selected);
        place.unwrap_or(0)
    }

    /// Reacts to a key; `lines` of the list fit on the screen.
    pub fn key(&mut self, key: Key, lines: usize) -> Reaction {
        if self.input.is_some() {
            self.type_filter(key);
            return Reaction::Draw;
        }
        match key {
            Key::Char('q') => return Reaction::Quit,
            Key::Char('?') => self.page = Page::Help,
            Key::Char('1') => self.page = Page::List,
            Key::Char('2') => self.page = Page::Findings,
            Key::Char(' ') => self.is_frozen = !self.is_frozen,
            Key::Char('t') => self.shows_closed = !self.shows_closed,
            Key::Char('s') => self.sort = self.sort.moved(1),
            Key::Char('S') => self.sort = self.sort.moved(Sort::ALL.len() - 1),
            Key::Char('/') => {
                self.input = Some(self.filter_line.clone());
                self.error = None;
            }
            Key::Esc => match self.page {
                Page::List => self.clear_filter(),
                _ => self.page = Page::List,
            },
            Key::Enter if self.page == Page::List => {
                let rows = self.rows();
                let id = rows.get(self.selected()).map(|row| row.connection.id);
                if let Some(id) = id {
                    (self.page, self.scroll) = (Page::Details(id), 0);
                }
            }
            _ => self.walk(key, lines.max(1)),
        }
        Reaction::Draw
    }

    fn walk(&mut self, key: Key, lines: usize) {
        let moved = |at: usize, last: usize| match key {
            Key::Up | Key::Char('k') => at.saturating_sub(1),
            Key::Down | Key::Char('j') => (at + 1).min(last),
            Key::PageUp => at.saturating_sub(lines),
            Key::PageDown => (at + lines).min(last),
            Key::Home => 0,
            Key::End => last,
            _ => at,
        };
        if self.page == Page::List {
            let rows = self.rows();
            let at = moved(self.selected(), rows.len().saturating_sub(1));
            self.selected = rows.get(at).map(|row| row.connection.id);
        } else {
            self.scroll = moved(self.scroll, usize::MAX / 2);
        }
    }

    fn clear_filter(&mut self) {
        (self.filter, self.error) = (Filter::default(), None);
        self.filter_line.clear();
    }

    fn type_filter(&mut self, key: Key) {
        let Some(line) = &mut self.input else { return };
        match key {
            Key::Char(character) => line.push(character),
            Key::Backspace => drop(line.pop()),
            Key::Esc => self.input = None,
            Key::Enter => {
                let line = std::mem::take(line);
                self.input = None;
                match Filter::parse(&line) {
                    Ok(filter) => {
                        (self.filter, self.filter_line, self.error) = (filter, line, None);
                    }
                    Err(error) => self.error = Some(error.to_string()),
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::delayed;

    fn app() -> App {
        let mut app = App::new();
        let closed = Row { closed_ns: Some(1), ..delayed(4, 50) };
        app.refresh(&[delayed(1, 10), delayed(2, 30), delayed(3, 20), closed]);
        app
    }

    fn ids(app: &App) -> Vec<u32> {
        app.rows().iter().map(|row| row.connection.id.0).collect()
    }

    fn keys(app: &mut App, text: &str) {
        for character in text.chars() {
            app.key(Key::Char(character), 10);
        }
    }

    #[test]
    fn the_first_row_waited_longest() {
        assert_eq!(ids(&app()), [2, 3, 1, 4]);
    }

    #[test]
    fn the_selection_stays_with_its_connection() {
        let mut app = app();
        app.key(Key::Down, 10);
        app.refresh(&[delayed(1, 10), delayed(2, 30), delayed(3, 90)]);
        assert_eq!((ids(&app), app.selected()), (vec![3, 2, 1], 0));
        app.key(Key::Enter, 10);
        assert_eq!(app.page, Page::Details(ConnectionId(3)));
        app.key(Key::Esc, 10);
        assert_eq!(app.page, Page::List);
    }

    #[test]
    fn a_frozen_screen_keeps_its_rows() {
        let mut app = app();
        keys(&mut app, " ");
        app.refresh(&[delayed(9, 1)]);
        assert_eq!(ids(&app), [2, 3, 1, 4]);
        keys(&mut app, " ");
        app.refresh(&[delayed(9, 1)]);
        assert_eq!(ids(&app), [9]);
    }

    #[test]
    fn closed_connections_are_kept_until_they_are_not_wanted() {
        let mut app = app();
        keys(&mut app, "t");
        assert_eq!(ids(&app), [2, 3, 1]);
    }

    #[test]
    fn a_filter_is_typed_and_taken_back() {
        let mut app = app();
        keys(&mut app, "/process:102x");
        app.key(Key::Backspace, 10);
        app.key(Key::Enter, 10);
        assert_eq!(ids(&app), [2]);
        app.key(Key::Esc, 10);
        assert_eq!(ids(&app).len(), 4);
        keys(&mut app, "/pod:x");
        app.key(Key::Enter, 10);
        assert!(app.error.as_ref().is_some_and(|said| said.starts_with("pod: is no field")));
    }

    #[test]
    fn q_ends_and_q_in_a_filter_does_not() {
        let mut app = app();
        assert_eq!(app.key(Key::Char('q'), 10), Reaction::Quit);
        keys(&mut app, "/q");
        assert_eq!(app.input.as_deref(), Some("q"));
    }

    #[test]
    fn the_orders_follow_one_another() {
        let mut app = app();
        keys(&mut app, "s");
        assert_eq!(app.sort, Sort::Oldest);
        keys(&mut app, "SS");
        assert_eq!(app.sort, Sort::Name);
    }
}
