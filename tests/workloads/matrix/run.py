#!/usr/bin/env python3
"""The matrix: one trouble, or one healthy look-alike, of one server, and what its caller measured.

    run.py prepare BUILT [SERVER...]      compiles the servers into that folder; prints which are missing, and why
    run.py trouble TROUBLE SERVER BUILT   plants a trouble
    run.py healthy SHAPE SERVER BUILT     runs a look-alike

Printed is one JSON object. `calls` has port, time and nanoseconds of each wait, `pid` the process that has the trouble,
`innocent` the one that seems to have it, `cost_ns` what it cost the callers, by their own clock, `count` how often it
happened. `without_cpu_ns` has for each process how long it waited for a CPU. README.md has the servers and the
requests.
"""

import json
import os
import pathlib
import signal
import sys

import servers
import troubles
import healthy


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("it took too long"))
    signal.alarm(90)
    os.environ["PATH"] = servers.search_path()
    task, *words = sys.argv[1:]
    built = pathlib.Path(words[0 if task == "prepare" else -1]).resolve()
    if task == "prepare":
        facts = {"missing": servers.prepare(built, words[1:] or servers.LINES + servers.OTHERS)}
    else:
        # Between its clock and its calls no other program takes the caller's CPU. Its servers stay as they are.
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        shapes = troubles.SHAPES if task == "trouble" else healthy.SHAPES
        try:
            facts = shapes[words[0]](words[1], built)
            facts["without_cpu_ns"] = servers.without_cpu()
        finally:
            servers.end_all()
    json.dump(facts, sys.stdout)
    print()


if __name__ == "__main__":
    main()
