//! The look of every figure: inks, text sizes, marker shapes. The only place that names a colour.
//!
//! The inks are from the palette of Okabe and Ito ("Color Universal Design", 2008), which readers
//! with any common colour blindness can distinguish. No meaning rests on ink alone: things that
//! differ in ink also differ in shape, dash, place or label.

use std::fmt::Write as _;

use crate::svg::Path;

/// Meaning of a thing drawn; one ink each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Bytes in transit: segments, queue lengths.
    Data,
    /// Acknowledgments.
    Ack,
    /// Trouble: retransmissions, losses, lateness.
    Alarm,
    /// Limit of the receiver: its window.
    Window,
    /// Calls of the program: writes and reads.
    Program,
    /// Neutral: marks and notes.
    Plain,
    /// That of a class, whose colours [`Page::colour`](crate::page::Page::colour) sets.
    Class(&'static str),
}

impl Ink {
    /// All inks with colours of their own.
    const ALL: [Self; 6] =
        [Self::Data, Self::Ack, Self::Alarm, Self::Window, Self::Program, Self::Plain];

    /// The class that carries the ink, combined with a [`Stroke`]; its colours on a light and on a dark ground.
    fn class_and_colours(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Self::Data => ("data", ["#0072b2", "#56b4e9"]),
            Self::Ack => ("ack", ["#009e73", "#2fc79b"]),
            Self::Alarm => ("alarm", ["#d55e00", "#ff7f32"]),
            Self::Window => ("window", ["#aa4499", "#d889c8"]),
            Self::Program => ("program", ["#b8860b", "#e6b422"]),
            Self::Plain => ("plain", ["#333", "#ccc"]),
            Self::Class(class) => (class, ["", ""]),
        }
    }

    /// The class of a thing drawn so in this ink.
    pub fn drawn(self, stroke: Stroke) -> String {
        format!("{} {}", stroke.class(), self.class_and_colours().0)
    }
}

/// Style of a thing drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// A line of a curve.
    Line,
    /// A thick line, which stands out from others.
    Bold,
    /// A dashed line.
    Dashed,
    /// A dotted line.
    Dotted,
    /// A thin stroke, one of many: a packet, a pixel column.
    Thin,
    /// As `Thin`, and pale: the part of an envelope that only some of its events reach.
    PaleThin,
    /// A filled area.
    Fill,
    /// A pale area.
    PaleFill,
}

impl Stroke {
    fn class(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Bold => "bold",
            Self::Dashed => "dashed",
            Self::Dotted => "dotted",
            Self::Thin => "thin",
            Self::PaleThin => "pale-thin",
            Self::Fill => "fill",
            Self::PaleFill => "pale-fill",
        }
    }
}

/// Role of a text; decides its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// The figure's title.
    Title,
    /// The two ends, under the title.
    Subtitle,
    /// A panel's title.
    Panel,
    /// The name of an axis.
    Axis,
    /// A number at a tick.
    Tick,
    /// A label in the drawing or the legend.
    Label,
    /// Notes and facts under the drawing.
    Note,
    /// Text that stands where a drawing would be.
    Empty,
}

impl Words {
    const ALL: [Self; 8] = [
        Self::Title,
        Self::Subtitle,
        Self::Panel,
        Self::Axis,
        Self::Tick,
        Self::Label,
        Self::Note,
        Self::Empty,
    ];

