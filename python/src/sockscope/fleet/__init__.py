"""The analysis of a fleet: the segments of many hosts in a spool, one task for each bucket of connections.

`analyse` does it all. `plan`, `analyse_task` and `write` are its three steps, for other engines: a task is bytes, its
summary is bytes, and tasks need nothing of each other. Summaries add up to the same files in any order.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sockscope import _engine, _native

__all__ = ["Plan", "Written", "analyse", "analyse_task", "plan", "write"]

@dataclass(frozen=True)
class Plan:
    """The work of a spool."""

    head: bytes
    """What is known before records are read: for `write`."""
    tasks: list[bytes]
    """The tasks, the ones with most records first."""


@dataclass(frozen=True)
class Written:
    """What was analysed and written."""

    connections: int
    records: int
    findings: int
    problems: list[str]
    """What was not whole, and was left out: one sentence each."""


def plan(spool: str | os.PathLike[str]) -> Plan:
    """Divides the analysis of a spool into tasks. Workers need the spool under the same path."""
    head, tasks = _native.fleet_plan(Path(spool).absolute())
    # A stable sort: the order is that of the buckets where numbers are equal.
    tasks.sort(key=lambda it: -it[1])
    return Plan(head, [task for task, _ in tasks])


def analyse_task(task: bytes) -> bytes:
    """The summary of a task."""
    return _native.fleet_analyse(task)


def write(head: bytes, summaries: Iterable[bytes], out: str | os.PathLike[str]) -> Written:
    """Adds up the summaries of all tasks, and writes the tables into the folder `out`."""
    return Written(*_native.fleet_write(head, list(summaries), Path(out)))


def analyse(
    spool: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    scheduler: str | None = None,
    workers: int = 0,
) -> Written:
    """Analyses a spool, and writes the summaries into the folder `out`.

    `scheduler` is the address of a scheduler of Dask. Else `workers` processes are started on this machine; with 0 it
    is done in this process, without Dask. The files have the same bytes in each case.
    """
    work = plan(spool)
    summaries = _engine.each(analyse_task, work.tasks, scheduler=scheduler, workers=workers)
    return write(work.head, summaries, out)
