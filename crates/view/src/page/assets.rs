//! The files of the page, which are part of the program.

use std::borrow::Cow;

use sockscope_report::assets::{FIGURES_CSS, FIGURES_JS, UPLOT_CSS, UPLOT_JS, UPLOT_LICENCE};
use sockscope_report::palette;

/// A file of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub bytes: Cow<'static, [u8]>,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// Names of the files, with their types and content; that of the palette is made.
const FILES: &[(&str, &str, &[u8])] = &[
    ("page.html", HTML, include_bytes!("assets/page.html")),
    ("page.css", STYLE, include_bytes!("assets/page.css")),
    ("page.js", SCRIPT, include_bytes!("assets/page.js")),
    ("server.js", SCRIPT, include_bytes!("assets/server.js")),
    ("words.js", SCRIPT, include_bytes!("assets/words.js")),
    ("elements.js", SCRIPT, include_bytes!("assets/elements.js")),
    ("overview.js", SCRIPT, include_bytes!("assets/overview.js")),
    ("connection.js", SCRIPT, include_bytes!("assets/connection.js")),
    ("time.js", SCRIPT, include_bytes!("assets/time.js")),
    ("compare.js", SCRIPT, include_bytes!("assets/compare.js")),
    ("laboratory.js", SCRIPT, include_bytes!("assets/laboratory.js")),
    ("mark.svg", PICTURE, include_bytes!("assets/mark.svg")),
    ("figures.js", SCRIPT, FIGURES_JS.as_bytes()),
    ("figures.css", STYLE, FIGURES_CSS.as_bytes()),
    ("uplot.js", SCRIPT, UPLOT_JS.as_bytes()),
    ("uplot.css", STYLE, UPLOT_CSS.as_bytes()),
    ("uplot-licence.txt", TEXT, UPLOT_LICENCE.as_bytes()),
];

/// Its colours, for light and dark grounds.
const PALETTE: &str = "palette.css";

/// The file with this name.
pub fn asset(name: &str) -> Option<Asset> {
    if name == PALETTE {
        let bytes = palette::custom_properties().into_bytes();
        return Some(Asset { media_type: STYLE, bytes: bytes.into() });
    }
    let (_, media_type, bytes) = FILES.iter().find(|file| file.0 == name)?;
    Some(Asset { media_type, bytes: Cow::Borrowed(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Own files, without those that another crate tests.
    fn own() -> impl Iterator<Item = (&'static str, &'static str)> {
        let own = FILES.iter().filter(|file| !file.0.starts_with("uplot"));
        own.map(|file| (file.0, std::str::from_utf8(file.2).expect("text")))
    }

    #[test]
    fn the_page_loads_only_files_of_the_program() {
        for (name, text) in own() {
            for word in text.split(['"', '\'', '`', '(', ')']) {
                let file = word.strip_prefix("/assets/").or(word.strip_prefix("./"));
                if let Some(file) = file.filter(|file| file.contains('.')) {
                    assert!(asset(file).is_some(), "{name} loads {file}");
                }
            }
            let is_elsewhere = text.contains("http://") && !text.contains("www.w3.org/2000/svg");
            assert!(!is_elsewhere && !text.contains("https://"), "{name} names another place");
        }
    }

    #[test]
    fn a_name_that_is_no_file_is_nothing() {
        assert_eq!(asset("../page.js"), None);
        assert_eq!(asset(""), None);
        assert!(asset(PALETTE).is_some_and(|file| file.bytes.starts_with(b":root{")));
    }
}