    /// The class that carries its size and weight.
    pub fn class(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Subtitle => "subtitle",
            Self::Panel => "panel",
            Self::Axis => "axis-name",
            Self::Tick => "tick",
            Self::Label => "label",
            Self::Note => "note",
            Self::Empty => "empty",
        }
    }

    /// Size of its font in pixels.
    fn size_px(self) -> f64 {
        match self {
            Self::Title => 17.0,
            Self::Subtitle | Self::Panel | Self::Axis | Self::Label => 12.5,
            Self::Tick | Self::Note => 11.5,
            Self::Empty => 14.0,
        }
    }

    fn weight(self) -> u16 {
        if matches!(self, Self::Title | Self::Panel) { 600 } else { 400 }
    }

    /// On a light and on a dark ground.
    fn colours(self) -> [&'static str; 2] {
        match self {
            Self::Title | Self::Panel | Self::Label => ["#1a1a1a", "#eee"],
            _ => ["#4d4d4d", "#b5b5b5"],
        }
    }

    /// Width of `words` in pixels, estimated upward: the reader's font is not known here.
    pub fn width_px(self, words: &str) -> f64 {
        let heavy = if self.weight() > 400 { 1.1 } else { 1.0 };
        words.chars().map(character_em).sum::<f64>() * self.size_px() * heavy
    }

    /// `words` cut to `width_px`, with an ellipsis where something was cut.
    pub fn fitted(self, words: &str, width_px: f64) -> String {
        if self.width_px(words) <= width_px {
            return words.to_owned();
        }
        let mut kept = String::new();
        for character in words.chars() {
            kept.push(character);
            if self.width_px(&kept) + self.size_px() > width_px {
                kept.pop();
                break;
            }
        }
        kept.trim_end().to_owned() + "…"
    }

    /// `words` broken at spaces into lines of at most `width_px`.
    pub fn wrapped(self, words: &str, width_px: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in words.split_whitespace() {
            match lines.last_mut() {
                Some(line) if self.width_px(&format!("{line} {word}")) <= width_px => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(self.fitted(word, width_px)),
            }
        }
        lines
    }
}

/// Width of a character as a share of the font's size, as in DejaVu Sans, the widest of the fonts
/// that the style asks for.
fn character_em(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | '\'' | '|' | '.' | ',' | ':' | ';' | ' ' => 0.34,
        'f' | 'r' | 't' | 'I' | '(' | ')' | '[' | ']' | '/' | '-' => 0.41,
        'm' | 'w' | 'M' | 'W' | '→' | '↔' | '…' | '%' | '@' => 1.0,
        'A'..='Z' => 0.74,
        _ => 0.64,
    }
}

/// A marker; each differs in outline, so that it reads without its ink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Filled, one corner up.
    Triangle,
    /// Hollow.
    Circle,
    /// Filled, on one corner.
    Diamond,
    /// Two diagonal strokes.
    Cross,
}

impl Shape {
    /// Adds the marker around `(x, y)`, about `2 * radius` wide, to `path`.
    pub fn put(self, path: &mut Path, (x, y): (f64, f64), radius: f64) {
        match self {
            Self::Triangle => {
                let half = radius * 0.95;
                path.move_to((x, y - radius));
                path.line_to((x + half, y + radius * 0.8));
                path.line_to((x - half, y + radius * 0.8));
                path.close();
            }
            Self::Diamond => {
                path.move_to((x, y - radius));
                path.line_to((x + radius, y));
                path.line_to((x, y + radius));
                path.line_to((x - radius, y));
                path.close();
            }
            // An octagon is a circle at this size, and needs no arcs.
            Self::Circle => {
                let near = radius * 0.38;
                path.move_to((x + radius * 0.92, y - near));
                let corners = [(0.92, 1.0), (0.38, 2.4), (-0.38, 2.4), (-0.92, 1.0)];
                for (across, down) in corners {
                    path.line_to((x + radius * across, y + near * down));
                }
                for (across, down) in [(-0.92, -1.0), (-0.38, -2.4), (0.38, -2.4)] {
                    path.line_to((x + radius * across, y + near * down));
                }
                path.close();
            }
            Self::Cross => {
                let half = radius * 0.8;
                path.segment((x - half, y - half), (x + half, y + half));
                path.move_to((x - half, y + half));
                path.line_to((x + half, y - half));
            }
        }
    }

    /// Its style: the circle hollow, the cross a stroke, the others filled.
    pub fn stroke(self) -> Stroke {
        match self {
            Self::Circle | Self::Cross => Stroke::Line,
            Self::Triangle | Self::Diamond => Stroke::Fill,
        }
    }
}

/// The class of the hatched area for unknown times.
pub const UNKNOWN: &str = "unknown";

/// The class of the band where time is cut.
pub const CUT: &str = "cut";

/// The definition of the hatch.
pub fn definitions() -> String {
    r##"
<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch-ground" width="6" height="6"/><path class="hatch" d="M0 0V6"/></pattern>
"##
    .to_owned()
}

