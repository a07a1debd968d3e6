#!/usr/bin/env python3
"""Calls to an HTTP server on one kept connection of Python's own `http.client`.

Printed is one JSON object: `pid`, the number of `calls`, and their times in milliseconds: `waited_ms` (the sum), `p50_ms`,
`max_ms`. With `--new` each call has a connection of its own.
"""

import argparse
import http.client
import json
import os
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", default="/")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--new", action="store_true")
    args = parser.parse_args()
    times_ms = []
    client = http.client.HTTPConnection(args.host, args.port, timeout=60)
    for _ in range(args.calls):
        begun = time.monotonic()
        client.request("GET", args.path)
        client.getresponse().read()
        times_ms.append((time.monotonic() - begun) * 1000)
        if args.new:
            client.close()
    times_ms.sort()
    facts = {
        "pid": os.getpid(),
        "calls": len(times_ms),
        "waited_ms": round(sum(times_ms), 1),
        "p50_ms": round(times_ms[len(times_ms) // 2], 2),
        "max_ms": round(times_ms[-1], 2),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
