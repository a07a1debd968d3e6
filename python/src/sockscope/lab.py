"""Experiments of classic papers on the model of old network stacks."""

import json
import os
from pathlib import Path

from sockscope import _native
from sockscope._native import Run

__all__ = ["Run", "experiments", "fleet", "run"]


def experiments() -> dict[str, str]:
    """The title of each experiment, by id."""
    return dict(_native.experiments())


def run(
    id: str,
    *,
    seed: int | None = None,
    repetitions: int | None = None,
    **parameters: bool | int | float | str,
) -> Run:
    """Runs an experiment on the model, and returns its results.

    `id` is one of `experiments()`, or the path of an experiment's file (`.toml`). A parameter has one value, which
    replaces those of the experiment: `run("lh-1", data_bytes=4800)`.
    """
    changes = [f"{name}={_word(name, value)}" for name, value in parameters.items()]
    return _native.run(id, changes, seed=seed, repetitions=repetitions)


def _word(name: str, value: object) -> str:
    """A value as the file of an experiment has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, str)):
        return str(value)
    kind = type(value).__name__
    raise TypeError(f"{name}: expected a number, a word or a bool, found {kind}: run once for each value")


def fleet(spool: str | os.PathLike[str], *, hosts: int = 10, rounds: int = 2, seed: int = 1) -> dict:
    """Writes a spool of modelled hosts for `sockscope.fleet`, and returns the truth about it.

    The clocks of the hosts are wrong by up to a second and drift by up to 50 ppm. Each host opens one connection with
    a planted trouble, and `rounds` connections of each healthy program. One host is missing, one segment has no seal,
    and one is damaged.
    """
    return json.loads(_native.fleet(Path(spool), hosts, rounds, seed))
