//! The looks and words of places and stages, for the page.

use serde::Serialize;
use sockscope_analysis::LedgerPart;
use sockscope_record::{Point, Stage};
use sockscope_report::palette::{self, Look};

use super::Answer;

#[derive(Serialize)]
struct PlacesView {
    places: Vec<LookView>,
    stages: Vec<LookView>,
}

#[derive(Serialize)]
struct LookView {
    name: &'static str,
    letter: char,
    words: &'static str,
    /// Its points, of a stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    points: Option<[u8; 2]>,
}

/// Letter and words of each place of the ledger, and of each stage, in path order.
pub fn places() -> Answer {
    let view = |name, Look { letter, meaning: words, .. }: Look, points| LookView {
        name,
        letter,
        words,
        points,
    };
    let place = |part: &LedgerPart| view(LedgerPart::name(*part), palette::place(*part), None);
    let number = |point: Point| point.number();
    let stage = |stage: &Stage| {
        let points = [number(stage.enter()), number(stage.leave())];
        view(Stage::name(*stage), palette::stage(*stage), Some(points))
    };
    let stages = Stage::ALL.iter().filter(|stage| **stage != Stage::Total);
    Answer::json(&PlacesView {
        places: LedgerPart::ALL.iter().map(place).collect(),
        stages: stages.map(stage).collect(),
    })
}
