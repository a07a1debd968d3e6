"""The long form of the tests of a fleet, for an optimized wheel: `scripts/soak fleet`.

It prints the cost of a connection and the records a second of a worker, and checks all that must not depend on them.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import distributed

from sockscope import _engine, fleet, lab
from test_fleet import content, findings, slowly

SIZES = (10, 50, 200)
ROUNDS = 40
"""Healthy connections of each program that a host opens."""
FLAT = 1.25
"""The CPU time of a record of a connection of the largest fleet, next to that of the smallest one, at most.

Each host opens as many connections in all fleets. Three hosts of each fleet are not whole: of ten hosts that is a third,
and more connections have one half alone, with half the records. So the time of a connection is for as many records.
"""
TARGET = 3_000_000
"""Records a second of CPU time, of the fleet with the largest segments."""
FEW = (10, 300)
"""Hosts and rounds of that fleet: some 2,000 records in a file, as a host with 64 MB in a segment has them."""


def check_findings(truth, result):
    """All planted troubles of whole connections are found, and nothing that a connection does not have."""
    found = findings(result)
    whole = [it for it in truth["connections"] if not it["is_cut"]]
    expected = {(it["client"], it["server"], name) for it in whole for name in it["findings"]}
    assert all(not it["planted"] or it["planted"] in it["findings"] for it in whole)
    ends = {(it["client"], it["server"]) for it in whole}
    missing, false = expected - found, {it for it in found if it[:2] in ends} - expected
    assert not missing, f"not found: {sorted(missing)[:5]}"
    assert not false, f"false: {sorted(false)[:5]}"
    possible = {
        (it["client"], it["server"], name)
        for it in truth["connections"]
        for name in it["findings"] + sum(it["findings_of_ends"], [])
    }
    assert found <= possible, f"false: {sorted(found - possible)[:5]}"
    return len(expected)


def by_workers(spool, out, count, victim=False):
    """Analyses with so many workers; the time from the first task on, and the files."""
    work = fleet.plan(spool)
    analyse = slowly if victim else fleet.analyse_task
    cluster = distributed.LocalCluster(n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        client.run(os.getpid)
        begin = time.monotonic()
        futures = client.map(analyse, work.tasks, pure=False, retries=_engine.RETRIES)
        if victim:
            distributed.wait(futures[:1])
            os.kill(sorted(client.run(os.getpid).values())[0], signal.SIGKILL)
        summaries = client.gather(futures)
        elapsed = time.monotonic() - begin
    fleet.write(work.head, summaries, out)
    return elapsed, content(out)


def main():
    folder = Path(tempfile.mkdtemp())
    try:
        costs = {}
        rates = {}
        print(
            "hosts | rounds | connections |    records | planted findings | us a connection | records of one "
            "| records a second, of CPU time"
        )
        for hosts, rounds in [*((hosts, ROUNDS) for hosts in SIZES), FEW]:
            spool, out = folder / f"spool-{hosts}-{rounds}", folder / f"alone-{hosts}-{rounds}"
            truth = lab.fleet(spool, hosts=hosts, rounds=rounds)
            # Other programs take turns on the CPUs: their time is not counted.
            begin = time.process_time()
            written = fleet.analyse(spool, out)
            elapsed = time.process_time() - begin
            planted = check_findings(truth, out)
            costs[hosts, rounds] = elapsed / written.connections
            rates[hosts, rounds] = written.records / elapsed
            print(
                f"{hosts:5} | {rounds:6} | {written.connections:11,} | {written.records:10,} | {planted:16,} | "
                f"{1e6 * costs[hosts, rounds]:15,.0f} | {written.records / written.connections:14,.0f} "
                f"| {rates[hosts, rounds]:16,.0f}",
                flush=True,
            )
        largest = f"{SIZES[-1]}-{ROUNDS}"
        spool, alone = folder / f"spool-{largest}", content(folder / f"alone-{largest}")
        for count in (1, 2, 4):
            elapsed, files = by_workers(spool, folder / f"workers-{count}", count)
            assert files == alone, f"{count} workers: other bytes"
            print(f"{count} workers: the same bytes, {elapsed:.1f} s", flush=True)
        _, files = by_workers(spool, folder / "killed", 2, victim=True)
        assert files == alone, "a worker was killed: other bytes"
        print("a worker was killed: the same bytes")
        if rates[FEW] < TARGET:
            print(f"below the target of {TARGET:,} records a second")
        ratio = costs[SIZES[-1], ROUNDS] / costs[SIZES[0], ROUNDS]
        of_record = rates[SIZES[0], ROUNDS] / rates[SIZES[-1], ROUNDS]
        print(
            f"a connection of {SIZES[-1]} hosts costs {ratio:.2f} times one of {SIZES[0]}, "
            f"for as many records {of_record:.2f} times"
        )
        assert of_record < FLAT, f"expected less than {FLAT}"
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
