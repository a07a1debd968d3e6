//! The frame around every figure: title, the two ends, legend, panels with axes, notes, facts.
//!
//! From top to bottom; a legend stands above the panels, never over data. Pixels throughout.

use crate::scale::Axis;
use crate::svg::{Anchor, Path, Rect, Svg};
use crate::theme::{self, Ink, Shape, Stroke, Words};

const LEFT_PX: f64 = 70.0;
const WIDE_LEFT_PX: f64 = 100.0;
const RIGHT_PX: f64 = 22.0;
const TITLE_Y: f64 = 28.0;
const SUBTITLE_Y: f64 = 48.0;
const LEGEND_Y: f64 = 71.0;
const LEGEND_ROW_PX: f64 = 19.0;
/// Room above a panel for its title.
const PANEL_TITLE_PX: f64 = 24.0;
/// Room under the lowest panel for tick numbers and the axis' name.
const X_AXIS_PX: f64 = 42.0;
const NOTE_ROW_PX: f64 = 15.0;
/// Notes have room for this number of rows; with more the page grows.
const NOTE_ROWS: usize = 2;

/// A figure under construction.
pub struct Page {
    /// The drawing so far.
    pub svg: Svg,
    title: String,
    width: f64,
    height: f64,
    /// Upper edge of the panels.
    top: f64,
    /// Room left of them for tick numbers and the axis' name.
    left: f64,
    notes: Vec<String>,
    facts: String,
    /// Rules of further classes, on a light and on a dark ground.
    rules: [String; 2],
}

/// A legend's entry: a sample and its meaning.
#[derive(Clone, Copy)]
pub struct Key<'a> {
    /// The sample next to the words.
    pub sample: Sample,
    /// Meaning of the sample.
    pub words: &'a str,
}

/// Text above and below the panels.
pub struct Head<'a> {
    /// In large letters.
    pub title: &'a str,
    /// Below the title.
    pub subtitle: &'a str,
    /// The line at the foot.
    pub facts: String,
    /// Width and height, pixels.
    pub size: (u32, u32),
}

/// Sample of a legend next to its words.
#[derive(Clone, Copy)]
pub enum Sample {
    /// A piece of line.
    Line(Ink, Stroke),
    /// A piece of line with a marker on it.
    Marked(Ink, Stroke, Shape),
    /// Some bars.
    Bars(Ink),
    /// A short bar under the axis.
    Stub(Ink),
    /// A marker.
    Mark(Ink, Shape),
    /// An arrow to the right.
    Arrow(Ink, Stroke),
    /// A bar along an axis of time.
    Bar(Ink),
    /// The hatch of the unknown.
    Unknown,
}

/// One drawing area with its two axes.
pub struct Panel {
    /// The drawing area, without numbers and names of its axes.
    pub area: Rect,
    /// Along the lower edge.
    pub x: Axis,
    /// Along the left edge.
    pub y: Axis,
}

