"""`python -m sockscope.sweep EXPERIMENT`: the cases of an experiment on the model, each a task for any worker.

The result is the document of `sockscope lab run --format json`, whatever the number of workers.
"""

from __future__ import annotations

import argparse
import json
import sys

from sockscope import _engine, _native
from sockscope._errors import Error

__all__ = ["sweep"]


def sweep(
    experiment: str,
    changes: list[str] | None = None,
    *,
    seed: int | None = None,
    repetitions: int | None = None,
    scheduler: str | None = None,
    workers: int = 0,
) -> dict:
    """Runs all cases of an experiment, and returns the results as `Run.report` does.

    `experiment` is an id, or the path of a file, which all workers must have. `changes` are as `data_bytes=4800`.
    """
    cases = [(experiment, case, seed, repetitions) for case in _native.cases(experiment, changes or [])]
    reports = _engine.each(_case, cases, scheduler=scheduler, workers=workers)
    if not reports:
        raise Error(f"{experiment}: it has no case")
    return {**reports[0], "cases": [case for report in reports for case in report["cases"]]}


def _case(task: tuple[str, list[str], int | None, int | None]) -> dict:
    experiment, changes, seed, repetitions = task
    return _native.run(experiment, changes, seed=seed, repetitions=repetitions).report()


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sockscope.sweep",
        description="Runs the cases of an experiment on the model by many workers, and prints the results as JSON.",
    )
    parser.add_argument("experiment", metavar="EXPERIMENT", help="id of an experiment, or the path of its file")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a parameter (several: repeat)")
    parser.add_argument("--seed", metavar="N", type=int, help="seed of the first run")
    parser.add_argument("--repetitions", metavar="N", type=int, help="runs of each case")
    parser.add_argument("-o", "--output", metavar="FILE", help="file of the results (standard output)")
    _engine.add_arguments(parser)
    return parser


def main() -> int:
    given = arguments().parse_args()
    try:
        options = {"seed": given.seed, "repetitions": given.repetitions, **_engine.chosen(given)}
        text = json.dumps(sweep(given.experiment, given.set, **options), indent=2) + "\n"
        if given.output is None:
            sys.stdout.write(text)
        else:
            with open(given.output, "w", encoding="utf-8") as file:
                file.write(text)
    except (Error, OSError) as error:
        print(f"sockscope.sweep: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
