//! The screen as a picture: its cells as text of an SVG document, with the same colours for places.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use sockscope_analysis::{Analysis, LedgerPart};
use sockscope_render::style::{Charset, Style};
use sockscope_render::svg::{Anchor, Rect, Svg};
use sockscope_report::palette::{self, Look};

use super::app::App;
use super::screen::{Facts, draw};

/// A cell of a font of 14 pixels, of which each letter has six tenths of its height.
const CELL_PX: (f64, f64) = (8.43, 19.0);
const MARGIN_PX: f64 = 14.0;
/// From the upper edge of a cell to the base line.
const BASE_PX: f64 = 14.0;

/// Everything but the colours of places, on a light ground.
const LIGHT: &str = ".page{fill:#fff}\n\
    text{font:14px 'DejaVu Sans Mono','Liberation Mono',Menlo,Consolas,monospace;fill:#1a1a1a}\n\
    .bold{font-weight:700}.dim{fill-opacity:.7}.chosen{fill:#dbe9f5}.bad{fill:#b03600}.good{fill:#00704f}\n";
/// The same where it differs on a dark one.
const DARK: &str = ".page{fill:#16181d}text{fill:#e6e6e6}.chosen{fill:#1f3547}.bad{fill:#ff8a4c}.good{fill:#3fcf9f}\n";

/// The screen of `app` in so many columns and rows, as SVG.
pub fn picture(
    app: &App,
    analysis: Option<&Analysis>,
    facts: Facts<'_>,
    (columns, rows): (u16, u16),
) -> String {
    let style = Style { charset: Charset::Unicode, color: true };
    let Ok(mut terminal) = Terminal::new(TestBackend::new(columns, rows));
    let Ok(_) = terminal.draw(|frame| draw(frame, app, analysis, facts, style));
    of_cells(terminal.backend().buffer())
}

fn of_cells(buffer: &Buffer) -> String {
    let (columns, rows) = (buffer.area.width, buffer.area.height);
    let (mut svg, mut places) = (Svg::default(), Vec::new());
    for (row, cells) in buffer.content().chunks(usize::from(columns.max(1))).enumerate() {
        let y = MARGIN_PX + row as f64 * CELL_PX.1;
        if cells.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)) {
            let width = f64::from(columns) * CELL_PX.0;
            svg.rect("chosen", Rect { x: MARGIN_PX, y, width, height: CELL_PX.1 });
        }
        for (column, words, cell) in runs(cells) {
            let place = (MARGIN_PX + column as f64 * CELL_PX.0, y + BASE_PX);
            svg.text(&classes(cell, &mut places), Anchor::Start, place, &words);
        }
    }
    let rules = |colour: fn(&Look) -> &'static str| -> String {
        places.iter().map(|look| format!(".{}{{fill:{}}}", look.class, colour(look))).collect()
    };
    let (light, dark) = (rules(|look| look.on_light), rules(|look| look.on_dark));
    let css = format!("{LIGHT}{light}\n@media (prefers-color-scheme:dark){{\n{DARK}{dark}}}\n");
    let size = |cells: u16, px: f64| f64::from(cells) * px + 2.0 * MARGIN_PX;
    svg.document((size(columns, CELL_PX.0), size(rows, CELL_PX.1)), "sockscope top", &css, "")
}

/// The words of a row: runs of cells that look alike, without the blanks around them. A run ends at two blanks, so that
/// each column of the screen stands at its place in any font.
fn runs(cells: &[Cell]) -> Vec<(usize, String, &Cell)> {
    let mut runs: Vec<(usize, String, &Cell)> = Vec::new();
    let mut blanks = 2;
    for (column, cell) in cells.iter().enumerate() {
        if cell.symbol().trim().is_empty() {
            blanks += 1;
            continue;
        }
        match runs.last_mut() {
            Some((_, words, first)) if blanks < 2 && is_alike(first, cell) => {
                words.push_str(&" ".repeat(blanks));
                words.push_str(cell.symbol());
            }
            _ => runs.push((column, cell.symbol().to_owned(), cell)),
        }
        blanks = 0;
    }
    runs
}

fn is_alike(one: &Cell, other: &Cell) -> bool {
    one.fg == other.fg && one.modifier == other.modifier
}

/// The classes of a cell's look; a place is added to `places` once.
fn classes(cell: &Cell, places: &mut Vec<Look>) -> String {
    let mut classes = vec!["cell"];
    let modifiers = [(Modifier::BOLD, "bold"), (Modifier::DIM, "dim")];
    classes.extend(modifiers.iter().filter(|it| cell.modifier.contains(it.0)).map(|it| it.1));
    match cell.fg {
        Color::Red => classes.push("bad"),
        Color::Green => classes.push("good"),
        Color::Indexed(number) => {
            let looks = LedgerPart::ALL.into_iter().map(palette::place);
            if let Some(look) = looks.into_iter().find(|look| look.terminal == number) {
                classes.push(look.class);
                if !places.contains(&look) {
                    places.push(look);
                }
            }
        }
        _ => {}
    }
    classes.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::{delayed, row};

    #[test]
    fn the_cells_of_the_screen_stand_at_their_places_in_the_colours_of_the_palette() {
        let mut app = App::new();
        app.refresh(&[row(1), delayed(2, 20)]);
        let facts = Facts { span_ns: 10_000_000_000, missed: 0, note: None };
        let svg = picture(&app, None, facts, (80, 6));
        let texts: Vec<&str> = svg.lines().filter(|line| line.starts_with("<text")).collect();
        assert!(texts[0].ends_with(">sockscope top: 2 connections, last 10.0 s</text>"), "{svg}");
        assert!(texts[0].contains("class=\"cell bold\" x=\"14\" y=\"28\""), "{}", texts[0]);
        let nagle = palette::place(LedgerPart::SendNagle);
        let bars = texts.iter().filter(|text| text.contains(nagle.class));
        assert!(bars.clone().count() == 2 && bars.clone().all(|bar| bar.contains(">N")), "{svg}");
        let (light, dark) = svg.split_once("prefers-color-scheme:dark").unwrap();
        let rule = |colour: &str| format!(".{}{{fill:{colour}}}", nagle.class);
        assert!(light.contains(&rule(nagle.on_light)) && dark.contains(&rule(nagle.on_dark)));
        assert_eq!(svg.matches("<rect class=\"chosen\"").count(), 1, "the selected row");
    }

    #[test]
    fn words_are_placed_by_column_and_blanks_are_left_out() {
        let buffer = Buffer::with_lines(["  ab c   d "]);
        let placed = runs(buffer.content()).into_iter().map(|(at, words, _)| (at, words));
        let expected = [(2, "ab c".to_owned()), (9, "d".to_owned())];
        assert_eq!(placed.collect::<Vec<_>>(), expected);
        let empty = of_cells(&Buffer::with_lines([""]));
        assert!(empty.starts_with("<svg ") && !empty.contains("<text"));
    }
}
