"""A function for each item of a list: in this process, or by the workers of Dask."""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable, Sequence
from typing import Any

from sockscope._errors import Error

RETRIES = 3
"""Attempts after the first one for an item whose worker is lost."""


def each(
    function: Callable[[Any], Any], items: Sequence[Any], *, scheduler: str | None = None, workers: int = 0
) -> list[Any]:
    """The results in the order of the items.

    `scheduler` is the address of a scheduler of Dask. Else `workers` processes are started on this machine; with 0 it
    is done in this process, without Dask.
    """
    if scheduler is None and workers == 0:
        return [function(item) for item in items]
    try:
        import distributed
    except ModuleNotFoundError as error:
        line = "several processes need Dask, which is not installed: pip install distributed, or --workers 0"
        raise Error(line) from error
    if scheduler is not None:
        with distributed.Client(scheduler) as client:
            return _gathered(client, function, items)
    cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        return _gathered(client, function, items)


def _gathered(client, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    # Each item is its own: equal items are no reason to do one of them only.
    return client.gather(client.map(function, items, pure=False, retries=RETRIES))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a command that uses `each`."""
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a scheduler of Dask, as tcp://10.0.0.1:8786")
    parser.add_argument(
        "--workers",
        metavar="N",
        type=int,
        help="processes on this machine; 0 is this process alone (the number of CPUs, without Dask 0)",
    )


def chosen(given: argparse.Namespace) -> dict[str, Any]:
    """The keywords of `each` by these options."""
    workers = given.workers
    if workers is None:
        has_dask = importlib.util.find_spec("distributed") is not None
        workers = os.cpu_count() or 1 if has_dask else 0
    return {"scheduler": given.scheduler, "workers": max(workers, 0)}