/// The style sheet: shapes, then the colours for a light ground and those for a dark one. `more` are the rules of
/// further classes for both.
pub fn style(more: [&str; 2]) -> String {
    let mut css = String::from(
        "text{font-family:Helvetica,Arial,'Liberation Sans','DejaVu Sans',sans-serif}\n\
         .grid,.axis{fill:none;stroke-width:1}\n\
         .unknown{fill:url(#hatch)}\n\
         .hatch{stroke-width:2}\n\
         .line{fill:none;stroke-width:1.6;stroke-linejoin:round}\n\
         .bold{fill:none;stroke-width:3.2}\n\
         .dashed{fill:none;stroke-width:1.6;stroke-dasharray:6 4}\n\
         .dotted{fill:none;stroke-width:1.8;stroke-dasharray:1.8 3}\n\
         .thin{fill:none;stroke-width:1.2}\n\
         .pale-thin{fill:none;stroke-width:1.2;stroke-opacity:.4}\n\
         .fill{stroke:none}\n\
         .pale-fill{stroke:none;fill-opacity:.16}\n",
    );
    for words in Words::ALL {
        let (class, size, weight) = (words.class(), words.size_px(), words.weight());
        let _ = writeln!(css, ".{class}{{font-size:{size}px;font-weight:{weight}}}");
    }
    let grounds = [
        ".page,.halo{fill:#fff}.grid{stroke:#e4e4e4}.axis{stroke:#555}.cut{fill:#f3f3f3}\n\
         .hatch-ground{fill:#f4f4f4}.hatch{stroke:#9a9a9a}\n",
        ".page,.halo{fill:#16181d}.grid{stroke:#33373f}.axis{stroke:#999}.cut{fill:#23262d}\n\
         .hatch-ground{fill:#23262d}.hatch{stroke:#777}\n",
    ];
    for (ground, rules_of_page) in grounds.into_iter().enumerate() {
        css.push_str(["", "@media (prefers-color-scheme:dark){\n"][ground]);
        css.push_str(rules_of_page);
        for words in Words::ALL {
            let _ = writeln!(css, ".{}{{fill:{}}}", words.class(), words.colours()[ground]);
        }
        for ink in Ink::ALL {
            let (class, colours) = ink.class_and_colours();
            css.push_str(&rules(class, colours[ground]));
        }
        css.push_str(more[ground]);
    }
    css.push_str("}\n");
    css
}

/// The rules by which things of `class` are drawn in `colour`.
pub fn rules(class: &str, colour: &str) -> String {
    format!(
        ".line.{class},.bold.{class},.dashed.{class},.dotted.{class},.thin.{class},.pale-thin.{class}{{stroke:{colour}}}\n\
         .fill.{class},.pale-fill.{class}{{fill:{colour}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ink_and_every_text_has_its_own_rule_on_each_ground() {
        let css = style(["", ""]);
        let (light, dark) = css.split_once("@media (prefers-color-scheme:dark){").unwrap();
        for (ground, rules) in [light, dark].into_iter().enumerate() {
            for ink in Ink::ALL {
                let (class, colours) = ink.class_and_colours();
                let fill = format!(".fill.{class},.pale-fill.{class}{{fill:{}}}", colours[ground]);
                assert_eq!(rules.matches(&fill).count(), 1, "{ink:?}");
            }
            for words in Words::ALL {
                let fill = format!(".{}{{fill:{}}}", words.class(), words.colours()[ground]);
                assert_eq!(rules.matches(&fill).count(), 1, "{words:?}");
            }
        }
    }

    #[test]
    fn long_words_are_cut_to_their_room_and_short_ones_are_not() {
        let long = "a-very-long-process-name-that-never-ends";
        let cut = Words::Note.fitted(long, 80.0);
        assert!(cut.ends_with('…') && Words::Note.width_px(&cut) <= 80.0, "{cut}");
        assert_eq!(Words::Note.fitted("short", 80.0), "short");
    }

    #[test]
    fn notes_break_at_spaces_only() {
        let lines = Words::Note.wrapped("one two three four five six", 70.0);
        assert!(lines.len() > 1);
        assert_eq!(lines.join(" "), "one two three four five six");
    }
}
