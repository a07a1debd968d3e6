//! The screen of a terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style as Look};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use sockscope_analysis::Analysis;
use sockscope_render::number::{counted, time};
use sockscope_render::style::{Style, Tone};

use super::app::{App, Page};
use super::details;
use super::line::{Columns, Part, totals};
use super::row::Row;

const KEYS: &[(&str, &str)] = &[
    ("Up Down", "select a connection; also j and k, PageUp, PageDown, Home, End"),
    ("Enter", "open the selected connection"),
    ("Esc", "back to the list; in the list, take the filter away"),
    ("/", "filter: port:443 process:nginx address:10.0.0.1 finding:nagle, or any text"),
    ("s S", "next and previous order: time waited, oldest byte, bytes in queues, name"),
    ("t", "show closed connections, or not"),
    ("Space", "freeze the screen"),
    ("1 2", "connections, findings"),
    ("?", "these keys"),
    ("q", "end"),
];

/// Facts of the recording for the first line.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Over which the rows sum up, nanoseconds.
    pub span_ns: u64,
    /// Records that were missed since the start.
    pub missed: u64,
    /// Something to say, as that the recorded program ended.
    pub note: Option<&'a str>,
}

/// Draws the page of `app`. `analysis` is that of the last refresh.
pub fn draw(
    frame: &mut Frame<'_>,
    app: &App,
    analysis: Option<&Analysis>,
    facts: Facts<'_>,
    style: Style,
) {
    let areas =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]);
    let [head, body, foot] = areas.areas(frame.area());
    frame.render_widget(Paragraph::new(headline(app, facts, style)), head);
    match app.page {
        Page::List => list(frame, app, body, style),
        Page::Findings => frame.render_widget(Paragraph::new(findings(app, style)), body),
        Page::Details(id) => {
            let row = app.row(id).map(|row| ends(row, style));
            let mut lines = row.map_or(vec![], |ends| vec![Line::styled(ends, bold())]);
            let width = usize::from(body.width);
            let report = analysis.map(|all| details::lines(all, id, width, style.charset));
            let report = report.unwrap_or_default();
            if report.is_empty() {
                lines.push(Line::raw("nothing was recorded of it since the last refresh"));
            }
            let most = (lines.len() + report.len()).saturating_sub(usize::from(body.height));
            lines.extend(report.into_iter().map(Line::raw));
            let scroll = u16::try_from(app.scroll.min(most)).unwrap_or(u16::MAX);
            frame.render_widget(Paragraph::new(lines).scroll((scroll, 0)), body);
        }
        Page::Help => {
            let keys = KEYS.iter().map(|(key, use_)| Line::raw(format!("{key:>10}  {use_}")));
            frame.render_widget(Paragraph::new(keys.collect::<Vec<_>>()), body);
        }
    }
    frame.render_widget(Paragraph::new(footline(app)), foot);
}

fn bold() -> Look {
    Look::default().add_modifier(Modifier::BOLD)
}

fn ends(row: &Row, style: Style) -> String {
    let [sender, receiver] = row.ends();
    let text = format!(
        "connection {}: {sender} {} {receiver}",
        row.connection.id.0,
        style.glyphs().arrow_right
    );
    style.clean(&text)
}

fn headline(app: &App, facts: Facts<'_>, style: Style) -> Line<'static> {
    let shown = app.rows().len() as u64;
    let mut text = format!(
        "sockscope top: {}, last {}",
        counted(shown, "connection"),
        time(facts.span_ns, style.charset)
    );
    if facts.missed > 0 {
        text.push_str(&format!(", {} missed", counted(facts.missed, "record")));
    }
    if app.is_frozen {
        text.push_str(", frozen");
    }
    if let Some(note) = facts.note {
        text.push_str(&format!(", {note}"));
    }
    Line::styled(style.clean(&text), bold())
}

fn footline(app: &App) -> Line<'static> {
    if let Some(input) = &app.input {
        return Line::raw(format!("/{input}_"));
    }
    if let Some(error) = &app.error {
        return Line::styled(error.clone(), look(Tone::Bad));
    }
    let mut text = format!("by {}", app.sort.name());
    if !app.filter_line.is_empty() {
        text.push_str(&format!(", filter {}", app.filter_line));
    }
    Line::styled(format!("{text}    ? keys  q end"), look(Tone::Faint))
}

fn list(frame: &mut Frame<'_>, app: &App, body: Rect, style: Style) {
    let columns = Columns::of(usize::from(body.width));
    let rows = app.rows();
    let mut lines = vec![Line::styled(columns.head(), look(Tone::Faint))];
    if rows.is_empty() {
        lines.push(Line::raw("no connection yet"));
    }
    let fitting = usize::from(body.height).saturating_sub(1);
    let selected = app.selected();
    let first = (selected + 1).saturating_sub(fitting);
    for (place, row) in rows.iter().enumerate().skip(first).take(fitting) {
        let line = Line::from(columns.parts(row, style).into_iter().map(span).collect::<Vec<_>>());
        lines.push(if place == selected {
            line.patch_style(Look::default().add_modifier(Modifier::REVERSED))
        } else {
            line
        });
    }
    frame.render_widget(Paragraph::new(lines), body);
}

