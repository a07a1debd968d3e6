"""Bundles of the project, for the tests."""

import tempfile
from pathlib import Path

import sockscope

ROOT = Path(__file__).resolve().parents[2]
STALLED = ROOT / "crates/cli/demo/two-writes.sockscope"
"""Calls of which each waits for a delayed acknowledgment, recorded on a kernel."""
MODEL = ROOT / "tests/bundles/v2/calls.sockscope"
OLD = ROOT / "tests/bundles/v1/calls.sockscope"


def stalled():
    return sockscope.open(STALLED)


def folder(test):
    """A folder that goes with the test."""
    made = tempfile.TemporaryDirectory()
    test.addCleanup(made.cleanup)
    return Path(made.name)
