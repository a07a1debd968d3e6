//! Bundles of released format versions open: one sample of each is kept in `tests/bundles/`.

mod common;
#[path = "common/sample.rs"]
mod sample;

use std::path::Path;

use common::{Folder, bytes, read};
use sockscope_trace::{Bundle, Meta, Part, check};

fn sample_of(version: &str) -> std::path::PathBuf {
    let bundles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/bundles");
    bundles.join(version).join("calls.sockscope")
}

#[test]
fn every_version_opens_with_all_that_was_written() {
    for (version, format_version) in [("v1", 1), ("v2", 2)] {
        let dir = sample_of(version);
        let bundle = Bundle::open(&dir).unwrap();
        assert_eq!(read(&dir), (sample::records(), vec![]), "{version}");
        assert_eq!(bundle.connections(), sample::connections(), "{version}");
        let records = sample::records().len() as u64;
        let meta = Meta { format_version, complete: true, records, ..sample::meta() };
        assert_eq!(*bundle.meta(), meta, "{version}");
        assert_eq!(check(&dir).unwrap().problems, [], "{version}");
    }
}

#[test]
fn the_same_content_gives_the_same_bytes() {
    let folder = Folder::new();
    for name in ["a", "b"] {
        sample::write(&folder.named(name)).unwrap();
    }
    for part in Part::ALL {
        assert_eq!(bytes(&folder.named("a"), part), bytes(&folder.named("b"), part), "{part}");
    }
}
