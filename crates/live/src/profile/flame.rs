//! A flame graph: functions over the share of samples in which they were active, callers below.

use std::collections::BTreeMap;

use sockscope_render::svg::{Anchor, Rect, Svg};

use super::{Layer, Profile};

/// Pixels.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 12.0;
const HEAD: f64 = 64.0;
const FOOT: f64 = 52.0;
const ROW: f64 = 17.0;
/// Width of a letter of the labels, and the least room for one that says something.
const LETTER: f64 = 6.7;
const LABEL_MIN: f64 = 24.0;
/// A frame that would be narrower is not drawn.
const FRAME_MIN: f64 = 0.4;

/// Colours of layers: of the palette of Okabe and Ito, light enough for black letters. What a frame is, its name says.
const COLOURS: [(Layer, &str); 15] = [
    (Layer::Program, "#d9d9d9"),
    (Layer::SystemCall, "#f0e442"),
    (Layer::Socket, "#e8c547"),
    (Layer::Copy, "#e69f00"),
    (Layer::Tcp, "#56b4e9"),
    (Layer::Udp, "#56b4e9"),
    (Layer::Ip, "#8fd0b5"),
    (Layer::Filter, "#b5cf9a"),
    (Layer::Device, "#4fc3a1"),
    (Layer::Buffer, "#e0a3c4"),
    (Layer::Memory, "#d8c0a8"),
    (Layer::Scheduler, "#f0a27a"),
    (Layer::Interrupt, "#c9b8e6"),
    (Layer::Bpf, "#b7b7ff"),
    (Layer::Other, "#ececec"),
];

/// A function within its callers.
#[derive(Default)]
struct Node<'a> {
    samples: u64,
    children: BTreeMap<&'a str, Node<'a>>,
}

/// Draws a profile as SVG; `title` and `about` stand above it. `None` without a sample.
pub fn flame_graph(profile: &Profile, title: &str, about: &str) -> Option<String> {
    let mut root = Node::default();
    for (path, &samples) in &profile.places {
        root.add(path.iter().map(String::as_str), samples);
    }
    if root.samples == 0 {
        return None;
    }
    let rows = root.depth(WIDTH - 2.0 * MARGIN);
    let height = HEAD + rows as f64 * ROW + FOOT;
    let mut svg = Svg::default();
    svg.text("title", Anchor::Start, (MARGIN, 26.0), title);
    svg.text("about", Anchor::Start, (MARGIN, 46.0), about);
    let bottom = height - FOOT;
    let mut left = MARGIN;
    let scale = (WIDTH - 2.0 * MARGIN) / root.samples as f64;
    for (name, child) in &root.children {
        child.draw(&mut svg, name, (left, bottom), scale, Layer::Program, root.samples);
        left += child.samples as f64 * scale;
    }
    legend(&mut svg, profile, height - 22.0);
    Some(svg.document((WIDTH, height), title, &style(), ""))
}

impl<'a> Node<'a> {
    fn add(&mut self, mut path: impl Iterator<Item = &'a str>, samples: u64) {
        self.samples += samples;
        if let Some(name) = path.next() {
            self.children.entry(name).or_default().add(path, samples);
        }
    }

    /// Rows of frames above this one that are wide enough to be drawn in `width` pixels.
    fn depth(&self, width: f64) -> usize {
        let wide = self.children.values().map(|child| {
            let part = width * child.samples as f64 / self.samples as f64;
            if part < FRAME_MIN { 0 } else { 1 + child.depth(part) }
        });
        wide.max().unwrap_or(0)
    }

    /// This frame on `bottom`, and those above it. A function of no layer has that of its caller.
    fn draw(
        &self,
        svg: &mut Svg,
        name: &str,
        (left, bottom): (f64, f64),
        scale: f64,
        of_caller: Layer,
        all: u64,
    ) {
        let width = self.samples as f64 * scale;
        if width < FRAME_MIN {
            return;
        }
        let layer = Layer::of_function(name).unwrap_or(of_caller);
        let rect = Rect { x: left, y: bottom - ROW, width, height: ROW - 1.0 };
        let percent = self.samples as f64 * 100.0 / all as f64;
        svg.titled_rect(
            &class(layer),
            rect,
            &format!("{name}: {percent:.1} %, {} samples, {}", self.samples, layer.name()),
        );
        if width >= LABEL_MIN {
            let room = ((width - 6.0) / LETTER) as usize;
            let label: String = match name.chars().count() {
                length if length <= room => name.to_owned(),
                _ => name.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
            };
            svg.text("frame", Anchor::Start, (left + 3.0, bottom - 5.0), &label);
        }
        let mut at = left;
        for (name, child) in &self.children {
            child.draw(svg, name, (at, bottom - ROW), scale, layer, all);
            at += child.samples as f64 * scale;
        }
    }
}

/// The layers with a share, in their colours.
fn legend(svg: &mut Svg, profile: &Profile, base: f64) {
    let all = profile.samples();
    let mut left = MARGIN;
    for one in profile.layers() {
        let words =
            format!("{} {:.0} %", one.layer.name(), one.samples as f64 * 100.0 / all as f64);
        svg.rect(&class(one.layer), Rect { x: left, y: base - 11.0, width: 13.0, height: 13.0 });
        svg.text("about", Anchor::Start, (left + 17.0, base), &words);
        left += 17.0 + words.chars().count() as f64 * 6.4 + 10.0;
    }
}

fn class(layer: Layer) -> String {
    format!("layer-{}", layer as u8)
}

fn style() -> String {
    let colours = COLOURS.iter();
    let colours =
        colours.map(|(layer, colour)| format!(".{} {{ fill: {colour}; }}\n", class(*layer)));
    let fonts = "text { font-family: 'DejaVu Sans', Verdana, sans-serif; fill: #111; }\n\
                 .page { fill: #fff; }\n.title { font-size: 16px; font-weight: bold; }\n.about { font-size: 11px; }\n\
                 .frame { font-size: 11px; font-family: 'DejaVu Sans Mono', Menlo, monospace; }\n";
    fonts.to_owned() + &colours.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::super::Profile;
    use super::*;

    #[test]
    fn a_frame_has_the_width_of_its_samples_and_stands_on_its_caller() {
        let svg = flame_graph(
            &Profile::of_places(&[("sh;tcp_sendmsg;_raw_spin_lock", 3), ("sh;user space", 1)]),
            "T",
            "A",
        )
        .expect("it has samples");
        let frame = |name: &str| {
            let at =
                svg.find(&format!("<title>{name}: ")).unwrap_or_else(|| panic!("{name} in {svg}"));
            svg[at..].lines().take(2).collect::<String>()
        };
        let width = WIDTH - 2.0 * MARGIN;
        assert!(frame("sh").contains("100.0 %, 4 samples, program"), "{}", frame("sh"));
        assert!(
            frame("tcp_sendmsg").contains(&format!("width=\"{}\"", width * 0.75)),
            "{}",
            frame("tcp_sendmsg")
        );
        // A lock has the layer of its caller.
        assert!(frame("_raw_spin_lock").contains("75.0 %, 3 samples, TCP"), "{svg}");
        assert_eq!(flame_graph(&Profile::of_places(&[]), "T", "A"), None);
    }

    #[test]
    fn every_layer_has_a_colour() {
        let with: Vec<Layer> = COLOURS.iter().map(|(layer, _)| *layer).collect();
        assert_eq!(with, Layer::ALL);
    }
}