impl Page {
    /// Title, subtitle and legend.
    pub fn with_head(head: Head<'_>, keys: &[Key<'_>]) -> Self {
        let (width, height) = (f64::from(head.size.0), f64::from(head.size.1));
        let mut page = Self {
            svg: Svg::default(),
            title: format!("{}: {}", head.title, head.subtitle),
            width,
            height,
            top: 0.0,
            left: LEFT_PX,
            notes: Vec::new(),
            facts: head.facts,
            rules: Default::default(),
        };
        let room = width - 2.0 * RIGHT_PX;
        page.words(Words::Title, (RIGHT_PX, TITLE_Y), &Words::Title.fitted(head.title, room));
        let subtitle = Words::Subtitle.fitted(head.subtitle, room);
        page.words(Words::Subtitle, (RIGHT_PX, SUBTITLE_Y), &subtitle);
        page.top = page.legend(keys);
        page
    }

    /// Lets things of `class` be drawn in these colours, on a light and on a dark ground.
    pub fn colour(&mut self, class: &str, colours: [&str; 2]) {
        for (rules, colour) in self.rules.iter_mut().zip(colours) {
            let rule = theme::rules(class, colour);
            if !rules.contains(&rule) {
                rules.push_str(&rule);
            }
        }
    }

    /// Replaces the line at the foot.
    pub fn set_facts(&mut self, facts: String) {
        self.facts = facts;
    }

    /// Makes the page as tall as its content: for drawings that grow with their events.
    pub fn set_content_height(&mut self, content_px: f64) {
        self.height = self.top + content_px + self.foot_px();
    }

    /// Area for content, without axes.
    pub fn content(&self) -> Rect {
        Rect {
            x: RIGHT_PX,
            y: self.top,
            width: self.width - 2.0 * RIGHT_PX,
            height: (self.height - self.top - self.foot_px()).max(1.0),
        }
    }

    /// Leaves room for tick numbers of y axes that are wider than those of times and sizes.
    pub fn leave_room_for_ticks(&mut self) {
        self.left = WIDE_LEFT_PX;
    }

    /// Leaves so much room for names at the ticks of y axes.
    pub fn leave_room(&mut self, px: f64) {
        self.left = px;
    }

    /// Areas of panels one above the other, of these relative heights, that share an x axis
    /// (`is_shared`) or have each their own.
    pub fn stack(&self, heights: &[f64], is_shared: bool) -> Vec<Rect> {
        let axes = if is_shared { 1.0 } else { heights.len() as f64 };
        let gaps = PANEL_TITLE_PX * heights.len() as f64 + X_AXIS_PX * axes;
        let room = (self.height - self.top - self.foot_px() - gaps).max(1.0);
        let sum: f64 = heights.iter().sum();
        let mut y = self.top;
        let mut areas = Vec::new();
        for share in heights {
            y += PANEL_TITLE_PX;
            let height = room * share / sum;
            areas.push(Rect { x: self.left, y, width: self.width - self.left - RIGHT_PX, height });
            y += height + if is_shared { 0.0 } else { X_AXIS_PX };
        }
        areas
    }

    /// Writes `note` under the drawing; the same note once.
    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Draws the title of a panel, left, and a summary of its data, right.
    pub fn panel_title(&mut self, area: Rect, title: &str, summary: &str) {
        self.words(Words::Panel, (area.x, area.y - 7.0), title);
        let room = area.width - Words::Panel.width_px(title) - 20.0;
        let summary = Words::Note.fitted(summary, room);
        self.svg.text(Words::Note.class(), Anchor::End, (area.right(), area.y - 7.0), &summary);
    }

    /// Draws grid, axes and tick numbers of `panel`; numbers of the x axis only if `has_x_numbers`.
    pub fn frame(&mut self, panel: &Panel, has_x_numbers: bool) {
        self.grid(panel);
        self.x_ticks(panel, has_x_numbers);
        self.y_ticks(panel);
        let area = panel.area;
        let mut axes = Path::default();
        axes.move_to((area.x, area.y));
        axes.down_to(area.bottom());
        axes.across_to(area.right());
        self.svg.path("axis", &axes);
    }

    /// Writes `words` in the middle of an `area` without data.
    pub fn empty(&mut self, area: Rect, words: &str) {
        let words = Words::Empty.fitted(words, area.width - 20.0);
        let middle = (area.x + area.width / 2.0, area.y + area.height / 2.0);
        self.words_on_ground(Words::Empty, middle, &words);
    }

    /// Text that starts at `place`.
    pub fn words(&mut self, words: Words, place: (f64, f64), text: &str) {
        self.svg.text(words.class(), Anchor::Start, place, text);
    }

    /// A label on a pale ground, so that it reads over lines; `place` is its middle.
    pub fn label(&mut self, place: (f64, f64), text: &str) {
        self.words_on_ground(Words::Label, place, text);
    }

    /// Adds notes and facts and gives the document.
    pub fn finish(mut self) -> String {
        let room = self.width - 2.0 * RIGHT_PX;
        let mut rows = Words::Note.wrapped(&self.notes.join(" · "), room);
        self.height += NOTE_ROW_PX * rows.len().saturating_sub(NOTE_ROWS) as f64;
        rows.push(Words::Note.fitted(&self.facts, room));
        let first_y = self.height - 12.0 - NOTE_ROW_PX * (rows.len() - 1) as f64;
        for (index, row) in rows.iter().enumerate() {
            self.words(Words::Note, (RIGHT_PX, first_y + NOTE_ROW_PX * index as f64), row);
        }
        let size = (self.width, self.height);
        let style = theme::style([&self.rules[0], &self.rules[1]]);
        self.svg.document(size, &self.title, &style, &theme::definitions())
    }

    /// Text on a ground of its own; the place is its middle.
    pub fn words_on_ground(&mut self, words: Words, (x, y): (f64, f64), text: &str) {
        let width = words.width_px(text) + 6.0;
        let ground = Rect { x: x - width / 2.0, y: y - 8.0, width, height: 16.0 };
        self.svg.rect("halo", ground);
        self.svg.text(words.class(), Anchor::Middle, (x, y + 4.5), text);
    }

    /// Room for notes and facts at the foot.
    fn foot_px(&self) -> f64 {
        NOTE_ROW_PX * (NOTE_ROWS + 1) as f64 + 8.0
    }

    /// Draws the legend and returns its lower edge.
    fn legend(&mut self, keys: &[Key<'_>]) -> f64 {
        if keys.is_empty() {
            return SUBTITLE_Y + 8.0;
        }
        const SAMPLE_PX: f64 = 26.0;
        let (mut x, mut y) = (RIGHT_PX, LEGEND_Y);
        for key in keys {
            let width = SAMPLE_PX + 6.0 + Words::Label.width_px(key.words);
            if x > RIGHT_PX && x + width > self.width - RIGHT_PX {
                (x, y) = (RIGHT_PX, y + LEGEND_ROW_PX);
            }
            let room = Rect { x, y: y - 11.0, width: SAMPLE_PX, height: 14.0 };
            self.sample(key.sample, room);
            self.words(Words::Label, (x + SAMPLE_PX + 6.0, y), key.words);
            x += width + 18.0;
        }
        y + 8.0
    }

    fn sample(&mut self, sample: Sample, room: Rect) {
        let (middle_x, middle_y) = (room.x + room.width / 2.0, room.y + room.height / 2.0);
        let mut path = Path::default();
        match sample {
            Sample::Line(ink, stroke) => {
                path.segment((room.x, middle_y), (room.right(), middle_y));
                self.svg.path(&ink.drawn(stroke), &path);
            }
            Sample::Marked(ink, stroke, shape) => {
                self.sample(Sample::Line(ink, stroke), room);
                self.sample(Sample::Mark(ink, shape), room);
            }
            Sample::Bars(ink) => {
                for (index, height) in [10.0, 13.0, 7.0, 13.0].into_iter().enumerate() {
                    let x = room.x + 4.0 + 6.0 * index as f64;
                    path.bar(x, room.bottom(), room.bottom() - height);
                }
                self.svg.path(&ink.drawn(Stroke::Thin), &path);
            }
            Sample::Stub(ink) => {
                path.segment((room.x + 4.0, middle_y - 2.0), (room.right() - 4.0, middle_y - 2.0));
                self.svg.path("axis", &path);
                let mut stubs = Path::default();
                for index in 0..3 {
                    let x = room.x + 8.0 + 5.0 * f64::from(index);
                    stubs.bar(x, middle_y - 1.0, middle_y + 4.0);
                }
                self.svg.path(&ink.drawn(Stroke::Thin), &stubs);
            }
            Sample::Mark(ink, shape) => {
                shape.put(&mut path, (middle_x, middle_y), 5.0);
                self.svg.path(&ink.drawn(shape.stroke()), &path);
            }
            Sample::Arrow(ink, stroke) => {
                self.arrow(ink, stroke, (room.x, middle_y), (room.right(), middle_y));
            }
            Sample::Bar(ink) => {
                let bar = Rect { y: middle_y - 2.5, height: 5.0, ..room };
                self.svg.rect(&ink.drawn(Stroke::Fill), bar);
            }
            Sample::Unknown => {
                let ground = Rect { x: room.x + 1.0, width: room.width - 2.0, ..room };
                self.svg.rect(theme::UNKNOWN, ground);
            }
        }
    }

    /// A line with a head at its end.
    pub fn arrow(&mut self, ink: Ink, stroke: Stroke, from: (f64, f64), to: (f64, f64)) {
        let (across, down) = (to.0 - from.0, to.1 - from.1);
        let length = across.hypot(down).max(1e-9);
        let (across, down) = (across / length, down / length);
        let base = (to.0 - across * 9.0, to.1 - down * 9.0);
        let mut shaft = Path::default();
        shaft.segment(from, base);
        self.svg.path(&ink.drawn(stroke), &shaft);
        let mut head = Path::default();
        head.move_to(to);
        head.line_to((base.0 - down * 3.8, base.1 + across * 3.8));
        head.line_to((base.0 + down * 3.8, base.1 - across * 3.8));
        head.close();
        self.svg.path(&ink.drawn(Stroke::Fill), &head);
    }

    fn grid(&mut self, panel: &Panel) {
        let area = panel.area;
        let mut grid = Path::default();
        for tick in &panel.y.ticks {
            let y = panel.y.scale.px(tick.at);
            grid.segment((area.x, y), (area.right(), y));
        }
        for tick in &panel.x.ticks {
            grid.bar(panel.x.scale.px(tick.at), area.y, area.bottom());
        }
        self.svg.path("grid", &grid);
    }

    fn x_ticks(&mut self, panel: &Panel, has_numbers: bool) {
        let area = panel.area;
        let mut marks = Path::default();
        let mut free_from = f64::NEG_INFINITY;
        for tick in &panel.x.ticks {
            let x = panel.x.scale.px(tick.at);
            marks.bar(x, area.bottom(), area.bottom() + 4.0);
            let half = Words::Tick.width_px(&tick.label) / 2.0;
            if has_numbers && x - half > free_from {
                let place = (x, area.bottom() + 17.0);
                self.svg.text(Words::Tick.class(), Anchor::Middle, place, &tick.label);
                free_from = x + half + 4.0;
            }
        }
        self.svg.path("axis", &marks);
        if has_numbers {
            let place = (area.x + area.width / 2.0, area.bottom() + 34.0);
            self.svg.text(Words::Axis.class(), Anchor::Middle, place, &panel.x.label);
        }
    }

    fn y_ticks(&mut self, panel: &Panel) {
        let area = panel.area;
        let mut marks = Path::default();
        for tick in &panel.y.ticks {
            let y = panel.y.scale.px(tick.at);
            marks.segment((area.x - 4.0, y), (area.x, y));
            let place = (area.x - 7.0, y + 4.0);
            self.svg.text(Words::Tick.class(), Anchor::End, place, &tick.label);
        }
        self.svg.path("axis", &marks);
        let place = (24.0, area.y + area.height / 2.0);
        self.svg.upward_text(Words::Axis.class(), place, &panel.y.label);
    }
}

impl Panel {
    /// Without numbers on the y axis: there is nothing to measure.
    pub fn without_values(mut self) -> Self {
        self.y.ticks.clear();
        self
    }
}
