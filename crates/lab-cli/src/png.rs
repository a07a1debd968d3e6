//! `sockscope lab png`: a figure as a picture of pixels.
//!
//! In this program and not in `sockscope`, which stays small: drawing text needs a library for fonts. The fonts are
//! those of this machine, so that the same figure may look different on another one.

use std::fs;
use std::io::{Read, stdin};
use std::path::Path;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{self, Database, Family, Query};
use resvg::usvg::{ImageHrefResolver, Options, Tree};
use sockscope_program::failure::Failure;
use sockscope_program::output::write_to;

use crate::args::LabPng;

/// What figures ask for first; where none is here, any font has to do.
const FAMILIES: [&str; 4] = ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans"];
/// Pixels of a picture at most: 256 MiB in memory.
const PIXELS_MAX: u64 = 1 << 26;

/// `sockscope lab png`.
pub fn png(arguments: &LabPng) -> Result<(), Failure> {
    let name = arguments.figure.display();
    let svg = read(&arguments.figure)?;
    let mut fonts = Database::new();
    fonts.load_system_fonts();
    let drawn = picture(&svg, u32::from(arguments.scale), fonts);
    let png = drawn.map_err(|error| Failure::new(format!("{name}: {error}")))?;
    write_to(&arguments.output, |out| out.write_all(&png))
}

fn read(path: &Path) -> Result<String, Failure> {
    let mut svg = String::new();
    if path == Path::new("-") {
        stdin().read_to_string(&mut svg)?;
        return Ok(svg);
    }
    fs::read_to_string(path).map_err(|error| Failure::file("cannot read", path, &error))
}

/// The figure as a file of PNG, each of its pixels `scale` wide and high.
fn picture(svg: &str, scale: u32, mut fonts: Database) -> Result<Vec<u8>, String> {
    let sans = sans(&fonts)
        .ok_or("this machine has no font to draw its text; install one, as DejaVu Sans")?;
    fonts.set_sans_serif_family(&sans);
    let options = Options {
        font_family: sans,
        fontdb: Arc::new(fonts),
        // A figure has no other files.
        image_href_resolver: ImageHrefResolver {
            resolve_data: Box::new(|_, _, _| None),
            resolve_string: Box::new(|_, _| None),
        },
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(|error| error.to_string())?;
    let size = tree.size().to_int_size();
    let [width, height] = [size.width(), size.height()].map(|px| u64::from(px) * u64::from(scale));
    let has_room = width.saturating_mul(height) <= PIXELS_MAX;
    let new = |width, height| Pixmap::new(u32::try_from(width).ok()?, u32::try_from(height).ok()?);
    let pixmap = has_room.then(|| new(width, height)).flatten();
    let mut pixmap = pixmap.ok_or_else(|| format!("{width} by {height} pixels are too many"))?;
    let transform = Transform::from_scale(scale as f32, scale as f32);
    resvg::render(&tree, transform, &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| error.to_string())
}

/// The family for text; `None` where this machine has no font.
fn sans(fonts: &Database) -> Option<String> {
    let is_here = |name: &&str| {
        let families = [Family::Name(name)];
        fonts.query(&Query { families: &families, ..Query::default() }).is_some()
    };
    let known = FAMILIES.into_iter().find(is_here).map(str::to_owned);
    known.or_else(|| first_family(fonts.faces().next()?))
}

fn first_family(face: &fontdb::FaceInfo) -> Option<String> {
    face.families.first().map(|(name, _)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fonts() -> Database {
        let mut fonts = Database::new();
        fonts.load_system_fonts();
        fonts
    }

    fn drawn(body: &str, scale: u32) -> Result<Pixmap, String> {
        let svg = format!(
            "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='20'><rect width='40' height='20' fill='#fff'/>\
             {body}</svg>"
        );
        Pixmap::decode_png(&picture(&svg, scale, fonts())?).map_err(|error| error.to_string())
    }

    /// Pixels that are not white.
    fn inked(pixmap: &Pixmap) -> usize {
        pixmap.pixels().iter().filter(|pixel| pixel.red() < 128).count()
    }

    #[test]
    fn a_picture_is_as_large_as_its_figure_times_the_scale() {
        for scale in [1, 3] {
            let pixmap = drawn("<rect x='10' width='10' height='20' fill='#000'/>", scale).unwrap();
            assert_eq!((pixmap.width(), pixmap.height()), (40 * scale, 20 * scale));
            assert_eq!(inked(&pixmap), 200 * (scale * scale) as usize);
        }
    }

    #[test]
    fn text_is_drawn() {
        let text = "<style>text{font-family:'No Such Font',sans-serif}</style><text y='16' font-size='16'>wwww</text>";
        assert!(inked(&drawn(text, 1).unwrap()) > 40);
    }

    #[test]
    fn a_figure_reads_no_other_file() {
        let svg = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stalled-call.svg");
        assert!(Path::new(svg).exists());
        let image = format!("<image href='{svg}' width='40' height='20'/>");
        assert_eq!(inked(&drawn(&image, 1).unwrap()), 0);
    }

    #[test]
    fn what_is_no_figure_is_refused() {
        let refused = |svg: &str, scale| picture(svg, scale, fonts()).unwrap_err();
        assert!(!refused("no figure", 1).is_empty());
        let wide = "<svg xmlns='http://www.w3.org/2000/svg' width='9000' height='9000'/>";
        assert_eq!(refused(wide, 1), "9000 by 9000 pixels are too many");
        assert!(
            picture(&wide.replace("9000", "9"), 1, Database::new())
                .unwrap_err()
                .contains("no font")
        );
    }
}
