//! The frame of the page: style, scripts, and the policy that admits nothing else.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};
use sockscope_render::theme;

use crate::assets::{FIGURES_CSS, FIGURES_JS, REPORT_CSS, REPORT_JS};
use crate::assets::{UPLOT_CSS, UPLOT_JS, UPLOT_LICENCE};
use crate::palette;

/// The style sheet of the page.
static STYLE: LazyLock<String> = LazyLock::new(|| {
    let places = palette::custom_properties();
    let classes = palette::classes();
    // Drawings bring classes of their own, which hold within them alone.
    let [light, dark] = palette::rules();
    let drawings = theme::style([&light, &dark]);
    let drawings = format!(".figure-static,.definitions{{\n{drawings}}}\n");
    [places.as_str(), &classes, REPORT_CSS, UPLOT_CSS, FIGURES_CSS, &drawings].join("\n")
});

/// The scripts of the page in their order. The licence of a script goes with it.
static SCRIPTS: LazyLock<[String; 3]> = LazyLock::new(|| {
    let uplot = format!("/*\n{UPLOT_LICENCE}*/\n{UPLOT_JS}");
    [uplot, FIGURES_JS.to_owned(), REPORT_JS.to_owned()]
});

/// Bytes of the parts that every page has.
pub(super) fn fixed_bytes() -> usize {
    STYLE.len() + SCRIPTS.iter().map(String::len).sum::<usize>()
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// Admits the style and the scripts of this file, and nothing from elsewhere.
fn policy() -> String {
    let scripts: Vec<String> = SCRIPTS.iter().map(|script| hash(script)).collect();
    format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hash(&STYLE),
        scripts.join(" ")
    )
}

pub(super) fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (title) }
                style { (PreEscaped(STYLE.as_str())) }
            }
            body {
                svg class="definitions" width="0" height="0" aria-hidden="true" {
                    defs { (PreEscaped(theme::definitions())) }
                }
                main { (body) }
                @for script in SCRIPTS.iter() {
                    script { (PreEscaped(script.as_str())) }
                }
            }
        }
    };
    page.into_string()
}

/// A longer report is kept compressed.
const PLAIN_JSON_MAX: usize = 300_000;
/// The level of compression, 0 to 10.
const LEVEL: u8 = 6;

/// The report as JSON: as it is, or, where it is long, compressed (RFC 1951) and in base64.
pub(super) fn report_block(json: &str) -> Markup {
    if json.len() <= PLAIN_JSON_MAX {
        return json_block("report", json);
    }
    let deflated = miniz_oxide::deflate::compress_to_vec(json.as_bytes(), LEVEL);
    html! {
        script type="application/octet-stream" id="report" data-encoding="deflate-raw base64" {
            (PreEscaped(STANDARD.encode(deflated)))
        }
    }
}

/// JSON for scripts and for other programs. No text in it can end the element: a `<` is written as an escape.
pub(super) fn json_block(id: &str, json: &str) -> Markup {
    html! {
        script type="application/json" id=(id) { (PreEscaped(json.replace('<', "\\u003c"))) }
    }
}
