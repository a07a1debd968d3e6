//! The SVG text itself: elements, paths and escaped words. Knows no data and no style.
//!
//! Coordinates are pixels with one decimal, y downward. Style is in classes that the
//! [theme](crate::theme) defines once, which also keeps large figures small.

use std::fmt::Write as _;

/// A rectangle in pixels, from its upper left corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rect {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// From the left edge to the right.
    pub width: f64,
    /// From the upper edge to the lower.
    pub height: f64,
}

impl Rect {
    /// The right edge.
    pub fn right(&self) -> f64 {
        self.x + self.width
    }

    /// The lower edge.
    pub fn bottom(&self) -> f64 {
        self.y + self.height
    }
}

/// Part of a text that stands at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

/// A document under construction.
#[derive(Debug, Default)]
pub struct Svg {
    body: String,
}

impl Svg {
    /// Draws a rectangle.
    pub fn rect(&mut self, class: &str, rect: Rect) {
        let [x, y, width, height] = [rect.x, rect.y, rect.width, rect.height].map(px);
        self.element(&format!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"/>"#
        ));
    }

    /// Draws a rectangle whose `words` a viewer shows where the pointer is.
    pub fn titled_rect(&mut self, class: &str, rect: Rect, words: &str) {
        self.element("<g>");
        self.element(&format!("<title>{}</title>", escaped(words)));
        self.rect(class, rect);
        self.element("</g>");
    }

    /// Draws `path`; an empty one leaves no element.
    pub fn path(&mut self, class: &str, path: &Path) {
        if !path.data.is_empty() {
            self.element(&format!(r#"<path class="{class}" d="{}"/>"#, path.data));
        }
    }

    /// Writes one line of text on the base line `y`.
    pub fn text(&mut self, class: &str, anchor: Anchor, (x, y): (f64, f64), words: &str) {
        self.placed_text(class, anchor, &format!(r#"x="{}" y="{}""#, px(x), px(y)), words);
    }

    /// Text that reads upward, as along a y axis.
    pub fn upward_text(&mut self, class: &str, (x, y): (f64, f64), words: &str) {
        let place = format!(r#"transform="translate({} {}) rotate(-90)""#, px(x), px(y));
        self.placed_text(class, Anchor::Middle, &place, words);
    }

    /// Opens a group named after the content of its elements, until [`Svg::end_group`].
    pub fn group(&mut self, name: &str) {
        self.element(&format!(r#"<g id="{}">"#, escaped(name)));
    }

    /// Closes the group opened last.
    pub fn end_group(&mut self) {
        self.element("</g>");
    }

    /// The whole document; `style` and `definitions` are trusted SVG text.
    pub fn document(
        self,
        (width, height): (f64, f64),
        title: &str,
        style: &str,
        definitions: &str,
    ) -> String {
        let (width, height, title) = (px(width), px(height), escaped(title));
        let body = self.body;
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">
<title>{title}</title>
<style>
{style}</style>
<defs>{definitions}</defs>
<rect class="page" x="0" y="0" width="{width}" height="{height}"/>
{body}</svg>
"#
        )
    }

    fn placed_text(&mut self, class: &str, anchor: Anchor, place: &str, words: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let words = escaped(words);
        self.element(&format!(r#"<text class="{class}"{anchor} {place}>{words}</text>"#));
    }

    fn element(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }
}

/// The data of one path; each of its strokes starts with an `M`.
#[derive(Debug, Default)]
pub struct Path {
    data: String,
}

impl Path {
    /// Begins a stroke at this point.
    pub fn move_to(&mut self, (x, y): (f64, f64)) {
        self.put(format_args!("M{} {}", px(x), px(y)));
    }

    /// A straight line to this point.
    pub fn line_to(&mut self, (x, y): (f64, f64)) {
        self.put(format_args!("L{} {}", px(x), px(y)));
    }

    /// A horizontal line to `x`.
    pub fn across_to(&mut self, x: f64) {
        self.put(format_args!("H{}", px(x)));
    }

    /// A vertical line to `y`.
    pub fn down_to(&mut self, y: f64) {
        self.put(format_args!("V{}", px(y)));
    }

    /// A straight line to the beginning of the stroke.
    pub fn close(&mut self) {
        self.data.push('Z');
    }

    /// A straight stroke of its own.
    pub fn segment(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.move_to(from);
        self.line_to(to);
    }

    /// A vertical stroke at `x`.
    pub fn bar(&mut self, x: f64, from_y: f64, to_y: f64) {
        self.move_to((x, from_y));
        self.down_to(to_y);
    }

    fn put(&mut self, step: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.data.write_fmt(step);
    }
}

/// A coordinate with at most one decimal; what is not a number becomes 0.
/// Whole figures one above the other, in one document. `None` where one of them is no figure of this module.
pub fn stacked(figures: &[&str]) -> Option<String> {
    let size = |figure: &str, name: &str| -> Option<f64> {
        let head = &figure[..figure.find('>')?];
        let (_, rest) = head.split_once(&format!(" {name}=\""))?;
        rest.split_once('"')?.0.parse().ok()
    };
    let (mut width, mut height, mut body) = (0.0_f64, 0.0, String::new());
    for figure in figures {
        let inner = figure.strip_prefix("<svg ")?;
        // Both have the same style and the same definitions, so that they may share names.
        let _ = write!(body, "<svg y=\"{}\" {inner}", px(height));
        width = width.max(size(figure, "width")?);
        height += size(figure, "height")?;
    }
    let (width, height) = (px(width), px(height));
    Some(format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">
{body}</svg>
"#
    ))
}

fn px(value: f64) -> String {
    let tenths = if value.is_finite() { (value * 10.0).round() as i64 } else { 0 };
    match (tenths / 10, tenths % 10) {
        (whole, 0) => whole.to_string(),
        _ => format!("{:.1}", tenths as f64 / 10.0),
    }
}

/// Words as XML character data; control characters, which XML forbids, become spaces.
fn escaped(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for character in words.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => text.push(' '),
            control if control.is_control() => text.push(' '),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_always_numbers() {
        let values = [0.0, 12.0, 12.04, 12.06, -0.04, -3.25, 1e9, f64::NAN, f64::INFINITY];
        assert_eq!(values.map(px), ["0", "12", "12", "12.1", "0", "-3.3", "1000000000", "0", "0"]);
    }

    #[test]
    fn a_process_name_cannot_break_out_of_its_text() {
        let mut svg = Svg::default();
        svg.text("note", Anchor::Start, (1.0, 2.0), "</text><script>\u{7}\"&\"");
        assert_eq!(
            svg.body,
            "<text class=\"note\" x=\"1\" y=\"2\">&lt;/text&gt;&lt;script&gt; &quot;&amp;&quot;</text>\n"
        );
    }

    #[test]
    fn an_empty_path_leaves_no_element() {
        let mut svg = Svg::default();
        svg.path("line", &Path::default());
        assert_eq!(svg.body, "");
    }

    #[test]
    fn strokes_of_one_kind_share_one_path() {
        let mut path = Path::default();
        path.bar(1.0, 10.0, 5.5);
        path.bar(2.0, 10.0, 0.0);
        assert_eq!(path.data, "M1 10V5.5M2 10V0");
    }

    #[test]
    fn figures_stand_one_above_the_other() {
        let figure = |height| Svg::default().document((100.0, height), "t", "", "");
        let (upper, lower) = (figure(40.0), figure(60.5));
        let both = stacked(&[&upper, &lower]).unwrap();
        assert!(both.contains(r#"width="100" height="100.5" viewBox="0 0 100 100.5""#), "{both}");
        assert!(
            both.contains("<svg y=\"0\" xmlns") && both.contains("<svg y=\"40\" xmlns"),
            "{both}"
        );
        assert_eq!((both.matches("<svg").count(), both.matches("</svg>").count()), (3, 3));
        assert_eq!(stacked(&[&upper, "<p>"]), None);
    }
}
