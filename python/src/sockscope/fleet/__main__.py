"""`python -m sockscope.fleet SPOOL`: analyses a spool and writes the summaries."""

from __future__ import annotations

import argparse
import sys

from sockscope import Error, _engine, fleet


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sockscope.fleet",
        description="Analyses the segments of many hosts, and writes summaries as Parquet files and a page.",
    )
    parser.add_argument("spool", metavar="SPOOL", help="folder of the segments")
    parser.add_argument("-o", "--output", metavar="DIR", default="fleet", help="folder of the result (fleet)")
    _engine.add_arguments(parser)
    return parser


def main() -> int:
    given = arguments().parse_args()
    try:
        written = fleet.analyse(given.spool, given.output, **_engine.chosen(given))
    except (Error, OSError) as error:
        print(f"sockscope.fleet: {error}", file=sys.stderr)
        return 2
    for line in written.problems:
        print(f"sockscope.fleet: {line}", file=sys.stderr)
    print(
        f"{written.connections:,} connections, {written.records:,} records, {written.findings:,} findings, "
        f"{len(written.problems):,} problems, in {given.output}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
