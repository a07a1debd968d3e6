//! Words of the text report in a page.

use maud::{Markup, html};
use sockscope_render::style::Tone;

use crate::text::page::Labelled;

/// Labels with their words.
pub(super) fn list(lines: &[Labelled], class: &str) -> Markup {
    html! {
        @if !lines.is_empty() {
            dl class={ "words " (class) } {
                @for line in lines {
                    dt { (line.label) }
                    dd class=(tone(line.tone)) {
                        @if line.is_command { code class="command" { (line.text) } } @else { (line.text) }
                    }
                }
            }
        }
    }
}

fn tone(tone: Tone) -> &'static str {
    match tone {
        Tone::Bad => "bad",
        Tone::Good => "good",
        Tone::Strong => "strong",
        _ => "plain",
    }
}