fn findings(app: &App, style: Style) -> Vec<Line<'static>> {
    let rows = app.rows();
    let totals = totals(&rows);
    if totals.is_empty() {
        return vec![Line::raw("no finding in the last seconds")];
    }
    let lines = totals.into_iter().flat_map(|(id, count, cost_ns)| {
        let cost = time(cost_ns, style.charset);
        let head = format!("{cost:>8}  {}, {}", id.name(), counted(count as u64, "connection"));
        let mut lines = vec![Line::styled(head, bold())];
        let found = rows.iter().copied().flat_map(|row| {
            let own = row.findings.iter().filter(|finding| finding.id == id);
            own.map(move |finding| (row, finding))
        });
        lines.extend(found.take(3).map(|(row, finding)| {
            let text = format!("{:10}connection {}: {}", "", row.connection.id.0, finding.summary);
            Line::raw(style.clean(&text))
        }));
        lines
    });
    lines.collect()
}

fn span((text, tone): Part) -> Span<'static> {
    Span::styled(text, look(tone))
}

/// The look of a tone: the colours of the text report.
fn look(tone: Tone) -> Look {
    let colour = |colour| Look::default().fg(colour);
    match tone {
        Tone::Plain => Look::default(),
        Tone::Strong => bold(),
        Tone::Bad => colour(Color::Red).add_modifier(Modifier::BOLD),
        Tone::Good => colour(Color::Green),
        Tone::Faint => Look::default().add_modifier(Modifier::DIM),
        Tone::Colour(number) => colour(Color::Indexed(number)),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use sockscope_report::Charset;

    use super::*;
    use crate::top::app::Key;
    use crate::top::testing::{delayed, row};

    const FACTS: Facts<'_> = Facts { span_ns: 10_000_000_000, missed: 0, note: None };

    fn drawn(app: &App, facts: Facts<'_>, size: (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        let style = Style { charset: Charset::Unicode, color: true };
        terminal.draw(|frame| draw(frame, app, None, facts, style)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let lines = buffer.content().chunks(usize::from(size.0));
        let lines = lines.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>());
        lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }

    fn app() -> App {
        let mut app = App::new();
        app.refresh(&[row(1), delayed(2, 20)]);
        app
    }

    #[test]
    fn the_list_on_a_small_terminal() {
        assert_eq!(
            drawn(&app(), FACTS, (80, 6)),
            "\
sockscope top: 2 connections, last 10.0 s
  waited  sender > receiver        ledger     send q   recv q  oldest  TCP holds
  440 ms  client(101) → server(7)  ....NNNw    300 B      0 B 30.0 ms  nagle
 20.0 ms  client(102) → server(7)  .....Nww    300 B      0 B 30.0 ms  nagle

by time waited    ? keys  q end"
        );
    }

    #[test]
    fn the_list_on_a_wide_terminal() {
        let text = drawn(&app(), FACTS, (200, 6));
        let lines: Vec<&str> = text.lines().collect();
        let columns = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines[1].chars().count(), 151, "{}", lines[1]);
        assert_eq!(
            columns(lines[2]),
            columns(
                "440 ms client(101) → server(7), server 127.0.0.1:80 \
                 ...................NNNNNNNNNNNNNNNNwww 300 B 0 B 30.0 ms nagle nagle-delayed-ack"
            )
        );
    }

    #[test]
    fn the_findings_with_their_sentences() {
        let mut app = app();
        app.key(Key::Char('2'), 4);
        assert_eq!(
            drawn(&app, FACTS, (80, 6)),
            "\
sockscope top: 2 connections, last 10.0 s
  880 ms  nagle-delayed-ack, 2 connections
          connection 1: 10 stalls of 44 ms
          connection 2: 10 stalls of 44 ms

by time waited    ? keys  q end"
        );
    }

    #[test]
    fn the_first_line_says_what_was_missed_and_what_ended() {
        let facts = Facts { missed: 12, note: Some("process 7 ended"), ..FACTS };
        let text = drawn(&app(), facts, (100, 4));
        assert_eq!(
            text.lines().next(),
            Some("sockscope top: 2 connections, last 10.0 s, 12 records missed, process 7 ended")
        );
    }

    #[test]
    fn a_selected_row_below_the_screen_is_scrolled_to() {
        let mut app = App::new();
        let rows: Vec<Row> = (1..=50).map(|id| delayed(id, 100 - u64::from(id))).collect();
        app.refresh(&rows);
        app.key(Key::End, 4);
        let text = drawn(&app, FACTS, (80, 6));
        assert!(text.lines().nth(4).unwrap().starts_with(" 50.0 ms"), "{text}");
    }
}
