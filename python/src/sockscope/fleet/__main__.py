"""`python -m sockscope.fleet SPOOL`: analyses a spool and writes the summaries."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

from sockscope import Error, fleet


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sockscope.fleet",
        description="Analyses the segments of many hosts, and writes summaries as Parquet files and a page.",
    )
    parser.add_argument("spool", metavar="SPOOL", help="folder of the segments")
    parser.add_argument("-o", "--output", metavar="DIR", default="fleet", help="folder of the result (fleet)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a scheduler of Dask, as tcp://10.0.0.1:8786")
    parser.add_argument(
        "--workers",
        metavar="N",
        type=int,
        help="processes on this machine; 0 is this process alone (the number of CPUs, without Dask 0)",
    )
    return parser


def main() -> int:
    given = arguments().parse_args()
    workers = given.workers
    if workers is None:
        has_dask = importlib.util.find_spec("distributed") is not None
        workers = os.cpu_count() or 1 if has_dask else 0
    try:
        written = fleet.analyse(given.spool, given.output, scheduler=given.scheduler, workers=max(workers, 0))
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
