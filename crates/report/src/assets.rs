//! Files of the pages that a browser shows, part of the program: no page loads anything from elsewhere.
//!
//! uPlot draws. It is vendored as its author built it, with its licence (MIT), which goes wherever the code goes.

/// uPlot 1.6.32 as a plain script: one global, `uPlot`.
pub const UPLOT_JS: &str = include_str!("../assets/uplot-1.6.32/uPlot.iife.min.js");

/// The style that uPlot needs.
pub const UPLOT_CSS: &str = include_str!("../assets/uplot-1.6.32/uPlot.min.css");

/// Draws the figures of one flow on uPlot, for the report of one file and for the page of a server alike: one global,
/// `sockscopeFigures`.
pub const FIGURES_JS: &str = include_str!("../assets/figures.js");

/// The style of these figures.
pub const FIGURES_CSS: &str = include_str!("../assets/figures.css");

/// The script of the report of one file: it unpacks the columns and draws a figure when it is in view.
pub(crate) const REPORT_JS: &str = include_str!("../assets/report.js");

/// The style of that report.
pub(crate) const REPORT_CSS: &str = include_str!("../assets/report.css");

/// The licence of uPlot, for each page that has its code.
pub const UPLOT_LICENCE: &str = include_str!("../assets/uplot-1.6.32/LICENSE");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vendored_script_is_the_released_one() {
        assert!(UPLOT_JS.starts_with("/*! https://github.com/leeoniya/uPlot (v1.6.32) */"));
        assert_eq!(UPLOT_JS.len(), 51_081);
        assert!(UPLOT_LICENCE.starts_with("The MIT License (MIT)"));
        assert!(UPLOT_CSS.contains(".u-select"));
    }

    #[test]
    fn our_own_script_runs_inline_and_loads_nothing() {
        for forbidden in ["import ", "export ", "fetch(", "</script", "http://", "https://", "url("]
        {
            assert!(!FIGURES_JS.contains(forbidden), "{forbidden}");
            assert!(!FIGURES_CSS.contains(forbidden), "{forbidden}");
            assert!(!REPORT_JS.contains(forbidden), "{forbidden}");
        }
        assert!(FIGURES_JS.contains("var sockscopeFigures = "));
    }
}
